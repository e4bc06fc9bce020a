//! The arithmetic of a kernel, by the loops that are made around each anchor.

use super::strip::Each;
use super::{Machine, Priced};
use crate::dims::index_of;
use crate::plan::attention::beside::{BesideKernel, SumParts};
use crate::plan::attention::key_loop::{KeyLoop, ValueForm};
use crate::plan::attention::key_range::KeyRange;
use crate::plan::attention::split::SplitKv;
use crate::plan::attention::whole_rows::{WeightsFrom, WholeRows};
use crate::plan::attention::{Attention, Normaliser};
use crate::plan::layouts::panels::Edge;
use crate::plan::layouts::parts::parts_of;
use crate::plan::materialise::scatter::Scatter;
use crate::plan::{Anchor, Gemm, KernelPlan, OWNED_POSITIONS, Pack, PackedScores, STRIP_OF_COLUMNS, Tiled};
use salient_ir::op::RowWeights;
use salient_ir::{AxisId, Class, NodeId, Op, ReduceOp};
use std::collections::BTreeSet;

/// What a kernel does.
#[derive(Clone, Copy, Default, Debug, PartialEq)]
pub(super) struct Work {
    /// Floating-point operations of products by register tiles, as if all tiles were full and deep.
    fma: f64,
    /// Operations of vectors, for each lane.
    operations: f64,
    /// Operations of loops that go element by element.
    steps: f64,
    /// Elements that are read at addresses of their own.
    gathered: f64,
    /// Calls of vector bodies.
    calls: f64,
}

impl Work {
    pub(super) fn seconds(&self, machine: &Machine) -> f64 {
        self.fma / machine.flops
            + self.operations / (machine.flops / 2.0)
            + self.steps * machine.step
            + self.gathered * machine.gather
            + self.calls * machine.call
    }

    /// So many elements of an expression more, in strips of so many.
    fn strips(&mut self, count: f64, width: f64, each: Each, lanes: f64) {
        let whole = (width / lanes).ceil() * lanes / width.max(1.0);
        self.operations += count * whole * each.operations;
        self.gathered += count * each.gathered;
    }

    fn and(mut self, other: Work) -> Work {
        self.fma += other.fma;
        self.operations += other.operations;
        self.steps += other.steps;
        self.gathered += other.gathered;
        self.calls += other.calls;
        self
    }
}

/// Elements that one call of a map computes at most.
const CHUNK: f64 = 4096.0;
/// Operations for each score of an online softmax: the greatest, a difference, an exponential, a sum, and their loads and stores.
const ONLINE: f64 = 17.0;
/// Operations for each score of a running sum: five passes of two loads, a sum and a store.
const SCAN: f64 = 20.0;
/// Operations for each element of an operand that is computed along its rows and packed across them.
const TRANSPOSED: f64 = 24.0;
/// Operations for each element of a stored tensor that is copied across its rows, by squares of vectors.
const SQUARES: f64 = 4.0;
/// Operations after a row of lanes is reduced to one number, for each lane of a vector.
const ACROSS: f64 = 6.0;

/// What a pass along a row takes for each element, beside its expression.
fn of_pass(op: ReduceOp) -> f64 {
    match op {
        ReduceOp::Sum | ReduceOp::Any | ReduceOp::All | ReduceOp::Prod => 1.0,
        // Whether there was a NaN is carried beside.
        ReduceOp::Max | ReduceOp::Min => 3.0,
        ReduceOp::ArgMax => 9.0,
    }
}

