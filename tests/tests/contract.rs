//! What is taken for granted of data, sentence by sentence of the first table in `docs/semantics.md`: -inf, NaN, numbers of
//! any magnitude, values that are there only under a guard.
//!
//! Expected values are written out, not computed by any of the ways.

use salient::DType;
use salient_tests::data::Values;
use salient_tests::ruling::{call, gives, numbers, refused, ways};

// ---- dimensions of zero

/// The sum of the exponentials and of exp(1 / K) is infinite for K = 0, and every share of it zero.
#[test]
fn what_a_dimension_of_zero_divides_may_be_nan() {
    let program = "model m(s: f32[T, S], k: f32[K]) -> (y: f32[T, S]) {
        return exp(s) / (sum(exp(s)) + exp(1.0 / K))[.., _]
    }";
    gives(program, &[SCORES, ("k", "[0]")], "[[0.211941558, 0.576116885], [0.211941558, 0.576116885]]");
    for (way, y) in numbers(program, &[SCORES, ("k", "[]")]) {
        let taken = way != "unfused" && way != "strict";
        assert!(y.iter().all(|y| *y == 0.0 || taken && y.is_nan()), "{way}: {y:?}");
    }
    let program = "model m(r: f32[T, S], v: f32[F, S]) -> (y: f32[T, F]) {
        let y[t, f] = sum[s](r[t, s] * v[f, s] / S)
        return y
    }";
    for (way, y) in numbers(program, &[("r", "[[], []]"), ("v", "[[], []]")]) {
        let taken = way != "unfused" && way != "strict";
        assert!(y.iter().all(|y| *y == 0.0 || taken && y.is_nan()), "{way}: {y:?}");
    }
}

// ---- -inf in data

/// Scores of two keys, for two queries.
const SCORES: (&str, &str) = ("s", "[[1, 2], [1, 2]]");

#[test]
fn minus_infinity_added_to_a_row_of_scores_masks_the_row() {
    let r = ("r", "[0, -inf]");
    let program = |score: &str| {
        format!(
            "model m(s: f32[T, S], r: f32[T]) -> (y: f32[T, S]) {{
                 let keep[i: T, j: S] = j <= i + S
                 return softmax({score})
             }}"
        )
    };
    for score in [
        "s + r[:, _]",
        "r[:, _] + s",
        "s + 3 * r[:, _]",
        "s + r[:, _] / 2",
        "s + r[:, _] + r[:, _]",
        "(s + r[:, _]) - 4",
        "(s + r[:, _]) + (if r > 0 then r else 0)[:, _]",
        "if keep then s + r[:, _] else -inf",
        "(if keep then s else -inf) + r[:, _]",
        "s + max(r, -inf)[:, _]",
    ] {
        gives(&program(score), &[SCORES, r], "[[0.268941421, 0.731058579], [0, 0]]");
    }
}

#[test]
fn minus_infinity_added_to_scores_masks_in_an_attention() {
    let program = |ty: &str, bias: &str| {
        format!(
            "model m(q: f32[T, E], k: f32[S, E], v: f32[S, F], b: f32[{ty}]) -> (y: f32[T, F]) {{
                 let s[i: T, j: S] = sum[e](q[i, e] * k[j, e]) + {bias}
                 return softmax(s) @ v
             }}"
        )
    };
    let inputs = [("q", "[[1], [1]]"), ("k", "[[1], [2]]"), ("v", "[[10], [20]]")];
    for (ty, bias, b, y) in [
        ("T", "b[i]", "[0, -inf]", "[[17.31058579], [0]]"),
        ("S", "b[j]", "[0, -inf]", "[[10], [10]]"),
        ("T, S", "b[i, j]", "[[-inf, 0], [-inf, -inf]]", "[[20], [0]]"),
        ("", "b", "-inf", "[[0], [0]]"),
    ] {
        gives(&program(ty, bias), &[&inputs[..], &[("b", b)]].concat(), y);
    }
}

#[test]
fn minus_infinity_added_to_a_batch_of_scores_masks_the_batch() {
    gives(
        "model m(s: f32[B, T, S], b: f32[B]) -> (y: f32[B, T, S]) { return softmax(s + b[:, _, _]) }",
        &[("s", "[[[1, 2]], [[1, 2]]]"), ("b", "[-inf, 0]")],
        "[[[0, 0]], [[0.268941421, 0.731058579]]]",
    );
}

