//! Axes: the named indices of which tensors are functions.
//!
//! An axis is its name and its extent and nothing else. Order and layout belong to whoever stores a tensor.

use crate::dim::{Dim, Name};
use smallvec::SmallVec;

/// An axis of a graph. Only meaningful with the graph (or builder) that made it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AxisId(u32);

impl AxisId {
    pub(crate) fn new(index: usize) -> AxisId {
        AxisId(u32::try_from(index).expect("fewer than 2^32 axes"))
    }

    /// Position in the graph's list of axes: `0..graph.axes().count()`.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Name and extent of an axis.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Axis {
    /// The name, as an index of the language: `i`, `t`, `e`.
    pub name: Name,
    /// Number of positions.
    pub extent: Dim,
}

/// The names of a stored tensor's axes where nothing else names them: each is its dimension in lower case (of several
/// symbols the first, `n` where there is none), numbered where that would be a name twice.
pub fn stored_names(dims: &[Dim]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for dim in dims {
        let stem = dim.dimensions().first().map_or("n".to_owned(), |s| s.to_lowercase());
        let numbered = (1..).map(|n| format!("{stem}.{n}"));
        let name = std::iter::once(stem.clone()).chain(numbered).find(|name| !names.contains(name));
        names.push(name.expect("numbers do not end"));
    }
    names
}

/// A set of axes, sorted by id.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AxisSet(SmallVec<[AxisId; 4]>);

impl AxisSet {
    /// The empty set.
    pub fn new() -> AxisSet {
        AxisSet::default()
    }

    /// Whether the axis is in it.
    pub fn contains(&self, axis: AxisId) -> bool {
        self.0.binary_search(&axis).is_ok()
    }

    /// Adds an axis.
    pub fn insert(&mut self, axis: AxisId) {
        if let Err(at) = self.0.binary_search(&axis) {
            self.0.insert(at, axis);
        }
    }

    /// Removes an axis; says whether it was there.
    pub fn remove(&mut self, axis: AxisId) -> bool {
        match self.0.binary_search(&axis) {
            Ok(at) => {
                self.0.remove(at);
                true
            }
            Err(_) => false,
        }
    }

    /// Every axis of either set.
    pub fn union(&self, other: &AxisSet) -> AxisSet {
        let mut out = self.clone();
        other.iter().for_each(|a| out.insert(a));
        out
    }

    /// Every axis of both sets.
    pub fn intersection(&self, other: &AxisSet) -> AxisSet {
        self.iter().filter(|a| other.contains(*a)).collect()
    }

    /// Whether every axis of it is in `other`.
    pub fn is_subset(&self, other: &AxisSet) -> bool {
        self.iter().all(|a| other.contains(a))
    }

    /// The axes, by id.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = AxisId> + ExactSizeIterator + '_ {
        self.0.iter().copied()
    }

    /// The axes, by id.
    pub fn as_slice(&self) -> &[AxisId] {
        &self.0
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none: a scalar.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromIterator<AxisId> for AxisSet {
    fn from_iter<I: IntoIterator<Item = AxisId>>(axes: I) -> AxisSet {
        let mut out = AxisSet::new();
        axes.into_iter().for_each(|a| out.insert(a));
        out
    }
}
