//! The memory plan: what a call works in has a place in one arena, shared by tensors that are never alive at once; and the
//! contract, which says for all dimensions how much that is at most.
//!
//! Which tensors are alive together follows from the order of the kernels alone; how much room that takes depends on the
//! dimensions of a call. Inputs, parameters and outputs belong to the caller; only 64-bit integers among them, which
//! compiled code sees as 32-bit copies, are planned. What is computed once from parameters is kept apart, beside the
//! arenas: see [`kept`].

use crate::program::kernel::{Buffer, BufferId, Kernel, Program, Role, Scratch, Section, Sizes};
use salient_ir::{DType, Dim, DimError, DimNode, Name};
use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::fmt;
use std::ops::Range;

/// Every place in the arena begins at a multiple of this many bytes: a cache line.
pub const ALIGNMENT: usize = 64;

/// More bytes than any address space has; sums of this many bytes do not overflow.
const MOST: usize = 1 << 47;

/// Bytes of `count` elements of `size` bytes, rounded up to whole cache lines.
///
/// # Errors
/// The count has no value, is negative, or is of more bytes than there can be.
pub fn bytes(count: &Dim, size: i64, sizes: Sizes<'_>) -> Result<usize, DimError> {
    bytes_of(count.eval(&sizes)?, size).ok_or_else(|| DimError::Overflow(count.clone()))
}

/// As [`bytes`], of a count that has been evaluated; `None` if it is negative or of more bytes than there can be.
pub fn bytes_of(count: i64, size: i64) -> Option<usize> {
    let bytes = usize::try_from(count).ok()?.checked_mul(usize::try_from(size).ok()?)?;
    (bytes <= MOST).then(|| bytes.next_multiple_of(ALIGNMENT))
}

/// Whether the caller's elements are wider than those of compiled code, which works on a copy of them.
pub fn is_copied(buffer: &Buffer) -> bool {
    match buffer.role {
        Role::Input(_) | Role::Param(_) | Role::Output(_) => buffer.dtype == DType::I64,
        Role::Temporary | Role::Loaded | Role::Coded(_) => false,
    }
}

/// Whether a buffer lasts as long as the parameters are bound: what was computed from them, and copies of them.
pub fn is_kept(buffer: &Buffer) -> bool {
    match buffer.role {
        Role::Loaded | Role::Coded(_) => true,
        Role::Param(_) => is_copied(buffer),
        Role::Input(_) | Role::Output(_) | Role::Temporary => false,
    }
}

/// Where each tensor lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arena {
    /// Bytes from the start of the arena, by buffer; `None` for what has its place elsewhere, or is not touched.
    pub offsets: Vec<Option<usize>>,
    /// Bytes in all.
    pub size: usize,
}

/// What a plan of memory depends on: what the kernels touch, in the order in which they run, and what they work in. Plans and
/// programs say it alike.
#[derive(Clone, Debug)]
pub struct Usage<'p> {
    /// The dimensions that are run-time values.
    pub dimensions: Vec<Name>,
    /// Every stored tensor.
    pub buffers: &'p [Buffer],
    /// The kernels as they run.
    pub kernels: Vec<KernelUsage<'p>>,
    /// So many of them, at the start, run once when the parameters are bound.
    pub loads: usize,
}

/// What a kernel uses.
#[derive(Clone, Debug)]
pub struct KernelUsage<'p> {
    /// The buffers that it reads or writes.
    pub touches: Vec<BufferId>,
    /// Scratch memory of a thread.
    pub scratch: Cow<'p, [Scratch]>,
}

impl Usage<'_> {
    fn section(&self, section: Section) -> Range<usize> {
        section.of(self.loads, self.kernels.len())
    }
}

impl Program {
    /// What its memory depends on.
    pub fn usage(&self) -> Usage<'_> {
        let of = |k: &'_ Kernel| k.reads.iter().chain(&k.writes).copied().collect();
        let kernels = self.kernels.iter();
        let kernels = kernels.map(|k| KernelUsage { touches: of(k), scratch: Cow::Borrowed(&k.scratch) });
        let (dimensions, kernels) = (self.dimensions.clone(), kernels.collect());
        Usage { dimensions, buffers: &self.buffers, kernels, loads: self.loads }
    }
}

