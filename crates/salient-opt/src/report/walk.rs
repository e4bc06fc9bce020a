//! The certificate as a walk: what each rule found, and what it put there, in the source's own names.
//!
//! Only made where it is asked for ([`Options::walk`](crate::Options::walk)).

use crate::facts::{Application, Classes};
use crate::lang::{Tag, Term};
use crate::rules::Rule;
use egg::{ENodeOrVar, Id, PatternAst, Subst};
use salient_ir::op::{Binding, Notation};
use salient_ir::{Const, Graph, MapOp, NodeId, Op, Origin};

/// A use of a rule on the way to a fused operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WalkStep {
    /// The rule.
    pub rule: &'static str,
    /// What it found.
    pub before: String,
    /// What it put there.
    pub after: String,
    /// Where the source has the value.
    pub origin: Option<Origin>,
}

/// How deep values without a name are written out: the deepest of these with which a side is not too long.
const DEPTHS: [usize; 4] = [3, 2, 1, 0];

/// Characters of a side that is not too long.
const LONG: usize = 200;

/// What stands for what is deeper.
const CUT: &str = "…";

/// Writes terms of an e-graph in the names of the graph that it was filled with.
pub(crate) struct Walker<'a> {
    pub(crate) source: &'a Graph,
    pub(crate) classes: &'a Classes,
}

/// A term as it is written.
#[derive(Clone)]
struct Written {
    text: String,
    binding: Binding,
    /// What it is one divided by, as it stands below a line.
    below: Option<String>,
}

impl Written {
    fn atom(text: impl Into<String>) -> Written {
        Written::of(text, Binding::Atom)
    }

    fn of(text: impl Into<String>, binding: Binding) -> Written {
        Written { text: text.into(), binding, below: None }
    }

    /// As the first operand of what binds so: sums of sums and products of products need no parentheses there.
    fn inside_left(&self, outer: Binding) -> String {
        if self.binding == outer { self.text.clone() } else { self.inside(outer) }
    }

    /// As an operand of what binds so.
    fn inside(&self, outer: Binding) -> String {
        if self.binding > outer || self.binding == Binding::Atom {
            self.text.clone()
        } else {
            format!("({})", self.text)
        }
    }
}

