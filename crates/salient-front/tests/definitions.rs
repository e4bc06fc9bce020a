//! Names with their definitions, and what places of a text are, as editors ask for them.

use salient_front::{DefinitionKind, Meaning, Outline, Shape, Sources, examine, outline};

const TEXT: &str = "\
const half = 0.5

/// Doubles.
fn twice(x: f32[T, D]) {
    let y[i, d] = x[i, d] + x[i, d]
    return y
}

block project[N](x: f32[T, D], scale = 1.0) {
    param w: f32[D, N] = normal(0.02)
    return twice(scale * x) @ w
}

model m[H = 2](q: f32[T, D], k: f32[S, D]) -> (out: f32[T, S]) {
    let p = project[D](q, scale = half)
    let s[i, j] = sum[d]((p)[i, d] * k[j, d]) / H
    let w = softmax[j](s)
    for l in 0..2 {
        w = w * exp(w[i, j])
        let w = w + f32(l)
    }
    return w
}
";

fn sources(text: &str) -> Sources {
    let mut sources = Sources::new();
    sources.add("m.attn", text);
    sources
}

/// The byte of the `n`-th occurrence of a text, counted from zero.
fn byte(text: &str, wanted: &str, n: usize) -> u32 {
    text.match_indices(wanted).nth(n).expect("it occurs").0 as u32
}

/// The definition that a name leads to: its kind and the byte at which it stands.
fn leads(outline: &Outline, sources: &Sources, at: u32) -> Option<(DefinitionKind, u32)> {
    let definitions = &outline.definitions;
    let found = definitions.at(sources.user_files()[0].id, at)?;
    let Meaning::Defined(number) = found.meaning else { return None };
    let definition = &definitions.all()[number];
    Some((definition.kind, definition.span.start))
}

#[test]
fn names_lead_to_their_definitions() {
    let sources = sources(TEXT);
    let outline = outline(&sources);
    assert_eq!(outline.errors, []);
    let expect = |of: &str, n: usize, offset: u32, kind: DefinitionKind, target: (&str, u32)| {
        let found = leads(&outline, &sources, byte(TEXT, of, n) + offset);
        assert_eq!(found, Some((kind, byte(TEXT, target.0, 0) + target.1)), "{of} ({n})");
    };
    use salient_front::ast::Kind::{Block, Fn};
    expect("twice(scale", 0, 0, DefinitionKind::Function(Fn), ("twice", 0));
    expect("project[D](q", 0, 0, DefinitionKind::Function(Block), ("project", 0));
    expect("project[D](q", 0, 8, DefinitionKind::Dimension, ("q: f32[T, D]", 10));
    expect("scale = half", 0, 0, DefinitionKind::Argument, ("scale = 1.0", 0));
    expect("scale = half", 0, 8, DefinitionKind::Constant, ("half = 0.5", 0));
    expect("x[i, d] +", 0, 0, DefinitionKind::Argument, ("x: f32[T, D]", 0));
    expect("x[i, d] +", 0, 2, DefinitionKind::Index, ("i, d] = x", 0));
    expect("f32[D, N]", 0, 7, DefinitionKind::Static, ("N](x", 0));
    // In parentheses too.
    expect("(p)[i", 0, 1, DefinitionKind::Value, ("p = project", 0));
    // What a reduction binds, and the axis of a value, which an earlier definition named.
    expect("* k[j, d]", 0, 7, DefinitionKind::Index, ("sum[d]", 4));
    expect("softmax[j]", 0, 8, DefinitionKind::Index, ("s[i, j] = sum", 5));
    expect("/ H", 0, 2, DefinitionKind::Static, ("H = 2", 0));
    expect("f32[T, S]", 0, 7, DefinitionKind::Dimension, ("k: f32[S", 7));
    // An assignment changes the value; a definition in a loop ends with its round.
    expect("w = w * exp", 0, 0, DefinitionKind::Value, ("w = softmax", 0));
    expect("f32(l)", 0, 4, DefinitionKind::Loop, ("l in 0..2", 0));
    expect("return w", 0, 7, DefinitionKind::Value, ("w = softmax", 0));
    // The library's names are the reference's.
    let softmax = outline.definitions.at(sources.user_files()[0].id, byte(TEXT, "softmax", 0));
    assert_eq!(softmax.map(|u| u.meaning), Some(Meaning::Word));
}

#[test]
fn an_index_is_renamed_in_all_of_its_function() {
    let sources = sources(TEXT);
    let outline = outline(&sources);
    let at = byte(TEXT, "softmax[j]", 0) + 8;
    let found = outline.definitions.at(sources.user_files()[0].id, at).expect("a name");
    let Meaning::Defined(number) = found.meaning else { panic!("{found:?}") };
    let places = outline.definitions.renamed_with(number);
    assert_eq!(places.len(), 4, "{places:?}");
    assert!(places.iter().all(|place| sources.text(*place) == "j"), "{places:?}");
}

