//! Attention of few rows with its keys in parts: where that can be done, and where the states of the parts lie.

use crate::dims::{LANE, ROW, SHARES, ceil_div, index_of, n, var};
use crate::index::{AxisValue, Env, Ranges};
use crate::plan::Layouts;
use crate::plan::attention::key_loop::{KeyLoop, ValueForm, key_loop};
use crate::plan::attention::{Attention, Scores};
use crate::program::kernel::{Base, BufferId};
use salient_ir::{AxisId, Dim, Graph, NodeId, Op};

/// Whether rows are few.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Few {
    Never,
    /// As it turns out when it runs.
    Sometimes,
    Always,
}

impl Few {
    /// Of so many rows, up to `limit` of which are few.
    pub(crate) fn of(rows: &Dim, limit: i64) -> Few {
        match rows.as_constant() {
            Some(rows) if rows <= limit => Few::Always,
            Some(_) => Few::Never,
            None => Few::Sometimes,
        }
    }
}

/// Heads of queries that share heads of keys and values.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    /// The axis of the heads of queries.
    pub(crate) axis: AxisId,
    /// Heads that share, and how often.
    pub(crate) size: Dim,
    pub(crate) count: Dim,
}

/// The axis that operands read as `axis / size`, if all of them do.
fn group(g: &Graph, a: &Attention, operands: &[NodeId]) -> Option<Group> {
    let candidates = g.node(a.score).axes.iter().filter(|x| *x != a.key && Some(*x) != a.query);
    for axis in candidates {
        let found: Vec<Option<(Dim, Dim)>> = operands.iter().map(|x| shared(g, *x, axis)).collect();
        if let Some(Some((size, count))) = found.first()
            && found.iter().all(|f| f.as_ref() == Some(&(size.clone(), count.clone())))
        {
            return Some(Group { axis, size: size.clone(), count: count.clone() });
        }
    }
    None
}

/// `(size, count)` where the node reads `axis` as the index `axis / size` of an axis of `count`.
fn shared(g: &Graph, node: NodeId, axis: AxisId) -> Option<(Dim, Dim)> {
    let Op::At(inner) = *g.op(node) else { return None };
    let args = g.args(node);
    let head = var(&index_of(axis));
    let env = Env::from([(axis, AxisValue::Poly(head.clone()))]);
    match Ranges::default().evaluate(g, args[1], &env).and_then(|index| index.quotient_of()) {
        Some((p, size)) if p == head => Some((size, g.extent(inner).clone())),
        Some(_) | None => shared(g, args[0], axis),
    }
}

/// An attention whose keys are split over items.
#[derive(Clone, Debug)]
pub(crate) struct SplitKv {
    /// The attention of each part, without a further score.
    pub(crate) attention: Attention,
    /// A further score of each row, which has no value: the merge counts it, once.
    pub(crate) sink: Option<NodeId>,
    /// The products of queries and keys inside the scores.
    pub(crate) products: Vec<NodeId>,
    /// Heads of queries that share heads of keys and values.
    pub(crate) group: Option<Group>,
    /// The state of each row after each part of the keys.
    pub(crate) parts: Parts,
    pub(crate) key_loop: KeyLoop,
}

impl SplitKv {
    /// The most rows of a tile: heads that share keys, or queries.
    pub(crate) fn tile_rows(&self) -> &Dim {
        self.group.as_ref().map_or(&self.parts.rows, |group| &group.size)
    }

    /// The same over other nodes and buffers.
    pub(crate) fn moved(
        &self,
        node: &impl Fn(NodeId) -> NodeId,
        buffer: &impl Fn(BufferId) -> BufferId,
    ) -> SplitKv {
        let parts = Parts { id: buffer(self.parts.id), ..self.parts.clone() };
        let (attention, key_loop) = (self.attention.moved(node), self.key_loop.moved(node));
        let products = self.products.iter().map(|id| node(*id)).collect();
        let (sink, group) = (self.sink.map(node), self.group.clone());
        SplitKv { attention, sink, products, group, parts, key_loop }
    }
}

