//! Documents whose programs and commands are tests: fenced blocks are read, programs written, commands run, outputs compared.
//!
//! What a block is, its first line says behind the fence:
//!
//! - `attn FILE`: a program that the reader writes into a file. Where the project has a file of that path, it is that file.
//! - `attn`: a program of its own, which must compile. Both kinds are in the layout of `salient fmt`.
//! - `attn error`, `attn FILE error`: a program that must be refused.
//! - `console`: lines `$ COMMAND`, each with all that it shows on the terminal. A line `…` stands for any lines, and `…` within a
//!   line for any letters.
//! - `sh`: commands without what they show.
//! - `rust FILE`: a file of the project.
//! - `text`, `python`, `toml`, `rust…`: not of this mechanism.
//!
//! A document's commands run in one fresh folder, one after the other. Files of the project that a command names are copied
//! there. A command must succeed, unless a line that it shows begins with `error`.

use super::{scratch, told};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A fenced block of a document.
pub(crate) struct Block {
    /// What stands behind the fence.
    pub(crate) kind: String,
    pub(crate) text: String,
    /// The line of the fence, from 1.
    line: usize,
}

/// The fenced blocks of a text, in order.
pub(crate) fn blocks(text: &str) -> Vec<Block> {
    let mut found: Vec<Block> = Vec::new();
    let mut is_open = false;
    for (at, line) in text.lines().enumerate() {
        match (is_open, line.strip_prefix("```")) {
            (false, Some(kind)) => {
                found.push(Block { kind: kind.trim().to_owned(), text: String::new(), line: at + 1 });
                is_open = true;
            }
            (true, Some(_)) => is_open = false,
            (true, None) => {
                let block = found.last_mut().expect("a block is open");
                let _ = writeln!(block.text, "{line}");
            }
            (false, None) => {}
        }
    }
    found
}

/// A command of a block, and what it shows, where the block says so.
struct Shown<'b> {
    command: &'b str,
    output: Option<String>,
}

/// The commands of a block of kind `console` or `sh`.
fn commands(block: &Block) -> Vec<Shown<'_>> {
    let mut found: Vec<Shown<'_>> = Vec::new();
    for line in block.text.lines() {
        if block.kind == "sh" {
            found.push(Shown { command: line, output: None });
        } else if let Some(command) = line.strip_prefix("$ ") {
            found.push(Shown { command, output: Some(String::new()) });
        } else {
            let last = found.last_mut().expect("a console begins with a command");
            let _ = writeln!(last.output.as_mut().expect("a console shows outputs"), "{line}");
        }
    }
    found
}

/// The words of a command as a shell reads them: quotes hold words together, `#` begins a comment.
fn words(command: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for letter in command.chars() {
        match (quote, letter) {
            (Some(open), _) if letter == open => quote = None,
            (None, '"' | '\'') => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (None, ' ') => words.extend(word.take()),
            (None, '#') if word.is_none() => break,
            (None | Some(_), _) => word.get_or_insert_default().push(letter),
        }
    }
    assert!(quote.is_none(), "a quote is open in `{command}`");
    words.extend(word);
    words
}

/// Where the project is.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A folder for the commands of a document, empty.
fn fresh(name: &str) -> PathBuf {
    let folder = scratch(&format!("document-{}", name.replace(['/', '.'], "-")));
    if folder.exists() {
        std::fs::remove_dir_all(&folder).expect("the folder of an earlier run can be removed");
    }
    std::fs::create_dir_all(&folder).expect("the tests' folder can be written");
    folder
}

/// Copies the files of the project that a word names.
fn bring(folder: &Path, word: &str) {
    let name = word.rsplit_once('=').map_or(word, |(_, name)| name);
    let (from, to) = (root().join(name), folder.join(name));
    if name.is_empty() || name.starts_with(['.', '/']) || !from.is_file() || to.exists() {
        return;
    }
    std::fs::create_dir_all(to.parent().expect("a file is in a folder")).expect("it can be written");
    std::fs::copy(&from, &to).expect("it can be copied");
}

/// What a command of `salient` shows on a terminal, both streams as they come, and whether it succeeded.
fn shown(folder: &Path, words: &[String]) -> (String, bool) {
    let kept = folder.join(".shown");
    let file =
        || std::fs::OpenOptions::new().create(true).append(true).open(&kept).expect("it can be written");
    drop(std::fs::remove_file(&kept));
    words.iter().for_each(|word| bring(folder, word));
    let status = Command::new(env!("CARGO_BIN_EXE_salient"))
        .args(words)
        .current_dir(folder)
        .env_remove("RUST_BACKTRACE")
        .env_remove("COLUMNS")
        .env("SALIENT_TUNING", "default")
        .stdin(Stdio::null())
        .stdout(file())
        .stderr(file())
        .status()
        .expect("the program starts");
    (std::fs::read_to_string(&kept).expect("the program speaks UTF-8"), status.success())
}

