//! Gradients of every program of the tree, against differences of the interpreter.

use salient::verify::{GradientFinding, Lengths, Trials, verify, verify_gradients};
use salient::{Array, Arrays, Engine, Error, Model, Options, Sources, Weights, fuse, lower, schedule};
use salient_grad::{backward, in_normal_form, of_results};
use salient_ir::{Bindings, Dim, Graph, Name, Op, ReduceOp, text};
use salient_opt::{Fp, normal_form};
use salient_tests::examples::{Example, models_under, settings, small};
use salient_tests::files::files_under;
use salient_tests::generate::{attention, program};
use salient_tests::recorded::check_gradients;
use salient_tests::sweep;
use salient_tile::kernel::{Buffer, Role};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Scalar operations of the interpreter beyond which a trial is left out.
const MOST_WORK: i64 = 1_000_000;

/// Compares the gradients of every model below a folder; gives how many directions were compared.
fn agree(folder: &str, count: usize) -> usize {
    let compared = AtomicUsize::new(0);
    sweep::each_of(
        &models_under(folder),
        |example: &Example| &example.name,
        |example| {
            let options = Options { model: Some(example.model.clone()), ..Options::default() };
            // Some cases are programs that are refused.
            let Ok(lowered) = lower(&example.sources()?, &options) else { return Ok(()) };
            let graph = lowered.graph;
            let trials = Trials { count, lengths: Lengths::Drawn, most_work: MOST_WORK, ..Trials::default() };
            match verify_gradients(&graph, trials, &mut |_| {}) {
                Ok(found) => {
                    compared.fetch_add(found.compared, Ordering::Relaxed);
                    let lines: Vec<String> = found.findings.iter().map(|f| format!("{f:?}")).collect();
                    if lines.is_empty() { Ok(()) } else { Err(lines.join("\n")) }
                }
                // Nothing that goes in is a number that comes out.
                Err(Error::Run(why)) if why.starts_with("no result of the model") => Ok(()),
                Err(error) => Err(error.to_string()),
            }
        },
    );
    compared.into_inner()
}

#[test]
fn of_cases() {
    assert!(agree("tests/cases", 4) > 300);
}

#[test]
fn of_library_functions() {
    assert!(agree("tests/library", 4) > 100);
}

#[test]
fn of_examples() {
    assert!(agree("examples", 2) > 200);
}

#[test]
fn of_equivalent_spellings() {
    assert!(agree("tests/equivalence", 1) > 1000);
}

/// The maximum that a softmax subtracts cancels in every spelling of a causal attention, and that of the scores and a sink in every spelling
/// of an attention with one.
#[test]
fn no_maximum_is_differentiated_in_any_spelling() {
    let spellings = ["causal", "sink"].map(|variant| models_under(&format!("tests/equivalence/{variant}")));
    sweep::each_of(
        &spellings.concat(),
        |example| &example.name,
        |example| {
            let options = Options { model: Some(example.model.clone()), ..Options::default() };
            let graph = lower(&example.sources()?, &options).map_err(|e| e.to_string())?.graph;
            let graph = of_results(&graph).map_err(|e| e.to_string())?;
            let is_first = |id| matches!(graph.op(id), Op::Reduce(ReduceOp::ArgMax, _));
            if graph.ids().any(is_first) { Err("a maximum has a gradient".to_owned()) } else { Ok(()) }
        },
    );
}

