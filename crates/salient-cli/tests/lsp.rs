//! The language server, as an editor meets it: started as a program, over its standard input and output.

mod common;

use common::editor::{Editor, byte, edited, position};
use common::{file, scratch};
use serde_json::{Value, json};

const URI: &str = "file:///nowhere/m.attn";

/// Letters outside of ASCII stand before what is asked for, in the text and on some of its lines.
const TEXT: &str = "\
// Größe 𝒳
const half = 0.5

/// Doubles ä.
fn twice(x: f32[T, D]) {
    return x + x
}

block project[N](x: f32[T, D]) {
    param w: f32[D, N] = normal(0.02)
    return x @ w
}

model m(q: f32[T, D], k: f32[S, D], v: f32[S, D]) -> f32[T, D] {
    let p = project[D](twice(half * q))
    require D % 2 == 0, \"größer 𝒳\" let s = p @ k.T
    let w[i, j] = s[i, j] / sqrt(D)
    return softmax[j](w) @ v
}
";

fn program() -> String {
    TEXT.to_owned()
}

fn text_of(answer: &Value) -> &str {
    answer["contents"]["value"].as_str().unwrap_or_default()
}

/// What is shown beside a place.
fn hover(editor: &mut Editor, text: &str, wanted: &str, offset: usize) -> String {
    let (line, column) = position(text, wanted, 0);
    let answer = editor.at("textDocument/hover", URI, (line, column + offset));
    text_of(&answer).to_owned()
}

fn labels(items: &Value) -> Vec<&str> {
    items.as_array().expect("a list").iter().filter_map(|item| item["label"].as_str()).collect()
}

#[test]
fn a_conversation_begins_and_ends() {
    let editor = Editor::new();
    assert_eq!(editor.leaves().code(), Some(0));
    assert_eq!(Editor::new().vanishes().code(), Some(2));
    assert_eq!(Editor::silent().vanishes().code(), Some(2));
}

#[test]
fn what_is_no_message_ends_the_conversation_without_a_fault() {
    for bytes in ["Content-Length: 3\r\n\r\n{{{", "Content-Length: x\r\n\r\n", "hello\r\n\r\n"] {
        let mut editor = Editor::new();
        editor.sends(bytes.as_bytes());
        let code = editor.vanishes().code();
        assert_eq!(code, Some(2), "{bytes:?}");
    }
}

#[test]
fn questions_that_have_no_answer_get_none() {
    let mut editor = Editor::new();
    let nowhere = json!({ "textDocument": { "uri": "file:///never/opened.attn" }, "position": { "line": 1, "character": 1 } });
    for method in
        ["hover", "completion", "definition", "prepareRename", "formatting", "documentSymbol", "codeLens"]
    {
        let mut params = nowhere.clone();
        params["options"] = json!({ "tabSize": 4, "insertSpaces": true });
        assert_eq!(editor.asks(&format!("textDocument/{method}"), &params), Value::Null, "{method}");
    }
    assert_eq!(editor.tries("textDocument/hover", &json!({ "x": 1 })).expect_err("an error")["code"], -32602);
    assert_eq!(editor.tries("textDocument/dance", &nowhere).expect_err("an error")["code"], -32601);
    let lens =
        json!({ "range": { "start": { "line": 0, "character": 0 }, "end": { "line": 0, "character": 0 } } });
    assert_eq!(editor.tries("codeLens/resolve", &lens).expect_err("an error")["code"], -32602);
    // What has not the form of its kind, and what is not known, is left aside.
    editor.tells("textDocument/didOpen", &json!([1, 2]));
    editor.tells("textDocument/didChange", &json!({ "textDocument": { "uri": "file:///never/opened.attn", "version": 3 }, "contentChanges": [{ "text": "x" }] }));
    editor.tells("$/unheard", &Value::Null);
    let far = json!({ "line": 4_000_000_000u32, "character": 4_000_000_000u32 });
    editor.opens(URI, &program());
    let params = json!({ "textDocument": { "uri": URI }, "position": far });
    assert_eq!(editor.asks("textDocument/hover", &params), Value::Null);
    assert!(editor.leaves().success());
}

