//! Parameters without a checkpoint: the initialisers of the source, drawn from a seed.
//!
//! Drawing is by counter: element `n` of the parameter at a path depends on the seed, the path and `n` alone, so that
//! neither the order of the parameters nor the presence of others changes a value.
//!
//! The generator is Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011).

use salient_ir::array::{Array, ArrayError, collected, filled};
use salient_ir::eval::{Data, EvalError, Oracle};
use salient_ir::math::{philox, unit};
use salient_ir::{Bindings, Graph, Init, NodeId, Port};
use std::collections::BTreeMap;

/// Why a parameter cannot be initialised.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum InitError {
    /// A bound of the initialiser has no value.
    #[error(transparent)]
    Bound(#[from] EvalError),
    /// The parameter does not fit in memory.
    #[error(transparent)]
    Array(#[from] ArrayError),
}

/// The parameter's initial value under `bindings`, or `None` if it declares no initialiser.
pub(crate) fn initial(
    graph: &Graph,
    port: &Port,
    bindings: &Bindings,
    seed: u64,
) -> Result<Option<Array>, InitError> {
    let Some(init) = port.init else { return Ok(None) };
    let mut shape = Vec::with_capacity(port.axes.len());
    for dim in graph.shape(&port.axes) {
        let extent = dim.eval(bindings).map_err(EvalError::Dim)?;
        shape
            .push(usize::try_from(extent).map_err(|_| EvalError::NegativeExtent(port.name.clone(), extent))?);
    }
    let count = salient_ir::array::element_count(&shape, port.dtype)?;
    let bound = |node: NodeId| scalar(graph, bindings, node);
    let key = path_key(seed, &port.name);
    let values = match init {
        Init::Zeros => filled(0.0, count),
        Init::Ones => filled(1.0, count),
        Init::Normal(std) => {
            let std = bound(std)?;
            collected(count, (0..count as u64).map(|n| std * normal(key, n)))
        }
        Init::Uniform(low, high) => {
            let (low, high) = (bound(low)?, bound(high)?);
            collected(count, (0..count as u64).map(|n| low + (high - low) * uniform(key, n)))
        }
    };
    let values = values.ok_or_else(|| ArrayError::no_memory(port.dtype, &shape))?;
    Ok(Some(Array::from_f64(port.dtype, shape, &values)?))
}

fn scalar(graph: &Graph, bindings: &Bindings, node: NodeId) -> Result<f64, EvalError> {
    let none = BTreeMap::new();
    let oracle = Oracle::new(graph, bindings, Data { inputs: &none, params: &none })?;
    oracle.value(node, &mut vec![0; graph.axes().len()])
}

/// The generator's key for a tensor: its name or path hashed (FNV-1a) onto the seed.
pub(crate) fn path_key(seed: u64, path: &str) -> [u32; 2] {
    let hash = path.bytes().fold(0xcbf2_9ce4_8422_2325 ^ seed, |h, byte| {
        (h ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    [hash as u32, (hash >> 32) as u32]
}

/// Uniform in [0, 1): 24 bits, as many as an f32 keeps.
pub(crate) fn uniform(key: [u32; 2], n: u64) -> f64 {
    unit(block(key, n)[0])
}

/// Standard normal (Box and Muller).
pub(crate) fn normal(key: [u32; 2], n: u64) -> f64 {
    let [a, b, ..] = block(key, n);
    // 1 - u is in (0, 1]: its logarithm is finite.
    (-2.0 * (1.0 - unit(a)).ln()).sqrt() * (std::f64::consts::TAU * unit(b)).cos()
}

fn block(key: [u32; 2], n: u64) -> [u32; 4] {
    philox([n as u32, (n >> 32) as u32, 0, 0], key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use salient_ir::{Builder, Const, DType, Dim};

    fn params(paths: &[&str]) -> (Graph, Bindings) {
        let mut b = Builder::new("test");
        let (t, d) = (b.axis_id("t", &Dim::symbol("T")), b.axis_id("d", &Dim::symbol("D")));
        let two = b.constant(Const::f32(2.0));
        let three = b.constant(Const::f32(3.0));
        for path in paths {
            let init = if path.starts_with('n') { Init::Normal(two) } else { Init::Uniform(two, three) };
            let x = b.param(path, &[t, d], DType::F32, Some(init), None);
            b.output(path, &[t, d], x).unwrap();
        }
        (b.finish(), Bindings::from([("T".into(), 100), ("D".into(), 50)]))
    }

    fn values(paths: &[&str], path: &str, seed: u64) -> Vec<f32> {
        let (g, bindings) = params(paths);
        let port = g.params().iter().find(|p| &*p.name == path).unwrap();
        let array = initial(&g, port, &bindings, seed).unwrap().unwrap();
        assert_eq!(array.shape(), [100, 50]);
        array.as_f32().unwrap().to_vec()
    }

    #[test]
    fn values_depend_on_seed_and_path_alone() {
        let alone = values(&["u"], "u", 7);
        assert_eq!(alone, values(&["n", "u.x", "u"], "u", 7));
        assert_ne!(alone, values(&["u"], "u", 8));
        assert_ne!(alone, values(&["v"], "v", 7));
    }

    #[test]
    fn draws_have_the_moments_that_were_asked_for() {
        let n = 5000.0;
        let moments = |v: &[f32]| {
            let mean = v.iter().map(|x| f64::from(*x)).sum::<f64>() / n;
            (mean, v.iter().map(|x| (f64::from(*x) - mean).powi(2)).sum::<f64>() / n)
        };
        // Bounds of six standard errors; the draw is fixed by its seed.
        let (mean, variance) = moments(&values(&["n"], "n", 1));
        assert!(mean.abs() < 6.0 * 2.0 / n.sqrt() && (variance - 4.0).abs() < 6.0 * 4.0 * (2.0 / n).sqrt());
        let uniform = values(&["u"], "u", 1);
        let (mean, variance) = moments(&uniform);
        assert!((mean - 2.5).abs() < 6.0 * 0.289 / n.sqrt() && (variance - 1.0 / 12.0).abs() < 0.01);
        assert!(uniform.iter().all(|x| (2.0..=3.0).contains(x)));
    }
}
