//! What programs mean: the graphs that they become.

use salient_front::{Settings, Sources, compile, render};
use std::path::Path;

fn example(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// The graph of a program in text form; the messages if it is refused.
fn graph(text: &str) -> String {
    let mut sources = Sources::new();
    sources.add("test.attn", text);
    match compile(&sources, None, &Settings::default()) {
        Ok(lowered) => {
            assert!(lowered.warnings.is_empty(), "{}", render(&lowered.warnings, &sources, false));
            salient_ir::text::print(&lowered.graph)
        }
        Err(errors) => panic!("{}", render(&errors, &sources, false)),
    }
}

#[test]
fn examples_become_graphs() {
    for name in [
        "001_single_query",
        "001_causal_two_ways",
        "001_multi_head",
        "003_fused_operator",
        "004_multi_head_loop",
    ] {
        let printed = graph(&example(&format!("seeds/{name}.attn")));
        insta::assert_snapshot!(name, printed);
    }
}

/// `parse(print(g)) = g`: the text form is a program, and it means the same graph.
#[test]
fn printed_graphs_read_back() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let mut seen = 0;
    for folder in [".", "seeds", "variants"] {
        for entry in std::fs::read_dir(examples.join(folder)).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            if name.ends_with(".attn") {
                let first = graph(&example(&format!("{folder}/{name}")));
                let second = graph(&first);
                assert_eq!(first, second, "{name}");
                seen += 1;
            }
        }
    }
    assert!(seen > 40, "{seen} examples were found");
}

/// What is shared is lowered and printed once, however often it is read; chains may be long.
#[test]
fn programs_that_grow_by_what_they_share_stay_small() {
    let rounds = |n: usize, first: &str, round: &str, last: &str| {
        format!(
            "model m(x: f32[T], k: bool[T]) {{\n    {first}\n{}    {last}\n}}\n",
            format!("    {round}\n").repeat(n)
        )
    };
    let unread = "let keep = k";
    for (times, first, round, last) in [
        (60, unread, "let keep = keep and k", "return if keep then x else x"),
        (10_000, unread, "keep = keep and k", "return if keep then x else x"),
        (
            40,
            "let j[i: T] = if k[i] then i else 0",
            "j[i: T] = j[i] + j[i]",
            "let y[i: T] = x[j[i] % T]\n    return y",
        ),
        (
            40,
            "let s = 1.0 / sqrt(T)",
            "s = s + s * s",
            "param w: f32[T] = normal(s)\n    return if k then x * w else x",
        ),
    ] {
        let text = graph(&rounds(times, first, round, last));
        assert!(text.len() < 600 * times, "{round}: {}", text.len());
        assert_eq!(graph(&text), text);
    }
}

/// The parts of a concatenation without a name for their one position are where the other parts have theirs.
#[test]
fn a_part_of_one_position_is_one_position() {
    let text = graph("model m(y: f32[T, D], o: f32[1, D]) {\n    return concat[t](y, o)\n}\n");
    assert!(text.contains("-> (output: f32[T + 1, D])"), "{text}");
}

/// What a text editor puts before a text is none of it.
#[test]
fn a_byte_order_mark_is_no_part_of_the_text() {
    let plain = "model m(x: f32[T]) {\n    return x\n}\n";
    assert_eq!(graph(&format!("\u{feff}{plain}")), graph(plain));
}

