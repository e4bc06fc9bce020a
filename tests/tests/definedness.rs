//! Where values are defined: an index outside its axis is an error where its value is used, and only there, whatever a
//! program stores, keeps, reduces or attends to in between.
//!
//! Expected values are written out, not computed by any of the ways.

use salient_tests::ruling::{fails, gives};

// ---- guards that imply the index

const X: (&str, &str) = ("x", "[[1], [2], [3]]");
const R: (&str, &str) = ("r", "[[10], [100], [1000]]");

#[test]
fn a_guard_reaches_a_reduction() {
    let shifted = |guard: &str| {
        format!(
            "model m(x: f32[T, E], r: f32[T, E]) -> (y: f32[T, T]) {{
                 let past[i: T, j: T] = j <= i
                 let y[i: T, j: T] = if {guard} then sum[e](x[i, e] * r[i - j, e]) else 0
                 return y
             }}"
        )
    };
    let y = "[[10, 0, 0], [200, 20, 0], [3000, 300, 30]]";
    for guard in
        ["j <= i", "past[i, j]", "not i < j", "i - j >= 0", "j <= i and x[0, 0] > 0", "max(j, 0) <= i"]
    {
        gives(&shifted(guard), &[X, R], y);
    }
    for (of, y) in [("mean[e](x[i - 1, e])", "[0, 1, 2]"), ("max[e](x[i - 1, e])", "[0, 1, 2]")] {
        let program = format!(
            "model m(x: f32[T, E]) -> (y: f32[T]) {{
                 let y[i: T] = if i > 0 then {of} else 0
                 return y
             }}"
        );
        gives(&program, &[X], y);
    }
}

#[test]
fn a_guard_reaches_a_window() {
    gives(
        "model m(x: f32[T, E], r: f32[T, E]) -> (y: f32[T, 5]) {
             let y[i: T, w: 5] = if i >= w then sum[e](x[i, e] * r[i - w, e]) else 0
             return y
         }",
        &[X, R],
        "[[10, 0, 0, 0, 0], [200, 20, 0, 0, 0], [3000, 300, 30, 0, 0]]",
    );
    gives(
        "model m[W = 2](q: f32[T, E], k: f32[T, E], v: f32[T, E]) -> (y: f32[T, E]) {
             let s[i: T, w: W] = if i >= w then sum[e](q[i, e] * k[i - w, e]) / sqrt(E) else -inf
             let p = softmax(s)
             let y[i: T, e] = sum[w](if i >= w then p[i, w] * v[i - w, e] else 0)
             return y
         }",
        &[("q", "[[0], [0], [0]]"), ("k", "[[1], [2], [3]]"), ("v", "[[2], [4], [8]]")],
        "[[2], [3], [6]]",
    );
}

#[test]
fn a_guard_reaches_a_product() {
    gives(
        "model m(x: f32[T, E], w: f32[E, E]) -> (y: f32[T, E]) {
             let z = x @ w
             let y[t: T, e] = if t > 0 then z[t - 1, e] else 0
             return y
         }",
        &[X, ("w", "[[2]]")],
        "[[0], [2], [4]]",
    );
}

#[test]
fn a_guard_reaches_a_running_sum() {
    gives(
        "model m(x: f32[T, D]) -> (y: f32[T, D]) {
             let s[i: T, d: D] = cumsum[d](x[i - 1, d])
             let y[i: T, d: D] = if i > 0 then s[i, d] else 0.0
             return y
         }",
        &[("x", "[[1, 2], [3, 4]]")],
        "[[0, 0], [1, 3]]",
    );
}

#[test]
fn a_guard_reaches_an_attention() {
    gives(
        "model m(q: f32[T, E], k: f32[T, E], v: f32[T, F]) -> (y: f32[T, F]) {
             let s[i: T, j: T] = sum[e](q[i - 1, e] * k[j, e])
             let w = softmax[j](s)
             let c[i: T, f: F] = sum[j](w[i, j] * v[j, f])
             let y[i: T, f: F] = if i > 0 then c[i, f] else 0.0
             return y
         }",
        &[("q", "[[0], [5]]"), ("k", "[[1], [1]]"), ("v", "[[2], [4]]")],
        "[[0], [3]]",
    );
}

