//! Programs as people write them who know NumPy, PyTorch, Python or C: each has one error, which says what to write instead,
//! and what it says to write is in a program that compiles.
//!
//! What a program of the right form gets wrong is in `diagnostics.rs`, and what is misplaced in `syntax.rs`.

use salient_front::habits::EXAMPLE;
use salient_front::{Settings, Sources, compile, render};

/// A program as people write it, and as it is to be written: whole, or the statements of a model over the example's tensors.
type Pair = (&'static str, &'static str);

fn program(text: &str) -> String {
    let whole = ["model ", "fn ", "block "].iter().any(|keyword| text.contains(keyword));
    if whole { text.to_owned() } else { format!("{EXAMPLE} {{\n    {text}\n}}\n") }
}

/// What stands in backticks behind `write`.
fn suggested(help: &str) -> Vec<String> {
    help.split("write `")
        .skip(1)
        .filter_map(|rest| rest.split_once('`'))
        .map(|(code, _)| plain(code))
        .collect()
}

/// A text without white space, so that layout does not count.
fn plain(text: &str) -> String {
    text.chars().filter(|c| !c.is_whitespace()).collect()
}

/// The messages for a wrong program, once they are looked at.
fn told((wrong, right): &Pair) -> Result<String, String> {
    let (text, mended) = (program(wrong), program(right));
    let mut sources = Sources::new();
    sources.add("test.attn", &text);
    let errors =
        compile(&sources, None, &Settings::default()).err().ok_or_else(|| format!("it is taken: {wrong}"))?;
    let shown = render(&errors, &sources, false);
    let [error] = errors.as_slice() else { return Err(format!("not one error: {shown}")) };
    let help = error.help.as_deref().ok_or_else(|| format!("no help: {shown}"))?;
    if shown.contains("cannot stand") {
        return Err(shown);
    }
    for code in suggested(help) {
        let mended = plain(&mended);
        if !code.split('…').all(|part| mended.contains(part.trim_end_matches('}'))) {
            return Err(format!("not in what is right, {right}: {shown}"));
        }
    }
    let mut sources = Sources::new();
    sources.add("mended.attn", &mended);
    compile(&sources, None, &Settings::default()).map_err(|errors| render(&errors, &sources, false))?;
    Ok(shown)
}

/// The head of the example is the same in each message: one line of it says nothing.
fn without_head(shown: &str) -> String {
    shown.replace(EXAMPLE, "model m[…](…)")
}

fn family(name: &str, pairs: &[Pair]) {
    let mut failed = Vec::new();
    let mut report = String::new();
    for pair in pairs {
        match told(pair) {
            Ok(shown) => report += &format!("{}\n\n{}\n", pair.0, without_head(&shown)),
            Err(why) => failed.push(why),
        }
    }
    assert!(failed.is_empty(), "{} of {}:\n{}", failed.len(), pairs.len(), failed.join("\n\n"));
    insta::with_settings!({omit_expression => true}, { insta::assert_snapshot!(name, report) });
}

macro_rules! families {
    ($($name:ident: [$($pair:expr),* $(,)?];)*) => {
        $(#[test]
        fn $name() {
            family(stringify!($name), &[$($pair),*]);
        })*

        /// Every pair.
        const ALL: &[&[Pair]] = &[$(&[$($pair),*]),*];
    };
}

