//! A model against itself: compiled code against the interpreter, on generated dimensions and data.
//!
//! For users' own models, whose numbers nobody has recorded. Odd lengths, lengths of one, masks that hide everything and
//! ties are tried on purpose; what is drawn depends on the seed alone. Files are not read here and nothing is printed.

use crate::compile::options::Options;
use crate::compile::pipeline::optimise;
use crate::compile::stage::Engine;
use crate::report::compare::{Deviation, Tolerance, compare, index_of};
use crate::report::error::Error;
use crate::report::fault::{Fault, Side};
use crate::session::init::{normal, path_key, uniform};
use crate::session::model::Model;
use crate::session::weights::Weights;
use salient_io::Arrays;
use salient_ir::array::{Array, Data};
use salient_ir::{Bindings, DType, Graph, Name, Port};
use salient_jit::IsaChoice;
use salient_jit::target::Isa;
use std::cell::OnceCell;
use std::fmt;

mod gradients;
mod lengths;
mod uses;

pub use gradients::{GradientFinding, VerifiedGradients, gradients_of, verify_gradients};
pub use lengths::{Lengths, ODD};
use uses::Use;

/// How much to try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trials {
    /// How many choices of dimensions and data.
    pub count: usize,
    /// What they are drawn from.
    pub seed: u64,
    /// Which dimensions.
    pub lengths: Lengths,
    /// Where each length is tried, trials that need more scalar operations of the interpreter than this are left out.
    pub most_work: i64,
    /// Whether every fourth choice of data is full of ties, as equal scores and exact zeros are. Gradients have no value there, so that
    /// rounding decides which one is computed.
    pub ties: bool,
}

impl Default for Trials {
    fn default() -> Trials {
        Trials { count: 20, seed: 1, lengths: Lengths::Drawn, most_work: i64::MAX, ties: true }
    }
}

impl Trials {
    /// The number by which the data of a trial is drawn: see [`Drawn`].
    fn data(self, trial: usize) -> usize {
        if self.ties { trial } else { trial + trial / 3 }
    }
}

/// What came of the trials.
#[derive(Clone, Debug, Default)]
pub struct Verified {
    /// Trials in which the model has a value.
    pub compared: usize,
    /// Trials in which it has none on any engine, such as for an index outside its axis.
    pub without_value: usize,
    /// Disagreements.
    pub findings: Vec<Finding>,
}

/// Compiled code: an engine, its vectors, and how many threads run it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    /// The engine.
    pub engine: Engine,
    /// The vectors that it uses.
    pub isa: Isa,
    /// The threads that run it.
    pub threads: usize,
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Way { engine, isa, threads } = self;
        write!(f, "{engine} on {isa}")?;
        if *threads == 1 { Ok(()) } else { write!(f, " and {threads} threads") }
    }
}

/// Ways of the same code, of which the first runs on one thread, and the others must give the same bits.
type Ways<'w> = Vec<&'w [(Way, Model)]>;

/// The size of parameters, where none of their axes is long.
const PARAMETERS: f64 = 0.3;

/// The length of an axis up to which inputs have the spread of one. Along a longer one they have less, so that products of two
/// of them, summed along it, are no larger: f32 holds the exponential of such a sum to the tolerance, whatever the kernel.
const WIDTH: f64 = 64.0;

/// Numbers of threads that run the code which users get.
const THREADS: [usize; 3] = [1, 2, 3];

/// A disagreement of compiled code with the interpreter, or with itself on other threads.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The code that disagrees.
    pub way: Way,
    /// The trial, from zero.
    pub trial: usize,
    /// The dimensions of the trial.
    pub dimensions: Bindings,
    /// What is wrong.
    pub problem: Problem,
}

/// How engines can disagree.
#[derive(Clone, Debug)]
pub enum Problem {
    /// An output has other values.
    Deviation(Name, Deviation),
    /// One of them fails where the other one has a value; the sentence says which, and why.
    Failure(String),
    /// The same code on one thread gives other bits, or fails otherwise.
    Threads,
}

