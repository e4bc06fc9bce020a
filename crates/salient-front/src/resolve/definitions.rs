//! Definitions and uses of names as data: what an editor asks about a place.

use crate::source::{SourceId, Span};
use crate::syntax::ast::Kind;

/// What a definition makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DefinitionKind {
    /// A model, block or function.
    Function(Kind),
    /// A constant of a file or of a body.
    Constant,
    /// What a model, block or function takes in parentheses.
    Argument,
    /// A value that is given in brackets.
    Static,
    /// An axis that is given in brackets.
    Axis,
    /// A dimension, which a type binds.
    Dimension,
    /// A weight.
    Parameter,
    /// A state.
    State,
    /// A value.
    Value,
    /// The variable of a loop.
    Loop,
    /// An index.
    Index,
    /// A result with a name.
    Result,
}

impl DefinitionKind {
    /// What one of the kind is called.
    pub fn name(self) -> &'static str {
        match self {
            DefinitionKind::Function(Kind::Model) => "model",
            DefinitionKind::Function(Kind::Block) => "block",
            DefinitionKind::Function(Kind::Fn) => "function",
            DefinitionKind::Constant => "constant",
            DefinitionKind::Argument => "argument",
            DefinitionKind::Static => "value in brackets",
            DefinitionKind::Axis => "axis in brackets",
            DefinitionKind::Dimension => "dimension",
            DefinitionKind::Parameter => "parameter",
            DefinitionKind::State => "state",
            DefinitionKind::Value => "value",
            DefinitionKind::Loop => "loop variable",
            DefinitionKind::Index => "index",
            DefinitionKind::Result => "result",
        }
    }

    /// Whether every file of a program can use it.
    pub fn is_global(self) -> bool {
        matches!(self, DefinitionKind::Function(_))
    }
}

/// A name that a program defines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Definition {
    /// The name.
    pub name: String,
    /// What it is.
    pub kind: DefinitionKind,
    /// Where the name stands.
    pub span: Span,
    /// All of the statement or declaration that defines it.
    pub whole: Span,
    /// Where it can be used, if not everywhere.
    pub scope: Option<Span>,
    /// The function in which it is defined.
    pub within: Option<usize>,
}

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// A definition of the program, by its number.
    Defined(usize),
    /// A word of the language or of its library: the reference knows it by its name.
    Word,
}

/// A place where a name stands; that of its definition is one too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Use {
    /// The place.
    pub span: Span,
    /// What stands there.
    pub meaning: Meaning,
}

/// A file that another one imports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Import {
    /// The path between the quotes.
    pub path: String,
    /// The path with its quotes.
    pub span: Span,
}

/// Every name of a program with its meaning. Names that mean nothing are left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Definitions {
    pub(super) all: Vec<Definition>,
    /// By place.
    pub(super) uses: Vec<Use>,
    pub(super) imports: Vec<Import>,
}

impl Definitions {
    /// The definitions, those of functions first.
    pub fn all(&self) -> &[Definition] {
        &self.all
    }

    /// Every use, by place.
    pub fn uses(&self) -> &[Use] {
        &self.uses
    }

    /// The imports of all files.
    pub fn imports(&self) -> &[Import] {
        &self.imports
    }

    /// The use that a byte lies in, or that ends at it.
    pub fn at(&self, source: SourceId, byte: u32) -> Option<Use> {
        let around = |u: &&Use| u.span.source == source && u.span.start <= byte && byte <= u.span.end;
        let mut found = self.uses.iter().filter(around);
        let first = found.next()?;
        // Between two names that touch, the one that begins there.
        Some(*found.next().unwrap_or(first))
    }

    /// The places that change their name with that of a definition: its own and those that use it. An index of one name is one
    /// thing in all of a function, since a value carries the names of its axes from one statement to the next.
    pub fn renamed_with(&self, definition: usize) -> Vec<Span> {
        let one = &self.all[definition];
        let alike = |n: usize| {
            let other = &self.all[n];
            let index = one.kind == DefinitionKind::Index && other.kind == DefinitionKind::Index;
            n == definition || index && other.name == one.name && other.within == one.within
        };
        let of = |u: &&Use| matches!(u.meaning, Meaning::Defined(n) if alike(n));
        let mut out: Vec<Span> = self.uses.iter().filter(of).map(|u| u.span).collect();
        out.dedup();
        out
    }

    /// The definitions that can be used at a place, the nearest first.
    pub fn visible(&self, source: SourceId, byte: u32) -> impl Iterator<Item = &Definition> {
        let reaches = move |d: &&Definition| {
            d.kind.is_global()
                || d.scope.is_none_or(|s| s.source == source && s.start <= byte && byte <= s.end)
        };
        self.all.iter().rev().filter(reaches)
    }
}
