//! Arrays as text for people: an excerpt with the ends of long axes.

use super::{Array, Data, shape_text};
use std::fmt;

/// An excerpt in the manner of NumPy: dtype and shape, then nested brackets, long axes shortened to their ends.
///
/// ```text
/// f32[6, 3]
/// [[ 0.43  0.15  0.89]
///  [ 0.55  0.87  0.66]
///  …
///  [ 0.77  0.25  0.1 ]
///  [ 0.05  0.8   0.55]]
/// ```
impl fmt::Display for Array {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}{}", self.dtype(), shape_text(&self.shape))?;
        let mut shown = Vec::new();
        self.collect_shown(0, 0, &mut shown);
        let cells = cell_texts(&self.data, &shown);
        let width = cells.iter().map(|cell| cell.chars().count()).max().unwrap_or(0);
        let mut cells = cells.into_iter();
        self.write_axis(f, 0, &mut cells, width)
    }
}

/// The positions of an axis that an excerpt shows: all, or `edge` at each end.
struct Shown {
    extent: usize,
    edge: Option<usize>,
}

impl Shown {
    fn contains(&self, position: usize) -> bool {
        self.edge.is_none_or(|edge| position < edge || position >= self.extent - edge)
    }

    /// Whether the mark of omission stands before this position.
    fn resumes_at(&self, position: usize) -> bool {
        self.edge.is_some_and(|edge| position == self.extent - edge)
    }
}

impl Array {
    /// Rows and columns show up to seven entries or three at each end; axes further out three or one at each end.
    fn shown(&self, axis: usize) -> Shown {
        let extent = self.shape[axis];
        let (most, edge) = if axis + 2 >= self.rank() { (7, 3) } else { (3, 1) };
        Shown { extent, edge: (extent > most).then_some(edge) }
    }

    /// The row-major positions an excerpt shows, in order.
    fn collect_shown(&self, axis: usize, base: usize, out: &mut Vec<usize>) {
        if axis == self.rank() {
            out.push(base);
            return;
        }
        let shown = self.shown(axis);
        for position in (0..shown.extent).filter(|&p| shown.contains(p)) {
            self.collect_shown(axis + 1, base * shown.extent + position, out);
        }
    }

    fn write_axis(
        &self,
        f: &mut fmt::Formatter<'_>,
        axis: usize,
        cells: &mut impl Iterator<Item = String>,
        width: usize,
    ) -> fmt::Result {
        if axis == self.rank() {
            return write!(f, "{:>width$}", cells.next().unwrap_or_default());
        }
        let shown = self.shown(axis);
        let separator = if axis + 1 == self.rank() {
            " ".to_owned()
        } else {
            // One line break for each axis inside this one, then the indent of the brackets already open.
            format!("{}{}", "\n".repeat(self.rank() - axis - 1), " ".repeat(axis + 1))
        };
        write!(f, "[")?;
        // The walk goes over shown positions only: extents are of any size.
        let head = 0..shown.edge.unwrap_or(shown.extent);
        let tail = shown.edge.map_or(shown.extent..shown.extent, |edge| shown.extent - edge..shown.extent);
        for position in head.chain(tail) {
            if position > 0 {
                write!(f, "{separator}")?;
            }
            if shown.resumes_at(position) {
                write!(f, "…{separator}")?;
            }
            self.write_axis(f, axis + 1, cells, width)?;
        }
        write!(f, "]")
    }
}

/// The texts of some elements, in one notation and with as many decimals as the one that needs most.
fn cell_texts(data: &Data, positions: &[usize]) -> Vec<String> {
    match data {
        Data::F32(_) | Data::F16(_) | Data::BF16(_) => {
            float_texts(&positions.iter().map(|&i| data.get_f64(i)).collect::<Vec<_>>())
        }
        Data::I32(v) => positions.iter().map(|&i| v[i].to_string()).collect(),
        Data::I64(v) => positions.iter().map(|&i| v[i].to_string()).collect(),
        Data::Bool(v) => positions.iter().map(|&i| v[i].to_string()).collect(),
    }
}

/// Fixed notation with up to five decimals, or scientific where magnitudes are extreme or far apart.
fn float_texts(values: &[f64]) -> Vec<String> {
    const DECIMALS: usize = 5;
    let magnitudes = || values.iter().map(|v| v.abs()).filter(|v| v.is_finite() && *v > 0.0);
    let largest = magnitudes().fold(0.0, f64::max);
    let smallest = magnitudes().fold(f64::INFINITY, f64::min);
    // The bounds are NumPy's (`formatter` of arrayprint), with this excerpt's fewer digits.
    let scientific = largest >= 1e8 || smallest < 1e-4;
    let special = |v: f64| match (v.is_nan(), v > 0.0) {
        (true, _) => "nan".to_owned(),
        (false, true) => "inf".to_owned(),
        (false, false) => "-inf".to_owned(),
    };
    let text = |v: f64| match (v.is_finite(), scientific) {
        (false, _) => special(v),
        (true, true) => format!("{v:.DECIMALS$e}"),
        (true, false) => format!("{v:.DECIMALS$}"),
    };
    let texts: Vec<String> = values.iter().map(|&v| text(v)).collect();
    if scientific {
        return texts;
    }
    // Trailing zeros go from all together, so that the points stay under one another.
    let spare = |t: &String| t.len() - t.trim_end_matches('0').len();
    let finite = || texts.iter().zip(values).filter(|(_, v)| v.is_finite()).map(|(t, _)| t);
    let common = finite().map(spare).min().unwrap_or(0).min(DECIMALS - 1);
    texts
        .iter()
        .zip(values)
        .map(|(t, v)| if v.is_finite() { t[..t.len() - common].to_owned() } else { t.clone() })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn excerpts_show_the_ends_of_long_axes() {
        let count = |shape: Vec<usize>| {
            let n = shape.iter().product::<usize>();
            Array::from_i32(shape, (0..n as i32).collect()).unwrap().to_string()
        };
        assert_eq!(count(vec![2, 3]), "i32[2, 3]\n[[0 1 2]\n [3 4 5]]");
        assert_eq!(count(vec![10]), "i32[10]\n[0 1 2 … 7 8 9]");
        assert_eq!(count(vec![]), "i32[]\n0");
        assert_eq!(count(vec![0, 4]), "i32[0, 4]\n[]");
        assert_eq!(
            count(vec![9, 8]),
            "i32[9, 8]\n[[ 0  1  2 …  5  6  7]\n [ 8  9 10 … 13 14 15]\n [16 17 18 … 21 22 23]\n …\n \
             [48 49 50 … 53 54 55]\n [56 57 58 … 61 62 63]\n [64 65 66 … 69 70 71]]"
        );
        assert_eq!(count(vec![5, 1, 2]), "i32[5, 1, 2]\n[[[0 1]]\n\n …\n\n [[8 9]]]");
    }

    #[test]
    fn excerpts_of_floats_share_one_notation() {
        let text = |values: Vec<f32>| {
            let array = Array::from_f32(vec![values.len()], values).unwrap();
            array.to_string().lines().nth(1).unwrap().to_owned()
        };
        assert_eq!(text(vec![1.0, 2.0]), "[1.0 2.0]");
        assert_eq!(text(vec![0.25, -10.5, f32::NEG_INFINITY]), "[  0.25 -10.50   -inf]");
        assert_eq!(text(vec![1.0 / 3.0, f32::NAN]), "[0.33333     nan]");
        assert_eq!(text(vec![1e-6, 1.0]), "[1.00000e-6  1.00000e0]");
        assert_eq!(text(vec![f32::INFINITY]), "[inf]");
    }
}
