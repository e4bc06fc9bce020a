//! Which dimensions the trials have: drawn, or each length of a list for each dimension in turn.
//!
//! Only dimensions that the model accepts are chosen, and of those such as the interpreter can cope with. Nothing is run
//! here.

use super::Trials;
use crate::report::error::Error;
use crate::report::fault::Fault;
use crate::session::bind;
use crate::session::init::{path_key, uniform};
use salient_ir::{Bindings, Dim, Graph, Name, Op, Relation, Requirement, Symbol};
use std::collections::{BTreeMap, BTreeSet};

/// Lengths that an axis is given: one, small, not a multiple of any vector, just past one.
const LENGTHS: [i64; 9] = [1, 2, 3, 4, 5, 8, 16, 17, 33];
/// Lengths that divide each other, for models that split axes.
const POWERS: [i64; 5] = [1, 2, 4, 8, 16];
/// Scalar operations that the interpreter is given in one trial, if it can be helped; it does some millions a second.
const ENOUGH_WORK: i64 = 2_000_000;
/// Draws of dimensions that the model accepts, of which the one with the least work is taken where all have too much.
const ACCEPTED: usize = 16;
/// Draws before giving up.
const DRAWS: u64 = 500;
/// Lengths up to this one are looked through for one that fits.
const SEARCHED: i64 = 64;

/// The lengths that [`Lengths::Each`] gives to each dimension: nothing that tiles, vectors and blocks divide, around each
/// of them and past several.
pub const ODD: [i64; 10] = [1, 2, 3, 5, 7, 17, 31, 33, 127, 1025];

/// How the dimensions of the trials are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Lengths {
    /// Small ones, all drawn.
    #[default]
    Drawn,
    /// Each dimension in turn has every length of [`ODD`] that the model accepts, with small ones beside it. If the trials
    /// are fewer than that, they are taken at equal distances.
    Each,
}

/// The dimensions of each trial.
pub(super) fn chosen(graph: &Graph, trials: Trials) -> Result<Vec<Bindings>, Error> {
    let Trials { count, seed, .. } = trials;
    match trials.lengths {
        Lengths::Drawn => (0..count).map(|trial| drawn(graph, super::seed_of(seed, trial))).collect(),
        Lengths::Each => {
            let fits = |bindings: &Bindings| work(graph, bindings) <= trials.most_work;
            Ok(each(graph, count, seed).into_iter().filter(fits).collect())
        }
    }
}

fn drawn(graph: &Graph, seed: u64) -> Result<Bindings, Error> {
    let pool = |draw: u64| if draw.is_multiple_of(2) { LENGTHS.to_vec() } else { POWERS.to_vec() };
    accepted(graph, seed, None, &pool).ok_or_else(|| {
        let names: Vec<Name> = bind::dimensions(graph).into_iter().collect();
        // Without a choice, what is wrong is wrong with the one that there is.
        let faults = bind::relations(graph, &Bindings::new());
        Error::Call(if names.is_empty() { faults } else { vec![Fault::NoLengths(names)] })
    })
}

fn each(graph: &Graph, count: usize, seed: u64) -> Vec<Bindings> {
    let symbols = bind::dimensions(graph);
    if symbols.is_empty() {
        return vec![Bindings::new()];
    }
    let all: Vec<(&Name, i64)> = symbols.iter().flat_map(|s| ODD.map(|n| (s, n))).collect();
    let taken = count.min(all.len());
    // The seed says where the first one stands.
    let first = if taken == 0 { 0 } else { (seed % all.len().div_ceil(taken) as u64) as usize };
    let at = (0..taken).map(|k| all[(first + k * all.len() / taken) % all.len()]);
    at.filter_map(|(name, length)| {
        // Beside it such as divide it or are divided by it, from larger to smaller.
        let most = |draw: u64| [33, 8, 4, 2, 1][(draw * 5 / DRAWS) as usize];
        let pool = |draw: u64| -> Vec<i64> {
            let small = LENGTHS.into_iter().chain(POWERS).filter(|n| *n <= most(draw));
            small.chain([length, 2 * length].into_iter().filter(|_| draw % 4 == 3)).collect()
        };
        accepted(graph, seed, Some((name, length)), &pool)
    })
    .collect()
}

