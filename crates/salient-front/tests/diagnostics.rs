//! One snapshot for each kind of mistake that a program can make: the words are part of the language.
//!
//! Syntax errors are in `syntax.rs`.

use salient_front::{Settings, Sources, compile, render};

/// The messages for a program; it must have some.
fn messages(text: &str, model: Option<&str>, set: &[(&str, &str)]) -> String {
    let mut sources = Sources::new();
    sources.add("test.attn", text);
    let set = set.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
    match compile(&sources, model, &Settings { set, ..Settings::default() }) {
        Err(errors) => render(&errors, &sources, false),
        Ok(lowered) => {
            assert!(!lowered.warnings.is_empty(), "nothing is wrong with this program:\n{text}");
            render(&lowered.warnings, &sources, false)
        }
    }
}

/// A model over `x: f32[T, D]` with these statements.
fn body(statements: &str) -> String {
    format!("model m(x: f32[T, D], y: f32[T, E], ids: i64[T], keep: bool[T, T]) {{\n    {statements}\n}}\n")
}

macro_rules! mistakes {
    ($($name:ident: $text:expr;)*) => {
        $(#[test]
        fn $name() {
            let text: String = $text.into();
            insta::assert_snapshot!(stringify!($name), messages(&text, None, &[]));
        })*
    };
}

