//! Values inside of a model that a caller asks for by name: they become results too.

use super::super::{Eval, Lowerer, typing};
use crate::diag::{Diagnostic, did_you_mean, listed};
use crate::source::Span;
use crate::value::Tensor;
use salient_ir::{AxisId, AxisSet, Dim, Name};
use std::collections::BTreeMap;

/// A value inside of a model that is a result too, because it was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inner {
    /// What it and the result are called: the path under which parameters are declared where it is defined, and its name.
    /// Of several values of one name, those after the first and those that are not
    /// the result of that name have their number behind it, as `scores#2`.
    pub path: Name,
    /// The names of its axes, in order.
    pub axes: Vec<String>,
}

/// A value that a definition gave.
pub(in crate::lower) struct Defined {
    path: String,
    tensor: Tensor,
    span: Span,
}

impl Lowerer<'_, '_> {
    /// Takes note of a value that a definition gives, where values are asked for.
    pub(in crate::lower) fn note_defined(&mut self, name: &str, tensor: &Tensor, span: Span) {
        if self.settings.inner.is_empty() || self.trials > 0 || self.here().library {
            return;
        }
        let mut segments = self.here().path.clone();
        segments.push(name.to_owned());
        let path = segments.join(".");
        self.defined.push(Defined { path, tensor: tensor.clone(), span });
    }

    /// Makes the values that are asked for results.
    pub(super) fn inner_results(&mut self) -> Eval<()> {
        let mut count: BTreeMap<String, usize> = BTreeMap::new();
        let mut defined = std::mem::take(&mut self.defined);
        for value in &mut defined {
            let known = count.entry(value.path.clone()).or_default();
            *known += 1;
            let result = self.b.outputs().iter().find(|output| *output.name == *value.path);
            let is_result = result.is_some_and(|output| output.node == value.tensor.node);
            if !is_result && (*known > 1 || result.is_some()) {
                value.path = format!("{}#{known}", value.path);
            }
        }
        if let Some(unknown) =
            self.settings.inner.iter().find(|asked| !defined.iter().any(|value| is_meant(asked, &value.path)))
        {
            return Err(not_defined(unknown, &defined).into());
        }
        let asked = |path: &str| self.settings.inner.iter().any(|asked| is_meant(asked, path));
        for Defined { path, tensor, span } in defined.into_iter().filter(|value| asked(&value.path)) {
            let axes = self.axes_of(&tensor);
            let names = axes.iter().map(|axis| self.b.axis(*axis).name.to_string()).collect();
            // What is a result already is one by its own name.
            if self.b.outputs().iter().all(|output| *output.name != *path) {
                self.b.output(&path, &axes, tensor.node).map_err(typing(span))?;
            }
            self.inner.push(Inner { path: path.as_str().into(), axes: names });
        }
        Ok(())
    }

    /// The axes of a value in order: those that it has for each index around first.
    fn axes_of(&mut self, tensor: &Tensor) -> Vec<AxisId> {
        let mut axes: Vec<AxisId> = Vec::new();
        for slot in &tensor.pos {
            axes.push(slot.axis.unwrap_or_else(|| {
                let unit = self.b.axis_id("unit", &Dim::constant(1));
                let used: AxisSet = axes.iter().copied().collect();
                self.distinct(unit, &used)
            }));
        }
        let around = self.b.node(tensor.node).axes.iter().filter(|axis| !axes.contains(axis));
        around.collect::<Vec<_>>().into_iter().chain(axes.iter().copied()).collect()
    }
}

fn not_defined(name: &str, defined: &[Defined]) -> Diagnostic {
    let mut known: Vec<&str> = defined.iter().map(|value| value.path.as_str()).collect();
    known.dedup();
    let d = Diagnostic::placeless(format!("this model defines no value that is called `{name}`"));
    let ends = known.iter().filter_map(|path| path.rsplit('.').next());
    if let Some(near) = did_you_mean(name, known.iter().copied().chain(ends)) {
        return d.help(near);
    }
    if known.is_empty() {
        return d.help("`let` gives a value a name");
    }
    d.help(format!("it defines {}", listed(known)))
}

/// Whether a name or pattern means the value of this path: the whole of it, or its end from a dot on. A star stands for any letters.
fn is_meant(asked: &str, path: &str) -> bool {
    let ends = path.match_indices('.').map(|(at, _)| &path[at + 1..]);
    std::iter::once(path).chain(ends).any(|end| matches(asked, end))
}

fn matches(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((before, rest)) => text.strip_prefix(before).is_some_and(|text| {
            text.char_indices().map(|(at, _)| at).chain([text.len()]).any(|at| matches(rest, &text[at..]))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::is_meant;

    #[test]
    fn patterns_mean_paths_and_their_ends() {
        assert!(is_meant("weights", "weights"));
        assert!(is_meant("weights", "layers.0.weights"));
        assert!(is_meant("layers.*.weights", "layers.11.weights"));
        assert!(is_meant("*", "a.b"));
        assert!(!is_meant("weights", "layers.0.weights#2"));
        assert!(is_meant("weights*", "layers.0.weights#2"));
        assert!(!is_meant("eights", "weights"));
        assert!(!is_meant("layers.*.values", "layers.0.weights"));
    }
}
