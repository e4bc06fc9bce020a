//! What the words of a plan choose: the kernel of each value that is stored, and how it lies.

use super::lines::{Document, Kernel, rows};
use super::{ReadError, error};
use crate::plan::attention::attention;
use crate::plan::contraction::contraction;
use crate::plan::materialise::scatter::scatter;
use crate::plan::materialise::{Choices, KernelChoice};
use crate::plan::text::words::{KernelWord, OperandForm};
use crate::plan::{Anchor, KernelPlan, Plan};
use salient_ir::{AxisId, AxisSet, Class, Graph, NodeId, Op};
use std::collections::BTreeSet;

/// The choices of a text whose kernels store these nodes, in these outputs.
pub(super) fn choices(
    document: &Document,
    g: &Graph,
    stored: &[NodeId],
    homes: &[Option<usize>],
) -> Result<Choices, ReadError> {
    let mut out = Choices::default();
    let mut known: BTreeSet<NodeId> = g.ids().filter(|id| g.port(*id).is_some()).collect();
    out.kernels.extend(known.iter().map(|id| (*id, KernelChoice::Source)));
    for ((kernel, node), home) in document.kernels.iter().zip(stored).zip(homes) {
        if kernel.form.is_some() {
            continue;
        }
        if known.contains(node) {
            // An output beside the one in which its value is stored.
            if g.outputs().iter().all(|output| output.node != *node) {
                return error(kernel.value.line, format!("`{}` is stored already", kernel.value.name));
            }
            continue;
        }
        let order = layout(kernel, g, *node)?;
        let choice = if kernel.word == KernelWord::Beside {
            beside(kernel, g, (*node, &order), (&known, &out))?
        } else {
            kernel_choice(kernel, g, *node, &order, &known)?
        };
        let mut texts = kernel.parts.iter().chain([&kernel.value]).map(|line| &line.text);
        if let (KernelChoice::Product(product), true) =
            (&choice, texts.any(|text| OperandForm::Rows.is_read_in(text)))
        {
            out.rows.insert(*product);
        }
        out.kernels.push((*node, choice));
        out.axes.insert(*node, order);
        out.homes.insert(*node, *home);
        out.joint.extend(kernel.joint.map(|set| (*node, set)));
        known.insert(*node);
    }
    Ok(out)
}

/// The axes of a value as they lie.
fn layout(kernel: &Kernel, g: &Graph, node: NodeId) -> Result<Vec<AxisId>, ReadError> {
    let text = kernel.value.axes.trim_start_matches('[').trim_end_matches(']');
    let axes = &g.node(node).axes;
    let mut out = Vec::new();
    for name in crate::plan::text::fold::list(text) {
        let name = name.split(':').next().unwrap_or(name);
        out.extend(
            axes.iter()
                .filter(|axis| *g.axis(*axis).name == *name && !out.contains(axis))
                .take(1)
                .collect::<Vec<_>>(),
        );
    }
    let all: AxisSet = out.iter().copied().collect();
    if all == *axes {
        return Ok(out);
    }
    error(kernel.value.line, format!("`{}` is a function of other axes", kernel.value.name))
}

/// The kernel of a value; `known` are those that are stored before.
fn kernel_choice(
    kernel: &Kernel,
    g: &Graph,
    node: NodeId,
    order: &[AxisId],
    known: &BTreeSet<NodeId>,
) -> Result<KernelChoice, ReadError> {
    let line = kernel.value.line;
    let is_bound = g.op(node).class() == Class::Bind;
    match kernel.word {
        KernelWord::Rows | KernelWord::Columns if is_bound => Ok(KernelChoice::Rows),
        KernelWord::Rows => match reduction(g, node, known) {
            Some(along) => Ok(KernelChoice::Statistics(along)),
            None => error(line, "no reduction is in the expression"),
        },
        KernelWord::Scatter => match scatter(g, node) {
            Some(_) => Ok(KernelChoice::Scatter),
            None => error(line, "this is no sum whose terms are each added at one position"),
        },
        KernelWord::Gemm => {
            let is_product =
                |id: &NodeId| g.sum_of_products(*id).is_some() && contraction(g, *id, order).is_some();
            match anchors(g, node, known).into_iter().find(is_product) {
                Some(product) => Ok(KernelChoice::Product(product)),
                None => error(line, "no product is in the expression"),
            }
        }
        KernelWord::Attention => {
            let Some(anchor) = anchors(g, node, known).into_iter().next() else {
                return error(line, "no attention is in the expression");
            };
            let score = g.args(anchor)[0];
            let query = kernel.over.as_deref().and_then(rows);
            let of_score = |name: &str| g.node(score).axes.iter().find(|axis| *g.axis(*axis).name == *name);
            let query = match query {
                None => None,
                Some(name) => match of_score(name).filter(|axis| g.node(anchor).axes.contains(*axis)) {
                    Some(axis) => Some(axis),
                    None => return error(line, format!("the scores have no rows `{name}`")),
                },
            };
            let values = &g.args(anchor)[1..];
            let is_alone = query.is_none_or(|q| values.iter().take(1).all(|v| !g.node(*v).axes.contains(q)));
            if is_alone && attention(g, anchor, query, order).is_some() {
                return Ok(KernelChoice::Attention(anchor, query));
            }
            error(line, "this is no attention")
        }
        KernelWord::Map | KernelWord::Append | KernelWord::Alias if !is_bound => Ok(KernelChoice::Map),
        word @ (KernelWord::Map
        | KernelWord::Append
        | KernelWord::Alias
        | KernelWord::Columns
        | KernelWord::Beside
        | KernelWord::Pack) => error(line, format!("`{}` does not compute this expression", word.text())),
    }
}

