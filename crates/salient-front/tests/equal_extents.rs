//! Axes that happen to be equally long stay different axes.

use salient_front::{Settings, Sources, compile};
use salient_ir::text;

fn graph(source: &str) -> String {
    let mut sources = Sources::new();
    sources.add("test.attn", source);
    match compile(&sources, None, &Settings::default()) {
        Ok(lowered) => text::print(&lowered.graph),
        Err(faults) => panic!("{}", salient_front::render(&faults, &sources, false)),
    }
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
