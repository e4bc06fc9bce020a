//! The graph of a plan: what the front end makes of its expressions, with the outputs and states of the plan instead of all
//! values that have names.

use super::lines::Document;
use super::program::Translation;
use super::{ReadError, error};
use crate::plan::text::fold::dims_of;
use crate::plan::text::{Labels, Parts};
use salient_ir::quantised::Coding;
use salient_ir::{AxisId, Builder, DType, Graph, NodeId, Op, Output, Port};
use std::collections::BTreeMap;

/// The values of a text as nodes of the graph that the front end gives.
pub(super) struct Values<'a> {
    graph: &'a Graph,
    /// Those of kernels, each with its axes as they lie.
    kernels: Vec<Output>,
    parts: Vec<Vec<NodeId>>,
    /// The outputs of the plan.
    outputs: Vec<Stored>,
}

/// An output of a plan: its name, its axes, the kernel that stores it, the state that it is.
type Stored = (String, Vec<AxisId>, usize, Option<usize>);

/// The graph of a plan, and what the text says of its nodes.
pub(super) struct Found {
    pub(super) graph: Graph,
    pub(super) names: Vec<Option<String>>,
    /// The value of each kernel.
    pub(super) stored: Vec<NodeId>,
    /// The output in which each kernel stores it, if it is one.
    pub(super) homes: Vec<Option<usize>>,
    pub(super) parts: Parts,
    pub(super) labels: Labels,
    pub(super) coded: BTreeMap<usize, Coding>,
}

/// The type in which an output is stored.
fn dtype(ty: &str) -> Option<DType> {
    let word = ty.split('[').next()?;
    DType::ALL.into_iter().find(|dtype| dtype.name() == word)
}