/// Whether a line is what a document shows, where `…` stands for any letters.
fn is_line(shown: &str, expected: &str) -> bool {
    let Some((before, after)) = expected.split_once('…') else { return shown == expected };
    let Some(rest) = shown.strip_prefix(before) else { return false };
    let mut ends = (0..=rest.len()).filter(|at| rest.is_char_boundary(*at));
    ends.any(|at| is_line(&rest[at..], after))
}

/// Whether lines are what a document shows, where a line `…` stands for any lines.
fn matches(shown: &[&str], expected: &[&str]) -> bool {
    match expected {
        [] => shown.is_empty(),
        ["…", rest @ ..] => (0..=shown.len()).any(|skipped| matches(&shown[skipped..], rest)),
        [line, rest @ ..] => {
            shown.first().is_some_and(|shown| is_line(shown, line)) && matches(&shown[1..], rest)
        }
    }
}

/// A document, and what has been found wrong with it.
pub(crate) struct Followed {
    name: String,
    text: String,
    folder: PathBuf,
    wrong: Vec<String>,
    /// Programs that compiled, and commands that were run.
    pub(crate) programs: usize,
    pub(crate) commands: usize,
}

impl Followed {
    fn complain(&mut self, line: usize, what: &str) {
        self.wrong.push(format!("{}:{line}: {what}", self.name));
    }

    /// What the reader writes into a file, which the text says.
    fn write(&mut self, block: &Block, file: &str) {
        let path = self.folder.join(file);
        std::fs::create_dir_all(path.parent().expect("a file is in a folder")).expect("it can be written");
        std::fs::write(path, &block.text).expect("it can be written");
        let own = std::fs::read_to_string(root().join(file));
        if own.is_ok_and(|own| own != block.text) {
            self.complain(block.line, &format!("this is not {file} of the project"));
        }
        let above = self.text.lines().take(block.line - 1);
        if !above.collect::<Vec<_>>().join("\n").contains(&format!("`{file}`")) {
            self.complain(block.line, &format!("nothing above says that this is `{file}`"));
        }
    }

    /// A program that is right.
    fn program(&mut self, block: &Block) {
        for command in ["check --deny warnings -", "fmt --check -"] {
            let ended = told(command, &block.text);
            if ended.code != Some(0) {
                self.complain(block.line, &ended.stderr);
            }
        }
        self.programs += 1;
    }

    fn refused(&mut self, block: &Block) {
        if told("check -", &block.text).code != Some(1) {
            self.complain(block.line, "this program has no mistake");
        }
        self.programs += 1;
    }

    fn commands(&mut self, block: &Block) {
        for Shown { command, output } in commands(block) {
            let words = words(command);
            let call = match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
                ["salient", ..] => &words[1..],
                ["cargo", "run", "--release", "-p", "salient-cli", "--", ..] => &words[6..],
                // What cargo does is not done again within its own test.
                ["cargo", "test" | "install" | "build" | "package", ..] | [] => continue,
                _ => {
                    self.complain(block.line, &format!("`{command}` is no command that is run"));
                    continue;
                }
            };
            let (shown, succeeded) = shown(&self.folder, call);
            let should = !output.as_deref().unwrap_or_default().lines().any(|line| line.starts_with("error"));
            let lines: Vec<&str> = shown.lines().collect();
            let is_as_said =
                output.is_none_or(|output| matches(&lines, &output.trim_end().lines().collect::<Vec<_>>()));
            if succeeded != should || !is_as_said {
                self.complain(block.line, &format!("`{command}` shows\n{shown}"));
            }
            self.commands += 1;
        }
    }
}

/// Follows a document of the project, as a reader does.
///
/// # Panics
/// If something in it is not so; the message says all that is not.
pub(crate) fn follow(name: &str) -> Followed {
    let text = std::fs::read_to_string(root().join(name)).unwrap_or_else(|e| panic!("{name}: {e}"));
    let mut followed = Followed {
        name: name.to_owned(),
        folder: fresh(name),
        wrong: Vec::new(),
        programs: 0,
        commands: 0,
        text,
    };
    for block in blocks(&followed.text) {
        match block.kind.split(' ').collect::<Vec<_>>().as_slice() {
            ["attn"] => followed.program(&block),
            ["attn", "error"] => followed.refused(&block),
            ["attn", file] => {
                followed.write(&block, file);
                followed.program(&block);
            }
            ["attn", file, "error"] => {
                followed.write(&block, file);
                followed.refused(&block);
            }
            ["console" | "sh"] => followed.commands(&block),
            ["rust", file] => followed.write(&block, file),
            ["text" | "python" | "toml"] => {}
            [rust] if rust.starts_with("rust") => {}
            _ => followed.complain(block.line, &format!("`{}` is no kind of block", block.kind)),
        }
    }
    assert!(followed.wrong.is_empty(), "{}", followed.wrong.join("\n\n"));
    followed
}
