//! Keywords, operators and built-in functions. An example is an expression over `x`, `y: f32[T, D]` and `n: i64[T]`, or a program.

/// The name, how it is written, what it means, an example.
pub(super) type Row = (&'static str, &'static str, &'static str, &'static str);

/// The words that cannot be names.
pub(super) const KEYWORDS: &[Row] = &[
    (
        "model",
        "model NAME[BRACKETS](INPUTS) -> RESULTS { … }",
        "What is compiled and run: it has inputs, parameters and results.",
        "model double(x: f32[T]) -> f32[T] { return 2 * x }",
    ),
    (
        "block",
        "block NAME[BRACKETS](INPUTS) { … }",
        "A function that has parameters or states of its own.",
        "block scale(x: f32[T, D]) { param g: f32[D] return g * x }\nmodel m(x: f32[T, D]) { return scale(x) as first }",
    ),
    (
        "fn",
        "fn NAME[BRACKETS](INPUTS) { … }",
        "A function without parameters; as a type, a function that is handed over.",
        "fn twice(x) { return 2 * x }\nmodel m(x: f32[T]) { return twice(x) }",
    ),
    (
        "param",
        "param NAME: TYPE = INITIALISER as PATH",
        "A weight, which is read from a file or drawn.",
        "model m(x: f32[T, D]) { param w: f32[D] return w * x }",
    ),
    (
        "state",
        "state NAME: TYPE, …",
        "A value that is kept from one call to the next.",
        "model m(x: f32[D]) { state seen: f32[D] let total = seen + x seen = total return total }",
    ),
    (
        "const",
        "const NAME = VALUE",
        "A number that is known when compiling.",
        "const half = 0.5\nmodel m(x: f32[T]) { return half * x }",
    ),
    (
        "import",
        "import \"FILE\"",
        "Takes the declarations of another file, whose path is relative to this one.",
        "import \"layers.attn\"\nmodel m(x: f32[T]) { return twice(x) }",
    ),
    (
        "let",
        "let NAME = VALUE, let NAME[INDICES] = VALUE",
        "Gives a value a name; with indices, element by element.",
        "model m(x: f32[T, D]) { let y[t, d] = x[t, d] * 2 return y }",
    ),
    ("return", "return VALUE, …", "The results.", "model m(x: f32[T]) { return x }"),
    (
        "require",
        "require CONDITION, \"MESSAGE\"",
        "Refuses sizes for which the condition does not hold.",
        "model m(x: f32[T, D]) { require D % 2 == 0, \"D must be even\" return x }",
    ),
    (
        "for",
        "for NAME in FROM..TO { … }",
        "Repeats statements; in an argument, repeats the argument. The end is not included.",
        "model m(x: f32[T]) { let y = x for l in 0..3 { y = y + x } return y }",
    ),
    (
        "in",
        "for NAME in FROM..TO",
        "Between the index of a repetition and its range.",
        "concat(x * h for h in 1..3)",
    ),
    (
        "if",
        "if CONDITION { … } else { … }, if CONDITION then VALUE else VALUE",
        "Chooses: statements when compiling, values for each element.",
        "if x > 0 then x else 0",
    ),
    (
        "then",
        "if CONDITION then VALUE else VALUE",
        "Before the value where the condition holds.",
        "if x > y then x else y",
    ),
    (
        "else",
        "if CONDITION then VALUE else VALUE",
        "Before the value, or the statements, where the condition does not hold.",
        "if x > y then x else y",
    ),
    ("and", "A and B", "True where both are.", "if x > 0 and y > 0 then x else y"),
    ("or", "A or B", "True where at least one is.", "if x > 0 or y > 0 then x else y"),
    ("not", "not A", "True where A is false.", "if not x > 0 then x else y"),
    (
        "as",
        "VALUE as PATH",
        "The path under which the parameters of a call are found in a file.",
        "model m(x: f32[T, D]) { return linear[4](x) as layers.0.query }",
    ),
    (
        "axis",
        "[axis NAME]",
        "In the brackets of a declaration: the name of an axis is handed over.",
        "fn total[axis j](x) { return sum[j](x) }\nmodel m(x: f32[T, D]) { return total[t](x) }",
    ),
    ("true", "true", "The truth value.", "if true then x else y"),
    ("false", "false", "The truth value.", "if false then x else y"),
    ("inf", "inf, -inf", "Infinity: a score of -inf has weight zero.", "if x > 0 then x else -inf"),
];

