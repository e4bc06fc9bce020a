//! Programs that write an element twice, or never: none is proved, and what happens is shown with sizes at which it does.

use super::addresses::{
    LAST, binding, call, first, is_output, kernel, lookup, plus, scattered, statement, tiled,
};
use super::{attention, axis, layer, rows, swap_strides};
use crate::dims::{n, var};
use crate::program::kernel::{Arg, Base, Int, Kernel, Program, Stmt};
use crate::verify::coverage::{counted, coverage, is_proved, written};
use crate::{Options, schedule};
use salient_ir::{Builder, DType, Dim, Graph, Op, Symbol};
use salient_vector::Ty;
use salient_vector::body::{Access, Const, Inst, Place, Section, Value};
use std::sync::Arc;

/// A state to which a call appends.
fn append() -> Graph {
    let mut b = Builder::new("append");
    let (s, d, t) = (axis(&mut b, "s", "S"), axis(&mut b, "d", "D"), axis(&mut b, "t", "T"));
    let keys = b.input("keys", &[s, d], DType::F32, None);
    let x = b.input("x", &[t, d], DType::F32, None);
    let all = b.axis_id("s", &(&var(&"S".into()) + &var(&"T".into())));
    let node = b.add(Op::Concat(all, [s, t].into_iter().collect()), &[keys, x]).unwrap();
    b.state(0, &[s, d], &[all, d], node).unwrap();
    b.finish()
}

/// What is not proved of a program.
fn open(program: &Program) -> String {
    coverage(program, &[]).open.iter().map(|open| format!("{open}\n")).collect()
}

/// Breaks the program of a graph, all of which is proved: something of it is not.
fn refused(g: &Graph, change: impl FnOnce(&mut Program)) -> String {
    let mut program = schedule(g, tiled());
    assert_eq!(open(&program), "");
    change(&mut program);
    let found = open(&program);
    assert_ne!(found, "");
    found
}

/// As [`refused`]: what happens is shown.
fn wrong(g: &Graph, expected: &str, change: impl FnOnce(&mut Program)) {
    let found = refused(g, change);
    assert!(found.contains(expected), "`{expected}` is not among what is not proved:\n{found}");
}

const TWICE: &str = "is written by item";
const NEVER: &str = "is not written at";

fn graphs() -> [Graph; 6] {
    [layer(), attention(), rows(), lookup(), append(), scattered()]
}

#[test]
fn what_is_right_is_proved() {
    for g in graphs() {
        for options in [Options::default(), tiled()] {
            let program = schedule(&g, options);
            let found = coverage(&program, &[]);
            assert!(found.open.is_empty(), "{}:\n{}", g.name(), open(&program));
            let stored = program.buffers.iter().filter(|b| !b.name.is_empty()).count();
            assert!(found.whole + found.with_room.len() <= stored && found.whole > 0, "{}", g.name());
        }
    }
}

#[test]
fn what_is_proved_is_so_when_it_is_counted() {
    for g in graphs() {
        for options in [Options::default(), tiled()] {
            assert_eq!(counted(&schedule(&g, options)), Vec::<String>::new(), "{}", g.name());
        }
    }
}

#[test]
fn room_is_left_where_nothing_has_a_value_and_reported() {
    let found = coverage(&schedule(&attention(), tiled()), &[]).with_room;
    let found: Vec<String> = found.into_iter().map(|(name, room)| format!("{name}: {room}")).collect();
    assert_eq!(found, ["y.parts: rows that there are not", "y.keys: columns after T"]);
}

#[test]
fn rows_that_go_by_another_stride() {
    wrong(&rows(), NEVER, swap_strides);
}

#[test]
fn items_that_end_one_early() {
    wrong(&rows(), NEVER, |program| plus(&mut kernel("most")(program).items, -1));
}

#[test]
fn a_strip_that_is_one_short() {
    let shorter = |args: &mut Vec<Arg>| {
        let trip = args.iter_mut().find_map(|arg| match arg {
            Arg::Int(d) if *d == var(&"D".into()) => Some(d),
            Arg::Int(_) | Arg::Address { .. } => None,
        });
        plus(trip.expect("a row is a strip"), -1);
    };
    wrong(&rows(), NEVER, call("y", "rows", shorter));
}

#[test]
fn blocks_in_one_place() {
    let block = |int: &Int| match int {
        Int::Dim(d) => Int::Dim(
            d.substitute(&[(Symbol::variable("block"), &var(&Symbol::variable("block")) * &n(0))].into()),
        ),
        Int::Min(_) | Int::Max(_) => unreachable!("blocks begin one after the other"),
    };
    wrong(&layer(), TWICE, binding("y", "first", block));
}

