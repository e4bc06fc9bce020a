//! What is declared and never used, by the text alone: arguments, what stands in brackets, parameters and imports.
//!
//! The text decides, and not what a compilation reads: a branch that is not taken uses its names too.

use crate::diag::Diagnostic;
use crate::source::{SourceFile, Span};
use crate::syntax::ast::{Expr, ExprKind, Extent, File, Function, Ident, Index, Item, Kind, Results};
use crate::syntax::ast::{Path, Range, Scoping, Stmt, StmtKind, Target, Type};
use crate::syntax::grammar::Rule;
use crate::syntax::tokens::tokens;
use std::collections::BTreeSet;

/// What a function takes or owns and does not use. The inputs of a model are read or not where it is lowered.
pub(crate) fn of_function(f: &Function) -> Vec<Diagnostic> {
    let mut uses = Uses::default();
    uses.function(f);
    let Uses { names, params } = uses;
    let mut out = Vec::new();
    let mut tell = |what: &str, name: &Ident| {
        if !names.contains(name.name.as_str()) && !name.name.starts_with('_') && !name.name.contains('.') {
            out.push(Diagnostic::warning(name.span, format!("{what} `{}` is never used", name.name)));
        }
    };
    f.statics.iter().filter(|s| !s.axis).for_each(|s| tell("the value in brackets", &s.name));
    if f.kind != Kind::Model {
        // An argument whose type names dimensions may be there for its shape.
        let for_shape =
            |ty: &Type| ty.shape.iter().flatten().any(|e| dimension(e).is_some_and(|d| names.contains(d)));
        let read = f.params.iter().filter(|p| !p.ty.as_ref().is_some_and(for_shape));
        read.for_each(|p| tell("the argument", &p.name));
    }
    params.into_iter().for_each(|name| tell("the parameter", name));
    out
}

/// The name of a dimension, if it is nothing else.
fn dimension(extent: &Extent) -> Option<&str> {
    match extent {
        Extent::Dim(_, Expr { kind: ExprKind::Name(name), .. }) => Some(name),
        Extent::Dim(..) | Extent::Rest(_) => None,
    }
}

/// The names that a function uses, and the parameters that it owns.
#[derive(Default)]
struct Uses<'a> {
    names: BTreeSet<&'a str>,
    params: Vec<&'a Ident>,
}

impl<'a> Uses<'a> {
    fn function(&mut self, f: &'a Function) {
        f.statics.iter().filter_map(|s| s.default.as_ref()).for_each(|e| self.expr(e));
        f.params.iter().filter_map(|p| p.default.as_ref()).for_each(|e| self.expr(e));
        // A dimension that only the types of arguments name is bound there, and used if a value in brackets has that name.
        let types = f.params.iter().filter_map(|p| p.ty.as_ref());
        let given = |name: &str| f.statics.iter().any(|s| s.name.name == name);
        for name in types.flat_map(|ty| ty.shape.iter().flatten()).filter_map(dimension).filter(|n| given(n))
        {
            self.names.insert(name);
        }
        match &f.results {
            None => {}
            Some(Results::One(ty)) => self.ty(ty),
            Some(Results::Named(list)) => list.iter().for_each(|result| self.ty(&result.ty)),
        }
        for ty in f.params.iter().filter_map(|p| p.ty.as_ref()) {
            let composite = ty.shape.iter().flatten().filter(|e| dimension(e).is_none());
            composite.for_each(|e| self.extent(e));
        }
        self.body(&f.body);
    }

    fn ty(&mut self, ty: &'a Type) {
        ty.shape.iter().flatten().for_each(|e| self.extent(e));
    }

    fn extent(&mut self, extent: &'a Extent) {
        if let Extent::Dim(_, e) = extent {
            self.expr(e);
        }
    }