/// A sentinel is a number: where the scores that it stands beside are all -inf, it is what is left.
#[test]
fn minus_infinity_leaves_the_weight_to_a_finite_sentinel() {
    gives(
        "model m(s: f32[T, T], r: f32[T]) -> (y: f32[T, T]) {
             let keep[i: T, j: T] = j <= i
             return softmax(if keep then s + r[:, _] else -1e9)
         }",
        &[SCORES, ("r", "[-inf, 0]")],
        "[[0, 1], [0.268941421, 0.731058579]]",
    );
}

#[test]
fn minus_infinity_added_to_a_row_by_hand_is_nan() {
    gives(
        "model m(s: f32[T, S], r: f32[T]) -> (y: f32[T, S]) {
             let x = s + r[:, _]
             let e = exp(x - max(x)[.., _])
             return e / sum(e)[.., _]
         }",
        &[SCORES, ("r", "[0, -inf]")],
        "[[0.268941421, 0.731058579], [nan, nan]]",
    );
}

#[test]
fn weights_of_data_that_mask_a_row_sum_to_zero() {
    gives(
        "model m(s: f32[T, S], r: f32[T]) -> (y: f32[T]) { return sum(softmax(s + r[:, _])) }",
        &[SCORES, ("r", "[0, -inf]")],
        "[1, 0]",
    );
    gives(
        "model m(s: f32[T, S]) -> (y: f32[T]) { return sum(softmax(s)) }",
        &[("s", "[[1, 2], [-inf, -inf]]")],
        "[1, 0]",
    );
}

// ---- guards

#[test]
fn a_guard_inside_of_another_is_looked_at_only_under_it() {
    let x = ("x", "[1, 2, 3]");
    for (ty, guard) in [("bool", "keep[i - 1]"), ("f32", "keep[i - 1] > 0")] {
        let keep = ("keep", if ty == "bool" { "[false, true, true]" } else { "[0, 1, 1]" });
        gives(
            &format!(
                "model nested(x: f32[T], keep: {ty}[T]) -> (y: f32[T]) {{
                     let y[i: T] = if i > 0 then (if {guard} then x[i - 1] else 0) else 0
                     return y
                 }}"
            ),
            &[x, keep],
            "[0, 0, 2]",
        );
    }
}

#[test]
fn a_mask_of_data_inside_of_another_is_looked_at_only_under_it() {
    gives(
        "model m(s: f32[T, T], at: i64[T], real: bool[T]) -> (y: f32[T, T]) {
             let x[i: T, j: T] = if at[j] < T then (if real[at[j]] then s[i, j] else -inf) else -inf
             return softmax(x)
         }",
        &[SCORES, ("at", "[5, 1]"), ("real", "[true, true]")],
        "[[0, 1], [0, 1]]",
    );
}

// ---- products in sums

#[test]
fn a_product_in_a_sum_is_rounded_or_not() {
    let program = "model m(x: f32[T, E], y: f32[T, E]) -> (y: f32[T]) { return sum(x * y) }";
    let inputs = [("x", "[[3e38, -3e38], [2, 3]]"), ("y", "[[1, 1.5], [4, 5]]")];
    for (way, y) in numbers(program, &inputs) {
        let whole = (y[0] + 1.5e38).abs() < 1e33;
        assert!((whole || y[0] == f64::NEG_INFINITY) && y[1] == 23.0, "{way}: {y:?}");
    }
}

#[test]
fn what_is_below_the_least_normal_number_may_be_zero() {
    let program = "model m(x: f32[T], y: f32[T]) -> (y: f32[T]) { return x * y }";
    let inputs = [("x", "[1e-30, -1e-30, 1e-19, 1e-40]"), ("y", "[1e-10, 1e-10, 1e-18, 1e10]")];
    for (way, y) in numbers(program, &inputs) {
        let small = |y: f64, of: f64| y == 0.0 || (y / of - 1.0).abs() < 1e-4;
        assert!(small(y[0], 1e-40) && small(y[1], -1e-40), "{way}: {y:?}");
        // What is normal is exact, whatever it is made of; an operand below is read as it is, or as zero.
        assert!((y[2] / 1e-37 - 1.0).abs() < 1e-6 && small(y[3], 1e-30), "{way}: {y:?}");
    }
}

// ---- masks that are numbers