impl Walker<'_> {
    /// The step that a use of a rule is.
    pub(crate) fn step(&self, rule: &Rule, used: &Application) -> WalkStep {
        let side = |ast, depth| self.instance(ast, &used.subst, depth).text;
        let sides = |depth| (side(&rule.left.ast, depth), side(&rule.right, depth));
        let mut tried = DEPTHS.iter().map(|depth| sides(*depth));
        let fits =
            |(before, after): &(String, String)| before.chars().count().max(after.chars().count()) <= LONG;
        let (before, after) = tried.find(fits).unwrap_or_else(|| sides(0));
        WalkStep { rule: rule.row.name, before, after, origin: self.origin(used) }
    }

    /// Where the source has the value, or else what is inside of it.
    fn origin(&self, used: &Application) -> Option<Origin> {
        let of = |class: &Id| {
            let id = self.source_of(*class)?;
            self.source.nearest_user(id, |node| node.origin.is_some())?.origin
        };
        of(&used.class).or_else(|| used.inside.iter().find_map(of))
    }

    fn source_of(&self, class: Id) -> Option<NodeId> {
        let at = self.classes[class].data.source?;
        self.source.ids().nth(at as usize)
    }

    /// A side of a rule with what its variables stand for.
    fn instance(&self, ast: &PatternAst<Term>, subst: &Subst, depth: usize) -> Written {
        let mut written: Vec<Written> = Vec::new();
        for node in ast.iter() {
            written.push(match node {
                ENodeOrVar::Var(var) => self.class(subst[*var], depth),
                ENodeOrVar::ENode(term) => {
                    let children: Vec<Written> =
                        term.children.iter().map(|c| written[usize::from(*c)].clone()).collect();
                    self.term(term.tag, &children)
                }
            });
        }
        written.pop().unwrap_or_else(|| Written::atom(CUT))
    }

    /// What a class is: a name of the source, or the way in which the source computes it, or one of its terms.
    fn class(&self, class: Id, depth: usize) -> Written {
        let class = &self.classes[class];
        if let Some(axis) = class.data.axis {
            return Written::atom(self.source.axis(axis).name.to_string());
        }
        if let Some(id) = class.data.source.and_then(|at| self.source.ids().nth(at as usize)) {
            return self.node(id, depth);
        }
        let Some(term) = class.nodes.iter().min_by_key(|term| term.children.len()).filter(|_| depth > 0)
        else {
            return Written::atom(CUT);
        };
        let children: Vec<Written> =
            term.children.iter().map(|child| self.class(*child, depth - 1)).collect();
        self.term(term.tag, &children)
    }

    /// A value of the source.
    fn node(&self, id: NodeId, depth: usize) -> Written {
        let g = self.source;
        if let Some(name) = &g.node(id).name {
            return Written::atom(name.to_string());
        }
        if let Some(port) = g.port(id) {
            return Written::atom(port.name.to_string());
        }
        let args = || -> Vec<Written> { g.args(id).iter().map(|arg| self.node(*arg, depth - 1)).collect() };
        let axis = |axis| Written::atom(g.axis(axis).name.to_string());
        let along = |along, tag| {
            let children: Vec<Written> = std::iter::once(axis(along)).chain(args()).collect();
            self.term(tag, &children)
        };
        match g.op(id) {
            Op::Const(value) => self.term(Tag::Const(*value), &[]),
            Op::Extent(dim) => Written::of(dim.to_string(), Binding::Sum),
            Op::Iota(along) => axis(*along),
            Op::Input(_) | Op::Param(_) => Written::atom(CUT),
            _ if depth == 0 => Written::atom(CUT),
            Op::Map(op) => self.term(Tag::Map(*op), &args()),
            Op::Reduce(op, at) => along(*at, Tag::Reduce(*op)),
            Op::At(at) => along(*at, Tag::At),
            Op::CumSum(direction, at) => along(*at, Tag::CumSum(*direction)),
            Op::Fused(op, at) => along(*at, Tag::Fused(*op)),
            Op::Concat(at, parts) => {
                let parts = parts.iter().map(|_| axis(*at));
                let children: Vec<Written> = std::iter::once(axis(*at)).chain(parts).chain(args()).collect();
                self.term(Tag::Concat, &children)
            }
        }
    }

    /// A term of parts that are written.
    fn term(&self, tag: Tag, children: &[Written]) -> Written {
        let list = |of: &[Written]| of.iter().map(|w| w.text.as_str()).collect::<Vec<_>>().join(", ");
        let along = |name: &str| match children {
            [axis, rest @ ..] => Written::atom(format!("{name}[{}]({})", axis.text, list(rest))),
            [] => Written::atom(name),
        };
        match tag {
            Tag::Axis(axis) => Written::atom(self.source.axis(axis).name.to_string()),
            Tag::Input(at) => Written::atom(self.source.inputs()[at as usize].name.to_string()),
            Tag::Param(at) => Written::atom(self.source.params()[at as usize].name.to_string()),
            Tag::Const(value) => literal(value),
            Tag::Extent(_) => Written::atom("extent"),
            Tag::Iota => children.first().cloned().unwrap_or_else(|| Written::atom("index")),
            Tag::Map(op) => map(op, children),
            Tag::Reduce(op) => along(op.info().name),
            Tag::CumSum(direction) => along(direction.name()),
            Tag::Fused(op) => along(op.info().name),
            Tag::At => match children {
                [axis, value, index] => {
                    Written::atom(format!("{}[{} = {}]", value.inside(Binding::Power), axis.text, index.text))
                }
                _ => Written::atom(CUT),
            },
            // The axis, that of each part, the parts.
            Tag::Concat => {
                Written::atom(format!("concat({})", list(&children[children.len().div_ceil(2)..])))
            }
        }
    }
}

