//! What an expression can be while a program is lowered: a tensor of the graph, or something known when compiling.
//!
//! Holds data only; the operations are in [`crate::lower`].

use crate::diag::counted;
use crate::source::Span;
use crate::syntax::ast::Function;
use salient_ir::op::map::functions;
use salient_ir::op::{MAPS, REDUCES};
use salient_ir::{AxisId, DType, Dim, Direction, FusedOp, MapOp, Name, NodeId, ReduceOp};

/// What all parameters of a model are called.
pub(crate) const PARAMETERS: &str = "parameters";

/// One axis of a tensor value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Slot {
    /// The axis in the graph; none if the extent is one.
    pub(crate) axis: Option<AxisId>,
    /// The name under which this function's text can refer to it.
    pub(crate) label: Option<Name>,
}

impl Slot {
    /// An axis of extent one.
    pub(crate) const UNIT: Slot = Slot { axis: None, label: None };

    /// Whether it goes by that name.
    pub(crate) fn is_called(&self, name: &str) -> bool {
        self.label.as_deref() == Some(name)
    }
}

/// A node of the graph with an order for its axes. Axes that a list has and the node lacks repeat its value.
///
/// Beside axes with a position there are axes *by name*: the indices that an indexed expression has free. Those whose
/// label is `None` come from a caller: the function at hand does not see them.
#[derive(Clone, Debug)]
pub(crate) struct Tensor {
    /// The value.
    pub(crate) node: NodeId,
    /// The axes with a position, first to last.
    pub(crate) pos: Vec<Slot>,
    /// The axes by name, in order of appearance.
    pub(crate) named: Vec<Slot>,
    /// Whether it is made of indices, dimensions and integers alone, so that `/` rounds down.
    pub(crate) index: bool,
    /// Whether a quotient that was rounded down is in it.
    pub(crate) floored: bool,
}

impl Tensor {
    /// A value without axes.
    pub(crate) fn scalar(node: NodeId) -> Tensor {
        Tensor { node, pos: Vec::new(), named: Vec::new(), index: false, floored: false }
    }

    /// Every slot, those with a position first.
    pub(crate) fn slots(&self) -> impl Iterator<Item = &Slot> {
        self.pos.iter().chain(&self.named)
    }

    /// The slot that goes by that name, if one does.
    pub(crate) fn called(&self, name: &str) -> Option<&Slot> {
        self.named.iter().chain(&self.pos).find(|s| s.is_called(name))
    }
}

/// A function as a value, with what its brackets already hold.
#[derive(Clone, Debug)]
pub(crate) struct FunctionValue<'a> {
    /// What is called.
    pub(crate) callee: Callee<'a>,
    /// The brackets, evaluated where they were written.
    pub(crate) statics: Vec<StaticArg<'a>>,
}

/// What can be called.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Callee<'a> {
    /// A declared function or block.
    Declared(&'a Function),
    /// An operator of the graph.
    Builtin(Builtin),
}

impl Callee<'_> {
    /// Its name.
    pub(crate) fn name(&self) -> &str {
        match self {
            Callee::Declared(f) => &f.name.name,
            Callee::Builtin(b) => b.name(),
        }
    }
}

/// What stands in the brackets of a call.
#[derive(Clone, Debug)]
pub(crate) struct StaticArg<'a> {
    /// The parameter's name, where it is said.
    pub(crate) name: Option<String>,
    /// The value, or the name of an axis.
    pub(crate) value: StaticValue<'a>,
    /// Where it stands.
    pub(crate) span: Span,
}

/// A value or an index in the brackets of a call.
#[derive(Clone, Debug)]
pub(crate) enum StaticValue<'a> {
    /// A value known when compiling.
    Value(Value<'a>),
    /// An index to bind, with its extent where it is said.
    Axis(String, Option<Dim>),
}

/// The functions that are operators of the graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Builtin {
    /// A scalar operator.
    Map(MapOp),
    /// A reduction along an axis.
    Reduce(ReduceOp),
    /// `min` and `max`: a reduction of one argument, a scalar operator of two.
    Extreme(ReduceOp, MapOp),
    /// The sum divided by the extent.
    Mean,
    /// The running sum.
    CumSum(Direction),
    /// One part after the other.
    Concat,
    /// The parts along a new axis.
    Stack,
    /// A tensor and another behind it, along an axis of the first.
    Append,
    /// `if` as a function.
    Where,
    /// A random number for each element, while training.
    Draw,
    /// The gradients of a number by tensors.
    Grad,
    /// A value whose derivative is zero.
    Stop,
    /// The length of gradients by several parameters as one vector.
    GradNorm,
    /// The number of axes.
    Rank,
    /// An operator that only rewriting makes; dumps call it.
    Fused(FusedOp),
}

impl Builtin {
    /// Those that are no row of a table of operators.
    const OWN: [Builtin; 12] = [
        Builtin::Mean,
        Builtin::CumSum(Direction::Forward),
        Builtin::CumSum(Direction::Reverse),
        Builtin::Concat,
        Builtin::Stack,
        Builtin::Append,
        Builtin::Where,
        Builtin::Draw,
        Builtin::Grad,
        Builtin::Stop,
        Builtin::GradNorm,
        Builtin::Rank,
    ];

