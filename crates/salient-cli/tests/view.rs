//! Inner values as results, and pictures of weights.

mod common;

use common::{file, salient, scratch};

const BLOCKS: &str = "
block head[D](x: f32[T, D]) -> f32[T, D] {
  param wq: f32[D, D] = normal(0.5)
  let q = x @ wq
  let weights[i, j] = softmax[j](if j <= i then sum[e](q[i, e] * x[j, e]) else -inf)
  return weights @ x
}
model m[D = 8](x: f32[T, D]) -> (y: f32[T, D]) {
  let y = x
  for l in 0..2 {
    y = y + head[D](y) as layers.{l}
  }
  return y
}
";

#[test]
fn values_inside_of_a_model_are_printed_by_their_names() {
    let model = file("inner.attn", BLOCKS);
    let run = |more: &[&str]| {
        let ended = salient(&[&["run", &model, "--random", "--set", "T=4"], more].concat());
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        ended.stdout
    };
    let plain = run(&[]);
    for engine in ["jit", "unfused", "oracle"] {
        let shown = run(&["--print", "weights", "--engine", engine]);
        assert!(
            shown.contains("layers.0.weights: f32[4, 4]\n[[1.00000 0.00000 0.00000 0.00000]\n"),
            "{shown}"
        );
        assert!(shown.contains("layers.1.weights: f32[4, 4]\n"), "{shown}");
    }
    assert!(run(&["--print", "layers.1.*"]).starts_with(&plain));
    // The last value of a name may be a result already; those before have their number behind it.
    let of_y = run(&["--print", "y*"]);
    let names: Vec<&str> =
        of_y.lines().filter_map(|line| line.split_once(": f32")).map(|(name, _)| name).collect();
    assert_eq!(names, ["y", "y#1", "y#2"]);
    let unknown = salient(&["run", &model, "--random", "--print", "weigths"]);
    assert_eq!(unknown.code, Some(2));
    assert!(unknown.stderr.contains("no value that is called `weigths`"), "{}", unknown.stderr);
    assert!(unknown.stderr.contains("did you mean `weights`?"), "{}", unknown.stderr);
}

/// The pixels of a file, three bytes each, and its width.
fn pixels(path: &std::path::Path) -> (usize, Vec<u8>) {
    let file = std::io::BufReader::new(std::fs::File::open(path).expect("a file"));
    let mut reader = png::Decoder::new(file).read_info().expect("a picture");
    let mut bytes = vec![0; reader.output_buffer_size().expect("it fits")];
    reader.next_frame(&mut bytes).expect("its pixels");
    (reader.info().width as usize, bytes)
}

