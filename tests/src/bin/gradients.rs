//! Gradients of the programs of a folder: `cargo run --release -p salient-tests --bin gradients -- FOLDER`, or of all of the tree.
//!
//! A line for each model: how many directions of differences agree in f64, whether the compiled gradients are those of the
//! interpreter, and what the backward pass stores for every query and key. `--graph FILE` prints the backward pass of a file.

use salient::verify::{Lengths, Trials, verify, verify_gradients};
use salient::{Options, lower, require_fused};
use salient_grad::{backward, of_results};
use salient_ir::text;
use salient_tests::examples::{Example, models_under};
use std::process::ExitCode;

/// What is looked at if nothing is named.
const ALL: [&str; 3] = ["tests/library", "examples", "tests/cases"];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match words[..] {
        ["--graph", file] => print(file),
        [] => ALL.iter().try_for_each(|folder| report(folder)),
        _ => words.iter().try_for_each(|folder| report(folder)),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

/// Prints the backward pass of each model of a file.
fn print(file: &str) -> Result<(), String> {
    let (folder, name) = file.rsplit_once('/').ok_or("a file below the project")?;
    let models = models_under(folder);
    let found = models.iter().filter(|model| model.file.ends_with(name));
    found.map(backward_of).try_for_each(|text| {
        println!("{}", text?);
        Ok(())
    })
}

fn backward_of(example: &Example) -> Result<String, String> {
    let graph = lower(&example.sources()?, &example.options()).map_err(|e| e.to_string())?.graph;
    Ok(text::print(&backward(&graph).map_err(|e| e.to_string())?))
}

/// A line for each model of a folder; an error names those that are wrong.
fn report(folder: &str) -> Result<(), String> {
    let mut wrong = Vec::new();
    for example in models_under(folder) {
        match line(&example) {
            Ok((text, is_right)) => {
                println!("{folder}/{}: {text}", example.name);
                if !is_right {
                    wrong.push(example.name);
                }
            }
            Err(why) => println!("{folder}/{}: none: {}", example.name, why.lines().next().unwrap_or("")),
        }
    }
    if wrong.is_empty() { Ok(()) } else { Err(format!("wrong in {folder}: {}", wrong.join(", "))) }
}

/// What is said of a model, and whether its gradients are right; an error says why it has none.
fn line(example: &Example) -> Result<(String, bool), String> {
    let sources = example.sources()?;
    let graph = lower(&sources, &example.options()).map_err(|e| e.to_string())?.graph;
    let trials = Trials { count: 2, lengths: Lengths::Drawn, most_work: 1_000_000, ..Trials::default() };
    let found = verify_gradients(&graph, trials, &mut |_| {}).map_err(|e| e.to_string())?;
    let all = of_results(&graph).map_err(|e| e.to_string())?;
    let compiled = verify(&all, &Options::default(), trials, &mut |_| {});
    let stored = backward(&graph).map(|graph| require_fused(&sources, &graph, &Options::default()));
    let (compiled, is_same) = match compiled {
        Ok(found) if found.findings.is_empty() => ("compiled alike".to_owned(), true),
        Ok(found) => (format!("compiled otherwise: {:?}", found.findings[0]), false),
        Err(why) => (format!("not compiled: {why}"), false),
    };
    let stored = match stored {
        Ok(Ok(())) | Err(_) => "fused".to_owned(),
        Ok(Err(why)) => {
            let heads = why.to_string();
            let heads: Vec<&str> = heads.lines().filter(|line| line.starts_with("error")).collect();
            heads.join("; ")
        }
    };
    let differences = format!("{} directions agree, {} at kinks", found.compared, found.at_kinks);
    let wrong: Vec<String> = found.findings.iter().map(|f| format!("{f:?}")).collect();
    let is_right = is_same && wrong.is_empty();
    Ok((format!("{differences}; {compiled}; {stored}{}", wrong.join("; ")), is_right))
}
