//! Arrays that a call spells out: `1,2,3`, `[[1, 2], [3, 4]]`, `true,false`, `2.5`.

use salient::{Array, DType};

/// Whether a value of a flag spells an array out, rather than naming a file.
pub(crate) fn is_literal(text: &str) -> bool {
    read(text).is_ok()
}

/// The array, of the type that is stored; what does not fit it is said.
pub(crate) fn array(text: &str, dtype: DType) -> Result<Array, String> {
    let (shape, values) = read(text)?;
    Array::from_f64(dtype, shape, &values).map_err(|e| e.to_string())
}

/// The shape and the elements. Elements side by side without brackets are one axis.
fn read(text: &str) -> Result<(Vec<usize>, Vec<f64>), String> {
    let mut r = Reader { rest: text.trim(), values: Vec::new() };
    if !r.rest.starts_with('[') && r.rest.contains(',') {
        let count = r.elements(None)?.len();
        return Ok((vec![count], r.values));
    }
    let shape = r.value()?;
    if r.rest.is_empty() { Ok((shape, r.values)) } else { Err(format!("`{}` follows the array", r.rest)) }
}

struct Reader<'t> {
    rest: &'t str,
    values: Vec<f64>,
}

impl Reader<'_> {
    /// One element, or a list in brackets; its shape.
    fn value(&mut self) -> Result<Vec<usize>, String> {
        let Some(inside) = self.rest.strip_prefix('[') else {
            let end = self.rest.find([',', ']']).unwrap_or(self.rest.len());
            let (word, rest) = self.rest.split_at(end);
            self.rest = rest.trim_start();
            self.values.push(number(word.trim())?);
            return Ok(Vec::new());
        };
        self.rest = inside.trim_start();
        let shapes = if self.rest.starts_with(']') { Vec::new() } else { self.elements(Some(']'))? };
        self.rest = self.rest.strip_prefix(']').ok_or("a bracket is not closed")?.trim_start();
        let inner = shapes.first().cloned().unwrap_or_default();
        if shapes.iter().any(|shape| *shape != inner) {
            return Err("rows have different lengths".to_owned());
        }
        Ok([vec![shapes.len()], inner].concat())
    }

    /// Elements with commas between them, up to a bracket or the end; their shapes.
    fn elements(&mut self, end: Option<char>) -> Result<Vec<Vec<usize>>, String> {
        let mut shapes = vec![self.value()?];
        while let Some(rest) = self.rest.strip_prefix(',') {
            self.rest = rest.trim_start();
            shapes.push(self.value()?);
        }
        match end {
            None if !self.rest.is_empty() => Err(format!("`{}` follows the array", self.rest)),
            Some(_) | None => Ok(shapes),
        }
    }
}

fn number(word: &str) -> Result<f64, String> {
    match word {
        "true" => Ok(1.0),
        "false" => Ok(0.0),
        _ => word.parse().map_err(|_| format!("`{word}` is no number")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_are_read_as_they_are_written() {
        let read_as = |text: &str| read(text).unwrap();
        assert_eq!(read_as("1, 2,-3.5"), (vec![3], vec![1.0, 2.0, -3.5]));
        assert_eq!(read_as("[[1,2],[3,inf]]"), (vec![2, 2], vec![1.0, 2.0, 3.0, f64::INFINITY]));
        assert_eq!(read_as("7"), (vec![], vec![7.0]));
        assert_eq!(read_as("[]"), (vec![0], vec![]));
        assert_eq!(read_as("[ [true], [false] ]"), (vec![2, 1], vec![1.0, 0.0]));
    }

    #[test]
    fn what_is_no_array_is_refused() {
        for text in ["", "x.npy", "[1,2", "1,2]", "[1],2]", "[[1,2],[3]]", "[1,[2]]", "1,", "[,]"] {
            assert!(read(text).is_err(), "{text}");
        }
        assert!(array("1.5", DType::I64).is_err());
        assert!(array("2", DType::Bool).is_err());
    }
}