#[test]
fn blocks_that_are_a_row_too_near() {
    let block = |int: &Int| match int {
        Int::Dim(d) => Int::Dim(d - &var(&Symbol::variable("block"))),
        Int::Min(_) | Int::Max(_) => unreachable!("blocks begin one after the other"),
    };
    wrong(&layer(), TWICE, binding("y", "first", block));
}

#[test]
fn blocks_that_end_a_row_early() {
    let shorter = |int: &Int| match int {
        Int::Min(of) => Int::Min(of.iter().map(|d| d - &n(1)).collect()),
        Int::Dim(_) | Int::Max(_) => unreachable!("a block of rows ends at the edge"),
    };
    wrong(&layer(), NEVER, binding("y", "last", shorter));
}

#[test]
fn columns_that_go_beyond_the_edge() {
    let whole = |int: &Int| match int {
        Int::Min(of) => {
            Int::Dim(of.iter().find(|d| d.mentions(&Symbol::variable("from"))).expect("a block").clone())
        }
        Int::Dim(_) | Int::Max(_) => unreachable!("a block of columns ends at the edge"),
    };
    wrong(&layer(), "of D * T is written at", binding("y", "to", whole));
}

#[test]
fn items_that_write_in_one_place() {
    wrong(&rows(), "is written by item 0 of `most` and by item 1", |program| {
        let kernel = kernel("most")(program);
        let zero = [(kernel.item.clone(), n(0))].into();
        for stmt in &mut kernel.block {
            if let Stmt::Let { value: Int::Dim(d), .. } = stmt {
                *d = d.substitute(&zero);
            }
        }
    });
}

#[test]
fn an_append_that_begins_one_later() {
    wrong(&append(), NEVER, |program| {
        let copy = program.clone();
        let mut change = |stmt: &mut Stmt| {
            let Stmt::Call { args, .. } = stmt else { return false };
            let Some(Arg::Address { offset, .. }) = args.iter_mut().find(|arg| is_output(&copy, arg)) else {
                return false;
            };
            plus(offset, 1);
            true
        };
        assert!(first(&mut kernel(LAST)(program).block, &mut change), "something is appended");
    });
}

#[test]
fn an_append_that_forgets_what_is_held() {
    wrong(&append(), NEVER, |program| program.appends.clear());
}

/// Changes for which lengths the last kernel runs.
fn for_more_rows(by: i64) -> impl FnOnce(&mut Program) {
    statement(LAST, move |stmt| {
        let Stmt::If { left, .. } = stmt else { return false };
        plus(left, by);
        true
    })
}

#[test]
fn conditions_that_leave_a_length_out() {
    wrong(&attention(), "element 0 is not written at E = 9, T = 9", for_more_rows(1));
}

#[test]
fn conditions_that_overlap() {
    wrong(&attention(), TWICE, for_more_rows(-1));
}

#[test]
fn a_kernel_that_does_not_run() {
    wrong(&attention(), NEVER, |program| {
        program.kernels.pop();
    });
}

#[test]
fn a_kernel_that_runs_twice() {
    wrong(&rows(), TWICE, |program| {
        let again = kernel("columns")(program).clone();
        program.kernels.push(again);
    });
}

#[test]
fn products_run_as_one_that_share_a_group_of_columns() {
    let found = refused(
        &layer(),
        statement("y+z", |stmt| {
            let Stmt::If { right, .. } = stmt else { return false };
            plus(right, -1);
            true
        }),
    );
    assert!(found.contains(NEVER), "{found}");
}

#[test]
fn a_panel_without_its_last_column() {
    let shorter = |int: &Int| match int {
        Int::Min(of) => {
            Int::Min(of.iter().map(|d| if d.as_symbol().is_some() { d - &n(1) } else { d.clone() }).collect())
        }
        Int::Dim(_) | Int::Max(_) => unreachable!("a panel ends at the edge"),
    };
    refused(&attention(), binding("y.keys", "edge", shorter));
}

#[test]
fn states_of_parts_without_one_of_a_row() {
    refused(&attention(), |program| {
        let kernel = kernel("y.parts")(program);
        let keeps = kernel.bodies.iter().position(|body| body.name == "keep_part");
        let mut change = |stmt: &mut Stmt| {
            let Stmt::For { to, block, .. } = stmt else { return false };
            let is_it = matches!(block.as_slice(), [Stmt::Call { body, .. }] if Some(*body) == keeps);
            if is_it {
                plus(to, -1);
            }
            is_it
        };
        assert!(first(&mut kernel.block, &mut change), "states are kept");
    });
}

