//! A graph cut into kernels: what is stored, in which layout, and which kernel computes it.
//!
//! Reductions and fused operators are stored, because a strip cannot compute them on the way; everything else is computed
//! where it is needed. Three exceptions save a pass over memory: what follows a product or an attention element by element
//! belongs to its kernel, products inside the scores of an attention are never stored, and what a norm needs of each row is
//! held by the kernel that stores the row.

use crate::attend::attend;
use crate::attention::{any_place, attention, query_axis, tiled_scores};
use crate::contraction::{Contraction, axes_of_parameter, contraction, sum_of_products};
use crate::index::{Bound, Ranges};
use crate::join::join;
use crate::keep::kept;
use crate::kernel::{Append, Buffer, BufferId, Kernel, Program, Role};
use crate::load::split;
use crate::maker::stored;
use crate::map::{append, map};
use crate::product::product;
use crate::repeat::{Around, Repeats};
use crate::rows::{Target, cumulate, held_by, log_sum_exp, norm, normalise, reduce};
use crate::statistics::statistics;
use crate::strip::{Scope, Stored};
use crate::tiling::Tiling;
use salient_ir::quantised::Bits;
use salient_ir::{AxisId, AxisSet, FusedOp, Graph, MapOp, NodeId, Op, text};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// How a graph is cut.
#[derive(Clone, Copy, Debug)]
pub struct Options<'a> {
    /// Whether element-wise operators join the kernels around them. Without, each is a kernel of its own.
    pub fuse: bool,
    /// Sizes of tiles and blocks.
    pub tiling: Tiling,
    /// Parameters that will be given in blocks of few bits, by position among the graph's.
    pub coded: &'a BTreeMap<usize, Bits>,
    /// Equal blocks of the graph: for each its nodes, corresponding ones at the same position. None, if empty.
    pub blocks: &'a [Vec<NodeId>],
}

impl Default for Options<'_> {
    fn default() -> Self {
        const NONE: &BTreeMap<usize, Bits> = &BTreeMap::new();
        Options { fuse: true, tiling: Tiling::default(), coded: NONE, blocks: &[] }
    }
}

/// The kernel that a stored node gets.
#[derive(Clone, Debug)]
enum Form {
    /// Inputs and parameters are stored already.
    Source,
    /// An expression of stored nodes.
    Map,
    /// A row-wise kernel of the node itself.
    Rows,
    /// An expression of the product of that node.
    Product(NodeId),
    /// An expression of the attention of that node, with the axis whose positions are the rows of a tile.
    Attention(NodeId, Option<AxisId>),
}

impl Form {
    /// Whether it is the form `before` of the corresponding node one block before.
    fn follows(&self, before: &Form, repeats: &Repeats<'_>) -> bool {
        match (self, before) {
            (Form::Source, Form::Source) | (Form::Map, Form::Map) | (Form::Rows, Form::Rows) => true,
            (Form::Product(n), Form::Product(b)) => repeats.shift(*b) == *n,
            (Form::Attention(n, query), Form::Attention(b, other)) => {
                repeats.shift(*b) == *n && query == other
            }
            (Form::Source | Form::Map | Form::Rows | Form::Product(_) | Form::Attention(..), _) => false,
        }
    }
}

