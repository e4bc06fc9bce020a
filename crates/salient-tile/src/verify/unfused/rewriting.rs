//! What may be written instead of a program that stores an array for every query and key, or makes its scores several times.

/// Another way to write a program, which fuses.
#[derive(Debug, PartialEq, Eq)]
pub struct Rewriting {
    /// What it is, as one sentence.
    pub what: &'static str,
    /// The lines to write. `q`, `k`, `v` and `p = softmax(s)` stand for queries, keys, values and weights.
    pub lines: &'static [&'static str],
    /// A whole program with these lines.
    pub program: &'static str,
}

/// Every rewriting that is known.
pub const REWRITINGS: [&Rewriting; 11] = [
    &GATHER_SUMS,
    &GATHER_KEYS,
    &MOVE_SUMS,
    &MOVE_VALUES,
    &RUN_OVER_SUMS,
    &RUN_OVER_VALUES,
    &FIRST_GREATEST,
    &ALL_VALUES,
    &LOGARITHMS,
    &EXPAND_DISTANCES,
    &EXPAND_SQUARES,
];

/// Rows of weights at queries that are data are rows of their sums.
pub const GATHER_SUMS: Rewriting = Rewriting {
    what: "sum the values first, and take the rows of the sum",
    lines: &["let c = p @ v", "let y[h, i, e] = c[h, ids[i], e]"],
    program: "\
model rewritten(q: f32[H, T, E], k: f32[H, T, E], v: f32[H, T, E], ids: i64[T]) -> (y: f32[H, T, E]) {
\x20   let s = q @ k.T / sqrt(E)
\x20   let p = softmax(s)
\x20   let c = p @ v
\x20   let y[h, i, e] = c[h, ids[i], e]
\x20   return y
}
",
};

/// Weights at keys that are data are those of the keys there, divided by the sum over all keys.
pub const GATHER_KEYS: Rewriting = Rewriting {
    what: "take the keys first, and subtract the log-sum-exp of all scores",
    lines: &[
        "let l = logsumexp(s)",
        "let there[h, j, e] = k[h, ids[j], e]",
        "return exp(q @ there.T / sqrt(E) - l[.., _]) @ v",
    ],
    program: "\
model rewritten(q: f32[H, T, E], k: f32[H, T, E], v: f32[H, T, E], ids: i64[T]) -> (y: f32[H, T, E]) {
\x20   let s = q @ k.T / sqrt(E)
\x20   let l = logsumexp(s)
\x20   let there[h, j, e] = k[h, ids[j], e]
\x20   return exp(q @ there.T / sqrt(E) - l[.., _]) @ v
}
",
};

/// Rows of weights at other queries are rows of their sums.
pub const MOVE_SUMS: Rewriting = Rewriting {
    what: "sum the values first, and move the rows of the sum",
    lines: &["let c = p @ v", "let y[h, i: T, e] = if i > 0 then c[h, i - 1, e] else c[h, i, e]"],
    program: "\
model rewritten(q: f32[H, T, E], k: f32[H, T, E], v: f32[H, T, E]) -> (y: f32[H, T, E]) {
\x20   let s = q @ k.T / sqrt(E)
\x20   let p = softmax(s)
\x20   let c = p @ v
\x20   let y[h, i: T, e] = if i > 0 then c[h, i - 1, e] else c[h, i, e]
\x20   return y
}
",
};

/// Weights at other keys meet values at others.
pub const MOVE_VALUES: Rewriting = Rewriting {
    what: "move the values the other way, and leave the weights where they are",
    lines: &["let moved[h, j: T, e] = if j < T - 1 then v[h, j + 1, e] else 0", "return p @ moved"],
    program: "\
model rewritten(q: f32[H, T, E], k: f32[H, T, E], v: f32[H, T, E]) -> (y: f32[H, T, E]) {
\x20   let s = q @ k.T / sqrt(E)
\x20   let p = softmax(s)
\x20   let moved[h, j: T, e] = if j < T - 1 then v[h, j + 1, e] else 0
\x20   return p @ moved
}
",
};

/// A running sum of weights along queries is one of their sums.
pub const RUN_OVER_SUMS: Rewriting = Rewriting {
    what: "sum the values first, and take the running sum of that",
    lines: &["let c = p @ v", "let y[h, i, e] = cumsum[i](c[h, i, e])"],
    program: "\
model rewritten(q: f32[H, T, E], k: f32[H, T, E], v: f32[H, T, E]) -> (y: f32[H, T, E]) {
\x20   let s = q @ k.T / sqrt(E)
\x20   let p = softmax(s)
\x20   let c = p @ v
\x20   let y[h, i, e] = cumsum[i](c[h, i, e])
\x20   return y
}
",
};

