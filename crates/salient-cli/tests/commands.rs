//! Calls that succeed: what the commands print and write.

mod common;

use salient::{Array, Arrays, PASSES};

use common::{Ended, counting, file, npy, npz, scratch, told, told_bytes, words};

const MODEL: &str = "examples/causal_self_attention.attn";
const DATA: &str = "examples/data/causal_self_attention.npz";

#[track_caller]
fn succeeds(ended: &Ended) -> &str {
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stderr.is_empty(), "{}", ended.stderr);
    &ended.stdout
}

#[test]
fn every_engine_agrees_with_what_is_recorded() {
    for engine in ["jit", "unfused", "oracle"] {
        let ended = words(&format!("run {MODEL} --data {DATA} --check --engine {engine}"));
        let text = succeeds(&ended);
        let first = format!("causal_self_attention ({engine}, B = 2, D = 3, E = 2, T = 6)");
        assert_eq!(text.lines().next(), Some(first.as_str()));
        assert_eq!(text.matches(": agrees\n").count(), 2, "{text}");
    }
}

/// What ends the compiler is shown by wrong graphs, plans and programs, in the crates that make them; here, that every command
/// verifies what is right and says the same.
#[test]
fn what_is_right_is_verified_and_stays_what_it_is() {
    let (mut calls, stages) = (Vec::new(), ["fused", "plan", "kernels", "memory", "asm"]);
    calls.extend(["jit", "unfused"].map(|e| format!("run {MODEL} --data {DATA} --check --engine {e}")));
    calls.extend(stages.map(|stage| format!("ir {MODEL} --stage {stage}")));
    calls.push(format!("ir {MODEL} --stage plan --engine unfused"));
    calls.push(format!("ir {MODEL} --after {}", PASSES[0].name));
    calls.extend(["explain", "check"].map(|command| format!("{command} {MODEL}")));
    for call in calls {
        let plain = words(&call);
        assert_eq!(succeeds(&words(&format!("{call} --verify"))), succeeds(&plain), "{call}");
    }
}

#[test]
fn without_an_output_to_write_the_result_is_shown() {
    let ended = words(&format!("run {MODEL} --data {DATA}"));
    let text = succeeds(&ended);
    assert!(text.contains("\ncontext: f32[2, 6, 2]\n[[["), "{text}");
    assert!(text.contains("\nweights: f32[2, 6, 6]\n[[["), "{text}");
}

#[test]
fn outputs_are_written_and_read_back() {
    let (one, all) = (scratch("one.npy"), scratch("all.npz"));
    let (one, all) = (one.display(), all.display());
    let ended = words(&format!("run {MODEL} --data {DATA} --output weights={one} --outputs {all}"));
    let text = succeeds(&ended);
    assert!(!text.contains("[["), "only shapes are shown: {text}");
    let again = words(&format!("run {MODEL} --data {DATA} --expect {all} --rtol 0 --atol 0"));
    assert_eq!(succeeds(&again).matches(": agrees\n").count(), 2);
    let archive = salient::read_arrays(scratch("all.npz")).unwrap();
    let array = salient::read_npy(scratch("one.npy")).unwrap();
    assert!(array.same_bits(archive.get("weights").unwrap()));
}

#[test]
fn the_number_of_threads_does_not_change_a_bit() {
    let all = scratch("threads.npz");
    let all = all.display();
    let run = "run examples/seeds/003_fused_operator.attn --data examples/seeds/data/003_fused_operator.npz";
    succeeds(&words(&format!("{run} --threads 1 --outputs {all}")));
    for threads in [2, 3] {
        succeeds(&words(&format!("{run} --threads {threads} --expect {all} --rtol 0 --atol 0")));
    }
}

