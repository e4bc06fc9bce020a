//! Quantised panels by the interpreter, against the definition of a product with the numbers that they stand for.

use half::f16;
use salient_vector::Body;
use salient_vector::eval::{Arg, Machine, Memory, eval};
use salient_vector::quantised::{BLOCK, Bits, Coding, Scales, block_tile, spread_row, widen_panel};
use salient_vector::tile::Shape;

/// Every coding of blocks.
const CODINGS: [Coding; 4] = [
    Coding { bits: Bits::Four, scales: Scales::Half },
    Coding { bits: Bits::Four, scales: Scales::Single },
    Coding { bits: Bits::Eight, scales: Scales::Half },
    Coding { bits: Bits::Eight, scales: Scales::Single },
];

/// Scales and offsets are powers of two and codes small integers: products are exact, and so are their sums in any order.
struct Panel {
    width: usize,
    depth: usize,
    coding: Coding,
}

impl Panel {
    fn code(&self, k: usize, j: usize) -> u32 {
        ((k * 31 + j * 17 + k * j) % (1 << self.coding.bits.count())) as u32
    }
    fn scale(&self, block: usize, j: usize) -> f32 {
        [0.25, 0.5, 1.0, 2.0][(block + j) % 4]
    }
    fn offset(&self, block: usize, j: usize) -> f32 {
        [-4.0, 0.0, 0.5, -1.0][(block * 3 + j) % 4]
    }
    fn value(&self, k: usize, j: usize) -> f32 {
        self.scale(k / BLOCK, j) * self.code(k, j) as f32 + self.offset(k / BLOCK, j)
    }

    fn memory(&self) -> Vec<u8> {
        let mut words: Vec<u32> = Vec::new();
        let each = self.coding.bits.codes_in_word();
        for block in 0..self.depth / BLOCK {
            let scales = (0..self.width).map(|j| self.scale(block, j));
            let floats: Vec<f32> = scales.chain((0..self.width).map(|j| self.offset(block, j))).collect();
            match self.coding.scales {
                Scales::Single => words.extend(floats.iter().map(|x| x.to_bits())),
                Scales::Half => words.extend(floats.as_chunks().0.iter().map(|pair: &[f32; 2]| {
                    let [low, high] = pair.map(|x| u32::from(f16::from_f32(x).to_bits()));
                    high << 16 | low
                })),
            }
            for group in 0..BLOCK / each {
                words.extend((0..self.width).map(|j| {
                    (0..each).fold(0, |word, at| {
                        let k = block * BLOCK + group * each + at;
                        word | self.code(k, j) << (at * self.coding.bits.count())
                    })
                }));
            }
        }
        words.into_iter().flat_map(u32::to_ne_bytes).collect()
    }
}

fn run(body: &Body, lanes: usize, args: &[Arg], memory: &mut Memory) {
    eval(body, Machine { lanes, fused: true }, args, memory)
        .unwrap_or_else(|error| panic!("{}, {lanes} lanes: {error}", body.name));
}

#[test]
fn rows_times_a_quantised_panel_are_a_product() {
    for coding in CODINGS {
        for (rows, vectors, lanes, blocks) in
            [(1, 1, 4, 1), (1, 4, 16, 2), (2, 2, 8, 3), (4, 1, 4, 2), (1, 2, 4, 0)]
        {
            let panel = Panel { width: vectors * lanes, depth: blocks * BLOCK, coding };
            let body = block_tile(Shape { rows, vectors }, coding);
            let (a_row, c_row) = (panel.depth + 3, panel.width + 2);
            let a: Vec<f32> = (0..rows * a_row).map(|at| (at * 7 % 13) as f32 - 6.0).collect();
            let (mut spread, mut totals) = (Vec::new(), Vec::new());
            for row in a.chunks(a_row) {
                let mut memory = Memory::default();
                let args = [
                    memory.add_f32(row),
                    memory.add_f32(&vec![9.0; a_row]),
                    memory.add_f32(&vec![9.0; blocks + 1]),
                    Arg::Int(blocks as i64),
                ];
                run(&spread_row(coding.bits), lanes, &args, &mut memory);
                spread.extend(memory.f32s(args[1]));
                totals.extend(memory.f32s(args[2]));
            }
            let mut memory = Memory::default();
            let mut args = vec![
                memory.add_f32(&spread),
                memory.add_f32(&totals),
                memory.add(panel.memory()),
                memory.add_f32(&vec![9.0; rows * c_row]),
            ];
            args.extend([blocks, a_row, blocks + 1, c_row].map(|n| Arg::Int(n as i64)));
            run(&body, lanes, &args, &mut memory);
            let found = memory.f32s(args[3]);
            for (r, j) in (0..rows).flat_map(|r| (0..c_row).map(move |j| (r, j))) {
                let sum: f32 = (0..panel.depth).map(|k| a[r * a_row + k] * panel.value(k, j)).sum();
                let want = if j < panel.width { sum } else { 9.0 };
                assert_eq!(
                    found[r * c_row + j],
                    want,
                    "{coding:?}, {rows}x{vectors}, {lanes} lanes, row {r}, column {j}"
                );
            }
        }
    }
}

#[test]
fn a_widened_panel_holds_the_numbers() {
    for (coding, vectors, lanes) in
        CODINGS.into_iter().flat_map(|coding| [(coding, 2, 8), (coding, 1, 4), (coding, 1, 16)])
    {
        let panel = Panel { width: vectors * lanes, depth: 2 * BLOCK, coding };
        let mut memory = Memory::default();
        let args =
            [memory.add(panel.memory()), memory.add_f32(&vec![0.0; panel.depth * panel.width]), Arg::Int(2)];
        run(&widen_panel(vectors, coding), lanes, &args, &mut memory);
        let want: Vec<f32> = (0..panel.depth)
            .flat_map(|k| (0..panel.width).map(move |j| (k, j)))
            .map(|(k, j)| panel.value(k, j))
            .collect();
        assert_eq!(memory.f32s(args[1]), want, "{coding:?}, {vectors} vectors of {lanes}");
    }
}
