//! What a model stores: its inputs, its parameters under their paths, its outputs; and the model as a whole.

pub(super) mod inner;
pub(super) mod shapes;
pub(super) mod units;

use super::lost::Role;
use super::{Eval, Fail, Frame, Lowerer, Var, Weight, result_types, typing};
use crate::diag::{Diagnostic, did_you_mean, listed, nearest};
use crate::source::Span;
use crate::syntax::ast::{
    Const, Expr, ExprKind, Extent, Function, Ident, Kind, NamedResult, Param, Results, StmtKind, Type,
};
use crate::value::{Tensor, Value};
use salient_ir::verify::names_a_dimension;
use salient_ir::{AxisId, AxisSet, DType, Dim, Init, NodeId};
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
            carried: AxisSet::new(),
            call: None,
            results: None,
            states: Vec::new(),
            moving: Vec::new(),
            rest: None,
        });
    }

    /// The constants of the files; later ones may use earlier ones.
    pub(super) fn constants(&mut self) {
        self.outermost(None);
        for c in self.program.constants.clone() {
            let value = self.constant_value(c);
            let var = Var { value, span: c.name.span, role: Role::Const };
            self.constants.insert(c.name.name.clone(), var);
        }
        self.frames.pop();
    }

    pub(super) fn constant_value(&mut self, c: &'a Const) -> Value<'a> {
        match self.expr(&c.value) {
            Ok(Value::Tensor(t)) => {
                let d = Diagnostic::error(
                    c.value.span,
                    format!("`{}` must be known when compiling", c.name.name),
                )
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
        self.reached.insert(f.name.name.clone());
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
            Some(Results::Named(list)) => list.iter().for_each(|result| self.symbols_in(&result.ty)),
        }
        for p in &f.params {
            let Some(ty) = &p.ty else {
                let d = Diagnostic::error(p.name.span, format!("the input `{}` needs a type", p.name.name));
                return Err(d.help(format!("write `{}: f32[T, D]`", p.name.name)).into());
            };
            let Stored { dtype, dims, names } = self.stored_type(ty)?;
            let (slots, axes) = self.stored_axes(&dims, &names);
            let node = self.b.input(&p.name.name, &axes, dtype, Some(p.name.span.origin()));
            let node = self.without_units(node, &axes);
            let t = Tensor { pos: slots, ..Tensor::scalar(node) };
            self.note_made(&p.name.name, p.name.span, Role::Input);
            self.define_as(&p.name.name, Value::Tensor(t), p.name.span, Role::Input);
        }
        self.body(&f.body);
        self.leave_scope();
        // Parameters may bring dimensions of their own: only now is it known what there is to set.
        self.unused_settings(f)?;
        let gradients = self.gradients_among_results();
        self.check_results(f)?;
        let results = self.frame().results.take().unwrap_or_default();
        if !self.errors.is_empty() {
            return Err(Fail::Reported);
        }
        self.outputs(f, results)?;
        for (path, gradient, place) in gradients {
            let name = format!("grad.{path}");
            if self.b.outputs().iter().any(|output| *output.name == *name) {
                return Err(Diagnostic::error(place, format!("two results are called `{name}`"))
                    .help("a model returns `grad(loss, parameters)` once")
                    .into());
            }
            let axes: Vec<AxisId> = gradient.pos.iter().filter_map(|slot| slot.axis).collect();
            self.b.output(&name, &axes, gradient.node).map_err(typing(place))?;
        }
        self.keep_states(f)?;
        self.keep_moves(f)?;
        self.inner_results()
    }

    fn model_statics(&mut self, f: &'a Function) -> Eval<()> {
        for s in &f.statics {
            if s.axis {
                return Err(Diagnostic::error(
                    s.name.span,
                    "a model is called by nobody: it has no axis to take",
                )
                .into());
            }
            let name = &s.name.name;
            self.settable.insert(name.clone());
            let value = match (self.setting(name)?, &s.default) {
                (Some(value), _) => value,
                (None, Some(default)) => self.expr(default)?,
                (None, None) if name.starts_with(|c: char| c.is_ascii_uppercase()) => {
                    Value::Int(Dim::symbol(name.as_str()))
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
            _ => {
                return Err(Diagnostic::placeless(format!(
                    "--set {name}={text}: neither a number nor a truth value"
                ))
                .into());
            }
        };
        Ok(Some(value))
    }

    fn unused_settings(&self, f: &'a Function) -> Eval<()> {
        match self.settings.set.iter().find(|(n, _)| !self.settable.contains(n)) {
            None => Ok(()),
            Some((name, _)) => {
                let known: Vec<&str> = self.settable.iter().map(String::as_str).collect();
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

    /// Indices and tensors have names in lower case: one for a dimension would be taken for an index where both stand.
    pub(super) fn check_dimension(&mut self, name: &str, span: Span) {
        if names_a_dimension(name) {
            return;
        }
        let capital: String =
            name.chars().take(1).flat_map(char::to_uppercase).chain(name.chars().skip(1)).collect();
        let known: Vec<&str> = self.settable.iter().map(String::as_str).collect();
        let near = nearest(name, known).map_or(capital, str::to_owned);
        let d =
            Diagnostic::error(span, format!("`{name}` is no dimension: those begin with a capital letter"))
                .help(format!(
                    "write `{near}`; an index gets its name before a colon, as in `f32[{name}: {near}]`"
                ));
        let d = self.listing_dimensions(d);
        self.errors.push(d);
    }

    /// Names in a model's types that nothing binds are dimensions that stay symbolic until a call.
    fn symbols_in(&mut self, ty: &'a Type) {
        for extent in ty.shape.iter().flatten() {
            let Extent::Dim(_, e) = extent else { continue };
            for name in self.unknown_names(e) {
                self.check_dimension(name, e.span);
                let value = match self.setting(name) {
                    Ok(Some(value)) => value,
                    Ok(None) => Value::Int(Dim::symbol(name)),
                    Err(fail) => {
                        self.report(fail);
                        Value::Int(Dim::symbol(name))
                    }
                };
                self.settable.insert(name.to_owned());
                self.define_root(name, value, e.span);
            }
        }
    }

    /// The type of something stored: every dimension must have a value, and `..` is what it is in the types of the arguments.
    pub(super) fn stored_type(&mut self, ty: &'a Type) -> Eval<Stored> {
        let Some(dtype) = self.element(ty)? else {
            return Err(Diagnostic::error(ty.span, "a function cannot be stored").into());
        };
        let (mut dims, mut names) = (Vec::new(), Vec::new());
        for extent in ty.shape.iter().flatten() {
            match extent {
                Extent::Rest(span) => {
                    let Some((rest, _)) = self.here().rest.clone() else {
                        return Err(Diagnostic::error(
                            *span,
                            "the shape of something stored must be written out",
                        )
                        .help("where an argument's type has `..`, it stands for the same axes here")
                        .into());
                    };
                    names.extend(rest.iter().map(|_| AxisName::None));
                    dims.extend(rest);
                }
                Extent::Dim(name, e) => {
                    let dim = self.dimension(e)?;
                    if dim.as_constant().is_some_and(|n| n < 0) {
                        return Err(Diagnostic::error(e.span, format!("a dimension cannot be {dim}")).into());
                    }
                    dims.push(dim);
                    names.push(AxisName::of(name.as_ref(), e));
                }
            }
        }
        Ok(Stored { dtype, dims, names })
    }

    /// Takes the gradients by all parameters from what the model returns: they are results beside those that it declares.
    fn gradients_among_results(&mut self) -> Vec<(String, Tensor, Span)> {
        let mut out: Vec<(String, Tensor, Span)> = Vec::new();
        let Some(results) = &mut self.frame().results else { return out };
        results.retain(|(value, place)| {
            let Value::Gradients(gradients) = value else { return true };
            out.extend(gradients.iter().map(|(path, gradient)| (path.clone(), gradient.clone(), *place)));
            false
        });
        out
    }

    fn outputs(&mut self, f: &'a Function, results: Vec<(Value<'a>, Span)>) -> Eval<()> {
        let names = self.output_names(f, results.len())?;
        let types = result_types(f);
        let mut seen: BTreeMap<String, Span> = BTreeMap::new();
        for (at, ((value, place), name)) in results.into_iter().zip(names).enumerate() {
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
            if let Some(ty) = types.get(at)
                && let Some(dtype) = self.element(ty)?
            {
                self.b.store(&name, dtype);
            }
            self.b.output(&name, &axes, t.node).map_err(typing(place))?;
        }
        Ok(())
    }

    /// Declared paths and names; else the names of what is returned; else `output`, numbered.
    fn output_names(&mut self, f: &'a Function, count: usize) -> Eval<Vec<String>> {
        if let Some(Results::Named(list)) = &f.results {
            let name = |result: &'a NamedResult| match &result.path {
                Some(path) => Ok(self.path(path)?.join(".")),
                None => Ok(result.name.name.clone()),
            };
            return list.iter().map(name).collect();
        }
        let returned = f.body.iter().find_map(|s| {
            if let StmtKind::Return(values) = &s.kind { Some(values.as_slice()) } else { None }
        });
        let name = |n: usize| match returned.and_then(|r| r.get(n)).map(|e| &e.kind) {
            Some(ExprKind::Name(name)) => name.clone(),
            _ if count == 1 => "output".to_owned(),
            _ => format!("output.{n}"),
        };
        Ok((0..count).map(name).collect())
    }

    // ---- parameters

    pub(super) fn param(&mut self, p: &'a Param) -> Eval<()> {
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
        self.hides_nothing(&p.name)?;
        let Stored { dtype, dims, names } = self.stored_type(&p.ty)?;
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
            let round = known.call == call && known.rounds != self.rounds;
            let meant = known.explicit || p.path.is_some() || known.call == call && !round;
            let (node, pos, first) = (known.node, known.pos.clone(), known.call);
            if !meant {
                let by = if round { "the rounds of a loop" } else { "two calls" };
                let message = format!("the parameter `{path}` is shared by {by}");
                let mut d = Diagnostic::warning(call.unwrap_or(p.name.span), message);
                if let Some(first) = first.filter(|_| !round) {
                    d = d.also(first, "the first call");
                }
                let help = if round {
                    "give each round a path of its own, as `as layers.{l}`, or share it on purpose with `param … as`"
                } else {
                    "give each call a path of its own with `as`, or share it on purpose with `param … as`"
                };
                self.warn(d.help(help));
            }
            let t = Tensor { pos, ..Tensor::scalar(node.expect("a declared parameter has a node")) };
            self.define_as(&p.name.name, Value::Tensor(t), p.name.span, Role::Param);
            return Ok(());
        }
        let init = p.init.as_ref().map(|e| self.init(e)).transpose()?;
        let (pos, axes) = self.stored_axes(&dims, &names);
        let declared = self.place(call.unwrap_or(p.name.span)).origin();
        let node = self.b.param(&path, &axes, dtype, init, Some(declared));
        let node = self.without_units(node, &axes);
        let (explicit, rounds) = (p.path.is_some(), self.rounds.clone());
        let weight = Weight {
            node: Some(node),
            pos: pos.clone(),
            dims,
            dtype,
            span: p.name.span,
            call,
            explicit,
            rounds,
        };
        self.weights.insert(path, weight);
        let value = Value::Tensor(Tensor { pos, ..Tensor::scalar(node) });
        self.define_as(&p.name.name, value, p.name.span, Role::Param);
        Ok(())
    }

    /// `zeros`, `ones`, `normal(std)`, `uniform(low, high)`.
    pub(super) fn init(&mut self, e: &'a Expr) -> Eval<Init> {
        let unknown = || -> Fail {
            Diagnostic::error(e.span, "this is no initialiser")
                .help("write `zeros`, `ones`, `normal(std)` or `uniform(low, high)`")
                .into()
        };
        if let ExprKind::Name(name) = &e.kind {
            return match name.as_str() {
                "zeros" => Ok(Init::Zeros),
                "ones" => Ok(Init::Ones),
                _ => Err(unknown()),
            };
        }
        let ExprKind::Call(target, args) = &e.kind else { return Err(unknown()) };
        let mut bounds = Vec::new();
        for arg in args {
            bounds.push(self.init_scalar(&arg.value)?);
        }
        let ExprKind::Name(name) = &target.kind else { return Err(unknown()) };
        match (name.as_str(), bounds.as_slice()) {
            ("normal", [std]) => Ok(Init::Normal(*std)),
            ("uniform", [low, high]) => Ok(Init::Uniform(*low, *high)),
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

/// The type of something stored.
pub(super) struct Stored {
    pub(super) dtype: DType,
    pub(super) dims: Vec<Dim>,
    pub(super) names: Vec<AxisName>,
}

/// The name that a type gives to an axis.
pub(super) enum AxisName {
    /// Before a colon.
    Own(String),
    /// In lower case, that of the dimension that is its length.
    Dimension(String),
    None,
}

impl AxisName {
    /// Of an axis in a type, with what stands before the colon if there is one, and what its length is.
    pub(super) fn of(own: Option<&Ident>, length: &Expr) -> AxisName {
        match (own, &length.kind) {
            (Some(own), _) => AxisName::Own(own.name.clone()),
            (None, ExprKind::Name(dimension)) => AxisName::Dimension(dimension.to_lowercase()),
            (None, _) => AxisName::None,
        }
    }

    /// The name, if there is one.
    pub(super) fn label(self) -> Option<String> {
        match self {
            AxisName::Own(label) | AxisName::Dimension(label) => Some(label),
            AxisName::None => None,
        }
    }
}
