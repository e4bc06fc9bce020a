//! Graphs and plans as drawings: a box for each value that the source names, or for each kernel, with what is inside of it.

use crate::compile::choose::Candidates;
use crate::compile::options::Options;
use crate::compile::pipeline::{lower, optimise, plan_of_unfused, verified};
use crate::compile::stage::{Engine, Stage};
use crate::report::error::Error;
use crate::report::timings::{Step, Timings};
use salient_draw::graph::{Drawing, Edge, Role, Row, Shape};
use salient_front::Sources;
use salient_ir::{Dim, Graph, NodeId, Op};
use salient_tile::Plan;
use salient_tile::plan::text::facts::layer_of;
use salient_tile::plan::text::outline::{Read, Unit};
use std::collections::{BTreeMap, BTreeSet};

/// The drawing of a graph, a fused graph or a plan, equal layers together; there are none of other stages.
///
/// # Errors
/// As [`lower`].
pub fn drawing(
    sources: &Sources,
    stage: Stage,
    options: &Options,
    timings: &mut Timings,
) -> Result<Option<Drawing>, Error> {
    let graph = timings.time(Step::Lower, || lower(sources, options))?.graph;
    let title = format!("{stage} of {}", graph.name());
    let drawn = match stage {
        Stage::Graph => of_graph(&graph),
        Stage::Fused => match options.engine {
            Engine::Jit => of_graph(&timings.time(Step::Optimise, || optimise(&graph, options)).graph),
            Engine::Unfused | Engine::Oracle => of_graph(&graph),
        },
        Stage::Plan => match options.engine {
            Engine::Jit => {
                let optimised = timings.time(Step::Optimise, || optimise(&graph, options));
                let candidates = Candidates::new(&graph, &optimised, options);
                of_plan(verified(&candidates.choose(false).0, options))
            }
            Engine::Unfused | Engine::Oracle => of_plan(&plan_of_unfused(&graph, options)),
        },
        Stage::Source | Stage::Kernels | Stage::Memory | Stage::Clif | Stage::Asm => {
            return Ok(None);
        }
    };
    Ok(Some(Drawing { title, ..drawn.folded() }))
}

/// A size in bytes: as people say it, or as a formula.
fn bytes(count: &Dim, size: usize) -> String {
    let bytes = count * &Dim::constant(i64::try_from(size).unwrap_or(i64::MAX));
    match bytes.as_constant() {
        None => format!("{} bytes", bytes.to_string().replace(" * ", "·")),
        Some(n) if n < 10_000 => format!("{n} bytes"),
        Some(n) if n < 10_000_000 => format!("{:.1} KB", n as f64 / 1e3),
        Some(n) => format!("{:.1} MB", n as f64 / 1e6),
    }
}

/// The number of elements of a value.
fn count(g: &Graph, id: NodeId) -> Dim {
    g.node(id).axes.iter().fold(Dim::constant(1), |n, axis| &n * g.extent(axis))
}

/// The block that a path numbers.
fn layer_of_path(path: &str) -> Option<(String, usize)> {
    let mut at = 0;
    for part in path.split('.') {
        if let Ok(number) = part.parse() {
            return Some((path[..at].to_owned(), number));
        }
        at += part.len() + 1;
    }
    None
}

fn input(g: &Graph, at: usize) -> Shape {
    let port = &g.inputs()[at];
    let dims: Vec<String> = port.axes.iter().map(|axis| g.extent(*axis).to_string()).collect();
    Shape {
        role: Role::Input,
        title: port.name.to_string(),
        rows: vec![Row::Note(format!("{}[{}]", port.dtype, dims.join(", ")))],
        layer: layer_of_path(&port.name),
        nodes: g.ids().filter(|id| *g.op(*id) == Op::Input(at)).map(NodeId::index).collect(),
    }
}

fn output(g: &Graph, at: usize) -> Shape {
    let out = &g.outputs()[at];
    let dims: Vec<String> = out.axes.iter().map(|axis| g.extent(*axis).to_string()).collect();
    Shape {
        role: Role::Output,
        title: out.name.to_string(),
        rows: vec![Row::Note(format!("{}[{}]", out.dtype, dims.join(", ")))],
        layer: layer_of_path(&out.name),
        nodes: Vec::new(),
    }
}

