//! Wrong calls: each gives one clear message on standard error and exit code 2 (or 1 where the model is wrong), nothing on
//! standard output, and never a panic.

mod common;

use common::{Ended, counting, file, npz, salient, words};
use salient::Array;

const MODEL: &str = "examples/causal_self_attention.attn";
const DATA: &str = "examples/data/causal_self_attention.npz";

/// The message of a call that is refused with this code.
#[track_caller]
fn refused(ended: &Ended, code: i32) -> &str {
    assert_eq!(ended.code, Some(code), "{}", ended.stderr);
    assert!(ended.stdout.is_empty(), "{}", ended.stdout);
    for word in ["panicked", "internal error", "backtrace", ".rs:"] {
        assert!(!ended.stderr.contains(word), "{}", ended.stderr);
    }
    assert!(ended.stderr.starts_with("error: "), "{}", ended.stderr);
    ended.stderr.trim_end()
}

#[track_caller]
fn refuses(line: &str, code: i32, message: &str) {
    assert_eq!(refused(&words(line), code), message);
}

#[test]
fn a_missing_source_file() {
    for command in ["run", "check", "ir", "fmt"] {
        let message = "error: nowhere.attn: cannot be read: No such file or directory (os error 2)";
        refuses(&format!("{command} nowhere.attn"), 2, message);
    }
}

#[test]
fn a_source_that_is_not_text() {
    let message = format!("error: {DATA}: cannot be read: it is not UTF-8 (at byte 14)");
    refuses(&format!("run {DATA}"), 2, &message);
}

#[test]
fn missing_tensors_are_all_named() {
    let message = [
        "error: input `x` is missing: the model needs f32[B, T, D]",
        "error: parameter `W_query.weight` is missing: the model needs f32[E, D]",
        "error: parameter `W_key.weight` is missing: the model needs f32[E, D]",
        "error: parameter `W_value.weight` is missing: the model needs f32[E, D]",
    ];
    refuses(&format!("run {MODEL}"), 2, &message.join("\n"));
}

#[test]
fn a_misspelt_tensor_names_the_nearest() {
    let inputs = npz("misspelt.npz", vec![("y", counting(&[2, 6, 3]))]);
    let weights = vec![
        ("W_query.weight", counting(&[2, 3])),
        ("W_key.wieght", counting(&[2, 3])),
        ("W_value.weight", counting(&[2, 3])),
    ];
    let weights = npz("misspelt_weights.npz", weights);
    let message = [
        "error: input `x` is missing: the model needs f32[B, T, D]",
        "error: the model has no input `y`; its inputs are `x`",
        "error: parameter `W_key.weight` is missing: the model needs f32[E, D] (`W_key.wieght` was given; is it meant?)",
        "error: the model has no parameter `W_key.wieght`; did you mean `W_key.weight`?",
    ];
    refuses(&format!("run {MODEL} --inputs {inputs} --weights {weights}"), 2, &message.join("\n"));
}

/// The example's weights with another input.
fn with_input(name: &str, x: Array) -> Ended {
    let data = salient::read_data(format!("{}/../../{DATA}", env!("CARGO_MANIFEST_DIR"))).unwrap();
    let weights =
        npz(&format!("{name}_weights.npz"), data.params.iter().map(|(n, a)| (n, a.clone())).collect());
    let inputs = npz(&format!("{name}.npz"), vec![("x", x)]);
    salient(&["run", MODEL, "--inputs", &inputs, "--weights", &weights])
}

#[test]
fn a_wrong_rank() {
    let ended = with_input("rank", counting(&[6, 3]));
    assert_eq!(
        refused(&ended, 2),
        "error: input `x` has the shape [6, 3], expected f32[B, T, D]; it is declared in examples/causal_self_attention.attn:2:29"
    );
}

