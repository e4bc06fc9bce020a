//! Where each value lies, which kernels store it and how they read their operands.
//!
//! Goes through the values in the order in which they are stored, so that what an operand's layout allows is known when its
//! readers are planned.

use super::materialise::{Choices, KernelChoice, materialised};
use super::{
    Anchor, Gemm, KernelPlan, Layouts, Left, MapOrder, Options, Pack, PackedScores, Part, Step, Tiled,
};
use crate::defined::Defined;
use crate::dims::{LANES, index_of, n, var};
use crate::index::{AxisValue, Env, Ranges};
use crate::plan::attention::beside::{BesideKernel, Store, SumOverRows, SumParts, key_sum};
use crate::plan::attention::key_loop::key_loop;
use crate::plan::attention::mixture::mixed_heads;
use crate::plan::attention::split::{Few, SplitKv, split};
use crate::plan::attention::whole_rows::{Wanted, in_order, parts_of_rows, row_reduction, whole_rows};
use crate::plan::attention::{Attention, Scores, attention};
use crate::plan::contraction::{Contraction, Renamed, contraction, left_with_rows, reads_parameter};
use crate::plan::expression::flops;
use crate::plan::layouts::alias::alias_of;
use crate::plan::layouts::axis_order::{is_wide, layout, order_of_output, shared_first, weights_by_columns};
use crate::plan::layouts::panels::{Edge, Panels, coded_panels, panels_of, peel_keys};
use crate::plan::layouts::{Stored, column, stored};
use crate::plan::materialise::scatter::scatter;
use crate::plan::materialise::shared_scores::{Further, further, shared};
use crate::plan::materialise::statistics::held_by;
use crate::plan::repeat::Repeats;
use crate::plan::scratch::scratch;
use crate::program::kernel::{Append, Base, Buffer, BufferId, Role};
use salient_ir::{AxisId, AxisSet, DType, Dim, Graph, NodeId, Op, ReduceOp, Symbol};
use std::collections::{BTreeMap, BTreeSet};

/// An operand of products that is packed: the node, its columns and its depth, and the vectors of a panel.
pub(super) type PanelsKey = (NodeId, AxisId, AxisId, usize);
/// An operand that is stored row by row: the node, the axes that number its rows, and its depth.
pub(super) type RowsKey = (NodeId, Vec<AxisId>, AxisId);

/// What is decided.
pub(crate) struct Decided {
    pub(crate) sources: usize,
    pub(crate) buffers: Vec<Buffer>,
    pub(crate) steps: Vec<Step>,
    pub(crate) kernels: Vec<KernelPlan>,
    pub(crate) appends: Vec<Append>,
}

/// Decides all but the order of kernels; what `choices` say is decided already.
pub(crate) fn decide<'g>(
    g: &'g Graph,
    defined: &'g Defined,
    names: &'g [Option<String>],
    options: Options<'g>,
    choices: Option<&'g Choices>,
) -> Decided {
    let layouts = Layouts { graph: g, defined, names, options, stored: BTreeMap::new() };
    let mut d = Decider {
        layouts,
        repeats: Repeats::new(g, names, options.chains),
        homes: BTreeMap::new(),
        panels: BTreeMap::new(),
        rows: BTreeMap::new(),
        keys: Vec::new(),
        planned: BTreeMap::new(),
        next: BTreeMap::new(),
        early: BTreeSet::new(),
        fixed: fixed_symbols(g),
        choices,
        done: Decided {
            sources: 0,
            buffers: Vec::new(),
            steps: Vec::new(),
            kernels: Vec::new(),
            appends: Vec::new(),
        },
    };
    let planned = || materialised(g, defined, options);
    let steps: Vec<(NodeId, KernelChoice)> = choices.map_or_else(planned, |choices| choices.kernels.clone());
    let kernel_choices: BTreeMap<NodeId, KernelChoice> = steps.iter().cloned().collect();
    let is_source = |choice: &KernelChoice| matches!(choice, KernelChoice::Source);
    steps.iter().filter(|(_, choice)| is_source(choice)).for_each(|(node, _)| d.source(*node));
    d.done.sources = d.done.buffers.len();
    let mut rest = steps.iter().filter(|(_, choice)| !is_source(choice)).peekable();
    while let Some((node, choice)) = rest.next() {
        let mut beside = Vec::new();
        while let Some((other, KernelChoice::Beside { host, of })) = rest.peek()
            && host == node
        {
            beside.push((*other, *of));
            rest.next();
        }
        if let (KernelChoice::Attention(of, Some(query)), false) = (choice, beside.is_empty()) {
            d.attention_with((*node, *of, *query), &beside);
            continue;
        }
        d.step(*node, choice, &kernel_choices);
        for (other, of) in beside {
            d.step(other, &KernelChoice::Attention(of, None), &kernel_choices);
        }
    }
    for (k, output) in g.outputs().iter().enumerate() {
        if d.with_role(Role::Output(k)).is_none() {
            d.copy_of_output(k, output.node, output.axes.clone());
        }
    }
    d.done
}

