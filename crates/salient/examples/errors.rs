//! What goes wrong is told by who can mend it, as values and as sentences.

use salient::{Array, Arrays, Error, Fault, Model, Options, Weights};

const SOURCE: &str = "
model look_up(table: f32[V, D], ids: i64[T]) -> (rows: f32[T, D]) {
    let rows[t, d] = table[ids[t], d]
    return rows
}
";

fn inputs(shape: &[usize], ids: Vec<i64>) -> Result<Arrays, Error> {
    let mut inputs = Arrays::new();
    inputs.insert("table", Array::zeros(salient::DType::F32, shape.to_vec()).expect("there is memory"))?;
    inputs.insert("ids", Array::from_i64(vec![ids.len()], ids).expect("one axis"))?;
    Ok(inputs)
}

pub(crate) fn main() -> Result<(), Error> {
    // The source: diagnostics with their places, which `render` shows with excerpts.
    let wrong = Model::compile("model m(x: f32[T, D]) { return x @ x }", &Options::default());
    let Err(Error::Source(rejected)) = wrong else { panic!("the axes do not meet") };
    assert_eq!(rejected.diagnostics[0].message, "a product over axes of length D and T");
    println!("{}", rejected.render(false));

    // The call: everything that is wrong with names, types and shapes, before anything runs.
    let model = Model::compile(SOURCE, &Options::default())?;
    let refused = model.session(&inputs(&[4, 3, 2], vec![0])?, Weights::none());
    let Err(Error::Call(faults)) = refused else { panic!("the table has an axis too many") };
    assert!(matches!(faults[0], Fault::Rank { .. }));
    println!("{}", faults[0]);

    // The data: with the line of the source.
    let refused = model.run(&inputs(&[4, 3], vec![1, 9])?, Weights::none());
    let Err(error @ Error::Run(_)) = refused else { panic!("the index is outside") };
    assert_eq!(error.to_string(), "index 9 is outside the axis `v` of length 4 of `table` (source:3:22)");
    assert!(!error.is_call(), "whose mistake it is decides the exit code of the command line");
    Ok(())
}