#[test]
fn a_wrong_extent_names_both_sides() {
    let ended = with_input("extent", counting(&[2, 6, 4]));
    let message = [
        "error: parameter `W_query.weight`: axis 1 has length 3, expected D = 4 (from axis 2 of input `x`); it is declared in examples/causal_self_attention.attn:3:13",
        "error: parameter `W_key.weight`: axis 1 has length 3, expected D = 4 (from axis 2 of input `x`); it is declared in examples/causal_self_attention.attn:4:13",
        "error: parameter `W_value.weight`: axis 1 has length 3, expected D = 4 (from axis 2 of input `x`); it is declared in examples/causal_self_attention.attn:5:13",
    ];
    assert_eq!(refused(&ended, 2), message.join("\n"));
}

#[test]
fn a_wrong_dtype() {
    let ended = with_input("dtype", Array::from_i64(vec![2, 6, 3], vec![1; 36]).unwrap());
    assert_eq!(refused(&ended, 2), "error: input `x` has elements of type i64, expected f32");
}

#[test]
fn an_unknown_model() {
    let ended = words(&format!("run {MODEL} --data {DATA} --model causal"));
    let message = refused(&ended, 2);
    assert!(message.starts_with("error: there is no model `causal`"), "{message}");
    assert!(message.contains("`causal_self_attention`"), "{message}");
}

#[test]
fn several_models_and_none_chosen() {
    let source = "model a(x: f32[T]) -> (y: f32[T]) { return x }\nmodel b(x: f32[T]) -> (y: f32[T]) { return x + x }\n";
    let path = file("several.attn", source);
    let message = refused(&words(&format!("run {path}")), 2).to_owned();
    assert!(message.contains("`a` and `b`") && message.contains("--model"), "{message}");
}

#[test]
fn truncated_archives_at_every_length() {
    let whole = std::fs::read(format!("{}/../../{DATA}", env!("CARGO_MANIFEST_DIR"))).unwrap();
    for length in [0, 1, 3, 4, 30, 100, 500, 1000, whole.len() - 50, whole.len() - 1] {
        let path = file(&format!("truncated_{length}.npz"), &whole[..length]);
        let ended = words(&format!("run {MODEL} --data {path}"));
        let message = refused(&ended, 2);
        assert!(message.starts_with(&format!("error: {path}: ")), "{message}");
    }
}

#[test]
fn missing_files_of_arrays() {
    for flag in ["--data", "--inputs", "--weights", "--expect", "--input x="] {
        let blank = if flag.ends_with('=') { "" } else { " " };
        let ended = words(&format!("run {MODEL} {flag}{blank}nowhere.npz"));
        let message = "error: nowhere.npz: cannot be read: No such file or directory (os error 2)";
        assert_eq!(refused(&ended, 2), message, "{flag}");
    }
}

#[test]
fn an_array_that_is_given_twice() {
    let input = npz("twice.npz", vec![("x", counting(&[2, 6, 3]))]);
    let message = "error: input `x` is given twice";
    refuses(&format!("run {MODEL} --data {DATA} --inputs {input}"), 2, message);
}

#[test]
fn an_output_that_does_not_exist() {
    let message = "error: the model has no output `contxt`; did you mean `context`?";
    refuses(&format!("run {MODEL} --data {DATA} --output contxt=y.npy"), 2, message);
    let expect = npz("no_such_output.npz", vec![("zzz", counting(&[1]))]);
    let message = "error: the model has no output `zzz`; its outputs are `context` and `weights`";
    refuses(&format!("run {MODEL} --data {DATA} --expect {expect}"), 2, message);
}

#[test]
fn an_output_that_cannot_be_written() {
    let message = "error: nowhere/y.npy: cannot be written: No such file or directory (os error 2)";
    refuses(&format!("run {MODEL} --data {DATA} --output context=nowhere/y.npy"), 2, message);
}

