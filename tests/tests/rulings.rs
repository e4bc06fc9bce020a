//! The rulings of `docs/semantics.md`: what programs mean where systems disagree, on every way of running them.
//!
//! Expected values are written out, not computed by any of the ways.

use salient::{Array, DType, Options, lower};
use salient_tests::ruling::{call, fails, gives, outputs, refused, sources, ways};
use salient_tests::ways::{Call, Ways};

// ---- rows without a key

/// Scores of three keys, a row of which keeps two and one none, and values.
const MASKED: &[(&str, &str)] = &[
    ("s", "[[1, 2, 3], [1, 2, 3]]"),
    ("keep", "[[true, true, false], [false, false, false]]"),
    ("v", "[[1, 10], [2, 20], [4, 40]]"),
];

#[test]
fn a_row_without_a_key_is_zeros_by_softmax() {
    gives(
        "model m(s: f32[T, S], keep: bool[T, S]) -> (y: f32[T, S]) {
             return softmax(if keep then s else -inf)
         }",
        &MASKED[..2],
        "[[0.268941421, 0.731058579, 0], [0, 0, 0]]",
    );
    gives(
        "model m(s: f32[T, S], keep: bool[T, S], v: f32[S, F]) -> (y: f32[T, F]) {
             return softmax(if keep then s else -inf) @ v
         }",
        MASKED,
        "[[1.731058579, 17.31058579], [0, 0]]",
    );
}

#[test]
fn a_row_without_a_key_is_nan_by_hand() {
    for weight in
        ["exp(x) / sum(exp(x))[.., _]", "exp(x - max(x)[.., _]) / sum(exp(x - max(x)[.., _]))[.., _]"]
    {
        let program = |result: &str, ty: &str| {
            format!(
                "model m(s: f32[T, S], keep: bool[T, S], v: f32[S, F]) -> (y: f32[T, {ty}], z: f32) {{
                     let x = if keep then s else -inf
                     let weight = {weight}
                     return {result}, sum(sum(v))
                 }}"
            )
        };
        let rows = "[[0.268941421, 0.731058579, 0], [nan, nan, nan]]";
        gives(&program("weight", "S"), MASKED, rows);
        gives(&program("weight @ v", "F"), MASKED, "[[1.731058579, 17.31058579], [nan, nan]]");
    }
}

// ---- overflow

/// exp(200) has no f32. Written by hand it overflows; the fused form may be finite there, never the other way round.
#[test]
fn overflow_by_hand_is_kept_or_mended() {
    let program = "model m(x: f32[T, S]) -> (y: f32[T, S]) { return exp(x) / sum(exp(x))[.., _] }";
    let inputs = [("x", "[[1, 2], [200, 201]]")];
    for (way, outputs) in outputs(program, &inputs) {
        let y = outputs.get("y").expect("the output").to_f64_vec();
        assert!((y[0] - 0.268_941_421).abs() < 1e-6 && (y[1] - 0.731_058_579).abs() < 1e-6, "{way}: {y:?}");
        let kept = y[2].is_nan() && y[3].is_nan();
        let mended = (y[2] - 0.268_941_421).abs() < 1e-6 && (y[3] - 0.731_058_579).abs() < 1e-6;
        assert!(kept || mended, "{way}: {y:?}");
        if way == "unfused" || way == "strict" {
            assert!(kept, "{way} keeps what is written: {y:?}");
        }
    }
}

#[test]
fn what_does_not_overflow_as_written_does_not_overflow_fused() {
    gives(
        "model m(x: f32[T, S], v: f32[S, F]) -> (y: f32[T, F]) {
             let e = exp(x - max(x)[.., _])
             return (e / sum(e)[.., _]) @ v
         }",
        &[("x", "[[1, 2], [200, 201], [-3e38, 3e38]]"), ("v", "[[0], [1]]")],
        "[[0.731058579], [0.731058579], [1]]",
    );
}

// ---- finite sentinels

#[test]
fn a_finite_sentinel_leaves_a_masked_row_uniform() {
    for sentinel in ["-1e4", "-1e9"] {
        let program = format!(
            "model m(s: f32[T, S], keep: bool[T, S], v: f32[S, F]) -> (y: f32[T, F]) {{
                 return softmax(if keep then s else {sentinel}) @ v
             }}"
        );
        gives(&program, MASKED, "[[1.731058579, 17.31058579], [2.333333333, 23.33333333]]");
    }
}

