//! Where keys and values lie in memory as rows, so that they can be read without being packed.

use crate::dims::{n, var};
use crate::index::{Bound, Env, LANE, Ranges};
use crate::plan::Layouts;
use crate::program::kernel::Base;
use salient_ir::{AxisId, Dim, NodeId};

/// An operand as rows in memory: its base, the place of the row at the lane's zero, and the elements between rows.
pub(crate) struct Lying {
    pub(crate) base: Base,
    pub(crate) start: Dim,
    pub(crate) row: Dim,
}

/// `node` as rows along `along`, one for each position of `by`, which stands for the lane.
pub(crate) fn lying(
    layouts: &Layouts<'_>,
    ranges: &Ranges,
    node: NodeId,
    env: &Env,
    along: AxisId,
    by: AxisId,
) -> Option<Lying> {
    if layouts.slope(ranges, node, env, Some(along), Some(by)) != Some(n(1)) {
        return None;
    }
    let mut env = env.clone();
    env.insert(along, Bound::Poly(n(0)));
    env.insert(by, Bound::Poly(var(LANE)));
    let (base, at) = layouts.stored_view(ranges, node, &env)?;
    let (row, start) = at.linear_in(LANE)?;
    Some(Lying { base, start, row })
}
