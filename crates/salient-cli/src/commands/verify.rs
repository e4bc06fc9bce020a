//! `salient verify`: compiled code against the interpreter, on generated dimensions and data.

use crate::input::numbers::times;
use crate::input::options::Compile;
use crate::output::failure::{Failure, Outcome};
use crate::output::report::Checked;
use crate::output::terminal;
use salient::verify::{Finding, Lengths, Problem, Trials, verify};
use salient::{Options, lower, read_sources};
use std::path::PathBuf;

/// Arguments of `salient verify`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The source file
    file: PathBuf,
    #[command(flatten)]
    compile: Compile,
    /// Choices of dimensions and data to try: 20 if not given, and with --each-length as many as there are
    #[arg(long, value_name = "N", value_parser = times, allow_negative_numbers = true)]
    trials: Option<usize>,
    /// Give each dimension in turn the lengths 1, 2, 3, 5, 7, 17, 31, 33, 127 and 1025, as far as the model accepts them
    #[arg(long)]
    each_length: bool,
    /// What they are drawn from
    #[arg(long, value_name = "SEED", default_value_t = Trials::default().seed)]
    seed: u64,
}

/// Tries, and reports every disagreement.
pub(crate) fn run(args: &Args) -> Outcome {
    let options: Options = args.compile.options()?;
    let graph = lower(&read_sources(&args.file)?, &options)?.graph;
    let (lengths, count) = if args.each_length {
        (Lengths::Each, usize::MAX)
    } else {
        (Lengths::Drawn, Trials::default().count)
    };
    let trials =
        Trials { count: args.trials.unwrap_or(count), seed: args.seed, lengths, ..Trials::default() };
    let watched = terminal::stderr_is_watched();
    let mut progress = |trial: usize| {
        if watched {
            terminal::note(&format!("\rtrial {}", trial + 1));
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
        Problem::Threads => "the number of threads changes the result".to_owned(),
    };
    format!("{} in trial {} ({}): {problem}", finding.way, finding.trial, dimensions.join(", "))
}
