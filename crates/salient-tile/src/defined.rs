//! Where the value of a node is defined, and who reports that it is not.
//!
//! An index outside its axis is an error where its value is used, and only there. A kernel computes a node for all
//! positions, used or not, so the two have to be told apart:
//!
//! * Values never fault: a strip reads nothing outside a tensor, whatever an index says, and goes on with a zero.
//! * An index outside is reported where a node is *demanded*, every element of it reaching an output outside of any choice,
//!   by whatever kernel computes the node. Whoever else reads a demanded node may take it to be defined.
//! * A reduction or a fused operator that is not demanded is computed in silence. Where its value is used, the choice
//!   `if defined then value else CULPRIT` stands in its place ([`check`]): the culprit is the element that was read
//!   outside, which reports itself.
//!
//! A check costs a pass of its own, so there are few: see [`MOST_CHECKS`].
//!
//! The condition is derived from the expression: a view is defined where its index lies inside and its tensor is defined
//! there, a choice where the arm that is taken is, a reduction where all of its elements are. Most conditions are proved
//! once and for all, by ranges or by the choice around them.

mod check;
mod domain;

use domain::{Domain, Facts, Literal, Terms, unless};
use salient_ir::{AxisId, AxisSet, Class, Dim, Graph, MapOp, NodeId, Op};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

/// What is known of every node of a graph.
#[derive(Clone, Debug, Default)]
pub(crate) struct Defined {
    /// Whether a node may be undefined somewhere, where what it reads and is demanded is defined.
    partial: Vec<bool>,
    /// Of a node of which every element reaches an output outside of any choice: the axes that must have positions for that.
    demanded: Vec<Option<AxisSet>>,
    /// Of those the axes that may have none although an output has elements.
    missing: Vec<Option<AxisSet>>,
    /// Whether such a node is in the expression of a node.
    may_report: Vec<bool>,
    /// Views of which the index may leave its axis, wherever they are used.
    open_views: BTreeSet<NodeId>,
    /// Arms of choices that are defined wherever the choice takes them.
    guarded: BTreeSet<(NodeId, usize)>,
    /// Whether every use of a node is inside such an arm, so that it is used where it is defined alone.
    covered: Vec<bool>,
}

impl Defined {
    /// Whether computing a node may have to report an index outside its axis.
    pub(crate) fn may_report(&self, id: NodeId) -> bool {
        self.may_report[id.index()]
    }

    /// Whether a node is a view of which the index itself is looked at.
    pub(crate) fn is_open_view(&self, id: NodeId) -> bool {
        self.open_views.contains(&id)
    }

    /// Whether every element of a node reaches an output outside of any choice, where any output has elements.
    pub(crate) fn is_demanded(&self, id: NodeId) -> bool {
        self.missing[id.index()].as_ref().is_some_and(AxisSet::is_empty)
    }

    /// The node itself, if it is demanded where the axes have positions that it needs.
    pub(crate) fn demanding(&self, id: NodeId) -> Option<NodeId> {
        self.demanded[id.index()].is_some().then_some(id)
    }

    /// The axes that must have positions for a demanded node to be used: those along which what uses it repeats it.
    pub(crate) fn needs(&self, demanded: NodeId) -> AxisSet {
        self.demanded[demanded.index()].clone().unwrap_or_default()
    }

    /// Whether readers of a node that is stored need not look at what it reads: it reports itself, or has been checked.
    pub(crate) fn is_settled(&self, g: &Graph, id: NodeId) -> bool {
        is_whole(g.op(id)) || self.may_be_stored(id)
    }

    /// Whether an element-wise node may be computed for all positions at once.
    pub(crate) fn may_be_stored(&self, id: NodeId) -> bool {
        !self.partial[id.index()] || self.is_demanded(id) || self.covered[id.index()]
    }

