//! Names in expressions: indices, definitions, functions, in this order.

use super::{Scope, WORDS, Walk};
use crate::library;
use crate::resolve::definitions::{DefinitionKind, Meaning};
use crate::source::Span;
use crate::syntax::ast::{Argument, Bracket, Expr, ExprKind, Function, Ident, Scoping};
use crate::value::Builtin;
use std::collections::BTreeMap;

/// What is called by its name.
#[derive(Clone, Copy)]
enum Called<'a> {
    /// A function of the program, with its number.
    Declared(&'a Function, usize),
    /// A function of the library, or an operator of the graph.
    Word,
}

impl<'a> Walk<'a> {
    /// An expression that stands for itself: it binds the indices that are free in it.
    pub(super) fn root(&mut self, e: &'a Expr) {
        let depth = self.indices.len();
        let mut free = Vec::new();
        self.free(e, &mut Vec::new(), false, &mut free);
        for (name, span) in free {
            self.index(name, span, e.span);
        }
        self.expr(e, false);
        self.indices.truncate(depth);
    }

    /// Any expression; `inside` of brackets.
    pub(super) fn expr(&mut self, e: &'a Expr, inside: bool) {
        match e.scoping() {
            Scoping::Name(name) => self.name(e, name),
            Scoping::Call(target, args) => self.call(target, args, inside),
            Scoping::Brackets(target, items) => {
                if let Some(called) = self.called(target) {
                    self.expr(target, inside);
                    self.statics(called, items, &[]);
                    return;
                }
                self.read(target, inside);
                items.iter().for_each(|item| self.item(item));
            }
            Scoping::As(x, path) => {
                self.expr(x, inside);
                self.path(path);
            }
            Scoping::Made => e.children().into_iter().for_each(|x| self.expr(x, inside)),
        }
    }

    fn name(&mut self, e: &'a Expr, name: &'a str) {
        let index = self.indices.iter().rev().find(|(n, _)| *n == name).map(|(_, number)| *number);
        let function = || self.functions.get(name).map(|(_, number)| *number);
        let place = self.place(e, name);
        match index.or_else(|| self.variable(name)).or_else(function) {
            Some(number) => self.uses(place, Meaning::Defined(number)),
            None if is_word(name) => self.uses(place, Meaning::Word),
            None => {}
        }
    }

    /// A tensor that brackets read: a definition comes before an index of the same name.
    fn read(&mut self, target: &'a Expr, inside: bool) {
        if let ExprKind::Name(name) = &target.kind
            && let Some(number) = self.variable(name)
        {
            return self.uses(self.place(target, name), Meaning::Defined(number));
        }
        self.expr(target, inside);
    }

    fn item(&mut self, item: &'a Bracket) {
        match item {
            Bracket::Value(x) | Bracket::Named(_, x) => self.expr(x, true),
            Bracket::Colon(a, b, _) => a.iter().chain(b).for_each(|x| self.expr(x, true)),
            Bracket::Rest(_) | Bracket::Unit(_) => {}
        }
    }

    // ---- calls

