//! State: tensors that are kept between calls, and `append`, which extends one.
//!
//! A state is a name whose value where its block ends is what the next call begins with. It keeps its shape, or grows along
//! one axis whose length is a dimension of its own. Where it is kept between calls is not known here.

use super::call::ArgValue;
use super::call::along::Part;
use super::model::Stored;
use super::{Eval, Fail, Lowerer};
use crate::diag::{Diagnostic, did_you_mean, listed};
use crate::source::Span;
use crate::syntax::ast::{Argument, Cell, Function, Kind};
use crate::value::{Slot, StaticArg, StaticValue, Tensor, Value};
use salient_ir::{AxisId, DType, Dim, NodeId};
use std::collections::BTreeMap;

/// A declared state.
pub(super) struct Held {
    path: String,
    /// Position among the graph's inputs.
    input: usize,
    /// What reads it.
    node: NodeId,
    pos: Vec<Slot>,
    /// The axes of the input, in the order of the declaration.
    axes: Vec<AxisId>,
    dims: Vec<Dim>,
    dtype: DType,
    span: Span,
    call: Option<Span>,
    /// Whether it was met only while a shape was tried.
    trial: bool,
    next: Option<Next>,
}

/// The value of a state after the call.
struct Next {
    tensor: Tensor,
    span: Span,
    /// The axis along which it grows, and by how much.
    growth: Option<(usize, Dim)>,
}

/// A state that a scope declares: its value is taken where the scope ends.
pub(super) struct Open {
    /// Number of scopes around it.
    depth: usize,
    name: String,
    /// Position among the states of the model.
    at: usize,
}

