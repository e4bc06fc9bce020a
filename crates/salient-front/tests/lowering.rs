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
