//! What is fuzzed: one function for each kind of input that others give, with what to begin from.
//!
//! A function takes any bytes and must return: a refusal is as good as a result, a panic, an abort, a hang and memory without
//! end are failures. The stable harness (`src/bin/fuzz.rs`) and the targets for libFuzzer (`fuzz/fuzz_targets`) call the
//! same functions.

pub mod mutate;
mod seeds;

use crate::generate::{self, Data};
use crate::trial::{Trial, all_ways};
use mutate::Manner;
use salient::{Engine, Fp, Graph, Isa, IsaChoice, Model, Options, Sources, Tuning};
use std::io::Cursor;
use std::path::{Path, PathBuf};

/// A kind of input.
#[derive(Debug)]
pub struct Target {
    /// Its name.
    pub name: &'static str,
    /// Does with bytes what is done with such input.
    pub run: fn(&[u8]),
    /// Valid inputs to begin from.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// How they are changed.
    pub manner: Manner,
}

/// Every kind of input.
pub const TARGETS: &[Target] = &[
    Target { name: "source", run: source, seeds: seeds::sources, manner: Manner::Program },
    Target { name: "printed", run: source, seeds: seeds::printed, manner: Manner::Program },
    Target { name: "values", run: values, seeds: seeds::sources, manner: Manner::Program },
    Target { name: "plan", run: plan, seeds: seeds::plans, manner: Manner::Text },
    Target { name: "npy", run: npy, seeds: seeds::npy, manner: Manner::Bytes },
    Target { name: "npz", run: npz, seeds: seeds::npz, manner: Manner::Bytes },
    Target { name: "safetensors", run: safetensors, seeds: seeds::safetensors, manner: Manner::Bytes },
    Target { name: "gguf", run: gguf, seeds: seeds::gguf, manner: Manner::Bytes },
    Target { name: "index", run: index, seeds: seeds::index, manner: Manner::Text },
    Target { name: "tokenizer", run: tokenizer, seeds: seeds::tokenizer, manner: Manner::Text },
    Target { name: "tokenizer_gguf", run: tokenizer_gguf, seeds: seeds::gguf, manner: Manner::Bytes },
    Target { name: "tuning", run: tuning, seeds: seeds::tuning, manner: Manner::Text },
    Target { name: "serve", run: serve, seeds: seeds::serve, manner: Manner::Text },
];

/// Any bytes as a npy file.
pub fn npy(bytes: &[u8]) {
    drop(salient_io::decode_npy(bytes));
    drop(salient_io::decode_contents(Cursor::new(bytes), "a"));
}

/// Any bytes as a npz file.
pub fn npz(bytes: &[u8]) {
    drop(salient_io::decode_npz(Cursor::new(bytes)));
    drop(salient_io::decode_contents(Cursor::new(bytes), "a"));
}

/// Any bytes as a safetensors file.
pub fn safetensors(bytes: &[u8]) {
    drop(salient_io::decode_safetensors(Cursor::new(bytes)));
    drop(salient_io::decode_contents(Cursor::new(bytes), "a"));
}

/// Any bytes as a GGUF file.
pub fn gguf(bytes: &[u8]) {
    drop(salient_io::decode_gguf(Cursor::new(bytes)));
    drop(salient_io::decode_contents(Cursor::new(bytes), "a"));
}

