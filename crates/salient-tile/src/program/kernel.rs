//! Loop programs: what a kernel is, before machine code.
//!
//! A kernel is loops, integers and calls of vector bodies. No statement here reads or writes a tensor's element; only
//! bodies do. Integers are [`Dim`]s over dimensions of the model (`T`), loop variables (`item`), and [`LANES`], the vector
//! width of the target. Choosing the loops is the work of
//! `plan` and of the builders of each kind of kernel, not of this module.

use super::values::Value;
use crate::dims::LANES;
use salient_ir::{AxisId, Bindings, DType, Dim, DimNode, Name, NodeId, Numbers, Origin, Symbol};
use salient_vector::body::{Body, Elem};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// What the symbols of a program's formulas stand for: the dimensions, and [`LANES`].
#[derive(Clone, Copy, Debug)]
pub struct Sizes<'d> {
    /// The lengths of the dimensions.
    pub dimensions: &'d Bindings,
    /// The lanes of a vector.
    pub lanes: usize,
}

impl Numbers for Sizes<'_> {
    fn number(&self, of: &Symbol) -> Option<i64> {
        if *of == LANES { i64::try_from(self.lanes).ok() } else { self.dimensions.number(of) }
    }
}

/// A buffer of a program, by position in [`Program::buffers`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BufferId(pub usize);

/// What a buffer is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// The model's input of that position; read only.
    Input(usize),
    /// The model's parameter of that position; read only.
    Param(usize),
    /// The model's output of that position; written once, may be read afterwards.
    Output(usize),
    /// An intermediate tensor in the arena.
    Temporary,
    /// A tensor that follows from the parameters alone: computed once when they are bound, then read only.
    Loaded,
    /// The codes, scales and offsets of the model's parameter of that position, which is in blocks: packed in panels when the
    /// parameters are bound, then read only.
    Coded(usize),
}

/// A stored tensor, row-major over its axes in order.
#[derive(Clone, Debug)]
pub struct Buffer {
    /// Name in dumps: the node's name in the text form of the graph.
    pub name: String,
    /// What it is for.
    pub role: Role,
    /// The element type in the graph.
    pub dtype: DType,
    /// The order of the axes, outermost first.
    pub axes: Vec<AxisId>,
    /// Their extents.
    pub shape: Vec<Dim>,
    /// The node whose value it holds; outputs that repeat another's value hold the same node.
    pub node: NodeId,
}

impl Buffer {
    /// The elements as they lie in memory. Integers are 32 bits wide in compiled code, whatever the graph says: wider
    /// ones are checked and narrowed at the border.
    pub fn elem(&self) -> Elem {
        elem_of(self.dtype)
    }

    /// Number of elements.
    pub fn count(&self) -> Dim {
        self.shape.iter().fold(Dim::constant(1), |n, d| &n * d)
    }
}

/// How values of a dtype lie in memory of compiled code.
pub fn elem_of(dtype: DType) -> Elem {
    match dtype {
        DType::F32 | DType::F16 | DType::BF16 => Elem::F32,
        DType::I32 | DType::I64 => Elem::I32,
        DType::Bool => Elem::Bool,
    }
}

/// Memory of one thread that lasts for one call of a kernel; every slot begins at a multiple of 64 bytes.
#[derive(Clone, Debug)]
pub struct Scratch {
    /// Name in dumps.
    pub name: String,
    /// Number of 4-byte elements.
    pub count: Dim,
}

/// Where an address begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Base {
    /// A buffer of the program.
    Buffer(BufferId),
    /// A slot of the kernel's scratch memory, by position.
    Scratch(usize),
    /// The cell that tells the caller of an index outside its axis: see [`Check`].
    Status,
}

/// An argument of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Arg {
    /// The address of an element: `offset` elements (of the base's own element size) from the base.
    Address {
        /// Where it begins.
        base: Base,
        /// Elements from there.
        offset: Dim,
    },
    /// An integer.
    Int(Dim),
}

/// An integer that a statement binds or compares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Int {
    /// A polynomial.
    Dim(Dim),
    /// The least of them.
    Min(Vec<Dim>),
    /// The greatest of them.
    Max(Vec<Dim>),
}

/// A statement of a loop program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stmt {
    /// Runs the block with `var` at `from`, `from + step`, … while it is less than `to`.
    For {
        /// The loop variable.
        var: Symbol,
        /// First value.
        from: Dim,
        /// One past the last value.
        to: Dim,
        /// Always positive.
        step: Dim,
        /// What is repeated.
        block: Vec<Stmt>,
    },
    /// Binds a variable for the statements that follow in the block.
    Let {
        /// The variable.
        var: Symbol,
        /// Its value.
        value: Int,
    },
    /// Binds a variable to a 32-bit integer in scratch memory.
    Read {
        /// The variable.
        var: Symbol,
        /// The slot.
        scratch: usize,
        /// The element.
        offset: Dim,
    },
    /// Runs one of two blocks.
    If {
        /// `left < right` chooses the first.
        left: Dim,
        /// See `left`.
        right: Dim,
        /// Where it holds.
        then: Vec<Stmt>,
        /// Where it does not.
        otherwise: Vec<Stmt>,
    },
    /// Calls a vector body of the kernel.
    Call {
        /// Position in [`Kernel::bodies`].
        body: usize,
        /// As many as the body has parameters.
        args: Vec<Arg>,
    },
}

/// The forms that a kernel can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A streaming softmax over keys.
    Attention,
    /// A sum of products as a register-tiled matrix product.
    Gemm,
    /// Reductions along rows.
    Rows,
    /// An operand brought into the form that register tiles read.
    Pack,
    /// Element by element.
    Map,
}

