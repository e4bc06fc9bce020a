//! Sums whose terms are each added at one position of the result, which an index says.
//!
//! An item owns some positions, and a strip of columns of each. It begins them with zero, goes through all indices in their order
//! and adds the terms that belong to it. So each element is a sum in one order, whoever owns it.

use crate::dims::{LANE, ceil_div, n, var};
use crate::emit::maker::{Maker, Target, for_loop, let_dim, let_min};
use crate::emit::strip::{Scope, Strip, Visit};
use crate::index::{AxisValue, Env};
use crate::plan::layouts::{Stored, stored};
use crate::plan::materialise::scatter::Scatter;
use crate::plan::scratch::Slot;
use crate::plan::{OWNED_POSITIONS, STRIP_OF_COLUMNS, STRIP_OF_INDICES};
use crate::program::kernel::{Base, Kernel, Kind, Stmt};
use salient_ir::{AxisId, Dim, NodeId, Symbol};
use salient_vector::handle::Handle;
use salient_vector::{Builder, F32, I32};

/// The kernel that stores such a sum.
pub(crate) fn scatter(scope: &mut Scope<'_>, target: Target<'_>, of: &Scatter) -> Kernel {
    let mut m = Maker::planned(scope, target, Kind::Rows);
    let g = m.scope.graph;
    let positions = g.extent(of.position).clone();
    let is_outer = |axis: &AxisId| *axis != of.position && Some(*axis) != of.column;
    let mut env = Env::new();
    m.outer_axes(target.buffer.axes.iter().copied().filter(is_outer), &mut env);
    let owner = m.outer("owner", &ceil_div(&positions, &n(OWNED_POSITIONS)));
    let (from, to) = (m.variable("from", &positions), m.variable("to", &(&positions + &n(1))));
    let first = &owner * &n(OWNED_POSITIONS);
    let mut block = vec![
        let_dim(&from, first.clone()),
        let_min(&to, vec![&first + &n(OWNED_POSITIONS), positions.clone()]),
    ];
    let columns = of.column.map(|column| {
        let width = g.extent(column).clone();
        let first = &m.outer("chunk", &ceil_div(&width, &n(STRIP_OF_COLUMNS))) * &n(STRIP_OF_COLUMNS);
        let count = m.variable("count", &n(STRIP_OF_COLUMNS + 1));
        block.push(let_min(&count, vec![n(STRIP_OF_COLUMNS), &width - &first]));
        env.insert(column, AxisValue::Poly(var(&LANE)));
        Columns { axis: column, first, count: var(&count) }
    });
    let name = m.axis_name(of.position);
    let position = m.variable(&name, &positions);
    env.insert(of.position, AxisValue::Poly(var(&position)));
    let strip = Owned { out: stored(target.id, target.buffer), columns };
    let begin = strip.call(&mut m, "begin", None, &env);
    block.push(for_loop(&position, var(&from), var(&to), n(1), vec![begin]));
    let indices = m.scratch(Slot::Indices);
    let terms = Terms { of, strip, indices, position, owned: (from, to) };
    block.extend(terms.all(&mut m, env));
    m.finish(block, target.node, target.id)
}

/// A strip of columns.
struct Columns {
    axis: AxisId,
    first: Dim,
    count: Dim,
}

/// What an item owns, at one position.
struct Owned {
    out: Stored,
    columns: Option<Columns>,
}

impl Owned {
    /// The call that begins it with zero, or adds a term to it.
    fn call(&self, m: &mut Maker<'_, '_>, word: &str, term: Option<NodeId>, env: &Env) -> Stmt {
        let g = m.scope.graph;
        let (first, count) = match &self.columns {
            Some(Columns { axis, first, count }) => {
                m.scope.ranges.insert(&LANE, g.extent(*axis));
                (first.clone(), Some(count))
            }
            None => (n(0), None),
        };
        let mut b = Builder::new(word);
        let mut s = Strip::new(m.scope, Visit::Lanes, first, &[self.out.base]);
        let add = |b: &mut Builder, s: &mut Strip<'_, '_>| {
            let place = s.place(b, &self.out, env);
            let place = if count.is_some() { place } else { place.one() };
            let value = match term {
                None => b.f32(0.0),
                Some(term) => {
                    let sum = b.load::<F32>(place);
                    let value = F32::from_value(s.root(b, term, env));
                    b.add(sum, value)
                }
            };
            b.store(place, value);
        };
        match count {
            Some(count) => {
                let trip = s.integer(&mut b, count);
                b.lanes(trip, (), |b, index, ()| {
                    s.enter(index);
                    add(b, &mut s);
                });
            }
            None => add(&mut b, &mut s),
        }
        let args = s.finish();
        m.call(b.finish(), args)
    }
}

