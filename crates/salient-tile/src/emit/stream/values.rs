//! The values of an attention, tile by tile of keys: where they lie in memory in rows, they are read as they lie; what is
//! left over of a row, or is no stored tensor, is packed for each tile.

use crate::dims::{n, var};
use crate::emit::gemm::{Ahead, Operands, by_width, tiles_into};
use crate::emit::maker::{Maker, address, for_loop, let_dim, let_min};
use crate::emit::pack::{Packed, Span, pack_panel};
use crate::emit::stream::row_tile::{RowTile, Sizes};
use crate::index::Env;
use crate::plan::attention::Attention;
use crate::plan::attention::key_loop::{ValueForm, values_in_place};
use crate::plan::layouts::panels::Edge;
use crate::plan::scratch::Slot;
use crate::program::kernel::{Arg, Base, Stmt};
use salient_ir::{Dim, NodeId, Symbol};
use salient_vector::tile::{Into, Shape, Zeros};
use salient_vector::{Builder, F32};

/// A tile of keys: its first key and how many there are.
#[derive(Clone)]
pub(crate) struct Keys {
    pub(crate) first: Dim,
    pub(crate) count: Dim,
    /// The most that a tile has.
    pub(crate) row: Dim,
}

/// Panels of values.
pub(crate) struct Values {
    /// The node whose values they are.
    value: NodeId,
    shape: Shape,
    edge: Edge,
    /// Whether few rows meet each value.
    few: bool,
    keys: Keys,
    /// How wide a panel is, and how wide all are together.
    panel: Dim,
    wide: Dim,
    /// Panels in all.
    panels: Dim,
    /// Panels that are read as they lie: from here on they are packed.
    whole: Dim,
    /// The address of the first key's values, and the elements between keys.
    in_place: Option<(Base, Dim, Dim)>,
    packed: Base,
}

/// What the product with the values adds to.
pub(crate) struct Weighted<'d> {
    pub(crate) rows: (&'d Dim, &'d Dim),
    /// Where the weight of the first row for the first key is, and the elements between rows.
    pub(crate) weights: (Base, &'d Dim, &'d Dim),
    /// What each row of the context is multiplied by first.
    pub(crate) factor: Option<Base>,
    pub(crate) context: Base,
    pub(crate) context_row: &'d Dim,
}

impl Values {
    /// Values in the form that is planned; adds what that needs to know to `stmts`, once for a tile of rows.
    pub(crate) fn new(
        m: &mut Maker<'_, '_>,
        t: &RowTile<'_>,
        value: NodeId,
        keys: Keys,
        sizes: &Sizes,
        stmts: &mut Vec<Stmt>,
    ) -> Values {
        let (shape, few) = (t.shape, t.few);
        let Sizes { wide, panels, panel, .. } = sizes;
        let in_place = match t.key_loop.values {
            ValueForm::PackedPerTile => None,
            ValueForm::InPlace => {
                let scope = &m.scope;
                let rows = values_in_place(&scope.layouts, &scope.ranges, t.attention, value, t.env)
                    .expect("planned as rows in memory");
                let first = &rows.start + &(&rows.row * &keys.first);
                Some((rows.base, first, rows.row))
            }
        };
        let whole = m.variable("whole", &(panels + &n(1)));
        let read =
            if in_place.is_some() { wide.floor_div(panel).expect("a panel has columns") } else { n(0) };
        stmts.push(let_dim(&whole, read));
        let packed = m.scratch(Slot::Values);
        let (panel, wide, panels) = (panel.clone(), wide.clone(), panels.clone());
        Values {
            value,
            shape,
            edge: t.key_loop.edge,
            few,
            keys,
            panel,
            wide,
            panels,
            whole: var(&whole),
            in_place,
            packed,
        }
    }

    /// Where a packed panel begins.
    fn packed_at(&self, panel: &Dim) -> Dim {
        &(panel - &self.whole) * &(&self.keys.row * &self.panel)
    }

    fn for_packed(&self, panel: &Symbol, block: Vec<Stmt>) -> Stmt {
        for_loop(panel, self.whole.clone(), self.panels.clone(), n(1), block)
    }