// ---- polarity

#[test]
fn true_means_may_attend() {
    let inputs = [
        ("q", "[[1]]"),
        ("k", "[[0], [0], [0]]"),
        ("v", "[[1], [2], [6]]"),
        ("keep", "[[true, false, true]]"),
    ];
    gives(
        "model m(q: f32[T, E], k: f32[S, E], v: f32[S, F], keep: bool[T, S]) -> (y: f32[T, F]) {
             return scaled_attention(q, k, v, keep)
         }",
        &inputs,
        "[[3.5]]",
    );
    gives(
        "model m(keep: bool[B, S]) -> (y: bool[B, 1, 1, S]) { return key_padding(keep) }",
        &[("keep", "[[true, false]]")],
        "[[[[true, false]]]]",
    );
}

#[test]
fn masks_compose_by_and() {
    gives(
        "model m(real: bool[B, S], x: f32[B, T, S]) -> (y: bool[B, 1, T, S], z: f32) {
             return causal[T, S, offset = 0]() and key_padding(real), sum(sum(sum(x)))
         }",
        &[("real", "[[true, false, true]]"), ("x", "[[[1, 1, 1], [1, 1, 1], [1, 1, 1]]]")],
        "[[[[true, false, false], [true, false, false], [true, false, true]]]]",
    );
}

// ---- causal

#[test]
fn causal_states_its_offset() {
    refused("model m(x: f32[T, S]) -> (y: bool[T, S]) { return causal[T, S]() }", "offset");
    let program = |offset: &str| {
        format!(
            "model m(x: f32[T, S]) -> (y: f32[T, S]) {{ return if causal[T, S, offset = {offset}]() then x else 0 }}"
        )
    };
    let x = ("x", "[[1, 2, 3], [4, 5, 6]]");
    gives(&program("0"), &[x], "[[1, 0, 0], [4, 5, 0]]");
    gives(&program("S - T"), &[x], "[[1, 2, 0], [4, 5, 6]]");
}

// ---- what a mask hides

#[test]
fn a_masked_key_adds_nothing_whatever_its_score() {
    for special in ["nan", "inf", "-inf"] {
        let s = format!("[[1, 2, {special}]]");
        gives(
            "model m(s: f32[T, S], keep: bool[T, S], v: f32[S, F]) -> (y: f32[T, F]) {
                 return softmax(if keep then s else -inf) @ v
             }",
            &[("s", &s), ("keep", "[[true, true, false]]"), ("v", "[[1], [2], [4]]")],
            "[[1.731058579]]",
        );
    }
}

/// Written out, the weight zero times NaN is NaN; fused, a masked key is left out.
#[test]
fn a_masked_value_adds_nothing_once_fused() {
    for special in ["nan", "inf", "-inf"] {
        let v = format!("[[1], [2], [{special}]]");
        let program =
            "model m(q: f32[T, E], k: f32[S, E], v: f32[S, F], keep: bool[T, S]) -> (y: f32[T, F]) {
            return scaled_attention(q, k, v, keep)
        }";
        let inputs = [("q", "[[1]]"), ("k", "[[1], [2], [3]]"), ("v", &v), ("keep", "[[true, true, false]]")];
        for (way, outputs) in outputs(program, &inputs) {
            let y = outputs.get("y").expect("the output").to_f64_vec()[0];
            let left_out = (y - 1.731_058_579).abs() < 1e-6;
            assert!(left_out || y.is_nan() && !way.starts_with("jit"), "{way}: {y} for {special}");
        }
    }
}

// ---- empty axes

#[test]
fn over_an_empty_axis() {
    let x = ("x", "[[], []]");
    for (reduction, expected) in
        [("max", "[-inf, -inf]"), ("min", "[inf, inf]"), ("sum", "[0, 0]"), ("prod", "[1, 1]")]
    {
        gives(&format!("model m(x: f32[T, S]) -> (y: f32[T]) {{ return {reduction}(x) }}"), &[x], expected);
    }
    gives("model m(x: f32[T, S]) -> (y: f32[T, S]) { return softmax(x) }", &[x], "[[], []]");
    gives("model m(x: f32[T, S]) -> (y: f32[T]) { return logsumexp(x) }", &[x], "[-inf, -inf]");
}

