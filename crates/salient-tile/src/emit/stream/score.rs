//! What of a score is computed before its tile: a scale goes into the queries, and what no key changes is computed once.
//!
//! Decides nothing about the scores themselves; those are for the strips of the softmax.

use crate::dims::{n, var};
use crate::emit::maker::Maker;
use crate::emit::strip::{Strip, Visit};
use crate::index::{Bound, Env, LANE};
use crate::plan::layouts::Stored;
use crate::program::kernel::Stmt;
use salient_ir::{AxisId, DType, Dim, Graph, NodeId, Op};
use salient_vector::body::Elem;
use salient_vector::{Builder, F32};
use std::collections::BTreeSet;

/// A tile's rows.
pub(crate) struct Rows<'r> {
    /// The axis that the row variable runs along, and the index of its first row.
    pub(crate) axis: Option<AxisId>,
    pub(crate) origin: &'r Dim,
    /// The variable, and one past its last value.
    pub(crate) variable: &'r str,
    pub(crate) last: &'r Dim,
    /// How many rows there are, and the most that there can be.
    pub(crate) count: &'r Dim,
    pub(crate) most: &'r Dim,
}

/// Computes what is dear in a score and the same for every key, for all rows of a tile, and adds it to what is stored:
/// gives the nodes with what was stored for them before, to be forgotten after the kernel, and the statements.
pub(crate) fn hoist(
    m: &mut Maker<'_, '_>,
    score: NodeId,
    env: &Env,
    rows: &Rows<'_>,
) -> (Vec<(NodeId, Option<Stored>)>, Vec<Stmt>) {
    let found = find(m, score, env, rows);
    let (mut hoisted, mut stmts) = (Vec::new(), Vec::new());
    for node in &found {
        let by_row = reads_row(m.scope.graph, *node, env, rows.variable);
        let (count, most) = if by_row { (rows.count.clone(), rows.most.clone()) } else { (n(1), n(1)) };
        let base = m.scratch("fixed", most);
        let mut inner = env.clone();
        if let (true, Some(axis)) = (by_row, rows.axis) {
            m.scope.ranges.insert(LANE, &m.scope.graph.extent(axis).clone());
            inner.insert(axis, Bound::Poly(var(LANE)));
        }
        let mut b = Builder::new("fixed");
        let mut s = Strip::new(m.scope, Visit::Lanes, rows.origin.clone(), &[base]);
        let trip = s.integer(&mut b, &count);
        let to = s.pointer(&mut b, base, &n(0));
        b.lanes(trip, (), |b, index, ()| {
            s.enter(index);
            let v = s.f32(b, *node, &inner);
            b.store::<F32>(to.at(index), v);
        });
        let args = s.finish();
        stmts.push(m.call(b.finish(), args));
        let strides = rows.axis.filter(|_| by_row).map(|axis| (axis, n(1)));
        let offset = if by_row { &n(0) - rows.origin } else { n(0) };
        let stored = Stored { base, elem: Elem::F32, offset, strides: strides.into_iter().collect() };
        hoisted.push((*node, m.scope.stored.insert(*node, stored)));
    }
    (hoisted, stmts)
}

fn reads_row(g: &Graph, node: NodeId, env: &Env, row: &str) -> bool {
    g.node(node).axes.iter().any(|a| matches!(env.get(&a), Some(Bound::Poly(d)) if d.mentions(row)))
}

/// What a score reads under a view: at another place than its own, so that what is stored for the row is not its value.
fn read_elsewhere(m: &Maker<'_, '_>, score: NodeId) -> BTreeSet<NodeId> {
    let g = m.scope.graph;
    let (mut found, mut seen, mut stack) = (BTreeSet::new(), BTreeSet::new(), vec![(score, false)]);
    while let Some((id, moved)) = stack.pop() {
        if m.scope.stored.contains_key(&id) || !seen.insert((id, moved)) {
            continue;
        }
        if moved {
            found.insert(id);
        }
        let is_view =
            |n: usize| matches!(g.op(id), Op::At(_)) && n == 0 || matches!(g.op(id), Op::Concat(..));
        stack.extend(g.args(id).into_iter().enumerate().map(|(n, arg)| (arg, moved || is_view(n))));
    }
    found
}

/// The greatest parts of an expression that are dear and the same for every key.
fn find(m: &Maker<'_, '_>, score: NodeId, env: &Env, rows: &Rows<'_>) -> BTreeSet<NodeId> {
    let g = m.scope.graph;
    let elsewhere = read_elsewhere(m, score);
    let (mut found, mut seen, mut stack) = (BTreeSet::new(), BTreeSet::new(), vec![score]);
    while let Some(id) = stack.pop() {
        if m.scope.stored.contains_key(&id) || !matches!(g.op(id), Op::Map(_)) || !seen.insert(id) {
            continue;
        }
        let fixed = g.node(id).axes.iter().all(|axis| match env.get(&axis) {
            Some(Bound::Poly(d)) => {
                rows.axis == Some(axis) || !d.mentions(LANE) && !d.mentions(rows.variable)
            }
            Some(Bound::Loose(_) | Bound::Vector(_)) | None => false,
        });
        if !fixed
            || elsewhere.contains(&id)
            || g.node(id).dtype != DType::F32
            || m.scope.defined.may_report(id)
        {
            stack.extend(g.args(id));
        } else if is_dear(m, id) {
            found.insert(id);
        }
    }
    found
}

/// Whether computing the node takes more than a few instructions.
fn is_dear(m: &Maker<'_, '_>, id: NodeId) -> bool {
    let (g, mut seen, mut stack) = (m.scope.graph, BTreeSet::new(), vec![id]);
    while let Some(id) = stack.pop() {
        if m.scope.stored.contains_key(&id) || !seen.insert(id) {
            continue;
        }
        if let Op::Map(op) = g.op(id)
            && op.info().additions > 1
        {
            return true;
        }
        stack.extend(g.args(id));
    }
    false
}
