//! The expressions of a plan as a flat program of the language: each value a `let`, under a name that nothing else has.

use super::lines::{Document, Value};
use super::{ReadError, error};
use crate::plan::text::words::{Word, words};
use std::collections::BTreeMap;
use std::fmt::Write;

/// The program, and where its results come from.
#[derive(Clone, Debug, Default)]
pub(super) struct Translation {
    pub(super) program: String,
    /// For each line of the program that of the plan.
    pub(super) lines: Vec<usize>,
    /// For each kernel the position of its value among the results; none for an operand that is a value already.
    pub(super) kernels: Vec<Option<usize>>,
    /// The same for the parts of its expression.
    pub(super) parts: Vec<Vec<usize>>,
    /// How many results there are.
    results: usize,
}

/// What a name stands for.
#[derive(Clone)]
struct Known {
    /// The name in the program.
    name: String,
    /// Whether brackets stand behind it.
    has_axes: bool,
    /// Whether it is stored, and not only an operand in a form of its own.
    is_stored: bool,
}

type Scope = BTreeMap<String, Known>;

/// The program of a plan.
pub(super) fn translate(document: &Document) -> Result<Translation, ReadError> {
    let mut out = Translation::default();
    let mut scope = Scope::new();
    let stored = |name: String, ty: &str| Known { name, has_axes: !ty.ends_with("[]"), is_stored: true };
    let states = document.states.iter().map(|port| (&port.name, &port.ty));
    let mut inputs = Vec::new();
    for (at, (name, ty)) in document.inputs.iter().map(|(n, t)| (n, t)).chain(states).enumerate() {
        scope.insert(name.clone(), stored(format!("in_{at}"), ty));
        inputs.push(format!("in_{at}: {ty}"));
    }
    out.line(1, &format!("model {}({}) {{", document.name, inputs.join(", ")));
    for (at, port) in document.params.iter().enumerate() {
        scope.insert(port.name.clone(), stored(format!("param_{at}"), &port.ty));
        out.line(port.line, &format!("    param param_{at}: {} as {}", port.ty, port.path));
    }
    for (line, relation) in &document.requirements {
        out.line(*line, &format!("    require {relation}"));
    }
    for kernel in &document.kernels {
        // The parts of an expression go by their names in it alone.
        let mut own = Scope::new();
        let mut parts = Vec::new();
        for part in &kernel.parts {
            let known = out.value(part, [&own, &scope], false);
            own.insert(part.name.clone(), known);
            parts.push(out.results - 1);
        }
        out.parts.push(parts);
        let (value, is_operand) = (&kernel.value, kernel.form.is_some());
        let before = scope.get(&value.name);
        if is_operand && before.is_some() {
            out.kernels.push(None);
            continue;
        }
        if before.is_some_and(|known| known.is_stored) {
            return error(value.line, format!("`{}` is stored twice", value.name));
        }
        let known = out.value(value, [&own, &scope], !is_operand);
        scope.insert(value.name.clone(), known);
        out.kernels.push(Some(out.results - 1));
    }
    if out.results == 0 {
        return error(1, "the plan has no kernels");
    }
    let all: Vec<String> = (0..out.results).map(|at| format!("value_{at}")).collect();
    out.line(1, &format!("    return {}", all.join(", ")));
    out.line(1, "}");
    Ok(out)
}

impl Translation {
    fn line(&mut self, line: usize, text: &str) {
        let _ = writeln!(self.program, "{text}");
        self.lines.push(line);
    }

    /// Adds a value as a result.
    fn value(&mut self, value: &Value, scopes: [&Scope; 2], is_stored: bool) -> Known {
        let name = format!("value_{}", self.results);
        self.results += 1;
        let text = in_program(&value.text, scopes);
        self.line(value.line, &format!("    let {name}{} = {text}", in_program(&value.axes, scopes)));
        Known { name, has_axes: !value.axes.is_empty(), is_stored }
    }
}

/// An expression with the names of the program, and without forms.
fn in_program(text: &str, scopes: [&Scope; 2]) -> String {
    let words = words(text);
    let mut out = String::with_capacity(text.len());
    for (at, word) in words.iter().enumerate() {
        match word {
            Word::Other(other) => out.push_str(other),
            Word::Name { name, .. } => {
                let is_indexed =
                    matches!(words.get(at + 1), Some(Word::Other(next)) if next.starts_with('['));
                let known = scopes.iter().find_map(|scope| scope.get(*name));
                let known = known.filter(|known| known.has_axes == is_indexed);
                out.push_str(known.map_or(name, |known| &known.name));
            }
        }
    }
    out
}
