//! What buffers hold in the words of the source: for messages about their elements.

use super::kernel::{Buffer, Role};
use salient_ir::{AxisSet, DType, Graph, Name, Origin};

/// A value that a buffer holds, row-major over its axes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Value {
    /// The source's name for it, or for what it is computed for; an output's name where the source has neither.
    pub name: Name,
    /// Whether it is only computed on the way to what has that name.
    pub is_step: bool,
    /// The names of its axes, in order.
    pub axes: Vec<Name>,
    /// Where it was written.
    pub origin: Option<Origin>,
    /// Whether -inf is no fault in it: it is no result, or the program itself writes -inf into it, as a mask does.
    pub may_be_minus_infinity: bool,
}

/// The floats that a buffer holds, if it holds a value of the graph as it is; packed operands and partial sums are none.
pub(crate) fn value(g: &Graph, buffer: &Buffer) -> Option<Value> {
    let output = match buffer.role {
        Role::Output(at) => Some(&g.outputs()[at]),
        Role::Temporary => None,
        Role::Input(_) | Role::Param(_) | Role::Loaded | Role::Coded(_) => return None,
    };
    let axes: AxisSet = buffer.axes.iter().copied().collect();
    let is_whole = g.node(buffer.node).axes.iter().all(|axis| axes.contains(axis));
    if buffer.dtype.compute() != DType::F32 || !is_whole || g.shape(&buffer.axes) != buffer.shape {
        return None;
    }
    let named = g.nearest_user(buffer.node, |node| node.name.is_some());
    let placed = g.nearest_user(buffer.node, |node| node.origin.is_some());
    let is_step = g.node(buffer.node).name.is_none() && output.is_none();
    let own = g.node(buffer.node).name.clone();
    let of_output = || output.map(|output| output.name.clone());
    let name = own.or_else(of_output).or_else(|| named.and_then(|node| node.name.clone()))?;
    Some(Value {
        name,
        is_step,
        axes: buffer.axes.iter().map(|axis| g.axis(*axis).name.clone()).collect(),
        origin: placed.and_then(|node| node.origin),
        may_be_minus_infinity: output.is_none() || g.writes_minus_infinity(buffer.node),
    })
}
