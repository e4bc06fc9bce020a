//! The tour of the language says nothing that is not so: every program in it compiles, every message is what is said.

use salient_front::{Settings, Sources, compile, render};
use std::path::Path;

/// The fenced blocks of the tour: language, then text.
fn blocks() -> Vec<(String, String)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/language.md");
    let text = std::fs::read_to_string(path).unwrap();
    let mut out: Vec<(String, String)> = Vec::new();
    let mut open = false;
    for line in text.lines() {
        match (open, line.strip_prefix("```")) {
            (false, Some(language)) => {
                out.push((language.to_owned(), String::new()));
                open = true;
            }
            (true, Some(_)) => open = false,
            (true, None) => {
                let block = &mut out.last_mut().expect("a block is open").1;
                block.push_str(line);
                block.push('\n');
            }
            (false, None) => {}
        }
    }
    out
}

#[test]
fn programs_of_the_tour_compile() {
    let blocks = blocks();
    let mut programs = 0;
    for (n, (language, text)) in blocks.iter().enumerate() {
        let mut sources = Sources::new();
        let id = sources.add("tour.attn", text);
        let result = compile(&sources, None, &Settings::default());
        match language.as_str() {
            "attn" => {
                if let Err(errors) = result {
                    panic!("{}", render(&errors, &sources, false));
                }
                assert_eq!(salient_front::format(sources.file(id)).unwrap(), *text);
                programs += 1;
            }
            "attn error" => {
                let errors = result.expect_err("this program has a mistake");
                assert_eq!(render(&errors, &sources, false), blocks[n + 1].1);
            }
            other => assert_eq!(other, "text", "an unknown kind of block"),
        }
    }
    assert!(programs > 8, "{programs} programs were found");
}
