//! What the builders of all kinds of kernels share: items, scratch memory, bodies.

use crate::dims::{n, product, var};
use crate::emit::strip::Scope;
use crate::index::{AxisValue, Env, Ranges};
use crate::plan::layouts::Stored;
use crate::plan::scratch::Slot;
use crate::program::kernel::{Arg, Base, Buffer, BufferId, Int, Kernel, Kind, Scratch, Stmt};
use salient_ir::{AxisId, Dim, Name, NodeId, Symbol};
use salient_vector::body::{Body, Elem};
use salient_vector::tile::{Tile, product_tile};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The item of a kernel that is made of several, its block of rows, and the number within that. No other kernel has variables
/// that are called so.
pub(crate) const JOINT_WORDS: [&str; 3] = ["joint", "joint_block", "joint_group"];

/// The next variable of that word. No two of a kernel print alike: `t2` may be a word too.
fn fresh(taken: &mut BTreeSet<String>, word: &str) -> Symbol {
    let word: Name = word.to_lowercase().into();
    let all = (1..).map(|number| Symbol::Variable(word.clone(), number));
    let mut free = all.filter(|variable| taken.insert(variable.to_string()));
    free.next().expect("numbers do not end")
}

/// A `for` over a block.
pub(crate) fn for_loop(var: &Symbol, from: Dim, to: Dim, step: Dim, block: Vec<Stmt>) -> Stmt {
    Stmt::For { var: var.clone(), from, to, step, block }
}

/// A variable bound to a polynomial.
pub(crate) fn let_dim(var: &Symbol, value: Dim) -> Stmt {
    Stmt::Let { var: var.clone(), value: Int::Dim(value) }
}

/// A variable bound to the least of some.
pub(crate) fn let_min(var: &Symbol, of: Vec<Dim>) -> Stmt {
    Stmt::Let { var: var.clone(), value: Int::Min(of) }
}

/// An address.
pub(crate) fn address(base: Base, offset: Dim) -> Arg {
    Arg::Address { base, offset }
}

/// What a kernel stores, where, and what it works in.
#[derive(Clone, Copy)]
pub(crate) struct Target<'b> {
    pub(crate) node: NodeId,
    pub(crate) id: BufferId,
    pub(crate) buffer: &'b Buffer,
    pub(crate) scratch: &'b [Scratch],
}

/// A kernel under construction.
pub(crate) struct Maker<'s, 'g> {
    pub(crate) scope: &'s mut Scope<'g>,
    name: String,
    kind: Kind,
    /// The planned slots of scratch memory, and how many of them are in use.
    scratch: Vec<Scratch>,
    slots: usize,
    bodies: Vec<Arc<Body>>,
    /// The variables so far, as they print.
    taken: BTreeSet<String>,
    /// Numbers the items.
    item: Symbol,
    outer: Vec<(Symbol, Dim)>,
}

impl<'s, 'g> Maker<'s, 'g> {
    /// Begins a kernel; nothing is known yet of any loop variable.
    pub(crate) fn new(scope: &'s mut Scope<'g>, name: &str, kind: Kind) -> Maker<'s, 'g> {
        scope.ranges = Ranges::default();
        scope.inlined.clear();
        let mut taken = BTreeSet::from(JOINT_WORDS.map(str::to_owned));
        let item = fresh(&mut taken, "item");
        Maker {
            scope,
            name: name.to_owned(),
            kind,
            scratch: Vec::new(),
            slots: 0,
            bodies: Vec::new(),
            taken,
            item,
            outer: Vec::new(),
        }
    }

    /// The same, of what a plan says.
    pub(crate) fn planned(scope: &'s mut Scope<'g>, target: Target<'_>, kind: Kind) -> Maker<'s, 'g> {
        Maker { scratch: target.scratch.to_vec(), ..Maker::new(scope, &target.buffer.name, kind) }
    }

    /// The next variable of that word; it lies in `0..extent`.
    pub(crate) fn variable(&mut self, word: &str, extent: &Dim) -> Symbol {
        let variable = fresh(&mut self.taken, word);
        self.scope.ranges.insert(&variable, extent);
        variable
    }

    /// A variable that items are split over, outermost first.
    pub(crate) fn outer(&mut self, name: &str, count: &Dim) -> Dim {
        let name = self.variable(name, count);
        self.outer.push((name.clone(), count.clone()));
        var(&name)
    }

