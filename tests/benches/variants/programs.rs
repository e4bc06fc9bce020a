//! What is run: the spellings of `tests/equivalence`, the variants of `examples/variants`, and random programs.

use salient::{Engine, Graph, Model, Options, lower};
use salient_ir::Bindings;
use salient_tests::examples::models_under;
use salient_tests::files::sources;
use salient_tests::generate;

/// Elements that a random program may compute as written at the greatest length.
const WORK: f64 = 3e8;

/// Which keys an attention reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mask {
    None,
    Causal,
}

/// The families of spellings that are attentions, with the mask of the attention that they are compared with, and how many times
/// as long as that they may take, where a bound is set.
pub(crate) const FAMILIES: [(&str, Mask, Option<f64>); 32] = [
    ("alibi", Mask::Causal, None),
    ("base2", Mask::Causal, Some(1.15)),
    ("causal", Mask::Causal, None),
    ("cross", Mask::Causal, None),
    ("differential", Mask::None, Some(1.8)),
    ("dropped", Mask::Causal, Some(1.3)),
    ("dropped_bool", Mask::Causal, Some(1.3)),
    ("float_masks", Mask::Causal, Some(1.15)),
    ("forgetting", Mask::Causal, None),
    ("gate_query", Mask::None, Some(1.15)),
    ("grouped", Mask::None, None),
    ("heads", Mask::None, None),
    ("merged_layouts", Mask::Causal, Some(1.15)),
    ("ones_column", Mask::Causal, Some(1.15)),
    ("packed_slices", Mask::Causal, Some(1.15)),
    ("padded", Mask::None, None),
    ("plain", Mask::None, None),
    ("relative_shift", Mask::Causal, Some(1.8)),
    ("relu", Mask::None, None),
    ("second_mask", Mask::Causal, Some(1.3)),
    ("side_outputs", Mask::Causal, Some(1.15)),
    ("sigmoid", Mask::Causal, None),
    ("sink", Mask::None, None),
    ("soft_cap", Mask::Causal, None),
    ("squared_renorm", Mask::Causal, Some(1.15)),
    ("stick_breaking", Mask::Causal, Some(1.5)),
    ("talking_heads", Mask::None, Some(1.5)),
    ("temperature", Mask::Causal, Some(1.15)),
    ("thresholded", Mask::Causal, Some(1.15)),
    ("transposed_layouts", Mask::Causal, Some(1.15)),
    ("two_softmaxes", Mask::Causal, Some(1.8)),
    ("windowed", Mask::Causal, None),
];

/// How many times as long as the attention of its shape and mask a family may take, where that is bounded.
pub(crate) fn allowed_beside(family: &str) -> Option<f64> {
    FAMILIES.iter().find(|(name, ..)| *name == family).and_then(|(_, _, allowed)| *allowed)
}

/// What is no attention among the spellings.
const PARTS: [&str; 6] = ["gelu_erf", "gelu_tanh", "layer_norm", "rms_norm", "silu", "swiglu"];

/// A program that is run.
pub(crate) struct Program {
    /// Its path, or `random/SEED`.
    pub(crate) name: String,
    /// Its family among the spellings, if it is one.
    pub(crate) family: Option<(&'static str, Mask)>,
    pub(crate) graph: Graph,
}

/// The sizes at a length: heads, features and batch as in `docs/benchmarks.md`.
pub(crate) fn sizes_of(graph: &Graph, length: i64) -> Bindings {
    let of = |name: &str| match name {
        "T" | "S" | "N" | "M" => length,
        "B" => 1,
        "H" => 4,
        "G" => 2,
        "D" => 128,
        _ => 64,
    };
    graph.dimensions().into_iter().map(|name| (name.clone(), of(&name))).collect()
}

/// Every program, and so many random ones.
pub(crate) fn programs(random: u64) -> Result<Vec<Program>, String> {
    let mut out = Vec::new();
    for folder in ["tests/equivalence", "examples/variants"] {
        for example in models_under(folder) {
            let family = example.stem.split_once('/').map(|(family, _)| family);
            let known = FAMILIES.iter().find(|(name, ..)| Some(*name) == family);
            match family {
                Some(family) if PARTS.contains(&family) => continue,
                Some(family) if known.is_none() => {
                    return Err(format!("the family `{family}` is in no table"));
                }
                Some(_) | None => {}
            }
            let lowered = lower(&example.sources()?, &example.options()).map_err(|e| e.to_string())?;
            let family = known.map(|(name, mask, _)| (*name, *mask));
            let name = if family.is_some() { example.name } else { format!("examples/{}", example.name) };
            if lowered.graph.states().is_empty() {
                out.push(Program { name, family, graph: lowered.graph });
            }
        }
    }
    let at = Bindings::from([("T".into(), 512), ("S".into(), 512), ("D".into(), 128)]);
    let drawn = (0..).map(|seed| (seed, generate::attention(seed)));
    let small = drawn.filter(|(_, graph)| generate::call::work(graph, &at) < WORK);
    out.extend(small.take(random as usize).map(|(seed, graph)| Program {
        name: format!("random/{seed}"),
        family: None,
        graph,
    }));
    Ok(out)
}

/// The attentions that families are compared with.
pub(crate) struct Canonical {
    pub(crate) plain: Model,
    pub(crate) causal: Model,
}

impl Canonical {
    pub(crate) fn of(threads: usize) -> Result<Canonical, String> {
        let model = |family: &str| {
            let sources = sources(&format!("tests/equivalence/{family}/reference.attn"))?;
            Model::from_sources(&sources, &options(Engine::Jit, threads)).map_err(|e| e.to_string())
        };
        Ok(Canonical { plain: model("plain")?, causal: model("causal")? })
    }

    pub(crate) fn with(&self, mask: Mask) -> &Model {
        match mask {
            Mask::None => &self.plain,
            Mask::Causal => &self.causal,
        }
    }
}

pub(crate) fn options(engine: Engine, threads: usize) -> Options {
    Options { engine, threads: Some(threads), ..Options::default() }
}
