//! A graph to a cheaper equal graph, by equality saturation.
//!
//! [`optimise`] is the whole of it: canonical axes, sharing up to renaming, normal forms, saturation, extraction, and
//! back to a graph, with a report of what happened. Which kernels the result becomes is not decided here.

mod axes;
mod batch;
mod certificate;
mod cost;
mod demanded;
mod digest;
mod extract;
mod factors;
mod facts;
mod fp;
mod heads;
mod index;
mod join;
mod lang;
mod merge;
mod named;
mod normalise;
mod outline;
mod repeat;
mod rewrite;
pub mod rules;
mod saturate;
mod scores;
mod share;
mod sides;
#[cfg(test)]
mod soundness;
mod stream;
mod tidy;

pub use certificate::{Certificate, Miss};
pub use facts::Property;
pub use fp::Fp;
pub use named::{Form, Named};
pub use saturate::Stop;

use outline::Place;
use salient_ir::{DType, Graph, NodeId};
use std::collections::{BTreeSet, HashMap};

/// How to optimise. Limits are counts, so that the same model gives the same result everywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Freedom with floats.
    pub fp: Fp,
    /// E-nodes above which no further rule is applied. A small graph has a smaller limit: see [`Report::stop`].
    pub node_limit: usize,
    /// Rounds of saturation.
    pub iteration_limit: usize,
}

impl Default for Options {
    fn default() -> Options {
        Options { fp: Fp::Default, node_limit: 200_000, iteration_limit: 40 }
    }
}

/// What optimising did.
#[derive(Clone, Debug)]
pub struct Report {
    /// How often each rule changed something, in the order of the tables; rules that did nothing are left out.
    pub rules: Vec<(&'static str, usize)>,
    /// Rounds of saturation.
    pub iterations: usize,
    /// E-nodes at the end.
    pub nodes: usize,
    /// Classes at the end.
    pub classes: usize,
    /// Why saturation ended. Beside the limits of the options there is one by the size of the graph, which only programs
    /// meet that multiply by themselves, or by what turns out to be zero, over and over.
    pub stop: Stop,
    /// How each fused operator came about.
    pub certificates: Vec<Certificate>,
    /// Sums of weighted values that stayed apart from their weights.
    pub misses: Vec<Miss>,
    /// Norms and activations that have a name.
    pub named: Vec<Named>,
    /// The chains of equal blocks in the model, each of which was optimised as one block.
    pub repeated: Vec<Repeated>,
}

/// A chain of equal blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repeated {
    /// What the paths of their parameters have in common, before the number of the block.
    pub path: String,
    /// How many there are.
    pub times: usize,
}

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
    run(saturate::all_rules(options.fp), graph, options)
}

/// As [`optimise`], with the given rules only: for tests of single rules and families.
pub fn optimise_with<'a>(
    rows: impl Iterator<Item = &'a rules::Row>,
    graph: &Graph,
    options: &Options,
) -> Optimised {
    run(&saturate::rule_set(rows, options.fp), graph, options)
}

/// E-nodes that any graph may grow to.
const SMALLEST_LIMIT: usize = 2_000;
/// E-nodes for each node of the graph above that. Models of all kinds saturate at two to four.
const GROWTH: usize = 30;

fn run(rules: &[rules::Rule], graph: &Graph, options: &Options) -> Optimised {
    // Passes walk from users to arguments, over views that they put in between as well.
    let room = 2 * graph.depth();
    salient_ir::stack::with_room(room, || run_parts(rules, graph, options, &Border::default()).0)
        .unwrap_or_else(|e| panic!("no thread could be started: {e}"))
}

/// Optimises a graph with one block for each chain of equal ones. The second result says of each output whether it is
/// finite.
fn run_parts(
    rules: &[rules::Rule],
    graph: &Graph,
    options: &Options,
    border: &Border,
) -> (Optimised, Vec<bool>) {
    let outlined = repeat::find(graph).and_then(|chain| run_once(rules, graph, options, border, &chain));
    outlined.unwrap_or_else(|| run_whole(rules, graph, options, border))
}

/// How a graph borders on others of which it is a part.
#[derive(Clone, Debug, Default)]
struct Border {
    /// Inputs that may hold what is not finite: values computed elsewhere.
    unsure: BTreeSet<usize>,
    /// Inputs and outputs whose axes are of one kind.
    tied: Vec<(usize, usize)>,
}

/// Optimises one block of a chain, and what surrounds the chain, where there may be others; `None` if the graph cannot be
/// taken apart so.
fn run_once(
    rules: &[rules::Rule],
    graph: &Graph,
    options: &Options,
    border: &Border,
    chain: &repeat::Chain,
) -> Option<(Optimised, Vec<bool>)> {
    let parts = outline::split(graph, chain)?;
    let block = |unsure| run_whole(rules, &parts.block, options, &Border { unsure, tied: vec![(0, 0)] });
    let tied = parts.tied(&border.tied);
    let around = |given: bool| {
        let mut unsure = border.unsure.clone();
        unsure.extend((!given).then_some(parts.ends().0));
        run_parts(rules, &parts.around, options, &Border { unsure, tied: tied.clone() })
    };
    // What a block gives is finite if what it reads is, and the first reads what is: then all of them do.
    let before = parts.unsure(graph, chain, &border.unsure);
    let (mut optimised, mut given) = block(before.clone());
    let (mut outer, mut finite) = around(given[0]);
    let unsure = &before | &parts.unsure_values(&finite, given[0]);
    if unsure != before {
        let assumed = given[0];
        (optimised, given) = block(unsure);
        if assumed && !given[0] {
            (outer, finite) = around(false);
        }
    }
    let joined = outline::join(graph, chain, &parts, (&optimised.graph, &outer.graph))?;
    let repeated = Repeated { path: chain.path.clone(), times: chain.len() };
    let report = Report::of_parts(&optimised.report, &outer.report, &joined, repeated);
    let mut chains = joined.chains_around(&outer.chains);
    chains.push(joined.blocks);
    Some((Optimised { graph: joined.graph, report, chains }, parts.finite(&given, &finite)))
}

