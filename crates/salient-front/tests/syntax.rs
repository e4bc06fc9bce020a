//! What parses, what is refused and with which words.

use salient_front::{Sources, parse, render};

/// Parses a text; the messages if it is refused.
fn messages(text: &str) -> Option<String> {
    let mut sources = Sources::new();
    let id = sources.add("test.attn", text);
    parse(sources.file(id)).err().map(|errors| render(&errors, &sources, false))
}

fn refused(text: &str) -> String {
    messages(text).expect("this text has a syntax error")
}

fn parses(text: &str) {
    if let Some(messages) = messages(text) {
        panic!("{messages}");
    }
}

#[test]
fn programs_of_every_kind_parse() {
    parses(
        "import \"layers.attn\"
        const C = 30.0
        /// Documented.
        block linear[O, bias = true](x: f32[.., I]) -> f32[.., O] {
            /// The weight.
            param weight: f32[O, I] = uniform(-1 / sqrt(I), 1 / sqrt(I))
            param other: f32[O] as some.path.{O}x
            let y[.., o] = sum[i](x[.., i] * weight[o, i])
            if bias { param bias: f32[O] = zeros  return y + bias } else { return y }
        }
        fn of[axis j, eps](s, f: fn, scale = 1.0) { return f(s) ** 2 * -scale }
        model m[V = 30_522, L = 6](ids: i64[B, T], keep: bool[B, 3 * T - 1]) -> (a: f32[B, D], b: bool[1]) {
            require V % L == 0, \"message\"
            let x = embedding[V, D](ids) as embeddings.word_embeddings + p(ids) as e.0.q.{L}
            for l in 0..L { x = layer[H](x, keep = keep) as encoder.layer.{l} }
            let window[i: T, j: T] = j <= i and i - j < W or not (0 <= i - j < W)
            let a, b[i, _, ..] = f(x)[.., _]
            let c: f32[T] = concat[d](head[E](x) as heads.{h} for h in 0..H)
            state keys: f32[B, S], values: f32[B, S]
            if L == 1 { x = a } else if L == 2 { x = b } else { x = c }
            return if e < E / 2 then x[b, h * E + e, 0:3, :, 1:] else -inf, x @ x.T / 1e-3, sum[j: T](score.1[j])
        }",
    );
}

#[test]
fn syntax_errors_say_what_is_expected() {
    let cases = [
        ("operator_without_operand", "fn f(x) {\n    return x +\n}\n"),
        ("missing_closing_parenthesis", "fn f(x) {\n    let y = (x + 1\n    return y\n}\n"),
        ("habit_and", "fn f(a, b) {\n    return a && b\n}\n"),
        ("habit_semicolon", "fn f(a) {\n    let b = a;\n    return b\n}\n"),
        ("habit_ternary", "fn f(a) {\n    return a ? 1 : 2\n}\n"),
        ("stray_documentation", "fn f(a) {\n    /// what this does\n    let b = a\n    return b\n}\n"),
        ("choice_without_else", "fn f(a) {\n    return if a then 1\n}\n"),
        ("value_without_return", "fn f(a, b) {\n    let c = a\n    g(c) @ b\n}\n"),
        ("name_without_return", "fn f(a) {\n    let c = a\n    c\n}\n"),
        ("value_before_a_definition", "fn f(a) {\n    f(a)\n    c = 3\n    return c\n}\n"),
        ("keyword_as_name", "fn f(a) {\n    let for = a\n    return a\n}\n"),
        ("end_in_the_middle", "fn f(a) {\n    return a\n"),
        ("text_before_declarations", "hello\nfn f(a) {\n    return a\n}\n"),
        ("integer_too_large", "const N = 99999999999999999999\n"),
        ("two_at_once", "fn f(a) {\n    return a +\n}\n\nfn g(a) {\n    let = a\n    return a\n}\n"),
    ];
    for (name, text) in cases {
        insta::assert_snapshot!(name, refused(text));
    }
}

#[test]
fn hostile_nesting_is_refused() {
    let nested = |open: &str, inner: &str, close: &str, n: usize| {
        format!("fn f(x) {{ return {}{inner}{} }}", open.repeat(n), close.repeat(n))
    };
    for text in [
        nested("(", "x", ")", 100_000),
        nested("[", "", "", 100_000),
        nested("x[", "x", "]", 100_000),
        nested("-", "x", "", 100_000),
        nested("not ", "x", "", 100_000),
        nested("x ** ", "x", "", 100_000),
        nested("if x then x else ", "x", "", 50_000),
        nested("if x then ", "x", " else x", 50_000),
        nested("f(", "x", ")", 100_000),
        format!("fn f(x) {{ {} }}", "if x { } else ".repeat(50_000)),
        format!("fn f(x) {{ {} }}", "if x { ".repeat(50_000)),
    ] {
        let message = refused(&text);
        assert!(
            message.starts_with("error: this is nested too deeply"),
            "{}",
            &message[..200.min(message.len())]
        );
    }
    for text in [
        nested("x + ", "x", "", 100_000),
        nested("x", ".T", "", 1) + &nested("x", &".T".repeat(90_000), "", 1),
    ] {
        let message = refused(&text);
        assert!(message.starts_with("error: this expression has too many operators"), "{}", &message[..200]);
    }
}

#[test]
fn nesting_within_the_limits_is_taken() {
    let deep = format!("fn f(x) {{ return {}x{} }}", "(".repeat(60), ")".repeat(60));
    parses(&deep);
    parses(&format!("fn f(x) {{ return {}x }}", "x + ".repeat(200)));
}

#[test]
fn a_huge_file_is_refused() {
    let message = refused(&"// ten megabytes of nothing\n".repeat(10 << 20 >> 5));
    assert!(message.contains("a source file may have 1048576"), "{message}");
}

fn formatted(text: &str) -> String {
    let mut sources = Sources::new();
    let id = sources.add("test.attn", text);
    salient_front::format(sources.file(id)).unwrap_or_else(|e| panic!("{}", render(&e, &sources, false)))
}

#[test]
fn formatting_is_stable_and_keeps_comments() {
    let untidy = "// head\nimport   \"a.attn\"\nconst C=30.0   // a constant\n/// Documented.\nfn f [axis j](x:f32[..,I] ,y=-1)->f32[ .. ]
{ // first
let a   =  x  **2*-( y )// trailing


   // own line
let b[h:H,t] = sum[e: T]( a[ h , 0:3, .. ])
    +a.T [1:]
  if true {return a}
  else{ let c=b  return   c as x.{ l }.y }
}
model m(x: f32[T]) -> (
a: f32[T],
  b: f32[T],
) {
return foo(bar(
x,
)), if not a then -1 else - x
}
";
    let once = formatted(untidy);
    insta::assert_snapshot!("formatted", once);
    assert_eq!(formatted(&once), once);
}

#[test]
fn examples_are_formatted() {
    let here = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let folders = ["src/std", "../../examples", "../../examples/seeds", "../../examples/variants"];
    for entry in folders.map(|f| here.join(f)).iter().flat_map(|d| std::fs::read_dir(d).unwrap()) {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|e| e == "attn") {
            let text = std::fs::read_to_string(&path).unwrap();
            assert_eq!(formatted(&text), text, "{}", path.display());
        }
    }
}
