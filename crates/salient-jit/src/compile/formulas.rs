//! What a plan is made of, without its dimensions: the formulas of a section, each different one once, so that the dimensions
//! of the next call cost arithmetic with numbers alone.
//!
//! Says nothing of a particular call: that is the [`Plan`](crate::Plan).

use crate::error::RunError;
use salient_ir::{DimAt, DimError, DimNode, Dims, Numbers, Range, Symbol};
use salient_tile::memory::{self, Outline};
use salient_tile::{BufferId, Kind, Limit, Program, Role, Section, Sizes};
use std::collections::BTreeMap;

/// The formulas of a section of a program.
#[derive(Debug)]
pub(crate) struct Formulas {
    pub(crate) outline: Outline,
    /// The buffers that the caller of the section hands over.
    pub(crate) border: Vec<usize>,
    /// Without a value of each there is no plan.
    needed: Dims,
    /// These may have none.
    wished: Dims,
    /// The lengths of axes, and a buffer that has one of that length.
    lengths: Vec<(DimAt, usize)>,
    /// What takes memory: how many elements, of how many bytes.
    pub(crate) sizes: Vec<(DimAt, i64)>,
    /// The size of each buffer, by position among the sizes; none where neither a kernel of the section nor the border
    /// needs it.
    pub(crate) buffers: Vec<Option<usize>>,
    /// Of kernels of the section, each different one once: equal layers have equal kernels.
    pub(crate) kinds: Vec<KernelFormulas>,
    /// The kernels of the section, by position among the kinds.
    pub(crate) kernels: Vec<usize>,
    /// The length of the axis of each check, among what may have no value.
    pub(crate) extents: Vec<DimAt>,
}

/// The formulas of a kernel.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct KernelFormulas {
    pub(crate) items: DimAt,
    /// Scratch memory, by position among the sizes.
    pub(crate) slots: Vec<usize>,
    /// Among what may have no value.
    pub(crate) flops: DimAt,
    /// Among what may have no value: it does nothing unless the first is less than the second.
    pub(crate) condition: Option<(DimAt, DimAt)>,
    pub(crate) kind: Kind,
    /// What it reads, by position among the sizes, and what it writes.
    pub(crate) reads: Vec<usize>,
    pub(crate) writes: Vec<usize>,
}

/// The values of formulas at some dimensions.
#[derive(Debug)]
pub(crate) struct Values {
    pub(crate) needed: Vec<i64>,
    pub(crate) wished: Vec<Option<i64>>,
    /// By size: how many elements, and of how many bytes in whole cache lines.
    pub(crate) sizes: Vec<(usize, usize)>,
}

/// Numbers each different item in the order of their coming.
fn position<T: PartialEq>(list: &mut Vec<T>, item: T) -> usize {
    list.iter().position(|known| *known == item).unwrap_or_else(|| {
        list.push(item);
        list.len() - 1
    })
}

impl Formulas {
    pub(crate) fn new(program: &Program, section: Section) -> Formulas {
        let touched = program.touched(section);
        let (mut needed, mut wished) = (Dims::default(), Dims::default());
        let mut lengths: Vec<(DimAt, usize)> = Vec::new();
        let mut sizes = Vec::new();
        let mut buffers = Vec::new();
        for (at, (buffer, touched)) in program.buffers.iter().zip(&touched).enumerate() {
            let is_needed = match section {
                Section::Load => *touched || memory::is_kept(buffer),
                Section::Call => true,
            };
            if !is_needed {
                buffers.push(None);
                continue;
            }
            for dim in &buffer.shape {
                let length = needed.intern(dim);
                if !lengths.iter().any(|(known, _)| *known == length) {
                    lengths.push((length, at));
                }
            }
            let size = (needed.intern(&buffer.count()), buffer.elem().size());
            buffers.push(Some(position(&mut sizes, size)));
        }
        let mut kinds = Vec::new();
        let kernels = program.kernels[program.section(section)].iter();
        let kernels = kernels.map(|kernel| {
            let of = |list: &[BufferId]| list.iter().filter_map(|id| buffers[id.0]).collect();
            let formulas = KernelFormulas {
                items: needed.intern(&kernel.items),
                slots: (kernel.scratch.iter())
                    .map(|slot| position(&mut sizes, (needed.intern(&slot.count), 4)))
                    .collect(),
                flops: wished.intern(&kernel.flops),
                condition: (kernel.condition())
                    .map(|(left, right)| (wished.intern(left), wished.intern(right))),
                kind: kernel.kind,
                reads: of(&kernel.reads),
                writes: of(&kernel.writes),
            };
            position(&mut kinds, formulas)
        });
        let kernels = kernels.collect();
        let is_handed_over = |at: &usize| {
            let buffer = &program.buffers[*at];
            match (buffer.role, section) {
                (Role::Input(_) | Role::Output(_), Section::Call) => true,
                (Role::Param(_), _) => touched[*at] && !memory::is_copied(buffer),
                (Role::Input(_) | Role::Output(_), Section::Load)
                | (Role::Temporary | Role::Loaded | Role::Coded(_), _) => false,
            }
        };
        let border = (0..program.buffers.len()).filter(is_handed_over).collect();
        let extents = program.checks.iter().map(|check| wished.intern(&check.extent)).collect();
        if section == Section::Call {
            program.checks.iter().for_each(|check| _ = needed.intern(&check.extent));
        }
        let outline = memory::outline(program, section);
        Formulas { outline, border, needed, wished, lengths, sizes, buffers, kinds, kernels, extents }
    }