#[test]
fn hover_says_what_stands_there() {
    let (mut editor, text) = (Editor::new(), program());
    assert_eq!(editor.opens(URI, &text), Vec::<Value>::new());
    let mut says = |wanted: &str, offset: usize, words: &[&str]| {
        let found = hover(&mut editor, &text, wanted, offset);
        for word in words {
            assert!(found.contains(word), "{wanted}: {word:?} is not in {found:?}");
        }
    };
    says("p = project", 0, &["p: f32[T, D]", "value"]);
    says("s = p @", 0, &["s: f32[T, S]"]);
    says("p @ k.T", 0, &["p: f32[T, D]"]);
    says("p @ k.T", 2, &["p @ k.T: f32[T, S]", "A @ B", "matrix product"]);
    says("twice(half", 0, &["fn twice(x: f32[T, D])", "Doubles ä."]);
    says("half * q", 0, &["half: the number 0.5", "constant"]);
    says("w: f32[D, N]", 0, &["w: f32[D, D]", "parameter", "normal(0.02)"]);
    says("i, j] = s", 0, &["i: index below T", "index"]);
    says("softmax[j]", 0, &["softmax[", "library"]);
    says("require D", 0, &["require CONDITION"]);
    says("T, D], k", 0, &["dimension"]);
    says("sqrt(D)", 5, &["D: the integer D", "dimension"]);
}

#[test]
fn names_in_scope_are_offered() {
    let (mut editor, text) = (Editor::new(), program());
    editor.opens(URI, &text);
    let inside = editor.at("textDocument/completion", URI, position(&text, "s = p @", 0));
    let offered = labels(&inside);
    for name in
        ["p", "q", "T", "S", "project", "twice", "half", "softmax", "linear", "sum", "let", "f32", "i64"]
    {
        assert!(offered.contains(&name), "`{name}` is not offered");
    }
    for name in ["w", "x", "N", "m", "@"] {
        assert!(!offered.contains(&name), "`{name}` is offered");
    }
    let shape = inside.as_array().expect("a list").iter().find(|item| item["label"] == "p");
    assert_eq!(shape.expect("it is offered")["detail"], "f32[T, D]");
    for comment in ["Größe", "größer"] {
        let (line, column) = position(&text, comment, 0);
        let inside = editor.at("textDocument/completion", URI, (line, column + 3));
        assert_eq!(labels(&inside), [""; 0], "in {comment}");
    }
}

#[test]
fn names_lead_to_their_definitions() {
    let (mut editor, text) = (Editor::new(), program());
    editor.opens(URI, &text);
    let mut leads = |from: &str, offset: usize, to: &str| {
        let (line, column) = position(&text, from, 0);
        let found = editor.at("textDocument/definition", URI, (line, column + offset));
        assert_eq!(found["uri"], URI, "{from}");
        let start = byte(&text, &found["range"]["start"]);
        assert!(text[start..].starts_with(to), "{from} leads to {:?}", &text[start..start + 10]);
    };
    leads("twice(half", 0, "twice(x");
    leads("half * q", 0, "half = 0.5");
    leads("project[D](", 0, "project[N]");
    leads("p @ k.T", 0, "p = project");
    leads("x @ w", 4, "w: f32[D, N]");
    leads("softmax[j]", 8, "j] = s");
    leads("k.T", 0, "k: f32[S");
    leads("sqrt(D)", 5, "D], k");
    // The library's text is a file of its own.
    let found = editor.at("textDocument/definition", URI, position(&text, "softmax[j]", 0));
    let path = found["uri"].as_str().expect("an address").strip_prefix("file://").expect("a file");
    let library = std::fs::read_to_string(path.replace("%20", " ")).expect("the file is there");
    assert!(library[byte(&library, &found["range"]["start"])..].starts_with("softmax["));
    let uses = editor.at("textDocument/references", URI, position(&text, "p = project", 0));
    assert_eq!(uses.as_array().expect("a list").len(), 2);
}

/// The text after a name is changed.
fn renamed(editor: &mut Editor, text: &str, place: (usize, usize), name: &str) -> Result<String, String> {
    let position = json!({ "line": place.0, "character": place.1 });
    let params = json!({ "textDocument": { "uri": URI }, "position": position, "newName": name });
    let answer = editor.tries("textDocument/rename", &params);
    let words = |error: Value| error["message"].as_str().unwrap_or_default().to_owned();
    answer.map(|answer| edited(text, &answer["changes"][URI])).map_err(words)
}

