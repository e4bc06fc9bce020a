//! Flags that several commands share.

use crate::input::tuning;
use crate::output::failure::Outcome;
use crate::output::terminal;
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use salient::{Engine, Fp, IsaChoice, Options, Stage, Timings};

/// What is compiled.
#[derive(Args, Debug)]
pub(crate) struct Compile {
    /// The model to compile, where the file has several
    #[arg(long, value_name = "NAME")]
    pub(crate) model: Option<String>,
    /// The value of a dimension or of a parameter in brackets; may be given several times
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair)]
    pub(crate) set: Vec<(String, String)>,
    /// Freedom with floats: `strict` keeps to rules that hold exactly
    #[arg(long, value_name = "FP", value_parser = fp(), default_value = "default")]
    fp: Fp,
    /// Fail, with the reason, if attention is not fused
    #[arg(long)]
    pub(crate) require_fused: bool,
    /// Compile one plan for calls of all sizes, also where another one costs less at few rows
    #[arg(long)]
    one_plan: bool,
    /// Make errors of `warnings`
    #[arg(long, value_name = "WHAT", value_parser = ["warnings"])]
    deny: Option<String>,
    /// Verify the graph after each pass, the plan, the kernels and their addresses; a fault is a mistake in the compiler, and ends it
    #[arg(long)]
    verify: bool,
    /// What `salient tune` found, or `default` for none; if not given $SALIENT_TUNING, then the user's own file
    #[arg(long, value_name = "FILE")]
    tuning: Option<String>,
}

/// Whether to tell how long compiling takes.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct Timed {
    /// Show on standard error how long each step of compiling took
    #[arg(long)]
    timings: bool,
}

impl Timed {
    /// Whether that was asked for.
    pub(crate) fn wanted(self) -> bool {
        self.timings
    }

    /// Shows the steps, if that was asked for.
    pub(crate) fn show(self, timings: &Timings) {
        if self.timings {
            terminal::say(&timings.to_string());
        }
    }
}

/// How code is made and run.
#[derive(Args, Debug)]
pub(crate) struct Machine {
    /// What runs the model
    #[arg(long, value_parser = engine(), default_value = Engine::default().name())]
    pub(crate) engine: Engine,
    /// Which vectors compiled code uses: auto, baseline, avx2 or avx512
    #[arg(long, value_name = "ISA", default_value = "auto")]
    pub(crate) isa: IsaChoice,
    /// Threads; as many as the machine has if not given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Run as in training: `dropout` drops, by the draw of --seed
    #[arg(long, requires = "seed")]
    train: bool,
    /// The seed of what is drawn in training
    #[arg(long, value_name = "SEED", requires = "train")]
    seed: Option<u32>,
}

impl Compile {
    /// The library's options.
    pub(crate) fn options(&self) -> Outcome<Options> {
        Ok(Options {
            model: self.model.clone(),
            set: self.set.clone(),
            fp: self.fp,
            require_fused: self.require_fused,
            one_plan: self.one_plan,
            deny_warnings: self.deny.is_some(),
            verify: self.verify,
            tuning: tuning::chosen(self.tuning.as_deref())?,
            ..Options::default()
        })
    }

    /// The library's options, for a machine.
    pub(crate) fn options_for(&self, machine: &Machine) -> Outcome<Options> {
        Ok(Options {
            engine: machine.engine,
            train: machine.seed.filter(|_| machine.train),
            isa: machine.isa,
            threads: machine.threads.map(usize::from),
            ..self.options()?
        })
    }
}

/// `NAME=VALUE`, neither of them empty.
pub(crate) fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() && !value.is_empty() => {
            Ok((name.to_owned(), value.to_owned()))
        }
        Some(_) | None => Err("expected NAME=VALUE".to_owned()),
    }
}

/// Parses the name of a stage.
pub(crate) fn stage() -> impl TypedValueParser<Value = Stage> {
    PossibleValuesParser::new(Stage::ALL.map(Stage::name))
        .map(|name| Stage::from_name(&name).expect("one of the possible values"))
}

/// Parses the name of an engine.
pub(crate) fn engine() -> impl TypedValueParser<Value = Engine> {
    PossibleValuesParser::new(Engine::ALL.map(Engine::name))
        .map(|name| Engine::from_name(&name).expect("one of the possible values"))
}

/// Parses what may be done with floats.
fn fp() -> impl TypedValueParser<Value = Fp> {
    PossibleValuesParser::new(["default", "strict"])
        .map(|name| if name == "strict" { Fp::Strict } else { Fp::Default })
}
