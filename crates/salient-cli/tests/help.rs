//! `docs/commands.md` says of every command what its `--help` says. `SALIENT_WRITE_DOCS=1` writes it anew.

mod common;

use common::document::root;
use common::words;
use std::fmt::Write as _;

/// What stands before the commands.
const HEAD: &str = "# Commands\n\nWhat `salient COMMAND --help` says of each command, and what all of them take. Made by a test, which compares it.\n";

/// An argument or a flag, and what it does.
struct Entry {
    name: String,
    text: String,
}

/// A help text: what the command does, how it is called, and its sections with their entries.
struct Help {
    about: String,
    usage: String,
    sections: Vec<(String, Vec<Entry>)>,
}

/// `--flag <VALUE>` and what it does, which two blanks or more separate.
fn entry(line: &str) -> Entry {
    let (name, text) = line.trim().split_once("  ").unwrap_or((line.trim(), ""));
    Entry { name: name.trim().to_owned(), text: text.trim().to_owned() }
}

fn help(call: &str) -> Help {
    let ended = words(call);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let mut lines = ended.stdout.lines();
    let about: Vec<&str> = lines.by_ref().take_while(|line| !line.is_empty()).collect();
    let usage = lines.next().and_then(|line| line.strip_prefix("Usage: ")).expect("how it is called");
    let mut sections: Vec<(String, Vec<Entry>)> = Vec::new();
    for line in lines.filter(|line| !line.is_empty()) {
        match (line.strip_suffix(':'), sections.last_mut()) {
            (Some(title), _) if !line.starts_with(' ') => sections.push((title.to_owned(), Vec::new())),
            (_, Some((_, entries))) => entries.push(entry(line)),
            (_, None) => panic!("{call}: `{line}` stands in no section"),
        }
    }
    Help { about: about.join(" "), usage: usage.to_owned(), sections }
}

/// Entries as a list.
fn list<'e>(out: &mut String, entries: impl Iterator<Item = &'e Entry>) {
    for Entry { name, text } in entries {
        // What stands between angles is no HTML.
        let text = text.replace('<', "\\<");
        let _ = writeln!(out, "- `{name}`: {text}");
    }
}

fn section<'h>(help: &'h Help, title: &str) -> &'h [Entry] {
    help.sections.iter().find(|(known, _)| known == title).map_or(&[], |(_, entries)| entries)
}

fn page() -> String {
    let mut out = HEAD.to_owned();
    let all = help("--help");
    let common: Vec<&str> = section(&all, "Options").iter().map(|entry| entry.name.as_str()).collect();
    out.push_str("\n## All commands\n\n");
    list(&mut out, section(&all, "Options").iter());
    let commands = section(&all, "Commands").iter().filter(|command| command.name != "help");
    for command in commands {
        let help = help(&format!("{} --help", command.name));
        assert_eq!(help.about, command.text);
        let _ = write!(out, "\n## `salient {}`\n\n{}.\n\n    {}\n\n", command.name, help.about, help.usage);
        list(&mut out, section(&help, "Arguments").iter());
        let own = section(&help, "Options").iter().filter(|entry| !common.contains(&entry.name.as_str()));
        list(&mut out, own);
    }
    out
}

#[test]
fn the_page_of_commands_says_what_help_says() {
    let (path, page) = (root().join("docs/commands.md"), page());
    if std::env::var_os("SALIENT_WRITE_DOCS").is_some() {
        std::fs::write(&path, &page).expect("the page is written");
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(kept == page, "docs/commands.md is not what help says: run this test with SALIENT_WRITE_DOCS=1");
    for flag in ["## `salient run`", "`--check-finite`", "## `salient completions`", "- `-q, --quiet`"] {
        assert!(page.contains(flag), "{flag}");
    }
}
