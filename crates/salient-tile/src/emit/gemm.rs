//! Kernels of matrix products: packed operands, register tiles, any expression before and after.
//!
//! An item is a block of rows by a group of panels, so that few rows make as many items as many do. What is done once and
//! what at every call is not decided here: see `plan`.

use crate::coded::body_coding;
use crate::dims::{LANE, LANES, ceil_div, n, row_major, var};
use crate::emit::maker::{Maker, Target, address, for_loop, let_dim, let_min};
use crate::emit::stream::softmax::fill;
use crate::emit::strip::Scope;
use crate::index::{AxisValue, Env};
use crate::plan::Gemm;
use crate::plan::contraction::{Contraction, left_in_place, numbered, outer_axes, rows_of};
use crate::plan::layouts::panels::Edge;
use crate::plan::scratch::{FEW_CODED_ROWS, Slot};
use crate::program::kernel::{Arg, Base, Kernel, Kind, RowBlocks, Stmt};
use salient_ir::quantised::{BLOCK, Coding};
use salient_ir::{Dim, Symbol};
use salient_vector::Builder;
use salient_vector::body::{Body, Elem};
use salient_vector::quantised::{block_tile, spread_row, widen_panel};
use salient_vector::tile::{Columns, Into, LINE, Left, Right, Shape, Tile, Zeros};
use std::collections::BTreeMap;

/// Rows of smaller tiles, for what whole tiles leave over.
const REMAINDERS: [usize; 3] = [4, 2, 1];

/// Rows of all tiles that skip zeros: they run where values are NaN or infinite, and take time to compile in every program.
const SKIPPING: [usize; 2] = [4, 1];

/// Rows of the tiles of a product, from the largest on.
fn tile_rows(shape: Shape, zeros: Zeros) -> Vec<usize> {
    match zeros {
        Zeros::Multiply => {
            std::iter::once(shape.rows).chain(REMAINDERS.into_iter().filter(|r| *r < shape.rows)).collect()
        }
        Zeros::Skip => SKIPPING.into_iter().filter(|r| *r <= shape.rows).collect(),
    }
}

/// The operands of a product in scratch memory, each with its address and the elements between its rows.
pub(crate) struct Operands<'d> {
    /// Where the first row of the left operand is, and the elements between its rows.
    pub(crate) left: (Base, &'d Dim, &'d Dim),
    /// The elements between those of a row, along the depth; one where nothing is said.
    pub(crate) left_step: Option<&'d Dim>,
    /// A panel of the right operand.
    pub(crate) panel: (Base, &'d Dim),
    /// Elements between the rows of the panel, where it is not packed.
    pub(crate) panel_row: Option<&'d Dim>,
    pub(crate) depth: &'d Dim,
    /// Where the first row of the results is, and their rows.
    pub(crate) dest: (Base, &'d Dim, &'d Dim),
    /// For results that are added to: what each row of them is multiplied by first.
    pub(crate) factors: Option<Base>,
    /// What comes nearer while the rows go through a packed panel.
    pub(crate) ahead: Option<Ahead<'d>>,
}

/// Memory that is wanted next, and comes nearer meanwhile.
#[derive(Clone, Copy)]
pub(crate) enum Ahead<'d> {
    /// What follows a packed panel.
    Panel {
        /// The rows that share the panel, the first and one past the last: all their tiles ask for what follows together, each
        /// at the same pace, so that memory is never hurried.
        rows: (&'d Dim, &'d Dim),
        /// What the epilogue reads and writes beside each row of results.
        beside: &'d [Beside],
    },
    /// The rows that follow those of a panel that is not packed.
    Rows,
}

/// Contiguous elements that the epilogue reads or writes beside a row of results, at one distance from row to row.
pub(crate) struct Beside {
    base: Base,
    elem: Elem,
    /// Those beside row zero.
    start: Dim,
    /// Elements from row to row.
    step: Dim,
}