/// Dimensions that the model accepts and that the interpreter can cope with; the n-th draw is from `pool(n)`, but for the
/// one that is fixed.
fn accepted(
    graph: &Graph,
    seed: u64,
    fixed: Option<(&Name, i64)>,
    pool: &dyn Fn(u64) -> Vec<i64>,
) -> Option<Bindings> {
    let symbols = bind::dimensions(graph);
    let conditions = conditions(graph);
    let key = path_key(seed, "dimensions");
    let mut accepted: Vec<(i64, Bindings)> = Vec::new();
    for draw in 0..DRAWS {
        let lengths = pool(draw);
        let drawn = |at: u64| {
            let u = uniform(key, draw * symbols.len() as u64 + at);
            lengths[(u * lengths.len() as f64) as usize]
        };
        let wish = |(name, at): (&Name, u64)| match fixed {
            Some((own, length)) if own == name => (name.clone(), length),
            Some(_) | None => (name.clone(), drawn(at)),
        };
        let mut wishes: Vec<(Name, i64)> = symbols.iter().zip(0..).map(wish).collect();
        // What one dimension asks of another may be easier to meet from either side.
        let turned = (draw as usize / 2) % symbols.len().max(1);
        wishes.rotate_left(turned);
        wishes.sort_by_key(|(name, _)| fixed.is_none_or(|(own, _)| own != name));
        let Some(bindings) = fitting(&conditions, &wishes, fixed.is_some(), &lengths) else { continue };
        if bind::relations(graph, &bindings).is_empty() {
            let work = work(graph, &bindings);
            accepted.push((work, bindings));
            // Where a length is fixed, later draws are of smaller others.
            let tired = fixed.is_none() && accepted.len() == ACCEPTED;
            if work <= ENOUGH_WORK || symbols.is_empty() || tired {
                break;
            }
        }
    }
    accepted.into_iter().min_by_key(|(work, _)| *work).map(|(_, bindings)| bindings)
}

/// Something that a model asks of its dimensions, and the symbols in it.
struct Condition<'g> {
    symbols: BTreeSet<Name>,
    asked: Asked<'g>,
}

enum Asked<'g> {
    /// A relation that the source requires.
    Relation(&'g Requirement),
    /// An axis that has a length.
    Length(&'g Dim),
}

fn conditions(graph: &Graph) -> Vec<Condition<'_>> {
    let required = graph.requirements().iter().map(|requirement| {
        let (Relation::Equal(a, b) | Relation::Divides(a, b) | Relation::AtMost(a, b)) =
            &requirement.relation;
        let symbols = a.dimensions().into_iter().chain(b.dimensions()).collect();
        Condition { symbols, asked: Asked::Relation(requirement) }
    });
    let lengths: BTreeSet<&Dim> = bind::extents(graph).into_iter().map(|axis| graph.extent(axis)).collect();
    let lengths = lengths.into_iter().filter(|dim| dim.as_symbol().is_none());
    let lengths = lengths.map(|dim| Condition { symbols: dim.dimensions(), asked: Asked::Length(dim) });
    required.chain(lengths).collect()
}

impl Condition<'_> {
    fn holds(&self, known: &Bindings) -> bool {
        match self.asked {
            Asked::Relation(requirement) => requirement.check(known).is_ok(),
            Asked::Length(dim) => dim.eval(known).is_ok_and(|length| length >= 0),
        }
    }

    /// The value of a symbol that follows from the others, where the condition is an equation that can be solved for it.
    fn solution(&self, name: &Name, known: &Bindings) -> Option<i64> {
        let Asked::Relation(Requirement { relation: Relation::Equal(a, b), .. }) = self.asked else {
            return None;
        };
        let dims: BTreeMap<Symbol, Dim> =
            known.iter().map(|(name, value)| (name.into(), Dim::constant(*value))).collect();
        let side =
            |dim: &Dim, other: &Dim| bind::invert(&dim.substitute(&dims), name, other.eval(known).ok()?);
        side(a, b).or_else(|| side(b, a))
    }
}

