//! The rulings of `docs/semantics.md` about gradients, on every way of running them.
//!
//! Expected values are written out, not computed by any of the ways.

use salient::{Options, lower};
use salient_tests::ruling::{call, gives, outputs, sources};
use salient_tests::ways::Ways;

/// Scores of three keys, a row of which keeps two and one none, and values.
const MASKED: &[(&str, &str)] = &[
    ("s", "[[1, 2, 3], [1, 2, 3]]"),
    ("keep", "[[true, true, false], [false, false, false]]"),
    ("v", "[[1, 10], [2, 20], [4, 40]]"),
];

/// The gradient by `x` of the sum of a value.
fn gradient_is(value: &str, x: &str, expected: &str) {
    let program = format!(
        "model m(x: f32[T]) -> (y: f32[T]) {{
             let value = {value}
             return grad(sum[t](value[t]), x)
         }}"
    );
    gives(&program, &[("x", x)], expected);
}

#[test]
fn equal_maxima_share_their_gradient_or_give_it_to_the_first() {
    gradient_is("max(x, 0)", "[-1, 0, 2]", "[0, 0, 1]");
    gradient_is("max(x, 2 * x)", "[-1, 0, 2]", "[1, 1.5, 2]");
    gradient_is("max(x) + 0 * x", "[3, 1, 3]", "[3, 0, 0]");
    gradient_is("min(x) + 0 * x", "[3, 1, 1]", "[0, 3, 0]");
    gradient_is("abs(x)", "[-2, 0, 2]", "[-1, 0, 1]");
}

#[test]
fn the_arm_that_is_not_taken_has_no_gradient() {
    gradient_is("if x > 0 then log(x) else 0", "[-1, 0, 2]", "[0, 0, 0.5]");
    gradient_is("if x > 0 then sqrt(x) else 0", "[-1, 0, 4]", "[0, 0, 0.25]");
    gradient_is("if x != 0 then 1 / x else 0", "[0, 1, 2]", "[0, -1, -0.25]");
}

#[test]
fn the_gradient_of_a_row_without_a_key_is_zero() {
    for value in ["softmax(if keep then s else -inf) @ v", "logsumexp(if keep then s else -100000)[.., _]"] {
        let program = format!(
            "model m(s: f32[T, S], keep: bool[T, S], v: f32[S, F]) -> (ds: f32[T, S], dv: f32[S, F]) {{
                 let y = {value}
                 let loss = sum[t](sum[f](y[t, f])) + 0 * sum[s](sum[f](v[s, f]))
                 let ds, dv = grad(loss, s, v)
                 return ds, dv
             }}"
        );
        for (way, outputs) in outputs(&program, MASKED) {
            let ds = outputs.get("ds").expect("a gradient").to_f64_vec();
            assert!(ds[3..].iter().all(|d| *d == 0.0) && ds[0] != 0.0, "{way}: {ds:?}");
        }
    }
}

/// Where a softmax is written without a guard, its row without a key is no number, which matters only where it is looked at.
#[test]
fn a_row_without_a_key_that_is_not_looked_at_has_no_gradient() {
    let program = "model m(s: f32[T, S], keep: bool[T, S], v: f32[S, F]) -> (ds: f32[T, S]) {
         let e[t, k: S] = exp(if keep[t, k] then s[t, k] else -inf)
         let w[t, k] = e[t, k] / sum[k](e[t, k])
         let y[t, f] = sum[k]((if keep[t, k] then w[t, k] else 0) * v[k, f])
         return grad(sum[t](sum[f](y[t, f])), s)
     }";
    for (way, outputs) in outputs(program, MASKED) {
        let ds = outputs.get("ds").expect("a gradient").to_f64_vec();
        assert!(ds[3..].iter().all(|d| *d == 0.0) && ds[0] != 0.0, "{way}: {ds:?}");
    }
}

