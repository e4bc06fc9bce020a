//! Blocks that repeat are optimised once, and the model means what it meant.

use salient::verify::{Trials, verify};
use salient::{Graph, Options, Sources, lower, optimise, schedule, schedule_blocks};
use salient_ir::FusedOp;
use salient_ir::text::print;
use salient_opt::Report;
use salient_tests::files::sources;
use std::collections::HashSet;
use std::sync::Arc;

/// Models of several layers: the file, the model, its dimensions, and how many layers of each chain are equal to the letter.
const MODELS: &[(&str, &str, &str, &[usize])] = &[
    ("bench/gpt2", "gpt2", "V=11 N=16 D=8 H=2 L=5", &[5]),
    ("models/gpt2", "gpt2", "V=11 P=16 D=8 H=2 L=5", &[5]),
    ("models/gpt2", "gpt2_scores", "V=11 P=16 D=8 H=2 L=5", &[5]),
    ("models/llama", "llama", "V=11 D=16 H=4 G=2 F=12 L=5", &[5]),
    ("models/vit", "vit", "N=7 S=8 P=4 D=8 H=2 F=12 L=5", &[5]),
    // The first layer reads features under another name than those behind it.
    ("models/minilm", "minilm", "V=11 P=16 D=8 H=2 F=12 L=6", &[5]),
    // The encoder, then the decoder.
    ("models/t5", "t5", "V=11 D=8 H=2 E=4 F=12 L=5 N=8 max_distance=20", &[5, 5]),
];

fn lowered(file: &str, model: &str, sizes: &str) -> Graph {
    let sources = sources(&format!("examples/{file}.attn")).unwrap();
    let set = sizes.split(' ').filter_map(|s| s.split_once('=')).map(|(n, v)| (n.to_owned(), v.to_owned()));
    let options = Options { model: Some(model.to_owned()), set: set.collect(), ..Options::default() };
    lower(&sources, &options).unwrap_or_else(|e| panic!("{file}: {e}")).graph
}

fn inline(source: &str) -> Graph {
    let mut sources = Sources::new();
    sources.add("source", source);
    lower(&sources, &Options::default()).unwrap_or_else(|e| panic!("{e}")).graph
}

/// How many equal blocks each chain has.
fn chains(report: &Report) -> Vec<usize> {
    report.repeated.iter().map(|chain| chain.times).collect()
}

#[track_caller]
fn agrees(graph: &Graph) {
    let trials = Trials { count: 3, seed: 7, ..Trials::default() };
    let verified = verify(graph, &Options::default(), trials, &mut |_| {}).unwrap();
    assert!(verified.findings.is_empty(), "{:?}", verified.findings);
    assert!(verified.compared > 0);
}

#[test]
fn models_of_equal_layers_mean_what_they_meant() {
    for (file, model, sizes, times) in MODELS {
        let graph = lowered(file, model, sizes);
        let optimised = optimise(&graph, &Options::default());
        assert_eq!(chains(&optimised.report), *times, "{file}");
        assert_eq!(salient_ir::verify::verify(&optimised.graph), Vec::<String>::new(), "{file}");
        let text = print(&optimised.graph);
        assert_eq!(text, print(&optimise(&graph, &Options::default()).graph), "{file}");
        assert_eq!(text, print(&inline(&text)), "{file}");
        // The kernels of the blocks between are copies, and just what scheduling each of them makes.
        let (fused, options) = (&optimised.graph, Options::default());
        let once = schedule_blocks(fused, &optimised.chains, &options);
        assert!(once.copies.iter().flatten().count() > 0, "{file}");
        let each = schedule(fused, &options);
        for print in [salient_tile::text::print, salient_tile::text::print_bodies] {
            let [once, each] = [&once, &each].map(print);
            let differ = once.lines().zip(each.lines()).find(|(once, each)| once != each);
            assert_eq!((differ, once.len()), (None, each.len()), "{file}");
        }
        agrees(&graph);
    }
}

