//! The price of a plan: the time that its kernels take at given sizes on one core of a machine, as a value to compare plans by.
//!
//! A kernel takes what starting it takes, and then the longer of its arithmetic and its traffic with memory. What arithmetic
//! it has follows from its loops (`work`), and of an expression along a strip from the rows of its operators and from how each
//! of its operands is read (`strip`). A buffer is read at the rate of the nearest cache in which it still is since its last
//! use. A mask whose range of keys is known takes its part off; one that is looked at when it runs keeps every key.

mod floor;
mod strip;
mod work;

pub use floor::floor_as_written;

use crate::dims::{LANES, index_of};
use crate::plan::Plan;
use crate::program::kernel::{BufferId, Role};
use salient_ir::{AxisId, Bindings, Dim, Graph, Name, NodeId, Port, Symbol};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// What one core does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Machine {
    /// Floating-point operations per second, in fused multiply-adds of whole vectors.
    pub flops: f64,
    /// Bytes per second between memory and the core.
    pub bytes: f64,
    /// What starting a kernel takes.
    pub launch: Duration,
    /// The caches, the nearest first.
    pub caches: [Cache; 2],
    /// Lanes of a vector.
    pub lanes: i64,
    /// Seconds that one step of a loop takes that goes element by element, for each operation.
    pub step: f64,
    /// Seconds that reading one element takes where lanes have addresses of their own.
    pub gather: f64,
    /// Seconds that calling a vector body takes.
    pub call: f64,
}

impl Machine {
    /// Seconds that so many bytes take to the core, of so many that were touched since they last were there.
    fn transfer(&self, bytes: f64, distance: f64) -> f64 {
        let held = self.caches.iter().find(|cache| distance <= 0.75 * cache.size);
        bytes / held.map_or(self.bytes, |cache| cache.bytes)
    }
}

/// A cache.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cache {
    /// How many bytes it holds.
    pub size: f64,
    /// Bytes per second between it and the core.
    pub bytes: f64,
}

/// A core of 3 GHz with two 256-bit fused multiply-adds a cycle, before a memory of 10 GB/s.
impl Default for Machine {
    fn default() -> Machine {
        Machine {
            flops: 96e9,
            bytes: 10e9,
            launch: Duration::from_micros(1),
            caches: [Cache { size: 1e6, bytes: 80e9 }, Cache { size: 16e6, bytes: 30e9 }],
            lanes: 8,
            step: 0.5e-9,
            gather: 1.6e-9,
            call: 6e-9,
        }
    }
}

/// What bounds a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bottleneck {
    /// Arithmetic takes longer than memory.
    Arithmetic,
    /// Memory takes longer than arithmetic.
    Memory,
}

impl Bottleneck {
    /// The word in reports.
    pub fn name(self) -> &'static str {
        match self {
            Bottleneck::Arithmetic => "arithmetic",
            Bottleneck::Memory => "memory",
        }
    }
}

/// The price of a kernel, or of several that run as one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KernelPrice {
    /// Seconds of a call; none of what does not run at these sizes, or runs once.
    pub seconds: f64,
    /// What bounds it.
    pub bound: Bottleneck,
}

/// The price of a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Price {
    /// Of each kernel, in the order in which they run.
    pub kernels: Vec<KernelPrice>,
}

impl Price {
    /// Seconds of a call.
    pub fn seconds(&self) -> f64 {
        self.kernels.iter().map(|k| k.seconds).sum()
    }
}

/// Positions that are taken for a sequence of which no length is given.
pub const ROWS: i64 = 512;
/// A fixed length before the width that is at least so great is one of rows, and no number of heads.
const FIXED_ROWS: i64 = 64;
/// What is taken for what lies around sequences, as examples of a batch and heads.
const AROUND: i64 = 4;
/// What is taken for all other dimensions: the first that all that divides them does divide.
const OTHERS: [i64; 4] = [64, 48, 60, 840];

/// The sizes at which a model is priced: those that are known, and for each other dimension a usual one. Where inputs have
/// rows, before their last axis, there are many; around these there are few.
pub fn nominal_sizes(g: &Graph, known: &Bindings) -> Bindings {
    let mut tried = OTHERS.iter().map(|others| sizes_with(g, known, *others));
    let fits = |sizes: &Bindings| g.axes().all(|(_, axis)| axis.extent.eval(sizes).is_ok());
    tried.find(fits).unwrap_or_else(|| sizes_with(g, known, OTHERS[0]))
}