impl<'a> Lowerer<'a, '_> {
    /// `state NAME: TYPE, …`.
    pub(super) fn state(&mut self, cells: &'a [Cell]) -> Eval<()> {
        cells.iter().try_for_each(|cell| self.cell(cell))
    }

    fn cell(&mut self, cell: &'a Cell) -> Eval<()> {
        let (name, span) = (&cell.name.name, cell.name.span);
        let frame = self.here();
        let decl = frame.decl;
        if decl.is_some_and(|f| f.kind == Kind::Fn) {
            return Err(Diagnostic::error(span, "a `fn` holds no state")
                .also(decl.map_or(span, |f| f.span), "this is a `fn`")
                .help("make it a `block`")
                .into());
        }
        if !frame.carried.is_empty() || decl.is_some_and(|f| f.statics.iter().any(|s| s.axis)) {
            return Err(Diagnostic::error(
                span,
                "a state belongs to a whole call, and not to each index of one",
            )
            .help("call the block on whole tensors")
            .into());
        }
        self.hides_nothing(&cell.name)?;
        let mut segments = self.here().path.clone();
        match &cell.path {
            Some(path) => segments.extend(self.path(path)?),
            None => segments.push(name.clone()),
        }
        let path = segments.join(".");
        self.lengths_in(cell)?;
        let Stored { dtype, dims, names } = self.stored_type(&cell.ty)?;
        if dtype != dtype.compute() {
            return Err(Diagnostic::error(cell.ty.span, format!("a state cannot be kept as {dtype}"))
                .help(format!("values of it are computed as {}", dtype.compute()))
                .into());
        }
        let init = cell.init.as_ref().map(|e| self.init(e)).transpose()?;
        let call = self.here().call;
        let known = self.states.iter().position(|h| h.path == path);
        let at = match known {
            Some(at) if self.states[at].trial || self.trials > 0 => at,
            Some(at) => {
                let mut d =
                    Diagnostic::error(call.unwrap_or(span), format!("two states are called `{path}`"));
                d = d.also(self.states[at].call.unwrap_or(self.states[at].span), "the first");
                return Err(d.help("give each call a path of its own with `as`").into());
            }
            None => {
                let (pos, axes) = self.stored_axes(&dims, &names);
                let declared = self.place(call.unwrap_or(span)).origin();
                let node = self.b.input(&path, &axes, dtype, Some(declared));
                let input = self.b.inputs().len() - 1;
                self.b.begins_as(input, init);
                let node = self.without_units(node, &axes);
                let (trial, next) = (true, None);
                let held = Held { path, input, node, pos, axes, dims, dtype, span, call, trial, next };
                self.states.push(held);
                self.states.len() - 1
            }
        };
        self.states[at].trial &= self.trials > 0;
        let (pos, node) = (self.states[at].pos.clone(), self.states[at].node);
        self.define(name, Value::Tensor(Tensor { pos, ..Tensor::scalar(node) }), span);
        let depth = self.here().scopes.len();
        self.frame().states.push(Open { depth, name: name.clone(), at });
        Ok(())
    }

    /// Names in the type of a state that nothing binds are lengths that the state has by itself.
    fn lengths_in(&mut self, cell: &'a Cell) -> Eval<()> {
        for extent in cell.ty.shape.iter().flatten() {
            let crate::syntax::ast::Extent::Dim(_, e) = extent else { continue };
            for name in self.unknown_names(e) {
                self.check_dimension(name, e.span);
                self.define_root(name, Value::Int(Dim::symbol(name)), e.span);
                self.lengths.entry(name.to_owned()).or_insert(e.span);
            }
        }
        Ok(())
    }

    /// Takes the values of the states that the innermost scope of the function at work declares.
    pub(super) fn leave_scope(&mut self) {
        let depth = self.here().scopes.len();
        while let Some(open) = self.frame().states.pop_if(|open| open.depth == depth) {
            if let Err(fail) = self.next_value(&open) {
                self.report(fail);
            }
        }
    }

    fn next_value(&mut self, open: &Open) -> Eval<()> {
        let Some(var) = self.lookup(&open.name).cloned() else { return Ok(()) };
        self.read_from(&var);
        let (name, span) = (&open.name, var.span);
        if matches!(var.value, Value::Poison) {
            return Err(Fail::Reported);
        }
        let held = &self.states[open.at];
        let (dtype, dims, declared, node) = (held.dtype, held.dims.clone(), held.span, held.node);
        let literal = var.value.is_literal();
        let tensor = if literal { self.cast(var.value, dtype, span)? } else { self.tensor(var.value, span)? };
        if tensor.node == node {
            let d = Diagnostic::warning(declared, format!("the state `{name}` never changes"))
                .help(format!("give it its next value: `{name} = …`"));
            self.warn(d);
        }
        let found: Vec<Dim> = tensor.pos.iter().map(|s| self.extent(s)).collect();
        let typed = self.dtype(&tensor) == dtype && tensor.named.is_empty();
        let grown: Vec<usize> = (0..dims.len().min(found.len())).filter(|n| dims[*n] != found[*n]).collect();
        let growth = match grown.as_slice() {
            [] => None,
            [at] => dims[*at].as_symbol().and_then(|held| {
                let added = &found[*at] - &dims[*at];
                let others = dims.iter().enumerate().any(|(n, d)| n != *at && d.mentions(held));
                (!added.mentions(held) && !others && added.is_nonnegative()).then_some((*at, added))
            }),
            [..] => None,
        };
        if !typed || dims.len() != found.len() || (growth.is_none() && !grown.is_empty()) {
            let shape = |dims: &[Dim]| dims.iter().map(Dim::to_string).collect::<Vec<_>>().join(", ");
            let text = self.shape_text(&tensor);
            return Err(Diagnostic::error(span, format!("the state `{name}` cannot become {text}"))
                .saying(format!("this is {text}"))
                .also(declared, format!("declared as {dtype}[{}]", shape(&dims)))
                .help("a state keeps its shape, or grows: `keys = append[s](keys, new)`")
                .into());
        }
        if self.trials == 0 {
            self.states[open.at].next = Some(Next { tensor, span, growth });
        }
        Ok(())
    }

    /// The states as inputs and outputs of the graph, once everything is known.
    pub(super) fn keep_states(&mut self, f: &'a Function) -> Eval<()> {
        let states: Vec<Held> = std::mem::take(&mut self.states).into_iter().filter(|h| !h.trial).collect();
        self.check_names(f, &states)?;
        self.check_lengths(&states)?;
        for held in states {
            let Some(next) = held.next else { return Err(Fail::Reported) };
            if let (Some(_), Some((_, added))) = (self.b.inputs()[held.input].init, &next.growth) {
                return Err(Diagnostic::error(
                    held.span,
                    format!("`{}` grows by {added}, and begins as what is no empty tensor", held.path),
                )
                .help("a state that grows begins empty: leave its initialiser out")
                .into());
            }
            // A state that grows is stored with its positions outermost: new ones go behind the old ones.
            let mut order: Vec<usize> = (0..held.axes.len()).collect();
            if let Some((at, _)) = next.growth {
                order.remove(at);
                order.insert(0, at);
            }
            let before: Vec<AxisId> = order.iter().map(|n| held.axes[*n]).collect();
            let after: Vec<AxisId> =
                order.iter().map(|n| next.tensor.pos[*n].axis.unwrap_or(held.axes[*n])).collect();
            self.b.state(held.input, &before, &after, next.tensor.node).map_err(super::typing(next.span))?;
        }
        Ok(())
    }

    /// A state has a name of its own beside the inputs and the results.
    fn check_names(&self, f: &'a Function, states: &[Held]) -> Eval<()> {
        for held in states {
            let input = f.params.iter().find(|p| p.name.name == held.path).map(|p| (p.name.span, "an input"));
            let output = self.b.outputs().iter().any(|o| *o.name == *held.path);
            let output = output.then_some((f.name.span, "a result of this model"));
            if let Some((span, what)) = input.or(output) {
                return Err(Diagnostic::error(held.span, format!("{what} is called `{}` too", held.path))
                    .also(span, what)
                    .help("name the state otherwise, or give it a path: `state … as cache.keys`")
                    .into());
            }
        }
        Ok(())
    }

    /// What is true of the lengths of all states together.
    fn check_lengths(&self, states: &[Held]) -> Eval<()> {
        let mut grown: BTreeMap<&str, (&Dim, &Held)> = BTreeMap::new();
        for held in states {
            let Some((at, added)) = held.next.as_ref().and_then(|n| n.growth.as_ref()) else { continue };
            let name = held.dims[*at].as_dimension().expect("a length that grows has a name");
            let (other, first) = *grown.entry(name).or_insert((added, held));
            if other != added {
                return Err(Diagnostic::error(
                    held.span,
                    format!("`{}` grows by {added}, and `{}` by {other}", held.path, first.path),
                )
                .also(first.span, format!("both have the length {name}"))
                .help("states of one length grow together; another length has another name")
                .into());
            }
        }
        for (name, (_, first)) in &grown {
            let behind = |held: &&Held| {
                let grows = held.next.as_ref().is_some_and(|n| n.growth.is_some());
                !grows && held.dims.iter().any(|d| d.mentions(&(*name).into()))
            };
            if let Some(held) = states.iter().find(behind) {
                return Err(Diagnostic::error(
                    held.span,
                    format!("`{}` has the length {name}, but does not grow", held.path),
                )
                .also(first.span, format!("`{}` has the same length, and grows", first.path))
                .into());
            }
            let ports = self.b.inputs().iter().chain(self.b.params());
            let plain = |p: &&salient_ir::Port| {
                let state = states.iter().any(|h| h.path == *p.name);
                !state
                    && p.axes.iter().any(|a| self.b.extent(*a).as_dimension().is_some_and(|s| **s == **name))
            };
            if let Some(port) = ports.into_iter().find(plain) {
                let length = self.lengths.get(*name).copied().unwrap_or(first.span);
                return Err(Diagnostic::error(
                    length,
                    format!(
                        "{name} counts the positions that `{}` holds, and is a length of `{}` too",
                        first.path, port.name
                    ),
                )
                .help("give one of the two another name")
                .into());
            }
        }
        let ports = self.b.inputs().iter().filter(|p| !states.iter().any(|h| h.path == *p.name));
        let known: Vec<AxisId> = ports.chain(self.b.params()).flat_map(|p| p.axes.iter().copied()).collect();
        for (name, span) in &self.lengths {
            if !grown.contains_key(name.as_str())
                && !known.iter().any(|a| self.b.extent(*a).mentions(&name.as_str().into()))
            {
                return Err(Diagnostic::error(*span, format!("nothing says how long {name} is"))
                    .saying("no input has this length, and no state grows along it")
                    .help(format!("extend the state, or give the length in brackets: `[{name} = 64]`"))
                    .into());
            }
        }
        Ok(())
    }

    /// `append[s](held, new)`: what is held, and behind it along the axis what is new.
    pub(super) fn append(
        &mut self,
        statics: &[StaticArg<'a>],
        args: &'a [Argument],
        span: Span,
    ) -> Eval<Value<'a>> {
        let usage = "`append[s](held, new)` extends one tensor by another along an axis of the first";
        let [StaticArg { value: StaticValue::Axis(name, None), span: place, .. }] = statics else {
            return Err(Diagnostic::error(span, "`append` needs an axis in brackets").help(usage).into());
        };
        let given = self.arguments(args)?;
        let Ok([held, new]) = <[ArgValue<'a>; 2]>::try_from(given) else {
            return Err(Diagnostic::error(span, "`append` takes two tensors").help(usage).into());
        };
        let (mut held, held_span) = (self.tensor(held.value, held.span)?, held.span);
        let (mut new, new_span) = (self.tensor(new.value, new.span)?, new.span);
        let Some(at) = held.pos.iter().position(|s| s.is_called(name)) else {
            let labels: Vec<&str> = held.slots().filter_map(|s| s.label.as_deref()).collect();
            let axes = listed(labels.iter().copied());
            return Err(Diagnostic::error(*place, format!("no axis is called `{name}` here"))
                .also(held_span, format!("this is {}, its axes are {axes}", self.shape_text(&held)))
                .help_if(did_you_mean(name, labels))
                .into());
        };
        if new.pos.len() != held.pos.len() {
            return Err(Diagnostic::error(span, "`append` takes two tensors of as many axes")
                .also(held_span, format!("this is {}", self.shape_text(&held)))
                .also(new_span, format!("this is {}", self.shape_text(&new)))
                .into());
        }
        let from_right = held.pos.len() - 1 - at;
        let (old, more) = (held.pos.remove(at), new.pos.remove(at));
        let part = |tensor, slot, span| Part { tensor, slot, from_right: Some(from_right), span };
        let parts = vec![part(held, old, held_span), part(new, more, new_span)];
        self.one_after_the_other(parts, Some(name.clone()), "append", span)
    }
}