/// Each factor is infinite or NaN where there is nothing to go over, and so would be its product with a sum.
#[test]
fn a_sum_of_no_terms_is_zero_whatever_its_factors() {
    let inputs = [("r", "[[], []]"), ("v", "[[], []]"), ("g", "[1, 1]")];
    let program = |factor: &str, term: &str| {
        format!(
            "model m(r: f32[T, S], v: f32[F, S], g: f32[T]) -> (y: f32[T, F]) {{
                 let c = {factor}
                 let y[t, f] = sum[s]({term})
                 return y
             }}"
        )
    };
    for factor in [
        "max(r)",
        "0 - min(r)",
        "g / sum(r * r)",
        "g / sum(exp(r))",
        "log(sum(exp(r)))",
        "g / sqrt(sum(r * r) / S + 0.5)",
        "g / max(r)",
        "g * sqrt(max(r)) + 1",
    ] {
        for term in
            ["r[t, s] * v[f, s] * c[t]", "r[t, s] * c[t] * r[t, s] * v[f, s]", "v[f, s] * r[t, s] / c[t]"]
        {
            gives(&program(factor, term), &inputs, "[[0, 0], [0, 0]]");
        }
    }
}

#[test]
fn a_sum_over_one_of_several_axes_is_zero_where_it_has_no_terms() {
    let program = "model m(r: f32[T, S], k: f32[T, U], v: f32[F, S, U]) -> (y: f32[T, F]) {
        let peak = max(r)
        let least = min(k)
        let y[t, f] = sum[s](sum[u](r[t, s] * v[f, s, u] * k[t, u]) * peak[t]) * least[t]
        let z[t, f] = sum[s](sum[u](r[t, s] * v[f, s, u] * peak[t] * least[t]))
        return y + z
    }";
    let inputs = [("r", "[[], []]"), ("k", "[[1, 2], [3, 4]]"), ("v", "[[], []]")];
    let ways = ways(program);
    let mut call = call(&ways, &inputs[..2]);
    call.inputs.insert("v", Array::zeros(DType::F32, vec![2, 0, 2]).expect("small")).expect("named once");
    for (way, outputs) in ways.outputs(&call).unwrap_or_else(|e| panic!("{e}")) {
        assert_eq!(outputs.get("y").expect("the output").to_f64_vec(), [0.0; 4], "{way}");
    }
}

/// What is added to scores of an axis that has positions masks them all where it is the greatest of nothing.
#[test]
fn a_maximum_over_no_positions_masks_what_it_is_added_to() {
    gives(
        "model m(s: f32[T, S], x: f32[T, K]) -> (y: f32[T, S]) {
             return softmax(s + max(x)[.., _])
         }",
        &[("s", "[[1, 2], [3, 4]]"), ("x", "[[], []]")],
        "[[0, 0], [0, 0]]",
    );
}

#[test]
fn attention_over_no_keys_is_zeros() {
    let ways = ways(
        "model m(q: f32[T, E], k: f32[S, E], v: f32[S, F]) -> (y: f32[T, F]) {
             return softmax(q @ k.T) @ v
         }",
    );
    let mut call = Call::default();
    for (name, shape) in [("q", [3, 1]), ("k", [0, 1]), ("v", [0, 2])] {
        call.inputs
            .insert(name, Array::zeros(DType::F32, shape.to_vec()).expect("small"))
            .expect("named once");
    }
    for (way, outputs) in ways.outputs(&call).unwrap_or_else(|e| panic!("{e}")) {
        let y = outputs.get("y").expect("the output");
        assert_eq!((y.shape(), y.to_f64_vec()), ([3, 2].as_slice(), vec![0.0; 6]), "{way}");
    }
}

// ---- grouped heads