/// What a step stores.
#[derive(Clone, Copy)]
struct Target<'a> {
    node: NodeId,
    id: BufferId,
    /// The axes as they lie.
    order: &'a [AxisId],
    name: &'a str,
}

/// The keys of an attention that are packed, under which condition, and where.
struct PackedKeys {
    key: PanelsKey,
    when: Option<(Dim, Dim)>,
    panels: Panels,
}

/// What is decided so far.
pub(super) struct Decider<'g> {
    pub(super) layouts: Layouts<'g>,
    pub(super) repeats: Repeats<'g>,
    pub(super) homes: BTreeMap<NodeId, BufferId>,
    pub(super) panels: BTreeMap<PanelsKey, Panels>,
    pub(super) rows: BTreeMap<RowsKey, Stored>,
    /// The keys of attentions that are packed, and where they are.
    keys: Vec<PackedKeys>,
    /// The step of each node of a block of which the next block may be a copy.
    pub(super) planned: BTreeMap<NodeId, usize>,
    /// For a buffer the one that corresponds to it in the next block.
    pub(super) next: BTreeMap<BufferId, BufferId>,
    /// The buffers that hold parameters, or what follows from them alone.
    pub(super) early: BTreeSet<BufferId>,
    /// The symbols whose values the shapes of parameters fix.
    pub(super) fixed: BTreeSet<Symbol>,
    /// What is not decided here.
    choices: Option<&'g Choices>,
    pub(super) done: Decided,
}

impl<'g> Decider<'g> {
    fn with_role(&self, role: Role) -> Option<BufferId> {
        self.done.buffers.iter().position(|b| b.role == role).map(BufferId)
    }

    fn push(&mut self, name: String, role: Role, node: NodeId, axes: Vec<AxisId>) -> BufferId {
        let (g, shape) = (self.layouts.graph, self.layouts.graph.shape(&axes));
        let dtype = g.node(node).dtype;
        self.done.buffers.push(Buffer { name, role, dtype, axes, shape, node });
        BufferId(self.done.buffers.len() - 1)
    }

    /// A temporary for what a kernel needs of its own.
    fn temporary(&mut self, name: String, node: NodeId, axes: Vec<AxisId>, shape: Vec<Dim>) -> BufferId {
        self.done.buffers.push(Buffer { name, role: Role::Temporary, dtype: DType::F32, axes, shape, node });
        BufferId(self.done.buffers.len() - 1)
    }

    /// The buffer of an input or a parameter.
    fn source(&mut self, node: NodeId) {
        let g = self.layouts.graph;
        let role = match g.op(node) {
            Op::Input(n) => Role::Input(*n),
            Op::Param(n) => Role::Param(*n),
            Op::Const(_) | Op::Iota(_) | Op::Extent(_) | Op::Map(_) | Op::Reduce(..) => return,
            Op::At(_) | Op::Concat(..) | Op::CumSum(..) | Op::Fused(..) => return,
        };
        let Some(port) = g.port(node) else { return };
        let id = self.push(port.name.to_string(), role, node, port.axes.clone());
        self.layouts.stored.insert(node, stored(id, &self.done.buffers[id.0]));
        self.homes.insert(node, id);
        if matches!(role, Role::Param(_)) {
            self.early.insert(id);
        }
    }

    /// Where a node is stored: in an output that is nothing but it, else in a temporary.
    fn home(&mut self, node: NodeId, choice: &KernelChoice) -> BufferId {
        self.home_by(node, choice, None)
    }