fn sizes_with(g: &Graph, known: &Bindings, others: i64) -> Bindings {
    let mut out = known.clone();
    let extents = || g.axes().map(|(_, axis)| &axis.extent);
    // Heads are parts of a width; what a state grows by is a length of its own.
    let ports = g.inputs().iter().chain(g.params()).flat_map(|port| &port.axes);
    let of_ports = ports.chain(g.outputs().iter().flat_map(|out| &out.axes)).map(|axis| g.extent(*axis));
    let parts: BTreeSet<Name> =
        of_ports.filter(|d| d.as_dimension().is_none() && !d.is_sum()).flat_map(|d| d.dimensions()).collect();
    let is_row = |axis: &&AxisId| g.extent(**axis).as_dimension().is_some_and(|name| !parts.contains(name));
    // A state that grows has rows where it does, wherever its layout puts them.
    let growths = g.growths().into_iter();
    let lengths: BTreeSet<Name> =
        growths.flat_map(|of| of.added.dimensions().into_iter().chain([of.held])).collect();
    lengths.iter().for_each(|name| {
        out.entry(name.clone()).or_insert(ROWS);
    });
    let is_known = |axis: &AxisId| !g.extent(*axis).dimensions().is_disjoint(&lengths);
    let mut inputs: Vec<&[AxisId]> = g.inputs().iter().map(without_width).collect();
    // What several axes stand around says most.
    inputs.sort_by_key(|axes| std::cmp::Reverse(axes.len()));
    for axes in inputs {
        let row = axes.iter().rposition(|axis| is_row(&axis));
        let mut give = |axis: AxisId, size: i64| {
            for name in g.extent(axis).dimensions() {
                out.entry(name).or_insert(size);
            }
        };
        // Rows whose number is fixed stand behind what is around them.
        let is_many = |axis: &AxisId| g.extent(*axis).as_constant().is_some_and(|n| n >= FIXED_ROWS);
        let is_free = |at: &usize| !axes.iter().any(is_known) && !axes[at + 1..].iter().any(is_many);
        row.into_iter().filter(is_free).for_each(|at| give(axes[at], ROWS));
        axes.iter().for_each(|axis| give(*axis, AROUND));
    }
    for name in g.dimensions().into_iter().chain(extents().flat_map(|d| d.dimensions())) {
        out.entry(name).or_insert(others);
    }
    out
}

/// The axes of an input around its last one, which tokens do not have.
fn without_width(port: &Port) -> &[AxisId] {
    let width = usize::from(!port.dtype.is_int());
    &port.axes[..port.axes.len().saturating_sub(width)]
}

/// A plan at sizes.
struct Priced<'p> {
    plan: &'p Plan<'p>,
    machine: &'p Machine,
    /// Dimensions, and half of its extent for the place along each axis.
    numbers: BTreeMap<Symbol, i64>,
    /// Where each node is stored.
    homes: BTreeMap<NodeId, BufferId>,
    /// What [`Plan::originals`] gives: kernels of equal blocks are priced once.
    originals: Vec<usize>,
}

impl Plan<'_> {
    /// What its kernels take at these sizes; `None` where a dimension has no number at them.
    pub fn price(&self, sizes: &Bindings, machine: &Machine) -> Option<Price> {
        let priced = Priced::new(self, sizes, machine)?;
        let (mut memory, mut known) = (Memory::new(&priced)?, BTreeMap::new());
        let kernels = self.order.iter().map(|set| priced.kernel(set, (&mut memory, &mut known)));
        Some(Price { kernels: kernels.collect::<Option<Vec<_>>>()? })
    }
}

impl<'p> Priced<'p> {
    fn new(plan: &'p Plan<'p>, sizes: &Bindings, machine: &'p Machine) -> Option<Priced<'p>> {
        let mut numbers: BTreeMap<Symbol, i64> =
            sizes.iter().map(|(name, size)| (Symbol::from(name), *size)).collect();
        numbers.insert(LANES.clone(), machine.lanes);
        for (id, axis) in plan.graph.axes() {
            let middle = axis.extent.eval(&numbers).unwrap_or(0) / 2;
            numbers.insert(index_of(id), middle);
        }
        let sources = plan.buffers.iter().enumerate().take(plan.sources);
        let mut homes: BTreeMap<NodeId, BufferId> =
            sources.map(|(at, buffer)| (buffer.node, BufferId(at))).collect();
        homes.extend(plan.steps.iter().map(|step| (step.node, step.buffer)));
        Some(Priced { plan, machine, numbers, homes, originals: plan.originals() })
    }

    fn eval(&self, dim: &Dim) -> Option<f64> {
        Some(dim.eval(&self.numbers).ok()?.max(0) as f64)
    }

    fn extent(&self, axis: AxisId) -> Option<f64> {
        self.eval(self.plan.graph.extent(axis))
    }

    fn extents(&self, axes: impl IntoIterator<Item = AxisId>) -> Option<f64> {
        axes.into_iter().try_fold(1.0, |product, axis| Some(product * self.extent(axis)?))
    }

    /// The price of kernels that run as one; `known` are the seconds of arithmetic of those that were priced before.
    fn kernel(
        &self,
        set: &[usize],
        (memory, known): (&mut Memory, &mut BTreeMap<usize, f64>),
    ) -> Option<KernelPrice> {
        let (mut arithmetic, mut touched) = (0.0, BTreeSet::new());
        for (at, kernel) in set.iter().map(|at| (*at, &self.plan.kernels[*at])) {
            let runs = match &kernel.when {
                Some((a, b)) => a.eval(&self.numbers).ok()? < b.eval(&self.numbers).ok()?,
                None => true,
            };
            if runs && !kernel.once {
                let seconds = match known.get(&self.originals[at]) {
                    Some(seconds) => *seconds,
                    None => self.work(kernel)?.seconds(self.machine),
                };
                known.insert(self.originals[at], seconds);
                arithmetic += seconds;
                touched.extend(kernel.reads().iter().copied().chain([kernel.buffer]));
            }
        }
        if touched.is_empty() {
            return Some(KernelPrice { seconds: 0.0, bound: Bottleneck::Arithmetic });
        }
        let traffic = touched.into_iter().map(|id| memory.touch(id, self.machine)).sum();
        let bound = if arithmetic > traffic { Bottleneck::Arithmetic } else { Bottleneck::Memory };
        let seconds = self.machine.launch.as_secs_f64() + arithmetic.max(traffic);
        Some(KernelPrice { seconds, bound })
    }
}

/// What was touched, and when.
struct Memory {
    /// The bytes of each buffer.
    sizes: Vec<f64>,
    /// The bytes touched until the last use of each buffer.
    last: Vec<f64>,
    /// The bytes touched so far.
    clock: f64,
}

impl Memory {
    /// Before a call like the one before: parameters were read a call ago, and inputs were just written.
    fn new(priced: &Priced<'_>) -> Option<Memory> {
        let size = |b: &crate::program::kernel::Buffer| {
            let count = b.shape.iter().try_fold(1.0, |n, d| Some(n * priced.eval(d)?))?;
            Some(count * b.elem().size() as f64)
        };
        let buffers = &priced.plan.buffers;
        let sizes = buffers.iter().map(size).collect::<Option<Vec<f64>>>()?;
        let all: f64 = sizes.iter().sum();
        let before = |b: &crate::program::kernel::Buffer| match b.role {
            Role::Param(_) | Role::Coded(_) | Role::Loaded => -all,
            Role::Input(_) | Role::Output(_) | Role::Temporary => 0.0,
        };
        Some(Memory { last: buffers.iter().map(before).collect(), sizes, clock: 0.0 })
    }

