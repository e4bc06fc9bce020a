//! Scalar operators on values: element types meet, constants fold, dimensions stay exact.
//!
//! Shapes are the business of [`super::align`].

use super::{Eval, Lowerer, typing};
use crate::diag::Diagnostic;
use crate::source::Span;
use crate::syntax::ast::{BinaryOp, CompareOp};
use crate::value::{Tensor, Value, promote};
use salient_ir::{Const, DType, Dim, MapOp, Name, NodeId, Op, Relation, TypeError, Typing};

impl<'a> Lowerer<'a, '_> {
    /// The value as a tensor: what is known when compiling becomes a literal.
    pub(super) fn tensor(&mut self, value: Value<'a>, span: Span) -> Eval<Tensor> {
        match value {
            Value::Tensor(t) => Ok(t),
            Value::Int(dim) => {
                self.comes_out_even(&dim, span);
                let node = self.b.extent_of(&dim);
                Ok(Tensor { index: true, ..Tensor::scalar(node) })
            }
            Value::Float(x) if x.is_finite() && (x as f32).is_infinite() => {
                Err(Diagnostic::error(span, format!("the number {x:?} is too large for f32")).into())
            }
            Value::Float(x) => Ok(Tensor::scalar(self.b.constant(Const::f32(x as f32)))),
            Value::Bool(x) => Ok(Tensor::scalar(self.b.constant(Const::Bool(x)))),
            Value::Poison => Err(super::Fail::Reported),
            several @ (Value::Gradients(_) | Value::Parameters(_)) => {
                let found = several.describe();
                Err(Diagnostic::error(span, format!("a tensor was expected, found {found}"))
                    .help("gradients are returned, scaled, and gone through: `for p, d in grad(loss, parameters) { … }`")
                    .into())
            }
            other @ (Value::Text | Value::Function(_) | Value::Many(_)) => {
                Err(Diagnostic::error(span, format!("a tensor was expected, found {}", other.describe()))
                    .into())
            }
        }
    }

    /// The value with elements of that type.
    pub(super) fn cast(&mut self, value: Value<'a>, to: DType, span: Span) -> Eval<Tensor> {
        match (&value, to) {
            (Value::Int(d), DType::F32) if d.as_constant().is_some() => {
                let n = d.as_constant().unwrap_or_default();
                return Ok(Tensor::scalar(self.b.constant(Const::f32(n as f32))));
            }
            (Value::Int(d), DType::I32) if d.as_constant().is_some() => {
                return match i32::try_from(d.as_constant().unwrap_or_default()) {
                    Ok(n) => Ok(Tensor::scalar(self.b.constant(Const::I32(n)))),
                    Err(_) => Err(Diagnostic::error(span, format!("{d} is too large for i32")).into()),
                };
            }
            _ => {}
        }
        let t = self.tensor(value, span)?;
        let from = self.dtype(&t);
        let op = match to {
            same if same == from => return Ok(t),
            DType::F32 | DType::F16 | DType::BF16 => MapOp::ToF32,
            DType::I32 => MapOp::ToI32,
            DType::I64 => MapOp::ToI64,
            DType::Bool => {
                return Err(Diagnostic::error(
                    span,
                    format!("a truth value was expected, found {}", self.shape_text(&t)),
                )
                .help("compare it: `x != 0`")
                .into());
            }
        };
        let node = self.map_node(op, &[t.node], span)?;
        Ok(Tensor { node, index: t.index && to.is_int(), floored: t.floored && to.is_int(), ..t })
    }

    /// A cast that the text does not ask for.
    fn promoted(&mut self, value: Value<'a>, to: DType, span: Span) -> Eval<Tensor> {
        if let Value::Tensor(t) = &value
            && t.floored
            && to == DType::F32
        {
            return Err(Diagnostic::error(
                span,
                "this integer quotient is rounded down, but used as a number",
            )
            .saying("`/` between indices rounds down")
            .help("write `f32(…)` around the quotient if rounding is meant, around its dividend if not")
            .into());
        }
        self.cast(value, to, span)
    }

    /// A node for a scalar operator; of literals, the literal that it gives.
    pub(super) fn map_node(&mut self, op: MapOp, args: &[NodeId], span: Span) -> Eval<NodeId> {
        self.folded(op, args).map_err(typing(span))
    }

    pub(super) fn folded(&mut self, op: MapOp, args: &[NodeId]) -> Result<NodeId, TypeError> {
        let known: Option<Vec<Const>> =
            args.iter().map(|a| if let Op::Const(c) = self.b.op(*a) { Some(*c) } else { None }).collect();
        if let Some(simpler) = self.simpler(op, args) {
            return Ok(simpler);
        }
        let node = self.b.map(op, args)?;
        let Some(known) = known else { return Ok(node) };
        let values: Vec<f64> = known.iter().map(|c| c.value()).collect();
        let out = (op.info().eval)(&values);
        Ok(match self.b.node(node).dtype {
            DType::F32 | DType::F16 | DType::BF16 => self.b.constant(Const::f32(out as f32)),
            DType::Bool => self.b.constant(Const::Bool(out != 0.0)),
            // Integers beyond 2^53 are not exact in f64: left to the graph.
            DType::I32 | DType::I64 if !out.is_finite() || out.abs() > 2f64.powi(53) => node,
            DType::I32 if out != f64::from(out as i32) => node,
            DType::I32 => self.b.constant(Const::I32(out as i32)),
            DType::I64 => self.b.constant(Const::I64(out as i64)),
        })
    }

    /// Sums and products of dimensions, and of an index with zero or one, as the text would have them.
    fn simpler(&mut self, op: MapOp, args: &[NodeId]) -> Option<NodeId> {
        let [a, b] = args[..] else { return None };
        if self.b.node(a).dtype != DType::I64 || self.b.node(b).dtype != DType::I64 {
            return None;
        }
        let dim = |id: NodeId| {
            if let Op::Extent(dim) = self.b.op(id) {
                Some(dim.clone())
            } else if let Op::Const(Const::I64(n)) = self.b.op(id) {
                Some(Dim::constant(*n))
            } else {
                None
            }
        };
        let (x, y) = (dim(a), dim(b));
        let (adds, subtracts, multiplies) = (op == MapOp::Add, op == MapOp::Sub, op == MapOp::Mul);
        if let Some(operand) = unchanged(op, [&x, &y].map(|d| d.as_ref().and_then(Dim::as_constant))) {
            return Some(args[operand]);
        }
        let (x, y) = (x?, y?);
        if x.as_constant().is_some() && y.as_constant().is_some() {
            return None;
        }
        let of_dimensions = if adds {
            &x + &y
        } else if subtracts {
            &x - &y
        } else if multiplies {
            &x * &y
        } else {
            return None;
        };
        Some(self.b.extent_of(&of_dimensions))
    }

    /// A scalar operator on values with their places: types meet, shapes are broadcast.
    pub(super) fn map(&mut self, op: MapOp, args: Vec<(Value<'a>, Span)>, span: Span) -> Eval<Value<'a>> {
        let info = op.info();
        if args.len() != info.arity {
            let message = format!("`{}` takes {} arguments, found {}", info.name, info.arity, args.len());
            return Err(Diagnostic::error(span, message).into());
        }
        if args.iter().any(|(v, _)| matches!(v, Value::Poison)) {
            return Err(super::Fail::Reported);
        }
        let divides = matches!(op, MapOp::IntDiv | MapOp::Mod);
        if divides && args[1].0.as_int().is_some_and(|by| by.as_constant() == Some(0)) {
            return Err(Diagnostic::error(args[1].1, "this divides by zero").into());
        }
        match fold(op, &args) {
            Some(Value::Int(folded)) => return self.integer(folded, span),
            Some(folded) => return Ok(folded),
            None => {}
        }
        self.warn_of_infinite_factor(op, &args, span);
        let target = self.element_type(info.typing, &args);
        let mut tensors = Vec::new();
        for (n, (value, place)) in args.into_iter().enumerate() {
            let tensor = match info.typing {
                Typing::Select if n == 0 => self.cast(value, DType::Bool, place)?,
                Typing::Logic => self.cast(value, DType::Bool, place)?,
                Typing::Cast(_) => self.tensor(value, place)?,
                Typing::Float
                | Typing::Arithmetic
                | Typing::Integer
                | Typing::Compare
                | Typing::Select
                | Typing::Draw => self.promoted(value, target, place)?,
            };
            tensors.push((tensor, place));
        }
        let arithmetic = matches!(info.typing, Typing::Arithmetic | Typing::Integer);
        let index = arithmetic && tensors.iter().all(|(t, _)| t.index);
        let floored = arithmetic && (op == MapOp::IntDiv || tensors.iter().any(|(t, _)| t.floored));
        let what = info.sign().unwrap_or(info.name).trim();
        let (pos, named, nodes) = self.broadcast(&tensors, what, span)?;
        if divides {
            self.may_divide(nodes[0], nodes[1], span);
        }
        let node = self.map_node(op, &nodes, span)?;
        Ok(Value::Tensor(Tensor { node, pos, named, index, floored }))
    }

    /// An integer that arithmetic gave.
    pub(super) fn integer(&self, dim: Dim, span: Span) -> Eval<Value<'a>> {
        match dim.limit() {
            None => Ok(Value::Int(dim)),
            Some(limit) => {
                let words = format!("it has {limit}");
                Err(Diagnostic::error(span, "this integer is too large").saying(words).into())
            }
        }
    }

    /// Quotients in a dimension that becomes a value come out even, or the call is refused.
    fn comes_out_even(&mut self, dim: &Dim, span: Span) {
        for (num, den) in dim.exact_quotients() {
            self.relation_once(Relation::Divides(num, den), span);
        }
    }

    /// A dimension by which something is divided is at least one, or the call is refused; unless there is nothing to divide
    /// where it is zero, as with the features of heads that have none.
    fn may_divide(&mut self, whole: NodeId, by: NodeId, span: Span) {
        let Op::Extent(by) = self.b.op(by).clone() else { return };
        let one = Dim::constant(1);
        let vanishes = |axis| self.b.extent(axis).vanishes_with(&by);
        if !one.provably_le(&by) && !self.b.node(whole).axes.iter().any(vanishes) {
            self.relation_once(Relation::AtMost(one, by), span);
        }
    }

    /// The element type that the operator works in.
    fn element_type(&self, typing: Typing, args: &[(Value<'a>, Span)]) -> DType {
        let operands = if typing == Typing::Select { &args[1..] } else { args };
        let strong = operands.iter().filter_map(|(v, _)| match v {
            Value::Tensor(t) => Some(self.dtype(t)),
            Value::Float(_) => Some(DType::F32),
            Value::Bool(_) => Some(DType::Bool),
            Value::Int(_)
            | Value::Text
            | Value::Function(_)
            | Value::Many(_)
            | Value::Parameters(_)
            | Value::Gradients(_)
            | Value::Poison => None,
        });
        let joined = strong.reduce(promote);
        let any_int = operands.iter().any(|(v, _)| matches!(v, Value::Int(_)));
        match (typing, joined) {
            (Typing::Float, _) => DType::F32,
            (_, None) => DType::I64,
            // An integer literal takes the type of the other operand, unless that is a truth value.
            (_, Some(DType::Bool)) if any_int => DType::I64,
            (_, Some(d)) => d,
        }
    }

    /// `a OP b` as written between operands.
    pub(super) fn binary(
        &mut self,
        op: BinaryOp,
        a: (Value<'a>, Span),
        b: (Value<'a>, Span),
        span: Span,
    ) -> Eval<Value<'a>> {
        if let Some(same) = self.unchanged(op, &a.0, &b.0) {
            return Ok(same);
        }
        if let Some(several) = self.of_several(op, (&a.0, a.1), (&b.0, b.1), span) {
            return several;
        }
        match (op, &a.0, &b.0) {
            (_, Value::Poison, _) | (_, _, Value::Poison) => Err(super::Fail::Reported),
            (BinaryOp::Add, Value::Int(x), Value::Int(y)) => self.integer(x + y, span),
            (BinaryOp::Sub, Value::Int(x), Value::Int(y)) => self.integer(x - y, span),
            (BinaryOp::Mul, Value::Int(x), Value::Int(y)) => self.integer(x * y, span),
            (BinaryOp::Div, Value::Int(x), Value::Int(y)) => match x.exact_div(y) {
                // One divided by what is not known yet: only a number can be meant.
                Some(_) if matches!(x.as_constant(), Some(1 | -1)) && y.as_constant().is_none() => {
                    Err(self.a_fraction(x, y, (a.1, b.1), span))
                }
                Some(q) => self.integer(q, span),
                None => Err(self.not_divisible(x, y, a.1, b.1, span)),
            },
            (BinaryOp::Div, _, _) => self.divide(a, b, span),
            (BinaryOp::Rem, _, _) => {
                for (value, place) in [&a, &b] {
                    let float = matches!(value, Value::Float(_))
                        || value.as_tensor().is_some_and(|t| self.dtype(t) == DType::F32);
                    if float {
                        return Err(Diagnostic::error(*place, "`%` takes integers")
                            .saying(format!("this is {}", self.describe(value)))
                            .into());
                    }
                }
                self.map(MapOp::Mod, vec![a, b], span)
            }
            (BinaryOp::Pow, _, _) => self.power(a, b, span),
            (BinaryOp::MatMul, _, _) => {
                let x = self.tensor(a.0, a.1)?;
                let y = self.tensor(b.0, b.1)?;
                self.product((x, a.1), (y, b.1), span).map(Value::Tensor)
            }
            (BinaryOp::Or, _, _) => self.map(MapOp::Or, vec![a, b], span),
            (BinaryOp::And, _, _) => self.map(MapOp::And, vec![a, b], span),
            (BinaryOp::Add, _, _) => self.map(MapOp::Add, vec![a, b], span),
            (BinaryOp::Sub, _, _) => self.map(MapOp::Sub, vec![a, b], span),
            (BinaryOp::Mul, _, _) => self.map(MapOp::Mul, vec![a, b], span),
        }
    }

    /// The integers that arithmetic does not change.
    fn unchanged(&self, op: BinaryOp, a: &Value<'a>, b: &Value<'a>) -> Option<Value<'a>> {
        let known = |v: &Value<'a>| v.as_int().and_then(|d| d.as_constant());
        let operand = match op {
            BinaryOp::Add => unchanged(MapOp::Add, [known(a), known(b)]),
            BinaryOp::Sub => unchanged(MapOp::Sub, [known(a), known(b)]),
            BinaryOp::Mul => unchanged(MapOp::Mul, [known(a), known(b)]),
            BinaryOp::Div => unchanged(MapOp::IntDiv, [known(a), known(b)]),
            BinaryOp::Or | BinaryOp::And | BinaryOp::Rem | BinaryOp::Pow | BinaryOp::MatMul => None,
        };
        let tensor = [a, b][operand?];
        matches!(tensor, Value::Tensor(t) if self.dtype(t).is_int()).then(|| tensor.clone())
    }

    fn a_fraction(&self, x: &Dim, y: &Dim, (left, right): (Span, Span), span: Span) -> super::Fail {
        let (one, by) = (self.arithmetic_text(x, left), self.sources.text(right));
        Diagnostic::error(span, format!("{one} is divisible by {y} only where that is 1"))
            .saying("`/` between integers must come out even")
            .help(format!("write `{one}.0 / {by}`, or `{one} / f32({by})`, for the number"))
            .into()
    }

    fn not_divisible(&self, x: &Dim, y: &Dim, left: Span, right: Span, span: Span) -> super::Fail {
        if y.as_constant() == Some(0) {
            return Diagnostic::error(right, "this divides by zero").into();
        }
        let text = |d: &Dim, place: Span| self.arithmetic_text(d, place);
        Diagnostic::error(span, format!("{} is not divisible by {}", text(x, left), text(y, right)))
            .saying("`/` between integers must come out even")
            .help("write a number with a point, as `1.0 / 2`, for a quotient that need not be an integer")
            .into()
    }

    /// `D = 10` where the text says `D`, `10` where it says `10`.
    pub(super) fn arithmetic_text(&self, d: &Dim, place: Span) -> String {
        let named = self.here().scopes.iter().rev().find_map(|s| {
            s.iter().find(|(name, var)| {
                matches!(&var.value, Value::Int(v) if v == d) && self.sources.text(place) == name.as_str()
            })
        });
        match named {
            Some((name, _)) if *name != d.to_string() => format!("{name} = {d}"),
            _ => d.to_string(),
        }
    }

    fn divide(&mut self, a: (Value<'a>, Span), b: (Value<'a>, Span), span: Span) -> Eval<Value<'a>> {
        let integers =
            |v: &Value<'a>| v.as_int().is_some() || v.as_tensor().is_some_and(|t| self.dtype(t).is_int());
        if !(integers(&a.0) && integers(&b.0)) {
            return self.map(MapOp::Div, vec![a, b], span);
        }
        let of_indices = |v: &Value<'a>| !matches!(v, Value::Tensor(t) if !t.index);
        if of_indices(&a.0) && of_indices(&b.0) {
            return self.map(MapOp::IntDiv, vec![a, b], span);
        }
        let culprit = if of_indices(&a.0) { &b } else { &a };
        Err(Diagnostic::error(span, "`/` does not divide integer tensors")
            .also(culprit.1, format!("this is {}", self.describe(&culprit.0)))
            .help("write `f32(x) / y` for the quotient, `int_div(x, y)` for the quotient rounded down")
            .into())
    }

    /// `x ** n`: a small power of an integer exponent is a product.
    fn power(&mut self, a: (Value<'a>, Span), b: (Value<'a>, Span), span: Span) -> Eval<Value<'a>> {
        let whole = if let Value::Float(x) = b.0 {
            (x.fract() == 0.0 && x.abs() < 64.0).then_some(x as i64)
        } else {
            b.0.as_int().and_then(|n| n.as_constant())
        };
        match (&a.0, whole) {
            (Value::Int(base), Some(n @ 0..=63)) if matches!(b.0, Value::Int(_)) => {
                let power = (0..n).fold(Dim::constant(1), |p, _| &p * base);
                self.integer(power, span)
            }
            (Value::Tensor(_), Some(n @ 2..=4)) => {
                let mut out = a.clone();
                for _ in 1..n {
                    let product = self.map(MapOp::Mul, vec![out, a.clone()], span)?;
                    out = (product, span);
                }
                Ok(out.0)
            }
            (Value::Tensor(_), Some(1)) => Ok(a.0),
            _ => self.map(MapOp::Pow, vec![a, b], span),
        }
    }

    /// A comparison; `a > b` is `b < a`.
    pub(super) fn compare(
        &mut self,
        op: CompareOp,
        a: (Value<'a>, Span),
        b: (Value<'a>, Span),
        span: Span,
    ) -> Eval<Value<'a>> {
        if let (Value::Int(x), Value::Int(y)) = (&a.0, &b.0)
            && let Some(known) = compare_dims(op, x, y)
        {
            return Ok(Value::Bool(known));
        }
        match op {
            CompareOp::Lt => self.map(MapOp::Lt, vec![a, b], span),
            CompareOp::Le => self.map(MapOp::Le, vec![a, b], span),
            CompareOp::Gt => self.map(MapOp::Lt, vec![b, a], span),
            CompareOp::Ge => self.map(MapOp::Le, vec![b, a], span),
            CompareOp::Eq => self.map(MapOp::Eq, vec![a, b], span),
            CompareOp::Ne => self.map(MapOp::Ne, vec![a, b], span),
        }
    }

    /// The index along an axis, as a value with a free index.
    pub(super) fn index_value(&mut self, axis: salient_ir::AxisId, name: &str) -> Tensor {
        let node = self.b.iota(axis);
        let slot = crate::value::Slot { axis: Some(axis), label: Some(Name::from(name)) };
        Tensor { node, pos: Vec::new(), named: vec![slot], index: true, floored: false }
    }
}

/// The comparison of two dimensions, where it is known.
pub(super) fn compare_dims(op: CompareOp, x: &Dim, y: &Dim) -> Option<bool> {
    let (a, b) = match (x.as_constant(), y.as_constant()) {
        (Some(a), Some(b)) => (a, b),
        _ if x == y => (0, 0),
        _ => return None,
    };
    Some(match op {
        CompareOp::Lt => a < b,
        CompareOp::Le => a <= b,
        CompareOp::Gt => a > b,
        CompareOp::Ge => a >= b,
        CompareOp::Eq => a == b,
        CompareOp::Ne => a != b,
    })
}

/// The result of an operator on integers, exact in all 64 bits; a dimension beyond them where they do not hold it.
#[expect(clippy::wildcard_enum_match_arm, reason = "others are folded as numbers")]
fn fold_integers<'a>(op: MapOp, args: &[i64]) -> Option<Value<'a>> {
    let dims: Vec<Dim> = args.iter().copied().map(Dim::constant).collect();
    let compared = |op: CompareOp| compare_dims(op, &dims[0], &dims[1]).map(Value::Bool);
    let quotient = || dims[0].floor_div(&dims[1]);
    let out = match op {
        MapOp::Neg => &Dim::constant(0) - &dims[0],
        MapOp::Abs if args[0] < 0 => &Dim::constant(0) - &dims[0],
        MapOp::Abs => dims[0].clone(),
        MapOp::Add => &dims[0] + &dims[1],
        MapOp::Sub => &dims[0] - &dims[1],
        MapOp::Mul => &dims[0] * &dims[1],
        MapOp::Min => Dim::constant(args[0].min(args[1])),
        MapOp::Max => Dim::constant(args[0].max(args[1])),
        MapOp::IntDiv => quotient()?,
        MapOp::Mod => &dims[0] - &(&dims[1] * &quotient()?),
        MapOp::Eq => return compared(CompareOp::Eq),
        MapOp::Ne => return compared(CompareOp::Ne),
        MapOp::Lt => return compared(CompareOp::Lt),
        MapOp::Le => return compared(CompareOp::Le),
        MapOp::ToI64 => dims[0].clone(),
        _ => return None,
    };
    Some(Value::Int(out))
}

/// The result where every argument is known when compiling.
fn fold<'a>(op: MapOp, args: &[(Value<'a>, Span)]) -> Option<Value<'a>> {
    let known: Option<Vec<i64>> = args.iter().map(|(v, _)| v.as_int()?.as_constant()).collect();
    if let Some(folded) = known.and_then(|known| fold_integers(op, &known)) {
        return Some(folded);
    }
    let mut values = Vec::new();
    for (value, _) in args {
        values.push(match value {
            Value::Int(d) => d.as_constant()? as f64,
            Value::Float(x) => *x,
            Value::Bool(b) => f64::from(u8::from(*b)),
            Value::Tensor(_)
            | Value::Text
            | Value::Function(_)
            | Value::Many(_)
            | Value::Parameters(_)
            | Value::Gradients(_)
            | Value::Poison => {
                return None;
            }
        });
    }
    let all = |f: fn(&Value<'a>) -> bool| args.iter().all(|(v, _)| f(v));
    let ints = all(|v| matches!(v, Value::Int(_)));
    let bools = all(|v| matches!(v, Value::Bool(_)));
    let numbers = !args.iter().any(|(v, _)| matches!(v, Value::Bool(_)));
    let out = (op.info().eval)(&values);
    let int =
        || (out.is_finite() && out.abs() <= 2f64.powi(53)).then(|| Value::Int(Dim::constant(out as i64)));
    match op.info().typing {
        Typing::Float if numbers => Some(Value::Float(out)),
        Typing::Arithmetic if ints => int(),
        Typing::Arithmetic if numbers => Some(Value::Float(out)),
        Typing::Integer if ints => int(),
        Typing::Compare if numbers || bools => Some(Value::Bool(out != 0.0)),
        Typing::Logic if bools => Some(Value::Bool(out != 0.0)),
        Typing::Cast(DType::F32) => Some(Value::Float(out)),
        Typing::Cast(DType::I64) => int(),
        Typing::Float
        | Typing::Arithmetic
        | Typing::Integer
        | Typing::Compare
        | Typing::Logic
        | Typing::Select
        | Typing::Draw
        | Typing::Cast(_) => None,
    }
}

/// Which operand of integer arithmetic is its result, by the other one: what 0 is added to, or 1 multiplies or divides.
fn unchanged(op: MapOp, [x, y]: [Option<i64>; 2]) -> Option<usize> {
    let is = |ops: &[MapOp], operand: Option<i64>, neutral| ops.contains(&op) && operand == Some(neutral);
    if is(&[MapOp::Add, MapOp::Sub], y, 0) || is(&[MapOp::Mul, MapOp::IntDiv], y, 1) {
        return Some(0);
    }
    (is(&[MapOp::Add], x, 0) || is(&[MapOp::Mul], x, 1)).then_some(1)
}