    /// Finds the nodes that are used inside of guarded arms alone.
    fn cover(&mut self, g: &Graph) {
        let mut covered = vec![false; g.len()];
        for id in g.ids().rev() {
            let is_covered = |user: NodeId| match g.op(user).class() {
                Class::Map => {
                    let reads = g.args(user).into_iter().enumerate().filter(|(_, arg)| *arg == id);
                    let is_choice = *g.op(user) == Op::Map(MapOp::Select);
                    covered[user.index()]
                        || reads.into_iter().all(|(n, _)| is_choice && self.is_guarded(user, n))
                }
                Class::View | Class::Concat => covered[user.index()],
                Class::Port | Class::Leaf | Class::Bind => false,
            };
            let users = g.users(id);
            let is_output = g.outputs().iter().any(|out| out.node == id);
            covered[id.index()] = !is_output && !users.is_empty() && users.into_iter().all(is_covered);
        }
        self.covered = covered;
    }

    /// Whether the arm of a choice is defined wherever the choice takes it.
    pub(crate) fn is_guarded(&self, choice: NodeId, arm: usize) -> bool {
        self.guarded.contains(&(choice, arm))
    }
}

/// The graph with a check where a stored value is used that may be undefined there, and what is known of its nodes.
pub(crate) fn defined(g: &Graph) -> (Cow<'_, Graph>, Defined) {
    let mut used = BTreeSet::new();
    loop {
        let found = Analysis::of(g, &used);
        let open = found.unchecked();
        if open.is_empty() {
            return (Cow::Borrowed(g), found.known);
        }
        if used.is_empty() && open.len() <= MOST_CHECKS {
            let checked = check::with_checks(found, &open);
            let known = Analysis::of(&checked, &used).known;
            return (Cow::Owned(checked), known);
        }
        used.extend(open);
    }
}

/// What is known of the nodes of a graph that has its checks.
pub(crate) fn known(g: &Graph) -> Defined {
    match defined(g) {
        (Cow::Borrowed(_), known) => known,
        (Cow::Owned(_), _) => Analysis::of(g, &BTreeSet::new()).known,
    }
}

/// Stored values up to which a check stands in front of each. Where a program has more of them, as a whole model has that is
/// pooled by a mask, they are taken to be used, and an index outside is refused whether they are or not.
pub const MOST_CHECKS: usize = 8;

/// Whether an operator's node is stored, or computed as a whole: a strip does not compute it on the way.
fn is_whole(op: &Op) -> bool {
    op.class() == Class::Bind
}

/// Clauses of a condition, and literals of a clause, up to which it is carried along; a larger one is one literal.
const MOST_CLAUSES: usize = 12;
const MOST_LITERALS: usize = 6;

/// The conditions of all nodes.
struct Analysis<'g> {
    g: &'g Graph,
    terms: Terms<'g>,
    /// What readers have to take into account.
    domains: Vec<Domain>,
    /// Conditions that stand as one literal in `domains`.
    large: BTreeMap<NodeId, Domain>,
    known: Defined,
}

