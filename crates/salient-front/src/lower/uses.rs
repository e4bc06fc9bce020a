//! How indices are used: which names in brackets are free, and on which axes an index stands.
//!
//! Looks at expressions without giving them values; only a target that is itself an expression is tried for its shape.

use super::Lowerer;
use crate::source::Span;
use crate::syntax::ast::{Argument, Bracket, Expr, ExprKind, Ident};
use crate::value::{Builtin, Callee, Value};
use salient_ir::{AxisId, AxisSet, Dim};

/// Indices to bind: name, extent where it is said, place.
pub(super) type Wanted = (String, Option<Dim>, Span);

/// A place where an index is used on an axis.
pub(super) struct Use {
    pub(super) axis: Option<AxisId>,
    pub(super) extent: Dim,
    pub(super) span: Span,
    /// A whole tensor that has an axis of that name: counts only where no brackets do.
    pub(super) weak: bool,
}

impl<'a> Lowerer<'a, '_> {
    /// The indices that an expression uses in brackets and nobody binds: they are free, in order of appearance.
    pub(super) fn free_indices(&mut self, e: &'a Expr) -> Vec<Wanted> {
        let mut out: Vec<Ident> = Vec::new();
        self.collect_free(e, &mut Vec::new(), false, &mut out);
        out.into_iter().map(|i| (i.name, None, i.span)).collect()
    }

    fn collect_free(&self, e: &'a Expr, bound: &mut Vec<&'a str>, inside: bool, out: &mut Vec<Ident>) {
        match &e.kind {
            ExprKind::Name(name) => {
                let lower = name.starts_with(|c: char| c.is_ascii_lowercase());
                let known = bound.contains(&name.as_str()) || self.is_known(name);
                if inside && lower && !known && !out.iter().any(|i| i.name == *name) {
                    out.push(Ident { name: name.clone(), span: e.span });
                }
            }
            ExprKind::Int(_)
            | ExprKind::Float(_)
            | ExprKind::Bool(_)
            | ExprKind::Infinity
            | ExprKind::Text(_)
            | ExprKind::Selection(_) => {}
            ExprKind::Unary(_, x) | ExprKind::Transpose(x) | ExprKind::As(x, _) => {
                self.collect_free(x, bound, inside, out);
            }
            ExprKind::Binary(_, x, y) => {
                self.collect_free(x, bound, inside, out);
                self.collect_free(y, bound, inside, out);
            }
            ExprKind::Compare(x, rest) => {
                self.collect_free(x, bound, inside, out);
                rest.iter().for_each(|(_, y)| self.collect_free(y, bound, inside, out));
            }
            ExprKind::If(c, x, y) => {
                for part in [c, x, y] {
                    self.collect_free(part, bound, inside, out);
                }
            }
            ExprKind::Call(target, args) => {
                let depth = bound.len();
                if let ExprKind::Brackets(f, items) = &target.kind
                    && self.callee(f).is_some()
                {
                    bound.extend(items.iter().filter_map(binder_name));
                }
                for arg in args {
                    bound.extend(arg.each.iter().map(|r| r.name.name.as_str()));
                    self.collect_free(&arg.value, bound, inside, out);
                }
                bound.truncate(depth);
            }
            ExprKind::Brackets(target, items) => {
                if self.callee(target).is_some() {
                    return;
                }
                self.collect_free(target, bound, inside, out);
                for item in items {
                    match item {
                        Bracket::Value(x) | Bracket::Named(_, x) => self.collect_free(x, bound, true, out),
                        Bracket::Colon(a, b, _) => {
                            a.iter().chain(b).for_each(|x| self.collect_free(x, bound, true, out));
                        }
                        Bracket::Rest(_) | Bracket::Unit(_) => {}
                    }
                }
            }
        }
    }

    /// Whether a name means something that is not an index waiting to be bound.
    pub(super) fn is_known(&self, name: &str) -> bool {
        self.bound(name).is_some()
            || self.lookup(name).is_some()
            || self.program.function(name).is_some()
            || Builtin::from_name(name).is_some()
    }

    /// The axes that `..` carries along where an expression reads a tensor: no index may be taken for one of them, even
    /// if it is as long.
    pub(super) fn rest_axes(&self, e: &'a Expr, out: &mut AxisSet) {
        if let ExprKind::Brackets(target, items) = &e.kind
            && let ExprKind::Name(name) = &target.kind
            && let Some(t) = self.lookup(name).and_then(|v| v.value.as_tensor())
            && let Some(rest) = items.iter().position(|i| matches!(i, Bracket::Rest(_)))
        {
            let rank = t.pos.len();
            let before = slot_of(items, rest, rank).unwrap_or(0);
            let after = slot_of(items, rest + 1, rank).unwrap_or(rank);
            let carried = t.pos.iter().take(after.min(rank)).skip(before);
            carried.filter_map(|s| s.axis).for_each(|a| out.insert(a));
        }
        for child in e.children() {
            self.rest_axes(child, out);
        }
    }

    /// Whether an expression reads what has been refused: what follows from that is no mistake of its own.
    pub(super) fn reads_refused(&self, e: &Expr) -> bool {
        let here = matches!(&e.kind, ExprKind::Name(name)
            if self.lookup(name).is_some_and(|v| matches!(v.value, Value::Poison)));
        here || e.children().into_iter().any(|child| self.reads_refused(child))
    }

    /// Every place where an expression uses an index plainly.
    pub(super) fn scan(&mut self, e: &'a Expr, name: &str, out: &mut Vec<Use>) {
        match &e.kind {
            ExprKind::Name(n) => {
                if self.bound(n).is_none()
                    && let Some(t) = self.lookup(n).and_then(|v| v.value.as_tensor())
                    && let Some(slot) = t.called(name)
                {
                    out.push(Use { axis: slot.axis, extent: self.extent(slot), span: e.span, weak: true });
                }
            }
            ExprKind::Int(_)
            | ExprKind::Float(_)
            | ExprKind::Bool(_)
            | ExprKind::Infinity
            | ExprKind::Text(_)
            | ExprKind::Selection(_) => {}
            ExprKind::Unary(_, x) | ExprKind::Transpose(x) | ExprKind::As(x, _) => self.scan(x, name, out),
            ExprKind::Binary(_, x, y) => {
                self.scan(x, name, out);
                self.scan(y, name, out);
            }
            ExprKind::Compare(x, rest) => {
                self.scan(x, name, out);
                rest.iter().for_each(|(_, y)| self.scan(y, name, out));
            }
            ExprKind::If(c, x, y) => [c, x, y].into_iter().for_each(|part| self.scan(part, name, out)),
            ExprKind::Call(target, args) => {
                if let ExprKind::Brackets(f, items) = &target.kind
                    && let Some(callee) = self.callee(f)
                    && items.iter().filter_map(binder_name).any(|n| n == name)
                {
                    match callee {
                        Callee::Builtin(Builtin::Reduce(_) | Builtin::Extreme(..) | Builtin::Mean) => return,
                        Callee::Builtin(Builtin::Concat) => {
                            self.scan_concat(args, name, e.span, out);
                            return;
                        }
                        Callee::Builtin(
                            Builtin::Map(_)
                            | Builtin::CumSum(_)
                            | Builtin::Append
                            | Builtin::Stack
                            | Builtin::Where
                            | Builtin::Draw
                            | Builtin::Grad
                            | Builtin::Stop
                            | Builtin::GradNorm
                            | Builtin::Rank
                            | Builtin::Fused(_),
                        )
                        | Callee::Declared(_) => {}
                    }
                }
                args.iter().for_each(|arg| self.scan(&arg.value, name, out));
            }
            ExprKind::Brackets(target, items) => self.scan_brackets(target, items, name, out),
        }
    }

    /// The parts of a concatenation along `name` have their own extents; together they make the result's.
    fn scan_concat(&mut self, args: &'a [Argument], name: &str, span: Span, out: &mut Vec<Use>) {
        let mut total = Dim::constant(0);
        for arg in args {
            let mut uses = Vec::new();
            self.scan(&arg.value, name, &mut uses);
            let extent = uses.iter().find(|u| !u.weak).or(uses.first()).map(|u| u.extent.clone());
            total = &total + &extent.unwrap_or(Dim::constant(1));
        }
        out.push(Use { axis: None, extent: total, span, weak: false });
    }

    fn scan_brackets(&mut self, target: &'a Expr, items: &'a [Bracket], name: &str, out: &mut Vec<Use>) {
        if self.callee(target).is_some() {
            return;
        }
        let plain: Vec<usize> = (0..items.len()).filter(|n| plain_index(&items[*n]) == Some(name)).collect();
        if !plain.is_empty() {
            let tensor = if let ExprKind::Name(n) = &target.kind {
                self.lookup(n).and_then(|v| v.value.as_tensor()).cloned()
            } else {
                self.trial(|l| {
                    let value = l.expr(target)?;
                    l.tensor(value, target.span)
                })
            };
            for n in plain {
                if let Some(t) = &tensor
                    && let Some(at) = slot_of(items, n, t.pos.len())
                    && let (Some(slot), Bracket::Value(x)) = (t.pos.get(at), &items[n])
                {
                    out.push(Use { axis: slot.axis, extent: self.extent(slot), span: x.span, weak: false });
                }
            }
        }
        if !matches!(target.kind, ExprKind::Name(_)) {
            self.scan(target, name, out);
        }
        for item in items {
            match item {
                Bracket::Value(x) if plain_index(item).is_none() => self.scan(x, name, out),
                Bracket::Colon(a, b, _) => a.iter().chain(b).for_each(|x| self.scan(x, name, out)),
                Bracket::Value(_) | Bracket::Named(..) | Bracket::Rest(_) | Bracket::Unit(_) => {}
            }
        }
    }
}