/// The calls of register tiles over rows `from..to` of one panel: their results are set.
pub(crate) fn tiles(
    m: &mut Maker<'_, '_>,
    shape: Shape,
    zeros: Zeros,
    rows: (&Dim, &Dim),
    o: &Operands<'_>,
) -> Vec<Stmt> {
    tiles_into(m, shape, (zeros, Into::Set), rows, o)
}

/// As [`tiles`], with what happens to the results.
pub(crate) fn tiles_into(
    m: &mut Maker<'_, '_>,
    shape: Shape,
    how: (Zeros, Into),
    rows: (&Dim, &Dim),
    o: &Operands<'_>,
) -> Vec<Stmt> {
    let mut out = Vec::new();
    let mut begin = rows.0.clone();
    for count in tile_rows(shape, how.0) {
        let tile = Shape { rows: count, ..shape };
        let (stmts, end) = tiles_from(m, (tile, shape.rows), how, rows, &begin, o);
        out.extend(stmts);
        begin = end;
    }
    out
}

/// The calls of register tiles of one shape over the rows from `begin` on, as many as are whole, and where they end; `most` is how
/// many rows the largest tile has.
fn tiles_from(
    m: &mut Maker<'_, '_>,
    (shape, most): (Shape, usize),
    (zeros, into): (Zeros, Into),
    (from, to): (&Dim, &Dim),
    begin: &Dim,
    o: &Operands<'_>,
) -> (Vec<Stmt>, Dim) {
    let row = m.variable("row", to);
    let local = &var(&row) - from;
    let mut args = vec![
        address(o.left.0, &(&local * o.left.2) + o.left.1),
        address(o.panel.0, o.panel.1.clone()),
        address(o.dest.0, &(&local * o.dest.2) + o.dest.1),
        Arg::Int(o.depth.clone()),
        Arg::Int(o.left.2.clone()),
        Arg::Int(o.left_step.cloned().unwrap_or_else(|| n(1))),
    ];
    args.extend(o.panel_row.map(|d| Arg::Int(d.clone())));
    args.push(Arg::Int(o.dest.2.clone()));
    args.extend(o.factors.map(|f| address(f, local.clone())));
    let mut block = Vec::new();
    let ahead = o.ahead.and_then(|ahead| ask_ahead(m, shape, most, &row, o, ahead, &mut block));
    let is_ahead = ahead.is_some();
    args.extend(ahead.into_iter().flatten());
    let tile = Tile {
        shape,
        left: Left::Strided,
        right: if o.panel_row.is_some() { Right::Strided } else { Right::Packed },
        into,
        zeros,
        columns: Columns::All,
        unroll: if shape.rows * shape.vectors <= 8 { 4 } else { 1 },
        ahead: is_ahead,
    };
    block.push(m.call_tile(&tile, args));
    let size = n(shape.rows as i64);
    let end = if shape.rows == 1 {
        to.clone()
    } else {
        begin + &(&size * &(to - begin).floor_div(&size).expect("a tile has rows"))
    };
    let name = m.variable("whole", &(to + &n(1)));
    let stmts = vec![let_dim(&name, end), for_loop(&row, begin.clone(), var(&name), size, block)];
    (stmts, var(&name))
}

/// Where a tile of so many of `most` rows asks for memory, and at which pace; `None` where it does not.
fn ask_ahead(
    m: &mut Maker<'_, '_>,
    shape: Shape,
    most: usize,
    row: &Symbol,
    o: &Operands<'_>,
    ahead: Ahead<'_>,
    block: &mut Vec<Stmt>,
) -> Option<[Arg; 2]> {
    match ahead {
        Ahead::Panel { rows: (first, last), beside } => {
            if shape.rows == 1 || shape.rows < most {
                return None;
            }
            for Beside { base, elem, start, step } in beside {
                let args = vec![address(*base, start + &(&var(row) * step)), Arg::Int(step.clone())];
                block.push(m.call(fetch_tile(shape, *elem), args));
            }
            let width = m.scope.options.tiling.panel_width();
            let (size, line) = (n(shape.rows as i64), n(i64::from(LINE)));
            let pace = m.variable("pace", &(&line + &n(1)));
            block.push(let_min(&pace, vec![ceil_div(&(&width * &size), &(last - first)), line]));
            let tiles = (&var(row) - first).floor_div(&size).expect("a tile has rows");
            let begin = &(&width + &(&tiles * &var(&pace))) * o.depth;
            Some([address(o.panel.0, o.panel.1 + &begin), Arg::Int(var(&pace))])
        }
        Ahead::Rows => {
            let row = o.panel_row?;
            Some([address(o.panel.0, o.panel.1 + &(row * o.depth)), Arg::Int(row.clone())])
        }
    }
}

