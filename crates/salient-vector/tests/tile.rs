//! Register tiles by the interpreter, against the definition of a product.

use salient_vector::eval::{Arg, Machine, Memory, eval};
use salient_vector::tile::{Columns, Into, Left, Tile, product_tile};

fn value(seed: usize) -> f32 {
    // Small integers: sums are exact in any order.
    (seed * 7919 % 17) as f32 - 8.0
}

#[test]
fn a_tile_is_a_product() {
    let shapes = [(1, 1), (1, 8), (2, 3), (6, 2)];
    for ((rows, vectors), lanes) in shapes.into_iter().flat_map(|s| [1, 4, 8, 16].map(|l| (s, l))) {
        for (left, into) in
            [(Left::Packed, Into::Set), (Left::Strided, Into::Add), (Left::Strided, Into::Set)]
        {
            for edge in [Columns::All, Columns::First] {
                let tile = Tile { rows, vectors, left, into, columns: edge, unroll: 2 };
                let body = product_tile(&tile);
                let width = vectors * lanes;
                let counts = if edge == Columns::All { vec![width] } else { (0..=width).collect() };
                for (k, columns) in [0, 1, 5].into_iter().flat_map(|k| counts.iter().map(move |&n| (k, n))) {
                    let (a_row, a_step) = if left == Left::Packed { (1, rows) } else { (2 * k + 1, 2) };
                    let c_row = columns + 3;
                    let a: Vec<f32> = (0..rows * (2 * k + 1).max(k)).map(value).collect();
                    let panel: Vec<f32> = (0..k * width).map(|at| value(at + 5)).collect();
                    let c: Vec<f32> = (0..(rows - 1) * c_row + columns).map(|at| value(at + 11)).collect();

                    let mut memory = Memory::default();
                    let mut args = vec![memory.add_f32(&a), memory.add_f32(&panel), memory.add_f32(&c)];
                    let mut ints = vec![k];
                    if left == Left::Strided {
                        ints.extend([a_row, a_step]);
                    }
                    ints.push(c_row);
                    if edge == Columns::First {
                        ints.push(columns);
                    }
                    args.extend(ints.into_iter().map(|n| Arg::Int(n as i64)));
                    eval(&body, Machine { lanes, fused: true }, &args, &mut memory)
                        .unwrap_or_else(|error| panic!("{tile:?}, {lanes} lanes: {error}"));

                    let mut want = c;
                    for (r, j) in (0..rows).flat_map(|r| (0..columns).map(move |j| (r, j))) {
                        let sum: f32 = (0..k).map(|k| a[r * a_row + k * a_step] * panel[k * width + j]).sum();
                        let old = if into == Into::Add { want[r * c_row + j] } else { 0.0 };
                        want[r * c_row + j] = old + sum;
                    }
                    assert_eq!(
                        memory.f32s(args[2]),
                        want,
                        "{tile:?}, {lanes} lanes, k {k}, {columns} columns"
                    );
                }
            }
        }
    }
}