    /// The same, where the kernel writes the axes in an order: it does not write columns apart from each other, even where readers would
    /// like them so.
    fn home_by(&mut self, node: NodeId, choice: &KernelChoice, written: Option<Vec<AxisId>>) -> BufferId {
        let g = self.layouts.graph;
        // Along an axis that the node lacks an output repeats it; whoever reads the node wants it once.
        let once = g.outputs().iter().filter(|o| o.node == node).count() == 1;
        let repeated = once && g.users(node).is_empty() && matches!(choice, KernelChoice::Map);
        let outputs = g.outputs().iter().enumerate().filter(|(_, out)| out.node == node);
        let is_free =
            |k: usize| self.choices.is_none_or(|choices| choices.homes.get(&node) == Some(&Some(k)));
        let direct = outputs.filter(|(k, _)| is_free(*k)).find_map(|(k, out)| {
            let order = order_of_output(g, out).or_else(|| repeated.then(|| out.axes.clone()));
            order.map(|order| (k, order))
        });
        let id = match direct {
            Some((k, order)) => self.push(g.outputs()[k].name.to_string(), Role::Output(k), node, order),
            None => {
                let name = self.layouts.names[node.index()].clone();
                let name = name.unwrap_or_else(|| format!("value.{}", node.index()));
                let chosen = self.choices.and_then(|choices| choices.axes.get(&node).cloned());
                let by_columns = || weights_by_columns(&self.layouts, node);
                let for_readers = || layout(g, node, choice.product());
                let axes = chosen.or_else(by_columns).unwrap_or_else(|| match written {
                    Some(written) if written.last() != for_readers().last() => written,
                    Some(_) | None => for_readers(),
                });
                self.push(name, Role::Temporary, node, axes)
            }
        };
        self.homes.insert(node, id);
        id
    }

    /// An output beside the one in which its node is stored.
    fn copy_of_output(&mut self, k: usize, node: NodeId, axes: Vec<AxisId>) {
        let name = self.layouts.graph.outputs()[k].name.to_string();
        let buffer = self.push(name, Role::Output(k), node, axes);
        let first = self.done.kernels.len();
        let order = self.map_order(node, buffer);
        self.kernel(node, buffer, Anchor::Map(order), None);
        let (kernels, buffers) = (first..first + 1, self.done.buffers.len()..self.done.buffers.len());
        self.done.steps.push(Step { node, buffer, kernels, buffers, copy: None });
    }

    /// The step that stores a node.
    fn step(&mut self, node: NodeId, choice: &KernelChoice, kernel_choices: &BTreeMap<NodeId, KernelChoice>) {
        let id = self.home(node, choice);
        let before = self.repeats.before(node);
        let same = before
            .and_then(|n| kernel_choices.get(&n))
            .is_some_and(|before| choice.follows(before, &self.repeats));
        let copied = if same && self.appends_alike(node) { self.copied(node) } else { None };
        let step = match copied {
            Some(step) => {
                self.append_again(node);
                step
            }
            None => {
                let (kernels, buffers) = (self.done.kernels.len(), self.done.buffers.len());
                self.kernels_of(node, id, choice);
                let kernels = kernels..self.done.kernels.len();
                let buffers = buffers..self.done.buffers.len();
                Step { node, buffer: id, kernels, buffers, copy: None }
            }
        };
        // Checks of indices name a tensor each, and are not copied.
        let reports = self.done.kernels[step.kernels.clone()].iter().any(|k| k.expression.reports);
        if self.repeats.is_of_block(node) && !reports {
            self.planned.insert(node, self.done.steps.len());
        }
        self.done.steps.push(step);
        self.layouts.stored.insert(node, stored(id, &self.done.buffers[id.0]));
    }

    /// Adds a kernel.
    fn kernel(&mut self, node: NodeId, buffer: BufferId, anchor: Anchor, when: Option<(Dim, Dim)>) {
        let mut expression = self.layouts.expression(node, &anchor);
        expression.reads.remove(&buffer);
        let once = {
            let touched = expression.reads.iter().chain([&buffer]).map(|id| &self.done.buffers[id.0]);
            self.done.buffers[buffer.0].role == Role::Temporary
                && expression.reads.is_subset(&self.early)
                && expression.symbols(self.layouts.graph, touched).is_subset(&self.fixed)
        };
        if once {
            self.early.insert(buffer);
        }
        let flops = flops(self.layouts.graph, &self.done.buffers[buffer.0], &anchor);
        let scratch = scratch(self.layouts.graph, self.layouts.options, node, &anchor);
        let kernel = KernelPlan { node, buffer, when, anchor, expression, scratch, flops, once };
        self.done.kernels.push(kernel);
    }

    /// In which order a map stores a node in a buffer.
    fn map_order(&self, node: NodeId, buffer: BufferId) -> MapOrder {
        self.layouts.map_order(node, &self.done.buffers[buffer.0].axes)
    }

