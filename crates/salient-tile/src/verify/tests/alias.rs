//! Wrong plans of outputs that lie where a temporary of the same elements is stored.

use super::{axis, dot, wrong};
use crate::plan::{Anchor, Options, Plan, plan};
use salient_ir::{Builder, DType, Dim, Graph, MapOp};

/// A product of which the output has rows and columns as one axis, the rows from the last to the first if `reversed`; twice if that
/// is asked for.
fn merged(reversed: bool, twice: bool) -> Graph {
    let mut b = Builder::new("merged");
    let (i, j, e) = (axis(&mut b, "i", "T"), axis(&mut b, "j", "S"), axis(&mut b, "e", "E"));
    let q = b.input("q", &[i, e], DType::F32, None);
    let k = b.input("k", &[j, e], DType::F32, None);
    let score = dot(&mut b, q, k, e);
    let (rows, columns) = (Dim::symbol("T"), Dim::symbol("S"));
    let flat = b.axis_id("flat", &(&rows * &columns));
    let place = b.iota(flat);
    let width = b.extent_of(&columns);
    let [mut row, column] = [MapOp::IntDiv, MapOp::Mod].map(|op| b.map(op, &[place, width]).unwrap());
    if reversed {
        let last = b.extent_of(&(&rows - &Dim::constant(1)));
        row = b.map(MapOp::Sub, &[last, row]).unwrap();
    }
    let of_row = b.at(score, i, row).unwrap();
    let y = b.at(of_row, j, column).unwrap();
    b.output("y", &[flat], y).unwrap();
    if twice {
        b.output("z", &[flat], y).unwrap();
    }
    b.finish()
}

fn alias(anchor: &Anchor) -> bool {
    matches!(anchor, Anchor::Alias(_))
}

fn aliases(plan: &Plan<'_>) -> usize {
    plan.kernels.iter().filter(|k| alias(&k.anchor)).count()
}

#[test]
fn an_output_of_the_same_elements_in_the_same_order_is_no_copy() {
    let g = merged(false, false);
    let plan = plan(&g, Options::default());
    assert_eq!(aliases(&plan), 1);
    // The product alone runs, and stores the output; nothing is stored beside it.
    let program = crate::emit::emit(&plan);
    assert!(program.kernels.iter().all(|k| k.reads.iter().all(|id| program.buffer(*id).name != "score")));
    let written: Vec<&str> =
        program.kernels.iter().flat_map(|k| &k.writes).map(|id| &*program.buffer(*id).name).collect();
    assert!(written.contains(&"y"), "{written:?}");
    assert_eq!(plan.order.iter().flatten().count() + 1, plan.kernels.len());
}

#[test]
fn a_second_output_is_a_copy() {
    let g = merged(false, true);
    assert_eq!(aliases(&plan(&g, Options::default())), 1);
}

#[test]
fn elements_in_another_order_are_copied() {
    assert_eq!(aliases(&plan(&merged(true, false), Options::default())), 0);
    assert_eq!(aliases(&plan(&merged(false, false), Options { fuse: false, ..Options::default() })), 0);
}

#[test]
fn an_alias_is_of_the_same_elements() {
    let g = merged(false, false);
    wrong(&g, "it does not lie as what is stored in its place", |plan| {
        let input = plan.buffers.iter().position(|b| b.name == "q").expect("an input");
        let k = plan.kernels.iter_mut().find(|k| alias(&k.anchor)).expect("an alias");
        k.anchor = Anchor::Alias(crate::program::kernel::BufferId(input));
    });
    wrong(&g, "its kernel runs 1 times", |plan| {
        let at = plan.kernels.iter().position(|k| alias(&k.anchor)).expect("an alias");
        plan.order.push(vec![at]);
    });
}