/// One compilation serves every batch size and every length.
#[test]
fn one_compilation_runs_on_data_of_several_shapes() {
    let shapes = [("small", 1, 2), ("one", 3, 1), ("long", 2, 70), ("wide", 5, 17)];
    let files = shapes.map(|(name, b, t)| {
        let x = |n: usize| Array::from_f32(vec![b, t, n], vec![0.5; b * t * n]).unwrap();
        let mut arrays = Arrays::new();
        arrays.insert("in.x", x(4)).unwrap();
        // Equal tokens attend to their like.
        arrays.insert("out.y", x(4)).unwrap();
        let path = scratch(&format!("{name}.npz"));
        salient::write_npz(&path, &arrays).unwrap();
        format!("--data {}", path.display())
    });
    let source = "model same(x: f32[B, T, D]) -> (y: f32[B, T, D]) {\n    return softmax(x @ x.T) @ x\n}\n";
    let (model, files) = (file("same.attn", source), files.join(" "));
    let ended = words(&format!("run {model} {files} --check --json"));
    let report: serde_json::Value = serde_json::from_str(succeeds(&ended)).unwrap();
    assert_eq!(report["compilations"], 1);
    let runs = report["runs"].as_array().unwrap();
    assert_eq!(runs.len(), shapes.len());
    for (run, (_, b, t)) in runs.iter().zip(shapes) {
        assert_eq!((&run["dimensions"]["B"], &run["dimensions"]["T"]), (&b.into(), &t.into()));
        assert_eq!(run["agrees"], true, "{run}");
    }
    let ended = words(&format!("run {model} {files} --check"));
    let text = succeeds(&ended);
    assert_eq!(text.matches("y: ").count(), 2 * shapes.len(), "{text}");
    assert!(text.ends_with("4 runs, 1 compilation\n"), "{text}");
    let ended = words(&format!("run {model} {files} --outputs all.npz"));
    assert_eq!(ended.code, Some(2), "{}", ended.stderr);
}

#[test]
fn json_reports_parse() {
    let ended = words(&format!("run {MODEL} --data {DATA} --check --json --time"));
    let report: serde_json::Value = serde_json::from_str(succeeds(&ended)).unwrap();
    assert_eq!(report["agrees"], true);
    assert_eq!(report["dimensions"]["T"], 6);
    assert_eq!(report["outputs"][0]["shape"], serde_json::json!([2, 6, 2]));
    assert!(report["check"][1]["largest_abs"].as_f64().unwrap() < 1e-5);
    assert!(report["time"].as_array().unwrap().iter().any(|t| t["part"] == "run"));
}

#[test]
fn parameters_are_drawn_from_a_seed() {
    let input = npz("seeded.npz", vec![("x", counting(&[1, 4, 8]))]);
    let (first, second) = (scratch("seeded_1.npz"), scratch("seeded_2.npz"));
    let run = format!("run {MODEL} --inputs {input} --set E=4");
    let ended = words(&format!("{run} --init 1 --outputs {}", first.display()));
    assert!(succeeds(&ended).contains("context: f32[1, 4, 4]"));
    // The same on every engine, within rounding; another seed is another model.
    let ended = words(&format!("{run} --init 1 --engine oracle --expect {}", first.display()));
    succeeds(&ended);
    let ended = words(&format!("{run} --init 2 --outputs {}", second.display()));
    succeeds(&ended);
    let ended = words(&format!("{run} --init 1 --expect {}", second.display()));
    assert_eq!(ended.code, Some(1));
}

#[test]
fn every_stage_prints() {
    for (stage, part) in [
        ("source", "model causal_self_attention(x: f32[B, T, D])"),
        ("graph", "exp("),
        ("fused", "fused.attend"),
        ("kernels", "# fuses: "),
        ("memory", "temporaries: at most "),
        ("clif", "function "),
        ("asm", "ret"),
    ] {
        let ended = words(&format!("ir {MODEL} --stage {stage}"));
        let text = succeeds(&ended);
        assert!(text.contains(part) && text.ends_with('\n'), "{stage}: {text}");
    }
}

/// The passes are listed with what they are for; after the last the graph is the fused one.
#[test]
fn the_graph_after_each_pass_prints() {
    let help = words("ir --help");
    let mut last = String::new();
    for pass in PASSES {
        let listed = format!("  {}: {}\n", pass.name, pass.purpose);
        assert!(succeeds(&help).contains(&listed), "{listed}");
        let ended = words(&format!("ir {MODEL} --after {}", pass.name));
        last = succeeds(&ended).to_owned();
        assert!(last.starts_with("model causal_self_attention("), "{}: {last}", pass.name);
    }
    assert_eq!(last, succeeds(&words(&format!("ir {MODEL} --stage fused"))));
}

/// The graph's text is a program: it compiles to what it was printed from.
#[test]
fn a_dump_runs_again() {
    for stage in ["graph", "fused"] {
        let dump = words(&format!("ir {MODEL} --stage {stage}"));
        let path = file(&format!("dump_{stage}.attn"), succeeds(&dump));
        let ended = words(&format!("run {path} --data {DATA} --check"));
        assert_eq!(succeeds(&ended).matches(": agrees\n").count(), 2, "{stage}");
    }
}

#[test]
fn check_is_quiet_about_what_is_right() {
    let ended = words(&format!("check {MODEL}"));
    assert_eq!(succeeds(&ended), format!("{MODEL}: ok (model causal_self_attention)\n"));
    let ended = words(&format!("check {MODEL} --json"));
    let report: serde_json::Value = serde_json::from_str(succeeds(&ended)).unwrap();
    assert_eq!(report["ok"], true);
}

