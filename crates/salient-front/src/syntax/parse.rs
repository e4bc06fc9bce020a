//! Text to syntax tree, by the grammar in `grammar/salient.pest`.
//!
//! Decides precedence and refuses what is too large or too deeply nested *before* anything recurses over it. Says
//! nothing about meaning.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "over the grammar's rules: which of them can stand at a place is the grammar's decision"
)]

mod expr;
mod mistake;

use crate::diag::{Diagnostic, Severity};
use crate::habits;
use crate::source::{SourceFile, SourceId};
use crate::syntax::ast::*;
use crate::syntax::grammar::{Grammar, Rule};
use crate::syntax::{limits, slips};
use mistake::syntax_error;
use pest::Parser as _;
use pest::iterators::{Pair, Pairs};

type Piece<'i> = Pair<'i, Rule>;
type Result<T> = std::result::Result<T, Box<Diagnostic>>;

/// The syntax tree of a file, or every syntax error in it (one for each declaration that has one). It is parsed once.
pub fn parse(source: &SourceFile) -> std::result::Result<File, Vec<Diagnostic>> {
    source.parsed.get_or_init(|| parse_anew(source)).clone()
}

fn parse_anew(source: &SourceFile) -> std::result::Result<File, Vec<Diagnostic>> {
    let tokens = limits::check(source).map_err(|d| vec![*d])?;
    match Grammar::parse(Rule::file, &source.text) {
        Ok(pairs) => items(pairs, &Tree { source: source.id, offset: 0 }).map(|items| File { items }),
        Err(whole) => {
            let mut errors = item_errors(source, &tokens);
            if errors.is_empty() {
                errors.push(syntax_error(source, 0, &whole));
            }
            Err(errors)
        }
    }
}

/// The declarations of a file that parse, and the syntax errors of those that do not.
pub(crate) fn parse_in_part(source: &SourceFile) -> (File, Vec<Diagnostic>) {
    let errors = match parse(source) {
        Ok(file) => return (file, Vec::new()),
        Err(errors) => errors,
    };
    let mut file = File { items: Vec::new() };
    let Ok(tokens) = limits::check(source) else { return (file, errors) };
    let ends = tokens.item_starts.iter().skip(1).copied().chain([source.text.len()]);
    for (start, end) in tokens.item_starts.iter().copied().zip(ends) {
        if let Ok(pairs) = Grammar::parse(Rule::lone_item, &source.text[start..end]) {
            let found = items(pairs, &Tree { source: source.id, offset: start });
            file.items.extend(found.unwrap_or_default());
        }
    }
    (file, errors)
}

/// The declarations of a part of a file of that name that begins at byte `offset` of it, where the part is known to be well
/// formed: what else it is, is a single error.
pub(crate) fn parse_part(
    source: SourceId,
    name: &str,
    text: &str,
    offset: usize,
) -> std::result::Result<Vec<Item>, Vec<Diagnostic>> {
    match Grammar::parse(Rule::file, text) {
        Ok(pairs) => items(pairs, &Tree { source, offset }),
        Err(why) => Err(vec![Diagnostic::placeless(format!("{name}: {why}"))]),
    }
}

fn items(mut file: Pairs<'_, Rule>, tree: &Tree) -> std::result::Result<Vec<Item>, Vec<Diagnostic>> {
    let file = file.next().expect("a file is one piece");
    let items = file.into_inner().filter(|p| p.as_rule() != Rule::EOI).map(|p| tree.item(p));
    items.collect::<Result<Vec<Item>>>().map_err(|d| vec![*d])
}

/// A part of a file that does not parse, with what the grammar says of it.
struct Refused {
    part: std::ops::Range<usize>,
    error: pest::error::Error<Rule>,
}

/// Parses each declaration alone, so that one mistake does not hide the next. What is a habit from elsewhere is told as that.
fn item_errors(source: &SourceFile, tokens: &limits::Tokens) -> Vec<Diagnostic> {
    let mut errors = Vec::new();
    for neighbours in refused(source, tokens).chunk_by(|a, b| a.part.end == b.part.start) {
        let whole = neighbours[0].part.start..neighbours[neighbours.len() - 1].part.end;
        let mut found = habits::found(source, whole.clone());
        found.extend(slips::check(source).into_iter().filter_map(|d| slip_error(d, &whole)));
        let explained = |part: &std::ops::Range<usize>| {
            let mut places = found.iter().filter_map(|d| d.primary.as_ref().map(|(span, _)| span.range()));
            places.any(|place| place.start < part.end && part.start < place.end)
        };
        let others = neighbours.iter().filter(|r| !explained(&r.part));
        let others: Vec<_> = others.map(|r| syntax_error(source, r.part.start, &r.error)).collect();
        found.extend(others);
        found.sort_by_key(|d| d.primary.as_ref().map(|(span, _)| *span));
        errors.extend(found);
    }
    errors
}

