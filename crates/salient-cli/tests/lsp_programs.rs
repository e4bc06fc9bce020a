//! Every program of the project, opened in an editor.

mod common;

use common::editor::{Editor, byte, edited, position_of};
use salient::reference::{Kind, named};
use salient::{DType, is_code, names_in};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// Names that the language knows beside those of its reference: initialisers, and values without a definition.
const KNOWN: &[&str] =
    &["zeros", "ones", "normal", "uniform", "training", "nan", "fn", "parameters", "int_div"];

fn programs_under(folder: &str) -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut waiting = vec![root.join(folder).canonicalize().expect("the folder is there")];
    let mut out = Vec::new();
    while let Some(folder) = waiting.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path())
        {
            if entry.is_dir() {
                waiting.push(entry);
            } else if entry.extension().is_some_and(|ending| ending == "attn") {
                out.push(entry);
            }
        }
    }
    out.sort();
    out
}

/// A program in an editor.
struct Opened<'e> {
    editor: &'e mut Editor,
    uri: String,
    text: String,
    wrong: Vec<String>,
    /// How many names were asked about.
    asked: usize,
}

impl Opened<'_> {
    fn says(&mut self, words: String) {
        let file = self.uri.rsplit('/').next().unwrap_or_default();
        self.wrong.push(format!("{file}: {words}"));
    }

    /// The places of names in code, without those of paths: `as layers.{l}`.
    fn names(&self) -> Vec<(usize, String)> {
        let is_letter = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let mut out = Vec::new();
        for name in names_in(&self.text) {
            for (at, _) in self.text.match_indices(name) {
                let (before, after) = (&self.text[..at], &self.text[at + name.len()..]);
                let is_whole =
                    !before.ends_with(|c| is_letter(c) || c == '.') && !after.starts_with(is_letter);
                let line = before.rsplit('\n').next().unwrap_or_default();
                let is_path =
                    line.rsplit_once(" as ").is_some_and(|(_, path)| !path.contains([' ', ',', ')', '{']));
                if is_whole && !is_path && is_code(&self.text, at + 1) {
                    out.push((at, name.to_owned()));
                }
            }
        }
        out.sort();
        out
    }

    fn every_let_has_a_shape(&mut self) {
        for (at, name) in self.names() {
            let head: String = self.text[..at].rsplit('\n').next().unwrap_or_default().to_owned();
            let is_first = head.trim_start() == "let ";
            if !is_first {
                continue;
            }
            self.asked += 1;
            let answer = self.editor.at("textDocument/hover", &self.uri, position_of(&self.text, at));
            let shown = answer["contents"]["value"].as_str().unwrap_or_default().to_owned();
            let begins = format!("```salient\n{name}: ");
            let shape = shown.strip_prefix(&begins).unwrap_or_default();
            let is_shape =
                DType::ALL.iter().any(|dtype| shape.starts_with(dtype.name())) || shape.starts_with("the ");
            if !is_shape {
                self.says(format!("`let {name}` has no shape: {shown:?}"));
            }
        }
    }

    fn every_name_leads_to_its_declaration(&mut self) {
        for (at, name) in self.names() {
            self.asked += 1;
            let answer = self.editor.at("textDocument/definition", &self.uri, position_of(&self.text, at));
            let Some(uri) = answer["uri"].as_str() else {
                // The name of an argument in a call of the library's functions is none of the program's.
                let is_argument = self.text[at + name.len()..].trim_start().starts_with('=');
                let is_known = named(&name).is_some_and(|entry| entry.kind != Kind::Library);
                let is_type = DType::from_name(&name).is_some();
                if !is_argument && !is_known && !is_type && !KNOWN.contains(&name.as_str()) {
                    let line = self.text[..at].matches('\n').count() + 1;
                    self.says(format!("line {line}: `{name}` leads nowhere"));
                }
                continue;
            };
            let path = uri.strip_prefix("file://").expect("a file").replace("%20", " ");
            let there = std::fs::read_to_string(path).expect("the file is there");
            let found =
                &there[byte(&there, &answer["range"]["start"])..byte(&there, &answer["range"]["end"])];
            // An axis may be called as its dimension, in lower case.
            if found != name && found.to_lowercase() != name {
                self.says(format!("`{name}` leads to `{found}`"));
            }
        }
    }

    fn a_local_is_renamed_and_back(&mut self) {
        let Some(at) = self.text.find("\n    let ").map(|at| at + "\n    let ".len()) else { return };
        let name: String =
            self.text[at..].chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
        let (line, character) = position_of(&self.text, at);
        let mut rename = |text: &str, version: i64, new: &str| {
            let params = json!({ "textDocument": { "uri": self.uri }, "position": { "line": line, "character": character }, "newName": new });
            let answer = self.editor.tries("textDocument/rename", &params)?;
            let text = edited(text, &answer["changes"][&self.uri]);
            let told = self.editor.types(&self.uri, version, &text);
            if told.iter().any(is_error) { Err(json!(told)) } else { Ok(text) }
        };
        let there = rename(&self.text, 2, "another_name");
        let back = there.and_then(|there| {
            let is_changed = there.contains("let another_name");
            rename(&there, 3, &name).map(|back| (is_changed, back))
        });
        match back {
            Ok((true, back)) if back == self.text => {}
            Ok(other) => self.says(format!("`{name}` becomes {other:?}")),
            Err(error) => self.says(format!("`{name}`: {error}")),
        }
    }
}

