//! Statements: definitions, loops, choices, requirements.
//!
//! Parameters and the model as a whole are in [`super::model`].

use super::lost::Role;
use super::model::Stored;
use super::{Eval, Fail, Lowerer, Var};
use crate::diag::{Diagnostic, counted, did_you_mean};
use crate::source::Span;
use crate::syntax::ast::{BinaryOp, CompareOp, Expr, ExprKind, Range, Stmt, StmtKind, Target, Type};
use crate::value::Value;
use salient_ir::{Dim, Relation, Requirement};
use std::collections::BTreeMap;

impl<'a> Lowerer<'a, '_> {
    // ---- statements

    /// Statements in order; each reports its own mistakes, and what it should have defined is poison.
    pub(super) fn body(&mut self, body: &'a [Stmt]) {
        for stmt in body {
            if self.here().results.is_some() {
                let d = Diagnostic::warning(stmt.span, "this is never reached").saying("after `return`");
                self.warn(d);
                return;
            }
            if let Err(fail) = self.stmt(stmt) {
                self.report(fail);
                self.poison(stmt);
                // What the library requires is the caller's mistake; what follows from it inside is no second one.
                if self.here().library && matches!(stmt.kind, StmtKind::Require(..)) {
                    self.frame().results = Some(vec![(Value::Poison, stmt.span)]);
                    return;
                }
            }
        }
    }

    /// Names that a failed statement would have defined: uses of them are no further mistakes.
    fn poison(&mut self, stmt: &'a Stmt) {
        match &stmt.kind {
            StmtKind::Let(targets, _) | StmtKind::Assign(targets, _) => {
                targets.iter().for_each(|t| self.define(&t.name.name, Value::Poison, t.name.span));
            }
            StmtKind::Param(p) => self.define(&p.name.name, Value::Poison, p.name.span),
            StmtKind::Const(c) => self.define(&c.name.name, Value::Poison, c.name.span),
            StmtKind::State(cells) => {
                cells.iter().for_each(|c| self.define(&c.name.name, Value::Poison, c.name.span));
            }
            StmtKind::Return(_) => self.frame().results = Some(vec![(Value::Poison, stmt.span)]),
            StmtKind::Require(..) | StmtKind::For(..) | StmtKind::Each(..) | StmtKind::If(..) => {}
        }
    }

    fn stmt(&mut self, stmt: &'a Stmt) -> Eval<()> {
        match &stmt.kind {
            StmtKind::Let(targets, value) => {
                for (n, target) in targets.iter().enumerate() {
                    if targets[..n].iter().any(|t| t.name.name == target.name.name) {
                        return Err(Diagnostic::error(
                            target.name.span,
                            format!("`{}` is defined twice here", target.name.name),
                        )
                        .into());
                    }
                }
                self.definition(targets, value, false)
            }
            StmtKind::Assign(targets, value) => {
                for target in targets {
                    self.may_change(&target.name)?;
                    if self.lookup(&target.name.name).is_none() {
                        let frame = self.here();
                        let known = frame.scopes.iter().flat_map(|s| s.keys()).map(String::as_str);
                        return Err(Diagnostic::error(
                            target.name.span,
                            format!("`{}` is not defined yet", target.name.name),
                        )
                        .help(format!("the first definition is `let {} = …`", target.name.name))
                        .help_if(did_you_mean(&target.name.name, known))
                        .into());
                    }
                }
                self.definition(targets, value, true)
            }
            StmtKind::Param(p) => self.param(p),
            StmtKind::State(cells) => self.state(cells),
            StmtKind::Const(c) => {
                let value = self.constant_value(c);
                self.define_as(&c.name.name, value, c.name.span, Role::Const);
                Ok(())
            }
            StmtKind::Require(condition, message) => {
                self.require(condition, message.as_ref().map(|m| m.value.as_str()))
            }
            StmtKind::For(range, body) => self.rounds_of(range, body),
            StmtKind::Each(each, body) => self.each_of(each, body, stmt.span),
            StmtKind::If(condition, then, otherwise) => {
                let value = self.expr(condition)?;
                let Value::Bool(known) = value else {
                    let found = self.describe(&value);
                    return Err(Diagnostic::error(condition.span, "this must be known when compiling")
                        .saying(format!("this is {found}"))
                        .help("a choice between tensors is an expression: `if keep then a else b`")
                        .into());
                };
                self.frame().scopes.push(BTreeMap::new());
                self.body(if known { then } else { otherwise });
                self.leave_scope();
                self.frame().scopes.pop();
                Ok(())
            }
            StmtKind::Return(values) => {
                let mut results = Vec::new();
                for e in values {
                    results.extend(self.root(e)?.each().into_iter().map(|v| (v, e.span)));
                }
                self.frame().results = Some(results);
                Ok(())
            }
        }
    }

    /// The rounds of a loop, each with a scope of its own, up to the first that is wrong.
    fn rounds_of(&mut self, range: &'a Range, body: &'a [Stmt]) -> Eval<()> {
        let (low, high) = self.bounds(range)?;
        for n in low..high {
            self.frame().scopes.push(BTreeMap::new());
            self.define(&range.name.name, Value::Int(Dim::constant(n)), range.name.span);
            self.rounds.push(n);
            self.body(body);
            self.rounds.pop();
            self.leave_scope();
            self.frame().scopes.pop();
            if !self.errors.is_empty() {
                break;
            }
        }
        Ok(())
    }

    /// `let` and assignment.
    fn definition(&mut self, targets: &'a [Target], value: &'a Expr, assign: bool) -> Eval<()> {
        let values = if let [Target { indices: Some(indices), .. }] = targets {
            let wanted = self.wanted(indices)?;
            let depth = self.here().indices.len();
            self.bind(&wanted, &[value]);
            let result = self.expr(value);
            wanted.iter().for_each(|(name, _, span)| self.note_index(name, *span));
            let scope = self.frame().indices.split_off(depth);
            let value_span = value.span;
            let result = result?;
            let t = self.tensor(result, value_span)?;
            vec![Value::Tensor(self.arranged(t, indices, &scope, value_span)?)]
        } else {
            self.root(value)?.each()
        };
        if values.len() != targets.len() {
            let message = format!(
                "{} for {}",
                counted(values.len(), "value", "values"),
                counted(targets.len(), "name", "names")
            );
            return Err(Diagnostic::error(value.span, message)
                .saying(format!("this gives {}", counted(values.len(), "value", "values")))
                .also(targets[0].name.span.to(targets[targets.len() - 1].name.span), "defined here")
                .into());
        }
        for (target, value_) in targets.iter().zip(values) {
            let value_ = match (&target.indices, targets.len()) {
                (Some(indices), 2..) => {
                    let t = self.tensor(value_, value.span)?;
                    Value::Tensor(self.arranged(t, indices, &[], value.span)?)
                }
                _ => value_,
            };
            if let Some(ty) = &target.ty {
                self.assert_type(target, ty, &value_, value.span)?;
            }
            self.note_shape(target.name.span, &value_);
            if let Value::Tensor(t) = &value_ {
                self.name_node(t, &target.name.name, target.name.span);
                self.note_defined(&target.name.name, t, target.name.span);
            }
            self.assign(&target.name.name, value_, target.name.span, assign);
        }
        Ok(())
    }

    /// Gives a name its value: in the innermost scope, or where it is defined already.
    fn assign(&mut self, name: &str, value: Value<'a>, span: Span, assign: bool) {
        let role = if assign { self.changed_role(name) } else { Role::Value };
        self.note_made(name, span, role);
        let frame = self.frame();
        let holds = frame.scopes.iter_mut().rev().find(|s| assign && s.contains_key(name));
        match holds {
            Some(scope) => {
                scope.insert(name.to_owned(), Var { value, span, role });
            }
            None => self.define_as(name, value, span, role),
        }
    }

    fn assert_type(&mut self, target: &Target, ty: &'a Type, value: &Value<'a>, place: Span) -> Eval<()> {
        let Value::Tensor(t) = value else { return Ok(()) };
        let Stored { dtype, dims, .. } = self.stored_type(ty)?;
        let found: Vec<Dim> = t.pos.iter().map(|s| self.extent(s)).collect();
        if self.dtype(t) == dtype.compute() && found == dims {
            return Ok(());
        }
        let name = &target.name.name;
        Err(Diagnostic::error(place, format!("`{name}` is declared otherwise"))
            .saying(format!("this is {}", self.shape_text(t)))
            .also(ty.span, "declared here")
            .into())
    }

    /// The values of a loop's variable.
    pub(super) fn bounds(&mut self, range: &'a Range) -> Eval<(i64, i64)> {
        let mut out = [0; 2];
        for (slot, e) in out.iter_mut().zip([&range.low, &range.high]) {
            let dim = self.dimension(e)?;
            let Some(n) = dim.as_constant() else {
                return Err(Diagnostic::error(e.span, format!("{dim} is not known when compiling"))
                    .saying("a loop is unrolled: its bounds must be numbers")
                    .help(format!("give it a value in brackets, `[{dim} = 6]`, or --set {dim}=6"))
                    .into());
            };
            *slot = n;
        }
        if out[1].saturating_sub(out[0]) > 4096 {
            return Err(
                Diagnostic::error(range.low.span.to(range.high.span), "a loop may have 4096 rounds").into()
            );
        }
        Ok((out[0], out[1]))
    }

    // ---- requirements

    fn require(&mut self, condition: &'a Expr, message: Option<&str>) -> Eval<()> {
        if let ExprKind::Binary(BinaryOp::And, x, y) = &condition.kind {
            self.require(x, message)?;
            return self.require(y, message);
        }
        if let ExprKind::Compare(first, rest) = &condition.kind {
            let mut left: &'a Expr = first;
            for (op, right) in rest {
                self.require_relation(left, *op, right, message)?;
                left = right;
            }
            return Ok(());
        }
        let value = self.expr(condition)?;
        self.required(&value, condition.span, message)
    }

    fn require_relation(
        &mut self,
        x: &'a Expr,
        op: CompareOp,
        y: &'a Expr,
        message: Option<&str>,
    ) -> Eval<()> {
        let span = x.span.to(y.span);
        // `D % H == 0` is about divisibility.
        if let (ExprKind::Binary(BinaryOp::Rem, a, b), CompareOp::Eq, ExprKind::Int(0)) =
            (&x.kind, op, &y.kind)
        {
            let (n, d) = (self.dimension(a)?, self.dimension(b)?);
            return match (n.as_constant(), d.as_constant()) {
                (Some(_), Some(0)) => Err(Diagnostic::error(b.span, "this divides by zero").into()),
                (Some(p), Some(q)) if p.checked_rem(q).is_none_or(|rest| rest == 0) => Ok(()),
                (Some(_), Some(_)) => {
                    let (p, q) = (self.arithmetic_text(&n, a.span), self.arithmetic_text(&d, b.span));
                    Err(unmet(span, message, Some(format!("{p} is not divisible by {q}, required here"))))
                }
                _ => {
                    self.relation(Relation::Divides(n, d), message, span);
                    Ok(())
                }
            };
        }
        let (a, b) = (self.expr(x)?, self.expr(y)?);
        let (Value::Int(a), Value::Int(b)) = (&a, &b) else {
            let value = self.compare(op, (a, x.span), (b, y.span), span)?;
            return self.required(&value, span, message);
        };
        match super::arith::compare_dims(op, a, b) {
            Some(true) => return Ok(()),
            Some(false) => {
                let text = format!(
                    "{} {} {}",
                    self.arithmetic_text(a, x.span),
                    op.sign(),
                    self.arithmetic_text(b, y.span)
                );
                return Err(unmet(span, message, Some(format!("{text} does not hold, required here"))));
            }
            None => {}
        }
        let one = Dim::constant(1);
        let relation = match op {
            CompareOp::Eq => Relation::Equal(a.clone(), b.clone()),
            CompareOp::Le => Relation::AtMost(a.clone(), b.clone()),
            CompareOp::Lt => Relation::AtMost(a + &one, b.clone()),
            CompareOp::Ge => Relation::AtMost(b.clone(), a.clone()),
            CompareOp::Gt => Relation::AtMost(b + &one, a.clone()),
            CompareOp::Ne => {
                return Err(Diagnostic::error(
                    span,
                    "`!=` cannot be required of dimensions that are not known yet",
                )
                .into());
            }
        };
        self.relation(relation, message, span);
        Ok(())
    }

    /// A condition that must be known to hold when compiling.
    fn required(&self, value: &Value<'a>, span: Span, message: Option<&str>) -> Eval<()> {
        if let Value::Bool(holds) = value {
            return if *holds { Ok(()) } else { Err(unmet(span, message, None)) };
        }
        Err(Diagnostic::error(span, "a requirement speaks about dimensions")
            .saying(format!("this is {}", self.describe(value)))
            .into())
    }

    /// A relation that arithmetic relies on, unless it is required already.
    pub(super) fn relation_once(&mut self, relation: Relation, span: Span) {
        if !self.b.requirements().iter().any(|r| r.relation == relation) {
            self.relation(relation, None, span);
        }
    }

    fn relation(&mut self, relation: Relation, message: Option<&str>, span: Span) {
        let is_same = |r: &Requirement| r.relation == relation && r.message.as_deref() == message;
        // What a function of the library requires is required once, however often it is called.
        if self.here().library && self.b.requirements().iter().any(is_same) {
            return;
        }
        let origin = Some(self.place(span).origin());
        self.b.require(Requirement { relation, message: message.map(str::to_owned), origin });
    }
}

fn unmet(span: Span, message: Option<&str>, arithmetic: Option<String>) -> Fail {
    let text = message.map_or("a requirement does not hold".to_owned(), str::to_owned);
    let label = arithmetic.unwrap_or("this does not hold".to_owned());
    Diagnostic::error(span, text).saying(label).into()
}
