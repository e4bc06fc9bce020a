//! A dump is a legal program: it reads back as the same graph, and what reads back computes the same.

use salient::{Engine, Graph, Model, Options, Sources, lower, optimise, read_data};
use salient_ir::text::print;
use salient_tests::agree::all_agree;
use salient_tests::case::Case;
use salient_tests::examples::{self, Example, models_under, settings};
use salient_tests::files::{files_under, sources, text};
use salient_tests::sweep;
use salient_tests::ways::Call;

/// A model with the calls that are known for it.
struct Program {
    graph: Graph,
    calls: Vec<Call>,
}

fn lowered(sources: &Sources, options: &Options) -> Result<Graph, String> {
    lower(sources, options).map(|l| l.graph).map_err(|e| e.to_string())
}

/// A model of a file, with the arrays beside it.
fn example(example: &Example) -> Result<Program, String> {
    let options = Options { set: settings(&example.file), ..example.options() };
    let mut calls = Vec::new();
    if let Some(data) = example.data() {
        let data = read_data(data).map_err(|e| e.to_string())?;
        calls.push(Call { inputs: data.inputs, params: data.params, ..Call::default() });
    }
    Ok(Program { graph: lowered(&example.sources()?, &options)?, calls })
}

/// The model of a case, with its runs; nothing if it is there to be refused.
fn case(file: &str) -> Result<Option<Program>, String> {
    let case = Case::parse(&text(file))?;
    if case.error {
        return Ok(None);
    }
    let graph = lowered(&sources(file)?, &case.options())?;
    let runs = if case.fails.is_none() { case.runs.as_slice() } else { &[] };
    let calls = runs.iter().map(|run| case.call(&graph, run)).collect::<Result<_, String>>()?;
    Ok(Some(Program { graph, calls }))
}

/// The graph that a dump reads as.
fn read_back(dump: &str) -> Result<Graph, String> {
    let mut sources = Sources::new();
    sources.add("dump.attn", dump);
    lowered(&sources, &Options::default())
}

fn check(program: &Program) -> Result<(), String> {
    // Code of the graph as it stands: the interpreter takes a minute for the whole models.
    let compile = |graph: &Graph| {
        let options = Options { engine: Engine::Unfused, ..Options::default() };
        Model::from_graph(graph.clone(), &options).map_err(|e| e.to_string())
    };
    let fused = optimise(&program.graph, &Options::default()).graph;
    let written = compile(&program.graph)?;
    for graph in [&program.graph, &fused] {
        let dump = print(graph);
        let again = read_back(&dump).map_err(|why| format!("does not read back:\n{dump}\n{why}"))?;
        let second = print(&again);
        if second != dump {
            return Err(format!("reads back as another graph:\n{dump}\nas\n{second}"));
        }
        let again = compile(&again)?;
        for call in &program.calls {
            let wanted = call.run(&written).map_err(|e| e.to_string())?;
            let found = call.run(&again).map_err(|e| format!("{dump}\n{e}"))?;
            all_agree(&found, &wanted).map_err(|why| format!("{dump}\n{why}"))?;
        }
    }
    Ok(())
}

#[test]
fn examples_read_back() {
    examples::each(|of| check(&example(of)?));
}

#[test]
fn cases_read_back() {
    let files = files_under("tests/cases", "attn");
    assert!(!files.is_empty(), "there are cases");
    sweep::each(&files, |file| case(&format!("tests/cases/{file}"))?.iter().try_for_each(check));
}

/// Names that meet: a parameter's path is an input's name, an index's, or a value's; and lengths that come out as one.
#[test]
fn ports_of_one_name_and_lengths_of_one_read_back() {
    for (text, set) in [
        (
            "model m(x: f32[T], y: f32[T]) { param w: f32[T] as x param v: f32[T] as y return y * v * w }",
            vec![],
        ),
        (
            "model m(x: f32[T], unread: f32[T]) { param w: f32[T] as unread param s: f32 as t return x * w * s }",
            vec![],
        ),
        ("model m(x: f32[T, E]) { return rope_half[10000.0](x) }", vec![("E", "2")]),
        ("model m(x: f32[T, E]) { return rope_interleaved[10000.0](x) }", vec![("E", "2")]),
        ("model m[H = 2](x: f32[B, T, D]) { return merge_heads(split_heads[H](x)) }", vec![("D", "2")]),
        (
            "model m(x: f32[T, E]) { let y[t, h: 2, e: E / 2] = x[t, h * (E / 2) + e] return y, concat(x, x) }",
            vec![("E", "2")],
        ),
        (
            "model m(q: f32[T, E], k: f32[S, E], v: f32[S, F]) { return scaled_attention(q, k, v) }",
            vec![("E", "1"), ("F", "1")],
        ),
        ("model m(x: f32[T, E]) { return layer_norm[1e-5](x) }", vec![("E", "1")]),
        (
            "model m(x: f32[T, E], s: f32[E / 2]) { let y[t, e: E / 2] = x[t, e] * s[e] return concat(y, x), sum(y) }",
            vec![("E", "2")],
        ),
        (
            "model m(x: f32[T, D]) { let y[t, h: 2, e: D / 2] = x[t, h * (D / 2) + e] return argmax(y), y, softmax(y) }",
            vec![("D", "2")],
        ),
        // A view of what is the same everywhere along the axis of the index.
        (
            "model m(w: f32[D], ids: i64[T]) { let all[d: D, t: T] = w[d] let y[d, t: T] = all[d, ids[t]] return y, all }",
            vec![],
        ),
        // Parts of a concatenation that are the same everywhere along it.
        (
            "model m(x: f32[T, D], w: f32[D]) { let a[t: T, d] = w[d] let b[t: T, d: D] = 2.0 \
             let y[t: T + T + T, d] = concat[t](a[t, d], x[t, d], a[t, d]) \
             let z[t: T + T, d] = concat[t](b[t, d], x[t, d]) return y, sum(z) }",
            vec![],
        ),
    ] {
        let mut sources = Sources::new();
        sources.add("m.attn", text);
        let set = set.iter().map(|(n, v): &(&str, &str)| ((*n).to_owned(), (*v).to_owned())).collect();
        let graph = lowered(&sources, &Options { set, ..Options::default() })
            .unwrap_or_else(|why| panic!("{text}\n{why}"));
        check(&Program { graph, calls: Vec::new() }).unwrap_or_else(|why| panic!("{text}\n{why}"));
    }
}

#[test]
fn spellings_read_back() {
    let all = models_under("tests/equivalence");
    assert!(!all.is_empty(), "there are spellings");
    sweep::each_of(&all, |of| &of.name, |of| check(&example(of)?));
}
