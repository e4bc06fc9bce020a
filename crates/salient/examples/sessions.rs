//! A model is compiled once; sessions bind it to lengths and weights; threads run them at once.

use salient::{Array, Arrays, Error, Model, Options, Weights};

/// Attention of queries over keys and values, and a layer behind it.
const SOURCE: &str = "
model attend(q: f32[T, E], k: f32[S, E], v: f32[S, E]) -> (y: f32[T, E]) {
    return linear[E](softmax(q @ k.T / sqrt(E)) @ v) as out
}
";

/// Inputs of these lengths, counting up from zero.
fn inputs(queries: usize, keys: usize) -> Result<Arrays, Error> {
    let counting = |rows: usize| {
        let elements = (0..rows * 4).map(|n| n as f32 / 10.0).collect();
        Array::from_f32(vec![rows, 4], elements).expect("the shape has so many elements")
    };
    let mut inputs = Arrays::new();
    inputs.insert("q", counting(queries))?;
    inputs.insert("k", counting(keys))?;
    inputs.insert("v", counting(keys))?;
    Ok(inputs)
}

pub(crate) fn main() -> Result<(), Error> {
    // Text to machine code, for all lengths: `T`, `S` and `E` stay symbols.
    let model = Model::compile(SOURCE, &Options::default())?;

    // Lengths and weights: everything about names, types and shapes is checked here. The weights are drawn by a seed;
    // `Weights::from(&arrays)` takes those of a checkpoint, as `salient::read_arrays` reads it.
    let small = inputs(2, 3)?;
    let session = model.session(&small, Weights::seeded(1))?;
    println!("{:?}", session.dimensions());

    // Results go into memory of the caller, which may be used again.
    let mut outputs = session.outputs()?;
    session.run(&small, &mut outputs)?;
    println!("{}", outputs[0]);

    // Other lengths, the same code and the same weights.
    let long = inputs(5, 7)?;
    let other = session.reshaped(&long, &Default::default())?;
    assert_eq!(other.outputs()?[0].shape(), [5, 4]);

    // A session may be run by any number of threads at once: each brings its outputs.
    let results: Vec<Result<Arrays, Error>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(|| other.call(&long))).collect();
        threads.into_iter().map(|thread| thread.join().expect("it does not panic")).collect()
    });
    let first = other.call(&long)?;
    for result in results {
        let same = result?.get("y").zip(first.get("y")).is_some_and(|(a, b)| a.same_bits(b));
        assert!(same, "the number of threads changes no bit");
    }
    Ok(())
}