    /// Adds the kernels that store a node.
    fn kernels_of(&mut self, node: NodeId, id: BufferId, choice: &KernelChoice) {
        let g = self.layouts.graph;
        let Buffer { axes: order, name, .. } = self.done.buffers[id.0].clone();
        let target = Target { node, id, order: &order, name: &name };
        if let Some((input, part)) = self.appended(target) {
            self.kernel(node, id, Anchor::Append(part), None);
            self.done.appends.push(Append { input, output: id });
            return;
        }
        match choice {
            KernelChoice::Source => unreachable!("sources have no kernel"),
            KernelChoice::Map => {
                let alias = self.aliased(target);
                let anchor = alias.map_or_else(|| Anchor::Map(self.map_order(node, id)), Anchor::Alias);
                self.kernel(node, id, anchor, None);
            }
            KernelChoice::Statistics(along) => {
                let held = held_by(&self.layouts, node, *along);
                self.kernel(node, id, Anchor::Rows { along: *along, held }, None);
            }
            KernelChoice::Product(product) => {
                let c = contraction(g, *product, &order).expect("planned as a product");
                self.gemm(target, c);
            }
            KernelChoice::Attention(of, query) => {
                let a = attention(g, *of, *query, &order).expect("planned as an attention");
                self.attend(target, a);
            }
            KernelChoice::Beside { of, .. } => {
                let a = attention(g, *of, None, &order).expect("planned as an attention");
                self.attend(target, a);
            }
            KernelChoice::Rows => self.rows_of(target),
            KernelChoice::Scatter => {
                let of = scatter(g, node).expect("planned as a scattering sum").laid_out(g, &order);
                self.kernel(node, id, Anchor::Scatter(of), None);
            }
        }
    }

    /// The step of an attention, and those of what its kernel stores beside it. Where there can be no such kernel, which only a
    /// text asks for, each has a kernel of its own.
    fn attention_with(&mut self, (node, of, query): (NodeId, NodeId, AxisId), beside: &[(NodeId, NodeId)]) {
        let g = self.layouts.graph;
        let choice = KernelChoice::Attention(of, Some(query));
        let home = self.home(node, &choice);
        let Buffer { axes: order, name, .. } = self.done.buffers[home.0].clone();
        let target = Target { node, id: home, order: &order, name: &name };
        let a = attention(g, of, Some(query), &order).expect("planned as an attention");
        let written = |root: NodeId, of: NodeId| {
            let axes = key_sum(g, of, (a.key, query))?.axes(g);
            (g.node(root).axes == axes.iter().copied().collect::<AxisSet>()).then_some(axes)
        };
        let homes: Vec<BufferId> = (beside.iter())
            .map(|(root, of)| {
                let choice = KernelChoice::Beside { host: node, of: *of };
                self.home_by(*root, &choice, written(*root, *of))
            })
            .collect();
        let others: Option<Vec<Further>> = (beside.iter().zip(&homes))
            .map(|(result, home)| further(g, *result, (a.key, query), &self.done.buffers[home.0].axes))
            .collect();
        let held =
            others.as_ref().and_then(|all| self.layouts.among(|of| shared(of, (node, &a), query, all)));
        match (others, held) {
            (Some(others), Some(held)) => {
                let held = in_order(g, &held, (a.key, query));
                self.rows_with(target, &a, &held, (&others, &homes));
            }
            _ => {
                self.step_of(node, home, |d| d.kernels_of(node, home, &choice));
                for ((root, of), home) in beside.iter().zip(&homes) {
                    let choice = KernelChoice::Attention(*of, None);
                    self.step_of(*root, *home, |d| d.kernels_of(*root, *home, &choice));
                }
            }
        }
        for (node, home) in beside.iter().map(|(root, _)| *root).zip(homes).chain([(node, home)]) {
            self.layouts.stored.insert(node, stored(home, &self.done.buffers[home.0]));
        }
    }

