//! The names in the text of a graph: those of the source where it gave some, else that of whoever uses a value first.

use super::lines::{Lines, has_line, repeated};
use crate::axis::AxisId;
use crate::graph::{Graph, NodeId};
use crate::op::Op;
use std::collections::{BTreeMap, HashMap, HashSet};

/// The names in a text.
pub(super) struct Names {
    /// Of each node that has a line or is a port.
    pub(super) nodes: Vec<Option<String>>,
    /// Of what is repeated along an axis in a concatenation or under a view: the node that reads it and the place there.
    pub(super) parts: BTreeMap<(NodeId, usize), String>,
    /// Of each input, and of each parameter.
    pub(super) inputs: Vec<String>,
    pub(super) params: Vec<String>,
}

/// A name for each node that has a line: the source's, then those of the outputs, then of whoever uses a node first.
pub(super) fn names(g: &Graph, written: &Lines) -> Names {
    let mut names: Vec<Option<String>> = vec![None; g.len()];
    let mut taken: HashSet<String> = g.dimensions().iter().map(|s| s.to_string()).collect();
    // A value that goes by the name of a function hides it.
    taken.extend(g.ids().filter_map(|id| function(g.op(id))).map(str::to_owned));
    // Names are only ever taken, so the search for a free number goes on where it last ended.
    let mut ended: HashMap<(String, bool), usize> = HashMap::new();
    let mut claim = |stem: &str, numbered: bool| {
        let stem = if numbered { stem.split('.').next().unwrap_or(stem) } else { stem };
        if !numbered && taken.insert(stem.to_owned()) {
            return stem.to_owned();
        }
        let n = ended.entry((stem.to_owned(), numbered)).or_insert(usize::from(!numbered));
        loop {
            *n += 1;
            let name = format!("{stem}.{n}");
            if taken.insert(name.clone()) {
                return name;
            }
        }
    };
    // Inputs go by their own names; what else is stored has a name here and a path, which may be an input's name.
    let is_state = |n: usize| g.states().iter().any(|s| s.input == n);
    let mut inputs: Vec<String> = g.inputs().iter().map(|p| p.name.to_string()).collect();
    for given in (0..inputs.len()).filter(|n| !is_state(*n)) {
        claim(&inputs[given], false);
    }
    for state in (0..inputs.len()).filter(|n| is_state(*n)) {
        inputs[state] = claim(&identifier(&inputs[state]), false);
    }
    let index = |p: &crate::Port| p.axes.is_empty() && g.axes().any(|(_, a)| *a.name == *identifier(&p.name));
    let params: Vec<String> = g.params().iter().map(|p| claim(&identifier(&p.name), index(p))).collect();
    for id in g.ids() {
        if let Op::Input(n) = g.op(id) {
            names[id.index()] = Some(inputs[*n].clone());
        } else if let Op::Param(n) = g.op(id) {
            names[id.index()] = Some(params[*n].clone());
        }
    }
    let lines: Vec<NodeId> = g.ids().filter(|id| has_line(g.op(*id)) || written.is_view(*id)).collect();
    for id in &lines {
        if let Some(name) = &g.node(*id).name {
            // A value without axes is written without brackets: its name must not be that of an index.
            let index = g.node(*id).axes.is_empty() && g.axes().any(|(_, a)| a.name == *name);
            names[id.index()] = Some(claim(&identifier(name), index));
        }
    }
    for out in g.outputs() {
        if lines.binary_search(&out.node).is_ok() && names[out.node.index()].is_none() {
            names[out.node.index()] = Some(claim(&identifier(&out.name), false));
        }
    }
    // Whose name a node without one goes by.
    let mut stems: Vec<Option<NodeId>> = g.ids().map(|id| names[id.index()].as_ref().map(|_| id)).collect();
    for id in g.ids().rev() {
        if stems[id.index()].is_none() {
            stems[id.index()] = g.users(id).iter().find_map(|u| stems[u.index()]);
        }
    }
    for id in lines {
        if names[id.index()].is_none() {
            let stem = stems[id.index()].and_then(|stem| names[stem.index()].as_deref()).unwrap_or("value");
            names[id.index()] = Some(claim(stem, true));
        }
    }
    let mut parts = BTreeMap::new();
    for id in g.ids() {
        for (place, ..) in repeated(g, id) {
            let stem = names[id.index()].clone().unwrap_or_else(|| "value".to_owned());
            parts.insert((id, place), claim(&stem, true));
        }
    }
    Names { nodes: names, parts, inputs, params }
}

/// The function that an operator is written as, or may be.
fn function(op: &Op) -> Option<&'static str> {
    match op {
        Op::Map(op) => Some(op.info().name),
        Op::Reduce(op, _) => Some(op.info().name),
        Op::CumSum(direction, _) => Some(direction.name()),
        Op::Concat(..) => Some("concat"),
        Op::Input(_) | Op::Param(_) | Op::Const(_) | Op::Iota(_) | Op::Extent(_) => None,
        Op::At(_) | Op::Fused(..) => None,
    }
}

/// The axes' own names, where no two of a name meet in one line.
pub(super) fn axis_names(g: &Graph, written: &Lines) -> Vec<String> {
    let mut names: Vec<String> = g.axes().map(|(_, axis)| axis.name.to_string()).collect();
    let mut taken: HashSet<String> = names.iter().cloned().collect();
    let ports = g.inputs().iter().chain(g.params()).map(|p| p.axes.clone());
    let outputs = g.outputs().iter().map(|o| o.axes.clone());
    let lines = g.ids().filter(|id| has_line(g.op(*id)) || written.is_view(*id)).map(|id| {
        let own = g.node(id).axes.iter();
        own.chain(g.op(id).bound().filter(|axis| !g.node(id).axes.contains(*axis))).collect()
    });
    for line in ports.chain(outputs).chain(lines) {
        let line: Vec<AxisId> = line;
        for (n, axis) in line.iter().enumerate() {
            let is_met = |other: &AxisId| other != axis && names[other.index()] == names[axis.index()];
            if line[..n].iter().any(is_met) {
                let stem = &g.axis(*axis).name;
                let free = (1..).map(|n| format!("{stem}.{n}")).find(|name| !taken.contains(name));
                let free = free.expect("numbers do not end");
                taken.insert(free.clone());
                names[axis.index()] = free;
            }
        }
    }
    names
}

/// A path or a name as an identifier of the language.
pub fn identifier(path: &str) -> String {
    let numbered = path.split('.').skip(1).all(|s| !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit()));
    let text = if numbered { path.to_owned() } else { path.replace('.', "_") };
    let clean: String = text
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || c == '_' || c == '.' { c } else { '_' })
        .collect();
    if clean.starts_with(|c: char| c.is_ascii_digit()) || clean.is_empty() {
        format!("_{clean}")
    } else {
        clean
    }
}