#[test]
fn what_a_mask_multiplies_may_go_unnoticed() {
    let program = "model m(x: f32[T], m: bool[T]) -> (y: f32[T]) { return exp(x) * f32(m) }";
    let inputs = [("x", "[0, nan, inf, nan]"), ("m", "[true, false, false, true]")];
    for (way, y) in numbers(program, &inputs) {
        let is_kept = |x: f64| x.is_nan() || x == 0.0 && way != "strict" && way != "oracle";
        assert!(y[0] == 1.0 && is_kept(y[1]) && is_kept(y[2]) && y[3].is_nan(), "{way}: {y:?}");
    }
    let program =
        "model m(x: f32[T], ids: i64[T], m: bool[T]) -> (y: f32[T]) { return tanh(x[ids]) * f32(m) }";
    let ways = ways(program);
    let call = call(&ways, &[("x", "[0, 0]"), ("ids", "[1, 2]"), ("m", "[true, false]")]);
    for (way, message) in ways.refusals(&call).expect("an index outside") {
        assert!(message.contains("index 2 is outside"), "{way}: {message}");
    }
}

// ---- what strict keeps

/// Whether two results are the same, bit for bit but for what is in a NaN.
fn same(found: &[f64], expected: &[f64]) -> bool {
    found.len() == expected.len()
        && found.iter().zip(expected).all(|(x, y)| x.to_bits() == y.to_bits() || x.is_nan() && y.is_nan())
}

#[test]
fn strict_keeps_what_zero_makes_of_nan_infinity_and_signs() {
    let x = [("x", "[-1, nan, inf, -inf, -0.0, 2]")];
    let nan = f64::NAN;
    for (expression, y) in [
        ("x * 0.0", [-0.0, nan, nan, nan, -0.0, 0.0]),
        ("x + 0.0", [-1.0, nan, f64::INFINITY, f64::NEG_INFINITY, 0.0, 2.0]),
        ("x - x", [0.0, nan, nan, nan, 0.0, 0.0]),
        ("x / x", [1.0, nan, nan, nan, nan, 1.0]),
        ("x * f32(x < 0)", [-1.0, nan, nan, f64::NEG_INFINITY, -0.0, 0.0]),
        ("x + (if x < 0 then 0 else -inf)", {
            [-1.0, nan, nan, f64::NEG_INFINITY, f64::NEG_INFINITY, f64::NEG_INFINITY]
        }),
    ] {
        let program = format!("model m(x: f32[T]) -> (y: f32[T]) {{ return {expression} }}");
        for (way, found) in numbers(&program, &x) {
            if way == "unfused" || way == "strict" || way == "oracle" {
                assert!(same(&found, &y), "{expression} on {way}: {found:?}");
            }
            // What fused code makes of it is the same, or what a mask leaves in the place of NaN: zero, or -inf.
            let left = |f: f64| f.is_nan() || f == f64::NEG_INFINITY || f.is_finite();
            let mended = found.iter().zip(&y).all(|(f, y)| f == y || y.is_nan() && left(*f));
            assert!(mended, "{expression} on {way}: {found:?}");
        }
    }
}

#[test]
fn a_choice_hides_nan_in_every_spelling() {
    for expression in [
        "if x > 0 then x else 0",
        "if 0 < x then x else 0",
        "if x <= 0 then 0 else (if x > 0 then x else 0)",
        "if not (x > 0) then 0 else x",
    ] {
        gives(
            &format!("model m(x: f32[T]) -> (y: f32[T]) {{ return {expression} }}"),
            &[("x", "[1, nan, -1, inf, -inf, -0.0, 1e38, -1e38]")],
            "[1, 0, 0, inf, 0, 0, 1e38, 0]",
        );
    }
}

// ---- magnitudes

#[test]
fn a_factor_stays_inside_of_a_sum_that_overflows_without_it() {
    let x = ("x", "[[3e38, 3e38, 3e38, 3e38]]");
    for expression in ["sum(x * 0.125)", "sum(0.125 * x)", "sum(x / 8)", "sum(x * 0.25 * 0.5)"] {
        gives(&format!("model m(x: f32[T, D]) -> (y: f32[T]) {{ return {expression} }}"), &[x], "[1.5e38]");
    }
    gives(
        "model m(x: f32[T, D], c: f32[T]) -> (y: f32[T]) { return sum(x * c[:, _]) }",
        &[x, ("c", "[0.125]")],
        "[1.5e38]",
    );
}

