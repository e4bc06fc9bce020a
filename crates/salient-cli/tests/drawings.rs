//! `salient ir --svg` and `--dot`: every node and edge is there, boxes do not overlap, equal layers are counted.

mod common;

use common::{salient, scratch};
use roxmltree::{Document, Node};
use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

const PROGRAMS: [&str; 4] = [
    "examples/causal_self_attention.attn",
    "examples/variants/soft_cap.attn",
    "examples/models/minilm.attn",
    "examples/models/gpt2.attn",
];
const STAGES: [&str; 3] = ["graph", "fused", "plan"];

/// The picture and the DOT of a stage.
fn drawn(program: &str, stage: &str, more: &[&str]) -> (String, String) {
    let name = program.replace('/', "_");
    let [svg, dot] = ["svg", "dot"].map(|end| scratch(&format!("{name}_{stage}_{}.{end}", more.len())));
    let [svg, dot] = [svg, dot].map(|path| path.display().to_string());
    let model: &[&str] = if program.ends_with("gpt2.attn") { &["--model", "gpt2"] } else { &[] };
    let args = ["ir", program, "--stage", stage, "--svg", &svg, "--dot", &dot];
    let ended = salient(&[args.as_slice(), model, more].concat());
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), ""), "{program} {stage}: {}", ended.stderr);
    (fs::read_to_string(svg).expect("a picture"), fs::read_to_string(dot).expect("a graph"))
}

fn number(node: Node<'_, '_>, name: &str) -> f64 {
    node.attribute(name).and_then(|text| text.parse().ok()).unwrap_or_else(|| panic!("no number {name}"))
}

/// The boxes of a picture: left, top, right, bottom.
fn boxes(document: &Document<'_>) -> Vec<(f64, f64, f64, f64)> {
    let shapes = document.descendants().filter(|node| node.attribute("class") == Some("shape"));
    let place = |node: Node<'_, '_>| {
        let [x, y, w, h] = ["x", "y", "width", "height"].map(|name| number(node, name));
        (x, y, x + w, y + h)
    };
    shapes.map(place).collect()
}

#[test]
fn pictures_are_xml_and_their_boxes_stand_apart() {
    for program in PROGRAMS {
        for stage in STAGES {
            let (svg, _) = drawn(program, stage, &[]);
            let document = Document::parse(&svg).unwrap_or_else(|e| panic!("{program} {stage}: {e}"));
            let boxes = boxes(&document);
            assert!(boxes.len() > 3, "{program} {stage}");
            let root = document.root_element();
            let (width, height) = (number(root, "width"), number(root, "height"));
            for (at, (left, top, right, bottom)) in boxes.iter().enumerate() {
                assert!(*left >= 0.0 && *top >= 0.0 && *right <= width && *bottom <= height);
                for other in &boxes[at + 1..] {
                    let apart =
                        *right <= other.0 || other.2 <= *left || *bottom <= other.1 || other.3 <= *top;
                    assert!(apart, "{program} {stage}: {:?} and {other:?}", boxes[at]);
                }
            }
        }
    }
}

#[test]
fn every_operator_stands_in_a_box() {
    for program in PROGRAMS {
        let (svg, _) = drawn(program, "graph", &[]);
        let document = Document::parse(&svg).expect("XML");
        let nodes = document.descendants().filter_map(|node| node.attribute("data-nodes"));
        let all: Vec<usize> =
            nodes.flat_map(str::split_whitespace).map(|n| n.parse().expect("a number")).collect();
        let shown: BTreeSet<usize> = all.iter().copied().collect();
        assert_eq!(all.len(), shown.len(), "{program}: an operator stands in two boxes");
        let model = if program.ends_with("gpt2.attn") { Some("gpt2".to_owned()) } else { None };
        let options = salient::Options { model, ..salient::Options::default() };
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let sources = salient::read_sources(root.join(program)).expect("a program");
        let graph = salient::lower(&sources, &options).expect("a graph").graph;
        // How parameters begin is no part of what is computed.
        let mut waiting: Vec<_> = graph.outputs().iter().map(|out| out.node).collect();
        let mut computed = BTreeSet::new();
        while let Some(id) = waiting.pop() {
            if computed.insert(id.index()) {
                waiting.extend(graph.args(id));
            }
        }
        assert!(computed.is_subset(&shown), "{program}: {:?}", computed.difference(&shown));
    }
}

#[test]
fn boxes_and_edges_are_those_of_the_graph() {
    let (svg, dot) = drawn(PROGRAMS[0], "plan", &[]);
    let document = Document::parse(&svg).expect("XML");
    let names: Vec<&str> = document
        .descendants()
        .filter(|n| n.attribute("class") == Some("name"))
        .filter_map(|n| n.text())
        .collect();
    for name in ["x", "gemm k + q + v", "attention context", "rows weights", "context", "weights"] {
        assert!(names.contains(&name), "{names:?}");
    }
    let edges = document.descendants().filter(|node| node.attribute("class") == Some("edge")).count();
    assert_eq!(edges, 7, "{svg}");
    assert_eq!(dot.matches(" -> ").count(), edges, "{dot}");
    assert!(svg.contains("4·B·T·T bytes") && svg.contains("keys 0 .. t + 1"));
    let (sized, _) = drawn(PROGRAMS[0], "plan", &["--set", "T=128", "--set", "B=2"]);
    assert!(sized.contains(">131.1 KB<"), "{sized}");
}

#[test]
fn equal_layers_are_drawn_once_with_their_number() {
    // In MiniLM the first layer reads the embeddings otherwise, but not once it is fused, and the last norm is one with the pooling
    // behind it.
    for stage in STAGES {
        let minilm =
            if stage == "fused" { "encoder.layer.{0 .. 5} × 5" } else { "encoder.layer.{1 .. 5} × 4" };
        for (program, title) in [(PROGRAMS[3], "h.{0 .. 12} × 12"), (PROGRAMS[2], minilm)] {
            let (svg, dot) = drawn(program, stage, &[]);
            assert!(svg.contains(title) && dot.contains(title), "{program} {stage}: {dot}");
        }
    }
}

#[test]
fn graphviz_takes_the_text() {
    for program in PROGRAMS {
        for stage in STAGES {
            let (_, dot) = drawn(program, stage, &[]);
            let quotes = dot.replace("\\\"", "").matches('"').count();
            assert!(quotes % 2 == 0 && dot.starts_with("digraph \"") && dot.ends_with("}\n"));
            let path = scratch(&format!("{}_{stage}_graphviz.dot", program.replace('/', "_")));
            fs::write(&path, &dot).expect("the tests' folder can be written");
            match Command::new("dot").arg("-Tcanon").arg(&path).output() {
                Ok(ended) => assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr)),
                Err(_) => println!("`dot` is not installed: Graphviz has not read {stage} of {program}"),
            }
        }
    }
}

#[test]
fn other_stages_are_not_drawn() {
    let path = scratch("no.svg").display().to_string();
    let ended = salient(&["ir", PROGRAMS[0], "--stage", "kernels", "--svg", &path]);
    assert_eq!(ended.code, Some(2));
    assert!(ended.stderr.contains("--svg and --dot draw graph, fused and plan"), "{}", ended.stderr);
}
