//! From numbers to colours.

use super::Grid;

/// The range of numbers that colours stand for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    /// The number of the darkest colour.
    pub low: f32,
    /// The number of the brightest colour.
    pub high: f32,
}

impl Scale {
    /// From zero, or the least number if that is below zero, to the greatest; of what is no number nothing is counted.
    pub fn of(grid: &Grid) -> Scale {
        let numbers = || grid.maps().flat_map(|map| &map.values).copied().filter(|x| x.is_finite());
        let high = numbers().fold(f32::NEG_INFINITY, f32::max);
        let low = numbers().fold(0.0, f32::min);
        if high > low { Scale { low, high } } else { Scale { low, high: low + 1.0 } }
    }

    /// The number at a share of the way from low to high.
    pub(super) fn at(self, share: f32) -> f32 {
        self.low + (self.high - self.low) * share
    }
}

/// What is drawn where there is no number.
const NO_NUMBER: [u8; 3] = [0xd0, 0x4a, 0x4a];

/// The colour of a number: viridis, whose steps look equally large, also without colour vision or in grey. Red stands for what is
/// no number.
pub fn colour(scale: Scale, x: f32) -> [u8; 3] {
    if x.is_nan() {
        return NO_NUMBER;
    }
    let share = ((x - scale.low) / (scale.high - scale.low)).clamp(0.0, 1.0);
    let colour = colorous::VIRIDIS.eval_continuous(f64::from(share));
    [colour.r, colour.g, colour.b]
}