/// A maximum is differentiated where what is subtracted does not cancel: the scores themselves are clamped, the exponentials are added up
/// along another axis, or the maximum of another row is subtracted.
#[test]
fn a_maximum_that_does_not_cancel_is_differentiated() {
    let programs = [
        ("max(x[i, j], -0.5)", "n[i]", "e[i, j] / sum[j](e[i, j])"),
        ("min(x[i, j], 0.75)", "n[i]", "s[i, j] - m[i] - log(sum[j](e[i, j]))"),
        ("x[i, j]", "n[i]", "e[i, j] / sum[i](e[i, j])"),
        ("x[i, j]", "n[i]", "e[i, j] / sum[i, j](e[i, j])"),
        ("x[i, j]", "n[i]", "before[i, j] / e[i, 0]"),
        ("x[i, j]", "n[(i + 1) % T]", "e[i, j] * exp(n[i])"),
    ];
    let check = |(scores, shift, result): &(&str, &str, &str)| {
        let source = format!(
            "model m(x: f32[T, S]) -> (y: f32[T, S]) {{
                 let s[i: T, j: S] = {scores}
                 let n[i: T] = max[j](s[i, j])
                 let m[i: T] = {shift}
                 let e[i, j] = exp(s[i, j] - m[i])
                 let before[i, j] = cumsum[i](e[i, j])
                 let y[i, j] = {result}
                 return y
             }}"
        );
        let mut sources = Sources::new();
        sources.add("source", &source);
        let graph = lower(&sources, &Options::default()).map_err(|e| e.to_string())?.graph;
        let trials = Trials { count: 8, ..Trials::default() };
        let found = verify_gradients(&graph, trials, &mut |_| {}).map_err(|e| e.to_string())?;
        if found.findings.is_empty() && found.compared > 4 { Ok(()) } else { Err(format!("{found:?}")) }
    };
    sweep::each_of(&programs, |(.., result)| result, check);
}

/// What a program looks at only where a choice or an index says so its gradients look at there alone: as the first of the greatest of a
/// row that is read at an index of data, or whether what is read before the first position is below a bound.
#[test]
fn what_may_be_outside_is_looked_at_only_where_the_program_looks_at_it() {
    let programs = [
        (
            "row",
            "let most[i: T] = max[f](table[at[i], f])
             let each[i: T, j: S] = if 0 <= at[i] and at[i] < S and j <= i then most[i] else 0.0
             let y[i] = sum[j](each[i, j])",
        ),
        (
            "distance",
            "let even[k: T] = x[k - k % 2]
             let bounded[k: T, i: T] = max(even[k - i], -0.5)
             let read[i: T] = if i <= at[i] then bounded[at[i], i] else 0.0
             let y[i] = if 0 <= at[i] and at[i] < T then read[i] else 0.0",
        ),
    ];
    let check = |(_, lines): &(&str, &str)| {
        let text = format!(
            "model m(table: f32[S, F], x: f32[T], at: i64[T]) -> (y: f32[T]) {{
                 {lines}
                 return y
             }}"
        );
        let mut sources = Sources::new();
        sources.add("source", &text);
        let graph = lower(&sources, &Options::default()).map_err(|e| e.to_string())?.graph;
        let graph = of_results(&graph).map_err(|e| e.to_string())?;
        let model = Model::from_graph(graph, &Options { engine: Engine::Oracle, ..Options::default() })
            .map_err(|e| e.to_string())?;
        let number = |shape: Vec<usize>| {
            let count = shape.iter().product();
            Array::from_f32(shape, vec![1.5; count]).unwrap()
        };
        let at = Array::from_i64(vec![3], vec![-1, 7, 1]).unwrap();
        let given = [("table", number(vec![2, 4])), ("x", number(vec![3])), ("at", at)];
        let mut inputs = Arrays::new();
        for (name, array) in given {
            if model.graph().inputs().iter().any(|port| *port.name == *name) {
                inputs.insert(name, array).map_err(|e| e.to_string())?;
            }
        }
        model.run(&inputs, Weights::default()).map(|_| ()).map_err(|e| e.to_string())
    };
    sweep::each_of(&programs, |(name, _)| name, check);
}

/// A loss is differentiated with running sums in place of sums over what comes before; as it is written in strict mode, where these
/// would add up in another order, and where something in it is not to be differentiated.
#[test]
fn a_loss_is_differentiated_in_a_normal_form_where_that_may_be() {
    let has_running_sum = |weight: &str, fp: Fp| {
        let text = format!(
            "model m(x: f32[T], u: f32[T]) -> (d: f32[T]) {{
                 let before[t: T] = sum[s: T](if s <= t then x[s] else 0)
                 let w = {weight}
                 return grad(sum[t](before[t] * before[t] * w[t]), x)
             }}"
        );
        let mut sources = Sources::new();
        sources.add("source", &text);
        let graph = lower(&sources, &Options { fp, ..Options::default() }).unwrap().graph;
        graph.ids().any(|id| matches!(graph.op(id), Op::CumSum(..)))
    };
    assert!(has_running_sum("u", Fp::Default));
    assert!(!has_running_sum("u", Fp::Strict));
    assert!(!has_running_sum("stop(u)", Fp::Default));
}

