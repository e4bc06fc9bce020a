//! The names of NumPy and PyTorch, each with what to write instead.

/// What people write, and what it is here.
pub(super) struct Row {
    /// The names that share a spelling.
    pub(super) names: &'static [&'static str],
    /// Their arguments, for example, over what [`super::table::EXAMPLE`] declares.
    pub(super) call: &'static str,
    /// What to write instead.
    pub(super) write: Write,
    /// What else there is to know.
    pub(super) note: &'static str,
}

/// How a spelling is made of the arguments.
pub(super) enum Write {
    /// By a template, whose holes [`super::spell`] fills.
    Code(&'static str),
    /// By a template where the axis is the last one, else by a definition that reads another position of the axis: `$i` is its
    /// index, `$N` its length. Where no axis is said it is `unsaid`.
    Index { last: &'static str, axis_at: usize, unsaid: i64, position: &'static str },
    /// By the new axis that parts stand along.
    Stack,
    /// By the first of the parts of an axis.
    Part,
    /// By the zeros before and behind the last axis.
    Padded,
    /// By the numbers of a list.
    Listed,
    /// By an order of the axes.
    Order,
    /// By one axis more or less.
    Axes,
    /// By the indices in a text.
    Einsum,
    /// By the lengths of a new tensor, all of whose elements are this.
    Filled(&'static str),
    /// By the first position, or none, and the one behind the last.
    Range,
    /// By the element type that is named.
    Element,
    /// By the length of an axis.
    Length,
    /// Not at all.
    Nothing,
}

const fn code(names: &'static [&'static str], call: &'static str, template: &'static str) -> Row {
    Row { names, call, write: Write::Code(template), note: "" }
}

const fn by(names: &'static [&'static str], call: &'static str, write: Write) -> Row {
    Row { names, call, write, note: "" }
}

impl Row {
    const fn with(self, note: &'static str) -> Row {
        Row { note, ..self }
    }
}

const GROWS_WITH_DATA: &str = "the shape of the result would depend on the data";
const AS_STORED: &str = "a value has no place or layout of its own to change";
const BROADCASTS: &str = "shapes are broadcast from the right, as in NumPy";
const BOTH: &str = "a slice gives each part";

const LAST: &str = "that is along the last axis";
const ROLLED: Write = Write::Index {
    last: "roll[{1:shifts,shift|1}]({0})",
    axis_at: 2,
    unsaid: -1,
    position: "($i - {1:shifts,shift|1}) % $N",
};

