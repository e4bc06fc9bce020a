//! Memory of one long head: fused code needs a small part of what a matrix of scores would take, by its own count and as
//! the operating system measures it.

use salient::{Array, Arrays, Engine, Model, Options, Stage, Timings, Weights, lower, models, print_stage};
use salient_tests::examples::settings;
use salient_tests::files::{files_under, sources};
use salient_tests::sweep;
use salient_tile::memory::contract;
use std::process::Command;

/// Tokens and features of the head.
const T: usize = 4096;
const E: usize = 64;

/// Bytes of a matrix of scores.
const SCORES: usize = T * T * size_of::<f32>();

const PROGRAM: &str = "model head(q: f32[T, E], k: f32[T, E], v: f32[T, E]) -> (y: f32[T, E]) {
    let keep[i: T, j: T] = j <= i
    return softmax(if keep then q @ k.T / sqrt(E) else -inf) @ v
}";

fn model(engine: Engine) -> Model {
    let options = Options { engine, threads: Some(2), ..Options::default() };
    Model::compile(PROGRAM, &options).unwrap_or_else(|e| panic!("{e}"))
}

fn inputs() -> Arrays {
    inputs_of(T)
}

fn inputs_of(tokens: usize) -> Arrays {
    let mut rng = fastrand::Rng::with_seed(1);
    let mut inputs = Arrays::new();
    for name in ["q", "k", "v"] {
        let values = (0..tokens * E).map(|_| rng.f32() - 0.5).collect();
        inputs.insert(name, Array::from_f32(vec![tokens, E], values).expect("as many")).expect("named once");
    }
    inputs
}

#[test]
fn a_long_head_counts_less_than_a_fiftieth_of_its_scores() {
    let (model, inputs) = (model(Engine::Jit), inputs());
    let session = model.session(&inputs, Weights::none()).unwrap_or_else(|e| panic!("{e}"));
    let bytes = session.working_bytes().expect("compiled code counts");
    assert!(bytes > 0 && bytes * 50 < SCORES, "{bytes} bytes");
}

/// Weights that no softmax makes, and what an attention tells beside its context: nothing grows with a square of the tokens.
#[test]
fn no_variant_stores_its_scores() {
    for name in
        ["causal_linear_attention", "relu_attention", "retention", "side_outputs", "sigmoid_attention"]
    {
        let file = sources(&format!("examples/variants/{name}.attn")).expect("a file");
        let options = Options::default();
        let text = print_stage(&file, Stage::Memory, &options, &mut Timings::default());
        let text = text.unwrap_or_else(|e| panic!("{e}"));
        assert!(!text.contains("grows faster"), "{name}: {text}");
    }
}

/// What a plan says of memory is what its program needs, with blocks that are copied and without.
#[test]
fn plans_know_the_memory_of_their_programs() {
    sweep::each(&files_under("examples", "attn"), |file| {
        let sources = sources(&format!("examples/{file}"))?;
        for model in models(&sources).map_err(|e| e.to_string())? {
            let options = Options { model: Some(model.clone()), set: settings(file), ..Options::default() };
            let lowered = lower(&sources, &options).map_err(|e| e.to_string())?;
            let fused = salient::fuse(&lowered.graph, &options);
            for (fuse, graph) in [(true, &*fused), (false, &lowered.graph)] {
                let plan = salient_tile::plan(graph, salient_tile::Options { fuse, ..Default::default() });
                let (said, needed) = (contract(&plan.usage()), contract(&salient_tile::emit(&plan).usage()));
                if said != needed {
                    return Err(format!("{model}: the plan says\n{said}the program needs\n{needed}"));
                }
            }
        }
        Ok(())
    });
}

/// The variable that tells a child of this test which engine to measure.
const CHILD: &str = "SALIENT_MEASURED_ENGINE";

/// The resident memory of this process in bytes: now, and the greatest since it was reset.
#[cfg(target_os = "linux")]
fn resident() -> (usize, usize) {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux tells");
    let field = |name: &str| {
        let line = status.lines().find(|l| l.starts_with(name)).expect("Linux tells");
        line.split_whitespace().nth(1).and_then(|n| n.parse::<usize>().ok()).expect("in kilobytes") * 1024
    };
    (field("VmRSS:"), field("VmHWM:"))
}

/// What a child measures and prints; alone, it looks at the result only.
#[cfg(target_os = "linux")]
#[test]
fn measured_in_a_child() {
    let name = std::env::var(CHILD).unwrap_or_else(|_| Engine::Jit.name().to_owned());
    let engine = Engine::from_name(&name).expect("the parent knows the names");
    let (model, inputs) = (model(engine), inputs());
    let mut outputs = vec![Array::zeros(salient::DType::F32, vec![T, E]).expect("small")];
    // Written to, so that they are resident before the call.
    outputs[0].as_f32_mut().expect("f32").fill(1.0);
    // Code that runs for the first time is brought into memory, too.
    let few = inputs_of(64);
    let warm = model.session(&few, Weights::none()).unwrap_or_else(|e| panic!("{e}"));
    drop(warm.call(&few).unwrap_or_else(|e| panic!("{e}")));
    std::fs::write("/proc/self/clear_refs", "5").expect("a process may reset its own peak");
    let (before, _) = resident();
    let session = model.session(&inputs, Weights::none()).unwrap_or_else(|e| panic!("{e}"));
    session.run(&inputs, &mut outputs).unwrap_or_else(|e| panic!("{e}"));
    let (_, peak) = resident();
    assert!(outputs[0].as_f32().expect("f32").iter().all(|y| y.abs() < 0.5), "a mean of the values");
    println!("\nmeasured {}", peak.saturating_sub(before));
}

#[cfg(target_os = "linux")]
#[test]
fn a_long_head_takes_less_than_a_fiftieth_of_its_scores() {
    let measured = |engine: Engine| -> usize {
        let output = Command::new(std::env::current_exe().expect("this program"))
            .args(["--exact", "measured_in_a_child", "--nocapture"])
            .env(CHILD, engine.name())
            // Whatever is large comes fresh from the system: memory that compiling gave back would hide it.
            .env("MALLOC_MMAP_THRESHOLD_", "65536")
            .output()
            .expect("a child starts");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let line = text.lines().find_map(|l| l.strip_prefix("measured "));
        line.and_then(|n| n.parse().ok()).unwrap_or_else(|| panic!("{text}"))
    };
    let fused = measured(Engine::Jit);
    assert!(fused * 50 < SCORES, "{fused} bytes");
    // The measure does see a matrix of scores where there is one.
    let unfused = measured(Engine::Unfused);
    assert!(unfused >= SCORES, "{unfused} bytes");
    println!("fused {fused} bytes, unfused {unfused}");
}
