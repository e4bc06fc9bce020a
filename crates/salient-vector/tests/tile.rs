//! Register tiles by the interpreter, against the definition of a product.

use salient_vector::eval::{Arg, Machine, Memory, eval};
use salient_vector::tile::{Columns, Into, Left, Right, Shape, Tile, Zeros, product_tile};

fn value(seed: usize) -> f32 {
    // Small integers: sums are exact in any order.
    (seed * 7919 % 17) as f32 - 8.0
}

#[test]
fn a_tile_is_a_product() {
    let shapes = [(1, 1), (1, 8), (2, 3), (6, 2)];
    for ((rows, vectors), lanes) in shapes.into_iter().flat_map(|s| [1, 4, 8, 16].map(|l| (s, l))) {
        let surroundings = [
            (Left::Packed, Right::Packed, Into::Set, Zeros::Multiply),
            (Left::Strided, Right::Packed, Into::Add, Zeros::Multiply),
            (Left::Strided, Right::Packed, Into::Set, Zeros::Skip),
            (Left::Strided, Right::Strided, Into::AddScaled, Zeros::Skip),
        ];
        for (left, right, into, zeros) in surroundings {
            for edge in [Columns::All, Columns::First] {
                let shape = Shape { rows, vectors };
                let ahead = into == Into::Add;
                let tile = Tile { shape, left, right, into, zeros, columns: edge, unroll: 2, ahead };
                let body = product_tile(&tile);
                let width = vectors * lanes;
                let counts = if edge == Columns::All { vec![width] } else { (0..=width).collect() };
                for (k, columns) in [0, 1, 5].into_iter().flat_map(|k| counts.iter().map(move |&n| (k, n))) {
                    let (a_row, a_step) = if left == Left::Packed { (1, rows) } else { (2 * k + 1, 2) };
                    let b_step = if right == Right::Packed { width } else { width + 2 };
                    let c_row = columns + 3;
                    let a: Vec<f32> = (0..rows * (2 * k + 1).max(k)).map(value).collect();
                    let panel: Vec<f32> = (0..k * b_step).map(|at| value(at + 5)).collect();
                    let c: Vec<f32> = (0..(rows - 1) * c_row + columns).map(|at| value(at + 11)).collect();

                    let mut memory = Memory::default();
                    let mut args = vec![memory.add_f32(&a), memory.add_f32(&panel), memory.add_f32(&c)];
                    let mut ints = vec![k];
                    if left == Left::Strided {
                        ints.extend([a_row, a_step]);
                    }
                    if right == Right::Strided {
                        ints.push(b_step);
                    }
                    ints.push(c_row);
                    if edge == Columns::First {
                        ints.push(columns);
                    }
                    let edge_count = if edge == Columns::First { ints.pop() } else { None };
                    args.extend(ints.into_iter().map(|n| Arg::Int(n as i64)));
                    let factors: Vec<f32> = (0..rows).map(|r| value(r + 3)).collect();
                    if into == Into::AddScaled {
                        args.push(memory.add_f32(&factors));
                    }
                    args.extend(edge_count.map(|n| Arg::Int(n as i64)));
                    if ahead {
                        args.extend([memory.add_f32(&[]), Arg::Int(5)]);
                    }
                    eval(&body, Machine { lanes, fused: true }, &args, &mut memory)
                        .unwrap_or_else(|error| panic!("{tile:?}, {lanes} lanes: {error}"));

                    let mut want = c;
                    for (r, j) in (0..rows).flat_map(|r| (0..columns).map(move |j| (r, j))) {
                        let sum: f32 =
                            (0..k).map(|k| a[r * a_row + k * a_step] * panel[k * b_step + j]).sum();
                        let old = want[r * c_row + j];
                        want[r * c_row + j] = sum
                            + match into {
                                Into::Set => 0.0,
                                Into::Add => old,
                                Into::AddScaled => old * factors[r],
                            };
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

#[test]
fn a_zero_that_means_nothing_hides_what_it_meets() {
    for zeros in [Zeros::Multiply, Zeros::Skip] {
        let shape = Shape { rows: 1, vectors: 1 };
        let (left, right) = (Left::Packed, Right::Packed);
        let (into, columns) = (Into::Set, Columns::All);
        let body = product_tile(&Tile { shape, left, right, into, zeros, columns, unroll: 1, ahead: false });
        let mut memory = Memory::default();
        let panel = [f32::NAN, f32::INFINITY, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
        let args = [memory.add_f32(&[0.0, 2.0]), memory.add_f32(&panel), memory.add_f32(&[9.0; 4])];
        let all = [args.as_slice(), &[Arg::Int(2), Arg::Int(4)]].concat();
        eval(&body, Machine { lanes: 4, fused: true }, &all, &mut memory).expect("runs");
        let out = memory.f32s(args[2]);
        assert_eq!(out[2..], [10.0, 12.0]);
        match zeros {
            Zeros::Multiply => assert!(out[0].is_nan() && out[1].is_nan()),
            Zeros::Skip => assert_eq!(out[..2], [6.0, 8.0]),
        }
    }
}
