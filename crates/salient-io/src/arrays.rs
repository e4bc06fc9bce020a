//! Arrays by name, in the order of their file, and what their file says of them: how their elements were stored, and the
//! names of arrays that nobody asked for.

use std::collections::HashMap;

use salient_ir::array::Array;

use crate::elements::Stored;
use crate::error::{Cause, IoError};

/// A map from names to arrays that keeps the order of insertion and no name twice.
#[derive(Clone, Debug, Default)]
pub struct Arrays {
    entries: Vec<(String, Array, Stored)>,
    positions: HashMap<String, usize>,
    passed_over: Vec<String>,
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
        let stored = Stored::of(array.dtype());
        self.insert_stored(name, array, stored)
    }

    /// As [`Arrays::insert`], of an array whose file stores its elements so.
    ///
    /// # Errors
    /// As [`Arrays::insert`].
    pub fn insert_stored(
        &mut self,
        name: impl Into<String>,
        array: Array,
        stored: Stored,
    ) -> Result<(), IoError> {
        let name = name.into();
        self.check_new(&name)?;
        self.positions.insert(name.clone(), self.entries.len());
        self.entries.push((name, array, stored));
        Ok(())
    }

    /// Notes the name of an array that is there and was not asked for.
    ///
    /// # Errors
    /// As [`Arrays::insert`].
    pub fn pass_over(&mut self, name: impl Into<String>) -> Result<(), IoError> {
        let name = name.into();
        self.check_new(&name)?;
        self.passed_over.push(name);
        Ok(())
    }

    fn check_new(&self, name: &str) -> Result<(), IoError> {
        if self.positions.contains_key(name) || self.passed_over.iter().any(|known| known == name) {
            return Err(Cause::Duplicate.in_array(name));
        }
        Ok(())
    }

    /// How the elements of that array were stored where it came from, which may be wider or narrower than they are here.
    pub fn stored(&self, name: &str) -> Option<Stored> {
        self.positions.get(name).map(|&position| self.entries[position].2)
    }

    /// The names of arrays that were there and that nobody asked for.
    pub fn passed_over(&self) -> &[String] {
        &self.passed_over
    }

    /// The array of that name.
    pub fn get(&self, name: &str) -> Option<&Array> {
        self.positions.get(name).map(|&position| &self.entries[position].1)
    }

    /// Names and arrays in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Array)> {
        self.entries.iter().map(|(name, array, _)| (name.as_str(), array))
    }

    /// The names in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().map(|(name, ..)| name.as_str())
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

impl Arrays {
    /// Names and arrays in order, with how they were stored, and the names of those that were passed over.
    pub fn into_parts(self) -> (Vec<(String, Array, Stored)>, Vec<String>) {
        (self.entries, self.passed_over)
    }

    /// The same arrays under other names.
    ///
    /// # Errors
    /// Two of them get one name.
    pub fn renamed(self, name: impl Fn(String) -> String) -> Result<Arrays, IoError> {
        let mut out = Arrays::new();
        for (old, array, stored) in self.entries {
            out.insert_stored(name(old), array, stored)?;
        }
        self.passed_over.into_iter().try_for_each(|old| out.pass_over(name(old)))?;
        Ok(out)
    }
}

impl IntoIterator for Arrays {
    type Item = (String, Array);
    type IntoIter = std::vec::IntoIter<(String, Array)>;

    fn into_iter(self) -> Self::IntoIter {
        self.entries.into_iter().map(|(name, array, _)| (name, array)).collect::<Vec<_>>().into_iter()
    }
}
