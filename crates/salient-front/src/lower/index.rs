//! Indices: how long they are, and which axis of the graph they stand for.
//!
//! An index with an extent of its own (`i: T`) is a new axis. One without is the axis that it is first used on, so that
//! a definition which only gives new names to axes costs nothing.

use super::uses::{Use, Wanted};
use super::{Eval, Fail, Lowerer, ScopedIndex};
use crate::diag::{Diagnostic, did_you_mean};
use crate::source::Span;
use crate::syntax::ast::{Expr, Ident, Index};
use crate::value::{Slot, Tensor, Value};
use salient_ir::{AxisId, AxisSet, Dim, Name, NodeId};

impl<'a> Lowerer<'a, '_> {
    // ---- binding

    /// Brings indices into scope for the evaluation of `bodies`. Undone by truncating the frame's list.
    pub(super) fn bind(&mut self, wanted: &[Wanted], bodies: &[&'a Expr]) {
        let before = self.here().carried.clone();
        let mut carried = before.clone();
        bodies.iter().for_each(|body| self.rest_axes(body, &mut carried));
        self.frame().carried = carried;
        for (name, extent, span) in wanted {
            let bound = match extent {
                Some(dim) => {
                    let axis = self.new_axis(name, dim);
                    ScopedIndex {
                        name: name.clone(),
                        axis: Some(axis),
                        refused: false,
                        explicit: true,
                        from: *span,
                    }
                }
                None => {
                    let mut uses = Vec::new();
                    for body in bodies {
                        self.scan(body, name, &mut uses);
                    }
                    let refused = bodies.iter().any(|body| self.reads_refused(body));
                    ScopedIndex { refused, ..self.bound_by_use(name, &uses, *span) }
                }
            };
            self.frame().indices.push(bound);
        }
        self.frame().carried = before;
    }

    pub(super) fn bound_by_use(&mut self, name: &str, uses: &[Use], span: Span) -> ScopedIndex {
        let strong = uses.iter().any(|u| !u.weak);
        let candidates: Vec<&Use> = uses.iter().filter(|u| u.weak != strong).collect();
        let named_alike = |u: &&&Use| u.axis.is_some_and(|a| *self.b.axis(a).name == *name);
        let Some(found) = candidates.iter().find(named_alike).or(candidates.first()) else {
            // What is bound outside under this name says how long it is: `sum[j](1.0)` counts the positions of `j`.
            let axis = self.bound(name).and_then(|outer| outer.axis);
            return ScopedIndex { name: name.to_owned(), axis, refused: false, explicit: false, from: span };
        };
        let (axis, extent, from) = (found.axis, found.extent.clone(), found.span);
        let axis = match axis {
            Some(axis) if !self.clashes(axis, &self.taken(name)) => axis,
            _ => self.new_axis(name, &extent),
        };
        ScopedIndex { name: name.to_owned(), axis: Some(axis), refused: false, explicit: false, from }
    }

    /// The axis of that name and extent, or a numbered one where that would be confused with another.
    pub(super) fn new_axis(&mut self, name: &str, extent: &Dim) -> AxisId {
        let axis = self.b.axis_id(name, extent);
        let taken = self.taken(name);
        self.distinct(axis, &taken)
    }

    /// The axes that an index of that name must not be.
    fn taken(&self, name: &str) -> AxisSet {
        let frame = self.here();
        let others = frame.indices.iter().filter(|b| b.name != name).filter_map(|b| b.axis);
        frame.carried.iter().chain(others).collect()
    }

    /// The innermost index of that name.
    pub(super) fn bound(&self, name: &str) -> Option<&ScopedIndex> {
        self.here().indices.iter().rev().find(|b| b.name == name)
    }

    /// The index as a value.
    pub(super) fn index_named(&mut self, name: &str, span: Span) -> Eval<Value<'a>> {
        match self.bound(name).map(|b| (b.axis, b.refused)) {
            Some((Some(axis), _)) => Ok(Value::Tensor(self.index_value(axis, name))),
            Some((None, true)) => Err(Fail::Reported),
            Some((None, false)) | None => Err(self.unknown_extent(name, span)),
        }
    }

    fn unknown_extent(&self, name: &str, span: Span) -> Fail {
        // An index is mostly called as its extent, in lower case.
        let alike = name.to_uppercase();
        let extent = if self.is_known(&alike) { alike.as_str() } else { "T" };
        Diagnostic::error(span, format!("nothing says how long index `{name}` is"))
            .help(format!("write its extent where it is bound: `{name}: {extent}`"))
            .into()
    }

    // ---- definitions

    /// The indices of a left side, evaluated.
    pub(super) fn wanted(&mut self, indices: &'a [Index]) -> Eval<Vec<Wanted>> {
        let mut rests =
            indices.iter().filter_map(|i| if let Index::Rest(span) = i { Some(*span) } else { None });
        if let (Some(first), Some(second)) = (rests.next(), rests.next()) {
            return Err(Diagnostic::error(second, "`..` stands twice in these brackets")
                .also(first, "the first")
                .into());
        }
        let mut out: Vec<Wanted> = Vec::new();
        for index in indices {
            let Index::Name(name, extent) = index else { continue };
            if let Some((_, _, first)) = out.iter().find(|(n, _, _)| *n == name.name) {
                return Err(Diagnostic::error(
                    name.span,
                    format!("index `{}` stands twice in one definition", name.name),
                )
                .also(*first, "first here")
                .help("for a diagonal, give both axes names of their own and compare them")
                .into());
            }
            let extent = extent.as_ref().map(|e| self.dimension(e)).transpose()?;
            out.push((name.name.clone(), extent, name.span));
        }
        Ok(out)
    }

    /// The value of an indexed definition with its axes in the order of the left side: first what is found by name, then the
    /// rest by position from the right.
    pub(super) fn arranged(
        &mut self,
        mut t: Tensor,
        indices: &[Index],
        scope: &[ScopedIndex],
        span: Span,
    ) -> Eval<Tensor> {
        let mut slots: Vec<Option<Vec<Slot>>> = Vec::with_capacity(indices.len());
        for index in indices {
            let Index::Name(name, _) = index else {
                slots.push(None);
                continue;
            };
            slots.push(self.by_name(&mut t, &name.name, scope, span)?.map(|slot| vec![slot]));
        }
        for (place, index) in slots.iter_mut().zip(indices).rev() {
            match index {
                Index::Unit(_) => *place = Some(vec![Slot::UNIT]),
                Index::Rest(_) => *place = Some(std::mem::take(&mut t.pos)),
                Index::Name(name, _) if place.is_none() => {
                    *place = Some(vec![self.by_position(&mut t, name, scope)?]);
                }
                Index::Name(..) => {}
            }
        }
        self.nothing_left(&t, scope, span)?;
        t.pos = slots.into_iter().flatten().flatten().collect();
        self.drop_units(&mut t);
        Ok(t)
    }

    /// Takes the axis of a tensor that an index names, if there is one.
    fn by_name(&self, t: &mut Tensor, name: &str, scope: &[ScopedIndex], span: Span) -> Eval<Option<Slot>> {
        let axis = axis_of(scope, name);
        let is = |s: &Slot| s.is_called(name) || (s.axis.is_some() && s.axis == axis);
        let take = |list: &mut Vec<Slot>| list.iter().position(is).map(|at| list.remove(at));
        let Some(found) = take(&mut t.named).or_else(|| take(&mut t.pos)) else { return Ok(None) };
        if let (Some(a), Some(b)) = (axis, found.axis)
            && self.b.extent(a) != self.b.extent(b)
        {
            let (a, b) = (self.b.extent(a), self.b.extent(b));
            let message = format!("index `{name}` has two extents, {a} and {b}");
            return Err(Diagnostic::error(span, message).into());
        }
        Ok(Some(Slot { axis: found.axis, label: Some(Name::from(name)) }))
    }

    /// The axis for an index that names none: the last one of the tensor if it is as long, else one along which the value is
    /// the same everywhere.
    fn by_position(&mut self, t: &mut Tensor, name: &Ident, scope: &[ScopedIndex]) -> Eval<Slot> {
        let axis = match (t.pos.pop(), axis_of(scope, &name.name)) {
            (Some(slot), None) => slot.axis,
            (Some(slot), Some(axis)) if *self.b.extent(axis) == self.extent(&slot) => {
                let own = slot.axis.map_or(Vec::new(), |a| vec![(a, axis)]);
                t.node = self.moved(t.node, &own);
                Some(axis)
            }
            (Some(slot), Some(axis)) => {
                t.pos.push(slot);
                Some(axis)
            }
            (None, Some(axis)) => Some(axis),
            (None, None) => return Err(self.unknown_extent(&name.name, name.span)),
        };
        Ok(Slot { axis, label: Some(Name::from(name.name.as_str())) })
    }

    /// Every axis of the value has its index.
    fn nothing_left(&self, t: &Tensor, scope: &[ScopedIndex], span: Span) -> Eval<()> {
        if let Some(extra) = t.named.iter().find_map(|s| s.label.clone()) {
            let names: Vec<&str> = scope.iter().map(|b| b.name.as_str()).collect();
            return Err(Diagnostic::error(
                span,
                format!("index `{extra}` is free, but not an index of the definition"),
            )
            .help_if(did_you_mean(&extra, names))
            .into());
        }
        if let Some(slot) = t.pos.first() {
            let dim = self.extent(slot);
            return Err(Diagnostic::error(
                span,
                format!("the value has an axis of length {dim} that no index stands for"),
            )
            .help("give it an index on the left, or write `..` there")
            .into());
        }
        Ok(())
    }

    /// Axes of extent one are read at 0.
    fn drop_units(&mut self, t: &mut Tensor) {
        for slot in &mut t.pos {
            if let Some(axis) = slot.axis
                && self.is_unit(axis)
            {
                let zero: NodeId = self.b.extent_of(&Dim::constant(0));
                t.node = self.replaced(t.node, &[(axis, zero)]);
                slot.axis = None;
            }
        }
    }

    /// Free indices that nobody binds any longer become axes with a position, in order of appearance.
    pub(super) fn settle(&mut self, mut t: Tensor) -> Tensor {
        let mut still = Vec::new();
        for slot in std::mem::take(&mut t.named) {
            let bound = slot.label.as_deref().is_none_or(|l| self.bound(l).is_some());
            if bound { still.push(slot) } else { t.pos.push(slot) }
        }
        t.named = still;
        t
    }
}

/// The axis of an index that is in scope.
fn axis_of(scope: &[ScopedIndex], name: &str) -> Option<AxisId> {
    scope.iter().find(|b| b.name == name).and_then(|b| b.axis)
}
