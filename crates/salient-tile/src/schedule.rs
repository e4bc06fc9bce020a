//! A graph cut into kernels: what is stored, in which layout, and which kernel computes it.
//!
//! Reductions and fused operators are stored, because a strip cannot compute them on the way; everything else is computed
//! where it is needed. Three exceptions save a pass over memory: what follows a product or an attention element by element
//! belongs to its kernel, products inside scores that attentions alone read are not stored, and what a norm needs of each row
//! is held by the kernel that stores the row.

use crate::attend::attend;
use crate::attention::attention;
use crate::contraction::{Contraction, contraction};
use crate::defined::defined;
use crate::index::Ranges;
use crate::join::join;
use crate::kernel::{Append, Buffer, BufferId, Kernel, Program, Role};
use crate::layout::{layout, order_of_output};
use crate::load::split;
use crate::maker::{Target, stored};
use crate::map::{append, map};
use crate::plan::{Form, Planner};
use crate::product::product;
use crate::repeat::{Around, Repeats};
use crate::rows::{cumulate, log_sum_exp, normalise, reduce, with_statistics};
use crate::strip::{Scope, Stored};
use crate::tiling::Tiling;
use salient_ir::quantised::Coding;
use salient_ir::{AxisId, AxisSet, FusedOp, Graph, NodeId, Op, text};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

/// How a graph is cut.
#[derive(Clone, Copy, Debug)]
pub struct Options<'a> {
    /// Whether element-wise operators join the kernels around them. Without, each is a kernel of its own.
    pub fuse: bool,
    /// Sizes of tiles and blocks.
    pub tiling: Tiling,
    /// Whether every product is taken as written: no scale of scores is multiplied into the queries.
    pub keeps_order: bool,
    /// Parameters that will be given in blocks of few bits, by position among the graph's.
    pub coded: &'a BTreeMap<usize, Coding>,
    /// Chains of equal blocks of the graph: for each block its nodes, corresponding ones at the same position.
    pub chains: &'a [Vec<Vec<NodeId>>],
}

impl Default for Options<'_> {
    fn default() -> Self {
        const NONE: &BTreeMap<usize, Coding> = &BTreeMap::new();
        Options { fuse: true, tiling: Tiling::default(), keeps_order: false, coded: NONE, chains: &[] }
    }
}

