//! Prices of plans beside times: `cargo run --release -p salient-tests --bin prices -- TIMES`.
//!
//! The file has a line for each program of `tests/equivalence`: its path below the folder without the extension, and the
//! milliseconds that the fused and the unfused plan took at B=1 H=4 T=S=512 E=64 (`salient bench`), tabs between. A program is
//! ranked wrongly if its times differ by more than 1.3 and its prices say the other way round.

use salient::{Form, Options, lower, verdict};
use salient_tests::examples::{Example, models_under};
use std::process::ExitCode;

/// Times that differ by less say nothing.
const CLEAR: f64 = 1.3;

fn main() -> ExitCode {
    let compared =
        std::env::args().nth(1).ok_or_else(|| "prices TIMES".to_owned()).and_then(|times| compare(&times));
    match compared {
        Ok(summary) => println!("{summary}"),
        Err(why) => {
            eprintln!("{why}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

/// Prints a line for each program of a file of times, and gives what they come to.
fn compare(times: &str) -> Result<String, String> {
    let text = salient::read_text(times, 1 << 20).map_err(|e| e.to_string())?;
    let programs = models_under("tests/equivalence");
    let (mut compared, mut wrong) = (0, Vec::new());
    for line in text.lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        let [stem, fused, written] = fields[..] else { return Err(format!("`{line}` has not three fields")) };
        let known = programs.iter().find(|program| program.stem == stem);
        let program = known.ok_or_else(|| format!("there is no program `{stem}`"))?;
        let number = |text: &str| text.parse::<f64>().map_err(|e| format!("`{line}`: {e}"));
        let measured = [number(fused)?, number(written)?];
        let (priced, taken) = prices(program)?;
        println!("{stem}: priced {priced:.3?} ms, measured {measured:.3?} ms, taken: {}", taken.name());
        compared += 1;
        let is_clear = measured[0] > CLEAR * measured[1] || measured[1] > CLEAR * measured[0];
        if is_clear && (priced[0] < priced[1]) != (measured[0] < measured[1]) {
            wrong.push(stem.to_owned());
        }
    }
    Ok(format!("{compared} programs, {} ranked wrongly: {}", wrong.len(), wrong.join(", ")))
}

/// The milliseconds that the fused and the unfused plan of a program are priced at, and the form that is taken.
fn prices(program: &Example) -> Result<([f64; 2], Form), String> {
    let sizes = [("B", "1"), ("H", "4"), ("T", "512"), ("E", "64"), ("S", "512")];
    let sources = program.sources()?;
    // Not all programs have keys of another length.
    let found = [&sizes[..], &sizes[..4]].into_iter().find_map(|sizes| {
        let set = sizes.iter().map(|(name, size)| ((*name).to_owned(), (*size).to_owned())).collect();
        let options = Options { set, ..program.options() };
        let graph = lower(&sources, &options).ok()?.graph;
        Some(verdict(&graph, &options))
    });
    let found = found.ok_or_else(|| format!("`{}` is refused", program.stem))?;
    let price = |form| {
        found
            .price(form)
            .map(|seconds| seconds * 1e3)
            .ok_or_else(|| format!("`{}` has no price", program.stem))
    };
    Ok(([price(Form::Fused)?, price(Form::AsWritten)?], found.taken))
}
