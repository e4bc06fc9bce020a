//! A plan as text: each stored value with the expression that its kernel computes, in the order in which they are stored.
//!
//! The first word of a line is the anchor of the kernel: `map`, `rows`, `columns`, `gemm`, `attention`, `beside` (a further
//! result of the attention that begins the set), `append`, `pack`. The axes of a stored value stand as they lie in memory, the last one fastest. A word behind a name says in which form an operand is
//! read: `~packed` in panels, `~prepacked` in panels that are made once, when the parameters are bound, `~codes4` and `~codes8`
//! in blocks of so many bits, `~rows` stored row by row for the product, `~tile` packed tile by tile of an attention; without one
//! it is read where it lies. Below a kernel stand the keys that an attention goes `over`, and the parts of its expression that have
//! names (`where`). Equal blocks are shown once: `blocks h.{0 .. 12} (x = x.3)` are those of the parameters `h.0` to `h.11`, with
//! the names of the first one, and in each but the first `x` stands for what is `x.3` in the block before. Elsewhere a value of
//! a later block has its number, `x.3@11`. The [reader](read) takes all of this for what it says.

pub(crate) mod blocks;
pub mod facts;
pub(crate) mod fold;
pub mod key_spans;
pub mod lines;
pub mod outline;
mod ports;
pub mod read;
pub mod summary;
pub(crate) mod words;

use super::{Anchor, Gemm, KernelPlan, Left, PackedScores, Plan, Step, Tiled};
use crate::dims::{n, var};
use crate::index::{AxisValue, Env, Ranges};
use crate::plan::attention::Attention;
use crate::plan::attention::beside::{Beside, BesideKernel};
use crate::plan::attention::key_loop::{KeyLoop, ValueForm};
use crate::plan::attention::key_range::KeyRange;
use crate::plan::attention::split::SplitKv;
use crate::plan::attention::whole_rows::WholeRows;
use crate::program::kernel::{BufferId, Role};
use blocks::{Blocks, Part, chains, parts};
use fold::Ports;
use salient_ir::quantised::Bits;
use salient_ir::text::{Expressions, Leaves, Line};
use salient_ir::{AxisId, Dim, MapOp, NodeId, Op, Symbol};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use words::OperandForm;

/// What values are called beside their names: a norm or an activation, by the node at its end.
pub type Labels = BTreeMap<NodeId, String>;

/// The text of a plan.
pub fn print(plan: &Plan<'_>, labels: &Labels) -> String {
    let none = Labels::new();
    // A graph with checks has nodes of its own.
    let labels = if matches!(plan.graph, Cow::Borrowed(_)) { labels } else { &none };
    let mut names = plan.names.clone();
    let blocks = chains(plan, &mut names);
    print_blocks(plan, &without_products(plan, labels), names, (&blocks, None))
}

/// Of each kernel, by what it stores, the parts of its expression that have lines of their own.
pub(crate) type Parts = BTreeMap<String, BTreeSet<NodeId>>;

/// The text of a plan whose values have these names, with these blocks, and if that is decided with these parts.
pub(crate) fn print_blocks(
    plan: &Plan<'_>,
    labels: &Labels,
    mut names: Vec<Option<String>>,
    (blocks, chosen): (&[Blocks], Option<&Parts>),
) -> String {
    let copies = name_outputs(plan, &mut names);
    let printer = Printer { plan, labels, expressions: expressions(plan, names), copies, chosen };
    let mut out = printer.expressions.signature("plan");
    printer.declarations(&mut out);
    let units = printer.units();
    let folded = if blocks.is_empty() { None } else { parts(&units, blocks, &printer.ports()) };
    let flat = || parts(&units, &[], &Ports::default());
    let in_order = || units.iter().map(|(_, text)| Part::Unit(text.clone())).collect();
    for part in folded.or_else(flat).unwrap_or_else(in_order) {
        match part {
            Part::Unit(text) => out.push_str(&indented(&text, 1)),
            Part::Blocks { chain, range: (first, end), like, text, carried } => {
                let stem = &blocks[chain].chain.stem;
                let like = like.map_or_else(String::new, |first| format!(", as {stem}{first} but for"));
                let carried =
                    if carried.is_empty() { String::new() } else { format!(" ({})", carried.join(", ")) };
                let _ = writeln!(out, "    blocks {stem}{{{first} .. {end}}}{like}{carried} {{");
                out.push_str(&indented(&text, 2));
                out.push_str("    }\n");
            }
        }
    }
    printer.returns(&mut out);
    out.push_str("}\n");
    out
}

