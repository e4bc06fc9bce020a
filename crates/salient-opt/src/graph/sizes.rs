//! How long axes are taken to be where terms or programs are compared: extents that are not known are taken at a nominal
//! size.

use crate::facts::Known;
use salient_ir::{Bindings, Dim, Name};

/// The size at which an unknown dimension is counted.
const NOMINAL: i64 = 128;
/// The same for one along which an input has rows: texts grow, the features of a token do not.
const NOMINAL_ROWS: i64 = 1024;

/// The nominal number of positions along each axis.
pub(crate) fn nominal_extents(known: &Known) -> Vec<u64> {
    let size = |dim: &Dim| {
        let size = |symbol: &Name| if known.rows.contains(symbol) { NOMINAL_ROWS } else { NOMINAL };
        let bindings: Bindings = dim.dimensions().into_iter().map(|s| (s.clone(), size(&s))).collect();
        // A quotient may not come out even at the nominal size; then it is counted at a fraction of it.
        dim.eval(&bindings).unwrap_or(NOMINAL / 8).max(1).unsigned_abs()
    };
    known.extents.iter().map(size).collect()
}