/// The program of a graph.
pub fn schedule(g: &Graph, options: Options<'_>) -> Program {
    let names = text::node_names(g);
    let mut out = Assembler::new(g, &names);
    let tiled = tiled_scores(g, options.fuse);
    let kept = if options.fuse { kept(g, &tiled) } else { BTreeSet::new() };
    let (forms, guarded) = (BTreeMap::new(), RefCell::default());
    let mut planner = Planner { g, options, tiled, kept, held: BTreeSet::new(), forms, guarded };
    if options.fuse {
        planner.hold(&out);
    }
    let forms = planner.plan();
    let mut scope = Scope {
        graph: g,
        stored: BTreeMap::new(),
        panels: BTreeMap::new(),
        coded: options.coded,
        tiling: options.tiling,
        rows: BTreeMap::new(),
        ranges: Ranges::default(),
        reads: BTreeSet::new(),
        inlined: BTreeSet::new(),
        checks: Vec::new(),
        names: &names,
    };
    for (node, form) in &forms {
        let Form::Source = form else { continue };
        if let Some((id, at)) = out.source(*node) {
            scope.stored.insert(*node, at);
            out.homes.insert(*node, id);
        }
    }
    let mut repeats = Repeats::new(if options.fuse { options.blocks } else { &[] });
    for (node, form) in &forms {
        if let Form::Source = form {
            continue;
        }
        let id = out.home(*node, form);
        let buffer = out.buffers[id.0].clone();
        let target = Target { node: *node, id, buffer: &buffer };
        let same =
            repeats.before(*node).and_then(|n| forms.get(&n)).is_some_and(|f| form.follows(f, &repeats));
        let mut around = Around { scope: &mut scope, buffers: &mut out.buffers, homes: &out.homes };
        let copied = if same { repeats.copy(*node, &out.kernels, &names, &mut around) } else { None };
        if let Some(copied) = copied {
            out.copies.extend(copied.of.map(|of| Some(out.copies[of].unwrap_or(of))).collect::<Vec<_>>());
            out.kernels.extend(copied.kernels);
        } else if let Some(kernel) = out.append(&mut scope, target) {
            out.push_kernels(vec![kernel]);
        } else {
            let (buffers, checks) = (out.buffers.len(), scope.checks.len());
            let kernels = compute(&mut scope, form, target, &mut out.buffers);
            let made = out.kernels.len()..out.kernels.len() + kernels.len();
            repeats.note(*node, made, buffers..out.buffers.len(), scope.checks.len() > checks);
            out.push_kernels(kernels);
        }
        scope.stored.insert(*node, stored(id, &buffer));
    }
    for k in 0..g.outputs().len() {
        if out.with_role(Role::Output(k)).is_none() {
            let id = out.output(k);
            let buffer = out.buffers[id.0].clone();
            let kernel = map(&mut scope, g.outputs()[k].node, id, &buffer);
            out.push_kernels(vec![kernel]);
        }
    }
    let dims = g.ids().filter_map(|id| if let Op::Extent(d) = g.op(id) { Some(d.symbols()) } else { None });
    let (order, loads) = split(g, &mut out.buffers, &out.kernels);
    let (mut kernels, mut copies) = in_order(out.kernels, &out.copies, &order);
    if options.fuse {
        (kernels, copies) = join(kernels, &copies, loads);
    }
    let symbols: BTreeSet<_> = dims.flatten().chain(g.symbols()).chain(axis_symbols(g)).collect();
    Program {
        name: g.name().clone(),
        symbols: symbols.into_iter().collect(),
        buffers: out.buffers,
        kernels,
        copies,
        loads,
        appends: out.appends,
        checks: scope.checks,
    }
}

/// The kernels in that order, and for each of which it is a copy, by the new positions.
fn in_order(
    kernels: Vec<Kernel>,
    copies: &[Option<usize>],
    order: &[usize],
) -> (Vec<Kernel>, Vec<Option<usize>>) {
    let mut position = vec![0; order.len()];
    order.iter().enumerate().for_each(|(new, old)| position[*old] = new);
    let copies = order.iter().map(|old| copies[*old].map(|of| position[of])).collect();
    let mut kernels: Vec<Option<Kernel>> = kernels.into_iter().map(Some).collect();
    let kernels = order.iter().map(|old| kernels[*old].take().expect("each has one place")).collect();
    (kernels, copies)
}

