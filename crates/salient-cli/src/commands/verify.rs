//! `salient verify`: compiled code against the interpreter, on generated dimensions and data; gradients against differences.

use crate::input::numbers::times;
use crate::input::options::Compile;
use crate::input::program::read_sources;
use crate::output::failure::{Failure, Outcome};
use crate::output::report::Checked;
use crate::output::terminal;
use salient::verify::{
    Finding, GradientFinding, Lengths, Problem, Trials, gradients_of, verify, verify_gradients,
};
use salient::{Bindings, Graph, Options, lower};
use std::path::PathBuf;

/// Arguments of `salient verify`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The source file; `-` is standard input
    file: PathBuf,
    #[command(flatten)]
    compile: Compile,
    /// Choices of dimensions and data to try: 20 if not given, and with --each-length as many as there are
    #[arg(long, value_name = "N", value_parser = times, allow_negative_numbers = true)]
    trials: Option<usize>,
    /// Give each dimension in turn the lengths 1, 2, 3, 5, 7, 17, 31, 33, 127 and 1025, as far as the model accepts them
    #[arg(long)]
    each_length: bool,
    /// Compare the gradients of the model's results with central differences too, and compile and compare the gradients
    #[arg(long)]
    gradients: bool,
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
    let mut text = compared(&graph, &options, trials, "fused and unfused code agree")?;
    if args.gradients {
        let trials = Trials { ties: false, ..trials };
        text += &differentiated(&graph, trials)?;
        let gradients = gradients_of(&graph)?;
        text += &compared(&gradients, &options, trials, "fused and unfused code of the gradients agree")?;
    }
    terminal::print(&text)
}

/// Calls with each trial what shows it.
fn watching<T>(run: impl FnOnce(&mut dyn FnMut(usize)) -> T) -> T {
    let watched = terminal::shows_progress();
    let mut progress = |trial: usize| {
        if watched {
            terminal::note(&format!("\rtrial {}", trial + 1));
        }
    };
    let found = run(&mut progress);
    if watched {
        terminal::note("\r                    \r");
    }
    found
}

/// Compares compiled code with the interpreter; gives what is to be said if they agree.
fn compared(graph: &Graph, options: &Options, trials: Trials, what: &str) -> Outcome<String> {
    let verified = watching(|progress| verify(graph, options, trials, progress))?;
    if !verified.findings.is_empty() {
        let lines: Vec<String> = verified.findings.iter().map(sentence).collect();
        return Err(Failure::model(lines.join("\n")));
    }
    let mut text = format!("{}: {what} with the interpreter in {} trials", graph.name(), verified.compared);
    if verified.without_value > 0 {
        text += &format!("; in {} more, all of them refuse the data", verified.without_value);
    }
    Ok(text + "\n")
}

/// Compares gradients with differences; gives what is to be said if they agree.
fn differentiated(graph: &Graph, trials: Trials) -> Outcome<String> {
    let verified = watching(|progress| verify_gradients(graph, trials, progress))?;
    if !verified.findings.is_empty() {
        let lines: Vec<String> = verified.findings.iter().map(gradient_sentence).collect();
        return Err(Failure::model(lines.join("\n")));
    }
    let mut text = format!(
        "{}: gradients agree with differences of the interpreter along {} directions",
        graph.name(),
        verified.compared
    );
    if verified.at_kinks > 0 {
        text += &format!("; {} more meet a kink", verified.at_kinks);
    }
    Ok(text + "\n")
}

fn gradient_sentence(finding: &GradientFinding) -> String {
    let GradientFinding { trial, dimensions, port, gradient, difference } = finding;
    format!(
        "the gradient by `{port}` in trial {trial} ({}): {gradient} along a direction, the difference is {difference}",
        sizes(dimensions)
    )
}

fn sizes(dimensions: &Bindings) -> String {
    let sizes: Vec<String> = dimensions.iter().map(|(name, size)| format!("{name} = {size}")).collect();
    sizes.join(", ")
}

fn sentence(finding: &Finding) -> String {
    let problem = match &finding.problem {
        Problem::Deviation(name, d) => {
            let checked = Checked { name: name.to_string(), result: Ok(d.clone()) };
            checked.complaint().expect("a deviation that is past the tolerance")
        }
        Problem::Failure(why) => why.clone(),
        Problem::Threads => "the number of threads changes the result".to_owned(),
    };
    format!("{} in trial {} ({}): {problem}", finding.way, finding.trial, sizes(&finding.dimensions))
}