#[test]
fn names_are_changed_where_they_mean_the_same() {
    let (mut editor, text) = (Editor::new(), program());
    editor.opens(URI, &text);
    let mut changed =
        |wanted: &str, name: &str| renamed(&mut editor, &text, position(&text, wanted, 0), name);
    let s = changed("s = p @", "scores").expect("a new name");
    assert!(s.contains("𝒳\" let scores = p @ k.T") && s.contains("= scores[i, j] / sqrt"), "{s}");
    let twice = changed("twice(half", "doubled").expect("a new name");
    assert!(twice.contains("fn doubled(x") && twice.contains("(doubled(half * q))"), "{twice}");
    let axis = changed("j] = s", "key").expect("a new name");
    assert!(axis.contains("w[i, key] = s[i, key]") && axis.contains("softmax[key](w)"), "{axis}");
    let dimension = changed("S, D], v", "Keys").expect("a new name");
    assert!(dimension.contains("k: f32[Keys, D], v: f32[Keys, D]"), "{dimension}");
    // What would mean something else, or cannot be a name.
    assert!(changed("s = p @", "v").expect_err("refused").contains("would mean something else"));
    assert!(changed("s = p @", "let").expect_err("refused").contains("cannot be a name"));
    assert!(changed("s = p @", "größe").expect_err("refused").contains("cannot be a name"));
    assert!(changed("twice(half", "sum").is_err());
    assert!(changed("S, D], v", "s").is_err());
    assert!(changed("softmax[j]", "other").expect_err("refused").contains("the language's own"));
    let range = editor.at("textDocument/prepareRename", URI, position(&text, "s = p @", 0));
    assert_eq!(byte(&text, &range["end"]) - byte(&text, &range["start"]), 1);
}

#[test]
fn a_document_gets_the_layout_of_fmt() {
    let (mut editor, text) = (Editor::new(), program());
    editor.opens(URI, &text);
    let first = edited(&text, &editor.of("textDocument/formatting", URI));
    let path = file("formatted by fmt.attn", &text);
    assert_eq!(common::salient(&["fmt", &path]).code, Some(0));
    assert_eq!(first, std::fs::read_to_string(&path).expect("a file of tests"));
    editor.types(URI, 2, &first);
    assert_eq!(editor.of("textDocument/formatting", URI), json!([]));
    editor.types(URI, 3, "model m(");
    assert_eq!(editor.of("textDocument/formatting", URI), Value::Null);
}

#[test]
fn every_let_has_a_hint() {
    let (mut editor, text) = (Editor::new(), program());
    editor.opens(URI, &text);
    let all = json!({ "start": { "line": 0, "character": 0 }, "end": { "line": 99, "character": 0 } });
    let hints =
        editor.asks("textDocument/inlayHint", &json!({ "textDocument": { "uri": URI }, "range": all }));
    let found: Vec<(usize, &str)> = hints
        .as_array()
        .expect("a list")
        .iter()
        .map(|hint| (byte(&text, &hint["position"]), hint["label"].as_str().expect("a text")))
        .collect();
    let behind = |wanted: &str| text.find(wanted).expect("it occurs") + wanted.len();
    let expected = [("let p", ": f32[T, D]"), ("let s", ": f32[T, S]"), ("let w[i, j]", ": f32[T, S]")];
    assert_eq!(found, expected.map(|(wanted, label)| (behind(wanted), label)));
}

