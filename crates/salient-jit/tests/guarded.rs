//! Whole programs between guard pages: every input, parameter and output, working memory and packed parameters each end, and in
//! another run begin, at a page that nobody may touch. One access outside of them ends the process.

#[cfg(target_os = "linux")]
mod guard;

#[cfg(target_os = "linux")]
mod linux {
    use super::guard::{Flush, guarded};
    use salient::verify::{Lengths, Trials, verify};
    use salient::{Graph, Options, lower};
    use salient_tests::examples::{Example, examples, small};
    use salient_tests::generate;
    use std::env;
    use std::process::{Child, Command, Stdio};

    /// Processes that share the programs, and the variable that tells one which part is its own.
    const PARTS: usize = 2;
    const PART: &str = "SALIENT_GUARDED_PART";

    /// Programs at random, and operators of each.
    const PROGRAMS: u64 = 40;
    const STEPS: usize = 10;

    /// Runs of each program: every other one flush with the page behind, the others with the page before.
    const TRIALS: usize = 2;

    /// One model on every engine and all vectors of this machine, and on several threads.
    fn agrees(name: &str, graph: &Graph, options: &Options, seed: u64) {
        let trials = Trials { count: TRIALS, seed, lengths: Lengths::Drawn, ..Trials::default() };
        let (verified, allocations) = guarded(|begin| {
            let sides = |trial: usize| if trial.is_multiple_of(2) { Flush::Right } else { Flush::Left };
            verify(graph, options, trials, &mut |trial| begin(sides(trial)))
        });
        let verified = verified.unwrap_or_else(|e| panic!("{name}: {e}"));
        assert!(verified.findings.is_empty(), "{name}: {:?}", verified.findings);
        // Each way has outputs and working memory of its own at least.
        assert!(allocations >= 2 * TRIALS, "{name}: {allocations} guarded");
    }

    /// The settings at which the interpreter can follow.
    fn set(example: &Example) -> Vec<(String, String)> {
        let pairs = |list: &[(&str, &str)]| list.iter().map(|(n, v)| ((*n).into(), (*v).into())).collect();
        match &*example.stem {
            "bench/gpt2" => pairs(&[("V", "50"), ("N", "40"), ("D", "24"), ("H", "3")]),
            name => {
                let sizes = name.strip_prefix("models/").map_or_else(Vec::new, small);
                // One layer touches what several do.
                let sizes = sizes.into_iter().map(|(n, v)| if n == "L" { (n, "1".into()) } else { (n, v) });
                sizes.collect()
            }
        }
    }

    /// The programs of a part: number `part`, and every `PARTS`-th after it.
    fn check_part(part: usize) {
        for (seed, example) in examples().into_iter().enumerate().skip(part).step_by(PARTS) {
            let name = &example.name;
            let sources = example.sources().unwrap_or_else(|e| panic!("{name}: {e}"));
            let options = Options { set: set(&example), ..example.options() };
            let graph = lower(&sources, &options).unwrap_or_else(|e| panic!("{name}: {e}")).graph;
            agrees(name, &graph, &options, seed as u64);
        }
        for seed in (0..PROGRAMS).skip(part).step_by(PARTS) {
            let graph = generate::program(seed, STEPS);
            agrees(&format!("program {seed}"), &graph, &Options::default(), seed);
        }
    }

    /// One test, since the allocator serves the whole process; it runs itself in a process of its own for each part of the programs.
    #[test]
    fn no_program_touches_memory_outside_its_tensors() {
        if let Ok(part) = env::var(PART) {
            return check_part(part.parse().expect("the number of a part"));
        }
        let itself = env::current_exe().expect("this test");
        let run = |part: usize| {
            let mut command = Command::new(&itself);
            command.args(["no_program_touches_memory_outside_its_tensors", "--nocapture"]);
            command.env(PART, part.to_string()).stdout(Stdio::piped()).stderr(Stdio::piped());
            command.spawn().expect("a process for a part")
        };
        let running: Vec<Child> = (0..PARTS).map(run).collect();
        for process in running {
            let ended = process.wait_with_output().expect("the end of a part");
            let (out, err) = (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
            assert!(ended.status.success() && out.contains("1 passed"), "{}\n{out}\n{err}", ended.status);
        }
    }
}
