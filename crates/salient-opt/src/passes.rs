//! The passes as a table, in the order in which they run.

use crate::after::columns::{parameter_columns, value_columns};
use crate::after::distances::diagonals::diagonal_sums;
use crate::after::distances::tables::distance_tables;
use crate::after::joined::joined_attentions;
use crate::after::keys_first::keys_first;
use crate::after::log_sum_exp::by_log_sum_exp;
use crate::after::masks::masks_outermost;
use crate::after::mean_products::mean_products;
use crate::after::merge_sums::merge_sums;
use crate::after::names_outermost::names_outermost;
use crate::after::order_factors::order_factors;
use crate::after::tables::tables;
use crate::after::values::values_together;
use crate::after::weighted_sums::weighted_sums;
use crate::before::{
    axes, batch, behind, distances, ends, guards, merged, nested_sums, parts, running, share,
};
use crate::graph::border::Border;
use crate::graph::rewrite::Rewritten;
use crate::options::Fp;
use crate::rules::Holds;
use salient_ir::Graph;
use std::fmt::Write;

/// A step from a graph to an equal graph.
#[derive(Clone, Copy, Debug)]
pub struct Pass {
    /// What `salient ir --after` calls it.
    pub name: &'static str,
    /// What it is for.
    pub purpose: &'static str,
    /// An example in outline: what may stand in a graph, …
    pub before: &'static str,
    /// … and what becomes of it.
    pub after: &'static str,
    /// In what sense the values are those of the graph before, in the default mode.
    pub holds: Holds,
    /// Whether it runs in strict mode as well.
    pub strict: bool,
    /// What it does.
    pub(crate) step: Step,
}

/// What a pass takes and what it returns.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    /// A graph before the e-graph; axes that are tied stay of one kind.
    Before(fn(&Graph, &Border) -> Graph),
    /// The e-graph: saturation and extraction.
    Search,
    /// A graph after the e-graph. Nodes that it moves are followed, for the report.
    After(fn(&Graph) -> Rewritten),
}