    /// # Errors
    /// A dimension that must have a value has none, is negative where it is a length, or is of more memory than there can be.
    pub(crate) fn values(&self, program: &Program, known: Sizes<'_>) -> Result<Values, RunError> {
        let needed = self.needed.eval(&known)?;
        if let Some((_, buffer)) = self.lengths.iter().find(|(length, _)| needed[*length] < 0) {
            return Err(RunError::Negative { tensor: program.buffers[*buffer].name.clone() });
        }
        let size = |(count, elem): &(DimAt, i64)| {
            let too_large = || DimError::Overflow(self.needed.get(*count).clone());
            // Where the bytes fit, so do the elements.
            let bytes = memory::bytes_of(needed[*count], *elem).ok_or_else(too_large)?;
            Ok((needed[*count] as usize, bytes))
        };
        let sizes: Vec<(usize, usize)> = self.sizes.iter().map(size).collect::<Result<_, RunError>>()?;
        self.keep_limits(program, known, &sizes)?;
        Ok(Values { needed, wished: self.wished.eval_each(&known), sizes })
    }

    /// Whether everything that lanes hold and that follows from the dimensions has 32 bits. What a section has no values for,
    /// it does not compute.
    fn keep_limits(
        &self,
        program: &Program,
        known: Sizes<'_>,
        sizes: &[(usize, usize)],
    ) -> Result<(), RunError> {
        for limit in &program.limits {
            match limit {
                Limit::Elements(id) => {
                    let count = self.buffers[id.0].map_or(0, |size| sizes[size].0);
                    if count > MOST_GATHERED {
                        let tensor = program.buffer(*id).name.clone();
                        return Err(RunError::TooManyElements { tensor, count, most: MOST_GATHERED });
                    }
                }
                Limit::Integer { value, below } => {
                    let bound = Bound { program, known, below };
                    if let Some(range) = bound.range(value).filter(|r| !Range::I32.holds(*r)) {
                        let dimensions = bound.dimensions();
                        let is_above = range.greatest > Range::I32.greatest;
                        let reached = if is_above { range.greatest } else { range.least };
                        return Err(RunError::WideInteger { dimensions, reached });
                    }
                }
            }
        }
        Ok(())
    }
}

/// How many elements a tensor has at most of which each lane reads one at a distance of its own: distances are integers of
/// 32 bits from one element to another.
const MOST_GATHERED: usize = 1 << 31;

/// What is known of the symbols of an integer that lanes hold.
#[derive(Clone, Copy)]
struct Bound<'a> {
    program: &'a Program,
    known: Sizes<'a>,
    below: &'a BTreeMap<Symbol, DimNode>,
}

impl Bound<'_> {
    /// `None` where a dimension of the program has no value.
    fn range(self, value: &DimNode) -> Option<Range> {
        Range::of_dim(value, &|symbol| match (self.below.get(symbol), self.known.number(symbol)) {
            (Some(extent), _) => Some(Range::below(self.range(extent)?.greatest)),
            (None, Some(value)) => Some(Range::only(value)),
            // Of a variable without a range nothing is known, and nothing is taken for granted.
            (None, None) => symbol.as_dimension().is_none().then_some(Range::I64),
        })
    }

    /// The dimensions of the call, for people.
    fn dimensions(self) -> String {
        let known = self.known.dimensions;
        let given = self.program.dimensions.iter().filter_map(|name| Some((name, known.get(name)?)));
        given.map(|(name, value)| format!("{name} = {value}")).collect::<Vec<_>>().join(", ")
    }
}
