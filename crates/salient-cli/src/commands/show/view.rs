//! `salient view`: the weights of a model's attentions as heat maps.
//!
//! Which attentions there are and how their weights go into tiles is the library's; how maps are drawn, that of `salient_draw`.

use crate::input::call::{CallArgs, Given};
use crate::input::checkpoint::lines;
use crate::input::options::{Compile, Machine};
use crate::input::program::read_sources;
use crate::output::failure::{Failure, Outcome};
use crate::output::picture::picture;
use crate::output::terminal;
use salient::view::{Viewed, WeightMap, settings, with_weights};
use salient::{Arrays, Bindings, Model, Options, Sources, lower, replace_text};
use salient_draw::heat::{self, Grid, Map, Row};
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Arguments of `salient view`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The source file; `-` is standard input
    file: PathBuf,
    #[command(flatten)]
    compile: Compile,
    #[command(flatten)]
    call: CallArgs,
    /// Show this value instead of the attentions that are found: a name that a `let` defines, whose last two axes are queries and keys; `*` stands for any letters; may be given several times
    #[arg(long, value_name = "NODE")]
    node: Vec<String>,
    /// Words for the queries, and for as many keys, parted by commas; or a file with one a line
    #[arg(long, value_name = "WORDS|FILE", conflicts_with = "text")]
    labels: Option<String>,
    /// Words for the keys, where they are others than those for the queries
    #[arg(long, value_name = "WORDS|FILE")]
    key_labels: Option<String>,
    /// Write the picture to a .svg or .png file, or to a directory a .svg file for each attention; if not given, it is shown in the terminal
    #[arg(short, long, value_name = "FILE|DIR")]
    output: Option<PathBuf>,
    /// Show the maps in the terminal though they are written to a file
    #[arg(long)]
    terminal: bool,
    /// Show on standard error how long the model takes with its weights and without, and in how much working memory
    #[arg(long)]
    time: bool,
    #[command(flatten)]
    machine: Machine,
}

/// Columns of a map in a terminal, at most.
const TERMINAL: usize = 64;

/// Attentions of one head in a row, at most.
const SIDE_BY_SIDE: usize = 4;

/// Maps in one picture, at most.
const MOST_MAPS: usize = 1024;

/// Runs the model with weights beside its results, and draws them.
pub(crate) fn run(args: &Args) -> Outcome {
    let options = Options { inner: args.node.clone(), ..args.compile.options_for(&args.machine)? };
    let sources = read_sources(&args.file)?;
    let given = args.call.given(&lower(&sources, &options)?.graph, &Bindings::new())?;
    let (fixed, viewed) = viewed(&sources, &options, &given)?;
    if args.time {
        let plain = Model::from_sources(&sources, &Options { inner: Vec::new(), ..fixed })?;
        terminal::note(&timed([("without weights", &plain), ("with weights", &viewed.model)], &given)?);
    }
    let results = viewed.model.session(&given.arrays.inputs, given.weights())?.call(&given.arrays.inputs)?;
    let grids = grids(args, &viewed, &results, given.tokens)?;
    write(args, &grids)
}

/// The model with its weights as results, at the sizes of a call; and the options with these sizes.
pub(crate) fn viewed(sources: &Sources, options: &Options, given: &Given) -> Outcome<(Options, Viewed)> {
    let graph = lower(sources, options)?.graph;
    let inputs = &given.arrays.inputs;
    let sizes = Model::from_graph(graph, options)?.session(inputs, given.weights())?.dimensions().clone();
    let mut fixed = options.clone();
    let known: Vec<String> = options.set.iter().map(|(name, _)| name.clone()).collect();
    let lowered = lower(sources, options)?;
    fixed.set.extend(settings(&lowered.graph, &sizes).into_iter().filter(|(name, _)| !known.contains(name)));
    let lowered = lower(sources, &fixed)?;
    let viewed = with_weights(&lowered.graph, &lowered.inner, &fixed, &sizes)?;
    Ok((fixed, viewed))
}

/// Runs that the least time is taken of.
const TIMED: usize = 5;

/// The least times of a few runs of both models, which take turns, and their working memory; a line for each.
fn timed(models: [(&str, &Model); 2], given: &Given) -> Outcome<String> {
    let inputs = &given.arrays.inputs;
    let mut sessions = Vec::new();
    for (what, model) in models {
        let session = model.session(inputs, given.weights())?;
        let outputs = session.outputs()?;
        sessions.push((what, session, outputs, Duration::MAX));
    }
    for _ in 0..TIMED {
        for (_, session, outputs, least) in &mut sessions {
            let before = Instant::now();
            session.run(inputs, outputs)?;
            *least = before.elapsed().min(*least);
        }
    }
    let line = |(what, session, _, least): &(&str, salient::Session<'_>, _, Duration)| {
        let (ms, bytes) = (least.as_secs_f64() * 1e3, session.working_bytes().unwrap_or(0));
        format!("{what:<16} {ms:>10.3} ms, {bytes} bytes of working memory\n")
    };
    Ok(sessions.iter().map(line).collect())
}

