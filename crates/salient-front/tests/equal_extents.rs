//! Axes that happen to be equally long stay different axes.

use salient_front::{Settings, Sources, compile};
use salient_ir::array::Array;
use salient_ir::{Bindings, DType, Graph, Name, Port, eval, text};
use std::collections::BTreeMap;
use std::path::Path;

fn graph(source: &str) -> String {
    graph_with(source, &[])
}

#[test]
fn a_square_layer_is_no_diagonal() {
    for (rows, inner, columns) in [("5", "7", "5"), ("5", "5", "5"), ("T", "T", "T"), ("T", "D", "T")] {
        let source = format!(
            "model m(x: f32[{rows}, {inner}]) -> f32[{rows}, {columns}] {{\n    return linear[{columns}, bias = false](x)\n}}\n"
        );
        let printed = graph(&source);
        let product = printed.lines().find(|l| l.contains('*')).expect("a product");
        let left = product.split('=').next().expect("a left side");
        assert_eq!(left.matches(',').count(), 2, "three axes in {product}");
    }
}

/// What is printed of a model after `set`.
fn graph_with(source: &str, set: &[(&str, &str)]) -> String {
    let mut sources = Sources::new();
    sources.add("test.attn", source);
    let set = set.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    match compile(&sources, None, &Settings { set, ..Settings::default() }) {
        Ok(lowered) => text::print(&lowered.graph),
        Err(faults) => panic!("{}", salient_front::render(&faults, &sources, false)),
    }
}

#[test]
fn rows_that_are_chosen_by_an_index_as_long_as_they_are_wide_stay_rows() {
    for index in ["table[ids, :]", "table[ids, ..]"] {
        let source = format!(
            "model m[V = 12, D = 8](table: f32[V, D], ids: i64[B, T]) -> f32[B, T, D] {{\n    return {index}\n}}\n"
        );
        let printed = graph_with(&source, &[("B", "3"), ("T", "8")]);
        assert!(printed.contains("[n, n.1, n.2: 8] = table[ids[n, n.1], n.2]"), "{printed}");
    }
}

#[test]
fn a_dimension_that_is_set_still_names_its_axis() {
    let source = "model m(x: f32[T, S]) -> f32[S] {\n    return sum[t](x)\n}\n";
    let printed = graph_with(source, &[("T", "7")]);
    assert!(printed.contains("sum[n](x[n, s])"), "{printed}");
    // Of one position too: there is nothing to add up.
    assert!(graph_with(source, &[("T", "1")]).contains("x[0, s]"));
    let named = "model m(x: f32[row: 1, S]) -> f32[S] {\n    return max[row](x)\n}\n";
    assert!(graph_with(named, &[]).contains("x[0, s]"));
    // The second axis of that name has none of its own, as where no number is set.
    let square = "model m(x: f32[T, T]) -> f32[T] {\n    return sum[t](x)\n}\n";
    assert!(graph_with(square, &[("T", "7")]).contains("= sum[n](x[n, n.1])"));
}

/// A graph's outputs with every symbolic dimension of that length, on random data that depends on shapes alone.
fn outputs(graph: &Graph, length: i64) -> Vec<(Name, Vec<f64>)> {
    let bindings: Bindings = graph.dimensions().into_iter().map(|s| (s, length)).collect();
    let data = |ports: &[Port]| -> BTreeMap<String, Array> {
        let mut rng = fastrand::Rng::with_seed(ports.len() as u64);
        let mut out = BTreeMap::new();
        for port in ports {
            let shape: Vec<usize> =
                graph.shape(&port.axes).iter().map(|d| d.eval(&bindings).unwrap() as usize).collect();
            let values: Vec<f64> = (0..shape.iter().product())
                .map(|_| match port.dtype {
                    DType::F32 | DType::F16 | DType::BF16 => rng.f64() - 0.5,
                    DType::I32 | DType::I64 => f64::from(rng.u8(0..3)),
                    DType::Bool => f64::from(rng.u8(0..2)),
                })
                .collect();
            out.insert(port.name.to_string(), Array::from_f64(port.dtype, shape, &values).unwrap());
        }
        out
    };
    let (inputs, params) = (data(graph.inputs()), data(graph.params()));
    eval::eval(graph, &bindings, eval::Data { inputs: &inputs, params: &params })
        .unwrap()
        .into_iter()
        .map(|(name, array)| (name, array.to_f64_vec()))
        .collect()
}

