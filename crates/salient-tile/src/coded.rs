//! Weights that stay in blocks of few bits: which operands of products can, and how they lie in memory.
//!
//! A parameter that a checkpoint holds in blocks is read by products straight from its codes, packed in panels once, when
//! parameters are bound. Everything else that reads the parameter reads it in f32. Which parameters are in blocks is the
//! caller's knowledge ([`Options::coded`](crate::Options)).

use crate::contraction::Contraction;
use crate::index::{Bound, Env, Ranges};
use crate::kernel::{Buffer, BufferId, LANES, Role};
use crate::maker::{ceil_div, n, var};
use crate::panels::{Panels, peel};
use crate::plan::Layouts;
use crate::strip::LANE;
use half::f16;
use salient_ir::quantised::{BLOCK, Bits, Coding, Quantised, Scales};
use salient_ir::{DType, Dim, NodeId, Op};
use salient_vector::quantised as body;
use std::collections::BTreeMap;

/// Parameters in blocks, by position among the graph's.
pub type Codes<'a> = BTreeMap<usize, &'a Quantised>;

// The block of the graph's world is that of the bodies.
const _: () = assert!(BLOCK == body::BLOCK);

/// The coding of blocks as the bodies name it.
pub(crate) fn body_coding(coding: Coding) -> body::Coding {
    let bits = match coding.bits {
        Bits::Four => body::Bits::Four,
        Bits::Eight => body::Bits::Eight,
    };
    let scales = match coding.scales {
        Scales::Half => body::Scales::Half,
        Scales::Single => body::Scales::Single,
    };
    body::Coding { bits, scales }
}

/// The panels of the right operand of a product if it is a parameter in blocks, its rows the product's columns.
pub(crate) fn coded_panels(
    layouts: &Layouts<'_>,
    buffers: &mut Vec<Buffer>,
    c: &Contraction,
    vectors: usize,
) -> Option<Panels> {
    const DEPTH: &str = "%depth";
    let g = layouts.graph;
    let mut ranges = Ranges::default();
    ranges.insert(DEPTH, g.extent(c.depth));
    ranges.insert(LANE, g.extent(c.column));
    let env = Env::from([(c.column, Bound::Poly(var(LANE))), (c.depth, Bound::Poly(var(DEPTH)))]);
    let whole = peel(g, &ranges, c.right, c.column, &env);
    let Op::Param(at) = *g.op(whole.node) else { return None };
    let coding = *layouts.options.coded.get(&at)?;
    let [row, depth] = g.params()[at].axes[..] else { return None };
    let is = |axis, name: &str| matches!(whole.env.get(&axis), Some(Bound::Poly(d)) if *d == var(name));
    // A view that takes a part of the parameter is no whole matrix.
    let complete = g.extent(row) == g.extent(c.column) && g.extent(depth) == g.extent(c.depth);
    if !(whole.key == row && is(row, LANE) && is(depth, DEPTH) && complete) {
        return None;
    }
    let id = panel_buffer(
        buffers,
        whole.node,
        &g.params()[at].name,
        at,
        (g.extent(row), g.extent(depth)),
        vectors,
        coding,
    );
    let count = ceil_div(g.extent(row), &width(vectors));
    Some(Panels::coded(id, count, lines(g.extent(depth), coding), coding))
}

/// The buffer of a parameter's codes for products with so many vectors of columns at once.
fn panel_buffer(
    buffers: &mut Vec<Buffer>,
    node: NodeId,
    name: &str,
    at: usize,
    (rows, depth): (&Dim, &Dim),
    vectors: usize,
    coding: Coding,
) -> BufferId {
    let role = Role::Coded(at);
    let width = width(vectors);
    let shape = vec![ceil_div(rows, &width), lines(depth, coding), width];
    if let Some(known) = buffers.iter().position(|b| b.role == role && b.shape == shape) {
        return BufferId(known);
    }
    buffers.push(Buffer {
        name: format!("{name}.codes"),
        role,
        dtype: DType::I32,
        axes: Vec::new(),
        shape,
        node,
    });
    BufferId(buffers.len() - 1)
}

fn width(vectors: usize) -> Dim {
    &n(vectors as i64) * &var(LANES)
}

/// Rows of a panel's width that its codes, scales and offsets take.
fn lines(depth: &Dim, coding: Coding) -> Dim {
    let blocks = depth.floor_div(&n(BLOCK as i64)).expect("a block has elements");
    &blocks * &n(body_coding(coding).words_in_block() as i64)
}

/// Words that the panels of a matrix take, `width` columns each.
pub fn code_words(from: &Quantised, width: usize) -> usize {
    let [rows, depth] = *from.shape();
    rows.div_ceil(width) * (depth / BLOCK * body_coding(from.coding()).words_in_block()) * width
}

/// Writes the panels of a matrix, `width` columns each, an even number; columns past its rows are zeros.
///
/// # Panics
/// If `out` is not as long as the panels.
pub fn pack_codes(from: &Quantised, width: usize, out: &mut [i32]) {
    let ([rows, depth], coding) = (*from.shape(), body_coding(from.coding()));
    let (blocks, each) = (depth / BLOCK, coding.bits.codes_in_word());
    assert_eq!(out.len(), code_words(from, width), "the panels of the matrix");
    let lines = out.chunks_exact_mut(width * coding.words_in_block());
    for (at, lines) in lines.enumerate() {
        let (first, block) = (at / blocks * width, at % blocks);
        // The block of a column of this panel.
        let place = |j: usize| Some((first + j) * blocks + block).filter(|_| first + j < rows);
        let (floats, words) = lines.split_at_mut(width * coding.scales.words());
        let scale = |j| place(j).map_or(0.0, |at| from.scales()[at]);
        let offset = |j| place(j).map_or(0.0, |at| from.offsets()[at]);
        let both: Vec<f32> = (0..width).map(scale).chain((0..width).map(offset)).collect();
        match coding.scales {
            body::Scales::Single => {
                for (word, x) in floats.iter_mut().zip(&both) {
                    *word = x.to_bits().cast_signed();
                }
            }
            body::Scales::Half => {
                for (word, pair) in floats.iter_mut().zip(both.as_chunks::<2>().0) {
                    let [low, high] = pair.map(|x| u32::from(f16::from_f32(x).to_bits()));
                    *word = (high << 16 | low).cast_signed();
                }
            }
        }
        for (group, line) in words.chunks_exact_mut(width).enumerate() {
            for (j, word) in line.iter_mut().enumerate() {
                *word = place(j).map_or(0, |at| {
                    let codes = &from.codes()[at * BLOCK + group * each..][..each];
                    let join = |word: u32, code: &u8| word << coding.bits.count() | u32::from(*code);
                    codes.iter().rev().fold(0, join).cast_signed()
                });
            }
        }
    }
}