/// A value that the kernel of the attention at the start of its set stores.
fn beside(
    kernel: &Kernel,
    g: &Graph,
    (node, order): (NodeId, &[AxisId]),
    (known, chosen): (&BTreeSet<NodeId>, &Choices),
) -> Result<KernelChoice, ReadError> {
    let is_of_set = |(id, _): &&(NodeId, KernelChoice)| {
        kernel.joint.is_some() && chosen.joint.get(id) == kernel.joint.as_ref()
    };
    let first = chosen.kernels.iter().find(is_of_set);
    let Some((host, KernelChoice::Attention(..))) = first else {
        return error(kernel.value.line, "no attention begins the set that this is beside");
    };
    let of: BTreeSet<NodeId> =
        known.iter().copied().filter(|id| chosen.joint.get(id) != kernel.joint.as_ref()).collect();
    let is_one = |id: &NodeId| attention(g, *id, None, order).is_some();
    match anchors(g, node, &of).into_iter().find(is_one) {
        Some(of) => Ok(KernelChoice::Beside { host: *host, of }),
        None => error(kernel.value.line, "no reduction of scores is in the expression"),
    }
}

/// What binds an axis and is read by an expression element by element.
fn anchors(g: &Graph, node: NodeId, known: &BTreeSet<NodeId>) -> Vec<NodeId> {
    let (mut out, mut seen, mut stack) = (Vec::new(), BTreeSet::new(), vec![node]);
    while let Some(id) = stack.pop() {
        if known.contains(&id) || !seen.insert(id) {
            continue;
        }
        match g.op(id).class() {
            Class::Bind if g.node(id).axes == g.node(node).axes => out.push(id),
            Class::Map => stack.extend(g.args(id).into_iter().rev()),
            Class::Bind | Class::Port | Class::Leaf | Class::View | Class::Concat => {}
        }
    }
    out
}

/// The axis of a reduction in an expression.
fn reduction(g: &Graph, node: NodeId, known: &BTreeSet<NodeId>) -> Option<AxisId> {
    let (mut seen, mut stack) = (BTreeSet::new(), vec![node]);
    while let Some(id) = stack.pop() {
        if known.contains(&id) || !seen.insert(id) {
            continue;
        }
        if let Op::Reduce(_, axis) = *g.op(id) {
            return Some(axis);
        }
        stack.extend(g.args(id).into_iter().rev());
    }
    None
}

/// Kernels that would have to compute what binds an axis on the way.
pub(super) fn products_elsewhere(plan: &Plan<'_>) -> Option<String> {
    let g = &plan.graph;
    plan.kernels.iter().find_map(|k| {
        let bound = |id: &&NodeId| g.op(**id).class() == Class::Bind && !computes(plan, k, **id);
        k.expression.computes.iter().find(bound)?;
        let name = &plan.buffers[k.buffer.0].name;
        Some(format!("the kernel of `{name}` would have to compute a sum that is not stored"))
    })
}

/// Whether the kernel that stores a value beside its attention computes a node for it.
fn of_host(plan: &Plan<'_>, k: &KernelPlan, id: NodeId) -> bool {
    if let Anchor::SumParts(of) = &k.anchor {
        return of.sum == id;
    }
    let Anchor::Beside(of) = &k.anchor else { return false };
    let mut hosts = plan.kernels.iter().filter(|host| host.buffer == of.host);
    of.sum == Some(id) || hosts.any(|host| computes(plan, host, id))
}

fn computes(plan: &Plan<'_>, k: &KernelPlan, id: NodeId) -> bool {
    let is_product = || plan.graph.sum_of_products(id).is_some();
    match &k.anchor {
        Anchor::Rows { held, .. } => held.contains(&id),
        Anchor::Reduction { .. } | Anchor::Columns { .. } => k.node == id,
        Anchor::Scatter(of) => of.sums.contains(&id),
        Anchor::Gemm(gemm) => gemm.contraction.node == id,
        Anchor::Tiled(tiled) => {
            tiled.attention.node == id || tiled.scores.iter().any(|scores| scores.product == id)
        }
        Anchor::WholeRows(whole) => {
            whole.members().any(|(a, _)| a.node == id) || whole.scores.iter().any(|s| s.product == id)
        }
        Anchor::Beside(_) | Anchor::SumParts(_) => of_host(plan, k, id),
        Anchor::SplitKv(split) | Anchor::Merge(split) => split.attention.node == id || is_product(),
        Anchor::Map(_) | Anchor::Append(_) | Anchor::Alias(_) | Anchor::Pack(_) => false,
    }
}