    /// The steps of an attention over whole rows of scores, and of what its kernel stores beside it in these places.
    fn rows_with(
        &mut self,
        target: Target<'_>,
        a: &Attention,
        held: &[NodeId],
        (others, homes): (&[Further], &[BufferId]),
    ) {
        let g = self.layouts.graph;
        let rows = around(target, a);
        let sums = others.iter().filter_map(|further| further.of.sum());
        let heads = mixed_heads(g, held, a.key, a.query.expect("planned with rows"));
        let count = parts_of_rows(g, self.layouts.options.tiling, (a, &heads), sums).unwrap_or_else(|| n(1));
        let mut stores = Vec::new();
        for (further, home) in others.iter().zip(homes) {
            let is_one_part = |sum: &SumOverRows| {
                let order = &self.done.buffers[home.0].axes;
                count == n(1) && sum.node() == further.root && *order == sum.axes(g)
            };
            let buffer = match further.of.sum() {
                None => *home,
                Some(sum) if is_one_part(sum) => *home,
                // A sum over rows for each part of them.
                Some(sum) => {
                    let name = format!("{}.parts", self.done.buffers[home.0].name);
                    let axes = sum.axes(g);
                    let mut shape = g.shape(&axes);
                    shape.insert(sum.around(g).len(), count.clone());
                    self.temporary(name, sum.node(), axes, shape)
                }
            };
            stores.push(Store { node: further.root, buffer, of: further.of.clone() });
        }
        let mut scores = Vec::new();
        self.step_of(target.node, target.id, |d| {
            scores = d.rows_kernel(target, a, &rows, (held, &stores));
        });
        let mut before: Vec<(NodeId, BufferId)> = Vec::new();
        for (Store { node, buffer, of }, home) in stores.into_iter().zip(homes) {
            let in_parts = of.sum().filter(|_| buffer != *home);
            let kernel = BesideKernel {
                host: target.id,
                root: in_parts.map_or(node, SumOverRows::node),
                sum: of.attention().map(|a| a.node),
                scores: scores.clone(),
            };
            self.step_of(node, *home, |d| {
                d.kernel(node, buffer, Anchor::Beside(kernel), None);
                if let Some(sum) = in_parts {
                    let parts = SumParts {
                        sum: sum.node(),
                        parts: buffer,
                        count: count.clone(),
                        outer: sum.around(g),
                        axis: sum.axis(),
                        width: sum.width(),
                    };
                    // What is added to the sum may be what was stored beside it.
                    let stored_before =
                        |(node, id): &(NodeId, BufferId)| (*node, stored(*id, &d.done.buffers[id.0]));
                    let beside: Vec<(NodeId, Stored)> = before.iter().map(stored_before).collect();
                    d.layouts.stored.extend(beside);
                    d.kernel(node, *home, Anchor::SumParts(parts), None);
                    before.iter().for_each(|(node, _)| _ = d.layouts.stored.remove(node));
                }
            });
            before.push((node, *home));
        }
    }

    /// Adds a step with the kernels that are added meanwhile.
    fn step_of(&mut self, node: NodeId, buffer: BufferId, add: impl FnOnce(&mut Self)) {
        let (kernels, buffers) = (self.done.kernels.len(), self.done.buffers.len());
        add(self);
        let (kernels, buffers) = (kernels..self.done.kernels.len(), buffers..self.done.buffers.len());
        self.done.steps.push(Step { node, buffer, kernels, buffers, copy: None });
    }

    /// A reduction, a normalisation or a running sum.
    fn rows_of(&mut self, target: Target<'_>) {
        let g = self.layouts.graph;
        let by_rows = |along: AxisId| {
            let axes = target.order.iter().copied().filter(|axis| *axis != along).collect();
            Anchor::Reduction { loops: shared_first(&self.layouts, &g.args(target.node), axes) }
        };
        let by_columns = |column| Anchor::Columns { column };
        let anchor = match *g.op(target.node) {
            Op::Reduce(op, along) => {
                let x = g.args(target.node)[0];
                let found = column(&self.layouts, target.order, along, x).filter(|_| op != ReduceOp::ArgMax);
                found.map_or_else(|| by_rows(along), by_columns)
            }
            Op::Fused(_, along) => {
                let found = column(&self.layouts, target.order, along, g.args(target.node)[0]);
                found.filter(|column| is_wide(g, *column)).map_or_else(|| by_rows(along), by_columns)
            }
            Op::CumSum(_, along) => by_rows(along),
            Op::Input(_) | Op::Param(_) | Op::Const(_) | Op::Iota(_) | Op::Extent(_) => {
                unreachable!("sources have no rows")
            }
            Op::Map(_) | Op::At(_) | Op::Concat(..) => unreachable!("computed element by element"),
        };
        self.kernel(target.node, target.id, anchor, None);
    }

