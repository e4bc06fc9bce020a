//! `salient verify`: compiled code against the interpreter, on generated dimensions and data.

use crate::failure::{Failure, Outcome};
use crate::options::Compile;
use crate::report::Checked;
use crate::terminal;
use salient::verify::{Finding, Problem, Trials, verify};
use salient::{Options, lower, read_sources};
use std::path::PathBuf;

/// Arguments of `salient verify`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The source file
    file: PathBuf,
    #[command(flatten)]
    compile: Compile,
    /// Choices of dimensions and data to try
    #[arg(long, value_name = "N", default_value_t = Trials::default().count)]
    trials: usize,
    /// What they are drawn from
    #[arg(long, value_name = "SEED", default_value_t = Trials::default().seed)]
    seed: u64,
}

/// Tries, and reports every disagreement.
pub(crate) fn run(args: &Args) -> Outcome {
    let options: Options = args.compile.options();
    let graph = lower(&read_sources(&args.file)?, &options)?.graph;
    let trials = Trials { count: args.trials, seed: args.seed };
    let watched = terminal::stderr_is_watched();
    let mut progress = |trial: usize| {
        if watched {
            terminal::note(&format!("\r{} of {}", trial + 1, args.trials));
        }
    };
    let verified = verify(&graph, &options, trials, &mut progress);
    if watched {
        terminal::note("\r                    \r");
    }
    let verified = verified?;
    if !verified.findings.is_empty() {
        let lines: Vec<String> = verified.findings.iter().map(sentence).collect();
        return Err(Failure::model(lines.join("\n")));
    }
    let mut text = format!(
        "{}: fused and unfused code agree with the interpreter in {} trials",
        graph.name(),
        verified.compared
    );
    if verified.without_value > 0 {
        text += &format!("; in {} more, all of them refuse the data", verified.without_value);
    }
    terminal::print(&format!("{text}\n"))
}

fn sentence(finding: &Finding) -> String {
    let dimensions: Vec<String> = finding.dimensions.iter().map(|(n, v)| format!("{n} = {v}")).collect();
    let problem = match &finding.problem {
        Problem::Deviation(name, d) => {
            let checked = Checked { name: name.to_string(), result: Ok(d.clone()) };
            checked.complaint().expect("a deviation that is past the tolerance")
        }
        Problem::Failure(why) => why.clone(),
    };
    format!("{} in trial {} ({}): {problem}", finding.engine, finding.trial, dimensions.join(", "))
}