    /// The seconds that bringing a buffer to the core takes.
    fn touch(&mut self, id: BufferId, machine: &Machine) -> f64 {
        let size = self.sizes[id.0];
        let distance = self.clock - self.last[id.0] + size;
        self.clock += size;
        self.last[id.0] = self.clock;
        machine.transfer(size, distance)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Options, plan};
    use salient_ir::{Builder, DType, MapOp, Op, ReduceOp};

    /// The sum over the second axis of a matrix of that many rows and columns, or of its exponentials.
    fn row_sums(rows: i64, columns: i64, exponentials: bool) -> Graph {
        let mut b = Builder::new("sums");
        let (t, d) = (b.axis_id("t", &Dim::constant(rows)), b.axis_id("d", &Dim::constant(columns)));
        let mut x = b.input("x", &[t, d], DType::F32, None);
        if exponentials {
            x = b.add(Op::Map(MapOp::Exp), &[x]).unwrap();
        }
        let y = b.add(Op::Reduce(ReduceOp::Sum, d), &[x]).unwrap();
        b.output("y", &[t], y).unwrap();
        b.finish()
    }

    fn seconds(g: &Graph, fuse: bool) -> f64 {
        let plan = plan(g, Options { fuse, ..Options::default() });
        plan.price(&Bindings::new(), &Machine::default()).expect("every extent is a number").seconds()
    }

    #[test]
    fn a_price_grows_with_work_and_with_what_is_stored() {
        assert!(seconds(&row_sums(512, 512, false), true) > 3.0 * seconds(&row_sums(128, 512, false), true));
        let exponentials = row_sums(512, 512, true);
        assert!(seconds(&exponentials, true) > seconds(&row_sums(512, 512, false), true));
        assert!(seconds(&exponentials, false) > seconds(&exponentials, true));
    }

    #[test]
    fn a_program_as_written_costs_no_less_than_its_floor() {
        let g = row_sums(512, 512, true);
        let floor = floor_as_written(&g, &Bindings::new(), &Machine::default()).expect("numbers");
        assert!(floor > 0.0 && floor <= seconds(&g, false), "{floor}");
    }

    #[test]
    fn what_has_no_number_has_no_price() {
        let mut b = Builder::new("copy");
        let t = b.axis_id("t", &Dim::symbol("T"));
        let x = b.input("x", &[t], DType::F32, None);
        b.output("y", &[t], x).unwrap();
        let g = b.finish();
        let plan = plan(&g, Options::default());
        assert_eq!(plan.price(&Bindings::new(), &Machine::default()), None);
        let nominal = nominal_sizes(&g, &Bindings::new());
        assert!(plan.price(&nominal, &Machine::default()).is_some());
    }

    #[test]
    fn what_is_near_costs_less_than_what_is_far() {
        let machine = Machine::default();
        let mut memory = Memory { sizes: vec![1e5, 1e9], last: vec![0.0, 0.0], clock: 0.0 };
        let near = memory.touch(BufferId(0), &machine);
        memory.touch(BufferId(1), &machine);
        assert!(memory.touch(BufferId(0), &machine) > 2.0 * near);
    }
}
