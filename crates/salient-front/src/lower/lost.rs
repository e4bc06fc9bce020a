//! What a program says and nothing comes of: values that nobody reads, names that hide others or cannot change, indices that
//! always lie outside, infinities that become NaN.

use super::{Eval, Lowerer, Var};
use crate::diag::{Diagnostic, Severity};
use crate::source::Span;
use crate::syntax::ast::{Expr, Ident, Scoping};
use crate::value::Value;
use salient_ir::{AxisId, DType, Dim, MapOp, NodeId, Op};

/// An index that leaves its axis, with what there is to say if nothing excludes that.
pub(super) struct Outside {
    pub(super) index: NodeId,
    pub(super) extent: Dim,
    pub(super) diagnostic: Diagnostic,
    /// Whether it does so everywhere, which is an error, or somewhere.
    pub(super) everywhere: bool,
}

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// A value that a definition made.
    Value,
    /// An input of the model.
    Input,
    /// What has been assigned to the name of an input.
    Changed,
    /// An argument of a function.
    Argument,
    /// A parameter of the model.
    Param,
    /// A constant.
    Const,
    /// A parameter in a loop over gradients, or what has been assigned to it.
    Moving,
    /// A state, a dimension, the variable of a loop, or what stands for a mistake.
    Other,
}

/// Operators of an index that are looked at for where it may lie, at most.
const LOOKS: usize = 64;