#[test]
fn a_guard_reaches_a_value_with_several_readers() {
    gives(
        "model m(x1: f32[A, B], x2: f32[A, A]) -> (y: f32[A, A]) {
             let v3[i: A, k: B] = abs(x2[i, i])
             let v10[i: A, k: B] = v3[i, k] * if i >= 2 then x2[i, i - 2] else 0.0
             let y[i: A, j: A] = sum[e](x1[i, e] * v10[j, e]) + if j < A then v10[j, j % B] else -0.5
             return y
         }",
        &[("x1", "[[1, 0], [0, 1], [1, 1]]"), ("x2", "[[1, 0, 0], [0, 2, 0], [5, 0, -3]]")],
        "[[0, 0, 30], [0, 0, 30], [0, 0, 45]]",
    );
}

#[test]
fn a_sum_is_defined_where_it_is_read_alone() {
    gives(
        "model m(x: f32[T, E]) -> (y: f32[T]) {
             let d[i: T + 1] = sum[e](x[(i), e])
             let w[i: T + 1] = if i < T then d[i] * 2 else 0
             let y[i: T] = w[(i)] + sum[j: T + 1](w[j])
             return y
         }",
        &[("x", "[[1], [2]]")],
        "[8, 10]",
    );
}

#[test]
fn the_outer_of_two_choices_guards_the_inner() {
    gives(
        "model m(c: f32[R]) -> (y: f32[6]) {
             let y[e: 6] = if e < R then 0 else if e < 2 * R then c[e - R] else 1
             return y
         }",
        &[("c", "[1, 2]")],
        "[0, 0, 1, 2, 1, 1]",
    );
}

/// A position is read by many ways through a stencil; each is looked at once.
#[test]
fn a_guarded_stencil_of_many_steps_compiles() {
    gives(
        "model m(x: f32[T]) -> (y: f32[T]) {
             let y = x
             for l in 0..20 {
                 y[i: T] = if i > 0 then y[i - 1] else y[i]
             }
             return y
         }",
        &[("x", "[1, 2, 3]")],
        "[1, 1, 1]",
    );
}

// ---- guards by data

const IDS: &str = "model m(table: f32[V, D], ids: i64[T], keep: bool[T]) -> (y: f32[T]) {
                       let s[t: T] = sum[d](table[ids[t], d])
                       let y[t: T] = if keep[t] then s[t] else 0
                       return y
                   }";
const TABLE: (&str, &str) = ("table", "[[1, 2], [3, 4]]");

#[test]
fn an_index_of_data_is_refused_where_it_is_used_alone() {
    gives(IDS, &[TABLE, ("ids", "[7, 1]"), ("keep", "[false, true]")], "[0, 7]");
    fails(IDS, &[TABLE, ("ids", "[7, 1]"), ("keep", "[true, true]")], "index 7 is outside the axis");
    fails(IDS, &[TABLE, ("ids", "[0, -1]"), ("keep", "[false, true]")], "index -1 is outside the axis");
}

/// Without a mask a key behind its row lies at a distance that there is not, whatever weight it has.
#[test]
fn a_distance_outside_is_refused_where_keys_are_not_masked() {
    let program = |mask: &str| {
        format!(
            "model m(q: f32[T, E], k: f32[T, E], r: f32[T, F]) -> (y: f32[T, F]) {{
                 let w = softmax(q @ k.T)
                 let y[i: T, f: F] = sum[j](if {mask} then w[i, j] * r[i - j, f] else 0)
                 return y
             }}"
        )
    };
    let data = [("q", "[[0], [0]]"), ("k", "[[1], [1]]"), ("r", "[[2], [6]]")];
    gives(&program("j <= i"), &data, "[[1], [4]]");
    fails(&program("j <= i + 1"), &data, "index -1 is outside the axis");
}

#[test]
fn of_several_indices_that_are_summed_each_is_looked_at() {
    let program = "model m(table: f32[V], ids: i64[T, S], keep: bool[T]) -> (y: f32[T]) {
                       let s[t: T] = sum[j](table[ids[t, j]])
                       let y[t: T] = if keep[t] then exp(s[t]) * 0 + s[t] else -1
                       return y
                   }";
    let table = ("table", "[1, 2, 4]");
    let keep = ("keep", "[false, true]");
    gives(program, &[table, ("ids", "[[9, 0, 9], [2, 1, 0]]"), keep], "[-1, 7]");
    fails(program, &[table, ("ids", "[[0, 0, 0], [2, 1, 5]]"), keep], "index 5 is outside the axis");
}

#[test]
fn a_row_of_which_one_position_is_read_may_be_undefined_elsewhere() {
    let program = "model m(table: f32[V, D], ids: i64[T]) -> (y: f32[]) {
                       let s[t: T] = sum[d](table[ids[t], d])
                       return s[T - 1]
                   }";
    gives(program, &[TABLE, ("ids", "[8, 1]")], "7");
    fails(program, &[TABLE, ("ids", "[1, 8]")], "index 8 is outside the axis");
}

