//! Deliberately wrong versions of the passes: what a pass made is damaged as a mistake in it would, or it is given what such a
//! mistake would let it see. Each must be caught, and every pass has one.

use super::PassTrial;
use crate::egraph::{saturate, search};
use crate::graph::border::Border;
use crate::graph::digest::digests;
use crate::graph::factors::args_of;
use crate::graph::rewrite::rewrite;
use crate::options::{Fp, Options};
use crate::passes::{PASSES, Pass};
use crate::pipeline::alone;
use crate::rules::{Rule, all_rules};
use salient_ir::{AxisId, Builder, Const, FusedOp, Graph, MapOp, NodeId, Op, ReduceOp, text};
use std::collections::BTreeSet;

/// What a wrong version makes of a node of the right result, over what the nodes before have become.
type Damage = fn(&Graph, &mut Builder, &[NodeId], NodeId) -> Option<NodeId>;

/// The damage of what the pass made: of nodes that the graph before does not have.
fn damaged(pass: &Pass, g: &Graph, damage: Damage) -> Graph {
    let right = alone(pass, g, &Options::default());
    let before: BTreeSet<u64> = digests(g).into_iter().collect();
    let now = digests(&right);
    let is_new = |id: NodeId| !before.contains(&now[id.index()]);
    rewrite(&right, |b, new, id| is_new(id).then(|| damage(&right, b, new, id))?).graph
}

/// Fails if the wrong version agrees with the graphs that it is given.
fn is_caught(name: &str, run: impl Fn(&Pass, &Graph) -> Graph) {
    let pass = Pass::named(name).expect("a pass of the table");
    let outcome = PassTrial { pass, fp: Fp::Default, run: &|g| run(pass, g) }.outcome();
    assert!(outcome.is_err(), "accepted, on {outcome:?} graphs that it changes");
}

