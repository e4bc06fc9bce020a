//! The inputs of each step: drawn by counter, so that a step has its batch whatever was drawn before it.

use crate::compile::options::Options;
use crate::compile::pipeline::lower;
use crate::report::error::Error;
use crate::session::init::path_key;
use salient_front::Sources;
use salient_io::Arrays;
use salient_ir::array::{Array, Data, Elements};
use salient_ir::math::philox;
use std::sync::Arc;

/// Where the inputs of a step are from.
pub trait Batches {
    /// The inputs of that step, by name. The same at every call.
    ///
    /// # Errors
    /// [`Error::Run`] if they cannot be made.
    fn draw(&self, step: u64) -> Result<Arrays, Error>;

    /// What tells these batches from others: a checkpoint goes on with the batches that it was made with.
    fn mark(&self) -> u64;

    /// Batches that go through the data in order, at most so many: evenly over it where there are more.
    ///
    /// # Errors
    /// As [`Batches::draw`].
    fn in_order(&self, most: usize) -> Result<Vec<Arrays>, Error>;
}

impl Options {
    /// For training on batches, which are all of one size: dimensions that are lengths of axes of what the first of them gives are
    /// set to those lengths, unless they are set already or are one. A plan for known sizes costs less than one for all sizes.
    ///
    /// # Errors
    /// As [`lower`], and those of [`Batches::draw`].
    pub fn for_batches(mut self, sources: &Sources, batches: &dyn Batches) -> Result<Options, Error> {
        let graph = lower(sources, &self)?.graph;
        let batch = batches.draw(0)?;
        for port in graph.inputs() {
            let lengths = batch.get(&port.name).map_or(&[][..], Array::shape);
            for (extent, length) in graph.shape(&port.axes).iter().zip(lengths) {
                // An axis of one position is repeated where others are: a program may mean one by it, and not all lengths.
                if let Some(name) = extent.as_dimension()
                    && *length > 1
                    && self.set.iter().all(|(set, _)| **set != **name)
                {
                    self.set.push((name.to_string(), length.to_string()));
                }
            }
        }
        Ok(self)
    }
}

/// Windows of a sequence of tokens: `ids`, and as `labels` the token behind each.
#[derive(Clone, Debug)]
pub struct TokenBatches {
    tokens: Arc<[u32]>,
    batch: usize,
    length: usize,
    seed: u64,
}

/// Rows of arrays that have as many each: examples, of which a batch has some.
#[derive(Clone, Debug)]
pub struct RowBatches {
    arrays: Vec<(String, Array)>,
    rows: std::ops::Range<usize>,
    batch: usize,
    seed: u64,
}

impl TokenBatches {
    /// Batches of so many windows of so many tokens.
    ///
    /// # Errors
    /// [`Error::Run`] if there is not one window.
    pub fn new(tokens: Arc<[u32]>, batch: usize, length: usize, seed: u64) -> Result<TokenBatches, Error> {
        if batch == 0 || length == 0 {
            return Err(Error::Run("a batch has at least one window of at least one token".to_owned()));
        }
        if tokens.len() <= length {
            return Err(Error::Run(format!(
                "a window of {length} tokens and the one behind it do not lie in {} tokens",
                tokens.len()
            )));
        }
        Ok(TokenBatches { tokens, batch, length, seed })
    }

    fn windows(&self, starts: &[usize]) -> Result<Arrays, Error> {
        let mut out = Arrays::new();
        for (name, ahead) in [("ids", 0), ("labels", 1)] {
            let window = |start: &usize| self.tokens[start + ahead..start + ahead + self.length].iter();
            let values = starts.iter().flat_map(window).map(|id| i64::from(*id)).collect();
            let array = Array::from_i64(vec![starts.len(), self.length], values);
            out.insert(name, array.map_err(|e| Error::Run(format!("`{name}`: {e}")))?)?;
        }
        Ok(out)
    }
}

impl Batches for TokenBatches {
    fn draw(&self, step: u64) -> Result<Arrays, Error> {
        let starts: Vec<usize> =
            (0..self.batch).map(|row| place(self.seed, step, row, self.tokens.len() - self.length)).collect();
        self.windows(&starts)
    }

    fn mark(&self) -> u64 {
        let tokens = self.tokens.iter().flat_map(|id| id.to_le_bytes());
        let sizes = [self.seed, self.batch as u64, self.length as u64];
        hash(sizes.into_iter().flat_map(u64::to_le_bytes).chain(tokens))
    }

    fn in_order(&self, most: usize) -> Result<Vec<Arrays>, Error> {
        let windows = (self.tokens.len() - 1) / self.length;
        let batches = spread(windows.div_ceil(self.batch), most);
        let starts = |at: usize| {
            let first = at * self.batch;
            (first..(first + self.batch).min(windows)).map(|n| n * self.length).collect::<Vec<_>>()
        };
        batches.map(|at| self.windows(&starts(at))).collect()
    }
}