    /// A product. The right operand is packed once for all rows. The left one is read where it lies if its rows are contiguous
    /// there; else it is stored before, once for all columns and for whoever else reads it.
    fn gemm(&mut self, target: Target<'_>, c: Contraction) {
        let panels = self.right(target, &c);
        let rows = |c: &Contraction| {
            let plain = Renamed::of(self.layouts.graph, c);
            self.rows.get(&(plain.left, plain.rows, plain.depth)).cloned()
        };
        let in_rows = self.choices.is_some_and(|choices| choices.rows.contains(&c.node));
        let found = left_with_rows(&self.layouts, &c, target.order, rows)
            .filter(|(_, left)| !in_rows || left.rows().is_some());
        let (contraction, left) = found.unwrap_or_else(|| {
            let rows = self.store_left(target, &c);
            (c.clone(), Left::Rows(rows))
        });
        let g = self.layouts.graph;
        // Tokens may be few. Outputs of a layer are many.
        let is_layer = panels.coding.is_some() || reads_parameter(g, c.right);
        let tile = self.layouts.options.tiling.tile();
        let edge = if is_layer { Edge::Whole } else { Edge::of(g.extent(c.column), tile) };
        let gemm = Gemm { contraction, left, panels, edge };
        self.kernel(target.node, target.id, Anchor::Gemm(gemm), None);
    }

    /// The panels of the right operand: a parameter's codes, packed before for another product, or by a kernel that is added.
    fn right(&mut self, target: Target<'_>, c: &Contraction) -> Panels {
        let vectors = self.layouts.options.tiling.tile().vectors;
        if let Some(panels) = coded_panels(&self.layouts, &mut self.done.buffers, c, vectors) {
            return panels;
        }
        let key = (c.right, c.column, c.depth, vectors);
        if let Some(panels) = self.panels.get(&key) {
            return panels.clone();
        }
        let name = format!("{}.panels", self.name_of(c.right, target));
        let panels = self.pack(name, c.right, c.column, c.depth, None);
        self.panels.insert(key, panels.clone());
        panels
    }

    /// Adds the kernel that packs an operand.
    fn pack(
        &mut self,
        name: String,
        node: NodeId,
        column: AxisId,
        depth: AxisId,
        when: Option<(Dim, Dim)>,
    ) -> Panels {
        let g = self.layouts.graph;
        let id = BufferId(self.done.buffers.len());
        let vectors = self.layouts.options.tiling.tile().vectors;
        let (panels, shape) = panels_of(g, id, node, column, depth, vectors);
        self.temporary(name, node, panels.outer().to_vec(), shape);
        let pack = Pack { column, depth, panels: panels.clone() };
        self.kernel(node, id, Anchor::Pack(pack), when);
        panels
    }

    /// Adds the kernel that stores the left operand row by row, for this product and others of the same rows.
    fn store_left(&mut self, target: Target<'_>, c: &Contraction) -> Stored {
        let g = self.layouts.graph;
        let Renamed { left, rows, depth, .. } = Renamed::of(g, c);
        let outside = |a: &AxisId| !rows.contains(a) && *a != depth;
        let mut axes: Vec<AxisId> = g.node(left).axes.iter().filter(outside).collect();
        axes.extend(rows.iter().copied().chain([depth]));
        let name = format!("{}.rows", self.name_of(left, target));
        let shape = g.shape(&axes);
        let id = self.temporary(name, left, axes, shape);
        let order = self.map_order(left, id);
        self.kernel(left, id, Anchor::Map(order), None);
        let place = stored(id, &self.done.buffers[id.0]);
        self.rows.insert((left, rows, depth), place.clone());
        place
    }

    /// The name of an operand in dumps: its own, or that of what it is for.
    fn name_of(&self, node: NodeId, target: Target<'_>) -> String {
        self.layouts.names[node.index()].clone().unwrap_or_else(|| target.name.to_owned())
    }

    /// An attention. Few rows are split over keys, many are cut into tiles; where how many there are is known when it runs,
    /// both kernels are there. What holds reductions of its rows is cut into tiles that keep all of their scores.
    fn attend(&mut self, target: Target<'_>, a: Attention) {
        if self.whole_rows(target, &a) {
            return;
        }
        let limit = self.layouts.options.tiling.few_rows;
        let rows = a.query.map(|query| self.layouts.graph.extent(query).clone());
        let few = rows.as_ref().map_or(Few::Always, |rows| Few::of(rows, limit));
        let parts = BufferId(self.done.buffers.len());
        let found = if few == Few::Never { None } else { split(&self.layouts, parts, target.order, &a) };
        match (few, found, rows) {
            (Few::Always, Some((split, shape)), _) => self.split_kv(target, split, shape, None),
            (Few::Sometimes, Some((split, shape)), Some(rows)) => {
                let most = n(limit);
                self.split_kv(target, split, shape, Some((rows.clone(), &most + &n(1))));
                self.tiled(target, a, Some((most, rows)));
            }
            _ => self.tiled(target, a, None),
        }
    }

