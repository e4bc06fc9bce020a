//! Which plan is compiled: that which has the least price.
//!
//! A model has several plans: of its graph as written or as the optimiser has made it, and with a kernel for each operator or
//! with operators joined. The fused plan is nearly always the cheapest: where it costs less than the program as written takes at
//! least, no other is made, and it is taken where it costs no more than that of the program as written. Else the cheapest of all
//! is taken; where fusion is required, the fused plan is at any price. Plans that differ by less than [`TIE`] cost the same, and of these the most fused is taken.

use crate::compile::options::Options;
use crate::compile::pipeline::{is_fused, tiling};
use salient_ir::quantised::Coding;
use salient_ir::{Bindings, Graph, NodeId, Port};
use salient_opt::{Fp, Optimised};
use salient_tile::plan::price::{floor_as_written, nominal_sizes};
use salient_tile::{Plan, plan};
use std::collections::BTreeMap;

/// Prices cost the same up to this factor.
pub const TIE: f64 = 1.05;

/// A form of the plan of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
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
    pub const ALL: [Form; 4] = [Form::Fused, Form::Joined, Form::Apart, Form::AsWritten];

    /// The words for it in reports.
    pub fn name(self) -> &'static str {
        match self {
            Form::Fused => "fused",
            Form::Joined => "as written, with operators joined",
            Form::Apart => "fused, with a kernel for each operator",
            Form::AsWritten => "as written",
        }
    }

    /// Whether it is of the optimiser's graph.
    pub(crate) fn is_optimised(self) -> bool {
        match self {
            Form::Fused | Form::Apart => true,
            Form::Joined | Form::AsWritten => false,
        }
    }

    /// Whether operators are joined in kernels.
    fn joins(self) -> bool {
        match self {
            Form::Fused | Form::Joined => true,
            Form::Apart | Form::AsWritten => false,
        }
    }
}

/// The prices by which a plan was chosen.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// The sizes that they are at.
    pub sizes: Bindings,
    /// The form that is compiled.
    pub taken: Form,
    /// Whether it is taken at any price.
    pub is_required: bool,
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
    coded: BTreeMap<usize, Coding>,
    options: &'a Options,
}

impl<'a> Candidates<'a> {
    pub(crate) fn new(source: &'a Graph, optimised: &'a Optimised, options: &'a Options) -> Candidates<'a> {
        Candidates { source, optimised, coded: coded(&optimised.graph, options), options }
    }

    pub(crate) fn plan(&self, form: Form) -> Plan<'_> {
        let (graph, chains): (_, &[Vec<Vec<NodeId>>]) = match form.is_optimised() {
            true => (&self.optimised.graph, &self.optimised.chains),
            false => (self.source, &[]),
        };
        plan_of(graph, form.joins(), chains, &self.coded, self.options)
    }

    /// What is to be said where fusion is required and the fused plan is dearer than that of the program as written. No plan is made
    /// of that where the fused one costs less than it takes at least.
    pub(crate) fn warning(&self) -> Option<String> {
        let machine = &self.options.tuning.peaks;
        let sizes = nominal_sizes(self.source, &Bindings::new());
        let price = self.plan(Form::Fused).price(&sizes, machine)?.seconds();
        let is_least =
            floor_as_written(self.source, &sizes, machine).is_some_and(|floor| price <= TIE * floor);
        if is_least || !self.options.require_fused || !self.coded.is_empty() {
            return None;
        }
        dearer(Form::Fused, price, self.plan(Form::AsWritten).price(&sizes, machine)?.seconds())
    }

    /// The plan that is compiled, and why. With `all`, every form is priced, also where that decides nothing.
    pub(crate) fn choose(&self, all: bool) -> (Plan<'_>, Verdict) {
        let machine = &self.options.tuning.peaks;
        let sizes = nominal_sizes(self.source, &Bindings::new());
        let fused = self.plan(Form::Fused);
        let floor = floor_as_written(self.source, &sizes, machine);
        let is_required = self.options.require_fused;
        let mut verdict = Verdict { sizes, taken: Form::Fused, is_required, floor, prices: Vec::new() };
        let Some(price) = fused.price(&verdict.sizes, machine) else { return (fused, verdict) };
        let price = price.seconds();
        verdict.prices.push((Form::Fused, price));
        let is_least = floor.is_some_and(|floor| price <= TIE * floor);
        // Parameters in codes are read by products of fused plans alone.
        if (is_least || is_required) && !all || !self.coded.is_empty() {
            return (fused, verdict);
        }
        let written = self.plan(Form::AsWritten);
        let Some(dearest) = written.price(&verdict.sizes, machine) else { return (fused, verdict) };
        let stays = is_required || price <= TIE * dearest.seconds();
        let mut plans = vec![(price, fused)];
        let between = [Form::Joined, Form::Apart].into_iter().filter(|_| all || !stays);
        for (form, plan) in between.map(|form| (form, self.plan(form))).chain([(Form::AsWritten, written)]) {
            let Some(price) = plan.price(&verdict.sizes, machine) else { continue };
            verdict.prices.push((form, price.seconds()));
            plans.push((price.seconds(), plan));
        }
        let least = plans.iter().map(|(price, _)| *price).fold(f64::INFINITY, f64::min);
        let cheapest = plans.iter().position(|(price, _)| *price <= TIE * least).unwrap_or(0);
        let at = if stays { 0 } else { cheapest };
        verdict.taken = verdict.prices[at].0;
        let (price, plan) = plans.swap_remove(at);
        debug_assert!(
            is_required || verdict.price(Form::AsWritten).is_none_or(|written| price <= TIE * written),
            "the plan that is taken is dearer than that of the program as written"
        );
        (plan, verdict)
    }
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