/// A grid for each attention, or one for all where they go into one picture.
fn grids(args: &Args, viewed: &Viewed, results: &Arrays, tokens: Option<Vec<String>>) -> Outcome<Vec<Grid>> {
    let rows: Vec<Row> = viewed.maps.iter().map(|map| row(map, results)).collect();
    let count: usize = rows.iter().map(|row| row.maps.len()).sum();
    if count > MOST_MAPS {
        return Err(Failure::call(format!(
            "there are {count} maps, and a picture has {MOST_MAPS} at most: name some with --node, or give fewer sequences"
        )));
    }
    let labels = args.labels.as_deref().map(words).transpose()?.or(tokens).unwrap_or_default();
    let of_keys = args.key_labels.as_deref().map(words).transpose()?;
    let first = viewed.maps.first().expect("something is shown");
    let of_keys = of_keys.unwrap_or_else(|| {
        if first.keys.positions == first.queries.positions { labels.clone() } else { Vec::new() }
    });
    check_labels(&viewed.maps, &labels, &of_keys)?;
    let what = if args.node.is_empty() { "attention weights" } else { "values by query and key" };
    let grid = |rows: Vec<Row>, of: &WeightMap| Grid {
        title: format!("{}: {what}", viewed.model.graph().name()),
        note: note(of),
        rows: side_by_side(rows),
        row_labels: if of.queries.tile == 1 { labels.clone() } else { Vec::new() },
        column_labels: if of.keys.tile == 1 { of_keys.clone() } else { Vec::new() },
    };
    Ok(if args.output.as_deref().is_some_and(is_directory) {
        rows.into_iter().zip(&viewed.maps).map(|(row, map)| grid(vec![row], map)).collect()
    } else {
        vec![grid(rows, first)]
    })
}

pub(crate) fn row(map: &WeightMap, results: &Arrays) -> Row {
    let heads = map.heads(results);
    let is_alone = heads.len() == 1;
    let maps = heads.into_iter().map(|head| {
        let position: Vec<String> =
            head.position.iter().skip_while(|at| is_alone && **at == 0).map(usize::to_string).collect();
        let name = if position.is_empty() { String::new() } else { format!("[{}]", position.join(", ")) };
        Map { name, rows: map.queries.tiles(), columns: map.keys.tiles(), values: head.weights }
    });
    Row { name: map.name.clone(), maps: maps.collect() }
}

/// Attentions of one head each stand side by side.
fn side_by_side(rows: Vec<Row>) -> Vec<Row> {
    if rows.len() < 2 || rows.iter().any(|row| row.maps.len() != 1) {
        return rows;
    }
    let named = rows
        .into_iter()
        .flat_map(|row| row.maps.into_iter().map(move |map| Map { name: row.name.clone(), ..map }));
    let maps: Vec<Map> = named.collect();
    maps.chunks(SIDE_BY_SIDE).map(|maps| Row { name: String::new(), maps: maps.to_vec() }).collect()
}

/// What a cell is.
fn note(map: &WeightMap) -> String {
    let note = format!("{} queries (rows) by {} keys (columns)", map.queries.positions, map.keys.positions);
    match (map.queries.tile, map.keys.tile) {
        (1, 1) => note,
        (q, k) => format!("{note}; a cell is the mean over {q} queries of the sum over {k} keys"),
    }
}

/// The words of a flag, or the lines of a file that it names.
fn words(given: &str) -> Outcome<Vec<String>> {
    if Path::new(given).is_file() {
        return lines(Path::new(given));
    }
    Ok(given.split(',').map(|word| word.trim().to_owned()).collect())
}

/// Labels are as many as there are queries, or keys.
fn check_labels(maps: &[WeightMap], of_queries: &[String], of_keys: &[String]) -> Outcome {
    for map in maps {
        for (what, labels, positions) in
            [("queries", of_queries, map.queries.positions), ("keys", of_keys, map.keys.positions)]
        {
            if !labels.is_empty() && labels.len() != positions {
                let (name, count) = (&map.name, labels.len());
                return Err(Failure::call(format!(
                    "{name}: there are {count} labels for {positions} {what}"
                )));
            }
        }
    }
    Ok(())
}

/// What has none of the endings of a picture is a directory.
fn is_directory(path: &Path) -> bool {
    path.extension().is_none_or(|ending| ending != "svg" && ending != "png")
}

fn write(args: &Args, grids: &[Grid]) -> Outcome {
    if let Some(path) = &args.output {
        if is_directory(path) {
            let fail = |e: std::io::Error| Failure::call(format!("{}: cannot be made: {e}", path.display()));
            std::fs::create_dir_all(path).map_err(fail)?;
            for (at, grid) in grids.iter().enumerate() {
                let name = grid.rows.first().map_or("weights", |row| row.name.as_str());
                let safe: String =
                    name.chars().map(|c| if c.is_alphanumeric() || c == '.' { c } else { '_' }).collect();
                let file = path.join(format!("{at:02}-{safe}.svg"));
                replace_text(&file, &heat::svg(grid))?;
            }
        } else {
            picture(path, grids.first().expect("a picture"))?;
        }
    }
    if args.output.is_none() || args.terminal {
        if !terminal::stdout_colour() && !std::io::stdout().is_terminal() && !args.terminal {
            return Err(Failure::call(
                "standard output is no terminal: write a file with -o, or say --terminal",
            ));
        }
        for grid in grids {
            terminal::print(&heat::terminal(grid, TERMINAL))?;
        }
    }
    Ok(())
}
