//! Expressions: operators by precedence, brackets, calls.

use super::{Piece, Result, Tree, inner};
use crate::diag::Diagnostic;
use crate::source::Span;
use crate::syntax::ast::*;
use crate::syntax::grammar::Rule;
use crate::syntax::limits;
use pest::pratt_parser::{Assoc, Op, PrattParser};
use std::sync::LazyLock;

/// Loosest first.
static PRECEDENCE: LazyLock<PrattParser<Rule>> = LazyLock::new(|| {
    let left = |rule| Op::infix(rule, Assoc::Left);
    PrattParser::new()
        .op(left(Rule::or))
        .op(left(Rule::and))
        .op(Op::prefix(Rule::not))
        .op(left(Rule::le)
            | left(Rule::ge)
            | left(Rule::eq)
            | left(Rule::ne)
            | left(Rule::lt)
            | left(Rule::gt))
        .op(left(Rule::add) | left(Rule::sub))
        .op(left(Rule::mul) | left(Rule::div) | left(Rule::rem) | left(Rule::matmul))
        .op(Op::prefix(Rule::neg))
        .op(Op::infix(Rule::pow, Assoc::Right))
        .op(Op::postfix(Rule::call)
            | Op::postfix(Rule::brackets)
            | Op::postfix(Rule::transpose)
            | Op::postfix(Rule::renamed))
});

/// An expression on its way, with what its text alone says about it.
struct Built {
    expr: Expr,
    depth: usize,
    /// Whether it is a comparison without parentheses, to which another one may be chained.
    open_compare: bool,
}

impl Tree {
    pub(super) fn expr(&self, piece: Piece<'_>) -> Result<Expr> {
        self.built(piece).map(|b| b.expr)
    }

    fn built(&self, piece: Piece<'_>) -> Result<Built> {
        PRECEDENCE
            .map_primary(|p| self.primary(p))
            .map_prefix(|op, value| {
                let sign = match op.as_rule() {
                    Rule::neg => UnaryOp::Neg,
                    _ => UnaryOp::Not,
                };
                let (start, value) = (self.span(&op), value?);
                let span = start.to(value.expr.span);
                self.grown(ExprKind::Unary(sign, Box::new(value.expr)), span, value.depth)
            })
            .map_postfix(|value, op| self.postfix(value?, op))
            .map_infix(|left, op, right| self.infix(left?, &op, right?))
            .parse(piece.into_inner())
    }

    /// A node over parts of that depth.
    fn grown(&self, kind: ExprKind, span: Span, depth: usize) -> Result<Built> {
        if depth >= limits::MAX_OPERATORS {
            return Err(Diagnostic::error(span, "this expression has too many operators")
                .saying(format!("more than {} on top of each other", limits::MAX_OPERATORS))
                .help("give parts of it names of their own with `let`")
                .into());
        }
        Ok(Built { expr: Expr { kind, span }, depth: depth + 1, open_compare: false })
    }

    fn infix(&self, left: Built, op: &Piece<'_>, right: Built) -> Result<Built> {
        let span = left.expr.span.to(right.expr.span);
        let depth = left.depth.max(right.depth);
        let op = match op.as_rule() {
            Rule::or => BinaryOp::Or,
            Rule::and => BinaryOp::And,
            Rule::add => BinaryOp::Add,
            Rule::sub => BinaryOp::Sub,
            Rule::mul => BinaryOp::Mul,
            Rule::div => BinaryOp::Div,
            Rule::rem => BinaryOp::Rem,
            Rule::pow => BinaryOp::Pow,
            Rule::matmul => BinaryOp::MatMul,
            Rule::lt => return self.compare(left, CompareOp::Lt, right),
            Rule::le => return self.compare(left, CompareOp::Le, right),
            Rule::gt => return self.compare(left, CompareOp::Gt, right),
            Rule::ge => return self.compare(left, CompareOp::Ge, right),
            Rule::eq => return self.compare(left, CompareOp::Eq, right),
            _ => return self.compare(left, CompareOp::Ne, right),
        };
        self.grown(ExprKind::Binary(op, Box::new(left.expr), Box::new(right.expr)), span, depth)
    }

    fn compare(&self, left: Built, op: CompareOp, right: Built) -> Result<Built> {
        let span = left.expr.span.to(right.expr.span);
        let depth = left.depth.max(right.depth);
        let kind = match left.expr {
            Expr { kind: ExprKind::Compare(first, mut rest), .. } if left.open_compare => {
                rest.push((op, right.expr));
                ExprKind::Compare(first, rest)
            }
            first => ExprKind::Compare(Box::new(first), vec![(op, right.expr)]),
        };
        Ok(Built { open_compare: true, ..self.grown(kind, span, depth)? })
    }