/// Gives what is stored in an output the output's name, where nothing else goes by it. An output that repeats what is stored
/// elsewhere has a name of its own, by the buffer.
fn name_outputs(plan: &Plan<'_>, names: &mut [Option<String>]) -> BTreeMap<BufferId, String> {
    let mut taken: BTreeMap<String, Option<NodeId>> = BTreeMap::new();
    for id in plan.graph.ids() {
        if let Some(name) = &names[id.index()] {
            taken.entry(name.clone()).or_insert(Some(id));
        }
    }
    // A view that is stored has no name in the text of a graph.
    for step in &plan.steps {
        names[step.node.index()].get_or_insert_with(|| plan.buffers[step.buffer.0].name.clone());
    }
    let (mut copies, mut homes) = (BTreeMap::new(), BTreeSet::new());
    for step in &plan.steps {
        let buffer = &plan.buffers[step.buffer.0];
        let is_source = plan.graph.port(step.node).is_some();
        let is_home = homes.insert(step.node) && !is_source;
        if !matches!(buffer.role, Role::Output(_)) {
            continue;
        }
        if is_home {
            if taken.get(&buffer.name).is_none_or(|of| *of == Some(step.node)) {
                taken.insert(buffer.name.clone(), Some(step.node));
                names[step.node.index()] = Some(buffer.name.clone());
            }
        } else {
            let mut name = buffer.name.clone();
            while taken.contains_key(&name) {
                name.push_str(".copy");
            }
            taken.insert(name.clone(), None);
            copies.insert(step.buffer, name);
        }
    }
    copies
}

fn indented(text: &str, depth: usize) -> String {
    text.lines().map(|line| format!("{}{line}\n", "    ".repeat(depth))).collect()
}

/// The labels at what is stored: one of the factors of a sum of products belongs to the operand.
fn without_products(plan: &Plan<'_>, labels: &Labels) -> Labels {
    let g = &plan.graph;
    let at = |id: NodeId| {
        let is_factors = g.users(id).iter().all(|user| g.sum_of_products(*user).is_some());
        let operand = g.args(id).into_iter().find(|arg| matches!(g.op(*arg), Op::Map(_)));
        operand.filter(|_| is_factors && !g.users(id).is_empty()).unwrap_or(id)
    };
    labels.iter().map(|(id, label)| (at(*id), label.clone())).collect()
}

/// Expressions in which the axes of what is stored stand as they lie.
fn expressions<'p>(plan: &'p Plan<'_>, names: Vec<Option<String>>) -> Expressions<'p> {
    let orders = plan.steps.iter().map(|step| (step.node, plan.buffers[step.buffer.0].axes.clone()));
    let fits = |(id, order): &(NodeId, Vec<AxisId>)| {
        order.len() == plan.graph.node(*id).axes.len() && plan.graph.port(*id).is_none()
    };
    // Of several places of one value the first is its own.
    let orders: Vec<_> = orders.filter(fits).collect();
    Expressions::new(&plan.graph, orders.into_iter().rev()).named(names)
}

/// What is stored is written by its name.
fn leaves(stored: &BTreeSet<NodeId>) -> Leaves {
    Leaves { stored: stored.clone(), ..Leaves::default() }
}

struct Printer<'p, 'g> {
    plan: &'p Plan<'g>,
    labels: &'p Labels,
    expressions: Expressions<'p>,
    /// The names of outputs that repeat what is stored elsewhere.
    copies: BTreeMap<BufferId, String>,
    chosen: Option<&'p Parts>,
}