    /// Variables for axes over which items are split.
    pub(crate) fn outer_axes(&mut self, axes: impl IntoIterator<Item = AxisId>, env: &mut Env) {
        for axis in axes {
            let (name, extent) =
                (self.scope.graph.axis(axis).name.clone(), self.scope.graph.extent(axis).clone());
            let v = self.outer(&name, &extent);
            env.insert(axis, AxisValue::Poly(v));
        }
    }

    /// The next slot of scratch memory: the plan says what it is for and how large it is.
    pub(crate) fn scratch(&mut self, slot: Slot) -> Base {
        let at = self.slots;
        self.slots += 1;
        let planned = self.scratch.get(at).map(|s| &*s.name);
        assert_eq!(planned, Some(slot.name()), "slot {at} of `{}` is as planned", self.name);
        Base::Scratch(at)
    }

    /// A scratch slot as the stored value of a node.
    pub(crate) fn scratch_value(base: Base, offset: Dim, strides: Vec<(AxisId, Dim)>) -> Stored {
        Stored { base, elem: Elem::F32, offset, strides }
    }

    /// Adds a body and gives the statement that calls it.
    pub(crate) fn call(&mut self, body: Body, args: Vec<Arg>) -> Stmt {
        self.call_shared(Arc::new(body), args)
    }

    /// The call of a register tile.
    pub(crate) fn call_tile(&mut self, tile: &Tile, args: Vec<Arg>) -> Stmt {
        let body = self.scope.tiles.entry(*tile).or_insert_with(|| Arc::new(product_tile(tile)));
        let body = Arc::clone(body);
        self.call_shared(body, args)
    }

    fn call_shared(&mut self, body: Arc<Body>, args: Vec<Arg>) -> Stmt {
        assert_eq!(body.params.len(), args.len(), "one argument for each parameter of `{}`", body.name);
        let is_same = |known: &Arc<Body>| Arc::ptr_eq(known, &body) || **known == *body;
        let at = self.bodies.iter().position(is_same).unwrap_or_else(|| {
            self.bodies.push(body);
            self.bodies.len() - 1
        });
        Stmt::Call { body: at, args }
    }

    /// A body that the kernel calls.
    pub(crate) fn body(&self, at: usize) -> &Body {
        &self.bodies[at]
    }

    /// The kernel that runs `block` for each item and stores `root` in `writes`.
    pub(crate) fn finish(mut self, block: Vec<Stmt>, root: NodeId, writes: BufferId) -> Kernel {
        assert_eq!(self.slots, self.scratch.len(), "`{}` uses all of its scratch memory", self.name);
        let items = product(self.outer.iter().map(|(_, count)| count));
        let mut stmts = Vec::new();
        // What is left of the item once variables are taken out of it.
        let fewer = self.outer.iter().skip(1).map(|_| fresh(&mut self.taken, "item"));
        let items_left: Vec<Symbol> = [self.item.clone()].into_iter().chain(fewer).collect();
        let mut rest = &self.item;
        for (at, (name, count)) in self.outer.iter().enumerate().rev() {
            if at == 0 {
                stmts.push(let_dim(name, var(rest)));
                break;
            }
            let next = &items_left[at];
            let quotient = var(rest).floor_div(count).unwrap_or_else(|| n(0));
            stmts.push(let_dim(next, quotient));
            stmts.push(let_dim(name, &var(rest) - &(count * &var(next))));
            rest = next;
        }
        stmts.extend(block);
        let g = self.scope.graph;
        let names = self.scope.names;
        let mut fused: Vec<NodeId> =
            self.scope.inlined.iter().copied().filter(|id| g.node(*id).name.is_some()).collect();
        fused.retain(|id| *id != root);
        let mut fuses: Vec<String> = fused.iter().filter_map(|id| names[id.index()].clone()).collect();
        fuses.extend(names[root.index()].clone());
        Kernel {
            name: self.name,
            kind: self.kind,
            fuses,
            // Both are the plan's.
            reads: Vec::new(),
            writes: vec![writes],
            item: self.item,
            items,
            scratch: self.scratch,
            block: stmts,
            bodies: self.bodies,
            flops: n(0),
            form: None,
            row_blocks: None,
        }
    }

    /// The name of an axis, as a loop variable would have it.
    pub(crate) fn axis_name(&self, axis: AxisId) -> Name {
        self.scope.graph.axis(axis).name.clone()
    }
}
