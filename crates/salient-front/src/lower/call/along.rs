//! Calls along an axis: reductions, running sums, concatenation, and functions with an `axis` in their brackets.
//!
//! `sum[j](…)` binds `j` in its argument. Without brackets the last axis is meant.

use super::{ArgValue, match_parameters, one_or_many};
use crate::diag::{AXIS_IN_BRACKETS, Diagnostic, counted, did_you_mean, listed};
use crate::lower::uses::Wanted;
use crate::lower::{Eval, Fail, Frame, Lowerer, ScopedIndex, typing};
use crate::source::Span;
use crate::syntax::ast::{Argument, Expr, Function};
use crate::value::{Slot, StaticArg, StaticValue, Tensor, Value};
use salient_ir::{AxisId, AxisSet, DType, Dim, Direction, FusedOp, MapOp, Name, Op, ReduceOp};
use std::collections::BTreeMap;

/// The axes that a call names, after its arguments are evaluated.
struct Along<'a> {
    given: Vec<ArgValue<'a>>,
    bound: Vec<ScopedIndex>,
}

/// A part of a concatenation.
#[derive(Clone)]
pub(in crate::lower) struct Part {
    /// Without its slot along the axis.
    pub(in crate::lower) tensor: Tensor,
    pub(in crate::lower) slot: Slot,
    /// How many positional axes stand to the right of the slot; none if it has a name alone.
    pub(in crate::lower) from_right: Option<usize>,
    pub(in crate::lower) span: Span,
}

