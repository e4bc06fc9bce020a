//! Prices of plans: the plan that is compiled is never dearer than that of the program as written.

use salient::{Form, Options, Reason, Sources, TIE, Verdict, lower, verdict};
use salient_tests::examples::{Example, models_under, settings};
use salient_tests::sweep;
use std::sync::Mutex;

/// Every program of the project.
fn programs() -> Vec<Example> {
    ["examples", "tests/cases", "tests/equivalence"].into_iter().flat_map(models_under).collect()
}

/// The prices of the plans of a program; `None` if it is refused.
fn prices_of(program: &Example, set: Vec<(String, String)>) -> Result<Option<Verdict>, String> {
    let options = Options { set, ..program.options() };
    let lowered = lower(&program.sources()?, &options);
    Ok(lowered.ok().map(|lowered| verdict(&lowered.graph, &options)))
}

/// Seconds of a form.
fn price(of: &Verdict, form: Form) -> Result<f64, String> {
    of.price(form).ok_or_else(|| format!("the plan {} has no price at {:?}", form.name(), of.sizes))
}

#[test]
fn no_plan_is_dearer_than_that_of_the_program_as_written() {
    sweep::each_of(
        &programs(),
        |program| &program.file,
        |program| {
            let Some(found) = prices_of(program, settings(&program.file))? else { return Ok(()) };
            let (taken, written) = (price(&found, found.taken)?, price(&found, Form::AsWritten)?);
            if taken > TIE * written {
                return Err(format!("{taken} s, as written {written} s"));
            }
            let floor = found.floor.ok_or("as written it has no floor")?;
            if floor > written {
                return Err(format!("as written {written} s, which is below its floor of {floor} s"));
            }
            Ok(())
        },
    );
}

/// As one that makes the same scores again for every column of the values.
#[test]
fn a_fused_plan_that_is_much_dearer_is_not_taken() {
    let programs: Vec<Example> =
        ["tests/equivalence", "tests/unfusable"].into_iter().flat_map(models_under).collect();
    let dearer = Mutex::new(Vec::new());
    sweep::each_of(
        &programs,
        |program| &program.file,
        |program| {
            let Some(found) = prices_of(program, Vec::new())? else { return Ok(()) };
            let (fused, written) = (price(&found, Form::Fused)?, price(&found, Form::AsWritten)?);
            if fused > 1.3 * written {
                dearer.lock().expect("no check holds it").push(program.stem.clone());
                if found.taken == Form::Fused {
                    return Err(format!("fused {fused} s, as written {written} s, and fused is taken"));
                }
            }
            Ok(())
        },
    );
    let dearer = dearer.into_inner().expect("no check holds it");
    assert!(!dearer.is_empty(), "no program tells whether dearer plans are refused");
}

#[test]
fn the_fused_plan_is_taken_where_it_is_the_cheapest() {
    for stem in ["causal/reference", "plain/reference", "grouped/reference", "rms_norm/reference"] {
        let equivalence = models_under("tests/equivalence");
        let program = equivalence.iter().find(|program| program.stem == stem).expect(stem);
        let found = prices_of(program, Vec::new()).unwrap().expect("it is a program");
        assert_eq!(found.taken, Form::Fused, "{stem}: {:?}", found.prices);
    }
}

/// The verdict on the text of a program.
fn verdict_on(text: &str) -> Verdict {
    let mut sources = Sources::new();
    sources.add("source", text);
    verdict(&lower(&sources, &Options::default()).unwrap().graph, &Options::default())
}

/// The fused plan reads the values for each head; joined, they are packed and multiplied with the weights of all heads.
#[test]
fn a_plan_of_joined_operators_that_costs_much_less_and_stores_no_more_is_taken() {
    let found = verdict_on(
        "model m(x: f32[4, S, 64], v: f32[S, 128]) -> (y: f32[4, 128]) {
             let s[h, j] = sum[e](x[h, j, e] * x[h, j, e])
             let mean[h] = sum[j](s[h, j]) / S
             let w = softmax(if mean[:, _] < s then s else -1000000000.0)
             let y[h, f] = sum[j]((if 0.05 < w[h, j] then w[h, j] else 0) * v[j, f])
             return y
         }",
    );
    let [fused, joined] = [Form::Fused, Form::Joined].map(|form| price(&found, form).unwrap());
    assert!(fused > 1.3 * joined, "{:?}", found.prices);
    assert_eq!((found.taken, found.reason), (Form::Joined, Reason::MuchLess));
}

/// Each plan has its own copy of what it makes of parameters.
#[test]
fn what_has_few_parameters_and_no_states_has_two_plans() {
    let difference = "softmax(q @ k.T) - 0.5 * softmax(p @ c.T)";
    let model = |inside: &str, v: &str, width: usize| {
        format!(
            "model m(q: f32[T, E], p: f32[T, E], k: f32[S, E], c: f32[S, E]{v}) -> (y: f32[T, {width}]) {{ {inside} return ({difference}) @ v }}"
        )
    };
    for small in [model("", ", v: f32[S, 64]", 64), model("param v: f32[S, 64] = zeros ", "", 64)] {
        let small = verdict_on(&small);
        assert_eq!(small.taken, Form::OneSum);
        assert_eq!(small.alternative.expect("another one for few rows").form, Form::Fused);
    }
    let large = verdict_on(&model("param v: f32[S, 4096] = zeros ", "", 4096));
    assert_ne!(large.taken, Form::OneSum, "which only models have that may have two");
    assert_eq!(large.alternative, None);
}