#[test]
fn maps_are_drawn_with_their_numbers_and_labels() {
    let model = file("view.attn", BLOCKS);
    let path = |name: &str| scratch(name);
    let view = |more: &[&str]| salient(&[&["view", &model, "--random", "--set", "T=3"], more].concat());
    let svg = path("maps.svg");
    let ended = view(&["--labels", "the,<cat>,sat", "-o", svg.to_str().unwrap()]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let text = std::fs::read_to_string(&svg).expect("a picture");
    let picture = roxmltree::Document::parse(&text).expect("a document");
    let of_tag = |name: &'static str| picture.descendants().filter(move |node| node.has_tag_name(name));
    let maps: Vec<_> = of_tag("g").filter(|node| node.attribute("class") == Some("map")).collect();
    assert_eq!(maps.len(), 2);
    for map in maps {
        assert_eq!((map.attribute("data-rows"), map.attribute("data-columns")), (Some("3"), Some("3")));
        let cells: Vec<_> = map.children().filter(|node| node.has_tag_name("rect")).collect();
        assert_eq!(cells.len(), 9);
        // The first query sees the first key alone: the brightest colour, and the darkest.
        assert_eq!(cells[0].attribute("fill"), Some("#fde725"));
        assert_eq!(cells[1].attribute("fill"), Some("#440154"));
        let said = |at: usize| {
            cells[at].children().find_map(|node| node.text().filter(|text| !text.trim().is_empty()))
        };
        assert_eq!(said(0), Some("the → the: 1.00"));
        assert_eq!(said(5), Some("<cat> → sat: 0"));
    }
    let texts: Vec<&str> = of_tag("text").filter_map(|node| node.text()).collect();
    for word in ["the", "<cat>", "sat", "layers.0", "layers.1", "1.00", "0"] {
        assert!(texts.contains(&word), "{word} in {texts:?}");
    }
    let png = path("maps.png");
    assert_eq!(view(&["-o", png.to_str().unwrap()]).code, Some(0));
    let (width, bytes) = pixels(&png);
    let has = |colour: [u8; 3]| bytes.chunks_exact(3).filter(|pixel| *pixel == colour).count();
    assert!(width > 100 && has([0xfd, 0xe7, 0x25]) > 2 * 40 * 40 && has([0x44, 0x01, 0x54]) > 6 * 40 * 40);
    let folder = path("maps");
    assert_eq!(view(&["-o", folder.to_str().unwrap()]).code, Some(0));
    for name in ["00-layers.0.svg", "01-layers.1.svg"] {
        let text = std::fs::read_to_string(folder.join(name)).expect("a picture of each attention");
        roxmltree::Document::parse(&text).expect("a document");
    }
    let shown = view(&["--terminal", "--node", "layers.1.weights", "--labels", "a,b,c"]);
    assert!(shown.stdout.contains("layers.1.weights\na \x1b[48;2;253;231;37m  "), "{}", shown.stdout);
}

#[test]
fn what_cannot_be_drawn_is_refused() {
    let model = file("view_refused.attn", BLOCKS);
    let view = |more: &[&str]| {
        let ended = salient(&[&["view", &model, "--random", "--set", "T=3"], more].concat());
        assert_ne!(ended.code, Some(0));
        ended.stderr
    };
    assert!(view(&["--labels", "a,b", "--terminal"]).contains("layers.0: there are 2 labels for 3 queries"));
    assert!(view(&[]).contains("standard output is no terminal"));
    assert!(view(&["--node", "z", "--terminal"]).contains("no value that is called `z`"));
    let flat = file("view_flat.attn", "model m(x: f32[T]) -> (y: f32[T]) { return 2 * x }");
    let ended = salient(&["view", &flat, "--random", "--terminal"]);
    assert!(ended.stderr.contains("no attention is found"), "{}", ended.stderr);
}

#[test]
fn times_over_lengths_are_drawn() {
    let model = file("over.attn", BLOCKS);
    let svg = scratch("over.svg");
    let bench = |more: &[&str]| {
        salient(
            &[&["bench", &model, "--rounds", "1", "--seconds", "0.001", "--draw", "x=normal"], more].concat(),
        )
    };
    let ended = bench(&["--over", "T=8,4,8", "--plot", svg.to_str().unwrap()]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let begun = |words: &str| ended.stdout.lines().filter(|line| line.starts_with(words)).count();
    assert_eq!(
        (begun("T = 4 "), begun("T = 8 "), ended.stdout.lines().count()),
        (2, 2, 4),
        "{}",
        ended.stdout
    );
    let text = std::fs::read_to_string(&svg).expect("a picture");
    let picture = roxmltree::Document::parse(&text).expect("a document");
    let lines: Vec<&str> = picture.descendants().filter_map(|node| node.attribute("data-series")).collect();
    assert_eq!(lines, ["jit", "unfused", "jit", "unfused"]);
    assert_eq!(picture.descendants().filter(|node| node.attribute("r") == Some("3")).count(), 8);
    assert!(bench(&["--over", "T=4", "--plot", "x.gif"]).stderr.contains("a plot is a file .svg"));
    assert!(bench(&["--over", "T=0"]).stderr.contains("a length is at least 1"));
    assert!(bench(&["--over", "Z=4"]).stderr.contains("no dimension or parameter `Z`"));
}