    fn split_kv(&mut self, target: Target<'_>, split: SplitKv, shape: Vec<Dim>, when: Option<(Dim, Dim)>) {
        let name = format!("{}.parts", target.name);
        let (node, held) = (split.attention.node, split.parts.held.clone());
        let parts = self.temporary(name, node, held, shape);
        self.kernel(target.node, parts, Anchor::SplitKv(split.clone()), when.clone());
        self.kernel(target.node, target.id, Anchor::Merge(split), when);
    }

    /// Adds the kernels that pack keys, then the attention itself.
    fn tiled(&mut self, target: Target<'_>, a: Attention, when: Option<(Dim, Dim)>) {
        let found = a.query.map(|query| self.layouts.inner_products(query, a.key, a.score));
        let (found, anywhere) = found.unwrap_or_default();
        let products: BTreeSet<NodeId> = found.iter().flat_map(|s| [s.node, s.scaled()]).collect();
        let scores = self.pack_keys(target, &found, &anywhere, when.as_ref());
        let outer = around(target, &a);
        let key_loop = key_loop(&self.layouts, &a, a.query, (&outer, &BTreeSet::new()), &products);
        let tile_rows = key_loop.tile_rows(&self.layouts, a.query, &outer);
        let anchor = Anchor::Tiled(Tiled { attention: a, scores, key_loop, tile_rows });
        self.kernel(target.node, target.id, anchor, when);
    }

    /// Adds the kernels that pack the keys of these products, but for those that are packed for another attention already.
    fn pack_keys(
        &mut self,
        target: Target<'_>,
        found: &[Scores],
        anywhere: &Ranges,
        when: Option<&(Dim, Dim)>,
    ) -> Vec<PackedScores> {
        let mut scores = Vec::new();
        for s in found {
            let (env, ranges) = s.packing(self.layouts.graph, anywhere);
            let operand = peel_keys(self.layouts.graph, &ranges, s.key, s.key_axis, &env);
            let vectors = self.layouts.options.tiling.tile().vectors;
            let key = (operand.node, operand.key, s.depth, vectors);
            let is_there = |known: &&PackedKeys| {
                known.key == key && (known.when.is_none() || known.when.as_ref() == when)
            };
            let known = self.keys.iter().find(is_there).map(|known| known.panels.clone());
            let keys = known.unwrap_or_else(|| {
                let name = format!("{}.keys", target.name);
                let panels = self.pack(name, operand.node, operand.key, s.depth, when.cloned());
                self.keys.push(PackedKeys { key, when: when.cloned(), panels: panels.clone() });
                panels
            });
            let is_band = s.shift.is_some();
            scores.push(PackedScores { product: s.node, query: s.query, key: s.key, keys, is_band });
        }
        scores
    }

    /// Adds the kernels of an attention that needs whole rows of scores: its expression has reductions of its rows that nobody
    /// stores, or products with what lies at a distance from each row.
    fn whole_rows(&mut self, target: Target<'_>, a: &Attention) -> bool {
        let g = self.layouts.graph;
        let held = self.layouts.reductions_inside(a);
        let Some(query) = a.query else { return false };
        if held.iter().any(|id| row_reduction(g, *id, (a.key, query)).is_none()) {
            return false;
        }
        let held = in_order(g, &held, (a.key, query));
        let expressions: Vec<NodeId> = held.iter().map(|id| g.args(*id)[0]).chain([a.score]).collect();
        let found = self.layouts.products_of_heads((query, a.key), &expressions, &held);
        let needs_rows = |products: &[Scores]| !held.is_empty() || products.iter().any(|s| s.shift.is_some());
        if !found.is_some_and(|(s, _)| !s.is_empty() && needs_rows(&s)) {
            return false;
        }
        self.rows_kernel(target, a, &around(target, a), (&held, &[]));
        true
    }