fn literal(value: Const) -> Written {
    match value {
        Const::F32(bits) => {
            let x = f32::from_bits(bits);
            let binding = if x.is_sign_negative() { Binding::Sign } else { Binding::Atom };
            let text = if x.is_infinite() { x.to_string() } else { format!("{x:?}") };
            Written::of(text, binding)
        }
        Const::I32(n) => Written::atom(n.to_string()),
        Const::I64(n) => Written::atom(n.to_string()),
        Const::Bool(b) => Written::atom(b.to_string()),
    }
}

/// A scalar operator as the language writes it: a product with minus one is a negative, what is added to that is subtracted, and a
/// product with a reciprocal is a quotient.
fn map(op: MapOp, args: &[Written]) -> Written {
    let info = op.info();
    match (op, args) {
        (MapOp::Mul, [value, sign]) if sign.text == "-1.0" => {
            return map(MapOp::Neg, std::slice::from_ref(value));
        }
        (MapOp::Mul, [value, Written { below: Some(below), .. }]) => {
            let left = value.inside_left(Binding::Product);
            return Written::of(format!("{left} / {below}"), Binding::Product);
        }
        (MapOp::Add, [left, right]) if right.binding == Binding::Sign && right.text.starts_with('-') => {
            let left = left.inside_left(Binding::Sum);
            return Written::of(format!("{left} - {}", &right.text[1..]), Binding::Sum);
        }
        (MapOp::Recip, [value]) => {
            let below = value.inside(Binding::Product);
            let text = format!("1 / {below}");
            return Written { below: Some(below), ..Written::of(text, Binding::Product) };
        }
        _ => {}
    }
    match (info.notation, args) {
        (Notation::Choice, [when, yes, no]) => {
            let (yes, no) = (yes.inside(Binding::Choice), no.inside(Binding::Choice));
            Written::of(format!("if {} then {yes} else {no}", when.text), Binding::Choice)
        }
        (Notation::Sign(sign, binding), [left, right]) => {
            Written::of(format!("{} {sign} {}", left.inside_left(binding), right.inside(binding)), binding)
        }
        (Notation::Sign(sign, binding), [only]) => {
            let space = if sign.ends_with(char::is_alphabetic) { " " } else { "" };
            Written::of(format!("{sign}{space}{}", only.inside(binding)), binding)
        }
        (Notation::Function | Notation::Call | Notation::Choice | Notation::Sign(..), _) => {
            let list: Vec<&str> = args.iter().map(|arg| arg.text.as_str()).collect();
            Written::atom(format!("{}({})", info.name, list.join(", ")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn atom(text: &str) -> Written {
        Written::atom(text)
    }

    #[test]
    fn operands_stand_in_parentheses_where_they_bind_less() {
        let sum = map(MapOp::Add, &[atom("a"), atom("b")]);
        assert_eq!(sum.text, "a + b");
        assert_eq!(map(MapOp::Mul, &[sum.clone(), atom("c")]).text, "(a + b) * c");
        assert_eq!(map(MapOp::Add, &[sum.clone(), atom("c")]).text, "a + b + c");
        let minus = map(MapOp::Neg, &[atom("b")]);
        assert_eq!(map(MapOp::Add, &[atom("a"), minus]).text, "a - b");
        let quotient = map(MapOp::Mul, &[sum.clone(), map(MapOp::Recip, std::slice::from_ref(&sum))]);
        assert_eq!(quotient.text, "(a + b) / (a + b)");
        let negative = map(MapOp::Mul, &[sum.clone(), literal(Const::f32(-1.0))]);
        assert_eq!(map(MapOp::Add, &[atom("c"), negative]).text, "c - (a + b)");
        let choice = map(MapOp::Select, &[atom("keep"), sum, literal(Const::f32(f32::NEG_INFINITY))]);
        assert_eq!(choice.text, "if keep then a + b else -inf");
        assert_eq!(map(MapOp::Exp, &[choice]).text, "exp(if keep then a + b else -inf)");
    }
}
