//! Prices of plans: the plan that is compiled is never dearer than that of the program as written.

use salient::{Form, Options, TIE, Verdict, lower, verdict};
use salient_tests::examples::{Example, models_under, settings};
use salient_tests::sweep;

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

/// A program whose fused plan was measured to take several times as long as the program as written.
const DEARER_FUSED: [&str; 1] = ["talking_heads/one_sum_before"];

#[test]
fn products_in_scalar_rows_are_dearer_than_matrix_products() {
    let equivalence = models_under("tests/equivalence");
    for stem in DEARER_FUSED {
        let program = equivalence.iter().find(|program| program.stem == stem).expect(stem);
        let found = prices_of(program, Vec::new()).unwrap().expect("it is a program");
        let (fused, written) = (price(&found, Form::Fused).unwrap(), price(&found, Form::AsWritten).unwrap());
        assert!(fused > 1.3 * written, "{stem}: fused {fused} s, as written {written} s");
        assert_ne!(found.taken, Form::Fused, "{stem}");
    }
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
