//! A model's times over the lengths of a dimension: a table and a picture.

use super::{Args, Contestant, millis, with_contestants};
use crate::output::failure::{Failure, Outcome};
use crate::output::profile::Peaks;
use salient::{Engine, Model, Sources, replace_text};
use salient_draw::chart::{Chart, Charts, Series, svg};
use std::fmt::Write;
use std::path::Path;

/// The lengths that a dimension goes through.
#[derive(Clone, Debug)]
pub(crate) struct Over {
    name: String,
    lengths: Vec<u32>,
}

/// What `--over` says: a dimension and lengths of it.
pub(crate) fn over(text: &str) -> Result<Over, String> {
    let usage = "this is NAME=LENGTH,LENGTH,…, as T=64,128,256";
    let (name, lengths) = text.split_once('=').ok_or(usage)?;
    let lengths: Result<Vec<u32>, _> = lengths.split(',').map(|length| length.trim().parse()).collect();
    match lengths {
        Ok(mut lengths) if !lengths.contains(&0) => {
            lengths.sort_unstable();
            lengths.dedup();
            Ok(Over { name: name.trim().to_owned(), lengths })
        }
        Ok(_) => Err("a length is at least 1".to_owned()),
        Err(_) => Err(usage.to_owned()),
    }
}

/// What an engine took at a length.
struct Measured {
    engine: Engine,
    length: u32,
    least: f64,
    median: f64,
    /// Of the peak of the threads' cores.
    share: f64,
}

/// The table, and the picture in its file.
pub(super) fn plot(args: &Args, sources: &Sources, over: &Over) -> Outcome<String> {
    let (mut all, mut title) = (Vec::new(), String::new());
    let mut out = String::new();
    for length in &over.lengths {
        let set = vec![(over.name.clone(), length.to_string())];
        let measured = with_contestants(args, sources, &set, |model, contestants, peaks| {
            title = named(model, args);
            contestants.iter().map(|c| measured(c, *length, args, peaks)).collect::<Vec<_>>()
        })?;
        for m in &measured {
            let _ = writeln!(
                out,
                "{} = {length:<6} {:<8} minimum {:>10.4} ms, median {:>10.4} ms, {:.2} of the peak",
                over.name, m.engine, m.least, m.median, m.share
            );
        }
        all.extend(measured);
    }
    if let Some(path) = &args.plot {
        write(path, &svg(&charts(title, over, &all, args)))?;
    }
    Ok(out)
}

fn named(model: &Model, args: &Args) -> String {
    let set = args.compile.set.iter().map(|(name, value)| format!(", {name} = {value}"));
    format!("{}: {} thread(s){}", model.graph().name(), args.threads, set.collect::<String>())
}

fn measured(c: &Contestant<'_>, length: u32, args: &Args, peaks: &Peaks) -> Measured {
    let least = millis(c.least());
    let speed = c.profile.flops() as f64 / least / 1e6;
    let share = speed / (peaks.fma * f64::from(args.threads));
    Measured { engine: c.engine, length, least, median: millis(c.median()), share }
}

fn charts(title: String, over: &Over, all: &[Measured], args: &Args) -> Charts {
    let chart = |title: &str, is_logarithmic: bool, of: &dyn Fn(&Measured) -> f64| Chart {
        title: title.to_owned(),
        is_logarithmic,
        series: args
            .engines
            .iter()
            .map(|engine| Series {
                name: engine.to_string(),
                points: all
                    .iter()
                    .filter(|m| m.engine == *engine)
                    .map(|m| (f64::from(m.length), of(m)))
                    .collect(),
            })
            .collect(),
    };
    let times = chart("least time of a call, in milliseconds", true, &|m| m.least);
    let shares = chart("share of the processor's peak (fma)", false, &|m| m.share);
    Charts { title, along: over.name.clone(), charts: vec![times, shares] }
}

fn write(path: &Path, picture: &str) -> Outcome {
    if path.extension().is_none_or(|ending| ending != "svg") {
        return Err(Failure::call(format!("{}: a plot is a file .svg", path.display())));
    }
    Ok(replace_text(path, picture)?)
}