#[test]
fn what_is_in_scope_is_what_stands_before() {
    let sources = sources(TEXT);
    let outline = outline(&sources);
    let names = |at: u32| {
        let visible = outline.definitions.visible(sources.user_files()[0].id, at);
        visible.map(|d| d.name.clone()).collect::<Vec<_>>()
    };
    let in_m = names(byte(TEXT, "softmax", 0));
    for name in ["p", "s", "q", "k", "H", "T", "S", "twice", "project", "half"] {
        assert!(in_m.iter().any(|n| n == name), "{name} is not in {in_m:?}");
    }
    for name in ["y", "w", "x", "N", "l", "scale"] {
        assert!(!in_m.iter().any(|n| n == name), "{name} is in {in_m:?}");
    }
    assert!(names(byte(TEXT, "let w = w +", 0)).contains(&"l".to_owned()));
}

#[test]
fn places_have_the_shapes_that_lowering_finds() {
    let sources = sources(TEXT);
    let examined = examine(&sources);
    let at = |wanted: &str, n: usize, offset: usize, length: usize| {
        let start = byte(TEXT, wanted, n) as usize + offset;
        let known = examined.shapes.places().find(|(span, _)| span.range() == (start..start + length));
        known.map_or(Vec::new(), |(_, shapes)| shapes.to_vec())
    };
    let tensor = |text: &str| vec![Shape::Tensor(text.to_owned())];
    assert_eq!(at("y[i, d] = x", 0, 0, 1), tensor("f32[T, D]"));
    assert_eq!(at("w: f32[D, N]", 0, 0, 1), tensor("f32[D, D]"));
    assert_eq!(at("s[i, j]", 0, 0, 1), tensor("f32[T, S]"));
    assert_eq!(at("s[i, j]", 0, 2, 1), vec![Shape::Index("T".to_owned())]);
    assert_eq!(at("x[i, d] +", 0, 0, 7), tensor("f32 for each i, d"));
    assert_eq!(at("half)", 0, 0, 4), vec![Shape::Known("the number 0.5".to_owned())]);
    // A loop is one place with several rounds.
    assert_eq!(at("l in 0..2", 0, 0, 1).len(), 2);
}

#[test]
fn what_is_told_is_what_compiling_tells() {
    let unread = "model m(x: f32[T]) {\n    let y = 2 * x\n    return x\n}\n";
    let told = examine(&sources(unread)).diagnostics;
    assert_eq!(told.len(), 1, "{told:?}");
    let mut twice = sources(
        "import \"other.attn\"\nmodel a(x: f32[T]) { return f(x) }\nmodel b(x: f32[T]) { return f(x) }",
    );
    twice.add("other.attn", "fn f(x, z = 1) { return x }");
    let told = examine(&twice).diagnostics;
    // Two models share it.
    let messages: Vec<&str> = told.iter().map(|d| d.message.as_str()).collect();
    assert_eq!(messages, ["the argument `z` is never used"]);
}

#[test]
fn what_parses_is_known_beside_what_does_not() {
    let text = "fn f(x) { return x + }\nmodel m(x: f32[T]) {\n    let y = 2 * x\n    return y\n}\n";
    let sources = sources(text);
    let outline = outline(&sources);
    assert_eq!(outline.errors.len(), 1);
    let examined = examine(&sources);
    assert_eq!(examined.diagnostics, outline.errors);
    let names: Vec<&str> = outline.definitions.all().iter().map(|d| d.name.as_str()).collect();
    assert_eq!(names, ["m", "x", "T", "y"]);
    assert!(examined.shapes.places().any(|(_, shapes)| shapes == [Shape::Tensor("f32[T]".to_owned())]));
}

#[test]
fn any_text_has_an_outline() {
    let letters: Vec<char> = "ab[](){}=,:.\"/*+- \nT0if let model for in ü𝒳".chars().collect();
    let mut rng = fastrand::Rng::with_seed(7);
    for _ in 0..400 {
        let text: String = (0..rng.usize(0..60)).map(|_| letters[rng.usize(0..letters.len())]).collect();
        let cut = rng.usize(0..TEXT.len());
        let half = &TEXT[..cut];
        for text in [text.as_str(), half, &format!("{half}{text}")] {
            let sources = sources(text);
            let outline = outline(&sources);
            let inside = |u: &salient_front::Use| !sources.text(u.span).is_empty();
            assert!(outline.definitions.uses().iter().all(inside), "{text}");
            salient_front::word_at(text, cut);
            salient_front::imports(text);
        }
    }
}
