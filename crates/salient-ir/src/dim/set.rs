//! Dimensions that are evaluated together: a program asks for thousands, of which few are different.
//!
//! Does not know what they are dimensions of.

use super::{Dim, DimError, Numbers};
use std::collections::HashMap;

/// A set of distinct dimensions.
#[derive(Clone, Debug, Default)]
pub struct Dims {
    list: Vec<Dim>,
    positions: HashMap<Dim, usize>,
}

/// A dimension of a set of [`Dims`]: its position among their values.
pub type DimAt = usize;

impl Dims {
    /// The position of a dimension, which is added if it is new.
    pub fn intern(&mut self, dim: &Dim) -> DimAt {
        if let Some(at) = self.positions.get(dim) {
            return *at;
        }
        self.positions.insert(dim.clone(), self.list.len());
        self.list.push(dim.clone());
        self.list.len() - 1
    }

    /// The dimension at a position.
    pub fn get(&self, at: DimAt) -> &Dim {
        &self.list[at]
    }

    /// The value of each.
    ///
    /// # Errors
    /// The first dimension that has no value.
    pub fn eval(&self, numbers: &impl Numbers) -> Result<Vec<i64>, DimError> {
        self.list.iter().map(|dim| dim.eval(numbers)).collect()
    }

    /// The value of each that has one.
    pub fn eval_each(&self, numbers: &impl Numbers) -> Vec<Option<i64>> {
        self.list.iter().map(|dim| dim.eval(numbers).ok()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Bindings;

    #[test]
    fn equal_dimensions_are_evaluated_once() {
        let (t, s) = (Dim::symbol("T"), Dim::symbol("S"));
        let mut dims = Dims::default();
        let sum = dims.intern(&(&t + &s));
        let product = dims.intern(&(&t * &s));
        assert_eq!(dims.intern(&(&s + &t)), sum);
        assert_eq!(dims.get(product).to_string(), "S * T");
        assert_eq!(dims.list.len(), 2);
        let known = Bindings::from([("T".into(), 3), ("S".into(), 4)]);
        assert_eq!(dims.eval(&known).map(|values| (values[sum], values[product])), Ok((7, 12)));
        let other = dims.intern(&Dim::symbol("B"));
        assert_eq!(dims.eval(&known), Err(DimError::Unbound("B".into())));
        assert_eq!(dims.eval_each(&known)[other], None);
    }
}