/// The first and the last kernel of a section, by position, at which each buffer must have its place in the section's arena;
/// `None` where it needs none.
pub fn lifetimes(usage: &Usage<'_>, section: Section) -> Vec<Life> {
    let mut touched: Vec<Option<(usize, usize)>> = vec![None; usage.buffers.len()];
    let range = usage.section(section);
    for (at, kernel) in range.clone().zip(&usage.kernels[range.clone()]) {
        for id in &kernel.touches {
            let (first, _) = touched[id.0].unwrap_or((at, at));
            touched[id.0] = Some((first, at));
        }
    }
    let lives = usage.buffers.iter().zip(touched).map(|(buffer, touched)| match buffer.role {
        Role::Temporary => touched,
        // Copied before the first kernel runs, or after the last.
        Role::Input(_) if section == Section::Call && is_copied(buffer) => {
            Some((range.start, touched.map_or(range.start, |(_, last)| last)))
        }
        Role::Output(_) if section == Section::Call && is_copied(buffer) => {
            Some((touched.map_or(range.start, |(first, _)| first), range.end))
        }
        Role::Input(_) | Role::Param(_) | Role::Output(_) | Role::Loaded | Role::Coded(_) => None,
    });
    lives.collect()
}

/// What is known of a section's memory before any dimension is: made once for a program, since it takes arithmetic with
/// dimensions, where placing takes arithmetic with numbers.
#[derive(Clone, Debug)]
pub struct Outline {
    lives: Vec<Life>,
    turns: Vec<Vec<usize>>,
}

/// The outline of a section.
pub fn outline(usage: &Usage<'_>, section: Section) -> Outline {
    let lives = lifetimes(usage, section);
    let turns = turns(usage.buffers, &lives);
    Outline { lives, turns }
}

impl Outline {
    /// Whether a buffer, by position, has a place.
    pub fn has_place(&self, buffer: usize) -> bool {
        self.lives[buffer].is_some()
    }

    /// Places what the section works in, in the better of two ways. `sizes` are bytes in whole cache lines, by buffer; those
    /// of buffers that have no place do not matter.
    pub fn place(&self, sizes: &[usize]) -> Arena {
        let (fitted, turns) = (first_fit(&self.lives, sizes), in_turns(&self.turns, sizes));
        if fitted.size <= turns.size { fitted } else { turns }
    }
}

/// Places what a section works in: see [`Outline::place`].
///
/// # Errors
/// A dimension has no value, or is too large.
pub fn plan(program: &Program, section: Section, sizes: Sizes<'_>) -> Result<Arena, DimError> {
    let outline = outline(&program.usage(), section);
    let size = |(at, buffer): (usize, &Buffer)| {
        let bytes = || bytes(&buffer.count(), buffer.elem().size(), sizes);
        outline.has_place(at).then(bytes).unwrap_or(Ok(0))
    };
    let sizes: Vec<usize> = program.buffers.iter().enumerate().map(size).collect::<Result<_, _>>()?;
    Ok(outline.place(&sizes))
}

/// Places what lasts as long as the parameters are bound, one after the other.
///
/// # Errors
/// As [`plan`].
pub fn kept(program: &Program, sizes: Sizes<'_>) -> Result<Arena, DimError> {
    let mut arena = Arena { offsets: vec![None; program.buffers.len()], size: 0 };
    for (at, buffer) in program.buffers.iter().enumerate().filter(|(_, b)| is_kept(b)) {
        arena.offsets[at] = Some(arena.size);
        arena.size += bytes(&buffer.count(), buffer.elem().size(), sizes)?;
    }
    Ok(arena)
}

/// From when until when a buffer is alive, by positions of kernels.
pub type Life = Option<(usize, usize)>;

/// Larger ones first, each at the lowest address where it meets no other that is alive with it.
fn first_fit(lives: &[Life], sizes: &[usize]) -> Arena {
    struct Region {
        buffer: usize,
        life: (usize, usize),
        bytes: usize,
        offset: usize,
    }
    let mut wanted: Vec<Region> = (lives.iter().enumerate())
        .filter_map(|(buffer, life)| Some(Region { buffer, life: (*life)?, bytes: sizes[buffer], offset: 0 }))
        .collect();
    wanted.sort_by_key(|p| (Reverse(p.bytes), p.buffer));
    let mut placed: Vec<Region> = Vec::new();
    for mut next in wanted {
        let mut others: Vec<&Region> =
            placed.iter().filter(|p| p.life.0 <= next.life.1 && next.life.0 <= p.life.1).collect();
        others.sort_by_key(|p| p.offset);
        for other in others {
            if next.offset + next.bytes <= other.offset {
                break;
            }
            next.offset = next.offset.max(other.offset + other.bytes);
        }
        placed.push(next);
    }
    let mut arena = Arena { offsets: vec![None; lives.len()], size: 0 };
    for p in placed {
        arena.offsets[p.buffer] = Some(p.offset);
        arena.size = arena.size.max(p.offset + p.bytes);
    }
    arena
}