/// Symbols in the extents of axes that a live node has or binds.
fn axis_symbols(g: &Graph) -> BTreeSet<salient_ir::Name> {
    let mut axes = AxisSet::new();
    for id in g.ids() {
        axes = axes.union(&g.node(id).axes);
        match g.op(id) {
            Op::Reduce(_, a) | Op::At(a) | Op::CumSum(a) | Op::Fused(_, a) | Op::Iota(a) => axes.insert(*a),
            Op::Concat(a, parts) => {
                axes.insert(*a);
                parts.iter().for_each(|p| axes.insert(*p));
            }
            Op::Input(_) | Op::Param(_) | Op::Const(_) | Op::Extent(_) | Op::Map(_) => {}
        }
    }
    axes.iter().flat_map(|a| g.extent(a).symbols()).collect()
}

/// The kernels that store a node. Some need buffers of their own.
fn compute(scope: &mut Scope<'_>, form: &Form, target: Target<'_>, buffers: &mut Vec<Buffer>) -> Vec<Kernel> {
    let g = scope.graph;
    let order = &target.buffer.axes;
    match form {
        Form::Source => unreachable!("sources have no kernel"),
        Form::Map if !held_by(scope, target.node).is_empty() => vec![norm(scope, target)],
        Form::Map => vec![map(scope, target.node, target.id, target.buffer)],
        Form::Product(node) => {
            let c: Contraction = contraction(g, *node, order).expect("planned as a product");
            product(scope, buffers, target, &c)
        }
        Form::Attention(node, query) => {
            let a = attention(g, *node, *query, order).expect("planned as an attention");
            attend(scope, buffers, target, &a)
        }
        Form::Rows => {
            let args = g.args(target.node);
            match *g.op(target.node) {
                Op::Reduce(op, axis) => vec![reduce(scope, target, op, axis, args[0])],
                Op::CumSum(axis) => vec![cumulate(scope, target, axis, args[0])],
                Op::Fused(FusedOp::LogSumExp, axis) => vec![log_sum_exp(scope, target, axis, args[0])],
                Op::Fused(op, axis) => vec![normalise(scope, target, op, axis, &args)],
                Op::Input(_) | Op::Param(_) | Op::Const(_) | Op::Iota(_) | Op::Extent(_) => {
                    unreachable!("sources have no rows")
                }
                Op::Map(_) | Op::At(_) | Op::Concat(..) => unreachable!("computed element by element"),
            }
        }
    }
}

/// Decides which nodes are stored and by which kernel.
struct Planner<'g> {
    g: &'g Graph,
    options: Options<'g>,
    /// Products inside scores that are not stored.
    tiled: BTreeSet<NodeId>,
    /// Element-wise nodes that are stored for their several readers, or for what their kernel holds.
    kept: BTreeSet<NodeId>,
    /// Reductions that the kernel of the only rows that need them holds.
    held: BTreeSet<NodeId>,
    forms: BTreeMap<NodeId, Form>,
    /// What [`Planner::needs_a_guard`] has said.
    guarded: RefCell<HashMap<NodeId, bool>>,
}

/// Whether a strip cannot compute the node on the way.
fn is_anchor(op: &Op) -> bool {
    match op {
        Op::Reduce(..) | Op::CumSum(_) | Op::Fused(..) | Op::Input(_) | Op::Param(_) => true,
        Op::Const(_) | Op::Iota(_) | Op::Extent(_) | Op::Map(_) | Op::At(_) | Op::Concat(..) => false,
    }
}

