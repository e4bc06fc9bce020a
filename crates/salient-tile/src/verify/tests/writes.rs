//! Programs that write a result twice, or not all of it: the interpreter says where.

use super::addresses::{binding, kernel, tiled};
use super::{layer, rows};
use crate::dims::n;
use crate::eval::{Order, run};
use crate::program::kernel::{Int, Program};
use crate::schedule;
use salient_ir::array::Array;
use salient_ir::{Bindings, Dim, Graph, Symbol};
use salient_vector::eval::Machine;

/// What the interpreter says of a program at sizes of more than one block.
fn run_it(g: &Graph, program: &Program) -> Result<(), String> {
    let sizes = [("T", 70), ("D", 5), ("E", 18), ("N", 3)];
    let dims: Bindings = sizes.iter().map(|(name, n)| ((*name).into(), *n)).collect();
    let array = |shape: &[Dim]| {
        let shape: Vec<usize> = shape.iter().map(|d| d.eval(&dims).unwrap() as usize).collect();
        let count = shape.iter().product();
        Array::from_f32(shape, vec![1.0; count]).unwrap()
    };
    let of =
        |port: &salient_ir::Port| array(&port.axes.iter().map(|a| g.extent(*a).clone()).collect::<Vec<_>>());
    let inputs: Vec<Array> = g.inputs().iter().map(of).collect();
    let params: Vec<Array> = g.params().iter().map(of).collect();
    let (inputs, params): (Vec<&Array>, Vec<&Array>) = (inputs.iter().collect(), params.iter().collect());
    let machine = Machine { lanes: 4, fused: true };
    run(program, &dims, machine, Order::Forward, &inputs, &params).map(|_| ()).map_err(|e| e.to_string())
}

/// Breaks the program of a graph, which writes every element of its results once.
fn wrong(g: &Graph, expected: &str, change: impl FnOnce(&mut Program)) {
    let mut program = schedule(g, tiled());
    assert_eq!(run_it(g, &program), Ok(()));
    change(&mut program);
    let found = run_it(g, &program).expect_err("it is found");
    assert!(found.contains(expected), "`{expected}` is not `{found}`");
}

#[test]
fn an_item_too_few() {
    wrong(&rows(), "of `most` is not written", |program| {
        let kernel = kernel("most")(program);
        kernel.items = &kernel.items - &n(1);
    });
}

#[test]
fn blocks_that_overlap() {
    wrong(
        &layer(),
        "is written by item",
        binding("y", "first", |int| match int {
            Int::Dim(d) => Int::Dim(d.substitute(&[(Symbol::variable("block"), n(0))].into())),
            Int::Min(_) | Int::Max(_) => unreachable!("blocks begin one after the other"),
        }),
    );
}

#[test]
fn blocks_that_leave_a_row_between_them() {
    wrong(
        &layer(),
        "is not written",
        binding("y", "last", |int| match int {
            Int::Min(of) => Int::Min(of.iter().map(|d| d - &n(1)).collect()),
            Int::Dim(_) | Int::Max(_) => unreachable!("a block of rows ends at the edge"),
        }),
    );
}

#[test]
fn two_items_that_do_the_same() {
    wrong(&rows(), "is written by item 0 of `most` and by item 1", |program| {
        let kernel = kernel("most")(program);
        let item = Dim::symbol(&kernel.item);
        let zero = [(kernel.item.clone(), &item * &n(0))].into();
        for stmt in &mut kernel.block {
            if let crate::Stmt::Let { value: Int::Dim(d), .. } = stmt {
                *d = d.substitute(&zero);
            }
        }
    });
}
