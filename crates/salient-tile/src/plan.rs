//! The plan: what is stored, in which layout, and by which kernel; how each kernel reads its operands, which keys an attention
//! visits and how its mask is applied. All of this is decided as a value before there is any loop; [`emit`](fn@crate::emit)
//! makes the loops. What it adds follows from layouts and changes time alone: a strip runs along the axis that is contiguous in
//! memory, and what is wanted next is prefetched. The sizes of tiles come from [`Tiling`].
//!
//! Reductions and fused operators are materialised, because a strip cannot compute them on the way; everything else is
//! computed where it is needed. Three exceptions save a pass over memory: what follows a GEMM or an attention element by
//! element is its epilogue, products inside scores that attentions alone read are not stored, and what a norm needs of each
//! row is held by the kernel that stores the row.
//!
//! The passes, in order: `defined` says where values may be undefined, `materialise` which nodes are stored
//! and by which kind of kernel, `decide` where each lies and what its kernels read, `order` what runs once and what runs as
//! one kernel.

pub(crate) mod attention;
pub(crate) mod contraction;
pub(crate) mod decide;
pub(crate) mod expression;
pub(crate) mod layouts;
pub(crate) mod materialise;
pub(crate) mod order;
pub mod price;
pub(crate) mod repeat;
pub(crate) mod scratch;

pub mod text;

use crate::defined::Defined;
use crate::plan::attention::Attention;
use crate::plan::attention::beside::{BesideKernel, SumParts};
use crate::plan::attention::key_loop::KeyLoop;
use crate::plan::attention::split::SplitKv;
use crate::plan::attention::whole_rows::WholeRows;
use crate::plan::contraction::Contraction;
use crate::plan::expression::Expression;
use crate::plan::layouts::panels::{Edge, Panels};
use crate::plan::layouts::{Stored, stored};
use crate::plan::materialise::scatter::Scatter;
use crate::plan::scratch::share;
use crate::program::kernel::{Append, Buffer, BufferId, Scratch};
use crate::program::memory::{KernelUsage, Usage};
use crate::tiling::Tiling;
use salient_ir::quantised::Coding;
use salient_ir::{AxisId, AxisSet, Dim, Graph, Name, NodeId, Op};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

pub(crate) use layouts::Layouts;

/// How a graph is cut into kernels.
#[derive(Clone, Copy, Debug)]
pub struct Options<'a> {
    /// Whether element-wise operators join the kernels around them. Without, each is a kernel of its own.
    pub fuse: bool,
    /// Sizes of tiles and blocks.
    pub tiling: Tiling,
    /// Whether every product is taken as written: no scale of scores is multiplied into the queries.
    pub keeps_order: bool,
    /// Parameters that will be given in blocks of few bits, by position among the graph's.
    pub coded: &'a BTreeMap<usize, Coding>,
    /// Chains of equal blocks of the graph: for each block its nodes, corresponding ones at the same position.
    pub chains: &'a [Vec<Vec<NodeId>>],
}

impl Default for Options<'_> {
    fn default() -> Self {
        const NONE: &BTreeMap<usize, Coding> = &BTreeMap::new();
        Options { fuse: true, tiling: Tiling::default(), keeps_order: false, coded: NONE, chains: &[] }
    }
}

/// Every decision about a graph. Made by [`plan`](fn@plan), changed by nobody.
#[derive(Clone, Debug)]
pub struct Plan<'g> {
    /// The graph that is computed: that which was given, with checks of indices where values are used that may be undefined.
    pub(crate) graph: Cow<'g, Graph>,
    /// Where its values are defined, and who reports that they are not.
    pub(crate) defined: Defined,
    /// The name of each node in dumps.
    pub(crate) names: Vec<Option<String>>,
    pub(crate) options: Options<'g>,
    /// Every stored tensor: inputs and parameters, then results in the order in which steps store them.
    pub(crate) buffers: Vec<Buffer>,
    /// So many of them, at the start, are inputs and parameters.
    pub(crate) sources: usize,
    /// What is stored, each value after those that it is computed from.
    pub(crate) steps: Vec<Step>,
    /// The kernels of all steps.
    pub(crate) kernels: Vec<KernelPlan>,
    /// The kernels as they run, by position; several in one set are one kernel over the same rows (horizontal fusion).
    pub(crate) order: Vec<Vec<usize>>,
    /// So many of these sets, at the start, run once when the parameters are bound.
    pub(crate) loads: usize,
    /// The outputs that begin with what an input holds.
    pub(crate) appends: Vec<Append>,
}