impl Report {
    /// The report of a graph that was put together; each certificate is there for every block.
    fn of_parts(block: &Report, around: &Report, joined: &outline::Joined, repeated: Repeated) -> Report {
        let mut rules = around.rules.clone();
        for (name, n) in &block.rules {
            match rules.iter_mut().find(|(known, _)| known == name) {
                Some((_, count)) => *count += n,
                None => rules.push((name, *n)),
            }
        }
        let order: Vec<&str> = rules::rows().map(|row| row.name).collect();
        rules.sort_by_key(|(name, _)| order.iter().position(|known| known == name));
        let (mut certificates, mut misses, mut named) = (Vec::new(), Vec::new(), Vec::new());
        for (at, origin) in joined.graph.ids().zip(&joined.origins) {
            let (report, node, number) = match origin {
                Some(Place::Around(id)) => (around, *id, None),
                Some(Place::Block(number, id)) => (block, *id, Some(*number)),
                None => continue,
            };
            let certificate = report.certificates.iter().find(|c| c.node == node);
            let within = |block: Option<usize>| number.or(block);
            certificates.extend(certificate.map(|c| Certificate {
                node: at,
                block: within(c.block),
                ..c.clone()
            }));
            let miss = report.misses.iter().find(|m| m.node == node);
            misses.extend(miss.map(|m| Miss { node: at, block: within(m.block), ..m.clone() }));
            let form = report.named.iter().find(|f| f.node == node);
            named.extend(form.map(|f| Named { node: at, block: within(f.block), ..f.clone() }));
        }
        Report {
            rules,
            iterations: block.iterations.max(around.iterations),
            nodes: block.nodes + around.nodes,
            classes: block.classes + around.classes,
            stop: block.stop.max(around.stop),
            certificates,
            misses,
            named,
            repeated: around.repeated.iter().cloned().chain([repeated]).collect(),
        }
    }
}

/// Optimises a graph as it stands. The second result says of each output whether it is finite.
fn run_whole(
    rules: &[rules::Rule],
    graph: &Graph,
    options: &Options,
    border: &Border,
) -> (Optimised, Vec<bool>) {
    let source = share::share(&axes::canonicalise(&heads::heads(&batch::batch(graph)), &border.tied));
    let reads = demanded::demanded_reads(&source);
    let found = run_with(rules, &source, options, border, &reads);
    // Where every read of a kind has come to stand under a choice, none of them is demanded.
    let kept = demanded::are_kept(&source, &reads, &found.0.graph);
    if kept { found } else { run_with(rules, &source, options, border, &[]) }
}

/// As [`run_whole`], where these reads are taken to be made in any case.
fn run_with(
    rules: &[rules::Rule],
    source: &Graph,
    options: &Options,
    border: &Border,
    demanded: &[demanded::DemandedRead],
) -> (Optimised, Vec<bool>) {
    let known = facts::Known { fp: options.fp, unsure: border.unsure.clone(), ..facts::Known::of(source) };
    let mut classes = normalise::Classes::new(known);
    let ids = normalise::insert(source, &mut classes, options.fp, demanded);
    let roots: Vec<egg::Id> = source.outputs().iter().map(|o| ids[o.node.index()]).collect();
    let node_limit = options.node_limit.min(SMALLEST_LIMIT + GROWTH * source.len());
    let (stop, iterations) = saturate::saturate(&mut classes, rules, &Options { node_limit, ..*options });
    let choice = extract::extract(&classes, source);
    let (tidied, class_of): (Graph, HashMap<NodeId, egg::Id>) =
        tidy::rebuild(source, &classes, &choice, &roots);
    let (mut graph, moved) = merge::merge_sums(&tidied);
    let follow = |class_of: HashMap<NodeId, egg::Id>, moved: &[Option<NodeId>]| {
        let new = |(old, class): (NodeId, egg::Id)| Some((moved[old.index()]?, class));
        class_of.into_iter().filter_map(new).collect::<HashMap<_, _>>()
    };
    let mut class_of = follow(class_of, &moved);
    // Products round: bit for bit their grouping is the source's, and so is what zero by NaN is.
    if options.fp == Fp::Default {
        for pass in [factors::order_factors, sides::by_log_sum_exp, stream::stream] {
            let (rewritten, moved) = pass(&graph);
            class_of = follow(class_of, &moved);
            graph = rewritten;
        }
    }
    let (certificates, misses) = certificate::certify(&graph, &class_of, &classes, rules);
    let mut counts = vec![0; rules.len()];
    classes.analysis.applied.iter().for_each(|a| counts[a.rule] += 1);
    let rules = rules.iter().zip(counts).filter(|(_, n)| *n > 0).map(|(r, n)| (r.row.name, n)).collect();
    let finite = |id: &egg::Id| {
        let data = &classes[*id].data;
        data.dtype != DType::F32 || data.has(Property::Finite)
    };
    let finite = roots.iter().map(finite).collect();
    let (nodes, classes) = (classes.total_size(), classes.number_of_classes());
    let named = named::named(&graph);
    let report =
        Report { rules, iterations, nodes, classes, stop, certificates, misses, named, repeated: Vec::new() };
    (Optimised { graph, report, chains: Vec::new() }, finite)
}