impl Printer<'_, '_> {
    /// The text of each step, those that run as one kernel together.
    fn units(&self) -> Vec<(NodeId, String)> {
        self.steps().into_iter().filter(|(_, text)| !text.is_empty()).collect()
    }

    /// Each step with its text. Products of the same rows stand where the first of them does.
    fn steps(&self) -> Vec<(NodeId, String)> {
        let plan = self.plan;
        let sources = plan.buffers[..plan.sources].iter().map(|b| b.node);
        let mut stored: BTreeSet<NodeId> = sources.collect();
        let mut texts: Vec<(NodeId, String)> = Vec::new();
        for step in &plan.steps {
            texts.push((step.node, self.step(step, &stored)));
            stored.insert(step.node);
        }
        let step_of = |kernel: usize| plan.steps.iter().position(|s| s.kernels.contains(&kernel));
        for set in plan.order.iter().filter(|set| set.len() > 1) {
            let steps: Vec<usize> = set.iter().filter_map(|k| step_of(*k)).collect();
            let joint: String = steps.iter().map(|at| std::mem::take(&mut texts[*at].1)).collect();
            texts[steps[0]].1 = format!("joint {{\n{}}}\n", indented(&joint, 1));
        }
        texts
    }

    /// The lines of a step.
    fn step(&self, step: &Step, stored: &BTreeSet<NodeId>) -> String {
        let kernels = &self.plan.kernels[step.kernels.clone()];
        let mut out = String::new();
        for k in kernels {
            match &k.anchor {
                Anchor::Pack(_) if self.is_stored_view(k.node, stored) => {}
                Anchor::Pack(_) => self.operand(&mut out, k, self.form_of(k.buffer), stored),
                Anchor::Map(_) if k.buffer != step.buffer => {
                    self.operand(&mut out, k, OperandForm::Rows, stored)
                }
                // Shown with the merge of the parts, or with their sum.
                Anchor::SplitKv(_) => {}
                Anchor::Beside(BesideKernel { sum: Some(_), .. }) if k.buffer != step.buffer => {}
                Anchor::Beside(of) => self.beside(&mut out, k, &of.scores, stored),
                Anchor::SumParts(of) => self.beside(&mut out, k, self.scores_of(of.parts), stored),
                Anchor::Merge(split) if k.when.is_none() => self.split(&mut out, k, split, stored),
                // Shown with the tiles.
                Anchor::Merge(_) => {}
                Anchor::Tiled(tiled) => self.tiled(&mut out, k, tiled, stored),
                Anchor::WholeRows(whole) => self.whole_rows(&mut out, k, whole, stored),
                Anchor::Gemm(gemm) => self.gemm(&mut out, k, gemm, stored),
                Anchor::Append(_) | Anchor::Map(_) | Anchor::Alias(_) => self.plain(&mut out, k, stored),
                Anchor::Rows { .. }
                | Anchor::Reduction { .. }
                | Anchor::Columns { .. }
                | Anchor::Scatter(_) => {
                    self.plain(&mut out, k, stored);
                }
            }
        }
        out
    }

    /// The name of what a kernel stores.
    fn name(&self, k: &KernelPlan) -> &str {
        self.step_name(k.node, k.buffer)
    }

    fn step_name(&self, node: NodeId, buffer: BufferId) -> &str {
        let own = || self.expressions.name(node).unwrap_or(&self.plan.buffers[buffer.0].name);
        self.copies.get(&buffer).map_or_else(own, String::as_str)
    }

