//! Steps of training: parameters by pattern, loops over gradients, and parameters that get new values.
//!
//! A parameter to whose name a loop over gradients assigns is a state that begins as its initialiser says: what was assigned is
//! what the next call begins with. It stays a parameter while the program is lowered; [`moved`] makes a state of it, and one more that
//! counts the steps where numbers are drawn.

use crate::diag::{Diagnostic, did_you_mean};
use crate::habits;
use crate::lower::lost::Role;
use crate::lower::{Eval, Fail, Lowerer};
use crate::source::Span;
use crate::syntax::ast::{BinaryOp, Each, Expr, ExprKind, Function, Path, Stmt};
use crate::value::{Builtin, StaticArg, Tensor, Value};
use salient_ir::{AxisId, Builder, Const, DType, Dim, Graph, MapOp, NodeId, Op, State};
use std::collections::BTreeMap;

/// The path of the state that counts steps, if the model draws numbers: every step draws others.
pub const DRAW_STEP: &str = "draw.step";

/// The round of a loop over gradients.
pub(in crate::lower) struct Round {
    /// What its parameter is called.
    name: String,
    /// The path of the parameter.
    path: String,
}

/// What is assigned to a parameter.
pub(in crate::lower) struct Move {
    path: String,
    tensor: Tensor,
    span: Span,
}

/// Positions of a parameter and of the result that is its value after the call.
pub(in crate::lower) struct Moved {
    param: usize,
    output: usize,
}