/// The attention with its keys in parts, whose states are kept in the buffer `id`, and the shape of that; `None` where keys or
/// values do not lie in memory as rows.
pub(crate) fn split(
    layouts: &Layouts<'_>,
    id: BufferId,
    order: &[AxisId],
    a: &Attention,
) -> Option<(SplitKv, Vec<Dim>)> {
    let (g, tiling) = (layouts.graph, layouts.options.tiling);
    let (width, value) = (a.width?, a.value?);
    let found = a.query.map(|query| layouts.inner_products(query, a.key, a.score).0).unwrap_or_default();
    if found.iter().any(|scores| scores.shift.is_some()) || a.query.is_some() && found.is_empty() {
        return None;
    }
    let operands: Vec<NodeId> = found.iter().map(|s| s.key).chain([value]).collect();
    let group = a.query.and_then(|_| group(g, a, &operands));
    let is_held = |x: &AxisId| *x != width && Some(*x) != a.query;
    let held: Vec<AxisId> = order.iter().copied().filter(is_held).collect();

    // Each axis at any place.
    let (mut env, mut ranges) = (Env::new(), Ranges::default());
    for axis in held.iter().chain(&a.query) {
        let name = index_of(*axis);
        ranges.insert(&name, g.extent(*axis));
        env.insert(*axis, AxisValue::Poly(var(&name)));
    }
    match &group {
        None => {
            if let Some(query) = a.query {
                ranges.insert(&ROW, g.extent(query));
                env.insert(query, AxisValue::Poly(var(&ROW)));
            }
        }
        Some(group) => {
            ranges.insert(&SHARES, &group.count);
            ranges.insert(&ROW, &group.size);
            env.insert(group.axis, AxisValue::Poly(&(&var(&SHARES) * &group.size) + &var(&ROW)));
        }
    }
    env.insert(a.key, AxisValue::Poly(var(&LANE)));
    ranges.insert(&LANE, g.extent(a.key));
    let scores = layouts.find_scores(&ranges, a.score, &env, &ROW);
    let lies = |s: &Scores| {
        let rows = layouts.strided_rows(&ranges, s.key, &s.env, s.depth, s.key_axis);
        rows.is_some_and(|rows| !rows.start.mentions(&ROW))
    };
    if scores.len() != found.len()
        || layouts.strided_rows(&ranges, value, &env, width, a.key).is_none()
        || !scores.iter().all(lies)
    {
        return None;
    }

    let rows = n(a.query.map_or(1, |_| tiling.few_rows));
    let size = g.extent(width) + &n(2);
    let count = ceil_div(g.extent(a.key), &n(tiling.few_part));
    let mut shape = g.shape(&held);
    shape.extend([rows.clone(), count.clone(), size.clone()]);
    let parts = Parts { id, held: held.clone(), query: a.query, rows, count, size };
    let made = found.iter().flat_map(|s| [s.node, s.scaled()]).collect();
    let tile_rows = group.as_ref().map(|group| group.axis).or(a.query);
    let key_loop = key_loop(layouts, a, tile_rows, (&held, &Default::default()), &made);
    // Both were found to be rows in memory, heads that share them taken together.
    let key_loop = KeyLoop { values: ValueForm::InPlace, is_turned: false, ..key_loop };
    let products = found.iter().map(|s| s.node).collect();
    let attention = Attention { sink: None, ..a.clone() };
    Some((SplitKv { attention, sink: a.sink, products, group, parts, key_loop }, shape))
}

/// The parts in memory: for each position of the held axes and each row, part by part.
#[derive(Clone, Debug)]
pub(crate) struct Parts {
    pub(crate) id: BufferId,
    pub(crate) held: Vec<AxisId>,
    /// The axis of the rows; without it there is one.
    pub(crate) query: Option<AxisId>,
    /// Rows for which there is room.
    pub(crate) rows: Dim,
    /// Parts of a row, and elements of a part.
    pub(crate) count: Dim,
    pub(crate) size: Dim,
}

impl Parts {
    pub(crate) fn base(&self) -> Base {
        Base::Buffer(self.id)
    }

    /// How wide the values are: a part holds their weighted sum, the maximum and the sum of exponentials.
    pub(crate) fn width(&self) -> Dim {
        &self.size - &n(2)
    }

    /// Where a part begins, the axes standing for what `env` says.
    pub(crate) fn at(&self, g: &Graph, env: &Env, part: &Dim) -> Dim {
        let mut place = n(0);
        for axis in self.held.iter().chain(&self.query) {
            let Some(AxisValue::Poly(index)) = env.get(axis) else {
                unreachable!("outer axes stand for polynomials")
            };
            let extent = if Some(*axis) == self.query { self.rows.clone() } else { g.extent(*axis).clone() };
            place = &(&place * &extent) + index;
        }
        &(&(&place * &self.count) + part) * &self.size
    }
}