/// Rows of a tile of fewer columns than a panel has: as many as have addresses in registers.
const NARROW_ROWS: usize = 8;

/// The calls of tiles that are added to results, over rows `from..to` of one packed panel of `width`, of whose columns `left`
/// are left over: few need no whole tile.
pub(crate) fn by_width(
    m: &mut Maker<'_, '_>,
    shape: Shape,
    zeros: Zeros,
    rows: (&Dim, &Dim),
    o: &Operands<'_>,
    (left, width): (&Dim, &Dim),
) -> Vec<Stmt> {
    let added = (zeros, if o.factors.is_some() { Into::AddScaled } else { Into::Add });
    let whole = tiles_into(m, shape, added, rows, o);
    if_narrow(m, (shape, left, whole), &mut |m, narrow| {
        tiles_into(m, narrow, added, rows, &Operands { panel_row: Some(width), ahead: None, ..*o })
    })
}

/// The calls of tiles whose results are set, over rows `from..to` of one packed panel of `width`, of whose columns `left` are left
/// over. Rows that fill no narrow tile are computed as of a whole panel.
pub(crate) fn set_by_width(
    m: &mut Maker<'_, '_>,
    shape: Shape,
    zeros: Zeros,
    rows: (&Dim, &Dim),
    o: &Operands<'_>,
    (left, width): (&Dim, &Dim),
) -> Vec<Stmt> {
    let set = (zeros, Into::Set);
    let whole = tiles_into(m, shape, set, rows, o);
    if_narrow(m, (shape, left, whole), &mut |m, narrow| {
        let of_panel = Operands { panel_row: Some(width), ahead: None, ..*o };
        let (mut out, mut begin) = tiles_from(m, (narrow, narrow.rows), set, rows, rows.0, &of_panel);
        for count in tile_rows(shape, zeros) {
            let tile = Shape { rows: count, ..shape };
            let (stmts, end) = tiles_from(m, (tile, shape.rows), set, rows, &begin, o);
            out.extend(stmts);
            begin = end;
        }
        out
    })
}

/// What is done where columns are left over for a whole panel, or for the half or the quarter of one.
fn if_narrow(
    m: &mut Maker<'_, '_>,
    (shape, left, whole): (Shape, &Dim, Vec<Stmt>),
    narrow: &mut dyn FnMut(&mut Maker<'_, '_>, Shape) -> Vec<Stmt>,
) -> Vec<Stmt> {
    let mut out = whole;
    for vectors in
        [2, 4].iter().filter(|parts| shape.vectors.is_multiple_of(**parts)).map(|p| shape.vectors / p)
    {
        let tile = Shape { rows: NARROW_ROWS.min(shape.rows * shape.vectors / vectors), vectors };
        let most = &n(vectors as i64) * &var(&LANES);
        let then = narrow(m, tile);
        out = vec![Stmt::If { left: left.clone(), right: &most + &n(1), then, otherwise: out }];
    }
    out
}

/// Few rows in the form in which tiles multiply them with codes, and the sums of their blocks; both row by row.
struct Spread {
    rows: Base,
    totals: Base,
    blocks: Dim,
}

