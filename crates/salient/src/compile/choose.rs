//! Which plan is compiled: that which has the least price.
//!
//! A model has several plans: of its graph as written or as the optimiser has made it, and with a kernel for each operator or
//! with operators joined. The fused plan is nearly always the cheapest: where it costs less than the program as written takes at
//! least, no other is made, and it is taken where it costs no more than that of the program as written, and where joining the
//! operators as written does not cost much less ([`WORTH_ANOTHER`]) with no further array of scores stored. Else the cheapest of all
//! is taken; where fusion is required, the fused plan is at any price. Plans that differ by less than [`TIE`] cost the same, and of
//! these the most fused is taken.
//!
//! Where another form costs much less at few rows, it is compiled beside that, and each call runs the one for its sizes. What each of
//! the two makes of parameters is held for as long as they are bound, so only models of few parameters have two.

use crate::compile::options::Options;
use crate::compile::pipeline::{is_fused, tiling};
use salient_ir::quantised::Coding;
use salient_ir::{Bindings, Dim, Graph, Name, NodeId, Port};
use salient_opt::{Fp, Optimised, in_one_sum};
use salient_tile::plan::price::{Machine, ROWS, floor_as_written, nominal_sizes};
use salient_tile::verify::unfused::unfused;
use salient_tile::{Plan, plan};
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// Prices cost the same up to this factor.
pub const TIE: f64 = 1.05;

/// How many times as much the fused plan must cost as another one for that to be compiled in its place, or beside it where that
/// holds at few rows.
pub(crate) const WORTH_ANOTHER: f64 = 1.15;

/// The core of plans that are made for none in particular.
static USUAL: LazyLock<Machine> = LazyLock::new(Machine::default);

/// The most bytes that the parameters of a model with two plans may have: each of the plans holds them as it reads them.
const HELD_TWICE: i64 = 4 << 20;

/// Few rows, at which plans are compared again.
const FEW: [i64; 3] = [1, 16, 64];

/// A form of the plan of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// As [`Form::Fused`], with attentions over the same values in one sum, whatever their rows; where there are none it is that.
    OneSum,
    /// The optimiser's graph, operators joined in kernels.
    Fused,
    /// The graph as written, operators joined in kernels.
    Joined,
    /// The optimiser's graph, a kernel for each operator.
    Apart,
    /// The graph as written, a kernel for each operator: what the unfused engine runs.
    AsWritten,
}

impl Form {
    /// Every form, the most fused first.
    pub const ALL: [Form; 5] = [Form::OneSum, Form::Fused, Form::Joined, Form::Apart, Form::AsWritten];

    /// The words for it in reports.
    pub fn name(self) -> &'static str {
        match self {
            Form::OneSum => "fused, with attentions in one sum",
            Form::Fused => "fused",
            Form::Joined => "as written, with operators joined",
            Form::Apart => "fused, with a kernel for each operator",
            Form::AsWritten => "as written",
        }
    }

    /// Whether it is what fusion makes of a model.
    pub fn is_fused(self) -> bool {
        match self {
            Form::OneSum | Form::Fused => true,
            Form::Joined | Form::Apart | Form::AsWritten => false,
        }
    }

    /// Whether it is of the optimiser's graph.
    pub(crate) fn is_optimised(self) -> bool {
        match self {
            Form::Fused | Form::Apart => true,
            Form::OneSum | Form::Joined | Form::AsWritten => false,
        }
    }

    /// Whether operators are joined in kernels.
    fn joins(self) -> bool {
        match self {
            Form::OneSum | Form::Fused | Form::Joined => true,
            Form::Apart | Form::AsWritten => false,
        }
    }
}

/// A form that is compiled beside the one that is taken, for few rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alternative {
    /// It runs where this dimension is below so many.
    pub below: (Name, i64),
    /// What runs there.
    pub form: Form,
    /// The elements of the model's parameters, of which each plan holds its own copy: where they are many, the plan that is taken runs
    /// at all sizes.
    pub parameters: Dim,
}

impl std::fmt::Display for Alternative {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (name, below) = &self.below;
        write!(f, "where {name} < {below}")?;
        if self.parameters.as_constant() != Some(0) {
            write!(f, " and parameters have at most {} MiB", HELD_TWICE >> 20)?;
        }
        write!(f, ": the plan {}, which costs less there", self.form.name())
    }
}

impl Alternative {
    /// Whether it runs at these sizes.
    pub(crate) fn holds(&self, sizes: &Bindings) -> bool {
        let (name, below) = &self.below;
        self.may_be_held(sizes) && sizes.get(name).is_some_and(|size| size < below)
    }

