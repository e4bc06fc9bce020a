//! Which model of a file a command is about, where none is named: the only one whose signature it can use.
//!
//! What a signature has to be is the business of those who use it.

use crate::output::failure::{Failure, Outcome};
use salient::{Graph, Options, Sources, listed, lower, models};

/// The options with a model chosen, if none is and the file has several of which one alone fits.
///
/// # Errors
/// Several fit: they are listed. Where none does, nothing is chosen, and compiling says what there is.
pub(crate) fn chosen(sources: &Sources, options: Options, fits: &dyn Fn(&Graph) -> bool) -> Outcome<Options> {
    if options.model.is_some() {
        return Ok(options);
    }
    let named = |name: &String| Options { model: Some(name.clone()), ..options.clone() };
    let mut names = models(sources)?;
    // A file with one model may import others.
    if names.len() < 2 || lower(sources, &options).is_ok() {
        return Ok(options);
    }
    names.retain(|name| lower(sources, &named(name)).is_ok_and(|lowered| fits(&lowered.graph)));
    match names.as_slice() {
        [] => Ok(options),
        [one] => Ok(named(one)),
        _ => Err(Failure::call(format!(
            "several models of the file fit: {}; say which one with --model NAME",
            listed(names.iter().map(String::as_str))
        ))),
    }
}