    /// An operand in a form of its own: the value below views of it that are read in the form.
    fn operand(&self, out: &mut String, k: &KernelPlan, form: OperandForm, stored: &BTreeSet<NodeId>) {
        let node = self.below_views(k.node, stored);
        let mut leaves = leaves(stored);
        // What is stored already is written as it is read.
        let root = if stored.contains(&node) { k.node } else { node };
        let name = format!("{}~{}", self.expressions.name(node).unwrap_or("value"), form.text());
        leaves.chosen = self.parts_of(&name);
        let is_below = !stored.contains(&node);
        let axes = if is_below { self.expressions.order(node) } else { &self.plan.buffers[k.buffer.0].axes };
        let lines = self.expressions.lines(root, &name, axes, &leaves);
        write_kernel(out, k, "", &lines, &self.comment(k, &leaves.stored));
    }

    fn plain(&self, out: &mut String, k: &KernelPlan, stored: &BTreeSet<NodeId>) {
        let leaves = leaves(stored);
        let axes = &self.plan.buffers[k.buffer.0].axes;
        self.kernel(out, k, (self.name(k), axes), &leaves, "");
    }

    fn kernel(
        &self,
        out: &mut String,
        k: &KernelPlan,
        (name, axes): (&str, &[AxisId]),
        leaves: &Leaves,
        clause: &str,
    ) {
        let leaves = Leaves { chosen: self.parts_of(name), ..leaves.clone() };
        let lines = self.expressions.lines(k.node, name, axes, &leaves);
        write_kernel(out, k, clause, &lines, &self.comment(k, &leaves.stored));
    }

    fn gemm(&self, out: &mut String, k: &KernelPlan, gemm: &Gemm, stored: &BTreeSet<NodeId>) {
        let mut leaves = leaves(stored);
        leaves.stored.remove(&gemm.contraction.node);
        leaves.forms.insert(gemm.contraction.right, self.form_of(gemm.panels.id).text().to_owned());
        if let Left::Rows(_) = gemm.left {
            leaves.forms.insert(gemm.contraction.left, OperandForm::Rows.text().to_owned());
        }
        let axes = &self.plan.buffers[k.buffer.0].axes;
        self.kernel(out, k, (self.name(k), axes), &leaves, "");
    }

    fn tiled(&self, out: &mut String, k: &KernelPlan, tiled: &Tiled, stored: &BTreeSet<NodeId>) {
        let Tiled { attention: a, scores, key_loop, .. } = tiled;
        let leaves = self.of_tiles(a, key_loop, scores, stored);
        let when = k.when.as_ref().map(|(_, rows)| {
            let limit = n(self.plan.options.tiling.few_rows + 1);
            format!(", split_kv where {rows} < {limit}")
        });
        let clause = format!("over {}{}", self.keys(a, &tiled.key_loop), when.unwrap_or_default());
        let axes = &self.plan.buffers[k.buffer.0].axes;
        self.kernel(out, k, (self.name(k), axes), &leaves, &clause);
    }

    /// The forms in which an attention in tiles reads its operands.
    fn of_tiles(
        &self,
        a: &Attention,
        key_loop: &KeyLoop,
        scores: &[PackedScores],
        stored: &BTreeSet<NodeId>,
    ) -> Leaves {
        let mut leaves = leaves(stored);
        leaves.stored.remove(&a.node);
        leaves.lines.insert(a.score);
        leaves.forms.extend(self.form_of_values(a, key_loop, stored));
        for scores in scores {
            leaves.forms.insert(scores.key, self.form_of(scores.keys.id).text().to_owned());
        }
        leaves
    }

    /// The values of an attention and the form in which they are read, if that is not as they lie. A value that is not stored is computed
    /// where it is packed.
    fn form_of_values(
        &self,
        a: &Attention,
        key_loop: &KeyLoop,
        stored: &BTreeSet<NodeId>,
    ) -> Option<(NodeId, String)> {
        let is_stored = |value: &NodeId| stored.contains(&self.below_views(*value, stored));
        let is_packed = key_loop.values == ValueForm::PackedPerTile;
        let value = a.value.filter(|value| is_packed && is_stored(value))?;
        Some((value, OperandForm::Tile.text().to_owned()))
    }