    /// Whether the parameters are few enough at these sizes for both plans to hold them.
    pub(crate) fn may_be_held(&self, sizes: &Bindings) -> bool {
        are_few(&self.parameters, sizes)
    }
}

/// Whether so many elements of parameters may be held twice.
fn are_few(parameters: &Dim, sizes: &Bindings) -> bool {
    parameters.eval(sizes).is_ok_and(|elements| elements.saturating_mul(4) <= HELD_TWICE)
}

/// Why a plan is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// It costs the least, but for a tie.
    LeastPrice,
    /// It costs much less than the fused plan, and stores no more arrays of scores.
    MuchLess,
    /// Fusion is required, at any price.
    FusionRequired,
    /// Its form is asked for, at any price.
    FormRequired,
}

/// The prices by which a plan was chosen.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// The sizes that they are at.
    pub sizes: Bindings,
    /// The form that is compiled.
    pub taken: Form,
    /// What is compiled beside it, for other sizes.
    pub alternative: Option<Alternative>,
    /// Why it is that.
    pub reason: Reason,
    /// Seconds that no plan of the program as written goes below.
    pub floor: Option<f64>,
    /// Seconds of each form that was priced.
    pub prices: Vec<(Form, f64)>,
}

impl Verdict {
    /// Seconds of a form, if it was priced.
    pub fn price(&self, form: Form) -> Option<f64> {
        self.prices.iter().find(|(of, _)| *of == form).map(|(_, seconds)| *seconds)
    }

    /// What is to be said where the plan that is compiled is priced above that of the program as written.
    pub fn warning(&self) -> Option<String> {
        dearer(self.taken, self.price(self.taken)?, self.price(Form::AsWritten)?)
    }
}

/// What is to be said of a plan that is priced at so many seconds, beside that of the program as written; nothing where it costs
/// no more, or the same but for a tie.
fn dearer(taken: Form, price: f64, written: f64) -> Option<String> {
    (price > TIE * written).then(|| {
        let [price, written] = [price, written].map(|seconds| seconds * 1e3);
        let name = taken.name();
        format!("the plan that is compiled ({name}) is priced at {price:.3} ms, that of the program as written at {written:.3} ms")
    })
}

/// What plans of a model are made from.
pub(crate) struct Candidates<'a> {
    source: &'a Graph,
    optimised: &'a Optimised,
    /// The optimiser's graph with attentions in one sum, if it has such.
    one_sum: Option<Graph>,
    coded: BTreeMap<usize, Coding>,
    options: &'a Options,
}

/// A plan with its price.
struct Tried<'p> {
    form: Form,
    seconds: f64,
    plan: Plan<'p>,
}

impl Tried<'_> {
    /// Whether it costs much less than a fused plan and does nothing more that fused attention does not do.
    fn replaces(&self, fused: &Tried<'_>) -> bool {
        let unasked = |plan| unfused(plan).iter().filter(|found| !found.is_asked_for).count();
        self.seconds * WORTH_ANOTHER < fused.seconds && unasked(&self.plan) <= unasked(&fused.plan)
    }
}

