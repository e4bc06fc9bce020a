//! A graph through the passes: one after the other over the table, a chain of equal blocks as one block.

use crate::after::joined::{Rows, joined_of};
use crate::after::masks::masks_outermost;
use crate::blocks::split::{self, Parts};
use crate::blocks::{join, repeat};
use crate::egraph::{Searched, saturate, search};
use crate::graph::border::Border;
use crate::graph::demanded::{self, DemandedRead};
use crate::options::{Fp, Options};
use crate::passes::{PASSES, Pass, Step};
use crate::report::{Repeated, Report};
use crate::rules::{Rule, RuleRow};
use salient_ir::{Graph, NodeId, verify};

/// A graph with the report of how it came about.
#[derive(Clone, Debug)]
pub struct Optimised {
    /// The graph: the same inputs, parameters, outputs and requirements, over canonical axes.
    pub graph: Graph,
    /// What happened.
    pub report: Report,
    /// For each chain of equal blocks the nodes of each block, corresponding ones at the same position.
    pub chains: Vec<Vec<Vec<NodeId>>>,
}

/// The best equal graph that the rules and the limits reach. The same graph gives the same result on every run, and
/// graphs that spell the same mathematics differently give the same graph where the rules can see it.
pub fn optimise(graph: &Graph, options: &Options) -> Optimised {
    Pipeline { rules: saturate::all_rules(options.fp), options, traced: false }.run(graph).optimised
}

/// The passes that give different spellings of one value one form, written in the operators of the language.
const OF_SPELLINGS: &[&str] = &["batch-heads", "running-sums", "guarded-indices", "sums-at-the-end"];

/// The same graph with what it computes in forms that depend less on how it is spelled: for what is made of a graph before it is
/// optimised, as gradients are. In strict mode without the passes that regroup what the source says.
pub fn normal_form(graph: &Graph, fp: Fp) -> Graph {
    let pass = |name: &&str| PASSES.iter().find(|pass| pass.name == *name).expect("it is in the table");
    let through = || {
        OF_SPELLINGS.iter().map(pass).filter(|pass| pass.runs_in(fp)).fold(graph.clone(), |g, pass| {
            let Step::Before(make) = pass.step else { unreachable!("{} comes before the search", pass.name) };
            let after = make(&g, &Border::default());
            check(pass.name, &g, &after, false);
            after
        })
    };
    in_room(graph, through)
}

/// Runs what walks a graph with room on the stack for it: passes walk from users to arguments, over views that they put in between as
/// well.
fn in_room<T: Send>(graph: &Graph, run: impl FnOnce() -> T + Send) -> T {
    let room = 2 * graph.depth();
    salient_ir::stack::with_room(room, run).unwrap_or_else(|e| panic!("no thread could be started: {e}"))
}

/// An optimised graph with attentions over the same values in one sum also where rows are not as many as keys, if it has any.
pub fn in_one_sum(graph: &Graph, fp: Fp) -> Option<Graph> {
    if fp == Fp::Strict {
        return None;
    }
    let joined = joined_of(graph, Rows::Any).graph;
    let has_changed = joined.len() != graph.len();
    has_changed.then(|| masks_outermost(&joined).graph)
}

/// As [`optimise`], with the given rules only: for tests of single rules and families.
pub fn optimise_with<'a>(
    rows: impl Iterator<Item = &'a RuleRow>,
    graph: &Graph,
    options: &Options,
) -> Optimised {
    let rules = saturate::rule_set(rows, options.fp);
    Pipeline { rules: &rules, options, traced: false }.run(graph).optimised
}

/// The graph as it is after each pass, on the way that [`optimise`] goes. Where the model is a chain of equal blocks, each
/// block is as it is after the pass, and so is what surrounds them; if these do not fit together between passes, they are two
/// graphs.
pub fn trace(graph: &Graph, options: &Options) -> Vec<(&'static Pass, Vec<Graph>)> {
    let pipeline = Pipeline { rules: saturate::all_rules(options.fp), options, traced: true };
    PASSES.iter().zip(pipeline.run(graph).trace).collect()
}