#[test]
fn scores_of_an_index_outside_count_where_their_row_is_used() {
    let program = "model m(k: f32[S], v: f32[S, F], ids: i64[T], keep: bool[T]) -> (y: f32[T, F]) {
                       let s[i: T, j: S] = k[j] * k[ids[i]]
                       let c = softmax(s) @ v
                       let y[i: T, f: F] = if keep[i] then c[i, f] else 0
                       return y
                   }";
    let (k, v, keep) = (("k", "[0, 0]"), ("v", "[[2], [6]]"), ("keep", "[false, true]"));
    gives(program, &[k, v, keep, ("ids", "[5, 1]")], "[[0], [4]]");
    fails(program, &[k, v, keep, ("ids", "[0, 5]")], "index 5 is outside the axis");
}

#[test]
fn a_condition_that_is_undefined_is_an_error_where_it_decides() {
    let program = "model m(x: f32[T], keep: bool[S], ids: i64[T]) -> (y: f32[T]) {
                       let y[t: T] = if keep[ids[t]] then x[t] else 0
                       return y
                   }";
    let (x, keep) = (("x", "[1, 2]"), ("keep", "[true, false]"));
    gives(program, &[x, keep, ("ids", "[0, 1]")], "[1, 0]");
    fails(program, &[x, keep, ("ids", "[0, 2]")], "index 2 is outside the axis");
}

// ---- masks and weights that read scores

/// Scores 1 and 2, or as `k` says.
fn of_scores(result: &str, k: &str, y: &str) {
    let program = format!(
        "model m(q: f32[T, E], k: f32[S, E], v: f32[S, F], g: f32[T, E], h: f32[S, E]) -> (y: f32[T, F]) {{
             let s = q @ k.T
             let w = softmax(s)
             return {result}
         }}"
    );
    let inputs = [("q", "[[1]]"), ("k", k), ("v", "[[10], [20]]"), ("g", "[[1]]"), ("h", "[[1], [-1]]")];
    gives(&program, &inputs, y);
}

#[test]
fn a_mask_may_read_the_scores() {
    let positive = "softmax(if s > 0 then s else -inf) @ v";
    of_scores(positive, "[[1], [2]]", "[[17.310585786]]");
    of_scores(positive, "[[1], [-2]]", "[[10]]");
    let near = "softmax(if s > max(s)[.., _] - 2 then s else -inf) @ v";
    of_scores(near, "[[1], [2]]", "[[17.310585786]]");
    of_scores(near, "[[1], [4]]", "[[20]]");
    of_scores("softmax(if g @ h.T > 0 then s else -inf) @ v", "[[1], [2]]", "[[10]]");
}

#[test]
fn weights_may_read_the_scores() {
    of_scores("(if s > 0 then s * s else 0) @ v", "[[1], [2]]", "[[90]]");
    of_scores("(if s > 1 then s * s else 0) @ v", "[[1], [2]]", "[[80]]");
    of_scores("(if w > 0.05 then w else 0) @ v", "[[1], [2]]", "[[17.310585786]]");
    of_scores("(if w > 0.05 then w else 0) @ v", "[[1], [9]]", "[[19.993292997]]");
}

#[test]
fn scores_may_be_read_at_several_places() {
    gives(
        "model m(q: f32[T, E], k: f32[S, E], v: f32[S, F]) -> (y: f32[T, F]) {
             let s = q @ k.T
             let x[i: T, j: S] = s[i, j] - (if j > 0 then s[i, j - 1] else 0)
             return softmax(x) @ v
         }",
        &[("q", "[[1]]"), ("k", "[[1], [2], [3]]"), ("v", "[[3], [6], [12]]")],
        "[[7]]",
    );
    gives(
        "model m(q: f32[T, E], k: f32[S, E], v: f32[S, F]) -> (y: f32[T, F]) {
             let s = q @ k.T
             let x[i: T, j: S] = s[i, j] - s[i, 0]
             return softmax(x * 0) @ v
         }",
        &[("q", "[[1]]"), ("k", "[[1], [2], [3]]"), ("v", "[[3], [6], [12]]")],
        "[[7]]",
    );
}

// ---- reductions that run along an axis which is not the last

