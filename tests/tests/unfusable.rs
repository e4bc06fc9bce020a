//! Programs that no plan fuses: what `explain` says of each is the snapshot, and what it says to write instead fuses and computes
//! the same.

use salient::rewriting::{REWRITINGS, Rewriting};
use salient::{Engine, Error, Fp, Model, Options, Sources, Timings, explain};
use salient_tests::agree::agree;
use salient_tests::case::Case;
use salient_tests::files::{files_under, sources, text};
use salient_tests::snapshot;
use salient_tests::sweep;
use std::collections::BTreeSet;
use std::sync::Mutex;

const FOLDER: &str = "tests/unfusable";

fn programs() -> Vec<String> {
    let names = files_under(FOLDER, "attn").into_iter();
    names.map(|name| name.strip_suffix(".attn").expect("its extension").to_owned()).collect()
}

fn path(name: &str) -> String {
    format!("{FOLDER}/{name}.attn")
}

/// What `explain` says between its summary and the kernels.
fn explained(sources: &Sources, options: &Options) -> String {
    let whole = explain(sources, options, None, &mut Timings::default()).expect("a model");
    let (_, rest) = whole.split_once("tuned").expect("how it is tuned");
    let (_, rest) = rest.split_once('\n').expect("a line");
    let (said, _) = rest.split_once("\nkernels\n").expect("kernels");
    format!("{}\n", said.trim())
}

/// The rewritings of which an explanation shows every line.
fn shown(explained: &str) -> Vec<&'static Rewriting> {
    REWRITINGS.into_iter().filter(|r| r.lines.iter().all(|line| explained.contains(line))).collect()
}

fn required(sources: &Sources, options: &Options) -> Result<Model, Error> {
    Model::from_sources(sources, &Options { require_fused: true, ..options.clone() })
}

#[test]
fn explain_says_why_a_program_is_not_fused_and_what_is() {
    let programs = programs();
    for name in &programs {
        let case = Case::parse(&text(&path(name))).expect("directives");
        snapshot::assert(
            "unfusable",
            name,
            &explained(&sources(&path(name)).expect("a file"), &case.options()),
        );
    }
    let strict = Options { fp: Fp::Strict, ..Case::default().options() };
    let plain = sources("tests/equivalence/plain/reference.attn").expect("a file");
    snapshot::assert("unfusable", "strict", &explained(&plain, &strict));
    snapshot::assert_all_referenced("unfusable", programs.into_iter().chain(["strict".to_owned()]));
}

#[test]
fn programs_that_are_not_fused_are_refused_where_that_is_required() {
    for name in programs() {
        let refused = required(&sources(&path(&name)).expect("a file"), &Options::default());
        match refused {
            Err(Error::Unfused(why)) => {
                assert!(why.starts_with("error: `") || why.starts_with("error: the kernel"), "{name}: {why}");
                // The line of the source, with the place under it.
                assert!(why.contains(&format!("{}:", path(&name))) && why.contains("^^"), "{name}: {why}");
            }
            Err(other) => panic!("{name}: {other}"),
            Ok(_) => panic!("{name} is fused"),
        }
    }
}

#[test]
fn every_spelling_is_fused() {
    let spellings: Vec<String> = files_under("tests/equivalence", "attn");
    let refused = Mutex::new(BTreeSet::new());
    sweep::each(&spellings, |file| {
        match required(&sources(&format!("tests/equivalence/{file}"))?, &Options::default()) {
            Ok(_) => {}
            Err(Error::Unfused(_)) => {
                let stem = file.strip_suffix(".attn").expect("it is a program");
                refused.lock().expect("no check holds it").insert(stem.to_owned());
            }
            Err(other) => return Err(other.to_string()),
        }
        Ok(())
    });
    let refused = refused.into_inner().expect("no check holds it");
    assert!(refused.is_empty(), "{refused:?}");
}

