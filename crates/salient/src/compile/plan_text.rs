//! Plans from their texts: the way of a plan that is not made from source.

use crate::compile::options::Options;
use crate::compile::pipeline::tiling;
use crate::report::error::Error;
use salient_front::{Diagnostic, Settings, Sources};
use salient_tile::plan::text::read::{PlanText, ReadPlan};

/// The plan that a text is, as [`Stage::Plan`](crate::Stage::Plan) prints it; tiles have the sizes that the options give.
///
/// # Errors
/// [`Error::Plan`] with the first line that is wrong: one that is none of a plan, an expression that the language does not
/// have, or a word that contradicts what the plan comes to.
pub fn read_plan(text: &str, options: &Options) -> Result<ReadPlan, Error> {
    let refused = |why: salient_tile::plan::text::read::ReadError| Error::Plan(why.to_string());
    let parsed = PlanText::parse(text).map_err(refused)?;
    let mut sources = Sources::new();
    sources.add("plan", parsed.program());
    let lowered = salient_front::compile(&sources, None, &Settings::default());
    let lowered = lowered.map_err(|faults| Error::Plan(first(&parsed, &sources, &faults)))?;
    parsed.read(&lowered.graph, tiling(options)).map_err(refused)
}

/// What the front end has against the expressions, at the line of the plan.
fn first(parsed: &PlanText, sources: &Sources, faults: &[Diagnostic]) -> String {
    let Some(fault) = faults.first() else { return "the plan has no meaning".to_owned() };
    let of_program = fault.primary.as_ref().map_or(1, |(span, _)| sources.position(*span).1);
    format!("line {} of the plan: {}", parsed.line_of(of_program), fault.message)
}