    /// What a name (and nothing else) calls.
    fn called(&self, target: &Expr) -> Option<Called<'a>> {
        let ExprKind::Name(name) = &target.kind else { return None };
        if self.variable(name).is_some() || self.indices.iter().any(|(n, _)| n == name) {
            return None;
        }
        match self.functions.get(name.as_str()) {
            Some((f, number)) => Some(Called::Declared(f, *number)),
            None => is_word(name).then_some(Called::Word),
        }
    }

    /// A function with what stands in its brackets.
    fn with_brackets(&self, target: &'a Expr) -> Option<(&'a Expr, &'a [Bracket], Called<'a>)> {
        let ExprKind::Brackets(f, items) = &target.kind else { return None };
        Some((f, items, self.called(f)?))
    }

    fn call(&mut self, target: &'a Expr, args: &'a [Argument], inside: bool) {
        let depth = self.indices.len();
        let called = match self.with_brackets(target) {
            Some((f, items, called)) => {
                self.expr(f, inside);
                self.statics(called, items, args);
                Some(called)
            }
            None => {
                self.expr(target, inside);
                self.called(target)
            }
        };
        for arg in args {
            if let (Some(name), Some(Called::Declared(_, number))) = (&arg.name, called) {
                self.taken_by(number, name);
            }
            self.argument(arg, inside);
        }
        self.indices.truncate(depth);
    }

    /// The name of what a function takes, said in a call.
    fn taken_by(&mut self, function: usize, name: &'a Ident) {
        if let Some(number) = self.taken.get(&(function, name.name.as_str())) {
            self.uses(name.span, Meaning::Defined(*number));
        }
    }

    fn argument(&mut self, arg: &'a Argument, inside: bool) {
        let Some(range) = &arg.each else { return self.expr(&arg.value, inside) };
        self.expr(&range.low, false);
        self.expr(&range.high, false);
        let end = arg.value.span.to(range.high.span);
        self.scopes.push(Scope { names: BTreeMap::new(), end });
        let number = self.add(&range.name.name, DefinitionKind::Loop, range.name.span, end, Some(end));
        self.scopes.last_mut().expect("pushed above").names.insert(&range.name.name, number);
        self.expr(&arg.value, inside);
        self.scopes.pop();
    }

    /// What stands in the brackets of a call: axes, which are bound for the arguments or are those of their values, and values.
    fn statics(&mut self, called: Called<'a>, items: &'a [Bracket], args: &'a [Argument]) {
        let mut bound = Vec::new();
        for (n, item) in items.iter().enumerate() {
            if let (Bracket::Named(name, _), Called::Declared(_, number)) = (item, called) {
                self.taken_by(number, name);
            }
            match self.axis(called, n, item) {
                Some((name, span)) => {
                    if let Bracket::Colon(_, Some(extent), _) = item {
                        self.expr(extent, true);
                    }
                    bound.extend(self.axis_in_brackets(name, span, args));
                }
                None => self.item(item),
            }
        }
        self.indices.extend(bound);
    }

    /// The axis that an item in the brackets of a call names.
    fn axis(&self, called: Called<'a>, n: usize, item: &'a Bracket) -> Option<(&'a str, Span)> {
        let wanted = match (called, item) {
            (Called::Word, _) => true,
            (Called::Declared(f, _), Bracket::Named(name, _)) => {
                f.statics.iter().any(|s| s.axis && s.name.name == name.name)
            }
            (Called::Declared(f, _), _) => f.statics.get(n).is_some_and(|s| s.axis),
        };
        let e = match item {
            Bracket::Value(e) | Bracket::Named(_, e) | Bracket::Colon(Some(e), Some(_), _) => e,
            Bracket::Colon(..) | Bracket::Rest(_) | Bracket::Unit(_) => return None,
        };
        let ExprKind::Name(name) = &e.kind else { return None };
        // What a function of the library takes as a value is told by what the name means.
        let value =
            self.variable(name).is_some_and(|number| self.out.all[number].kind != DefinitionKind::Axis);
        let is_axis = wanted && !(value && matches!(called, Called::Word));
        is_axis.then(|| (name.as_str(), self.place(e, name)))
    }

    /// An axis in the brackets of a call: an index that the arguments use, which is bound here, or the axis of a value.
    fn axis_in_brackets(
        &mut self,
        name: &'a str,
        span: Span,
        args: &'a [Argument],
    ) -> Option<(&'a str, usize)> {
        let given = self.variable(name);
        let known = self.indices.iter().rev().find(|(n, _)| *n == name).map(|(_, number)| *number);
        let known = known.or_else(|| self.axes.get(name).copied());
        let is_bound = args.iter().any(|arg| reads_at(&arg.value, name, false));
        if let Some(number) = given.or(known.filter(|_| !is_bound)) {
            self.uses(span, Meaning::Defined(number));
            return None;
        }
        let scope = args.iter().fold(span, |span, arg| span.to(arg.value.span));
        let number = self.add(name, DefinitionKind::Index, span, scope, Some(scope));
        Some((name, number))
    }

    // ---- free indices

    /// The names that stand in brackets and mean nothing else, in order of appearance.
    fn free(&self, e: &'a Expr, bound: &mut Vec<&'a str>, inside: bool, out: &mut Vec<(&'a str, Span)>) {
        match e.scoping() {
            Scoping::Name(name) => {
                let lower = name.starts_with(|c: char| c.is_ascii_lowercase());
                let known = bound.contains(&name) || out.iter().any(|(n, _)| *n == name);
                if inside && lower && !known && !self.is_known(name) {
                    out.push((name, self.place(e, name)));
                }
            }
            Scoping::Call(target, args) => {
                let depth = bound.len();
                match self.with_brackets(target) {
                    Some((_, items, called)) => {
                        let axes =
                            items.iter().enumerate().filter_map(|(n, item)| self.axis(called, n, item));
                        bound.extend(axes.map(|(name, _)| name));
                    }
                    None => self.free(target, bound, inside, out),
                }
                for arg in args {
                    bound.extend(arg.each.iter().map(|r| r.name.name.as_str()));
                    self.free(&arg.value, bound, inside, out);
                }
                bound.truncate(depth);
            }
            Scoping::Brackets(target, items) => {
                if self.called(target).is_some() {
                    return;
                }
                self.free(target, bound, inside, out);
                for item in items {
                    match item {
                        Bracket::Value(x) | Bracket::Named(_, x) => self.free(x, bound, true, out),
                        Bracket::Colon(a, b, _) => {
                            a.iter().chain(b).for_each(|x| self.free(x, bound, true, out));
                        }
                        Bracket::Rest(_) | Bracket::Unit(_) => {}
                    }
                }
            }
            Scoping::Made | Scoping::As(..) => {
                e.children().into_iter().for_each(|x| self.free(x, bound, inside, out));
            }
        }
    }

    fn is_known(&self, name: &str) -> bool {
        self.indices.iter().any(|(n, _)| *n == name)
            || self.variable(name).is_some()
            || self.functions.contains_key(name)
            || is_word(name)
    }
}

/// Whether an expression has a name in brackets, as an index has it.
fn reads_at(e: &Expr, name: &str, inside: bool) -> bool {
    match e.scoping() {
        Scoping::Name(n) => inside && n == name,
        Scoping::Brackets(target, _) => {
            let items = e.children().into_iter().skip(1);
            reads_at(target, name, inside) || items.into_iter().any(|item| reads_at(item, name, true))
        }
        Scoping::Call(..) | Scoping::Made | Scoping::As(..) => {
            e.children().into_iter().any(|x| reads_at(x, name, inside))
        }
    }
}

/// Whether the language or its library has a name.
fn is_word(name: &str) -> bool {
    Builtin::from_name(name).is_some() || WORDS.contains(&name) || library::names().any(|known| known == name)
}