/// Runs the model on every engine over generated dimensions and data, fused code on all vectors that the processor has (or
/// those of the options alone) and on several numbers of threads; `progress` is called with each trial that begins.
///
/// # Errors
/// As [`Model::from_graph`]; [`Error::Call`] if no dimensions are found that the model accepts.
pub fn verify(
    graph: &Graph,
    options: &Options,
    trials: Trials,
    progress: &mut dyn FnMut(usize),
) -> Result<Verified, Error> {
    if trials.count == 0 {
        return Err(Error::Call(vec![Fault::NothingTried]));
    }
    let oracle = Model::from_graph(graph.clone(), &Options { engine: Engine::Oracle, ..options.clone() })?;
    let fused = optimise(graph, options).graph;
    let fused = Model::from_graph(fused, &Options { engine: Engine::Oracle, ..options.clone() })?;
    let models = ways(options.isa).into_iter().map(|way| {
        let Way { engine, isa, threads } = way;
        let options =
            Options { engine, isa: IsaChoice::Only(isa), threads: Some(threads), ..options.clone() };
        Ok((way, Model::from_graph(graph.clone(), &options)?))
    });
    let models = models.collect::<Result<Vec<_>, Error>>()?;
    let uses = uses::uses(graph);
    let same: Ways<'_> = models.chunk_by(|(_, _), (way, _)| way.threads > 1).collect();
    let mut out = Verified::default();
    for (trial, dimensions) in lengths::chosen(graph, trials)?.into_iter().enumerate() {
        progress(trial);
        let seed = seed_of(trials.seed, trial);
        let data = Drawn { graph, dimensions: &dimensions, uses: &uses, trial: trials.data(trial), seed };
        let (inputs, params) =
            (data.arrays(graph.inputs(), Side::Input)?, data.arrays(graph.params(), Side::Param)?);
        let run =
            |model: &Model| model.session_with(&inputs, Weights::from(&params), &dimensions)?.call(&inputs);
        let expected = value(run(&oracle))?;
        // Run only for data that asks for it: few do.
        let meant = OnceCell::new();
        let meant = || meant.get_or_init(|| run(&fused).ok()).as_ref();
        let mut find = |way: &Way, problem| {
            out.findings.push(Finding { way: *way, trial, dimensions: dimensions.clone(), problem });
        };
        for models in &same {
            let [(way, model), others @ ..] = *models else { continue };
            let found = value(run(model))?;
            disagreements(graph, way.engine, (&found, &expected), &meant)
                .into_iter()
                .for_each(|p| find(way, p));
            for (other, model) in others {
                if !identical(&value(run(model))?, &found) {
                    find(other, Problem::Threads);
                }
            }
        }
        if expected.is_ok() { out.compared += 1 } else { out.without_value += 1 }
    }
    Ok(out)
}

/// What is compared: unfused code, and fused code on every kind of vectors, the widest on several numbers of threads, of
/// which the first is one.
fn ways(isa: IsaChoice) -> Vec<Way> {
    let (widest, narrower) = match isa {
        IsaChoice::Auto => (Isa::detect(), Isa::ALL.into_iter().filter(|isa| *isa < Isa::detect()).collect()),
        IsaChoice::Only(isa) => (isa, Vec::new()),
    };
    let way = |engine, isa, threads| Way { engine, isa, threads };
    let mut out = vec![way(Engine::Unfused, widest, 1)];
    out.extend(narrower.into_iter().map(|isa| way(Engine::Jit, isa, 1)));
    out.extend(THREADS.map(|threads| way(Engine::Jit, widest, threads)));
    out
}