#[test]
fn dimensions_that_are_set_wrongly() {
    let message = refused(&words(&format!("run {MODEL} --data {DATA} --set Q=3")), 2).to_owned();
    assert!(message.contains("`Q`") && message.contains("`T`"), "{message}");
    let message = refused(&words(&format!("run {MODEL} --data {DATA} --set T=5")), 2).to_owned();
    assert!(message.contains("input `x`: axis 1 has length 6, expected 5"), "{message}");
    let message = refused(&words(&format!("run {MODEL} --data {DATA} --set T=many")), 2).to_owned();
    assert!(message.contains("T") && message.contains("many"), "{message}");
}

#[test]
fn a_dimension_that_nothing_determines() {
    let source =
        "model table(x: f32[D]) -> (y: f32[T, D]) {\n    let y[t: T, d: D] = x[d]\n    return y\n}\n";
    let path = file("undetermined.attn", source);
    let input = npz("undetermined.npz", vec![("x", counting(&[3]))]);
    let message = "error: no tensor determines the dimension `T`; give it with --set T=LENGTH";
    refuses(&format!("run {path} --inputs {input}"), 2, message);
    assert_eq!(words(&format!("run {path} --inputs {input} --set T=4")).code, Some(0));
}

#[test]
fn nothing_to_check_against() {
    let data = npz("no_outputs.npz", vec![("in.x", counting(&[3]))]);
    let message = format!("error: {data}: has no out.NAME array to check against");
    refuses(&format!("run {MODEL} --data {data} --check"), 2, &message);
}

#[test]
fn arrays_of_a_data_file_without_prefix() {
    let data = npz("no_prefix.npz", vec![("x", counting(&[3]))]);
    let ended = words(&format!("run {MODEL} --data {data}"));
    let message = refused(&ended, 2);
    assert!(
        message.contains("array `x`") && message.contains("in.") && message.contains("param."),
        "{message}"
    );
}

#[test]
fn flags_that_do_not_exist_or_do_not_parse() {
    for (line, part) in [
        (format!("run {MODEL} --nope"), "--nope"),
        (format!("run {MODEL} --input x"), "expected NAME=VALUE"),
        (format!("run {MODEL} --engine gpu"), "possible values: jit, unfused, oracle"),
        (format!("run {MODEL} --threads 0"), "1..=1024"),
        (format!("run {MODEL} --rtol -1"), "not negative"),
        (format!("run {MODEL} --isa mmx"), "mmx"),
        (format!("run {MODEL} --init many"), "many"),
        (format!("run {MODEL} --check"), "--data"),
        (
            format!("ir {MODEL} --stage cuda"),
            "possible values: source, graph, fused, plan, kernels, memory, clif, asm",
        ),
        (
            format!("ir {MODEL} --after cuda"),
            "there is no such pass; there are\n  batch-heads: heads that are written",
        ),
        (format!("ir {MODEL} --after share --stage fused"), "cannot be used with '--stage <STAGE>'"),
        (format!("ir {MODEL} --after share --engine oracle"), "the engine `oracle` runs no passes"),
        ("fmt".to_owned(), "<FILES>..."),
        ("walk".to_owned(), "walk"),
    ] {
        let ended = words(&line);
        let message = refused(&ended, 2);
        assert!(message.contains(part), "{line}: {message}");
    }
}

#[test]
fn a_model_that_is_wrong() {
    let path = file("wrong.attn", "model m(x: f32[T]) -> (y: f32[T]) {\n    return x + z\n}\n");
    for command in ["run", "check", "ir"] {
        let ended = words(&format!("{command} {path}"));
        let message = refused(&ended, 1);
        assert!(message.contains("`z`") && message.contains("wrong.attn:2:16"), "{message}");
    }
}

#[test]
fn an_import_that_does_not_exist() {
    let path =
        file("imports.attn", "import \"nowhere.attn\"\nmodel m(x: f32[T]) -> (y: f32[T]) { return x }\n");
    let ended = words(&format!("check {path}"));
    let message = refused(&ended, 1);
    assert!(
        message.contains("`nowhere.attn` cannot be imported") && message.contains("imports.attn:1:8"),
        "{message}"
    );
}

