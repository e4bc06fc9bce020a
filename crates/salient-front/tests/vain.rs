//! What a program says and nothing comes of is told: as an error, or as a warning that `--deny warnings` makes one.
//!
//! Further warnings are in `diagnostics.rs`.

use salient_front::{Settings, Severity, Sources, compile, parse, render};
use std::path::{Path, PathBuf};

/// The messages for files of which the first has the model; there must be some.
fn messages(files: &[(&str, &str)]) -> (Vec<Severity>, String) {
    let mut sources = Sources::new();
    files.iter().for_each(|(name, text)| {
        sources.add(name, text);
    });
    let told = match compile(&sources, None, &Settings::default()) {
        Err(errors) => errors,
        Ok(lowered) => lowered.warnings,
    };
    (told.iter().map(|d| d.severity).collect(), render(&told, &sources, false))
}

macro_rules! vain {
    ($($name:ident, $severity:ident: $($file:expr => $text:expr),*;)*) => {
        $(#[test]
        fn $name() {
            let (severities, shown) = messages(&[$(($file, $text)),*]);
            assert_eq!(severities, [Severity::$severity], "{shown}");
            insta::with_settings!({omit_expression => true}, { insta::assert_snapshot!(stringify!($name), shown) });
        })*
    };
}

vain! {
    parameter_twice, Error: "m.attn" => "model m(x: f32[T]) {\n    param w: f32[T] = ones\n    param w: f32[T] = zeros\n    return x * w\n}\n";
    results_twice, Error: "m.attn" => "model m(x: f32[T]) -> (y: f32[T], y: f32[T]) {\n    return x, exp(x)\n}\n";
    states_twice, Error: "m.attn" => "model m(x: f32[T]) {\n    state n: f32[T], n: f32[T]\n    n = n + x\n    return n\n}\n";
    state_over_an_input, Error: "m.attn" => "model m(x: f32[T]) {\n    state x: f32[T]\n    x = x + 1\n    return x\n}\n";
    parameter_over_an_argument, Error: "m.attn" => "block f(x: f32[T]) {\n    param x: f32[T] = ones\n    return x\n}\n\nmodel m(x: f32[T]) {\n    return f(x)\n}\n";
    parameter_of_all_rounds, Warning: "m.attn" => "model m(x: f32[T, D]) {\n    let y = x\n    for l in 0..3 {\n        y = linear[D, bias = false](y)\n    }\n    return y\n}\n";
    argument_unused, Warning: "m.attn" => "fn f(x, scale) {\n    return x * 2\n}\n\nmodel m(x: f32[T]) {\n    return f(x, 3)\n}\n";
    bracket_unused, Warning: "m.attn" => "fn f[scale](x) {\n    return x * 2\n}\n\nmodel m(x: f32[T]) {\n    return f[3](x)\n}\n";
    bracket_of_the_model_unused, Warning: "m.attn" => "model m[H = 4](x: f32[T]) {\n    return x\n}\n";
    parameter_unused, Warning: "m.attn" => "model m(x: f32[T]) {\n    param w: f32[T] = ones\n    return x\n}\n";
    import_unused, Warning:
        "dir/m.attn" => "import \"other.attn\"\n\nmodel m(x: f32[T]) {\n    return x\n}\n",
        "dir/other.attn" => "fn other(x) {\n    return x + 1\n}\n";
    input_unused, Warning: "m.attn" => "model m(x: f32[T], y: f32[T]) {\n    return x\n}\n";
    value_unused, Warning: "m.attn" => "model m(x: f32[T]) {\n    let y = exp(x)\n    return x\n}\n";
    value_of_each_round_lost, Warning: "m.attn" => "model m(x: f32[T]) {\n    for i in 0..3 {\n        let x = x + 1\n    }\n    return x\n}\n";
    condition_that_holds_nowhere, Warning: "m.attn" => "model m(x: f32[T]) {\n    let y[t: T] = if t >= T then x[t] else 0\n    return y\n}\n";
    guard_that_holds_nowhere, Warning: "m.attn" => "model m(x: f32[T]) {\n    let y[t: T] = if t < 0 then x[t - 1] else 0\n    return y\n}\n";
    guarded_index_outside_everywhere, Warning: "m.attn" => "model m(x: f32[T], keep: bool[T]) {\n    let y[t: T] = if keep[t] then x[t + T] else 0\n    return y\n}\n";
    guarded_constant_index_outside, Warning: "m.attn" => "model m(x: f32[4], keep: bool[T]) {\n    let y[t: T] = if keep[t] then x[4] else 0\n    return y\n}\n";
    index_outside_everywhere, Error: "m.attn" => "model m(x: f32[T]) {\n    let y[t: T] = x[t + T]\n    return y\n}\n";
    index_outside_somewhere, Warning: "m.attn" => "model m(x: f32[T]) {\n    let y[t: T] = x[t + 1]\n    return y\n}\n";
    quotient_in_a_comment, Warning: "m.attn" => "model m(x: f32[T], y: f32[T]) {\n    let z = y\n    return x + z // y\n}\n";
}