/// Every pass, in order. The grouping of products and what zero times NaN is belong to the source in strict mode: passes that
/// change them are left out there.
pub const PASSES: &[Pass] = &[
    Pass {
        name: "batch-heads",
        purpose: "heads that are written one after the other become one computation over an axis of heads, \
                  with their parameters stacked",
        before: "concat(sum[d](x * w.0), sum[d](x * w.1))",
        after: "sum[d](x * stack(w.0, w.1)[h]) read at h = c / E",
        holds: Holds::Exactly,
        strict: true,
        step: Step::Before(|g, _| batch::batch(g)),
    },
    Pass {
        name: "head-axes",
        purpose: "the heads of an attention have one axis, whether the source gives them two, one, or a part of one",
        before: "sum[j](w[d / E, j] * v[j, d])",
        after: "sum[j](w[h, j] * v[j, h * E + e]) read at h = d / E, e = d % E",
        holds: Holds::Exactly,
        strict: true,
        step: Step::Before(|g, _| merged::heads::heads(g)),
    },
    Pass {
        name: "key-axes",
        purpose: "keys of several axes, as the pixels of an image are, have one, where what is combined over them is made of their scores",
        before: "sum[y](sum[x](exp(s[i, y, x]))), s = sum[e](q[i, e] * k[y, x, e])",
        after: "sum[j](exp(s[i, j])), s = sum[e](q[i, e] * k[j / W, j % W, e])",
        holds: Holds::Rounding,
        strict: false,
        step: Step::Before(|g, _| merged::keys::key_axes(g)),
    },
    Pass {
        name: "reads-of-parts",
        purpose: "what is read in parts is computed in those parts, where it is made of joined ones",
        before: "y = sum[j](w[i, j] * concat(v, ones)[j, c]), y[i, E]",
        after: "sum[j](w[i, j] * ones[j, 0])",
        holds: Holds::Exactly,
        strict: true,
        step: Step::Before(|g, _| parts::reads::reads_of_parts(g)),
    },
    Pass {
        name: "columns-apart",
        purpose: "what is combined over scores and single columns beside them, as a softmax with a sink is, is combined over the scores, \
                  and with the columns after that",
        before: "sum[c](exp(concat(s, r)[c]))",
        after: "sum[j](exp(s[j])) + exp(r)",
        holds: Holds::Rounding,
        strict: false,
        step: Step::Before(|g, _| parts::columns::columns_apart(g)),
    },
    Pass {
        name: "merges-last",
        purpose: "what is computed of values whose axes were merged into one is computed before they are merged",
        before: "exp(x[n / E, n % E])",
        after: "exp(x) read at n / E, n % E",
        holds: Holds::Exactly,
        strict: true,
        step: Step::Before(|g, _| parts::merges::merges_last(g)),
    },
    Pass {
        name: "running-sums",
        purpose: "a sum over what lies before or behind a position is a running sum, which serves every position",
        before: "sum[l](if j < l and l <= i then x[l] else 0)",
        after: "if j <= i then cumsum[l](x)[i] - cumsum[l](x)[j] else 0",
        holds: Holds::Refining,
        strict: false,
        step: Step::Before(running::running_sums),
    },
    Pass {
        name: "guarded-indices",
        purpose: "an index is what it is where its view is used: under a choice that asks for an inequality of indices",
        before: "if j <= i then r[max(i - j, 0)] else 0",
        after: "if j <= i then r[i - j] else 0",
        holds: Holds::Exactly,
        strict: true,
        step: Step::Before(|g, _| guards::guarded_indices(g)),
    },
    Pass {
        name: "sums-at-the-end",
        purpose: "a running sum that is read at its end, or where only zeros come behind, is a sum",
        before: "cumsum[j](if j < i then x[i, j] else 0) read at j = i",
        after: "sum[j](if j < i then x[i, j] else 0)",
        holds: Holds::Rounding,
        strict: false,
        step: Step::Before(|g, _| ends::sums_at_the_end(g)),
    },
    Pass {
        name: "sums-over-distances",
        purpose: "a sum over keys of weights by what lies at the distance of the key from the row is one over the distances, and weights \
                  that are read at a distance are made of what they are made of at that distance",
        before: "sum[j](if j <= i then exp(s[i, j]) * r[i - j, e] else 0)",
        after: "sum[d](if d <= i then exp(s[i, i - d]) * r[d, e] else 0)",
        holds: Holds::Refining,
        strict: false,
        step: Step::Before(|g, _| distances::sums::sums_over_distances(g)),
    },
    Pass {
        name: "relative-products",
        purpose: "a product with what lies at a distance from each row is one with all distances, of which each row reads \
                  another part, and one with what each pair picks of a small table is one with all of the table",
        before: "sum[e](q[i, e] * r[i - j, e])",
        after: "sum[e](q[i, e] * r[T - 1 - d, e]) read at d = j + T - 1 - i",
        holds: Holds::Rounding,
        strict: false,
        step: Step::Before(|g, _| distances::products::relative_products(g)),
    },
    Pass {
        name: "canonical-axes",
        purpose: "axes are named by where they stand, so that no name of the source shows, and renamings vanish",
        before: "q[i, e] * k[j, e]",
        after: "q[t, e] * k[t.1, e]",
        holds: Holds::Exactly,
        strict: true,
        step: Step::Before(|g, border| axes::canonicalise(g, &border.tied)),
    },
    Pass {
        name: "share",
        purpose: "what differs in the names of its axes alone is computed once",
        before: "x[t, e] / sum[e](x[t, e]), x[t.1, e] / sum[e](x[t.1, e])",
        after: "n = x[t, e] / sum[e](x[t, e]), n[t.1, e]",
        holds: Holds::Exactly,
        strict: true,
        step: Step::Before(|g, _| share::share(g)),
    },
    Pass {
        name: "transposed-sums",
        purpose: "a sum that reads scores with rows and columns swapped goes over them as they are, and its result is renamed",
        before: "sum[t.1](s[t.1, t] * q[t.1, e])",
        after: "sum[t](s[t.1, t] * q[t, e]) read at t.1 = t",
        holds: Holds::Exactly,
        strict: true,
        step: Step::Before(|g, _| axes::transposed::transposed_sums(g)),
    },
    Pass {
        name: "nested-sums",
        purpose: "of a sum of products over two axes that one is summed first which leaves the fewest products, and factors that do \
                  not vary along it wait outside",
        before: "sum[h](sum[j](a[g, h] * w[h, i, j] * v[g, j, e]))",
        after: "sum[j](sum[h](a[g, h] * w[h, i, j]) * v[g, j, e])",
        holds: Holds::Refining,
        strict: false,
        step: Step::Before(nested_sums::nested_sums),
    },
    Pass {
        name: "what-is-behind",
        purpose: "the sum of a row without what comes up to a position is the sum of what comes behind it, which rounds less",
        before: "sum[j](x) - cumsum[j](x)",
        after: "reverse_cumsum[j](x) - x",
        holds: Holds::Refining,
        strict: false,
        step: Step::Before(|g, _| behind::what_is_behind(g)),
    },
    Pass {
        name: "saturate",
        purpose: "the rules add every equal term that they know, and the cheapest terms are extracted: softmaxes, attentions, \
                  masks and products get one form",
        before: "sum[j](exp(s) / sum[j](exp(s)) * v)",
        after: "exp_attend[j](s, v)",
        holds: Holds::Refining,
        strict: true,
        step: Step::Search,
    },
    Pass {
        name: "keys-first",
        purpose: "what is made of a sum of scores over a batch and summed over keys is summed over the keys first, so that no sum is \
                  stored for every query and key",
        before: "sum[j](f[i, j] * sum[b](x[b, i, j]))",
        after: "sum[b](sum[j](f[i, j] * x[b, i, j]))",
        holds: Holds::Refining,
        strict: false,
        step: Step::After(keys_first),
    },
    Pass {
        name: "merge-sums",
        purpose: "sums of a product over several axes become one sum over one axis, as a product of matrices has it",
        before: "sum[h](sum[e](y[h, e] * w[h, e, d]))",
        after: "sum[h_e](y[h_e / E, h_e % E] * w[h_e / E, h_e % E, d])",
        holds: Holds::Rounding,
        strict: true,
        step: Step::After(merge_sums),
    },
    Pass {
        name: "order-factors",
        purpose: "elementwise products have one order of their factors",
        before: "2 * w[j] * (x[i, j] / r[i])",
        after: "x[i, j] / r[i] * w[j] * 2",
        holds: Holds::Refining,
        strict: false,
        step: Step::After(order_factors),
    },
    Pass {
        name: "mean-products",
        purpose: "a product with what an attention makes, summed over its columns, is a mean of the products with the values where \
                  those are there anyway and nobody else reads what the attention makes, or its values are scores of the same rows",
        before: "sum[e](g[i, e] * attend[j](s, v[j, e]))",
        after: "attend[j](s, sum[e](g[i, e] * v[j, e]))",
        holds: Holds::Refining,
        strict: false,
        step: Step::After(mean_products),
    },
    Pass {
        name: "log-sum-exp",
        purpose: "weights that no product with values reads follow from the log-sum-exp of their row, or from its greatest score \
                  and a sum, so that no matrix of them is stored",
        before: "sum[t](softmax[t.1](s))",
        after: "sum[t](exp(s - log_sum_exp[t.1](s)))",
        holds: Holds::Refining,
        strict: false,
        step: Step::After(by_log_sum_exp),
    },
    Pass {
        name: "weighted-sums",
        purpose: "sums of values under weights that no softmax makes are one pass over the keys",
        before: "sum[t.1](max(s, 0) * v[t.1, e])",
        after: "weighted_sum[t.1](max(s, 0), v[t.1, e])",
        holds: Holds::Refining,
        strict: false,
        step: Step::After(weighted_sums),
    },
    Pass {
        name: "joined-attentions",
        purpose: "attentions over the same values that are added up are one sum under the sum of their weights: one product with \
                  the values",
        before: "attend[t.1](s, v) - attend[t.1](r, v) * lambda",
        after: "weighted_sum[t.1](exp(s - log_sum_exp(s)) - exp(r - log_sum_exp(r)) * lambda, v)",
        holds: Holds::Refining,
        strict: false,
        step: Step::After(joined_attentions),
    },
    Pass {
        name: "value-columns",
        purpose: "values with several axes that their weights do not have get one axis of columns, so that all of them are summed \
                  under weights that are computed once",
        before: "attend[t.1](s[t, t.1], v[t.1, h, w])",
        after: "attend[t.1](s[t, t.1], v[t.1, n / W, n % W]) read at n = h * W + w",
        holds: Holds::Exactly,
        strict: false,
        step: Step::After(value_columns),
    },
    Pass {
        name: "values-together",
        purpose: "values that are summed under the same weights lie side by side, so that the weights are computed once for all of them",
        before: "attend[t.1](s[t, t.1], v[t.1, e]), attend[t.1](s[t, t.1], u[t.1, f])",
        after: "attend[t.1](s[t, t.1], concat[n](v, u)[t.1, n]) read at n = e and at n = E + f",
        holds: Holds::Exactly,
        strict: false,
        step: Step::After(values_together),
    },
    Pass {
        name: "parameter-columns",
        purpose: "a parameter with few columns for each position of another axis, as those of each head, gets one axis of columns, so \
                  that its product fills register tiles",
        before: "sum[d](x[t, d] * w[d, h, e]), read by products and attentions alone",
        after: "sum[d](x[t, d] * w[d, n / E, n % E]) read at n = h * E + e",
        holds: Holds::Exactly,
        strict: true,
        step: Step::After(parameter_columns),
    },
    Pass {
        name: "masks-outermost",
        purpose: "weights that are zero wherever a mask inside of them does not hold have the mask around them, so that the keys \
                  that it excludes are known, and all masks are one, in one order",
        before: "weighted_sum[t.1](max((if m then p else 0) - 0.01, 0), v)",
        after: "weighted_sum[t.1](if m then max(p - 0.01, 0) else 0, v)",
        holds: Holds::Exactly,
        strict: true,
        step: Step::After(masks_outermost),
    },
    Pass {
        name: "distance-tables",
        purpose: "what is costly and depends on a row and a key by their distance alone is computed once for each distance",
        before: "s[i, j] + cos(i - j)",
        after: "s[i, j] + c[j + T - i], c[d] = cos(T - d)",
        holds: Holds::Exactly,
        strict: false,
        step: Step::After(distance_tables),
    },
    Pass {
        name: "diagonal-sums",
        purpose: "a sum over all pairs of a row and a key that a condition of their distance picks is one over the distances, of a sum over \
                  the rows for each",
        before: "sum[i](sum[j](if bucket(i - j) == n then s[i, j] else 0))",
        after: "sum[d](if bucket(T - d) == n then c[d] else 0), c[d] = sum[i](if 0 <= i + d - T < T then s[i, i + d - T] else 0)",
        holds: Holds::Rounding,
        strict: false,
        step: Step::After(diagonal_sums),
    },
    Pass {
        name: "tables",
        purpose: "tables of sines or cosines that differ in the names of their axes or the order of factors alone are computed once",
        before: "cos(f[e] * t), cos(t.1 * f[e])",
        after: "c[t, e] = cos(f[e] * t), c[t.1, e]",
        holds: Holds::Refining,
        strict: false,
        step: Step::After(tables),
    },
    Pass {
        name: "names-outermost",
        purpose: "what is read at another name of an axis and at other indices besides is the view at those indices under another \
                  name, so that one view serves both names",
        before: "x[t.1, h * E + e] where x has the axis t, named first",
        after: "x[t, h * E + e], named t.1 last",
        holds: Holds::Exactly,
        strict: true,
        step: Step::After(names_outermost),
    },
];