    /// Adds the kernel of an attention over whole rows of scores that holds these reductions and stores these results beside it,
    /// behind those that pack its keys; gives the products that it makes.
    fn rows_kernel(
        &mut self,
        target: Target<'_>,
        a: &Attention,
        outer: &[AxisId],
        (held, beside): (&[NodeId], &[Store]),
    ) -> Vec<PackedScores> {
        let g = self.layouts.graph;
        let query = a.query.expect("it has rows");
        let sums = beside.iter().filter_map(|store| Some(store.of.attention()?.score));
        let expressions: Vec<NodeId> =
            held.iter().map(|id| g.args(*id)[0]).chain(sums).chain([a.score]).collect();
        let found = self.layouts.products_of_heads((query, a.key), &expressions, held);
        let (products, anywhere) = found.expect("looked at before");
        let stored = target.node;
        let wanted = Wanted { attention: a, stored, query, outer, products: &products, held, beside };
        let mut plan = whole_rows(&self.layouts, &wanted);
        plan.scores = self.pack_keys(target, &products, &anywhere, None);
        let scores = plan.scores.clone();
        self.kernel(target.node, target.id, Anchor::WholeRows(plan), None);
        scores
    }

    /// The temporary that can be stored in an output, because it has the same elements in the same order and nothing else forbids it.
    fn aliased(&self, target: Target<'_>) -> Option<BufferId> {
        let of = alias_of(&self.layouts, &self.done.buffers, target.node, target.id)?;
        let from = &self.done.buffers[of.0];
        let is_free = self.layouts.options.fuse
            && !self.early.contains(&of)
            && !self.done.kernels.iter().any(|k| matches!(k.anchor, Anchor::Alias(other) if other == of))
            // Copies of the kernels of a block are over other buffers.
            && ![target.node, from.node].into_iter().any(|id| self.repeats.is_of_block(id));
        is_free.then_some(of)
    }

    /// What is appended to a state, and the state, if that is what the target is.
    fn appended(&self, target: Target<'_>) -> Option<(BufferId, Part)> {
        let state = self.state_before(target.id)?;
        let g = self.layouts.graph;
        let Op::Concat(axis, parts) = g.op(target.node) else { return None };
        let args = g.args(target.node);
        let ([before, added], [held, new]) = (parts.as_slice(), args.as_slice()) else { return None };
        // Wide integers are copies at the border, which do not begin with one another.
        if target.order.first() != Some(axis) || g.node(target.node).dtype == DType::I64 {
            return None;
        }
        // Every element of the state lies where the output has it: the same distances from the same place.
        let whole = stored(target.id, &self.done.buffers[target.id.0]);
        let (mut env, mut ranges, mut at) = (Env::new(), Ranges::default(), n(0));
        for (other, stride) in &whole.strides {
            let own = if other == axis { before } else { other };
            let name = index_of(*own);
            ranges.insert(&name, g.extent(*own));
            env.insert(*own, AxisValue::Poly(var(&name)));
            at = &at + &(&var(&name) * stride);
        }
        if self.layouts.stored_view(&ranges, *held, &env)? != (Base::Buffer(state), at) {
            return None;
        }
        let own = |a: &AxisId| if a == axis { *added } else { *a };
        let along = whole.strides.iter().find(|(a, _)| a == axis).map(|(_, stride)| stride.clone())?;
        let place = Stored {
            offset: &along * g.extent(*before),
            strides: whole.strides.iter().map(|(a, s)| (own(a), s.clone())).collect(),
            ..whole
        };
        let axes: Vec<AxisId> = target.order.iter().map(own).collect();
        let order = self.layouts.map_order(*new, &axes);
        Some((state, Part { node: *new, axes, order, place }))
    }

    /// Where the state lies before the call whose value after it a buffer holds.
    pub(super) fn state_before(&self, buffer: BufferId) -> Option<BufferId> {
        let Role::Output(k) = self.done.buffers[buffer.0].role else { return None };
        let state = self.layouts.graph.states().iter().find(|s| s.output == k)?;
        self.with_role(Role::Input(state.input))
    }
}

/// The axes of the result of an attention but its width.
fn around(target: Target<'_>, a: &Attention) -> Vec<AxisId> {
    target.order.iter().copied().filter(|x| Some(*x) != a.width).collect()
}

/// The symbols whose values are known where parameters are: those of their shapes, and the number of lanes.
fn fixed_symbols(g: &Graph) -> BTreeSet<Symbol> {
    let shapes = g.params().iter().flat_map(|port| g.shape(&port.axes));
    shapes.flat_map(|extent| extent.symbols()).chain([LANES.clone()]).collect()
}