impl<'g> Analysis<'g> {
    /// The analysis of a graph of which some nodes are taken to be used as outputs are.
    fn of(g: &'g Graph, used: &BTreeSet<NodeId>) -> Analysis<'g> {
        let demanded = demanded(g, used);
        // Where any output has elements, the axes have positions that all of them have.
        let has = |axes: &[AxisId], axis| axes.iter().any(|own| g.extent(*own) == g.extent(axis));
        let may_miss = |axis: &AxisId| !used.is_empty() || !g.outputs().iter().all(|o| has(&o.axes, *axis));
        let missing =
            demanded.iter().map(|needs| needs.as_ref().map(|n| n.iter().filter(may_miss).collect()));
        let known = Defined { missing: missing.collect(), demanded, ..Defined::default() };
        let (domains, large) = (Vec::with_capacity(g.len()), BTreeMap::new());
        let mut out = Analysis { g, terms: Terms::new(g), domains, large, known };
        for id in g.ids() {
            let domain = out.domain(id);
            let domain = out.limited(id, domain);
            let reads = |a: &NodeId| !is_whole(g.op(*a)) && out.known.may_report(*a);
            let inside = !is_whole(g.op(id)) && g.args(id).iter().any(reads);
            out.known.partial.push(!domain.is_empty());
            out.known.may_report.push(!domain.is_empty() || inside);
            // What is demanded in any case reports itself.
            out.domains.push(if out.known.is_demanded(id) { Domain::new() } else { domain });
        }
        out.known.cover(g);
        out
    }

    fn domain_of(&self, id: NodeId) -> &Domain {
        &self.domains[id.index()]
    }

    /// The literal that says that a node is defined.
    fn literal(&self, id: NodeId) -> Literal {
        Literal::Defined { node: id, place: self.terms.own_position(id) }
    }

    /// A condition that is too large to be carried along as a literal of its own.
    fn limited(&mut self, id: NodeId, mut domain: Domain) -> Domain {
        domain.dedup();
        if domain.len() <= MOST_CLAUSES && domain.iter().all(|clause| clause.len() <= MOST_LITERALS) {
            return domain;
        }
        self.large.insert(id, domain);
        vec![vec![self.literal(id)]]
    }

    /// The condition under which a node is defined, from those of its arguments.
    fn domain(&mut self, id: NodeId) -> Domain {
        let (g, args) = (self.g, self.g.args(id));
        if args.iter().all(|a| self.domain_of(*a).is_empty()) && !matches!(g.op(id), Op::At(_)) {
            return Domain::new();
        }
        match g.op(id) {
            Op::Input(_) | Op::Param(_) | Op::Const(_) | Op::Iota(_) | Op::Extent(_) => Domain::new(),
            Op::Map(MapOp::Select) => {
                let mut domain = self.domain_of(args[0]).clone();
                for arm in [1, 2] {
                    domain.extend(self.arm(id, arm, args[0], args[arm]));
                }
                domain
            }
            Op::Map(_) => {
                let mut domain = Domain::new();
                for arg in args {
                    let clauses = self.domain_of(arg).iter();
                    let new: Domain = clauses.filter(|c| !domain.contains(c)).cloned().collect();
                    domain.extend(new);
                }
                domain
            }
            Op::At(axis) => self.view(id, *axis, args[0], args[1]),
            Op::Concat(axis, parts) => self.parts(*axis, parts, &args),
            Op::Reduce(_, axis) | Op::CumSum(_, axis) | Op::Fused(_, axis) => self.whole(id, *axis, &args),
        }
    }

    /// The condition that an arm of a choice puts on it.
    fn arm(&mut self, choice: NodeId, arm: usize, condition: NodeId, value: NodeId) -> Domain {
        let domain = self.domain_of(value).clone();
        if domain.is_empty() {
            return domain;
        }
        let (place, holds) = (self.terms.own_position(condition), arm == 1);
        let mut facts = Facts::default();
        self.terms.learn(condition, &place, holds, &mut facts);
        let open: Domain = domain.into_iter().filter(|clause| !self.terms.proves(&facts, clause)).collect();
        if open.is_empty() {
            self.known.guarded.insert((choice, arm));
        }
        unless(open, Literal::Truth { node: condition, place, holds: !holds })
    }

    fn view(&mut self, id: NodeId, axis: AxisId, tensor: NodeId, index: NodeId) -> Domain {
        let g = self.g;
        let mut domain = self.domain_of(index).clone();
        let extent = g.extent(axis);
        let renamed = g.is_renamed(axis, index);
        if renamed && self.domain_of(tensor).is_empty() {
            return domain;
        }
        let place = self.terms.own_position(id);
        let at = self.terms.polynomial(index, &place);
        if !renamed && !self.terms.ranges([&at]).inside(&at, extent) {
            let known = domain.len();
            domain.extend(self.terms.nonnegative(index, &place, 1, &Dim::constant(0)));
            domain.extend(self.terms.nonnegative(index, &place, -1, &(extent - &Dim::constant(1))));
            if domain.len() > known {
                self.known.open_views.insert(id);
            }
        }
        domain.extend(self.terms.substitute(&self.domains[tensor.index()], axis, &at));
        domain
    }

    fn parts(&mut self, axis: AxisId, parts: &[AxisId], args: &[NodeId]) -> Domain {
        let (mut domain, mut start) = (Domain::new(), Dim::constant(0));
        let along = self.terms.axis(axis);
        for (part, arg) in parts.iter().zip(args) {
            let (position, extent) = (&along - &start, self.g.extent(*part));
            let own = self.terms.substitute(&self.domains[arg.index()], *part, &position);
            let before = Literal::Nonnegative(&(&start - &along) - &Dim::constant(1));
            let after = Literal::Nonnegative(&position - extent);
            domain.extend(unless(unless(own, before), after));
            start = &start + extent;
        }
        domain
    }

    /// All elements along the axis must be defined, if there are any.
    fn whole(&mut self, id: NodeId, axis: AxisId, args: &[NodeId]) -> Domain {
        let g = self.g;
        let mut domain = Domain::new();
        for arg in args {
            for clause in self.domain_of(*arg).clone() {
                match self.all_along(clause, axis) {
                    Some(clause) => domain.push(clause),
                    None => return vec![vec![self.literal(id)]],
                }
            }
        }
        match g.extent(axis).as_constant() {
            Some(n) if n > 0 => domain,
            _ => unless(domain, Literal::Nonnegative(&Dim::constant(0) - g.extent(axis))),
        }
    }

    /// The clause for all positions of an axis, where that is a clause.
    fn all_along(&mut self, clause: Vec<Literal>, axis: AxisId) -> Option<Vec<Literal>> {
        if !self.terms.mentions(&clause, axis) {
            return Some(clause);
        }
        let [Literal::Nonnegative(p)] = clause.as_slice() else { return None };
        // A linear polynomial is least at one of the ends.
        let end = match self.terms.slope(p, axis)? {
            n if n > 0 => Dim::constant(0),
            _ => self.g.extent(axis) - &Dim::constant(1),
        };
        Some(self.terms.substitute_clause(&clause, axis, &end))
    }

    /// Whether readers of a node have to take into account that it may be undefined.
    fn is_open(&self, id: NodeId) -> bool {
        !self.domain_of(id).is_empty()
    }

    /// The stored nodes that report nothing and are used where they may be undefined.
    fn unchecked(&self) -> BTreeSet<NodeId> {
        let (g, known) = (self.g, &self.known);
        let mut open = BTreeSet::new();
        let mut seen = vec![false; g.len()];
        let mut stack: Vec<NodeId> = g.ids().filter(|id| known.demanding(*id).is_some()).collect();
        while let Some(id) = stack.pop() {
            let is_silent = is_whole(g.op(id)) && !known.is_demanded(id);
            if std::mem::replace(&mut seen[id.index()], true) || is_silent && !self.is_open(id) {
                continue;
            }
            if is_silent {
                open.insert(id);
            }
            // The elements of what is checked are looked at where it is undefined.
            let guarded = |n: usize| matches!(g.op(id), Op::Map(MapOp::Select)) && known.is_guarded(id, n);
            stack.extend(g.args(id).into_iter().enumerate().filter(|(n, _)| !guarded(*n)).map(|(_, a)| a));
        }
        open
    }
}

/// For each node of which all elements reach an output outside of any choice, or a node taken to be used, the axes that must
/// have positions for that.
fn demanded(g: &Graph, used: &BTreeSet<NodeId>) -> Vec<Option<AxisSet>> {
    let outputs = g.outputs().iter().map(|o| (o.node, o.axes.iter().copied().collect()));
    let roots = outputs.chain(used.iter().map(|id| (*id, AxisSet::new())));
    salient_ir::demand::demanded(g, roots, |index, axis| covers(g, index, axis))
}

/// Whether an index takes every position of an axis: another name of it, its reverse, or two axes that are its parts.
fn covers(g: &Graph, index: NodeId, axis: AxisId) -> bool {
    let mut terms = Terms::new(g);
    let place = terms.own_position(index);
    let at = terms.polynomial(index, &place);
    let (extent, axes) = (g.extent(axis), g.node(index).axes.as_slice());
    let slope = |of: AxisId| {
        let symbol = terms.axis(of);
        at.linear_in(symbol.as_symbol().expect("an axis is a symbol"))
    };
    match *axes {
        [one] if g.extent(one) == extent => {
            let last = extent - &Dim::constant(1);
            slope(one).is_some_and(|(slope, rest)| match slope.as_constant() {
                Some(1) => rest == Dim::constant(0),
                Some(-1) => rest == last,
                _ => false,
            })
        }
        [a, b] if *extent == g.extent(a) * g.extent(b) => {
            [(a, b), (b, a)].into_iter().any(|(outer, inner)| {
                let place = &(&terms.axis(outer) * g.extent(inner)) + &terms.axis(inner);
                at == place
            })
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests;
