//! A dump is a legal program: it reads back as the same graph, and what reads back computes the same.

use salient::{Engine, Graph, Model, Options, Sources, lower, models, optimise, read_data};
use salient_ir::text::print;
use salient_tests::agree::all_agree;
use salient_tests::case::Case;
use salient_tests::examples::settings;
use salient_tests::files::{files_under, root, sources, text};
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

/// The models of an example, with the arrays beside it.
fn example(file: &str) -> Result<Vec<Program>, String> {
    let sources = sources(file)?;
    let (folder, name) = file.rsplit_once('/').expect("it is in a folder");
    let data = format!("{folder}/data/{}.npz", name.strip_suffix(".attn").expect("listed by it"));
    let mut calls = Vec::new();
    if root().join(&data).exists() {
        let data = read_data(root().join(&data)).map_err(|e| e.to_string())?;
        calls.push(Call { inputs: data.inputs, params: data.params, ..Call::default() });
    }
    let names = models(&sources).map_err(|e| e.to_string())?;
    let programs = names.into_iter().map(|model| {
        let options = Options { model: Some(model), set: settings(file), ..Options::default() };
        Ok(Program { graph: lowered(&sources, &options)?, calls: calls.clone() })
    });
    programs.collect()
}

/// The model of a case, with its runs; nothing if it is there to be refused.
fn case(file: &str) -> Result<Vec<Program>, String> {
    let case = Case::parse(&text(file))?;
    if case.error {
        return Ok(Vec::new());
    }
    let graph = lowered(&sources(file)?, &case.options())?;
    let runs = if case.fails.is_none() { case.runs.as_slice() } else { &[] };
    let calls = runs.iter().map(|run| case.call(&graph, run)).collect::<Result<_, String>>()?;
    Ok(vec![Program { graph, calls }])
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

fn each(folder: &str, programs: fn(&str) -> Result<Vec<Program>, String>) {
    let files = files_under(folder, "attn");
    assert!(!files.is_empty(), "{folder} holds programs");
    sweep::each(&files, |file| programs(&format!("{folder}/{file}"))?.iter().try_for_each(check));
}

#[test]
fn examples_read_back() {
    each("examples", example);
}

#[test]
fn cases_read_back() {
    each("tests/cases", case);
}

#[test]
fn spellings_read_back() {
    let spelling = |file: &str| example(file);
    each("tests/equivalence", spelling);
}