#[test]
fn a_norm_may_be_broadcast_along_a_new_last_axis() {
    let x = ("x", "[[3, 4], [0, 2]]");
    let along = |of: &str| {
        format!(
            "model m(x: f32[J, B]) -> (y: f32[J, B, 2]) {{
                 let n = {of}
                 let y[j: J, i: B, a: 2] = n[j, i]
                 return y
             }}"
        )
    };
    let rms = "[[[0.84818891, 0.84818891], [1.13091855, 1.13091855]], [[0, 0], [1.41069120, 1.41069120]]]";
    gives(&along("x / sqrt(mean(x ** 2)[.., _] + 0.01)"), &[x], rms);
    let softmax = "[[[0.26894142, 0.26894142], [0.73105858, 0.73105858]],
                    [[0.11920292, 0.11920292], [0.88079708, 0.88079708]]]";
    gives(&along("softmax(x)"), &[x], softmax);
    gives(&along("exp(log_softmax(x))"), &[x], softmax);
    gives(&along("exp(x) / sum(exp(x))[.., _]"), &[x], softmax);
    gives(
        "model m(x: f32[J, B], z: f32[A]) -> (y: f32[J, B, A]) {
             let n = layer_norm[eps = 1e-6](x) as n
             return n[:, :, _] + 0.0 * z
         }",
        &[x, ("z", "[1, 2, 3]")],
        "[[[-0.999998, -0.999998, -0.999998], [0.999998, 0.999998, 0.999998]],
          [[-0.9999995, -0.9999995, -0.9999995], [0.9999995, 0.9999995, 0.9999995]]]",
    );
}

/// The sum that divides is of a product's rows, which a kernel of their own stores.
#[test]
fn a_reduction_inside_a_value_that_a_product_stores_is_stored() {
    gives(
        "model m(x: f32[B, A], z: f32[B, B]) -> (y: f32[B, B]) {
             let w[i: B, j: B] = tanh(sum[e](x[i, e] * f32(j)))
             let c[i: B, f: B] = sum[j](w[i, j] * z[j, f])
             let r[i: B, f: B] = c[i, f] / sum[j](w[i, j])
             return r - mean(r)[.., _]
         }",
        &[("x", "[[1], [2]]"), ("z", "[[5, 6], [1, 3]]")],
        "[[-1, 1], [-1, 1]]",
    );
}

// ---- keys that are read along a diagonal or by remainders

#[test]
fn keys_may_be_a_diagonal() {
    for index in ["i % C, i", "i, i % C"] {
        let shape = if index.starts_with("i %") { "C, A" } else { "A, C" };
        let x = if shape == "C, A" { "[[[1], [2]]]" } else { "[[[1]], [[2]]]" };
        let program = format!(
            "model m(x: f32[{shape}, E], v: f32[A, F]) -> (y: f32[A, F]) {{
                 let k[i: A, e: E] = x[{index}, e]
                 let s[i: A, j: A] = sum[e](k[i, e] * k[j, e])
                 let y[i: A, f: F] = sum[j: A](s[i, j] * v[j, f])
                 return y
             }}"
        );
        gives(&program, &[("x", x), ("v", "[[1], [10]]")], "[[21], [42]]");
    }
}

// ---- long programs

#[test]
fn long_chains_of_operators_compile() {
    let steps = |n: usize, step: &str| format!("let y = x\n{}return y", format!("{step}\n").repeat(n));
    let program = |body: String| format!("model m(x: f32[T]) -> (y: f32[T]) {{\n{body}\n}}");
    gives(&program(steps(24, "y = y + tanh(y)")), &[("x", "[0]")], "[0]");
    gives(&program(steps(500, "y = 0.5 * y + 1.0")), &[("x", "[4]")], "[2]");
}

/// The other feature of a pair lies inside the axis, since the axis has an even number of them.
#[test]
fn a_guard_by_remainder_reaches_the_neighbour() {
    gives(
        "model m(x: f32[T, E], w: f32[F, E]) -> (y: f32[T, F]) {
             require E % 2 == 0
             let p[t: T, e: E] = if e % 2 == 0 then x[t, e + 1] else x[t, e - 1]
             let s[t: T, f: F] = sum[e](p[t, e] * w[f, e])
             let y[t: T, f: F] = if t > 0 then s[t, f] else 0
             return y
         }",
        &[("x", "[[1, 2, 3, 4], [5, 6, 7, 8]]"), ("w", "[[1, 0, 0, 10]]")],
        "[[0], [76]]",
    );
}

// ---- dimensions of zero

#[test]
fn a_dimension_may_be_zero_where_nothing_runs_along_it() {
    let program = "model m(x: f32[S, D]) -> (y: f32[S]) {
                       let y[j: S] = if 0 < D then x[j, D - 1] else 7.0
                       return y
                   }";
    gives(program, &[("x", "[[], []]")], "[7, 7]");
    gives(program, &[("x", "[[1, 2], [3, 4]]")], "[2, 4]");
}