    fn whole_rows(&self, out: &mut String, k: &KernelPlan, whole: &WholeRows, stored: &BTreeSet<NodeId>) {
        let a = &whole.attention;
        let mut leaves = self.of_tiles(a, &whole.key_loop, &whole.scores, stored);
        for held in &whole.held {
            leaves.lines.extend([held.attention.node, held.attention.score]);
            leaves.lines.extend(held.left());
        }
        let clause = format!("over {}, whole rows of scores", self.keys(a, &whole.key_loop));
        let axes = &self.plan.buffers[k.buffer.0].axes;
        self.kernel(out, k, (self.name(k), axes), &leaves, &clause);
    }

    /// What is stored beside an attention, by whose kernel these products are made.
    fn beside(&self, out: &mut String, k: &KernelPlan, scores: &[PackedScores], stored: &BTreeSet<NodeId>) {
        let mut leaves = leaves(stored);
        leaves
            .forms
            .extend(scores.iter().map(|scores| (scores.key, self.form_of(scores.keys.id).text().to_owned())));
        let stores = self.plan.kernels.iter().filter_map(|host| {
            if let Anchor::WholeRows(whole) = &host.anchor { Some(&whole.beside) } else { None }
        });
        let own = stores.flatten().find(|beside| beside.buffer == k.buffer).and_then(Beside::value_sum);
        leaves.forms.extend(own.and_then(|sum| self.form_of_values(&sum.attention, &sum.key_loop, stored)));
        let axes = &self.plan.buffers[k.buffer.0].axes;
        self.kernel(out, k, (self.name(k), axes), &leaves, "");
    }

    /// The products that are made where these parts of a sum are stored.
    fn scores_of(&self, parts: BufferId) -> &[PackedScores] {
        let mut kernels = self.plan.kernels.iter().filter(|k| k.buffer == parts);
        kernels
            .find_map(|k| if let Anchor::Beside(of) = &k.anchor { Some(&*of.scores) } else { None })
            .unwrap_or(&[])
    }

    fn split(&self, out: &mut String, k: &KernelPlan, split: &SplitKv, stored: &BTreeSet<NodeId>) {
        let mut leaves = leaves(stored);
        leaves.stored.remove(&split.attention.node);
        leaves.lines.insert(split.attention.score);
        let clause = format!("over {}, split_kv", self.keys(&split.attention, &split.key_loop));
        let axes = &self.plan.buffers[k.buffer.0].axes;
        self.kernel(out, k, (self.name(k), axes), &leaves, &clause);
    }

    /// The parts of an expression that have lines, if that is decided.
    fn parts_of(&self, name: &str) -> Option<BTreeSet<NodeId>> {
        self.chosen.map(|parts| parts.get(name).cloned().unwrap_or_default())
    }

    /// The keys that a row visits, and the axis of the rows.
    fn keys(&self, a: &Attention, of: &KeyLoop) -> String {
        let name = |axis: AxisId| self.expressions.axis(axis);
        let KeyBounds { begin, end, .. } = key_bounds(self.plan, name, a, of);
        let mut out = format!("{} in {begin} .. {end}", name(a.key));
        if of.mask.as_ref().is_some_and(|mask| mask.probe.is_some()) {
            out.push_str(" that a probe of the mask keeps");
        }
        if let Some(query) = a.query {
            let _ = write!(out, ", rows {}", name(query));
        }
        out
    }

    /// What a kernel has in it that has a name: norms and activations, a residual.
    fn comment(&self, k: &KernelPlan, stored: &BTreeSet<NodeId>) -> String {
        let mut words: Vec<&str> = Vec::new();
        for id in &k.expression.computes {
            if let Some(label) = self.labels.get(id).filter(|label| !words.contains(&label.as_str())) {
                words.push(label);
            }
        }
        if matches!(k.anchor, Anchor::Gemm(_)) && self.adds_residual(k.node, stored) {
            words.push("residual");
        }
        words.join(", ")
    }