#[test]
fn check_says_everything_at_once() {
    let source = "model m(x: f32[T]) -> (y: f32[T]) {\n    let a = unknown_a + x\n    let b = unknown_b + x\n    return a + b\n}\n";
    let path = file("two_faults.attn", source);
    let ended = words(&format!("check {path} --json"));
    assert_eq!(ended.code, Some(1));
    let report: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
    let lines: Vec<_> = report["diagnostics"].as_array().unwrap().iter().map(|d| &d["at"]["line"]).collect();
    assert_eq!(lines, [2, 3]);
}

#[test]
fn imports_are_relative_to_their_file() {
    std::fs::create_dir_all(scratch("imported")).unwrap();
    file(
        "imported/twice.attn",
        "import \"../importing.attn\"\nfn twice(x: f32[T]) -> f32[T] { return x + x }\n",
    );
    let source = "import \"imported/twice.attn\"\nmodel m(x: f32[T]) -> (y: f32[T]) { return twice(x) }\n";
    let path = file("importing.attn", source);
    let inputs = npz("importing.npz", vec![("x", counting(&[3]))]);
    let ended = words(&format!("run {path} --inputs {inputs}"));
    assert!(succeeds(&ended).contains("0") && ended.stdout.contains("y: f32[3]"));
}

#[test]
fn fmt_formats_in_place_and_checks() {
    let path = file("unformatted.attn", "model   m(x:f32[T])->(y:f32[T]){return x+x // sum\n}\n");
    let ended = words(&format!("fmt --check {path}"));
    assert_eq!(ended.code, Some(1));
    assert_eq!(ended.stderr, format!("error: {path} is not formatted\n"));
    assert_eq!(words(&format!("fmt {path}")).code, Some(0));
    let text = std::fs::read_to_string(scratch("unformatted.attn")).unwrap();
    assert!(text.contains("x + x") && text.contains("// sum"), "{text}");
    succeeds(&words(&format!("fmt --check {path}")));
}

#[test]
fn explain_names_the_rules_and_the_kernels() {
    let ended = words(&format!("explain {MODEL}"));
    let text = succeeds(&ended);
    assert!(text.starts_with("model causal_self_attention: "), "{text}");
    assert!(text.contains(&format!("({MODEL}:8:12)")), "{text}");
    assert!(text.contains("  by attention/attend ("), "{text}");
    assert!(text.contains("\nkernels\n") && text.contains("\n  attention context: "), "{text}");
    succeeds(&words(&format!("check {MODEL} --require-fused")));
}

/// A softmax over all pairs of a head at once needs its scores twice if none are stored: fused code is dearer.
#[test]
fn a_plan_that_is_required_and_dearer_is_warned_of() {
    let source = "model m(q: f32[T, E], k: f32[T, E], v: f32[T, E]) -> (y: f32[T, E]) {
    let e = exp(q @ k.T)
    let z = sum[i](sum[j](e[i, j]))
    return (e / z) @ v
}
";
    let path = file("required.attn", source);
    let ended = words(&format!("check {path} --require-fused"));
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let warning = "warning: the plan that is compiled (fused) is priced at ";
    assert!(ended.stderr.starts_with(warning), "{}", ended.stderr);
    assert!(
        ended.stderr.contains("without `--require-fused` the cheaper plan is compiled"),
        "{}",
        ended.stderr
    );
    assert!(words(&format!("check {path}")).stderr.is_empty());
    let sizes = "--set T=8 --set E=4 --rounds 1 --seconds 0";
    let ended = words(&format!("bench {path} --require-fused {sizes}"));
    assert!(succeeds(&ended).contains(": priced at "), "{}", ended.stdout);
}

#[test]
fn explain_prices_kernels_in_formulas_and_in_numbers() {
    let ended = words(&format!("explain {MODEL}"));
    let text = succeeds(&ended);
    assert!(text.contains("\n  as written: ") && text.contains("\n  fused: "), "{text}");
    assert!(text.contains(" * T") && !text.contains("at least "), "{text}");
    let ended = words(&format!("explain {MODEL} --set B=1 --set T=64 --set D=32 --set E=16"));
    let text = succeeds(&ended);
    let number = |form: &str, unit: &str| {
        let line = text.lines().find(|l| l.trim_start().starts_with(form)).unwrap();
        let number = line.split(unit).next().unwrap().rsplit(' ').next().unwrap();
        number.parse::<u64>().unwrap()
    };
    // As many operations as the scores and the context have products and sums, at least; and no scores in memory.
    assert!(number("fused: ", " flops") >= 2 * 2 * 64 * 64 * 16, "{text}");
    assert!(number("as written: ", " bytes") >= number("fused: ", " bytes") + 4 * 64 * 64, "{text}");
    assert!(text.contains("\n  price: ") && text.contains(" us, as written\n"), "{text}");
    assert!(text.contains(", priced at ") && text.contains(" by "), "{text}");
}

