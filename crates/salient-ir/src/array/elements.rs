//! Where the elements of an array are: in memory of its own, or in memory of the caller's.
//!
//! An array over memory of the caller's lets a program run on what another library holds without copies of it. How such
//! memory is held, and until when, is the business of who gives it: here it is a slice.

use std::fmt;
use std::ops::{Deref, DerefMut};

/// Memory that an array does not own, such as that of an array of another library.
///
/// ```
/// use salient_ir::array::{Array, Elements, Memory};
///
/// /// The elements of a list that somebody else keeps.
/// struct Shared(std::sync::Arc<[f32]>);
///
/// impl Memory<f32> for Shared {
///     fn elements(&self) -> &[f32] {
///         &self.0
///     }
///     fn elements_mut(&mut self) -> Option<&mut [f32]> {
///         None
///     }
/// }
///
/// let list: std::sync::Arc<[f32]> = vec![1.0, 2.0].into();
/// let array = Array::over(vec![2], Elements::held(Shared(list.clone())))?;
/// assert_eq!(array.as_f32().unwrap().as_ptr(), list.as_ptr());
/// # Ok::<(), salient_ir::array::ArrayError>(())
/// ```
pub trait Memory<T>: Send + Sync {
    /// The elements: the same place and the same number at every call.
    fn elements(&self) -> &[T];

    /// The elements, to be written; `None` where they may only be read.
    fn elements_mut(&mut self) -> Option<&mut [T]>;
}

/// The elements of an array.
pub struct Elements<T>(Place<T>);

enum Place<T> {
    Own(Vec<T>),
    Held(Box<dyn Memory<T>>),
}

impl<T: Clone> Elements<T> {
    /// Elements in memory of the caller's. A clone of them is in memory of its own, and so is what writes to memory that may
    /// only be read, or makes it longer.
    pub fn held(memory: impl Memory<T> + 'static) -> Elements<T> {
        Elements(Place::Held(Box::new(memory)))
    }

    /// The elements in a vector, which costs a copy where they were in memory of the caller's.
    pub fn into_vec(self) -> Vec<T> {
        match self.0 {
            Place::Own(values) => values,
            Place::Held(memory) => memory.elements().to_vec(),
        }
    }

    /// The elements in memory of their own, which is where they are from now on.
    pub fn own(&mut self) -> &mut Vec<T> {
        if let Place::Held(memory) = &self.0 {
            self.0 = Place::Own(memory.elements().to_vec());
        }
        match &mut self.0 {
            Place::Own(values) => values,
            Place::Held(_) => unreachable!("they have just been copied"),
        }
    }
}

impl<T> Deref for Elements<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        match &self.0 {
            Place::Own(values) => values,
            Place::Held(memory) => memory.elements(),
        }
    }
}

impl<T: Clone> DerefMut for Elements<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        if let Place::Held(memory) = &mut self.0
            && memory.elements_mut().is_none()
        {
            return self.own();
        }
        match &mut self.0 {
            Place::Own(values) => values,
            Place::Held(memory) => memory.elements_mut().expect("memory that may be written stays so"),
        }
    }
}

impl<T> From<Vec<T>> for Elements<T> {
    fn from(values: Vec<T>) -> Elements<T> {
        Elements(Place::Own(values))
    }
}

impl<T> FromIterator<T> for Elements<T> {
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> Elements<T> {
        Elements(Place::Own(values.into_iter().collect()))
    }
}

impl<'a, T> IntoIterator for &'a Elements<T> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<T: Clone> Clone for Elements<T> {
    fn clone(&self) -> Elements<T> {
        Elements(Place::Own(self.to_vec()))
    }
}

impl<T: PartialEq> PartialEq for Elements<T> {
    fn eq(&self, other: &Elements<T>) -> bool {
        **self == **other
    }
}

impl<T: fmt::Debug> fmt::Debug for Elements<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::array::Array;

    /// Memory that may be written or not.
    struct Given(Vec<f32>, bool);

    impl Memory<f32> for Given {
        fn elements(&self) -> &[f32] {
            &self.0
        }
        fn elements_mut(&mut self) -> Option<&mut [f32]> {
            self.1.then_some(&mut self.0)
        }
    }

    #[test]
    fn elements_of_the_caller_are_read_and_written_where_they_are() {
        let given = Given(vec![1.0, 2.0], true);
        let place = given.0.as_ptr();
        let mut array = Array::over(vec![2], Elements::held(given)).unwrap();
        assert_eq!(array.as_f32().unwrap().as_ptr(), place);
        array.as_f32_mut().unwrap()[0] = 5.0;
        assert_eq!(array.as_f32(), Some(&[5.0, 2.0][..]));
        assert_eq!(array.as_f32().unwrap().as_ptr(), place);
        assert_ne!(array.clone().as_f32().unwrap().as_ptr(), place, "a clone has memory of its own");
        assert_eq!(array.clone(), array);
    }

    #[test]
    fn what_writes_to_memory_that_may_only_be_read_has_a_copy() {
        let given = Given(vec![1.0, 2.0], false);
        let place = given.0.as_ptr();
        let mut array = Array::over(vec![2], Elements::held(given)).unwrap();
        array.as_f32_mut().unwrap()[0] = 5.0;
        assert_eq!(array.as_f32(), Some(&[5.0, 2.0][..]));
        assert_ne!(array.as_f32().unwrap().as_ptr(), place);
    }

    #[test]
    fn memory_of_the_caller_of_another_length_is_refused() {
        assert!(Array::over(vec![3], Elements::held(Given(vec![1.0], true))).is_err());
    }

    #[test]
    fn an_array_is_filled_where_it_is() {
        let given = Given(vec![0.0; 2], true);
        let place = given.0.as_ptr();
        let mut array = Array::over(vec![2], Elements::held(given)).unwrap();
        array.fill_from(Array::from_f32(vec![2], vec![3.0, 4.0]).unwrap());
        assert_eq!((array.as_f32(), array.as_f32().unwrap().as_ptr()), (Some(&[3.0, 4.0][..]), place));
        array.fill_from(Array::from_i32(vec![1], vec![7]).unwrap());
        assert_eq!(array, Array::from_i32(vec![1], vec![7]).unwrap(), "another kind takes its place");
    }

    #[test]
    fn growing_leaves_the_memory_of_the_caller() {
        let mut array = Array::over(vec![1, 2], Elements::held(Given(vec![1.0, 2.0], true))).unwrap();
        array.set_outermost(2).unwrap();
        assert_eq!(array, Array::from_f32(vec![2, 2], vec![1.0, 2.0, 0.0, 0.0]).unwrap());
    }
}