/// An index that reads its parts over and over is looked at once: written out it would have 2⁴⁰ terms.
#[test]
fn an_index_that_shares_its_parts_is_no_larger_than_them() {
    let sums: String =
        (1..=40).map(|n| format!("let i{n}[t: 4] = i{0}[t] - i{0}[t] + i{0}[t]\n", n - 1)).collect();
    let source = format!(
        "model m(x: f32[8], u: f32[4]) -> (y: f32[8]) {{
             let i0[t: 4] = t
             {sums}
             let read[t: 4] = x[i40[t]] * u[t]
             let heads[a: 2, b: 2] = read[a * 2 + b]
             return grad(sum[a, b](heads), x)
         }}"
    );
    let model = Model::compile(&source, &Options { engine: Engine::Oracle, ..Options::default() }).unwrap();
    let graph = model.graph().clone();
    let found =
        verify(&graph, &Options::default(), Trials { count: 1, ..Trials::default() }, &mut |_| {}).unwrap();
    assert!(found.findings.is_empty() && found.compared == 1, "{:?}", found.findings);
}

/// Compiled gradients of the library and of the variants agree with the interpreter's, in every form of code. Those of whole models take the interpreter minutes.
#[test]
fn compiled_gradients_are_those_of_the_interpreter() {
    for folder in ["tests/library", "examples/variants"] {
        sweep::each_of(
            &models_under(folder),
            |example| &example.name,
            |example| {
                let options = Options { model: Some(example.model.clone()), ..Options::default() };
                let graph = lower(&example.sources()?, &options).map_err(|e| e.to_string())?.graph;
                let Ok(graph) = of_results(&graph) else { return Ok(()) };
                let trials = Trials { count: 2, ..Trials::default() };
                let found =
                    verify(&graph, &Options::default(), trials, &mut |_| {}).map_err(|e| e.to_string())?;
                let lines: Vec<String> = found.findings.iter().map(|f| format!("{f:?}")).collect();
                if lines.is_empty() { Ok(()) } else { Err(lines.join("\n")) }
            },
        );
    }
}

/// Gradients of whole models of a small size, in f64 and compiled.
#[test]
fn of_published_models() {
    sweep::each_of(
        &models_under("examples/models"),
        |example| &example.name,
        |example| {
            let (set, model) = (small(&example.stem), Some(example.model.clone()));
            let options = Options { model, set, ..Options::default() };
            let graph = lower(&example.sources()?, &options).map_err(|e| e.to_string())?.graph;
            let trials = Trials { count: 1, seed: 2, ties: false, ..Trials::default() };
            let found = verify_gradients(&graph, trials, &mut |_| {}).map_err(|e| e.to_string())?;
            let graph = of_results(&graph).map_err(|e| e.to_string())?;
            let compiled = verify(&graph, &options, trials, &mut |_| {}).map_err(|e| e.to_string())?;
            let agrees = found.findings.is_empty() && compiled.findings.is_empty();
            let is_compared = found.compared > 0 && compiled.compared > 0;
            if agrees && is_compared { Ok(()) } else { Err(format!("{found:?}\n{compiled:?}")) }
        },
    );
}

