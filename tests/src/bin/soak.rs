//! Random programs for as long as one likes: `cargo run --release -p salient-tests --bin soak -- --programs 50000 --seed 1`.

use salient::Bindings;
use salient_tests::generate::Data;
use salient_tests::watch::{Watched, heard, number, say};
use salient_tests::{soak, trial};
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// A program that says nothing for so long hangs; making one smaller that is slow takes a while.
const PATIENCE: Duration = Duration::from_secs(150);
/// Kilobytes of address space of a child.
const MEMORY: u64 = 8 << 20;
/// Attempts at making a failure smaller.
const TRIES: usize = 400;

const USAGE: &str = "soak [--programs N] [--seed N] [--hostile] [--threads N] [--all-ways]\n\
    soak --run FILE [--seed N] [--hostile] [--set NAME N]…   a program from a file\n\
    soak --ends [--seed N] [--hostile]                       makes a program smaller that ends the process\n\
    soak --print [--seed N]                                  shows the program of a seed";

/// What is asked for.
#[derive(Clone, Debug, Default)]
struct Request {
    programs: u64,
    seed: u64,
    hostile: bool,
    threads: u64,
    all_ways: bool,
    run: Option<String>,
    sizes: Bindings,
    ends: bool,
    print: bool,
    /// In a child: its first seed, the one behind its last, and the distance of two.
    child: Option<(u64, u64, u64)>,
}

fn request() -> Result<Request, String> {
    let mut out = Request { programs: 1000, seed: 1, threads: 1, ..Request::default() };
    let mut part = (0, 0, 1);
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--programs" => out.programs = number(&arg, args.next())?,
            "--seed" => out.seed = number(&arg, args.next())?,
            "--threads" => out.threads = number(&arg, args.next())?.max(1),
            "--hostile" => out.hostile = true,
            "--all-ways" => out.all_ways = true,
            "--run" => out.run = args.next(),
            "--ends" => out.ends = true,
            "--print" => out.print = true,
            "--set" => {
                let name = args.next().ok_or("--set lacks its name")?;
                out.sizes.insert(name.as_str().into(), number(&name, args.next())? as i64);
            }
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
    match request() {
        Err(why) => {
            eprintln!("{why}");
            ExitCode::from(2)
        }
        Ok(request) if request.run.is_some() => run_file(&request),
        Ok(request) if request.ends => ends(&request),
        Ok(request) if request.print => print(&request),
        Ok(request) => match request.child {
            Some((from, to, step)) => {
                child(&request, from, to, step);
                ExitCode::SUCCESS
            }
            None => watch(&request),
        },
    }
}

fn data(request: &Request) -> Data {
    if request.hostile { Data::Hostile } else { Data::Tame }
}

/// A program from a file, in all ways.
fn run_file(request: &Request) -> ExitCode {
    let text = request.run.as_ref().and_then(|path| std::fs::read_to_string(path).ok()).unwrap_or_default();
    match soak::run_text(&text, request.seed, &request.sizes, data(request)) {
        Ok(report) => println!("{report:?}"),
        Err(why) => {
            println!("{why}");
            return ExitCode::from(1);
        }
    }
    ExitCode::SUCCESS
}

/// Shows the program of a seed, with the sizes at which it runs.
fn print(request: &Request) -> ExitCode {
    let Ok(Some(trial)) = soak::trial_of(request.seed, data(request)) else { return ExitCode::from(1) };
    println!("{}\n{:?}", salient_ir::text::print(&trial.graph), trial.sizes);
    ExitCode::SUCCESS
}

/// Makes the program of a seed smaller, which ends the process that runs it.
fn ends(request: &Request) -> ExitCode {
    let Ok(Some(trial)) = soak::trial_of(request.seed, data(request)) else { return ExitCode::from(1) };
    let file = std::env::temp_dir().join(format!("salient-soak-{}.attn", std::process::id()));
    let program = std::env::current_exe().expect("a program knows where it is");
    let small = soak::smallest_that_ends(&trial, TRIES, |text, sizes| {
        let mut command = std::process::Command::new(&program);
        command.arg("--run").arg(&file).args(["--seed", &request.seed.to_string()]);
        command.args(request.hostile.then_some("--hostile"));
        for (name, size) in sizes {
            command.args(["--set", name, &size.to_string()]);
        }
        let written = std::fs::write(&file, text);
        written.is_ok() && command.output().is_ok_and(|o| o.status.code().is_none())
    });
    println!("{small}");
    ExitCode::SUCCESS
}

/// Runs programs one after the other and tells of each.
fn child(request: &Request, from: u64, to: u64, step: u64) {
    std::panic::set_hook(Box::new(|_| {}));
    let data = data(request);
    for seed in (from..to).step_by(step as usize) {
        say(&format!("at {seed}"));
        let ways = if request.all_ways { trial::all_ways() } else { trial::some_ways(seed) };
        match soak::run(seed, data, &ways, TRIES) {
            Ok(r) => {
                say(&format!("ok {} {} {} {} {} {}", r.ran, r.refused, r.open, r.unread, r.judged, r.free))
            }
            Err(found) => say(&format!("failed {:?} {}", found.kind, found.text)),
        }
    }
}

/// What was found so far.
#[derive(Default)]
struct Tally {
    programs: u64,
    numbers: [u64; 6],
    failures: BTreeMap<String, u64>,
}

impl Tally {
    fn count(&mut self, line: &str) {
        if let Some(rest) = line.strip_prefix("ok ") {
            for (sum, n) in self.numbers.iter_mut().zip(rest.split(' ')) {
                *sum += n.parse::<u64>().unwrap_or(0);
            }
        } else if let Some(rest) = line.strip_prefix("failed ") {
            let (kind, text) = rest.split_once(' ').unwrap_or((rest, ""));
            *self.failures.entry(kind.to_owned()).or_default() += 1;
            println!("==== {kind} {}", heard(text));
        }
        self.programs += 1;
    }

    fn show(&self, started: Instant) {
        let [ran, refused, open, unread, judged, free] = self.numbers;
        println!(
            "---- {} programs in {:.0} s: {ran} calls agree, {refused} are refused by all, {open} are open; {unread} texts \
             are refused; {judged} elements judged, {free} free; failures {:?}",
            self.programs,
            started.elapsed().as_secs_f64(),
            self.failures
        );
    }
}

/// Keeps children running until all programs are done.
fn watch(request: &Request) -> ExitCode {
    let started = Instant::now();
    let mut arguments = Vec::new();
    arguments.extend(request.hostile.then(|| "--hostile".to_owned()));
    arguments.extend(request.all_ways.then(|| "--all-ways".to_owned()));
    let watched = Watched { lanes: request.threads, patience: PATIENCE, memory: MEMORY, arguments };
    let mut tally = Tally::default();
    watched.run(&(request.seed..request.seed + request.programs), |line| {
        tally.count(line);
        if tally.programs.is_multiple_of(500) {
            tally.show(started);
        }
    });
    tally.show(started);
    if tally.failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(1) }
}
