//! Sets that may not be put together: each differs in one thing from one that may.

use super::combine::{Reach, combined};
use super::known::Known;
use super::side_by_side;
use super::writes::{LoopVariable, Set, Writes};
use crate::dims::{LANES, ceil_div, n, var};
use crate::program::kernel::{BufferId, Kind};
use crate::verify::scope::Scope;
use salient_ir::{Dim, Symbol};

/// Nothing is known of the sizes `T` and `D`.
fn known() -> Known {
    let mut scope = Scope::default();
    scope.dimension(&LANES, 1);
    ["T", "D"].iter().for_each(|name| scope.dimension(&(*name).into(), 0));
    Known::of(scope)
}

/// A dimension of the model.
fn size(name: &str) -> Dim {
    var(&name.into())
}

/// A variable of a loop, or the name of a minimum.
fn at(name: &str) -> Dim {
    var(&Symbol::variable(name))
}

fn variable(name: &str, from: Dim, to: Dim) -> LoopVariable {
    LoopVariable { name: Symbol::variable(name), from, to, of_item: true }
}

/// Elements `64 * b .. end`, where `end` is the least of some, for each `b`.
fn blocks(b: LoopVariable, end: &[Dim]) -> Set {
    let least = [(Symbol::variable("end"), end.to_vec())].into();
    Set { variables: vec![b], least, from: &n(64) * &at("b"), to: at("end"), ..Set::nothing() }
}

/// What it is put together to, if no variable is left.
fn whole(set: Set) -> Option<(Dim, Dim)> {
    let set = combined(set, &known(), Reach::Items);
    set.variables.is_empty().then_some((set.from, set.to))
}

fn next() -> Dim {
    &(&n(64) * &at("b")) + &n(64)
}

#[test]
fn blocks_end_where_the_next_begins_or_at_the_end_of_all() {
    let (t, count) = (size("T"), ceil_div(&size("T"), &n(64)));
    let all = || variable("b", n(0), count.clone());
    assert_eq!(whole(blocks(all(), &[t.clone(), next()])), Some((n(0), t.clone())));
    // They are whole blocks alone.
    let few = t.floor_div(&n(64)).unwrap();
    let found = whole(blocks(variable("b", n(0), few.clone()), &[t.clone(), next()]));
    assert_eq!(found, Some((n(0), &n(64) * &few)));
    // They may end before the last element, or there may be more of them.
    assert_eq!(whole(blocks(variable("b", n(0), size("D")), &[t.clone(), next()])), None);
    // There are none, and they begin after what would be the end.
    let late = variable("b", n(1), &count + &n(1));
    assert_eq!(whole(blocks(late, &[t.clone(), next()])), None);
    // They overlap.
    assert_eq!(whole(blocks(all(), std::slice::from_ref(&t))), None);
    // The end is another for each.
    assert_eq!(whole(blocks(all(), &[&t - &at("b"), next()])), None);
    // Between them an element is left out.
    assert_eq!(whole(blocks(all(), &[t, &next() - &n(1)])), None);
}

#[test]
fn a_loop_that_may_run_backwards_is_none() {
    let row = |from: Dim, to: Dim| Set {
        variables: vec![variable("t", from, to)],
        from: &at("t") * &size("D"),
        to: &(&at("t") * &size("D")) + &size("D"),
        ..Set::nothing()
    };
    assert_eq!(whole(row(n(0), size("T"))), Some((n(0), &size("T") * &size("D"))));
    assert_eq!(whole(row(n(1), size("T"))), None);
}

#[test]
fn what_a_loop_repeats_is_there_if_it_runs() {
    let set = |times: Dim, of_item: bool| {
        let repeats = LoopVariable { name: Symbol::variable("k"), from: n(0), to: times, of_item };
        combined(Set { variables: vec![repeats], to: size("T"), ..Set::nothing() }, &known(), Reach::Items)
    };
    assert!(set(&size("D") + &n(1), false).is_certain);
    assert!(!set(size("D"), false).is_certain);
    // Items that write the same are none that write once.
    assert!(!set(&size("D") + &n(1), true).variables.is_empty());
}

#[test]
fn a_variable_is_divided_where_it_is_all_multiples_and_remainders() {
    let all = &size("T") * &size("D");
    let transposed = |from: Dim, to: Dim| {
        let quotient = at("i").floor_div(&size("D")).unwrap();
        let rest = &at("i") - &(&size("D") * &quotient);
        let variables = vec![variable("b", n(0), size("T")), variable("i", from, to)];
        let from = &(&(&rest * &size("T")) + &quotient) + &(&at("b") * &all);
        Set { variables, to: &from + &n(1), from, ..Set::nothing() }
    };
    assert_eq!(whole(transposed(n(0), all.clone())), Some((n(0), &size("T") * &all)));
    assert_eq!(whole(transposed(n(0), &all - &n(1))), None);
    assert_eq!(whole(transposed(n(0), &all + &n(1))), None);
    assert_eq!(whole(transposed(at("b"), all.clone())), None);
}

#[test]
fn a_quotient_is_read_off_where_the_rest_is_below_the_divisor() {
    let rows = |most: Dim| {
        let quotient = (&(&at("i") * &size("D")) + &at("j")).floor_div(&size("D")).unwrap();
        let variables = vec![variable("i", n(0), size("T")), variable("j", n(0), most)];
        let from = &(&quotient * &size("D")) + &at("j");
        Set { variables, to: &from + &n(1), from, ..Set::nothing() }
    };
    assert_eq!(whole(rows(size("D"))), Some((n(0), &size("T") * &size("D"))));
    assert_eq!(whole(rows(&size("D") + &n(1))), None);
}

#[test]
fn a_condition_on_a_variable_is_a_bound_of_it() {
    let some = |condition: Dim| {
        let variables = vec![variable("t", n(0), &size("T") + &size("D"))];
        Set { variables, when: vec![condition], from: at("t"), to: &at("t") + &n(1), ..Set::nothing() }
    };
    assert_eq!(whole(some(&(&size("T") - &at("t")) - &n(1))), Some((n(0), size("T"))));
    assert_eq!(whole(some(&at("t") - &size("T"))), Some((size("T"), &size("T") + &size("D"))));
    // Every other number, and one of which it is not known whether it is a number of the variable.
    assert_eq!(whole(some(&(&n(2) * &at("t")) - &size("T"))), None);
    assert_eq!(whole(some(&at("t") - &(&size("T") * &size("D")))), None);
}

#[test]
fn what_is_side_by_side_is_one_only_where_nothing_is_between() {
    let all = |second: Dim| {
        let piece = |from: Dim, to: Dim| {
            let variables = vec![variable("t", n(0), size("T"))];
            Writes {
                buffer: BufferId(0),
                set: Set { variables, from, to, ..Set::nothing() },
                call: String::new(),
            }
        };
        side_by_side(vec![piece(n(0), size("D")), piece(second.clone(), &second + &n(1))], &known()).len()
    };
    assert_eq!(all(size("D")), 1);
    assert_eq!(all(&size("D") + &n(1)), 2);
}

#[test]
fn rows_are_left_out_by_attention_of_few_rows_alone() {
    let leaves = |kind: Kind, rows: Dim| {
        let set = Set { kind, when: vec![&n(8) - &size("T")], ..Set::nothing() };
        set.leaves_rows(&(&rows * &size("D")))
    };
    assert!(leaves(Kind::Attention, &n(8) - &size("T")));
    assert!(!leaves(Kind::Map, &n(8) - &size("T")));
    assert!(!leaves(Kind::Attention, &n(9) - &size("T")));
}