#[test]
fn kernels_for_few_rows_and_for_many_are_priced_as_alternatives() {
    let ended = words("explain examples/variants/soft_cap.attn");
    let text = succeeds(&ended);
    for condition in ["8 < T", "T < 9"] {
        assert!(text.contains(&format!("\n  fused, where {condition}: 2 kernels, ")), "{text}");
        assert!(text.contains(&format!("\n    only where {condition}\n")), "{text}");
    }
    assert!(!text.contains("\n  fused: "), "{text}");
}

#[test]
fn explain_of_a_node_says_what_concerns_it_alone() {
    let ended = words(&format!("explain {MODEL} --node context"));
    let text = succeeds(&ended);
    assert!(text.starts_with("`context` is fused.attend"), "{text}");
    assert!(text.contains("\nkernels\n  attention context: ") && !text.contains("\n  product "), "{text}");
    let ended = words(&format!("explain {MODEL} --node contxt"));
    assert_eq!(ended.code, Some(2), "{}", ended.stderr);
    assert!(ended.stderr.contains("the fused graph has no value `contxt`"), "{}", ended.stderr);
    assert!(ended.stderr.contains("did you mean `context`?"), "{}", ended.stderr);
}

#[test]
fn timings_name_each_step_and_its_share() {
    let steps =
        ["source to graph", "graph to fused graph", "fused graph to kernels", "kernels to machine code"];
    for (line, taken) in [
        (format!("check {MODEL}"), 1),
        (format!("check {MODEL} --require-fused"), 2),
        (format!("ir {MODEL} --stage fused"), 2),
        (format!("explain {MODEL}"), 3),
        (format!("ir {MODEL} --stage asm"), 4),
        (
            format!(
                "bench {MODEL} --engines jit --rounds 1 --seconds 0 --set B=1 --set T=4 --set D=4 --set E=4"
            ),
            4,
        ),
    ] {
        let ended = words(&format!("{line} --timings"));
        assert_eq!(ended.code, Some(0), "{line}: {}", ended.stderr);
        for (n, step) in steps.iter().enumerate() {
            assert_eq!(
                ended.stderr.contains(&format!(" %  {step}\n")),
                n < taken,
                "{line}: {}",
                ended.stderr
            );
        }
        assert!(ended.stderr.ends_with(" in all\n"), "{line}: {}", ended.stderr);
        let quiet = words(&line);
        assert!(quiet.stderr.is_empty(), "{line}: {}", quiet.stderr);
    }
    let ended = words(&format!("run {MODEL} --data {DATA} --timings"));
    let text = succeeds(&ended);
    assert!(steps.iter().all(|step| text.contains(step)) && text.contains(" % "), "{text}");
}

/// Under `--fp strict` a softmax is not shifted and sums are not reordered: attention stays apart, and says so.
#[test]
fn what_is_required_to_fuse_and_does_not_is_an_error() {
    for line in [format!("check {MODEL}"), format!("run {MODEL} --data {DATA}")] {
        let ended = words(&format!("{line} --fp strict --require-fused"));
        assert_eq!(ended.code, Some(1), "{line}");
        assert!(ended.stdout.is_empty(), "{}", ended.stdout);
        assert!(
            ended.stderr.starts_with("error: attention is not fused, as was required\n"),
            "{}",
            ended.stderr
        );
        assert!(ended.stderr.contains("causal_self_attention.attn:8:12"), "{}", ended.stderr);
    }
    succeeds(&words(&format!("run {MODEL} --data {DATA} --check --fp strict")));
}

#[test]
fn a_long_chain_of_operators_does_not_exhaust_the_stack() {
    let source = "model m(x: f32[T]) -> (y: f32[T]) {\n    let y = x\n    for k in 0..10 {\n        for l in 0..4000 { y = y * 0.5 + x }\n    }\n    return y\n}\n";
    let path = file("chain.attn", source);
    let inputs = npz("chain.npz", vec![("x", counting(&[3]))]);
    let ended = words(&format!("run {path} --inputs {inputs} --engine oracle"));
    assert!(succeeds(&ended).ends_with("y: f32[3]\n[0.0 2.0 4.0]\n"), "{}", ended.stdout);
}

