//! Expressions.
//!
//! Calls are in [`super::call`], brackets in [`super::index`], operators in [`super::arith`].

use super::{Eval, Fail, Lowerer};
use crate::diag::{Diagnostic, did_you_mean, listed};
use crate::habits::{self, Foreign, Shape};
use crate::source::Span;
use crate::syntax::ast::{Argument, Bracket, CompareOp, Expr, ExprKind, UnaryOp};
use crate::value::{Builtin, Callee, FunctionValue, PARAMETERS, Slot, Value};
use salient_ir::{Dim, MapOp};
use std::collections::BTreeSet;

impl<'a> Lowerer<'a, '_> {
    /// An expression that stands for itself: a definition's right side, a result. Its free indices become axes.
    pub(super) fn root(&mut self, e: &'a Expr) -> Eval<Value<'a>> {
        let free = self.free_indices(e);
        let depth = self.here().indices.len();
        self.bind(&free, &[e]);
        let value = self.expr(e);
        self.frame().indices.truncate(depth);
        let value = value?;
        Ok(value.map_tensors(&mut |t| self.settle(t)))
    }

    /// Any expression.
    pub(super) fn expr(&mut self, e: &'a Expr) -> Eval<Value<'a>> {
        if self.depth >= super::MAX_DEPTH || self.b.len() > super::MAX_NODES {
            return Err(Diagnostic::error(e.span, "this program is too large")
                .note(format!(
                    "at most {} operators, {} expressions inside each other",
                    super::MAX_NODES,
                    super::MAX_DEPTH
                ))
                .into());
        }
        self.depth += 1;
        let before = self.b.len();
        let out = self.expr_here(e);
        self.depth -= 1;
        self.locate(before, e.span);
        if let Ok(value) = &out {
            if let ExprKind::Name(name) = &e.kind
                && self.bound(name).is_some()
            {
                self.note_index(name, e.span);
            } else {
                self.note_shape(e.span, value);
            }
        }
        out
    }

    fn expr_here(&mut self, e: &'a Expr) -> Eval<Value<'a>> {
        match &e.kind {
            ExprKind::Int(n) => Ok(Value::Int(Dim::constant(*n))),
            ExprKind::Float(x) => Ok(Value::Float(*x)),
            ExprKind::Bool(b) => Ok(Value::Bool(*b)),
            ExprKind::Infinity => Ok(Value::Float(f64::INFINITY)),
            ExprKind::Text(_) => Ok(Value::Text),
            ExprKind::Name(name) => self.name(name, e.span),
            ExprKind::Unary(op, x) => self.unary(*op, x, e.span),
            ExprKind::Binary(op, x, y) => {
                let a = self.expr(x)?;
                let b = self.expr(y)?;
                self.binary(*op, (a, x.span), (b, y.span), e.span)
            }
            ExprKind::Compare(first, rest) => self.comparison(first, rest, e.span),
            ExprKind::If(c, x, y) => self.choice(c, x, y, e.span),
            ExprKind::Call(target, args) => self.call(target, args, None, e.span),
            ExprKind::As(call, path) => {
                if let ExprKind::Call(target, args) = &call.kind {
                    return self.call(target, args, Some(path), e.span);
                }
                let text = self.sources_text(path.span);
                let to = text
                    .split_whitespace()
                    .next_back()
                    .filter(|name| salient_ir::DType::from_name(name).is_some());
                Err(Diagnostic::error(path.span, "`as` names the parameters of a block's call")
                    .also(call.span, "this is no call")
                    .help_if(to.map(|to| format!("write `{to}({})`", self.sources_text(call.span))))
                    .into())
            }
            ExprKind::Transpose(x) => {
                let value = self.expr(x)?;
                let t = self.tensor(value, x.span)?;
                self.transposed(t, e.span).map(Value::Tensor)
            }
            ExprKind::Brackets(target, items) => self.brackets(target, items, e.span),
            ExprKind::Selection(pattern) => self.selection(pattern),
        }
    }

    fn unary(&mut self, op: UnaryOp, x: &'a Expr, span: Span) -> Eval<Value<'a>> {
        let value = self.expr(x)?;
        match (op, &value) {
            (UnaryOp::Neg, Value::Int(d)) => self.integer(&Dim::constant(0) - d, span),
            (UnaryOp::Neg, _) => self.map(MapOp::Neg, vec![(value, x.span)], span),
            (UnaryOp::Not, _) => self.map(MapOp::Not, vec![(value, x.span)], span),
        }
    }

    /// A chain of comparisons holds if each of its links does.
    fn comparison(&mut self, first: &'a Expr, rest: &'a [(CompareOp, Expr)], span: Span) -> Eval<Value<'a>> {
        let mut left = (self.expr(first)?, first.span);
        let mut all: Option<Value<'a>> = None;
        for (op, y) in rest {
            let right = (self.expr(y)?, y.span);
            let holds = self.compare(*op, left.clone(), right.clone(), left.1.to(y.span))?;
            all = Some(match all {
                None => holds,
                Some(before) => self.map(MapOp::And, vec![(before, span), (holds, span)], span)?,
            });
            left = right;
        }
        Ok(all.unwrap_or(Value::Bool(true)))
    }

    /// `if`: one arm where the condition is known, else both, under a guard.
    fn choice(&mut self, c: &'a Expr, x: &'a Expr, y: &'a Expr, span: Span) -> Eval<Value<'a>> {
        let condition = self.expr(c)?;
        if let Value::Bool(known) = condition {
            return self.expr(if known { x } else { y });
        }
        self.warn_of_vain_condition(c, &condition);
        self.guards += 1;
        let arms = self.expr(x).and_then(|a| Ok((a, self.expr(y)?)));
        self.guards -= 1;
        let (a, b) = arms?;
        self.map(MapOp::Select, vec![(condition, c.span), (a, x.span), (b, y.span)], span)
    }

    /// A function with what its brackets hold, or a tensor that is read.
    fn brackets(&mut self, target: &'a Expr, items: &'a [Bracket], span: Span) -> Eval<Value<'a>> {
        if let Some(callee) = self.callee(target) {
            let statics = self.statics(&callee, items)?;
            return Ok(Value::Function(FunctionValue { callee, statics }));
        }
        let null = items.iter().find_map(|item| match item {
            Bracket::Value(Expr { kind: ExprKind::Name(name), span }) if name == "None" => Some(*span),
            Bracket::Value(_)
            | Bracket::Named(..)
            | Bracket::Colon(..)
            | Bracket::Rest(_)
            | Bracket::Unit(_) => None,
        });
        if let Some(null) = null {
            return Err(self.unknown("None", null));
        }
        let inside = items.first().zip(items.last()).map(|(a, b)| a.span().to(b.span()));
        if let Some(fail) = self.swapped(target, inside, span) {
            return Err(fail);
        }
        // A tensor and an index may share a name: only the tensor can be read.
        let tensor = if let ExprKind::Name(name) = &target.kind {
            let named = self.lookup(name).filter(|v| v.value.as_tensor().is_some());
            named.map(|v| self.read_from(v))
        } else {
            None
        };
        let value = tensor.map_or_else(|| self.expr(target), Ok)?;
        if let Value::Function(f) = &value {
            let message = format!("`{}` has its brackets already", f.callee.name());
            return Err(Diagnostic::error(span, message).into());
        }
        self.note_shape(target.span, &value);
        let t = self.tensor(value, target.span)?;
        self.read(t, items, target.span, span).map(Value::Tensor)
    }

    /// What a name means here: an index, a definition, a function, in this order.
    fn name(&mut self, name: &str, span: Span) -> Eval<Value<'a>> {
        if self.bound(name).is_some() {
            return self.index_named(name, span);
        }
        if let Some(var) = self.lookup(name) {
            let poison = matches!(var.value, Value::Poison);
            return if poison { Err(Fail::Reported) } else { Ok(self.read_from(var)) };
        }
        if let Some(f) = self.program.function(name) {
            return Ok(Value::Function(FunctionValue { callee: Callee::Declared(f), statics: Vec::new() }));
        }
        if let Some(b) = Builtin::from_name(name) {
            return Ok(Value::Function(FunctionValue { callee: Callee::Builtin(b), statics: Vec::new() }));
        }
        if name == "training" {
            return Ok(Value::Bool(self.settings.train.is_some()));
        }
        if name == PARAMETERS {
            return Ok(self.all_parameters());
        }
        if name == "nan" {
            return Ok(Value::Float(f64::NAN));
        }
        Err(self.unknown(name, span))
    }

    /// The function that a name (and nothing else) stands for.
    pub(super) fn callee(&self, target: &Expr) -> Option<Callee<'a>> {
        let ExprKind::Name(name) = &target.kind else { return None };
        if self.bound(name).is_some() {
            return None;
        }
        if let Some(var) = self.lookup(name) {
            let Value::Function(f) = &var.value else { return None };
            self.read_from(var);
            return f.statics.is_empty().then_some(f.callee);
        }
        let declared = self.program.function(name).map(Callee::Declared);
        declared.or_else(|| Builtin::from_name(name).map(Callee::Builtin))
    }

    fn unknown(&self, name: &str, span: Span) -> Fail {
        self.unknown_but(name, span, habits::of_name(name))
    }

    /// A name that means nothing here, with what is to be written instead if that is known.
    pub(super) fn unknown_but(&self, name: &str, span: Span, instead: Option<String>) -> Fail {
        let upper = name.starts_with(|c: char| c.is_ascii_uppercase());
        let what = if upper { "a dimension or value" } else { "a value" };
        let frame = self.here();
        let mut candidates: Vec<&str> =
            frame.scopes.iter().flat_map(|s| s.keys()).map(String::as_str).collect();
        candidates.extend(frame.indices.iter().map(|b| b.name.as_str()));
        candidates.extend(self.constants.keys().map(String::as_str));
        self.program.function_names().for_each(|n| candidates.push(n));
        Builtin::names().for_each(|n| candidates.push(n));
        let elsewhere = instead.is_some();
        let help = instead.or_else(|| did_you_mean(name, candidates)).or_else(|| {
            upper.then(|| format!("a dimension comes from a parameter's type or from brackets: `[{name}]`"))
        });
        let d = Diagnostic::error(span, format!("`{name}` is not known"))
            .saying(format!("{what} of this name is not in scope"))
            .help_if(help);
        // A name in lower case may be that of a dimension.
        let dimension = self.lookup(&name.to_uppercase()).is_some_and(|var| var.value.as_int().is_some());
        if !elsewhere && (upper || dimension) { self.listing_dimensions(d).into() } else { d.into() }
    }

    /// With the dimensions that there are.
    pub(super) fn listing_dimensions(&self, d: Diagnostic) -> Diagnostic {
        let scopes = self.here().scopes.iter();
        let is_dimension = |name: &&String| name.starts_with(|c: char| c.is_ascii_uppercase());
        let names: BTreeSet<&str> =
            scopes.flat_map(|s| s.keys().filter(is_dimension)).map(String::as_str).collect();
        if names.is_empty() { d } else { d.note(format!("the dimensions in scope are {}", listed(names))) }
    }

    // ---- calls as other systems have them

    /// A call as it is written, for its spelling here.
    pub(super) fn foreign(&mut self, name: &str, args: &'a [Argument]) -> Foreign {
        let text =
            |l: &Self, e: &Expr| l.sources.text(e.span).split_whitespace().collect::<Vec<_>>().join(" ");
        let given = args.iter().map(|a| (a.name.as_ref().map(|n| n.name.clone()), text(self, &a.value)));
        let given = given.collect();
        let shape = args.first().and_then(|first| self.shape_of(&first.value));
        Foreign { name: name.to_owned(), given, input: None, shape }
    }

    /// The names and lengths of the axes of an expression, if it has a value.
    fn shape_of(&mut self, e: &'a Expr) -> Option<Shape> {
        let t = self.trial(|l| {
            let value = l.expr(e)?;
            l.tensor(value, e.span)
        })?;
        let axis = |slot: &Slot| {
            (slot.label.as_deref().unwrap_or_default().to_owned(), self.extent(slot).to_string())
        };
        Some(t.pos.iter().map(axis).collect())
    }

    /// The call of a function that other systems have, and this one by another name or not at all.
    pub(super) fn known_elsewhere(&mut self, target: &'a Expr, args: &'a [Argument]) -> Option<Fail> {
        let ExprKind::Name(name) = &target.kind else { return None };
        if self.is_known(name) {
            return None;
        }
        let call = self.foreign(name, args);
        let spelling = habits::spelled(&call)?;
        Some(self.unknown_but(name, target.span, Some(spelling.help())))
    }

    /// `linear(D)[x]` and `linear(D)(x)`: what belongs into brackets stands in parentheses.
    pub(super) fn swapped(&self, called: &Expr, inside: Option<Span>, span: Span) -> Option<Fail> {
        let ExprKind::Call(f, args) = &called.kind else { return None };
        let Some(Callee::Declared(declared)) = self.callee(f) else { return None };
        if !declared.statics.iter().any(|s| !s.axis && s.default.is_none()) {
            return None;
        }
        let place = args.first()?.value.span.to(args.last()?.value.span);
        let name = &declared.name.name;
        let tensors = inside.map_or("", |inside| self.sources.text(inside));
        let write = format!("write `{name}[{}]({tensors})`", self.sources.text(place));
        let message =
            format!("what `{name}` has to know when compiling stands in brackets, tensors in parentheses");
        Some(Diagnostic::error(span, message).help(write).into())
    }

    /// An expression that must be an integer known when compiling.
    pub(super) fn dimension(&mut self, e: &'a Expr) -> Eval<Dim> {
        let value = self.expr(e)?;
        if let Value::Int(d) = value {
            return Ok(d);
        }
        let found = self.describe(&value);
        Err(Diagnostic::error(e.span, "a dimension was expected").saying(format!("this is {found}")).into())
    }
}