/// What a trial is drawn from.
fn seed_of(seed: u64, trial: usize) -> u64 {
    seed.wrapping_add((trial as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// Whether two runs of the same code ended in the same way.
fn identical(a: &Result<Arrays, String>, b: &Result<Arrays, String>) -> bool {
    match (a, b) {
        (Ok(a), Ok(b)) => a.same_bits(b),
        (Err(a), Err(b)) => a == b,
        (Ok(_), Err(_)) | (Err(_), Ok(_)) => false,
    }
}

/// Having no value on some data is a result; every other error is one.
fn value(result: Result<Arrays, Error>) -> Result<Result<Arrays, String>, Error> {
    match result {
        Ok(arrays) => Ok(Ok(arrays)),
        Err(Error::Run(why)) => Ok(Err(why)),
        Err(error) => Err(error),
    }
}

/// `meant` interprets the fused program.
fn disagreements<'m>(
    graph: &Graph,
    engine: Engine,
    (found, expected): (&Result<Arrays, String>, &Result<Arrays, String>),
    meant: &dyn Fn() -> Option<&'m Arrays>,
) -> Vec<Problem> {
    let (found, expected) = match (found, expected) {
        (Ok(found), Ok(expected)) => (found, expected),
        (Err(_), Err(_)) => return Vec::new(),
        (Err(why), Ok(_)) => return vec![Problem::Failure(format!("it fails: {why}"))],
        (Ok(_), Err(why)) => {
            return vec![Problem::Failure(format!("it has a value where the interpreter fails: {why}"))];
        }
    };
    let mut out = Vec::new();
    for output in graph.outputs() {
        let (Some(found), Some(expected)) = (found.get(&output.name), expected.get(&output.name)) else {
            unreachable!("a run gives every output");
        };
        let tolerance = tolerance(expected);
        let meant = || meant()?.get(&output.name);
        let expected =
            if engine == Engine::Jit { refined(expected, found, &meant) } else { expected.clone() };
        let deviation = compare(found, &expected, tolerance).expect("shapes come from the graph");
        if !deviation.agrees() {
            out.push(Problem::Deviation(output.name.clone(), deviation));
        }
    }
    out
}

/// Rounding in f32 grows with the largest value that is summed; what is then rounded to 16 bits may be off by one unit of
/// its last place more.
fn tolerance(expected: &Array) -> Tolerance {
    let rtol = match expected.dtype() {
        DType::F16 => 1.0 / 1024.0,
        DType::BF16 => 1.0 / 128.0,
        DType::F32 | DType::I32 | DType::I64 | DType::Bool => 1e-4,
    };
    let finite = expected.to_f64_vec().into_iter().filter(|x| x.is_finite());
    Tolerance { rtol, atol: 1e-5 * finite.fold(1.0, |most, x| x.abs().max(most)) }
}

/// What is expected of fused code, which may have a number where the program as written has NaN. That is for the rules to decide,
/// not for the kernels: where the fused program itself has NaN, so has its code.
fn refined<'m>(expected: &Array, found: &Array, meant: &dyn Fn() -> Option<&'m Array>) -> Array {
    let (Some(mut e), Some(f)) = (expected.to_f32_vec(), found.to_f32_vec()) else { return expected.clone() };
    if !e.iter().zip(&f).any(|(e, f)| e.is_nan() && !f.is_nan()) {
        return expected.clone();
    }
    let meant = meant().and_then(Array::to_f32_vec);
    for (at, (e, f)) in e.iter_mut().zip(f).enumerate() {
        if e.is_nan() && !meant.as_ref().is_some_and(|meant| meant[at].is_nan()) {
            *e = f;
        }
    }
    Array::from_f32(expected.shape().to_vec(), e).expect("the count does not change")
}

/// Where the data of one trial is drawn from.
struct Drawn<'a> {
    graph: &'a Graph,
    dimensions: &'a Bindings,
    /// By position of the graph's inputs.
    uses: &'a [Use],
    trial: usize,
    seed: u64,
}

/// The part of a mask that is 1, or true, by trial: half, all, none, and a density in between.
const DENSITIES: [f64; 4] = [0.5, 1.0, 0.0, 0.15];