impl<'a> Lowerer<'a, '_> {
    // ---- parameters by pattern

    /// All parameters that hold numbers, of those that were mentioned so far.
    pub(in crate::lower) fn all_parameters(&self) -> Value<'a> {
        let numbers = self.b.params().iter().enumerate().filter(|(_, port)| port.dtype == DType::F32);
        Value::Parameters(numbers.map(|(at, _)| at).collect())
    }

    /// `parameters.PATTERN`: those whose paths begin with it, segment by segment.
    pub(in crate::lower) fn selection(&mut self, pattern: &'a Path) -> Eval<Value<'a>> {
        let wanted = self.path(pattern)?;
        let matches = |path: &str| {
            let own: Vec<&str> = path.split('.').collect();
            own.len() >= wanted.len() && wanted.iter().zip(own).all(|(wanted, own)| globs(wanted, own))
        };
        let Value::Parameters(all) = self.all_parameters() else { unreachable!("made above") };
        let found: Vec<usize> =
            all.iter().copied().filter(|at| matches(&self.b.params()[*at].name)).collect();
        if found.is_empty() {
            let text = wanted.join(".");
            let paths = all.iter().map(|at| &*self.b.params()[*at].name);
            return Err(Diagnostic::error(pattern.span, format!("no parameter so far lies under `{text}`"))
                .help_if(did_you_mean(&text, paths))
                .note("parameters are known once the expression stands above that has them")
                .into());
        }
        Ok(Value::Parameters(found))
    }

    /// Operators between parameters: those of either, those of one without the other.
    fn of_parameters(&self, op: BinaryOp, a: &[usize], b: &[usize], span: Span) -> Eval<Value<'a>> {
        let mut out: Vec<usize> = match op {
            BinaryOp::Add => a.iter().chain(b).copied().collect(),
            BinaryOp::Sub => a.iter().copied().filter(|at| !b.contains(at)).collect(),
            BinaryOp::Or
            | BinaryOp::And
            | BinaryOp::Mul
            | BinaryOp::Div
            | BinaryOp::Rem
            | BinaryOp::Pow
            | BinaryOp::MatMul => {
                return Err(Diagnostic::error(
                    span,
                    format!("`{}` does not stand between parameters", op.sign()),
                )
                .help("`+` joins them, `-` leaves some out: `parameters - parameters.wte`")
                .into());
            }
        };
        out.sort_unstable();
        out.dedup();
        if out.is_empty() {
            return Err(Diagnostic::error(span, "no parameter is left").into());
        }
        Ok(Value::Parameters(out))
    }

    /// Operators on parameters and on gradients by several parameters; `None` for all else.
    pub(in crate::lower) fn of_several(
        &mut self,
        op: BinaryOp,
        (a, a_span): (&Value<'a>, Span),
        (b, b_span): (&Value<'a>, Span),
        span: Span,
    ) -> Option<Eval<Value<'a>>> {
        if let (Value::Parameters(a), Value::Parameters(b)) = (a, b) {
            return Some(self.of_parameters(op, a, b, span));
        }
        let number = |d: &Tensor| Value::Tensor(d.clone());
        let pairs: Vec<(String, Value<'a>, Value<'a>)> = match (a, b) {
            (Value::Gradients(a), Value::Gradients(b)) => {
                if a.len() != b.len() || a.iter().zip(b).any(|(a, b)| a.0 != b.0) {
                    let d = Diagnostic::error(span, "these are the gradients by different parameters");
                    return Some(Err(d.into()));
                }
                a.iter().zip(b).map(|(a, b)| (a.0.clone(), number(&a.1), number(&b.1))).collect()
            }
            (Value::Gradients(list), other) if is_number(other) => {
                list.iter().map(|(path, d)| (path.clone(), number(d), other.clone())).collect()
            }
            (other, Value::Gradients(list)) if is_number(other) => {
                list.iter().map(|(path, d)| (path.clone(), other.clone(), number(d))).collect()
            }
            (a, b) if is_several(a) || is_several(b) => {
                let d = Diagnostic::error(span, format!("`{}` does not stand between these", op.sign()))
                    .also(a_span, format!("this is {}", self.describe(a)))
                    .also(b_span, format!("this is {}", self.describe(b)))
                    .help("a number may stand beside gradients, or the gradients by the same parameters");
                return Some(Err(d.into()));
            }
            (_, _) => return None,
        };
        Some(self.each_gradient(pairs, op, (a_span, b_span), span))
    }

    fn each_gradient(
        &mut self,
        pairs: Vec<(String, Value<'a>, Value<'a>)>,
        op: BinaryOp,
        (a_span, b_span): (Span, Span),
        span: Span,
    ) -> Eval<Value<'a>> {
        let mut out = Vec::new();
        for (path, a, b) in pairs {
            let value = self.binary(op, (a, a_span), (b, b_span), span)?;
            out.push((path, self.tensor(value, span)?));
        }
        Ok(Value::Gradients(out))
    }

    /// `grad_norm(g)`: the length of all gradients as one vector.
    pub(in crate::lower) fn length_of(&mut self, list: Vec<(String, Tensor)>, span: Span) -> Eval<Value<'a>> {
        let mut total: Option<NodeId> = None;
        for (_, gradient) in list {
            let mut part = self.map_node(MapOp::Mul, &[gradient.node, gradient.node], span)?;
            for slot in gradient.slots().cloned().collect::<Vec<_>>().iter().rev() {
                let Some(axis) = slot.axis else { continue };
                part = self
                    .b
                    .reduce(salient_ir::ReduceOp::Sum, axis, part)
                    .map_err(crate::lower::typing(span))?;
            }
            total = Some(match total {
                None => part,
                Some(total) => self.map_node(MapOp::Add, &[total, part], span)?,
            });
        }
        let total = total.expect("gradients are by at least one parameter");
        let node = self.map_node(MapOp::Sqrt, &[total], span)?;
        Ok(Value::Tensor(Tensor::scalar(node)))
    }

    /// `rank(x)`: the number of axes.
    pub(in crate::lower) fn rank(
        &mut self,
        statics: &[StaticArg<'a>],
        args: &'a [crate::syntax::ast::Argument],
        span: Span,
    ) -> Eval<Value<'a>> {
        let given = self.plain_arguments(Builtin::Rank, statics, args, span)?;
        let Ok([(value, place)]) = <[(Value<'a>, Span); 1]>::try_from(given) else {
            return Err(Diagnostic::error(span, "`rank` takes one tensor").into());
        };
        let rank = if value.is_literal() { 0 } else { self.tensor(value, place)?.pos.len() };
        Ok(Value::Int(Dim::constant(rank as i64)))
    }

    // ---- loops over gradients

    /// The rounds of a loop over gradients, up to the first that is wrong.
    pub(in crate::lower) fn each_of(&mut self, each: &'a Each, body: &'a [Stmt], span: Span) -> Eval<()> {
        if let ExprKind::Call(target, _) = &each.of.kind
            && let ExprKind::Name(name) = &target.kind
            && !self.is_known(name)
        {
            // Loops over pairs are written so elsewhere. What their lengths are, the whole function says.
            let whole = self.here().decl.map_or(span, |f| f.span.to(f.body_span));
            let found = habits::found(self.sources.file(whole.source), whole.range());
            let is_this =
                |d: &Diagnostic| d.primary.as_ref().is_some_and(|(place, _)| place.start == span.start);
            if let Some(habit) = found.into_iter().find(is_this) {
                return Err(habit.into());
            }
        }
        let value = self.expr(&each.of)?;
        if matches!(value, Value::Poison) {
            return Err(Fail::Reported);
        }
        let found = self.describe(&value);
        let Value::Gradients(list) = value else {
            let message = "a loop over pairs goes over parameters and the gradients by them";
            return Err(Diagnostic::error(each.of.span, message)
                .saying(format!("this is {found}"))
                .help("as in `for p, d in grad(loss, parameters) { … }`")
                .into());
        };
        for (n, (path, gradient)) in list.into_iter().enumerate() {
            let weight = &self.weights[&path];
            let node = weight.node.expect("a declared parameter has a node");
            let parameter = Tensor { pos: weight.pos.clone(), ..Tensor::scalar(node) };
            self.frame().scopes.push(BTreeMap::new());
            let name = &each.parameter;
            self.define_as(&name.name, Value::Tensor(parameter), name.span, Role::Moving);
            self.define(&each.gradient.name, Value::Tensor(gradient), each.gradient.span);
            self.frame().moving.push(Round { name: name.name.clone(), path: path.clone() });
            self.rounds.push(n as i64);
            self.body(body);
            self.rounds.pop();
            if let Err(fail) = self.end_of_round(&path, name.name.as_str(), node) {
                self.report(fail);
            }
            self.frame().moving.pop();
            self.leave_scope();
            self.frame().scopes.pop();
            if !self.errors.is_empty() {
                break;
            }
        }
        Ok(())
    }

    /// Takes what a round has assigned to its parameter.
    fn end_of_round(&mut self, path: &str, name: &str, node: NodeId) -> Eval<()> {
        let Some(var) = self.lookup(name).filter(|var| var.role == Role::Moving).cloned() else {
            return Ok(());
        };
        let span = var.span;
        if matches!(var.value, Value::Poison) {
            return Err(Fail::Reported);
        }
        let literal = var.value.is_literal();
        let tensor =
            if literal { self.cast(var.value, DType::F32, span)? } else { self.tensor(var.value, span)? };
        if tensor.node == node || self.trials > 0 {
            return Ok(());
        }
        let weight = &self.weights[path];
        let found: Vec<Dim> = tensor.pos.iter().map(|s| self.extent(s)).collect();
        if self.dtype(&tensor) != DType::F32 || found != weight.dims || !tensor.named.is_empty() {
            let dims: Vec<String> = weight.dims.iter().map(Dim::to_string).collect();
            let text = self.shape_text(&tensor);
            return Err(Diagnostic::error(span, format!("the parameter `{path}` cannot become {text}"))
                .saying(format!("this is {text}"))
                .also(weight.span, format!("declared as f32[{}]", dims.join(", ")))
                .help("a parameter keeps its shape")
                .into());
        }
        let at = self.b.params().iter().position(|port| *port.name == *path).expect("it is declared");
        if self.b.params()[at].init.is_none() {
            return Err(Diagnostic::error(weight.span, format!("the parameter `{path}` has no initialiser"))
                .also(span, "here it gets a new value")
                .help("what a step moves begins somewhere: `param … = zeros`; weights that are given count before it")
                .into());
        }
        if let Some(first) = self.moves.iter().find(|known| known.path == *path) {
            return Err(Diagnostic::error(span, format!("the parameter `{path}` gets two new values"))
                .also(first.span, "the first")
                .help("join the loops, or let them go over different parameters")
                .into());
        }
        self.moves.push(Move { path: path.to_owned(), tensor, span });
        Ok(())
    }

    /// The path of the parameter that goes by a name in the loop at work.
    pub(in crate::lower) fn path_of_round(&self, e: &Expr) -> Option<String> {
        let ExprKind::Name(name) = &e.kind else { return None };
        let rounds = self.here().moving.iter().rev();
        rounds.into_iter().find(|round| round.name == *name).map(|round| round.path.clone())
    }

    /// The new values of parameters as results, once all else is one.
    pub(in crate::lower) fn keep_moves(&mut self, f: &'a Function) -> Eval<()> {
        if let Some(first) = self.moves.first().filter(|_| self.draws > 0) {
            let names = self.b.inputs().iter().chain(self.b.params()).map(|port| &port.name);
            let mut names = names.chain(self.b.outputs().iter().map(|output| &output.name));
            if names.any(|name| **name == *DRAW_STEP) {
                let message = format!(
                    "`{DRAW_STEP}` counts the steps of a model that draws, and is a path of its own too"
                );
                return Err(Diagnostic::error(first.span, message).help("give that another path").into());
            }
        }
        for Move { path, tensor, span } in std::mem::take(&mut self.moves) {
            let input = f.params.iter().find(|p| p.name.name == path).map(|p| (p.name.span, "an input"));
            let output = self.b.outputs().iter().any(|o| *o.name == *path);
            let output = output.then_some((f.name.span, "a result of this model"));
            if let Some((place, what)) = input.or(output) {
                return Err(Diagnostic::error(span, format!("{what} is called `{path}` too"))
                    .also(place, what)
                    .help("its value after the call is a result under its path: name the other one otherwise")
                    .into());
            }
            let param = self.b.params().iter().position(|port| *port.name == *path).expect("it is declared");
            let own = self.b.params()[param].axes.clone();
            let axes: Vec<AxisId> =
                tensor.pos.iter().zip(&own).map(|(slot, own)| slot.axis.unwrap_or(*own)).collect();
            self.b.output(&path, &axes, tensor.node).map_err(crate::lower::typing(span))?;
            self.moved.push(Moved { param, output: self.b.outputs().len() - 1 });
        }
        Ok(())
    }

    /// Refuses an assignment to a parameter outside of such loops, with what there is instead.
    pub(in crate::lower) fn no_step(&self, name: &str, span: Span, declared: Span) -> Fail {
        Diagnostic::error(span, format!("`{name}` is a parameter, to which only a loop over gradients assigns"))
            .also(declared, "declared here")
            .help(format!(
                "give the new value a name of its own with `let`; a step of training is `for p, d in grad(loss, parameters) {{ p = … }}`, and what a call changes otherwise is a `state {name}: …`"
            ))
            .into()
    }
}

