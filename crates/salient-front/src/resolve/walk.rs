//! From syntax trees to definitions and uses.
//!
//! Scopes are those of lowering: a definition can be used behind its statement, up to the end of the body that it stands in.
//! An index is bound by the left side of a definition, by the brackets of a call, or by its first use in brackets.

mod expr;

use super::definitions::{Definition, DefinitionKind, Definitions, Import, Meaning, Use};
use crate::source::{Sources, Span};
use crate::syntax::ast::{
    Const, Expr, ExprKind, Extent, File, Function, Ident, Index, Item, Kind, Path, PathPart, Results, Stmt,
    StmtKind, Target, Type,
};
use crate::value::PARAMETERS;
use std::collections::BTreeMap;

/// The definitions and uses of the files of a program.
pub(crate) fn definitions(sources: &Sources, files: &[File]) -> Definitions {
    let mut walk = Walk {
        sources,
        out: Definitions::default(),
        functions: BTreeMap::new(),
        constants: BTreeMap::new(),
        taken: BTreeMap::new(),
        scopes: Vec::new(),
        indices: Vec::new(),
        axes: BTreeMap::new(),
        within: None,
    };
    let functions: Vec<&Function> = files.iter().flat_map(File::functions).collect();
    let numbers: Vec<usize> = functions.iter().map(|f| walk.declared(f)).collect();
    for item in files.iter().flat_map(|file| &file.items) {
        match item {
            Item::Import(text) => {
                walk.out.imports.push(Import { path: text.value.clone(), span: text.span });
            }
            Item::Const(c) => walk.constant(c),
            Item::Function(_) => {}
        }
    }
    for (f, number) in functions.into_iter().zip(numbers) {
        walk.function(f, number);
    }
    let mut out = walk.out;
    out.uses.sort_by_key(|u| u.span);
    out.uses.dedup();
    out
}

/// Names that initialisers know, and those that stand for values without being defined.
const WORDS: &[&str] = &["zeros", "ones", "normal", "uniform", "nan", "training", PARAMETERS];

/// Names of a body, with the place up to which they can be used.
struct Scope<'a> {
    names: BTreeMap<&'a str, usize>,
    end: Span,
}