#[test]
fn query_head_h_reads_head_h_over_the_size_of_a_group() {
    let program = |heads: &str| {
        format!(
            "model m(q: f32[B, {heads}, T, E], k: f32[B, 2, S, E], v: f32[B, 2, S, F]) -> (y: f32[B, {heads}, T, F]) {{
                 return grouped_attention(q, k, v)
             }}"
        )
    };
    let (k, v) = (("k", "[[[[0]], [[0]]]]"), ("v", "[[[[1]], [[2]]]]"));
    gives(&program("4"), &[("q", "[[[[0]], [[0]], [[0]], [[0]]]]"), k, v], "[[[[1]], [[1]], [[2]], [[2]]]]");
    refused(&program("3"), "must be divisible");
}

// ---- names that say which

#[test]
fn there_is_no_bare_rope_or_gelu() {
    for name in ["rope", "gelu", "norm"] {
        refused(&format!("model m(x: f32[T, E]) -> (y: f32[T, E]) {{ return {name}(x) }}"), name);
    }
}

#[test]
fn both_pairings_of_rope() {
    // At position 1 with base 1 every pair turns by one radian.
    let program =
        |rope: &str| format!("model m(x: f32[T, 4]) -> (y: f32[T, 4]) {{ return {rope}[base = 1.0](x) }}");
    let x = ("x", "[[1, 2, 3, 4], [1, 0, 0, 0]]");
    gives(&program("rope_half"), &[x], "[[1, 2, 3, 4], [0.540302306, 0, 0.841470985, 0]]");
    gives(&program("rope_interleaved"), &[x], "[[1, 2, 3, 4], [0.540302306, 0.841470985, 0, 0]]");
}

#[test]
fn both_kinds_of_gelu() {
    let program = |gelu: &str| format!("model m(x: f32[T]) -> (y: f32[T]) {{ return {gelu}(x) }}");
    let x = ("x", "[-1, 0, 1, 2]");
    gives(&program("gelu_erf"), &[x], "[-0.158655254, 0, 0.841344746, 1.954499736]");
    gives(&program("gelu_tanh"), &[x], "[-0.158808010, 0, 0.841191990, 1.954597694]");
}

// ---- norms

#[test]
fn a_norm_states_its_epsilon() {
    for norm in ["layer_norm", "rms_norm"] {
        refused(&format!("model m(x: f32[T, D]) -> (y: f32[T, D]) {{ return {norm}(x) }}"), "eps");
    }
}

#[test]
fn epsilon_is_inside_the_root_and_the_variance_biased() {
    // Variance 1 (unbiased it would be 4/3), root of 1 + 3.
    gives(
        "model m(x: f32[T, D]) -> (y: f32[T, D]) { return layer_norm[eps = 3.0, bias = false](x) }",
        &[("x", "[[4, 6, 4, 6]]")],
        "[[-0.5, 0.5, -0.5, 0.5]]",
    );
    gives(
        "model m(x: f32[T, D]) -> (y: f32[T, D]) { return rms_norm[eps = 3.0](x) }",
        &[("x", "[[1, -1, 1, -1]]")],
        "[[0.5, -0.5, 0.5, -0.5]]",
    );
}

/// E[x²] - E[x]² has no digit left here.
#[test]
fn a_mean_far_from_zero_does_not_hurt_a_norm() {
    gives(
        "model m(x: f32[T, D]) -> (y: f32[T, D]) { return layer_norm[eps = 0.0, bias = false](x) }",
        &[("x", "[[100004, 100006, 100004, 100006]]")],
        "[[-1, 1, -1, 1]]",
    );
}

// ---- scale, cap, mask

#[test]
fn attention_states_its_scale() {
    let program = |call: &str| {
        format!(
            "model m(q: f32[T, E], k: f32[S, E], v: f32[S, F]) -> (y: f32[T, F]) {{ return {call}(q, k, v) }}"
        )
    };
    refused(&program("attention"), "scale");
    let inputs = [("q", "[[2]]"), ("k", "[[0], [1]]"), ("v", "[[0], [1]]")];
    gives(&program("attention[scale = 1.0]"), &inputs, "[[0.880797078]]");
    gives(&program("attention[scale = 0.5]"), &inputs, "[[0.731058579]]");
}