/// A slip in a part that does not parse is why it does not.
fn slip_error(d: Diagnostic, part: &std::ops::Range<usize>) -> Option<Diagnostic> {
    let inside = d.primary.as_ref().is_some_and(|(span, _)| part.contains(&(span.start as usize)));
    inside.then_some(Diagnostic { severity: Severity::Error, ..d })
}

fn refused(source: &SourceFile, tokens: &limits::Tokens) -> Vec<Refused> {
    let starts = &tokens.item_starts;
    let mut out = Vec::new();
    let mut attempt = |rule: Rule, part: std::ops::Range<usize>| {
        if let Err(error) = Grammar::parse(rule, &source.text[part.clone()]) {
            out.push(Refused { part, error });
        }
    };
    let head = starts.first().copied().unwrap_or(source.text.len());
    if head > 0 || starts.is_empty() {
        attempt(Rule::file, 0..head);
    }
    for (n, start) in starts.iter().enumerate() {
        attempt(Rule::lone_item, *start..starts.get(n + 1).copied().unwrap_or(source.text.len()));
    }
    out
}

/// Where a piece ends: pest counts the white space before something optional that is not there.
fn end_of(piece: Piece<'_>) -> usize {
    let end = piece.as_span().end();
    match piece.as_rule() {
        Rule::body
        | Rule::call
        | Rule::brackets
        | Rule::statics
        | Rule::shape
        | Rule::indices
        | Rule::group
        | Rule::hole
        | Rule::named_results
        | Rule::string => end,
        Rule::item if piece.as_str().trim_end().ends_with(':') => {
            piece.as_span().start() + piece.as_str().trim_end().len()
        }
        _ => piece.into_inner().last().map_or(end, end_of),
    }
}

/// Pieces of the grammar to nodes of the tree. The grammar's sequences are invariants here: what it makes mandatory
/// is taken with `expect`.
struct Tree {
    source: SourceId,
    /// Where in the file the text begins.
    offset: usize,
}

fn inner(piece: Piece<'_>) -> Inner<'_> {
    Inner(piece.into_inner().peekable())
}

/// The pieces of a piece, taken by kind.
struct Inner<'i>(std::iter::Peekable<Pairs<'i, Rule>>);

impl<'i> Inner<'i> {
    fn next(&mut self) -> Piece<'i> {
        self.0.next().expect("the grammar makes this piece mandatory")
    }

    fn take(&mut self, rule: Rule) -> Option<Piece<'i>> {
        self.0.next_if(|p| p.as_rule() == rule)
    }

    fn skip(&mut self, rule: Rule) -> bool {
        self.take(rule).is_some()
    }
}

impl Tree {
    fn span(&self, piece: &Piece<'_>) -> Span {
        let at = |byte: usize| (self.offset + byte) as u32;
        Span { source: self.source, start: at(piece.as_span().start()), end: at(end_of(piece.clone())) }
    }

    fn ident(&self, piece: Piece<'_>) -> Ident {
        Ident { name: piece.as_str().to_owned(), span: self.span(&piece) }
    }

    fn docs(&self, pieces: &mut Inner<'_>) -> Vec<String> {
        std::iter::from_fn(|| pieces.take(Rule::doc))
            .map(|p| p.as_str().trim_start_matches('/').trim().to_owned())
            .collect()
    }

    fn text(&self, piece: Piece<'_>) -> Text {
        let span = self.span(&piece);
        Text { value: inner(piece).next().as_str().to_owned(), span }
    }

    fn item(&self, piece: Piece<'_>) -> Result<Item> {
        match piece.as_rule() {
            Rule::import => {
                let mut parts = inner(piece);
                parts.skip(Rule::kw_import);
                Ok(Item::Import(self.text(parts.next())))
            }
            Rule::constant => self.constant(piece).map(Item::Const),
            _ => self.function(piece).map(Item::Function),
        }
    }

    fn constant(&self, piece: Piece<'_>) -> Result<Const> {
        let mut parts = inner(piece);
        let docs = self.docs(&mut parts);
        parts.skip(Rule::kw_const);
        let name = self.ident(parts.next());
        Ok(Const { docs, name, value: self.expr(parts.next())? })
    }

