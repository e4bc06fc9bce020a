//! What `salient run` says: for people, and as JSON.

use salient::compare::{Deviation, ShapeMismatch, Tolerance};
use salient::{Arrays, Bindings, Engine};
use serde_json::{Value, json};
use std::fmt::Write;
use std::time::Duration;

/// An output that was compared.
#[derive(Debug)]
pub(crate) struct Checked {
    pub(crate) name: String,
    pub(crate) result: Result<Deviation, ShapeMismatch>,
}

impl Checked {
    fn agrees(&self) -> bool {
        self.result.as_ref().is_ok_and(Deviation::agrees)
    }

    /// What is wrong with it, in one sentence.
    pub(crate) fn complaint(&self) -> Option<String> {
        let name = &self.name;
        match &self.result {
            Err(mismatch) => Some(format!("output `{name}`: {mismatch}")),
            Ok(d) => d.worst.as_ref().map(|worst| {
                let (past, count) = (d.past, d.count);
                let (found, expected) = (worst.found, worst.expected);
                format!(
                    "output `{name}`: {past} of {count} elements deviate by more than is allowed; \
                     the worst is {found} at {:?}, expected {expected}",
                    worst.index
                )
            }),
        }
    }
}

/// Everything there is to say about a run.
pub(crate) struct Report<'a> {
    pub(crate) model: &'a str,
    pub(crate) engine: Engine,
    pub(crate) dimensions: &'a Bindings,
    pub(crate) outputs: &'a Arrays,
    /// Whether to show elements.
    pub(crate) excerpts: bool,
    pub(crate) checked: Option<&'a [Checked]>,
    pub(crate) tolerance: Tolerance,
    /// Working memory, where it is planned; shown with the times.
    pub(crate) working_bytes: Option<usize>,
    pub(crate) times: Option<&'a [(&'static str, Duration)]>,
    /// The optimiser's part of the time that compiling took, between 0 and 1; shown with the times.
    pub(crate) optimiser: f64,
}

impl Report<'_> {
    /// For people.
    pub(crate) fn text(&self, colour: bool) -> String {
        let mut out = format!("{} ({}", self.model, self.engine);
        for (name, value) in self.dimensions {
            write!(out, ", {name} = {value}").expect("a string grows");
        }
        out.push_str(")\n");
        for (name, array) in self.outputs.iter() {
            let text = array.to_string();
            // The first line is dtype and shape.
            let shown = if self.excerpts { text.trim_end() } else { text.lines().next().unwrap_or_default() };
            writeln!(out, "{name}: {shown}").expect("a string grows");
        }
        if let Some(checked) = self.checked {
            out.push_str(&self.check_text(checked, colour));
        }
        for (part, time) in self.times.into_iter().flatten() {
            writeln!(out, "{:>10.3} ms  {part}", time.as_secs_f64() * 1e3).expect("a string grows");
        }
        if self.times.is_some() {
            writeln!(out, "{:>10.0} %   of compiling is the optimiser", self.optimiser * 100.0)
                .expect("a string grows");
        }
        if let (Some(_), Some(bytes)) = (self.times, self.working_bytes) {
            writeln!(out, "{bytes:>10} bytes of working memory").expect("a string grows");
        }
        out
    }

    fn check_text(&self, checked: &[Checked], colour: bool) -> String {
        let Tolerance { rtol, atol } = self.tolerance;
        let mut out =
            format!("largest deviation by output (allowed: {atol:e} + {rtol:e} of the expected):\n");
        let paint = |good: bool, word: &str| match (colour, good) {
            (false, _) => word.to_owned(),
            (true, true) => format!("\x1b[32m{word}\x1b[0m"),
            (true, false) => format!("\x1b[1;31m{word}\x1b[0m"),
        };
        for c in checked {
            let verdict = paint(c.agrees(), if c.agrees() { "agrees" } else { "deviates" });
            let figures = match &c.result {
                Ok(d) => format!("{:.2e} absolute, {:.2e} relative", d.largest_abs, d.largest_rel),
                Err(mismatch) => mismatch.to_string(),
            };
            writeln!(out, "  {}: {figures}: {verdict}", c.name).expect("a string grows");
        }
        for name in self.outputs.names().filter(|n| !checked.iter().any(|c| c.name == *n)) {
            writeln!(out, "  {name}: nothing to compare with").expect("a string grows");
        }
        out
    }

    /// For programs. Infinite figures are strings, as JSON has no numbers for them.
    pub(crate) fn json(&self) -> Value {
        let outputs = self.outputs.iter().map(
            |(name, array)| json!({ "name": name, "dtype": array.dtype().name(), "shape": array.shape() }),
        );
        let dimensions = self.dimensions.iter().map(|(n, v)| (n.to_string(), json!(v)));
        let mut out = json!({
            "model": self.model,
            "engine": self.engine.name(),
            "dimensions": dimensions.collect::<serde_json::Map<_, _>>(),
            "outputs": outputs.collect::<Vec<_>>(),
        });
        if let Some(checked) = self.checked {
            out["agrees"] = json!(checked.iter().all(Checked::agrees));
            out["check"] = checked.iter().map(check_json).collect();
            out["rtol"] = json!(self.tolerance.rtol);
            out["atol"] = json!(self.tolerance.atol);
        }
        if let Some(bytes) = self.working_bytes {
            out["working_bytes"] = json!(bytes);
        }
        if let Some(times) = self.times {
            let ms = times.iter().map(|(part, t)| json!({ "part": part, "ms": t.as_secs_f64() * 1e3 }));
            out["time"] = ms.collect();
            out["optimiser_share"] = json!(self.optimiser);
        }
        out
    }
}

/// The reports of all runs, for programs: of a single one its own, with how often machine code was made.
pub(crate) fn all_json(mut runs: Vec<Value>) -> String {
    let mut out = if runs.len() == 1 { runs.remove(0) } else { json!({ "runs": runs }) };
    out["compilations"] = json!(salient::compilations());
    format!("{out:#}\n")
}

fn check_json(c: &Checked) -> Value {
    match &c.result {
        Ok(d) => json!({
            "name": c.name,
            "agrees": d.agrees(),
            "largest_abs": number(d.largest_abs),
            "largest_rel": number(d.largest_rel),
            "past": d.past,
            "count": d.count,
        }),
        Err(mismatch) => json!({ "name": c.name, "agrees": false, "problem": mismatch.to_string() }),
    }
}

fn number(x: f64) -> Value {
    if x.is_finite() { json!(x) } else { json!(x.to_string()) }
}
