//! Arrays by name, in the order of their file.

use std::collections::HashMap;

use salient_ir::array::Array;

use crate::error::{Cause, IoError};

/// A map from names to arrays that keeps the order of insertion and no name twice.
#[derive(Clone, Debug, Default)]
pub struct Arrays {
    entries: Vec<(String, Array)>,
    positions: HashMap<String, usize>,
}

impl Arrays {
    /// No arrays.
    pub fn new() -> Arrays {
        Arrays::default()
    }

    /// Adds an array at the end.
    ///
    /// # Errors
    /// The name is taken.
    pub fn insert(&mut self, name: impl Into<String>, array: Array) -> Result<(), IoError> {
        let name = name.into();
        if self.positions.contains_key(&name) {
            return Err(Cause::Duplicate.in_array(name));
        }
        self.positions.insert(name.clone(), self.entries.len());
        self.entries.push((name, array));
        Ok(())
    }

    /// The array of that name.
    pub fn get(&self, name: &str) -> Option<&Array> {
        self.positions.get(name).map(|&position| &self.entries[position].1)
    }

    /// Names and arrays in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Array)> {
        self.entries.iter().map(|(name, array)| (name.as_str(), array))
    }

    /// The names in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().map(|(name, _)| name.as_str())
    }

    /// The number of arrays.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Whether both hold the same names in the same order, and the same bits under each.
    pub fn same_bits(&self, other: &Arrays) -> bool {
        self.len() == other.len()
            && self.iter().zip(other.iter()).all(|((n, a), (m, b))| n == m && a.same_bits(b))
    }
}

impl IntoIterator for Arrays {
    type Item = (String, Array);
    type IntoIter = std::vec::IntoIter<(String, Array)>;

    fn into_iter(self) -> Self::IntoIter {
        self.entries.into_iter()
    }
}