/// A value that is stored, and the kernels that store it.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) node: NodeId,
    /// Where it is stored.
    pub(crate) buffer: BufferId,
    /// Positions of its kernels: those that bring operands into the form that is read come first.
    pub(crate) kernels: Range<usize>,
    /// Positions of the buffers that these need of their own.
    pub(crate) buffers: Range<usize>,
    /// The step of the equal block before, of which this one is a copy.
    pub(crate) copy: Option<CopiedStep>,
}

/// A step whose kernels are those of another one over other buffers.
#[derive(Clone, Debug)]
pub(crate) struct CopiedStep {
    /// The step, by position.
    pub(crate) of: usize,
    /// The block that this one is in, among those of all chains.
    pub(crate) block: usize,
    /// For each buffer of the other step what stands in its place.
    pub(crate) buffers: BTreeMap<BufferId, BufferId>,
}

/// A kernel, before any loop.
#[derive(Clone, Debug)]
pub(crate) struct KernelPlan {
    /// The node whose value it stores; of a kernel that packs an operand, the operand.
    pub(crate) node: NodeId,
    /// Where it stores it.
    pub(crate) buffer: BufferId,
    /// It runs only where the first is less than the second.
    pub(crate) when: Option<(Dim, Dim)>,
    pub(crate) anchor: Anchor,
    /// What it computes and reads: prologue, anchor and epilogue.
    pub(crate) expression: Expression,
    /// The scratch memory of a thread.
    pub(crate) scratch: Vec<Scratch>,
    /// Floating-point operations of the whole kernel; what a mask hides is not subtracted.
    pub(crate) flops: Dim,
    /// Whether it follows from the parameters alone, at dimensions that their shapes fix: it runs when they are bound.
    pub(crate) once: bool,
}

/// Columns that one item of a kernel of columns computes: their results and sums stay in the first cache, and matrices of a few hundred
/// columns are items for several threads.
pub(crate) const STRIP_OF_COLUMNS: i64 = 128;

/// Positions of the result that one item of a scattering sum owns, and indices that it looks at in one go.
pub(crate) const OWNED_POSITIONS: i64 = 256;
pub(crate) const STRIP_OF_INDICES: i64 = 512;

/// Columns that one item of a map stores that goes by squares.
pub(crate) const COLUMNS_OF_MAP: i64 = 64;

/// In which order the elements of a map are computed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum MapOrder {
    /// Row by row of the result.
    Rows,
    /// Along an axis that is not the innermost of the result, and turned by squares of as many rows and columns as there are lanes: what
    /// is read lies so. A view is copied; what is `computed` goes through scratch memory.
    Squares { along: AxisId, computed: bool },
}