#[test]
fn symbols_are_declarations_with_what_they_define() {
    let (mut editor, text) = (Editor::new(), program());
    editor.opens(URI, &text);
    let symbols = editor.of("textDocument/documentSymbol", URI);
    let names = |list: &Value| {
        let list = list.as_array().expect("a list").iter();
        list.map(|s| s["name"].as_str().expect("a name").to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names(&symbols), ["half", "twice", "project", "m"]);
    assert_eq!(names(&symbols[3]["children"]), ["q", "k", "v", "p", "s", "w"]);
}

#[test]
fn a_lens_says_what_fused() {
    let text = "model one(q: f32[T, D], k: f32[T, D], v: f32[T, D]) {\n    return softmax(q @ k.T) @ v\n}\n\n\
                model two(q: f32[T, D], k: f32[T, D]) {\n    return softmax(q @ k.T)\n}\n";
    let mut editor = Editor::new();
    editor.opens(URI, text);
    let lenses = editor.of("textDocument/codeLens", URI);
    let mut title = |n: usize| {
        let lens = editor.asks("codeLens/resolve", &lenses[n]);
        lens["command"]["title"].as_str().expect("a title").to_owned()
    };
    let one = title(0);
    assert!(one.starts_with("1 attention fused · nothing is stored for every query and key"), "{one}");
    let two = title(1);
    assert!(
        two.starts_with("no attention fused · stored: ") && two.contains("T * T elements, asked for"),
        "{two}"
    );
    assert_eq!(title(0), one);
}

#[test]
fn mistakes_appear_as_they_are_typed_and_vanish() {
    let (mut editor, text) = (Editor::new(), program());
    assert_eq!(editor.opens(URI, &text), Vec::<Value>::new());
    // An error of syntax; what was known before is still said.
    let broken = text.replace("let s = p @ k.T", "let s = p @ ");
    let told = editor.types(URI, 2, &broken);
    assert_eq!((told.len(), &told[0]["severity"]), (1, &json!(1)), "{told:?}");
    assert!(hover(&mut editor, &broken, "p @ ", 0).contains("p: f32[T, D]"));
    let (line, column) = position(&broken, "p @ ", 0);
    let offered = editor.at("textDocument/completion", URI, (line, column + 4));
    assert!(labels(&offered).contains(&"p") && labels(&offered).contains(&"k"), "{offered}");
    // Other declarations parse.
    assert!(hover(&mut editor, &broken, "w: f32[D, N]", 0).contains("parameter"));
    // Typed on, letter by letter, as an editor tells it.
    let (line, column) = position(&broken, "p @ ", 0);
    for (n, letter) in "k.T".chars().enumerate() {
        let at = json!({ "line": line, "character": column + 4 + n });
        let change = json!({ "range": { "start": at, "end": at }, "text": letter.to_string() });
        let document = json!({ "uri": URI, "version": 3 + n });
        editor.tells(
            "textDocument/didChange",
            &json!({ "textDocument": document, "contentChanges": [change] }),
        );
    }
    assert_eq!(editor.diagnostics(URI, 5), Vec::<Value>::new());
    // An error of shapes, with the place that it speaks of, and a warning.
    let told = editor.types(URI, 6, &text.replace("p @ k.T", "p @ k"));
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0]["message"].as_str().expect("words").contains("help: "), "{told:?}");
    let unread = text.replace("    return softmax", "    let unread = 2 * w\n    return softmax");
    let told = editor.types(URI, 7, &unread);
    assert_eq!((told.len(), &told[0]["severity"]), (1, &json!(2)), "{told:?}");
    let range = byte(&unread, &told[0]["range"]["start"])..byte(&unread, &told[0]["range"]["end"]);
    assert_eq!(&unread[range], "unread");
    let doubled = text.replace("fn twice", "fn twice(x) {\n    return x\n}\n\nfn twice");
    let told = editor.types(URI, 8, &doubled);
    assert_eq!(told[0]["relatedInformation"][0]["message"], "first declared here", "{told:?}");
    assert_eq!(editor.types(URI, 9, &text), Vec::<Value>::new());
}

#[test]
fn a_text_that_is_opened_broken_offers_its_words() {
    let mut editor = Editor::new();
    let text = "model m(query: f32[T, D]) {\n    let scores = query +\n";
    assert_eq!(editor.opens(URI, text).len(), 1);
    let offered = editor.at("textDocument/completion", URI, (1, 24));
    assert!(labels(&offered).contains(&"query") && labels(&offered).contains(&"softmax"), "{offered}");
}