#[test]
fn what_is_used_somewhere_is_not_told() {
    for text in [
        // In a branch that is not taken, for its shape, in a path, as an extent, in the lengths of a loop.
        "fn f[double](x, y) {\n    if double {\n        return x + y\n    } else {\n        return x\n    }\n}\n\nmodel m(x: f32[T]) {\n    return f[false](x, x)\n}\n",
        "fn rows(x: f32[N, M]) -> f32[N] {\n    let y[n: N] = f32(n)\n    return y\n}\n\nmodel m(x: f32[T, D]) {\n    return rows(x) * x[:, 0]\n}\n",
        "block f[n, D](x) {\n    return linear[D](x) as layers.{n}\n}\n\nmodel m(x: f32[T, D]) {\n    return f[1, D](x)\n}\n",
        "fn f[K](x) {\n    let y = x\n    for k in 0..K {\n        y = y + k\n    }\n    return y\n}\n\nmodel m(x: f32[T]) {\n    return f[2](x)\n}\n",
        "fn f(x, _unused) {\n    return x\n}\n\nmodel m(x: f32[T]) {\n    return f(x, 1)\n}\n",
        // A condition over a number of a call or round may hold in another.
        "fn f[W](x: f32[T]) {\n    let y[t: T] = if t < W then x[t] else 0\n    return y\n}\n\nmodel m(x: f32[T]) {\n    return f[0](x)\n}\n",
        "model m(x: f32[T]) {\n    let y = x\n    for l in 0..2 {\n        let z[t: T] = if t < l then y[t] else 0\n        y = y + z\n    }\n    return y\n}\n",
        "model m(x: f32[T]) {\n    let y[t: T] = if 0 <= t - 1 and t - 1 < T then x[t - 1] else 0\n    return y\n}\n",
        // One parameter of a block for all rounds is meant where its path is written at the declaration.
        "block f(x: f32[T]) {\n    param w: f32[T] = ones as w\n    return x * w\n}\n\nmodel m(x: f32[T]) {\n    let y = x\n    for l in 0..2 {\n        y = f(y)\n    }\n    return y\n}\n",
    ] {
        let (told, shown) = messages(&[("m.attn", text)]);
        assert!(told.is_empty(), "{text}\n{shown}");
    }
}

#[test]
fn what_an_imported_file_imports_is_used_through_it() {
    let files = [
        ("m.attn", "import \"a.attn\"\n\nmodel m(x: f32[T]) {\n    return inner(x)\n}\n"),
        ("a.attn", "import \"b.attn\"\n"),
        ("b.attn", "fn inner(x) {\n    return x + 1\n}\n"),
    ];
    let (told, shown) = messages(&files);
    // The file between uses nothing of what it imports, and may be there to pass it on.
    assert!(told.is_empty(), "{shown}");
}

/// The programs below a folder.
fn programs(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let paths = entries.map(|entry| entry.expect("a folder that can be listed").path());
    let below = paths.flat_map(|path| if path.is_dir() { programs(&path) } else { vec![path] });
    below.filter(|path| path.extension().is_some_and(|e| e == "attn")).collect()
}

/// Adds a file and what it imports.
fn add(sources: &mut Sources, path: &Path) {
    let name = path.display().to_string();
    if sources.find(&name).is_some() {
        return;
    }
    let id = sources.add(&name, &std::fs::read_to_string(path).unwrap());
    let Ok(tree) = parse(sources.file(id)) else { return };
    for item in tree.items {
        if let salient_front::ast::Item::Import(target) = item {
            add(sources, &path.parent().expect("a file is in a folder").join(target.value));
        }
    }
}

/// The warnings of every model of a file.
fn warnings(path: &Path) -> Vec<String> {
    let mut sources = Sources::new();
    add(&mut sources, path);
    let tree = parse(&sources.user_files()[0]).unwrap_or_else(|e| panic!("{}", render(&e, &sources, false)));
    let models: Vec<String> = tree.models().map(|m| m.name.name.clone()).collect();
    let told = models.iter().filter_map(|model| compile(&sources, Some(model), &Settings::default()).ok());
    told.map(|lowered| render(&lowered.warnings, &sources, false)).filter(|shown| !shown.is_empty()).collect()
}

/// Programs with a value or an input that nothing reads.
const MEANT: &[&str] = &[
    "cases/dimensions/two_outputs_of_one_value.attn",
    "unfusable/argmax.attn",
    "causal/sum_over_seen_keys.attn",
    "causal/renormalised_by_choice.attn",
    "causal/renormalised.attn",
    "causal/exp_then_mask.attn",
];

#[test]
fn programs_of_the_tree_have_no_warnings() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folders =
        ["examples", "tests/cases", "tests/models", "tests/equivalence", "tests/geometry", "tests/unfusable"];
    let all: Vec<PathBuf> = folders.iter().flat_map(|folder| programs(&root.join(folder))).collect();
    assert!(all.len() > 300, "{} programs are found", all.len());
    for path in all {
        let (told, meant) = (warnings(&path).join("\n"), MEANT.iter().any(|meant| path.ends_with(meant)));
        assert_eq!(!told.is_empty(), meant, "{}: {told}", path.display());
    }
}