    fn function(&self, piece: Piece<'_>) -> Result<Function> {
        let mut parts = inner(piece);
        let docs = self.docs(&mut parts);
        let kind_piece = parts.next();
        let start = self.span(&kind_piece);
        let kind = match inner(kind_piece).next().as_rule() {
            Rule::kw_model => Kind::Model,
            Rule::kw_block => Kind::Block,
            _ => Kind::Fn,
        };
        let name = self.ident(parts.next());
        let statics = match parts.take(Rule::statics) {
            Some(list) => list.into_inner().map(|p| self.static_param(p)).collect::<Result<_>>()?,
            None => Vec::new(),
        };
        let mut params = Vec::new();
        while let Some(p) = parts.take(Rule::parameter) {
            params.push(self.parameter(p)?);
        }
        let mut end = params.last().map_or(name.span, |p| p.name.span);
        let results = match parts.take(Rule::results) {
            Some(p) => {
                end = self.span(&p);
                Some(self.results(inner(p).next())?)
            }
            None => None,
        };
        let piece = parts.next();
        let (body_span, span) = (self.span(&piece), start.to(end));
        Ok(Function { docs, kind, name, statics, params, results, body: self.body(piece)?, span, body_span })
    }

    fn static_param(&self, piece: Piece<'_>) -> Result<Static> {
        let piece = inner(piece).next();
        let axis = piece.as_rule() == Rule::axis_static;
        let mut parts = inner(piece);
        parts.skip(Rule::kw_axis);
        let name = self.ident(parts.next());
        Ok(Static { name, axis, default: parts.take(Rule::expr).map(|p| self.expr(p)).transpose()? })
    }

    fn parameter(&self, piece: Piece<'_>) -> Result<Parameter> {
        let mut parts = inner(piece);
        let name = self.ident(parts.next());
        let ty = parts.take(Rule::ty).map(|p| self.ty(p)).transpose()?;
        let default = parts.take(Rule::expr).map(|p| self.expr(p)).transpose()?;
        Ok(Parameter { name, ty, default })
    }