impl RowBatches {
    /// Batches of so many rows.
    ///
    /// # Errors
    /// [`Error::Run`] if there is no row, or arrays differ in how many they have.
    pub fn new(arrays: Arrays, batch: usize, seed: u64) -> Result<RowBatches, Error> {
        let arrays: Vec<(String, Array)> = arrays.into_iter().collect();
        let mut rows: Option<(&str, usize)> = None;
        for (name, array) in &arrays {
            let Some(own) = array.shape().first().copied() else {
                return Err(Error::Run(format!("`{name}` has no axis of examples")));
            };
            match rows {
                Some((first, known)) if known != own => {
                    return Err(Error::Run(format!("`{first}` has {known} examples, and `{name}` {own}")));
                }
                Some(_) => {}
                None => rows = Some((name, own)),
            }
        }
        let rows = rows.map_or(0, |(_, rows)| rows);
        if batch == 0 || rows == 0 {
            return Err(Error::Run("a batch has at least one example".to_owned()));
        }
        Ok(RowBatches { arrays, rows: 0..rows, batch, seed })
    }

    /// The first part of the examples, and the others: so many of them as the share says, at least one of each.
    ///
    /// # Errors
    /// [`Error::Run`] if there are fewer than two.
    pub fn split(self, share: f64) -> Result<(RowBatches, RowBatches), Error> {
        let at = boundary(self.rows.len(), share, 1)?;
        let rest = RowBatches { rows: at..self.rows.end, ..self.clone() };
        Ok((RowBatches { rows: 0..at, ..self }, rest))
    }

    fn chosen(&self, rows: &[usize]) -> Result<Arrays, Error> {
        let mut out = Arrays::new();
        for (name, array) in &self.arrays {
            out.insert(name.clone(), taken(array, rows).map_err(|e| Error::Run(format!("`{name}`: {e}")))?)?;
        }
        Ok(out)
    }
}

impl Batches for RowBatches {
    fn draw(&self, step: u64) -> Result<Arrays, Error> {
        let row = |n| self.rows.start + place(self.seed, step, n, self.rows.len());
        self.chosen(&(0..self.batch).map(row).collect::<Vec<usize>>())
    }

    fn mark(&self) -> u64 {
        let sizes = [self.seed, self.batch as u64, self.rows.start as u64, self.rows.end as u64];
        let names = self.arrays.iter().flat_map(|(name, array)| {
            name.bytes().chain(array.to_f64_vec().into_iter().flat_map(f64::to_le_bytes))
        });
        hash(sizes.into_iter().flat_map(u64::to_le_bytes).chain(names))
    }

    fn in_order(&self, most: usize) -> Result<Vec<Arrays>, Error> {
        let batches = spread(self.rows.len().div_ceil(self.batch), most);
        let rows = |at: usize| {
            let first = self.rows.start + at * self.batch;
            (first..(first + self.batch).min(self.rows.end)).collect::<Vec<_>>()
        };
        batches.map(|at| self.chosen(&rows(at))).collect()
    }
}

/// Parts of a sequence: the share of its end that is kept for validation is the second. Each has room for a window.
///
/// # Errors
/// [`Error::Run`] if one of them has not.
pub fn split_tokens(tokens: &[u32], share: f64, length: usize) -> Result<[Arc<[u32]>; 2], Error> {
    let at = boundary(tokens.len(), share, length + 1)?;
    Ok([tokens[..at].into(), tokens[at..].into()])
}

/// Where a share of the end begins, if both parts have at least so many.
fn boundary(all: usize, share: f64, least: usize) -> Result<usize, Error> {
    let kept = (all as f64 * share).round() as usize;
    let at = all.saturating_sub(kept);
    if at < least || all - at < least {
        return Err(Error::Run(format!(
            "of {all} the share {share} leaves {at} and {}: either part needs {least}",
            all - at
        )));
    }
    Ok(at)
}

/// A place below `end`, by the seed, the step and the row alone.
fn place(seed: u64, step: u64, row: usize, end: usize) -> usize {
    let words = philox([row as u32, step as u32, (step >> 32) as u32, 0], path_key(seed, "batches"));
    let drawn = u64::from(words[0]) | u64::from(words[1]) << 32;
    ((u128::from(drawn) * end as u128) >> 64) as usize
}

/// At most so many of the numbers below `all`, evenly.
fn spread(all: usize, most: usize) -> impl Iterator<Item = usize> {
    let count = all.min(most.max(1));
    (0..count).map(move |n| n * all / count)
}