/// Brings rows `from..to` of `all` into that form if those are few: once for all panels.
fn spread(
    m: &mut Maker<'_, '_>,
    coding: Coding,
    (from, to, all): (&Dim, &Dim, &Dim),
    o: &Operands<'_>,
) -> (Stmt, Spread) {
    let blocks = o.depth.floor_div(&n(BLOCK as i64)).expect("a block has elements");
    let (rows, totals) = (m.scratch(Slot::Spread), m.scratch(Slot::Totals));
    let row = m.variable("row", to);
    let local = &var(&row) - from;
    let args = vec![
        address(o.left.0, &(&local * o.left.2) + o.left.1),
        address(rows, &local * o.depth),
        address(totals, &local * &blocks),
        Arg::Int(blocks.clone()),
    ];
    let call = m.call(spread_row(body_coding(coding).bits), args);
    let then = vec![for_loop(&row, from.clone(), to.clone(), n(1), vec![call])];
    (if_few(all, then, Vec::new()), Spread { rows, totals, blocks })
}

/// One or the other, by the number of rows of the whole product: the last rows of many are computed as those before them,
/// so that a row gives the same bits at any place.
fn if_few(all: &Dim, then: Vec<Stmt>, otherwise: Vec<Stmt>) -> Stmt {
    Stmt::If { left: all.clone(), right: n(FEW_CODED_ROWS + 1), then, otherwise }
}

/// The calls of tiles over rows `from..to` of `all`, for one panel of codes.
fn coded_tiles(
    m: &mut Maker<'_, '_>,
    shape: Shape,
    coding: Coding,
    (from, to, all): (&Dim, &Dim, &Dim),
    o: &Operands<'_>,
    spread: &Spread,
) -> Vec<Stmt> {
    let coding = body_coding(coding);
    let blocks = &spread.blocks;
    let mut few = Vec::new();
    let mut begin = from.clone();
    for rows in [2, 1] {
        let row = m.variable("row", to);
        let local = &var(&row) - from;
        let args = vec![
            address(spread.rows, &local * o.depth),
            address(spread.totals, &local * blocks),
            address(o.panel.0, o.panel.1.clone()),
            address(o.dest.0, &(&local * o.dest.2) + o.dest.1),
            Arg::Int(blocks.clone()),
            Arg::Int(o.depth.clone()),
            Arg::Int(blocks.clone()),
            Arg::Int(o.dest.2.clone()),
        ];
        let call = m.call(block_tile(Shape { rows, ..shape }, coding), args);
        let size = n(rows as i64);
        let end = match rows {
            1 => to.clone(),
            _ => &begin + &(&size * &(to - &begin).floor_div(&size).expect("a tile has rows")),
        };
        few.push(for_loop(&row, begin, end.clone(), size, vec![call]));
        begin = end;
    }
    let wide = m.scratch(Slot::Wide);
    let args = vec![address(o.panel.0, o.panel.1.clone()), address(wide, n(0)), Arg::Int(blocks.clone())];
    let mut many = vec![m.call(widen_panel(shape.vectors, coding), args)];
    let widened = Operands { panel: (wide, &n(0)), ..*o };
    many.extend(tiles(m, shape, Zeros::Multiply, (from, to), &widened));
    vec![if_few(all, few, many)]
}