/// Whether a value is of several parameters.
fn is_several(value: &Value<'_>) -> bool {
    matches!(value, Value::Parameters(_) | Value::Gradients(_))
}

/// Whether a value may stand beside each of several gradients.
fn is_number(value: &Value<'_>) -> bool {
    value.is_literal() || value.as_tensor().is_some_and(|t| t.slots().next().is_none())
}

/// Whether a segment of a path is what a pattern says, in which `*` stands for any letters.
fn globs(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let Some(last) = parts.next_back() else { return rest.is_empty() };
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

/// The same graph in which parameters that are moved are states. What is drawn is drawn anew by each step: the second word of its
/// counter is a state of one integer, to which each call adds one.
pub(in crate::lower) fn moved(graph: Graph, moves: &[Moved]) -> Graph {
    if moves.is_empty() {
        return graph;
    }
    let mut b = Builder::with_axes(&graph);
    graph.requirements().iter().for_each(|requirement| b.require(requirement.clone()));
    b.states_of(&graph);
    let is_moved = |at: usize| moves.iter().position(|known| known.param == at);
    // Ports first, in the order in which states come last.
    for port in graph.inputs() {
        b.input(&port.name, &port.axes, port.dtype, port.origin);
    }
    for known in moves {
        let port = &graph.params()[known.param];
        b.input(&port.name, &port.axes, port.dtype, port.origin);
    }
    let draws = graph.ids().any(|id| *graph.op(id) == Op::Map(MapOp::Philox));
    let step = draws.then(|| b.input(DRAW_STEP, &[], DType::I64, None));
    let mut params: Vec<Option<usize>> = vec![None; graph.params().len()];
    for (at, port) in graph.params().iter().enumerate().filter(|(at, _)| is_moved(*at).is_none()) {
        let init = port.init.map(|init| init.map(|node| b.copy(&graph, node)));
        b.param(&port.name, &port.axes, port.dtype, init, port.origin);
        params[at] = Some(b.params().len() - 1);
    }
    let mut new: Vec<NodeId> = Vec::with_capacity(graph.len());
    for id in graph.ids() {
        let node = graph.node(id);
        let op = if let Op::Param(at) = node.op {
            match (params[at], is_moved(at)) {
                (Some(at), _) => Op::Param(at),
                (None, moved) => Op::Input(graph.inputs().len() + moved.expect("it is one or the other")),
            }
        } else {
            node.op.clone()
        };
        let mut args: Vec<NodeId> = graph.args(id).iter().map(|arg| new[arg.index()]).collect();
        if let (Op::Map(MapOp::Philox), Some(step)) = (&op, step) {
            args[1] = step;
        }
        let added = b.add(op, &args).expect("a node of a verified graph");
        b.describe(added, node.name.as_ref(), node.origin);
        new.push(added);
    }
    let begins = |port: &salient_ir::Port| port.init.map(|init| init.map(|node| new[node.index()]));
    for (at, port) in graph.inputs().iter().enumerate() {
        b.begins_as(at, begins(port));
    }
    for (n, known) in moves.iter().enumerate() {
        let input = graph.inputs().len() + n;
        b.begins_as(input, begins(&graph.params()[known.param]));
        b.keeps(State { input, output: known.output });
    }
    for output in graph.outputs() {
        b.store(&output.name, output.dtype);
        b.output(&output.name, &output.axes, new[output.node.index()]).expect("a result of a verified graph");
    }
    if let Some(step) = step {
        let one = b.constant(Const::I64(1));
        let next = b.map(MapOp::Add, &[step, one]).expect("integers have a sum");
        b.output(DRAW_STEP, &[], next).expect("one number");
        b.keeps(State { input: graph.inputs().len() + moves.len(), output: graph.outputs().len() });
    }
    b.finish()
}