impl Kind {
    /// The word in dumps.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Attention => "attention",
            Kind::Gemm => "gemm",
            Kind::Rows => "rows",
            Kind::Pack => "pack",
            Kind::Map => "map",
        }
    }
}

/// A kernel: independent items of work, each one run of the block.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// The name of what it computes.
    pub name: String,
    /// Its form.
    pub kind: Kind,
    /// The named nodes of the graph that it computes without storing them, and the one that it stores.
    pub fuses: Vec<String>,
    /// The buffers that it reads.
    pub reads: Vec<BufferId>,
    /// The buffers that it writes.
    pub writes: Vec<BufferId>,
    /// The loop variable of the items.
    pub item: Symbol,
    /// How many items there are. Items are independent of each other and write disjoint memory.
    pub items: Dim,
    /// Scratch memory of a thread.
    pub scratch: Vec<Scratch>,
    /// What is done for one item.
    pub block: Vec<Stmt>,
    /// The vector bodies that the block calls, which kernels of equal blocks share.
    pub bodies: Vec<Arc<Body>>,
    /// Floating-point operations of the whole kernel, for reports; what a mask hides is not subtracted.
    pub flops: Dim,
    /// Why it has this form and not another, where there is a choice.
    pub form: Option<&'static str>,
    /// The rows that its items go through, where it is a product of rows that others may share.
    pub row_blocks: Option<RowBlocks>,
}

/// The left operand of a product whose items are blocks of its rows, and for each block groups of columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowBlocks {
    /// Where the rows are.
    pub buffer: BufferId,
    /// How many blocks of rows there are: the outer part of an item.
    pub blocks: Dim,
    /// How many groups of columns there are: the inner part.
    pub groups: Dim,
}

impl Kernel {
    /// The condition around all of it, if there is one: it does nothing unless the first is less than the second.
    pub fn condition(&self) -> Option<(&Dim, &Dim)> {
        match self.block.as_slice() {
            [Stmt::If { left, right, otherwise, .. }] if otherwise.is_empty() => Some((left, right)),
            _ => None,
        }
    }
}

/// A check that compiled code makes: an index that leaves its axis. On failure a kernel writes `site + 1` and the index
/// to the two 32-bit cells of the status.
#[derive(Clone, Debug)]
pub struct Check {
    /// The tensor that is indexed.
    pub tensor: String,
    /// The axis that the index leaves.
    pub axis: Name,
    /// Its extent.
    pub extent: Dim,
    /// Where the index was written.
    pub origin: Option<Origin>,
}

/// What must stay within 32 bits, since lanes of vector bodies have no more. A call at dimensions at which it does not is
/// refused before anything runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Limit {
    /// The elements of a buffer in which each lane reads at a distance of its own: at most 2^31.
    Elements(BufferId),
    /// An integer that lanes hold.
    Integer {
        /// What it is, over dimensions and loop variables.
        value: DimNode,
        /// The loop variables in it and in their own extents; each lies in `0..` its extent.
        below: BTreeMap<Symbol, DimNode>,
    },
}

/// An output that begins with what an input holds: a state to which a call appends. Kernels write what comes after alone;
/// whoever runs the program puts the input there before, or lets both be the same memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Append {
    /// The state before the call.
    pub input: BufferId,
    /// The state after it, whose first elements those of the input are.
    pub output: BufferId,
}

/// The parts of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Section {
    /// What follows from the parameters alone, at dimensions that their shapes fix: run once when they are bound.
    Load,
    /// All else: run at every call.
    Call,
}

impl Section {
    /// Its kernels among so many, of which the first `loads` run once.
    pub(crate) fn of(self, loads: usize, kernels: usize) -> Range<usize> {
        match self {
            Section::Load => 0..loads,
            Section::Call => loads..kernels,
        }
    }
}

/// A whole model as kernels to be run one after the other.
#[derive(Clone, Debug)]
pub struct Program {
    /// The model's name.
    pub name: Name,
    /// The dimensions that are run-time values, sorted.
    pub dimensions: Vec<Name>,
    /// Every stored tensor: inputs, parameters, outputs, temporaries.
    pub buffers: Vec<Buffer>,
    /// The kernels in the order in which they run.
    pub kernels: Vec<Kernel>,
    /// For each kernel the one before it of which it is a copy over other buffers, if it is one: what the two read and write
    /// corresponds in order. Kernels beyond the end of the list are no copies.
    pub copies: Vec<Option<usize>>,
    /// So many of them, at the start, run once when the parameters are bound: see [`Section`].
    pub loads: usize,
    /// The outputs that begin with an input.
    pub appends: Vec<Append>,
    /// The checks that kernels make, by site.
    pub checks: Vec<Check>,
    /// For each buffer the value of the source that it holds, element by element, if it holds one. Buffers beyond the end of
    /// the list hold none.
    pub values: Vec<Option<Value>>,
    /// What must stay within 32 bits, each different one once.
    pub limits: Vec<Limit>,
}

impl Program {
    /// A buffer.
    pub fn buffer(&self, id: BufferId) -> &Buffer {
        &self.buffers[id.0]
    }

    /// The positions of the kernels of a section.
    pub fn section(&self, section: Section) -> Range<usize> {
        section.of(self.loads, self.kernels.len())
    }

    /// For each buffer, whether a kernel of the section reads or writes it.
    pub fn touched(&self, section: Section) -> Vec<bool> {
        let mut touched = vec![false; self.buffers.len()];
        for kernel in &self.kernels[self.section(section)] {
            kernel.reads.iter().chain(&kernel.writes).for_each(|id| touched[id.0] = true);
        }
        touched
    }

    /// The buffer with that role.
    pub fn with_role(&self, role: Role) -> Option<BufferId> {
        self.buffers.iter().position(|b| b.role == role).map(BufferId)
    }
}