#[test]
fn a_cap_stays_on_its_side_of_a_mask() {
    let program = |score: &str| {
        format!(
            "model m(s: f32[T, S], keep: bool[T, S], v: f32[S, F]) -> (y: f32[T, F]) {{
                 return softmax({score}) @ v
             }}"
        )
    };
    let inputs = [("s", "[[0, 0]]"), ("keep", "[[true, false]]"), ("v", "[[0], [1]]")];
    // Masked last, the key is gone; capped last, it has the score -1.
    gives(&program("if keep then soft_cap[cap = 1.0](s) else -inf"), &inputs, "[[0]]");
    gives(&program("soft_cap[cap = 1.0](if keep then s else -inf)"), &inputs, "[[0.268941421]]");
}

#[test]
fn scale_and_cap_keep_their_order() {
    let program = |score: &str| {
        format!("model m(s: f32[T, S], v: f32[S, F]) -> (y: f32[T, F]) {{ return softmax({score}) @ v }}")
    };
    let inputs = [("s", "[[0, 2]]"), ("v", "[[0], [1]]")];
    // sigmoid(tanh(2) / 2) and sigmoid(tanh(1)).
    gives(&program("soft_cap[cap = 1.0](s) / 2"), &inputs, "[[0.618223289]]");
    gives(&program("soft_cap[cap = 1.0](s / 2)"), &inputs, "[[0.681699742]]");
}

// ---- windows

#[test]
fn a_window_includes_both_ends() {
    gives(
        "model m(x: f32[T, T]) -> (y: f32[T, T]) { return if window[T, T, left = 1, right = 2]() then x else 0 }",
        &[("x", "[[1, 1, 1, 1], [1, 1, 1, 1], [1, 1, 1, 1], [1, 1, 1, 1]]")],
        "[[1, 1, 1, 0], [1, 1, 1, 1], [0, 1, 1, 1], [0, 0, 1, 1]]",
    );
}

// ---- broadcasting

#[test]
fn trailing_axes_broadcast() {
    gives(
        "model m(x: f32[T, D], row: f32[D], column: f32[T, 1]) -> (y: f32[T, D]) { return x * row + column }",
        &[("x", "[[1, 2], [3, 4]]"), ("row", "[10, 100]"), ("column", "[[1], [2]]")],
        "[[11, 201], [32, 402]]",
    );
}

#[test]
fn a_mask_of_batch_and_keys_does_not_become_one_of_queries_and_keys() {
    refused(
        "model m(s: f32[B, T, S], keep: bool[B, S]) -> (y: f32[B, T, S]) { return softmax(if keep then s else -inf) }",
        "do not meet",
    );
}

// ---- logarithms

#[test]
fn log_sum_exp_is_natural() {
    gives(
        "model m(x: f32[T, D]) -> (y: f32[T]) { return logsumexp(x) }",
        &[("x", "[[0, 0], [1000, 1000], [-inf, 0], [-inf, -inf]]")],
        "[0.693147181, 1000.693147181, 0, -inf]",
    );
}

// ---- integers and indices

#[test]
fn a_quotient_of_dimensions_is_exact_or_an_error() {
    let program = "model m(x: f32[T, D]) -> (y: f32[T, 2, D / 2]) {
        let y[t, h: 2, e: D / 2] = x[t, h * (D / 2) + e]
        return y
    }";
    gives(program, &[("x", "[[1, 2, 3, 4]]")], "[[[1, 2], [3, 4]]]");
    fails(program, &[("x", "[[1, 2, 3]]")], "not divisible");
}

/// Also where the quotient is a number and no length.
#[test]
fn a_quotient_of_dimensions_that_is_a_number_is_exact_or_an_error() {
    let program = "model m(x: f32[T, D]) -> (y: f32[T, D]) { return x * (D / 2) }";
    gives(program, &[("x", "[[1, 2, 3, 4]]")], "[[2, 4, 6, 8]]");
    fails(program, &[("x", "[[1, 2, 3]]")], "not divisible");
    refused(
        "model m(x: f32[T]) -> (y: f32[T]) { return x * (1 / T) }",
        "1 is divisible by T only where that is 1",
    );
}

