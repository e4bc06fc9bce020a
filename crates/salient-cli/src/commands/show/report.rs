//! `salient report`: all that is shown of a model on one page of HTML.

use crate::commands::show::view::{row, viewed};
use crate::input::call::{CallArgs, Given};
use crate::input::options::{Compile, Machine};
use crate::input::program::read_sources;
use crate::output::failure::{Failure, Outcome};
use crate::output::terminal;
use salient::page::{Call, page};
use salient::view::Along;
use salient::{Bindings, Options, Sources, lower, nominal_sizes, replace_text};
use salient_draw::page::{Weights, html};
use std::path::PathBuf;

/// Arguments of `salient report`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The source file; `-` is standard input
    file: PathBuf,
    #[command(flatten)]
    compile: Compile,
    #[command(flatten)]
    call: CallArgs,
    /// Write the page to this file
    #[arg(short, long, value_name = "FILE", default_value = "report.html")]
    output: PathBuf,
    /// Write what the page shows as JSON too; docs/report.schema.json describes it
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    #[command(flatten)]
    machine: Machine,
}

/// Cells of all maps of weights together, at most: a byte each.
const MOST_CELLS: usize = 300_000;

/// Compiles the model, runs it, and writes the page.
pub(crate) fn run(args: &Args) -> Outcome {
    let options = args.compile.options_for(&args.machine)?;
    let sources = read_sources(&args.file)?;
    let graph = lower(&sources, &options)?.graph;
    let given = args.call.given_or_drawn(&graph, &nominal_sizes(&graph, &Bindings::new()))?;
    let call = Call {
        inputs: &given.arrays.inputs,
        weights: given.weights(),
        data: args.call.words(),
        maps: maps(&sources, &options, &given)?,
    };
    let page = page(&sources, &options, &call)?;
    replace_text(&args.output, &html(&page))?;
    if let Some(path) = &args.json {
        let json = serde_json::to_string_pretty(&page).map_err(|e| Failure::call(e.to_string()))?;
        replace_text(path, &(json + "\n"))?;
    }
    terminal::note(&format!("{} is written\n", args.output.display()));
    Ok(())
}

/// The weights of every attention and head, in as many cells as a page has room for.
fn maps(sources: &Sources, options: &Options, given: &Given) -> Outcome<Vec<Weights>> {
    let (_, viewed) = match viewed(sources, options, given) {
        Ok(viewed) => viewed,
        Err(why) => {
            terminal::note(&format!("note: the page shows no weights: {}\n", why.text()));
            return Ok(Vec::new());
        }
    };
    let results = viewed.model.session(&given.arrays.inputs, given.weights())?.call(&given.arrays.inputs)?;
    let rows: Vec<_> = viewed.maps.iter().map(|map| (map, row(map, &results))).collect();
    let count: usize = rows.iter().map(|(_, row)| row.maps.len()).sum();
    let side = (MOST_CELLS / count.max(1)).isqrt().clamp(1, 256);
    let tokens = given.tokens.clone().unwrap_or_default();
    let labels = |along: Along, tile: usize| {
        if tile == 1 && tokens.len() == along.positions { tokens.clone() } else { Vec::new() }
    };
    let mut out = Vec::new();
    for (of, row) in rows {
        for map in row.maps {
            let shape = (map.rows.div_ceil(side), map.columns.div_ceil(side));
            let (queries, keys) = (of.queries.tile * shape.0, of.keys.tile * shape.1);
            out.push(Weights {
                row_labels: labels(of.queries, queries),
                column_labels: labels(of.keys, keys),
                ..Weights::new(of.name.clone(), &map, shape, (queries, keys))
            });
        }
    }
    Ok(out)
}
