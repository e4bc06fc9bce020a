//! Indices: how long they are, which axis of the graph they stand for, and reading tensors through brackets.
//!
//! An index with an extent of its own (`i: T`) is a new axis. One without is the axis that it is first used on, so that
//! a definition which only gives new names to axes costs nothing.

use super::uses::{Use, Wanted, slot_of};
use super::{Bound, Eval, Fail, Lowerer};
use crate::ast::{Bracket, Expr, ExprKind, Index};
use crate::diag::{Diagnostic, counted, did_you_mean, listed};
use crate::source::Span;
use crate::value::{Slot, Tensor, Value};
use salient_ir::{AxisId, AxisSet, Dim, Name, NodeId};

impl<'a> Lowerer<'a, '_> {
    // ---- binding

    /// Brings indices into scope for the evaluation of `bodies`. Undone by truncating the frame's list.
    pub(super) fn bind(&mut self, wanted: &[Wanted], bodies: &[&'a Expr]) {
        let before = self.here().riding.clone();
        let mut riding = before.clone();
        bodies.iter().for_each(|body| self.rest_axes(body, &mut riding));
        self.frame().riding = riding;
        for (name, extent, span) in wanted {
            let bound = match extent {
                Some(dim) => {
                    let axis = self.new_axis(name, dim);
                    Bound {
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
                    {
                        let refused = bodies.iter().any(|body| self.reads_refused(body));
                        Bound { refused, ..self.bound_by_use(name, &uses, *span) }
                    }
                }
            };
            self.frame().indices.push(bound);
        }
        self.frame().riding = before;
    }

    fn bound_by_use(&mut self, name: &str, uses: &[Use], span: Span) -> Bound {
        let strong = uses.iter().any(|u| !u.weak);
        let candidates: Vec<&Use> = uses.iter().filter(|u| u.weak != strong).collect();
        let named_alike = |u: &&&Use| u.axis.is_some_and(|a| *self.b.axis(a).name == *name);
        let Some(found) = candidates.iter().find(named_alike).or(candidates.first()) else {
            return Bound { name: name.to_owned(), axis: None, refused: false, explicit: false, from: span };
        };
        let (axis, extent, from) = (found.axis, found.extent.clone(), found.span);
        let axis = match axis {
            Some(axis) if !self.clashes(axis, &self.taken(name)) => axis,
            _ => self.new_axis(name, &extent),
        };
        Bound { name: name.to_owned(), axis: Some(axis), refused: false, explicit: false, from }
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
        frame.riding.iter().chain(others).collect()
    }

    /// The innermost index of that name.
    pub(super) fn bound(&self, name: &str) -> Option<&Bound> {
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

    // ---- reading

    /// `t[items]`.
    pub(super) fn read(&mut self, t: Tensor, items: &'a [Bracket], target: Span, span: Span) -> Eval<Tensor> {
        let mut rests =
            items.iter().filter_map(|i| if let Bracket::Rest(span) = i { Some(*span) } else { None });
        if let (Some(first), Some(second)) = (rests.next(), rests.next()) {
            return Err(Diagnostic::error(second, "`..` stands twice in these brackets")
                .also(first, "the first")
                .into());
        }
        let rest = items.iter().any(|i| matches!(i, Bracket::Rest(_)));
        let consuming = items.iter().filter(|i| !matches!(i, Bracket::Rest(_) | Bracket::Unit(_))).count();
        let rank = t.pos.len();
        if consuming > rank || (!rest && consuming < rank) {
            let many = counted(rank, "axis", "axes");
            let d = Diagnostic::error(
                span,
                format!("{} for a tensor of {many}", counted(consuming, "index", "indices")),
            )
            .also(target, format!("this is {}", self.shape_text(&t)));
            let d = if consuming < rank { d.help("`..` stands for all other axes: `x[i, ..]`") } else { d };
            return Err(d.into());
        }
        let mut out =
            Reading { pos: Vec::new(), named: t.named.clone(), with: Vec::new(), kept: AxisSet::new() };
        for (n, item) in items.iter().enumerate() {
            match item {
                Bracket::Unit(_) => out.pos.push(Slot::UNIT),
                Bracket::Rest(_) => {
                    let before = items[..n].iter().filter(|i| !matches!(i, Bracket::Unit(_))).count();
                    let middle = &t.pos[before..before + (rank - consuming)];
                    out.kept = out.kept.union(&middle.iter().filter_map(|s| s.axis).collect());
                    out.pos.extend(middle.iter().cloned());
                }
                Bracket::Value(index) => {
                    let at = slot_of(items, n, rank).expect("as many indices as axes");
                    self.read_at(&t, &t.pos[at].clone(), index, target, &mut out)?;
                }
                Bracket::Colon(low, high, place) => {
                    let at = slot_of(items, n, rank).expect("as many indices as axes");
                    self.slice(&t.pos[at].clone(), low.as_ref(), high.as_ref(), *place, &mut out)?;
                }
                Bracket::Named(name, _) => {
                    return Err(Diagnostic::error(name.span, "brackets behind a tensor hold indices")
                        .saying("a named value is for functions")
                        .also(target, format!("this is {}", self.shape_text(&t)))
                        .into());
                }
            }
        }
        Ok(self.substituted(&t, out))
    }

    /// Carries a reading out. Axes that stay where they are, and that an index expression mentions too, step aside.
    fn substituted(&mut self, t: &Tensor, mut out: Reading) -> Tensor {
        let mentioned: AxisSet = out
            .with
            .iter()
            .flat_map(|(_, index)| self.b.node(*index).axes.iter().collect::<Vec<_>>())
            .collect();
        let mut avoid: AxisSet = t.slots().chain(&out.pos).chain(&out.named).filter_map(|s| s.axis).collect();
        avoid = avoid.union(&mentioned);
        for axis in out.kept.clone().iter() {
            if !self.clashes(axis, &mentioned) {
                continue;
            }
            let aside = self.aside(axis, &avoid);
            avoid.insert(aside);
            out.with.push((axis, self.b.iota(aside)));
            for slot in out.pos.iter_mut().filter(|s| s.axis == Some(axis)) {
                slot.axis = Some(aside);
            }
        }
        let node = self.replaced(t.node, &out.with);
        let index = t.index && out.with.is_empty();
        Tensor { node, pos: out.pos, named: out.named, index, floored: t.floored }
    }

    /// One index behind a tensor.
    fn read_at(
        &mut self,
        t: &Tensor,
        slot: &Slot,
        index: &'a Expr,
        target: Span,
        out: &mut Reading,
    ) -> Eval<()> {
        let extent = self.extent(slot);
        // `x[i]` takes the axis for the index's own; `x[(i)]` reads at its value, whatever the axis's length.
        if let ExprKind::Name(name) = &index.kind
            && index.span.range().len() == name.len()
            && let Some(bound) = self.bound(name).cloned()
            && !self.reads_by_value(&bound, &extent)
        {
            return self.read_plain(t, slot, name, &bound, index.span, target, out);
        }
        if let ExprKind::Name(name) = &index.kind
            && name.starts_with(|c: char| c.is_ascii_lowercase())
            && !self.is_known(name)
        {
            return Err(self.unbound_index(name, index.span));
        }
        let value = self.expr(index)?;
        if let Value::Int(at) = &value {
            let outside = match (at.as_constant(), extent.as_constant()) {
                (Some(n), _) if n < 0 => true,
                (Some(n), Some(len)) => n >= len,
                _ => extent.provably_le(at),
            };
            if outside {
                let help = (at.as_constant().is_some_and(|n| n < 0)).then(|| {
                    format!("indices count from 0; the last one is `{}`", &extent - &Dim::constant(1))
                });
                return Err(Diagnostic::error(
                    index.span,
                    format!("index {at} is outside an axis of length {extent}"),
                )
                .also(target, format!("this is {}", self.shape_text(t)))
                .help_if(help)
                .into());
            }
        }
        let index_tensor = self.tensor(value, index.span)?;
        if !self.dtype(&index_tensor).is_int() {
            return Err(Diagnostic::error(index.span, "an index must be an integer")
                .saying(format!("this is {}", self.shape_text(&index_tensor)))
                .help("write `i64(…)` to round toward zero")
                .into());
        }
        if let Some(axis) = slot.axis {
            out.with.push((axis, index_tensor.node));
        }
        out.pos.extend(index_tensor.pos);
        for s in index_tensor.named {
            out.add_named(s);
        }
        Ok(())
    }

    fn unbound_index(&self, name: &str, span: Span) -> Fail {
        let indices: Vec<&str> = self.here().indices.iter().map(|b| b.name.as_str()).collect();
        Diagnostic::error(span, format!("index `{name}` is not bound"))
            .saying(format!("the indices here are {}", listed(indices.iter().copied())))
            .help(format!("give it a place on the left, or sum over it: `sum[{name}](…)`"))
            .help_if(did_you_mean(name, indices))
            .into()
    }

    /// Whether an index with an extent of its own stands on another axis where a choice may exclude what lies outside.
    fn reads_by_value(&self, bound: &Bound, extent: &Dim) -> bool {
        let other = bound.axis.is_some_and(|a| self.b.extent(a) != extent);
        let inside = bound.axis.is_some_and(|a| self.b.extent(a).provably_le(extent));
        bound.explicit && other && (self.guards > 0 || inside)
    }

    #[expect(clippy::too_many_arguments, reason = "one case of `read_at`, split off for its length")]
    fn read_plain(
        &mut self,
        t: &Tensor,
        slot: &Slot,
        name: &str,
        bound: &Bound,
        place: Span,
        target: Span,
        out: &mut Reading,
    ) -> Eval<()> {
        let extent = self.extent(slot);
        let axis = match bound.axis {
            Some(axis) => axis,
            None => {
                // Nothing had said how long the index is until now: this does.
                let found = Use { axis: slot.axis, extent: extent.clone(), span: place, weak: false };
                let late = self.bound_by_use(name, &[found], place);
                let axis = late.axis.expect("bound by a use");
                if let Some(b) = self.frame().indices.iter_mut().rev().find(|b| b.name == name) {
                    *b = late;
                }
                axis
            }
        };
        if *self.b.extent(axis) != extent {
            let other = self.b.extent(axis).clone();
            return Err(Diagnostic::error(
                place,
                format!("index `{name}` has two extents, {other} and {extent}"),
            )
            .saying(format!("this axis has length {extent}"))
            .also(bound.from, format!("`{name}` has length {other} here"))
            .also(target, format!("this is {}", self.shape_text(t)))
            .into());
        }
        if let Some(own) = slot.axis {
            let index = self.b.iota(axis);
            out.with.push((own, index));
        }
        out.add_named(Slot { axis: Some(axis), label: Some(Name::from(name)) });
        Ok(())
    }

    /// `low:high`.
    fn slice(
        &mut self,
        slot: &Slot,
        low: Option<&'a Expr>,
        high: Option<&'a Expr>,
        place: Span,
        out: &mut Reading,
    ) -> Eval<()> {
        let extent = self.extent(slot);
        let from = low.map_or(Ok(Dim::constant(0)), |e| self.dimension(e))?;
        let to = high.map_or(Ok(extent.clone()), |e| self.dimension(e))?;
        if from.as_constant() == Some(0) && to == extent {
            out.kept.extend_with(slot.axis);
            out.pos.push(slot.clone());
            return Ok(());
        }
        let length = &to - &from;
        let negative = |d: &Dim| d.as_constant().is_some_and(|n| n < 0);
        let beyond = (&extent - &to).as_constant().is_some_and(|n| n < 0);
        if negative(&from) || negative(&length) || beyond {
            return Err(Diagnostic::error(
                place,
                format!("the slice {from}:{to} does not lie in an axis of length {extent}"),
            )
            .help_if(negative(&to).then(|| format!("indices count from 0; the end is `{extent}`")))
            .into());
        }
        let label = slot.label.clone();
        let Some(axis) = slot.axis else {
            out.pos.push(Slot::UNIT);
            return Ok(());
        };
        if length.as_constant() == Some(1) {
            out.with.push((axis, self.b.extent_of(&from)));
            out.pos.push(Slot::UNIT);
            return Ok(());
        }
        let stem = self.b.axis(axis).name.clone();
        let part = self.b.axis_id(&stem, &length);
        let used: AxisSet = out.pos.iter().chain(&out.named).filter_map(|s| s.axis).collect();
        let part = self.distinct(part, &used);
        let iota = self.b.iota(part);
        let start = self.b.extent_of(&from);
        let index = if from.as_constant() == Some(0) {
            iota
        } else {
            self.map_node(salient_ir::MapOp::Add, &[iota, start], place)?
        };
        out.with.push((axis, index));
        out.pos.push(Slot { axis: Some(part), label });
        Ok(())
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

    /// The value of an indexed definition with its axes in the order of the left side.
    pub(super) fn arranged(
        &mut self,
        t: Tensor,
        indices: &[Index],
        scope: &[Bound],
        span: Span,
    ) -> Eval<Tensor> {
        let Tensor { mut node, mut pos, mut named, index, floored } = t;
        // First what is found by name, then the rest by position from the right.
        let mut slots: Vec<Option<Vec<Slot>>> = vec![None; indices.len()];
        for (place, index) in slots.iter_mut().zip(indices) {
            let Index::Name(name, _) = index else { continue };
            let axis = scope.iter().find(|b| b.name == name.name).and_then(|b| b.axis);
            let label = Some(Name::from(name.name.as_str()));
            let take = |list: &mut Vec<Slot>| {
                list.iter()
                    .position(|s| s.label == label || (s.axis.is_some() && s.axis == axis))
                    .map(|at| list.remove(at))
            };
            if let Some(found) = take(&mut named).or_else(|| take(&mut pos)) {
                if let (Some(a), Some(b)) = (axis, found.axis)
                    && self.b.extent(a) != self.b.extent(b)
                {
                    let (a, b) = (self.b.extent(a).clone(), self.b.extent(b).clone());
                    return Err(Diagnostic::error(
                        span,
                        format!("index `{}` has two extents, {a} and {b}", name.name),
                    )
                    .into());
                }
                *place = Some(vec![Slot { axis: found.axis, label }]);
            }
        }
        for (place, index) in slots.iter_mut().zip(indices).rev() {
            match index {
                Index::Unit(_) => *place = Some(vec![Slot::UNIT]),
                Index::Rest(_) => *place = Some(std::mem::take(&mut pos)),
                Index::Name(name, _) if place.is_none() => {
                    let label = Some(Name::from(name.name.as_str()));
                    let bound = scope.iter().find(|b| b.name == name.name).and_then(|b| b.axis);
                    *place = Some(vec![match (pos.pop(), bound) {
                        (Some(slot), None) => Slot { axis: slot.axis, label },
                        (Some(slot), Some(axis)) if *self.b.extent(axis) == self.extent(&slot) => {
                            let own = slot.axis.map_or(Vec::new(), |a| vec![(a, axis)]);
                            node = self.moved(node, &own);
                            Slot { axis: Some(axis), label }
                        }
                        (Some(slot), Some(axis)) => {
                            pos.push(slot);
                            Slot { axis: Some(axis), label }
                        }
                        (None, Some(axis)) => Slot { axis: Some(axis), label },
                        (None, None) => return Err(self.unknown_extent(&name.name, name.span)),
                    }]);
                }
                Index::Name(..) => {}
            }
        }
        if let Some(extra) = named.iter().find_map(|s| s.label.clone()) {
            let names: Vec<&str> = scope.iter().map(|b| b.name.as_str()).collect();
            return Err(Diagnostic::error(
                span,
                format!("index `{extra}` is free, but not an index of the definition"),
            )
            .help_if(did_you_mean(&extra, names))
            .into());
        }
        if let Some(slot) = pos.first() {
            let dim = self.extent(slot);
            return Err(Diagnostic::error(
                span,
                format!("the value has an axis of length {dim} that no index stands for"),
            )
            .help("give it an index on the left, or write `..` there")
            .into());
        }
        let mut out =
            Tensor { node, pos: slots.into_iter().flatten().flatten().collect(), named, index, floored };
        self.drop_units(&mut out);
        Ok(out)
    }

    /// Axes of extent one are read at 0.
    fn drop_units(&mut self, t: &mut Tensor) {
        for slot in &mut t.pos {
            if let Some(axis) = slot.axis
                && self.b.extent(axis).as_constant() == Some(1)
            {
                let zero: NodeId = self.b.extent_of(&Dim::constant(0));
                t.node = self.replaced(t.node, &[(axis, zero)]);
                slot.axis = None;
            }
        }
    }

    /// Free indices that nobody binds any longer become axes with a position, in order of appearance.
    pub(super) fn settle(&mut self, mut t: Tensor) -> Tensor {
        let mut riding = Vec::new();
        for slot in std::mem::take(&mut t.named) {
            let bound = slot.label.as_deref().is_none_or(|l| self.bound(l).is_some());
            if bound { riding.push(slot) } else { t.pos.push(slot) }
        }
        t.named = riding;
        t
    }
}

/// A reading on its way.
struct Reading {
    pos: Vec<Slot>,
    named: Vec<Slot>,
    with: Vec<(AxisId, NodeId)>,
    /// Axes that stay where they are.
    kept: AxisSet,
}

impl Reading {
    fn add_named(&mut self, slot: Slot) {
        if !self.named.iter().any(|s| s.axis == slot.axis) {
            self.named.push(slot);
        }
    }
}

trait ExtendWith {
    fn extend_with(&mut self, axis: Option<AxisId>);
}

impl ExtendWith for AxisSet {
    fn extend_with(&mut self, axis: Option<AxisId>) {
        axis.into_iter().for_each(|a| self.insert(a));
    }
}