#[test]
fn what_is_to_be_written_instead_is_fused_and_computes_the_same() {
    let programs = programs();
    sweep::each(&programs, |name| {
        let given = sources(&path(name))?;
        let case = Case::parse(&text(&path(name)))?;
        let said = explained(&given, &case.options());
        for rewriting in shown(&said) {
            let mut rewritten = Sources::new();
            rewritten.add("rewritten", rewriting.program);
            let fused = required(&rewritten, &Options::default()).map_err(|e| e.to_string())?;
            let oracle = Options { engine: Engine::Oracle, ..Options::default() };
            let oracle = Model::from_sources(&given, &oracle).map_err(|e| e.to_string())?;
            for run in &case.runs {
                let call = case.call(oracle.graph(), run)?;
                let wanted = call.run(&oracle).map_err(|e| e.to_string())?;
                let found = call.run(&fused).map_err(|e| e.to_string())?;
                let [(_, wanted), (_, found)] =
                    [wanted.iter().next(), found.iter().next()].map(Option::unwrap);
                agree(found, wanted)?;
            }
        }
        Ok(())
    });
}

#[test]
fn every_rewriting_is_said_of_some_program() {
    let said: BTreeSet<&str> = programs()
        .iter()
        .flat_map(|name| shown(&explained(&sources(&path(name)).expect("a file"), &Options::default())))
        .map(|rewriting| rewriting.what)
        .collect();
    for rewriting in REWRITINGS {
        assert!(said.contains(rewriting.what), "no program is told to {}", rewriting.what);
        let lines = rewriting.lines.iter();
        assert!(lines.clone().count() > 0 && lines.into_iter().all(|line| rewriting.program.contains(line)));
    }
}

/// Models whose arrays with two axes of inputs are no weights: images, widths, codes of a vocabulary, attention within windows of a
/// fixed size, and sums over positions.
const NO_WEIGHTS: [(&str, &str); 9] = [
    (
        "image",
        "model image(x: f32[B, C, H, W], w: f32[C, D]) -> (y: f32[B, D, H, W]) {
    let y[b, d, h, u: W] = exp(sum[c](x[b, c, h, u] * w[c, d]))
    let z[b, d, h, u] = y[b, d, h, u] / sum[g: D](y[b, g, h, u])
    let s[b, d, u] = sum[h](z[b, d, h, u])
    let r[b, d, h, u] = z[b, d, h, u] * s[b, d, u]
    return r
}",
    ),
    (
        "image_of_rows_and_columns",
        "model image(r: f32[H, E], c: f32[W, E], f: f32[H, W, D]) -> (g: f32[D]) {
    let p[h, w] = exp(sum[e](r[h, e] * c[w, e]))
    let z = softmax(f * p[.., _])
    let t[h, d] = sum[w](z[h, w, d])
    return sum[h](t[h, d])
}",
    ),
    (
        "widths_of_parameters",
        "model widths(x: f32[T, D]) -> (y: f32[T, F]) {
    param a: f32[D, E]
    param b: f32[F, E]
    return tanh(x) @ softmax(a @ b.T)
}",
    ),
    (
        "attention_over_features_of_a_layer",
        "model features(x: f32[T, D]) -> (y: f32[T, E], z: f32[E, E]) {
    param a: f32[D, E]
    param b: f32[D, E]
    let s = softmax(((x @ a).T @ (x @ b)) / sqrt(T))
    return (x @ a) @ s.T, cumsum(s) @ s
}",
    ),
    (
        "vocabulary",
        "model vocabulary(x: f32[T, D], target: i64[T]) -> (loss: f32[]) {
    param words: f32[V, D]
    let l = log_softmax(x @ words.T)
    return -mean[t](l[t, target[t]])
}",
    ),
    (
        "feed_forward",
        "model feed_forward(x: f32[T, D], g: f32[D]) -> (y: f32[T, D]) {
    param a: f32[D, F]
    param b: f32[F, D]
    let z = x * g / sqrt(mean(x ** 2)[.., _] + 1e-5)
    return max(z @ a, 0) @ b + softmax(z)
}",
    ),
    (
        "linear_attention",
        "model linear(q: f32[T, E], k: f32[T, E], v: f32[T, E]) -> (y: f32[T, E]) {
    let a = exp(q) @ exp(k).T
    return (a / sum(a)[.., _]) @ v
}",
    ),
    (
        "sums_under_weights_that_are_given",
        "model given(w: f32[T, S], x: f32[S, D]) -> (y: f32[T, D]) {
    let c = tanh(w @ x)
    return c / sum(c)[.., _]
}",
    ),
    (
        "windows_of_a_fixed_size",
        "model windows[W = 16](q: f32[N * W, E], k: f32[N * W, E], v: f32[N * W, E]) -> (y: f32[N, W, E]) {
    let s[n: N, i: W, j: W] = sum[e](q[n * W + i, e] * k[n * W + j, e])
    let p = softmax(s)
    let w[n, i, j] = cumsum[i](p[n, i, j])
    let y[n, i, e] = sum[j](w[n, i, j] * v[n * W + j, e])
    return y
}",
    ),
];

