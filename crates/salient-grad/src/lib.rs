//! Reverse-mode differentiation: from a graph to the same graph with the gradients of one of its nodes.
//!
//! Nodes are visited from the loss back to the targets. Each operator has one adjoint, written in the same operators, so that all
//! that works on programs works on gradients: the text form, the oracle, the optimiser's rules, plans. [`gradients`] is the
//! entry; `adjoint` collects what flows into a node, `operators`, `maps` and `softmax` have the adjoints, `views` inverts indices,
//! `slices` puts parts together, `shifts` finds maxima that cancel, `open` finds what may be read outside of its axis where the program does
//! not look at it, and `normal` gives all spellings of a loss one form.
//!
//! What is decided at points without a derivative:
//! - the greater of two that are equal: half to each; where only one of them is differentiated, nothing (so `max(x, 0)` has 0 at 0);
//! - the maximum of an axis, where it stands several times: all to the first position;
//! - `abs` at 0, `floor`, comparisons, integers: 0; `sqrt` at 0: infinite;
//! - `x ** y` by `y` where `x` is 0: 0;
//! - an arm of a choice that is not taken: exactly 0, whatever its value is.

mod adjoint;
mod error;
mod make;
mod maps;
mod normal;
mod open;
mod operators;
mod results;
mod shifts;
mod slices;
mod softmax;
mod stop;
mod views;

pub use error::GradientError;
pub use normal::{in_normal_form, loss_in_normal_form};
pub use results::{LOSS, backward, gradient_name, of_results};
pub use stop::stopped;

use adjoint::Adjoints;
use salient_ir::{Builder, DType, NodeId};

/// Adds to a graph the gradients of a number by some of its nodes. Each has the axes of its node or fewer: it is the same along
/// those that it lacks.
///
/// # Errors
/// If `loss` is no single number, a target is no number, `loss` does not depend on it, or something on the way has no derivative.
pub fn gradients(b: &mut Builder, loss: NodeId, by: &[NodeId]) -> Result<Vec<NodeId>, GradientError> {
    let found = gradients_where(b, loss, by)?.into_iter().enumerate();
    found.map(|(target, gradient)| gradient.ok_or(GradientError::Independent { target })).collect()
}

/// As [`gradients`], with none for a target on which the number does not depend.
///
/// # Errors
/// As [`gradients`], but for that.
pub fn gradients_where(
    b: &mut Builder,
    loss: NodeId,
    by: &[NodeId],
) -> Result<Vec<Option<NodeId>>, GradientError> {
    let node = b.node(loss);
    if !node.axes.is_empty() || node.dtype != DType::F32 {
        return Err(GradientError::NoNumber);
    }
    if let Some(at) = by.iter().position(|id| b.node(*id).dtype != DType::F32) {
        return Err(GradientError::NotDifferentiable { target: at });
    }
    Adjoints::new(b, loss, by).gradients(loss, by)
}