/// The index that an item is, if it is nothing but a name.
pub(super) fn plain_index(item: &Bracket) -> Option<&str> {
    match item {
        // In parentheses an index is a value: it says nothing of the axis that it reads.
        Bracket::Value(Expr { kind: ExprKind::Name(name), span }) if span.range().len() == name.len() => {
            Some(name)
        }
        Bracket::Value(_) | Bracket::Named(..) | Bracket::Colon(..) | Bracket::Rest(_) | Bracket::Unit(_) => {
            None
        }
    }
}

/// The index that an item in the brackets of a call binds, if the call is one that binds.
pub(super) fn binder_name(item: &Bracket) -> Option<&str> {
    if let Bracket::Colon(Some(Expr { kind: ExprKind::Name(name), .. }), Some(_), _)
    | Bracket::Named(_, Expr { kind: ExprKind::Name(name), .. }) = item
    {
        return Some(name);
    }
    plain_index(item)
}

/// Which of `rank` axes the item at `n` stands for.
pub(super) fn slot_of(items: &[Bracket], n: usize, rank: usize) -> Option<usize> {
    let consuming = |items: &[Bracket]| items.iter().filter(|i| !matches!(i, Bracket::Unit(_))).count();
    match items.iter().position(|i| matches!(i, Bracket::Rest(_))) {
        Some(rest) if rest < n => rank.checked_sub(consuming(&items[n..])),
        _ => Some(consuming(&items[..n])),
    }
}
