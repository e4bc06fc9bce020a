//! Calls: functions and blocks are inlined, operators by name are built.
//!
//! Calls that bind an axis are in [`along`], gradients in [`gradient`], parameters that get new values in [`step`]; types of arguments in [`super::unify`].

pub(super) mod along;
mod gradient;
pub(super) mod step;

use super::{Eval, Fail, Frame, Lowerer};
use crate::diag::{AXIS_IN_BRACKETS, Diagnostic, counted, did_you_mean};
use crate::habits;
use crate::source::Span;
use crate::syntax::ast::{Argument, Bracket, Expr, ExprKind, Function, Kind, Parameter, Path, PathPart};
use crate::value::{Builtin, Callee, FunctionValue, Slot, StaticArg, StaticValue, Tensor, Value};
use salient_ir::{AxisId, AxisSet, Const, MapOp, Typing};
use std::collections::BTreeMap;

/// What a norm adds to a variance.
const EPSILON: &str = "eps";

/// An evaluated argument.
pub(super) struct ArgValue<'a> {
    pub(super) name: Option<String>,
    pub(super) value: Value<'a>,
    pub(super) span: Span,
}

impl<'a> Lowerer<'a, '_> {
    /// `target(args) as path`.
    pub(super) fn call(
        &mut self,
        target: &'a Expr,
        args: &'a [Argument],
        path: Option<&'a Path>,
        span: Span,
    ) -> Eval<Value<'a>> {
        if let Some(fail) = self.known_elsewhere(target, args) {
            return Err(fail);
        }
        let inside = args.first().zip(args.last()).map(|(a, b)| a.value.span.to(b.value.span));
        if let Some(fail) = self.swapped(target, inside, span) {
            return Err(fail);
        }
        let function = self.called(target)?;
        if let Callee::Declared(f) = function.callee
            && let Some(fail) = self.other_arguments(f, args, span)
        {
            return Err(fail);
        }
        let name = function.callee.name().to_owned();
        let value = self.call_of(function, args, path, span);
        value.map_err(|fail| self.with_axis(fail, &name, args, span))
    }

    /// Arguments of a function of the library that a function of the same name has in another system.
    fn other_arguments(&mut self, f: &'a Function, args: &'a [Argument], span: Span) -> Option<Fail> {
        let has = |name: &str| f.params.iter().any(|p| p.name.name == name);
        let unknown = args.iter().find(|a| a.name.as_ref().is_some_and(|name| !has(&name.name)));
        if !self.program.is_library(f) || unknown.is_none() && args.len() <= f.params.len() {
            return None;
        }
        let call = self.foreign(&f.name.name, args);
        let help = habits::spelled(&call)?.help();
        let name = &f.name.name;
        if habits::names_an_axis(&call) {
            return Some(Diagnostic::error(span, habits::axis_in_brackets(name)).help(help).into());
        }
        let d = match unknown.and_then(|a| Some((a.name.as_ref()?, a.value.span))) {
            Some((wrong, value)) => {
                let message = format!("`{name}` has no parameter `{}`", wrong.name);
                Diagnostic::error(wrong.span.to(value), message)
            }
            None => {
                let (takes, found) = (counted(f.params.len(), "argument", "arguments"), args.len());
                Diagnostic::error(span, format!("`{name}` takes {takes}, found {found}"))
            }
        };
        Some(d.also(f.span, "declared here").help(help).into())
    }

    /// An axis among the arguments, by its number, is answered with the call that names it.
    fn with_axis(&mut self, fail: Fail, name: &str, args: &'a [Argument], span: Span) -> Fail {
        let Fail::Report(d) = fail else { return fail };
        if d.help.as_deref() != Some(AXIS_IN_BRACKETS) {
            return Fail::Report(d);
        }
        let call = self.foreign(name, args);
        match habits::spelled(&call) {
            Some(spelling) if habits::names_an_axis(&call) => {
                Diagnostic::error(span, habits::axis_in_brackets(name)).help(spelling.help()).into()
            }
            Some(_) | None => Fail::Report(d),
        }
    }

    fn call_of(
        &mut self,
        function: FunctionValue<'a>,
        args: &'a [Argument],
        path: Option<&'a Path>,
        span: Span,
    ) -> Eval<Value<'a>> {
        match function.callee {
            Callee::Builtin(b) => {
                if let Some(path) = path {
                    return Err(no_parameters(b.name(), path.span));
                }
                self.builtin(b, &function.statics, args, span)
            }
            Callee::Declared(f) => {
                self.reached.insert(f.name.name.clone());
                if let Some(path) = path
                    && f.kind == Kind::Fn
                {
                    return Err(no_parameters(&f.name.name, path.span));
                }
                if f.kind == Kind::Model {
                    return Err(Diagnostic::error(
                        span,
                        format!("`{}` is a model, which nothing can call", f.name.name),
                    )
                    .also(f.name.span, "declared here")
                    .help("make it a `block`")
                    .into());
                }
                if let Some(frame) = self.frames.iter().find(|x| x.decl.is_some_and(|d| std::ptr::eq(d, f))) {
                    let inner = frame.call.unwrap_or(span);
                    return Err(Diagnostic::error(span, format!("`{}` calls itself", f.name.name))
                        .also(inner, "it is at work since this call")
                        .help("functions are inlined; repeat with `for`")
                        .into());
                }
                if self.frames.len() >= super::MAX_CALLS {
                    return Err(Diagnostic::error(
                        span,
                        format!("more than {} functions inside each other", super::MAX_CALLS),
                    )
                    .into());
                }
                if f.statics.iter().any(|s| s.axis) {
                    self.call_along(f, &function.statics, args, span)
                } else {
                    self.call_declared(f, function.statics, args, path, span)
                }
            }
        }
    }

    fn called(&mut self, target: &'a Expr) -> Eval<FunctionValue<'a>> {
        if let Some(callee) = self.callee(target) {
            return Ok(FunctionValue { callee, statics: Vec::new() });
        }
        let value = self.expr(target)?;
        if let Value::Function(f) = value {
            return Ok(f);
        }
        let help = if matches!(target.kind, ExprKind::Transpose(_)) {
            format!("write `{}`", self.sources_text(target.span))
        } else {
            "`x * (…)` multiplies; `x[…]` reads a tensor".to_owned()
        };
        Err(Diagnostic::error(target.span, "this is no function")
            .saying(format!("this is {}", self.describe(&value)))
            .help(help)
            .into())
    }

    /// What stands in the brackets of a call.
    pub(super) fn statics(&mut self, callee: &Callee<'a>, items: &'a [Bracket]) -> Eval<Vec<StaticArg<'a>>> {
        let mut out = Vec::new();
        for (n, item) in items.iter().enumerate() {
            let name = if let Bracket::Named(name, _) = item { Some(name.name.clone()) } else { None };
            let span = item.span();
            let axis = match callee {
                Callee::Builtin(_) => true,
                Callee::Declared(f) => match &name {
                    Some(name) => f.statics.iter().any(|s| s.axis && s.name.name == *name),
                    None => f.statics.get(n).is_some_and(|s| s.axis),
                },
            };
            let index = super::uses::binder_name(item);
            let extent = if let Bracket::Colon(_, Some(extent), _) = item { Some(extent) } else { None };
            let value = match (axis, index, item) {
                (true, Some(index), _) => {
                    let extent = extent.map(|e| self.dimension(e)).transpose()?;
                    StaticValue::Axis(index.to_owned(), extent)
                }
                (false, _, Bracket::Value(value) | Bracket::Named(_, value)) => {
                    StaticValue::Value(self.expr(value)?)
                }
                (axis, ..) => {
                    let what = if axis { "the name of an index" } else { "a value" };
                    let message = format!("the brackets of `{}` hold {what} here", callee.name());
                    return Err(Diagnostic::error(span, message).into());
                }
            };
            out.push(StaticArg { name, value, span });
        }
        Ok(out)
    }

    /// The arguments in parentheses, evaluated; `x for l in 0..L` gives one for each.
    pub(super) fn arguments(&mut self, args: &'a [Argument]) -> Eval<Vec<ArgValue<'a>>> {
        let mut out = Vec::new();
        for arg in args {
            let name = arg.name.as_ref().map(|n| n.name.clone());
            let Some(range) = &arg.each else {
                out.push(ArgValue { name, value: self.expr(&arg.value)?, span: arg.value.span });
                continue;
            };
            let (low, high) = self.bounds(range)?;
            for n in low..high {
                self.frame().scopes.push(BTreeMap::new());
                self.define(&range.name.name, Value::Int(n.into()), range.name.span);
                self.rounds.push(n);
                let value = self.expr(&arg.value);
                self.rounds.pop();
                self.frame().scopes.pop();
                out.push(ArgValue { name: None, value: value?, span: arg.value.span });
            }
        }
        if out.iter().any(|g| matches!(g.value, Value::Poison)) {
            return Err(Fail::Reported);
        }
        Ok(out)
    }

    fn builtin(
        &mut self,
        b: Builtin,
        statics: &[StaticArg<'a>],
        args: &'a [Argument],
        span: Span,
    ) -> Eval<Value<'a>> {
        match b {
            Builtin::Map(op) => {
                let given = self.plain_arguments(b, statics, args, span)?;
                self.apply(op, given, span)
            }
            Builtin::Where => {
                let given = self.plain_arguments(b, statics, args, span)?;
                self.apply(MapOp::Select, given, span)
            }
            Builtin::Extreme(_, op) if statics.is_empty() && args.len() > 1 => {
                let given = self.plain_arguments(b, statics, args, span)?;
                let mut given = given.into_iter();
                let mut out = given.next().expect("more than one argument");
                for next in given {
                    out = (self.map(op, vec![out, next], span)?, span);
                }
                Ok(out.0)
            }
            Builtin::Extreme(op, _) | Builtin::Reduce(op) => self.reduction(Some(op), statics, args, span),
            Builtin::Mean => self.reduction(None, statics, args, span),
            Builtin::CumSum(direction) => self.running_sum(direction, statics, args, span),
            Builtin::Draw => self.draw(statics, args, span),
            Builtin::Concat => self.concat(statics, args, span),
            Builtin::Stack => self.stack(statics, args, span),
            Builtin::Append => self.append(statics, args, span),
            Builtin::Grad => self.gradient(statics, args, span),
            Builtin::Stop => self.stop(statics, args, span),
            Builtin::GradNorm => self.norm(statics, args, span),
            Builtin::Rank => self.rank(statics, args, span),
            Builtin::Fused(op) => self.fused(op, statics, args, span),
        }
    }

    /// Arguments of an operator that binds nothing and has no named parameters.
    pub(super) fn plain_arguments(
        &mut self,
        b: Builtin,
        statics: &[StaticArg<'a>],
        args: &'a [Argument],
        span: Span,
    ) -> Eval<Vec<(Value<'a>, Span)>> {
        if let Some(first) = statics.first() {
            return Err(
                Diagnostic::error(first.span, format!("`{}` takes nothing in brackets", b.name())).into()
            );
        }
        let given = self.arguments(args)?;
        if let Some(named) = given.iter().find(|g| g.name.is_some()) {
            let axis = named.name.as_deref().is_some_and(|name| ["dim", "axis", "keepdim"].contains(&name));
            return Err(Diagnostic::error(named.span, format!("`{}` has no named parameters", b.name()))
                .help_if(axis.then(|| AXIS_IN_BRACKETS.to_owned()))
                .into());
        }
        if given.is_empty() {
            return Err(Diagnostic::error(span, format!("`{}` needs an argument", b.name())).into());
        }
        Ok(given.into_iter().map(|g| (g.value, g.span)).collect())
    }

    /// A scalar operator called by name.
    fn apply(&mut self, op: MapOp, args: Vec<(Value<'a>, Span)>, span: Span) -> Eval<Value<'a>> {
        if let (Typing::Cast(to), [(Value::Tensor(_), place)]) = (op.info().typing, args.as_slice()) {
            let place = *place;
            let value = args.into_iter().next().expect("one argument").0;
            let t = self.cast(value, to, place)?;
            return Ok(Value::Tensor(Tensor { floored: false, ..t }));
        }
        if let (Typing::Cast(to), [(Value::Int(d), place)]) = (op.info().typing, args.as_slice())
            && (to == salient_ir::DType::I32 || d.as_constant().is_none())
        {
            let (value, place) = (Value::Int(d.clone()), *place);
            return self.cast(value, to, place).map(Value::Tensor);
        }
        self.map(op, args, span)
    }

    /// `draw(x)`: for each element of `x` a number in [0, 1) that depends on its place in `x`, on the seed, on which of the
    /// model's draws this is, and on the number of the step if the model makes steps.
    fn draw(&mut self, statics: &[StaticArg<'a>], args: &'a [Argument], span: Span) -> Eval<Value<'a>> {
        let Some(seed) = self.settings.train else {
            return Err(Diagnostic::error(span, "at inference nothing is drawn")
                .help("ask first, `if training { … }`; `--train --seed N` compiles for training")
                .into());
        };
        let given = self.plain_arguments(Builtin::Draw, statics, args, span)?;
        let Ok([(value, place)]) = <[(Value<'a>, Span); 1]>::try_from(given) else {
            return Err(Diagnostic::error(span, "`draw` takes one tensor").into());
        };
        let x = self.tensor(value, place)?;
        let site = self.draws;
        self.draws += 1;
        // The place of an element: row-major, the free indices of an indexed expression first.
        let axes: Vec<AxisId> = x.named.iter().chain(&x.pos).filter_map(|s| s.axis).collect();
        let mut at = None;
        for axis in axes {
            let extent = self.b.extent(axis).clone();
            let (extent, index) = (self.b.extent_of(&extent), self.b.iota(axis));
            at = Some(match at {
                None => index,
                Some(row) => {
                    let before = self.map_node(MapOp::Mul, &[row, extent], span)?;
                    self.map_node(MapOp::Add, &[before, index], span)?
                }
            });
        }
        let at = at.unwrap_or_else(|| self.b.constant(Const::I64(0)));
        // In a model that moves parameters the second word of the counter becomes the number of the step: see `step::moved`.
        let [step, seed, site] = [0, i64::from(seed), site].map(|word| self.b.constant(Const::I64(word)));
        let node = self.map_node(MapOp::Philox, &[at, step, seed, site], span)?;
        Ok(Value::Tensor(Tensor { node, pos: x.pos, named: x.named, index: false, floored: false }))
    }

    // ---- declared functions

    fn call_declared(
        &mut self,
        f: &'a Function,
        statics: Vec<StaticArg<'a>>,
        args: &'a [Argument],
        path: Option<&'a Path>,
        span: Span,
    ) -> Eval<Value<'a>> {
        let mut given = self.arguments(args)?;
        let mut frame_path = self.here().path.clone();
        if let Some(path) = path {
            frame_path.extend(self.path(path)?);
        }
        let arguments: Vec<Tensor> = given.iter().filter_map(|g| g.value.as_tensor().cloned()).collect();
        let free = arguments.iter().flat_map(|t| &t.named).filter_map(|s| s.axis);
        let carried: AxisSet = self.here().carried.iter().chain(free).collect();
        // Inside, the caller's free indices have no names.
        for g in &mut given {
            if let Value::Tensor(t) = &mut g.value {
                t.named.iter_mut().for_each(|s| s.label = None);
            }
        }
        let frame = Frame {
            decl: Some(f),
            library: self.program.is_library(f),
            scopes: vec![BTreeMap::new()],
            indices: Vec::new(),
            path: frame_path,
            carried,
            call: Some(span),
            results: None,
            states: Vec::new(),
            moving: Vec::new(),
            rest: None,
        };
        let results = self.in_frame(frame, Some(span), |l| l.entered(f, statics, given, span))?;
        // Axes of the arguments have the caller's names again; new ones keep the names of their definitions.
        let callers = |slot: &Slot| {
            let mut all = arguments.iter().flat_map(|t| t.slots());
            all.find(|c| c.axis.is_some() && c.axis == slot.axis).map(|c| c.label.clone())
        };
        Ok(one_or_many(results, |mut t| {
            for slot in t.named.iter_mut().chain(&mut t.pos) {
                if let Some(label) = callers(slot) {
                    slot.label = label;
                }
            }
            t
        }))
    }

    /// What a function gives, evaluated in a frame of its own. What is wrong inside is reported from inside, where the names
    /// are known; what concerns the whole call, which is at `call`, is the caller's to report.
    pub(super) fn in_frame(
        &mut self,
        frame: Frame<'a>,
        call: Option<Span>,
        evaluate: impl FnOnce(&mut Self) -> Eval<()>,
    ) -> Eval<Vec<(Value<'a>, Span)>> {
        self.frames.push(frame);
        let errors = self.errors.len();
        if let Err(fail) = evaluate(self) {
            let at = |d: &Diagnostic| d.primary.as_ref().is_some_and(|p| Some(p.0) == call);
            let of_call = matches!(&fail, Fail::Report(d) if at(d)) && self.trials == 0;
            let fail = if of_call {
                fail
            } else {
                self.report(fail);
                Fail::Reported
            };
            self.frames.pop();
            return Err(fail);
        }
        let frame = self.frames.pop().expect("pushed above");
        if self.errors.len() > errors {
            return Err(Fail::Reported);
        }
        Ok(frame.results.unwrap_or_default())
    }

    fn entered(
        &mut self,
        f: &'a Function,
        statics: Vec<StaticArg<'a>>,
        given: Vec<ArgValue<'a>>,
        span: Span,
    ) -> Eval<()> {
        self.bind_statics(f, statics, span)?;
        let matched = match_parameters(f, given, span)?;
        self.bind_parameters(f, matched, span)?;
        self.body(&f.body);
        self.leave_scope();
        self.check_results(f)
    }

    /// The brackets of a call become names of the function.
    pub(super) fn bind_statics(
        &mut self,
        f: &'a Function,
        statics: Vec<StaticArg<'a>>,
        span: Span,
    ) -> Eval<()> {
        let name = &f.name.name;
        for (n, arg) in statics.into_iter().enumerate() {
            let param = match &arg.name {
                Some(wanted) => f.statics.iter().find(|s| s.name.name == *wanted),
                None => f.statics.get(n),
            };
            let Some(param) = param else {
                let names = f.statics.iter().map(|s| s.name.name.as_str());
                let d = match &arg.name {
                    Some(wanted) => Diagnostic::error(
                        arg.span,
                        format!("`{name}` has no parameter `{wanted}` in brackets"),
                    )
                    .help_if(
                        did_you_mean(wanted, names)
                            .or_else(|| habits::says_an_axis(wanted).then(|| AXIS_IN_BRACKETS.to_owned())),
                    ),
                    None => Diagnostic::error(
                        arg.span,
                        format!(
                            "`{name}` takes {} in brackets",
                            counted(f.statics.len(), "parameter", "parameters")
                        ),
                    ),
                };
                return Err(d.also(f.span, "declared here").into());
            };
            // The width of what is normed, as a norm has it in other systems.
            if arg.name.is_none()
                && param.name.name == EPSILON
                && matches!(arg.value, StaticValue::Value(Value::Int(_)))
            {
                return Err(Diagnostic::error(arg.span, format!("`{EPSILON}` of `{name}` is no integer"))
                    .also(param.name.span, "declared here")
                    .help(format!("the width is that of the argument: write `{name}[{EPSILON} = 1e-5](…)`"))
                    .into());
            }
            if self.here().scopes[0].contains_key(&param.name.name) {
                return Err(Diagnostic::error(arg.span, format!("`{}` is given twice", param.name.name))
                    .also(span, format!("in this call of `{name}`"))
                    .into());
            }
            match arg.value {
                StaticValue::Value(Value::Tensor(t)) if !t.pos.is_empty() || !t.named.is_empty() => {
                    return Err(Diagnostic::error(arg.span, "brackets hold what is known when compiling")
                        .saying(format!("this is {}", self.shape_text(&t)))
                        .help("tensors go into parentheses")
                        .into());
                }
                StaticValue::Value(value) => {
                    self.note_shape(param.name.span, &value);
                    self.define(&param.name.name, value, arg.span);
                }
                StaticValue::Axis(..) => {}
            }
        }
        Ok(())
    }

    /// A path's segments, with the values of its holes.
    pub(super) fn path(&mut self, path: &'a Path) -> Eval<Vec<String>> {
        let mut out = Vec::new();
        for segment in &path.segments {
            let mut text = String::new();
            for part in segment {
                match part {
                    PathPart::Text(t) => text.push_str(t),
                    PathPart::Hole(e) => {
                        if let Some(path) = self.path_of_round(e) {
                            text.push_str(&path);
                            continue;
                        }
                        let dim = self.dimension(e)?;
                        let Some(n) = dim.as_constant() else {
                            return Err(Diagnostic::error(e.span, "a path needs a number here")
                                .saying(format!("{dim} is not known when compiling"))
                                .into());
                        };
                        text.push_str(&n.to_string());
                    }
                }
            }
            out.push(text);
        }
        Ok(out)
    }
}

/// The results of a call as one value, each tensor as it is outside of the function.
pub(super) fn one_or_many<'a>(
    results: Vec<(Value<'a>, Span)>,
    mut outside: impl FnMut(Tensor) -> Tensor,
) -> Value<'a> {
    let mut values: Vec<Value<'a>> = results.into_iter().map(|(v, _)| v.map_tensors(&mut outside)).collect();
    if values.len() == 1 { values.remove(0) } else { Value::Many(values) }
}

/// Arguments by parameter: by name where one is said, else in order.
pub(super) fn match_parameters<'a>(
    f: &'a Function,
    given: Vec<ArgValue<'a>>,
    span: Span,
) -> Eval<Vec<(&'a Parameter, Option<ArgValue<'a>>)>> {
    let name = &f.name.name;
    let mut out: Vec<(&Parameter, Option<ArgValue<'a>>)> = f.params.iter().map(|p| (p, None)).collect();
    let count = given.len();
    for (n, arg) in given.into_iter().enumerate() {
        let at = match &arg.name {
            Some(wanted) => out.iter().position(|(p, _)| p.name.name == *wanted),
            None => (n < out.len()).then_some(n),
        };
        let Some(at) = at else {
            let names = f.params.iter().map(|p| p.name.name.as_str());
            let along = || f.statics.iter().any(|s| s.axis).then(|| AXIS_IN_BRACKETS.to_owned());
            let d = match &arg.name {
                Some(wanted) => Diagnostic::error(arg.span, format!("`{name}` has no parameter `{wanted}`"))
                    .help_if(did_you_mean(wanted, names).or_else(along)),
                None => Diagnostic::error(
                    span,
                    format!(
                        "`{name}` takes {}, found {count}",
                        counted(f.params.len(), "argument", "arguments")
                    ),
                )
                .help_if(along()),
            };
            return Err(d.also(f.span, "declared here").into());
        };
        if out[at].1.is_some() {
            return Err(
                Diagnostic::error(arg.span, format!("`{}` is given twice", out[at].0.name.name)).into()
            );
        }
        out[at].1 = Some(arg);
    }
    let missing = out.iter().find(|(p, g)| g.is_none() && p.default.is_none());
    match missing {
        Some((p, _)) => Err(Diagnostic::error(span, format!("`{name}` needs a value for `{}`", p.name.name))
            .also(p.name.span, "declared here")
            .into()),
        None => Ok(out),
    }
}

fn no_parameters(name: &str, span: Span) -> Fail {
    Diagnostic::error(span, format!("`{name}` has no parameters to name"))
        .help("`as` stands behind the call of a block")
        .into()
}