fn of_plan(plan: &Plan<'_>) -> Drawing {
    let g = plan.graph();
    let units = plan.outline();
    let inputs = g.inputs().len();
    let mut boxes: Vec<Shape> = (0..inputs).map(|at| input(g, at)).collect();
    let mut edges = Vec::new();
    let size = |buffer: usize| {
        let buffer = &plan.buffers()[buffer];
        bytes(&buffer.count(), buffer.dtype.size())
    };
    for (at, unit) in units.iter().enumerate() {
        boxes.push(kernel(unit));
        for (read, buffer) in &unit.reads {
            let from = match read {
                Read::Input(input) => *input,
                Read::Unit(unit) => inputs + unit,
            };
            edges.push(Edge { from, to: inputs + at, label: size(*buffer) });
        }
    }
    for (at, unit) in units.iter().enumerate() {
        for buffer in &unit.outputs {
            if let salient_tile::kernel::Role::Output(of) = plan.buffers()[*buffer].role {
                // What is appended to a state lies behind what it holds.
                let held = g.states().iter().find(|state| state.output == of).map(|state| state.input);
                edges.extend(held.map(|from| Edge { from, to: inputs + at, label: String::new() }));
                edges.push(Edge { from: inputs + at, to: boxes.len(), label: size(*buffer) });
                boxes.push(output(g, of));
            }
        }
    }
    Drawing { title: String::new(), boxes, edges: joined(edges), blocks: Vec::new() }
}

fn kernel(unit: &Unit) -> Shape {
    let notes = unit.keys.iter().map(|keys| Row::Note(format!("keys {keys}")));
    let parts = unit.parts.iter().map(|part| Row::Part(format!("▪ {part}")));
    let params = unit.params.iter().map(|path| Row::Param(path.clone()));
    Shape {
        role: if unit.word == "attention" { Role::Fused } else { Role::Value },
        title: format!("{} {}", unit.word, unit.names.join(" + ")),
        rows: parts.chain(notes).chain(params).collect(),
        layer: unit.layer.as_ref().map(|layer| (layer.stem.clone(), layer.number)),
        nodes: unit.nodes.iter().map(|id| id.index()).collect(),
    }
}

/// Edges between the same boxes as one.
fn joined(edges: Vec<Edge>) -> Vec<Edge> {
    let mut out: Vec<Edge> = Vec::new();
    for edge in edges {
        match out.iter_mut().find(|known| (known.from, known.to) == (edge.from, edge.to)) {
            Some(known) if known.label != edge.label => {
                known.label = format!("{}, {}", known.label, edge.label)
            }
            Some(_) => {}
            None => out.push(edge),
        }
    }
    out
}

/// What outputs are computed from: how parameters begin is no part of it.
fn computed(g: &Graph) -> BTreeSet<NodeId> {
    let mut waiting: Vec<NodeId> = g.outputs().iter().map(|out| out.node).collect();
    let mut seen = BTreeSet::new();
    while let Some(id) = waiting.pop() {
        if seen.insert(id) {
            waiting.extend(g.args(id));
        }
    }
    seen
}

/// The value in whose box each node is drawn: itself if the source names it, if it is an input or an output, or if values of several
/// boxes read it and it is more than a number or arithmetic of indices. Of several boxes that read such, it is counted to the first
/// and shown in none; what is shared so is returned beside.
fn homes(g: &Graph, computed: &BTreeSet<NodeId>) -> (Vec<NodeId>, BTreeSet<NodeId>) {
    let mut shared = BTreeSet::new();
    let mut homes: Vec<NodeId> = g.ids().collect();
    let is_output = |id: NodeId| g.outputs().iter().any(|out| out.node == id);
    let mut is_of_data = vec![false; g.len()];
    for id in g.ids() {
        let is_stored = matches!(g.op(id), Op::Input(_) | Op::Param(_));
        is_of_data[id.index()] = is_stored || g.args(id).iter().any(|arg| is_of_data[arg.index()]);
    }
    for id in g.ids().rev() {
        let is_own = g.node(id).name.is_some() || is_output(id) || matches!(g.op(id), Op::Input(_));
        let users = g.users(id).into_iter().filter(|user| computed.contains(user));
        let mut of_users = users.map(|user| homes[user.index()]);
        let Some(first) = of_users.next() else { continue };
        let is_small = !is_of_data[id.index()] || g.op(id).is_source() || g.node(id).axes.is_empty();
        let is_alone = of_users.all(|other| other == first);
        if !is_own && (is_small || is_alone) {
            homes[id.index()] = first;
            let of_shared = |user: &NodeId| shared.contains(user) && homes[user.index()] == first;
            if !is_alone || g.users(id).iter().all(of_shared) {
                shared.insert(id);
            }
        }
    }
    (homes, shared)
}

