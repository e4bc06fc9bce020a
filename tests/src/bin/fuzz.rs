//! Mutants of valid inputs into everything that reads what others give:
//! `cargo run --release -p salient-tests --bin fuzz -- --target source --mutants 100000`.
//!
//! `serve` needs the path of the command line in the environment: `SALIENT=target/release/salient`.

use salient_tests::fuzz::{TARGETS, Target, mutate::mutant};
use salient_tests::watch::{Watched, heard, number, say};
use std::collections::BTreeMap;
use std::panic::catch_unwind;
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// An input that takes longer is a failure.
const PATIENCE: Duration = Duration::from_secs(5);
/// One during which nothing is said for so long hangs.
const HANGS: Duration = Duration::from_secs(30);
/// Kilobytes of address space of a child.
const MEMORY: u64 = 4 << 20;

const USAGE: &str = "fuzz [--target NAME] [--mutants N] [--seed N] [--threads N] [--show N]";

/// What is asked for.
#[derive(Clone, Debug, Default)]
struct Request {
    target: Option<String>,
    mutants: u64,
    seed: u64,
    threads: u64,
    show: Option<u64>,
    child: Option<(u64, u64, u64)>,
}

fn request() -> Result<Request, String> {
    let mut out = Request { mutants: 1000, threads: 1, ..Request::default() };
    let mut part = (0, 0, 1);
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--target" => out.target = args.next(),
            "--mutants" => out.mutants = number(&arg, args.next())?,
            "--seed" => out.seed = number(&arg, args.next())?,
            "--threads" => out.threads = number(&arg, args.next())?.max(1),
            "--show" => out.show = Some(number(&arg, args.next())?),
            "--child" => out.child = Some(part),
            "--from" => part.0 = number(&arg, args.next())?,
            "--to" => part.1 = number(&arg, args.next())?,
            "--step" => part.2 = number(&arg, args.next())?.max(1),
            _ => return Err(format!("{arg} is not known: {USAGE}")),
        }
    }
    out.child = out.child.map(|_| part);
    Ok(out)
}

fn main() -> ExitCode {
    let wrong = |why: &str| {
        eprintln!("{why}");
        ExitCode::from(2)
    };
    let request = match request() {
        Ok(request) => request,
        Err(why) => return wrong(&why),
    };
    let targets: Vec<&Target> =
        TARGETS.iter().filter(|t| request.target.as_ref().is_none_or(|name| name == t.name)).collect();
    let Some(first) = targets.first() else {
        let names: Vec<&str> = TARGETS.iter().map(|t| t.name).collect();
        return wrong(&format!("no such target; there are {}", names.join(", ")));
    };
    if let Some(number) = request.show {
        let bytes = mutant(&(first.seeds)(), first.manner, number);
        print!("{}", String::from_utf8_lossy(&bytes));
        return ExitCode::SUCCESS;
    }
    if let Some((from, to, step)) = request.child {
        child(first, from, to, step);
        return ExitCode::SUCCESS;
    }
    let failed = targets.iter().filter(|t| !watch(t, &request)).count();
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::from(1) }
}

/// Where the last panic was.
static PLACE: Mutex<String> = Mutex::new(String::new());

fn child(target: &Target, from: u64, to: u64, step: u64) {
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map_or_else(String::new, |l| format!("{}:{}", l.file(), l.line()));
        if let Ok(mut last) = PLACE.lock() {
            *last = place;
        }
    }));
    let seeds = (target.seeds)();
    if seeds.is_empty() {
        return;
    }
    for number in (from..to).step_by(step as usize) {
        say(&format!("at {number}"));
        let bytes = mutant(&seeds, target.manner, number);
        let started = Instant::now();
        let outcome = catch_unwind(|| (target.run)(&bytes));
        let taken = started.elapsed();
        match outcome {
            Err(panic) => {
                let text = panic.downcast_ref::<String>().map(String::as_str);
                let text = text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("without a message");
                let place = PLACE.lock().map(|p| p.clone()).unwrap_or_default();
                say(&format!("failed Panic {number} at {place}: {text}"));
            }
            Ok(()) if taken > PATIENCE => say(&format!("failed Slow {number}: {taken:?}")),
            Ok(()) => say("ok"),
        }
    }
}

/// Whether a target does with all mutants what it should.
fn watch(target: &Target, request: &Request) -> bool {
    let started = Instant::now();
    let arguments = vec!["--target".to_owned(), target.name.to_owned()];
    let watched = Watched { lanes: request.threads, patience: HANGS, memory: MEMORY, arguments };
    let (mut done, mut failures) = (0u64, BTreeMap::<String, u64>::new());
    watched.run(&(request.seed..request.seed + request.mutants), |line| {
        done += 1;
        if let Some(rest) = line.strip_prefix("failed ") {
            println!("==== {}: {}", target.name, heard(rest));
            let kind = rest.split(' ').next().unwrap_or(rest);
            *failures.entry(kind.to_owned()).or_default() += 1;
        }
    });
    let seconds = started.elapsed().as_secs_f64();
    println!("---- {}: {done} mutants in {seconds:.0} s; failures {failures:?}", target.name);
    failures.is_empty()
}
