//! Measuring a machine: what it does at most, and which sizes of tiles and blocks serve it best.
//!
//! Few candidates are tried for each question, one question after the other, each with the answers before it. Candidates
//! take turns in many short rounds and are judged by their least times, so that what else the machine does hits all of them;
//! one that is not clearly faster than the default, twice, does not replace it. Nothing is searched: candidates are tables.

use crate::compile::options::Options;
use crate::compile::tuning::Tuning;
use crate::report::error::Error;
use crate::session::Session;
use crate::session::model::Model;
use crate::session::weights::Weights;
use salient_front::Sources;
use salient_io::Arrays;
use salient_ir::Bindings;
use salient_ir::array::Array;
use salient_jit::target::Isa;
use salient_jit::{IsaChoice, THREADING, peak};
use salient_tile::TILING;
use std::time::{Duration, Instant};

/// The programs that are timed.
const PROGRAMS: &str = include_str!("tune.attn");

/// A candidate replaces the default if it takes at most this part of its time, and does so again when the two alone are
/// measured: less is not told from chance.
const CLEARLY: f64 = 0.98;

/// How long to measure.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Turns of each candidate.
    pub rounds: usize,
    /// How long a turn is, of at least one call.
    pub turn: Duration,
}

impl Effort {
    /// About a minute.
    pub const FULL: Effort = Effort { rounds: 15, turn: Duration::from_millis(20) };
    /// Some seconds.
    pub const QUICK: Effort = Effort { rounds: 6, turn: Duration::from_millis(5) };
}

/// What one machine does at most.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Thousands of millions of fused multiply-adds of one core, in operations a second, by vectors.
    pub fma: Vec<(Isa, f64)>,
    /// Thousands of millions of bytes that one core reads from memory in a second.
    pub memory: f64,
    /// The same, of all threads at once.
    pub memory_of_all: f64,
    /// Threads.
    pub threads: usize,
    /// A call of the least kernel.
    pub launch: Duration,
}

/// A question and its answer.
#[derive(Clone, Debug)]
pub struct Trial {
    /// What was asked.
    pub about: &'static str,
    /// The numbers that were tried together, by their names in files.
    pub names: Vec<&'static str>,
    /// What was timed.
    pub works: Vec<String>,
    /// The first is the default.
    pub candidates: Vec<Candidate>,
    /// The candidate that was measured once more, with the default alone, and its part of the default's time then.
    pub again: Option<(usize, f64)>,
    /// The position of the answer.
    pub chosen: usize,
}

/// One way of setting the numbers of a trial.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// By name.
    pub values: Vec<i64>,
    /// The least time of each work.
    pub times: Vec<Duration>,
    /// The mean over works of its time as a part of the default's.
    pub part: f64,
}

/// What was found.
#[derive(Clone, Debug)]
pub struct Tuned {
    /// The machine.
    pub measured: Measured,
    /// The questions, in order.
    pub trials: Vec<Trial>,
    /// For each work of all trials, how many times as fast all answers together are as all defaults.
    pub gains: Vec<(String, f64)>,
    /// The answers, beside what was known of other vectors.
    pub tuning: Tuning,
}

/// A program with the shapes of its inputs.
#[derive(Clone, Copy, Debug)]
struct Work {
    model: &'static str,
    inputs: &'static [(&'static str, &'static [i64])],
    /// Dimensions that no input gives.
    dims: &'static [(&'static str, i64)],
    threads: Threads,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Threads {
    One,
    All,
}

impl Work {
    const fn product(
        x: &'static [(&'static str, &'static [i64])],
        dims: &'static [(&'static str, i64)],
    ) -> Work {
        Work { model: "product", inputs: x, dims, threads: Threads::One }
    }

    const fn attention(model: &'static str, inputs: &'static [(&'static str, &'static [i64])]) -> Work {
        Work { model, inputs, dims: &[], threads: Threads::One }
    }

    const fn on_all(self) -> Work {
        Work { threads: Threads::All, ..self }
    }

    /// As `product 512x768x3072`.
    fn name(&self) -> String {
        let (_, first) = self.inputs[0];
        let others = self.inputs[1..].iter().filter(|(_, shape)| *shape != first).map(|(_, shape)| shape[1]);
        let numbers = first.iter().copied().chain(others.take(1)).chain(self.dims.iter().map(|(_, n)| *n));
        let numbers: Vec<String> = numbers.map(|n| n.to_string()).collect();
        format!("{} {}", self.model, numbers.join("x"))
    }
}

const WIDE: Work = Work::product(&[("x", &[256, 384])], &[("N", 768)]);
const DEEP: Work = Work::product(&[("x", &[128, 3072])], &[("N", 192)]);
const THIN: Work = Work::product(&[("x", &[8, 768])], &[("N", 3072)]);
const PLAIN: Work =
    Work::attention("plain", &[("q", &[1, 512, 64]), ("k", &[1, 512, 64]), ("v", &[1, 512, 64])]);