#[test]
fn a_result_that_is_wrong() {
    let expect = npz("wrong_result.npz", vec![("context", counting(&[2, 6, 2]))]);
    let ended = words(&format!("run {MODEL} --data {DATA} --expect {expect}"));
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    assert!(ended.stdout.contains("context:") && ended.stdout.contains("deviates"), "{}", ended.stdout);
    assert!(ended.stdout.contains("weights: nothing to compare with"), "{}", ended.stdout);
    assert!(
        ended.stderr.starts_with("error: output `context`: 24 of 24 elements deviate"),
        "{}",
        ended.stderr
    );

    let expect = npz("wrong_shape.npz", vec![("context", counting(&[6, 2]))]);
    let ended = words(&format!("run {MODEL} --data {DATA} --expect {expect}"));
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    assert_eq!(ended.stderr, "error: output `context`: the shape is [2, 6, 2], expected [6, 2]\n");
}

#[test]
fn an_index_outside_its_axis() {
    let source = "model look_up(table: f32[V, D], ids: i64[T]) -> (rows: f32[T, D]) {\n    let rows[t, d] = table[ids[t], d]\n    return rows\n}\n";
    let path = file("look_up.attn", source);
    for engine in ["jit", "unfused", "oracle"] {
        let ids = Array::from_i64(vec![2], vec![1, 5]).unwrap();
        let inputs = npz(&format!("look_up_{engine}.npz"), vec![("table", counting(&[4, 3])), ("ids", ids)]);
        let ended = words(&format!("run {path} --inputs {inputs} --engine {engine}"));
        let message = refused(&ended, 1);
        assert!(message.contains("index 5 is outside the axis"), "{engine}: {message}");
        assert!(message.ends_with("look_up.attn:2:22)"), "{engine}: {message}");
    }
}

#[test]
fn a_call_that_needs_too_much_memory() {
    let ended = words(&format!("run {MODEL} --data {DATA} --max-memory 8"));
    let message = refused(&ended, 2);
    assert!(
        message.starts_with("error: the model works in ") && message.ends_with("--max-memory allows 8"),
        "{message}"
    );
    assert_eq!(words(&format!("run {MODEL} --data {DATA} --max-memory 64M")).code, Some(0));
    let ended = words(&format!("run {MODEL} --data {DATA} --max-memory lots"));
    assert!(refused(&ended, 2).contains("such as 1000, 64K or 2G"), "{}", ended.stderr);
}

#[test]
fn texts_without_what_they_need_are_refused() {
    let weights = npz("wrong_texts.npz", vec![("tabel", counting(&[4, 4]))]);
    let model = file(
        "wrong_texts.attn",
        "model m(ids: i64[B, T]) -> (y: f32[B, 4]) { param table: f32[4, 4] let x[b, t, d] = table[ids[b, t], d] return sum[t](x) }",
    );
    let call = format!("{model} --weights {weights}");
    let no_texts = "error: there are no texts: give them behind the model, or with --input";
    refuses(&format!("embed {call}"), 2, no_texts);
    let no_prompt = "error: there is no prompt: give it behind the model, or with --input";
    refuses(&format!("generate {call}"), 2, no_prompt);
    refuses(&format!("embed {call} a"), 2, "error: the weights hold no tokenizer: name one with --tokenizer");
    let words = file(
        "wrong_texts.json",
        r#"{"version": "1.0", "added_tokens": [], "model": {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "a"}}"#,
    );
    let message = [
        "error: parameter `table` is missing: the model needs f32[4, 4] (`tabel` was given; is it meant?)",
        "error: the model has no parameter `tabel`; did you mean `table`?",
    ];
    refuses(&format!("embed {call} --tokenizer {words} a"), 2, &message.join("\n"));
    let no_template = "error: the tokenizer's file has no chat template: leave out --chat";
    refuses(&format!("generate {call} --tokenizer {words} --chat a"), 2, no_template);
    let models = ["a", "b"].map(|name| {
        format!("model {name}(ids: i64[B, T]) -> (logits: f32[B, 4]) {{ param table: f32[9, 4] return sum[t](table[ids, :]) }}")
    });
    let other = "model c(x: f32[T]) -> (logits: f32[T]) { return x }".to_owned();
    let several = file("several_fit.attn", [&models[..], &[other]].concat().join("\n"));
    let which = "error: several models of the file fit: `a` and `b`; say which one with --model NAME";
    refuses(&format!("generate {several} --weights {weights} --tokenizer {words} a"), 2, which);
    let no_such = "error: no/such.json: cannot be read: No such file or directory (os error 2)";
    refuses(&format!("embed {call} --tokenizer no/such.json a"), 2, no_such);
}

