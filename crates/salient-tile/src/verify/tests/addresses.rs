//! Programs that touch what is not theirs: each is found, with sizes at which it does.

use super::{attention, axis, layer, rows, swap_strides};
use crate::dims::n;
use crate::program::kernel::{Arg, Base, Int, Kernel, Program, Role, Stmt};
use crate::verify::assert_program;
use crate::verify::bounds::bounds;
use crate::{Options, Tiling, schedule};
use salient_ir::{Builder, Const, DType, Dim, Graph, MapOp, ReduceOp, Symbol};
use salient_vector::body::{Inst, Section};
use salient_vector::tile::Shape;
use std::sync::Arc;

/// `x[ids[t], d]`: rows of a table, at indices that are data.
pub(super) fn lookup() -> Graph {
    let mut b = Builder::new("lookup");
    let (v, t, d) = (axis(&mut b, "v", "V"), axis(&mut b, "t", "T"), axis(&mut b, "d", "D"));
    let x = b.input("x", &[v, d], DType::F32, None);
    let ids = b.input("ids", &[t], DType::I32, None);
    let y = b.at(x, v, ids).unwrap();
    b.output("y", &[t, d], y).unwrap();
    b.finish()
}

/// `sum[b](sum[t](if ids[b, t] == v then x[b, t, d] else 0))`: rows are added where data says.
pub(super) fn scattered() -> Graph {
    let mut b = Builder::new("scattered");
    let [v, t, d, n] = [("v", "V"), ("t", "T"), ("d", "D"), ("b", "B")].map(|(x, y)| axis(&mut b, x, y));
    let x = b.input("x", &[n, t, d], DType::F32, None);
    let ids = b.input("ids", &[n, t], DType::I64, None);
    let here = b.iota(v);
    let is_here = b.map(MapOp::Eq, &[ids, here]).unwrap();
    let zero = b.constant(Const::f32(0.0));
    let row = b.map(MapOp::Select, &[is_here, x, zero]).unwrap();
    let sum = b.reduce(ReduceOp::Sum, t, row).unwrap();
    let sum = b.reduce(ReduceOp::Sum, n, sum).unwrap();
    b.output("y", &[v, d], sum).unwrap();
    b.finish()
}

pub(super) fn tiled() -> Options<'static> {
    Options { tiling: Tiling::of(Shape { rows: 4, vectors: 4 }), ..Options::default() }
}

/// What is not proved of the addresses of a program.
fn open(program: &Program) -> String {
    bounds(program, &[]).undecided.iter().map(|u| format!("{u}\n")).collect()
}

/// Breaks the program of a graph, all of whose addresses are proved: one of them is known to be outside.
fn wrong(g: &Graph, expected: &str, change: impl FnOnce(&mut Program)) {
    let mut program = schedule(g, tiled());
    assert_eq!(open(&program), "");
    change(&mut program);
    let found = open(&program);
    assert!(found.contains(expected), "`{expected}` is not among what is not proved:\n{found}");
}

const AFTER: &str = "ends after the last element at";
const BEFORE: &str = "begins before the first element at";

/// Changes the first statement, inside or outside of others, that the change is for.
pub(super) fn first(block: &mut [Stmt], change: &mut dyn FnMut(&mut Stmt) -> bool) -> bool {
    block.iter_mut().any(|stmt| {
        change(stmt)
            || match stmt {
                Stmt::For { block, .. } => first(block, change),
                Stmt::If { then, otherwise, .. } => first(then, change) || first(otherwise, change),
                Stmt::Let { .. } | Stmt::Read { .. } | Stmt::Call { .. } => false,
            }
    })
}

/// The kernel that runs last: of an attention the one for many rows.
pub(super) const LAST: &str = "";

pub(super) fn kernel(named: &'static str) -> impl Fn(&mut Program) -> &mut Kernel {
    move |program| {
        if named == LAST {
            return program.kernels.last_mut().expect("a program has kernels");
        }
        let mut all = program.kernels.iter_mut();
        all.find(|k| k.name.contains(named)).expect("the program has such a kernel")
    }
}