/// The signs.
pub(super) const OPERATORS: &[Row] = &[
    ("+", "A + B", "The sum, element by element.", "x + y"),
    ("-", "A - B, -A", "The difference, element by element; before a value, its negative.", "-x - y"),
    ("*", "A * B", "The product, element by element.", "x * y"),
    ("/", "A / B", "The quotient; of indices and dimensions it is rounded down.", "x / y"),
    ("%", "A % B", "The remainder of indices and integers.", "n % 2"),
    ("**", "A ** B", "A to the power of B; it binds more tightly than `*`.", "x ** 2"),
    ("@", "A @ B", "The matrix product of the last two axes.", "x @ y.T"),
    (
        "<",
        "A < B",
        "Whether A is less than B. Comparisons can be chained: `0 <= x < 1`.",
        "if x < y then x else y",
    ),
    ("<=", "A <= B", "Whether A is at most B.", "if 0 <= x <= 1 then x else y"),
    (">", "A > B", "Whether A is greater than B.", "if x > y then x else y"),
    (">=", "A >= B", "Whether A is at least B.", "if x >= y then x else y"),
    ("==", "A == B", "Whether both are equal.", "if x == y then x else 0"),
    ("!=", "A != B", "Whether they differ.", "if x != y then x else 0"),
    (".T", "A.T", "The last two axes, exchanged.", "x.T"),
    (
        "..",
        "A[.., i], FROM..TO",
        "All leading axes that are not written; between two integers, a range without its end.",
        "fn double(x: f32[.., D]) { let y[.., d] = 2 * x[.., d] return y }\nmodel m(x: f32[T, D]) { return double(x) }",
    ),
    ("_", "A[t, _]", "An axis of extent one.", "model m(x: f32[T]) { let y[t, _] = x[t] return y }"),
    (
        ":",
        "NAME: TYPE, A[FROM:TO]",
        "Between a name and its type or extent; in brackets, a part of an axis.",
        "model m(x: f32[T]) { let y[i: T, j: T] = x[i] * x[j] return y }",
    ),
    (
        "->",
        "(INPUTS) -> RESULTS",
        "Before the types of the results.",
        "model m(x: f32[T]) -> f32[T] { return x }",
    ),
];

/// The functions that are operators of the graph.
pub(super) const BUILTINS: &[Row] = &[
    ("sum", "sum[AXES](x)", "The sum along the last axis, or along those in brackets.", "sum(x)"),
    ("prod", "prod[AXES](x)", "The product along the last axis, or along those in brackets.", "prod(x)"),
    (
        "max",
        "max[AXES](x), max(x, y)",
        "The largest value along an axis; of two values, the larger one, element by element.",
        "max(x, 0)",
    ),
    (
        "min",
        "min[AXES](x), min(x, y)",
        "The least value along an axis; of two values, the lesser one, element by element.",
        "min(x)",
    ),
    ("mean", "mean[AXES](x)", "The sum along the axes, divided by the number of elements.", "mean[t](x)"),
    ("any", "any[AXES](condition)", "Whether the condition holds anywhere along the axes.", "any(x > 0)"),
    ("all", "all[AXES](condition)", "Whether the condition holds everywhere along the axes.", "all(x > 0)"),
    (
        "argmax",
        "argmax[AXIS](x)",
        "The position of the largest value along the axis; the first one, if there are several.",
        "argmax(x)",
    ),
    (
        "cumsum",
        "cumsum[AXIS](x)",
        "The sum of every element and those before it, along the axis.",
        "cumsum[t](x)",
    ),
    (
        "reverse_cumsum",
        "reverse_cumsum[AXIS](x)",
        "The sum of every element and those behind it, along the axis.",
        "reverse_cumsum[t](x)",
    ),
    (
        "concat",
        "concat[AXIS](a, b, …)",
        "One part after the other, along the last axis or the one in brackets.",
        "concat(x, y)",
    ),
    ("stack", "stack(a, b, …)", "The parts along a new first axis.", "stack(x, y)"),
    (
        "append",
        "append[AXIS](held, new)",
        "What a state holds and, behind it along the axis, what is new.",
        "model m(x: f32[t: N, D]) { state held: f32[s: S, D] held = append[s](held, x) return sum[s](held) }",
    ),
    ("where", "where(condition, a, b)", "`if condition then a else b`, as a function.", "where(x > 0, x, 0)"),
    (
        "draw",
        "draw(x)",
        "While training, a number in [0, 1) for each element of x.",
        "model m(x: f32[T]) { if training { return if draw(x) < 0.5 then x else 0 } else { return x } }",
    ),
    (
        "grad",
        "grad(loss, x, …)",
        "The gradient of a number by an input, a parameter or a state; one for each that is named. `return grad(loss, parameters)` gives a result `grad.PATH` for each parameter.",
        "grad(sum[t, d](x * x), x)",
    ),
    ("stop", "stop(x)", "x, with a derivative of zero.", "stop(x)"),
    ("abs", "abs(x)", "The absolute value.", "abs(x)"),
    ("floor", "floor(x)", "The largest integer that is not above x.", "floor(x)"),
    ("exp", "exp(x)", "e to the power of x.", "exp(x)"),
    ("log", "log(x)", "The natural logarithm.", "log(x)"),
    ("sqrt", "sqrt(x)", "The square root.", "sqrt(x)"),
    ("tanh", "tanh(x)", "The hyperbolic tangent.", "tanh(x)"),
    ("erf", "erf(x)", "The error function.", "erf(x)"),
    ("sin", "sin(x)", "The sine of an angle in radians.", "sin(x)"),
    ("cos", "cos(x)", "The cosine of an angle in radians.", "cos(x)"),
];
