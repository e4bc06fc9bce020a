//! Whether the numbers that go in and come out are finite.

use crate::report::compare::index_of;
use crate::report::error::Error;
use crate::report::fault::{Side, Tensor};
use crate::report::places::Places;
use salient_ir::array::{Array, Data};
use salient_ir::{Graph, Port};

/// The first number of an array that is NaN or infinite, and its index. Minus infinity is left aside where it is meant.
fn odd(array: &Array, is_minus_infinity_meant: bool) -> Option<(f32, Vec<usize>)> {
    let is_odd = |n: f32| !(n.is_finite() || is_minus_infinity_meant && n == f32::NEG_INFINITY);
    let wide = match array.data() {
        Data::F16(_) | Data::BF16(_) => Some(array.clone().widen().ok()?),
        Data::F32(_) | Data::I32(_) | Data::I64(_) | Data::Bool(_) => None,
    };
    let numbers = wide.as_ref().unwrap_or(array).as_f32()?;
    let position = numbers.iter().position(|number| is_odd(*number))?;
    Some((numbers[position], index_of(position, array.shape())))
}

/// Refuses an input or a parameter that holds NaN or plus infinity.
pub(super) fn given(places: &Places, side: Side, port: &Port, array: &Array) -> Result<(), Error> {
    let Some((number, index)) = odd(array, true) else { return Ok(()) };
    let tensor = Tensor { side, name: port.name.clone() };
    Err(Error::Run(places.after(&format!("{tensor} is {number} at {index:?}"), port.origin)))
}

/// Refuses outputs that hold NaN or an infinity.
pub(super) fn outputs(places: &Places, graph: &Graph, outputs: &[Array]) -> Result<(), Error> {
    for (output, array) in graph.outputs().iter().zip(outputs) {
        let is_meant = graph.writes_minus_infinity(output.node);
        let Some((number, index)) = odd(array, is_meant) else { continue };
        let node = graph.nearest_user(output.node, |node| node.origin.is_some());
        let message = format!("the output `{}` is {number} at {index:?}", output.name);
        return Err(Error::Run(places.after(&message, node.and_then(|node| node.origin))));
    }
    Ok(())
}