/// How graphs are optimised.
struct Pipeline<'a> {
    rules: &'a [Rule],
    options: &'a Options,
    /// Whether the graph after each pass is kept.
    traced: bool,
}

/// What became of a graph.
struct Outcome {
    optimised: Optimised,
    /// Of each output whether it is finite.
    finite: Vec<bool>,
    /// The graph after each pass of the table, if that was asked for; more than one if parts do not fit together.
    trace: Vec<Vec<Graph>>,
}

impl Pipeline<'_> {
    fn run(&self, graph: &Graph) -> Outcome {
        in_room(graph, || self.optimise_part(graph, &Border::default()))
    }

    /// Optimises a graph with one block for each chain of equal ones.
    fn optimise_part(&self, graph: &Graph, border: &Border) -> Outcome {
        let outlined = repeat::find(graph).and_then(|chain| self.optimise_chain(graph, border, &chain));
        outlined.unwrap_or_else(|| self.whole(graph, border))
    }

    /// Optimises one block of a chain, and what surrounds the chain, where there may be others; `None` if the graph cannot
    /// be taken apart so.
    fn optimise_chain(&self, graph: &Graph, border: &Border, chain: &repeat::Chain) -> Option<Outcome> {
        let parts = split::separate_block(graph, chain)?;
        let of_block = |inputs| parts.inputs_of(graph, chain, inputs);
        let computed = &parts.computed() | &of_block(&border.computed);
        let block = |unsure| {
            let border = Border { unsure, computed: computed.clone(), tied: vec![Parts::carried()] };
            self.whole(&parts.block, &border)
        };
        let around = |given: bool| {
            let (mut unsure, mut computed) = (border.unsure.clone(), border.computed.clone());
            let last = parts.ends().input;
            unsure.extend((!given).then_some(last));
            computed.insert(last);
            self.optimise_part(&parts.around, &Border { unsure, computed, tied: parts.tied(&border.tied) })
        };
        // What a block gives is finite if what it reads is, and the first reads what is: then all of them do.
        let before = of_block(&border.unsure);
        let mut inner = block(before.clone());
        let assumed = inner.finite[0];
        let mut outer = around(assumed);
        let unsure = &before | &parts.unsure_values(&outer.finite, assumed);
        if unsure != before {
            inner = block(unsure);
            if assumed && !inner.finite[0] {
                outer = around(false);
            }
        }
        let together = |inner: &Graph, outer: &Graph| join::join(graph, chain, &parts, inner, outer);
        let joined = together(&inner.optimised.graph, &outer.optimised.graph)?;
        check("that joins blocks", graph, &joined.graph, self.options.verify);
        let whole = |inner: &Vec<Graph>, outer: &Vec<Graph>| match (inner.as_slice(), outer.as_slice()) {
            ([inner], [outer]) => Some(vec![together(inner, outer)?.graph]),
            _ => None,
        };
        let traces = inner.trace.iter().zip(&outer.trace);
        let trace = traces
            .map(|(inner, outer)| whole(inner, outer).unwrap_or_else(|| [inner.as_slice(), outer].concat()));
        let trace = trace.collect();
        let repeated = Repeated { path: chain.path.clone(), times: chain.len() };
        let report = Report::of_parts(&inner.optimised.report, &outer.optimised.report, &joined, repeated);
        let mut chains = joined.chains_around(&outer.optimised.chains);
        chains.push(joined.blocks);
        let finite = parts.finite(&inner.finite, &outer.finite);
        Some(Outcome { optimised: Optimised { graph: joined.graph, report, chains }, finite, trace })
    }

    /// Optimises a graph as it stands.
    fn whole(&self, graph: &Graph, border: &Border) -> Outcome {
        let (before, rest) = PASSES.split_at(PASSES.partition_point(Pass::is_before));
        let mut source = Progress { graph: graph.clone(), searched: None, trace: Vec::new() };
        source.go_through(before, self, border, &[]);
        let found = with_kept_reads(&source.graph, |reads| {
            let mut state =
                Progress { graph: source.graph.clone(), searched: None, trace: source.trace.clone() };
            state.go_through(rest, self, border, reads);
            state
        });
        let Progress { graph, searched, trace } = found;
        let searched = searched.expect("the e-graph is one of the passes");
        let (report, finite) = (Report::new(&graph, &searched, self.rules), searched.finite());
        Outcome { optimised: Optimised { graph, report, chains: Vec::new() }, finite, trace }
    }
}