mistakes! {
    fraction_of_dimensions: body("let scale = 1 / E\n    return x * scale");
    integer_beyond_64_bits: "const N = 9223372036854775807 + 1\n\nmodel m(x: f32[T]) {\n    return x * N\n}\n";
    least_integer_negated: "const N = (-9223372036854775807 - 1) / -1\n\nmodel m(x: f32[T]) {\n    return x * N\n}\n";
    dimension_beyond_64_bits: "model m[N = 4294967296](x: f32[T]) {\n    let y[a: N * N + T] = x[a]\n    return y\n}\n";
    dimension_of_a_great_power: body("let z[a: (T + D) ** 60] = x[0, 0] + a\n    return z");
    axis_beyond_64_bits: body("let z = x\n    for l in 0..70 {\n        z = concat(z, z)\n    }\n    return z * y[0, 0]");
    number_too_large: body("return x * 1e400");
    number_too_large_for_f32: body("return x * 1e39");
    remainder_by_zero: body("let z[t] = x[t, t % 0]\n    return z");
    width_for_an_epsilon: body("return layer_norm[64](x)");
    parameter_assigned: body("param w: f32[D]\n    let z = x * w\n    w = w * 0.5\n    return z");
    constant_assigned: "const N = 2\n\nmodel m(x: f32[T]) {\n    N = 3\n    return x * N\n}\n";
    input_assigned_and_lost: "model m(x: f32[T]) {\n    let y = x\n    x = x * 2\n    return y\n}\n";
    inputs_of_one_name: "model m(x: f32[T], x: f32[D]) {\n    return x\n}\n";
    arguments_of_one_name: "fn f[a](x, a) {\n    return x\n}\n\nmodel m(x: f32[T]) {\n    return x\n}\n";
    parameter_over_an_input: body("param x: f32[T] = ones\n    return x");
    let_in_a_loop: "model m(x: f32[T]) {\n    for i in 0..3 {\n        let x = x + 1\n    }\n    return x\n}\n";
    value_never_read: "model m(x: f32[T], mask: bool[T]) {\n    let z = exp(x)\n    return x\n}\n";
    index_before_the_first: "model m(x: f32[T]) {\n    let y[t: T] = x[t - 1]\n    return y\n}\n";
    index_behind_the_last: "model m(x: f32[T]) {\n    let y[t: T] = x[t + 1]\n    return y\n}\n";
    mask_by_infinity: "model m(s: f32[T, T]) {\n    let keep[i: T, j: T] = j <= i\n    return softmax(s + keep * -inf)\n}\n";
    comment_for_a_quotient: "model m(x: f32[T]) {\n    return x // 2\n}\n";
    part_without_the_axis: "model m(y: f32[T, D], o: f32[D]) {\n    return concat[t](y, o)\n}\n";
    gradient_of_a_tensor: body("return grad(x * x, x)");
    gradient_by_something_computed: body("let z = x * 2\n    return grad(sum[t, d](z[t, d]), z)");
    gradient_by_integers: body("return grad(sum[t, d](x[t, d]), ids)");
    gradient_by_what_does_not_count: body("return grad(sum[t, d](x[t, d]), y)");
    gradient_through_a_comparison: body("return grad(sum[t, d](if x[t, d] > 0 then 1 else 0), x)");
    gradient_by_nothing: body("return grad(sum[t, d](x[t, d]))");
    gradients_by_all_parameters_as_a_value: body("param w: f32[D]\n    let g = grad(sum[t, d](x[t, d] * w[d]), parameters)\n    return x @ g");
    no_parameter_of_that_path: body("param w: f32[D] as layer.0.weight\n    return grad(sum[t, d](x[t, d] * w[d]), parameters.layers)");
    no_parameter_is_left: body("param w: f32[D]\n    return grad(sum[t, d](x[t, d] * w[d]), parameters - parameters.w)");
    a_product_of_parameters: body("param w: f32[D]\n    return grad(sum[t, d](x[t, d] * w[d]), parameters * parameters.w)");
    gradients_by_different_parameters: body("param w: f32[D]\n    param v: f32[D]\n    let loss = sum[t, d](x[t, d] * w[d] * v[d])\n    return grad(loss, parameters.w) + grad(loss, parameters.v)");
    gradients_times_a_tensor: body("param w: f32[D]\n    return grad(sum[t, d](x[t, d] * w[d]), parameters) * x");
    length_of_a_tensor: body("return grad_norm(x)");
    a_loop_over_no_gradients: body("for p, d in x {\n        p = d\n    }\n    return x");
    a_parameter_of_another_shape: body("param w: f32[D] = ones\n    for p, d in grad(sum[t, d](x[t, d] * w[d]), parameters) {\n        p = x\n    }\n    return x");
    a_parameter_that_begins_nowhere: body("param w: f32[D]\n    for p, d in grad(sum[t, d](x[t, d] * w[d]), parameters) {\n        p = p - d\n    }\n    return x");
    a_parameter_with_two_new_values: body("param w: f32[D] = ones\n    let g = grad(sum[t, d](x[t, d] * w[d]), parameters)\n    for p, d in g {\n        p = p - d\n    }\n    for p, d in g {\n        p = p - d\n    }\n    return x");
    a_parameter_called_as_an_input: "model m(x: f32[D]) {\n    param w: f32[D] = ones as x\n    for p, d in grad(sum[d](x[d] * w[d]), parameters) {\n        p = p - d\n    }\n    return x\n}\n";
    a_growing_state_with_an_initialiser: body("state held: f32[s: S, D] = ones\n    held = append[s](held, x)\n    return sum[s](held)");
    leading_axes_of_nothing: body("state held: f32[..]\n    held = held + x\n    return held");
    gradients_by_no_parameters: body("return grad(sum[t, d](x[t, d]), parameters)");
    gradients_by_all_parameters_twice: body("param w: f32[D]\n    let loss = sum[t, d](x[t, d] * w[d])\n    return grad(loss, parameters), grad(2 * loss, parameters)");
    path_of_a_result_of_a_function: "fn f(x: f32[T]) -> (y: f32[T] as a.b) { return x }\nmodel m(x: f32[T]) -> (y: f32[T] as out.y) { return f(x) }";
    stop_of_two: body("return stop(x, y)");
    unknown_name: body("return sofmax(x)");
    unknown_name_of_another_system: body("return reshape(x)");
    unknown_dimension: body("let z[t: N] = t\n    return z");
    unknown_type: "model m(x: f23[T]) {\n    return x\n}\n";
    unknown_index: body("let z[t] = x[t, e] * y[t, q]\n    return z");
    declared_twice: "fn f(x) {\n    return x\n}\n\nfn f(x) {\n    return x\n}\n";
    operator_redefined: "fn exp(x) {\n    return x\n}\n";
    shapes_do_not_meet: body("let z = x + y\n    return z");
    shapes_do_not_meet_in_rank: body("let z = x * ids[_, _, :]\n    return z + y");
    product_of_wrong_axes: body("return x @ y");
    product_wants_a_transpose: body("return x @ x");
    product_of_numbers: body("return x @ 2.0");
    transpose_of_a_vector: body("return ids.T");
    index_of_two_lengths: body("let z[t] = x[t, t]\n    return z");
    index_without_a_length: body("let z[t, q] = x[t, 0] * q\n    return z");
    index_without_the_length_of_its_name: body("let z[t, e] = x[t, 0] * e\n    return z");
    index_of_what_was_refused: body("let z[t, i] = x[t, q]\n    let w[i] = sum[t](if i <= t then z[t, i] else 0)\n    return w");
    index_twice_on_the_left: body("let z[t, t] = x[t, 0]\n    return z");
    index_left_over: body("let z[t] = x[t, d]\n    return z");
    axis_without_an_index: body("let z[t] = x @ x.T\n    return z");
    rest_twice: body("return x[.., ..]");
    too_few_indices: body("return x[0]");
    too_many_indices: body("return x[0, 0, 0]");
    index_outside: "model m(x: f32[4]) {\n    return x[4]\n}\n";
    index_negative: body("return x[-1, :]");
    index_is_a_float: body("return x[y[0, 0], :]");
    slice_outside: "model m(x: f32[4]) {\n    return x[2:6]\n}\n";
    dimension_in_lower_case: "model m(x: f32[rows, D]) {\n    return x\n}\n";
    no_axis_of_that_name: body("return sum[q](x)");
    no_axis_at_all: body("return sum(1.0)");
    index_notation_wants_an_axis: body("let z[t, d] = softmax(x[t, d])\n    return z");
    reduction_of_the_wrong_type: body("return any(x)");
    logic_of_numbers: body("return if x and keep then 1 else 0");
    condition_is_a_number: body("return if x then 1.0 else 0.0");
    integers_divided: body("return ids / 2");
    quotient_rounded_by_surprise: body("let z[t] = exp(t / 2) * x[t, 0]\n    return z");
    remainder_of_floats: body("return x % 2");
    dimensions_not_divisible: "model m[D = 10, H = 3](x: f32[T, D]) {\n    let E = D / H\n    return x\n}\n";
    division_by_zero: body("let n = 4 / 0\n    return x");
    requirement_fails: "fn split[H](x: f32[.., D]) {\n    require D % H == 0, \"the width must be divisible by the number of heads\"\n    return x\n}\n\nmodel m[D = 10](x: f32[T, D]) {\n    return split[3](x)\n}\n";
    requirement_of_the_library: "model m[H = 3](x: f32[T, 10]) {\n    return split_heads[H](x)\n}\n";
    requirement_about_tensors: body("require x > 0\n    return x");
    argument_of_the_wrong_type: "fn f(x: f32[T]) {\n    return x\n}\n\nmodel m(ids: i64[T]) {\n    return f(ids)\n}\n";
    argument_of_the_wrong_rank: "fn f(x: f32[T]) {\n    return x\n}\n\nmodel m(x: f32[T, D]) {\n    return f(x)\n}\n";
    argument_of_the_wrong_length: "fn f(x: f32[T, D], y: f32[D]) {\n    return x + y\n}\n\nmodel m(x: f32[T, D], y: f32[E]) {\n    return f(x, y)\n}\n";
    argument_missing: body("return scaled_attention(x, x)");
    argument_too_many: body("return relu(x, x)");
    axis_as_an_argument: body("return softmax(x, 1)");
    axis_as_an_argument_by_name: body("return softmax(x, dim = 1)");
    axis_of_a_sum_as_an_argument: body("return sum(x, 1)");
    word_of_several_names: body("return gelu(x)");
    argument_of_no_parameter: body("return scaled_attention(x, x, x, mask = keep)");
    argument_given_twice: body("return scaled_attention(x, x, x, q = x)");
    brackets_missing: body("return linear(x) as w");
    brackets_of_no_parameter: body("return linear[4, bais = false](x) as w");
    brackets_with_a_tensor: body("return linear[x](x) as w");
    function_expected: body("return feed_forward[4](x, 3)");
    not_a_function: body("return x(1)");
    path_of_a_function: body("return relu(x) as w");
    path_of_no_call: body("return x as w");
    parameter_in_a_function: "fn f(x: f32[T]) {\n    param w: f32[T] = ones\n    return x * w\n}\n\nmodel m(x: f32[T]) {\n    return f(x)\n}\n";
    parameter_of_two_shapes: body("return linear[4](x) as w, linear[5](x) as w");
    parameter_shared_unawares: body("return (linear[4](x) as w) + (linear[4](x + 1) as w)");
    initialiser_unknown: body("param w: f32[D] = random(3)\n    return x * w");
    result_of_the_wrong_shape: "model m(x: f32[T, D]) -> f32[T, T] {\n    return x\n}\n";
    result_of_the_wrong_type: "model m(x: f32[T, D]) -> bool[T, D] {\n    return x\n}\n";
    results_miscounted: "model m(x: f32[T, D]) -> (a: f32[T, D], b: f32[T, D]) {\n    return x\n}\n";
    results_of_one_name: body("return x, x");
    nothing_returned: "model m(x: f32[T, D]) {\n    let y = x\n}\n";
    names_miscounted: body("let a, b = x\n    return a");
    assigned_before_defined: body("z = x\n    return z");
    declared_type_is_another: body("let z: f32[T, E] = x\n    return z");
    loop_without_end: body("for l in 0..T {\n        let z = x\n    }\n    return x");
    choice_at_run_time: body("if x > 0 {\n        return x\n    } else {\n        return y\n    }");
    function_calls_itself: "fn f(x) {\n    return f(x)\n}\n\nmodel m(x: f32[T]) {\n    return f(x)\n}\n";
    input_without_a_type: "model m(x) {\n    return x\n}\n";
    no_model: "fn f(x) {\n    return x\n}\n";
    several_models: "model a(x: f32[T]) {\n    return x\n}\n\nmodel b(x: f32[T]) {\n    return x\n}\n";
    several_mistakes: body("let a = x + y\n    let b = a + 1\n    let c = sofmax(x)\n    return b, lienar[4](x)");
    unreachable_statement: body("return x\n    let y = x");
    dimension_is_a_tensor: body("return linear[sum(x)](x) as w");
    concatenation_of_nothing: body("return concat()");
    dropout_of_everything: body("return dropout(x, 1)");
    dropout_below_zero: body("return dropout(x, -0.1)");
    drawn_at_inference: body("return x * draw(x)");
    state_in_a_function: "fn f(x: f32[T]) {\n    state n: f32[]\n    return x + n\n}\n\nmodel m(x: f32[T]) {\n    return f(x)\n}\n";
    state_that_never_changes: body("state bias: f32[D]\n    return x + bias");
    state_of_another_shape: body("state last: f32[D]\n    last = x\n    return x");
    state_of_another_type: body("state last: f32[T]\n    last = ids\n    return x");
    state_in_sixteen_bits: body("state last: f16[D]\n    last = x[0, :]\n    return x");
    state_that_grows_twice: body("state s: f32[S, S]\n    s = append[s](s, s)\n    return x");
    state_without_a_length: body("state last: f32[Q, D]\n    last = last + 1\n    return x");
    states_that_grow_apart: body("state keys: f32[S, D], sums: f32[S]\n    keys = append[s](keys, x)\n    sums = append[s](sums, sum[d](x)[0:1])\n    return sum[s](keys)");
    state_that_stays_behind: body("state keys: f32[S, D], sums: f32[S]\n    keys = append[s](keys, x)\n    sums = sums + 1\n    return sum[s](keys)");
    state_as_long_as_an_input: body("state keys: f32[E, D]\n    keys = append[e](keys, x)\n    return sum[e](keys), y");
    state_called_like_a_result: "model m(x: f32[T, D]) -> (keys: f32[S + T, D]) {\n    state keys: f32[S, D]\n    keys = append[s](keys, x)\n    return keys\n}\n";
    states_of_one_path: "block f(x: f32[T]) {\n    state n: f32[T]\n    n = n + x\n    return n\n}\n\nmodel m(x: f32[T]) {\n    let a = f(x)\n    return a + f(x)\n}\n";
    state_for_each_index: "block f(x: f32[T]) {\n    state n: f32[T]\n    n = n + x\n    return n\n}\n\nmodel m(x: f32[B, T]) {\n    let y[b, t] = f(x[b, :])[t]\n    return y\n}\n";
    append_along_no_axis: body("return append(x, x)");
    append_along_an_unknown_axis: body("return append[s](x, x)");
    append_of_another_rank: body("return append[t](x, x[0, :])");
    append_of_another_width: body("return append[t](x, y)");
    unknown_name_in_a_function_that_nothing_calls: "fn f(x) {\n    let y = sofmax(x)\n    return y\n}\n\nmodel m(x: f32[T]) {\n    return x\n}\n";
    cast_to_bool: body("return all(x != 0 and ids)");
}

#[test]
fn unknown_model() {
    let text = "model encoder(x: f32[T]) {\n    return x\n}\n\nmodel decoder(x: f32[T]) {\n    return x\n}\n";
    insta::assert_snapshot!(messages(text, Some("enocder"), &[]));
}

#[test]
fn model_called() {
    let text = "model a(x: f32[T]) {\n    return x\n}\n\nmodel m(x: f32[T]) {\n    return a(x)\n}\n";
    insta::assert_snapshot!(messages(text, Some("m"), &[]));
}

#[test]
fn unknown_setting() {
    insta::assert_snapshot!(messages(&body("return x"), None, &[("H", "3")]));
}

#[test]
fn setting_is_no_number() {
    insta::assert_snapshot!(messages(&body("return x"), None, &[("T", "many")]));
}
