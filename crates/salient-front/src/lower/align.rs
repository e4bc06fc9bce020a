//! Broadcasting: several tensors get one list of axes. Matrix products, which are broadcasting and a sum.
//!
//! Axes with a position meet from the right, as NumPy's do. Axes by name meet by name, wherever they are.

use super::{Eval, Lowerer, typing};
use crate::diag::{Diagnostic, counted};
use crate::source::Span;
use crate::value::{Slot, Tensor};
use salient_ir::{AxisId, AxisSet, DType, MapOp, NodeId, ReduceOp};

impl<'a> Lowerer<'a, '_> {
    /// The common axes of the operands and each operand's node in terms of them.
    pub(super) fn broadcast(
        &mut self,
        operands: &[(Tensor, Span)],
        what: &str,
        span: Span,
    ) -> Eval<(Vec<Slot>, Vec<Slot>, Vec<NodeId>)> {
        // Whoever comes first keeps its axes, the others are renamed: numbers before masks, more axes before fewer.
        let mut order: Vec<usize> = (0..operands.len()).collect();
        order.sort_by_key(|n| {
            let t = &operands[*n].0;
            (self.dtype(t) == DType::Bool, std::cmp::Reverse(t.pos.len()))
        });
        let Some(first) = order.first().map(|n| &operands[*n]) else {
            return Ok((Vec::new(), Vec::new(), Vec::new()));
        };
        let mut common = Common { pos: first.0.pos.clone(), named: first.0.named.clone() };
        let mut nodes: Vec<NodeId> = operands.iter().map(|(t, _)| t.node).collect();
        for n in order.into_iter().skip(1) {
            let (operand, place) = &operands[n];
            nodes[n] = self.join(&mut common, operand).map_err(|clash| {
                let left = Tensor { pos: common.pos.clone(), named: Vec::new(), ..first.0.clone() };
                self.cannot_meet(what, (&left, first.1), (operand, *place), clash, span)
            })?;
        }
        Ok((common.pos, common.named, nodes))
    }

    /// Takes one more operand into the common axes; gives its node in terms of them.
    fn join(&mut self, common: &mut Common, t: &Tensor) -> Result<NodeId, (usize, usize)> {
        let mut moves: Vec<(AxisId, AxisId)> = Vec::new();
        // Axes with a position, from the right. A free index of the operands so far may be one of them by name.
        let (have, more) = (common.pos.len(), t.pos.len());
        for back in 1..=more {
            let mine = t.pos[more - back].clone();
            let Some(axis) = mine.axis else {
                self.join_unit(common, back, &mine);
                continue;
            };
            let by_name = common.named.iter().position(|s| is_same(s, &mine));
            if let Some(at) = by_name
                && self.b.extent(common.named[at].axis.expect("free indices have axes"))
                    == self.b.extent(axis)
                && (back > have || common.pos[have - back].axis.is_none())
            {
                let taken = common.named.remove(at);
                moves.push((axis, taken.axis.expect("free indices have axes")));
                let slot = Slot { axis: taken.axis, label: mine.label };
                if back > have {
                    common.pos.insert(0, slot)
                } else {
                    common.pos[have - back] = slot
                }
                continue;
            }
            if back > have {
                let own = self.own_axis(common, axis, t, &moves);
                moves.push((axis, own));
                common.pos.insert(0, Slot { axis: Some(own), label: mine.label });
                continue;
            }
            // Positions of `common.pos` shift by what was inserted in front; count from the right.
            let at = common.pos.len() - back;
            match common.pos[at].axis {
                None => {
                    let own = self.own_axis(common, axis, t, &moves);
                    moves.push((axis, own));
                    common.pos[at] = Slot { axis: Some(own), label: mine.label };
                }
                Some(theirs) => {
                    if self.b.extent(theirs) != self.b.extent(axis) {
                        return Err((at, more - back));
                    }
                    moves.push((axis, theirs));
                }
            }
        }
        for slot in &t.named {
            let axis = slot.axis.expect("free indices have axes");
            let same = |s: &&Slot| {
                is_same(s, slot) && s.axis.is_some_and(|a| self.b.extent(a) == self.b.extent(axis))
            };
            // A position that another axis of this operand has already met is not free to be met by name.
            let met = |s: &&Slot| same(s) && !moves.iter().any(|m| Some(m.1) == s.axis);
            let found = common.named.iter().find(same).or_else(|| common.pos.iter().find(met));
            if let Some(found) = found {
                moves.push((axis, found.axis.expect("just matched")));
                continue;
            }
            let own = self.own_axis(common, axis, t, &moves);
            moves.push((axis, own));
            let unit = common.pos.iter_mut().find(|s| s.axis.is_none() && is_same(s, slot));
            match unit.filter(|_| self.is_unit(own)) {
                Some(unit) => unit.axis = Some(own),
                None => common.named.push(Slot { axis: Some(own), label: slot.label.clone() }),
            }
        }
        Ok(self.moved(t.node, &moves))
    }

    /// Takes an axis of length one that no node has into the common axes, at a place from the right. A free index of the
    /// operands so far may be it by name.
    fn join_unit(&self, common: &mut Common, back: usize, mine: &Slot) {
        if back > common.pos.len() {
            common.pos.insert(0, Slot { axis: None, label: mine.label.clone() });
        }
        let at = common.pos.len() - back;
        if common.pos[at].axis.is_none()
            && let Some(named) = common.named.iter().position(|s| is_same(s, mine))
            && common.named[named].axis.is_some_and(|axis| self.is_unit(axis))
        {
            common.pos[at] = common.named.remove(named);
        }
    }

    /// Whether an axis has length one.
    pub(super) fn is_unit(&self, axis: AxisId) -> bool {
        self.b.extent(axis).as_constant() == Some(1)
    }

    /// `axis` if it is free to join the common axes, else a fresh one like it.
    fn own_axis(&mut self, common: &Common, axis: AxisId, t: &Tensor, moves: &[(AxisId, AxisId)]) -> AxisId {
        let used: AxisSet = common.pos.iter().chain(&common.named).filter_map(|s| s.axis).collect();
        if !self.clashes(axis, &used) {
            return axis;
        }
        let own = t.slots().filter_map(|s| s.axis).chain(moves.iter().map(|m| m.1));
        let avoid: AxisSet = used.iter().chain(own).collect();
        self.aside(axis, &avoid)
    }

    /// Two shapes that do not meet, with both sides and the axes that clash.
    fn cannot_meet(
        &self,
        what: &str,
        (left, left_span): (&Tensor, Span),
        (right, right_span): (&Tensor, Span),
        (at, other): (usize, usize),
        span: Span,
    ) -> super::Fail {
        let (a, b) = (self.extent(&left.pos[at]), self.extent(&right.pos[other]));
        let axis = |t: &Tensor, at: usize| match t.pos.len() - at {
            1 => "its last axis".to_owned(),
            n => format!("its axis {n} from the right"),
        };
        let transposed = right.pos.len() >= 2 && left.pos.len() >= 2 && {
            let n = right.pos.len();
            let m = left.pos.len();
            self.extent(&right.pos[n - 2]) == self.extent(&left.pos[m - 1])
                && self.extent(&right.pos[n - 1]) == self.extent(&left.pos[m - 2])
        };
        let mut d = Diagnostic::error(span, format!("axes of length {a} and {b} do not meet in `{what}`"))
            .also(left_span, format!("{}: {} is {a}", self.shape_text(left), axis(left, at)))
            .also(right_span, format!("{}: {} is {b}", self.shape_text(right), axis(right, other)));
        d = self.with_definitions(d, &[left_span, right_span]);
        if transposed {
            d = d.help("did you mean `.T`?");
        } else if left.pos.len() != right.pos.len() {
            d = d.note("axes are matched from the right, as in NumPy");
        }
        d.into()
    }

    /// The diagnostic with the places where the operands that are plain names were defined.
    fn with_definitions(&self, mut d: Diagnostic, operands: &[Span]) -> Diagnostic {
        for place in operands {
            let name = self.sources.text(*place);
            if let Some(var) = self.lookup(name)
                && var.span != *place
            {
                d = d.also(var.span, format!("`{name}` is defined here"));
            }
        }
        d
    }

    /// `x @ y`: the sum over x's last axis and y's last but one.
    pub(super) fn product(&mut self, x: (Tensor, Span), y: (Tensor, Span), span: Span) -> Eval<Tensor> {
        for (t, place) in [&x, &y] {
            if t.pos.is_empty() {
                return Err(Diagnostic::error(*place, "`@` multiplies matrices and vectors, not numbers")
                    .saying(format!("this is {}", self.shape_text(t)))
                    .help("write `*` for the product of numbers")
                    .into());
            }
        }
        let contracted = x.0.pos.last().cloned().expect("just seen");
        let (x_rank, y_rank) = (x.0.pos.len(), y.0.pos.len());
        let inner = if y_rank == 1 { y.0.pos[0].clone() } else { y.0.pos[y_rank - 2].clone() };
        let (a, b) = (self.extent(&contracted), self.extent(&inner));
        if a != b {
            let turned = y_rank > 1 && self.extent(&y.0.pos[y_rank - 1]) == a;
            let d = Diagnostic::error(span, format!("a product over axes of length {a} and {b}"))
                .also(x.1, format!("{}: its last axis is {a}", self.shape_text(&x.0)))
                .also(y.1, format!("{}: its last axis but one is {b}", self.shape_text(&y.0)));
            let d = self.with_definitions(d, &[x.1, y.1]);
            return Err(if turned { d.help("did you mean to transpose it, with `.T`?") } else { d }.into());
        }
        // Both get the axes (batch…, m, n, k); a vector has extent one for the axis that it lacks.
        let mut left = x.0.clone();
        let at = left.pos.len() - 1;
        left.pos.insert(at, Slot::UNIT);
        if x_rank == 1 {
            left.pos.insert(0, Slot::UNIT);
        }
        let mut right = y.0.clone();
        if y_rank == 1 {
            right.pos.insert(0, Slot::UNIT);
        } else {
            right.pos.swap(y_rank - 2, y_rank - 1);
        }
        let at = right.pos.len() - 2;
        right.pos.insert(at, Slot::UNIT);
        let product = self.map(
            MapOp::Mul,
            vec![(crate::value::Value::Tensor(left), x.1), (crate::value::Value::Tensor(right), y.1)],
            span,
        )?;
        let mut out = self.tensor(product, span)?;
        let k = out.pos.pop().expect("the contracted axis");
        if y_rank == 1 {
            out.pos.pop();
        }
        if x_rank == 1 {
            let at = out.pos.len() - usize::from(y_rank > 1) - 1;
            out.pos.remove(at);
        }
        out.index = false;
        if let Some(k) = k.axis {
            out.node = self.b.reduce(ReduceOp::Sum, k, out.node).map_err(typing(span))?;
        }
        Ok(out)
    }

    /// `x.T`: the last two axes change places.
    pub(super) fn transposed(&mut self, mut t: Tensor, span: Span) -> Eval<Tensor> {
        let n = t.pos.len();
        if n < 2 {
            return Err(Diagnostic::error(span, "`.T` swaps the last two axes")
                .saying(format!("this has {}", counted(n, "axis", "axes")))
                .into());
        }
        t.pos.swap(n - 2, n - 1);
        Ok(t)
    }
}

/// The axes that operands have together.
struct Common {
    pos: Vec<Slot>,
    named: Vec<Slot>,
}

/// Whether two slots are the same index: by name, or by being the same axis of the graph.
fn is_same(a: &Slot, b: &Slot) -> bool {
    match (&a.label, &b.label) {
        (Some(x), Some(y)) if x == y => true,
        _ => a.axis.is_some() && a.axis == b.axis,
    }
}
