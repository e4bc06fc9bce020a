//! Valid inputs of each kind, and the corpus of the tree: what once failed, and what reaches far.

use crate::files::{files_under, root, text};
use crate::generate;
use salient::{Array, Arrays, Isa, IsaChoice, Options, Sources, Stage, Timings, Tuning};
use salient_ir::text::print;

/// The model behind `serve`.
pub(super) const SERVED: &str =
    "model served(x: f32[T, D]) -> (y: f32[T, D]) { return softmax(x @ x.T) @ x }\n";

/// The files of a target's corpus.
fn corpus(target: &str) -> Vec<Vec<u8>> {
    let folder = root().join("fuzz/corpus").join(target);
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut paths: Vec<_> = entries.filter_map(|e| Some(e.ok()?.path())).collect();
    paths.sort();
    paths.iter().filter_map(|p| std::fs::read(p).ok()).collect()
}

/// Programs: of the examples, of the cases, and random ones.
pub(super) fn sources() -> Vec<Vec<u8>> {
    let mut out = corpus("source");
    for folder in ["examples", "tests/cases", "tests/equivalence"] {
        out.extend(files_under(folder, "attn").iter().map(|f| text(&format!("{folder}/{f}")).into_bytes()));
    }
    out.extend((0..60).map(|seed| generate::source(seed, 3 + seed as usize % 9).into_bytes()));
    out
}

/// Programs as graphs are printed, as written and fused.
pub(super) fn printed() -> Vec<Vec<u8>> {
    let mut out = corpus("printed");
    for seed in 0..60 {
        let graph = generate::program(seed, 4 + seed as usize % 9);
        out.push(print(&salient::optimise(&graph, &Options::default()).graph).into_bytes());
        out.push(print(&graph).into_bytes());
    }
    out
}

/// Plans: of the examples, as their snapshots show them, and of random programs.
pub(super) fn plans() -> Vec<Vec<u8>> {
    let mut out = corpus("plan");
    let folder = "tests/tests/snapshots/examples";
    for file in files_under(folder, "snap").iter().filter(|file| file.ends_with("__plan.snap")) {
        let snapshot = text(&format!("{folder}/{file}"));
        let (_, plan) = snapshot.split_once("\n---\n").expect("a snapshot has a head");
        out.push(plan.as_bytes().to_vec());
    }
    for seed in 0..30 {
        let mut sources = Sources::new();
        sources.add("program.attn", &print(&generate::program(seed, 4 + seed as usize % 9)));
        let isa = IsaChoice::Only(Isa::Baseline);
        let options = Options { isa, ..Options::default() };
        let plan = salient::print_stage(&sources, Stage::Plan, &options, &mut Timings::default());
        out.push(plan.expect("a program that was generated compiles").into_bytes());
    }
    out
}

fn some_arrays() -> Arrays {
    let mut out = Arrays::new();
    let arrays = [
        ("x", Array::from_f32(vec![2, 3], vec![1.0, -2.0, 0.5, f32::INFINITY, f32::NAN, 0.0])),
        ("in.ids", Array::from_i64(vec![4], vec![0, 1, -1, 1 << 40])),
        ("param.layers.0.weight", Array::from_bool(vec![2, 1, 1], vec![true, false])),
        ("out.nothing", Array::from_f32(vec![0, 7], Vec::new())),
        ("half", Array::from_f16_bits(vec![3], vec![0x3c00, 0x7e00, 1])),
    ];
    for (name, array) in arrays {
        out.insert(name, array.expect("it fits")).expect("named once");
    }
    out
}

pub(super) fn npy() -> Vec<Vec<u8>> {
    let arrays = some_arrays();
    let mut out: Vec<Vec<u8>> = arrays.iter().filter_map(|(_, a)| salient_io::encode_npy(a).ok()).collect();
    out.extend(corpus("npy"));
    out
}

/// What a writer writes.
fn written(name: &str, write: impl Fn(&std::path::Path)) -> Vec<u8> {
    let path = super::scratch().join(name);
    write(&path);
    std::fs::read(path).expect("just written")
}

pub(super) fn npz() -> Vec<Vec<u8>> {
    let mut out =
        vec![written("seed.npz", |p| salient::write_npz(p, &some_arrays()).expect("it can be written"))];
    out.extend(corpus("npz"));
    out
}

pub(super) fn safetensors() -> Vec<Vec<u8>> {
    let write =
        |p: &std::path::Path| salient_io::write_safetensors(p, &some_arrays()).expect("it can be written");
    let mut out = vec![written("seed.safetensors", write)];
    out.extend(corpus("safetensors"));
    out
}

pub(super) fn gguf() -> Vec<Vec<u8>> {
    corpus("gguf")
}

pub(super) fn index() -> Vec<Vec<u8>> {
    let whole = r#"{"metadata": {"total_size": 24}, "weight_map": {"x": "one.safetensors", "in.ids": "one.safetensors",
 "param.layers.0.weight": "one.safetensors", "out.nothing": "one.safetensors", "half": "one.safetensors"}}"#;
    let mut out = vec![
        whole.as_bytes().to_vec(),
        br#"{"weight_map": {"x": "two.safetensors", "y": "model.safetensors.index.json"}}"#.to_vec(),
        br#"{"weight_map": {}}"#.to_vec(),
    ];
    out.extend(corpus("index"));
    out
}

pub(super) fn tokenizer() -> Vec<Vec<u8>> {
    corpus("tokenizer")
}

pub(super) fn tuning() -> Vec<Vec<u8>> {
    let mut out = vec![Tuning::default().to_text().into_bytes()];
    out.extend(corpus("tuning"));
    out
}

pub(super) fn serve() -> Vec<Vec<u8>> {
    let mut out: Vec<Vec<u8>> = [
        "turn 0.001\nsteps 0.001\nwrite out.npz\n",
        "turn 0\nturn nan\nturn -1\nturn inf\n\nnothing\nwrite\n",
        "write out.npz\nturn 1e-3\nwrite x\nsteps 0\n",
    ]
    .map(|t| t.as_bytes().to_vec())
    .to_vec();
    out.extend(corpus("serve"));
    out
}
