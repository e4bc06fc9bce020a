//! Deliberately wrong plans and programs: each is reported, and why.

mod addresses;
mod alias;
mod beside;
mod coverage;
mod whole_rows;
mod writes;

use super::{Fault, plan as plans, program as programs};
use crate::dims::{n, var};
use crate::plan::{Anchor, KernelPlan, Options, Plan, plan};
use crate::program::kernel::{Append, Arg, Base, BufferId, Int, Kernel, Program, Stmt};
use crate::schedule;
use addresses::{first, is_output};
use salient_ir::{AxisId, Builder, Const, DType, Dim, FusedOp, Graph, MapOp, NodeId, Op, ReduceOp};

fn axis(b: &mut Builder, name: &str, extent: &str) -> AxisId {
    b.axis_id(name, &Dim::symbol(extent))
}

fn dot(b: &mut Builder, x: NodeId, y: NodeId, along: AxisId) -> NodeId {
    let product = b.map(MapOp::Mul, &[x, y]).unwrap();
    b.reduce(ReduceOp::Sum, along, product).unwrap()
}

/// `x w + x`, and `x u`: two products of the same rows.
fn layer() -> Graph {
    let mut b = Builder::new("layer");
    let (t, d) = (axis(&mut b, "t", "T"), axis(&mut b, "d", "D"));
    let (m, e) = (axis(&mut b, "m", "D"), axis(&mut b, "e", "E"));
    let x = b.input("x", &[t, d], DType::F32, None);
    let w = b.param("w", &[d, m], DType::F32, None, None);
    let u = b.param("u", &[d, e], DType::F32, None, None);
    let xw = dot(&mut b, x, w, d);
    let residual = b.rename(x, d, m).unwrap();
    let y = b.map(MapOp::Add, &[xw, residual]).unwrap();
    let z = dot(&mut b, x, u, d);
    b.output("y", &[t, m], y).unwrap();
    b.output("z", &[t, e], z).unwrap();
    b.finish()
}

/// Causal attention of one head: tiles, or parts of the keys where rows are few.
fn attention() -> Graph {
    let mut b = Builder::new("attention");
    let (i, j) = (axis(&mut b, "i", "T"), axis(&mut b, "j", "T"));
    let (e, f) = (axis(&mut b, "e", "E"), axis(&mut b, "f", "E"));
    let q = b.input("q", &[i, e], DType::F32, None);
    let k = b.input("k", &[j, e], DType::F32, None);
    let v = b.input("v", &[j, f], DType::F32, None);
    let score = dot(&mut b, q, k, e);
    let (row, key) = (b.iota(i), b.iota(j));
    let keep = b.map(MapOp::Le, &[key, row]).unwrap();
    let hidden = b.constant(Const::f32(f32::NEG_INFINITY));
    let masked = b.map(MapOp::Select, &[keep, score, hidden]).unwrap();
    let y = b.add(Op::Fused(FusedOp::Attend, j), &[masked, v]).unwrap();
    b.output("y", &[i, f], y).unwrap();
    b.finish()
}

/// Attention within documents: a mask that only a probe can tell.
fn documents() -> Graph {
    let mut b = Builder::new("documents");
    let (i, j) = (axis(&mut b, "i", "T"), axis(&mut b, "j", "T"));
    let (e, f) = (axis(&mut b, "e", "E"), axis(&mut b, "f", "E"));
    let q = b.input("q", &[i, e], DType::F32, None);
    let k = b.input("k", &[j, e], DType::F32, None);
    let v = b.input("v", &[j, f], DType::F32, None);
    let document = b.input("document", &[i], DType::I64, None);
    let score = dot(&mut b, q, k, e);
    let other = b.rename(document, i, j).unwrap();
    let keep = b.map(MapOp::Eq, &[document, other]).unwrap();
    let hidden = b.constant(Const::f32(f32::NEG_INFINITY));
    let masked = b.map(MapOp::Select, &[keep, score, hidden]).unwrap();
    let y = b.add(Op::Fused(FusedOp::Attend, j), &[masked, v]).unwrap();
    b.output("y", &[i, f], y).unwrap();
    b.finish()
}