/// Every layer has what the first has: operators, certificates and names.
#[test]
fn every_block_is_told_of() {
    let report = |sizes| optimise(&lowered("bench/gpt2", "gpt2", sizes), &Options::default()).report;
    let report = report("V=11 N=16 D=8 H=2 L=6");
    let blocks: Vec<_> = report.certificates.iter().map(|c| c.block).collect();
    assert_eq!(blocks, (0..6).map(Some).collect::<Vec<_>>());
    assert!(report.certificates.windows(2).all(|c| c[0].rules == c[1].rules && c[0].node != c[1].node));
}

#[test]
fn depth_costs_the_optimiser_nothing() {
    let nodes = |sizes| optimise(&lowered("bench/gpt2", "gpt2", sizes), &Options::default()).report.nodes;
    assert_eq!(nodes("V=11 N=16 D=8 H=2 L=5"), nodes("V=11 N=16 D=8 H=2 L=20"));
}

/// Kernels of a further layer call the bodies that there are.
#[test]
fn a_further_layer_brings_no_bodies_of_its_own() {
    let bodies = |sizes| {
        let optimised = optimise(&lowered("models/gpt2", "gpt2", sizes), &Options::default());
        let program = schedule_blocks(&optimised.graph, &optimised.chains, &Options::default());
        let all = program.kernels.iter().flat_map(|kernel| &kernel.bodies).map(Arc::as_ptr);
        (program.kernels.len(), all.collect::<HashSet<_>>().len())
    };
    let (few, many) = (bodies("V=11 P=16 D=8 H=2 L=6"), bodies("V=11 P=16 D=8 H=2 L=20"));
    assert!(many.0 > 2 * few.0, "{few:?} {many:?}");
    assert_eq!(few.1, many.1);
}

/// A stack of layers that goes on with what `next` says.
fn stack(next: &str) -> Graph {
    inline(&format!(
        "block layer(x: f32[B, D]) -> f32[B, D] {{
    param weight: f32[D, D] = normal(0.5)
    return x + tanh(x @ weight)
}}
model m[L = 6](x: f32[B, D]) -> (y: f32[B, D]) {{
    let before = x
    for l in 0..L {{
        {next}
    }}
    return x
}}"
    ))
}

#[test]
fn what_is_no_chain_of_equal_blocks_is_optimised_whole() {
    let repeated = |graph: &Graph| chains(&optimise(graph, &Options::default()).report);
    let plain = stack("x = layer(x) as h.{l}");
    assert_eq!(repeated(&plain), [6]);
    agrees(&plain);
    // Each block reads what the two before it gave.
    let skips =
        stack("let now = x\n        x = layer(x) as h.{l}\n        x = x + before\n        before = now");
    assert_eq!(repeated(&skips), Vec::<usize>::new());
    agrees(&skips);
    // Each block computes something else.
    let scaled = stack("x = layer(x * l) as h.{l}");
    assert_eq!(repeated(&scaled), Vec::<usize>::new());
    agrees(&scaled);
    // Every block reads what goes into the first.
    let shared = stack("x = layer(x) as h.{l}\n        x = x * before");
    assert_eq!(repeated(&shared), [6]);
    agrees(&shared);
}

/// What goes into the first block is not taken to be finite because it is a block that reads it.
#[test]
fn facts_about_what_goes_in_hold_for_every_block() {
    let fused = |first: &str| {
        let graph = inline(&format!(
            "block layer(x: f32[T, D]) -> f32[T, D] {{
    param weight: f32[D, D] = normal(0.5)
    let s = x @ x.T
    let e = exp(s - max(s)[.., _])
    return x + tanh((e @ x) / sum(e)[.., _] @ weight)
}}
model m[L = 5](x: f32[T, D]) -> (y: f32[T, D]) {{
    let x = {first}
    for l in 0..L {{
        x = layer(x) as h.{{l}}
    }}
    return x
}}"
        ));
        let report = optimise(&graph, &Options::default()).report;
        assert_eq!(chains(&report), [5]);
        agrees(&graph);
        let is_attention = |op: FusedOp| op.info().reduces && op.info().weights.is_exponential();
        report.certificates.iter().filter(|c| is_attention(c.op)).count()
    };
    assert_eq!(fused("x"), 5);
    assert_eq!(fused("1.0 / x"), 0);
}
