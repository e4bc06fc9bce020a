//! Runs of training: the same seed gives the same bits whatever the threads, a run that is interrupted is the run that is not, and
//! what breaks a step is told.

use salient::{
    Array, Arrays, Course, Data, Decay, Evaluation, Model, Options, RowBatches, Schedule, TokenBatches,
    Trainer, Weights, read_arrays,
};
use std::path::PathBuf;

const LANGUAGE: &str = "
block decoder[V, D](ids: i64[B, T]) -> f32[B, T, V] {
    let x = embedding[V, D](ids) as wte
    let x = x + multi_head[2](x, x, x, causal[T, T, offset = 0]()) as attn
    return linear[V](layer_norm[eps = 1e-5](x) as ln) as head
}

model train[V = 7, D = 16](ids: i64[B, T], labels: i64[B, T], rate: f32) -> (loss: f32, length: f32) {
    let loss = cross_entropy(decoder[V, D](ids), labels)
    let g = grad(loss, parameters)
    for p, d in clip_norm[1.0](g) {
        if rank(p) == 2 {
            p = adamw[decay = 0.1](p, d, rate) as opt.{p}
        } else {
            p = sgd[momentum = 0.9](p, d, rate) as opt.{p}
        }
    }
    return loss, grad_norm(g)
}";

/// Tokens in which each follows from the one before it.
fn tokens(count: u32) -> Vec<u32> {
    (0..count).map(|n| (n * n / 3 + n) % 7).collect()
}

fn batches() -> TokenBatches {
    TokenBatches::new(tokens(400).into(), 3, 10, 5).unwrap()
}

fn course() -> Course {
    let schedule = Schedule { rate: 0.02, warm_up: 4, decay: Decay::Cosine, total: 30, least: 0.1 };
    Course::new(5, schedule)
}

fn model(source: &str, threads: usize) -> Model {
    Model::compile(source, &Options { threads: Some(threads), ..Options::default() }).unwrap()
}

fn file(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("salient-trainer-{}-{name}.safetensors", std::process::id()))
}

fn steps(trainer: &mut Trainer<'_>, count: usize) -> Vec<f32> {
    (0..count).map(|_| trainer.step().unwrap().number("loss").unwrap()).collect()
}

#[test]
fn the_same_seed_gives_the_same_bits_for_any_number_of_threads() {
    let batches = batches();
    let run = |threads| {
        let model = model(LANGUAGE, threads);
        let mut trainer = Trainer::new(&model, Weights::none(), &batches, course()).unwrap();
        let losses = steps(&mut trainer, 12);
        (losses, trainer.parameters().unwrap())
    };
    let (losses, weights) = run(1);
    assert!(losses[11] < losses[0], "{losses:?}");
    for threads in [2, 3] {
        let (others, other) = run(threads);
        assert_eq!(losses, others);
        assert!(weights.same_bits(&other), "{threads} threads");
    }
}

#[test]
fn an_interrupted_run_is_the_run_that_is_not() {
    let (batches, model, path) = (batches(), model(LANGUAGE, 2), file("resume"));
    let new = || Trainer::new(&model, Weights::none(), &batches, course()).unwrap();
    let mut whole = new();
    let losses = steps(&mut whole, 20);
    for at in [1, 2, 5, 9, 13, 19] {
        let mut first = new();
        steps(&mut first, at);
        first.save(&path).unwrap();
        let mut second = new();
        steps(&mut second, 3);
        second.resume(&path).unwrap();
        assert_eq!(second.made(), at as u64);
        assert_eq!(steps(&mut second, 20 - at), losses[at..], "interrupted at {at}");
        assert!(second.parameters().unwrap().same_bits(&whole.parameters().unwrap()), "interrupted at {at}");
    }
    std::fs::remove_file(path).unwrap();
}

/// With dropout in the attention and behind it.
fn dropping(threads: usize) -> Model {
    let drops = "x + dropout(multi_head[2](x, x, x, causal[T, T, offset = 0]()) as attn, 0.2)";
    let source = LANGUAGE.replace("x + multi_head[2](x, x, x, causal[T, T, offset = 0]()) as attn", drops);
    assert_ne!(source, LANGUAGE);
    Model::compile(&source, &Options { threads: Some(threads), train: Some(5), ..Options::default() })
        .unwrap()
}

