//! Types against values: binds dimensions, and shows both sides where they clash.

use super::call::ArgValue;
use super::lost::Role;
use super::model::AxisName;
use super::{Eval, Fail, Lowerer};
use crate::diag::{Diagnostic, counted, did_you_mean};
use crate::source::Span;
use crate::syntax::ast::{BinaryOp, Expr, ExprKind, Extent, Function, Kind, Parameter, Results, Type};
use crate::value::{Slot, Tensor, Value};
use salient_ir::{DType, Dim, Name};
use std::rc::Rc;

/// A dimension of a type with the dimension of the value that stands against it.
struct Pair<'a> {
    expr: &'a Expr,
    actual: Dim,
    /// The value's place, and the value.
    place: Span,
    of: Rc<Tensor>,
}

/// Whether a pair could be settled.
enum Progress {
    Settled,
    Later,
}

impl<'a> Lowerer<'a, '_> {
    /// The element type that a type names; `None` for `fn`.
    pub(super) fn element(&self, ty: &Type) -> Eval<Option<DType>> {
        if ty.name.name == "fn" {
            return Ok(None);
        }
        match DType::from_name(&ty.name.name) {
            Some(d) => Ok(Some(d)),
            None => {
                let names = DType::ALL.iter().map(|d| d.name());
                let others = match ty.name.name.as_str() {
                    "float" | "float32" | "f64" | "float64" => Some("write `f32`".to_owned()),
                    "int" | "int64" | "u64" => Some("write `i64`".to_owned()),
                    "int32" | "u32" => Some("write `i32`".to_owned()),
                    _ => None,
                };
                Err(Diagnostic::error(ty.name.span, format!("there is no type `{}`", ty.name.name))
                    .help_if(Some("the types are f32, f16, bf16, i32, i64 and bool".to_owned()))
                    .help_if(did_you_mean(&ty.name.name, names).or(others))
                    .into())
            }
        }
    }

    /// Parameters become names of the function; dimensions in their types are bound.
    pub(super) fn bind_parameters(
        &mut self,
        f: &'a Function,
        matched: Vec<(&'a Parameter, Option<ArgValue<'a>>)>,
        span: Span,
    ) -> Eval<()> {
        let mut pairs: Vec<Pair<'a>> = Vec::new();
        let mut defaults = Vec::new();
        for (param, given) in matched {
            let Some(given) = given else {
                defaults.push(param);
                continue;
            };
            let value = match &param.ty {
                Some(ty) => self.fit(param, ty, given.value, given.span, &mut pairs)?,
                None => given.value,
            };
            self.note_shape(param.name.span, &value);
            self.define_as(&param.name.name, value, given.span, Role::Argument);
        }
        self.settle_pairs(f, &mut pairs)?;
        for s in f.statics.iter().filter(|s| !s.axis) {
            if self.here().scopes[0].contains_key(&s.name.name) {
                continue;
            }
            let Some(default) = &s.default else { continue };
            let value = self.expr(default)?;
            self.define(&s.name.name, value, s.name.span);
        }
        self.settle_pairs(f, &mut pairs)?;
        if let Some(pair) = pairs.first() {
            let text = self.source_text(pair.expr);
            return Err(Diagnostic::error(
                pair.expr.span,
                format!("`{text}` does not determine its dimensions"),
            )
            .also(pair.place, format!("{} stands against it", self.shape_text(&pair.of)))
            .help("bind them elsewhere: by another parameter, or in brackets")
            .into());
        }
        for s in f.statics.iter().filter(|s| !s.axis) {
            if !self.here().scopes[0].contains_key(&s.name.name) {
                return Err(Diagnostic::error(
                    span,
                    format!("`{}` needs a value for `{}`", f.name.name, s.name.name),
                )
                .also(s.name.span, "declared here")
                .help(format!("write `{}[{} = …](…)`", f.name.name, s.name.name))
                .into());
            }
        }
        for param in defaults {
            if let Some(default) = &param.default {
                let value = self.expr(default)?;
                self.define(&param.name.name, value, param.name.span);
            }
        }
        Ok(())
    }

    /// A value against a parameter's type: element type and rank are checked, dimensions noted.
    fn fit(
        &mut self,
        param: &'a Parameter,
        ty: &'a Type,
        value: Value<'a>,
        place: Span,
        pairs: &mut Vec<Pair<'a>>,
    ) -> Eval<Value<'a>> {
        let name = &param.name.name;
        let Some(dtype) = self.element(ty)? else {
            if matches!(value, Value::Function(_)) {
                return Ok(value);
            }
            return Err(Diagnostic::error(place, format!("`{name}` takes a function"))
                .saying(format!("this is {}", self.describe(&value)))
                .also(ty.span, "declared here")
                .into());
        };
        let dtype = dtype.compute();
        if ty.shape.is_none() {
            match (&value, dtype) {
                (Value::Float(_), DType::F32)
                | (Value::Int(_), DType::I64)
                | (Value::Bool(_), DType::Bool) => {
                    return Ok(value);
                }
                _ => {}
            }
        }
        let literal = value.is_literal();
        let mut t = if literal { self.cast(value, dtype, place)? } else { self.tensor(value, place)? };
        if self.dtype(&t) != dtype {
            return Err(Diagnostic::error(
                place,
                format!("`{name}` takes {dtype}, found {}", self.dtype(&t)),
            )
            .saying(format!("this is {}", self.shape_text(&t)))
            .also(ty.span, "declared here")
            .help_if((dtype == DType::F32).then(|| "write `f32(…)` to convert".to_owned()))
            .into());
        }
        let shape = ty.shape.as_deref().unwrap_or(&[]);
        self.note_rest(&t, shape, place);
        self.match_shape(&mut t, shape, place, pairs, &|l, t| {
            let text = l.sources_text(ty.span);
            Diagnostic::error(place, format!("`{name}` takes `{text}`, found {}", l.shape_text(t)))
                .saying(format!("this has {}", counted(t.pos.len(), "axis", "axes")))
                .also(ty.span, format!("this has {}", counted(shape.len(), "axis", "axes")))
        })?;
        Ok(Value::Tensor(t))
    }

    /// What `..` in the type of the first argument that has it stands for.
    fn note_rest(&mut self, t: &Tensor, shape: &[Extent], place: Span) {
        let Some(at) = shape.iter().position(|e| matches!(e, Extent::Rest(_))) else { return };
        let Some(covered) = (t.pos.len() + 1).checked_sub(shape.len()) else { return };
        if self.here().rest.is_none() {
            let dims = t.pos[at..at + covered].iter().map(|slot| self.extent(slot)).collect();
            self.frame().rest = Some((dims, place));
        }
    }

    /// Pairs the axes of a value with the dimensions of a type, and names them after these.
    fn match_shape(
        &mut self,
        t: &mut Tensor,
        shape: &'a [Extent],
        place: Span,
        pairs: &mut Vec<Pair<'a>>,
        wrong: &dyn Fn(&Self, &Tensor) -> Diagnostic,
    ) -> Eval<()> {
        let rank = t.pos.len();
        let rest = shape.iter().position(|e| matches!(e, Extent::Rest(_)));
        let fits = if rest.is_some() { rank + 1 >= shape.len() } else { rank == shape.len() };
        if !fits {
            return Err(wrong(self, t).into());
        }
        let of = Rc::new(t.clone());
        for (n, extent) in shape.iter().enumerate() {
            let Extent::Dim(own, expr) = extent else { continue };
            let at = if rest.is_some_and(|r| r < n) { rank - (shape.len() - n) } else { n };
            let actual = self.extent(&t.pos[at]);
            let label = AxisName::of(own.as_ref(), expr).label().map(|stem| {
                let taken = |l: &str| t.pos[..at].iter().any(|s| s.is_called(l));
                let mut label = stem.clone();
                let mut n = 0;
                while taken(&label) {
                    n += 1;
                    label = format!("{stem}.{n}");
                }
                Name::from(label)
            });
            t.pos[at].label = label;
            pairs.push(Pair { expr, actual, place, of: of.clone() });
        }
        if let Some(r) = rest {
            let covered = rank + 1 - shape.len();
            t.pos[r..r + covered].iter_mut().for_each(|s| s.label = None);
        }
        Ok(())
    }

    /// Settles what can be settled, as long as that gives new names.
    fn settle_pairs(&mut self, f: &'a Function, pairs: &mut Vec<Pair<'a>>) -> Eval<()> {
        loop {
            let mut later = Vec::new();
            let before = pairs.len();
            for pair in pairs.drain(..) {
                match self.settle_pair(f, &pair)? {
                    Progress::Settled => {}
                    Progress::Later => later.push(pair),
                }
            }
            *pairs = later;
            if pairs.len() == before || pairs.is_empty() {
                return Ok(());
            }
        }
    }

    fn settle_pair(&mut self, f: &'a Function, pair: &Pair<'a>) -> Eval<Progress> {
        match self.unknown_names(pair.expr).as_slice() {
            [] => self.compare_pair(f, pair),
            [_] => self.solve(pair.expr, pair.actual.clone(), pair),
            _ => Ok(Progress::Later),
        }
    }

    fn compare_pair(&mut self, f: &'a Function, pair: &Pair<'a>) -> Eval<Progress> {
        let expected = self.dimension(pair.expr)?;
        if expected == pair.actual {
            return Ok(Progress::Settled);
        }
        let text = self.source_text(pair.expr);
        let mut d = Diagnostic::error(
            pair.place,
            format!("`{text}` of `{}` would be both {expected} and {}", f.name.name, pair.actual),
        )
        .saying(format!("{}: {} where `{text}` stands", self.shape_text(&pair.of), pair.actual));
        let mut names = Vec::new();
        names_in(pair.expr, &mut names);
        for name in names {
            if let Some(var) = self.lookup(name)
                && let Value::Int(value) = &var.value
            {
                let (value, span) = (value.clone(), var.span);
                if span != pair.place {
                    d = d.also(span, format!("`{name}` is {value} from here"));
                }
            }
        }
        Err(d.also(pair.expr.span, "declared here").into())
    }

    /// `expr = actual` with one unknown name in `expr`.
    fn solve(&mut self, expr: &'a Expr, actual: Dim, pair: &Pair<'a>) -> Eval<Progress> {
        if let ExprKind::Name(name) = &expr.kind {
            self.define_root(name, Value::Int(actual), pair.place);
            return Ok(Progress::Settled);
        }
        let ExprKind::Binary(op, x, y) = &expr.kind else { return Ok(Progress::Later) };
        let left_known = self.unknown_names(x).is_empty();
        let (known, open) = if left_known { (x, y) } else { (y, x) };
        let k = self.dimension(known)?;
        let rest = match (op, left_known) {
            (BinaryOp::Add, _) => Some(&actual - &k),
            (BinaryOp::Sub, true) => Some(&k - &actual),
            (BinaryOp::Sub, false) => Some(&actual + &k),
            (BinaryOp::Mul, _) => actual.exact_div(&k),
            (BinaryOp::Div, false) => Some(&actual * &k),
            _ => return Ok(Progress::Later),
        };
        match rest {
            Some(rest) => {
                self.integer(rest.clone(), pair.place)?;
                self.solve(open, rest, pair)
            }
            None => Err(Diagnostic::error(pair.place, format!("{actual} is not divisible by {k}"))
                .saying(format!(
                    "{}: {actual} where `{}` stands",
                    self.shape_text(&pair.of),
                    self.source_text(pair.expr)
                ))
                .also(pair.expr.span, "declared here")
                .into()),
        }
    }

    /// The results of a function against their declared types.
    pub(super) fn check_results(&mut self, f: &'a Function) -> Eval<()> {
        let Some(results) = self.frame().results.take() else {
            if self.errors.is_empty() {
                return Err(Diagnostic::error(f.span, format!("`{}` does not return anything", f.name.name))
                    .help("end it with `return …`")
                    .into());
            }
            return Err(Fail::Reported);
        };
        if results.iter().any(|(v, _)| matches!(v, Value::Poison)) {
            return Err(Fail::Reported);
        }
        let types: Vec<&'a Type> = match &f.results {
            None => Vec::new(),
            Some(Results::One(ty)) => vec![ty],
            Some(Results::Named(list)) => list.iter().map(|result| &result.ty).collect(),
        };
        if f.results.is_some() && types.len() != results.len() {
            let place = results.first().map_or(f.span, |r| r.1.to(results[results.len() - 1].1));
            return Err(Diagnostic::error(
                place,
                format!(
                    "`{}` returns {}, {} declared",
                    f.name.name,
                    counted(results.len(), "value", "values"),
                    types.len()
                ),
            )
            .also(f.span, "declared here")
            .into());
        }
        let mut out = Vec::new();
        let mut pairs = Vec::new();
        for (n, (value, place)) in results.into_iter().enumerate() {
            let value = match types.get(n) {
                Some(ty) => self.fit_result(f, ty, value, place, &mut pairs)?,
                None => value,
            };
            out.push((value, place));
        }
        self.settle_pairs(f, &mut pairs)?;
        self.frame().results = Some(out);
        Ok(())
    }

    fn fit_result(
        &mut self,
        f: &'a Function,
        ty: &'a Type,
        value: Value<'a>,
        place: Span,
        pairs: &mut Vec<Pair<'a>>,
    ) -> Eval<Value<'a>> {
        let Some(dtype) = self.element(ty)? else { return Ok(value) };
        if value.is_literal() && ty.shape.is_none() && f.kind == Kind::Fn {
            return Ok(value);
        }
        let element = dtype.compute();
        let literal = value.is_literal();
        let mut t = if literal { self.cast(value, element, place)? } else { self.tensor(value, place)? };
        if self.dtype(&t) != dtype.compute() {
            return Err(Diagnostic::error(
                place,
                format!("`{}` returns {dtype}, found {}", f.name.name, self.dtype(&t)),
            )
            .saying(format!("this is {}", self.shape_text(&t)))
            .also(ty.span, "declared here")
            .into());
        }
        let labels: Vec<Option<Name>> = t.pos.iter().map(|s| s.label.clone()).collect();
        let shape = ty.shape.as_deref().unwrap_or(&[]);
        self.match_shape(&mut t, shape, place, pairs, &|l, t| {
            let text = l.sources_text(ty.span);
            Diagnostic::error(place, format!("`{}` returns `{text}`, found {}", f.name.name, l.shape_text(t)))
                .also(ty.span, "declared here")
        })?;
        // A result keeps the names that its own definition gave.
        t.pos
            .iter_mut()
            .zip(labels)
            .for_each(|(s, l): (&mut Slot, _)| s.label = l.or_else(|| s.label.take()));
        Ok(Value::Tensor(t))
    }

    // ---- helpers

    pub(super) fn define_root(&mut self, name: &str, value: Value<'a>, span: Span) {
        self.note_shape(span, &value);
        let scope = self.frame().scopes.first_mut().expect("a function has a scope");
        scope.insert(name.to_owned(), super::Var { value, span, role: Role::Other });
    }

    /// The names in a dimension that nothing has bound, each once.
    pub(super) fn unknown_names(&self, e: &'a Expr) -> Vec<&'a str> {
        let mut names = Vec::new();
        names_in(e, &mut names);
        let frame = self.here();
        let known =
            |n: &str| frame.scopes.iter().any(|s| s.contains_key(n)) || self.constants.contains_key(n);
        names.retain(|n| !known(n));
        names.sort_unstable();
        names.dedup();
        names
    }

    /// An expression as the source writes it.
    fn source_text(&self, e: &Expr) -> String {
        self.sources_text(e.span)
    }

    pub(super) fn sources_text(&self, span: Span) -> String {
        self.sources.text(span).split_whitespace().collect::<Vec<_>>().join(" ")
    }
}

fn names_in<'a>(e: &'a Expr, out: &mut Vec<&'a str>) {
    match &e.kind {
        ExprKind::Name(n) => out.push(n),
        ExprKind::Binary(_, x, y) => {
            names_in(x, out);
            names_in(y, out);
        }
        ExprKind::Unary(_, x) => names_in(x, out),
        ExprKind::Int(_)
        | ExprKind::Float(_)
        | ExprKind::Bool(_)
        | ExprKind::Infinity
        | ExprKind::Text(_)
        | ExprKind::Compare(..)
        | ExprKind::If(..)
        | ExprKind::Call(..)
        | ExprKind::Brackets(..)
        | ExprKind::Transpose(_)
        | ExprKind::Selection(_)
        | ExprKind::As(..) => {}
    }
}