// ---- sentinels

/// With the log-sum-exp of its row, which is -1e9 to the last digit, each weight would be one.
#[test]
fn weights_of_a_row_of_sentinels_sum_to_one() {
    gives(
        "model m(x: f32[T, E], k: f32[S, E], keep: bool[T, S], kept: bool[T, S]) -> (y: f32[T]) {
             let w = softmax(if keep then x @ k.T else -1e9)
             return sum(if kept then w else 0)
         }",
        &[
            ("x", "[[1], [1]]"),
            ("k", "[[1], [1]]"),
            ("keep", "[[false, false], [true, true]]"),
            ("kept", "[[false, true], [true, true]]"),
        ],
        "[0.5, 1]",
    );
}

/// Rows of a product that are one more than the tensor has: the last one is no row of it.
#[test]
fn rows_of_a_product_may_leave_their_tensor() {
    let program = "model m(x: f32[T, D], w: f32[D, F]) -> (y: f32[T + 1, F]) {
                       let s[p: T + 1, f: F] = sum[d](x[(p), d] * w[d, f])
                       let y[p: T + 1, f: F] = if p < T then s[p, f] else -1
                       return y
                   }";
    gives(program, &[("x", "[[1, 2], [3, 4]]"), ("w", "[[1], [10]]")], "[[21], [43], [-1]]");
}

/// What comes to a number without it is asked for all the same.
#[test]
fn an_index_outside_is_refused_though_its_value_cancels() {
    for of in [
        "tanh(x[ids[t]]) * 0.0",
        "x[t] + (tanh(x[ids[t]]) - tanh(x[ids[t]]))",
        "(exp(tanh(x[ids[t]])) + 1.0) / (exp(tanh(x[ids[t]])) + 1.0)",
    ] {
        let program =
            format!("model m(x: f32[T], ids: i64[T]) -> (y: f32[T]) {{ let y[t] = {of} return y }}");
        fails(&program, &[("x", "[1, 2]"), ("ids", "[0, 5]")], "index 5 is outside");
    }
    let program = "model m(x: f32[T, S], ids: i64[T]) -> (y: f32[T, S]) {
                       let ones[t] = sum(softmax(tanh(x[ids[t], :])))
                       let y[t, s] = x[t, s] * ones[t]
                       return y
                   }";
    fails(program, &[("x", "[[1, 2], [3, 4]]"), ("ids", "[0, 5]")], "index 5 is outside");
}

/// A result without elements asks for nothing.
#[test]
fn an_index_outside_is_used_only_where_a_result_has_elements() {
    let program = "model m(x: f32[T], ids: i64[T], s: f32[S]) -> (y: f32[T, S]) {
                       let picked[t] = x[ids[t]] * 2.0
                       let y[t, j: S] = picked[t] + s[j]
                       return y
                   }";
    fails(program, &[("x", "[1, 2]"), ("ids", "[0, 5]"), ("s", "[1]")], "index 5 is outside");
    gives(program, &[("x", "[1, 2]"), ("ids", "[0, 5]"), ("s", "[]")], "[[], []]");
}

/// The keys of another head, of which the last head has none, are packed by no attention.
#[test]
fn a_head_outside_has_no_keys() {
    let program = "model m(z: f32[T, S], keys: f32[H, S, E]) -> (y: f32[T, H]) {
                       let s[i, h, e] = sum[j](z[i, j] * keys[h, j, e])
                       let y[i, h: H] = sum[e](s[i, h + 1, e])
                       return y
                   }";
    fails(program, &[("z", "[[1]]"), ("keys", "[[[1]], [[2]]]")], "index 2 is outside the axis");
    let guarded = program.replace("s[i, h + 1, e]", "if h + 1 < H then s[i, h + 1, e] else 0");
    gives(&guarded, &[("z", "[[1], [3]]"), ("keys", "[[[1]], [[2]]]")], "[[2, 0], [6, 0]]");
}

/// A place that no axis has, left out by a choice: no element asks for it.
#[test]
fn an_index_that_is_always_outside_may_be_left_out() {
    let program = "model m(x: f32[T]) -> (y: f32[T]) {
                       let next[t: T] = if t + 1 < T then x[t + 1] else -0.5
                       let y[t: T] = x[t] + next[T - 1]
                       return y
                   }";
    gives(program, &[("x", "[1, 2, 3]")], "[0.5, 1.5, 2.5]");
    let program = "model m(x: f32[T]) -> (y: f32[T]) {
                       let beyond = x[T]
                       let y[t: T] = if t < T then x[t] else beyond
                       return y
                   }";
    gives(program, &[("x", "[1, 2, 3]")], "[1, 2, 3]");
}