/// The kernel that stores `target.node`, an expression of a product and of stored tensors, over the product's axes.
///
/// All axes of the left operand alone are one axis of rows, batches and positions alike, so that short sequences fill tiles;
/// the results go to where each row belongs.
pub(crate) fn gemm(scope: &mut Scope<'_>, target: Target<'_>, plan: &Gemm) -> Kernel {
    let g = scope.graph;
    let (tiling, shape) = (scope.options.tiling, scope.options.tiling.tile());
    let item_rows = n(tiling.product_rows);
    let Gemm { contraction: c, left, panels, edge } = plan;
    let left = left.rows();

    let mut m = Maker::planned(scope, target, Kind::Gemm);
    let mut env = Env::new();
    let (rows, columns, depth) = (rows_of(g, c), g.extent(c.column).clone(), g.extent(c.depth).clone());
    let (width, group_width) = (tiling.panel_width(), tiling.group_width());
    let outer = outer_axes(c, &target.buffer.axes);
    let (blocks, groups) = (ceil_div(&rows, &item_rows), ceil_div(&columns, &group_width));
    let sharable = outer.is_empty();
    m.outer_axes(outer, &mut env);
    let (block, group) = (m.outer("block", &blocks), m.outer("group", &groups));
    let (first, last) = (m.variable("first", &rows), m.variable("last", &(&rows + &n(1))));
    let (from, to) = (m.variable("from", &columns), m.variable("to", &(&columns + &n(1))));
    let column = m.variable("column", &columns);
    let sums = m.scratch(Slot::Sums);
    let left = left_in_place(&m.scope.layouts, &m.scope.ranges, c, left, &env)
        .expect("stored with rows that are contiguous");
    let mut stmts = vec![
        let_dim(&first, &block * &item_rows),
        let_min(&last, vec![rows.clone(), &var(&first) + &item_rows]),
        let_dim(&from, &group * &group_width),
        let_min(&to, vec![columns.clone(), &var(&from) + &group_width]),
    ];
    let (first, last) = (var(&first), var(&last));
    let (from, to, at) = (var(&from), var(&to), var(&column));
    let panel = at.floor_div(&width).expect("a panel has columns");
    let panel = panels.at(g, &env, &panel, &width);
    let start = &left.start + &(&first * &left.row);
    let dest = &at - &from;
    let whole = Operands {
        left: (left.base, &start, &left.row),
        left_step: None,
        panel: (panels.base(), &panel),
        panel_row: None,
        depth: &depth,
        dest: (sums, &dest, &group_width),
        factors: None,
        ahead: None,
    };
    let block = Block { rows: (&first, &last), columns: (&from, &to), sums, group_width: &group_width };
    let (results, beside) = epilogue(&mut m, target, c, env, &block, &at);
    let each_panel = |inner| for_loop(&column, from.clone(), to.clone(), width.clone(), inner);
    match panels.coding {
        Some(coding) => {
            let (before, spread) = spread(&mut m, coding, (&first, &last, &rows), &whole);
            stmts.push(before);
            let tiles = coded_tiles(&mut m, shape, coding, (&first, &last, &rows), &whole, &spread);
            stmts.push(each_panel(tiles));
        }
        None => {
            stmts.extend(by_depth(&mut m, *edge, &whole, &block, (&column, &width), &beside));
        }
    }
    stmts.push(results);
    let mut kernel = m.finish(stmts, target.node, target.id);
    if let Base::Buffer(buffer) = left.base
        && sharable
    {
        kernel.row_blocks = Some(RowBlocks { buffer, blocks, groups });
    }
    kernel
}

/// The calls that add the product of a block, KC block by KC block of the depth, for each panel of its columns.
fn by_depth(
    m: &mut Maker<'_, '_>,
    edge: Edge,
    whole: &Operands<'_>,
    block: &Block<'_>,
    (column, width): (&Symbol, &Dim),
    beside: &[Beside],
) -> [Stmt; 2] {
    let (tiling, shape) = (m.scope.options.tiling, m.scope.options.tiling.tile());
    let ((first, last), (from, to)) = (block.rows, block.columns);
    let (depth, step) = (whole.depth, n(tiling.depth_block()));
    let (near, end) = (m.variable("near", depth), m.variable("end", &(depth + &n(1))));
    let count = &var(&end) - &var(&near);
    let (start, panel) = (whole.left.1 + &var(&near), whole.panel.1 + &(&var(&near) * width));
    let part = Operands {
        left: (whole.left.0, &start, whole.left.2),
        panel: (whole.panel.0, &panel),
        depth: &count,
        ahead: Some(Ahead::Panel { rows: block.rows, beside }),
        ..*whole
    };
    let zeros = Zeros::Multiply;
    let tiles = match edge {
        Edge::Whole => tiles_into(m, shape, (zeros, Into::Add), block.rows, &part),
        Edge::Narrow => by_width(m, shape, zeros, block.rows, &part, (&(to - &var(column)), width)),
    };
    let inner = for_loop(column, from.clone(), to.clone(), width.clone(), tiles);
    let limit = let_min(&end, vec![depth.clone(), &var(&near) + &step]);
    let clear = fill(m, block.sums, &(&(last - first) * block.group_width), 0.0);
    [clear, for_loop(&near, n(0), depth.clone(), step, vec![limit, inner])]
}