    fn body(&mut self, body: &'a [Stmt]) {
        for stmt in body {
            match &stmt.kind {
                StmtKind::Let(targets, value) | StmtKind::Assign(targets, value) => {
                    targets.iter().for_each(|t| self.target(t));
                    self.expr(value);
                }
                StmtKind::Param(p) => {
                    self.params.push(&p.name);
                    self.ty(&p.ty);
                    p.init.iter().for_each(|e| self.expr(e));
                    p.path.iter().for_each(|path| self.path(path));
                }
                StmtKind::State(cells) => {
                    for cell in cells {
                        self.ty(&cell.ty);
                        cell.init.iter().for_each(|e| self.expr(e));
                        cell.path.iter().for_each(|path| self.path(path));
                    }
                }
                StmtKind::Const(c) => self.expr(&c.value),
                StmtKind::Require(condition, _) => self.expr(condition),
                StmtKind::For(range, body) => {
                    self.range(range);
                    self.body(body);
                }
                StmtKind::Each(each, body) => {
                    self.expr(&each.of);
                    self.body(body);
                }
                StmtKind::If(condition, then, otherwise) => {
                    self.expr(condition);
                    self.body(then);
                    self.body(otherwise);
                }
                StmtKind::Return(values) => values.iter().for_each(|e| self.expr(e)),
            }
        }
    }

    fn target(&mut self, target: &'a Target) {
        for index in target.indices.iter().flatten() {
            if let Index::Name(_, Some(extent)) = index {
                self.expr(extent);
            }
        }
        target.ty.iter().for_each(|ty| self.ty(ty));
    }

    fn range(&mut self, range: &'a Range) {
        self.expr(&range.low);
        self.expr(&range.high);
    }

    fn path(&mut self, path: &'a Path) {
        path.holes().for_each(|hole| self.expr(hole));
    }

    fn expr(&mut self, e: &'a Expr) {
        match e.scoping() {
            Scoping::Name(name) => {
                self.names.insert(name);
            }
            Scoping::As(_, path) => self.path(path),
            Scoping::Call(_, args) => args.iter().filter_map(|a| a.each.as_ref()).for_each(|r| self.range(r)),
            Scoping::Made | Scoping::Brackets(..) => {}
        }
        e.children().into_iter().for_each(|x| self.expr(x));
    }
}

/// The imports of whose files nothing is used: neither of theirs nor of those that they import.
pub(crate) fn imports(files: &[(&SourceFile, &File)]) -> Vec<Diagnostic> {
    let mut out = Vec::new();
    for (source, file) in files {
        // A file without imports has none in vain, and one that declares nothing passes on what it imports.
        let imports = file.items.iter().filter(|item| matches!(item, Item::Import(_))).count();
        if imports == 0 || imports == file.items.len() {
            continue;
        }
        let words: BTreeSet<&str> =
            tokens(&source.text).iter().filter(|t| t.rule == Rule::word).map(|t| t.text).collect();
        for (target, span) in imported(file) {
            let mut known = BTreeSet::new();
            let found = declared(files, &beside(source, target), &mut known);
            if found.is_some_and(|names| names.is_disjoint(&words)) {
                let d = Diagnostic::warning(span, format!("nothing of `{target}` is used"));
                out.push(d.help("leave the import out"));
            }
        }
    }
    out
}

fn imported(file: &File) -> impl Iterator<Item = (&str, Span)> {
    file.items.iter().filter_map(|item| match item {
        Item::Import(text) => Some((text.value.as_str(), text.span)),
        Item::Const(_) | Item::Function(_) => None,
    })
}

/// The name of a file that another imports, as whoever reads the files gives it.
fn beside(source: &SourceFile, target: &str) -> String {
    let folder = std::path::Path::new(&source.name).parent().unwrap_or(std::path::Path::new(""));
    folder.join(target).display().to_string()
}

/// What a file declares, and what those declare that it imports; none if the file is not known by this name.
fn declared<'a>(
    files: &[(&'a SourceFile, &'a File)],
    name: &str,
    known: &mut BTreeSet<String>,
) -> Option<BTreeSet<&'a str>> {
    let (source, file) = files.iter().find(|(source, _)| source.name == name)?;
    let mut out = BTreeSet::new();
    if !known.insert(name.to_owned()) {
        return Some(out);
    }
    for item in &file.items {
        match item {
            Item::Import(text) => out.extend(declared(files, &beside(source, &text.value), known)?),
            Item::Const(c) => {
                out.insert(c.name.name.as_str());
            }
            Item::Function(f) => {
                out.insert(f.name.name.as_str());
            }
        }
    }
    Some(out)
}