/// A folder of this process alone.
fn scratch() -> PathBuf {
    let folder = std::env::temp_dir().join(format!("salient-fuzz-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("temporary files can be written");
    folder
}

/// A file of that name with those bytes.
fn file(name: &str, bytes: &[u8]) -> PathBuf {
    let path = scratch().join(name);
    std::fs::write(&path, bytes).expect("temporary files can be written");
    path
}

/// Any bytes as the index of a sharded checkpoint, beside shards and files that are none.
pub fn index(bytes: &[u8]) {
    let shard = seeds::safetensors().swap_remove(0);
    for name in ["one.safetensors", "two.safetensors"] {
        if !scratch().join(name).exists() {
            file(name, &shard);
        }
    }
    let path = file("model.safetensors.index.json", bytes);
    drop(salient::read_arrays(&path));
    drop(salient::read_contents(&path));
}

/// Any bytes as a tokenizer, with a few texts through it.
pub fn tokenizer(bytes: &[u8]) {
    through_tokenizer(&file("tokenizer.json", bytes));
}

/// Any bytes as a GGUF file with a tokenizer in it.
pub fn tokenizer_gguf(bytes: &[u8]) {
    through_tokenizer(&file("model.gguf", bytes));
}

fn through_tokenizer(path: &Path) {
    let Ok(tokenizer) = salient_text::Tokenizer::read(path) else { return };
    for text in [
        "",
        "a plain sentence",
        "\u{feff}ä\u{0}\n\u{1f600} <s> [CLS] ##x",
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    ] {
        let Ok(encoded) = tokenizer.encode(text) else { continue };
        drop(tokenizer.decode(&encoded.ids));
    }
    drop(tokenizer.decode(&[0, 1, 2, u32::MAX]));
    let mut stream = tokenizer.stream();
    for id in [0, 7, u32::MAX] {
        drop(stream.push(id));
    }
}

/// Any bytes as a tuning file.
pub fn tuning(bytes: &[u8]) {
    drop(Tuning::from_file(file("tuning.toml", bytes)));
}

/// Graphs with more nodes than this are lowered and left at that: a mutant may well be a large model.
const NODES: usize = 1500;

fn graphs(bytes: &[u8]) -> Vec<Graph> {
    let text = String::from_utf8_lossy(bytes);
    if let Ok(once) = salient::format_source("mutant.attn", &text) {
        let twice = salient::format_source("mutant.attn", &once);
        assert_eq!(twice.ok().as_ref(), Some(&once), "formatting is stable");
    }
    let mut sources = Sources::new();
    sources.add("mutant.attn", &text);
    let names = match salient::models(&sources) {
        Ok(names) => names,
        Err(e) => {
            assert!(!e.to_string().is_empty(), "a refusal says why");
            return Vec::new();
        }
    };
    let lowered = names.into_iter().take(4).filter_map(|model| {
        let options = Options { model: Some(model), ..Options::default() };
        match salient::lower(&sources, &options) {
            Ok(lowered) => Some(lowered.graph),
            Err(e) => {
                assert!(!e.to_string().is_empty(), "a refusal says why");
                None
            }
        }
    });
    lowered.filter(|g| g.len() <= NODES).collect()
}

/// Any bytes as source text, through to machine code.
pub fn source(bytes: &[u8]) {
    for (n, graph) in graphs(bytes).into_iter().enumerate() {
        drop(salient_ir::text::print(&graph));
        let turn = crate::data::hash(&String::from_utf8_lossy(bytes)) as usize + n;
        let (engine, fp) =
            [(Engine::Jit, Fp::Default), (Engine::Unfused, Fp::Default), (Engine::Jit, Fp::Strict)][turn % 3];
        let isa = if (turn / 3).is_multiple_of(2) { IsaChoice::Auto } else { IsaChoice::Only(Isa::Baseline) };
        let options = Options { engine, fp, isa, threads: Some(1), ..Options::default() };
        drop(Model::from_graph(graph, &options));
    }
}

/// Any bytes as the text of a plan; one that is read is what is written, and compiles.
pub fn plan(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let isa = IsaChoice::Only(Isa::Baseline);
    let options = Options { isa, threads: Some(1), ..Options::default() };
    match salient::read_plan(&text, &options) {
        Ok(read) => {
            assert_eq!(read.print(&read.plan()).trim_end(), text.trim_end(), "it reads back as another plan");
            if read.graph().len() <= NODES {
                drop(Model::from_plan(&read, &options));
            }
        }
        Err(e) => assert!(!e.to_string().is_empty(), "a refusal says why"),
    }
}

/// Any bytes as source text; what compiles must compute what is written.
pub fn values(bytes: &[u8]) {
    for graph in graphs(bytes) {
        let seed = crate::data::hash(&String::from_utf8_lossy(bytes));
        if graph.len() > NODES / 5 || !graph.states().is_empty() {
            continue;
        }
        let Some(sizes) = generate::call::any_sizes(&graph, seed) else { continue };
        let trial = Trial { graph, seed, sizes: vec![sizes], data: Data::Tame };
        let ways = all_ways();
        if let Err(failure) = trial.check(&[ways[0], ways[1 + seed as usize % (ways.len() - 1)]]) {
            panic!("{}", crate::trial::describe(&trial, &failure));
        }
    }
}

/// Any bytes as the requests of `salient serve`: an answer for each line, and an end when they end. Requests that ask for
/// much time or for another folder are left out.
pub fn serve(bytes: &[u8]) {
    let Some(salient) = std::env::var_os("SALIENT") else { return };
    let text = String::from_utf8_lossy(bytes);
    let harmless = |line: &&str| {
        let (word, rest) = line.trim().split_once(' ').unwrap_or((line.trim(), ""));
        let long = rest.parse::<f64>().is_ok_and(|seconds| seconds > 0.02);
        let away = rest.contains('/') || rest.contains("..");
        word != "peak" && !long && !(word == "write" && away)
    };
    let requests: Vec<&str> = text.split('\n').filter(harmless).collect();
    let model = file("served.attn", seeds::SERVED.as_bytes());
    let input = file("x.npy", &seeds::npy().swap_remove(0));
    let given = file("requests.txt", requests.join("\n").as_bytes());
    let output = std::process::Command::new(salient)
        .current_dir(scratch())
        .arg("serve")
        .arg(&model)
        .arg("--input")
        .arg(format!("x={}", input.display()))
        .stdin(std::fs::File::open(given).expect("just written"))
        .output()
        .expect("the program can be started");
    let answers = output.stdout.split(|b| *b == b'\n').filter(|line| !line.is_empty()).count();
    let asked = if requests.join("\n").is_empty() { 0 } else { requests.join("\n").lines().count() };
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "serve ends with {}: {errors}", output.status);
    assert_eq!(answers, asked + 1, "an answer for each request and one before");
}
