//! Outputs that hold the elements of a temporary in the order in which they lie there, as one of merged heads and features: the
//! temporary is stored in the output.

use crate::dims::{index_of, product, var};
use crate::index::{AxisValue, Env, Ranges};
use crate::plan::Layouts;
use crate::plan::layouts::stored;
use crate::program::kernel::{Base, Buffer, BufferId, Role};
use salient_ir::{DType, NodeId, Op};

/// The temporary whose elements an output has in the same order, if its node is a view of that.
pub(crate) fn alias_of(
    layouts: &Layouts<'_>,
    buffers: &[Buffer],
    node: NodeId,
    output: BufferId,
) -> Option<BufferId> {
    let to = &buffers[output.0];
    let of = lies_as(layouts, node, output, to)?;
    let from = &buffers[of.0];
    // Wide integers are copies at the border.
    let fits = from.role == Role::Temporary
        && matches!(to.role, Role::Output(_))
        && from.dtype == to.dtype
        && to.dtype != DType::I64
        && product(&from.shape) == product(&to.shape);
    fits.then_some(of)
}

/// The buffer of which a node, a view, has the elements in the order in which those of its own buffer lie.
fn lies_as(layouts: &Layouts<'_>, node: NodeId, id: BufferId, buffer: &Buffer) -> Option<BufferId> {
    let whole = stored(id, buffer);
    let (mut env, mut ranges, mut own) = (Env::new(), Ranges::default(), whole.offset.clone());
    for (axis, stride) in &whole.strides {
        let name = index_of(*axis);
        ranges.insert(&name, layouts.graph.extent(*axis));
        env.insert(*axis, AxisValue::Poly(var(&name)));
        own = &own + &(&var(&name) * stride);
    }
    let is_view = matches!(layouts.graph.op(node), Op::At(_));
    let (base, at) = layouts.stored_view(&ranges, node, &env).filter(|_| is_view)?;
    let Base::Buffer(of) = base else { return None };
    (at == own && of != id).then_some(of)
}