impl<'a> Lowerer<'a, '_> {
    /// Evaluates arguments with the indices of the brackets bound.
    fn along(&mut self, statics: &[StaticArg<'a>], args: &'a [Argument]) -> Eval<Along<'a>> {
        let wanted: Vec<Wanted> = statics
            .iter()
            .filter_map(|s| match &s.value {
                StaticValue::Axis(name, extent) => Some((name.clone(), extent.clone(), s.span)),
                StaticValue::Value(_) => None,
            })
            .collect();
        let bodies: Vec<&'a Expr> = args.iter().map(|a| &a.value).collect();
        let depth = self.here().indices.len();
        self.bind(&wanted, &bodies);
        let given = self.arguments(args);
        let bound = self.frame().indices.split_off(depth);
        Ok(Along { given: given?, bound })
    }

    fn only_argument(
        &mut self,
        mut along: Along<'a>,
        name: &str,
        span: Span,
    ) -> Eval<(Tensor, Span, Vec<ScopedIndex>)> {
        if along.given.len() != 1 {
            let n = along.given.len();
            return Err(Diagnostic::error(span, format!("`{name}` takes one tensor, found {n}"))
                .help(AXIS_IN_BRACKETS)
                .into());
        }
        let arg = along.given.remove(0);
        Ok((self.tensor(arg.value, arg.span)?, arg.span, along.bound))
    }

    /// Takes the slot of a named index out of a tensor.
    fn take_slot(&mut self, t: &mut Tensor, bound: &ScopedIndex, place: Span) -> Eval<Option<Slot>> {
        let found = |s: &Slot| s.is_called(&bound.name) || (s.axis.is_some() && s.axis == bound.axis);
        if let Some(at) = t.named.iter().position(found) {
            return Ok(Some(t.named.remove(at)));
        }
        if let Some(at) = t.pos.iter().position(found) {
            return Ok(Some(t.pos.remove(at)));
        }
        if bound.axis.is_some() {
            return Ok(None);
        }
        Err(self.no_axis_called(bound, t, place))
    }

    fn last_slot(&mut self, t: &mut Tensor, name: &str, place: Span) -> Eval<Slot> {
        t.pos.pop().ok_or_else(|| self.no_last_axis(t, name, place))
    }

    fn no_axis_called(&self, bound: &ScopedIndex, t: &Tensor, place: Span) -> Fail {
        let labels: Vec<&str> = t.slots().filter_map(|s| s.label.as_deref()).collect();
        Diagnostic::error(bound.from, format!("no axis is called `{}` here", bound.name))
            .also(
                place,
                format!("this is {}, its axes are {}", self.shape_text(t), listed(labels.iter().copied())),
            )
            .help_if(did_you_mean(&bound.name, labels))
            .into()
    }

    fn no_last_axis(&self, t: &Tensor, name: &str, place: Span) -> Fail {
        let d = Diagnostic::error(place, format!("`{name}` needs an axis"))
            .saying(format!("this is {}", self.shape_text(t)));
        let d = if t.named.is_empty() { d } else { d.help(format!("name the index: `{name}[j](…)`")) };
        d.into()
    }

    /// A reduction; without an operator, the mean.
    pub(in crate::lower) fn reduction(
        &mut self,
        op: Option<ReduceOp>,
        statics: &[StaticArg<'a>],
        args: &'a [Argument],
        span: Span,
    ) -> Eval<Value<'a>> {
        let name = op.map_or("mean", |o| o.info().name);
        let along = self.along(statics, args)?;
        let (mut t, place, bound) = self.only_argument(along, name, span)?;
        let dtype = self.dtype(&t);
        t = match (op, dtype) {
            (Some(ReduceOp::Sum | ReduceOp::Prod), DType::Bool) => {
                self.cast(Value::Tensor(t), DType::I64, place)?
            }
            (None, DType::Bool | DType::I32 | DType::I64) => {
                self.cast(Value::Tensor(t), DType::F32, place)?
            }
            (Some(ReduceOp::Any | ReduceOp::All), DType::F32 | DType::I32 | DType::I64) => {
                return Err(Diagnostic::error(place, format!("`{name}` takes truth values"))
                    .saying(format!("this is {}", self.shape_text(&t)))
                    .help("compare first: `x != 0`")
                    .into());
            }
            _ => t,
        };
        t.index = false;
        let mut count = Dim::constant(1);
        if bound.is_empty() {
            let slot = self.last_slot(&mut t, name, place)?;
            count = self.extent(&slot);
            self.reduce_slot(&mut t, op, slot.axis, span)?;
        }
        for index in bound.iter().rev() {
            let slot = self.take_slot(&mut t, index, place)?;
            let axis = match slot {
                Some(slot) => slot.axis,
                // The argument does not depend on the index: it counts as often as there are positions.
                None => index.axis,
            };
            count = &count * &axis.map_or(Dim::constant(1), |a| self.b.extent(a).clone());
            self.reduce_slot(&mut t, op, axis, span)?;
        }
        if op.is_some() {
            return Ok(Value::Tensor(t));
        }
        self.map(MapOp::Div, vec![(Value::Tensor(t), span), (Value::Int(count), span)], span)
    }

    fn reduce_slot(
        &mut self,
        t: &mut Tensor,
        op: Option<ReduceOp>,
        axis: Option<AxisId>,
        span: Span,
    ) -> Eval<()> {
        let op = op.unwrap_or(ReduceOp::Sum);
        let axis = match axis {
            Some(axis) => axis,
            None if op == ReduceOp::ArgMax => self.b.axis_id("n", &Dim::constant(1)),
            None => return Ok(()),
        };
        t.node = self.b.reduce(op, axis, t.node).map_err(typing(span))?;
        Ok(())
    }

    /// The axis of a call that keeps it, with the tensor's slots unchanged.
    fn kept_axis(
        &mut self,
        t: &Tensor,
        bound: &[ScopedIndex],
        name: &str,
        place: Span,
    ) -> Eval<Option<AxisId>> {
        let mut scratch = t.clone();
        match bound {
            [] => Ok(self.last_slot(&mut scratch, name, place)?.axis),
            [index] => Ok(match self.take_slot(&mut scratch, index, place)? {
                Some(slot) => slot.axis,
                None => index.axis,
            }),
            more => Err(Diagnostic::error(more[1].from, format!("`{name}` goes along one axis")).into()),
        }
    }

    pub(in crate::lower) fn running_sum(
        &mut self,
        direction: Direction,
        statics: &[StaticArg<'a>],
        args: &'a [Argument],
        span: Span,
    ) -> Eval<Value<'a>> {
        let along = self.along(statics, args)?;
        let (mut t, place, bound) = self.only_argument(along, direction.name(), span)?;
        if self.dtype(&t) == DType::Bool {
            t = self.cast(Value::Tensor(t), DType::I64, place)?;
        }
        let Some(axis) = self.kept_axis(&t, &bound, direction.name(), place)? else {
            return Ok(Value::Tensor(t));
        };
        if !t.slots().any(|s| s.axis == Some(axis)) {
            t.named.push(Slot { axis: Some(axis), label: Some(Name::from(bound[0].name.as_str())) });
        }
        t.index = false;
        t.node = self.b.add(Op::CumSum(direction, axis), &[t.node]).map_err(typing(span))?;
        Ok(Value::Tensor(t))
    }

    /// An operator that only rewriting makes, as dumps call it.
    pub(in crate::lower) fn fused(
        &mut self,
        op: FusedOp,
        statics: &[StaticArg<'a>],
        args: &'a [Argument],
        span: Span,
    ) -> Eval<Value<'a>> {
        let info = op.info();
        let along = self.along(statics, args)?;
        if along.given.len() != info.arity() || along.bound.len() > 1 {
            let message = format!(
                "`fused.{}` takes one axis and {}",
                info.name,
                counted(info.arity(), "tensor", "tensors")
            );
            return Err(Diagnostic::error(span, message).into());
        }
        let mut operands = Vec::new();
        for g in along.given {
            operands.push((self.cast(g.value, DType::F32, g.span)?, g.span));
        }
        let place = operands[0].1;
        let (pos, named, nodes) = self.broadcast(&operands, info.name, span)?;
        let mut t = Tensor { pos, named, ..Tensor::scalar(nodes[0]) };
        let axis = match along.bound.first() {
            None => self.last_slot(&mut t, info.name, place)?.axis,
            Some(bound) => {
                let slot = self.take_slot(&mut t, bound, place)?;
                if !info.reduces {
                    let kept = slot.clone().unwrap_or(Slot { axis: bound.axis, label: None });
                    t.named.push(Slot { label: Some(Name::from(bound.name.as_str())), ..kept });
                }
                slot.map_or(bound.axis, |s| s.axis)
            }
        };
        let axis = axis.unwrap_or_else(|| self.b.axis_id("n", &Dim::constant(1)));
        t.node = self.b.add(Op::Fused(op, axis), &nodes).map_err(typing(span))?;
        Ok(Value::Tensor(t))
    }

    /// The parts one after the other along an axis; a part without the axis is one position long.
    pub(in crate::lower) fn concat(
        &mut self,
        statics: &[StaticArg<'a>],
        args: &'a [Argument],
        span: Span,
    ) -> Eval<Value<'a>> {
        // Each part binds the index with its own extent.
        let mut parts: Vec<Part> = Vec::new();
        let mut label = None;
        for arg in args {
            let along = self.along(statics, std::slice::from_ref(arg))?;
            for g in along.given {
                let mut t = self.tensor(g.value, g.span)?;
                let rank = t.pos.len();
                let (slot, from_right) = match along.bound.first() {
                    None => (self.last_slot(&mut t, "concat", g.span)?, Some(0)),
                    Some(bound) => {
                        label = Some(bound.name.clone());
                        let at = t.pos.iter().position(|s| s.is_called(&bound.name));
                        let named = t.named.iter().any(|s| s.is_called(&bound.name));
                        let slot = match (at, named) {
                            (None, false) => Slot::UNIT,
                            _ => self.take_slot(&mut t, bound, g.span)?.unwrap_or(Slot::UNIT),
                        };
                        (slot, at.map(|at| rank - 1 - at))
                    }
                };
                parts.push(Part { tensor: t, slot, from_right, span: g.span });
            }
        }
        let Some(first) = parts.first() else {
            return Err(Diagnostic::error(span, "`concat` needs at least one part").into());
        };
        // Where every axis has a name, parts without the one are stacked along it; else it is a slip of the pen.
        if let Some(name) = &label
            && parts.iter().all(|p| p.slot == Slot::UNIT && p.from_right.is_none())
            && parts.iter().any(|p| !p.tensor.pos.is_empty())
        {
            return Err(Diagnostic::error(span, format!("no part has an axis called `{name}`"))
                .also(first.span, format!("this is {}", self.shape_text(&first.tensor)))
                .into());
        }
        let known = parts.iter().find_map(|p| Some((p.from_right?, p.tensor.pos.len())));
        if let (Some(name), Some((from_right, others))) = (&label, known) {
            for part in &mut parts {
                let pos = &mut part.tensor.pos;
                if part.from_right.is_some() || pos.is_empty() {
                    continue;
                }
                // An axis of one position is the one where the other parts have theirs, whatever its name.
                let unit = pos.len().checked_sub(1 + from_right).filter(|n| pos[*n].axis.is_none());
                let Some(unit) = unit.filter(|_| pos.len() == others + 1) else {
                    let message = format!("this part has no axis called `{name}`");
                    return Err(Diagnostic::error(part.span, message)
                        .saying(format!("this is {}", self.shape_text(&part.tensor)))
                        .help(format!("give it one, of one position: `let part[{name}: 1, …] = …`"))
                        .into());
                };
                (part.slot, part.from_right) = (pos.remove(unit), Some(from_right));
            }
        }
        self.one_after_the_other(parts, label, "concat", span)
    }

    /// The parts along a new first axis.
    pub(in crate::lower) fn stack(
        &mut self,
        statics: &[StaticArg<'a>],
        args: &'a [Argument],
        span: Span,
    ) -> Eval<Value<'a>> {
        let Along { given, bound } = self.along(statics, args)?;
        let mut parts: Vec<Part> = Vec::new();
        for g in given {
            let tensor = self.tensor(g.value, g.span)?;
            if let Some(bound) = bound.first()
                && tensor.called(&bound.name).is_some()
            {
                let message = format!("this part has an axis called `{}` already", bound.name);
                return Err(Diagnostic::error(g.span, message)
                    .saying(format!("this is {}", self.shape_text(&tensor)))
                    .help("`concat` puts parts behind each other along an axis that they have")
                    .into());
            }
            let from_right = Some(tensor.pos.len());
            parts.push(Part { tensor, slot: Slot::UNIT, from_right, span: g.span });
        }
        let Some(first) = parts.first().cloned() else {
            return Err(Diagnostic::error(span, "`stack` needs at least one part").into());
        };
        if let Some(other) = parts.iter().find(|p| p.from_right != first.from_right) {
            return Err(Diagnostic::error(
                other.span,
                "parts that are stacked have as many axes as each other",
            )
            .saying(format!("this is {}", self.shape_text(&other.tensor)))
            .also(first.span, format!("this is {}", self.shape_text(&first.tensor)))
            .into());
        }
        let label = bound.first().map(|b| b.name.clone());
        self.one_after_the_other(parts, label, "stack", span)
    }

    /// The parts one after the other.
    pub(in crate::lower) fn one_after_the_other(
        &mut self,
        parts: Vec<Part>,
        label: Option<String>,
        what: &str,
        span: Span,
    ) -> Eval<Value<'a>> {
        let from_right = parts.iter().find_map(|p| p.from_right);
        let dtypes: Vec<DType> = parts.iter().map(|p| self.dtype(&p.tensor)).collect();
        let dtype = dtypes.iter().copied().reduce(crate::value::promote).expect("at least one part");
        let mut total = Dim::constant(0);
        let (mut operands, mut lengths) = (Vec::new(), Vec::new());
        for Part { tensor, slot, span: place, .. } in parts.clone() {
            let extent = self.extent(&slot);
            total = &total + &extent;
            // A part's own axis moves out of the way of everything that its other axes may be renamed to.
            let avoid: AxisSet = parts.iter().flat_map(|p| p.tensor.slots()).filter_map(|s| s.axis).collect();
            let stem = slot.label.clone().or_else(|| slot.axis.map(|a| self.b.axis(a).name.clone()));
            let mut own =
                slot.axis.unwrap_or_else(|| self.b.axis_id(stem.as_deref().unwrap_or("n"), &extent));
            let mut t = self.cast(Value::Tensor(tensor), dtype, place)?;
            if self.clashes(own, &avoid) {
                let aside = self.aside(own, &avoid);
                t.node = self.moved(t.node, &[(own, aside)]);
                own = aside;
            }
            operands.push((t, place));
            lengths.push(own);
        }
        let (mut pos, mut named, nodes) = self.broadcast(&operands, what, span)?;
        let name = label.clone().or_else(|| parts[0].slot.label.as_deref().map(str::to_owned));
        let stem = match &label {
            Some(l) => l.clone(),
            None => parts[0]
                .slot
                .axis
                .map_or("n".to_owned(), |a| self.b.axis(a).name.split('.').next().unwrap_or("n").to_owned()),
        };
        let axis = self.b.axis_id(&stem, &total);
        let used: AxisSet = pos.iter().chain(&named).filter_map(|s| s.axis).collect();
        let axis = self.distinct(axis, &used);
        let node = self.b.add(Op::Concat(axis, lengths.into()), &nodes).map_err(typing(span))?;
        let slot = Slot { axis: Some(axis), label: name.as_deref().map(Name::from) };
        match from_right {
            Some(from_right) => pos.insert(pos.len() - from_right.min(pos.len()), slot),
            None => named.push(slot),
        }
        Ok(Value::Tensor(Tensor { pos, named, ..Tensor::scalar(node) }))
    }

    // ---- functions with an axis in brackets

    /// Inside such a function the arguments are functions of the axis; all their other axes are carried along.
    pub(in crate::lower) fn call_along(
        &mut self,
        f: &'a Function,
        statics: &[StaticArg<'a>],
        args: &'a [Argument],
        span: Span,
    ) -> Eval<Value<'a>> {
        let name = &f.name.name;
        let Along { mut given, bound } = self.along(statics, args)?;
        let (which, operands): (Vec<usize>, Vec<(Tensor, Span)>) = given
            .iter()
            .enumerate()
            .filter_map(|(n, g)| Some((n, (g.value.as_tensor()?.clone(), g.span))))
            .unzip();
        let Some(place) = operands.first().map(|o| o.1) else {
            return Err(Diagnostic::error(span, format!("`{name}` needs a tensor")).into());
        };
        let (pos, named, nodes) = self.broadcast(&operands, name, span)?;
        let mut outer = Tensor { pos, named, ..Tensor::scalar(nodes[0]) };
        let axes = self.called_axes(f, &bound, &mut outer, place, span)?;
        let inner = inner_slots(&outer, &axes);
        for (n, node) in which.into_iter().zip(nodes) {
            let index = given[n].value.as_tensor().is_some_and(|t| t.index);
            let named = inner.clone();
            given[n].value = Value::Tensor(Tensor { node, pos: Vec::new(), named, index, floored: false });
        }
        let frame = self.frame_along(f, &axes, &inner, span);
        let results = self.in_frame(frame, None, |l| l.entered_along(f, statics, given, span))?;
        Ok(one_or_many(results, |t| around(t, &outer, &axes)))
    }

    /// The axis parameters of a function in order, each with the caller's axis: that of the index in brackets, or where there
    /// is none, the last one that is not taken yet.
    fn called_axes(
        &mut self,
        f: &Function,
        bound: &[ScopedIndex],
        outer: &mut Tensor,
        place: Span,
        span: Span,
    ) -> Eval<Vec<(AxisId, Name)>> {
        let name = &f.name.name;
        let mut bound = bound.iter();
        let mut axes: Vec<(AxisId, Name)> = Vec::new();
        for param in f.statics.iter().filter(|s| s.axis) {
            let label = Name::from(param.name.name.as_str());
            let index = bound.next();
            let Some(slot) = called_slot(outer, index, &axes) else {
                return Err(match index {
                    Some(index) => self.no_axis_called(index, outer, place),
                    None if outer.pos.is_empty() => self.no_last_axis(outer, name, place),
                    None => {
                        Diagnostic::error(span, format!("`{name}` needs more axes than there are")).into()
                    }
                });
            };
            let axis = *slot.axis.get_or_insert_with(|| self.b.axis_id(&label, &Dim::constant(1)));
            axes.push((axis, label));
        }
        Ok(axes)
    }

    /// Inside, the axes have the names of the parameters, and those that are carried along have none.
    fn frame_along(&self, f: &'a Function, axes: &[(AxisId, Name)], inner: &[Slot], span: Span) -> Frame<'a> {
        let index = |(axis, label): &(AxisId, Name)| ScopedIndex {
            name: label.to_string(),
            axis: Some(*axis),
            refused: false,
            explicit: false,
            from: span,
        };
        let nameless = inner.iter().filter(|s| s.label.is_none()).filter_map(|s| s.axis);
        Frame {
            decl: Some(f),
            library: self.program.is_library(f),
            scopes: vec![BTreeMap::new()],
            indices: axes.iter().map(index).collect(),
            path: self.here().path.clone(),
            carried: self.here().carried.iter().chain(nameless).collect(),
            call: Some(span),
            results: None,
            states: Vec::new(),
            moving: Vec::new(),
            rest: None,
        }
    }

    fn entered_along(
        &mut self,
        f: &'a Function,
        statics: &[StaticArg<'a>],
        given: Vec<ArgValue<'a>>,
        span: Span,
    ) -> Eval<()> {
        if let Some(ty) = f.params.iter().filter_map(|p| p.ty.as_ref()).find(|t| t.shape.is_some()) {
            return Err(Diagnostic::error(ty.span, "a function along an axis takes tensors of any shape")
                .help("leave the shape out; inside, the argument is a function of the axis")
                .into());
        }
        self.bind_statics(f, statics.to_vec(), span)?;
        let matched = match_parameters(f, given, span)?;
        self.bind_parameters(f, matched, span)?;
        self.body(&f.body);
        self.check_results(f)
    }
}

/// The slot of a tensor that an axis parameter stands for: that of an index, or the last one whose axis is not taken.
fn called_slot<'t>(
    t: &'t mut Tensor,
    index: Option<&ScopedIndex>,
    taken: &[(AxisId, Name)],
) -> Option<&'t mut Slot> {
    match index {
        None => t.pos.iter_mut().rfind(|s| !taken.iter().any(|(a, _)| Some(*a) == s.axis)),
        Some(b) => {
            let is = |s: &&mut Slot| s.is_called(&b.name) || (s.axis.is_some() && s.axis == b.axis);
            t.named.iter_mut().chain(&mut t.pos).find(is)
        }
    }
}

/// The axes of an argument inside: all by name, those of the parameters under the parameter's.
fn inner_slots(outer: &Tensor, axes: &[(AxisId, Name)]) -> Vec<Slot> {
    let label = |s: &Slot| axes.iter().find(|(a, _)| Some(*a) == s.axis).map(|(_, label)| label.clone());
    let slots = outer.pos.iter().chain(&outer.named).filter(|s| s.axis.is_some());
    slots.map(|s| Slot { axis: s.axis, label: label(s) }).collect()
}

/// A result outside: the axes that were there before, but for those that the function reduced, and its new ones.
fn around(t: Tensor, outer: &Tensor, axes: &[(AxisId, Name)]) -> Tensor {
    let reduced =
        |s: &Slot| axes.iter().any(|(a, _)| Some(*a) == s.axis) && !t.named.iter().any(|n| n.axis == s.axis);
    let keep = |list: &[Slot]| list.iter().filter(|s| !reduced(s)).cloned().collect::<Vec<_>>();
    let (mut pos, named) = (keep(&outer.pos), keep(&outer.named));
    pos.extend(t.pos.iter().cloned());
    Tensor { pos, named, ..t }
}