/// What fuses with weights that are made, masked and reduced in these ways, after `s` and `p = softmax(s)`; each with a
/// value for every query and key that has to be stored.
const WEIGHTS: [(&str, &str); 7] = [
    ("scores_of_a_sum", "let a[i: T, j: T] = sum[e](tanh(q[i, e] + k[j, e]))\n    return softmax(a) @ v"),
    ("distances", "let a[i: T, j: T] = -sum[e](abs(q[i, e] - k[j, e]))\n    return softmax(a) @ v"),
    (
        "the_first_position_by_a_minimum",
        "let best[i: T] = min[j](if s[i, j] == max(s)[i] then f32(j) else f32(T))\n    let y[i, e] = v[i64(best[i]), e]\n    return y",
    ),
    ("scores_of_scores", "let a[i: T, j: T] = sum[l: T](s[i, l] * s[l, j])\n    return softmax(a) @ v"),
    ("weights_with_weights", "return softmax(p @ p.T) @ v"),
    ("numbers_at_fixed_sizes", "let w[i: T, j: T] = cumsum[i](p[i, j])\n    return w @ v"),
    (
        "ranks_beside_what_is_returned",
        "let r[i: T, j: T] = sum[l: T](f32(p[i, l] > p[i, j]))\n    return (if r < 8.0 then p else 0) @ v",
    ),
];

fn refused(text: &str, options: &Options) -> Option<String> {
    let mut sources = Sources::new();
    sources.add("model", text);
    match required(&sources, options) {
        Ok(_) => None,
        Err(Error::Unfused(why)) => Some(why),
        Err(other) => panic!("{text}\n{other}"),
    }
}

#[test]
fn images_widths_and_sums_over_positions_are_no_weights() {
    for (name, text) in NO_WEIGHTS {
        assert_eq!(refused(text, &Options::default()), None, "{name}");
    }
}

#[test]
fn every_array_for_all_pairs_is_found_whatever_makes_it() {
    for (name, body) in WEIGHTS {
        let text = format!(
            "model m(q: f32[T, E], k: f32[T, E], v: f32[T, E]) -> (y: f32[T, E]) {{\n    let s = q @ k.T\n    let p = softmax(s)\n    {body}\n}}"
        );
        let why = refused(&text, &Options::default()).unwrap_or_else(|| panic!("{name} is fused"));
        assert!(why.contains("T * T elements, one for every query and key"), "{name}: {why}");
        // The same where lengths and widths are equal numbers.
        let set = ["T", "E"].map(|name| (name.to_owned(), "64".to_owned())).to_vec();
        let why = refused(&text, &Options { set, ..Options::default() });
        let why = why.unwrap_or_else(|| panic!("{name} is fused at fixed sizes"));
        assert!(why.contains("4096 elements, one for every query and key"), "{name}: {why}");
    }
}

/// What a kernel makes returned values of is asked for if it is no larger; what comes before that is not, nor what leads elsewhere.
#[test]
fn what_is_returned_excuses_what_it_is_made_of() {
    let model = |outputs: &str, body: &str| {
        format!(
            "model m(q: f32[H, T, E], k: f32[H, T, E], v: f32[H, T, E]) -> (y: f32[H, T, E], {outputs}) {{\n    let p = softmax(q @ k.T)\n    {body}\n}}"
        )
    };
    let options = Options::default();
    assert_eq!(refused(&model("p: f32[H, T, T]", "return p @ v, p"), &options), None);
    let logarithms = refused(&model("l: f32[H, T, T]", "return p @ v, log(p)"), &options);
    assert!(logarithms.expect("scores are stored beside weights").contains("`p`, which is stored too"));
    let mean =
        refused(&model("m: f32[T, T]", "let m[i, j] = mean[h](p[h, i, j])\n    return p @ v, m"), &options);
    assert!(mean.expect("weights of each head are stored").contains("H * T * T elements"));
    let running = model("p: f32[H, T, T]", "let w[h, i, j] = cumsum[i](p[h, i, j])\n    return w @ v, p");
    let running = refused(&running, &options).expect("the running sum is stored and not returned");
    assert!(running.contains("`w` is stored") && !running.contains("`p` is stored"), "{running}");
}