families! {
    methods: [
        ("return x.sum(-1)", "return sum(x)"),
        ("return x.sum(1)", "return sum[t](x)"),
        ("return x.sum()", "return sum[b, t, d](x)"),
        ("return x.sum(dim=(1, 2))", "return sum[t, d](x)"),
        ("return x.max(dim=-1)", "return max(x)"),
        ("return x.max(dim=1)", "return max[t](x)"),
        ("return x.mean(axis=-1, keepdims=True)", "return mean(x)[.., _]"),
        ("return x.mean(dim=1, keepdim=True)", "return mean[t](x)[:, _, :]"),
        ("let z = x + 1\n    return z.sum(-1)", "let z = x + 1\n    return sum(z)"),
        ("return (x + y).sum(-1)", "return sum(x + y)"),
        ("return x.reshape(-1)", "let z[.., h: H, e: D / H] = x[.., h * (D / H) + e]\n    return z"),
        ("return x.view(B, T, H, -1)", "let z[.., h: H, e: D / H] = x[.., h * (D / H) + e]\n    return z"),
        ("return x @ y.transpose(-1, -2)", "return x @ y.T"),
        ("return x @ y.transpose(-2, -1)", "return x @ y.T"),
        ("return x.transpose(0, 1)", "let z[t, b, d] = x[b, t, d]\n    return z"),
        ("return x.permute(0, 2, 1)", "return x.T"),
        ("return x.permute(2, 0, 1)", "let z[d, b, t] = x[b, t, d]\n    return z"),
        ("return s.t()", "return s.T"),
        ("return x / x.shape[0]", "return x / B"),
        ("return x / x.shape[-1]", "return x / D"),
        ("return x / x.size(1)", "return x / T"),
        ("return x.masked_fill(mask, float('-inf'))", "return if mask then -inf else x"),
        ("return x.masked_fill(mask == 0, -1e9)", "return if mask == 0 then -1e9 else x"),
        ("return x.float()", "return f32(x)"),
        ("return ids.long()", "return i64(ids)"),
        ("return x.to(torch.float32)", "return f32(x)"),
        ("return x.contiguous()", "return x"),
        ("return x.softmax(dim=-1)", "return softmax(x)"),
        ("return x.transpose(1, 2).contiguous()", "return x.T"),
        ("return x.exp().sum(-1)", "return sum(exp(x))"),
        ("return x.unsqueeze(1)", "return x[:, _, ..]"),
        ("return x.unsqueeze(-1)", "return x[.., _]"),
        ("return x.clamp(min=0)", "return clamp(x, 0, inf)"),
        ("return x.pow(2)", "return x ** 2"),
        ("return x.frobnicate()", "return softmax(x)"),
    ];
    modules: [
        ("return np.exp(x)", "return exp(x)"),
        ("return np.sum(x, axis=-1)", "return sum(x)"),
        ("return np.sum(x, axis=1)", "return sum[t](x)"),
        ("return np.einsum('btd,de->bte', x, w)", "let z[b, t, e] = sum[d](x[b, t, d] * w[d, e])\n    return z"),
        ("return np.maximum(x, 0)", "return max(x, 0)"),
        ("return torch.softmax(x, dim=1)", "return softmax[t](x)"),
        ("return torch.matmul(x, w)", "return x @ w"),
        ("return torch.where(mask, x, -torch.inf)", "return if mask then x else -inf"),
        ("return torch.cat([x, y], dim=-1)", "return concat(x, y)"),
        ("return torch.cat((x, y), dim=1)", "return concat[t](x, y)"),
        ("return torch.nn.functional.relu(x)", "return relu(x)"),
        ("return F.softmax(x, dim=-1)", "return softmax(x)"),
        ("return F.gelu(x)", "return gelu_erf(x)"),
        ("return F.scaled_dot_product_attention(x, x, y)", "return scaled_attention(x, x, y)"),
        ("return nn.Linear(D, E)(x)", "return linear[E](x)"),
        ("return nn.LayerNorm(D)(x)", "return layer_norm[eps = 1e-5](x)"),
        ("return x * math.pi", "return x * pi"),
        ("return if mask then x else -np.inf", "return if mask then x else -inf"),
        ("return x / math.sqrt(D)", "return x / sqrt(D)"),
        ("return self.W_q(x)", "return linear[E](x) as W_q"),
        ("return x[:, np.newaxis]", "return x[:, _, ..]"),
        ("return np.frobnicate(x)", "return softmax(x)"),
    ];
    functions: [
        ("return clip(x, 0, 1)", "return clamp(x, 0, 1)"),
        ("return zeros((3, 4))", "let z[i: 3, j: 4] = 0.0\n    return z"),
        ("return zeros(3)", "let z[i: 3] = 0.0\n    return z"),
        ("return topk(x, 2)", "return top_k[2](x)"),
        ("return gather(s, 1, at)", "let z[i, k] = s[i, at[i, k]]\n    return z"),
        ("return roll(x, 1)", "return roll[1](x)"),
        ("return flip(x, -1)", "return flip(x)"),
        ("return stack([x, y])", "return stack(x, y)"),
        ("return split(x, 2, -1)", "return x[.., 0:2]"),
        ("return logsigmoid(x)", "return log_sigmoid(x)"),
        ("return norm(x, dim=-1)", "return sqrt(sum(x ** 2))"),
        ("return tril(s)", "let z[.., i, j] = if j <= i then s[.., i, j] else 0\n    return z"),
        ("return triu(s)", "let z[.., i, j] = if j >= i then s[.., i, j] else 0\n    return z"),
        ("return unsqueeze(x, 0)", "return x[_, ..]"),
        ("return std(x, -1)", "return sqrt(var[correction = 1](x))"),
        ("return arange(T)", "let z[i: T] = i\n    return z"),
        ("return softmax(x, -1)", "return softmax(x)"),
        ("return softmax(x, dim = 1)", "return softmax[t](x)"),
        ("return softmax(x, axis=-1)", "return softmax(x)"),
        ("return sum(x, 1)", "return sum[t](x)"),
        ("return sum(x, axis=1)", "return sum[t](x)"),
        ("return max(x, dim=1)", "return max[t](x)"),
        ("return concat([x, y], 1)", "return concat[t](x, y)"),
        ("return concatenate((x, y), axis=1)", "return concat[t](x, y)"),
        ("return linear(E)(x)", "return linear[E](x)"),
        ("return linear(E)[x]", "return linear[E](x)"),
        ("return layer_norm(x, D)", "return layer_norm[eps = 1e-5](x)"),
        ("return if mask then x else None", "return x[:, _, ..]"),
        ("return if True then x else y", "return if true then x else y"),
    ];
    structure: [
        ("return (x + 1\n    let z = y", "return (x + 1)"),
        ("let z = x[b, t\n    return z", "let z[b, t] = x[b, t, 0]\n    return x[b, t, 0]"),
        ("let z = x + 1)\n    return z", "let z = x + 1\n    return z"),
        ("return x y", "return x * y"),
        ("return 1e-5 x", "return 1e-5 * x"),
        ("return 2x", "return 2 * x"),
        ("let z[i j] = s[i, j]\n    return z", "let z[i, j] = s[i, j]\n    return z"),
        ("return (f32) ids", "return f32(ids)"),
        ("return ids as f32", "return f32(ids)"),
        ("return s^T", "return s.T"),
        ("return s.T()", "return s.T"),
        ("return if mask: x else: y", "return if mask then x else y"),
        ("return x if True else y", "return if true then x else y"),
        ("let return = x\n    return x", "let return_ = x\n    return return_"),
        ("let 1z = x\n    return x", "let y1z = x\n    return y1z"),
        ("let z-a = x\n    return x", "let z_a = x\n    return z_a"),
        ("return x |> softmax", "return softmax(x)"),
        ("return x?", "return x"),
        ("return softmax[dim = -1](x)", "return softmax(x)"),
        ("return x.masked_fill(mask, float('-inf')).softmax(-1)", "return softmax(if mask then -inf else x)"),
        ("return if mask then x else float('-inf')", "return if mask then x else -inf"),
        ("return gelu(x, approximate='tanh')", "return gelu_erf(x)"),
        ("return torch.matmul(y, x.transpose(1, 2))", "return y @ x.T"),
        ("return torch.exp(torch.sum(x, dim=-1, keepdim=True))", "return exp(sum(x)[.., _])"),
        ("return F.scaled_dot_product_attention(x, x, y, is_causal=True)", "return scaled_attention(x, x, y, causal[T, T, offset = 0]())"),
        ("return F.scaled_dot_product_attention(x, x, y, attn_mask=s > 0)", "return scaled_attention(x, x, y, s > 0)"),
    ];
    loops: [
        ("let z = x\n    for i in range(3):\n        z = z + 1\n    return z", "let z = x\n    for i in 0..3 { z = z + 1 }\n    return z"),
        ("let z = x\n    for i in range(3) {\n        z = z + 1\n    }\n    return z", "let z = x\n    for i in 0..3 { z = z + 1 }\n    return z"),
        ("let z = x\n    for i in range(1, 3) {\n        z = z + 1\n    }\n    return z", "let z = x\n    for i in 1..3 { z = z + 1 }\n    return z"),
        ("let z = x\n    for i in 0..3:\n        z = z + 1\n    return z", "let z = x\n    for i in 0..3 { z = z + 1 }\n    return z"),
        ("let z = x\n    for i in 0...3 {\n        z = z + 1\n    }\n    return z", "let z = x\n    for i in 0..3 { z = z + 1 }\n    return z"),
        ("let z = x\n    for i in 0..=3 {\n        z = z + 1\n    }\n    return z", "let z = x\n    for i in 0..3 + 1 { z = z + 1 }\n    return z"),
        ("let z = x\n    for (int i = 0; i < 3; i++) {\n        z = z + 1\n    }\n    return z", "let z = x\n    for i in 0..3 { z = z + 1 }\n    return z"),
        ("let z = x\n    for i = 0:3 {\n        z = z + 1\n    }\n    return z", "let z = x\n    for i in 0..3 { z = z + 1 }\n    return z"),
        ("let table[a: 3, d] = u[d]\n    let z = x\n    for i, l in enumerate(table) {\n        z = z + 1\n    }\n    return z", "let z = x\n    for i in 0..3 { z = z + 1 }\n    return z"),
        ("return concat(x * h for h in range(H))", "return concat(x * h for h in 0..H)"),
        ("let z = x\n    while true {\n        z = z + 1\n    }\n    return z", "let z = x\n    for i in 0..3 { z = z + 1 }\n    return z"),
    ];
    statements: [
        ("let z = x\n    z += 1\n    return z", "let z = x\n    z = z + 1\n    return z"),
        ("let z = x\n    z *= y + 1\n    return z", "let z = x\n    z = z * (y + 1)\n    return z"),
        ("let z = x\n    z -= y\n    return z", "let z = x\n    z = z - y\n    return z"),
        ("let z = x\n    z++\n    return z", "let z = x\n    z = z + 1\n    return z"),
        ("u[0] = 1\n    return u", "let u[d] = if d == 0 then 1 else u[d]\n    return u"),
        ("s[0, 1] = 2.0\n    return s", "let s[i, j] = if i == 0 and j == 1 then 2.0 else s[i, j]\n    return s"),
        ("var z = x\n    return z", "let z = x\n    return z"),
        ("float z = x\n    return z", "let z = x\n    return z"),
        ("let mut z = x\n    return z", "let z = x\n    return z"),
        ("let z := x\n    return z", "let z = x\n    return z"),
        ("let z = x;\n    return z", "let z = x\n    return z"),
        ("let z <- x\n    return z", "let z = x\n    return z"),
        ("assert T == D\n    return x", "require T == D\n    return x"),
        ("print(x)\n    return x", "return x"),
        ("if H > 1:\n        let z = x\n    else:\n        let z = y\n    return x", "if H > 1 { let z = x } else { let z = y }\n    return x"),
        ("let (a, b) = top_k[2](x)\n    return a, b", "let a, b = top_k[2](x)\n    return a, b"),
        ("return (x, y)", "return x, y"),
        ("let z = [u, v]\n    return z", "let z = stack(u, v)\n    return z"),
        ("let f = lambda a: a * 2\n    return f(x)", "fn f(a) { return a * 2 }\nmodel m(x: f32[T]) { return f(x) }"),
        ("let f = a => a * 2\n    return f(x)", "fn f(a) { return a * 2 }\nmodel m(x: f32[T]) { return f(x) }"),
        ("let f = |a| a * 2\n    return f(x)", "fn f(a) { return a * 2 }\nmodel m(x: f32[T]) { return f(x) }"),
    ];
    expressions: [
        ("return x[..., 0]", "return x[.., 0]"),
        ("return x[:, None]", "return x[:, _, ..]"),
        ("return u[::-1]", "return flip(u)"),
        ("return u[::2]", "let z[n: D / 2] = u[n * 2]\n    return z"),
        ("return x[:, ::-1]", "let z[i, n: T, ..] = x[i, T - 1 - n, ..]\n    return z"),
        ("return x * 1.0f", "return x * 1.0"),
        ("return x * 2L", "return x * 2"),
        ("return x * .5", "return x * 0.5"),
        ("return x * 2.", "return x * 2.0"),
        ("return |x|", "return abs(x)"),
        ("return mask && keep", "return mask and keep"),
        ("return mask || keep", "return mask or keep"),
        ("return mask & keep", "return mask and keep"),
        ("return mask | keep", "return mask or keep"),
        ("return !mask", "return not mask"),
        ("return ~mask", "return not mask"),
        ("return x ^ 2", "return x ** 2"),
        ("return x <> y", "return x != y"),
        ("return x === y", "return x == y"),
        ("return x =< y", "return x <= y"),
        ("return x × y", "return x * y"),
        ("return x ÷ y", "return x / y"),
        ("return x − y", "return x - y"),
        ("return x ≤ y", "return x <= y"),
        ("return x ≥ y", "return x >= y"),
        ("return x ≠ y", "return x != y"),
        ("return ∞ * x", "return inf * x"),
        ("return mask is keep", "return mask == keep"),
        ("return mask is not keep", "return mask != keep"),
        ("return if mask is None then x else y", "return x"),
        ("return if mask == None then x else y", "return x"),
        ("return mask ? x : y", "return if mask then x else y"),
        ("return x if mask else y", "return if mask then x else y"),
        ("let z = if mask { x } else { y }\n    return z", "let z = if mask then x else y\n    return z"),
        ("return (x // 2)", "return x"),
        ("return x /* the input */ + y", "return x + y"),
        ("return x # the input", "return x"),
        ("return x + \\\n        y", "return x + y"),
    ];
    declarations: [
        ("import numpy as np\n\nmodel m(x: f32[T]) {\n    return x\n}\n", "model m(x: f32[T]) {\n    return x\n}\n"),
        ("import torch\n\nmodel m(x: f32[T]) {\n    return x\n}\n", "model m(x: f32[T]) {\n    return x\n}\n"),
        ("from torch import nn\n\nmodel m(x: f32[T]) {\n    return x\n}\n", "model m(x: f32[T]) {\n    return x\n}\n"),
        ("import “layers.attn”\n\nmodel m(x: f32[T]) {\n    return x\n}\n", "model m(x: f32[T]) {\n    return x\n}\n"),
        ("import 'layers.attn'\n\nmodel m(x: f32[T]) {\n    return x\n}\n", "model m(x: f32[T]) {\n    return x\n}\n"),
        ("class Attention(nn.Module):\n    def forward(self, x):\n        return self.W(x)\n\nmodel m(x: f32[T]) {\n    return x\n}\n", "model m(x: f32[T]) {\n    return x\n}\n"),
        ("function f(x) {\n    return x\n}\n\nmodel m(x: f32[T]) {\n    return x\n}\n", "fn f(x) {\n    return x\n}\n\nmodel m(x: f32[T]) {\n    return f(x)\n}\n"),
        ("def f(x):\n    return x\n\nmodel m(x: f32[T]) {\n    return x\n}\n", "fn f(x) {\n    return x\n}\n\nmodel m(x: f32[T]) {\n    return f(x)\n}\n"),
        ("model m(x: f32[T]): f32[T] {\n    return x\n}\n", "model m(x: f32[T]) -> f32[T] {\n    return x\n}\n"),
        ("model m(x: f32[T]) -> f32[T]:\n    return x\n", "model m(x: f32[T]) -> f32[T] {\n    return x\n}\n"),
        ("@jit\nmodel m(x: f32[T]) {\n    return x\n}\n", "model m(x: f32[T]) {\n    return x\n}\n"),
        ("model m(x: f32[rows, D]) {\n    return x\n}\n", "model m(x: f32[Rows, D]) {\n    return x\n}\n"),
        ("model m(x: f32[T, D], y: f32[t, D]) {\n    return x, y\n}\n", "model m(x: f32[T, D], y: f32[T, D]) {\n    return x, y\n}\n"),
        ("model m(x: f32[T, D]) {\n    return x / sqrt(Dd)\n}\n", "model m(x: f32[T, D]) {\n    return x / sqrt(D)\n}\n"),
        ("model m(x: f32[T, D]) {\n    return linear[d](x)\n}\n", "model m(x: f32[T, D]) {\n    return linear[D](x)\n}\n"),
        ("model m(x: float32[T, D]) {\n    return x\n}\n", "model m(x: f32[T, D]) {\n    return x\n}\n"),
        ("model m(x: Tensor) {\n    return x\n}\n", "model m(x: f32[T, D]) {\n    return x\n}\n"),
    ];
}