/// The first plan that costs the least but for a tie.
fn cheapest(tried: &[Tried<'_>]) -> usize {
    let least = tried.iter().map(|t| t.seconds).fold(f64::INFINITY, f64::min);
    tried.iter().position(|t| t.seconds <= TIE * least).unwrap_or(0)
}

impl<'a> Candidates<'a> {
    pub(crate) fn new(source: &'a Graph, optimised: &'a Optimised, options: &'a Options) -> Candidates<'a> {
        let is_asked_for = options.form == Some(Form::OneSum);
        let has_one_sum = is_asked_for || may_have_two(source, options);
        let one_sum = has_one_sum.then(|| in_one_sum(&optimised.graph, options.fp)).flatten();
        Candidates { source, optimised, one_sum, coded: coded(&optimised.graph, options), options }
    }

    /// The graph that a form is planned from.
    pub(crate) fn graph(&self, form: Form) -> &Graph {
        match form {
            Form::OneSum => self.one_sum.as_ref().unwrap_or(&self.optimised.graph),
            Form::Fused | Form::Apart => &self.optimised.graph,
            Form::Joined | Form::AsWritten => self.source,
        }
    }

    pub(crate) fn plan(&self, form: Form) -> Plan<'_> {
        let chains: &[Vec<Vec<NodeId>>] = if form.is_optimised() { &self.optimised.chains } else { &[] };
        plan_of(self.graph(form), form.joins(), chains, &self.coded, self.options)
    }

    /// What is to be said where fusion is required and the fused plan is dearer than that of the program as written. No plan is made
    /// of that where the fused one costs less than it takes at least.
    pub(crate) fn warning(&self) -> Option<String> {
        let machine = self.machine();
        let sizes = nominal_sizes(self.source, &Bindings::new());
        let price = self.plan(Form::Fused).price(&sizes, machine)?.seconds();
        let is_least =
            floor_as_written(self.source, &sizes, machine).is_some_and(|floor| price <= TIE * floor);
        if is_least || !self.options.require_fused || !self.coded.is_empty() {
            return None;
        }
        dearer(Form::Fused, price, self.plan(Form::AsWritten).price(&sizes, machine)?.seconds())
    }

    fn machine(&self) -> &'a Machine {
        if self.options.usual_core { &USUAL } else { &self.options.tuning.peaks }
    }

    fn tried(&self, form: Form, sizes: &Bindings) -> Option<Tried<'_>> {
        let plan = self.plan(form);
        let seconds = plan.price(sizes, self.machine())?.seconds();
        Some(Tried { form, seconds, plan })
    }

    /// The plan that is compiled, and why. With `all`, every form is priced, also where that decides nothing.
    pub(crate) fn choose(&self, all: bool) -> (Plan<'_>, Verdict) {
        let sizes = nominal_sizes(self.source, &Bindings::new());
        let floor = floor_as_written(self.source, &sizes, self.machine());
        let is_required = self.options.require_fused;
        let reason = if is_required { Reason::FusionRequired } else { Reason::LeastPrice };
        let (taken, alternative, prices) = (Form::Fused, None, Vec::new());
        let mut verdict = Verdict { sizes, taken, alternative, reason, floor, prices };
        if let Some(form) = self.options.form {
            return self.asked_for(form, verdict);
        }
        let fused = self.one_sum.is_some().then_some(Form::OneSum).into_iter().chain([Form::Fused]);
        let mut tried: Vec<Tried<'_>> = fused.filter_map(|form| self.tried(form, &verdict.sizes)).collect();
        if tried.is_empty() {
            return (self.plan(Form::Fused), verdict);
        }
        let mut at = cheapest(&tried);
        let price = tried[at].seconds;
        let is_least = floor.is_some_and(|floor| price <= TIE * floor);
        // Parameters in codes are read by products of fused plans alone.
        if (all || !is_least && !is_required)
            && self.coded.is_empty()
            && let Some(written) = self.tried(Form::AsWritten, &verdict.sizes)
        {
            let stays = is_required || price <= TIE * written.seconds;
            let joined = self.tried(Form::Joined, &verdict.sizes);
            let is_replaced =
                stays && !is_required && joined.as_ref().is_some_and(|joined| joined.replaces(&tried[at]));
            let replacement = tried.len();
            tried.extend(joined);
            tried.extend((all || !stays).then(|| self.tried(Form::Apart, &verdict.sizes)).flatten());
            tried.push(written);
            if is_replaced {
                (at, verdict.reason) = (replacement, Reason::MuchLess);
            } else if !stays {
                at = cheapest(&tried);
            }
        }
        verdict.prices = tried.iter().map(|t| (t.form, t.seconds)).collect();
        let taken = tried.swap_remove(at);
        verdict.taken = taken.form;
        debug_assert!(
            is_required
                || verdict.price(Form::AsWritten).is_none_or(|written| taken.seconds <= TIE * written),
            "the plan that is taken is dearer than that of the program as written"
        );
        verdict.alternative = self.alternative(&verdict, &taken.plan);
        (taken.plan, verdict)
    }

    /// The plan of a form, whatever it costs.
    fn asked_for(&self, form: Form, verdict: Verdict) -> (Plan<'_>, Verdict) {
        let taken = if form == Form::OneSum && self.one_sum.is_none() { Form::Fused } else { form };
        let plan = self.plan(taken);
        let price = plan.price(&verdict.sizes, self.machine());
        let prices = price.map(|price| (taken, price.seconds())).into_iter().collect();
        (plan, Verdict { taken, reason: Reason::FormRequired, prices, ..verdict })
    }

    /// The form that costs much less at few rows than the plan that is taken, if there is one, and for how many rows.
    fn alternative(&self, verdict: &Verdict, taken: &Plan<'_>) -> Option<Alternative> {
        if !may_have_two(self.source, self.options) {
            return None;
        }
        let price = |plan: &Plan<'_>, sizes: &Bindings| Some(plan.price(sizes, self.machine())?.seconds());
        let mut found: Option<(f64, Name, Form, Plan<'_>)> = None;
        for name in verdict.sizes.iter().filter(|(_, size)| **size == ROWS).map(|(name, _)| name) {
            for few in FEW {
                let sizes = with(&verdict.sizes, name, few);
                let own = price(taken, &sizes)?;
                for form in self.others(verdict, own, &sizes) {
                    let plan = self.plan(form);
                    let gain = price(&plan, &sizes).map_or(0.0, |seconds| own / seconds);
                    if gain > WORTH_ANOTHER && found.as_ref().is_none_or(|(most, ..)| gain > *most) {
                        found = Some((gain, name.clone(), form, plan));
                    }
                }
            }
        }
        let (_, name, form, plan) = found?;
        let is_cheaper = |rows: i64| {
            let sizes = with(&verdict.sizes, &name, rows);
            let (own, other) = (price(taken, &sizes), price(&plan, &sizes));
            own.zip(other).is_some_and(|(own, other)| other * TIE < own)
        };
        // The least number of rows at which it is not cheaper any more, between few and many. What the program as written stores may
        // grow with their square.
        let many = if form.is_fused() { ROWS } else { FEW[FEW.len() - 1] + 1 };
        let (mut cheaper, mut below) = (FEW.into_iter().rev().find(|few| is_cheaper(*few))?, many);
        while below - cheaper > 1 {
            let middle = cheaper + (below - cheaper) / 2;
            if is_cheaper(middle) { cheaper = middle } else { below = middle }
        }
        let parameters = elements_of_parameters(self.source);
        Some(Alternative { below: (name, below), form, parameters })
    }

    /// The forms that may cost less at these sizes than one that takes so many seconds.
    fn others(&self, verdict: &Verdict, seconds: f64, sizes: &Bindings) -> Vec<Form> {
        let floor = floor_as_written(self.source, sizes, self.machine());
        let is_least = floor.is_some_and(|floor| seconds <= WORTH_ANOTHER * floor);
        let may_be = |form: &Form| match form {
            Form::OneSum => self.one_sum.is_some(),
            Form::Fused => true,
            Form::Joined | Form::Apart | Form::AsWritten => {
                !is_least && matches!(verdict.reason, Reason::LeastPrice | Reason::MuchLess)
            }
        };
        Form::ALL.into_iter().filter(|form| *form != verdict.taken).filter(may_be).collect()
    }
}