    fn results(&self, piece: Piece<'_>) -> Result<Results> {
        if piece.as_rule() == Rule::ty {
            return self.ty(piece).map(Results::One);
        }
        let named = |p: Piece<'_>| {
            let mut parts = inner(p);
            let (name, ty) = (self.ident(parts.next()), self.ty(parts.next())?);
            let path = parts.take(Rule::renamed).map(|p| self.renamed(p)).transpose()?;
            Ok(NamedResult { name, ty, path })
        };
        piece.into_inner().map(named).collect::<Result<_>>().map(Results::Named)
    }

    fn ty(&self, piece: Piece<'_>) -> Result<Type> {
        let span = self.span(&piece);
        let mut parts = inner(piece);
        let name = self.ident(parts.next());
        let extent = |p: Piece<'_>| {
            let mut parts = inner(p);
            let name = parts.take(Rule::axis_name).map(|p| self.ident(inner(p).next()));
            let p = parts.next();
            match p.as_rule() {
                Rule::rest => Ok(Extent::Rest(self.span(&p))),
                _ => self.expr(p).map(|e| Extent::Dim(name, e)),
            }
        };
        let shape = match parts.take(Rule::shape) {
            Some(list) => Some(list.into_inner().map(extent).collect::<Result<Vec<_>>>()?),
            None => None,
        };
        Ok(Type { name, shape, span })
    }

    // ---- statements

    fn body(&self, piece: Piece<'_>) -> Result<Vec<Stmt>> {
        piece.into_inner().map(|p| self.stmt(p)).collect()
    }

    fn stmt(&self, piece: Piece<'_>) -> Result<Stmt> {
        let span = self.span(&piece);
        let rule = piece.as_rule();
        if rule == Rule::constant {
            return Ok(Stmt { kind: StmtKind::Const(self.constant(piece)?), span });
        }
        let mut parts = inner(piece);
        let kind = match rule {
            Rule::let_stmt => {
                parts.skip(Rule::kw_let);
                let targets = self.targets(&mut parts)?;
                StmtKind::Let(targets, self.expr(parts.next())?)
            }
            Rule::assign_stmt => {
                let targets = self.targets(&mut parts)?;
                StmtKind::Assign(targets, self.expr(parts.next())?)
            }
            Rule::param_stmt => StmtKind::Param(self.param(parts)?),
            Rule::state_stmt => {
                self.docs(&mut parts);
                parts.skip(Rule::kw_state);
                let mut cells = Vec::new();
                while let Some(cell) = parts.take(Rule::cell) {
                    let mut cell = inner(cell);
                    let (name, ty) = (self.ident(cell.next()), self.ty(cell.next())?);
                    let (init, path) = self.beginning(&mut cell)?;
                    cells.push(Cell { name, ty, init, path });
                }
                StmtKind::State(cells)
            }
            Rule::require_stmt => {
                parts.skip(Rule::kw_require);
                let condition = self.expr(parts.next())?;
                StmtKind::Require(condition, parts.take(Rule::string).map(|p| self.text(p)))
            }
            Rule::for_stmt => {
                parts.skip(Rule::kw_for);
                match parts.take(Rule::each) {
                    Some(each) => StmtKind::Each(self.each(each)?, self.body(parts.next())?),
                    None => StmtKind::For(self.range(parts.next())?, self.body(parts.next())?),
                }
            }
            Rule::if_stmt => {
                parts.skip(Rule::kw_if);
                let condition = self.expr(parts.next())?;
                let then = self.body(parts.next())?;
                let otherwise = if parts.skip(Rule::kw_else) {
                    let last = parts.next();
                    match last.as_rule() {
                        Rule::if_stmt => vec![self.stmt(last)?],
                        _ => self.body(last)?,
                    }
                } else {
                    Vec::new()
                };
                StmtKind::If(condition, then, otherwise)
            }
            _ => {
                parts.skip(Rule::kw_return);
                StmtKind::Return(parts.0.map(|p| self.expr(p)).collect::<Result<_>>()?)
            }
        };
        Ok(Stmt { kind, span })
    }

    fn targets(&self, parts: &mut Inner<'_>) -> Result<Vec<Target>> {
        let mut out = Vec::new();
        while let Some(p) = parts.take(Rule::target) {
            let mut parts = inner(p);
            let name = self.ident(parts.next());
            let indices = match parts.take(Rule::indices) {
                Some(list) => Some(list.into_inner().map(|p| self.index(p)).collect::<Result<_>>()?),
                None => None,
            };
            let ty = parts.take(Rule::ty).map(|p| self.ty(p)).transpose()?;
            out.push(Target { name, indices, ty });
        }
        Ok(out)
    }

    fn index(&self, piece: Piece<'_>) -> Result<Index> {
        let mut parts = inner(piece);
        let first = parts.next();
        match first.as_rule() {
            Rule::rest => Ok(Index::Rest(self.span(&first))),
            Rule::unit => Ok(Index::Unit(self.span(&first))),
            _ => {
                let extent = parts.take(Rule::expr).map(|p| self.expr(p)).transpose()?;
                Ok(Index::Name(self.ident(first), extent))
            }
        }
    }

    fn param(&self, mut parts: Inner<'_>) -> Result<Param> {
        let docs = self.docs(&mut parts);
        parts.skip(Rule::kw_param);
        let name = self.ident(parts.next());
        let ty = self.ty(parts.next())?;
        let (init, path) = self.beginning(&mut parts)?;
        Ok(Param { docs, name, ty, init, path })
    }

    /// How what is stored begins, and its path.
    fn beginning(&self, parts: &mut Inner<'_>) -> Result<(Option<Expr>, Option<Path>)> {
        let init = parts.take(Rule::expr).map(|p| self.expr(p)).transpose()?;
        let path = parts.take(Rule::renamed).map(|p| self.renamed(p)).transpose()?;
        // `= zeros as a.b`: the path belongs to what is declared, not to its initialiser.
        match init {
            Some(Expr { kind: ExprKind::As(value, own), .. }) => Ok((Some(*value), Some(own))),
            init => Ok((init, path)),
        }
    }

    fn each(&self, piece: Piece<'_>) -> Result<Each> {
        let mut parts = inner(piece);
        let (parameter, gradient) = (self.ident(parts.next()), self.ident(parts.next()));
        parts.skip(Rule::kw_in);
        Ok(Each { parameter, gradient, of: self.expr(parts.next())? })
    }

    fn range(&self, piece: Piece<'_>) -> Result<Range> {
        let mut parts = inner(piece);
        let name = self.ident(parts.next());
        parts.skip(Rule::kw_in);
        Ok(Range { name, low: self.expr(parts.next())?, high: self.expr(parts.next())? })
    }
}