/// What is the same along a row is computed once for it; what only has fewer axes is not.
#[test]
fn statistics_of_rows_read_rows_of_fewer_axes() {
    gives(
        "model m(keep: bool[T, S], x: f32[T, 2]) -> (y: f32[T, S, 2]) {
             let most[h: 2] = max[k](x[k, h])
             let less[k, h] = x[k, h] - most[h]
             let kept[i, j, k: T, h: 2] = if keep[i, j] then less[k, h] else 0.0
             let sums[i, j, h] = sum[k](kept[i, j, k, h])
             let y[i, j, h] = sum[k](x[k, h] * sums[i, j, h])
             return y
         }",
        &[("keep", "[[false], [true]]"), ("x", "[[1, 5], [3, 2]]")],
        "[[[0, 0]], [[-8, -21]]]",
    );
}

/// A choice that is multiplied by itself, a sum under a choice, a mask that is added or multiplied: what is read under the
/// choice stays under it, and what is read beside it does not move under it.
#[test]
fn reads_keep_to_the_side_of_the_choice_on_which_they_stand() {
    let z = ("z", "[2, 3]");
    let guarded = "model m(z: f32[S], c: i64[T]) -> (y: f32[T]) {
                       let b[t] = if 0 <= c[t] then tanh(z[c[t]]) * 0.0 + 2.0 else 0.0
                       let y[t] = b[t] * b[t]
                       return y
                   }";
    gives(guarded, &[z, ("c", "[-1, 1]")], "[0, 4]");
    let summed =
        "model m(q: f32[T, E], k: f32[S, E], c: i64[T], ok: bool[T], z: f32[N, F]) -> (y: f32[S, F]) {
                      let s[i, j] = sum[e](q[i, e] * k[j, e])
                      let of[i, j, f] = if ok[i] then z[c[i], f] * s[i, j] else 0.0
                      let y[j, f] = sum[i](of[i, j, f])
                      return y
                  }";
    let matrices = [("q", "[[1], [2]]"), ("k", "[[3], [4]]"), ("z", "[[5, 6]]"), ("ok", "[true, false]")];
    gives(summed, &[&matrices[..], &[("c", "[0, 9]")]].concat(), "[[15, 18], [20, 24]]");
    for (masked, of_all) in [
        ("z[c[t]] + (if ok[t] then 0.0 else -inf)", "[1, 0]"),
        ("exp(z[c[t]]) * (if ok[t] then 1.0 else 0.0)", "[1, 0]"),
    ] {
        let weights = if masked.starts_with("exp") { "w[t] / sum(w)" } else { "softmax(w)[t]" };
        let program = format!(
            "model m(z: f32[S], c: i64[T], ok: bool[T]) -> (y: f32[T]) {{
                 let w[t] = {masked}
                 let y[t] = {weights}
                 return y
             }}"
        );
        let ok = ("ok", "[true, false]");
        gives(&program, &[z, ok, ("c", "[1, 0]")], of_all);
        fails(&program, &[z, ok, ("c", "[1, 9]")], "index 9 is outside");
    }
}

/// A factor leaves a sum only where it is read although the sum may be of nothing.
#[test]
fn a_factor_of_a_sum_of_nothing_is_not_read() {
    let program = "model m(x: f32[T, D], w: f32[F, D], s: f32[S], c: i64[T]) -> (y: f32[T, F]) {
                       let y[t, f] = sum[d](x[t, d] * w[f, d] * s[c[t]])
                       return y
                   }";
    let s = [("s", "[2, 3]"), ("c", "[0, 9]")];
    fails(program, &[&s[..], &[("x", "[[1], [2]]"), ("w", "[[3]]")]].concat(), "index 9 is outside");
    gives(program, &[&s[..], &[("x", "[[], []]"), ("w", "[[]]")]].concat(), "[[0], [0]]");
}

/// The same where the value that is read is itself read at another place.
#[test]
fn an_index_of_what_is_the_same_everywhere_is_looked_at() {
    let program = "model m(x: f32[T], c: i64[T], s: f32[S]) -> (y: f32[T]) {
                       let same[t, j: S] = tanh(x[t]) * 0.0 + x[t]
                       let picked[t] = same[t, c[t]]
                       let y[t: T] = if t + 1 < T then picked[t + 1] else 0.0
                       return y
                   }";
    let inputs = [("x", "[1, 2, 3]"), ("s", "[0, 0]")];
    gives(program, &[&inputs[..], &[("c", "[9, 1, 0]")]].concat(), "[2, 3, 0]");
    fails(program, &[&inputs[..], &[("c", "[0, 1, -1]")]].concat(), "index -1 is outside");
}