/// A kink may lie much nearer to the data than the ends of a difference, and does so for some of many numbers. What a compiled gradient is
/// compared under are weights that f32 holds.
#[test]
fn kinks_near_the_data_are_no_wrong_gradients() {
    let mut sources = Sources::new();
    sources.add(
        "source",
        "model rectified(x: f32[N, 300], b: f32[300]) -> (y: f32[N, 300]) {
             let y[n, e] = max(x[n, e] + b[e], 0.0)
             return y
         }",
    );
    let graph = lower(&sources, &Options::default()).unwrap().graph;
    let trials = Trials { count: 300, ties: false, ..Trials::default() };
    let found = verify_gradients(&graph, trials, &mut |_| {}).unwrap();
    assert!(found.findings.is_empty() && found.compared > 100 && found.at_kinks > 100, "{found:?}");
    let gradients = of_results(&graph).unwrap();
    let found = verify(&gradients, &Options::default(), trials, &mut |_| {}).unwrap();
    assert!(found.findings.is_empty() && found.compared == 300, "{:?}", found.findings);
}

/// Gradients are those that PyTorch's autograd gives for the same programs and arrays; `tools/reference/gradients.py` records them.
#[test]
fn of_programs_that_were_recorded() {
    let folders = [("variants", "examples/variants"), ("library", "tests/library")];
    let mut count = 0;
    for (gradients, programs) in folders {
        let gradients = format!("tests/gradients/{gradients}");
        let names: Vec<String> = files_under(&gradients, "npz");
        let names: Vec<String> = names.iter().map(|f| f.trim_end_matches(".npz").to_owned()).collect();
        sweep::each(&names, |name| check_gradients(programs, &gradients, name));
        count += names.len();
    }
    assert!(count >= 30, "{count} programs are recorded");
}

/// How many random programs; `PROGRAMS` in the environment asks for more.
fn count() -> u64 {
    std::env::var("PROGRAMS").ok().and_then(|n| n.parse().ok()).unwrap_or(300)
}

/// Programs in which a comparison hides that a softmax without a guard has a row without a key: such a row has NaN as its gradient,
/// as docs/semantics.md rules, and differences of what is shown of it have none.
const HIDDEN: &[u64] = &[847];

#[test]
fn of_random_programs() {
    let (compared, kinks) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let seeds: Vec<String> = (0..count()).map(|seed| seed.to_string()).collect();
    sweep::each(&seeds, |name| {
        let seed: u64 = name.parse().expect("made above");
        let graph =
            if seed.is_multiple_of(3) { attention(seed) } else { program(seed, 4 + seed as usize % 9) };
        let trials = Trials { count: 1, seed, most_work: MOST_WORK, ..Trials::default() };
        let Ok(found) = verify_gradients(&graph, trials, &mut |_| {}) else { return Ok(()) };
        compared.fetch_add(found.compared, Ordering::Relaxed);
        kinks.fetch_add(found.at_kinks, Ordering::Relaxed);
        // Roots have no slope at zero.
        let printed = text::print(&graph);
        let has_roots = printed.contains("sqrt(") || printed.contains("** 0.5");
        let is_wrong =
            |f: &&GradientFinding| f.gradient.is_finite() || !(has_roots || HIDDEN.contains(&seed));
        let lines: Vec<String> = found.findings.iter().filter(is_wrong).map(|f| format!("{f:?}")).collect();
        if lines.is_empty() { Ok(()) } else { Err(format!("{printed}\n{}", lines.join("\n"))) }
    });
    let (compared, kinks) = (compared.into_inner(), kinks.into_inner());
    assert!(compared > seeds.len() && compared > 3 * kinks, "{compared} compared, {kinks} at kinks");
}

/// The temporaries of a model's gradients that grow with the square of its length.
fn squares(example: &Example) -> Result<Vec<String>, String> {
    let options = Options { model: Some(example.model.clone()), ..Options::default() };
    let graph = lower(&example.sources()?, &options).map_err(|e| e.to_string())?.graph;
    let Ok(graph) = backward(&in_normal_form(&graph, |graph| normal_form(graph, Fp::Default))) else {
        return Ok(Vec::new());
    };
    Ok(growing_with_squares(&graph, &options))
}

