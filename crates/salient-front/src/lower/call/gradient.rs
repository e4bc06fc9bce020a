//! `grad(loss, x, …)` and `stop(x)`.

use crate::diag::{Diagnostic, counted};
use crate::habits;
use crate::lower::{Eval, Fail, Lowerer};
use crate::source::Span;
use crate::syntax::ast::Argument;
use crate::value::{Builtin, StaticArg, Tensor, Value};
use salient_grad::{GradientError, gradients, gradients_where, loss_in_normal_form, stopped};
use salient_ir::{Class, DType, Dim, NodeId, Op, Port};

impl<'a> Lowerer<'a, '_> {
    /// The gradients of a number by tensors that go in: one for each, of its shape.
    pub(super) fn gradient(
        &mut self,
        statics: &[StaticArg<'a>],
        args: &'a [Argument],
        span: Span,
    ) -> Eval<Value<'a>> {
        let given = self.plain_arguments(Builtin::Grad, statics, args, span)?;
        if given.len() < 2 {
            let message = format!(
                "`grad` takes a loss and what to differentiate by, found {}",
                counted(given.len(), "argument", "arguments")
            );
            return Err(Diagnostic::error(span, message).help("as in `grad(loss, x)`").into());
        }
        let mut given = given.into_iter();
        let (loss, place) = given.next().expect("there are two");
        let loss = self.loss(loss, place)?;
        if let [(Value::Parameters(list), _)] = given.as_slice() {
            let list = list.clone();
            return self.gradients_by(&list, (&loss, place));
        }
        let mut targets: Vec<(Tensor, Span)> = Vec::new();
        for (value, span) in given {
            let target = self.tensor(value, span)?;
            if self.b.op(self.port_of(target.node)).class() != Class::Port {
                return Err(Diagnostic::error(
                    span,
                    "`grad` differentiates by inputs, parameters and states",
                )
                .saying("this is computed")
                .help("differentiate by what it is computed from, or make it an input")
                .into());
            }
            targets.push((target, span));
        }
        let nodes: Vec<NodeId> = targets.iter().map(|(target, _)| self.port_of(target.node)).collect();
        let normal = self.normal_form(loss.node);
        let found = gradients(&mut self.b, normal, &nodes)
            .map_err(|e| self.no_gradient(&e, (&loss, place), &targets))?;
        let mut out: Vec<Value<'a>> = Vec::new();
        for ((target, _), gradient) in targets.into_iter().zip(found) {
            let node = self.renamed_as(target.node, gradient);
            out.push(Value::Tensor(Tensor { node, index: false, floored: false, ..target }));
        }
        Ok(if out.len() == 1 { out.remove(0) } else { Value::Many(out) })
    }

    /// What is differentiated.
    fn loss(&mut self, value: Value<'a>, place: Span) -> Eval<Tensor> {
        let loss = self.tensor(value, place)?;
        if loss.slots().next().is_none() {
            return Ok(loss);
        }
        let shape = self.shape_text(&loss);
        let message = format!("what `grad` differentiates must be one number, this is {shape}");
        Err(Diagnostic::error(place, message).help("add up its elements: `sum[i, j](loss[i, j])`").into())
    }

    /// A loss in the form in which it is differentiated. Each is brought into that form once.
    fn normal_form(&mut self, loss: NodeId) -> NodeId {
        let Some(form) = self.settings.normal_form else { return loss };
        if self.b.node(loss).dtype != DType::F32 {
            return loss;
        }
        if let Some(known) = self.normal_forms.get(&loss) {
            return *known;
        }
        let normal = loss_in_normal_form(&mut self.b, loss, form);
        self.normal_forms.insert(loss, normal);
        normal
    }

    /// `grad(loss, parameters)`: by every one of these parameters on which the loss depends.
    fn gradients_by(&mut self, list: &[usize], (loss, place): (&Tensor, Span)) -> Eval<Value<'a>> {
        let port =
            |l: &mut Self, at: usize| l.b.add(Op::Param(at), &[]).expect("a parameter that is declared");
        let nodes: Vec<NodeId> = list.iter().map(|at| port(self, *at)).collect();
        let normal = self.normal_form(loss.node);
        let found = gradients_where(&mut self.b, normal, &nodes);
        let found = found.map_err(|e| self.no_gradient(&e, (loss, place), &[]))?;
        let mut out = Vec::new();
        for (at, gradient) in list.iter().zip(found) {
            let Some(node) = gradient else { continue };
            let Port { name, axes, .. } = self.b.params()[*at].clone();
            // As the parameter is read: without its axes of one position.
            let node = self.without_units(node, &axes);
            let pos = self.weights[&*name].pos.clone();
            out.push((name.to_string(), Tensor { pos, ..Tensor::scalar(node) }));
        }
        if out.is_empty() {
            return Err(Diagnostic::error(place, "this depends on none of these parameters").into());
        }
        Ok(Value::Gradients(out))
    }

    /// `grad_norm(g)`: the length of gradients by several parameters as one vector.
    pub(super) fn norm(
        &mut self,
        statics: &[StaticArg<'a>],
        args: &'a [Argument],
        span: Span,
    ) -> Eval<Value<'a>> {
        let call = self.foreign("norm", args);
        let elsewhere = habits::spelled(&call).map(|spelling| spelling.help());
        let of_one = |l: &Self, found: Option<&Value<'a>>| {
            let d = Diagnostic::error(span, "`grad_norm` takes the gradients by several parameters");
            let d = found.map_or(d.clone(), |found| d.saying(format!("this is {}", l.describe(found))));
            Fail::from(d.help_if(elsewhere.clone()))
        };
        if args.len() != 1 || args[0].name.is_some() {
            return Err(of_one(self, None));
        }
        let given = self.plain_arguments(Builtin::GradNorm, statics, args, span)?;
        match given.into_iter().next() {
            Some((Value::Gradients(list), _)) => self.length_of(list, span),
            Some((other, _)) => Err(of_one(self, Some(&other))),
            None => Err(of_one(self, None)),
        }
    }

    /// What a node reads that only gives axes other names, or leaves those of one position out.
    fn port_of(&self, node: NodeId) -> NodeId {
        let mut port = node;
        while let Op::At(axis) = *self.b.op(port) {
            let args = self.b.args(port);
            if !self.b.is_renamed(axis, args[1]) && *self.b.extent(axis) != Dim::constant(1) {
                return node;
            }
            port = args[0];
        }
        port
    }

    /// A gradient by what a node reads, with the names that the node gives its axes.
    fn renamed_as(&mut self, node: NodeId, gradient: NodeId) -> NodeId {
        let Op::At(axis) = *self.b.op(node) else { return gradient };
        let args = self.b.args(node);
        let inner = self.renamed_as(args[0], gradient);
        self.b.at(inner, axis, args[1]).expect("its axes are among those of the node")
    }

    fn no_gradient(
        &self,
        error: &GradientError,
        (value, loss): (&Tensor, Span),
        targets: &[(Tensor, Span)],
    ) -> Fail {
        let message = error.to_string();
        match error {
            GradientError::NoNumber => Diagnostic::error(loss, message)
                .saying(format!("this is {}", self.shape_text(value)))
                .help("`f32(…)` makes numbers of integers"),
            GradientError::NotDifferentiable { target } => {
                let (tensor, span) = &targets[*target];
                Diagnostic::error(*span, message).saying(format!("this is {}", self.shape_text(tensor)))
            }
            GradientError::Independent { target } => {
                let d =
                    Diagnostic::error(targets[*target].1, "what is differentiated does not depend on this");
                d.also(loss, "by which `grad` differentiates this")
                    .help("integers, comparisons and `floor` have no derivative, and `stop` ends one")
            }
            GradientError::NoDerivative { .. } => Diagnostic::error(loss, message),
        }
        .into()
    }

    /// A value whose derivative is zero.
    pub(super) fn stop(
        &mut self,
        statics: &[StaticArg<'a>],
        args: &'a [Argument],
        span: Span,
    ) -> Eval<Value<'a>> {
        let given = self.plain_arguments(Builtin::Stop, statics, args, span)?;
        let [(value, place)] = &given[..] else {
            let found = counted(given.len(), "argument", "arguments");
            return Err(Diagnostic::error(span, format!("`stop` takes one argument, found {found}")).into());
        };
        if value.is_literal() {
            return Ok(value.clone());
        }
        let tensor = self.tensor(value.clone(), *place)?;
        let node = stopped(&mut self.b, tensor.node);
        Ok(Value::Tensor(Tensor { node, ..tensor }))
    }
}
