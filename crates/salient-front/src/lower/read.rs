//! Reading tensors through brackets: `t[i, 0, a:b, ..]`.

use super::uses::{Use, slot_of};
use super::{Eval, Fail, Lowerer, ScopedIndex, lost::Outside};
use crate::diag::{Diagnostic, counted, did_you_mean, listed};
use crate::source::Span;
use crate::syntax::ast::{Bracket, Expr, ExprKind};
use crate::value::{Slot, Tensor, Value};
use salient_ir::{AxisId, AxisSet, Dim, Name, NodeId};

impl<'a> Lowerer<'a, '_> {
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
        let mut out = Reading { pos: Vec::new(), named: t.named.clone(), with: Vec::new(), kept: Vec::new() };
        for (n, item) in items.iter().enumerate() {
            match item {
                Bracket::Unit(_) => out.pos.push(Slot::UNIT),
                Bracket::Rest(_) => {
                    let before = items[..n].iter().filter(|i| !matches!(i, Bracket::Unit(_))).count();
                    let middle = &t.pos[before..before + (rank - consuming)];
                    middle.iter().for_each(|slot| out.keep(slot));
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
        for at in std::mem::take(&mut out.kept) {
            let Some(axis) = out.pos[at].axis.filter(|axis| self.clashes(*axis, &mentioned)) else {
                continue;
            };
            let aside = self.aside(axis, &avoid);
            avoid.insert(aside);
            out.with.push((axis, self.b.iota(aside)));
            out.pos[at].axis = Some(aside);
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
        let mut always_outside = None;
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
                let d = Diagnostic::error(
                    index.span,
                    format!("index {at} is outside an axis of length {extent}"),
                )
                .also(target, format!("this is {}", self.shape_text(t)))
                .help_if(help);
                if self.trials > 0 || slot.axis.is_none() {
                    return Err(d.into());
                }
                always_outside = Some(d);
            }
        }
        let index_tensor = self.tensor(value, index.span)?;
        if let Some(diagnostic) = always_outside {
            // It is read or not: what a choice leaves out has no value that anybody asks for.
            let index = index_tensor.node;
            self.outside.push(Outside { index, extent: extent.clone(), diagnostic, everywhere: true });
        }
        if !self.dtype(&index_tensor).is_int() {
            return Err(Diagnostic::error(index.span, "an index must be an integer")
                .saying(format!("this is {}", self.shape_text(&index_tensor)))
                .help("write `i64(…)` to round toward zero")
                .into());
        }
        if let Some(axis) = slot.axis {
            self.note_outside(index_tensor.node, &extent, index.span);
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
    fn reads_by_value(&self, bound: &ScopedIndex, extent: &Dim) -> bool {
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
        bound: &ScopedIndex,
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
            out.keep(slot);
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
}

/// A reading on its way.
struct Reading {
    pos: Vec<Slot>,
    named: Vec<Slot>,
    with: Vec<(AxisId, NodeId)>,
    /// The places of axes that stay what they are. An axis may stand at another place too, as that of an index.
    kept: Vec<usize>,
}

impl Reading {
    /// An axis that stays what it is.
    fn keep(&mut self, slot: &Slot) {
        self.kept.push(self.pos.len());
        self.pos.push(slot.clone());
    }

    fn add_named(&mut self, slot: Slot) {
        if !self.named.iter().any(|s| s.axis == slot.axis) {
            self.named.push(slot);
        }
    }
}
