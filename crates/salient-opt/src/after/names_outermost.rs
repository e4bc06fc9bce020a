//! Views that rename axes, moved outside of all other views. Queries and keys that come out of one product are read under two names of
//! an axis: they then share one view, renamed for the keys. In the text of a graph a view of a view is one list of indices; with one
//! order of views it reads back as the same graph.
//!
//! There is one exception. An index that would not be checked if it were written into the view that it reads has a view of its own, and
//! the text a line for what it reads. There the renaming goes inside, to what has that line.

use crate::graph::rewrite::{Rewritten, rewrite};
use salient_ir::graph::demand::stays_checked;
use salient_ir::{AxisId, Builder, Graph, NodeId, Op};

/// The same graph with names outermost.
pub(crate) fn names_outermost(g: &Graph) -> Rewritten {
    rewrite(g, |b, new, id| {
        let Op::At(axis) = *g.op(id) else { return None };
        let [of, index] = [0, 1].map(|n| new[g.args(id)[n].index()]);
        let (base, mut names) = peeled(b, of);
        if let Some(name) = given_name(b, axis, index) {
            if names.iter().any(|other| shares_axis(*other, name)) || b.node(base).axes.contains(name.to) {
                return None;
            }
            names.push(name);
            return inside(b, base, &names).or_else(|| named(b, base, names));
        }
        if is_open(b, of, axis) {
            return None;
        }
        // An index in place of a name is one in place of what had it.
        let place = names.iter().find(|name| name.to == axis).map_or(axis, |name| name.from);
        names.retain(|name| name.to != axis);
        let mentioned = b.node(index).axes.clone();
        if names.is_empty() || names.iter().any(|name| mentioned.contains(name.from)) {
            return None;
        }
        let back: Vec<(AxisId, NodeId)> = names.iter().map(|name| (name.to, b.iota(name.from))).collect();
        let index = b.at_all(index, &back).ok()?;
        let view = b.at(base, place, index).ok()?;
        named(b, view, names)
    })
}

/// Whether an index along an axis of a view would not be checked if it were written into that.
fn is_open(b: &Builder, view: NodeId, axis: AxisId) -> bool {
    matches!(b.op(view), Op::At(_)) && !stays_checked(b, view, axis)
}

/// The names given to what an open view reads, and to the axes of its index.
fn inside(b: &mut Builder, view: NodeId, names: &[Name]) -> Option<NodeId> {
    let Op::At(axis) = *b.op(view) else { return None };
    let [of, index] = [0, 1].map(|n| b.args(view)[n]);
    let own = b.node(of).axes.clone();
    let is_taken = |name: &Name| own.contains(name.to) || name.from == axis || name.to == axis;
    if !is_open(b, of, axis) || names.iter().any(is_taken) {
        return None;
    }
    let with = indices(b, names);
    let index = b.at_all(index, &with).ok()?;
    let (base, mut before) = peeled(b, of);
    let (again, rest): (Vec<Name>, Vec<Name>) =
        names.iter().partition(|name| before.iter().any(|other| other.to == name.from));
    if rest.iter().any(|name| before.iter().any(|other| shares_axis(*other, *name))) {
        return None;
    }
    for name in again {
        before.iter_mut().filter(|other| other.to == name.from).for_each(|other| other.to = name.to);
    }
    before.extend(rest);
    let of = inside(b, base, &before).or_else(|| named(b, base, before))?;
    b.at(of, axis, index).ok()
}

/// Another name of an axis.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Name {
    from: AxisId,
    to: AxisId,
}

fn shares_axis(a: Name, b: Name) -> bool {
    [b.from, b.to].iter().any(|axis| [a.from, a.to].contains(axis))
}

/// The name that an index gives to an axis, if it does no more.
fn given_name(b: &Builder, from: AxisId, index: NodeId) -> Option<Name> {
    let Op::Iota(to) = *b.op(index) else { return None };
    b.is_renamed(from, index).then_some(Name { from, to })
}

/// What stands under views that give other names to axes, and these names, which are given all at once.
fn peeled(b: &Builder, of: NodeId) -> (NodeId, Vec<Name>) {
    let (mut base, mut names) = (of, Vec::new());
    while let Op::At(from) = *b.op(base) {
        let [inner, index] = [0, 1].map(|n| b.args(base)[n]);
        let Some(name) = given_name(b, from, index) else { break };
        if b.node(inner).axes.contains(name.to) || names.iter().any(|other| shares_axis(*other, name)) {
            break;
        }
        names.push(name);
        base = inner;
    }
    (base, names)
}

/// The view of a node under these names, given in the order of its axes. Those of axes that the index of a view brings in are written
/// into the index.
fn named(b: &mut Builder, base: NodeId, mut names: Vec<Name>) -> Option<NodeId> {
    names.sort();
    let mut base = base;
    if let Op::At(axis) = *b.op(base) {
        let [of, index] = [0, 1].map(|n| b.args(base)[n]);
        let (own, brought) = (b.node(of).axes.clone(), b.node(index).axes.clone());
        let is_brought = |name: &Name| {
            brought.contains(name.from)
                && ![name.from, name.to].iter().any(|x| own.contains(*x) || *x == axis)
        };
        let (inner, outer): (Vec<Name>, Vec<Name>) = names.iter().partition(|name| is_brought(name));
        if !inner.is_empty() {
            let inner = indices(b, &inner);
            let index = b.index_at_all(index, &inner).ok()?;
            (base, names) = (b.at(of, axis, index).ok()?, outer);
        }
    }
    let with = indices(b, &names);
    b.at_all(base, &with).ok()
}

/// The names as indices of the axes that have them.
fn indices(b: &mut Builder, names: &[Name]) -> Vec<(AxisId, NodeId)> {
    names.iter().map(|name| (name.from, b.iota(name.to))).collect()
}