/// The program of a graph.
pub fn schedule(g: &Graph, options: Options<'_>) -> Program {
    let (checked, known) = defined(g);
    let g = &*checked;
    // Checks are nodes of their own: blocks that have some are scheduled one by one.
    let chains = if matches!(checked, Cow::Borrowed(_)) { options.chains } else { &[] };
    let names = text::node_names(g);
    let mut out = Assembler::new(g, &names);
    let forms = Planner::new(g, &known, options.fuse).plan();
    let mut scope = Scope {
        graph: g,
        defined: &known,
        stored: BTreeMap::new(),
        panels: BTreeMap::new(),
        coded: options.coded,
        tiling: options.tiling,
        keeps_order: options.keeps_order,
        rows: BTreeMap::new(),
        ranges: Ranges::default(),
        reads: BTreeSet::new(),
        inlined: BTreeSet::new(),
        checks: Vec::new(),
        limits: Vec::new(),
        names: &names,
    };
    for (node, form) in &forms {
        let Form::Source = form else { continue };
        if let Some((id, at)) = out.source(*node) {
            scope.stored.insert(*node, at);
            out.homes.insert(*node, id);
        }
    }
    let mut repeats = Repeats::new(if options.fuse { chains } else { &[] });
    for (node, form) in &forms {
        if let Form::Source = form {
            continue;
        }
        let id = out.home(*node, form);
        let buffer = out.buffers[id.0].clone();
        let target = Target { node: *node, id, buffer: &buffer };
        let same =
            repeats.before(*node).and_then(|n| forms.get(&n)).is_some_and(|f| form.follows(f, &repeats));
        let same = same && out.appends_alike(*node, &repeats);
        let mut around = Around { scope: &mut scope, buffers: &mut out.buffers, homes: &out.homes };
        let copied = if same { repeats.copy(*node, &out.kernels, &names, &mut around) } else { None };
        if let Some(copied) = copied {
            out.append_again(*node, &repeats);
            out.copies.extend(copied.of.map(|of| Some(out.copies[of].unwrap_or(of))).collect::<Vec<_>>());
            out.kernels.extend(copied.kernels);
        } else {
            let (buffers, checks) = (out.buffers.len(), scope.checks.len());
            let kernels = match out.append(&mut scope, target) {
                Some(kernel) => vec![kernel],
                None => compute(&mut scope, form, target, &mut out.buffers),
            };
            let made = out.kernels.len()..out.kernels.len() + kernels.len();
            repeats.note(*node, made, buffers..out.buffers.len(), scope.checks.len() > checks);
            out.push_kernels(kernels);
        }
        scope.stored.insert(*node, stored(id, &buffer));
    }
    for k in 0..g.outputs().len() {
        if out.with_role(Role::Output(k)).is_none() {
            let id = out.output(k, g.outputs()[k].axes.clone());
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
        limits: scope.limits,
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
        Form::Statistics(axis) => vec![with_statistics(scope, target, *axis)],
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
        let input = self.state_before(target.id)?;
        let kernel = append(scope, input, target.node, target.id, target.buffer)?;
        self.appends.push(Append { input, output: target.id });
        Some(kernel)
    }

    /// Where the state lies before the call whose value after it a buffer holds.
    fn state_before(&self, buffer: BufferId) -> Option<BufferId> {
        let Role::Output(k) = self.buffers[buffer.0].role else { return None };
        let state = self.g.states().iter().find(|s| s.output == k)?;
        self.with_role(Role::Input(state.input))
    }

    /// The states before the call that belong to a node and to that of the block before, if they are states.
    fn states(&self, node: NodeId, repeats: &Repeats<'_>) -> Option<[Option<BufferId>; 2]> {
        let before = self.homes.get(&repeats.before(node)?)?;
        Some([*before, *self.homes.get(&node)?].map(|home| self.state_before(home)))
    }

    /// Whether a node is a state as the one of the block before is.
    fn appends_alike(&self, node: NodeId, repeats: &Repeats<'_>) -> bool {
        match self.states(node, repeats) {
            Some([None, None]) => true,
            Some([Some(before), Some(own)]) => {
                repeats.shift(self.buffers[before.0].node) == self.buffers[own.0].node
            }
            Some([Some(_), None] | [None, Some(_)]) | None => false,
        }
    }

    /// Notes that a call appends to the state that a node is, if it does to that of the block before.
    fn append_again(&mut self, node: NodeId, repeats: &Repeats<'_>) {
        if let Some([Some(before), Some(input)]) = self.states(node, repeats)
            && self.appends.iter().any(|a| a.input == before)
        {
            self.appends.push(Append { input, output: self.homes[&node] });
        }
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

    fn output(&mut self, k: usize, axes: Vec<AxisId>) -> BufferId {
        let out = &self.g.outputs()[k];
        self.push(out.name.to_string(), Role::Output(k), out.node, axes)
    }

    /// Where a node is stored: in an output that is nothing but it, else in a temporary.
    fn home(&mut self, node: NodeId, form: &Form) -> BufferId {
        // Along an axis that the node lacks an output repeats it; whoever reads the node wants it once.
        let once = self.g.outputs().iter().filter(|o| o.node == node).count() == 1;
        let repeated = once && self.g.users(node).is_empty() && matches!(form, Form::Map);
        let direct = self.g.outputs().iter().enumerate().find_map(|(k, out)| {
            let order = order_of_output(self.g, out).or_else(|| repeated.then(|| out.axes.clone()));
            order.filter(|_| out.node == node).map(|order| (k, order))
        });
        let id = match direct {
            Some((k, order)) => self.output(k, order),
            None => {
                let name =
                    self.names[node.index()].clone().unwrap_or_else(|| format!("value.{}", node.index()));
                self.push(name, Role::Temporary, node, layout(self.g, node, form.product()))
            }
        };
        self.homes.insert(node, id);
        id
    }
}