#[test]
fn verify_compares_gradients_with_differences() {
    let ended = words(&format!("verify {MODEL} --trials 3 --gradients"));
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let lines: Vec<&str> = ended.stdout.lines().collect();
    assert_eq!(lines.len(), 3, "{}", ended.stdout);
    assert!(lines[1].contains("gradients agree with differences of the interpreter along "), "{}", lines[1]);
    assert!(
        lines[2].contains("code of the gradients agree with the interpreter in 3 trials"),
        "{}",
        lines[2]
    );
    let model = file("integers.attn", "model m(ids: i64[T]) -> (y: i64[T]) {\n    return ids + 1\n}\n");
    let ended = words(&format!("verify {model} --trials 3 --gradients"));
    assert_eq!(ended.code, Some(1), "{}", ended.stdout);
    assert_eq!(
        ended.stderr.trim_end(),
        "error: no result of the model is a number, which could be differentiated"
    );
}

#[test]
fn verify_compares_the_engines() {
    let ended = words(&format!("verify {MODEL} --trials 3"));
    let expected = "causal_self_attention: fused and unfused code agree with the interpreter in 3 trials\n";
    assert_eq!(succeeds(&ended), expected);
}

#[test]
fn requests_are_answered_line_by_line() {
    let all = scratch("served.npz");
    let requests = format!("turn 0\nwrite {}\nturn soon\nnonsense\n", all.display());
    let ended = told(&format!("serve {MODEL} --data {DATA}"), &requests);
    let answers: Vec<serde_json::Value> =
        succeeds(&ended).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(answers.len(), 5, "{}", ended.stdout);
    assert!(answers[0]["compile_ms"].as_f64().unwrap() > 0.0);
    assert_eq!(answers[1]["ms"].as_array().unwrap().len(), 1, "a turn has at least one call");
    assert_eq!(answers[2]["written"].as_str(), all.to_str());
    assert!(answers[3]["error"].as_str().unwrap().contains("turn soon"));
    assert!(answers[4]["error"].as_str().unwrap().contains("nonsense"));
    let again = words(&format!("run {MODEL} --data {DATA} --expect {} --rtol 0 --atol 0", all.display()));
    assert_eq!(succeeds(&again).matches(": agrees\n").count(), 2);
}

#[test]
fn requests_that_cannot_be_met_are_answered_and_the_next_is_met() {
    let long = "x".repeat(1 << 17);
    let bad =
        ["write nowhere/y.npz", "write", "turn nan", "turn inf", "turn -1", "turn 1e300", "steps", "", &long];
    let mut requests: Vec<u8> = bad.iter().flat_map(|r| format!("{r}\n").into_bytes()).collect();
    requests.extend(b"\xff\xfe\x00\n\nturn 0\npeak of wha\x1bt");
    let ended = told_bytes(&format!("serve {MODEL} --data {DATA}"), &requests);
    let answers: Vec<serde_json::Value> =
        succeeds(&ended).lines().skip(1).map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(answers.len(), bad.len() + 4, "{}", ended.stdout);
    let error = |at: usize| answers[at]["error"].as_str().unwrap_or_default();
    assert_eq!(error(0), "nowhere/y.npz: cannot be written: No such file or directory (os error 2)");
    for (at, request) in bad.iter().enumerate().skip(2).take(4) {
        let expected = format!("`{request}`: expected a number of seconds from 0 to 86400");
        assert_eq!(error(at), expected);
    }
    assert_eq!(error(bad.len() - 1), "a request has less than 65536 bytes");
    assert_eq!(error(bad.len()), "a request is UTF-8");
    assert_eq!(answers[bad.len() + 2]["ms"].as_array().map(Vec::len), Some(1));
}