#[test]
fn imports_are_followed_and_open_texts_count() {
    let folder = scratch("imports of an editor");
    std::fs::create_dir_all(&folder).expect("the tests' folder can be written");
    let other = folder.join("other ä.attn");
    std::fs::write(&other, "fn f(x) {\n    return x\n}\n").expect("the tests' folder can be written");
    let uri =
        |name: &str| format!("file://{}/{name}", folder.display()).replace(' ', "%20").replace('ä', "%C3%A4");
    let (main, other_uri) = (uri("main.attn"), uri("other ä.attn"));
    let text = "import \"other ä.attn\"\n\nmodel m(x: f32[T]) {\n    return f(x)\n}\n";
    let mut editor = Editor::new();
    assert_eq!(editor.opens(&main, text), Vec::<Value>::new());
    let found = editor.at("textDocument/definition", &main, position(text, "f(x)", 0));
    assert_eq!((&found["uri"], &found["range"]["start"]["character"]), (&json!(other_uri), &json!(3)));
    let found = editor.at("textDocument/definition", &main, (0, 12));
    assert_eq!(found["uri"], json!(other_uri));
    // The editor's text of the other file counts, and a mistake in it is told where it is imported.
    editor.opens(&other_uri, "fn g(x) {\n    return x\n}\n");
    let told = editor.diagnostics(&main, 1);
    assert!(told[0]["message"].as_str().expect("words").contains("`f` is not known"), "{told:?}");
    editor.types(&other_uri, 2, "fn f(x) {\n    return x +\n}\n");
    let told = editor.diagnostics(&main, 1);
    assert_eq!(
        (&told[0]["range"]["start"]["line"], &told[0]["relatedInformation"][0]["location"]["uri"]),
        (&json!(0), &json!(other_uri)),
        "{told:?}"
    );
    editor.types(&other_uri, 3, "fn f(x) {\n    return x\n}\n");
    assert_eq!(editor.diagnostics(&main, 1), Vec::<Value>::new());
    let missing = editor.types(&main, 2, "import \"nothing.attn\"\nmodel m(x: f32[T]) { return x }\n");
    assert!(missing[0]["message"].as_str().expect("words").contains("cannot be imported"), "{missing:?}");
}

#[test]
fn positions_are_bytes_where_the_editor_wants_it() {
    let mut editor = Editor::silent();
    let general = json!({ "general": { "positionEncodings": ["utf-16", "utf-8"] } });
    let answer = editor.asks("initialize", &json!({ "capabilities": general }));
    assert_eq!(answer["capabilities"]["positionEncoding"], "utf-8");
    editor.tells("initialized", &json!({}));
    let text = program();
    editor.opens(URI, &text);
    let at = text.find("s = p @").expect("it occurs");
    let start = text[..at].rfind('\n').expect("a line before") + 1;
    let line = text[..at].matches('\n').count();
    let answer = editor.at("textDocument/hover", URI, (line, at - start));
    assert!(text_of(&answer).contains("s: f32[T, S]"), "{answer}");
    assert_eq!(answer["range"]["start"]["character"], at - start);
    // The same letters are fewer units of UTF-16.
    assert_ne!(position(&text, "s = p @", 0).1, at - start);
}

#[test]
fn no_text_and_no_edit_ends_the_server() {
    let (mut editor, text) = (Editor::new(), program());
    editor.opens(URI, &text);
    let mut rng = fastrand::Rng::with_seed(11);
    let pieces = [
        "ä",
        "𝒳",
        "{",
        "}",
        "[",
        "]",
        "(",
        ")",
        "let ",
        "\r\n",
        "\"",
        "//",
        "import \"",
        "x",
        "=",
        " if ",
        "\u{feff}",
        "model m(",
        "as a.{",
        "1e999",
    ];
    for version in 2..60 {
        let place = |rng: &mut fastrand::Rng| json!({ "line": rng.u32(0..40), "character": rng.u32(0..60) });
        let (start, end) = (place(&mut rng), place(&mut rng));
        let new: String = (0..rng.usize(0..4)).map(|_| pieces[rng.usize(0..pieces.len())]).collect();
        let change = if rng.u8(0..12) == 0 {
            json!({ "text": text })
        } else {
            json!({ "range": { "start": start, "end": end }, "text": new })
        };
        let document = json!({ "uri": URI, "version": version });
        editor.tells(
            "textDocument/didChange",
            &json!({ "textDocument": document, "contentChanges": [change] }),
        );
        let params = json!({ "textDocument": { "uri": URI }, "position": place(&mut rng), "newName": "z", "context": { "includeDeclaration": true, "triggerKind": 1 },
            "options": { "tabSize": 4, "insertSpaces": true }, "range": { "start": place(&mut rng), "end": place(&mut rng) } });
        for method in [
            "hover",
            "completion",
            "definition",
            "references",
            "prepareRename",
            "rename",
            "formatting",
            "documentSymbol",
            "inlayHint",
            "codeLens",
        ] {
            let answer = editor.tries(&format!("textDocument/{method}"), &params);
            let is_fault = answer.as_ref().is_err_and(|error| error["code"] == -32603);
            assert!(!is_fault, "{method}: {answer:?}");
        }
    }
    assert!(editor.leaves().success());
}