#[test]
fn the_gradient_of_a_sigmoid_does_not_overflow() {
    gradient_is("1 / (1 + exp(-x))", "[-100, 0, 100]", "[0, 0.25, 0]");
    gradient_is("x / (1 + exp(-x))", "[-100, 0, 100]", "[0, 0.5, 1]");
    gradient_is("log(1 + exp(x))", "[-100, 0, 80]", "[0, 0.5, 1]");
}

#[test]
fn gradients_of_what_is_read_twice_are_added() {
    gives(
        "model m(table: f32[V, D], ids: i64[T], w: f32[T]) -> (y: f32[V, D]) {
             let rows[t: T, d: D] = table[ids[t], d] * w[t]
             return grad(sum[t](sum[d](rows[t, d])), table)
         }",
        &[("table", "[[1, 2], [3, 4], [5, 6]]"), ("ids", "[2, 0, 2]"), ("w", "[1, 10, 100]")],
        "[[10, 10], [0, 0], [101, 101]]",
    );
}

/// Rows are added where an index of data says, whatever order the indices have, how many there are and which are masked.
#[test]
fn rows_are_added_where_data_says() {
    let (positions, width, rows) = (600, 3, 1100);
    let ids: Vec<usize> = (0..rows).map(|t| (t * t + 7 * t) % positions).collect();
    let keep = |t: usize| !t.is_multiple_of(5);
    let mut sums = vec![vec![0_i64; width]; positions];
    for (t, id) in ids.iter().enumerate().filter(|(t, _)| keep(*t)) {
        (0..width).for_each(|d| sums[*id][d] += (t % 11 + d) as i64);
    }
    let list = |of: &[String]| format!("[{}]", of.join(", "));
    let text = |of: Vec<i64>| list(&of.iter().map(i64::to_string).collect::<Vec<String>>());
    let row = |t: usize| text((0..width).map(|d| (t % 11 + d) as i64).collect());
    gives(
        "model m(table: f32[V, D], ids: i64[T], keep: bool[T], w: f32[T, D]) -> (y: f32[V, D]) {
             let rows[t: T, d: D] = if keep[t] then table[ids[t], d] * w[t, d] else 0
             return grad(sum[t](sum[d](rows[t, d])), table)
         }",
        &[
            ("table", &list(&vec![text(vec![1; width]); positions])),
            ("ids", &text(ids.iter().map(|id| *id as i64).collect())),
            ("keep", &list(&(0..rows).map(|t| keep(t).to_string()).collect::<Vec<String>>())),
            ("w", &list(&(0..rows).map(row).collect::<Vec<String>>())),
        ],
        &list(&sums.into_iter().map(text).collect::<Vec<String>>()),
    );
}

/// Parts of an axis that are all of it, one of them read twice, and parts that leave something out.
#[test]
fn what_flows_into_parts_is_what_flows_into_the_whole() {
    let program = |length: usize, factor: &str| {
        format!(
            "model m(x: f32[6], u: f32[2], w: f32[4]) -> (y: f32[6]) {{
                 let a[n: 2] = x[n]
                 let b[n: 4] = x[n + 2]
                 let c[n: {length}] = x[n + 2]
                 return grad(sum(a * u) + sum(b ** 2) + sum(c * {factor}) + 0 * sum(w), x)
             }}"
        )
    };
    let inputs = [("x", "[1, 2, 3, 4, 5, 6]"), ("u", "[1, 10]"), ("w", "[1, 10, 100, 1000]")];
    gives(&program(4, "w"), &inputs, "[1, 10, 7, 18, 110, 1012]");
    gives(&program(2, "u"), &inputs, "[1, 10, 7, 18, 10, 12]");
    // A part that is read in heads, another one that is read at some of its positions, and one that nobody reads.
    gives(
        "model m(x: f32[10], u: f32[2, 2], w: f32[2]) -> (y: f32[10]) {
             let a[n: 4] = x[n]
             let b[n: 4] = x[n + 4]
             let c[n: 2] = x[n + 8]
             let heads[h: 2, e: 2] = a[h * 2 + e]
             let some[n: 2] = b[n + 1]
             return grad(sum[h, e](heads[h, e] * u[h, e]) + sum(some * w) + 0 * sum(c), x)
         }",
        &[("x", "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]"), ("u", "[[1, 2], [3, 4]]"), ("w", "[10, 20]")],
        "[1, 2, 3, 4, 0, 10, 20, 0, 0, 0]",
    );
}