/// FNV-1a.
fn hash(bytes: impl Iterator<Item = u8>) -> u64 {
    bytes.fold(0xcbf2_9ce4_8422_2325, |h, byte| (h ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

/// These rows of an array.
fn taken(array: &Array, rows: &[usize]) -> Result<Array, salient_ir::array::ArrayError> {
    let mut shape = array.shape().to_vec();
    let width = shape[1..].iter().product();
    shape[0] = rows.len();
    let data = match array.data() {
        Data::F32(values) => Data::F32(gathered(values, rows, width)),
        Data::F16(values) => Data::F16(gathered(values, rows, width)),
        Data::BF16(values) => Data::BF16(gathered(values, rows, width)),
        Data::I32(values) => Data::I32(gathered(values, rows, width)),
        Data::I64(values) => Data::I64(gathered(values, rows, width)),
        Data::Bool(values) => Data::Bool(gathered(values, rows, width)),
    };
    Array::new(shape, data)
}

fn gathered<T: Copy>(values: &[T], rows: &[usize], width: usize) -> Elements<T> {
    let rows = rows.iter().flat_map(|row| values[row * width..(row + 1) * width].iter());
    rows.copied().collect::<Vec<T>>().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(arrays: &Arrays, name: &str) -> Vec<i64> {
        let Data::I64(values) = arrays.get(name).unwrap().data() else { panic!("ids are integers") };
        values.to_vec()
    }

    #[test]
    fn labels_are_the_tokens_behind() {
        let batches = TokenBatches::new((0..100).collect(), 5, 7, 3).unwrap();
        let mut seen = std::collections::BTreeSet::new();
        for step in 0..200 {
            let batch = batches.draw(step).unwrap();
            assert_eq!(batch.get("ids").unwrap().shape(), [5, 7]);
            let (ids, labels) = (ids(&batch, "ids"), ids(&batch, "labels"));
            assert!(ids.iter().zip(&labels).all(|(id, label)| id + 1 == *label));
            assert!(ids.chunks(7).all(|row| row.windows(2).all(|pair| pair[0] + 1 == pair[1])));
            assert!(batches.draw(step).unwrap().same_bits(&batch), "the same at every call");
            seen.extend(ids.chunks(7).map(|row| row[0]));
        }
        assert_eq!(seen.into_iter().collect::<Vec<_>>(), (0..93).collect::<Vec<_>>(), "every place is drawn");
    }

    #[test]
    fn what_is_in_order_is_seen_once() {
        let batches = TokenBatches::new((0..50).collect(), 2, 7, 3).unwrap();
        let all = batches.in_order(100).unwrap();
        let firsts: Vec<i64> =
            all.iter().flat_map(|b| ids(b, "ids").chunks(7).map(|r| r[0]).collect::<Vec<_>>()).collect();
        assert_eq!(firsts, [0, 7, 14, 21, 28, 35, 42]);
        assert_eq!(batches.in_order(2).unwrap().len(), 2);
    }

    #[test]
    fn rows_stay_together() {
        let mut arrays = Arrays::new();
        arrays
            .insert("x", Array::from_f32(vec![10, 2], (0..20).map(|n| n as f32).collect()).unwrap())
            .unwrap();
        arrays.insert("y", Array::from_i64(vec![10], (0..10).collect()).unwrap()).unwrap();
        let (train, rest) = RowBatches::new(arrays, 4, 1).unwrap().split(0.3).unwrap();
        for step in 0..50 {
            let batch = train.draw(step).unwrap();
            let (x, y) = (batch.get("x").unwrap().as_f32().unwrap().to_vec(), ids(&batch, "y"));
            assert!(x.chunks(2).zip(&y).all(|(x, y)| x[0] == 2.0 * *y as f32 && *y < 7));
        }
        let rest: Vec<i64> = rest.in_order(9).unwrap().iter().flat_map(|b| ids(b, "y")).collect();
        assert_eq!(rest, [7, 8, 9]);
    }

    #[test]
    fn what_has_no_batch_is_refused() {
        assert!(TokenBatches::new((0..7).collect(), 2, 7, 3).is_err());
        assert!(split_tokens(&[0; 20], 0.1, 5).unwrap_err().to_string().contains("needs 6"));
        let mut arrays = Arrays::new();
        arrays.insert("x", Array::from_f32(vec![3], vec![0.0; 3]).unwrap()).unwrap();
        arrays.insert("y", Array::from_f32(vec![4], vec![0.0; 4]).unwrap()).unwrap();
        let why = RowBatches::new(arrays, 1, 1).unwrap_err().to_string();
        assert!(why.contains("`x` has 3 examples, and `y` 4"), "{why}");
    }

    #[test]
    fn options_for_batches_have_the_lengths_that_are_not_set() {
        let source = "model m[V = 4](ids: i64[B, T], labels: i64[B, T], x: f32[N]) -> (y: f32[B]) {
            return sum[t](f32(ids + labels)) + sum[n](x[n]) + f32(V)
        }";
        let mut sources = Sources::new();
        sources.add("m.attn", source);
        let batches = TokenBatches::new((0..100).collect(), 5, 7, 3).unwrap();
        let pairs = |names: &[(&str, &str)]| -> Vec<(String, String)> {
            names.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
        };
        let set = |names: &[(&str, &str)]| {
            Options { set: pairs(names), ..Options::default() }.for_batches(&sources, &batches).unwrap().set
        };
        assert_eq!(set(&[]), pairs(&[("B", "5"), ("T", "7")]));
        assert_eq!(set(&[("T", "7"), ("V", "9")]), pairs(&[("T", "7"), ("V", "9"), ("B", "5")]));
    }
}
