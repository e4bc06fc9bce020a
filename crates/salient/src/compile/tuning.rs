//! What is known of the machine: the figures by which kernels are priced, cut and shared among threads; and its file.
//!
//! Nothing but time depends on them: results keep within the same bounds. A file is TOML: the `processor` that it was
//! measured on, then a table of whole numbers for each part. What a file does not say stays at its default.
//!
//! ```toml
//! processor = "…"       # as `salient tune` writes it
//! [prices]              # of one core: see PRICES
//! [threads]             # see salient_jit::THREADING
//! [baseline]            # and [avx2], [avx512]: see salient_tile::TILING
//! ```
//!
//! What suits a machine is not decided here.

use crate::report::error::Error;
use salient_front::diag::{did_you_mean, listed};
use salient_jit::THREADING;
use salient_jit::target::{Isa, processor};
use salient_tile::plan::price::Machine;
use salient_tile::{Knob, TILING};
use std::fmt::Write;
use std::ops::Range;
use std::path::Path;
use std::time::Duration;
use toml::de::{DeTable, DeValue};

/// The most bytes of a file; what `salient tune` writes takes a few thousand.
const MOST_BYTES: u64 = 1 << 20;

/// Everything that a machine is tuned by. The default serves any machine.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tuning {
    /// The file that says so, if one does.
    pub origin: Option<String>,
    /// What one core does, for prices.
    pub peaks: Machine,
    /// Sizes of tiles and blocks, and the use of threads.
    pub machine: salient_jit::Tuning,
}

/// The fields of [`Machine`] that are measured.
pub const PRICES: &[Knob<Machine>] = &[
    Knob {
        name: "flops_per_us",
        range: (1, 1_000_000_000),
        what: "floating-point operations that a core does in a microsecond",
        get: |of| (of.flops / 1e6).round() as i64,
        set: |of, to| of.flops = to as f64 * 1e6,
    },
    Knob {
        name: "bytes_per_us",
        range: (1, 1_000_000_000),
        what: "bytes that a core reads from memory in a microsecond",
        get: |of| (of.bytes / 1e6).round() as i64,
        set: |of, to| of.bytes = to as f64 * 1e6,
    },
    Knob {
        name: "launch_ns",
        range: (0, 1_000_000_000),
        what: "nanoseconds that starting a kernel takes",
        get: |of| i64::try_from(of.launch.as_nanos()).unwrap_or(i64::MAX),
        set: |of, to| of.launch = Duration::from_nanos(to.unsigned_abs()),
    },
];

/// A table of a file.
#[derive(Clone, Copy)]
enum Part {
    Prices,
    Threads,
    Tiling(Isa),
}

/// Every table, in the order in which they are written.
const PARTS: [Part; 5] = [
    Part::Prices,
    Part::Threads,
    Part::Tiling(Isa::Baseline),
    Part::Tiling(Isa::Avx2),
    Part::Tiling(Isa::Avx512),
];

impl Part {
    fn name(self) -> &'static str {
        match self {
            Part::Prices => "prices",
            Part::Threads => "threads",
            Part::Tiling(isa) => isa.name(),
        }
    }

    /// Reads the part into a tuning.
    fn read(self, found: &DeTable<'_>, tuning: &mut Tuning, flaws: &mut Flaws<'_>) {
        match self {
            Part::Prices => read(PRICES, found, &mut tuning.peaks, flaws),
            Part::Threads => read(THREADING, found, &mut tuning.machine.threading, flaws),
            Part::Tiling(isa) => read(TILING, found, tuning.machine.of_mut(isa), flaws),
        }
    }

    fn write(self, tuning: &Tuning, out: &mut String) {
        let _ = writeln!(out, "\n[{}]", self.name());
        match self {
            Part::Prices => write(PRICES, &tuning.peaks, out),
            Part::Threads => write(THREADING, &tuning.machine.threading, out),
            Part::Tiling(isa) => write(TILING, tuning.machine.of(isa), out),
        }
    }
}