/// What a kernel is built around. All else that it computes is prologue or epilogue: expressions of what is stored.
#[derive(Clone, Debug)]
pub(crate) enum Anchor {
    /// Nothing: element by element.
    Map(MapOrder),
    /// What is new of a state to which a call appends, element by element.
    Append(Part),
    /// Nothing runs: an output of which the elements lie as those of a temporary do, which is stored in its place.
    Alias(BufferId),
    /// Element by element along rows, of which reductions are held while the row is near.
    Rows { along: AxisId, held: BTreeSet<NodeId> },
    /// The node itself, row by row: a reduction, a normalisation or a running sum along the axis that it binds. The loops go over these
    /// axes, the outermost first.
    Reduction { loops: Vec<AxisId> },
    /// The node itself, a reduction or a normalisation of many columns at once: positions of this axis are the lanes.
    Columns { column: AxisId },
    /// The node itself, a sum whose terms are each added at one position of the result.
    Scatter(Scatter),
    /// A matrix product.
    Gemm(Gemm),
    /// An operand of a product in panels.
    Pack(Pack),
    /// An attention, rows in tiles over packed keys.
    Tiled(Tiled),
    /// An attention whose scores are kept for all keys, rows in tiles over packed keys.
    WholeRows(WholeRows),
    /// A further result of the rows of such an attention, which its kernel stores: they run as one.
    Beside(BesideKernel),
    /// The parts of a sum over the rows of an attention added up.
    SumParts(SumParts),
    /// An attention of few rows: the state of each row after each part of the keys.
    SplitKv(SplitKv),
    /// The parts of such an attention merged.
    Merge(SplitKv),
}

/// A part of a buffer.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    /// The node whose value the part holds.
    pub(crate) node: NodeId,
    /// Its axes as they lie, and where they do.
    pub(crate) axes: Vec<AxisId>,
    pub(crate) order: MapOrder,
    pub(crate) place: Stored,
}

/// A matrix product: rows of the left operand by panels of the right one.
#[derive(Clone, Debug)]
pub(crate) struct Gemm {
    pub(crate) contraction: Contraction,
    pub(crate) left: Left,
    pub(crate) panels: Panels,
    pub(crate) edge: Edge,
}

/// Where the left operand of a product is read.
#[derive(Clone, Debug)]
pub(crate) enum Left {
    /// Where its value lies, or what it is a view of.
    InPlace(BufferId),
    /// Stored row by row for products of these rows.
    Rows(Stored),
}

impl Left {
    /// The buffer that it is read from, if it lies in one.
    pub(crate) fn buffer(&self) -> Option<BufferId> {
        match self {
            Left::InPlace(id) => Some(*id),
            Left::Rows(stored) => stored.buffer(),
        }
    }

    /// Where it is stored row by row, if it is.
    pub(crate) fn rows(&self) -> Option<&Stored> {
        match self {
            Left::InPlace(_) => None,
            Left::Rows(stored) => Some(stored),
        }
    }
}

/// An operand packed in panels of columns, each contiguous along the depth.
#[derive(Clone, Debug)]
pub(crate) struct Pack {
    pub(crate) column: AxisId,
    pub(crate) depth: AxisId,
    pub(crate) panels: Panels,
}

/// An attention in tiles of rows by tiles of keys.
#[derive(Clone, Debug)]
pub(crate) struct Tiled {
    pub(crate) attention: Attention,
    /// The products inside the scores that are made tile by tile.
    pub(crate) scores: Vec<PackedScores>,
    pub(crate) key_loop: KeyLoop,
    /// The most rows of a tile.
    pub(crate) tile_rows: i64,
}

/// A product of queries and keys inside scores.
#[derive(Clone, Debug)]
pub(crate) struct PackedScores {
    pub(crate) product: NodeId,
    pub(crate) query: NodeId,
    pub(crate) key: NodeId,
    /// The keys, packed.
    pub(crate) keys: Panels,
    /// Whether each row reads another part of the columns, as one that looks at what lies at a distance from it does.
    pub(crate) is_band: bool,
}

impl Plan<'_> {
    /// For each kernel itself, or of a copy the first kernel of which it is one: that does the same over other buffers.
    pub(crate) fn originals(&self) -> Vec<usize> {
        let mut out: Vec<usize> = (0..self.kernels.len()).collect();
        for Step { kernels, copy, .. } in &self.steps {
            let Some(copy) = copy else { continue };
            for (own, of) in kernels.clone().zip(self.steps[copy.of].kernels.clone()) {
                out[own] = out[of];
            }
        }
        out
    }

    /// What is stored before anything is computed.
    pub(crate) fn layouts(&self) -> Layouts<'_> {
        let of = |(at, buffer): (usize, &Buffer)| (buffer.node, stored(BufferId(at), buffer));
        let sources = self.buffers.iter().enumerate().take(self.sources);
        Layouts {
            graph: &self.graph,
            defined: &self.defined,
            names: &self.names,
            options: self.options,
            stored: sources.map(of).collect(),
        }
    }
}