/// A view of a view is one only if its index is looked at all the same.
#[test]
fn each_index_of_a_view_of_views_is_looked_at() {
    for (of, read) in [
        ("let of[s: S] = x[max(s - 1, 0)]", "of[c[t]]"),
        ("let of[s: S] = x[S - 1 - max(s, 0)]", "of[c[t]]"),
        ("let at[s: S] = max(s - 1, 0)", "x[at[c[t]]]"),
        ("let far[s: S] = s <= 1", "(if far[c[t]] then x[0] else x[1])"),
        ("let same[s: S] = x[0]", "same[c[t]]"),
        ("let one[s: S] = 1.0", "(one[c[t]] * 7.0)"),
        ("let zero[s: S] = 0.0 * x[s]", "(zero[c[t]] + 7.0)"),
    ] {
        let program = format!(
            "model m(x: f32[S], c: i64[T]) -> (y: f32[T]) {{
                 {of}
                 let y[t] = {read} * 1.0
                 return y
             }}"
        );
        let x = ("x", "[7, 7]");
        gives(&program, &[x, ("c", "[1, 0]")], "[7, 7]");
        fails(&program, &[x, ("c", "[1, -1]")], "index -1 is outside");
    }
}

/// One index for a row of which a choice needs some positions: the first of them need not be among those.
#[test]
fn an_index_of_a_whole_row_is_looked_at_where_any_position_of_the_row_needs_it() {
    for condition in ["made[f]", "f % 2 == 0", "made[f] and ids[t] > 0", "f < D - 1"] {
        let program = format!(
            "model m(ids: i64[T], made: bool[D], table: f32[S, D]) -> (y: f32[T, D]) {{
                 let y[t, f] = if {condition} then 0.0 else table[ids[t], f]
                 return y
             }}"
        );
        let made = ("made", "[true, false, true, false, true, true, true, true, true, false]");
        let table = ("table", "[[1, 1, 1, 1, 1, 1, 1, 1, 1, 1]]");
        fails(&program, &[made, table, ("ids", "[0, 1]")], "index 1 is outside");
    }
}

/// What one result repeats along an axis without positions, another one reads all the same.
#[test]
fn a_value_that_nothing_repeats_is_used_by_its_other_readers() {
    let program =
        "model m(keys: f32[H, E], ids: i64[T], at: i64[2], s: f32[S]) -> (y: f32[2, T], z: f32[T, 2, S]) {
                       let picked[t, i: 2] = keys[at[i], ids[t]]
                       let most[t: T] = max[h: H](keys[h, ids[t]])
                       let y[i: 2, t] = picked[t, at[i]] + most[T - 1 - t]
                       let z[t, i, j: S] = picked[t, i] + most[t]
                       return y, z
                   }";
    let keys = [("keys", "[[1, 2], [3, 4]]"), ("at", "[1, 1]")];
    for s in ["[]", "[1]"] {
        fails(program, &[&keys[..], &[("ids", "[0, 5]"), ("s", s)]].concat(), "index 5 is outside");
        gives(program, &[&keys[..], &[("ids", "[0, 1]"), ("s", s)]].concat(), "[[7, 7], [7, 7]]");
    }
}

/// A dimension that is at least one by a requirement and since something runs along it is not at least two.
#[test]
fn what_is_required_and_filled_is_at_least_one() {
    let program = "model m(v: f32[T, D]) -> (y: f32[3]) {
                       require 1 <= T
                       let a[k: T, i: 3] = sum[l: 3](tanh(v[1 - k, 0]))
                       let b[k, i] = if 1 - k < T then a[k, i] else -4.0
                       let c[k, i] = if 0 <= 1 - k then b[k, i] else -5.0
                       let y[i] = min[k](c[k, i])
                       return y
                   }";
    gives(program, &[("v", "[[0]]")], "[-4, -4, -4]");
    gives(program, &[("v", "[[0], [0], [0]]")], "[-5, -5, -5]");
}