impl Planner<'_> {
    /// Whether a node is stored wherever it is read.
    fn is_anchor(&self, id: NodeId) -> bool {
        is_anchor(self.g.op(id)) || self.kept.contains(&id)
    }

    /// Decides which reductions are held.
    fn hold(&mut self, out: &Assembler<'_>) {
        let found = statistics(self.g, &self.kept, &self.tiled, |id| out.innermost(id));
        let kept = self.kept.clone();
        self.kept.extend(found.values());
        let is_map = |root: NodeId| matches!(self.form(root).0, Form::Map);
        let (rows, others): (BTreeSet<NodeId>, BTreeSet<NodeId>) =
            found.values().copied().partition(|root| is_map(*root) && !self.reads_more(*root, &found));
        self.held = found.into_iter().filter(|(_, root)| rows.contains(root)).map(|(id, _)| id).collect();
        self.kept.retain(|id| kept.contains(id) || !others.contains(id));
    }

    /// Whether rows read where a tensor may end and the reductions that they hold do not: these are computed wherever they
    /// stand, the rest only where it is asked for.
    fn reads_more(&self, root: NodeId, held: &BTreeMap<NodeId, NodeId>) -> bool {
        let g = self.g;
        let own = held.iter().filter(|(_, rows)| **rows == root).map(|(id, _)| g.args(*id)[0]);
        let (mut seen, mut stack) = (BTreeSet::new(), own.collect::<Vec<_>>());
        let mut more = false;
        // What the reductions go over, then the rest.
        for part in [None, Some(root)] {
            stack.extend(part);
            while let Some(id) = stack.pop() {
                if !seen.insert(id) || is_anchor(g.op(id)) {
                    continue;
                }
                if let Op::At(axis) = *g.op(id) {
                    more |= part.is_some() && self.may_leave(id, axis);
                }
                stack.extend(g.args(id));
            }
        }
        more
    }

    fn plan(mut self) -> BTreeMap<NodeId, Form> {
        let mut work: Vec<NodeId> = self.g.outputs().iter().map(|o| o.node).collect();
        if !self.options.fuse {
            work.extend(self.g.ids().filter(|id| self.is_whole_operator(*id)));
        }
        // Users first, so that what a kernel takes in is decided before it is asked for elsewhere.
        work.sort_unstable();
        while let Some(id) = work.pop() {
            if self.forms.contains_key(&id) {
                continue;
            }
            let (form, operands) = self.form(id);
            self.forms.insert(id, form);
            let mut seen = BTreeSet::new();
            for operand in operands {
                self.frontier(operand, &mut seen, &mut work);
            }
            work.sort_unstable();
            work.dedup();
        }
        self.forms
    }

    /// Whether the unfused program stores the node: every element-wise operator on tensors, but the multiplication
    /// inside a product.
    fn is_whole_operator(&self, id: NodeId) -> bool {
        let g = self.g;
        let node = g.node(id);
        let users = g.users(id);
        let inside_product = !users.is_empty() && users.iter().all(|u| contraction_of(g, *u).is_some());
        let elementwise = matches!(node.op, Op::Map(_)) && !node.axes.is_empty() && !node.dtype.is_int();
        elementwise && !inside_product && !self.needs_a_guard(id)
    }

    /// Whether the expression of a node reads where a tensor may end: it must stay inside the choice that guards it.
    fn needs_a_guard(&self, id: NodeId) -> bool {
        if let Some(known) = self.guarded.borrow().get(&id) {
            return *known;
        }
        let needed = self.reads_where_it_may_end(id);
        self.guarded.borrow_mut().insert(id, needed);
        needed
    }

    fn reads_where_it_may_end(&self, id: NodeId) -> bool {
        let g = self.g;
        match *g.op(id) {
            // A choice guards its own arms.
            Op::Map(MapOp::Select) => self.needs_a_guard(g.args(id)[0]),
            Op::Map(_) => g.args(id).iter().any(|a| self.needs_a_guard(*a)),
            Op::At(axis) => self.may_leave(id, axis) || self.needs_a_guard(g.args(id)[0]),
            Op::Input(_) | Op::Param(_) | Op::Const(_) | Op::Iota(_) | Op::Extent(_) => false,
            Op::Reduce(..) | Op::Concat(..) | Op::CumSum(_) | Op::Fused(..) => false,
        }
    }

    /// Whether a view reads where its tensor may end.
    fn may_leave(&self, view: NodeId, axis: AxisId) -> bool {
        let g = self.g;
        let mut ranges = Ranges::default();
        let env = any_place(g, view);
        for (axis, bound) in &env {
            if let Bound::Poly(place) = bound
                && let Some(symbol) = place.as_symbol()
            {
                ranges.insert(symbol, g.extent(*axis));
            }
        }
        let index = ranges.evaluate(g, g.args(view)[1], &env);
        !index.is_some_and(|index| ranges.inside(&index, g.extent(axis)))
    }

    /// Anchors that the expression of `id` reads.
    fn frontier(&self, id: NodeId, seen: &mut BTreeSet<NodeId>, work: &mut Vec<NodeId>) {
        if !seen.insert(id) {
            return;
        }
        let stored_alone = !self.options.fuse && self.is_whole_operator(id);
        if self.held.contains(&id) {
            self.frontier(self.g.args(id)[0], seen, work);
        } else if self.is_anchor(id) || stored_alone || self.ends_a_kernel(id) {
            work.push(id);
        } else {
            self.g.args(id).iter().for_each(|a| self.frontier(*a, seen, work));
        }
    }

    /// Whether a product or an attention is used by this expression alone: then its kernel computes the expression too, and
    /// what is stored is that.
    fn ends_a_kernel(&self, id: NodeId) -> bool {
        self.options.fuse
            && matches!(self.g.op(id), Op::Map(_))
            && !self.needs_a_guard(id)
            && match self.form(id).0 {
                Form::Product(_) | Form::Attention(..) => true,
                Form::Source | Form::Map | Form::Rows => false,
            }
    }

    /// The kernel for a node, and the nodes whose expressions it evaluates.
    fn form(&self, id: NodeId) -> (Form, Vec<NodeId>) {
        let g = self.g;
        match g.op(id) {
            Op::Input(_) | Op::Param(_) => (Form::Source, Vec::new()),
            Op::Reduce(..) | Op::Fused(..) | Op::CumSum(_) => {
                self.anchor_form(id, id).unwrap_or_else(|| (Form::Rows, g.args(id).to_vec()))
            }
            Op::Const(_) | Op::Iota(_) | Op::Extent(_) | Op::At(_) | Op::Concat(..) => {
                (Form::Map, g.args(id).to_vec())
            }
            Op::Map(_) => {
                let mut inline = Vec::new();
                self.elementwise(id, &mut inline);
                let anchors = inline
                    .iter()
                    .copied()
                    .filter(|a| self.is_output(*a).not_then(|| self.joins(*a, id, &inline)));
                let found = if self.options.fuse {
                    anchors.into_iter().find_map(|a| self.anchor_form(a, id).map(|f| (a, f)))
                } else {
                    None
                };
                match found {
                    Some((anchor, (form, mut operands))) => {
                        operands.extend(inline.into_iter().filter(|x| *x != anchor && self.is_anchor(*x)));
                        operands.extend(self.views(id));
                        (form, operands)
                    }
                    None => (Form::Map, g.args(id).to_vec()),
                }
            }
        }
    }

    /// Nodes that `id` reads element by element, with the same indices: through scalar operators only.
    fn elementwise(&self, id: NodeId, out: &mut Vec<NodeId>) {
        for arg in self.g.args(id) {
            if out.contains(&arg) {
                continue;
            }
            match self.g.op(arg) {
                Op::Map(_) => {
                    out.push(arg);
                    if !self.kept.contains(&arg) {
                        self.elementwise(arg, out);
                    }
                }
                Op::Reduce(..) | Op::Fused(..) | Op::CumSum(_) | Op::Input(_) | Op::Param(_) => out.push(arg),
                Op::Const(_) | Op::Iota(_) | Op::Extent(_) | Op::At(_) | Op::Concat(..) => {}
            }
        }
    }

    /// Views and concatenations among the element-wise operands of `id`.
    fn views(&self, id: NodeId) -> Vec<NodeId> {
        let g = self.g;
        let mut inline = vec![id];
        self.elementwise(id, &mut inline);
        let is_inner = |x: NodeId| matches!(g.op(x), Op::Map(_)) && (x == id || !self.kept.contains(&x));
        let inner = inline.iter().filter(|x| is_inner(**x));
        inner.flat_map(|x| g.args(*x)).filter(|a| matches!(g.op(*a), Op::At(_) | Op::Concat(..))).collect()
    }

    fn is_output(&self, id: NodeId) -> Flag {
        Flag(self.g.outputs().iter().any(|o| o.node == id))
    }

    /// Whether every use of `anchor` ends in `root`, through nodes of `inline`.
    fn joins(&self, anchor: NodeId, root: NodeId, inline: &[NodeId]) -> bool {
        let users = self.g.users(anchor);
        !users.is_empty()
            && users.iter().all(|u| {
                *u == root
                    || inline.contains(u)
                        && matches!(self.g.op(*u), Op::Map(_))
                        && !self.is_output(*u).0
                        && !self.kept.contains(u)
                        && self.joins(*u, root, inline)
            })
    }

    /// The product or attention kernel of `anchor` that stores `root`, with the expressions that it evaluates.
    fn anchor_form(&self, anchor: NodeId, root: NodeId) -> Option<(Form, Vec<NodeId>)> {
        let g = self.g;
        if g.node(anchor).axes != g.node(root).axes {
            return None;
        }
        let order: Vec<AxisId> = g.node(anchor).axes.iter().collect();
        if contraction(g, anchor, &order).is_some() {
            let (a, b, _) = sum_of_products(g, anchor)?;
            return Some((Form::Product(anchor), vec![a, b]));
        }
        let is_stored =
            |id: NodeId| self.forms.contains_key(&id) || self.is_anchor(id) && !self.tiled.contains(&id);
        let (query, inside) = query_axis(g, anchor, &is_stored)?;
        // Without values there is nothing to stream but the scores; where those are read and not made, rows do.
        let values = &g.args(anchor)[1..];
        if values.is_empty() && inside.is_empty() {
            return None;
        }
        let mut operands = values.to_vec();
        self.around(g.args(anchor)[0], &inside, &mut operands);
        Some((Form::Attention(anchor, query), operands))
    }

    /// The operands of an expression, with those of the products inside it in place of the products.
    fn around(&self, id: NodeId, inside: &[NodeId], out: &mut Vec<NodeId>) {
        if inside.contains(&id) {
            if let Some((a, b, _)) = sum_of_products(self.g, id) {
                out.extend([a, b]);
            }
        } else if self.is_anchor(id) {
            out.push(id);
        } else {
            self.g.args(id).iter().for_each(|a| self.around(*a, inside, out));
        }
    }
}