    /// The builtin of that name.
    pub(crate) fn from_name(name: &str) -> Option<Builtin> {
        if let Some(fused) = name.strip_prefix("fused.") {
            return FusedOp::from_name(fused).map(Builtin::Fused);
        }
        match (ReduceOp::from_name(name), MapOp::from_name(name)) {
            (Some(r), Some(m)) => Some(Builtin::Extreme(r, m)),
            (Some(r), None) => Some(Builtin::Reduce(r)),
            (None, Some(m)) => Some(Builtin::Map(m)),
            (None, None) => Builtin::OWN.into_iter().find(|own| own.name() == name),
        }
    }

    /// Its name.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Builtin::Map(m) => m.info().name,
            Builtin::Reduce(r) | Builtin::Extreme(r, _) => r.info().name,
            Builtin::Mean => "mean",
            Builtin::CumSum(direction) => direction.name(),
            Builtin::Concat => "concat",
            Builtin::Stack => "stack",
            Builtin::Append => "append",
            Builtin::Where => "where",
            Builtin::Draw => "draw",
            Builtin::Grad => "grad",
            Builtin::Stop => "stop",
            Builtin::GradNorm => "grad_norm",
            Builtin::Rank => "rank",
            Builtin::Fused(f) => f.info().name,
        }
    }

    /// Every name, for suggestions.
    pub(crate) fn names() -> impl Iterator<Item = &'static str> {
        let maps = MAPS.iter().map(|row| row.name);
        let reduces = REDUCES.iter().map(|row| row.name);
        maps.chain(reduces).chain(Builtin::OWN.map(|own| own.name()))
    }

    /// The names of those that are written as functions: not `add`, which has a sign, nor `f32`, which is a type.
    pub(crate) fn functions() -> impl Iterator<Item = &'static str> {
        let reduces = REDUCES.iter().map(|row| row.name);
        reduces.chain(Builtin::OWN.map(|own| own.name())).chain(functions().map(|row| row.name))
    }
}

/// The value of an expression.
#[derive(Clone, Debug)]
pub(crate) enum Value<'a> {
    /// A tensor.
    Tensor(Tensor),
    /// An integer known when compiling, perhaps symbolic: a dimension.
    Int(Dim),
    /// A number known when compiling.
    Float(f64),
    /// A truth value known when compiling.
    Bool(bool),
    /// A text: nothing takes one, but a misplaced one has a name.
    Text,
    /// A function.
    Function(FunctionValue<'a>),
    /// Several results of a call.
    Many(Vec<Value<'a>>),
    /// Some of the parameters, by their positions in the graph.
    Parameters(Vec<usize>),
    /// The gradients by several parameters, each with the path of its parameter.
    Gradients(Vec<(String, Tensor)>),
    /// The value of what has already been reported as wrong.
    Poison,
}

impl<'a> Value<'a> {
    /// The tensor, if it is one.
    pub(crate) fn as_tensor(&self) -> Option<&Tensor> {
        if let Value::Tensor(t) = self { Some(t) } else { None }
    }

    /// The integer, if it is one.
    pub(crate) fn as_int(&self) -> Option<&Dim> {
        if let Value::Int(d) = self { Some(d) } else { None }
    }

    /// The value as a list: several results, or one.
    pub(crate) fn each(self) -> Vec<Value<'a>> {
        if let Value::Many(values) = self { values } else { vec![self] }
    }

    /// Whether it is a number or a truth value known when compiling.
    pub(crate) fn is_literal(&self) -> bool {
        matches!(self, Value::Int(_) | Value::Float(_) | Value::Bool(_))
    }

    /// The value with `f` applied to every tensor in it.
    pub(crate) fn map_tensors(self, f: &mut impl FnMut(Tensor) -> Tensor) -> Value<'a> {
        match self {
            Value::Tensor(t) => Value::Tensor(f(t)),
            Value::Many(values) => Value::Many(values.into_iter().map(|v| v.map_tensors(f)).collect()),
            Value::Int(_)
            | Value::Float(_)
            | Value::Bool(_)
            | Value::Text
            | Value::Function(_)
            | Value::Parameters(_)
            | Value::Gradients(_)
            | Value::Poison => self,
        }
    }

    /// What it is, for messages.
    pub(crate) fn describe(&self) -> String {
        match self {
            Value::Tensor(_) => "a tensor".to_owned(),
            Value::Int(d) => format!("the integer {d}"),
            Value::Float(x) => format!("the number {x:?}"),
            Value::Bool(b) => format!("the truth value {b}"),
            Value::Text => "a text".to_owned(),
            Value::Function(f) => format!("the function `{}`", f.callee.name()),
            Value::Many(v) => format!("{} values", v.len()),
            Value::Parameters(list) => counted(list.len(), "parameter", "parameters"),
            Value::Gradients(list) => {
                format!("the gradients by {}", counted(list.len(), "parameter", "parameters"))
            }
            Value::Poison => "nothing".to_owned(),
        }
    }
}

/// The element type that arithmetic between the two is done in.
pub(crate) fn promote(a: DType, b: DType) -> DType {
    let rank = |d: DType| match d {
        DType::Bool => 0,
        DType::I32 => 1,
        DType::I64 => 2,
        DType::F32 | DType::F16 | DType::BF16 => 3,
    };
    if rank(a) >= rank(b) { a.compute() } else { b.compute() }
}