#[test]
fn there_are_many() {
    assert!(ALL.iter().map(|family| family.len()).sum::<usize>() >= 150);
}

/// A program that is being written is answered at every letter.
#[test]
fn what_is_half_written_is_answered() {
    for (wrong, _) in ALL.iter().copied().flatten() {
        for end in (0..wrong.len()).filter(|end| wrong.is_char_boundary(*end)) {
            for text in [program(&wrong[..end]), program(&wrong[end..]), wrong[..end].to_owned()] {
                let mut sources = Sources::new();
                sources.add("test.attn", &text);
                if let Err(errors) = compile(&sources, None, &Settings::default()) {
                    assert!(!render(&errors, &sources, false).is_empty());
                }
            }
        }
    }
}

/// Arguments that no call has are answered too.
#[test]
fn odd_arguments_are_answered() {
    let arguments = [
        "",
        "()",
        "c",
        "x, 99999999999999999999",
        "x, -9223372036854775808",
        "x, 1000000000000",
        "c, 0",
        "c, -1",
        "x, (0, 0, 0, 0, 0, 0, 0, 0)",
        "x, dim=-7",
        "[], 0",
        "[[], []]",
        "'->'",
        "'ab->', x",
        "x, x, x, x, x",
    ];
    for known in salient_front::habits::known_names() {
        for given in arguments {
            for call in [
                format!("torch.{}({given})", known.name),
                format!("{}({given})", known.name),
                format!("c.{}({given})", known.name),
            ] {
                let text = format!("model m(x: f32[B, T, D], c: f32[]) {{\n    return {call}\n}}\n");
                let mut sources = Sources::new();
                sources.add("test.attn", &text);
                if let Err(errors) = compile(&sources, None, &Settings::default()) {
                    assert!(!errors.is_empty(), "{call}");
                }
            }
        }
    }
}