macro_rules! wrong {
    ($($test:ident: $pass:literal, $damage:expr;)*) => {
        $(#[test] fn $test() { is_caught($pass, |pass, g| damaged(pass, g, $damage)); })*

        #[test]
        fn every_pass_has_a_wrong_version() {
            let has_one = |pass: &&Pass| [$($pass),*].contains(&pass.name);
            assert_eq!(PASSES.iter().find(|pass| !has_one(pass)).map(|pass| pass.name), None);
        }
    };
}

wrong! {
    heads_that_all_read_the_first_are_caught: "batch-heads", quotients_are_zero;
    parameters_stacked_in_another_order_are_caught: "batch-heads", parts_are_reversed;
    features_that_are_all_the_first_of_their_head_are_caught: "head-axes", remainders_are_zero;
    heads_and_features_swapped_are_caught: "head-axes", quotients_and_remainders_are_swapped;
    keys_in_the_wrong_order_are_caught: "key-axes", quotients_and_remainders_are_swapped;
    keys_that_are_all_the_first_of_their_row_are_caught: "key-axes", remainders_are_zero;
    parts_that_lose_their_weights_are_caught: "reads-of-parts", products_are_their_second_factor;
    sums_beside_columns_that_are_maxima_are_caught: "columns-apart", sums_are_maxima;
    values_before_a_merge_that_lose_a_factor_are_caught: "merges-last", products_are_their_second_factor;
    ends_that_are_added_are_caught: "running-sums", differences_are_sums;
    an_index_that_is_one_off_under_its_guard_is_caught: "guarded-indices", places_of_two_indices_are_one_further;
    sums_that_became_maxima_are_caught: "sums-at-the-end", sums_are_maxima;
    keys_that_are_one_further_from_their_row_are_caught: "sums-over-distances", places_of_two_indices_are_one_further;
    sums_over_distances_that_are_maxima_are_caught: "sums-over-distances", sums_are_maxima;
    distances_that_stand_the_wrong_way_round_are_caught: "relative-products", differences_of_indices_are_negated;
    queries_under_the_name_of_keys_are_caught: "canonical-axes", renamings_are_lost;
    a_bound_axis_that_captures_a_free_one_is_caught: "canonical-axes", sums_capture_an_axis;
    what_is_shared_and_not_renamed_is_caught: "share", renamings_are_lost;
    rows_under_the_name_of_columns_are_caught: "transposed-sums", renamings_are_lost;
    sums_that_lose_a_factor_on_the_way_are_caught: "nested-sums", products_are_their_second_factor;
    what_is_behind_and_was_added_is_caught: "what-is-behind", differences_are_sums;
    a_difference_that_became_a_sum_is_caught: "saturate", differences_are_sums;
    a_mask_with_swapped_arms_is_caught: "saturate", arms_are_swapped;
    an_attention_along_its_queries_is_caught: "saturate", fused_operators_run_along_another_axis;
    sums_over_keys_that_lose_a_factor_are_caught: "keys-first", products_are_their_second_factor;
    sums_over_keys_that_are_maxima_are_caught: "keys-first", sums_are_maxima;
    merged_axes_read_in_the_wrong_order_are_caught: "merge-sums", quotients_and_remainders_are_swapped;
    a_merged_sum_over_one_of_its_axes_is_caught: "merge-sums", remainders_are_zero;
    a_dropped_factor_is_caught: "order-factors", last_factors_are_dropped;
    a_divisor_that_multiplies_is_caught: "order-factors", quotients_are_products;
    means_that_lose_a_factor_are_caught: "mean-products", products_are_their_second_factor;
    means_of_columns_are_caught: "mean-products", fused_operators_run_along_another_axis;
    weights_without_their_shift_are_caught: "log-sum-exp", shifts_are_dropped;
    a_log_sum_exp_of_columns_is_caught: "log-sum-exp", fused_operators_run_along_another_axis;
    a_row_without_a_key_that_is_shifted_all_the_same_is_caught: "log-sum-exp", empty_rows_are_shifted;
    a_mean_without_its_normaliser_is_caught: "weighted-sums", means_are_sums;
    a_sum_that_is_normalised_is_caught: "weighted-sums", sums_are_means;
    columns_that_all_have_the_first_values_are_caught: "value-columns", remainders_are_zero;
    values_that_are_taken_for_each_other_are_caught: "values-together", starts_are_lost;
    columns_of_parameters_in_the_wrong_order_are_caught: "parameter-columns", quotients_and_remainders_are_swapped;
    weights_that_lose_their_mask_are_caught: "weighted-sums", masks_of_weights_are_dropped;
    weights_that_lose_a_factor_are_caught: "weighted-sums", factors_of_weights_are_dropped;
    a_difference_of_attentions_that_became_a_sum_is_caught: "joined-attentions", differences_are_sums;
    a_mask_that_came_out_and_was_lost_is_caught: "masks-outermost", masks_of_weights_are_dropped;
    distances_that_are_one_off_are_caught: "distance-tables", places_of_two_indices_are_one_further;
    keys_that_are_one_off_their_diagonal_are_caught: "diagonal-sums", places_of_two_indices_are_one_further;
    sums_over_diagonals_that_are_maxima_are_caught: "diagonal-sums", sums_are_maxima;
    tables_of_queries_that_keys_read_are_caught: "tables", renamings_are_lost;
    names_that_are_lost_on_the_way_out_are_caught: "names-outermost", renamings_are_lost;
}

#[test]
fn parameters_taken_for_each_other_are_caught_when_sharing() {
    is_caught("share", |pass, g| {
        let ports: Vec<NodeId> = g.ids().filter(|id| g.port(*id).is_some()).collect();
        let like = |id: NodeId| {
            let own = g.port(id)?;
            let alike =
                |other: &&NodeId| g.port(**other).is_some_and(|o| o.axes == own.axes && o.dtype == own.dtype);
            ports.iter().find(alike).copied()
        };
        let confused =
            rewrite(g, |_, new, id| like(id).filter(|first| *first < id).map(|first| new[first.index()]));
        let shared = alone(pass, &confused.graph, &Options::default());
        if text::print(&shared) == text::print(&confused.graph) { g.clone() } else { shared }
    });
}

/// The e-graph with one of the wrong rules among the others.
fn with_rule(name: &str) {
    let wrong = super::super::wrong::ROWS.iter().find(|row| row.name == name).expect("a wrong rule");
    let rules: Vec<Rule> = saturate::rule_set(all_rules().chain([wrong]), Fp::Default);
    is_caught("saturate", |_, g| search(g, &rules, &Options::default(), &Border::default(), &[]).0);
}

#[test]
fn the_e_graph_with_scores_that_lose_what_is_added_is_caught() {
    with_rule("shifts by what depends on the key");
}

#[test]
fn the_e_graph_with_scores_that_are_scaled_is_caught() {
    with_rule("scales the scores of a softmax");
}

#[test]
fn the_e_graph_with_factors_of_sums_without_terms_is_caught() {
    with_rule("a factor leaves a sum that may have no terms");
}

#[test]
fn the_e_graph_with_masks_joined_by_or_is_caught() {
    with_rule("nested masks joined by or");
}

fn quotients_are_zero(g: &Graph, b: &mut Builder, _: &[NodeId], id: NodeId) -> Option<NodeId> {
    args_of(g, id, MapOp::IntDiv).map(|_| b.constant(Const::I64(0)))
}

fn remainders_are_zero(g: &Graph, b: &mut Builder, _: &[NodeId], id: NodeId) -> Option<NodeId> {
    args_of(g, id, MapOp::Mod).map(|_| b.constant(Const::I64(0)))
}

fn quotients_and_remainders_are_swapped(
    g: &Graph,
    b: &mut Builder,
    new: &[NodeId],
    id: NodeId,
) -> Option<NodeId> {
    let (other, args) = args_of(g, id, MapOp::Mod)
        .map(|args| (MapOp::IntDiv, args))
        .or_else(|| Some((MapOp::Mod, args_of(g, id, MapOp::IntDiv)?)))?;
    b.map(other, &[new[args[0].index()], new[args[1].index()]]).ok()
}

fn parts_are_reversed(g: &Graph, b: &mut Builder, new: &[NodeId], id: NodeId) -> Option<NodeId> {
    let Op::Concat(..) = g.op(id) else { return None };
    let args: Vec<NodeId> = g.args(id).iter().rev().map(|a| new[a.index()]).collect();
    b.add(g.op(id).clone(), &args).ok()
}

/// A place that starts behind other parts starts with the first.
fn starts_are_lost(g: &Graph, _: &mut Builder, new: &[NodeId], id: NodeId) -> Option<NodeId> {
    let args = args_of(g, id, MapOp::Add)?;
    matches!(g.op(args[1]), Op::Extent(_) | Op::Const(_)).then(|| new[args[0].index()])
}

/// A tensor under another name of an axis is the tensor.
fn renamings_are_lost(g: &Graph, _: &mut Builder, new: &[NodeId], id: NodeId) -> Option<NodeId> {
    let Op::At(axis) = *g.op(id) else { return None };
    let [x, index] = [0, 1].map(|n| g.args(id)[n]);
    // What is made of it must still have the axes of the outputs.
    let lists_all = g.outputs().iter().all(|out| out.axes.contains(&axis));
    (lists_all && g.is_renamed(axis, index)).then(|| new[x.index()])
}

/// The other axis of a value that has as many positions.
fn other_axis(g: &Graph, x: NodeId, axis: AxisId) -> Option<AxisId> {
    let mut axes = g.node(x).axes.iter().filter(|other| *other != axis && g.extent(*other) == g.extent(axis));
    axes.next()
}

fn sums_capture_an_axis(g: &Graph, b: &mut Builder, new: &[NodeId], id: NodeId) -> Option<NodeId> {
    let Op::Reduce(op, axis) = *g.op(id) else { return None };
    let x = g.args(id)[0];
    let other = other_axis(g, x, axis)?;
    let captured = b.rename(new[x.index()], axis, other).ok()?;
    b.reduce(op, other, captured).ok()
}

fn fused_operators_run_along_another_axis(
    g: &Graph,
    b: &mut Builder,
    new: &[NodeId],
    id: NodeId,
) -> Option<NodeId> {
    let Op::Fused(op, axis) = *g.op(id) else { return None };
    let other = other_axis(g, g.args(id)[0], axis)?;
    let swapped = |b: &mut Builder, x: NodeId| {
        let (to, from) = (b.iota(other), b.iota(axis));
        b.at_all(new[x.index()], &[(axis, to), (other, from)]).ok()
    };
    let first = swapped(b, g.args(id)[0])?;
    let rest = g.args(id).into_iter().skip(1).map(|x| new[x.index()]);
    let args: Vec<NodeId> = [first].into_iter().chain(rest).collect();
    b.add(Op::Fused(op, axis), &args).ok()
}

fn differences_are_sums(g: &Graph, b: &mut Builder, new: &[NodeId], id: NodeId) -> Option<NodeId> {
    let args = args_of(g, id, MapOp::Sub)?;
    b.map(MapOp::Add, &[new[args[0].index()], new[args[1].index()]]).ok()
}

fn sums_are_maxima(g: &Graph, b: &mut Builder, new: &[NodeId], id: NodeId) -> Option<NodeId> {
    let Op::Reduce(ReduceOp::Sum, axis) = *g.op(id) else { return None };
    b.reduce(ReduceOp::Max, axis, new[g.args(id)[0].index()]).ok()
}

/// A view at a place that two indices make is one position further.
fn places_of_two_indices_are_one_further(
    g: &Graph,
    b: &mut Builder,
    new: &[NodeId],
    id: NodeId,
) -> Option<NodeId> {
    let Op::At(axis) = *g.op(id) else { return None };
    let [x, index] = [0, 1].map(|n| g.args(id)[n]);
    if g.node(index).axes.len() != 2 {
        return None;
    }
    let one = b.constant(Const::I64(1));
    let further = b.map(MapOp::Add, &[new[index.index()], one]).ok()?;
    b.at(new[x.index()], axis, further).ok()
}

fn differences_of_indices_are_negated(
    g: &Graph,
    b: &mut Builder,
    new: &[NodeId],
    id: NodeId,
) -> Option<NodeId> {
    let args = args_of(g, id, MapOp::Sub).filter(|_| g.node(id).dtype.is_int())?;
    b.map(MapOp::Sub, &[new[args[1].index()], new[args[0].index()]]).ok()
}

fn products_are_their_second_factor(
    g: &Graph,
    _: &mut Builder,
    new: &[NodeId],
    id: NodeId,
) -> Option<NodeId> {
    let args = args_of(g, id, MapOp::Mul).filter(|_| g.node(id).dtype.is_float())?;
    Some(new[args[1].index()])
}

fn arms_are_swapped(g: &Graph, b: &mut Builder, new: &[NodeId], id: NodeId) -> Option<NodeId> {
    let args = args_of(g, id, MapOp::Select)?;
    let [c, yes, no] = [0, 1, 2].map(|n| new[args[n].index()]);
    b.map(MapOp::Select, &[c, no, yes]).ok()
}

/// Whether a value is a product or a quotient of numbers.
fn is_product(g: &Graph, id: NodeId) -> bool {
    g.node(id).dtype.is_float() && matches!(g.op(id), Op::Map(MapOp::Mul | MapOp::Div))
}

fn last_factors_are_dropped(g: &Graph, _: &mut Builder, new: &[NodeId], id: NodeId) -> Option<NodeId> {
    let first = *g.args(id).first()?;
    let is_read = |axis: AxisId| g.node(first).axes.contains(axis);
    (is_product(g, id) && is_product(g, first) && g.node(id).axes.iter().all(is_read))
        .then(|| new[first.index()])
}

fn quotients_are_products(g: &Graph, b: &mut Builder, new: &[NodeId], id: NodeId) -> Option<NodeId> {
    let args = args_of(g, id, MapOp::Div)?;
    b.map(MapOp::Mul, &[new[args[0].index()], new[args[1].index()]]).ok()
}

/// Whether a value is a log-sum-exp, or a choice that stands for one.
fn is_log_sum_exp(g: &Graph, id: NodeId) -> bool {
    let chosen = args_of(g, id, MapOp::Select).is_some_and(|args| is_log_sum_exp(g, args[1]));
    chosen || matches!(g.op(id), Op::Fused(FusedOp::LogSumExp, _))
}

fn shifts_are_dropped(g: &Graph, _: &mut Builder, new: &[NodeId], id: NodeId) -> Option<NodeId> {
    let args = args_of(g, id, MapOp::Sub)?;
    is_log_sum_exp(g, args[1]).then(|| new[args[0].index()])
}

fn empty_rows_are_shifted(g: &Graph, _: &mut Builder, new: &[NodeId], id: NodeId) -> Option<NodeId> {
    let args = args_of(g, id, MapOp::Select)?;
    is_log_sum_exp(g, id).then(|| new[args[1].index()])
}

/// The fused operator in place of another.
fn instead(
    g: &Graph,
    b: &mut Builder,
    new: &[NodeId],
    id: NodeId,
    (from, to): (FusedOp, FusedOp),
) -> Option<NodeId> {
    let Op::Fused(op, axis) = *g.op(id) else { return None };
    let args: Vec<NodeId> = g.args(id).iter().map(|a| new[a.index()]).collect();
    (op == from).then(|| b.add(Op::Fused(to, axis), &args).ok())?
}

fn means_are_sums(g: &Graph, b: &mut Builder, new: &[NodeId], id: NodeId) -> Option<NodeId> {
    instead(g, b, new, id, (FusedOp::WeightedMean, FusedOp::WeightedSum))
}

fn sums_are_means(g: &Graph, b: &mut Builder, new: &[NodeId], id: NodeId) -> Option<NodeId> {
    instead(g, b, new, id, (FusedOp::WeightedSum, FusedOp::WeightedMean))
}

/// A weighted sum under the argument of that number of its weights, where they are made by such an operator.
fn under(
    g: &Graph,
    b: &mut Builder,
    new: &[NodeId],
    id: NodeId,
    (op, number): (MapOp, usize),
) -> Option<NodeId> {
    let Op::Fused(FusedOp::WeightedSum, axis) = *g.op(id) else { return None };
    let [weights, values] = [0, 1].map(|n| g.args(id)[n]);
    let part = args_of(g, weights, op)?[number];
    let has_all = g.node(weights).axes.is_subset(&g.node(part).axes);
    has_all.then(|| {
        b.add(Op::Fused(FusedOp::WeightedSum, axis), &[new[part.index()], new[values.index()]]).ok()
    })?
}

fn masks_of_weights_are_dropped(g: &Graph, b: &mut Builder, new: &[NodeId], id: NodeId) -> Option<NodeId> {
    under(g, b, new, id, (MapOp::Select, 1))
}

fn factors_of_weights_are_dropped(g: &Graph, b: &mut Builder, new: &[NodeId], id: NodeId) -> Option<NodeId> {
    under(g, b, new, id, (MapOp::Mul, 0))
}
