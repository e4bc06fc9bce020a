//! The kernels of a plan with their work, prices and times.

use super::{number, runs, when};
use crate::compile::options::Options;
use crate::compile::pipeline::lanes;
use crate::report::cost::Cost;
use salient_draw::page::Kernel;
use salient_ir::Bindings;
use salient_tile::Plan;
use salient_tile::plan::text::lines::Made;

/// The kernels that are shown: those of later blocks that equal a first one are counted with it.
pub(super) struct Kept {
    /// Positions among the plan's kernels.
    pub(super) kernels: Vec<usize>,
    /// For each of the plan's kernels the position among those that are shown.
    pub(super) place: Vec<usize>,
}

impl Kept {
    /// The shown kernels for some of the plan's, each once, in order.
    pub(super) fn places(&self, of: impl IntoIterator<Item = usize>) -> Vec<usize> {
        let mut places: Vec<usize> = of.into_iter().map(|at| self.place[at]).collect();
        places.sort_unstable();
        places.dedup();
        places
    }
}

/// Which kernels are shown.
pub(super) fn kept(made: &[Made]) -> Kept {
    let mut kept = Kept { kernels: Vec::new(), place: vec![0; made.len()] };
    for (at, _) in made.iter().enumerate().filter(|(_, kernel)| kernel.repeats.is_none()) {
        kept.place[at] = kept.kernels.len();
        kept.kernels.push(at);
    }
    for (at, kernel) in made.iter().enumerate() {
        if let Some(first) = kernel.repeats {
            kept.place[at] = kept.place[first];
        }
    }
    kept
}

/// The kernels that are shown; `measured` are times by name, in the order in which they ran.
pub(super) fn kernels(
    plan: &Plan<'_>,
    kept: &Kept,
    (sizes, options): (&Bindings, &Options),
    measured: &[(String, f64)],
) -> Vec<Kernel> {
    let summary = plan.summary();
    let lanes = lanes(options);
    let price = plan.price(sizes, &options.tuning.peaks);
    let shown = |(place, at): (usize, &usize)| {
        let of = &summary[*at];
        let cost = Cost::of_kernel(of, lanes);
        let price = price.as_ref().map(|price| &price.kernels[*at]).filter(|price| price.seconds > 0.0);
        let is_run = !of.once && runs(of, sizes);
        // A kernel and the one that it was put together with go by the name of the first.
        let first = of.name.split('+').next().unwrap_or_default();
        let time =
            measured.iter().find(|(name, time)| (*name == of.name || name == first) && time.is_finite());
        Kernel {
            name: of.name.clone(),
            word: of.word.to_owned(),
            computes: of.computes.clone(),
            times: kept.place.iter().filter(|other| **other == place).count(),
            once: of.once,
            when: when(of),
            flops: number(&cost.flops, sizes),
            bytes: number(&cost.bytes, sizes),
            priced: price.map(|price| price.seconds * 1e3),
            bound: price.map(|price| price.bound.name().to_owned()),
            measured: time.filter(|_| is_run).map(|(_, time)| *time),
        }
    };
    kept.kernels.iter().enumerate().map(shown).collect()
}
