//! Speed of register tiles by shape, on each instruction set of this machine: `cargo bench -p salient-jit --bench tiles`.
//!
//! Operands lie in the first cache. The best of several runs is printed in GF/s, next to the time to compile.

#![allow(unsafe_code, reason = "the machine code under measurement is called directly")]

use std::time::{Duration, Instant};

use salient_jit::bodies;
use salient_jit::target::{Isa, IsaChoice, Target};
use salient_vector::tile::{Columns, Into, Left, Right, Shape, Tile, Zeros, product_tile};

const SHAPES: [(usize, usize); 15] = [
    (1, 4),
    (1, 6),
    (1, 8),
    (2, 4),
    (4, 2),
    (4, 3),
    (4, 4),
    (6, 2),
    (6, 4),
    (8, 2),
    (8, 3),
    (8, 4),
    (12, 2),
    (14, 2),
    (1, 10),
];

fn main() {
    let filter: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    for isa in Isa::ALL.into_iter().filter(|&isa| isa <= Isa::detect()) {
        if !filter.is_empty() && !filter.iter().any(|name| name == isa.name()) {
            continue;
        }
        let target = Target::host(IsaChoice::Only(isa)).expect("a target");
        for (rows, vectors) in SHAPES {
            for unroll in [1, 4] {
                let tile = Tile {
                    shape: Shape { rows, vectors },
                    left: Left::Packed,
                    right: Right::Packed,
                    into: Into::Set,
                    zeros: Zeros::Multiply,
                    columns: Columns::All,
                    unroll,
                    ahead: false,
                };
                let (speed, compile) = measure(&target, &tile);
                println!(
                    "{isa:8} {rows:2}x{vectors:<2} unroll {unroll}: {speed:6.1} GF/s, compiled in {compile:?}"
                );
            }
        }
    }
}

fn measure(target: &Target, tile: &Tile) -> (f64, Duration) {
    const K: usize = 128;
    let body = product_tile(tile);
    let mut module = target.module().expect("a module");
    let start = Instant::now();
    let id = bodies::define(&mut module, target, "tile", &body).expect("compiled");
    let compile = start.elapsed();
    module.finalize_definitions().expect("finalised");
    let code = module.get_finalized_function(id);
    type Packed = extern "C" fn(*const f32, *const f32, *mut f32, i64, i64);
    type Strided = extern "C" fn(*const f32, *const f32, *mut f32, i64, i64, i64, i64);
    // SAFETY: the tile's parameters are exactly these by its left operand, and the module outlives the calls.
    let (packed, strided) = unsafe {
        (std::mem::transmute::<*const u8, Packed>(code), std::mem::transmute::<*const u8, Strided>(code))
    };

    let lanes = bodies::lanes(target);
    let columns = tile.shape.vectors * lanes;
    let mut memory = vec![1.0_f32; K * tile.shape.rows + K * columns + tile.shape.rows * columns + 48];
    let aligned = memory.as_ptr().align_offset(64);
    let panel = memory[aligned..].as_mut_ptr();
    // SAFETY: the offsets stay within `memory`.
    let (a, c) = unsafe { (panel.add(K * columns), panel.add(K * columns + K * tile.shape.rows)) };
    let mut best = f64::INFINITY;
    for _ in 0..30 {
        let calls = 2_000;
        let start = Instant::now();
        for _ in 0..calls {
            match tile.left {
                Left::Packed => packed(a, panel, c, K as i64, columns as i64),
                Left::Strided => strided(a, panel, c, K as i64, K as i64, 1, columns as i64),
            }
        }
        best = best.min(start.elapsed().as_secs_f64() / f64::from(calls));
    }
    ((2 * K * tile.shape.rows * columns) as f64 / best / 1e9, compile)
}