#[test]
fn outputs_of_16_bits_are_written_as_such() {
    let model =
        file("sixteen.attn", "model m(x: f32[T]) -> (h: f16[T], b: bf16[T]) { return x * 1.0, x * 1.0 }");
    let x = Array::from_f32(vec![3], vec![2049.0, 0.1, -1.5]).unwrap();
    let inputs = npz("sixteen.npz", vec![("x", x)]);
    for engine in ["jit", "unfused", "oracle"] {
        let [one, all, whole] = ["sixteen_h.npy", "sixteen_all.npz", "sixteen_all.safetensors"].map(scratch);
        let (h, a, w) = (one.display(), all.display(), whole.display());
        let call = format!("run {model} --inputs {inputs} --engine {engine}");
        succeeds(&words(&format!("{call} --output h={h} --outputs {a}")));
        succeeds(&words(&format!("{call} --outputs {w}")));
        assert!(std::fs::read(&one).unwrap().windows(3).any(|text| text == b"<f2"), "{engine}");
        let half = [0x6800, 0x2e66, 0xbe00].to_vec();
        let half = Array::from_f16_bits(vec![3], half).unwrap();
        let brain = Array::from_bf16_bits(vec![3], [0x4500, 0x3dcd, 0xbfc0].to_vec()).unwrap();
        assert!(salient::read_npy(&one).unwrap().same_bits(&half), "{engine}");
        let (all, whole) = (salient::read_arrays(&all).unwrap(), salient::read_arrays(&whole).unwrap());
        assert!(
            all.get("h").unwrap().same_bits(&half) && whole.get("h").unwrap().same_bits(&half),
            "{engine}"
        );
        // NumPy has no bf16: f32 holds the rounded numbers.
        assert!(all.get("b").unwrap().same_bits(&brain.clone().widen().unwrap()), "{engine}");
        assert!(whole.get("b").unwrap().same_bits(&brain), "{engine}");
    }
}

#[test]
fn f64_arrays_are_taken_with_a_note() {
    let model = file("wide.attn", "model m(x: f32[T], y: f32[T]) -> (z: f32[T]) { return x + y }");
    let (x, y) =
        (npy("wide_x.npy", "<f8", &0.1f64.to_le_bytes()), npy("wide_y.npy", "<f4", &1f32.to_le_bytes()));
    let call = format!("run {model} --input x={x} --input y={y}");
    let ended = words(&call);
    assert_eq!(
        (ended.code, ended.stderr.as_str()),
        (Some(0), "note: the f64 elements of input `x` are rounded to f32\n")
    );
    let report: serde_json::Value = serde_json::from_str(&words(&format!("{call} --json")).stdout).unwrap();
    assert_eq!(report["narrowed"], serde_json::json!(["input `x`"]));
    let x = npy("wide_inf.npy", "<f8", &1e300f64.to_le_bytes());
    let ended = words(&format!("run {model} --input x={x} --input y={y}"));
    assert_eq!(ended.code, Some(2), "{}", ended.stderr);
    assert!(ended.stderr.starts_with(&format!("error: {x}: element 0 is 1")), "{}", ended.stderr);
}

#[test]
fn integers_are_truth_values_if_they_are_0_or_1() {
    let model = file(
        "truth.attn",
        "model m(keep: bool[T], x: f32[T]) -> (y: f32[T]) { return if keep then x else 0.0 }",
    );
    let x = npy("truth_x.npy", "<f4", &[1f32, 2.0, 3.0].map(f32::to_le_bytes).concat());
    for (descr, size) in [("|u1", 1), ("|i1", 1), ("<i4", 4), ("<i8", 8), ("<u2", 2)] {
        let keep = |third: u8| {
            let bytes: Vec<u8> =
                [1, 0, third].into_iter().flat_map(|n| [vec![n], vec![0; size - 1]].concat()).collect();
            npy(&format!("truth_{}_{third}.npy", &descr[1..]), descr, &bytes)
        };
        for engine in ["jit", "unfused", "oracle"] {
            let call = format!("run {model} --engine {engine} --input x={x} --input keep={}", keep(1));
            assert!(succeeds(&words(&call)).contains("[1.0 0.0 3.0]"), "{descr}");
        }
        let ended = words(&format!("run {model} --input x={x} --input keep={}", keep(2)));
        let message = "error: input `keep`: element [2] is 2; an integer is a truth value if it is 0 or 1\n";
        assert_eq!((ended.code, ended.stderr.as_str()), (Some(2), message), "{descr}");
    }
    let x = npy("truth_u8.npy", "|u1", &[1, 2, 3]);
    let ended = words(&format!("run {model} --input x={x} --input keep={x}"));
    let message = "error: input `x` has elements of type u8 (NumPy's uint8), expected f32\n";
    assert!(ended.stderr.contains(message), "{}", ended.stderr);
}

#[test]
fn arrays_that_the_model_does_not_have_are_not_read() {
    // A member whose elements are not there: only its name is looked at.
    let data = scratch("passed_over.npz");
    std::fs::copy(format!("{}/../../{DATA}", env!("CARGO_MANIFEST_DIR")), &data).unwrap();
    let mut arrays = Arrays::new();
    for (name, array) in salient::read_arrays(&data).unwrap() {
        arrays.insert(name, array).unwrap();
    }
    arrays.insert("out.contxt", counting(&[1])).unwrap();
    salient::write_npz(&data, &arrays).unwrap();
    let mut bytes = std::fs::read(&data).unwrap();
    let at = bytes.windows(10).rposition(|text| text == b"fortran_or").unwrap();
    bytes[at] = b'?';
    std::fs::write(&data, bytes).unwrap();
    succeeds(&words(&format!("run {MODEL} --data {}", data.display())));
    let ended = words(&format!("run {MODEL} --data {} --check", data.display()));
    let message = "error: the model has no output `contxt`; did you mean `context`?\n";
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(2), message));
}