impl<'a> Lowerer<'a, '_> {
    // ---- names

    /// The value of a name, which is read.
    pub(super) fn read_from(&self, var: &Var<'a>) -> Value<'a> {
        self.read.borrow_mut().insert(var.span);
        var.value.clone()
    }

    /// Notes that something is made here which somebody should read: names with a number behind a point are a dump's.
    pub(super) fn note_made(&mut self, name: &str, span: Span, role: Role) {
        if !self.here().library && !name.contains('.') && !name.starts_with('_') {
            self.made.insert(span, (name.to_owned(), role));
        }
    }

    /// Refuses an assignment to what cannot change.
    pub(super) fn may_change(&self, name: &Ident) -> Eval<()> {
        let Some(var) = self.lookup(&name.name) else { return Ok(()) };
        let what = match var.role {
            Role::Param => return Err(self.no_step(&name.name, name.span, var.span)),
            Role::Const => "a constant",
            Role::Value | Role::Input | Role::Changed | Role::Argument | Role::Moving | Role::Other => {
                return Ok(());
            }
        };
        Err(Diagnostic::error(name.span, format!("`{}` is {what}, which nothing can change", name.name))
            .also(var.span, "declared here")
            .help("give the new value a name of its own with `let`")
            .into())
    }

    /// What a name stands for once something is assigned to it.
    pub(super) fn changed_role(&self, name: &str) -> Role {
        match self.lookup(name).map(|var| var.role) {
            Some(Role::Input | Role::Changed) => Role::Changed,
            Some(Role::Other) => Role::Other,
            Some(Role::Moving) => Role::Moving,
            Some(Role::Value | Role::Argument | Role::Param | Role::Const) | None => Role::Value,
        }
    }

    /// Refuses a parameter or a state that takes the name of an input, of another parameter, or of an argument that is a tensor.
    pub(super) fn hides_nothing(&self, name: &Ident) -> Eval<()> {
        let Some(var) = self.lookup(&name.name) else { return Ok(()) };
        let is_tensor = var.value.as_tensor().is_some() && var.span != name.span;
        let what = match var.role {
            Role::Input | Role::Changed => "an input",
            Role::Argument => "an argument",
            Role::Param => "a parameter",
            Role::Value | Role::Const | Role::Moving | Role::Other => return Ok(()),
        };
        if !is_tensor {
            return Ok(());
        }
        Err(Diagnostic::error(name.span, format!("{what} is called `{}` already", name.name))
            .also(var.span, what)
            .help("give it another name; `as` gives its path")
            .into())
    }

    /// Says what nobody has read, once all is lowered.
    pub(super) fn unread(&mut self) {
        if !self.errors.is_empty() {
            return;
        }
        self.tell_outside();
        let read = self.read.take();
        for (span, (name, role)) in std::mem::take(&mut self.made) {
            if read.contains(&span) {
                continue;
            }
            match role {
                Role::Changed => self.errors.push(
                    Diagnostic::error(span, format!("what is assigned to the input `{name}` is lost"))
                        .saying("nothing reads this")
                        .help("an input itself does not change; `return` the value, or give it a name with `let`"),
                ),
                Role::Input => {
                    let d = Diagnostic::warning(span, format!("the input `{name}` is never read"));
                    self.warn(d);
                }
                Role::Value => {
                    let d = Diagnostic::warning(span, format!("`{name}` is never read"));
                    let inner = "`let` makes a name that ends with its block; `NAME = …` changes one from outside";
                    self.warn(d.help(inner));
                }
                Role::Argument | Role::Param | Role::Const | Role::Moving | Role::Other => {}
            }
        }
    }

    // ---- indices

    /// Notes an index that lies outside its axis at some position, whatever the dimensions are.
    pub(super) fn note_outside(&mut self, index: NodeId, extent: &Dim, span: Span) {
        if self.trials > 0 || self.here().library || self.b.node(index).axes.is_empty() {
            return;
        }
        let mut looks = LOOKS;
        let Some((least, most)) = self.range(index, &mut looks) else { return };
        let below = (&Dim::constant(-1) - &least).is_nonnegative();
        let nowhere = (&Dim::constant(-1) - &most).is_nonnegative() || extent.provably_le(&least);
        if !below && !nowhere && !extent.provably_le(&most) {
            return;
        }
        let reaches = if below { least } else { most };
        let help = "choose where it lies inside: `if 0 <= i and i < T then x[i] else 0`";
        let diagnostic = if nowhere {
            Diagnostic::error(
                span,
                format!("at every position this index lies outside an axis of length {extent}"),
            )
        } else {
            let message = format!("this index reaches {reaches}, outside an axis of length {extent}");
            Diagnostic::warning(span, message).help(help)
        };
        self.outside.push(Outside { index, extent: extent.clone(), diagnostic, everywhere: nowhere });
    }

    /// Tells of such indices where no choice excludes them: of those that every evaluation of the results reads.
    fn tell_outside(&mut self) {
        if self.outside.is_empty() {
            return;
        }
        let mut sure = vec![false; self.b.len()];
        self.b.outputs().iter().for_each(|o| sure[o.node.index()] = true);
        let mut reached = sure.clone();
        let (mut read, mut guarded) = (Vec::new(), Vec::new());
        for id in self.b.ids().rev() {
            let args = self.b.args(id);
            if reached[id.index()] {
                args.iter().for_each(|a| reached[a.index()] = true);
                if let Op::At(axis) = self.b.op(id) {
                    guarded.push((args[1], *axis));
                }
            }
            if !sure[id.index()] {
                continue;
            }
            let asked = if *self.b.op(id) == Op::Map(MapOp::Select) { 1 } else { args.len() };
            args[..asked].iter().for_each(|a| sure[a.index()] = true);
            if let Op::At(axis) = self.b.op(id) {
                read.push((args[1], *axis));
            }
        }
        for outside in std::mem::take(&mut self.outside) {
            let is_this = |(index, axis): &(NodeId, AxisId)| {
                *index == outside.index && *self.b.extent(*axis) == outside.extent
            };
            if !read.iter().any(is_this) {
                if outside.everywhere && guarded.iter().any(is_this) {
                    let d = Diagnostic { severity: Severity::Warning, ..outside.diagnostic };
                    self.warn(
                        d.note("a choice stands around it: where that reads the index, the call fails"),
                    );
                }
                continue;
            }
            if outside.everywhere {
                self.errors.push(outside.diagnostic);
            } else {
                self.warn(outside.diagnostic);
            }
        }
    }

    /// The least and the greatest value of an index, both of which it has somewhere.
    fn range(&self, id: NodeId, looks: &mut usize) -> Option<(Dim, Dim)> {
        *looks = looks.checked_sub(1)?;
        let args = self.b.args(id);
        let zero = Dim::constant(0);
        match self.b.op(id) {
            Op::Iota(axis) => Some((zero, self.b.extent(*axis) - &Dim::constant(1))),
            Op::Extent(dim) => Some((dim.clone(), dim.clone())),
            Op::Const(c) if c.dtype() == DType::I64 => {
                let n = Dim::constant(c.value() as i64);
                Some((n.clone(), n))
            }
            Op::Map(op @ (MapOp::Add | MapOp::Sub)) => {
                let shared = self.b.node(args[0]).axes.intersection(&self.b.node(args[1]).axes);
                if !shared.is_empty() {
                    return None;
                }
                let ((a, b), (c, d)) = (self.range(args[0], looks)?, self.range(args[1], looks)?);
                Some(if *op == MapOp::Add { (&a + &c, &b + &d) } else { (&a - &d, &b - &c) })
            }
            Op::Map(MapOp::Neg) => {
                let (least, most) = self.range(args[0], looks)?;
                Some((&zero - &most, &zero - &least))
            }
            Op::Input(_) | Op::Param(_) | Op::Const(_) | Op::Map(_) | Op::Reduce(..) | Op::At(_) => None,
            Op::Concat(..) | Op::CumSum(..) | Op::Fused(..) => None,
        }
    }

    /// Warns of a condition over indices that holds nowhere, whatever the dimensions are. In a function or a loop, or with a
    /// setting in it, it may hold in another call or round.
    pub(super) fn warn_of_vain_condition(&mut self, c: &Expr, condition: &Value<'a>) {
        let own = self.here().call.is_none() && self.trials == 0;
        let Some(t) = condition.as_tensor().filter(|_| own) else { return };
        let mut looks = LOOKS;
        if self.says_setting(c) || self.holds(t.node, &mut looks) != Some(false) {
            return;
        }
        let d = Diagnostic::warning(c.span, "this condition holds nowhere");
        self.warn(d.help("what stands behind `then` is never taken"));
    }

    /// Whether an expression has a number that another call or round may change.
    fn says_setting(&self, e: &Expr) -> bool {
        let here = match e.scoping() {
            Scoping::Name(name) => self.lookup(name).is_some_and(|var| match &var.value {
                Value::Int(d) => d.as_constant().is_some(),
                Value::Float(_) | Value::Bool(_) => true,
                Value::Tensor(_)
                | Value::Text
                | Value::Function(_)
                | Value::Many(_)
                | Value::Parameters(_)
                | Value::Gradients(_)
                | Value::Poison => false,
            }),
            Scoping::Made | Scoping::Call(..) | Scoping::Brackets(..) | Scoping::As(..) => false,
        };
        here || e.children().into_iter().any(|child| self.says_setting(child))
    }

    /// Whether a condition over indices holds everywhere or nowhere, where the ranges of the indices say so.
    fn holds(&self, id: NodeId, looks: &mut usize) -> Option<bool> {
        let args = self.b.args(id);
        let args = args.as_slice();
        let Op::Map(op) = self.b.op(id) else { return None };
        if let (MapOp::And | MapOp::Or, [a, b]) = (op, args) {
            let (a, b) = (self.holds(*a, looks), self.holds(*b, looks));
            let settles = Some(*op == MapOp::Or);
            return if a == settles || b == settles { settles } else { a.and(b) };
        }
        if let (MapOp::Not, [a]) = (op, args) {
            return self.holds(*a, looks).map(|holds| !holds);
        }
        let (MapOp::Lt | MapOp::Le | MapOp::Eq, [a, b]) = (op, args) else { return None };
        let ((a, b), (c, d)) = (self.range(*a, looks)?, self.range(*b, looks)?);
        let below = |x: &Dim, y: &Dim| (x + &Dim::constant(1)).provably_le(y);
        let (always, never) = if *op == MapOp::Lt {
            (below(&b, &c), d.provably_le(&a))
        } else if *op == MapOp::Le {
            (b.provably_le(&c), below(&d, &a))
        } else {
            (false, below(&b, &c) || below(&d, &a))
        };
        if always || never { Some(always) } else { None }
    }

    // ---- numbers

    /// Warns of a mask that is multiplied by infinity: zero times infinity is NaN.
    pub(super) fn warn_of_infinite_factor(&mut self, op: MapOp, args: &[(Value<'a>, Span)], span: Span) {
        let infinite = |v: &Value<'a>| matches!(v, Value::Float(x) if x.is_infinite());
        let tensor = args.iter().any(|(v, _)| v.as_tensor().is_some());
        if op == MapOp::Mul && tensor && args.iter().any(|(v, _)| infinite(v)) && !self.here().library {
            let d = Diagnostic::warning(span, "zero times infinity is NaN")
                .saying("wherever the other factor is zero")
                .help("a mask is a choice: `if keep then score else -inf`");
            self.warn(d);
        }
    }
}