impl<'a> Values<'a> {
    /// The values of a text whose program gives that graph.
    pub(super) fn of(
        document: &Document,
        translation: &Translation,
        graph: &'a Graph,
    ) -> Result<Values<'a>, ReadError> {
        let result = |at: usize| graph.outputs().get(at).cloned();
        let mut ports: BTreeMap<&str, Output> = BTreeMap::new();
        let states = document.states.iter().map(|port| &port.name);
        let inputs: Vec<&String> = document.inputs.iter().map(|(name, _)| name).chain(states).collect();
        for id in graph.ids() {
            let Some(port) = graph.port(id) else { continue };
            let name = if let Op::Input(n) = *graph.op(id) {
                inputs.get(n).copied()
            } else {
                document.params.iter().find(|p| *p.path == *port.name).map(|p| &p.name)
            };
            if let Some(name) = name {
                ports.insert(name, output(name, port, id));
            }
        }
        let mut known: BTreeMap<&str, Output> = ports;
        let (mut kernels, mut parts) = (Vec::new(), Vec::new());
        for (at, kernel) in document.kernels.iter().enumerate() {
            let name = kernel.value.name.as_str();
            let value = match translation.kernels[at] {
                Some(place) => result(place),
                None => known.get(name).cloned(),
            };
            let Some(value) = value else {
                return error(kernel.value.line, format!("`{name}` has no value"));
            };
            known.insert(name, value.clone());
            kernels.push(value);
            let nodes = translation.parts[at].iter().map(|place| result(*place).map(|o| o.node));
            let Some(nodes) = nodes.collect() else {
                return error(kernel.value.line, "a part of the expression has no value");
            };
            parts.push(nodes);
        }
        let mut values = Values { graph, kernels, parts, outputs: Vec::new() };
        values.outputs = values.outputs(document)?;
        Ok(values)
    }

    /// Which kernels store the outputs of the plan.
    fn outputs(&self, document: &Document) -> Result<Vec<Stored>, ReadError> {
        let returned = document.outputs.iter().map(|(name, ty)| (name, ty, None));
        let states = document.states.iter().enumerate().map(|(at, port)| (&port.path, &port.ty, Some(at)));
        let mut out = Vec::new();
        for (name, ty, state) in returned.chain(states) {
            let other = document.returns.iter().find(|(_, _, output)| output == name);
            let value = other.map_or(name, |(_, value, _)| value);
            let is_it = |k: &super::lines::Kernel| k.form.is_none() && k.value.name == *value;
            let Some(kernel) = document.kernels.iter().position(is_it) else {
                let line = other.map_or(1, |(line, ..)| *line);
                return error(line, format!("no kernel stores `{value}`, which is the output `{name}`"));
            };
            let Some((_, dims)) = dims_of(ty) else {
                return error(1, format!("the output `{name}` has no type: `{ty}`"));
            };
            if dims.len() < self.kernels[kernel].axes.len() {
                return error(1, format!("the output `{name}` has fewer dimensions than its value"));
            }
            out.push((name.clone(), self.kernels[kernel].axes.clone(), kernel, state));
        }
        Ok(out)
    }

    /// The graph.
    pub(super) fn graph(&self, document: &Document) -> Result<Found, ReadError> {
        let from = self.graph;
        let mut b = Builder::new(&document.name);
        for (_, axis) in from.axes() {
            b.axis_id(&axis.name, &axis.extent);
        }
        from.requirements().iter().for_each(|r| b.require(r.clone()));
        let mut new: Vec<Option<NodeId>> = vec![None; from.len()];
        let names = self.names(document);
        // Ports first: their order is that of the text.
        let mut coded = BTreeMap::new();
        self.ports(document, &mut b, &mut new, &mut coded)?;
        for id in from.ids() {
            if new[id.index()].is_none() {
                let args: Option<Vec<NodeId>> = from.args(id).iter().map(|a| new[a.index()]).collect();
                let Some(args) = args else { return error(1, "a parameter is not declared") };
                let made = b.add(from.op(id).clone(), &args);
                new[id.index()] = Some(made.map_err(|e| ReadError { line: 1, what: e.to_string() })?);
            }
        }
        self.results(document, &mut b, &new)?;
        // What no output reads is not in the graph: positions behind it move up.
        let (graph, moved) = b.finish_moved();
        let mut all = vec![None; graph.len()];
        let kept: Vec<Option<NodeId>> = new.iter().map(|id| moved[(*id)?.index()]).collect();
        for id in from.ids() {
            if let Some(id_new) = kept[id.index()] {
                all[id_new.index()].clone_from(&names[id.index()]);
            }
        }
        let (mut stored, mut labels) = (Vec::new(), Labels::new());
        for (kernel, value) in document.kernels.iter().zip(&self.kernels) {
            let line = kernel.value.line;
            let Some(node) = kept[value.node.index()] else {
                return error(line, format!("no output reads `{}`", kernel.value.name));
            };
            let comment = kernel.comment.strip_suffix("residual").unwrap_or(&kernel.comment);
            let comment = comment.strip_suffix(", ").unwrap_or(comment);
            if !comment.is_empty() {
                labels.insert(node, comment.to_owned());
            }
            stored.push(node);
        }
        let mut parts = Parts::new();
        for (kernel, nodes) in document.kernels.iter().zip(&self.parts) {
            let form = kernel.form.as_ref().map_or_else(String::new, |form| format!("~{form}"));
            let nodes = nodes.iter().filter_map(|node| kept[node.index()]);
            parts.entry(format!("{}{form}", kernel.value.name)).or_default().extend(nodes);
        }
        let output = |kernel: usize| self.outputs.iter().position(|(_, _, of, _)| *of == kernel);
        let homes = (0..self.kernels.len()).map(output).collect();
        Ok(Found { graph, names: all, stored, homes, parts, labels, coded })
    }

    /// The name of each node.
    fn names(&self, document: &Document) -> Vec<Option<String>> {
        let mut names: Vec<Option<String>> = vec![None; self.graph.len()];
        for (kernel, nodes) in document.kernels.iter().zip(&self.parts) {
            for (part, node) in kernel.parts.iter().zip(nodes) {
                names[node.index()].get_or_insert_with(|| part.name.clone());
            }
        }
        for (kernel, value) in document.kernels.iter().zip(&self.kernels).rev() {
            names[value.node.index()] = Some(kernel.value.name.clone());
        }
        let states = document.states.iter().map(|port| &port.name);
        let inputs: Vec<&String> = document.inputs.iter().map(|(name, _)| name).chain(states).collect();
        for id in self.graph.ids() {
            if let Op::Input(n) = self.graph.op(id) {
                names[id.index()] = inputs.get(*n).map(|name| (*name).clone());
            } else if let Op::Param(n) = self.graph.op(id) {
                let path = &self.graph.params()[*n].name;
                let port = document.params.iter().find(|port| *port.path == **path);
                names[id.index()] = port.map(|port| port.name.clone());
            }
        }
        names
    }

    /// Declares inputs and parameters as the text does.
    fn ports(
        &self,
        document: &Document,
        b: &mut Builder,
        new: &mut [Option<NodeId>],
        coded: &mut BTreeMap<usize, Coding>,
    ) -> Result<(), ReadError> {
        let from = self.graph;
        let node = |op: Op| from.ids().find(|id| *from.op(*id) == op);
        let states = document.states.iter().map(|port| &port.path);
        for (at, name) in document.inputs.iter().map(|(name, _)| name).chain(states).enumerate() {
            let Some(port) = from.inputs().get(at) else { return error(1, "an input is missing") };
            let made = b.input(name, &port.axes, port.dtype, None);
            if let Some(id) = node(Op::Input(at)) {
                new[id.index()] = Some(made);
            }
        }
        for (place, param) in document.params.iter().enumerate() {
            let Some(at) = from.params().iter().position(|port| *port.name == *param.path) else {
                return error(param.line, format!("nothing reads `{}`", param.path));
            };
            let port = &from.params()[at];
            let made = b.param(&param.path, &port.axes, port.dtype, None, None);
            if let Some(id) = node(Op::Param(at)) {
                new[id.index()] = Some(made);
            }
            coded.extend(param.coding.map(|coding| (place, coding)));
        }
        Ok(())
    }

    /// Declares outputs and states.
    fn results(&self, document: &Document, b: &mut Builder, new: &[Option<NodeId>]) -> Result<(), ReadError> {
        let typed = |made: Result<(), salient_ir::TypeError>| {
            made.map_err(|e| ReadError { line: 1, what: e.to_string() })
        };
        for (at, (name, axes, kernel, state)) in self.outputs.iter().enumerate() {
            let Some(node) = new[self.kernels[*kernel].node.index()] else {
                return error(1, format!("`{name}` has no value"));
            };
            if let Some(state) = state {
                let input = document.inputs.len() + state;
                let before = b.inputs()[input].axes.clone();
                typed(b.state(input, &before, axes, node))?;
                continue;
            }
            let ty = &document.outputs[at].1;
            if let Some(dtype) = dtype(ty) {
                b.store(name, dtype);
            }
            let axes = with_units(b, ty, axes);
            typed(b.output(name, &axes, node))?;
        }
        Ok(())
    }
}

fn output(name: &str, port: &Port, node: NodeId) -> Output {
    Output { name: name.into(), axes: port.axes.clone(), node, dtype: port.dtype }
}

/// The axes of an output with those of one place that its value does not have.
fn with_units(b: &mut Builder, ty: &str, axes: &[AxisId]) -> Vec<AxisId> {
    let (_, dims) = dims_of(ty).unwrap_or_default();
    let mut missing = dims.len().saturating_sub(axes.len());
    let (mut out, mut rest) = (Vec::new(), axes.iter().copied().peekable());
    for dim in dims {
        let is_own = rest.peek().is_some_and(|axis| b.extent(*axis).to_string() == dim);
        if dim == "1" && missing > 0 && !is_own {
            let name = format!("unit.{missing}");
            out.push(b.axis_id(&name, &salient_ir::Dim::constant(1)));
            missing -= 1;
        } else {
            out.extend(rest.next());
        }
    }
    out.extend(rest);
    out
}