    /// Whether a value that is stored is added to what a product gives.
    fn adds_residual(&self, node: NodeId, stored: &BTreeSet<NodeId>) -> bool {
        let g = &self.plan.graph;
        let mut stack = vec![node];
        while let Some(id) = stack.pop() {
            if *g.op(id) != Op::Map(MapOp::Add) {
                continue;
            }
            for arg in g.args(id) {
                let is_whole = stored.contains(&arg) && !matches!(g.op(arg), Op::Param(_));
                if is_whole && g.node(arg).axes == g.node(node).axes {
                    return true;
                }
                stack.push(arg);
            }
        }
        false
    }

    /// The form in which panels are read.
    fn form_of(&self, panels: BufferId) -> OperandForm {
        let buffer = &self.plan.buffers[panels.0];
        if let Role::Coded(at) = buffer.role {
            let bits = self.plan.options.coded.get(&at).map_or(Bits::Eight, |coding| coding.bits);
            return OperandForm::Codes(bits);
        }
        let once = self.plan.kernels.iter().any(|k| k.buffer == panels && k.once);
        if once { OperandForm::Prepacked } else { OperandForm::Packed }
    }

    /// Whether a node is stored, or a view of what is.
    fn is_stored_view(&self, node: NodeId, stored: &BTreeSet<NodeId>) -> bool {
        stored.contains(&self.below_views(node, stored))
    }

    /// What a node is a view of.
    fn below_views(&self, node: NodeId, stored: &BTreeSet<NodeId>) -> NodeId {
        let g = &self.plan.graph;
        let mut id = node;
        while let (Op::At(_), false) = (g.op(id), stored.contains(&id)) {
            id = g.args(id)[0];
        }
        id
    }
}

/// The keys that a row of an attention visits, in terms of its place.
pub(crate) struct KeyBounds {
    pub(crate) begin: String,
    pub(crate) end: String,
    /// Whether a mask says more than that there are so many keys.
    pub(crate) is_bounded: bool,
}

/// The keys that a row visits; places go by the names of their axes.
pub(crate) fn key_bounds(
    plan: &Plan<'_>,
    name: impl Fn(AxisId) -> String,
    a: &Attention,
    of: &KeyLoop,
) -> KeyBounds {
    let g = &plan.graph;
    let (mut env, mut ranges) = (Env::new(), Ranges::default());
    for axis in g.node(a.score).axes.iter() {
        let index = Symbol::variable(&name(axis));
        ranges.insert(&index, g.extent(axis));
        env.insert(axis, AxisValue::Poly(var(&index)));
    }
    let KeyRange { begins, ends } = of.range.at(&env);
    let list = |word: &str, first: Dim, others: &[Dim]| match others {
        [] => first.to_string(),
        _ => {
            let all: Vec<String> = others.iter().chain([&first]).map(Dim::to_string).collect();
            format!("{word}({})", all.join(", "))
        }
    };
    let is_bounded = !begins.is_empty() || !ends.is_empty();
    let begin = list("max", n(0), &begins);
    // An end that no row takes further than the axis says all.
    let extent = g.extent(a.key);
    let end = match ends.as_slice() {
        [end] if ranges.nonnegative(&(extent - end)) => end.to_string(),
        ends => list("min", extent.clone(), ends),
    };
    KeyBounds { begin, end, is_bounded }
}

/// A kernel on one line; on lines of their own a clause about where it goes, and each part of its expression that has a name.
fn write_kernel(out: &mut String, k: &KernelPlan, clause: &str, lines: &[Line], comment: &str) {
    let comment = if comment.is_empty() { String::new() } else { format!("  // {comment}") };
    let Some((last, parts)) = lines.split_last() else { return };
    let (once, word) = (if k.once { "once " } else { "" }, k.anchor.word().text());
    let _ = writeln!(out, "{once}{word} {} = {}{comment}", last.place, last.text);
    if !clause.is_empty() {
        let _ = writeln!(out, "    {clause}");
    }
    for part in parts {
        let _ = writeln!(out, "    where {} = {}", part.place, part.text);
    }
}