#[test]
fn a_dimension_that_divides_is_at_least_one() {
    let program = "model m(x: f32[T]) -> (y: f32[T]) {
        let y[i: T] = if i % (T - 3) == 0 then x[i] else 2.0
        return y
    }";
    gives(program, &[("x", "[1, 1, 1, 1, 1]")], "[1, 2, 1, 2, 1]");
    fails(program, &[("x", "[1, 1, 1]")], "1 is more than T - 3 = 0");
    fails(program, &[("x", "[1, 1]")], "1 is more than T - 3 = -1");
    let quotient = "model m(x: f32[T]) -> (y: f32[T]) { let y[i: T] = x[i / (T - 3)] return y }";
    fails(quotient, &[("x", "[1, 1, 1]")], "1 is more than T - 3 = 0");
    refused("model m(x: f32[T]) { let y[i: T] = x[i % 0] return y }", "divides by zero");
    // Rounding down holds for a divisor below zero as well.
    let negative = "model m(x: f32[T]) -> (y: f32[T]) { let y[i: T] = f32(i % -2) + f32(i / -2) * 10 + 0 * x[i] return y }";
    gives(negative, &[("x", "[0, 0, 0, 0]")], "[0, -11, -10, -21]");
}

/// As in Lean and Coq, so that the quotient times the divisor and the remainder are the whole, whatever divides.
#[test]
fn an_integer_of_the_data_divided_by_zero_is_zero_and_all_of_it_remains() {
    gives(
        "model m(a: i64[T], b: i64[T]) -> (y: i64[T]) { return int_div(a, b) * 100 + a % b }",
        &[("a", "[7, 7, -7, 0]"), ("b", "[0, 2, 0, 0]")],
        "[7, 301, -7, 0]",
    );
}

#[test]
fn a_literal_beyond_32_bits_is_refused_by_compiled_code() {
    for program in [
        "model m(x: f32[T]) { return x[4294967296] }",
        "model m(x: f32[T], n: i64[T]) { return x + f32(n + 3000000000) }",
    ] {
        let graph = lower(&sources(program), &Options::default()).unwrap_or_else(|e| panic!("{e}")).graph;
        let Err(error) = Ways::new(&graph) else { panic!("{program}: accepted") };
        assert!(error.to_string().contains("does not fit 32 bits"), "{error}");
    }
}

/// Where the bucket of each distance begins, by transformers' `_relative_position_bucket` in NumPy's float32, of which it
/// holds up to 512.
const T5_FORWARD: &[(i64, i64)] = &[
    (0, 0),
    (1, 17),
    (2, 18),
    (3, 19),
    (4, 20),
    (5, 21),
    (6, 22),
    (7, 23),
    (8, 24),
    (12, 25),
    (16, 26),
    (23, 27),
    (32, 28),
    (46, 29),
    (64, 30),
    (91, 31),
];
const T5_BACKWARD: &[(i64, i64)] = &[
    (0, 0),
    (1, 1),
    (2, 2),
    (3, 3),
    (4, 4),
    (5, 5),
    (6, 6),
    (7, 7),
    (8, 8),
    (12, 9),
    (16, 10),
    (23, 11),
    (32, 12),
    (46, 13),
    (64, 14),
    (91, 15),
];
const T5_CAUSAL: &[(i64, i64)] = &[
    (0, 0),
    (1, 1),
    (2, 2),
    (3, 3),
    (4, 4),
    (5, 5),
    (6, 6),
    (7, 7),
    (8, 8),
    (9, 9),
    (10, 10),
    (11, 11),
    (12, 12),
    (13, 13),
    (14, 14),
    (15, 15),
    (16, 16),
    (19, 17),
    (21, 18),
    (24, 19),
    (27, 20),
    (31, 21),
    (35, 22),
    (40, 23),
    (46, 24),
    (52, 25),
    (59, 26),
    (67, 27),
    (77, 28),
    (87, 29),
    (99, 30),
    (113, 31),
];

#[test]
fn the_buckets_of_t5_are_those_of_transformers() {
    let distances: Vec<String> = (0..=512).map(|n: i64| n.to_string()).collect();
    for (both, sign, begins) in [("true", 1, T5_FORWARD), ("true", -1, T5_BACKWARD), ("false", -1, T5_CAUSAL)]
    {
        let program = format!(
            "model m(n: i64[T]) -> (y: i64[T]) {{
                return t5_bucket[N = 32, max_distance = 128, bidirectional = {both}](n * ({sign}))
            }}"
        );
        let bucket =
            |n: i64| begins.iter().rev().find(|(from, _)| *from <= n).expect("from zero on").1.to_string();
        let buckets: Vec<String> = (0..=512).map(bucket).collect();
        gives(
            &program,
            &[("n", &format!("[{}]", distances.join(", ")))],
            &format!("[{}]", buckets.join(", ")),
        );
    }
}