const CAUSAL: Work =
    Work::attention("causal", &[("q", &[2, 512, 64]), ("k", &[2, 512, 64]), ("v", &[2, 512, 64])]);
const BROAD: Work =
    Work::attention("causal", &[("q", &[1, 512, 128]), ("k", &[1, 512, 128]), ("v", &[1, 512, 128])]);
const DECODE: Work =
    Work::attention("plain", &[("q", &[8, 1, 64]), ("k", &[8, 2048, 64]), ("v", &[8, 2048, 64])]);
const SOME: Work =
    Work::attention("plain", &[("q", &[8, 6, 64]), ("k", &[8, 512, 64]), ("v", &[8, 512, 64])]);
const MORE: Work =
    Work::attention("plain", &[("q", &[8, 12, 64]), ("k", &[8, 512, 64]), ("v", &[8, 512, 64])]);
const TINY: Work = Work::product(&[("x", &[1, 64])], &[("N", 128)]).on_all();
const SMALL: Work = Work::product(&[("x", &[1, 128])], &[("N", 256)]).on_all();
const MIDDLE: Work = Work::product(&[("x", &[1, 256])], &[("N", 512)]).on_all();
const CHAIN: Work = Work { model: "chain", inputs: &[("x", &[8, 192])], dims: &[], threads: Threads::All };
const LEAST: Work = Work { model: "least", inputs: &[("x", &[1])], dims: &[], threads: Threads::One };

/// Numbers that are tried together, and on what.
struct Question {
    about: &'static str,
    names: &'static [&'static str],
    candidates: &'static [&'static [i64]],
    works: &'static [Work],
}

/// Register tiles that keep their sums in registers: 16 of them, or 32 with 512 bits.
fn tiles(isa: Isa) -> &'static [&'static [i64]] {
    match isa {
        Isa::Baseline => &[&[1, 8], &[2, 4], &[4, 2], &[6, 2], &[4, 3]],
        Isa::Avx2 => &[&[6, 2], &[4, 3], &[4, 2], &[3, 4], &[1, 8]],
        Isa::Avx512 => &[&[4, 4], &[6, 4], &[8, 2], &[8, 3], &[12, 2], &[14, 2]],
    }
}

/// The questions, in the order in which they are asked; `tuning` holds the answers so far.
fn questions(isa: Isa, tuning: &Tuning, threads: usize) -> Vec<Question> {
    let depth: &[&str] =
        if tuning.machine.of(isa).is_flat() { &["product_depth_few"] } else { &["product_depth"] };
    let mut out = vec![
        Question {
            about: "register tile",
            names: &["tile_rows", "tile_vectors"],
            candidates: tiles(isa),
            works: &[WIDE, PLAIN, CAUSAL],
        },
        Question {
            about: "steps of a product's inner index at once",
            names: depth,
            candidates: &[&[128], &[192], &[256], &[384], &[512], &[768], &[1024]],
            works: &[WIDE, DEEP],
        },
        Question {
            about: "block of a product",
            names: &["product_rows", "product_vectors"],
            candidates: &[&[32, 4], &[64, 4], &[64, 8], &[128, 4], &[128, 8], &[256, 4]],
            works: &[WIDE, DEEP, THIN],
        },
        Question {
            about: "tile of attention",
            names: &["attention_rows", "attention_keys"],
            candidates: &[
                &[32, 128],
                &[48, 128],
                &[64, 64],
                &[64, 128],
                &[64, 256],
                &[96, 128],
                &[128, 128],
                &[128, 64],
            ],
            works: &[PLAIN, CAUSAL, BROAD],
        },
        Question {
            about: "rows up to which keys are read where they lie",
            names: &["few_rows"],
            candidates: &[&[4], &[8], &[16]],
            works: &[SOME, MORE],
        },
        Question {
            about: "keys of few rows",
            names: &["few_keys", "few_part"],
            candidates: &[&[16, 512], &[32, 256], &[32, 512], &[32, 1024], &[64, 512], &[128, 512]],
            works: &[DECODE, SOME],
        },
    ];
    if threads > 1 {
        out.push(Question {
            about: "work for which a thread is called",
            names: &["worth_ns"],
            candidates: &[&[1_000], &[2_500], &[5_000], &[10_000], &[20_000], &[40_000]],
            works: &[TINY, SMALL, MIDDLE],
        });
        out.push(Question {
            about: "looks of an idle thread before it sleeps",
            names: &["looks"],
            candidates: &[&[0], &[1024], &[4096], &[16384]],
            works: &[CHAIN],
        });
    }
    out
}