impl Plan<'_> {
    /// The outputs in whose place temporaries are stored, by those.
    pub(crate) fn aliases(&self) -> BTreeMap<BufferId, BufferId> {
        let alias = |k: &KernelPlan| match k.anchor {
            Anchor::Alias(of) => Some((of, k.buffer)),
            Anchor::Map(_) | Anchor::Append(_) | Anchor::Rows { .. } | Anchor::Reduction { .. } => None,
            Anchor::Columns { .. } | Anchor::Scatter(_) | Anchor::Gemm(_) | Anchor::Pack(_) => None,
            Anchor::Tiled(_) | Anchor::WholeRows(_) | Anchor::Beside(_) | Anchor::SumParts(_) => None,
            Anchor::SplitKv(_) | Anchor::Merge(_) => None,
        };
        self.kernels.iter().filter_map(alias).collect()
    }

    /// Where what is stored in each buffer lies: there, or in an output.
    pub(crate) fn places(&self) -> BTreeMap<BufferId, BufferId> {
        let aliases = self.aliases();
        let place = |id: BufferId| (id, aliases.get(&id).copied().unwrap_or(id));
        (0..self.buffers.len()).map(|at| place(BufferId(at))).collect()
    }

    /// The dimensions that are run-time values, by name.
    pub(crate) fn dimensions(&self) -> Vec<Name> {
        let g = &*self.graph;
        let mut axes = AxisSet::new();
        let mut out: BTreeSet<Name> = g.dimensions();
        for id in g.ids() {
            axes = axes.union(&g.node(id).axes).union(&g.op(id).axes().into_iter().collect());
            if let Op::Extent(dim) = g.op(id) {
                out.extend(dim.dimensions());
            }
        }
        out.extend(axes.iter().flat_map(|a| g.extent(a).dimensions()));
        out.into_iter().collect()
    }

    /// What the memory of its program depends on.
    pub fn usage(&self) -> Usage<'_> {
        let places = self.places();
        let of = |set: &Vec<usize>| {
            let (mut touches, mut scratch) = (BTreeSet::new(), Vec::new());
            for kernel in set.iter().map(|at| &self.kernels[*at]) {
                touches.extend(kernel.reads().iter().chain([&kernel.buffer]).map(|id| places[id]));
                share(&mut scratch, &kernel.scratch);
            }
            KernelUsage { touches: touches.into_iter().collect(), scratch: scratch.into() }
        };
        let kernels = self.order.iter().map(of).collect();
        Usage { dimensions: self.dimensions(), buffers: &self.buffers, kernels, loads: self.loads }
    }
}

impl KernelPlan {
    /// The buffers that it may read.
    pub(crate) fn reads(&self) -> &BTreeSet<BufferId> {
        &self.expression.reads
    }

    /// The same over other nodes and buffers.
    pub(crate) fn moved(
        &self,
        node: impl Fn(NodeId) -> NodeId,
        buffer: impl Fn(BufferId) -> BufferId,
    ) -> KernelPlan {
        KernelPlan {
            node: node(self.node),
            buffer: buffer(self.buffer),
            when: self.when.clone(),
            anchor: self.anchor.moved(&node, &buffer),
            expression: Expression {
                computes: self.expression.computes.iter().map(|id| node(*id)).collect(),
                reads: self.expression.reads.iter().map(|id| buffer(*id)).collect(),
                reports: self.expression.reports,
            },
            scratch: self.scratch.clone(),
            flops: self.flops.clone(),
            once: self.once,
        }
    }
}