fn is_error(diagnostic: &Value) -> bool {
    diagnostic["severity"] == 1
}

/// What is wrong with what an editor gets of a program, and how many names it was asked about.
fn wrong(editor: &mut Editor, path: &Path) -> (Vec<String>, usize) {
    let text = std::fs::read_to_string(path).expect("a program");
    let uri = format!("file://{}", path.display());
    let told = editor.opens(&uri, &text);
    let mut opened = Opened { editor, uri: uri.clone(), text, wrong: Vec::new(), asked: 0 };
    if told.iter().any(is_error) {
        opened.says(format!("{told:?}"));
    }
    if opened.editor.of("textDocument/documentSymbol", &uri).as_array().is_none_or(Vec::is_empty) {
        opened.says("no symbols".to_owned());
    }
    let layout = opened.editor.of("textDocument/formatting", &uri);
    if layout != json!([]) {
        opened.says(format!("it has another layout: {layout}"));
    }
    opened.every_let_has_a_shape();
    opened.every_name_leads_to_its_declaration();
    opened.a_local_is_renamed_and_back();
    let out = (opened.wrong, opened.asked);
    editor.tells("textDocument/didClose", &json!({ "textDocument": { "uri": uri } }));
    out
}

fn all_wrong(programs: &[PathBuf]) -> Vec<String> {
    let mut editor = Editor::new();
    let (mut all, mut asked) = (Vec::new(), 0);
    for path in programs {
        let (wrong, names) = wrong(&mut editor, path);
        all.extend(wrong);
        asked += names;
    }
    assert!(editor.leaves().success());
    assert!(asked > 20 * programs.len(), "only {asked} names were asked about");
    all
}

#[test]
fn an_editor_knows_every_example() {
    let programs = programs_under("examples");
    assert!(programs.len() > 50, "the search finds {}", programs.len());
    let wrong = all_wrong(&programs);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn an_editor_knows_every_case() {
    let mut programs = programs_under("tests/cases");
    // Those that a call has to set something for, and the one that is refused.
    programs.retain(|path| {
        let text = std::fs::read_to_string(path).expect("a program");
        !text.contains("//! set: ") && !text.contains("//! error:")
    });
    assert!(programs.len() > 90, "the search finds {}", programs.len());
    let wrong = all_wrong(&programs);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_file_of_an_import_is_known_by_its_place() {
    let mut editor = Editor::new();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the project");
    let uri = format!("file://{}/examples/none.attn", root.display());
    let text = "import \"causal_self_attention.attn\"\nmodel m(x: f32[T]) { return x }\n";
    let told = editor.opens(&uri, text);
    let words: Vec<&Value> = told.iter().map(|d| &d["message"]).collect();
    assert_eq!(
        words,
        [&json!("nothing of `causal_self_attention.attn` is used\nhelp: leave the import out")]
    );
}