/// The part of the results that an item computes.
struct Block<'d> {
    /// The first row, and one past the last.
    rows: (&'d Dim, &'d Dim),
    /// The first column, and one past the last.
    columns: (&'d Dim, &'d Dim),
    /// Where its sums are, and how long their rows are.
    sums: Base,
    group_width: &'d Dim,
}

/// The rows of sums go out through whatever follows the product; and what lies beside them at `column`.
fn epilogue(
    m: &mut Maker<'_, '_>,
    target: Target<'_>,
    c: &Contraction,
    mut env: Env,
    block: &Block<'_>,
    column: &Dim,
) -> (Stmt, Vec<Beside>) {
    let g = m.scope.graph;
    let ((first, last), (from, to)) = (block.rows, block.columns);
    let offset = &n(0) - &(&(first * block.group_width) + from);
    let of_rows = row_major(&c.rows, &g.shape(&c.rows)).into_iter();
    let strides =
        of_rows.map(|(axis, each)| (axis, &each * block.group_width)).chain([(c.column, n(1))]).collect();
    let held = Maker::scratch_value(block.sums, offset, strides);
    let before = m.scope.stored.insert(c.node, held);
    let row_names: Vec<_> = c.rows.iter().map(|row| m.axis_name(*row)).collect();
    let row_name = if row_names.is_empty() { "row".to_owned() } else { row_names.join("_") };
    let row = m.variable(&row_name, &rows_of(g, c));
    numbered(g, &m.scope.ranges, &c.rows, &var(&row), &mut env);
    env.insert(c.column, AxisValue::Poly(var(&LANE)));
    m.scope.ranges.insert(&LANE, g.extent(c.column));
    let (id, count) = (target.id, to - from);
    let store = crate::emit::map::strip(m, target.node, id, target.buffer, &env, from.clone(), &count);
    let beside = beside(m, &store, &row, (from, column));
    m.scope.forget(c.node, before);
    m.scope.inlined.insert(c.node);
    (for_loop(&row, first.clone(), last.clone(), n(1), vec![store]), beside)
}

/// What the call that stores a row of results reads and writes beside the sums, from `column` on instead of `from`.
fn beside(m: &Maker<'_, '_>, store: &Stmt, row: &Symbol, (from, column): (&Dim, &Dim)) -> Vec<Beside> {
    let Stmt::Call { body, args } = store else { return Vec::new() };
    let from = from.as_symbol().expect("the first column is a variable");
    let moved = BTreeMap::from([(from.clone(), column.clone())]);
    let contiguous = m.body(*body).contiguous_params().into_iter();
    let at_rows = contiguous.filter_map(|(at, elem)| {
        let Arg::Address { base: base @ Base::Buffer(_), offset } = &args[at] else { return None };
        let (step, start) = offset.substitute(&moved).linear_in(row)?;
        let is_fixed = !step.mentions(row) && !start.mentions(row) && step.as_constant() != Some(0);
        is_fixed.then_some(Beside { base: *base, elem, start, step })
    });
    at_rows.collect()
}

/// Prefetches what lies beside a tile of results.
fn fetch_tile(shape: Shape, elem: Elem) -> Body {
    let mut b = Builder::new(format!("fetch_{}x{}", shape.rows, shape.vectors));
    let mut row = b.input("y");
    let step = b.int_param("y_row");
    for r in 0..shape.rows {
        if r > 0 {
            row = b.address(elem, row.at(step));
        }
        // Rows need not begin where lines do: one more.
        for v in 0..=shape.vectors {
            b.prefetch(elem, row.at_start().lanes(v as i32));
        }
    }
    b.finish()
}
