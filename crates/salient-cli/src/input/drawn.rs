//! Arrays that are drawn at random, of a kind for each.

use crate::input::arrays::CallArrays;
use crate::output::failure::{Failure, Outcome};
use crate::output::terminal;
use salient::{Array, Arrays, Bindings, DType, Graph, Name, Port, listed};
use std::collections::BTreeSet;
use std::str::FromStr;

/// What is drawn of a call: parameters, and inputs that nothing gives.
#[derive(clap::Args)]
pub(crate) struct Drawing {
    /// Draw the parameters that no file gives from their initialisers, with this seed
    #[arg(long, value_name = "SEED")]
    init: Option<u64>,
    /// Draw the inputs that nothing gives at random, and parameters as by --init (where none are given, those without an initialiser too), with this seed; a dimension that nothing gives has a small length
    #[arg(long, value_name = "SEED", num_args = 0..=1, default_missing_value = "1")]
    pub(crate) random: Option<u64>,
    /// What the elements of a drawn input are drawn from: normal, uniform(LOW,HIGH), LOW..HIGH, bool01, zeros or ones
    #[arg(long, value_name = "NAME=KIND", value_parser = named, requires = "random")]
    pub(crate) draw: Vec<(String, Kind)>,
}

impl Drawing {
    /// From which parameters are drawn that nothing gives.
    pub(crate) fn seed(&self) -> Option<u64> {
        self.init.or(self.random)
    }
}

/// What elements are drawn from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Kind {
    /// The normal distribution of mean 0 and deviation 1.
    Normal,
    /// Evenly from the first number to below the second.
    Uniform(f64, f64),
    /// Integers from the first to below the second.
    Integers(i64, i64),
    /// 0 or 1, false or true.
    Bool01,
    /// All of one value.
    All(f64),
}

/// How kinds are written, for help and messages.
pub(crate) const KINDS: &str = "normal, uniform(LOW,HIGH), LOW..HIGH, bool01, zeros or ones";

impl FromStr for Kind {
    type Err = String;

    fn from_str(text: &str) -> Result<Kind, String> {
        let unknown = || format!("`{text}` is no kind of random numbers; there are {KINDS}");
        let two = |text: &str, by: &str| {
            let (low, high) = text.split_once(by)?;
            Some((low.trim().to_owned(), high.trim().to_owned()))
        };
        match text {
            "normal" => return Ok(Kind::Normal),
            "bool01" => return Ok(Kind::Bool01),
            "zeros" => return Ok(Kind::All(0.0)),
            "ones" => return Ok(Kind::All(1.0)),
            _ => {}
        }
        if let Some(inside) = text.strip_prefix("uniform(").and_then(|rest| rest.strip_suffix(')')) {
            let (low, high) = two(inside, ",").ok_or_else(unknown)?;
            let number = |text: &str| text.parse().map_err(|_| unknown());
            let (low, high): (f64, f64) = (number(&low)?, number(&high)?);
            let is_range = low.is_finite() && high.is_finite() && low < high;
            return if is_range { Ok(Kind::Uniform(low, high)) } else { Err(unknown()) };
        }
        let (low, high) = two(text, "..").ok_or_else(unknown)?;
        let number = |text: &str| text.parse().map_err(|_| unknown());
        let (low, high): (i64, i64) = (number(&low)?, number(&high)?);
        if low < high { Ok(Kind::Integers(low, high)) } else { Err(unknown()) }
    }
}

/// `NAME=KIND` of a flag.
pub(crate) fn named(text: &str) -> Result<(String, Kind), String> {
    let (name, kind) = text.split_once('=').ok_or_else(|| format!("write NAME=KIND; kinds are {KINDS}"))?;
    Ok((name.to_owned(), kind.parse()?))
}

/// The length of a dimension that nothing gives, where inputs are drawn.
const LENGTH: i64 = 8;

/// Draws the inputs of a call that are not given, with the usual lengths of dimensions, where there are such; and where no
/// parameters are given at all, those that have no initialiser or dimensions that no input has.
pub(crate) fn fill(
    graph: &Graph,
    given: &mut CallArrays,
    kinds: (u64, &[(String, Kind)]),
    usual: &Bindings,
) -> Outcome {
    let mut lengths: Bindings = graph.growths().into_iter().map(|growth| (growth.held, 0)).collect();
    for port in graph.inputs() {
        let Some(array) = given.inputs.get(&port.name) else { continue };
        for (dim, length) in graph.shape(&port.axes).iter().zip(array.shape()) {
            if let Some(name) = dim.as_dimension() {
                lengths.entry(name.clone()).or_insert(*length as i64);
            }
        }
    }
    let missing = |port: &&Port| given.inputs.get(&port.name).is_none();
    let missing: Vec<&Port> = graph.inputs().iter().filter(missing).collect();
    let dims_of = |port: &Port| -> BTreeSet<Name> {
        graph.shape(&port.axes).iter().flat_map(|dim| dim.dimensions()).collect()
    };
    let of_inputs: BTreeSet<Name> = graph.inputs().iter().flat_map(dims_of).collect();
    let is_drawn = |port: &&Port| port.init.is_none() || !dims_of(port).is_subset(&of_inputs);
    let has_weights = !given.weights.is_empty();
    let params: Vec<&Port> =
        if has_weights { Vec::new() } else { graph.params().iter().filter(is_drawn).collect() };
    let dims = missing.iter().chain(&params).flat_map(|port| dims_of(port));
    let unset: BTreeSet<Name> = dims.filter(|name| !lengths.contains_key(name)).collect();
    if !unset.is_empty() {
        let length = |name: &Name| usual.get(name).copied().unwrap_or(LENGTH);
        let words: Vec<String> = unset.iter().map(|name| format!("{name} = {}", length(name))).collect();
        let words = listed(words.iter().map(String::as_str));
        terminal::note(&format!("note: at {words}, as nothing gives them; `--set` gives others\n"));
        lengths.extend(unset.iter().map(|name| (name.clone(), length(name))));
    }
    let (seed, draw) = kinds;
    let drawn = arrays(graph, missing.into_iter(), &lengths, kinds)?;
    for (name, array) in drawn.iter() {
        given.inputs.insert(name, array.clone())?;
    }
    let drawn = arrays(graph, params.into_iter(), &lengths, (seed.wrapping_add(1), draw))?;
    for (name, array) in drawn.iter() {
        given.weights.insert(name, array.clone())?;
    }
    Ok(())
}