/// Every example means the same whether its dimensions are different symbols, or all the same number.
#[test]
fn examples_do_not_depend_on_dimensions_being_different() {
    let mut seen = 0;
    for folder in ["../../examples", "../../examples/seeds", "../../examples/variants"] {
        for entry in std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(folder)).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_none_or(|e| e != "attn") {
                continue;
            }
            let mut sources = Sources::new();
            sources.add("test.attn", &std::fs::read_to_string(&path).unwrap());
            let lower = |settings: &Settings| compile(&sources, None, settings).map(|l| l.graph);
            let symbolic = lower(&Settings::default()).unwrap();
            // Whole layers repeat what the smaller examples show, and the oracle is slow on them.
            if symbolic.len() > 90 {
                continue;
            }
            // One of the lengths is divisible by the number of heads.
            let fixed = |length: i64| {
                let set =
                    symbolic.dimensions().into_iter().map(|s| (s.to_string(), length.to_string())).collect();
                Some((length, lower(&Settings { set, ..Settings::default() }).ok()?))
            };
            let (length, equal) = [8, 6].into_iter().find_map(fixed).expect("a length that fits");
            for ((name, a), (_, b)) in outputs(&symbolic, length).into_iter().zip(outputs(&equal, length)) {
                let same = a.iter().zip(&b).all(|(x, y)| (x - y).abs() < 1e-6 || (x.is_nan() && y.is_nan()));
                assert!(same && a.len() == b.len(), "{name} of {}", path.display());
            }
            seen += 1;
        }
    }
    assert!(seen > 35, "{seen} examples were found");
}

/// Axes by name and axes by position meet in the same way where they have one position.
#[test]
fn free_indices_meet_axes_of_one_position() {
    let header = "model m(x: f32[B, T, E], w: f32[B, T], g: f32[B], r: f32[T, E])";
    let programs = [
        "f32[B, T, E] {\n    return x + w[b, t]\n}",
        "f32[B, T, E] {\n    return w[b, t] * x - g[b]\n}",
        "f32[B, T, E] {\n    return g[b] * x[b, t, e] + r[t, e]\n}",
        "f32[T, B] {\n    let turned[t, b] = w[b, t]\n    return turned + g[b]\n}",
        "f32[B, T + T, E] {\n    let all[b: B, t, e] = r[t, e]\n    return concat[t](x, all[b, t, e])\n}",
        "f32[B, T, E] {\n    return if w[b, t] > 0 then x else r[t, e]\n}",
        "f32[B, T] {\n    return sum[e](x * w[b, t])\n}",
    ];
    let dimensions = ["B", "T", "E"];
    for program in programs {
        let mut sources = Sources::new();
        sources.add("test.attn", &format!("{header} -> {program}\n"));
        let lower = |settings: &Settings| match compile(&sources, None, settings) {
            Ok(lowered) => lowered.graph,
            Err(faults) => {
                panic!("{:?}: {}", settings.set, salient_front::render(&faults, &sources, false))
            }
        };
        let symbolic = lower(&Settings::default());
        let expected = outputs(&symbolic, 1);
        for chosen in 1..1 << dimensions.len() {
            let is_chosen = |n: &usize| (chosen >> n) & 1 == 1;
            let set =
                (0..dimensions.len()).filter(is_chosen).map(|n| (dimensions[n].to_owned(), "1".to_owned()));
            let fixed = lower(&Settings { set: set.collect(), ..Settings::default() });
            let same = expected.iter().zip(outputs(&fixed, 1)).all(|(a, b)| a.1 == b.1);
            assert!(same, "{program} with {chosen:b}");
        }
    }
}