/// Rows divided by their sums, and the sums of columns.
fn rows() -> Graph {
    let mut b = Builder::new("rows");
    let (t, d) = (axis(&mut b, "t", "T"), axis(&mut b, "d", "D"));
    let x = b.input("x", &[t, d], DType::F32, None);
    let sum = b.reduce(ReduceOp::Sum, d, x).unwrap();
    let y = b.map(MapOp::Div, &[x, sum]).unwrap();
    let columns = b.reduce(ReduceOp::Sum, t, x).unwrap();
    let most = b.reduce(ReduceOp::Max, d, x).unwrap();
    let n = axis(&mut b, "n", "N");
    let place = b.iota(n);
    b.output("place", &[n], place).unwrap();
    b.output("y", &[t, d], y).unwrap();
    b.output("columns", &[d], columns).unwrap();
    b.output("most", &[t], most).unwrap();
    b.finish()
}

fn texts(faults: Vec<Fault>) -> String {
    faults.iter().map(|fault| format!("{fault}\n")).collect()
}

/// Breaks the plan of a graph: it had no fault, and has the one that is expected.
fn wrong(g: &Graph, expected: &str, change: impl FnOnce(&mut Plan<'_>)) {
    let mut plan = plan(g, Options::default());
    assert_eq!(texts(plans::verify(&plan)), "");
    change(&mut plan);
    let found = texts(plans::verify(&plan));
    assert!(found.contains(expected), "`{expected}` is not among the faults:\n{found}");
}

/// The first kernel of which the anchor is as wanted.
fn kernel<'p>(plan: &'p mut Plan<'_>, is_one: impl Fn(&Anchor) -> bool) -> &'p mut KernelPlan {
    plan.kernels.iter_mut().find(|k| is_one(&k.anchor)).expect("the plan has one")
}

fn is_gemm(anchor: &Anchor) -> bool {
    matches!(anchor, Anchor::Gemm(_))
}

fn is_tiled(anchor: &Anchor) -> bool {
    matches!(anchor, Anchor::Tiled(_))
}

/// Changes the roles of the axes of the first product.
fn gemm(change: impl FnOnce(&mut crate::plan::Gemm)) -> impl FnOnce(&mut Plan<'_>) {
    |plan| {
        let Anchor::Gemm(gemm) = &mut kernel(plan, is_gemm).anchor else { unreachable!("it was looked for") };
        change(gemm);
    }
}

fn tiled(change: impl FnOnce(&mut crate::plan::Tiled)) -> impl FnOnce(&mut Plan<'_>) {
    |plan| {
        let Anchor::Tiled(tiled) = &mut kernel(plan, is_tiled).anchor else {
            unreachable!("it was looked for")
        };
        change(tiled);
    }
}

#[test]
fn what_is_read_has_been_stored() {
    wrong(&attention(), "not stored yet", |plan| plan.order.reverse());
}

#[test]
fn every_kernel_runs() {
    wrong(&layer(), "its kernel runs 0 times", |plan| {
        plan.order.pop();
    });
}

#[test]
fn no_kernel_runs_twice() {
    wrong(&layer(), "its kernel runs 2 times", |plan| {
        let again = plan.order[0].clone();
        plan.order.push(again);
    });
}

#[test]
fn nothing_is_stored_twice() {
    wrong(&rows(), "it is stored twice", |plan| {
        let other = plan.kernels[0].buffer;
        plan.kernels[1].buffer = other;
    });
}

#[test]
fn of_two_forms_one_runs_whatever_the_length() {
    wrong(&attention(), "not stored in every call", |plan| {
        let k = kernel(plan, is_tiled);
        let (limit, rows) = k.when.clone().expect("tiles are for many rows");
        k.when = Some((&limit + &n(1), rows));
    });
}

#[test]
fn of_two_forms_only_one_runs() {
    wrong(&attention(), "it is stored twice", |plan| kernel(plan, is_tiled).when = None);
}

#[test]
fn what_is_given_is_not_stored() {
    wrong(&layer(), "a kernel stores what is given", |plan| {
        kernel(plan, is_gemm).buffer = BufferId(0);
    });
}

#[test]
fn what_reads_an_input_does_not_run_once() {
    wrong(&layer(), "it runs once and reads what calls change", |plan| {
        kernel(plan, is_gemm).once = true;
        plan.loads = plan.order.len();
    });
}

#[test]
fn what_runs_once_comes_first() {
    wrong(&layer(), "against its plan", |plan| plan.loads -= 1);
}

#[test]
fn kernels_that_run_as_one_share_their_rows() {
    wrong(&layer(), "go through different rows", |plan| {
        let pack = plan.order.remove(0);
        plan.order[0].extend(pack);
    });
}

#[test]
fn a_column_is_of_the_right_operand_alone() {
    wrong(&layer(), "its column is no axis", gemm(|gemm| gemm.contraction.column = gemm.contraction.rows[0]));
}

#[test]
fn rows_are_of_the_left_operand_alone() {
    wrong(&layer(), "a row is no axis", gemm(|gemm| gemm.contraction.rows.push(gemm.contraction.column)));
}

#[test]
fn a_product_sums_over_an_axis_of_both_operands() {
    wrong(&layer(), "does not sum over", gemm(|gemm| gemm.contraction.depth = gemm.contraction.column));
}

#[test]
fn a_product_reads_its_panels() {
    wrong(&layer(), "it does not read its panels", |plan| {
        let k = kernel(plan, is_gemm);
        let Anchor::Gemm(gemm) = &k.anchor else { unreachable!("it was looked for") };
        k.expression.reads.remove(&gemm.panels.id);
    });
}

#[test]
fn an_operand_is_packed_along_two_axes() {
    wrong(&layer(), "no such columns and depth", |plan| {
        let is_pack = |anchor: &Anchor| matches!(anchor, Anchor::Pack(_));
        let Anchor::Pack(pack) = &mut kernel(plan, is_pack).anchor else { unreachable!("it was looked for") };
        pack.depth = pack.column;
    });
}

#[test]
fn rows_and_keys_are_two_axes() {
    wrong(
        &attention(),
        "its rows are no axis of the scores",
        tiled(|tiled| {
            tiled.attention.query = Some(tiled.attention.key);
        }),
    );
}

#[test]
fn values_are_the_same_for_all_rows() {
    wrong(
        &attention(),
        "its values differ from row to row",
        tiled(|tiled| {
            tiled.attention.value = Some(tiled.attention.score);
        }),
    );
}

#[test]
fn scores_have_keys() {
    wrong(
        &attention(),
        "its scores have no keys",
        tiled(|tiled| {
            tiled.attention.score = tiled.scores[0].query;
        }),
    );
}

#[test]
fn parts_are_merged_where_they_were_kept() {
    wrong(&attention(), "its parts are another buffer", |plan| {
        let is_merge = |anchor: &Anchor| matches!(anchor, Anchor::Merge(_));
        kernel(plan, is_merge).expression.reads.clear();
    });
}

/// An axis that is none of the rows' two.
fn third_axis(plan: &Plan<'_>) -> AxisId {
    let mut all = plan.graph.axes().map(|(id, _)| id);
    all.find(|id| *plan.graph.axis(*id).name == *"n").expect("rows have one beside")
}

#[test]
fn held_reductions_run_along_the_rows() {
    wrong(&rows(), "its rows run along an axis that it lacks", |plan| {
        let is_rows = |anchor: &Anchor| matches!(anchor, Anchor::Rows { .. });
        let other = third_axis(plan);
        let Anchor::Rows { along, .. } = &mut kernel(plan, is_rows).anchor else {
            unreachable!("it was looked for")
        };
        *along = other;
    });
}

#[test]
fn columns_are_no_axis_that_is_reduced() {
    wrong(&rows(), "its columns are no axis of it", |plan| {
        let is_columns = |anchor: &Anchor| matches!(anchor, Anchor::Columns { .. });
        let other = third_axis(plan);
        let Anchor::Columns { column } = &mut kernel(plan, is_columns).anchor else {
            unreachable!("it was looked for")
        };
        *column = other;
    });
}

#[test]
fn what_reduces_is_a_reduction() {
    wrong(&rows(), "binds no axis", |plan| {
        let node = plan.graph.outputs()[0].node;
        let is_reduction = |anchor: &Anchor| matches!(anchor, Anchor::Reduction { .. });
        kernel(plan, is_reduction).node = node;
    });
}

#[test]
fn packed_keys_are_an_operand_of_the_scores() {
    wrong(
        &attention(),
        "are not the operands of its scores",
        tiled(|tiled| tiled.scores[0].key = tiled.attention.value.expect("it has values")),
    );
}

#[test]
fn a_range_of_keys_follows_from_the_mask() {
    wrong(
        &attention(),
        "a range of keys that its mask does not give",
        tiled(|tiled| tiled.key_loop.range.ends.clear()),
    );
}

#[test]
fn a_mask_is_that_of_the_scores() {
    wrong(
        &attention(),
        "a mask that its scores do not have",
        tiled(|tiled| {
            let mask = tiled.key_loop.mask.as_mut().expect("it is causal");
            mask.condition = mask.unmasked;
        }),
    );
}

#[test]
fn a_mask_that_a_range_does_not_say_is_probed() {
    wrong(&documents(), "neither its range nor a probe", |plan| {
        let Anchor::Tiled(tiled) = &mut kernel(plan, is_tiled).anchor else {
            unreachable!("it was looked for")
        };
        tiled.key_loop.mask.as_mut().expect("documents mask").probe = None;
    });
}

#[test]
fn what_is_computed_once_for_a_row_depends_on_no_key() {
    wrong(
        &attention(),
        "depends on the key",
        tiled(|tiled| tiled.key_loop.invariant.push(tiled.attention.score)),
    );
}

#[test]
fn only_states_are_appended_to() {
    wrong(&layer(), "appends to what is no state", |plan| {
        let output = kernel(plan, is_gemm).buffer;
        plan.appends.push(Append { input: BufferId(0), output });
    });
}

// ---- loop programs

/// Breaks the program of a graph: it had no fault, and has the one that is expected.
fn wrong_program(g: &Graph, expected: &str, change: impl FnOnce(&mut Program)) {
    let mut program = schedule(g, Options::default());
    assert_eq!(texts(programs::verify(&program)), "");
    change(&mut program);
    let found = texts(programs::verify(&program));
    assert!(found.contains(expected), "`{expected}` is not among the faults:\n{found}");
}

/// The last kernel: what others are for.
fn last(program: &mut Program) -> &mut Kernel {
    program.kernels.last_mut().expect("a program has kernels")
}

/// Changes the first call in a block; whether there was one.
fn call(block: &mut [Stmt], change: &mut dyn FnMut(&mut usize, &mut Vec<Arg>)) -> bool {
    block.iter_mut().any(|stmt| match stmt {
        Stmt::Call { body, args } => {
            change(body, args);
            true
        }
        Stmt::For { block, .. } => call(block, change),
        Stmt::If { then, otherwise, .. } => call(then, change) || call(otherwise, change),
        Stmt::Let { .. } | Stmt::Read { .. } => false,
    })
}

/// Changes the first call of the last kernel.
fn first_call(mut change: impl FnMut(&mut usize, &mut Vec<Arg>)) -> impl FnOnce(&mut Program) {
    move |program| assert!(call(&mut last(program).block, &mut change), "there is a call")
}

/// Where the rows of a result lie `D` elements apart, a kernel writes them `T` elements apart.
fn swap_strides(program: &mut Program) {
    let swapped = [("D".into(), var(&"T".into()))].into();
    let copy = program.clone();
    let mut change = |stmt: &mut Stmt| {
        let Stmt::Call { args, .. } = stmt else { return false };
        let Some(arg) = args.iter_mut().find(|arg| is_output(&copy, arg)) else { return false };
        let Arg::Address { offset, .. } = arg else { return false };
        *offset = offset.substitute(&swapped);
        offset.mentions(&"T".into())
    };
    assert!(program.kernels.iter_mut().any(|k| first(&mut k.block, &mut change)), "rows are written");
}

#[test]
fn a_kernel_says_what_it_reads() {
    let none = |program: &mut Program| program.kernels.iter_mut().for_each(|k| k.reads.clear());
    wrong_program(&rows(), "does not say so", none);
}

#[test]
fn a_kernel_says_what_it_writes() {
    wrong_program(&rows(), "does not say so", |program| last(program).writes.clear());
}

#[test]
fn a_kernel_writes_what_it_says() {
    wrong_program(&rows(), "it never writes buffer", |program| {
        let others: Vec<BufferId> = program.kernels[0].writes.clone();
        last(program).writes.extend(others);
    });
}

#[test]
fn variables_are_bound_before_they_are_used() {
    wrong_program(&rows(), "is not bound", |program| {
        let block = &mut last(program).block;
        let at = block.iter().position(|s| matches!(s, Stmt::Let { .. })).expect("items are bound");
        block.remove(at);
    });
}

#[test]
fn no_variable_is_bound_twice() {
    wrong_program(&rows(), "is bound twice", |program| {
        let block = &mut last(program).block;
        let at = block.iter().position(|s| matches!(s, Stmt::Let { .. })).expect("items are bound");
        let again = block[at].clone();
        block.insert(at, again);
    });
}

#[test]
fn positions_along_the_lanes_stay_in_bodies() {
    wrong_program(
        &rows(),
        "`%lane` is not bound",
        first_call(|_, args| {
            let Some(Arg::Address { offset, .. }) =
                args.iter_mut().find(|a| matches!(a, Arg::Address { .. }))
            else {
                unreachable!("a body reads or writes")
            };
            *offset = Dim::symbol(&crate::dims::LANE);
        }),
    );
}

#[test]
fn loops_go_forward() {
    wrong_program(&attention(), "does not go forward", |program| {
        fn first_loop(block: &mut [Stmt]) -> Option<&mut Dim> {
            block.iter_mut().find_map(|stmt| match stmt {
                Stmt::For { step, .. } => Some(step),
                Stmt::If { then, .. } => first_loop(then),
                Stmt::Let { .. } | Stmt::Read { .. } | Stmt::Call { .. } => None,
            })
        }
        *first_loop(&mut last(program).block).expect("tiles are looped over") = n(0);
    });
}

#[test]
fn calls_have_the_arguments_of_their_bodies() {
    wrong_program(
        &rows(),
        "takes other arguments",
        first_call(|_, args| {
            args.pop();
        }),
    );
    wrong_program(&rows(), "is of another type", first_call(|_, args| args.reverse()));
    wrong_program(&rows(), "there is no body", first_call(|body, _| *body = 1000));
}

#[test]
fn scratch_memory_is_written_before_it_is_read() {
    wrong_program(&attention(), "before it is written", |program| {
        let Some(Stmt::If { then, .. }) =
            last(program).block.iter_mut().find(|s| matches!(s, Stmt::If { .. }))
        else {
            unreachable!("tiles are for many rows")
        };
        // Queries are packed before the keys are gone through.
        then.retain(|stmt| !matches!(stmt, Stmt::For { block, .. } if block.len() == 1 && matches!(block[0], Stmt::Call { .. })));
    });
}

#[test]
fn scratch_slots_are_there() {
    wrong_program(&attention(), "there is no scratch slot", |program| last(program).scratch.clear());
}

#[test]
fn inputs_are_not_written() {
    wrong_program(&rows(), "it writes what is given", |program| last(program).writes.push(BufferId(0)));
}

#[test]
fn a_copy_is_of_what_came_before() {
    wrong_program(&rows(), "is no copy of", |program| program.copies = vec![Some(1)]);
}

#[test]
fn minima_are_of_something() {
    wrong_program(&layer(), "is the least of nothing", |program| {
        fn first_min(block: &mut [Stmt]) -> Option<&mut Int> {
            block.iter_mut().find_map(|stmt| match stmt {
                Stmt::Let { value: value @ (Int::Min(_) | Int::Max(_)), .. } => Some(value),
                Stmt::For { block, .. } => first_min(block),
                Stmt::If { then, otherwise, .. } => first_min(then).or_else(|| first_min(otherwise)),
                Stmt::Let { .. } | Stmt::Read { .. } | Stmt::Call { .. } => None,
            })
        }
        *first_min(&mut last(program).block).expect("a block of rows ends") = Int::Min(Vec::new());
    });
}

#[test]
fn addresses_begin_somewhere() {
    wrong_program(
        &rows(),
        "touches buffer",
        first_call(|_, args| {
            for arg in args {
                if let Arg::Address { base: base @ Base::Buffer(_), .. } = arg {
                    *base = Base::Buffer(BufferId(2));
                }
            }
        }),
    );
}