/// The temporaries of a program that grow with the square of its length.
fn growing_with_squares(graph: &Graph, options: &Options) -> Vec<String> {
    let program = schedule(&fuse(graph, options), options);
    let elements = |count: &Dim, length: i64| {
        let of = |name: Name| (name.clone(), if ["T", "S"].contains(&&*name) { length } else { 8 });
        let sizes: Bindings = count.dimensions().into_iter().map(of).collect();
        count.eval(&sizes).unwrap_or(0)
    };
    let grows = |buffer: &&Buffer| {
        let count = buffer.count();
        buffer.role == Role::Temporary && elements(&count, 2048) > 3 * elements(&count, 1024)
    };
    program.buffers.iter().filter(grows).map(|buffer| buffer.name.clone()).collect()
}

/// Of steps at any length: a window may be shorter than the table of positions, of which the rows beyond it have no gradient.
#[test]
fn a_step_of_training_stores_nothing_for_every_query_and_key() {
    let steps = models_under("examples/train").into_iter().filter(|example| example.model == "train");
    let steps: Vec<Example> = steps.collect();
    assert!(steps.iter().any(|example| example.name.contains("gpt")));
    // Not streamed yet: its loss leaves out tokens, and the choice of rows that count ends up inside of the gradient of the scores.
    let stores = ["adapters/train"];
    for example in steps {
        let options = Options {
            model: Some(example.model.clone()),
            set: settings(&example.file),
            ..Options::default()
        };
        let sources = example.sources().unwrap_or_else(|e| panic!("{e}"));
        let graph = lower(&sources, &options).unwrap_or_else(|e| panic!("{}: {e}", example.name)).graph;
        let found = growing_with_squares(&graph, &options);
        assert_eq!(stores.contains(&&*example.name), !found.is_empty(), "{}: {found:?}", example.name);
    }
}

#[test]
fn gradients_of_tables_by_distance_store_nothing_for_every_query_and_key() {
    let tables = [
        "by_bucket",
        "by_distance_of_either_sign",
        "by_learned_distance",
        "by_near_distance",
        "by_unsigned_distance",
    ];
    let cases = models_under("tests/cases/gradients").into_iter();
    let cases: Vec<Example> = cases.filter(|case| tables.contains(&&*case.model)).collect();
    assert_eq!(cases.len(), tables.len());
    for case in cases {
        let options = Options { model: Some(case.model.clone()), ..Options::default() };
        let graph = lower(&case.sources().unwrap(), &options).unwrap().graph;
        assert_eq!(growing_with_squares(&graph, &options), [""; 0], "{}", case.name);
    }
}

/// Programs whose gradients store something for every query and key. A line that is not needed any more fails.
const STORE_PAIRS: &[&str] = &[
    "dropped/reference",
    "forgetting/weights_renormalised",
    // What the shift joins and parts again is read at indices that are no distances.
    "relative_shift/on_the_key",
    "relative_shift/pad_and_reshape",
    "relative_shift/pad_and_reshape_by_concat",
    "relative_shift/reversed_shift",
    "side_outputs",
    "side_outputs/reference",
    "stick_breaking/factored",
    // What is mixed has one axis of queries and keys.
    "talking_heads/flattened",
    "weights_and_logsumexp",
];

/// How the names of spellings begin whose gradients are looked at beside those of the references: a loss is differentiated in one form for
/// all of them, or its adjoint is known in each.
const SPELLINGS: &[&str] = &[
    "sink/",
    "forgetting/",
    "stick_breaking/",
    "relative_shift/",
    "ones_column/con",
    "heads/loop",
    "talking_heads/",
];

#[test]
fn gradients_of_all_but_these_store_nothing_for_every_query_and_key() {
    let mut found: Vec<String> = Vec::new();
    for folder in ["tests/equivalence", "examples/variants"] {
        for example in models_under(folder) {
            let is_spelling = SPELLINGS.iter().any(|spelling| example.stem.starts_with(spelling));
            let is_one = folder.ends_with("variants") || is_spelling || example.stem.ends_with("/reference");
            if is_one && !squares(&example).unwrap_or_else(|e| panic!("{e}")).is_empty() {
                found.push(example.name.clone());
            }
        }
    }
    found.sort();
    assert_eq!(found, STORE_PAIRS);
}