#[test]
fn a_byte_order_mark_is_accepted() {
    let source = "\u{feff}model m(x: f32[T]) -> (y: f32[T]) {\n    return x\n}\n";
    let path = file("marked.attn", source);
    succeeds(&words(&format!("check {path}")));
    succeeds(&words(&format!("fmt --check {path}")));
}

#[test]
fn served_steps_go_on_from_what_is_held() {
    let source = "model m(x: f32[T]) -> (y: f32[]) {\n    state past: f32[S]\n    require S + T <= 3, \"too many\"\n    past = append[s](past, x)\n    return sum(past)\n}\n";
    let path = file("served_steps.attn", source);
    let inputs = npz("served_steps.npz", vec![("x", counting(&[1])), ("past", counting(&[1]))]);
    // From one held position a step that does not count and one that does; a second turn of steps begins anew.
    let ended = told(&format!("serve {path} --inputs {inputs}"), "steps 0\nsteps 0\nturn 0\nsteps 5\n");
    let mut lines = ended.stdout.lines().skip(1);
    for request in ["steps", "steps again", "turn"] {
        let answer: serde_json::Value = serde_json::from_str(lines.next().unwrap()).unwrap();
        assert_eq!(answer["ms"].as_array().map(Vec::len), Some(1), "{request}: {}", ended.stdout);
    }
    // More steps than the model has positions.
    let answer: serde_json::Value = serde_json::from_str(lines.next().unwrap()).unwrap();
    assert!(answer["error"].as_str().unwrap().contains("too many"), "{}", ended.stdout);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
}

#[test]
fn checkpoints_are_listed() {
    let file =
        npz("listed.npz", vec![("layer.0.weight", counting(&[2, 3])), ("layer.0.bias", counting(&[2]))]);
    let ended = words(&format!("models {file}"));
    let expected =
        "layer.0.weight  f32  [2, 3]  24\nlayer.0.bias    f32  [2]      8\n2 tensors of npz, 32 bytes\n";
    assert_eq!(succeeds(&ended), expected);
    let ended = words(&format!("models {file} --only bias --json"));
    let listed: serde_json::Value = serde_json::from_str(succeeds(&ended)).unwrap();
    assert_eq!(listed["bytes"], 8);
    assert_eq!(
        listed["tensors"],
        serde_json::json!([{ "name": "layer.0.bias", "dtype": "f32", "shape": [2], "bytes": 8 }])
    );
}

/// A tokenizer of a few words, the table of a model that counts them, and the model.
fn texts(name: &str) -> String {
    let tokenizer = file(
        &format!("{name}.json"),
        r#"{"version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "normalizer": null,
            "pre_tokenizer": {"type": "Whitespace"}, "post_processor": null, "decoder": null,
            "model": {"type": "WordLevel", "vocab": {"?": 0, "one": 1, "two": 2, "three": 3}, "unk_token": "?"}}"#,
    );
    let weights =
        npz(&format!("{name}.npz"), vec![("m.table", counting(&[4, 4])), ("m.more", counting(&[1]))]);
    let model = file(
        &format!("{name}.attn"),
        "model vectors(ids: i64[B, T]) -> (embedding: f32[B, 4]) { param table: f32[4, 4] let x[b, t, d] = table[ids[b, t], d] return sum[t](x) }
         model words(ids: i64[B, T]) -> (logits: f32[B, T, 4]) { param table: f32[4, 4] let y[b, t, v: 4] = if v == (ids[b, t] + 1) % 4 then 1.0 else table[0, 0] return y }
         model reads(src: i64[B, S]) -> (memory: f32[B, S, 4]) { param table: f32[4, 4] return table[src, :] }
         model copies(memory: f32[B, S, 4], tgt: i64[B, T]) -> (logits: f32[B, T, 4]) {
             let is[b: B, t: T, v: 4] = if t < S then memory[b, t + 0, 0] == 4.0 * f32(v) else v == 0
             let y[b, t: T, v] = if is[b, t, v] then 5.0 else 0.0
             return y
         }",
    );
    format!("{model} --weights {weights} --prefix m. --tokenizer {tokenizer}")
}

const UNUSED: &str = "note: 1 tensor is not used by the model: `more`\n";