/// One after the other in the places of [`turns`].
fn in_turns(turns: &[Vec<usize>], sizes: &[usize]) -> Arena {
    let mut arena = Arena { offsets: vec![None; sizes.len()], size: 0 };
    for place in turns {
        for buffer in place {
            arena.offsets[*buffer] = Some(arena.size);
        }
        arena.size += place.iter().map(|buffer| sizes[*buffer]).max().unwrap_or(0);
    }
    arena
}

/// Places in which buffers follow one another, whatever the dimensions are: a buffer goes where one of its own size was
/// before it, or else where one was that is provably larger or smaller, or else where any was.
fn turns(buffers: &[Buffer], lives: &[Life]) -> Vec<Vec<usize>> {
    // Models have few sizes and many buffers: sizes are compared once.
    let mut distinct: Vec<Dim> = Vec::new();
    let kinds: Vec<usize> = buffers
        .iter()
        .map(|buffer| {
            let size = size(buffer);
            distinct.iter().position(|known| *known == size).unwrap_or_else(|| {
                distinct.push(size);
                distinct.len() - 1
            })
        })
        .collect();
    let mut compared: HashMap<(usize, usize), bool> = HashMap::new();
    let mut comparable = |a: usize, b: usize| {
        let (a, b) = (a.min(b), a.max(b));
        let (first, second) = (&distinct[a], &distinct[b]);
        *compared.entry((a, b)).or_insert_with(|| first.provably_le(second) || second.provably_le(first))
    };
    let mut wanted: Vec<(usize, usize, usize)> = lives
        .iter()
        .enumerate()
        .filter_map(|(at, life)| life.map(|(first, last)| (first, at, last)))
        .collect();
    wanted.sort_unstable();
    // The last kernel that needs a place, and whom it was for.
    let mut places: Vec<(usize, Vec<usize>)> = Vec::new();
    for (first, buffer, last) in wanted {
        let own = kinds[buffer];
        let mut fits = |other: usize| match (own == kinds[other], comparable(own, kinds[other])) {
            (true, _) => 0,
            (false, true) => 1,
            (false, false) => 2,
        };
        let free = places.iter_mut().filter(|(busy, _)| *busy < first);
        let best = free.min_by_key(|(_, held)| held.iter().map(|other| fits(*other)).min());
        match best {
            Some((busy, held)) => {
                *busy = last;
                held.push(buffer);
            }
            None => places.push((last, vec![buffer])),
        }
    }
    places.into_iter().map(|(_, held)| held).collect()
}

/// Bytes of a buffer as compiled code sees it.
fn size(buffer: &Buffer) -> Dim {
    &buffer.count() * &Dim::constant(buffer.elem().size())
}

/// How much memory a call works in, for all dimensions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contract {
    /// The arena is at most a sum over places, each as large as the largest of these numbers of bytes.
    pub arena: Vec<Vec<Dim>>,
    /// What was computed once from the parameters takes so many bytes for as long as they are bound.
    pub kept: Dim,
    /// In so many parts.
    pub parts: usize,
    /// Each thread has as much scratch memory as the largest of these numbers of bytes.
    pub scratch: Vec<Dim>,
    /// Parts that scratch memory has at most.
    pub slots: usize,
    /// Temporaries that grow faster than in proportion to a dimension, and that dimension.
    pub steep: Vec<(String, Name)>,
}

