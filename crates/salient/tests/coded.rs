//! Weights that stay in blocks of few bits, against the interpreter with the same numbers in f32.

use salient::{
    Array, Arrays, Bits, Coded, Coding, Engine, Isa, IsaChoice, Model, Options, Quantised, Scales, Weights,
};

/// A table that is gathered from and multiplied with, a gate, and a matrix that is read in part and so cannot stay in blocks.
const SOURCE: &str = "
model small(ids: i32[T]) -> (logits: f32[T, V], part: f32[T, P]) {
    param table: f32[V, D]
    param gate: f32[F, D]
    param up: f32[F, D]
    param down: f32[D, F]
    param last: f32[D, D]
    param cut: f32[2 * P, D]
    let x = table[ids, :]
    let h = x + (silu(x @ gate.T) * (x @ up.T)) @ down.T
    let part[t, p: P] = sum[d](h[t, d] * cut[2 * p, d])
    return (h @ last.T) @ table.T, part
}";

const SHAPES: [(&str, [usize; 2], Bits, Scales); 6] = [
    ("table", [53, 64], Bits::Eight, Scales::Half),
    ("gate", [96, 64], Bits::Four, Scales::Half),
    ("up", [96, 64], Bits::Four, Scales::Single),
    ("down", [64, 96], Bits::Four, Scales::Half),
    ("last", [64, 64], Bits::Eight, Scales::Single),
    ("cut", [14, 64], Bits::Eight, Scales::Half),
];

fn coded() -> Coded {
    let matrix = |(name, shape, bits, scales): (&str, [usize; 2], Bits, Scales)| {
        let most = match bits {
            Bits::Four => 16,
            Bits::Eight => 256,
        };
        let (count, blocks) = (shape[0] * shape[1], shape[0] * shape[1] / 32);
        let codes = (0..count).map(|n| ((n * 7 + n / 5) % most) as u8).collect();
        // Multiples of a power of two are halves.
        let (parts, shift) = match scales {
            Scales::Half => (32, 0.0078125),
            Scales::Single => (24, 0.01),
        };
        let each: Vec<f32> = (0..blocks).map(|n| (1 + n % 9) as f32 / (parts * most) as f32).collect();
        let offsets = each.iter().map(|scale| -scale * (most / 2) as f32 + shift).collect();
        let matrix = Quantised::new(shape, bits, codes, each, offsets).unwrap();
        assert_eq!(matrix.coding(), Coding { bits, scales }, "{name}");
        (name.to_owned(), matrix)
    };
    SHAPES.into_iter().map(matrix).collect()
}

fn ids(count: usize) -> Arrays {
    let mut inputs = Arrays::new();
    let ids = (0..count).map(|n| (n * 31 % 53) as i32).collect();
    inputs.insert("ids", Array::from_i32(vec![count], ids).unwrap()).unwrap();
    inputs
}

#[test]
fn products_of_codes_agree_with_the_interpreter() {
    let coded = coded();
    let weights = Weights::none().coded(&coded);
    let oracle = Model::compile(SOURCE, &Options { engine: Engine::Oracle, ..Options::default() }).unwrap();
    let isas = Isa::ALL.into_iter().filter(|isa| *isa <= Isa::detect());
    for isa in isas {
        let options = Options { isa: IsaChoice::Only(isa), threads: Some(2), ..Options::default() };
        // Two ways to the same numbers: read as they are, and widened since the model was not compiled for them.
        for options in [options.clone().for_coded(&coded), options] {
            let model = Model::compile(SOURCE, &options).unwrap();
            // One row, pairs, the last count that is multiplied as it is, the first that is widened, several blocks of rows.
            for count in [1, 2, 3, 4, 5, 70] {
                let (found, want) =
                    (model.run(&ids(count), weights).unwrap(), oracle.run(&ids(count), weights).unwrap());
                for (name, want) in want.iter() {
                    let (found, want) = (found.get(name).unwrap().to_f64_vec(), want.to_f64_vec());
                    let scale = want.iter().fold(0.0, |most: f64, x| most.max(x.abs()));
                    let off = found.iter().zip(&want).fold(0.0, |most: f64, (a, b)| most.max((a - b).abs()));
                    assert!(off <= 1e-5 * scale, "{isa:?}, {count} rows, {name}: {off} of {scale}");
                }
            }
        }
    }
}

#[test]
fn what_only_products_read_is_not_widened() {
    let coded = coded();
    let options = Options::default().for_coded(&coded);
    let model = Model::compile(SOURCE, &options).unwrap();
    let plain = Model::compile(SOURCE, &Options::default()).unwrap();
    let weights = Weights::none().coded(&coded);
    let bytes = |model: &Model| model.session(&ids(1), weights).unwrap().loaded_bytes().unwrap();
    let words: usize = SHAPES.iter().map(|(_, [rows, depth], ..)| rows * depth).sum();
    assert!(bytes(&model) < bytes(&plain), "{} {}", bytes(&model), bytes(&plain));
    assert!(bytes(&plain) >= 4 * (words - 14 * 64), "panels of floats: {}", bytes(&plain));
}

#[test]
fn a_parameter_compiled_for_blocks_must_come_in_blocks() {
    let coded = coded();
    let model = Model::compile(SOURCE, &Options::default().for_coded(&coded)).unwrap();
    let mut floats = Arrays::new();
    for (name, blocks) in &coded {
        floats.insert(name.as_str(), blocks.widen().unwrap()).unwrap();
    }
    let error = model.run(&ids(3), Weights::from(&floats)).unwrap_err().to_string();
    assert!(error.contains(".codes`") && error.contains("blocks"), "{error}");
}