#[test]
fn the_logarithm_of_a_softmax_keeps_its_digits() {
    let quarter = "[[-1.386294361, -1.386294361, -1.386294361, -1.386294361]]";
    let program = "model m(x: f32[T, D]) -> (y: f32[T, D]) { return log_softmax(x) }";
    for x in ["[[-1e9, -1e9, -1e9, -1e9]]", "[[1e6, 1e6, 1e6, 1e6]]", "[[3e38, 3e38, 3e38, 3e38]]"] {
        gives(program, &[("x", x)], quarter);
    }
    let shifted = [("x", "[[1000000, 1000001, 1000002]]")];
    gives(program, &shifted, "[[-2.407605964, -1.407605964, -0.407605964]]");
    gives(
        "model m(x: f32[T, D]) -> (y: f32[T]) {
             let p = log_softmax(x)
             let y[t: T] = -p[t, 1]
             return y
         }",
        &shifted,
        "[1.407605964]",
    );
    gives(
        "model m(x: f32[T, D]) -> (y: f32[T, D]) {
             let z = x - max(x)[.., _]
             return z - log(sum(exp(z)))[.., _]
         }",
        &shifted,
        "[[-2.407605964, -1.407605964, -0.407605964]]",
    );
}

#[test]
fn a_half_halves_before_anything_overflows() {
    gives(
        "model m(x: f32[T]) -> (y: f32[T]) { return gelu_erf(x) }",
        &[("x", "[3.4e38, -3.4e38, 1e30]")],
        "[3.4e38, 0, 1e30]",
    );
}

#[test]
fn a_literal_scale_is_not_multiplied_in_where_it_overflows() {
    gives(
        "model m(q: f32[T, E], k: f32[S, E], v: f32[S, F]) -> (y: f32[T, F]) {
             return attention[scale = 1e25](q, k, v)
         }",
        &[("q", "[[1e20]]"), ("k", "[[1e-20], [2e-20]]"), ("v", "[[1], [2]]")],
        "[[2]]",
    );
}

#[test]
fn factors_of_any_size_within_the_bounds_may_be_grouped_anew() {
    for (q, k, t, v) in
        [("1e9", "1e-9", "1", "1e9"), ("1e-9", "1e-9", "1e9", "1e-9"), ("1e9", "1e9", "1e9", "1e9")]
    {
        let y: f64 = [q, k, t, v].iter().map(|x| x.parse::<f64>().expect("a number")).product();
        let one = |x: &str| format!("[[{x}]]");
        gives(
            "model m(q: f32[T, E], k: f32[S, E], t: f32[T, S], v: f32[S, F]) -> (y: f32[T, F]) {
                 return ((q @ k.T) * t) @ v
             }",
            &[("q", &one(q)), ("k", &one(k)), ("t", &one(t)), ("v", &one(v))],
            &one(&y.to_string()),
        );
    }
}

/// As written each value is halved first. Fused, the sum of what is not yet divided must fit.
#[test]
fn values_are_summed_before_they_are_divided() {
    let program = "model m(s: f32[T, S], v: f32[S, F]) -> (y: f32[T, F]) { return softmax(s) @ v }";
    gives(program, &[("s", "[[1, 1]]"), ("v", "[[1.6e38], [1.6e38]]")], "[[1.6e38]]");
    for (way, y) in numbers(program, &[("s", "[[1, 1]]"), ("v", "[[3e38], [3e38]]")]) {
        let kept = (y[0] - 3e38).abs() < 1e33;
        assert!(kept || y[0] == f64::INFINITY && way.starts_with("jit"), "{way}: {y:?}");
    }
}

#[test]
fn a_soft_cap_must_be_above_zero() {
    for cap in ["0.0", "0", "-1.0"] {
        let program = format!("model m(x: f32[T]) -> (y: f32[T]) {{ return soft_cap[cap = {cap}](x) }}");
        refused(&program, "must be above zero");
    }
}

// ---- hostile data

/// NaN, infinities, numbers near both ends of the range, denormal ones, both zeros.
const HOSTILE: &str = "[nan, inf, -inf, 1e38, -1e38, 1e-40, -1e-40, 0.0, -0.0, 2]";