#[test]
fn an_interrupted_run_with_dropout_is_the_run_that_is_not() {
    let (batches, path) = (batches(), file("resume-dropout"));
    let (one, two) = (dropping(1), dropping(2));
    let new = |model| Trainer::new(model, Weights::none(), &batches, course()).unwrap();
    let mut whole = new(&one);
    let losses = steps(&mut whole, 12);
    let mut first = new(&two);
    steps(&mut first, 5);
    first.save(&path).unwrap();
    let mut second = new(&two);
    second.resume(&path).unwrap();
    assert_eq!(steps(&mut second, 7), losses[5..]);
    assert!(second.parameters().unwrap().same_bits(&whole.parameters().unwrap()));
    // With another step than the checkpoint holds it draws other elements.
    let mut states = Arrays::new();
    for (name, array) in read_arrays(&path).unwrap() {
        let first = Array::from_i64(vec![], vec![0]).unwrap();
        states.insert(&*name, if name == "draw.step" { first } else { array }).unwrap();
    }
    salient::write_safetensors(&path, &states).unwrap();
    let mut other = new(&two);
    other.resume(&path).unwrap();
    assert_ne!(steps(&mut other, 7), losses[5..]);
    std::fs::remove_file(path).unwrap();
}

#[test]
fn what_does_not_belong_to_a_run_is_refused() {
    let (batches, model, path) = (batches(), model(LANGUAGE, 1), file("refused"));
    let mut trainer = Trainer::new(&model, Weights::none(), &batches, course()).unwrap();
    steps(&mut trainer, 2);
    trainer.save(&path).unwrap();
    let refused = |batches: &TokenBatches, course: Course| {
        let mut other = Trainer::new(&model, Weights::none(), batches, course).unwrap();
        let why = other.resume(&path).unwrap_err().to_string();
        assert_eq!(other.made(), 0);
        assert!(why.contains("refused"), "it names the file: {why}");
        why
    };
    assert!(refused(&batches, Course { seed: 6, ..course() }).contains("seed 5"), "another seed");
    let others = TokenBatches::new(tokens(401).into(), 3, 10, 5).unwrap();
    assert!(refused(&others, course()).contains("other data"), "other data");
    let weights = trainer.parameters().unwrap();
    salient::write_safetensors(&path, &weights).unwrap();
    assert!(refused(&batches, course()).contains("no checkpoint"), "no checkpoint");
    std::fs::remove_file(path).unwrap();
}

