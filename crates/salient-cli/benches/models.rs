//! The models of `examples/bench` at the sizes that `docs/benchmarks.md` tells of, each by `salient bench`:
//! `cargo bench -p salient-cli --bench models -- [CASES] [-- OPTIONS]`.
//!
//! A case runs if its line contains one of the words given; options go to every run, such as `--threads 2` or `--isa avx2`.
//! How time is taken, and what a line of the table means, is the command's business.

use std::path::Path;
use std::process::Command;

/// File, model, dimensions.
const CASES: &[(&str, &str, &str)] = &[
    ("product", "product", "M=512 K=512 N=512"),
    ("product", "product", "M=512 K=768 N=3072"),
    ("product", "product", "M=1 K=768 N=3072"),
    ("product", "product", "M=16 K=384 N=384"),
    ("product", "product", "M=2048 K=3072 N=768"),
    ("heads", "plain", "H=12 T=1024 E=64"),
    ("heads", "causal", "H=12 T=1024 E=64"),
    ("heads", "plain", "H=1 T=4096 E=64"),
    ("heads", "causal", "H=1 T=4096 E=64"),
    ("heads", "window", "H=1 T=4096 E=64"),
    ("rows", "norm", "T=4096 D=768"),
    ("rows", "rms", "T=4096 D=768"),
    ("rows", "weights", "T=4096 D=768"),
    ("rows", "running", "T=4096 D=768"),
    ("rows", "activation", "T=4096 D=768"),
    ("rows", "lookup", "T=4096 V=8192 D=768"),
];

fn main() {
    // Cargo adds `--bench`.
    let args: Vec<String> = std::env::args().skip(1).filter(|a| a != "--bench").collect();
    let (words, options) = match args.iter().position(|a| a == "--") {
        Some(at) => (&args[..at], &args[at + 1..]),
        None => (&args[..], &args[..0]),
    };
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/bench");
    for (file, model, sizes) in CASES {
        let line = format!("{file} {model} {sizes}");
        if !words.is_empty() && !words.iter().any(|word| line.contains(word.as_str())) {
            continue;
        }
        println!("\n== {line}");
        let mut command = Command::new(env!("CARGO_BIN_EXE_salient"));
        command.arg("bench").arg(examples.join(file).with_extension("attn"));
        command.args(["--model", model, "--engines", "jit", "--rounds", "5", "--seconds", "0.2"]);
        command.args(sizes.split(' ').flat_map(|size| ["--set", size])).args(options);
        let status = command.status().expect("the program runs");
        assert!(status.success(), "salient bench failed: {line}");
    }
}