/// An index that is outside where nothing is read: of a part of each head, and as data.
#[test]
fn what_is_read_at_a_distance_under_a_guard_flows_back_under_it() {
    gives(
        "model m(x: f32[8], u: f32[2, 4]) -> (y: f32[8]) {
             let q[h: 2, e: 4] = x[h * 4 + e]
             let far[h: 2, e: 4] = if e < 2 then 0 else q[h, e - 2] * u[h, e]
             return grad(sum[h, e](far[h, e]), x)
         }",
        &[("x", "[1, 2, 3, 4, 5, 6, 7, 8]"), ("u", "[[1, 2, 3, 4], [5, 6, 7, 8]]")],
        "[3, 4, 0, 0, 7, 8, 0, 0]",
    );
    gives(
        "model m(x: f32[2], u: f32[3], ids: i64[3]) -> (y: f32[2]) {
             let before[t: 3] = if t < 1 then 0 else x[ids[t - 1]] * u[t]
             return grad(sum[t](before[t]), x)
         }",
        &[("x", "[1, 2]"), ("u", "[1, 10, 100]"), ("ids", "[0, 1, 1]")],
        "[10, 100]",
    );
}

#[test]
fn a_gradient_is_a_value_that_has_a_gradient() {
    gradient_is("grad(sum[t](x[t] ** 3), x)", "[1, 2, 3]", "[6, 12, 18]");
    gradient_is("stop(x) * x", "[1, 2, 3]", "[1, 2, 3]");
}

#[test]
fn a_product_has_the_product_of_the_others_as_its_gradient() {
    gradient_is("prod(x) + 0 * x", "[2, 0, 3]", "[0, 18, 0]");
}

/// What each step keeps: by Philox with the seed 42 as its key, and the element and the step as its counter.
#[test]
fn every_step_draws_anew_and_backward_what_forward_drew() {
    let program = "model m(x: f32[N]) -> (y: f32[N]) {
         param w: f32[N] = ones
         let y = dropout(w * x, 0.5)
         for p, d in grad(total(y), parameters) {
             p = p - d
         }
         return y
     }";
    let options = Options { train: Some(42), ..Options::default() };
    let graph = lower(&sources(program), &options).unwrap_or_else(|e| panic!("{e}")).graph;
    let ways = Ways::new(&graph).unwrap_or_else(|e| panic!("{e}"));
    let kept = [[1, 1, 1, 1, 0, 0, 0, 0], [0, 0, 0, 1, 1, 0, 0, 0], [1, 1, 0, 1, 1, 1, 0, 1]];
    for (step, kept) in kept.into_iter().enumerate() {
        let inputs = [("x", "[1, 1, 1, 1, 1, 1, 1, 1]"), ("draw.step", &*step.to_string())];
        for (way, outputs) in ways.outputs(&call(&ways, &inputs)).unwrap_or_else(|e| panic!("{e}")) {
            let found = |name| outputs.get(name).expect("an output").to_f64_vec();
            assert_eq!(found("y"), kept.map(|kept| 2.0 * f64::from(kept)), "{way}, step {step}");
            assert_eq!(found("w"), kept.map(|kept| 1.0 - 2.0 * f64::from(kept)), "{way}, step {step}");
            assert_eq!(found("draw.step"), [step as f64 + 1.0], "{way}, step {step}");
        }
    }
}