#[test]
fn a_checkpoint_that_cannot_be_written_leaves_the_one_before() {
    let (batches, model) = (batches(), model(LANGUAGE, 1));
    let folder = std::env::temp_dir().join(format!("salient-trainer-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("run.safetensors");
    let mut trainer = Trainer::new(&model, Weights::none(), &batches, course()).unwrap();
    steps(&mut trainer, 1);
    trainer.save(&path).unwrap();
    let before = std::fs::read(&path).unwrap();
    steps(&mut trainer, 1);
    // A folder that is not there: nothing is written, and the file of the first step stays.
    let missing = folder.join("missing").join("run.safetensors");
    let why = trainer.save(&missing).unwrap_err().to_string();
    assert!(why.contains("run.safetensors"), "{why}");
    assert_eq!(std::fs::read(&path).unwrap(), before);
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1, "nothing half-written is left");
    trainer.save(&path).unwrap();
    assert_ne!(std::fs::read(&path).unwrap(), before);
    std::fs::remove_dir_all(folder).unwrap();
}

const BREAKS: &str = "
model breaks(ids: i64[B, T], labels: i64[B, T], rate: f32, step: i64) -> (loss: f32) {
    param w: f32[] = ones
    let root = sqrt(3 - f32(step))
    let loss = w * root + total(f32(ids + labels)) * 0
    for p, d in grad(loss, parameters) {
        p = p - rate * d
    }
    return loss
}";

#[test]
fn what_is_not_finite_stops_the_run_before_the_step() {
    let (batches, model) = (batches(), model(BREAKS, 1));
    let mut trainer = Trainer::new(&model, Weights::none(), &batches, course()).unwrap();
    steps(&mut trainer, 4);
    let before = trainer.parameters().unwrap();
    let why = trainer.step().unwrap_err().to_string();
    assert!(why.starts_with("step 4: ") && why.contains("`loss`") && why.contains("NaN"), "{why}");
    assert_eq!(trainer.made(), 4);
    assert!(trainer.parameters().unwrap().same_bits(&before), "the step is taken back");
    let again = trainer.step().unwrap_err().to_string();
    assert_eq!(again, why);
}

#[test]
fn a_model_without_a_step_is_refused() {
    let batches = batches();
    let model = model("model m(ids: i64[B, T]) -> (loss: f32) {\n    return total(f32(ids))\n}", 1);
    let why = Trainer::new(&model, Weights::none(), &batches, course()).err().unwrap().to_string();
    assert!(why.contains("`m` moves no parameter"), "{why}");
}

#[test]
fn the_loss_alone_is_that_of_the_step() {
    let (batches, model) = (batches(), model(LANGUAGE, 2));
    let evaluation = Evaluation::new(&model, "loss", &Options::default()).unwrap();
    assert!(Evaluation::new(&model, "lost", &Options::default()).is_err());
    let mut trainer = Trainer::new(&model, Weights::none(), &batches, course()).unwrap();
    steps(&mut trainer, 3);
    let parameters = trainer.parameters().unwrap();
    let batch = salient::Batches::draw(&batches, 3).unwrap();
    let alone = evaluation.mean(&parameters, &[batch], &Arrays::new()).unwrap();
    let found = f64::from(trainer.step().unwrap().number("loss").unwrap());
    assert!((alone - found).abs() < 1e-5 * found, "{alone} for {found}");
    // Of a model with dropout it is what the first step would give.
    let dropping = dropping(1);
    let first = Trainer::new(&dropping, Weights::none(), &batches, course()).unwrap().step().unwrap();
    let parameters =
        Trainer::new(&dropping, Weights::none(), &batches, course()).unwrap().parameters().unwrap();
    let evaluation = Evaluation::new(&dropping, "loss", &Options::default()).unwrap();
    let batch = salient::Batches::draw(&batches, 0).unwrap();
    let alone = evaluation.mean(&parameters, &[batch], &Arrays::new()).unwrap();
    let found = f64::from(first.number("loss").unwrap());
    assert!((alone - found).abs() < 1e-5 * found, "{alone} for {found}");
}

const CLASSES: &str = "
model classes(x: f32[B, D], labels: i64[B], rate: f32) -> (loss: f32) {
    let adapted = linear[3](x) as base
    let loss = cross_entropy(adapted + linear[3, bias = false](x) as adapter, labels)
    for p, d in grad(loss, parameters.adapter) {
        p = sgd(p, d, rate) as opt.{p}
    }
    return loss
}";

#[test]
fn what_no_pattern_names_stays_and_is_kept_with_the_rest() {
    let x = (0..60).map(|n| ((n * 37 % 11) as f32 - 5.0) / 5.0).collect::<Vec<f32>>();
    let labels: Vec<i64> = x.chunks(2).map(|row| i64::from(row[0] > 0.0) + i64::from(row[1] > 0.5)).collect();
    let mut arrays = Arrays::new();
    arrays.insert("x", Array::from_f32(vec![30, 2], x).unwrap()).unwrap();
    arrays.insert("labels", Array::from_i64(vec![30], labels).unwrap()).unwrap();
    let batches = RowBatches::new(arrays, 8, 5).unwrap();
    let model = model(CLASSES, 1);
    let mut base = Arrays::new();
    base.insert("base.weight", Array::from_f32(vec![3, 2], vec![0.5; 6]).unwrap()).unwrap();
    base.insert("base.bias", Array::from_f32(vec![3], vec![0.25; 3]).unwrap()).unwrap();
    let course = Course::new(5, Schedule::constant(0.5));
    let mut trainer = Trainer::new(&model, Weights::from(&base), &batches, course).unwrap();
    let losses = steps(&mut trainer, 60);
    assert!(losses[59] < 0.7 * losses[0], "{losses:?}");
    let after = trainer.parameters().unwrap();
    let names: Vec<&str> = after.names().collect();
    assert_eq!(names, ["adapter.weight", "base.weight", "base.bias"]);
    assert!(base.iter().all(|(path, array)| after.get(path).unwrap().same_bits(array)));
    let path = file("classes");
    trainer.save(&path).unwrap();
    let held = read_arrays(&path).unwrap();
    assert!(matches!(held.get("train.steps").unwrap().data(), Data::I64(steps) if steps[0] == 60));
    assert!(held.get("base.weight").is_none(), "what does not move is no part of a checkpoint");
    std::fs::remove_file(path).unwrap();
}