/// A graph on its way through the passes.
struct Progress {
    graph: Graph,
    /// What the e-graph knows, once it has been there.
    searched: Option<Searched>,
    /// The graph after each pass so far, if that was asked for.
    trace: Vec<Vec<Graph>>,
}

impl Progress {
    /// Runs these passes one after the other.
    fn go_through(&mut self, passes: &[Pass], cx: &Pipeline<'_>, border: &Border, reads: &[DemandedRead]) {
        for pass in passes {
            if pass.runs_in(cx.options.fp) {
                self.run(pass, cx, border, reads);
            }
            self.trace.extend(cx.traced.then(|| vec![self.graph.clone()]));
        }
    }

    fn run(&mut self, pass: &Pass, cx: &Pipeline<'_>, border: &Border, reads: &[DemandedRead]) {
        let after = match pass.step {
            Step::Before(make) => make(&self.graph, border),
            Step::Search => {
                let (graph, searched) = search(&self.graph, cx.rules, cx.options, border, reads);
                self.searched = Some(searched);
                graph
            }
            Step::After(make) => {
                let rewritten = make(&self.graph);
                self.searched.iter_mut().for_each(|searched| searched.follow(&rewritten.moved));
                rewritten.graph
            }
        };
        check(pass.name, &self.graph, &after, cx.options.verify);
        self.graph = after;
    }
}

/// What is made of a graph by the reads that it demands; by none of them if these are not kept: where every read of a kind has
/// come to stand under a choice, none of them is demanded.
fn with_kept_reads(graph: &Graph, make: impl Fn(&[DemandedRead]) -> Progress) -> Progress {
    let reads = demanded::demanded_reads(graph);
    let made = make(&reads);
    if demanded::are_kept(graph, &reads, &made.graph) { made } else { make(&[]) }
}

/// What must be true of the graph after a pass; looked at in debug builds, and in every build where it is asked for.
fn check(pass: &str, before: &Graph, after: &Graph, asked_for: bool) {
    if asked_for || cfg!(debug_assertions) {
        let faults = verify::verify(after);
        assert!(faults.is_empty(), "after the pass {pass}: {}", faults.join("\n"));
        let ports = |g: &Graph| {
            let (ports, outputs) = (g.inputs().iter().chain(g.params()), g.outputs().iter());
            let ports = ports.map(|port| (port.name.to_string(), port.axes.len()));
            ports.chain(outputs.map(|out| (out.name.to_string(), out.axes.len()))).collect::<Vec<_>>()
        };
        assert_eq!(ports(before), ports(after), "after the pass {pass}");
    }
}

/// What a pass makes of a graph by itself, with all its rules if it is the e-graph.
#[cfg(test)]
pub(crate) fn alone(pass: &Pass, graph: &Graph, options: &Options) -> Graph {
    let cx = Pipeline { rules: saturate::all_rules(options.fp), options, traced: false };
    let made = with_kept_reads(graph, |reads| {
        let mut state = Progress { graph: graph.clone(), searched: None, trace: Vec::new() };
        state.run(pass, &cx, &Border::default(), reads);
        state
    });
    made.graph
}

#[cfg(test)]
mod tests {
    use super::*;
    use salient_ir::{Builder, DType, Dim};

    fn with_outputs(names: &[&str]) -> Graph {
        let mut b = Builder::new("sums");
        let t = b.axis_id("t", &Dim::symbol("T"));
        let x = b.input("x", &[t], DType::F32, None);
        names.iter().for_each(|name| b.output(name, &[t], x).unwrap());
        b.finish()
    }

    #[test]
    #[should_panic(expected = "after the pass that forgets")]
    fn a_pass_that_forgets_an_output_ends_the_compiler() {
        let both = with_outputs(&["y", "z"]);
        check("that keeps", &both, &both, true);
        check("that forgets", &both, &with_outputs(&["y"]), true);
    }
}