#[test]
fn an_index_outside_its_axis_is_named() {
    let program = "model m(ids: i64[T], table: f32[V, D]) -> (y: f32[T, D]) { return table[ids, :] }";
    let table = ("table", "[[1], [2], [3]]");
    gives(program, &[("ids", "[2, 0]"), table], "[[3], [1]]");
    fails(program, &[("ids", "[2, 3]"), table], "index 3 is outside the axis");
    fails(program, &[("ids", "[-1, 0]"), table], "index -1 is outside the axis");
}

/// Compiled code holds integers in 32 bits; what does not fit is refused, not cut.
#[test]
fn an_integer_that_does_not_fit_is_refused() {
    let ways = ways("model m(n: i64[T]) -> (y: i64[T]) { return n - 1 }");
    for (way, result) in ways.each_result(&call(&ways, &[("n", "[3000000000]")])) {
        match result {
            Ok(outputs) => {
                assert_eq!(outputs.get("y").expect("the output").to_f64_vec(), [2_999_999_999.0], "{way}")
            }
            Err(e) => assert!(e.to_string().contains("3000000000"), "{way}: {e}"),
        }
    }
    gives(
        "model m(n: i64[T]) -> (y: i64[T]) { return n * n + n }",
        &[("n", "[46000, -3]")],
        "[2116046000, 6]",
    );
}

#[test]
fn a_number_that_is_no_integer_is_refused() {
    let to_i32 = "model m(x: f32[T]) -> (y: i32[T]) { return i32(x) }";
    gives(to_i32, &[("x", "[2147483520, -2147483648, -0.9, 1.9]")], "[2147483520, -2147483648, 0, 1]");
    for x in ["[nan]", "[inf, 0]", "[-inf]", "[3e9]", "[-2147483904]"] {
        fails(to_i32, &[("x", x)], "32");
    }
    let to_i64 = "model m(x: f32[T]) -> (y: i64[T]) { return i64(x) }";
    for x in ["[nan]", "[inf, 0]", "[9.3e18]"] {
        fails(to_i64, &[("x", x)], "");
    }
    let ways = ways(to_i64);
    for (way, result) in ways.each_result(&call(&ways, &[("x", "[3e9]")])) {
        match result {
            Ok(outputs) => assert_eq!(outputs.get("y").expect("the output").to_f64_vec(), [3e9], "{way}"),
            Err(e) => assert!(e.to_string().contains("3000000000"), "{way}: {e}"),
        }
    }
}

// ---- NaN

#[test]
fn the_greater_and_the_lesser_of_nan_are_nan() {
    gives(
        "model m(x: f32[T], z: f32[T]) -> (y: f32[T]) { return max(x, z) + min(x, z) }",
        &[("x", "[1, nan, 3]"), ("z", "[nan, 2, 4]")],
        "[nan, nan, 7]",
    );
    gives(
        "model m(x: f32[T, S]) -> (y: f32[T]) { return max(x) }",
        &[("x", "[[1, nan], [1, 2]]")],
        "[nan, 2]",
    );
}

#[test]
fn a_state_begins_as_zeros_and_one_that_grows_as_nothing() {
    let total = "model m(x: f32[T]) -> (y: f32[T]) {
        state before: f32[]
        let y = before + cumsum(x)
        before = before + sum(x)
        return y
    }";
    gives(total, &[("x", "[1, 2]")], "[1, 3]");
    let lengths = "model m(x: f32[T]) -> (y: i64[], all: f32[S + T]) {
        state seen: f32[S]
        let y = S
        seen = append[s](seen, x)
        return y, seen
    }";
    gives(lengths, &[("x", "[1, 2]")], "0");
    gives(lengths, &[("x", "[1, 2]"), ("seen", "[5, 6, 7]")], "3");
}

#[test]
fn nothing_is_dropped_at_inference() {
    gives("model m(x: f32[T]) -> (y: f32[T]) { return dropout(x, 0.9) }", &[("x", "[1, 2, 3]")], "[1, 2, 3]");
    refused("model m(x: f32[T]) -> (y: f32[T]) { return dropout(x, 1.0) }", "must be at least 0 and below 1");
}