#[test]
fn texts_become_vectors() {
    let call = texts("vectors");
    let input = file("vectors.txt", "two\none three\n");
    // Of the models of the file one takes texts so.
    let ended = words(&format!("embed {call} one --input {input}"));
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), UNUSED));
    let lines: Vec<serde_json::Value> =
        ended.stdout.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    assert_eq!(lines[0], serde_json::json!({ "text": "one", "embedding": [4.0, 5.0, 6.0, 7.0] }));
    assert_eq!(lines[2], serde_json::json!({ "text": "one three", "embedding": [16.0, 18.0, 20.0, 22.0] }));
    let output = scratch("vectors.npy");
    let ended = words(&format!(
        "embed {call} --model vectors --input {input} --output {} --max-tokens 1",
        output.display()
    ));
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), ""));
    assert_eq!(ended.stderr, format!("{UNUSED}note: 1 of 2 texts are cut to 1 tokens\n"));
    let vectors = salient::read_npy(output).unwrap();
    assert_eq!(vectors.as_f32(), Some([8.0, 9.0, 10.0, 11.0, 4.0, 5.0, 6.0, 7.0].as_slice()));
}

#[test]
fn a_text_goes_on() {
    let call = texts("goes_on");
    let ended = words(&format!("generate {call} --model words one --max-tokens 3"));
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "two three ?\n"));
    assert!(ended.stderr.starts_with(UNUSED) && ended.stderr.contains("tokens/s"), "{}", ended.stderr);
    let ended = words(&format!("generate {call} --model words one --max-tokens 9 --stop three --json"));
    let report: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!((&report["text"], &report["end"]), (&"two ".into(), &"stop".into()));
    assert_eq!(report["prompt_ids"], serde_json::json!([1]));
    let drawn = |seed: u32| {
        words(&format!("generate {call} --model words one --temperature 9 --sampling-seed {seed}")).stdout
    };
    assert_eq!(drawn(1), drawn(1));
    assert_ne!(drawn(1), drawn(2));
}

#[test]
fn a_text_is_translated() {
    let call = format!("{} --encoder reads --model copies --start ? --end ?", texts("translated"));
    let input = file("translated.txt", "two\nthree two one\n");
    let ended = words(&format!("translate {call} one --input {input} --beams 2"));
    assert_eq!(
        (ended.code, ended.stdout.as_str()),
        (Some(0), "one\ntwo\nthree two one\n"),
        "{}",
        ended.stderr
    );
    assert!(ended.stderr.starts_with("warning: the input `tgt` is never read"), "{}", ended.stderr);
    assert!(ended.stderr.ends_with(UNUSED), "{}", ended.stderr);
    let ended = words(&format!("translate {call} one --beams 3 --length-penalty 0 --json"));
    let found: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
    let best = &found["hypotheses"][0];
    assert_eq!((&best["text"], &best["ids"], &best["ended"]), (&"one".into(), &[1].into(), &true.into()));
    // Two tokens, each against three others.
    let score = -2.0 * (1.0 + 3.0 * (-5.0_f64).exp()).ln();
    assert!((best["score"].as_f64().unwrap() - score).abs() < 1e-6, "{best}");
    assert_eq!(found["hypotheses"].as_array().map(Vec::len), Some(3));
    let ended = words(&format!("translate {call} one --end four"));
    let message = "error: `four` is no token of the tokenizer\n";
    assert_eq!(ended.code, Some(2));
    assert!(ended.stderr.ends_with(message), "{}", ended.stderr);
}

#[test]
fn a_cache_of_any_length_is_timed() {
    let model = file(
        "timed.attn",
        "model m(x: f32[T]) -> (y: f32[]) { state past: f32[S] past = append[s](past, x) return sum(past) }",
    );
    for held in ["", "--held 5"] {
        let ended =
            words(&format!("bench {model} --set T=2 {held} --rounds 1 --seconds 0.001 --engines jit,oracle"));
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        assert!(ended.stdout.contains("oracle"), "{}", ended.stdout);
    }
    let ended = words(&format!("bench {model} --rounds 1 --seconds 0.001"));
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert_eq!(ended.stderr, "note: at T = 512, as nothing gives them; `--set` gives others\n");
}

#[test]
fn models_of_halves_are_timed() {
    let text =
        "model m(x: f16[T, D], s: bf16[D]) -> (y: f32[T, D]) { param w: f16[D, F: D] return x @ w * s }";
    let model = file("halves.attn", text);
    let ended = words(&format!("bench {model} --set T=2 --set D=3 --rounds 1 --seconds 0.001 --engines jit"));
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stdout.contains("jit: median"), "{}", ended.stdout);
}