impl Anchor {
    fn moved(&self, node: &impl Fn(NodeId) -> NodeId, buffer: &impl Fn(BufferId) -> BufferId) -> Anchor {
        match self {
            Anchor::Map(order) => Anchor::Map(*order),
            Anchor::Append(part) => Anchor::Append(Part {
                node: node(part.node),
                place: part.place.in_buffer(buffer),
                ..part.clone()
            }),
            Anchor::Alias(of) => Anchor::Alias(buffer(*of)),
            Anchor::Rows { along, held } => {
                Anchor::Rows { along: *along, held: held.iter().map(|id| node(*id)).collect() }
            }
            Anchor::Reduction { loops } => Anchor::Reduction { loops: loops.clone() },
            Anchor::Columns { column } => Anchor::Columns { column: *column },
            Anchor::Scatter(of) => Anchor::Scatter(of.moved(node)),
            Anchor::Gemm(gemm) => Anchor::Gemm(Gemm {
                contraction: gemm.contraction.moved(node),
                left: match &gemm.left {
                    Left::InPlace(id) => Left::InPlace(buffer(*id)),
                    Left::Rows(stored) => Left::Rows(stored.in_buffer(buffer)),
                },
                panels: gemm.panels.in_buffer(buffer(gemm.panels.id)),
                edge: gemm.edge,
            }),
            Anchor::Pack(pack) => {
                Anchor::Pack(Pack { panels: pack.panels.in_buffer(buffer(pack.panels.id)), ..pack.clone() })
            }
            Anchor::Tiled(tiled) => Anchor::Tiled(Tiled {
                attention: tiled.attention.moved(node),
                scores: tiled.scores.iter().map(|s| s.moved(node, buffer)).collect(),
                key_loop: tiled.key_loop.moved(node),
                tile_rows: tiled.tile_rows,
            }),
            Anchor::WholeRows(whole) => Anchor::WholeRows(whole.moved(node, buffer)),
            Anchor::Beside(of) => Anchor::Beside(BesideKernel {
                host: buffer(of.host),
                root: node(of.root),
                sum: of.sum.map(node),
                scores: of.scores.iter().map(|s| s.moved(node, buffer)).collect(),
            }),
            Anchor::SumParts(of) => {
                Anchor::SumParts(SumParts { sum: node(of.sum), parts: buffer(of.parts), ..of.clone() })
            }
            Anchor::SplitKv(split) => Anchor::SplitKv(split.moved(node, buffer)),
            Anchor::Merge(split) => Anchor::Merge(split.moved(node, buffer)),
        }
    }
}

impl PackedScores {
    fn moved(
        &self,
        node: &impl Fn(NodeId) -> NodeId,
        buffer: &impl Fn(BufferId) -> BufferId,
    ) -> PackedScores {
        let keys = self.keys.in_buffer(buffer(self.keys.id));
        let [product, query, key] = [self.product, self.query, self.key].map(node);
        PackedScores { product, query, key, keys, is_band: self.is_band }
    }
}

/// The plan of a graph.
pub fn plan<'g>(g: &'g Graph, options: Options<'g>) -> Plan<'g> {
    let (graph, defined) = crate::defined::defined(g);
    // Checks are nodes of their own: blocks that have some are planned one by one.
    let with_checks = matches!(graph, Cow::Owned(_));
    let chains = if options.fuse && !with_checks { options.chains } else { &[] };
    let options = Options { chains, ..options };
    let names = salient_ir::text::node_names(&graph);
    let decided = decide::decide(&graph, &defined, &names, options, None);
    let decide::Decided { sources, mut buffers, steps, kernels, appends } = decided;
    let (order, loads) = order::order(&graph, &mut buffers, &kernels, |_, _| options.fuse);
    Plan { graph, defined, names, options, sources, buffers, steps, kernels, order, loads, appends }
}