/// A truth value with the one combinator that reads well where it is used.
struct Flag(bool);

impl Flag {
    fn not_then(&self, other: impl FnOnce() -> bool) -> bool {
        !self.0 && other()
    }
}

fn contraction_of(g: &Graph, id: NodeId) -> Option<Contraction> {
    let order: Vec<AxisId> = g.node(id).axes.iter().collect();
    contraction(g, id, &order)
}

/// The buffers and kernels so far.
struct Assembler<'g> {
    g: &'g Graph,
    names: &'g [Option<String>],
    buffers: Vec<Buffer>,
    kernels: Vec<Kernel>,
    /// For each kernel the one that it is a copy of.
    copies: Vec<Option<usize>>,
    homes: BTreeMap<NodeId, BufferId>,
    appends: Vec<Append>,
}

impl<'g> Assembler<'g> {
    fn new(g: &'g Graph, names: &'g [Option<String>]) -> Assembler<'g> {
        let homes = BTreeMap::new();
        Assembler {
            g,
            names,
            buffers: Vec::new(),
            kernels: Vec::new(),
            copies: Vec::new(),
            homes,
            appends: Vec::new(),
        }
    }

    /// Where the target is a state that a call appends to, the kernel that stores what is new.
    fn append(&mut self, scope: &mut Scope<'_>, target: Target<'_>) -> Option<Kernel> {
        let Role::Output(k) = target.buffer.role else { return None };
        let state = self.g.states().iter().find(|s| s.output == k)?;
        let input = self.with_role(Role::Input(state.input))?;
        let kernel = append(scope, input, target.node, target.id, target.buffer)?;
        self.appends.push(Append { input, output: target.id });
        Some(kernel)
    }

    /// Kernels that are no copies.
    fn push_kernels(&mut self, kernels: Vec<Kernel>) {
        self.copies.extend(kernels.iter().map(|_| None));
        self.kernels.extend(kernels);
    }

    fn with_role(&self, role: Role) -> Option<BufferId> {
        self.buffers.iter().position(|b| b.role == role).map(BufferId)
    }

    fn push(&mut self, name: String, role: Role, node: NodeId, axes: Vec<AxisId>) -> BufferId {
        let shape = self.g.shape(&axes);
        let dtype = self.g.node(node).dtype;
        self.buffers.push(Buffer { name, role, dtype, axes, shape, node });
        BufferId(self.buffers.len() - 1)
    }

    /// The buffer of an input or a parameter.
    fn source(&mut self, node: NodeId) -> Option<(BufferId, Stored)> {
        let role = match self.g.op(node) {
            Op::Input(n) => Role::Input(*n),
            Op::Param(n) => Role::Param(*n),
            Op::Const(_) | Op::Iota(_) | Op::Extent(_) | Op::Map(_) | Op::Reduce(..) => return None,
            Op::At(_) | Op::Concat(..) | Op::CumSum(_) | Op::Fused(..) => return None,
        };
        let port = self.g.port(node)?;
        let id = self.push(port.name.to_string(), role, node, port.axes.clone());
        Some((id, stored(id, &self.buffers[id.0])))
    }

    fn output(&mut self, k: usize) -> BufferId {
        let out = &self.g.outputs()[k];
        self.push(out.name.to_string(), Role::Output(k), out.node, out.axes.clone())
    }

    /// Where a node is stored: in an output that is nothing but it, else in a temporary.
    fn home(&mut self, node: NodeId, form: &Form) -> BufferId {
        let own = self.g.node(node).axes.len();
        // Along an axis that the node lacks an output repeats it; whoever reads the node wants it once.
        let once = self.g.outputs().iter().filter(|o| o.node == node).count() == 1;
        let unread = once && self.g.users(node).is_empty();
        let fits = |axes: &[AxisId]| axes.len() == own || unread && matches!(form, Form::Map);
        let direct = (0..self.g.outputs().len()).find(|k| {
            let out = &self.g.outputs()[*k];
            out.node == node && fits(&out.axes)
        });
        let id = match direct {
            Some(k) => self.output(k),
            None => {
                let name =
                    self.names[node.index()].clone().unwrap_or_else(|| format!("value.{}", node.index()));
                self.push(name, Role::Temporary, node, self.layout(node, form))
            }
        };
        self.homes.insert(node, id);
        id
    }

    /// The innermost axis of a node where it is stored.
    fn innermost(&self, node: NodeId) -> Option<AxisId> {
        let own = self.g.node(node).axes.len();
        let output = self.g.outputs().iter().find(|o| o.node == node && o.axes.len() == own);
        output.map_or_else(|| self.layout(node, &Form::Map).last().copied(), |o| o.axes.last().copied())
    }

    /// The axis of a node over which a product sums that has it, or a renaming of it, as an operand.
    fn summed_over(&self, node: NodeId) -> Option<AxisId> {
        let g = self.g;
        // Views of the node, each with what its renamed axes are in the node.
        let mut views: Vec<(NodeId, BTreeMap<AxisId, AxisId>)> = vec![(node, BTreeMap::new())];
        while let Some((id, names)) = views.pop() {
            let own = |axis: AxisId| names.get(&axis).copied().unwrap_or(axis);
            for user in g.users(id) {
                if let (Op::At(axis), Some(index)) = (g.op(user), g.args(user).get(1))
                    && let Op::Iota(new) = g.op(*index)
                {
                    let mut names = names.clone();
                    names.insert(*new, own(*axis));
                    views.push((user, names));
                }
                for sum in g.users(user) {
                    if let Some((a, b, depth)) = sum_of_products(g, sum)
                        && (a == id || b == id)
                    {
                        return Some(own(depth));
                    }
                }
            }
        }
        None
    }

    /// The axis of a node along which a reduction runs that reads it, or an expression of it element by element: that of a
    /// norm, for the values between the layers of a model.
    fn reduced_along(&self, node: NodeId) -> Option<AxisId> {
        let g = self.g;
        let mut seen = BTreeSet::from([node]);
        let mut readers = vec![node];
        while let Some(id) = readers.pop() {
            for user in g.users(id) {
                match g.op(user) {
                    Op::Reduce(_, axis) if g.node(node).axes.contains(*axis) => return Some(*axis),
                    Op::Map(_) if seen.insert(user) => readers.push(user),
                    Op::Map(_) | Op::Reduce(..) | Op::Input(_) | Op::Param(_) | Op::Const(_) => {}
                    Op::Iota(_) | Op::Extent(_) | Op::At(_) | Op::Concat(..) | Op::CumSum(_) => {}
                    Op::Fused(..) => {}
                }
            }
        }
        None
    }

    /// The order of axes in the output that a node is a part of, as what is appended to a state is: there it is copied row
    /// by row.
    fn order_in_output(&self, node: NodeId) -> Option<Vec<AxisId>> {
        let g = self.g;
        let wholes = g.users(node).into_iter().filter_map(|whole| {
            let Op::Concat(along, parts) = g.op(whole) else { return None };
            let output = g.outputs().iter().find(|o| o.node == whole)?;
            let part = parts[g.args(whole).iter().position(|a| *a == node)?];
            Some(output.axes.iter().map(|a| if a == along { part } else { *a }).collect::<Vec<AxisId>>())
        });
        let axes = &g.node(node).axes;
        wholes.into_iter().find(|order| order.len() == axes.len() && order.iter().all(|a| axes.contains(*a)))
    }

    /// The order of the axes of a temporary: as in the output that it is a part of, else as they are numbered, the columns of
    /// a product by a parameter last; but two axes that a reader merges into one lie side by side at the inner end, so that
    /// the merged axis is contiguous.
    fn layout(&self, node: NodeId, form: &Form) -> Vec<AxisId> {
        let g = self.g;
        let mut order = self.order_in_output(node).unwrap_or_else(|| {
            let columns = match form {
                Form::Product(sum) => axes_of_parameter(g, *sum),
                Form::Source | Form::Map | Form::Rows | Form::Attention(..) => Vec::new(),
            };
            let others = g.node(node).axes.iter().filter(|a| !columns.contains(a));
            others.chain(columns.iter().copied()).collect()
        });
        let (mut quotient, mut remainder) = (None, None);
        let mut views = g.users(node);
        while let Some(id) = views.pop() {
            let Op::At(axis) = g.op(id) else { continue };
            let index = g.op(g.args(id)[1]);
            if *index == Op::Map(MapOp::IntDiv) {
                quotient = Some(*axis);
            } else if *index == Op::Map(MapOp::Mod) {
                remainder = Some(*axis);
            }
            views.extend(g.users(id));
        }
        for axis in quotient.into_iter().chain(remainder) {
            if let Some(at) = order.iter().position(|a| *a == axis) {
                let axis = order.remove(at);
                order.push(axis);
            }
        }
        // A product reads its rows in place where they are contiguous along what it sums over; so do other reductions.
        if quotient.is_none()
            && remainder.is_none()
            && let Some(depth) = self.summed_over(node).or_else(|| self.reduced_along(node))
            && let Some(at) = order.iter().position(|a| *a == depth)
        {
            let axis = order.remove(at);
            order.push(axis);
        }
        // A row-wise kernel runs along the axis that it binds.
        if let Op::Fused(FusedOp::Norm | FusedOp::Softmax | FusedOp::ExpNorm | FusedOp::SinkSoftmax, axis)
        | Op::CumSum(axis) = g.op(node)
            && let Some(at) = order.iter().position(|a| a == axis)
        {
            let axis = order.remove(at);
            order.push(axis);
        }
        order
    }
}
