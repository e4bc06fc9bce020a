//! Mixtures of the heads of a row: at each key a product with a matrix over heads, in register tiles of heads by keys, while the
//! row's scores are near.

use crate::dims::{n, var};
use crate::emit::gemm::{Operands, tiles};
use crate::emit::maker::{Maker, for_loop};
use crate::emit::pack::{Packed, Span, pack};
use crate::emit::stream::row_tile::RowTile;
use crate::emit::stream::whole_rows::{
    Place, Whole, heads_of, index, over_heads, place_of_head, strides_of_heads,
};
use crate::plan::attention::key_range::KeyRange;
use crate::plan::attention::mixture::Mixture;
use crate::plan::attention::whole_rows::{RowReduction, WholeRows};
use crate::plan::scratch::Slot;
use crate::program::kernel::{Base, Stmt};
use salient_ir::{AxisId, Dim};
use salient_vector::tile::Zeros;

/// The coefficients of a mixture: for each head that comes of it one for each that is mixed.
pub(crate) struct Coefficients {
    mixture: Mixture,
    base: Base,
    /// The elements between heads that are not mixed.
    shared: Vec<(AxisId, Dim)>,
    /// Where what is mixed goes if it has to be computed first.
    copy: Option<Base>,
}

impl Coefficients {
    /// Packs them, once for a tile of rows.
    pub(crate) fn pack(
        m: &mut Maker<'_, '_>,
        (t, plan): (&RowTile<'_>, &WholeRows),
        held: &RowReduction,
        mixture: Mixture,
        stmts: &mut Vec<Stmt>,
    ) -> Coefficients {
        let Mixture { by, over, to, .. } = mixture;
        let base = m.scratch(Slot::Coefficients);
        let extent = |axis: AxisId| m.scope.graph.extent(axis).clone();
        let (depth, rows) = (extent(over), to.map_or(n(1), extent));
        let mut shared = heads_of(m, plan, by);
        shared.retain(|axis| *axis != over && Some(*axis) != to);
        let strides = strides_of_heads(m, &shared, &(&depth * &rows));
        let over_rows = Span { axis: to, from: n(0), count: rows };
        let over_depth = Span { axis: Some(over), from: n(0), count: depth.clone() };
        let offset = place_of_head(t.env, &strides);
        let packed = Packed { base, offset, outer: depth, inner: n(1) };
        let env = t.env;
        let block = vec![pack(m, "pack_coefficients", by, env, &over_rows, &over_depth, &packed)];
        stmts.extend(over_heads(m, env, &shared, block));
        let copy = held.copies.then(|| m.scratch(Slot::Mixed));
        Coefficients { mixture, base, shared: strides, copy }
    }

    /// Mixes the heads of the row at hand.
    pub(crate) fn mix(
        &self,
        m: &mut Maker<'_, '_>,
        whole: &Whole<'_>,
        held: &RowReduction,
        dest: &Place,
    ) -> Vec<Stmt> {
        let Mixture { over, to, .. } = self.mixture;
        let a = &held.attention;
        let (mut stmts, env) = (Vec::new(), whole.tile.env);
        let keys = whole.visited(m, &held.key_loop.range, &mut stmts);
        let (source, between) = match self.copy {
            Some(base) => {
                let place = Place { base, heads: vec![(over, whole.row.clone())], row: None };
                let of = (held.key_loop.score_in_range(a), m.scope.defined.demanding(a.score));
                let block = vec![whole.copy(m, of, &keys, &place)];
                stmts.extend(over_heads(m, env, &[over], block));
                ((base, n(0) - whole.keys.0.clone()), whole.row.clone())
            }
            None => self.source(m, whole),
        };
        let extent = |axis: AxisId| m.scope.graph.extent(axis).clone();
        let (depth, rows) = (extent(over), to.map_or(n(1), extent));
        let others: Vec<(AxisId, Dim)> = dest.heads.iter().filter(|(x, _)| Some(*x) != to).cloned().collect();
        let first = Place { heads: others.clone(), ..dest.clone() };
        let row = dest.heads.iter().find(|(x, _)| Some(*x) == to).map_or_else(|| n(0), |(_, d)| d.clone());
        let column = m.variable("column", m.scope.graph.extent(a.key));
        let at = var(&column);
        let (left, panel) = (place_of_head(env, &self.shared), &source.1 + &at);
        let operands = Operands {
            left: (self.base, &left, &depth),
            left_step: None,
            panel: (source.0, &panel),
            panel_row: Some(&between),
            depth: &depth,
            dest: (dest.base, &whole.at(&first, &at), &row),
            factors: None,
            ahead: None,
        };
        let block = tiles(m, whole.tile.shape, Zeros::Multiply, (&n(0), &rows), &operands);
        stmts.push(for_loop(
            &column,
            whole.keys.0.clone(),
            keys.upto.clone(),
            whole.sizes.panel.clone(),
            block,
        ));
        if held.key_loop.range != KeyRange::default() {
            let clear = vec![whole.clear(m, &keys, dest)];
            stmts.extend(over_heads(m, env, to.as_slice(), clear));
        }
        let others: Vec<AxisId> = others.into_iter().map(|(axis, _)| axis).collect();
        over_heads(m, env, &others, stmts)
    }

    /// Where what is mixed lies: the place of the first head's key at zero in the row, and the elements between heads.
    fn source(&self, m: &Maker<'_, '_>, whole: &Whole<'_>) -> ((Base, Dim), Dim) {
        let Mixture { of, over, .. } = self.mixture;
        let key = whole.plan.attention.key;
        let stored = &m.scope.stored[&of];
        let mut at = stored.offset.clone();
        let mut between = n(0);
        for (axis, stride) in &stored.strides {
            if *axis == over {
                between = stride.clone();
            } else if *axis != key {
                at = &at + &(&index(whole.tile.env, *axis) * stride);
            }
        }
        ((stored.base, at), between)
    }
}