/// Tabs are white space, and the one layout has none.
#[test]
fn tabs_are_taken() {
    let text = "model m(x: f32[T]) {\n\treturn x\n}\n";
    let mut sources = Sources::new();
    let id = sources.add("tabs.attn", text);
    assert!(compile(&sources, None, &Settings::default()).is_ok());
    assert_eq!(salient_front::format(sources.file(id)).expect("it parses"), text.replace('\t', "    "));
}

/// Several mistakes in one function are told at once.
#[test]
fn each_mistake_is_told() {
    let text = program(
        "let z = x\n    z += 1\n    for i in range(3):\n        z = z && mask\n    return z.sum(-1), np.exp(z)",
    );
    let mut sources = Sources::new();
    sources.add("test.attn", &text);
    let errors = compile(&sources, None, &Settings::default()).expect_err("there are five mistakes");
    assert_eq!(errors.len(), 5, "{}", render(&errors, &sources, false));
}

/// Whatever a text repeats, it is answered at once.
#[test]
fn no_text_takes_long() {
    for piece in [
        "a ? ",
        "x if ",
        "for ",
        "for i in ",
        "x += ",
        "| ",
        "x.a",
        "f([ ",
        "/* ",
        "np.",
        "( ",
        "x[::",
        "‘",
        "lambda ",
        "if x:\n",
    ] {
        let text = format!("fn f(x) {{ return {} }}", piece.repeat(100_000 / piece.len()));
        let mut sources = Sources::new();
        let id = sources.add("long.attn", &text);
        let started = std::time::Instant::now();
        let errors = salient_front::parse(sources.file(id)).expect_err("this is no program");
        assert!(errors.len() <= 60, "{piece:?}: {} errors", errors.len());
        assert!(started.elapsed().as_secs() < 10, "{piece:?} takes {:?}", started.elapsed());
    }
}