    /// Packs what must be for the tile of keys.
    pub(crate) fn pack(&self, m: &mut Maker<'_, '_>, a: &Attention, env: &Env) -> Stmt {
        let panel = m.variable("panel", &self.panels);
        let edge = m.variable("edge", &(&self.wide + &n(1)));
        let from = &var(&panel) * &self.panel;
        let over_keys =
            Span { axis: Some(a.key), from: self.keys.first.clone(), count: self.keys.count.clone() };
        let over_width = Span { axis: a.width, from: from.clone(), count: &var(&edge) - &from };
        let offset = self.packed_at(&var(&panel));
        let to = Packed { base: self.packed, offset, outer: self.panel.clone(), inner: n(1) };
        let limit = let_min(&edge, vec![self.wide.clone(), &from + &self.panel]);
        let body = pack_panel(m, "pack_value", self.value, env, (&over_keys, &over_width), &to);
        self.for_packed(&panel, vec![limit, body])
    }

    /// The weights and a panel of the values, whose rows have so many elements where they are not packed.
    fn operands<'d>(
        &'d self,
        to: &'d Weighted<'d>,
        panel: (Base, &'d Dim),
        column: &'d Dim,
        panel_row: Option<&'d Dim>,
    ) -> Operands<'d> {
        Operands {
            left: to.weights,
            left_step: None,
            panel,
            panel_row,
            depth: &self.keys.count,
            dest: (to.context, column, to.context_row),
            factors: to.factor,
            ahead: None,
        }
    }

    /// Adds the product of the weights with the values of the tile.
    pub(crate) fn weigh(&self, m: &mut Maker<'_, '_>, zeros: Zeros, to: &Weighted<'_>) -> Vec<Stmt> {
        let mut out = Vec::new();
        let whole = |m: &mut Maker<'_, '_>, operands: &Operands<'_>| {
            let into = if to.factor.is_some() { Into::AddScaled } else { Into::Add };
            tiles_into(m, self.shape, (zeros, into), to.rows, operands)
        };
        if let Some((base, first, row)) = &self.in_place {
            let panel = m.variable("panel", &self.panels);
            let column = &var(&panel) * &self.panel;
            let ahead = self.few.then_some(Ahead::Rows);
            let at = first + &column;
            let stmts = whole(m, &Operands { ahead, ..self.operands(to, (*base, &at), &column, Some(row)) });
            out.push(for_loop(&panel, n(0), self.whole.clone(), n(1), stmts));
        }
        let panel = m.variable("panel", &self.panels);
        let (at, column) = (self.packed_at(&var(&panel)), &var(&panel) * &self.panel);
        // Where others are read in place, the one at the edge has the same tiles: each is code that has to be compiled.
        let row = self.in_place.is_some().then_some(&self.panel);
        let operands = self.operands(to, (self.packed, &at), &column, row);
        let stmts = match self.edge {
            Edge::Whole => whole(m, &operands),
            Edge::Narrow => {
                let left = &self.wide - &column;
                by_width(m, self.shape, zeros, to.rows, &operands, (&left, &self.panel))
            }
        };
        out.push(self.for_packed(&panel, stmts));
        out
    }
}

/// Sets the flag where one of so many values is NaN or infinite.
pub(crate) fn find_not_finite(
    m: &mut Maker<'_, '_>,
    (base, at): (Base, Dim),
    count: &Dim,
    (flag, flag_at): (Base, Dim),
) -> Stmt {
    let mut b = Builder::new("find_not_finite");
    let x = b.input("x");
    let trip = b.int_param("n");
    let to = b.output("flag");
    let clean = b.mask(false);
    let found = b.lanes(trip, clean, |b, index, found| {
        let v = b.load::<F32>(x.at(index));
        let (gone, zero) = (b.sub(v, v), b.f32(0.0));
        let bad = b.ne(gone, zero);
        b.or(found, bad)
    });
    let found = b.hany(found);
    let one = b.i32(1);
    b.store(to.at_start().one().masked(found), one);
    let args = vec![address(base, at), Arg::Int(count.clone()), address(flag, flag_at)];
    m.call(b.finish(), args)
}