#[test]
fn elementwise_programs_are_what_they_are_on_any_data() {
    for (expression, y) in [
        ("max(x, 1)", "[nan, inf, 1, 1e38, 1, 1, 1, 1, 1, 2]"),
        ("min(x, 1)", "[nan, 1, -inf, 1, -1e38, 1e-40, -1e-40, 0, 0, 1]"),
        ("if x > 1 then 1.0 else 2.0", "[2, 1, 2, 1, 2, 2, 2, 2, 2, 1]"),
        ("if x >= 0 then 1.0 else 2.0", "[2, 1, 2, 1, 2, 1, 2, 1, 1, 1]"),
        ("if not (x < 0) then 1.0 else 2.0", "[1, 1, 2, 1, 2, 1, 2, 1, 1, 1]"),
        ("if x == x then 1.0 else 2.0", "[2, 1, 1, 1, 1, 1, 1, 1, 1, 1]"),
        ("if x != x then 1.0 else 2.0", "[1, 2, 2, 2, 2, 2, 2, 2, 2, 2]"),
        ("if x == 0 then 1.0 else 2.0", "[2, 2, 2, 2, 2, 2, 2, 1, 1, 2]"),
        ("if x == -inf then 0 else x", "[nan, inf, 0, 1e38, -1e38, 1e-40, -1e-40, 0, 0, 2]"),
        ("abs(x)", "[nan, inf, inf, 1e38, 1e38, 1e-40, 1e-40, 0, 0, 2]"),
        ("if x < 3 and x > 1 then x else 0", "[0, 0, 0, 0, 0, 0, 0, 0, 0, 2]"),
        ("relu(x)", "[nan, inf, 0, 1e38, 0, 1e-40, 0, 0, 0, 2]"),
    ] {
        let program = format!("model m(x: f32[T]) -> (y: f32[T]) {{ return {expression} }}");
        for (way, found) in numbers(&program, &[("x", HOSTILE)]) {
            let y = Values::parse(y)
                .and_then(|v| v.array(DType::F32, &[10], "y"))
                .unwrap_or_else(|e| panic!("{e}"));
            let agrees = |(f, y): (&f64, &f64)| f == y || f.is_nan() && y.is_nan();
            assert!(found.iter().zip(&y.to_f64_vec()).all(agrees), "{expression} on {way}: {found:?}");
        }
    }
}

#[test]
fn nan_in_a_score_makes_its_row_nan_and_no_other() {
    let s = ("s", "[[1, nan], [1, 2], [-inf, nan]]");
    gives(
        "model m(s: f32[T, S]) -> (y: f32[T, S]) { return softmax(s) }",
        &[s],
        "[[nan, nan], [0.268941421, 0.731058579], [nan, nan]]",
    );
    gives(
        "model m(s: f32[T, S], v: f32[S, F]) -> (y: f32[T, F]) { return softmax(s) @ v }",
        &[s, ("v", "[[10], [20]]")],
        "[[nan], [17.31058579], [nan]]",
    );
}

#[test]
fn scores_near_the_ends_of_the_range_have_a_softmax() {
    gives(
        "model m(s: f32[T, S]) -> (y: f32[T, S]) { return softmax(s) }",
        &[("s", "[[3e38, -3e38], [-3e38, -3e38], [1e-40, -1e-40], [-inf, -3e38], [0.0, -0.0]]")],
        "[[1, 0], [0.5, 0.5], [0.5, 0.5], [0, 1], [0.5, 0.5]]",
    );
}

#[test]
fn reductions_of_hostile_data() {
    let x = ("x", "[[nan, 1, 2], [1, inf, 2], [-inf, -1e38, 0.0], [-inf, -inf, -inf], [1, 2, nan]]");
    for (reduction, y) in [
        ("max(x)", "[nan, inf, 0, -inf, nan]"),
        ("min(x)", "[nan, 1, -inf, -inf, nan]"),
        ("sum(x)", "[nan, inf, -inf, -inf, nan]"),
    ] {
        gives(&format!("model m(x: f32[T, D]) -> (y: f32[T]) {{ return {reduction} }}"), &[x], y);
    }
    gives("model m(x: f32[T, D]) -> (y: i64[T]) { return argmax(x) }", &[x], "[0, 1, 2, 0, 2]");
}

#[test]
fn a_norm_of_a_row_with_nan_is_nan_in_that_row_alone() {
    let x = ("x", "[[1, nan], [3, 4], [inf, 1], [0, 0]]");
    gives(
        "model m(x: f32[T, D]) -> (y: f32[T, D]) { return rms_norm[eps = 1e-6](x) }",
        &[x],
        "[[nan, nan], [0.848528120, 1.131370827], [nan, 0], [0, 0]]",
    );
}
