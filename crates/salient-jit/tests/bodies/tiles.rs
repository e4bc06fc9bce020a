//! Register tiles as machine code.

use salient_vector::eval::{Arg, Memory};
use salient_vector::tile::{Columns, Into, Left, Right, Shape, Tile, Zeros, product_tile};

use crate::harness::{Compiled, targets};

#[test]
fn tiles_agree_with_the_interpreter() {
    let mut random = fastrand::Rng::with_seed(1);
    for (rows, vectors) in [(1, 1), (1, 8), (3, 4), (6, 2), (6, 4), (8, 3), (12, 2), (14, 2)] {
        let surroundings = [
            (Left::Packed, Right::Packed, Into::Set, Zeros::Multiply),
            (Left::Strided, Right::Packed, Into::Add, Zeros::Multiply),
            (Left::Strided, Right::Strided, Into::AddScaled, Zeros::Skip),
        ];
        for (left, right, into, zeros) in surroundings {
            for columns in [Columns::All, Columns::First] {
                for unroll in [1, 4] {
                    let body = product_tile(&Tile {
                        shape: Shape { rows, vectors },
                        left,
                        right,
                        into,
                        zeros,
                        columns,
                        unroll,
                        ahead: into == Into::Add,
                    });
                    for target in targets() {
                        let compiled = Compiled::new(&body, &target);
                        let width = vectors * compiled.lanes();
                        for (k, exist) in [(0, width), (1, width - 1), (7, 1), (9, width / 2), (4, 0)] {
                            let exist = if columns == Columns::All { width } else { exist };
                            let (a_row, a_step) = (k + 2, 1);
                            let b_step = if right == Right::Packed { width } else { width + 3 };
                            let c_row = exist + 1;
                            let a_size = if left == Left::Packed { rows * k } else { (rows - 1) * a_row + k };
                            let c_size = (rows - 1) * c_row + exist;
                            let mut floats =
                                |n: usize| (0..n).map(|_| random.f32() - 0.5).collect::<Vec<f32>>();
                            let mut memory = Memory::default();
                            let mut args = vec![
                                memory.add_f32(&floats(a_size)),
                                memory.add_f32(&floats(k * b_step)),
                                memory.add_f32(&floats(c_size)),
                                Arg::Int(k as i64),
                            ];
                            if left == Left::Strided {
                                args.extend([Arg::Int(a_row as i64), Arg::Int(a_step)]);
                            }
                            if right == Right::Strided {
                                args.push(Arg::Int(b_step as i64));
                            }
                            args.push(Arg::Int(c_row as i64));
                            if into == Into::AddScaled {
                                args.push(memory.add_f32(&floats(rows)));
                            }
                            if columns == Columns::First {
                                args.push(Arg::Int(exist as i64));
                            }
                            if into == Into::Add {
                                args.extend([memory.add_f32(&[]), Arg::Int(5)]);
                            }
                            compiled.agrees(&args, &memory);
                        }
                    }
                }
            }
        }
    }
}
