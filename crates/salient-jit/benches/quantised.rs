//! Speed of single-row products with quantised panels, by shape of the tile: `cargo bench -p salient-jit --bench quantised`.
//!
//! The weights of a layer (1536 x 576) lie in memory larger than the caches; weights per nanosecond and GB/s of what is
//! stored, best of several runs, beside the same product of floats.

#![allow(unsafe_code, reason = "the machine code under measurement is called directly")]

use std::time::Instant;

use salient_jit::bodies;
use salient_jit::target::{Isa, IsaChoice, Target};
use salient_vector::Body;
use salient_vector::quantised::{BLOCK, Bits, Coding, Scales, block_tile};
use salient_vector::tile::{Columns, Into, Left, Right, Shape, Tile, Zeros, product_tile};

const DEPTH: usize = 1536;
const COLUMNS: usize = 576;
/// Layers one after the other, so that no cache holds them.
const LAYERS: usize = 60;

fn main() {
    for isa in Isa::ALL.into_iter().filter(|&isa| isa <= Isa::detect()) {
        let target = Target::host(IsaChoice::Only(isa)).expect("a target");
        for vectors in [1, 2, 3, 4, 6] {
            let shape = Shape { rows: 1, vectors };
            let tile = Tile {
                shape,
                left: Left::Strided,
                right: Right::Packed,
                into: Into::Set,
                zeros: Zeros::Multiply,
                columns: Columns::First,
                unroll: 4,
                ahead: false,
            };
            report(&target, "f32", &product_tile(&tile), vectors, DEPTH, DEPTH);
            for bits in [Bits::Eight, Bits::Four] {
                for (scales, what) in [(Scales::Half, "f16"), (Scales::Single, "f32")] {
                    let (name, coding) = (format!("q{} {what}", bits.count()), Coding { bits, scales });
                    let words = DEPTH / BLOCK * coding.words_in_block();
                    report(&target, &name, &block_tile(shape, coding), vectors, DEPTH / BLOCK, words);
                }
            }
        }
    }
}

/// `trip`: the inner extent of the body; `words`: elements of 4 bytes that a column takes.
fn report(target: &Target, name: &str, body: &Body, vectors: usize, trip: usize, words: usize) {
    let mut module = target.module().expect("a module");
    let id = bodies::define(&mut module, target, "tile", body).expect("compiled");
    module.finalize_definitions().expect("finalised");
    let code = module.get_finalized_function(id);
    type Strided = extern "C" fn(*const f32, *const f32, *mut f32, i64, i64, i64, i64, i64);
    type Quantised = extern "C" fn(*const f32, *const f32, *const f32, *mut f32, i64, i64, i64, i64);
    // SAFETY: the parameters are exactly these of the two bodies, and the module outlives the calls.
    let (strided, quantised) = unsafe {
        (std::mem::transmute::<*const u8, Strided>(code), std::mem::transmute::<*const u8, Quantised>(code))
    };
    let width = vectors * bodies::lanes(target);
    let panels = COLUMNS.div_ceil(width);
    // Not zeros: untouched pages would all be one.
    let memory = vec![1e-3_f32; LAYERS * panels * width * words + 16];
    let weights = &memory[memory.as_ptr().align_offset(64)..];
    let a = vec![1.0_f32; DEPTH];
    let mut c = vec![0.0_f32; panels * width];
    let mut best = f64::INFINITY;
    for _ in 0..8 {
        let start = Instant::now();
        for panel in 0..LAYERS * panels {
            let right = weights[panel * width * words..].as_ptr();
            let out = c[panel % panels * width..].as_mut_ptr();
            if name == "f32" {
                strided(a.as_ptr(), right, out, trip as i64, DEPTH as i64, 1, width as i64, width as i64);
            } else {
                let (blocks, depth) = (trip as i64, DEPTH as i64);
                // The row stands for its own totals: their values do not matter here.
                quantised(a.as_ptr(), a.as_ptr(), right, out, blocks, depth, blocks, width as i64);
            }
        }
        best = best.min(start.elapsed().as_secs_f64());
    }
    let weights = (LAYERS * panels * width * DEPTH) as f64;
    let bytes = (LAYERS * panels * width * words * 4) as f64;
    println!(
        "{:8} 1x{vectors} {name:6}: {:5.2} weights/ns, {:5.1} GB/s",
        target.isa().name(),
        weights / best / 1e9,
        bytes / best / 1e9
    );
}