/// What the memory of a program keeps to. What loading works in beside what it leaves is not part of it.
pub fn contract(usage: &Usage<'_>) -> Contract {
    let buffers = usage.buffers;
    let lives = lifetimes(usage, Section::Call);
    let arena = turns(buffers, &lives)
        .into_iter()
        .map(|place| largest(place.into_iter().map(|buffer| size(&buffers[buffer]))))
        .collect();
    let kept: Vec<Dim> = buffers.iter().filter(|b| is_kept(b)).map(size).collect();
    let calls = &usage.kernels[usage.section(Section::Call)];
    let scratch = largest(calls.iter().map(|kernel| {
        let counts = kernel.scratch.iter().map(|slot| &slot.count * &Dim::constant(4));
        counts.fold(Dim::constant(0), |sum, bytes| &sum + &bytes)
    }));
    let slots = calls.iter().map(|kernel| kernel.scratch.len()).max().unwrap_or(0);
    let mut steep = Vec::new();
    let called = buffers.iter().zip(&lives);
    for (buffer, _) in called.filter(|(b, life)| life.is_some() && b.role == Role::Temporary) {
        let count = buffer.count().to_node();
        for dimension in &usage.dimensions {
            if degree(&count, dimension) > 1 {
                steep.push((buffer.name.clone(), dimension.clone()));
            }
        }
    }
    let (total, parts) = (kept.iter().fold(Dim::constant(0), |sum, bytes| &sum + bytes), kept.len());
    Contract { arena, kept: total, parts, scratch, slots, steep }
}

/// The power of a dimension with which a dimension grows at most; divisors are taken for constant.
pub(crate) fn degree(node: &DimNode, dimension: &Name) -> usize {
    match node {
        DimNode::Constant(_) => 0,
        DimNode::Symbol(symbol) => usize::from(symbol.as_dimension() == Some(dimension)),
        DimNode::Add(x, y) => degree(x, dimension).max(degree(y, dimension)),
        DimNode::Mul(x, y) => degree(x, dimension) + degree(y, dimension),
        DimNode::Div(x, _) => degree(x, dimension),
    }
}

/// Those that are not provably at most another; never none.
fn largest(sizes: impl Iterator<Item = Dim>) -> Vec<Dim> {
    let mut kept: Vec<Dim> = Vec::new();
    for size in sizes {
        if kept.iter().any(|other| size.provably_le(other)) {
            continue;
        }
        kept.retain(|other| !other.provably_le(&size));
        kept.push(size);
    }
    if kept.is_empty() {
        kept.push(Dim::constant(0));
    }
    kept
}

impl Contract {
    /// Bytes at most for these sizes and so many threads, with what is lost by rounding up to cache lines.
    ///
    /// # Errors
    /// A dimension has no value, or is too large.
    pub fn bytes(&self, sizes: Sizes<'_>, threads: usize) -> Result<usize, DimError> {
        let most = |of: &[Dim]| -> Result<usize, DimError> {
            of.iter().try_fold(0, |most, size| Ok(most.max(bytes(size, 1, sizes)?)))
        };
        let arena = self.arena.iter().try_fold(0, |sum, place| Ok(sum + most(place)?))?;
        Ok(arena + threads * (most(&self.scratch)? + self.slots * ALIGNMENT))
    }

    /// Bytes at most of what is made of the parameters when they are bound.
    ///
    /// # Errors
    /// As [`Contract::bytes`].
    pub fn kept_bytes(&self, sizes: Sizes<'_>) -> Result<usize, DimError> {
        Ok(bytes(&self.kept, 1, sizes)? + self.parts * ALIGNMENT)
    }
}

impl fmt::Display for Contract {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let most = |sizes: &[Dim]| match sizes {
            [one] => one.to_string(),
            _ => format!("max({})", sizes.iter().map(Dim::to_string).collect::<Vec<_>>().join(", ")),
        };
        // Equal places are counted, so that a deep model has a short sum.
        let mut places: Vec<(String, usize)> = Vec::new();
        for place in self.arena.iter().map(|sizes| most(sizes)) {
            match places.iter_mut().find(|(known, _)| *known == place) {
                Some((_, count)) => *count += 1,
                None => places.push((place, 1)),
            }
        }
        let terms: Vec<String> = places
            .into_iter()
            .map(|(place, count)| if count == 1 { place } else { format!("{count} * ({place})") })
            .collect();
        let arena = if terms.is_empty() { "0".to_owned() } else { terms.join(" + ") };
        if self.parts > 0 {
            writeln!(f, "made of parameters when they are bound: {} bytes", self.kept)?;
        }
        writeln!(f, "temporaries: at most {arena} bytes")?;
        writeln!(f, "scratch: {} bytes for each thread", most(&self.scratch))?;
        if self.steep.is_empty() {
            return writeln!(f, "every temporary grows at most in proportion to each dimension");
        }
        self.steep.iter().try_for_each(|(name, dim)| writeln!(f, "`{name}` grows faster than {dim}"))
    }
}