/// A running sum of weights along keys weighs the values behind each key.
pub const RUN_OVER_VALUES: Rewriting = Rewriting {
    what: "sum the values behind each key first",
    lines: &[
        "let total[h, e] = sum[j](v[h, j, e])",
        "let before[h, j, e] = cumsum[j](v[h, j, e])",
        "return p @ (total[.., _, :] - before + v)",
    ],
    program: "\
model rewritten(q: f32[H, T, E], k: f32[H, T, E], v: f32[H, T, E]) -> (y: f32[H, T, E]) {
\x20   let s = q @ k.T / sqrt(E)
\x20   let p = softmax(s)
\x20   let total[h, e] = sum[j](v[h, j, e])
\x20   let before[h, j, e] = cumsum[j](v[h, j, e])
\x20   return p @ (total[.., _, :] - before + v)
}
",
};

/// The first position of the greatest score is a maximum of positions.
pub const FIRST_GREATEST: Rewriting = Rewriting {
    what: "take the maximum of scores, then that of the positions, negative, at which they have it",
    lines: &[
        "let top = max(s)",
        "let first[h, i] = max[j](if s[h, i, j] == top[h, i] then -f32(j) else -inf)",
        "return i64(-first)",
    ],
    program: "\
model rewritten(q: f32[H, T, E], k: f32[H, T, E], v: f32[H, T, E]) -> (y: i64[H, T]) {
\x20   let s = q @ k.T / sqrt(E)
\x20   let top = max(s)
\x20   let first[h, i] = max[j](if s[h, i, j] == top[h, i] then -f32(j) else -inf)
\x20   return i64(-first)
}
",
};

/// A mean of weights of several heads weighs the values of all heads at once.
pub const ALL_VALUES: Rewriting = Rewriting {
    what: "sum the values of all heads under the weights of each, and combine the sums",
    lines: &[
        "let all[j, d: H * E] = v[d / E, j, d % E]",
        "let c = p @ all",
        "let y[g: H, i, e: E] = mean[h](c[h, i, g * E + e])",
    ],
    program: "\
model rewritten(q: f32[H, T, E], k: f32[H, T, E], v: f32[H, T, E]) -> (y: f32[H, T, E]) {
\x20   let s = q @ k.T / sqrt(E)
\x20   let p = softmax(s)
\x20   let all[j, d: H * E] = v[d / E, j, d % E]
\x20   let c = p @ all
\x20   let y[g: H, i, e: E] = mean[h](c[h, i, g * E + e])
\x20   return y
}
",
};

/// Sums along rows and columns in turn, as logarithms.
pub const LOGARITHMS: Rewriting = Rewriting {
    what: "subtract the log-sum-exp of rows and columns from the scores, and take one exponential at the end",
    lines: &[
        "let r = logsumexp(s)",
        "let c[h, j] = logsumexp[i](s[h, i, j] - r[h, i])",
        "return softmax(s - c[.., _, :]) @ v",
    ],
    program: "\
model rewritten(q: f32[H, T, E], k: f32[H, T, E], v: f32[H, T, E]) -> (y: f32[H, T, E]) {
\x20   let s = q @ k.T / sqrt(E)
\x20   let r = logsumexp(s)
\x20   let c[h, j] = logsumexp[i](s[h, i, j] - r[h, i])
\x20   return softmax(s - c[.., _, :]) @ v
}
",
};

/// Squares of distances are products, but for what is the same for all keys of a query.
pub const EXPAND_DISTANCES: Rewriting = Rewriting {
    what: "expand the square: what depends on the query alone cancels in a softmax",
    lines: &["let s = 2 * q @ k.T - sum(k ** 2)[.., _, :]"],
    program: "\
model rewritten(q: f32[H, T, E], k: f32[H, T, E], v: f32[H, T, E]) -> (y: f32[H, T, E]) {
\x20   let s = 2 * q @ k.T - sum(k ** 2)[.., _, :]
\x20   return softmax(s) @ v
}
",
};

/// Weighted sums of squares of differences are differences of weighted sums.
pub const EXPAND_SQUARES: Rewriting = Rewriting {
    what: "expand the square; rows of weights sum to one",
    lines: &["return p @ (v ** 2) - 2 * q * (p @ v) + q ** 2"],
    program: "\
model rewritten(q: f32[H, T, E], k: f32[H, T, E], v: f32[H, T, E]) -> (y: f32[H, T, E]) {
\x20   let s = q @ k.T / sqrt(E)
\x20   let p = softmax(s)
\x20   return p @ (v ** 2) - 2 * q * (p @ v) + q ** 2
}
",
};