impl Priced<'_> {
    /// The arithmetic of a kernel.
    pub(super) fn work(&self, kernel: &KernelPlan) -> Option<Work> {
        match &kernel.anchor {
            Anchor::Map(_) => self.map(kernel, kernel.node, &self.plan.buffers[kernel.buffer.0].axes),
            Anchor::Append(part) => self.map(kernel, part.node, &part.axes),
            Anchor::Alias(_) => Some(Work::default()),
            Anchor::Rows { along, held } => self.rows(kernel, *along, held),
            Anchor::Reduction { .. } => self.reduction(kernel),
            Anchor::Columns { column } => self.columns(kernel, *column),
            Anchor::Scatter(of) => self.scatter(kernel, of),
            Anchor::Gemm(gemm) => self.gemm(kernel, gemm),
            Anchor::Pack(pack) => self.pack(kernel, pack),
            Anchor::Tiled(tiled) => self.tiled(kernel, tiled),
            Anchor::WholeRows(whole) => self.whole_rows(kernel, whole),
            Anchor::Beside(of) => self.beside(kernel, of),
            Anchor::SumParts(of) => self.sum_parts(kernel, of),
            Anchor::SplitKv(split) => self.split(kernel, split),
            Anchor::Merge(split) => self.merge(kernel, split),
        }
    }

    fn lanes(&self) -> f64 {
        self.machine.lanes as f64
    }

    fn elements(&self, kernel: &KernelPlan) -> Option<f64> {
        self.extents(self.plan.buffers[kernel.buffer.0].axes.iter().copied())
    }

    /// Whether a node is stored before its kernel runs, or a view of what is.
    fn is_view(&self, kernel: &KernelPlan, node: NodeId) -> bool {
        let g = &*self.plan.graph;
        let is_before = self.homes.get(&node).is_some_and(|home| *home != kernel.buffer);
        is_before || g.op(node).class() == Class::View && self.is_view(kernel, g.args(node)[0])
    }

    fn map(&self, kernel: &KernelPlan, node: NodeId, axes: &[AxisId]) -> Option<Work> {
        let (lane, count) = (axes.last().copied(), self.extents(axes.iter().copied())?);
        let part = lane.and_then(|axis| Some(parts_of(&self.plan.graph, node, axis)?.1));
        let width = match part {
            Some(width) => self.eval(&width)?,
            None => lane.map_or(Some(1.0), |axis| self.extent(axis))?,
        };
        let mut each = self.each_of(kernel, &[node], (lane, width as i64), []);
        let is_line = |axis: &AxisId| self.each(kernel, &[node], Some(*axis), []).gathered == 0.0;
        if self.is_view(kernel, node) && each.gathered > 0.0 && axes.iter().any(is_line) {
            each = Each { operations: SQUARES, gathered: 0.0 };
        }
        each.operations += 1.0;
        let mut work = Work { calls: count / width.clamp(1.0, CHUNK), ..Work::default() };
        work.strips(count, width, each, self.lanes());
        Some(work)
    }

    fn rows(&self, kernel: &KernelPlan, along: AxisId, held: &BTreeSet<NodeId>) -> Option<Work> {
        let g = &*self.plan.graph;
        let (count, width) = (self.elements(kernel)?, self.extent(along)?);
        let rows = count / width.max(1.0);
        let mut work = Work { calls: rows, ..Work::default() };
        for id in held {
            let Op::Reduce(op, _) = *g.op(*id) else { continue };
            let mut each = self.each(kernel, &[g.args(*id)[0]], Some(along), held.iter().copied());
            each.operations += of_pass(op);
            work.strips(count, width, each, self.lanes());
            work.operations += rows * ACROSS * self.lanes();
        }
        let mut each = self.each(kernel, &[kernel.node], Some(along), held.iter().copied());
        each.operations += 1.0;
        work.strips(count, width, each, self.lanes());
        Some(work)
    }

    /// A reduction, a normalisation or a running sum along the axis that the node binds.
    fn reduction(&self, kernel: &KernelPlan) -> Option<Work> {
        let g = &*self.plan.graph;
        let (x, along) = (*g.args(kernel.node).first()?, g.op(kernel.node).bound()?);
        let width = self.extent(along)?;
        let rows = self.extents(g.node(kernel.node).axes.iter().filter(|a| *a != along))?;
        let each = self.each(kernel, &[x], Some(along), []);
        let mut work = Work { calls: rows, operations: rows * ACROSS * self.lanes(), ..Work::default() };
        let mut pass_of = |of: Each, more: f64| {
            let of = Each { operations: of.operations + more, ..of };
            work.strips(rows * width, width, of, self.lanes());
        };
        let result = Each { operations: 1.0, gathered: 0.0 };
        let mut pass = |expression: bool, more: f64| pass_of(if expression { each } else { result }, more);
        match *g.op(kernel.node) {
            Op::Reduce(ReduceOp::Prod, _) | Op::CumSum(..) => {
                work.steps += rows * width * (each.operations + each.gathered + 4.0);
            }
            Op::Reduce(op, _) => pass(true, of_pass(op)),
            // The scores are computed twice; of the values, computed with them, a choice, a product and a sum more.
            Op::Fused(op, _) if op.info().reduces => {
                let args = g.args(kernel.node);
                let (with_values, more) = match args.get(1).filter(|_| op.info().has_values()) {
                    Some(value) => (self.each(kernel, &[x, *value], Some(along), []), 3.0),
                    None => (each, 0.0),
                };
                if op.info().weights.is_exponential() {
                    pass_of(each, 1.0);
                    pass_of(with_values, 12.0 + more);
                } else {
                    pass_of(with_values, 1.0 + more);
                }
            }
            Op::Fused(op, _) => match op.info().weights {
                RowWeights::Softmax | RowWeights::ExpNorm | RowWeights::LogSumExp => {
                    pass(true, 2.0);
                    pass(false, 13.0);
                    pass(false, 5.0);
                }
                RowWeights::Share | RowWeights::Unnormalised => {
                    pass(true, 2.0);
                    pass(false, 5.0);
                }
            },
            Op::Input(_) | Op::Param(_) | Op::Const(_) | Op::Iota(_) | Op::Extent(_) => {}
            Op::Map(_) | Op::At(_) | Op::Concat(..) => {}
        }
        Some(work)
    }

    /// A reduction of many columns at once: one call for each row of a strip of columns, which stays in the first cache.
    fn columns(&self, kernel: &KernelPlan, column: AxisId) -> Option<Work> {
        let g = &*self.plan.graph;
        let along = g.op(kernel.node).bound()?;
        let (width, depth) = (self.extent(column)?, self.extent(along)?);
        // The axis of the rows is one of the result, unless it is reduced.
        let is_kept = g.node(kernel.node).axes.contains(along);
        let count = self.elements(kernel)? * if is_kept { 1.0 } else { depth };
        let args = g.args(kernel.node);
        let x = *args.first()?;
        let mut work = Work::default();
        let mut pass = |roots: &[NodeId], more: f64| {
            let mut each = self.each(kernel, roots, Some(column), []);
            each.operations += more;
            work.calls += count / width.clamp(1.0, STRIP_OF_COLUMNS as f64);
            work.strips(count, width, each, self.lanes());
        };
        match *g.op(kernel.node) {
            // The greatest, then an exponential and a sum, then a product and a sum of values, or a quotient.
            Op::Fused(op, _) => {
                if op.info().weights.is_exponential() {
                    pass(&[x], 3.0);
                }
                let exponential = if op.info().weights.is_exponential() { 12.0 } else { 0.0 };
                match args.get(1).filter(|_| op.info().has_values()) {
                    Some(value) => pass(&[x, *value], exponential + 8.0),
                    None => pass(&[x], exponential + 3.0),
                }
                if !op.info().reduces {
                    pass(&[], 5.0);
                }
            }
            Op::Input(_) | Op::Param(_) | Op::Const(_) | Op::Iota(_) | Op::Extent(_) | Op::Map(_) => {}
            Op::Reduce(..) | Op::At(_) | Op::Concat(..) | Op::CumSum(..) => pass(&[x], 3.0),
        }
        Some(work)
    }

    /// A sum whose terms are each added at one position: who owns some positions looks at all indices.
    fn scatter(&self, kernel: &KernelPlan, of: &Scatter) -> Option<Work> {
        let elements = self.elements(kernel)?;
        let positions = self.extent(of.position)?;
        let width = of.column.map_or(Some(1.0), |axis| self.extent(axis))?;
        let terms = self.extents(of.over.iter().copied())?;
        let owners = (positions / OWNED_POSITIONS as f64).ceil() * (elements / (positions * width).max(1.0));
        let mut work = Work { steps: 3.0 * owners * terms, ..Work::default() };
        let along = of.over.last().copied();
        work.strips(owners * terms, terms, self.each(kernel, &[of.index], along, []), self.lanes());
        let added = terms * elements / positions.max(1.0);
        let mut each = self.each(kernel, &[of.term], of.column, []);
        each.operations += 3.0;
        work.strips(added, width, each, self.lanes());
        work.operations += elements;
        work.calls += (elements + added) / width.clamp(1.0, STRIP_OF_COLUMNS as f64);
        Some(work)
    }

    /// The columns of a panel.
    fn panel(&self, edge: Edge) -> f64 {
        match edge {
            Edge::Whole => self.lanes() * self.plan.options.tiling.tile_vectors as f64,
            Edge::Narrow => self.lanes(),
        }
    }

    /// The operations of a product by register tiles, as if each did as much as the deepest.
    fn tiles(&self, count: f64, columns: f64, depth: f64, edge: Edge) -> f64 {
        let panel = self.panel(edge);
        let whole = (columns / panel).ceil() * panel / columns.max(1.0);
        2.0 * count * whole * (depth + 8.0) / 0.96
    }

    fn gemm(&self, kernel: &KernelPlan, gemm: &Gemm) -> Option<Work> {
        let c = &gemm.contraction;
        let (count, columns) = (self.elements(kernel)?, self.extent(c.column)?);
        let rows = self.extents(c.rows.iter().copied())?;
        let depth = self.extent(c.depth)?;
        let fma = of_rows(rows) * self.tiles(count, columns, depth, gemm.edge);
        // A group of columns of some rows is an item, with a call for each tile.
        let calls = count / (rows.clamp(1.0, 6.0) * columns.clamp(1.0, 32.0));
        let mut work = Work { fma, calls, ..Work::default() };
        if kernel.node != c.node {
            let mut each = self.each(kernel, &[kernel.node], Some(c.column), [c.node]);
            each.operations += 1.0;
            work.strips(count, columns, each, self.lanes());
        }
        Some(work)
    }

    fn pack(&self, kernel: &KernelPlan, pack: &Pack) -> Option<Work> {
        // Panels are as wide where there are few columns.
        let count = self.eval(&self.plan.buffers[kernel.buffer.0].count())?;
        let (by_column, by_depth) = (
            self.each(kernel, &[kernel.node], Some(pack.column), []),
            self.each(kernel, &[kernel.node], Some(pack.depth), []),
        );
        let straight = by_column.gathered <= by_depth.gathered;
        let (mut each, width) = if straight {
            (by_column, self.extent(pack.column)?)
        } else {
            (by_depth, self.extent(pack.depth)?)
        };
        each.operations += match (straight, self.is_view(kernel, kernel.node)) {
            (true, _) => 2.0,
            (false, true) => SQUARES,
            (false, false) => TRANSPOSED,
        };
        let mut work = Work { calls: count / width.clamp(1.0, 64.0), ..Work::default() };
        work.strips(count, width, each, self.lanes());
        Some(work)
    }

    /// The part of the keys that rows in tiles of so many visit.
    fn share(&self, range: &KeyRange, a: &Attention, rows: Option<AxisId>, tile: i64) -> Option<f64> {
        let keys = self.plan.graph.extent(a.key).eval(&self.numbers).ok()?;
        let Some(axis) = rows else { return Some(1.0) };
        let last = self.plan.graph.extent(axis).eval(&self.numbers).ok()?;
        if keys <= 0 || last <= 0 || range.begins.is_empty() && range.ends.is_empty() {
            return Some(1.0);
        }
        let (mut visited, mut tiles) = (0.0, 0.0);
        // A tile in so many is looked at.
        let every = (last / tile.max(1) / 64).max(1);
        let mut numbers = self.numbers.clone();
        for first in (0..last).step_by(usize::try_from(tile.max(1) * every).ok()?) {
            let mut ends = |of: &[salient_ir::Dim], least: bool, none: i64| {
                let mut at = |row: i64| {
                    numbers.insert(index_of(axis), row);
                    let values = of.iter().filter_map(|d| d.eval(&numbers).ok());
                    if least { values.min().unwrap_or(none) } else { values.max().unwrap_or(none) }
                };
                (at(first), at((first + tile).min(last) - 1))
            };
            let (begin, end) = (ends(&range.begins, false, 0), ends(&range.ends, true, keys));
            let from = begin.0.min(begin.1).clamp(0, keys);
            let to = end.0.max(end.1).clamp(from, keys);
            visited += (to - from) as f64;
            tiles += 1.0;
        }
        Some(visited / tiles / keys as f64)
    }

    /// The expression of a score along the keys, the products in it being there; where the mask is looked at tile by tile, that
    /// too.
    fn score(&self, kernel: &KernelPlan, a: &Attention, key_loop: &KeyLoop, held: &[NodeId]) -> Each {
        let roots = match &key_loop.mask {
            Some(mask) if mask.probe.is_some() => vec![mask.unmasked, mask.condition],
            Some(mask) => vec![mask.unmasked],
            None => vec![a.score],
        };
        let held = held.iter().copied().chain(key_loop.invariant.iter().copied());
        self.each(kernel, &roots, Some(a.key), held)
    }

    /// The rows of an attention: the positions of the axes of its result but the width.
    fn rows_of(&self, kernel: &KernelPlan, a: &Attention) -> Option<f64> {
        let axes = self.plan.graph.node(kernel.node).axes.iter();
        self.extents(axes.filter(|x| Some(*x) != a.width))
    }

    fn width(&self, a: &Attention) -> Option<f64> {
        a.width.map_or(Some(1.0), |axis| self.extent(axis))
    }

    /// What the values cost: packed for each tile of rows, or read where they lie; and their product with the weights.
    fn values(
        &self,
        kernel: &KernelPlan,
        a: &Attention,
        key_loop: &KeyLoop,
        scores: f64,
        tile: f64,
    ) -> Option<Work> {
        let Some(value) = a.value else { return Some(Work::default()) };
        let width = self.width(a)?;
        let keys = key_loop.tile_keys(self.plan.options.tiling) as f64;
        let fma = of_rows(tile) * self.tiles(scores / keys * width, width, keys, key_loop.edge);
        let mut work = Work { fma, ..Work::default() };
        if key_loop.values == ValueForm::PackedPerTile {
            // A call for each key and panel, and a pass that looks for what is not finite.
            let mut each = self.each(kernel, &[value], a.width, []);
            each.operations += 4.0;
            work.calls += scores / tile * (width / self.panel(key_loop.edge)).ceil();
            work.strips(scores * width / tile, width, each, self.lanes());
        }
        Some(work)
    }

    /// What follows an attention element by element.
    fn after(&self, kernel: &KernelPlan, a: &Attention) -> Option<Work> {
        let mut work = Work::default();
        if kernel.node != a.node {
            let each = self.each(kernel, &[kernel.node], a.width, [a.node]);
            work.strips(self.elements(kernel)?, self.width(a)?, each, self.lanes());
        }
        Some(work)
    }

    /// For each tile of keys of a row the bodies that make its weights, and its part of the register tiles.
    fn calls(&self, a: &Attention, rows: f64, keys: f64, tile: i64) -> f64 {
        let bodies = match a.normaliser {
            Normaliser::Softmax { .. } => 4.0,
            Normaliser::Sum | Normaliser::Greatest => 2.0,
            Normaliser::One | Normaliser::Running(_) | Normaliser::Mixture => 1.0,
        };
        rows * (keys / tile as f64).ceil() * bodies
    }

    /// The products of queries and keys for so many scores.
    fn products(
        &self,
        products: impl Iterator<Item = NodeId>,
        scores: f64,
        (keys, edge): (f64, Edge),
    ) -> f64 {
        let g = &*self.plan.graph;
        let depths = products.filter_map(|id| g.op(id).bound()).filter_map(|axis| self.extent(axis));
        depths.map(|depth| self.tiles(scores, keys, depth, edge)).sum()
    }

    fn tiled(&self, kernel: &KernelPlan, tiled: &Tiled) -> Option<Work> {
        let Tiled { attention: a, scores: made, key_loop, tile_rows: tile } = tiled;
        let (tile, of_keys) = (*tile, key_loop.tile_keys(self.plan.options.tiling));
        let share = self.share(&key_loop.range, a, key_loop.rows, tile)?;
        let (rows, keys) = (self.rows_of(kernel, a)?, self.extent(a.key)?);
        let scores = rows * keys * share;
        let held: Vec<NodeId> = made.iter().flat_map(|s: &PackedScores| [s.product]).collect();
        let mut each = self.score(kernel, a, key_loop, &held);
        each.operations += of_weights(a);
        let fma = self.products(held.iter().copied(), scores, (keys, key_loop.key_edge));
        let per_tile = (tile as f64).min(key_loop.rows.map_or(Some(1.0), |x| self.extent(x))?).max(1.0);
        let calls = self.calls(a, rows * share, keys, of_keys);
        let mut work = Work { fma, calls, ..Work::default() };
        work.strips(scores, keys, each, self.lanes());
        Some(work.and(self.values(kernel, a, key_loop, scores, per_tile)?).and(self.after(kernel, a)?))
    }

    fn whole_rows(&self, kernel: &KernelPlan, whole: &WholeRows) -> Option<Work> {
        let (a, tiling) = (&whole.attention, self.plan.options.tiling);
        let tile = whole.tile_rows;
        let (rows, keys) = (self.rows_of(kernel, a)?, self.extent(a.key)?);
        let share = |range: &KeyRange| self.share(range, a, whole.key_loop.rows, tile);
        let products: Vec<NodeId> = whole.scores.iter().map(|s| s.product).collect();
        let held = products.iter().copied().chain(whole.held.iter().map(|held| held.attention.node));
        let left = whole.held.iter().flat_map(|held| held.left());
        let held: Vec<NodeId> = held.chain(left).collect();
        let visited = rows * keys * share(&whole.visits)?;
        // Of other heads there may be more or fewer than of those of the result.
        let g = &*self.plan.graph;
        let own = self.eval(&whole.count_of_heads(g, a.score))?.max(1.0);
        let heads = |node: NodeId| Some(self.eval(&whole.count_of_heads(g, node))? / own);
        let of_keys = whole.key_loop.tile_keys(tiling);
        let calls = self.calls(a, visited / keys.max(1.0), keys, of_keys);
        let per_tile = self.lanes() * (tiling.tile_vectors * tiling.tile_rows) as f64;
        let mut work = Work { calls, ..Work::default() };
        for product in &products {
            work.fma += self.products(
                [*product].into_iter(),
                visited * heads(*product)?,
                (keys, whole.key_loop.key_edge),
            );
        }
        for held in &whole.held {
            let Some(mixture) = whole.mixture(g, held) else { continue };
            let (mixed, depth) = (visited * heads(mixture.of)?, self.extent(mixture.over)?);
            let scores = visited * heads(held.attention.node)?;
            work.fma += self.tiles(scores, keys, depth, Edge::Whole);
            work.calls += scores / per_tile;
            if held.copies {
                let each = self.score(kernel, &held.attention, &held.key_loop, &products);
                work.strips(mixed, keys, each, self.lanes());
            }
        }
        for (at, (member, key_loop)) in whole.members().enumerate() {
            // What a pass leaves behind it computes.
            let own: Vec<NodeId> = whole.held.get(at).into_iter().flat_map(|held| held.left()).collect();
            let held: Vec<NodeId> = held.iter().copied().filter(|id| !own.contains(id)).collect();
            let has_no_pass = whole.weights != WeightsFrom::Scores && member.node == a.node
                || whole.has_weights_of_another(g, member.node);
            if member.normaliser != Normaliser::Mixture && !has_no_pass {
                let mut each = self.score(kernel, member, key_loop, &held);
                each.operations += of_weights(member);
                let scores = rows * keys * share(&key_loop.range)? * heads(member.score)?;
                work.strips(scores, keys, each, self.lanes());
            }
        }
        for sum in whole.key_sums() {
            let Some(width) = sum.of.width() else { continue };
            let scores = rows * keys * share(&sum.key_loop.range)? * heads(sum.of.node())?;
            let width = self.extent(width)?;
            let depth = (tile as f64).min(rows).max(1.0);
            work.fma += self.tiles(scores / depth * width, width, depth, Edge::Whole);
        }
        let own = [(a, &whole.key_loop)];
        let others = whole.value_sums().map(|sum| (&sum.attention, &sum.key_loop));
        for (a, key_loop) in others.chain(own) {
            let scores = rows * keys * share(&key_loop.range)? * heads(a.score)?;
            work = work.and(self.values(kernel, a, key_loop, scores, tile as f64)?);
        }
        Some(work.and(self.after(kernel, a)?))
    }

    /// What is stored of each row beside an attention; the scores are those of its host, which counts sums as well.
    fn beside(&self, kernel: &KernelPlan, of: &BesideKernel) -> Option<Work> {
        let count = self.elements(kernel)?;
        if of.sum.is_some() {
            return Some(Work { operations: count, ..Work::default() });
        }
        Some(Work { calls: count, operations: count * self.lanes(), ..Work::default() })
    }

    /// The parts of each key, or of each of its columns, added up.
    fn sum_parts(&self, kernel: &KernelPlan, of: &SumParts) -> Option<Work> {
        let along = of.width.unwrap_or(of.axis);
        let (count, length) = (self.elements(kernel)?, self.extent(along)?);
        let parts = self.eval(&of.count)?;
        let each = self.each(kernel, &[kernel.node], Some(along), [of.sum]);
        let mut work = Work { calls: count / length.max(1.0) * (parts + 2.0), ..Work::default() };
        work.strips(count, length, Each { operations: each.operations + 3.0 * parts, ..each }, self.lanes());
        Some(work)
    }

    /// Keys and values are read where they lie, a dot product for each row.
    fn split(&self, kernel: &KernelPlan, split: &SplitKv) -> Option<Work> {
        let (a, key_loop) = (&split.attention, &split.key_loop);
        let rows = self.extents(split.parts.held.iter().copied().chain(split.parts.query))?;
        let keys = self.extent(a.key)?;
        let scores = rows * keys * self.share(&key_loop.range, a, split.parts.query, 1)?;
        let mut each = self.score(kernel, a, key_loop, &split.products);
        each.operations += of_weights(a);
        let fma = 2.0 * self.products(split.products.iter().copied(), scores, (keys, Edge::Whole));
        let calls = scores / self.plan.options.tiling.few_keys as f64 * 4.0;
        let mut work = Work { fma, calls, ..Work::default() };
        work.strips(scores, keys, each, self.lanes());
        Some(work.and(self.values(kernel, a, key_loop, scores, 1.0)?))
    }

    fn merge(&self, kernel: &KernelPlan, split: &SplitKv) -> Option<Work> {
        let (count, parts) = (self.elements(kernel)?, self.eval(&split.parts.count)?);
        let width = self.width(&split.attention)?;
        let work = Work { operations: 4.0 * count * parts, calls: count / width.max(1.0), ..Work::default() };
        Some(work.and(self.after(kernel, &split.attention)?))
    }
}

/// How many times as long a product of so few rows takes, as the sums of one row wait for each other.
fn of_rows(rows: f64) -> f64 {
    if rows < 2.0 { 2.0 } else { 1.0 }
}

/// Operations for each score, to make the weight of it.
fn of_weights(a: &Attention) -> f64 {
    match a.normaliser {
        Normaliser::Softmax { .. } => ONLINE,
        Normaliser::Sum | Normaliser::Greatest => 3.0,
        Normaliser::One | Normaliser::Mixture => 1.0,
        Normaliser::Running(_) => SCAN,
    }
}
