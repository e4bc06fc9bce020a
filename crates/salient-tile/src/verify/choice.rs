//! Ways of choosing numbers for the variables of a loop program.

/// Ways of choosing numbers for all variables. Of a polynomial that is negative for numbers that fit all that is known there
/// is no proof, and none is looked for.
pub(super) const SAMPLES: [Choice; 8] = [
    Choice { lanes: 1, ends_vector: false, sizes: [1, 1, 1, 1, 1], part: (0, 1) },
    Choice { lanes: 8, ends_vector: false, sizes: [12, 24, 36, 48, 60], part: (1, 1) },
    Choice { lanes: 16, ends_vector: true, sizes: [2, 4, 8, 16, 32], part: (1, 1) },
    Choice { lanes: 4, ends_vector: false, sizes: [768, 192, 64, 48, 6], part: (1, 1) },
    Choice { lanes: 8, ends_vector: true, sizes: [131, 131, 131, 131, 131], part: (1, 1) },
    Choice { lanes: 4, ends_vector: true, sizes: [5, 15, 45, 135, 405], part: (0, 1) },
    Choice { lanes: 16, ends_vector: false, sizes: [64, 64, 64, 64, 64], part: (1, 1) },
    Choice { lanes: 2, ends_vector: false, sizes: [17, 17, 17, 17, 17], part: (2, 3) },
];

/// How numbers are chosen: for dimensions one after the other, and for others a part of the way from the least to the greatest.
pub(super) struct Choice {
    /// The lanes of a vector.
    pub(super) lanes: i128,
    /// Whether the last of them is looked at, and not the first.
    pub(super) ends_vector: bool,
    /// Of dimensions, in turn.
    pub(super) sizes: [i128; 5],
    /// How far other variables are from their least to their greatest number.
    pub(super) part: (i128, i128),
}
