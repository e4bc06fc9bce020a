//! A plan as boxes that read of each other: the kernels of each stored value, those that run as one together.

use super::facts::{Layer, layer_of, over_keys};
use super::key_bounds;
use crate::plan::{Anchor, KernelPlan, Plan, Step};
use crate::program::kernel::{Buffer, BufferId, Role};
use salient_ir::text::Expressions;
use salient_ir::{NodeId, Op};
use std::collections::{BTreeMap, BTreeSet};

/// Kernels that store one value, or that run as one.
#[derive(Clone, Debug)]
pub struct Unit {
    /// The word for what they are built around.
    pub word: &'static str,
    /// The source's names for what they store.
    pub names: Vec<String>,
    /// What has a name and is computed on the way.
    pub parts: Vec<String>,
    /// The keys that an attention visits.
    pub keys: Option<String>,
    /// The parameters that they read, by path.
    pub params: Vec<String>,
    /// Every node that they compute.
    pub nodes: BTreeSet<NodeId>,
    /// The block of the model that they are in.
    pub layer: Option<Layer>,
    /// What they read: the unit that stores it or the input that holds it, and the buffer.
    pub reads: Vec<(Read, usize)>,
    /// The outputs that they store, by position of the buffer.
    pub outputs: Vec<usize>,
}

/// Where something that is read comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read {
    /// An input, by position.
    Input(usize),
    /// Another unit, by position.
    Unit(usize),
}

impl Plan<'_> {
    /// What is stored, by position.
    pub fn buffers(&self) -> &[Buffer] {
        &self.buffers
    }

    /// The kernels as boxes, each behind those that it reads.
    pub fn outline(&self) -> Vec<Unit> {
        let sets = self.unit_steps();
        let kernels_of = |steps: &[usize]| -> Vec<&KernelPlan> {
            steps.iter().flat_map(|at| &self.kernels[self.steps[*at].kernels.clone()]).collect()
        };
        let mut homes: BTreeMap<BufferId, usize> = BTreeMap::new();
        for (at, steps) in sets.iter().enumerate() {
            kernels_of(steps).iter().for_each(|k| {
                homes.entry(k.buffer).or_insert(at);
            });
        }
        let expressions = Expressions::new(&self.graph, std::iter::empty());
        let units = sets.iter().enumerate();
        units.map(|(at, steps)| self.unit(at, steps, &kernels_of(steps), &homes, &expressions)).collect()
    }

    /// What a step stores: the name of the value, or that of the output; an attention goes by the nearest name.
    fn unit_name(&self, step: usize) -> String {
        let Step { node, buffer, kernels, .. } = &self.steps[step];
        let name = &self.graph.node(*node).name;
        let is_over_keys = self.kernels[kernels.clone()].iter().any(|k| over_keys(&k.anchor).is_some());
        let is_output = matches!(self.buffers[buffer.0].role, Role::Output(_));
        if name.is_none() && is_over_keys && !is_output {
            return self.nearest_name(*node);
        }
        match self.buffers[buffer.0].role {
            Role::Output(of) if name.is_none() => self.graph.outputs()[of].name.to_string(),
            Role::Input(_)
            | Role::Param(_)
            | Role::Output(_)
            | Role::Temporary
            | Role::Loaded
            | Role::Coded(_) => self.source_name(*node),
        }
    }

    /// The steps of each unit: those of which kernels run as one stand together.
    fn unit_steps(&self) -> Vec<Vec<usize>> {
        let step_of = |kernel: usize| self.steps.iter().position(|s| s.kernels.contains(&kernel));
        let mut sets: Vec<Vec<usize>> = Vec::new();
        for step in 0..self.steps.len() {
            let joint = self.order.iter().filter(|set| set.len() > 1);
            let joint = joint.map(|set| set.iter().filter_map(|k| step_of(*k)).collect::<BTreeSet<usize>>());
            let joint = joint.filter(|set| set.contains(&step)).flatten().collect::<BTreeSet<usize>>();
            match sets.iter_mut().find(|set| set.iter().any(|other| joint.contains(other))) {
                Some(set) => set.push(step),
                None => sets.push(vec![step]),
            }
        }
        sets
    }

    fn unit(
        &self,
        at: usize,
        steps: &[usize],
        kernels: &[&KernelPlan],
        homes: &BTreeMap<BufferId, usize>,
        expressions: &Expressions<'_>,
    ) -> Unit {
        let last = kernels.iter().rev().find(|k| !matches!(k.anchor, Anchor::Pack(_))).or(kernels.last());
        let word = last.map_or("map", |k| k.anchor.word().text());
        let stored: Vec<NodeId> = steps.iter().map(|step| self.steps[*step].node).collect();
        let nodes: BTreeSet<NodeId> =
            kernels.iter().flat_map(|k| k.expression.computes.iter().copied().chain([k.node])).collect();
        let is_source = |id: &NodeId| matches!(self.graph.op(*id), Op::Input(_) | Op::Param(_));
        let nodes: BTreeSet<NodeId> = nodes.into_iter().filter(|id| !is_source(id)).collect();
        let named = nodes.iter().filter(|id| !stored.contains(id));
        let named = named.filter_map(|id| self.graph.node(*id).name.as_ref().map(ToString::to_string));
        let mut parts: Vec<String> = Vec::new();
        for name in named {
            if !parts.contains(&name) {
                parts.push(name);
            }
        }
        let own: BTreeSet<BufferId> = kernels.iter().map(|k| k.buffer).collect();
        let buffers: BTreeSet<BufferId> = kernels.iter().flat_map(|k| k.reads().iter().copied()).collect();
        let (mut params, mut reads) = (Vec::new(), Vec::new());
        for id in buffers.into_iter().filter(|id| !own.contains(id)) {
            match (self.buffers[id.0].role, homes.get(&id)) {
                (Role::Param(of) | Role::Coded(of), _) => {
                    params.push(self.graph.params()[of].name.to_string())
                }
                (Role::Input(of), _) => reads.push((Read::Input(of), id.0)),
                (Role::Output(_) | Role::Temporary | Role::Loaded, Some(unit)) if *unit != at => {
                    reads.push((Read::Unit(*unit), id.0));
                }
                (Role::Output(_) | Role::Temporary | Role::Loaded, _) => {}
            }
        }
        let over = kernels.iter().find_map(|k| over_keys(&k.anchor));
        let keys = over.map(|(a, of, _)| {
            let bounds = key_bounds(self, |axis| expressions.axis(axis), a, of);
            format!("{} .. {}", bounds.begin, bounds.end)
        });
        let is_output = |id: &&BufferId| matches!(self.buffers[id.0].role, Role::Output(_));
        Unit {
            word,
            names: steps.iter().map(|step| self.unit_name(*step)).collect(),
            parts,
            keys,
            params,
            nodes,
            layer: stored.first().and_then(|id| layer_of(&self.graph, *id)),
            reads,
            outputs: own.iter().filter(is_output).map(|id| id.0).collect(),
        }
    }
}