/// Random arrays for some inputs or parameters of a model, at these lengths. What no kind is said for: normal numbers, integers of
/// zero, true.
pub(crate) fn arrays<'p>(
    graph: &Graph,
    ports: impl Iterator<Item = &'p Port>,
    lengths: &Bindings,
    (seed, kinds): (u64, &[(String, Kind)]),
) -> Outcome<Arrays> {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut out = Arrays::new();
    for port in ports {
        let mut shape = Vec::new();
        for dim in graph.shape(&port.axes) {
            let known = dim.eval(lengths).ok().and_then(|n| usize::try_from(n).ok());
            shape.push(known.ok_or_else(|| unknown(graph, lengths))?);
        }
        let kind = kinds.iter().find(|(name, _)| **name == *port.name).map(|(_, kind)| *kind);
        let usual = match port.dtype {
            DType::F32 | DType::F16 | DType::BF16 => Kind::Normal,
            DType::I32 | DType::I64 => Kind::All(0.0),
            DType::Bool => Kind::All(1.0),
        };
        out.insert(&*port.name, array(port, shape, kind.unwrap_or(usual), &mut rng)?)
            .map_err(salient::Error::from)?;
    }
    Ok(out)
}

fn array(port: &Port, shape: Vec<usize>, kind: Kind, rng: &mut fastrand::Rng) -> Outcome<Array> {
    let too_large = || Failure::call(format!("`{}`: {shape:?} does not fit into memory", port.name));
    let count = shape.iter().try_fold(1, |n: usize, extent| n.checked_mul(*extent)).ok_or_else(too_large)?;
    let mut values: Vec<f64> = Vec::new();
    values.try_reserve_exact(count).map_err(|_| too_large())?;
    values.extend((0..count).map(|_| kind.draw(rng)));
    let refused = |e: &dyn std::fmt::Display| Failure::call(format!("`{}`: {e}", port.name));
    let drawn = Array::from_f64(port.dtype.compute(), shape, &values).map_err(|e| refused(&e))?;
    Ok(drawn.rounded_to(port.dtype))
}

impl Kind {
    fn draw(self, rng: &mut fastrand::Rng) -> f64 {
        match self {
            // Box and Muller's normal numbers from uniform ones.
            Kind::Normal => {
                let (u, v) = (1.0 - rng.f64(), rng.f64());
                f64::from(((-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()) as f32)
            }
            Kind::Uniform(low, high) => f64::from((low + (high - low) * rng.f64()) as f32),
            Kind::Integers(low, high) => rng.i64(low..high) as f64,
            Kind::Bool01 => f64::from(u8::from(rng.bool())),
            Kind::All(value) => value,
        }
    }
}

/// Says which dimensions of a model have no length.
fn unknown(graph: &Graph, lengths: &Bindings) -> Failure {
    let ports = graph.inputs().iter().chain(graph.params());
    let dims = ports.flat_map(|port| graph.shape(&port.axes)).flat_map(|dim| dim.dimensions());
    let names: BTreeSet<String> =
        dims.filter(|name| !lengths.contains_key(name)).map(|name| name.to_string()).collect();
    let names = listed(names.iter().map(String::as_str));
    let model = graph.name();
    Failure::call(format!("`{model}` has no lengths for {names}: give each with --set NAME=VALUE"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_read() {
        let kind = |text: &str| text.parse::<Kind>();
        assert_eq!(kind("uniform(-1, 1.5)"), Ok(Kind::Uniform(-1.0, 1.5)));
        assert_eq!(kind("-2..100"), Ok(Kind::Integers(-2, 100)));
        assert_eq!(kind("ones"), Ok(Kind::All(1.0)));
        for wrong in ["", "gauss", "5..5", "uniform(1,1)", "uniform(1)", "uniform(0,inf)", "1.5..2"] {
            assert!(kind(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_is_drawn_is_of_its_kind() {
        let mut rng = fastrand::Rng::with_seed(1);
        for _ in 0..100 {
            assert!((-1.0..2.0).contains(&Kind::Uniform(-1.0, 2.0).draw(&mut rng)));
            assert!((3.0..5.0).contains(&Kind::Integers(3, 5).draw(&mut rng)));
            assert!([0.0, 1.0].contains(&Kind::Bool01.draw(&mut rng)));
        }
    }
}
