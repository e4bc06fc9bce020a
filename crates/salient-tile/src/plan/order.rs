//! In which order kernels run: first what runs once, and several products of the same rows as one kernel.
//!
//! Products of one left operand (queries, keys and values of an attention) read it block of rows by block of rows together,
//! while it is in the cache, and threads have one job to begin and to end where there were several: horizontal fusion.

use super::{Anchor, Gemm, KernelPlan};
use crate::plan::contraction::{outer_axes, rows_of};
use crate::program::kernel::{Buffer, BufferId, Role};
use salient_ir::{Dim, Graph};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// How many kernels on a product is looked for that reads what another does.
const WINDOW: usize = 16;

/// The kernels as they run, those of a set as one, and how many sets run once; `joins` says of two kernels whether they may be
/// one. Buffers that other kernels read of these become [`Role::Loaded`].
pub(crate) fn order(
    g: &Graph,
    buffers: &mut [Buffer],
    kernels: &[KernelPlan],
    joins: impl Fn(usize, usize) -> bool,
) -> (Vec<Vec<usize>>, usize) {
    let runs = |at: &usize| !matches!(kernels[*at].anchor, Anchor::Alias(_));
    let (once, every): (Vec<usize>, Vec<usize>) =
        (0..kernels.len()).filter(runs).partition(|at| kernels[*at].once);
    let loaded: BTreeSet<BufferId> = once.iter().map(|at| kernels[*at].buffer).collect();
    for id in every.iter().flat_map(|at| kernels[*at].reads().intersection(&loaded)) {
        buffers[id.0].role = Role::Loaded;
    }
    let loads = once.len();
    let mut order: Vec<Vec<usize>> = once.into_iter().map(|at| vec![at]).collect();
    order.extend(joint(g, buffers, kernels, &every, joins));
    (order, loads)
}

/// Kernels in order, those together that are to be one.
fn joint(
    g: &Graph,
    buffers: &[Buffer],
    kernels: &[KernelPlan],
    order: &[usize],
    joins: impl Fn(usize, usize) -> bool,
) -> Vec<Vec<usize>> {
    let rows: Vec<Option<(BufferId, Dim)>> =
        order.iter().map(|at| shared_rows(g, buffers, &kernels[*at])).collect();
    let mut beside: BTreeMap<BufferId, Vec<usize>> = BTreeMap::new();
    for (at, host) in order.iter().enumerate().filter_map(|(at, k)| Some((at, host_of(&kernels[*k])?))) {
        beside.entry(host).or_default().push(at);
    }
    let mut taken = vec![false; order.len()];
    let mut sets = Vec::new();
    for at in 0..order.len() {
        if taken[at] {
            continue;
        }
        let mut set = vec![order[at]];
        // What is stored beside an attention is stored by its kernel.
        for other in beside.get(&kernels[order[at]].buffer).into_iter().flatten() {
            taken[*other] = true;
            set.push(order[*other]);
        }
        let others = if rows[at].is_none() { at..at } else { at + 1..order.len() };
        for other in others.take(WINDOW) {
            let is_alike = rows[at] == rows[other] && joins(order[at], order[other]);
            if !taken[other] && is_alike && may_move(kernels, order, at..other, other) {
                taken[other] = true;
                set.push(order[other]);
            }
        }
        sets.push(set);
    }
    sets
}

/// The rows that the items of a product go through, where others may share them: the buffer, and how many there are.
pub(crate) fn shared_rows(g: &Graph, buffers: &[Buffer], kernel: &KernelPlan) -> Option<(BufferId, Dim)> {
    let Anchor::Gemm(Gemm { contraction, left, .. }) = &kernel.anchor else { return None };
    let buffer = left.buffer()?;
    let alone = outer_axes(contraction, &buffers[kernel.buffer.0].axes).is_empty();
    alone.then(|| (buffer, rows_of(g, contraction)))
}

/// Where the attention is stored whose kernel stores what this one is for.
pub(crate) fn host_of(kernel: &KernelPlan) -> Option<BufferId> {
    let Anchor::Beside(of) = &kernel.anchor else { return None };
    Some(of.host)
}

/// Whether a kernel may run where the first of those before it does.
fn may_move(kernels: &[KernelPlan], order: &[usize], before: Range<usize>, at: usize) -> bool {
    let kernel = &kernels[order[at]];
    order[before].iter().map(|other| &kernels[*other]).all(|other| {
        !kernel.reads().contains(&other.buffer)
            && kernel.buffer != other.buffer
            && !other.reads().contains(&kernel.buffer)
    })
}
