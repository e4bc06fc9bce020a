//! A drawing as DOT, for Graphviz.

use super::{Drawing, Role};
use std::fmt::Write;

/// The text that `dot` reads.
pub fn dot(drawing: &Drawing) -> String {
    let mut out = format!("digraph {} {{\n", quoted(&drawing.title));
    out.push_str("    node [shape=box, style=rounded, fontname=\"monospace\", fontsize=10];\n");
    out.push_str("    edge [fontname=\"monospace\", fontsize=9];\n");
    for (at, shape) in drawing.boxes.iter().enumerate() {
        let lines: Vec<&str> =
            [shape.title.as_str()].into_iter().chain(shape.rows.iter().map(|r| r.text())).collect();
        let style = match shape.role {
            Role::Fused => ", penwidth=2",
            Role::Input | Role::Output => ", style=\"rounded,dashed\"",
            Role::Value => "",
        };
        let _ = writeln!(out, "    b{at} [label={}{style}];", quoted(&lines.join("\n")));
    }
    for (at, block) in drawing.blocks.iter().enumerate() {
        let label = quoted(&block.title());
        let boxes: Vec<String> = block.boxes.iter().map(|at| format!("b{at};")).collect();
        let _ = writeln!(out, "    subgraph cluster_{at} {{ label={label}; {} }}", boxes.join(" "));
    }
    for edge in &drawing.edges {
        let _ = writeln!(out, "    b{} -> b{} [label={}];", edge.from, edge.to, quoted(&edge.label));
    }
    out + "}\n"
}

/// A text as DOT has it, lines centred.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"))
}