#[test]
fn the_first_of_equal_greatest_values_is_found() {
    let program = "model m(x: f32[T, D]) -> (y: i64[T]) { return argmax(x) }";
    gives(program, &[("x", "[[1, 3, 3, 2], [-inf, -inf, -inf, -inf], [0, 5, 5, 5]]")], "[1, 0, 1]");
}

/// 2049 lies between two halves, of which 2048 is even; 2051 between 2050 and 2052; 70000 is past the largest half.
#[test]
fn outputs_of_16_bits_are_rounded_to_the_nearest() {
    let program = |dtype: &str| {
        format!("model m(x: f32[T]) -> (y: {dtype}[T], z: f32[T]) {{ let y = x * 1.0 return y, y }}")
    };
    let inputs = [("x", "[2049.0, 2051.0, 0.1, 70000.0, -1e-9, nan]")];
    for (dtype, name, expected) in [
        (DType::F16, "f16", [2048.0, 2052.0, 0.099_975_586, f64::INFINITY, -0.0]),
        (DType::BF16, "bf16", [2048.0, 2048.0, 0.100_097_656, 70144.0, -1e-9]),
    ] {
        for (way, outputs) in outputs(&program(name), &inputs) {
            let y = outputs.get("y").expect("the output");
            assert_eq!(y.dtype(), dtype, "{way}");
            let found = y.to_f64_vec();
            for (found, expected) in found.iter().zip(expected) {
                assert!(
                    (found - expected).abs() <= expected.abs() * 1e-2 || *found == expected,
                    "{way}: {found}"
                );
            }
            assert_eq!(found[..2], expected[..2], "{way}");
            assert!(
                (found[2] - expected[2]).abs() < 1e-8 && found[3] == expected[3] && found[5].is_nan(),
                "{way}"
            );
            assert_eq!(
                outputs.get("z").expect("the output").to_f64_vec()[0],
                2049.0,
                "{way}: the other is as it was"
            );
        }
    }
}

/// A row of numbers as a text.
fn listed(numbers: impl Iterator<Item = f64>) -> String {
    format!("[{}]", numbers.map(|x| x.to_string()).collect::<Vec<_>>().join(", "))
}

/// Masks of which no range of keys follows, over more keys than a tile has: a square of the distance, and data that are equal
/// in whole tiles.
#[test]
fn masks_that_say_nothing_of_ranges_are_looked_at() {
    let zeros = listed((0..192).map(|_| 0.0));
    let program = |mask: &str| {
        format!(
            "model m(q: f32[T], k: f32[T], v: f32[T], a: i32[T], c: i32[T]) -> (y: f32[T]) {{
                 let s[i, j] = if {mask} then q[i] * k[j] else -inf
                 let y[i] = sum[j](softmax(s)[i, j] * v[j])
                 return y
             }}"
        )
    };
    let band = |i: usize| (i.saturating_sub(2)..(i + 3).min(192)).map(|j| j as f64);
    let means = listed((0..192).map(|i| band(i).sum::<f64>() / band(i).count() as f64));
    let places = listed((0..192).map(f64::from));
    let common = [("q", zeros.as_str()), ("k", &zeros), ("v", &places)];
    let whole = |of: fn(i32) -> i32| listed((0..192).map(|j| f64::from(of(j))));
    let (ones, later) = (whole(|_| 1), whole(|j| i32::from(j < 64)));
    let inputs = [&common[..], &[("a", &ones), ("c", &later)]].concat();
    gives(&program("(j - i) * (j - i) <= 4"), &inputs, &means);
    let mean = |from: i32, to: i32| listed((0..192).map(|_| f64::from(from + to - 1) / 2.0));
    gives(&program("c[j] < a[i]"), &inputs, &mean(64, 192));
    gives(&program("a[i] <= c[j]"), &inputs, &mean(0, 64));
    gives(&program("not (c[j] < a[i])"), &inputs, &mean(0, 64));
    gives(&program("not (c[j] < a[i] and a[i] <= c[j] + 1)"), &inputs, &mean(0, 64));
}