fn word(g: &Graph, id: NodeId) -> &'static str {
    match g.op(id) {
        Op::Input(_) | Op::Param(_) => "",
        Op::Const(_) => "literal",
        Op::Iota(_) => "index",
        Op::Extent(_) => "extent",
        Op::Map(op) => op.info().name,
        Op::Reduce(op, _) => op.info().name,
        Op::At(_) => "view",
        Op::Concat(..) => "concat",
        Op::CumSum(direction, _) => direction.name(),
        Op::Fused(op, _) => op.info().name,
    }
}

fn of_graph(g: &Graph) -> Drawing {
    let computed = computed(g);
    let (homes, shared) = homes(g, &computed);
    let mut place: BTreeMap<NodeId, usize> = BTreeMap::new();
    let (mut boxes, mut edges) = (Vec::new(), Vec::new());
    let is_box = |id: &NodeId| homes[id.index()] == *id && !matches!(g.op(*id), Op::Param(_));
    for root in computed.iter().copied().filter(is_box) {
        place.insert(root, boxes.len());
        boxes.push(match g.op(root) {
            Op::Input(at) => input(g, *at),
            Op::Param(_) | Op::Const(_) | Op::Iota(_) | Op::Extent(_) | Op::Map(_) | Op::Reduce(..) => {
                value(g, root, &homes, &shared)
            }
            Op::At(_) | Op::Concat(..) | Op::CumSum(..) | Op::Fused(..) => value(g, root, &homes, &shared),
        });
    }
    for id in g.ids() {
        let to = place.get(&homes[id.index()]).copied();
        for arg in g.args(id) {
            // What is small has no edges out of its box.
            let home = homes[arg.index()];
            let from = place.get(&home).copied().filter(|_| home == arg);
            if let (Some(from), Some(to)) = (from, to)
                && from != to
            {
                edges.push(Edge { from, to, label: bytes(&count(g, arg), g.node(arg).dtype.size()) });
            }
        }
    }
    for (at, out) in g.outputs().iter().enumerate() {
        let label = bytes(&count(g, out.node), out.dtype.size());
        edges.extend(place.get(&out.node).map(|from| Edge { from: *from, to: boxes.len(), label }));
        boxes.push(output(g, at));
    }
    Drawing { title: String::new(), boxes, edges: joined(edges), blocks: Vec::new() }
}

/// The box of a value with all that is computed on the way to it.
fn value(g: &Graph, root: NodeId, homes: &[NodeId], shared: &BTreeSet<NodeId>) -> Shape {
    let inside: Vec<NodeId> = g.ids().filter(|id| homes[id.index()] == root).collect();
    let computed =
        inside.iter().filter(|id| !g.op(**id).is_source() && !shared.contains(id)).map(|id| word(g, *id));
    let mut words: Vec<(&str, usize)> = Vec::new();
    for word in computed {
        match words.last_mut().filter(|(last, _)| *last == word) {
            Some((_, times)) => *times += 1,
            None => words.push((word, 1)),
        }
    }
    let shown = |(word, times): &(&str, usize)| {
        if *times > 1 { format!("{word} ×{times}") } else { (*word).to_owned() }
    };
    let words: Vec<String> = words.iter().map(shown).collect();
    let lines = words.chunks(6).map(|words| Row::Part(words.join(" · ")));
    let read = inside.iter().flat_map(|id| g.args(*id));
    let mut paths: Vec<String> = Vec::new();
    for port in read.filter(|id| matches!(g.op(*id), Op::Param(_))).filter_map(|id| g.port(id)) {
        if !paths.contains(&port.name.to_string()) {
            paths.push(port.name.to_string());
        }
    }
    let params = paths.into_iter().map(Row::Param);
    let named = g.nearest_user(root, |node| node.name.is_some()).and_then(|node| node.name.clone());
    let title = match (&g.node(root).name, named) {
        (Some(name), _) => name.to_string(),
        (None, Some(name)) => format!("a part of {name}"),
        (None, None) => g
            .outputs()
            .iter()
            .find(|out| out.node == root)
            .map_or("a value".to_owned(), |out| out.name.to_string()),
    };
    let is_fused = inside.iter().any(|id| matches!(g.op(*id), Op::Fused(..)));
    Shape {
        role: if is_fused { Role::Fused } else { Role::Value },
        title,
        rows: lines.chain(params).collect(),
        layer: layer_of(g, root).map(|layer| (layer.stem, layer.number)),
        nodes: inside.iter().map(|id| id.index()).collect(),
    }
}