impl Pass {
    /// The pass of that name.
    pub fn named(name: &str) -> Option<&'static Pass> {
        PASSES.iter().find(|pass| pass.name == name)
    }

    /// Whether it runs where the caller allows this with floats.
    pub(crate) fn runs_in(&self, fp: Fp) -> bool {
        self.strict || fp == Fp::Default
    }

    /// Whether it runs before the e-graph.
    pub(crate) fn is_before(&self) -> bool {
        matches!(self.step, Step::Before(_))
    }
}

/// The document of the passes, as `docs/passes.md` has it.
pub fn document() -> String {
    let mut out = "# The passes of the optimiser\n\nGenerated from the table in `crates/salient-opt/src/passes.rs`; a test \
                   compares.\n\nA graph goes through them in this order; `salient ir FILE --after PASS` shows it after one. \
                   In what sense the values stay what they were is said as for [rules](rules.md); each pass is tested alone \
                   for that, on random graphs and hostile data, and deliberately wrong versions of it are caught. Examples are in outline.\n"
        .to_owned();
    for pass in PASSES {
        let mode = if pass.strict { "" } else { "; not with `--fp strict`" };
        let (name, holds, purpose) = (pass.name, pass.holds.name(), pass.purpose);
        let _ = write!(out, "\n**{name}** ({holds}{mode}): {purpose}\n\n");
        let _ = write!(out, "    {}\n    => {}\n", pass.before, pass.after);
    }
    out
}