#[test]
fn sums_that_are_not_begun() {
    refused(&rows(), |program| {
        let kernel = kernel("columns")(program);
        let begin = kernel.bodies.iter().position(|body| body.name == "begin");
        kernel.block.retain(|stmt| !matches!(stmt, Stmt::Call { body, .. } if Some(*body) == begin));
    });
}

/// Changes where the first store of a body of a kernel goes, which may use a mask that is true.
fn store(named: &'static str, change: impl Fn(&mut Place, Value)) -> impl FnOnce(&mut Program) {
    move |program| {
        let body = Arc::make_mut(&mut kernel(named)(program).bodies[0]);
        let out = Value(body.types.len() as u32);
        body.types.push(Ty::Mask);
        body.sections.insert(0, Section::Straight(vec![Inst::Const { out, value: Const::Mask(true) }]));
        let insts = body.sections.iter_mut().flat_map(|section| match section {
            Section::Straight(insts) => insts,
            Section::Loop(code) => &mut code.insts,
        });
        let place = insts.into_iter().find_map(|inst| {
            let Inst::Store { place, .. } = inst else { return None };
            Some(place)
        });
        change(place.expect("the body writes"), out);
    }
}

#[test]
fn a_store_that_a_mask_hides() {
    refused(&rows(), store("y", |place, mask| place.mask = Some(mask)));
}

#[test]
fn lanes_that_lie_apart_where_vectors_do_not() {
    let apart = |place: &mut Place, _| place.access = Access::Strided(place.addr.index.expect("a strip"));
    refused(&rows(), store("y", apart));
}

#[test]
fn one_lane_of_each_vector() {
    refused(&rows(), store("y", |place, _| place.access = Access::One));
}

/// What is added to may be another item's.
#[test]
fn a_row_that_is_added_by_who_does_not_own_it() {
    refused(
        &scattered(),
        statement("y", |stmt| match stmt {
            Stmt::If { left, .. } => {
                plus(left, -1);
                true
            }
            Stmt::For { .. } | Stmt::Let { .. } | Stmt::Read { .. } | Stmt::Call { .. } => false,
        }),
    );
}

#[test]
fn what_no_kernel_writes_is_no_result() {
    wrong(&lookup(), NEVER, |program| {
        let kernel = kernel(LAST)(program);
        kernel.items = Dim::constant(0);
    });
}

/// Every integer of a block.
fn integers<'k>(block: &'k mut [Stmt], out: &mut Vec<&'k mut Dim>) {
    for stmt in block {
        match stmt {
            Stmt::For { from, to, block, .. } => {
                out.extend([from, to]);
                integers(block, out);
            }
            Stmt::Let { value: Int::Dim(d), .. } => out.push(d),
            Stmt::Let { value: Int::Min(of) | Int::Max(of), .. } => out.extend(of),
            Stmt::Read { .. } => {}
            Stmt::If { left, right, then, otherwise } => {
                out.extend([left, right]);
                integers(then, out);
                integers(otherwise, out);
            }
            Stmt::Call { args, .. } => out.extend(args.iter_mut().filter_map(|arg| match arg {
                Arg::Int(d) | Arg::Address { base: Base::Buffer(_), offset: d } => Some(d),
                Arg::Address { base: Base::Scratch(_) | Base::Status, .. } => None,
            })),
        }
    }
}

/// Every integer of a kernel.
fn all(kernel: &mut Kernel) -> Vec<&mut Dim> {
    let mut out = vec![&mut kernel.items];
    integers(&mut kernel.block, &mut out);
    out
}

#[test]
fn no_changed_integer_is_proved_where_counting_refutes_it() {
    let (mut refused, mut harmless) = (0, 0);
    for g in graphs() {
        let right = schedule(&g, tiled());
        for (at, kernel) in right.kernels.iter().enumerate() {
            let before = written(&right, at);
            for integer in 0..all(&mut kernel.clone()).len() {
                for by in [-1, 1] {
                    let mut program = right.clone();
                    plus(all(&mut program.kernels[at])[integer], by);
                    if written(&program, at) == before {
                        continue;
                    }
                    if is_proved(&program) {
                        // Which terms are added, and how often, is not asked.
                        harmless += usize::from(&**g.name() != "scattered");
                        let what = format!("integer {integer} of `{}` by {by}", kernel.name);
                        assert_eq!(counted(&program), Vec::<String>::new(), "{}: {what}", g.name());
                    } else {
                        refused += 1;
                    }
                }
            }
        }
    }
    assert!(refused > 20 * harmless && refused > 100, "{refused} are refused and {harmless} are not");
}