impl Drawn<'_> {
    fn arrays(&self, ports: &[Port], side: Side) -> Result<Arrays, Error> {
        let mut out = Arrays::new();
        for (at, port) in ports.iter().enumerate() {
            let used = if side == Side::Input { self.uses[at] } else { Use::Number };
            let is_moved = side == Side::Input && self.graph.is_moved_parameter(at);
            let side = if is_moved { Side::Param } else { side };
            out.insert(&*port.name, self.array(port, side, used).map_err(|e| Error::Run(e.to_string()))?)?;
        }
        Ok(out)
    }

    fn array(&self, port: &Port, side: Side, used: Use) -> Result<Array, salient_ir::array::ArrayError> {
        let extent = |d: salient_ir::Dim| d.eval(self.dimensions).ok().and_then(|n| usize::try_from(n).ok());
        let shape: Vec<usize> = self
            .graph
            .shape(&port.axes)
            .into_iter()
            .map(|d| extent(d).expect("checked when drawn"))
            .collect();
        let count = salient_ir::array::element_count(&shape, port.dtype)? as u64;
        let longest = shape.iter().copied().max().unwrap_or(1).max(1) as f64;
        let scale = match side {
            Side::Input | Side::State | Side::Output => (WIDTH / longest).powf(0.25).min(1.0),
            // What is summed along a long axis stays near one, and its exponential in the range of f32.
            Side::Param => PARAMETERS.min(longest.sqrt().recip()),
        };
        let key = path_key(self.seed, &port.name);
        let is_kept = |n: u64| uniform(key, n) < DENSITIES[self.trial % DENSITIES.len()];
        // Where everything were drowned, f32 would know no differences that f64 still knows.
        let least = shape.iter().copied().min().unwrap_or(1).max(1);
        let is_kept_anyway =
            |n: u64| index_of(n as usize, &shape).iter().sum::<usize>().is_multiple_of(least);
        let mask: Option<f64> = match used {
            Use::Mask(kept) => Some(kept),
            // What may be a mask is one in every other pair of trials.
            Use::Compared if (self.trial / 2).is_multiple_of(2) => Some(1.0),
            Use::Compared | Use::Number | Use::Positive => None,
        };
        if used == Use::Positive {
            let values: Vec<f64> = (0..count).map(|n| normal(key, n).exp()).collect();
            return Array::from_f64(port.dtype, shape, &values);
        }
        let values: Vec<f64> = match port.dtype {
            DType::F32 | DType::F16 | DType::BF16 if let Some(kept) = mask => {
                let is_drowning = matches!(used, Use::Mask(_));
                let value =
                    |n| if is_kept(n) || is_drowning && is_kept_anyway(n) { kept } else { 1.0 - kept };
                (0..count).map(value).collect()
            }
            DType::F32 | DType::F16 | DType::BF16 => {
                // Every fourth trial rounds to halves: equal scores, exact zeros.
                let round = |x: f64| if self.trial % 4 == 3 { (2.0 * x).round() / 2.0 } else { x };
                (0..count).map(|n| round(scale * normal(key, n))).collect()
            }
            DType::I32 | DType::I64 => {
                // Every other trial the first row of a table alone, which even the shortest has.
                let most = [3.0, 1.0][self.trial % 2];
                (0..count).map(|n| (uniform(key, n) * most).floor()).collect()
            }
            DType::Bool => {
                return Array::new(shape, Data::Bool((0..count).map(is_kept).collect()));
            }
        };
        Array::from_f64(port.dtype, shape, &values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(source: &str) -> Graph {
        let options = Options { engine: Engine::Oracle, ..Options::default() };
        Model::compile(source, &options).unwrap().graph().clone()
    }

    fn tried(source: &str, count: usize) -> Result<Verified, Error> {
        verify(&graph(source), &Options::default(), Trials { count, ..Trials::default() }, &mut |_| {})
    }

    #[test]
    fn no_trials_agree_with_nothing() {
        assert_eq!(tried(COPY, 0).unwrap_err().to_string(), "nothing is compared in 0 trials");
    }

    /// Halves of a mask would drown the scores of a row, and what is left of them is no figure to compare.
    #[test]
    fn float_masks_are_zeros_and_ones() {
        let drawn = |expression: &str| {
            let source = format!("model m(s: f32[T], m: f32[T]) -> (y: f32[T]) {{ return {expression} }}");
            let (g, dimensions) = (graph(&source), Bindings::from([("T".into(), 40)]));
            let uses = uses::uses(&g);
            let values = |trial| {
                let drawn = Drawn { graph: &g, dimensions: &dimensions, uses: &uses, trial, seed: 7 };
                let arrays = drawn.arrays(g.inputs(), Side::Input).unwrap();
                let of = |name: &str| {
                    arrays.get(name).unwrap().to_f64_vec().iter().all(|x| *x == 0.0 || *x == 1.0)
                };
                (of("s"), of("m"))
            };
            [0, 1, 2, 3].map(values)
        };
        let (no, mask) = ((false, false), (false, true));
        for always in ["s + (1 - m) * -1e9", "softmax(s + m * -10000.0)", "s - (1.0 - m) / 1e-9"] {
            assert_eq!(drawn(always), [mask; 4], "{always}");
        }
        for sometimes in
            ["if m > 0 then s else 0.0", "if m == 1 then s else 0.0", "if 1 - m < 0.5 then s else -inf"]
        {
            assert_eq!(drawn(sometimes), [mask, mask, no, no], "{sometimes}");
        }
        assert_eq!(drawn("s + 2.0 * m"), [no; 4]);
        let source = "model m(q: f32[T, 4], k: f32[S, 4], m: f32[S]) -> (y: f32[T, 4]) { return softmax(q @ k.T + (1 - m) * -1e9) @ k }";
        let verified = tried(source, 8).unwrap();
        assert!(verified.findings.is_empty(), "{:?}", verified.findings);
    }

    const COPY: &str = "model copy(x: f32[T]) -> (y: f32[T]) { return x * 1.0 }";

    fn result(values: &[f32]) -> Result<Arrays, String> {
        let mut arrays = Arrays::new();
        arrays.insert("y", Array::from_f32(vec![values.len()], values.to_vec()).unwrap()).unwrap();
        Ok(arrays)
    }

    #[test]
    fn disagreements_are_found() {
        let g = graph(COPY);
        let problems = |engine, found: &Result<Arrays, String>, expected: &Result<Arrays, String>| {
            disagreements(&g, engine, (found, expected), &|| None).len()
        };
        let (right, wrong) = (result(&[1.0, 2.0]), result(&[1.0, 2.1]));
        let (none, other): (_, Result<Arrays, String>) = (Err("why".to_owned()), Err("else".to_owned()));
        for engine in [Engine::Jit, Engine::Unfused] {
            assert_eq!(problems(engine, &right, &right), 0);
            assert_eq!(problems(engine, &wrong, &right), 1);
            assert_eq!(problems(engine, &none, &right), 1);
            assert_eq!(problems(engine, &right, &none), 1);
            assert_eq!(problems(engine, &other, &none), 0);
        }
        assert!(identical(&right, &right) && identical(&none, &none));
        assert!(!identical(&right, &wrong) && !identical(&none, &other) && !identical(&none, &right));
        // Fused code may have a number where the program as written has none, never the other way round.
        let nan = result(&[1.0, f32::NAN]);
        assert_eq!(problems(Engine::Jit, &right, &nan), 0);
        assert_eq!(problems(Engine::Unfused, &right, &nan), 1);
        assert_eq!(problems(Engine::Jit, &nan, &right), 1);
        // The rules say where: where the fused program has none either, its code must have none.
        let with = |meant: &Result<Arrays, String>| {
            disagreements(&g, Engine::Jit, (&right, &nan), &|| meant.as_ref().ok()).len()
        };
        assert_eq!((with(&nan), with(&right)), (1, 0));
    }

    #[test]
    fn dimensions_that_divide_others_are_found() {
        let source = "model split[H](x: f32[T, D]) -> (y: f32[T, H, D / H]) {
            let E = D / H
            let y[t, h: H, e: E] = x[t, h * E + e]
            return y
        }";
        let verified = tried(source, 10).unwrap();
        assert_eq!((verified.compared, verified.without_value), (10, 0));
        assert!(verified.findings.is_empty(), "{:?}", verified.findings);
    }

    #[test]
    fn data_that_every_engine_refuses_is_no_disagreement() {
        let source = "model look_up(table: f32[V, D], ids: i64[T]) -> (rows: f32[T, D]) {
            let rows[t, d] = table[ids[t], d]
            return rows
        }";
        let verified = tried(source, 30).unwrap();
        assert!(verified.findings.is_empty(), "{:?}", verified.findings);
        assert!(verified.compared > 0 && verified.without_value > 0, "{verified:?}");
    }
}
