//! Names in functions that nothing calls: what lowering never reaches is still read once.
//!
//! Only asks whether a name means anything. Lowering decides what, and says it better where it comes by.

use crate::diag::{Diagnostic, did_you_mean};
use crate::habits;
use crate::program::Program;
use crate::syntax::ast::{Argument, Bracket, Expr, ExprKind, Extent, Function, Index, Kind};
use crate::syntax::ast::{Results, Scoping, Stmt, StmtKind, Type};
use crate::value::{Builtin, PARAMETERS};
use std::collections::BTreeSet;

/// The unknown names of a function.
pub(crate) fn check<'a>(program: &Program<'a>, f: &'a Function) -> Vec<Diagnostic> {
    let mut names = Names { program, known: BTreeSet::new(), errors: Vec::new() };
    names.function(f);
    names.errors
}

struct Names<'a, 'p> {
    program: &'p Program<'a>,
    /// Every name that the function has defined so far, wherever: scopes are lowering's business.
    known: BTreeSet<&'a str>,
    errors: Vec<Diagnostic>,
}

/// Names that initialisers know.
const INITIALISERS: &[&str] = &["zeros", "ones", "normal", "uniform"];

impl<'a> Names<'a, '_> {
    fn function(&mut self, f: &'a Function) {
        for s in &f.statics {
            self.known.insert(&s.name.name);
        }
        for p in &f.params {
            self.known.insert(&p.name.name);
            p.ty.iter().for_each(|ty| self.dimensions(ty));
        }
        if f.kind == Kind::Model {
            match &f.results {
                None => {}
                Some(Results::One(ty)) => self.dimensions(ty),
                Some(Results::Named(list)) => list.iter().for_each(|result| self.dimensions(&result.ty)),
            }
        }
        for e in f.statics.iter().filter_map(|s| s.default.as_ref()) {
            self.expr(e, false);
        }
        for e in f.params.iter().filter_map(|p| p.default.as_ref()) {
            self.expr(e, false);
        }
        self.body(&f.body);
    }

    /// The names in a type bind what is not bound yet.
    fn dimensions(&mut self, ty: &'a Type) {
        for extent in ty.shape.iter().flatten() {
            if let Extent::Dim(_, e) = extent {
                self.bind_all(e);
            }
        }
    }

    fn bind_all(&mut self, e: &'a Expr) {
        if let ExprKind::Name(name) = &e.kind {
            self.known.insert(name);
        }
        e.children().into_iter().for_each(|x| self.bind_all(x));
    }

    fn body(&mut self, body: &'a [Stmt]) {
        for stmt in body {
            self.stmt(stmt);
        }
    }

    fn stmt(&mut self, stmt: &'a Stmt) {
        match &stmt.kind {
            StmtKind::Let(targets, value) | StmtKind::Assign(targets, value) => {
                let before = self.known.clone();
                for index in targets.iter().flat_map(|t| t.indices.iter().flatten()) {
                    if let Index::Name(name, extent) = index {
                        extent.iter().for_each(|e| self.expr(e, false));
                        self.known.insert(&name.name);
                    }
                }
                self.expr(value, false);
                self.known = before;
                self.known.extend(targets.iter().map(|t| t.name.name.as_str()));
            }
            StmtKind::Param(p) => {
                self.dimensions(&p.ty);
                p.init.iter().for_each(|e| self.expr(e, false));
                self.known.insert(&p.name.name);
            }
            StmtKind::State(cells) => {
                for cell in cells {
                    self.dimensions(&cell.ty);
                    cell.init.iter().for_each(|e| self.expr(e, false));
                    self.known.insert(&cell.name.name);
                }
            }
            StmtKind::Const(c) => {
                self.expr(&c.value, false);
                self.known.insert(&c.name.name);
            }
            StmtKind::Require(condition, _) => self.expr(condition, false),
            StmtKind::For(range, body) => {
                self.expr(&range.low, false);
                self.expr(&range.high, false);
                self.known.insert(&range.name.name);
                self.body(body);
            }
            StmtKind::Each(each, body) => {
                self.expr(&each.of, false);
                self.known.extend([each.parameter.name.as_str(), each.gradient.name.as_str()]);
                self.body(body);
            }
            StmtKind::If(condition, then, otherwise) => {
                self.expr(condition, false);
                self.body(then);
                self.body(otherwise);
            }
            StmtKind::Return(values) => values.iter().for_each(|e| self.expr(e, false)),
        }
    }

    /// `inside` brackets an unknown name in lower case may be a free index.
    fn expr(&mut self, e: &'a Expr, inside: bool) {
        match e.scoping() {
            Scoping::Name(name) => self.name(e, name, inside),
            Scoping::Call(target, args) => {
                self.expr(target, inside);
                let before = self.known.clone();
                if let ExprKind::Brackets(_, items) = &target.kind {
                    self.known.extend(items.iter().filter_map(bound_name));
                }
                args.iter().for_each(|arg| self.argument(arg, inside));
                self.known = before;
            }
            Scoping::Brackets(target, items) => {
                self.expr(target, inside);
                for item in items {
                    match item {
                        Bracket::Value(x) | Bracket::Named(_, x) => self.expr(x, true),
                        Bracket::Colon(a, b, _) => a.iter().chain(b).for_each(|x| self.expr(x, true)),
                        Bracket::Rest(_) | Bracket::Unit(_) => {}
                    }
                }
            }
            Scoping::As(x, path) => {
                self.expr(x, inside);
                path.holes().for_each(|hole| self.expr(hole, false));
            }
            Scoping::Made => e.children().into_iter().for_each(|x| self.expr(x, inside)),
        }
    }

    fn argument(&mut self, arg: &'a Argument, inside: bool) {
        if let Some(range) = &arg.each {
            self.expr(&range.low, false);
            self.expr(&range.high, false);
            self.known.insert(&range.name.name);
        }
        self.expr(&arg.value, inside);
    }

    fn name(&mut self, e: &Expr, name: &str, inside: bool) {
        let index = inside && name.starts_with(|c: char| c.is_ascii_lowercase());
        let constant = self.program.constants.iter().any(|c| c.name.name == name);
        let known = index
            || constant
            || self.known.contains(name)
            || self.program.function(name).is_some()
            || Builtin::from_name(name).is_some()
            || name == "nan"
            || name == "training"
            || name == PARAMETERS
            || INITIALISERS.contains(&name);
        // A free index may also stand outside brackets, behind its first use: too short to be a slip of the pen.
        if known || name.len() == 1 && name.starts_with(|c: char| c.is_ascii_lowercase()) {
            return;
        }
        let candidates = self.known.iter().copied().chain(self.program.function_names());
        self.errors.push(
            Diagnostic::error(e.span, format!("`{name}` is not known"))
                .saying("nothing of this name is in scope")
                .help_if(habits::of_name(name).or_else(|| did_you_mean(name, candidates))),
        );
    }
}

/// The index that an item in the brackets of a call may bind.
fn bound_name(item: &Bracket) -> Option<&str> {
    match item {
        Bracket::Value(Expr { kind: ExprKind::Name(name), .. })
        | Bracket::Named(_, Expr { kind: ExprKind::Name(name), .. })
        | Bracket::Colon(Some(Expr { kind: ExprKind::Name(name), .. }), Some(_), _) => Some(name),
        Bracket::Value(_) | Bracket::Named(..) | Bracket::Colon(..) | Bracket::Rest(_) | Bracket::Unit(_) => {
            None
        }
    }
}
