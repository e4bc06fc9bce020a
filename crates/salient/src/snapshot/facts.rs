//! The facts of a snapshot as values, and as the block of TOML at the head of its text.
//!
//! What is equal in layers that follow each other is one row: `at = "h.{0 .. 12}"`.

use salient_tile::plan::text::facts::Layer;
use std::fmt;
use toml::de::{DeTable, DeValue};

/// The version of the block. One that is not known is no snapshot that can be compared.
pub const VERSION: i64 = 1;

/// What is compared of the models of a file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    /// In the order of the file.
    pub models: Vec<ModelFacts>,
}

/// What is compared of a model.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModelFacts {
    /// Its name.
    pub name: String,
    /// What the call set, as flags.
    pub settings: String,
    /// The sizes that price and memory are at.
    pub sizes: String,
    /// Which form of the plan is compiled.
    pub plan: String,
    /// Microseconds of a call on a usual core, to four digits; zero where it has no price.
    pub price_us: f64,
    /// Bytes that a call on one thread works in at those sizes.
    pub memory_bytes: i64,
    /// Kernels of a call.
    pub kernels: i64,
    /// The formula of the memory, line by line.
    pub memory: Vec<String>,
    /// What is found in the plan.
    pub findings: Vec<Finding>,
}

/// What a finding is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// An attention is one kernel.
    Attention,
    /// An array with an element for every pair of positions is stored.
    Array,
    /// A kernel computes scores again.
    Again,
    /// A sum of weighted values stays apart from its weights.
    Apart,
}

impl Kind {
    /// All, in the order in which they are written.
    pub const ALL: [Kind; 4] = [Kind::Attention, Kind::Array, Kind::Again, Kind::Apart];

    /// The key of its rows.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Attention => "attentions",
            Kind::Array => "arrays",
            Kind::Again => "again",
            Kind::Apart => "apart",
        }
    }

    /// The keys of what is said of such a finding, beside its place and its name.
    pub fn fields(self) -> &'static [&'static str] {
        match self {
            Kind::Attention => &["keys", "skips", "scores", "rules"],
            Kind::Array => &["elements", "counts_as", "because"],
            Kind::Again => &["along", "because"],
            Kind::Apart => &["because"],
        }
    }
}

/// What an array counts as that the model returns, keeps, or has made so by what it returns.
pub(crate) const ASKED_FOR: &str = "asked for";
/// What an array counts as that fused attention does not store.
pub(crate) const UNFUSED: &str = "unfused";
/// What any other array counts as that grows faster than a dimension.
pub(crate) const LARGE: &str = "large";

/// Something in a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What it is about.
    pub kind: Kind,
    /// The layer that it is in, if it is in one.
    pub layer: Option<Layer>,
    /// The source's name for the value.
    pub name: String,
    /// What is said of it, by the fields of its kind.
    pub says: Vec<String>,
}

impl Finding {
    /// What a field of its kind says; nothing for a field of another kind.
    pub fn get(&self, field: &str) -> &str {
        let at = self.kind.fields().iter().position(|known| *known == field);
        at.and_then(|at| self.says.get(at)).map_or("", String::as_str)
    }
}

/// Layers that follow each other, `h.3` or `h.{0 .. 12}`; nothing where there is none.
pub(crate) fn layers(first: Option<&Layer>, count: usize) -> String {
    match first {
        None => String::new(),
        Some(Layer { stem, number }) if count == 1 => format!("{stem}{number}"),
        Some(Layer { stem, number }) => format!("{stem}{{{number} .. {}}}", number + count),
    }
}

/// Findings that are equal but for their layer, each of these one after the other: positions.
pub(crate) fn groups(findings: &[&Finding]) -> Vec<Vec<usize>> {
    let mut out: Vec<Vec<usize>> = Vec::new();
    for (at, finding) in findings.iter().enumerate() {
        let follows = |group: &&mut Vec<usize>| {
            let last = findings[*group.last().expect("a group has one")];
            let is_next = match (&last.layer, &finding.layer) {
                (Some(a), Some(b)) => a.stem == b.stem && a.number + 1 == b.number,
                (Some(_), None) | (None, Some(_)) | (None, None) => false,
            };
            is_next && (last.kind, &last.name, &last.says) == (finding.kind, &finding.name, &finding.says)
        };
        match out.iter_mut().find(follows) {
            Some(group) => group.push(at),
            None => out.push(vec![at]),
        }
    }
    out
}

/// A text as a string of TOML.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            c if c.is_control() => out.push_str(&format!("\\u{:04X}", u32::from(c))),
            c => out.push(c),
        }
    }
    out + "\""
}

impl fmt::Display for Facts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "snapshot = {VERSION}")?;
        self.models.iter().try_for_each(|model| write!(f, "\n{model}"))
    }
}