struct Walk<'a> {
    sources: &'a Sources,
    out: Definitions,
    functions: BTreeMap<&'a str, (&'a Function, usize)>,
    constants: BTreeMap<&'a str, usize>,
    /// What the functions take, in brackets and in parentheses, by function and name.
    taken: BTreeMap<(usize, &'a str), usize>,
    scopes: Vec<Scope<'a>>,
    /// The indices in scope, the innermost last.
    indices: Vec<(&'a str, usize)>,
    /// What last gave an axis of the function a name.
    axes: BTreeMap<String, usize>,
    within: Option<usize>,
}

impl<'a> Walk<'a> {
    // ---- definitions

    /// A definition whose own name is its first use.
    fn add(
        &mut self,
        name: &str,
        kind: DefinitionKind,
        span: Span,
        whole: Span,
        scope: Option<Span>,
    ) -> usize {
        let number = self.out.all.len();
        let (name, within) = (name.to_owned(), self.within);
        self.out.all.push(Definition { name, kind, span, whole, scope, within });
        self.out.uses.push(Use { span, meaning: Meaning::Defined(number) });
        number
    }

    /// Declares a function and what it takes, so that calls before it know them.
    fn declared(&mut self, f: &'a Function) -> usize {
        let name = f.name.name.as_str();
        let whole = f.span.to(f.body_span);
        let number = self.add(name, DefinitionKind::Function(f.kind), f.name.span, whole, None);
        self.functions.insert(name, (f, number));
        self.within = Some(number);
        let here = Some(whole);
        for s in &f.statics {
            let kind = if s.axis { DefinitionKind::Axis } else { DefinitionKind::Static };
            let added = self.add(&s.name.name, kind, s.name.span, s.name.span, here);
            self.taken.insert((number, &s.name.name), added);
        }
        for p in &f.params {
            let whole = p.ty.as_ref().map_or(p.name.span, |ty| p.name.span.to(ty.span));
            let added = self.add(&p.name.name, DefinitionKind::Argument, p.name.span, whole, here);
            self.taken.insert((number, &p.name.name), added);
        }
        self.within = None;
        number
    }

    fn constant(&mut self, c: &'a Const) {
        self.expr(&c.value, false);
        let number =
            self.add(&c.name.name, DefinitionKind::Constant, c.name.span, c.name.span.to(c.value.span), None);
        self.constants.insert(&c.name.name, number);
    }

    /// A name of the innermost body, which can be used behind `whole`.
    fn define(&mut self, name: &'a Ident, kind: DefinitionKind, whole: Span) -> usize {
        let end = self.scopes.last().map_or(whole, |scope| scope.end);
        let scope = Span { start: whole.end.min(end.end), ..end };
        let number = self.add(&name.name, kind, name.span, whole, Some(scope));
        if let Some(scope) = self.scopes.last_mut() {
            scope.names.insert(&name.name, number);
        }
        number
    }

    /// An index that can be used in `scope`.
    fn index(&mut self, name: &'a str, span: Span, scope: Span) {
        let number = self.add(name, DefinitionKind::Index, span, scope, Some(scope));
        self.indices.push((name, number));
        self.axes.insert(name.to_owned(), number);
    }

    // ---- functions

    fn function(&mut self, f: &'a Function, number: usize) {
        self.within = Some(number);
        let whole = f.span.to(f.body_span);
        let taken = f.statics.iter().map(|s| &s.name).chain(f.params.iter().map(|p| &p.name));
        let taken =
            taken.filter_map(|n| Some((n.name.as_str(), *self.taken.get(&(number, n.name.as_str()))?)));
        self.scopes = vec![Scope { names: taken.collect(), end: whole }];
        self.indices.clear();
        self.axes.clear();
        for ty in f.params.iter().filter_map(|p| p.ty.as_ref()) {
            self.ty(ty, true);
        }
        f.statics.iter().filter_map(|s| s.default.as_ref()).for_each(|e| self.expr(e, false));
        f.params.iter().filter_map(|p| p.default.as_ref()).for_each(|e| self.expr(e, false));
        match &f.results {
            None => {}
            Some(Results::One(ty)) => self.ty(ty, f.kind == Kind::Model),
            Some(Results::Named(list)) => {
                for result in list {
                    self.ty(&result.ty, f.kind == Kind::Model);
                    result.path.iter().for_each(|path| self.path(path));
                    let (span, none) =
                        (result.name.span, Span { end: result.name.span.start, ..result.name.span });
                    self.add(
                        &result.name.name,
                        DefinitionKind::Result,
                        span,
                        span.to(result.ty.span),
                        Some(none),
                    );
                }
            }
        }
        self.statements(&f.body, f.kind == Kind::Model);
        self.scopes.clear();
        self.within = None;
    }

    /// A type; where it `binds`, names that are not known are dimensions.
    fn ty(&mut self, ty: &'a Type, binds: bool) {
        for extent in ty.shape.iter().flatten() {
            let Extent::Dim(axis, e) = extent else { continue };
            if binds {
                self.bind_dimensions(e);
            }
            self.expr(e, false);
            if let Some(axis) = axis {
                let scope = self.scopes.first().map(|scope| scope.end);
                let number = self.add(&axis.name, DefinitionKind::Index, axis.span, ty.span, scope);
                self.axes.insert(axis.name.clone(), number);
            } else if let ExprKind::Name(name) = &e.kind
                && let Some(number) = self.variable(name)
            {
                self.axes.insert(name.to_lowercase(), number);
            }
        }
    }

    fn bind_dimensions(&mut self, e: &'a Expr) {
        if let ExprKind::Name(name) = &e.kind
            && self.variable(name).is_none()
        {
            let span = self.place(e, name);
            let scope = self.scopes.first().map(|scope| scope.end);
            let number = self.add(name, DefinitionKind::Dimension, span, span, scope);
            if let Some(scope) = self.scopes.first_mut() {
                scope.names.insert(name, number);
            }
        }
        e.children().into_iter().for_each(|x| self.bind_dimensions(x));
    }

    // ---- statements

    fn body(&mut self, body: &'a [Stmt], end: Span, model: bool) {
        self.scopes.push(Scope { names: BTreeMap::new(), end });
        self.statements(body, model);
        self.scopes.pop();
    }

    fn statements(&mut self, body: &'a [Stmt], model: bool) {
        for stmt in body {
            self.statement(stmt, model);
        }
    }

    fn statement(&mut self, stmt: &'a Stmt, model: bool) {
        match &stmt.kind {
            StmtKind::Let(targets, value) => {
                self.right_side(targets, value, stmt.span);
                for target in targets {
                    self.define(&target.name, DefinitionKind::Value, stmt.span);
                }
            }
            StmtKind::Assign(targets, value) => {
                self.right_side(targets, value, stmt.span);
                for name in targets.iter().map(|target| &target.name) {
                    match self.variable(&name.name) {
                        Some(number) => self.uses(name.span, Meaning::Defined(number)),
                        None => {
                            self.define(name, DefinitionKind::Value, stmt.span);
                        }
                    }
                }
            }
            StmtKind::Param(p) => {
                self.ty(&p.ty, model);
                p.init.iter().for_each(|e| self.expr(e, false));
                p.path.iter().for_each(|path| self.path(path));
                self.define(&p.name, DefinitionKind::Parameter, stmt.span);
            }
            StmtKind::State(cells) => {
                for cell in cells {
                    self.ty(&cell.ty, true);
                    cell.init.iter().for_each(|e| self.expr(e, false));
                    cell.path.iter().for_each(|path| self.path(path));
                    self.define(&cell.name, DefinitionKind::State, stmt.span);
                }
            }
            StmtKind::Const(c) => {
                self.expr(&c.value, false);
                self.define(&c.name, DefinitionKind::Constant, stmt.span);
            }
            StmtKind::Require(condition, _) => self.expr(condition, false),
            StmtKind::For(range, body) => {
                self.expr(&range.low, false);
                self.expr(&range.high, false);
                self.scopes.push(Scope { names: BTreeMap::new(), end: stmt.span });
                self.define(&range.name, DefinitionKind::Loop, range.name.span);
                self.body(body, stmt.span, model);
                self.scopes.pop();
            }
            StmtKind::Each(each, body) => {
                self.expr(&each.of, false);
                self.scopes.push(Scope { names: BTreeMap::new(), end: stmt.span });
                for name in [&each.parameter, &each.gradient] {
                    self.define(name, DefinitionKind::Loop, name.span);
                }
                self.body(body, stmt.span, model);
                self.scopes.pop();
            }
            StmtKind::If(condition, then, otherwise) => {
                self.expr(condition, false);
                let end = otherwise.first().map_or(stmt.span.end, |first| first.span.start);
                self.body(then, Span { end, ..stmt.span }, model);
                self.body(otherwise, stmt.span, model);
            }
            StmtKind::Return(values) => values.iter().for_each(|e| self.root(e)),
        }
    }

    /// The value of a definition, with the indices of its left side.
    fn right_side(&mut self, targets: &'a [Target], value: &'a Expr, whole: Span) {
        let depth = self.indices.len();
        for index in targets.iter().flat_map(|t| t.indices.iter().flatten()) {
            if let Index::Name(name, extent) = index {
                extent.iter().for_each(|e| self.expr(e, false));
                self.index(&name.name, name.span, whole);
            }
        }
        targets.iter().filter_map(|t| t.ty.as_ref()).for_each(|ty| self.ty(ty, false));
        self.root(value);
        self.indices.truncate(depth);
    }

    fn path(&mut self, path: &'a Path) {
        for part in path.segments.iter().flatten() {
            if let PathPart::Hole(hole) = part {
                self.expr(hole, false);
            }
        }
    }

    // ---- names

    fn uses(&mut self, span: Span, meaning: Meaning) {
        self.out.uses.push(Use { span, meaning });
    }

    /// What is defined under a name in the function at hand, or as a constant.
    fn variable(&self, name: &str) -> Option<usize> {
        let local = self.scopes.iter().rev().find_map(|scope| scope.names.get(name));
        local.or_else(|| self.constants.get(name)).copied()
    }

    /// Where a name stands that is all of an expression: inside of its parentheses, if it has some.
    fn place(&self, e: &Expr, name: &str) -> Span {
        let text = self.sources.text(e.span);
        match text.find(name) {
            Some(at) if text.len() > name.len() => {
                let start = e.span.start + at as u32;
                Span { start, end: start + name.len() as u32, ..e.span }
            }
            Some(_) | None => e.span,
        }
    }
}