/// Changes the first statement of a kernel that the change is for.
pub(super) fn statement(
    named: &'static str,
    mut change: impl FnMut(&mut Stmt) -> bool,
) -> impl FnOnce(&mut Program) {
    move |program| {
        let found = first(&mut kernel(named)(program).block, &mut change);
        assert!(found, "`{named}` has no such statement");
    }
}

/// Changes the arguments of the first call of a body whose name begins so.
pub(super) fn call(
    named: &'static str,
    body: &'static str,
    mut change: impl FnMut(&mut Vec<Arg>),
) -> impl FnOnce(&mut Program) {
    move |program| {
        let kernel = kernel(named)(program);
        let bodies: Vec<String> = kernel.bodies.iter().map(|b| b.name.clone()).collect();
        let found = first(&mut kernel.block, &mut |stmt| match stmt {
            Stmt::Call { body: at, args } if bodies[*at].starts_with(body) => {
                change(args);
                true
            }
            Stmt::Call { .. } | Stmt::For { .. } | Stmt::Let { .. } | Stmt::Read { .. } | Stmt::If { .. } => {
                false
            }
        });
        assert!(found, "`{named}` does not call `{body}`");
    }
}

/// Changes the statement that binds a name.
pub(super) fn binding(
    named: &'static str,
    name: &'static str,
    value: impl Fn(&Int) -> Int,
) -> impl FnOnce(&mut Program) {
    statement(named, move |stmt| match stmt {
        Stmt::Let { var, value: of } if *var == Symbol::variable(name) => {
            *of = value(of);
            true
        }
        Stmt::Let { .. } | Stmt::For { .. } | Stmt::Read { .. } | Stmt::If { .. } | Stmt::Call { .. } => {
            false
        }
    })
}

pub(super) fn is_output(program: &Program, arg: &Arg) -> bool {
    let Arg::Address { base: Base::Buffer(id), .. } = arg else { return false };
    matches!(program.buffer(*id).role, Role::Output(_))
}

pub(super) fn plus(d: &mut Dim, more: i64) {
    *d = &*d + &n(more);
}

#[test]
fn what_is_right_is_proved() {
    for g in [layer(), attention(), rows(), lookup(), scattered()] {
        for options in [Options::default(), tiled()] {
            assert_eq!(open(&schedule(&g, options)), "", "{}", g.name());
        }
    }
}

#[test]
fn strides_that_are_swapped() {
    wrong(&rows(), AFTER, swap_strides);
}

#[test]
fn a_buffer_that_is_too_short() {
    wrong(&layer(), AFTER, |program| {
        let output = program.with_role(Role::Output(0)).expect("there is one");
        plus(&mut program.buffers[output.0].shape[0], -1);
    });
}

#[test]
fn a_block_that_does_not_end_at_the_edge() {
    wrong(
        &layer(),
        AFTER,
        binding("y", "to", |int| match int {
            Int::Min(of) => {
                Int::Dim(of.iter().find(|d| d.mentions(&Symbol::variable("from"))).expect("a block").clone())
            }
            Int::Dim(_) | Int::Max(_) => unreachable!("a block of columns ends at the edge"),
        }),
    );
}

#[test]
fn a_block_of_rows_that_does_not_end_at_the_edge() {
    wrong(
        &layer(),
        AFTER,
        binding("y", "last", |int| match int {
            Int::Min(of) => {
                Int::Dim(of.iter().find(|d| d.mentions(&Symbol::variable("first"))).expect("a block").clone())
            }
            Int::Dim(_) | Int::Max(_) => unreachable!("a block of rows ends at the edge"),
        }),
    );
}

#[test]
fn an_item_too_many() {
    wrong(&rows(), AFTER, |program| plus(&mut kernel("most")(program).items, 1));
}

/// Its statements have no fault: only where addresses are looked at does it end the compiler.
#[test]
#[should_panic(expected = "ends after the last element at")]
fn an_address_outside_ends_the_compiler_where_addresses_are_looked_at() {
    let mut program = schedule(&rows(), tiled());
    assert_program("rows", &program, Some(&[]));
    plus(&mut kernel("most")(&mut program).items, 1);
    assert_program("rows", &program, None);
    assert_program("rows", &program, Some(&[]));
}

