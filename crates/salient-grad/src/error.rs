//! Why there is no gradient.

use salient_ir::NodeId;

/// Why a gradient cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GradientError {
    /// What is differentiated has axes or is an integer.
    #[error("what is differentiated must be one number")]
    NoNumber,
    /// A target is an integer or a truth value.
    #[error("only numbers can be differentiated by")]
    NotDifferentiable {
        /// The position of the target.
        target: usize,
    },
    /// The loss does not depend on a target, or only through integers and comparisons.
    #[error("the loss does not depend on it")]
    Independent {
        /// The position of the target.
        target: usize,
    },
    /// An operator without a derivative stands on the way.
    #[error("`{operator}` has no derivative here: differentiate the program before it is optimised")]
    NoDerivative {
        /// Where it stands.
        node: NodeId,
        /// Its name.
        operator: String,
    },
}