/// The lesser of a position and a dimension that may be zero.
#[test]
fn an_index_that_is_bounded_by_an_empty_axis_may_leave_it() {
    let program = "model m(row: f32[T]) -> (y: f32[T + 1]) {
                       let before[p: T + 1] = row[p - 1]
                       let next[p: T + 1] = before[min(p + 1, T)]
                       let known[p] = if next[p] == next[p] then next[p] else -1.0
                       let y[p] = if 0 < p then known[p] else -2.0
                       return y
                   }";
    gives(program, &[("row", "[]")], "[-2]");
    gives(program, &[("row", "[3, 4]")], "[-2, 4, 4]");
}

/// A sum that one result repeats, and of which another one has nothing.
#[test]
fn a_sum_that_is_repeated_is_looked_at_where_there_is_something_to_repeat() {
    let program = "model m(q: f32[4, T, E], s: f32[S]) -> (z: f32[S], y: f32[T, T + 1, 4]) {
                       let sums[a, p: T + 1] = sum[e](q[a, (p), e])
                       let y[i: T, p, a] = sums[a, p]
                       return s, y
                   }";
    for s in ["[]", "[1]"] {
        fails(program, &[("q", "[[[1]], [[1]], [[1]], [[1]]]"), ("s", s)], "index 1 is outside");
    }
}

/// A sum that a product reads by two views, of which some rows are read.
#[test]
fn a_value_behind_a_product_of_which_rows_are_picked_is_looked_at() {
    let program = "model m(y: f32[S, D], u: f32[T, 2, D / 2], ids: i64[T], at: i64[T, T]) -> (y: f32[T, T]) {
                       let sums[k, h, e] = sum[i](u[at[i, k], h, e])
                       let s[j, k] = sum[d: D](y[j, d] * sums[k, d / (D / 2), d % (D / 2)])
                       let y_out[i, k] = s[ids[i], k]
                       return y_out
                   }";
    let tensors = [("y", "[[1, 2], [3, 4]]"), ("u", "[[[1], [2]], [[3], [4]]]"), ("ids", "[0, 1]")];
    gives(program, &[&tensors[..], &[("at", "[[0, 1], [1, 0]]")]].concat(), "[[16, 16], [36, 36]]");
    fails(program, &[&tensors[..], &[("at", "[[0, 7], [1, 0]]")]].concat(), "index 7 is outside");
}

/// A score of one value at two places, its own and the key's: what is computed once for the row is that of the row alone.
#[test]
fn what_a_score_reads_at_the_row_and_at_the_key_is_computed_for_each() {
    let program = "model m(x: f32[T, E], v: f32[T, D]) -> (y: f32[T, D]) {
                       let a[t] = tanh(mean(x[t, :])) / 2.0
                       let s[i, j] = a[i] / (a[j] * a[j] + 1.0)
                       let p = softmax(s)
                       let y[i, d] = sum[j](p[i, j] * v[j, d])
                       return y
                   }";
    let rows: Vec<String> =
        (0..70).map(|n| format!("[{}, {}]", f64::from(n) / 8.0 - 4.0, f64::from(n) / 8.0 - 5.0)).collect();
    let x: Vec<f64> = (0..70).map(|n| f64::from(n) / 8.0 - 4.5).collect();
    let a: Vec<f64> = x.iter().map(|x| x.tanh() / 2.0).collect();
    let value = |j: usize, d: usize| if (j + d).is_multiple_of(3) { 1.0 } else { -0.5 };
    let values: Vec<String> = (0..70).map(|j| format!("[{}, {}]", value(j, 0), value(j, 1))).collect();
    let expected: Vec<String> = a
        .iter()
        .map(|ai| {
            let w: Vec<f64> = a.iter().map(|aj| (ai / (aj * aj + 1.0)).exp()).collect();
            let total: f64 = w.iter().sum();
            let of = |d: usize| w.iter().enumerate().map(|(j, w)| w * value(j, d)).sum::<f64>() / total;
            format!("[{}, {}]", of(0), of(1))
        })
        .collect();
    let list = |rows: &[String]| format!("[{}]", rows.join(", "));
    gives(program, &[("x", &list(&rows)), ("v", &list(&values))], &list(&expected));
}

/// Copies of copies, of which some are stored on the way.
#[test]
fn parts_of_parts_keep_their_places() {
    let program = "model m(x: f32[T]) -> (y: f32[4]) {
                       let all = x
                       for l in 0..8 {
                           all = concat(all, all * 0.5)
                       }
                       let y[n: 4] = all[n * 85 * T + n % T]
                       return y
                   }";
    // Part 0, 85, 170 and 255 of 256: a half for each bit of their numbers, the last doubling the highest.
    gives(program, &[("x", "[256, 512]")], "[256, 32, 16, 2]");
}
