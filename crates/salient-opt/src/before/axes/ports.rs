//! Over which axes inputs and parameters are declared: those of the lowest way in which they are read.

use super::{Renamer, Subst, lookup};
use salient_ir::{AxisId, AxisSet, Dim, NodeId, Op, Port, State};
use std::collections::BTreeSet;

/// What the first run finds for the second.
#[derive(Default)]
pub(super) struct Survey {
    /// Canonical axes in the order in which they are created: (name, extent).
    pub(super) axes: Vec<(String, Dim)>,
    /// Name and rank of the axes over which each port is declared; inputs, then parameters.
    pub(super) ports: Vec<Option<Vec<(String, usize)>>>,
}

/// How a port was read: an axis and its rank for each position.
pub(super) type Read = Vec<(AxisId, usize)>;

impl Renamer<'_> {
    /// The axes over which a port is declared; `id` is its node in the old graph, if it is used at all.
    pub(super) fn port_axes(
        &mut self,
        port: &Port,
        id: Option<NodeId>,
        planned: Option<&Option<Vec<(String, usize)>>>,
    ) -> Vec<AxisId> {
        let mut out = Vec::new();
        let mut used = AxisSet::new();
        for (n, axis) in port.axes.iter().enumerate() {
            let group = match id {
                Some(id) => self.groups.of(self.g, id, *axis),
                None => self.groups.by_extent[self.g.extent(*axis)],
            };
            let new = match planned {
                Some(Some(read)) => {
                    let (name, rank) = &read[n];
                    let new = self.b.axis_id(name, self.g.extent(*axis));
                    self.ranks.insert(new, *rank);
                    new
                }
                Some(None) | None => {
                    let free = (0..).map(|rank| self.axis(group, *axis, rank)).find(|a| !used.contains(*a));
                    free.expect("ranks do not end")
                }
            };
            used.insert(new);
            out.push(new);
        }
        out
    }

    /// Axes in an order that no spelling can change: as the outputs list them, then the ports, then by name. What calls move,
    /// and what becomes of it, comes behind the data: its axes are those of parameters.
    pub(super) fn plan(&self) -> Survey {
        let mut order: Vec<AxisId> = Vec::new();
        let mut push = |axis: AxisId| {
            if !order.contains(&axis) {
                order.push(axis);
            }
        };
        let moved = |state: &&State| self.g.is_moved_parameter(state.input);
        let (inputs, outputs): (BTreeSet<usize>, BTreeSet<usize>) =
            self.g.states().iter().filter(moved).map(|state| (state.input, state.output)).unzip();
        for is_moved in [false, true] {
            let results =
                self.b.outputs().iter().enumerate().filter(|(n, _)| outputs.contains(n) == is_moved);
            results.flat_map(|(_, output)| &output.axes).for_each(|a| push(*a));
            let data = self.g.inputs().len();
            let of_part = |n: usize| (is_moved && n >= data) || (n < data && inputs.contains(&n) == is_moved);
            let reads = self.reads.iter().enumerate().filter(|(n, _)| of_part(*n));
            reads.filter_map(|(_, read)| read.as_ref()).flatten().for_each(|(axis, _)| push(*axis));
        }
        let mut rest: Vec<_> = self.b.axes().collect();
        rest.sort_by_key(|(_, a)| *a);
        rest.into_iter().for_each(|(id, _)| push(id));
        let axes = order.into_iter().map(|id| {
            let axis = self.b.axis(id);
            (axis.name.to_string(), axis.extent.clone())
        });
        let named = |read: &Read| {
            read.iter().map(|(axis, rank)| (self.b.axis(*axis).name.to_string(), *rank)).collect()
        };
        let ports = self.reads.iter().map(|read| read.as_ref().map(named)).collect();
        Survey { axes: axes.collect(), ports }
    }

    /// An input or a parameter at the given indices.
    pub(super) fn read(&mut self, port: usize, declared: &[AxisId], subst: &Subst) -> NodeId {
        let new = self.ports[port];
        let axes = self.b.port(new).expect("a port").axes.clone();
        let with: Vec<(AxisId, NodeId)> =
            axes.into_iter().zip(declared.iter().map(|a| lookup(subst, *a))).collect();
        self.note_read(port, &with);
        self.b.at_all(new, &with).expect("an index stays an integer")
    }

    /// Remembers the lowest way of reading a port by plain indices, all different: it names the port's axes.
    fn note_read(&mut self, port: usize, with: &[(AxisId, NodeId)]) {
        let mut read = Read::new();
        let mut seen = AxisSet::new();
        for (axis, index) in with {
            let Op::Iota(to) = *self.b.op(*index) else { return };
            if seen.contains(to) || self.b.extent(to) != self.b.extent(*axis) {
                return;
            }
            seen.insert(to);
            read.push((to, self.ranks[&to]));
        }
        let best = &mut self.reads[port];
        let ranks = |read: &Read| read.iter().map(|(_, rank)| *rank).collect::<Vec<_>>();
        if best.as_ref().is_none_or(|b| ranks(&read) < ranks(b)) {
            *best = Some(read);
        }
    }
}