/// Whether a model may have two plans: what states hold belongs to one, and each has its own copy of what it makes of parameters.
fn may_have_two(graph: &Graph, options: &Options) -> bool {
    let is_free = !options.one_plan && options.form.is_none() && options.coded.is_empty();
    let sizes = || nominal_sizes(graph, &Bindings::new());
    is_free && graph.states().is_empty() && are_few(&elements_of_parameters(graph), &sizes())
}

/// Elements of a model's parameters.
fn elements_of_parameters(graph: &Graph) -> Dim {
    let elements =
        |port: &Port| port.axes.iter().fold(Dim::constant(1), |product, axis| &product * graph.extent(*axis));
    graph.params().iter().fold(Dim::constant(0), |sum, port| &sum + &elements(port))
}

/// Sizes with another one of a dimension.
fn with(sizes: &Bindings, name: &Name, size: i64) -> Bindings {
    let mut sizes = sizes.clone();
    sizes.insert(name.clone(), size);
    sizes
}

/// The plan of a graph, by the options of the planner that follow from those of the user.
pub(crate) fn plan_of<'g>(
    graph: &'g Graph,
    fuse: bool,
    chains: &'g [Vec<Vec<NodeId>>],
    coded: &'g BTreeMap<usize, Coding>,
    options: &Options,
) -> Plan<'g> {
    let keeps_order = !fuse || options.fp == Fp::Strict;
    plan(graph, salient_tile::Options { fuse, tiling: tiling(options), keeps_order, coded, chains })
}

/// The parameters of a graph that are given in blocks, by position.
pub(crate) fn coded(graph: &Graph, options: &Options) -> BTreeMap<usize, Coding> {
    let of = |(at, port): (usize, &Port)| Some((at, *options.coded.get(&*port.name)?));
    if is_fused(options) {
        graph.params().iter().enumerate().filter_map(of).collect()
    } else {
        BTreeMap::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_is_warned_of_where_it_is_dearer_by_more_than_a_tie() {
        assert_eq!(dearer(Form::Fused, 2.0e-3, 2.0e-3), None);
        assert_eq!(dearer(Form::Fused, 2.09e-3, 2.0e-3), None);
        let said = dearer(Form::Joined, 2.5e-3, 2.0e-3).expect("a quarter more");
        assert!(said.contains("(as written, with operators joined) is priced at 2.500 ms"), "{said}");
        assert!(said.ends_with("that of the program as written at 2.000 ms"), "{said}");
    }
}