#[test]
fn numbers_that_are_none_are_refused() {
    let bench = format!("bench {MODEL} --set B=1 --set T=4 --set D=4 --set E=4");
    let run = format!("run {MODEL} --data {DATA}");
    let generate = "generate a.attn --weights a.npz --tokenizer a.json a";
    let translate = "translate a.attn --weights a.npz --encoder e --start a --end b a";
    let calls = [
        (bench.as_str(), "--rounds", &["0", "-1", "nan", "1e3", "99999999999"][..]),
        (&bench, "--seconds", &["nan", "inf", "-inf", "-1", "1e300", ""]),
        (&bench, "--threads", &["0", "-1", "1025"]),
        (&bench, "--held", &["-1", "1.5", "4294967296"]),
        (&bench, "--seed", &["-1", "x"]),
        (&run, "--rtol", &["nan", "-1", "inf"]),
        (&run, "--atol", &["nan", "-1e-9", "inf"]),
        (&run, "--max-memory", &["K", "-1", "1.5G", "99999999999G", "nan"]),
        (&run, "--threads", &["0", "65536"]),
        (&run, "--init", &["-1", "1.5"]),
        (&format!("verify {MODEL}"), "--trials", &["0", "-1", "nan", "99999999999"]),
        (generate, "--temperature", &["nan", "inf", "-1"]),
        (generate, "--top-p", &["nan", "0", "1.5", "-1"]),
        (generate, "--top-k", &["-1", "1.5"]),
        (generate, "--max-tokens", &["-1", "x"]),
        (translate, "--beams", &["0", "-1", "65536"]),
        (translate, "--length-penalty", &["nan", "inf"]),
        (translate, "--max-tokens", &["-1"]),
        ("embed a.attn --weights a.npz a", "--batch", &["0", "-1"]),
    ];
    for (call, flag, numbers) in calls {
        for number in numbers {
            let ended = words(&format!("{call} {flag}={number}"));
            let message = refused(&ended, 2);
            assert!(message.contains(flag) && !message.contains("unexpected"), "{flag}={number}: {message}");
        }
    }
}