    fn postfix(&self, value: Built, op: Piece<'_>) -> Result<Built> {
        let span = value.expr.span.to(self.span(&op));
        let target = Box::new(value.expr);
        let kind = match op.as_rule() {
            Rule::call => {
                ExprKind::Call(target, op.into_inner().map(|p| self.argument(p)).collect::<Result<_>>()?)
            }
            Rule::brackets => {
                ExprKind::Brackets(target, op.into_inner().map(|p| self.bracket(p)).collect::<Result<_>>()?)
            }
            Rule::transpose => ExprKind::Transpose(target),
            _ => ExprKind::As(target, self.renamed(op)?),
        };
        self.grown(kind, span, value.depth)
    }

    fn argument(&self, piece: Piece<'_>) -> Result<Argument> {
        let mut parts = inner(piece);
        let name = parts.take(Rule::named).map(|p| self.ident(inner(p).next()));
        let value = self.expr(parts.next())?;
        parts.skip(Rule::kw_for);
        let each = parts.take(Rule::range).map(|p| self.range(p)).transpose()?;
        Ok(Argument { name, value, each })
    }

    fn bracket(&self, piece: Piece<'_>) -> Result<Bracket> {
        let span = self.span(&piece);
        let mut parts = inner(piece);
        if parts.skip(Rule::rest) {
            return Ok(Bracket::Rest(span));
        }
        if parts.skip(Rule::unit) {
            return Ok(Bracket::Unit(span));
        }
        let name = parts.take(Rule::named).map(|p| self.ident(inner(p).next()));
        let first = parts.take(Rule::expr).map(|p| self.expr(p)).transpose()?;
        let colon = parts.skip(Rule::colon);
        let last = parts.take(Rule::expr).map(|p| self.expr(p)).transpose()?;
        match (name, first, colon) {
            (Some(name), Some(value), false) => Ok(Bracket::Named(name, value)),
            (Some(name), _, _) => {
                Err(Diagnostic::error(name.span.to(span), "a named argument takes a value, not a range")
                    .into())
            }
            (None, Some(value), false) => Ok(Bracket::Value(value)),
            (None, first, _) => Ok(Bracket::Colon(first, last, span)),
        }
    }

    pub(super) fn renamed(&self, piece: Piece<'_>) -> Result<Path> {
        let mut parts = inner(piece);
        parts.skip(Rule::kw_as);
        self.segments(parts.next())
    }

    /// The segments of a path or of a pattern of paths.
    fn segments(&self, path: Piece<'_>) -> Result<Path> {
        let span = self.span(&path);
        let part = |p: Piece<'_>| match p.as_rule() {
            Rule::hole => self.expr(inner(p).next()).map(PathPart::Hole),
            _ => Ok(PathPart::Text(p.as_str().to_owned())),
        };
        let segments =
            path.into_inner().map(|s| s.into_inner().map(part).collect()).collect::<Result<Vec<_>>>()?;
        Ok(Path { segments, span })
    }

    fn primary(&self, piece: Piece<'_>) -> Result<Built> {
        let span = self.span(&piece);
        let text = piece.as_str();
        let leaf = |kind| Ok(Built { expr: Expr { kind, span }, depth: 1, open_compare: false });
        match piece.as_rule() {
            Rule::group => {
                let built = self.built(inner(piece).next())?;
                Ok(Built { expr: Expr { span, ..built.expr }, open_compare: false, ..built })
            }
            Rule::choice => {
                let mut parts = inner(piece);
                parts.skip(Rule::kw_if);
                let condition = self.built(parts.next())?;
                parts.skip(Rule::kw_then);
                let then = self.built(parts.next())?;
                parts.skip(Rule::kw_else);
                let otherwise = self.built(parts.next())?;
                let depth = condition.depth.max(then.depth).max(otherwise.depth);
                let parts = [condition, then, otherwise].map(|b| Box::new(b.expr));
                let [condition, then, otherwise] = parts;
                self.grown(ExprKind::If(condition, then, otherwise), span, depth)
            }
            Rule::int => match text.replace('_', "").parse() {
                Ok(value) => leaf(ExprKind::Int(value)),
                Err(_) => Err(Diagnostic::error(span, format!("`{text}` is too large for an integer"))
                    .note("integers have 64 bits")
                    .into()),
            },
            Rule::float => {
                let value: f64 = text.replace('_', "").parse().expect("the grammar's floats are Rust's");
                if value.is_infinite() {
                    return Err(Diagnostic::error(span, format!("`{text}` is too large for a number"))
                        .help("infinity is written `inf`")
                        .into());
                }
                leaf(ExprKind::Float(value))
            }
            Rule::truth => leaf(ExprKind::Bool(text == "true")),
            Rule::infinity => leaf(ExprKind::Infinity),
            Rule::selection => leaf(ExprKind::Selection(self.segments(piece)?)),
            Rule::string => leaf(ExprKind::Text(inner(piece).next().as_str().to_owned())),
            _ => leaf(ExprKind::Name(text.to_owned())),
        }
    }
}