/// Every name. The first row that fits its arguments counts.
pub(super) const NAMES: &[Row] = &[
    // ---- numbers
    code(&["exp", "log", "sqrt", "tanh", "erf", "sin", "cos", "floor", "abs"], "(x)", "{name}({0})"),
    code(&["relu", "sigmoid", "silu", "softplus", "gelu_erf", "gelu_tanh"], "(x)", "{name}({0})"),
    code(&["absolute", "fabs"], "(x)", "abs({0})"),
    code(&["expit"], "(x)", "sigmoid({0})"),
    code(&["swish"], "(x)", "silu({0})"),
    code(&["gelu"], "(x)", "gelu_erf({0})").with("`gelu_tanh` is the approximation: the two differ"),
    code(&["logsigmoid"], "(x)", "log_sigmoid({0})"),
    code(&["relu6"], "(x)", "clamp({0}, 0, 6)"),
    code(&["hardtanh"], "(x)", "clamp({0}, -1, 1)"),
    code(&["hardsigmoid"], "(x)", "clamp({(0)} / 6 + 0.5, 0, 1)"),
    code(&["leaky_relu"], "(x, 0.1)", "max({0}, {(1:negative_slope|0.01)} * {(0)})"),
    code(&["elu"], "(x)", "if {(0)} > 0 then {0} else exp({0}) - 1"),
    code(&["mish"], "(x)", "{(0)} * tanh(softplus({0}))"),
    code(&["softsign"], "(x)", "{(0)} / (1 + abs({0}))"),
    code(&["clip", "clamp"], "(x, 0, 1)", "clamp({0}, {1:min,a_min|-inf}, {2:max,a_max|inf})"),
    code(&["clamp_min"], "(x, 0)", "max({0}, {1:min|0})"),
    code(&["clamp_max"], "(x, 1)", "min({0}, {1:max|1})"),
    code(&["maximum", "fmax"], "(x, y)", "max({0}, {1|y})"),
    code(&["minimum", "fmin"], "(x, y)", "min({0}, {1|y})"),
    code(&["add"], "(x, y)", "{(0)} + {(1|y)}"),
    code(&["sub", "subtract"], "(x, y)", "{(0)} - {(1|y)}"),
    code(&["mul", "multiply"], "(x, y)", "{(0)} * {(1|y)}"),
    code(&["div", "divide", "true_divide"], "(x, y)", "{(0)} / {(1|y)}"),
    code(&["floor_divide"], "(x, y)", "floor({(0)} / {(1|y)})"),
    code(&["remainder"], "(x, 3)", "{(0)} - {(1|y)} * floor({(0)} / {(1|y)})"),
    code(&["logaddexp"], "(x, y)", "max({0}, {1|y}) + log(1 + exp(-abs({(0)} - {(1|y)})))"),
    code(&["pow", "power", "float_power"], "(x, 2)", "{(0)} ** {(1:exponent|2)}"),
    code(&["square"], "(x)", "{(0)} ** 2"),
    code(&["reciprocal"], "(x)", "1 / {(0)}"),
    code(&["rsqrt"], "(x)", "1 / sqrt({0})"),
    code(&["neg", "negative"], "(x)", "-{(0)}"),
    code(&["sign", "sgn"], "(x)", "f32({(0)} > 0) - f32({(0)} < 0)"),
    code(&["ceil"], "(x)", "-floor(-{(0)})"),
    code(&["round", "rint", "around"], "(x)", "floor({(0)} + 0.5)").with("halves are rounded up"),
    code(&["trunc", "fix"], "(x)", "if {(0)} < 0 then -floor(-{(0)}) else floor({0})"),
    code(&["log2"], "(x)", "log({0}) / log(2.0)"),
    code(&["log10"], "(x)", "log({0}) / log(10.0)"),
    code(&["log1p"], "(x)", "log(1 + {(0)})"),
    code(&["expm1"], "(x)", "exp({0}) - 1"),
    code(&["exp2"], "(x)", "2.0 ** {(0)}"),
    code(&["sinh"], "(x)", "(exp({0}) - exp(-{(0)})) / 2"),
    code(&["cosh"], "(x)", "(exp({0}) + exp(-{(0)})) / 2"),
    code(&["tan"], "(x)", "sin({0}) / cos({0})"),
    code(&["hypot"], "(x, y)", "sqrt({(0)} ** 2 + {(1|y)} ** 2)"),
    code(&["lerp"], "(x, y, 0.5)", "{(0)} + ({(1|y)} - {(0)}) * {(2:weight|0.5)}"),
    code(&["dropout"], "(x, 0.1)", "dropout({0}, {1:p|0.5})"),
    // ---- truth values
    code(&["logical_and", "bitwise_and"], "(mask, keep)", "{(0)} and {(1|keep)}"),
    code(&["logical_or", "bitwise_or"], "(mask, keep)", "{(0)} or {(1|keep)}"),
    code(&["logical_not", "bitwise_not", "invert"], "(mask)", "not {(0)}"),
    code(&["equal", "eq"], "(x, y)", "{(0)} == {(1|y)}"),
    code(&["not_equal", "ne"], "(x, y)", "{(0)} != {(1|y)}"),
    code(&["less", "lt"], "(x, y)", "{(0)} < {(1|y)}"),
    code(&["less_equal", "le"], "(x, y)", "{(0)} <= {(1|y)}"),
    code(&["greater", "gt"], "(x, y)", "{(0)} > {(1|y)}"),
    code(&["greater_equal", "ge"], "(x, y)", "{(0)} >= {(1|y)}"),
    code(&["isclose"], "(x, y)", "abs({(0)} - {(1|y)}) <= 1e-5"),
    code(&["allclose"], "(x, y)", "all{axis@-}(abs({(0)} - {(1|y)}) <= 1e-5)"),
    code(&["isnan"], "(x)", "{(0)} != {(0)}"),
    code(&["isinf"], "(x)", "abs({0}) == inf"),
    code(&["isfinite"], "(x)", "abs({0}) < inf"),
    code(&["nan_to_num"], "(x)", "if {(0)} == {(0)} then {0} else 0"),
    code(&["where"], "(mask, x, y)", "if {0} then {1|x} else {2|0}"),
    code(&["masked_fill", "masked_fill_"], "(x, mask, 0)", "if {1:mask|mask} then {2:value|0} else {0}"),
    // ---- reductions
    code(&["sum", "prod", "mean"], "(x, 1)", "{name}{axis}({0}){keep}"),
    code(&["any", "all"], "(mask, 1)", "{name}{axis}({0}){keep}"),
    code(&["max", "min"], "(x, 1)", "{name}{axis}({0}){keep}"),
    code(&["max", "min"], "(x, y)", "{name}({0}, {1|y})"),
    code(&["nanmax"], "(x, 1)", "max{axis}(if {(0)} == {(0)} then {0} else -inf){keep}"),
    code(&["nanmin"], "(x, 1)", "min{axis}(if {(0)} == {(0)} then {0} else inf){keep}"),
    code(&["amax"], "(x, 1)", "max{axis}({0}){keep}"),
    code(&["amin"], "(x, 1)", "min{axis}({0}){keep}"),
    code(&["average"], "(x, 1)", "mean{axis}({0}){keep}"),
    code(&["argmax"], "(x, 1)", "argmax{along}({0}){keep}"),
    code(&["argmin"], "(x, 1)", "argmax{along}(-{(0)}){keep}"),
    code(&["nansum"], "(x, 1)", "sum{axis}(if {(0)} == {(0)} then {0} else 0)"),
    code(&["count_nonzero"], "(x, 1)", "sum{axis}({(0)} != 0)"),
    code(&["ptp"], "(x, 1)", "max{axis}({0}) - min{axis}({0})"),
    code(&["var"], "(x, 1)", "var{along;correction = 1}({0}){keep}").with("`correction = 0` for NumPy's"),
    code(&["std"], "(x, 1)", "sqrt(var{along;correction = 1}({0})){keep}")
        .with("`correction = 0` for NumPy's"),
    code(&["norm", "vector_norm"], "(x, dim=1)", "sqrt(sum{axis@-}({(0)} ** 2)){keep}"),
    code(&["normalize"], "(x)", "{(0)} / sqrt(sum({(0)} ** 2))[.., _]"),
    code(&["logsumexp", "softmax", "log_softmax", "cumsum"], "(x, 1)", "{name}{along}({0}){keep}"),
    code(&["softmin"], "(x, 1)", "softmax{along}(-{(0)})"),
    code(&["cumprod"], "(x, 1)", "exp(cumsum{along}(log({0})))").with("of what is above zero"),
    code(&["topk"], "(x, 2)", "top_k[{1:k|K}]({0})").with("it gives the values and their positions"),
    code(&["sort", "argsort"], "(x)", "top_k[{N}]({0})").with("in falling order, with the positions"),
    // ---- products
    code(&["matmul", "mm", "bmm"], "(x, w)", "{(0)} @ {(1|y)}"),
    code(&["dot"], "(x, w)", "{(0)} @ {(1|y)}"),
    code(&["dot", "inner", "vdot"], "(u, v)", "sum({(0)} * {(1|y)})"),
    code(&["outer", "ger"], "(u, v)", "let z[i, j] = {(0)}[i] * {(1|y)}[j]"),
    code(&["mv"], "(w, bias)", "let z[i] = sum[j]({(0)}[i, j] * {(1|y)}[j])"),
    code(&["addmm", "baddbmm"], "(bias, x, w)", "{(0)} + {(1)} @ {(2|w)}"),
    code(&["cdist"], "(s, s)", "let z[i, j] = sqrt(sum[d](({(0)}[i, d] - {(1|y)}[j, d]) ** 2))"),
    by(&["einsum"], "(\"btd,de->bte\", x, w)", Write::Einsum),
    code(&["scaled_dot_product_attention"], "(x, x, y)", "scaled_attention({0}, {1|k}, {2|v}{mask})"),
    code(
        &["cosine_similarity"],
        "(u, v)",
        "sum({(0)} * {(1|y)}) / sqrt(sum({(0)} ** 2) * sum({(1|y)} ** 2))",
    ),
    code(&["mse_loss"], "(x, y)", "mean_squared_error({0}, {1|y})"),
    code(&["l1_loss"], "(x, y)", "mean{axis@-}(abs({(0)} - {(1|y)}))"),
    code(&["cross_entropy"], "(s, ids)", "cross_entropy({0}, {1|ids})").with("the classes stand last"),
    // ---- shapes
    by(&["transpose", "swapaxes", "swapdims", "moveaxis", "movedim"], "(x, 1, 2)", Write::Order),
    by(&["permute"], "(x, 1, 0, 2)", Write::Order),
    code(&["t", "mT", "adjoint"], "(s)", "{(0)}.T"),
    code(
        &["reshape", "view", "unflatten", "rearrange"],
        "(x, -1)",
        "let z[.., h: H, e: {N} / H] = {(0)}[.., h * ({N} / H) + e]",
    ),
    code(&["flatten", "ravel"], "(x)", "let z[.., n: {M} * {N}] = {(0)}[.., n / {N}, n % {N}]"),
    by(&["squeeze", "unsqueeze", "expand_dims"], "(x, 1)", Write::Axes),
    code(&["expand", "expand_as", "broadcast_to"], "(x, 3, -1)", "let z[n: N, ..] = {(0)}[..]")
        .with(BROADCASTS),
    code(&["tile", "repeat"], "(x, 2)", "let z[.., n: {(-2|2)} * {N}] = {(0)}[.., n % {N}]").with(LAST),
    code(&["repeat_interleave"], "(x, 2)", "let z[.., n: {(1|2)} * {N}] = {(0)}[.., n / {(1|2)}]").with(LAST),
    code(&["cat", "concat", "concatenate"], "([x, y], 1)", "concat{along=0}({items})"),
    code(&["vstack"], "([x, y])", "concat{along=0}({items})"),
    code(&["hstack"], "([x, y])", "concat{along=1}({items})"),
    by(&["stack"], "([x, y], 2)", Write::Stack),
    by(&["split"], "(x, 2, 1)", Write::Part).with(BOTH),
    by(&["chunk", "tensor_split"], "(x, 2)", Write::Part).with(BOTH),
    code(&["unbind"], "(x)", "{(0)}[0, ..]").with(BOTH),
    by(
        &["flip"],
        "(x, -1)",
        Write::Index { last: "flip({0})", axis_at: 1, unsaid: -1, position: "$N - 1 - $i" },
    ),
    by(
        &["fliplr"],
        "(x)",
        Write::Index { last: "flip({0})", axis_at: 1, unsaid: 1, position: "$N - 1 - $i" },
    ),
    by(
        &["flipud"],
        "(x)",
        Write::Index { last: "flip({0})", axis_at: 1, unsaid: 0, position: "$N - 1 - $i" },
    ),
    by(&["roll"], "(x, 1, 1)", ROLLED),
    code(&["diff"], "(x)", "let z[.., n: {N} - 1] = {(0)}[.., n + 1] - {(0)}[.., n]"),
    by(&["pad"], "(x, (1, 0))", Write::Padded),
    code(
        &["unfold"],
        "(x, -1, 3, 1)",
        "let z[.., n: {N} - {2:size|3} + 1, k: {2:size|3}] = {(0)}[.., n + k]",
    )
    .with("that is with a step of one"),
    code(
        &["max_pool1d"],
        "(x, 2)",
        "let z[.., n: {N} / {(1|2)}] = max[k: {1|2}]({(0)}[.., n * {(1|2)} + k])",
    ),
    code(
        &["avg_pool1d"],
        "(x, 2)",
        "let z[.., n: {N} / {(1|2)}] = mean[k: {1|2}]({(0)}[.., n * {(1|2)} + k])",
    ),
    code(&["diag", "diagonal"], "(s)", "let z[i] = {(0)}[i, i]"),
    code(&["trace"], "(s)", "sum[i]({(0)}[i, i])"),
    code(&["tril"], "(s)", "let z[.., i, j] = if j <= i then {(0)}[.., i, j] else 0"),
    code(&["triu"], "(s)", "let z[.., i, j] = if j >= i then {(0)}[.., i, j] else 0"),
    by(&["shape", "size"], "(x, 0)", Write::Length),
    by(&["len", "numel", "dim", "ndim"], "(x)", Write::Length),
    // ---- positions
    code(
        &["gather", "take_along_axis", "take_along_dim"],
        "(s, 1, at)",
        "let z[i, k] = {(0)}[i, {(-1|at)}[i, k]]",
    ),
    code(&["take", "index_select"], "(w, 0, ids)", "{(0)}[{-1|ids}, :]"),
    code(&["one_hot"], "(ids, 5)", "one_hot[{1:num_classes|N}]({0})"),
    code(&["bincount"], "(ids)", "let z[n: N] = sum[i](if {(0)}[i] == n then 1 else 0)"),
    code(
        &["scatter", "scatter_add", "index_add"],
        "(r, 0, ids, r)",
        "let z[n: N] = sum[i](if {(2:index|ids)}[i] == n then {(3:src,source|r)}[i] else 0)",
    ),
    by(&["unique", "nonzero", "masked_select", "argwhere", "flatnonzero"], "(x)", Write::Nothing)
        .with(GROWS_WITH_DATA),
    // ---- new tensors
    by(&["zeros", "empty"], "(3, 4)", Write::Filled("0.0")),
    by(&["zeros_like", "empty_like"], "(x)", Write::Filled("0.0")),
    by(&["ones"], "(3, 4)", Write::Filled("1.0")),
    by(&["ones_like"], "(x)", Write::Filled("1.0")),
    by(&["full"], "((3, 4), 2.0)", Write::Filled("{1:fill_value|0.0}")),
    by(&["full_like"], "(x, 2.0)", Write::Filled("{1:fill_value|0.0}")),
    code(&["eye", "identity"], "(3)", "let z[i: {0}, j: {0}] = f32(i == j)"),
    by(&["arange", "range"], "(3)", Write::Range),
    code(&["linspace"], "(0, 1, 5)", "let z[i: {2|5}] = {(0)} + ({(1|1)} - {(0)}) * f32(i) / ({(2|5)} - 1)"),
    code(&["rand"], "(3)", "param z: f32[{items}] = uniform(0, 1)")
        .with("or an input: a model draws no numbers"),
    code(&["randn", "normal"], "(3)", "param z: f32[{items}] = normal(1)")
        .with("or an input: a model draws no numbers"),
    // ---- element types and places
    by(
        &["float", "half", "float32", "float16", "bfloat16", "int", "int32", "long", "int64", "bool"],
        "(x)",
        Write::Element,
    ),
    by(&["double", "float64"], "(x)", Write::Element).with("there are no numbers of 64 bits"),
    by(&["astype", "to", "type", "type_as"], "(x, int64)", Write::Element),
    code(&["contiguous", "clone", "copy", "cpu", "cuda", "numpy", "item"], "(x)", "{0}").with(AS_STORED),
    code(&["detach", "stop_gradient"], "(x)", "stop({0})"),
    by(&["array", "asarray", "tensor", "as_tensor", "from_numpy"], "([1.0, 2.0])", Write::Listed),
    // ---- layers
    code(&["Linear"], "(D, E)", "linear[{1:out_features|E}]({in|x})"),
    code(&["Embedding"], "(N, E)", "embedding[{0}, {1:embedding_dim|D}]({in|ids})"),
    code(&["LayerNorm"], "(D)", "layer_norm[eps = {1:eps|1e-5}]({in|x})"),
    code(&["RMSNorm"], "(D)", "rms_norm[eps = {1:eps|1e-6}]({in|x})"),
    code(&["Conv1d"], "(D, E, 3)", "conv1d[{1:out_channels|E}, {2:kernel_size|3}]({in|x})"),
    code(&["MultiheadAttention"], "(D, 2)", "multi_head[{1:num_heads|H}]({in|x, x, x})"),
    code(&["Dropout"], "(0.1)", "dropout({in|x}, {0:p|0.5})"),
    code(&["ReLU"], "()", "relu({in|x})"),
    code(&["GELU"], "()", "gelu_erf({in|x})"),
    code(&["SiLU"], "()", "silu({in|x})"),
    code(&["Sigmoid"], "()", "sigmoid({in|x})"),
    code(&["Softmax"], "(-1)", "softmax{along@0}({in|x})"),
    code(&["Parameter"], "(3)", "param z: f32[D] = zeros"),
    code(&["layer_norm"], "(x, D)", "layer_norm[eps = 1e-5]({0})"),
    code(&["rms_norm"], "(x, D)", "rms_norm[eps = 1e-6]({0})"),
    code(&["embedding"], "(ids, w)", "{(1|w)}[{0}, :]"),
    code(&["linear"], "(s, s)", "{(0)} @ {(1|w)}.T"),
];

/// Functions that do something to no value, and what does that here.
pub(super) const ACTIONS: &[(&str, &str)] = &[
    ("print", "a value is shown by `salient run --print NAME`"),
    ("println", "a value is shown by `salient run --print NAME`"),
    ("manual_seed", "values are drawn by `salient run --random SEED`"),
    ("no_grad", "nothing is recorded: a gradient is computed where `grad` asks for it"),
    ("compile", "`salient` compiles every model"),
];

/// Names that are values, not functions.
pub(super) const VALUES: &[(&str, &str)] = &[
    ("True", "true"),
    ("False", "false"),
    ("inf", "inf"),
    ("Inf", "inf"),
    ("nan", "nan"),
    ("NaN", "nan"),
    ("pi", "pi"),
    ("newaxis", "_"),
    ("None", "_"),
];
