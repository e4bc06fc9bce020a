//! Statements, parameters, and the model as a whole.

use super::{Eval, Fail, Frame, Lowerer, Var, Weight, result_names, typing};
use crate::ast::{CompareOp, Const, ExprKind, Extent, Kind, Param, Range, Results, Stmt, StmtKind, Target, Type};
use crate::ast::{BinaryOp, Expr, Function};
use crate::diag::{Diagnostic, counted, did_you_mean, listed};
use crate::source::Span;
use crate::value::{Tensor, Value};
use salient_ir::{AxisId, AxisSet, DType, Dim, Init, NodeId, Relation, Requirement};
use std::collections::BTreeMap;

impl<'a> Lowerer<'a, '_> {
    /// A frame that belongs to no call.
    fn outermost(&mut self, decl: Option<&'a Function>) {
        self.frames.push(Frame {
            decl,
            library: false,
            scopes: vec![BTreeMap::new()],
            indices: Vec::new(),
            path: Vec::new(),
            riding: AxisSet::new(),
            call: None,
            results: None,
        });
    }

    /// The constants of the files; later ones may use earlier ones.
    pub(super) fn constants(&mut self) {
        self.outermost(None);
        for c in self.program.constants.clone() {
            let value = self.constant_value(c);
            self.constants.insert(c.name.name.clone(), Var { value, span: c.name.span });
        }
        self.frames.pop();
    }

    fn constant_value(&mut self, c: &'a Const) -> Value<'a> {
        match self.expr(&c.value) {
            Ok(Value::Tensor(t)) => {
                let d = Diagnostic::error(c.value.span, format!("`{}` must be known when compiling", c.name.name))
                    .saying(format!("this is {}", self.shape_text(&t)));
                self.report(d.into());
                Value::Poison
            }
            Ok(value) => value,
            Err(fail) => {
                self.report(fail);
                Value::Poison
            }
        }
    }

    // ---- the model

    /// The model's inputs, its body and its outputs.
    pub(super) fn model(&mut self, f: &'a Function) {
        self.outermost(Some(f));
        if let Err(fail) = self.model_here(f) {
            self.report(fail);
        }
        self.frames.pop();
    }

    fn model_here(&mut self, f: &'a Function) -> Eval<()> {
        self.model_statics(f)?;
        let types = f.params.iter().filter_map(|p| p.ty.as_ref());
        types.for_each(|ty| self.symbols_in(ty));
        match &f.results {
            None => {}
            Some(Results::One(ty)) => self.symbols_in(ty),
            Some(Results::Named(list)) => list.iter().for_each(|(_, ty)| self.symbols_in(ty)),
        }
        self.unused_settings(f)?;
        for p in &f.params {
            let Some(ty) = &p.ty else {
                let d = Diagnostic::error(p.name.span, format!("the input `{}` needs a type", p.name.name));
                return Err(d.help(format!("write `{}: f32[T, D]`", p.name.name)).into());
            };
            let (dtype, dims) = self.stored_type(ty)?;
            let (slots, axes) = self.stored_axes(&dims);
            let node = self.b.input(&p.name.name, &axes, dtype, Some(p.name.span.origin()));
            let node = self.without_units(node, &axes);
            let t = Tensor { pos: slots, ..Tensor::scalar(node) };
            self.define(&p.name.name, Value::Tensor(t), p.name.span);
        }
        self.body(&f.body);
        self.check_results(f)?;
        let results = self.frame().results.take().unwrap_or_default();
        if self.errors.is_empty() { self.outputs(f, results) } else { Err(Fail::Reported) }
    }

    fn model_statics(&mut self, f: &'a Function) -> Eval<()> {
        for s in &f.statics {
            if s.axis {
                return Err(Diagnostic::error(s.name.span, "a model is called by nobody: it has no axis to take").into());
            }
            let name = &s.name.name;
            let value = match (self.setting(name)?, &s.default) {
                (Some(value), _) => value,
                (None, Some(default)) => self.expr(default)?,
                (None, None) if name.starts_with(|c: char| c.is_ascii_uppercase()) => {
                    self.symbols.insert(name.clone());
                    Value::Int(Dim::symbol(name))
                }
                (None, None) => {
                    return Err(Diagnostic::error(s.name.span, format!("`{name}` has no value"))
                        .help(format!("give it a default, or --set {name}=VALUE"))
                        .into());
                }
            };
            self.define(name, value, s.name.span);
        }
        Ok(())
    }

    /// What `--set` says about a name.
    fn setting(&self, name: &str) -> Eval<Option<Value<'a>>> {
        let Some((_, text)) = self.settings.set.iter().find(|(n, _)| n == name) else { return Ok(None) };
        let value = match (text.as_str(), text.parse::<i64>(), text.parse::<f64>()) {
            ("true", ..) => Value::Bool(true),
            ("false", ..) => Value::Bool(false),
            (_, Ok(n), _) if n >= 0 => Value::Int(Dim::constant(n)),
            (_, Ok(n), _) => Value::Int(Dim::constant(n)),
            (_, _, Ok(x)) => Value::Float(x),
            _ => return Err(Diagnostic::placeless(format!("--set {name}={text}: neither a number nor a truth value")).into()),
        };
        Ok(Some(value))
    }

    fn unused_settings(&self, f: &'a Function) -> Eval<()> {
        let scope = &self.here().scopes[0];
        match self.settings.set.iter().find(|(n, _)| !scope.contains_key(n)) {
            None => Ok(()),
            Some((name, _)) => {
                let known: Vec<&str> = scope.keys().map(String::as_str).collect();
                Err(Diagnostic::placeless(format!(
                    "`{}` has no dimension or parameter `{name}` to set; it has {}",
                    f.name.name,
                    listed(known.iter().copied())
                ))
                .help_if(did_you_mean(name, known))
                .into())
            }
        }
    }

    /// Names in a model's types that nothing binds are dimensions that stay symbolic until a call.
    fn symbols_in(&mut self, ty: &'a Type) {
        for extent in ty.shape.iter().flatten() {
            let Extent::Dim(e) = extent else { continue };
            for name in self.unknown_names(e) {
                let value = match self.setting(name) {
                    Ok(Some(value)) => value,
                    _ => {
                        self.symbols.insert(name.to_owned());
                        Value::Int(Dim::symbol(name))
                    }
                };
                self.define_root(name, value, e.span);
            }
        }
    }

    /// The type of something stored: every dimension must have a value.
    fn stored_type(&mut self, ty: &'a Type) -> Eval<(DType, Vec<Dim>)> {
        let Some(dtype) = self.element(ty)? else {
            return Err(Diagnostic::error(ty.span, "a function cannot be stored").into());
        };
        let mut dims = Vec::new();
        for extent in ty.shape.iter().flatten() {
            match extent {
                Extent::Rest(span) => {
                    return Err(Diagnostic::error(*span, "the shape of something stored must be written out").into());
                }
                Extent::Dim(e) => {
                    let dim = self.dimension(e)?;
                    if dim.as_constant().is_some_and(|n| n < 0) {
                        return Err(Diagnostic::error(e.span, format!("a dimension cannot be {dim}")).into());
                    }
                    dims.push(dim);
                }
            }
        }
        Ok((dtype, dims))
    }

    fn outputs(&mut self, f: &'a Function, results: Vec<(Value<'a>, Span)>) -> Eval<()> {
        let names = self.output_names(f, results.len());
        let mut seen: BTreeMap<String, Span> = BTreeMap::new();
        for ((value, place), name) in results.into_iter().zip(names) {
            if let Some(first) = seen.insert(name.clone(), place) {
                return Err(Diagnostic::error(place, format!("two results are called `{name}`"))
                    .also(first, "the first")
                    .help("name the results: `-> (a: f32[T, D], b: f32[T])`")
                    .into());
            }
            let mut t = self.tensor(value, place)?;
            let mut axes: Vec<AxisId> = Vec::new();
            for slot in &mut t.pos {
                axes.push(match slot.axis {
                    Some(axis) => axis,
                    None => {
                        let unit = self.b.axis_id("unit", &Dim::constant(1));
                        let used: AxisSet = axes.iter().copied().collect();
                        self.distinct(unit, &used)
                    }
                });
            }
            self.b.output(&name, &axes, t.node).map_err(typing(place))?;
        }
        Ok(())
    }

    /// Declared names; else the names of what is returned; else `output`, numbered.
    fn output_names(&self, f: &'a Function, count: usize) -> Vec<String> {
        if let Some(names) = result_names(f) {
            return names.into_iter().map(str::to_owned).collect();
        }
        let returned = f.body.iter().find_map(|s| match &s.kind {
            StmtKind::Return(values) => Some(values.as_slice()),
            _ => None,
        });
        let name = |n: usize| match returned.and_then(|r| r.get(n)).map(|e| &e.kind) {
            Some(ExprKind::Name(name)) => name.clone(),
            _ if count == 1 => "output".to_owned(),
            _ => format!("output.{n}"),
        };
        (0..count).map(name).collect()
    }

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
                cells.iter().for_each(|(name, _)| self.define(&name.name, Value::Poison, name.span));
            }
            StmtKind::Return(_) => self.frame().results = Some(vec![(Value::Poison, stmt.span)]),
            StmtKind::Require(..) | StmtKind::For(..) | StmtKind::If(..) => {}
        }
    }

    fn stmt(&mut self, stmt: &'a Stmt) -> Eval<()> {
        match &stmt.kind {
            StmtKind::Let(targets, value) => {
                for (n, target) in targets.iter().enumerate() {
                    if targets[..n].iter().any(|t| t.name.name == target.name.name) {
                        return Err(Diagnostic::error(target.name.span, format!("`{}` is defined twice here", target.name.name)).into());
                    }
                }
                self.definition(targets, value, false)
            }
            StmtKind::Assign(targets, value) => {
                for target in targets {
                    if self.lookup(&target.name.name).is_none() {
                        let frame = self.here();
                        let known = frame.scopes.iter().flat_map(|s| s.keys()).map(String::as_str);
                        return Err(Diagnostic::error(target.name.span, format!("`{}` is not defined yet", target.name.name))
                            .help(format!("the first definition is `let {} = …`", target.name.name))
                            .help_if(did_you_mean(&target.name.name, known))
                            .into());
                    }
                }
                self.definition(targets, value, true)
            }
            StmtKind::Param(p) => self.param(p),
            StmtKind::State(cells) => {
                let span = cells.first().map_or(stmt.span, |c| c.0.span);
                Err(Diagnostic::error(span, "state is not supported yet")
                    .help("pass it in as an input and out as a result")
                    .into())
            }
            StmtKind::Const(c) => {
                let value = self.constant_value(c);
                self.define(&c.name.name, value, c.name.span);
                Ok(())
            }
            StmtKind::Require(condition, message) => {
                self.require(condition, message.as_ref().map(|m| m.value.as_str()))
            }
            StmtKind::For(range, body) => {
                let (low, high) = self.bounds(range)?;
                for n in low..high {
                    self.frame().scopes.push(BTreeMap::new());
                    self.define(&range.name.name, Value::Int(Dim::constant(n)), range.name.span);
                    self.body(body);
                    self.frame().scopes.pop();
                    if !self.errors.is_empty() {
                        break;
                    }
                }
                Ok(())
            }
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
                self.frame().scopes.pop();
                Ok(())
            }
            StmtKind::Return(values) => {
                let mut results = Vec::new();
                for e in values {
                    match self.root(e)? {
                        Value::Many(all) => results.extend(all.into_iter().map(|v| (v, e.span))),
                        value => results.push((value, e.span)),
                    }
                }
                self.frame().results = Some(results);
                Ok(())
            }
        }
    }

    /// `let` and assignment.
    fn definition(&mut self, targets: &'a [Target], value: &'a Expr, assign: bool) -> Eval<()> {
        let values = if let [Target { indices: Some(indices), .. }] = targets {
            let wanted = self.wanted(indices)?;
            let depth = self.here().indices.len();
            self.bind(&wanted, &[value]);
            let result = self.expr(value);
            let scope = self.frame().indices.split_off(depth);
            let value_span = value.span;
            let result = result?;
            let t = self.tensor(result, value_span)?;
            vec![Value::Tensor(self.arranged(t, indices, &scope, value_span)?)]
        } else {
            match self.root(value)? {
                Value::Many(values) => values,
                one => vec![one],
            }
        };
        if values.len() != targets.len() {
            let message =
                format!("{} for {}", counted(values.len(), "value", "values"), counted(targets.len(), "name", "names"));
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
            if let Value::Tensor(t) = &value_ {
                self.christen(t, &target.name.name, target.name.span);
            }
            self.assign(&target.name.name, value_, target.name.span, assign);
        }
        Ok(())
    }

    /// Gives a name its value: in the innermost scope, or where it is defined already.
    fn assign(&mut self, name: &str, value: Value<'a>, span: Span, assign: bool) {
        let frame = self.frame();
        let holds = frame.scopes.iter_mut().rev().find(|s| assign && s.contains_key(name));
        match holds {
            Some(scope) => {
                scope.insert(name.to_owned(), Var { value, span });
            }
            None => self.define(name, value, span),
        }
    }

    fn assert_type(&mut self, target: &Target, ty: &'a Type, value: &Value<'a>, place: Span) -> Eval<()> {
        let Value::Tensor(t) = value else { return Ok(()) };
        let (dtype, dims) = self.stored_type(ty)?;
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
        if out[1] - out[0] > 4096 {
            return Err(Diagnostic::error(range.low.span.to(range.high.span), "a loop may have 4096 rounds").into());
        }
        Ok((out[0], out[1]))
    }

    // ---- requirements

    fn require(&mut self, condition: &'a Expr, message: Option<&str>) -> Eval<()> {
        match &condition.kind {
            ExprKind::Binary(BinaryOp::And, x, y) => {
                self.require(x, message)?;
                return self.require(y, message);
            }
            ExprKind::Compare(first, rest) => {
                let mut left: &'a Expr = first;
                for (op, right) in rest {
                    self.require_relation(left, *op, right, message)?;
                    left = right;
                }
                return Ok(());
            }
            _ => {}
        }
        match self.expr(condition)? {
            Value::Bool(true) => Ok(()),
            Value::Bool(false) => Err(unmet(condition.span, message, None)),
            other => {
                let found = self.describe(&other);
                Err(Diagnostic::error(condition.span, "a requirement speaks about dimensions")
                    .saying(format!("this is {found}"))
                    .into())
            }
        }
    }

    fn require_relation(&mut self, x: &'a Expr, op: CompareOp, y: &'a Expr, message: Option<&str>) -> Eval<()> {
        let span = x.span.to(y.span);
        // `D % H == 0` is about divisibility.
        if let (ExprKind::Binary(BinaryOp::Rem, a, b), CompareOp::Eq, ExprKind::Int(0)) = (&x.kind, op, &y.kind) {
            let (n, d) = (self.dimension(a)?, self.dimension(b)?);
            return match (n.as_constant(), d.as_constant()) {
                (Some(_), Some(0)) => Err(Diagnostic::error(b.span, "this divides by zero").into()),
                (Some(p), Some(q)) if p % q == 0 => Ok(()),
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
            return match self.compare(op, (a, x.span), (b, y.span), span)? {
                Value::Bool(true) => Ok(()),
                Value::Bool(false) => Err(unmet(span, message, None)),
                _ => Err(Diagnostic::error(span, "a requirement speaks about dimensions").into()),
            };
        };
        match super::arith::compare_dims(op, a, b) {
            Some(true) => return Ok(()),
            Some(false) => {
                let text =
                    format!("{} {} {}", self.arithmetic_text(a, x.span), op.sign(), self.arithmetic_text(b, y.span));
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
                return Err(Diagnostic::error(span, "`!=` cannot be required of dimensions that are not known yet").into());
            }
        };
        self.relation(relation, message, span);
        Ok(())
    }

    fn relation(&mut self, relation: Relation, message: Option<&str>, span: Span) {
        self.b.require(Requirement { relation, message: message.map(str::to_owned), origin: Some(span.origin()) });
    }

    // ---- parameters

    fn param(&mut self, p: &'a Param) -> Eval<()> {
        let decl = self.here().decl;
        if decl.is_some_and(|f| f.kind == Kind::Fn) {
            return Err(Diagnostic::error(p.name.span, "a `fn` owns no parameters")
                .also(decl.map_or(p.name.span, |f| f.span), "this is a `fn`")
                .help("make it a `block`")
                .into());
        }
        if decl.is_some_and(|f| f.kind == Kind::Model) {
            self.symbols_in(&p.ty);
        }
        let (dtype, dims) = self.stored_type(&p.ty)?;
        let mut segments = self.here().path.clone();
        match &p.path {
            Some(path) => segments.extend(self.path(path)?),
            None => segments.push(p.name.name.clone()),
        }
        let path = segments.join(".");
        let call = self.here().call;
        if let Some(known) = self.weights.get(&path) {
            if known.dims != dims || known.dtype != dtype {
                let shape = |dtype: DType, dims: &[Dim]| {
                    let dims: Vec<_> = dims.iter().map(Dim::to_string).collect();
                    format!("{dtype}[{}]", dims.join(", "))
                };
                let mut d = Diagnostic::error(p.name.span, format!("two parameters are called `{path}`"))
                    .saying(format!("{} here", shape(dtype, &dims)))
                    .also(known.span, format!("{} there", shape(known.dtype, &known.dims)));
                if let Some(call) = known.call {
                    d = d.also(call, "the first call");
                }
                return Err(d.help("give each call a path of its own with `as`").into());
            }
            let meant = known.explicit || p.path.is_some() || known.call == call;
            let (node, pos, first) = (known.node, known.pos.clone(), known.call);
            if !meant {
                let mut d = Diagnostic::warning(call.unwrap_or(p.name.span), format!("the parameter `{path}` is shared by two calls"));
                if let Some(first) = first {
                    d = d.also(first, "the first call");
                }
                self.warn(d.help("give each call a path of its own with `as`, or share it on purpose with `param … as`"));
            }
            let t = Tensor { pos, ..Tensor::scalar(node.expect("a declared parameter has a node")) };
            self.define(&p.name.name, Value::Tensor(t), p.name.span);
            return Ok(());
        }
        let init = p.init.as_ref().map(|e| self.init(e)).transpose()?;
        let (pos, axes) = self.stored_axes(&dims);
        let node = self.b.param(&path, &axes, dtype, init, Some(call.unwrap_or(p.name.span).origin()));
        let node = self.without_units(node, &axes);
        let explicit = p.path.is_some();
        let weight = Weight { node: Some(node), pos: pos.clone(), dims, dtype, span: p.name.span, call, explicit };
        self.weights.insert(path, weight);
        self.define(&p.name.name, Value::Tensor(Tensor { pos, ..Tensor::scalar(node) }), p.name.span);
        Ok(())
    }

    /// `zeros`, `ones`, `normal(std)`, `uniform(low, high)`.
    fn init(&mut self, e: &'a Expr) -> Eval<Init> {
        let unknown = || -> Fail {
            Diagnostic::error(e.span, "this is no initialiser")
                .help("write `zeros`, `ones`, `normal(std)` or `uniform(low, high)`")
                .into()
        };
        match &e.kind {
            ExprKind::Name(name) if name == "zeros" => Ok(Init::Zeros),
            ExprKind::Name(name) if name == "ones" => Ok(Init::Ones),
            ExprKind::Call(target, args) => {
                let mut bounds = Vec::new();
                for arg in args {
                    bounds.push(self.init_scalar(&arg.value)?);
                }
                match (&target.kind, bounds.as_slice()) {
                    (ExprKind::Name(name), [std]) if name == "normal" => Ok(Init::Normal(*std)),
                    (ExprKind::Name(name), [low, high]) if name == "uniform" => Ok(Init::Uniform(*low, *high)),
                    _ => Err(unknown()),
                }
            }
            _ => Err(unknown()),
        }
    }

    fn init_scalar(&mut self, e: &'a Expr) -> Eval<NodeId> {
        let value = self.expr(e)?;
        let t = self.cast(value, DType::F32, e.span)?;
        if t.slots().next().is_some() {
            return Err(Diagnostic::error(e.span, "an initialiser takes numbers")
                .saying(format!("this is {}", self.shape_text(&t)))
                .into());
        }
        Ok(t.node)
    }
}

fn unmet(span: Span, message: Option<&str>, arithmetic: Option<String>) -> Fail {
    let text = message.map_or("a requirement does not hold".to_owned(), str::to_owned);
    let label = arithmetic.unwrap_or("this does not hold".to_owned());
    Diagnostic::error(span, text).saying(label).into()
}