/// Constants at the ends of what can be written.
#[test]
fn no_constant_makes_the_compiler_panic() {
    let values = [
        "9223372036854775807",
        "-9223372036854775807 - 1",
        "-0.0",
        "1e-400",
        "1e-45",
        "3.4028235e38",
        "1e308",
        "0",
        "9007199254740993",
        "inf",
        "-inf",
        "nan",
        "true",
    ];
    for a in values {
        for op in ["+", "-", "*", "/", "%", "**", "==", "<"] {
            for b in values {
                let text = format!(
                    "const N = ({a}) {op} ({b})\nmodel m(x: f32[T]) {{\n    return if N == 0 then x else x * N\n}}\n"
                );
                let mut sources = Sources::new();
                sources.add("test.attn", &text);
                match compile(&sources, None, &Settings::default()) {
                    Ok(lowered) => {
                        assert_eq!(salient_ir::verify::verify(&lowered.graph), Vec::<String>::new())
                    }
                    Err(errors) => assert!(!render(&errors, &sources, false).is_empty()),
                }
            }
        }
    }
    // Integers are exact in all of their 64 bits.
    let exact = "const N = 9007199254740993 % 2\nmodel m(x: f32[T]) {\n    return x[N]\n}\n";
    assert!(graph(exact).contains("x[1]"), "{}", graph(exact));
}

/// A parameter's path may be an input's name, and an index's.
#[test]
fn ports_of_one_name_read_back() {
    for text in [
        "model m(x: f32[T], y: f32[T]) {\n    param w: f32[T] as x\n    param v: f32[T] as y\n    return y * v * w + x\n}\n",
        "model m(x: f32[T]) {\n    param w: f32[T] as x\n    param s: f32 as t\n    let z[t] = w[t] * s\n    return z, x\n}\n",
    ] {
        let first = graph(text);
        assert_eq!(graph(&first), first);
    }
}

/// A dump of a fused graph is a program too; a tensor and an axis may share a name in it.
#[test]
fn fused_operators_read_back() {
    let fused =
        "model m(q: f32[T, E], k: f32[S, E], v: f32[S, F]) -> (o: f32[T, F], w: f32[T, S], n: f32[T, S]) {
    let s.1[t, e, s] = q[t, e] * k[s, e]
    let s[t, s] = sum[e](s.1[t, e, s])
    let o[t, f] = fused.attend[s](s[t, s], v[s, f])
    let w[t, s] = fused.softmax[s](s[t, s])
    let n[t, s] = fused.norm[s](s[t, s])
    return o, w, n
}
";
    assert_eq!(graph(fused), fused);
}

const STEP: &str = "
block moved[momentum](p: f32[..], d: f32[..], rate: f32) -> f32[..] {
    state velocity: f32[..]
    velocity = momentum * velocity + d
    return p - rate * velocity
}

model step[D = 3](x: f32[B, D], rate: f32) -> (loss: f32, size: f32) {
    let y = linear[D](tanh(linear[D](x) as layers.0.up)) as layers.1.down
    let z = linear[1](y) as head
    let loss = sum[b, n](z[b, n] ** 2)
    let g = grad(loss, parameters.layers.*.down + parameters.head - parameters.head.bias)
    for p, d in g {
        if rank(p) == 2 {
            p = moved[0.9](p, 2 * d, rate) as opt.{p}
        } else {
            p = p - rate * d
        }
    }
    return loss, grad_norm(g)
}
";

/// What a loop over gradients assigns to is a state that begins as the parameter does; what no pattern names stays a parameter.
#[test]
fn parameters_that_are_moved_are_states() {
    let printed = graph(STEP);
    insta::assert_snapshot!("parameters_that_are_moved", printed);
    assert_eq!(printed, graph(&printed), "the text reads back");
}

#[test]
fn a_state_begins_as_its_initialiser_says() {
    let printed = graph(
        "model m[D = 4](x: f32[D]) {
            state seen: f32[D] = uniform(-1, 1 / sqrt(D)) as deep.seen, last: f32[D] = ones
            seen = seen + x
            last = x
            return seen * last
        }",
    );
    assert!(printed.contains("state deep_seen: f32[4] = uniform(-1.0, 0.5) as deep.seen\n"), "{printed}");
    assert!(printed.contains("state last: f32[4] = ones\n"), "{printed}");
    assert_eq!(printed, graph(&printed), "the text reads back");
}
