//! A program that fails, made smaller while it fails.
//!
//! Knows nothing of failures but whether there is one.

use salient::Graph;
use salient_ir::{AxisId, Builder, Const, DType, NodeId, Op};

/// What stands for a node.
#[derive(Clone, Copy, Debug)]
enum Instead {
    /// One of its arguments.
    Argument(usize),
    /// A new input with its axes.
    Input,
    /// A number.
    Number(f32),
}

/// The smallest program that was found to fail, trying at most so many.
pub fn shrink(graph: &Graph, tries: usize, mut fails: impl FnMut(&Graph) -> bool) -> Graph {
    let mut best = graph.clone();
    let mut left = tries;
    let mut attempt = |candidate: Option<Graph>, best: &mut Graph, left: &mut usize| {
        let Some(candidate) = candidate.filter(|c| *left > 0 && smaller(c, best)) else { return false };
        *left -= 1;
        let found = fails(&candidate);
        if found {
            *best = candidate;
        }
        found
    };
    loop {
        let before = best.len();
        // One value alone, the earliest.
        let whole = best.clone();
        for id in whole.ids().filter(|id| !is_source(&whole, *id)) {
            if attempt(rebuilt(&whole, Some(id), None), &mut best, &mut left) {
                break;
            }
        }
        // Nodes give way, the last first.
        let mut at = best.len();
        while at > 0 {
            at = (at - 1).min(best.len() - 1);
            let id = best.ids().nth(at).expect("it is below the length");
            let arguments = (0..best.args(id).len()).map(Instead::Argument);
            let others = [Instead::Number(0.0), Instead::Number(1.0), Instead::Input];
            for instead in arguments.chain(others) {
                let candidate = rebuilt(&best, None, Some((id, instead)));
                if attempt(candidate, &mut best, &mut left) {
                    break;
                }
            }
        }
        if best.len() >= before || left == 0 {
            return best;
        }
    }
}

fn is_source(graph: &Graph, id: NodeId) -> bool {
    matches!(graph.op(id), Op::Input(_) | Op::Param(_) | Op::Const(_) | Op::Iota(_) | Op::Extent(_))
}

/// Fewer nodes, or as many of which fewer compute.
fn smaller(a: &Graph, b: &Graph) -> bool {
    let size = |g: &Graph| {
        (g.ids().filter(|id| !is_source(g, *id)).count(), g.len(), g.outputs().len(), g.inputs().len())
    };
    size(a) < size(b)
}

/// The program with one node as the only output, or with something else in a node's place; without the inputs that it
/// does not read, and without states.
fn rebuilt(graph: &Graph, alone: Option<NodeId>, swapped: Option<(NodeId, Instead)>) -> Option<Graph> {
    let mut b = Builder::new(graph.name());
    for (_, axis) in graph.axes() {
        b.axis_id(&axis.name, &axis.extent);
    }
    let live = needed(graph, alone, swapped);
    let mut ids: Vec<Option<NodeId>> = vec![None; graph.len()];
    for id in graph.ids().filter(|id| live[id.index()]) {
        let args = graph.args(id);
        let new = match swapped {
            Some((at, instead)) if at == id => replaced(graph, &mut b, id, instead, &ids)?,
            _ => {
                let args: Option<Vec<NodeId>> = args.iter().map(|a| ids[a.index()]).collect();
                again(graph, &mut b, id, &args?)?
            }
        };
        ids[id.index()] = Some(new);
    }
    match alone {
        Some(id) => {
            let node = ids[id.index()]?;
            let axes: Vec<AxisId> = graph.node(id).axes.iter().collect();
            b.output("y", &axes, node).ok()?;
        }
        None => {
            for output in graph.outputs() {
                b.output(&output.name, &output.axes, ids[output.node.index()]?).ok()?;
            }
        }
    }
    Some(b.finish())
}

/// Which nodes the program has when that is done.
fn needed(graph: &Graph, alone: Option<NodeId>, swapped: Option<(NodeId, Instead)>) -> Vec<bool> {
    let mut live = vec![false; graph.len()];
    match alone {
        Some(id) => live[id.index()] = true,
        None => graph.outputs().iter().for_each(|o| live[o.node.index()] = true),
    }
    for id in graph.ids().rev().filter(|id| live[id.index()]).collect::<Vec<_>>() {
        mark(graph, id, swapped, &mut live);
    }
    live
}

fn mark(graph: &Graph, root: NodeId, swapped: Option<(NodeId, Instead)>, live: &mut [bool]) {
    let mut waiting = vec![root];
    while let Some(id) = waiting.pop() {
        live[id.index()] = true;
        let args = graph.args(id);
        let reads: Vec<NodeId> = match swapped {
            Some((at, Instead::Argument(n))) if at == id => args.get(n).copied().into_iter().collect(),
            Some((at, Instead::Input | Instead::Number(_))) if at == id => Vec::new(),
            _ => args.to_vec(),
        };
        waiting.extend(reads.into_iter().filter(|a| !live[a.index()]));
    }
}

fn replaced(
    graph: &Graph,
    b: &mut Builder,
    id: NodeId,
    instead: Instead,
    ids: &[Option<NodeId>],
) -> Option<NodeId> {
    let node = graph.node(id);
    match instead {
        Instead::Argument(n) => {
            let arg = *graph.args(id).get(n)?;
            (graph.node(arg).dtype == node.dtype && graph.node(arg).axes.is_subset(&node.axes))
                .then(|| ids[arg.index()])
                .flatten()
        }
        Instead::Input if is_source(graph, id) => None,
        Instead::Input => {
            let axes: Vec<AxisId> = node.axes.iter().collect();
            Some(b.input(&format!("made{}", id.index()), &axes, node.dtype, None))
        }
        Instead::Number(_) if matches!(node.op, Op::Const(_) | Op::Iota(_) | Op::Extent(_)) => None,
        Instead::Number(x) => (node.dtype == DType::F32).then(|| b.constant(Const::f32(x))),
    }
}

fn again(graph: &Graph, b: &mut Builder, id: NodeId, args: &[NodeId]) -> Option<NodeId> {
    match graph.op(id) {
        Op::Input(_) => {
            let p = graph.port(id)?;
            Some(b.input(&p.name, &p.axes, p.dtype, None))
        }
        Op::Param(_) => {
            let p = graph.port(id)?;
            Some(b.param(&p.name, &p.axes, p.dtype, None, None))
        }
        Op::At(axis) => b.at(args[0], *axis, args[1]).ok(),
        // A part without its axis would be no part.
        Op::Concat(_, parts) => {
            let whole = parts.iter().zip(args).all(|(p, a)| b.node(*a).axes.contains(*p));
            whole.then(|| b.add(graph.op(id).clone(), args).ok()).flatten()
        }
        op @ (Op::Const(_)
        | Op::Iota(_)
        | Op::Extent(_)
        | Op::Map(_)
        | Op::Reduce(..)
        | Op::CumSum(..)
        | Op::Fused(..)) => b.add(op.clone(), args).ok(),
    }
}
