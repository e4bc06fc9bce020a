//! What is known of the machine: the figures by which kernels are priced, cut and shared among threads.
//!
//! Nothing but time depends on them: results keep within the same bounds.

use crate::cost::Peaks;

/// Everything that a machine is tuned by. The default serves any machine.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tuning {
    /// What one core does at most, for prices.
    pub peaks: Peaks,
    /// Sizes of tiles and blocks, and the use of threads.
    pub machine: salient_jit::Tuning,
}
