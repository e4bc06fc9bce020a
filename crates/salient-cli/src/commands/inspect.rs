//! `salient inspect`: what a checkpoint holds.
//!
//! Reads headers only. Whether the tensors fit a model is found out by running it.

use crate::output::failure::Outcome;
use crate::output::terminal;
use salient::{Contents, Metadata, read_contents};
use serde_json::{Value, json};
use std::fmt::Write;
use std::path::PathBuf;

/// Arguments of `salient inspect`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// A .safetensors, .gguf, .npz or .npy file, or the .safetensors.index.json of a checkpoint in shards
    file: PathBuf,
    /// Only tensors whose name contains this
    #[arg(long, value_name = "TEXT", default_value = "")]
    only: String,
    /// Print as JSON
    #[arg(long)]
    json: bool,
}

/// Characters of a text of the metadata that are shown.
const SHOWN: usize = 60;

/// Lists the file.
pub(crate) fn run(args: &Args) -> Outcome {
    let mut contents = read_contents(&args.file)?;
    contents.entries.retain(|entry| entry.name.contains(&args.only));
    if args.json {
        return terminal::print(&format!("{:#}\n", in_json(&contents)));
    }
    terminal::print(&table(&contents))
}

fn table(contents: &Contents) -> String {
    let mut out = String::new();
    for (key, value) in &contents.metadata {
        let _ = writeln!(out, "{key} = {}", excerpt(value));
    }
    if !contents.metadata.is_empty() {
        out.push('\n');
    }
    let rows: Vec<[String; 4]> = contents
        .entries
        .iter()
        .map(|e| [e.name.clone(), e.storage.to_string(), format!("{:?}", e.shape), e.bytes.to_string()])
        .collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths = [0, 1, 2, 3].map(width);
    for [name, storage, shape, bytes] in &rows {
        let [n, t, s, b] = widths;
        let _ = writeln!(out, "{name:<n$}  {storage:<t$}  {shape:<s$}  {bytes:>b$}");
    }
    let tensors = if rows.len() == 1 { "tensor" } else { "tensors" };
    let _ = writeln!(out, "{} {tensors} of {}, {} bytes", rows.len(), contents.format, contents.bytes());
    out
}

/// A value in one short line.
fn excerpt(value: &Metadata) -> String {
    match value {
        Metadata::Unsigned(n) => n.to_string(),
        Metadata::Signed(n) => n.to_string(),
        Metadata::Float(x) => x.to_string(),
        Metadata::Bool(b) => b.to_string(),
        Metadata::Text(text) => {
            let short: String = text.chars().take(SHOWN).collect();
            let more = if short.len() < text.len() { "…" } else { "" };
            format!("{:?}{more}", short)
        }
        Metadata::Array(values) => {
            let first: Vec<String> = values.iter().take(3).map(excerpt).collect();
            let more = values.len().saturating_sub(first.len());
            let rest = if more > 0 { format!(", … {more} more") } else { String::new() };
            format!("[{}{rest}]", first.join(", "))
        }
    }
}

fn in_json(contents: &Contents) -> Value {
    let tensors = contents.entries.iter().map(
        |e| json!({ "name": e.name, "dtype": e.storage.to_string(), "shape": e.shape, "bytes": e.bytes }),
    );
    let metadata = contents.metadata.iter().map(|(key, value)| (key.clone(), value_in_json(value)));
    json!({
        "format": contents.format.name(),
        "bytes": contents.bytes(),
        "metadata": metadata.collect::<serde_json::Map<_, _>>(),
        "tensors": tensors.collect::<Vec<_>>(),
    })
}

/// The value as it is; a float that JSON has no number for is a text.
fn value_in_json(value: &Metadata) -> Value {
    match value {
        Metadata::Unsigned(n) => json!(n),
        Metadata::Signed(n) => json!(n),
        Metadata::Float(x) if x.is_finite() => json!(x),
        Metadata::Float(x) => json!(x.to_string()),
        Metadata::Bool(b) => json!(b),
        Metadata::Text(text) => json!(text),
        Metadata::Array(values) => values.iter().map(value_in_json).collect(),
    }
}