#[test]
fn a_block_that_begins_too_early() {
    wrong(
        &layer(),
        BEFORE,
        binding("y", "first", |int| match int {
            Int::Dim(d) => Int::Dim(d - &n(1)),
            Int::Min(_) | Int::Max(_) => unreachable!("blocks begin one after the other"),
        }),
    );
}

#[test]
fn a_scratch_slot_that_is_too_small() {
    wrong(&layer(), AFTER, |program| plus(&mut kernel("y")(program).scratch[0].count, -1));
}

#[test]
fn a_strip_that_is_too_long() {
    wrong(
        &layer(),
        AFTER,
        call("y", "strip", |args| {
            let Some(Arg::Int(length)) = args.first_mut() else { unreachable!("its length comes first") };
            plus(length, 1);
        }),
    );
}

#[test]
fn a_sum_over_one_step_too_many() {
    wrong(
        &layer(),
        AFTER,
        call("y", "tile", |args| {
            let depth = args.iter_mut().find(|arg| matches!(arg, Arg::Int(_)));
            let Some(Arg::Int(depth)) = depth else { unreachable!("its depth comes first") };
            plus(depth, 1);
        }),
    );
}

#[test]
fn an_operand_that_is_read_from_before_its_start() {
    wrong(
        &layer(),
        BEFORE,
        call("y", "tile", |args| {
            let Some(Arg::Address { offset, .. }) = args.first_mut() else {
                unreachable!("the left operand")
            };
            plus(offset, -1);
        }),
    );
}

#[test]
fn register_tiles_that_overlap_the_end_of_their_block() {
    wrong(
        &layer(),
        AFTER,
        statement("y", |stmt| match stmt {
            Stmt::For { step, .. } if step.as_constant() == Some(4) => {
                *step = n(3);
                true
            }
            Stmt::For { .. } | Stmt::Let { .. } | Stmt::Read { .. } | Stmt::If { .. } | Stmt::Call { .. } => {
                false
            }
        }),
    );
}

#[test]
fn parts_for_few_rows_where_there_are_many() {
    wrong(&attention(), AFTER, |program| {
        let kernel = kernel("parts")(program);
        let [Stmt::If { left, right, .. }] = kernel.block.as_mut_slice() else {
            unreachable!("parts are for few rows")
        };
        (*left, *right) = (n(0), n(1));
    });
}

#[test]
fn keys_beyond_the_last() {
    wrong(
        &attention(),
        AFTER,
        binding(LAST, "stop", |int| match int {
            Int::Min(of) => {
                Int::Dim(of.iter().find(|d| d.mentions(&Symbol::variable("key"))).expect("a tile").clone())
            }
            Int::Dim(_) | Int::Max(_) => unreachable!("a tile of keys ends with the keys"),
        }),
    );
}

#[test]
fn a_cell_that_is_read_beyond_its_slot() {
    wrong(
        &attention(),
        AFTER,
        statement(LAST, |stmt| match stmt {
            Stmt::Read { offset, .. } => {
                plus(offset, 1);
                true
            }
            Stmt::For { .. } | Stmt::Let { .. } | Stmt::If { .. } | Stmt::Call { .. } => false,
        }),
    );
}

/// A position that data says is known to be inside where the conditions around it say so.
#[test]
fn a_position_of_data_that_a_condition_lets_through() {
    wrong(
        &scattered(),
        "it is not proved that",
        statement("y", |stmt| match stmt {
            Stmt::If { left, .. } => {
                plus(left, -1);
                true
            }
            Stmt::For { .. } | Stmt::Let { .. } | Stmt::Read { .. } | Stmt::Call { .. } => false,
        }),
    );
}

/// What memory holds may be anything: without its mask a load from there is not known to be outside, and is not proved.
#[test]
fn an_index_of_data_without_its_mask() {
    wrong(&lookup(), "it is not proved that", |program| {
        for body in program.kernels.iter_mut().flat_map(|k| &mut k.bodies) {
            for section in &mut Arc::make_mut(body).sections {
                let insts = match section {
                    Section::Straight(insts) => insts,
                    Section::Loop(code) => &mut code.insts,
                };
                for inst in insts {
                    if let Inst::Load { place, .. } = inst {
                        place.mask = None;
                    }
                }
            }
        }
    });
}