/// The terms of a sum, each with its index.
struct Terms<'p> {
    of: &'p Scatter,
    strip: Owned,
    /// Where the indices of a strip of terms are kept.
    indices: Base,
    position: Symbol,
    /// The positions that an item owns: from one up to another.
    owned: (Symbol, Symbol),
}

impl Terms<'_> {
    /// Goes through all terms, and adds those that belong to the item.
    fn all(&self, m: &mut Maker<'_, '_>, mut env: Env) -> Vec<Stmt> {
        let (along, around) = self.of.over.split_last().expect("it sums over an axis");
        let g = m.scope.graph;
        let around: Vec<(Symbol, Dim)> = around
            .iter()
            .map(|axis| {
                let (name, extent) = (m.axis_name(*axis), g.extent(*axis).clone());
                let variable = m.variable(&name, &extent);
                env.insert(*axis, AxisValue::Poly(var(&variable)));
                (variable, extent)
            })
            .collect();
        let strips = self.strips(m, *along, &mut env);
        let nest = |inner: Vec<Stmt>, (variable, extent): &(Symbol, Dim)| {
            vec![for_loop(variable, n(0), extent.clone(), n(1), inner)]
        };
        around.iter().rev().fold(strips, nest)
    }

    /// Along the innermost axis the indices of a strip of terms are made, then looked at one by one.
    fn strips(&self, m: &mut Maker<'_, '_>, along: AxisId, env: &mut Env) -> Vec<Stmt> {
        let terms = m.scope.graph.extent(along).clone();
        let name = m.axis_name(along);
        let strips = ceil_div(&terms, &n(STRIP_OF_INDICES));
        let (strip, count) = (m.variable("strip", &strips), m.variable("terms", &n(STRIP_OF_INDICES + 1)));
        let (at, term) = (m.variable("at", &n(STRIP_OF_INDICES)), m.variable(&name, &terms));
        let first = &var(&strip) * &n(STRIP_OF_INDICES);
        env.insert(along, AxisValue::Poly(var(&LANE)));
        let look = self.look(m, &first, &var(&count), &terms, env);
        env.insert(along, AxisValue::Poly(var(&term)));
        let add = self.strip.call(m, "add", Some(self.of.term), env);
        let Base::Scratch(scratch) = self.indices else { unreachable!("a slot of scratch memory") };
        let (from, to) = (var(&self.owned.0), var(&self.owned.1));
        let below = Stmt::If {
            left: var(&self.position),
            right: to,
            then: vec![let_dim(&term, &first + &var(&at)), add],
            otherwise: Vec::new(),
        };
        let owned = Stmt::If {
            left: &from - &n(1),
            right: var(&self.position),
            then: vec![below],
            otherwise: Vec::new(),
        };
        let read = Stmt::Read { var: self.position.clone(), scratch, offset: var(&at) };
        let each = for_loop(&at, n(0), var(&count), n(1), vec![read, owned]);
        let block = vec![let_min(&count, vec![n(STRIP_OF_INDICES), &terms - &first]), look, each];
        vec![for_loop(&strip, n(0), strips, n(1), block)]
    }

    /// The call that keeps the indices of a strip of terms.
    fn look(&self, m: &mut Maker<'_, '_>, first: &Dim, count: &Dim, terms: &Dim, env: &Env) -> Stmt {
        m.scope.ranges.insert(&LANE, terms);
        let mut b = Builder::new("indices");
        let mut s = Strip::new(m.scope, Visit::Lanes, first.clone(), &[self.indices]);
        let trip = s.integer(&mut b, count);
        let to = s.pointer(&mut b, self.indices, &n(0));
        b.lanes(trip, (), |b, index, ()| {
            s.enter(index);
            let value = I32::from_value(s.root(b, self.of.index, env));
            b.store(to.at(index), value);
        });
        let args = s.finish();
        m.call(b.finish(), args)
    }
}