#[test]
fn what_is_no_file_is_refused_by_every_flag() {
    let (run, texts) = (format!("run {MODEL} --data {DATA}"), "embed a.attn --weights");
    for (path, kind) in [("/dev/zero", "a device or a socket"), ("/tmp", "a directory")] {
        for call in [
            format!("run {MODEL} --data {path}"),
            format!("run {MODEL} --inputs {path}"),
            format!("run {MODEL} --input x={path}"),
            format!("run {MODEL} --weights {path}"),
            format!("{run} --expect {path}"),
            format!("{run} --tuning {path}"),
            format!("models {path}"),
            format!("run {path}"),
            format!("check {path}"),
            format!("fmt {path}"),
            format!("{texts} a.npz --input {path}"),
        ] {
            let message = format!("error: {path}: cannot be read: it is {kind}, not a file");
            refuses(&call, 2, &message);
        }
    }
    let index =
        file("itself.safetensors.index.json", r#"{"weight_map": {"w": "itself.safetensors.index.json"}}"#);
    let problem = "it places `w` in `itself.safetensors.index.json`, which is an index";
    for call in [format!("models {index}"), format!("run {MODEL} --weights {index}")] {
        refuses(&call, 2, &format!("error: {index}: has a malformed index: {problem}"));
    }
}

/// A file of another kind than is written leaves the old one, and so does one that no longer fits on the disk.
#[test]
fn outputs_that_cannot_be_written_leave_the_old_file() {
    let old = file("kept.npy", "old");
    for (line, message) in [
        (format!("run {MODEL} --data {DATA} --output context=/dev/full"), "No space left on device"),
        (format!("run {MODEL} --data {DATA} --output context={old}/y.npy"), "Not a directory"),
        (format!("run {MODEL} --data {DATA} --outputs /tmp"), "directory"),
    ] {
        let ended = words(&line);
        let said = refused(&ended, 2);
        assert!(said.contains("cannot be written: ") && said.contains(message), "{line}: {said}");
    }
    assert_eq!(std::fs::read(old).unwrap(), b"old");
}

#[test]
fn logits_that_choose_no_token_are_an_error() {
    let tokenizer = file(
        "no_choice.json",
        r#"{"version": "1.0", "added_tokens": [], "pre_tokenizer": {"type": "Whitespace"},
            "model": {"type": "WordLevel", "vocab": {"a": 0, "b": 1}, "unk_token": "a"}}"#,
    );
    let weights = npz("no_choice.npz", vec![("w", counting(&[4]))]);
    let model = |name: &str, logit: &str| {
        let source = format!(
            "model m(ids: i64[B, T]) -> (logits: f32[B, T, 4]) {{ param w: f32[4] let y[b: B, t: T, v] = {logit} return y + 0.0 * f32(ids)[:, :, _] }}"
        );
        format!(
            "{} --weights {weights} --tokenizer {tokenizer}",
            file(&format!("no_choice_{name}.attn"), source)
        )
    };
    for sampling in ["", "--temperature 1"] {
        for (name, logit, nan, greatest) in [
            ("nan", "log(-1.0 - w[v])", 4, "-inf"),
            ("infinite", "log(0.0 * w[v])", 0, "-inf"),
            ("some", "log(1.0 - w[v]) + log(0.0 * w[v])", 2, "-inf"),
        ] {
            let ended = words(&format!("generate {} a {sampling}", model(name, logit)));
            let message = format!(
                "error: no token can be chosen after 1 tokens: of 4 logits {nan} are NaN, and the greatest of the others is {greatest}"
            );
            assert_eq!(refused(&ended, 1), message, "{name} {sampling}");
        }
        let ended = words(&format!("generate {} a {sampling}", model("outside", "1000.0 * w[v]")));
        assert_eq!(refused(&ended, 1), "error: the model chose token 3 after 1 tokens; the tokenizer has 2");
    }
}

#[test]
fn a_warning_is_an_error_where_warnings_are_denied() {
    let text = "model m(x: f32[T], y: f32[T]) {\n    return x\n}\n";
    let model = file("denied.attn", text);
    let taken = words(&format!("check {model}"));
    assert_eq!(taken.code, Some(0), "{}", taken.stderr);
    assert!(taken.stderr.starts_with("warning: the input `y` is never read"), "{}", taken.stderr);
    for command in ["check", "ir --stage graph", "run"] {
        let ended = words(&format!("{command} {model} --deny warnings"));
        let message = refused(&ended, 1);
        assert!(message.starts_with("error: the input `y` is never read"), "{message}");
        assert!(message.ends_with("= note: warnings are denied"), "{message}");
    }
    refuses(
        &format!("check {model} --deny notes"),
        2,
        "error: invalid value 'notes' for '--deny <WHAT>'\n  [possible values: warnings]\n\nFor more information, try '--help'.",
    );
}