/// Measures the machine and asks every question for the vectors of `isa`; what `known` says of other vectors stays.
/// `progress` is called with each question that begins, and how many there are.
///
/// # Errors
/// [`Error::Target`] if this machine has no such vectors.
pub fn tune(
    isa: IsaChoice,
    effort: Effort,
    known: &Tuning,
    progress: &mut dyn FnMut(usize, usize, &str),
) -> Result<Tuned, Error> {
    let isa = match isa {
        IsaChoice::Auto => Isa::detect(),
        IsaChoice::Only(isa) => isa,
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let default = Tuning::default();
    let mut tuning = Tuning { origin: None, ..known.clone() };
    *tuning.machine.of_mut(isa) = *default.machine.of(isa);
    tuning.machine.threading = default.machine.threading;
    let all = 2 + questions(isa, &tuning, threads).len();
    progress(0, all, "peaks");
    let measured = measure(isa, threads, effort)?;
    tuning.peaks.flops =
        measured.fma.iter().find(|(of, _)| *of == isa).map_or(tuning.peaks.flops, |(_, fma)| fma * 1e9);
    tuning.peaks.bytes = measured.memory * 1e9;
    tuning.peaks.launch = measured.launch;
    let before = tuning.clone();
    let mut trials: Vec<Trial> = Vec::new();
    while let Some(question) = questions(isa, &tuning, threads).get(trials.len()) {
        progress(trials.len() + 1, all, question.about);
        let trial = ask(question, isa, &tuning, effort)?;
        for (name, value) in trial.names.iter().zip(&trial.candidates[trial.chosen].values) {
            set(&mut tuning, isa, name, *value);
        }
        trials.push(trial);
    }
    progress(all - 1, all, "all answers together");
    let mut works: Vec<Work> = Vec::new();
    for work in questions(isa, &tuning, threads).iter().flat_map(|question| question.works) {
        if works.iter().all(|known| known.name() != work.name()) {
            works.push(*work);
        }
    }
    let mut gains = Vec::new();
    for work in works {
        let times = time(&work, isa, &[before.clone(), tuning.clone()], effort)?;
        gains.push((work.name(), times[0].as_secs_f64() / times[1].as_secs_f64()));
    }
    Ok(Tuned { measured, trials, gains, tuning })
}

fn measure(isa: Isa, threads: usize, effort: Effort) -> Result<Measured, Error> {
    let known = Isa::ALL.into_iter().filter(|isa| *isa <= Isa::detect());
    Ok(Measured {
        fma: known.map(|isa| (isa, peak::fma_peak(isa))).collect(),
        memory: peak::memory_peak(1),
        memory_of_all: peak::memory_peak(threads),
        threads,
        launch: time(&LEAST, isa, &[Tuning::default()], effort)?[0],
    })
}

/// The number of that name.
fn get(tuning: &Tuning, isa: Isa, name: &str) -> i64 {
    let of_tiling =
        TILING.iter().find(|knob| knob.name == name).map(|knob| (knob.get)(tuning.machine.of(isa)));
    let of_threading =
        || THREADING.iter().find(|knob| knob.name == name).map(|knob| (knob.get)(&tuning.machine.threading));
    of_tiling.or_else(of_threading).expect("questions are about numbers that there are")
}

/// Changes the number of that name.
fn set(tuning: &mut Tuning, isa: Isa, name: &str, value: i64) {
    if let Some(knob) = TILING.iter().find(|knob| knob.name == name) {
        (knob.set)(tuning.machine.of_mut(isa), value);
    }
    if let Some(knob) = THREADING.iter().find(|knob| knob.name == name) {
        (knob.set)(&mut tuning.machine.threading, value);
    }
}

fn ask(question: &Question, isa: Isa, tuning: &Tuning, effort: Effort) -> Result<Trial, Error> {
    let default: Vec<i64> = question.names.iter().map(|name| get(tuning, isa, name)).collect();
    let others = question.candidates.iter().map(|values| values.to_vec()).filter(|values| *values != default);
    let values: Vec<Vec<i64>> = std::iter::once(default.clone()).chain(others).collect();
    let with = |values: &Vec<i64>| {
        let mut changed = tuning.clone();
        question.names.iter().zip(values).for_each(|(name, value)| set(&mut changed, isa, name, *value));
        changed
    };
    let tunings: Vec<Tuning> = values.iter().map(with).collect();
    let measure = |tunings: &[Tuning]| -> Result<Vec<Vec<Duration>>, Error> {
        question.works.iter().map(|work| time(work, isa, tunings, effort)).collect()
    };
    let times = measure(&tunings)?;
    let candidate = |(at, values)| {
        let part = part(&times, at);
        Candidate { values, times: times.iter().map(|of| of[at]).collect(), part }
    };
    let candidates: Vec<Candidate> = values.into_iter().enumerate().map(candidate).collect();
    let best =
        (0..candidates.len()).min_by(|a, b| candidates[*a].part.total_cmp(&candidates[*b].part)).unwrap_or(0);
    let mut again = None;
    if candidates[best].part <= CLEARLY {
        let alone = [tunings[0].clone(), tunings[best].clone()];
        again = Some((best, part(&measure(&alone)?, 1)));
    }
    let chosen = again.filter(|(_, part)| *part <= CLEARLY).map_or(0, |(best, _)| best);
    let works = question.works.iter().map(Work::name).collect();
    Ok(Trial { about: question.about, names: question.names.to_vec(), works, candidates, again, chosen })
}

/// The mean over works of what a candidate takes as a part of what the first takes.
fn part(times: &[Vec<Duration>], candidate: usize) -> f64 {
    let logs = times.iter().map(|of| (of[candidate].as_secs_f64() / of[0].as_secs_f64()).ln());
    (logs.sum::<f64>() / times.len() as f64).exp()
}

/// The least time of a call under each tuning, in turns.
fn time(work: &Work, isa: Isa, tunings: &[Tuning], effort: Effort) -> Result<Vec<Duration>, Error> {
    let mut sources = Sources::new();
    sources.add("tune", PROGRAMS);
    let mut inputs = Arrays::new();
    for (name, shape) in work.inputs {
        let shape: Vec<usize> = shape.iter().map(|n| n.unsigned_abs() as usize).collect();
        // Numbers around zero without a pattern that a kernel could meet.
        let value = |n: usize| (n.wrapping_mul(2_654_435_761) % 2001) as f32 / 1000.0 - 1.0;
        let values = (0..shape.iter().product()).map(value).collect();
        inputs
            .insert(*name, Array::from_f32(shape, values).expect("as many values as the shape has places"))?;
    }
    let dims: Bindings = work.dims.iter().map(|(name, n)| ((*name).into(), *n)).collect();
    let compile = |tuning: &Tuning| {
        let options = Options {
            model: Some(work.model.to_owned()),
            isa: IsaChoice::Only(isa),
            threads: (work.threads == Threads::One).then_some(1),
            tuning: tuning.clone(),
            ..Options::default()
        };
        Model::from_sources(&sources, &options)
    };
    let models = tunings.iter().map(compile).collect::<Result<Vec<_>, _>>()?;
    let start = |model| -> Result<_, Error> {
        let session: Session<'_> = Model::session_with(model, &inputs, Weights::seeded(1), &dims)?;
        let outputs = session.outputs()?;
        Ok((session, outputs, Duration::MAX))
    };
    let mut sessions = models.iter().map(start).collect::<Result<Vec<_>, _>>()?;
    for round in 0..effort.rounds {
        let count = sessions.len();
        for at in 0..count {
            // Another one begins each round.
            let (session, outputs, least) = &mut sessions[(at + round) % count];
            session.run(&inputs, outputs)?;
            let turn = Instant::now();
            loop {
                let call = Instant::now();
                session.run(&inputs, outputs)?;
                *least = call.elapsed().min(*least);
                if turn.elapsed() >= effort.turn {
                    break;
                }
            }
        }
    }
    Ok(sessions.into_iter().map(|(.., least)| least).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_are_about_numbers_that_there_are_and_candidates_are_in_range() {
        for isa in Isa::ALL {
            for question in questions(isa, &Tuning::default(), 2) {
                for values in question.candidates {
                    assert_eq!(values.len(), question.names.len(), "{}", question.about);
                    let mut tuning = Tuning::default();
                    for (name, value) in question.names.iter().zip(*values) {
                        set(&mut tuning, isa, name, *value);
                        assert_eq!(get(&tuning, isa, name), *value);
                    }
                    let text = tuning.to_text();
                    let read = Tuning::parse(&text, &salient_jit::target::processor());
                    assert_eq!(read.as_ref(), Ok(&tuning), "{}", question.about);
                }
            }
        }
    }

    #[test]
    fn an_answer_is_one_of_the_candidates_of_which_the_default_is_the_first() {
        let effort = Effort { rounds: 1, turn: Duration::ZERO };
        let mut tuning = Tuning::default();
        tuning.machine.of_mut(Isa::Baseline).few_rows = 5;
        let question = Question {
            about: "rows",
            names: &["few_rows"],
            candidates: &[&[4], &[8]],
            works: &[LEAST, TINY],
        };
        let trial = ask(&question, Isa::Baseline, &tuning, effort).expect("it runs anywhere");
        let values: Vec<&[i64]> = trial.candidates.iter().map(|c| c.values.as_slice()).collect();
        assert_eq!(values, [[5], [4], [8]]);
        assert!(trial.chosen == 0 || trial.again.is_some_and(|(at, _)| at == trial.chosen));
        assert!(trial.candidates.iter().all(|c| c.times.len() == 2 && c.part > 0.0));
    }
}