impl fmt::Display for ModelFacts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "[[models]]\nname = {}", quoted(&self.name))?;
        for (key, text) in [("settings", &self.settings), ("sizes", &self.sizes), ("plan", &self.plan)] {
            writeln!(f, "{key} = {}", quoted(text))?;
        }
        writeln!(f, "price_us = {:?}\nmemory_bytes = {}", self.price_us, self.memory_bytes)?;
        writeln!(f, "kernels = {}\nmemory = [", self.kernels)?;
        self.memory.iter().try_for_each(|line| writeln!(f, "    {},", quoted(line)))?;
        writeln!(f, "]")?;
        for kind in Kind::ALL {
            let of_kind: Vec<&Finding> = self.findings.iter().filter(|found| found.kind == kind).collect();
            writeln!(f, "{} = [", kind.name())?;
            for group in groups(&of_kind) {
                let first = of_kind[group[0]];
                let at = quoted(&layers(first.layer.as_ref(), group.len()));
                write!(f, "    {{ at = {at}, name = {}", quoted(&first.name))?;
                for (field, text) in kind.fields().iter().zip(&first.says) {
                    write!(f, ", {field} = {}", quoted(text))?;
                }
                writeln!(f, " }},")?;
            }
            writeln!(f, "]")?;
        }
        Ok(())
    }
}

impl Facts {
    /// Reads the block at the head of a text.
    ///
    /// # Errors
    /// What is wrong with it, in a sentence.
    pub fn parse(text: &str) -> Result<Facts, String> {
        let head = text.split(super::END_OF_FACTS).next().unwrap_or_default();
        let table = DeTable::parse(head).map_err(|e| e.message().to_owned())?;
        let table = table.get_ref();
        match number(table, "snapshot") {
            Some(version) if version == VERSION as f64 => {}
            Some(version) => return Err(format!("it has version {version}, and this is version {VERSION}")),
            None => return Err("it does not say its version".to_owned()),
        }
        let rows = rows(table, "models").unwrap_or_default();
        let models =
            rows.into_iter().map(|row| model(row).ok_or("a model lacks a key, or has one of another type"));
        Ok(Facts { models: models.collect::<Result<_, _>>()? })
    }
}

fn string(table: &DeTable<'_>, key: &str) -> Option<String> {
    table.get(key)?.get_ref().as_str().map(str::to_owned)
}

fn number(table: &DeTable<'_>, key: &str) -> Option<f64> {
    let value = table.get(key)?.get_ref();
    let text = value.as_float().map(|x| x.as_str()).or_else(|| value.as_integer().map(|n| n.as_str()))?;
    text.replace('_', "").parse().ok()
}

fn integer(table: &DeTable<'_>, key: &str) -> Option<i64> {
    table.get(key)?.get_ref().as_integer()?.as_str().replace('_', "").parse().ok()
}

fn rows<'t, 'i>(table: &'t DeTable<'i>, key: &str) -> Option<Vec<&'t DeTable<'i>>> {
    table.get(key)?.get_ref().as_array()?.iter().map(|row| row.get_ref().as_table()).collect()
}

fn model(table: &DeTable<'_>) -> Option<ModelFacts> {
    let lines = table.get("memory")?.get_ref().as_array()?.iter();
    let memory: Option<Vec<String>> =
        lines.map(|line| DeValue::as_str(line.get_ref()).map(str::to_owned)).collect();
    let mut findings = Vec::new();
    for kind in Kind::ALL {
        for row in rows(table, kind.name())? {
            let says: Option<Vec<String>> = kind.fields().iter().map(|field| string(row, field)).collect();
            let (name, says) = (string(row, "name")?, says?);
            let finding = |layer| Finding { kind, layer, name: name.clone(), says: says.clone() };
            findings.extend(layers_of(&string(row, "at")?)?.into_iter().map(finding));
        }
    }
    Some(ModelFacts {
        name: string(table, "name")?,
        settings: string(table, "settings")?,
        sizes: string(table, "sizes")?,
        plan: string(table, "plan")?,
        price_us: number(table, "price_us")?,
        memory_bytes: integer(table, "memory_bytes")?,
        kernels: integer(table, "kernels")?,
        memory: memory?,
        findings,
    })
}

/// The most layers that a row may stand for: a row is a few words, what it stands for is held in memory.
const MOST_LAYERS: usize = 10_000;

/// What [`layers`] has written, each layer by itself.
fn layers_of(at: &str) -> Option<Vec<Option<Layer>>> {
    if at.is_empty() {
        return Some(vec![None]);
    }
    let layer = |stem: &str, number: usize| Some(Layer { stem: stem.to_owned(), number });
    if let Some((stem, range)) = at.split_once('{') {
        let (first, end) = range.strip_suffix('}')?.split_once(" .. ")?;
        let (first, end): (usize, usize) = (first.parse().ok()?, end.parse().ok()?);
        let is_range = first < end && end - first <= MOST_LAYERS;
        return is_range.then(|| (first..end).map(|number| layer(stem, number)).collect());
    }
    let digits = at.rfind(|c: char| !c.is_ascii_digit()).map_or(0, |before| before + 1);
    Some(vec![layer(&at[..digits], at[digits..].parse().ok()?)])
}
