//! The forms that a model takes on its way to machine code.

use std::fmt;

/// A form of a model, from text to machine code; each can be printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Stage {
    /// The source text, formatted.
    Source,
    /// The typed graph as written.
    Graph,
    /// The graph after equality saturation.
    Fused,
    /// What is stored, and the kernels that store it.
    Plan,
    /// Loop programs over tiles.
    Kernels,
    /// How much memory a call works in: a formula of the dimensions.
    Memory,
    /// Cranelift's intermediate form.
    Clif,
    /// Machine code.
    Asm,
}

impl Stage {
    /// Every stage, in order.
    pub const ALL: [Stage; 8] = [
        Stage::Source,
        Stage::Graph,
        Stage::Fused,
        Stage::Plan,
        Stage::Kernels,
        Stage::Memory,
        Stage::Clif,
        Stage::Asm,
    ];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Stage::Source => "source",
            Stage::Graph => "graph",
            Stage::Fused => "fused",
            Stage::Plan => "plan",
            Stage::Kernels => "kernels",
            Stage::Memory => "memory",
            Stage::Clif => "clif",
            Stage::Asm => "asm",
        }
    }

    /// The stage with that name.
    pub fn from_name(name: &str) -> Option<Stage> {
        Stage::ALL.into_iter().find(|s| s.name() == name)
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How a model is run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Engine {
    /// Fused machine code.
    #[default]
    Jit,
    /// Machine code of the graph as written, without any rewriting.
    Unfused,
    /// The reference interpreter on the graph as written, in f64. Slow on purpose.
    Oracle,
}

impl Engine {
    /// Every engine.
    pub const ALL: [Engine; 3] = [Engine::Jit, Engine::Unfused, Engine::Oracle];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Engine::Jit => "jit",
            Engine::Unfused => "unfused",
            Engine::Oracle => "oracle",
        }
    }

    /// The engine with that name.
    pub fn from_name(name: &str) -> Option<Engine> {
        Engine::ALL.into_iter().find(|e| e.name() == name)
    }
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
