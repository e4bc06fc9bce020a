//! Arrays for tests: drawn from a seed, or written in a line of text.
//!
//! `floats(-3, 3)`, `ints(0, 10)` and `bools(0.5)` draw; `[[1, -inf], [nan, 2]]` is a literal whose shape is that of its
//! brackets.

use salient::{Array, DType};
use salient_ir::array::Data;

/// How an input gets its values.
#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    /// Uniform in a range, end excluded.
    Floats(f32, f32),
    /// Uniform integers in a range, end excluded.
    Ints(i32, i32),
    /// True with that probability.
    Bools(f32),
    /// As written: shape and elements, row-major.
    Literal(Vec<usize>, Vec<f64>),
}

impl Values {
    /// What is drawn where nothing else is asked for.
    pub fn default_for(dtype: DType) -> Values {
        match dtype {
            DType::F32 | DType::F16 | DType::BF16 => Values::Floats(-2.0, 2.0),
            DType::I32 | DType::I64 => Values::Ints(0, 4),
            DType::Bool => Values::Bools(0.7),
        }
    }

    /// Reads the text form.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Values, String> {
        let text = text.trim();
        if let Some((name, rest)) = text.split_once('(') {
            let inner = rest.strip_suffix(')').ok_or_else(|| format!("`{text}` lacks its `)`"))?;
            let args = inner.split(',').map(number).collect::<Result<Vec<f64>, String>>()?;
            return match (name, args.as_slice()) {
                ("floats", [low, high]) if low < high => Ok(Values::Floats(*low as f32, *high as f32)),
                ("ints", [low, high]) if low < high => Ok(Values::Ints(*low as i32, *high as i32)),
                ("bools", [p]) if (0.0..=1.0).contains(p) => Ok(Values::Bools(*p as f32)),
                _ => Err(format!("`{text}` is not floats(LOW, HIGH), ints(LOW, HIGH) or bools(P)")),
            };
        }
        let mut shape = Vec::new();
        let mut values = Vec::new();
        let rest = literal(text, 0, &mut shape, &mut values)?;
        if !rest.trim().is_empty() {
            return Err(format!("`{rest}` follows the values"));
        }
        Ok(Values::Literal(shape, values))
    }

    /// An array of that dtype and shape. The draw depends on `key` alone.
    ///
    /// # Errors
    /// A literal has another shape, or values that the dtype does not have.
    pub fn array(&self, dtype: DType, shape: &[usize], key: &str) -> Result<Array, String> {
        let mut rng = fastrand::Rng::with_seed(hash(key));
        let count: usize = shape.iter().product();
        let drawn: Vec<f64> = match self {
            Values::Floats(low, high) => {
                (0..count).map(|_| f64::from(low + (high - low) * rng.f32())).collect()
            }
            Values::Ints(low, high) => (0..count).map(|_| f64::from(rng.i32(*low..*high))).collect(),
            Values::Bools(p) => (0..count).map(|_| f64::from(u8::from(rng.f32() < *p))).collect(),
            Values::Literal(found, values) if found == shape => values.clone(),
            Values::Literal(found, _) => return Err(format!("the shape is {found:?}, expected {shape:?}")),
        };
        if dtype == DType::F32 {
            // Rounded here, since a literal such as 0.1 is no f32.
            let data = Data::F32(drawn.iter().map(|v| *v as f32).collect());
            return Array::new(shape.to_vec(), data).map_err(|e| e.to_string());
        }
        Array::from_f64(dtype, shape.to_vec(), &drawn).map_err(|e| e.to_string())
    }
}

fn number(text: &str) -> Result<f64, String> {
    match text.trim() {
        "true" => Ok(1.0),
        "false" => Ok(0.0),
        word => word.parse().map_err(|_| format!("`{word}` is not a number")),
    }
}

/// Reads one element or one bracket at a depth; gives what follows it.
fn literal<'t>(
    text: &'t str,
    depth: usize,
    shape: &mut Vec<usize>,
    values: &mut Vec<f64>,
) -> Result<&'t str, String> {
    let text = text.trim_start();
    let Some(mut rest) = text.strip_prefix('[') else {
        if shape.len() > depth {
            return Err(format!("`{text}` is not as deep as what stands before it"));
        }
        let end = text.find([',', ']']).unwrap_or(text.len());
        values.push(number(&text[..end])?);
        return Ok(&text[end..]);
    };
    let new = shape.len() == depth;
    if new {
        if !values.is_empty() {
            return Err(format!("`{text}` is deeper than what stands before it"));
        }
        shape.push(0);
    }
    let mut count = 0;
    loop {
        rest = rest.trim_start();
        if let Some(after) = rest.strip_prefix(']') {
            rest = after;
            break;
        }
        rest = literal(rest, depth + 1, shape, values)?.trim_start();
        count += 1;
        rest = rest.strip_prefix(',').unwrap_or(rest);
        if rest.is_empty() {
            return Err("a `]` is missing".to_owned());
        }
    }
    if new {
        shape[depth] = count;
    } else if shape[depth] != count {
        return Err(format!("a row has {count} elements, one before it {}", shape[depth]));
    }
    Ok(rest)
}

/// FNV-1a: the draw of one input must not depend on the order of the others.
pub(crate) fn hash(key: &str) -> u64 {
    key.bytes().fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0000_0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_have_the_shape_of_their_brackets() {
        let parsed = Values::parse("[[1, -inf], [nan, 2.5]]").unwrap();
        let Values::Literal(shape, values) = &parsed else { panic!("{parsed:?}") };
        assert_eq!(shape, &[2, 2]);
        assert_eq!((values[0], values[1], values[3]), (1.0, f64::NEG_INFINITY, 2.5));
        assert!(values[2].is_nan());
        assert_eq!(Values::parse("3"), Ok(Values::Literal(vec![], vec![3.0])));
        assert_eq!(Values::parse("[[], []]"), Ok(Values::Literal(vec![2, 0], vec![])));
        assert_eq!(Values::parse("[true, false]"), Ok(Values::Literal(vec![2], vec![1.0, 0.0])));
        for wrong in ["[1, [2]]", "[[1], 2]", "[[1, 2], [3]]", "[1", "[1] 2", "[x]", "ints(3, 3)", "dice(6)"]
        {
            assert!(Values::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn draws_depend_on_their_key_alone() {
        let draw = |key| Values::parse("floats(-1, 1)").unwrap().array(DType::F32, &[3, 4], key).unwrap();
        assert!(draw("1/x").same_bits(&draw("1/x")));
        assert!(!draw("1/x").same_bits(&draw("2/x")));
        let ids = Values::Ints(2, 5).array(DType::I64, &[50], "ids").unwrap().to_f64_vec();
        assert!(ids.iter().all(|n| (2.0..5.0).contains(n)) && ids.contains(&2.0) && ids.contains(&4.0));
        assert!(Values::parse("[1, 2]").unwrap().array(DType::F32, &[3], "x").is_err());
    }
}