impl Tuning {
    /// Reads a file that was made for this processor.
    ///
    /// # Errors
    /// [`Error::Unreadable`]; [`Error::Tuning`] with everything that is wrong with it, by line.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Tuning, Error> {
        let path = path.as_ref();
        let text = salient_io::read_text(path, MOST_BYTES)
            .map_err(|e| Error::Unreadable { path: path.to_owned(), reason: e.cause.reason() })?;
        let origin = path.display().to_string();
        let tuning = Tuning::parse(&text, &processor())
            .map_err(|flaws| Error::Tuning(flaws.iter().map(|flaw| format!("{origin}:{flaw}")).collect()))?;
        Ok(Tuning { origin: Some(origin), ..tuning })
    }

    /// What a text says of that processor; else everything that is wrong with it, as `LINE: what`.
    pub(crate) fn parse(text: &str, processor: &str) -> Result<Tuning, Vec<String>> {
        let mut flaws = Flaws { text, found: Vec::new() };
        let mut tuning = Tuning::default();
        let (table, broken) = DeTable::parse_recoverable(text);
        for error in broken {
            flaws.add(error.span().unwrap_or(0..0), error.message());
        }
        let mut made_for = None;
        for (key, value) in table.get_ref() {
            let name: &str = key.get_ref();
            let part = PARTS.into_iter().find(|part| part.name() == name);
            match (value.get_ref(), part) {
                (DeValue::Table(found), Some(part)) => part.read(found, &mut tuning, &mut flaws),
                (DeValue::String(of), None) if name == "processor" => {
                    made_for = Some((of.to_string(), value.span()))
                }
                (_, Some(_)) => flaws.add(value.span(), format!("`{name}` is a table: [{name}]")),
                (_, None) if name == "processor" => {
                    flaws.add(value.span(), "`processor` is a text in quotes")
                }
                (_, None) => {
                    let known = PARTS.map(Part::name).into_iter().chain(["processor"]);
                    flaws.add(key.span(), unknown(name, known));
                }
            }
        }
        match made_for {
            Some((of, _)) if of == processor => {}
            Some((of, span)) => {
                flaws.add(span, format!("the file is for `{of}`, and this processor is `{processor}`"))
            }
            // Where something cannot be parsed, that may be what is missing.
            None if !flaws.found.is_empty() => {}
            None => flaws.add(
                0..0,
                format!("`processor` is missing: the processor that the file is for, here `{processor}`"),
            ),
        }
        if flaws.found.is_empty() { Ok(tuning) } else { Err(flaws.in_order()) }
    }

    /// Writes a file for this processor; the old one stays if that fails.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn write(&self, path: impl AsRef<Path>) -> Result<(), Error> {
        Ok(salient_io::replace_text(path, &self.to_text())?)
    }

    /// The text of a file for this processor.
    pub fn to_text(&self) -> String {
        let mut out = "# What suits this processor: written by `salient tune`, read by every command. Results do not depend on it.\n".to_owned();
        let _ = writeln!(out, "processor = {:?}", processor());
        PARTS.into_iter().for_each(|part| part.write(self, &mut out));
        out
    }
}

/// What is wrong with a text.
struct Flaws<'t> {
    text: &'t str,
    found: Vec<(usize, String)>,
}

impl Flaws<'_> {
    /// Something at those bytes.
    fn add(&mut self, at: Range<usize>, what: impl Into<String>) {
        let before = self.text.get(..at.start).unwrap_or(self.text);
        self.found.push((before.matches('\n').count() + 1, what.into()));
    }

    fn in_order(mut self) -> Vec<String> {
        self.found.sort_unstable();
        self.found.into_iter().map(|(line, what)| format!("{line}: {what}")).collect()
    }
}

fn unknown<'a>(name: &str, known: impl Iterator<Item = &'a str> + Clone) -> String {
    let hint = did_you_mean(name, known.clone()).unwrap_or_else(|| format!("there are {}", listed(known)));
    format!("`{name}` is not known: {hint}")
}

fn read<T>(knobs: &[Knob<T>], found: &DeTable<'_>, into: &mut T, flaws: &mut Flaws<'_>) {
    for (key, value) in found {
        let name: &str = key.get_ref();
        let Some(knob) = knobs.iter().find(|knob| knob.name == name) else {
            flaws.add(key.span(), unknown(name, knobs.iter().map(|knob| knob.name)));
            continue;
        };
        let (least, most) = knob.range;
        let number = value.get_ref().as_integer();
        match number.and_then(|n| i64::from_str_radix(n.as_str(), n.radix()).ok()) {
            Some(n) if (least..=most).contains(&n) => (knob.set)(into, n),
            Some(_) | None => {
                flaws.add(
                    value.span(),
                    format!("`{name}` is a whole number from {least} to {most}: {}", knob.what),
                );
            }
        }
    }
}

fn write<T>(knobs: &[Knob<T>], of: &T, out: &mut String) {
    for knob in knobs {
        let _ = writeln!(out, "{} = {} # {}", knob.name, (knob.get)(of), knob.what);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_written_tuning_reads_back() {
        let mut tuning = Tuning::default();
        tuning.machine.of_mut(Isa::Avx2).tile_rows = 3;
        tuning.machine.threading.looks = 7;
        tuning.peaks.flops = 123e9;
        let read = Tuning::parse(&tuning.to_text(), &processor());
        assert_eq!(read, Ok(tuning));
    }

    #[test]
    fn what_a_file_does_not_say_stays_at_its_default() {
        let read = Tuning::parse("processor = 'x'\n[avx512]\nattention_keys = 64\n", "x")
            .expect("it is well formed");
        let mut expected = Tuning::default();
        expected.machine.of_mut(Isa::Avx512).attention_keys = 64;
        assert_eq!(read, expected);
    }

    #[test]
    fn everything_that_is_wrong_is_named_with_its_line() {
        let text = "processor = 'y'\n[avx2]\ntile_rows = 0\ntile_row = 4\nfew_keys = 'many'\n[avx3]\n";
        let flaws = Tuning::parse(text, "x").expect_err("much is wrong");
        let expected = [
            "1: the file is for `y`, and this processor is `x`",
            "3: `tile_rows` is a whole number from 1 to 16: rows of a register tile",
            "4: `tile_row` is not known: did you mean `tile_rows`?",
            "5: `few_keys` is a whole number from 1 to 4096: keys of a tile where rows are few",
            "6: `avx3` is not known: did you mean `avx2`?",
        ];
        assert_eq!(flaws, expected);
    }

    #[test]
    fn a_text_that_is_no_table_is_refused_by_line() {
        let first = |text| Tuning::parse(text, "x").expect_err("it is broken").swap_remove(0);
        assert!(
            first("processor = 'x'\n[avx2\n").starts_with("2: "),
            "{}",
            first("processor = 'x'\n[avx2\n")
        );
        assert!(first("").starts_with("1: `processor` is missing"), "{}", first(""));
    }
}