/// Each symbol in turn with the length that is wished for it; where a condition that is then decided does not hold, with
/// another one. The first may be fixed.
fn fitting(
    conditions: &[Condition<'_>],
    wishes: &[(Name, i64)],
    is_fixed: bool,
    lengths: &[i64],
) -> Option<Bindings> {
    let mut known = Bindings::new();
    for (at, (name, wish)) in wishes.iter().enumerate() {
        let is_decided = |c: &&Condition<'_>| {
            c.symbols.contains(name) && c.symbols.iter().all(|s| s == name || known.contains_key(s))
        };
        let decided: Vec<&Condition<'_>> = conditions.iter().filter(is_decided).collect();
        let solutions = decided.iter().filter_map(|c| c.solution(name, &known));
        let others = solutions.chain(lengths.iter().copied()).chain(1..=SEARCHED);
        let others: Vec<i64> = if is_fixed && at == 0 { Vec::new() } else { others.collect() };
        let fits = |length: &i64| {
            let mut with = known.clone();
            with.insert(name.clone(), *length);
            decided.iter().all(|c| c.holds(&with))
        };
        let length = std::iter::once(*wish).chain(others).find(fits)?;
        known.insert(name.clone(), length);
    }
    Some(known)
}

/// Scalar operations of the interpreter, about.
pub(super) fn work(graph: &Graph, bindings: &Bindings) -> i64 {
    let extent = |a| graph.extent(a).eval(bindings).unwrap_or(i64::MAX);
    graph
        .ids()
        .map(|id| {
            let bound =
                if let Op::Reduce(_, axis) | Op::CumSum(_, axis) = graph.op(id) { Some(*axis) } else { None };
            graph.node(id).axes.iter().chain(bound).map(extent).fold(1, i64::saturating_mul)
        })
        .fold(0, i64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Engine, Model, Options};

    fn graph() -> Graph {
        let source = "model split[H](x: f32[T, D]) -> (y: f32[T, H, D / H]) {
            let E = D / H
            let y[t, h: H, e: E] = x[t, h * E + e]
            return y
        }";
        let options = Options { engine: Engine::Oracle, ..Options::default() };
        Model::compile(source, &options).unwrap().graph().clone()
    }

    #[test]
    fn dimensions_fit_the_model() {
        for seed in 0..50 {
            let found = drawn(&graph(), seed).unwrap();
            assert_eq!(found[&Name::from("D")] % found[&Name::from("H")], 0);
        }
    }

    /// Lengths that no draw of small ones would hit.
    #[test]
    fn lengths_are_found_that_equations_ask_for() {
        for (require, holds) in [
            ("D == 24 * H", (|d, h| d == 24 * h) as fn(i64, i64) -> bool),
            ("D == 3 * H + 100", |d, h| d == 3 * h + 100),
            ("H == 41", |_, h| h == 41),
            ("D % H == 0 and H >= 9", |d, h| d % h == 0 && h >= 9),
        ] {
            let parts: Vec<String> =
                require.split(" and ").map(|part| format!("require {part}, \"why\"")).collect();
            let source = format!(
                "model m(x: f32[D], y: f32[H]) -> (z: f32[D]) {{ {} return x + sum(y) }}",
                parts.join("\n")
            );
            let options = Options { engine: Engine::Oracle, ..Options::default() };
            let graph = Model::compile(&source, &options).unwrap().graph().clone();
            for seed in 0..20 {
                let found = drawn(&graph, seed).unwrap();
                assert!(holds(found[&Name::from("D")], found[&Name::from("H")]), "{require}: {found:?}");
            }
        }
    }

    #[test]
    fn lengths_that_are_not_found_are_not_said_to_be_undetermined() {
        let source = "model m(x: f32[D], y: f32[H]) -> (z: f32[D]) { require D * D == 7 * H * H, \"why\" return x + sum(y) }";
        let options = Options { engine: Engine::Oracle, ..Options::default() };
        let graph = Model::compile(source, &options).unwrap().graph().clone();
        let expected = "no lengths of `D` and `H` were found that the model accepts; give some with --set D=LENGTH --set H=LENGTH";
        assert_eq!(drawn(&graph, 1).unwrap_err().to_string(), expected);
    }

    #[test]
    fn each_dimension_has_each_length() {
        let all = each(&graph(), usize::MAX, 1);
        for name in ["T", "D", "H"].map(Name::from) {
            for length in ODD {
                assert!(all.iter().any(|b| b[&name] == length), "{name} = {length}");
            }
        }
        assert!(all.iter().all(|b| b[&Name::from("D")] % b[&Name::from("H")] == 0));
        let some = each(&graph(), 4, 1);
        assert_eq!(some.len(), 4);
        assert!(some.iter().all(|b| all.contains(b)), "a selection of the same");
        assert_ne!(some, each(&graph(), 4, 2), "another one by another seed");
    }
}
