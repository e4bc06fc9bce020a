//! Standard output and standard error: colour only where a terminal reads, no panic where a pipe closes.

use crate::output::excerpt::clipped;
use crate::output::failure::{Failure, Message, Outcome};
use crate::output::waiting;
use clap::ColorChoice;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::{self, IsTerminal, Write};
use std::panic::PanicHookInfo;
use std::sync::OnceLock;

/// What the call says of colours, and whether it asks for silence.
static WANTED: OnceLock<(ColorChoice, bool)> = OnceLock::new();

/// Says when messages and results are coloured, and whether notes and progress are left out.
pub(crate) fn set(colour: ColorChoice, quiet: bool) {
    // Once, when the program begins.
    WANTED.get_or_init(|| (colour, quiet));
}

fn is_quiet() -> bool {
    WANTED.get().is_some_and(|(_, quiet)| *quiet)
}

/// Whether what goes to a terminal, or elsewhere, is coloured.
fn is_coloured(is_terminal: bool) -> bool {
    match WANTED.get().map_or(ColorChoice::Auto, |(colour, _)| *colour) {
        ColorChoice::Auto => is_terminal && wants_colour(),
        ColorChoice::Always => true,
        ColorChoice::Never => false,
    }
}

/// Whether messages may be coloured.
pub(crate) fn stderr_colour() -> bool {
    is_coloured(io::stderr().is_terminal())
}

/// Whether progress may be shown.
pub(crate) fn shows_progress() -> bool {
    io::stderr().is_terminal() && !is_quiet()
}

/// Whether results may be coloured.
pub(crate) fn stdout_colour() -> bool {
    is_coloured(io::stdout().is_terminal())
}

/// Conventions of terminals: <https://no-color.org>, and `TERM=dumb`.
fn wants_colour() -> bool {
    let set = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty());
    set("NO_COLOR").is_none() && set("TERM").is_none_or(|t| t != "dumb")
}

/// Writes text to standard output. A reader that has gone away is no failure: what it wanted, it has.
pub(crate) fn print(text: &str) -> Outcome {
    waiting::end();
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(()),
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => std::process::exit(0),
        Err(e) => Err(Failure::call(format!("standard output cannot be written: {e}"))),
    }
}

/// Writes to standard error; where that fails there is nowhere left to say so.
pub(crate) fn say(text: &str) {
    waiting::end();
    drop(io::stderr().lock().write_all(text.as_bytes()));
}

/// Says what is good to know, unless silence is asked for.
pub(crate) fn note(text: &str) {
    if !is_quiet() {
        say(text);
    }
}

/// Shows excerpts of a source with what there is to say about them, in the width of the terminal.
pub(crate) fn excerpts(text: &str) {
    match width() {
        Some(width) => say(&clipped(text, width)),
        None => say(text),
    }
}

/// The columns of the terminal that shows messages: what `COLUMNS` says, or what the terminal does.
fn width() -> Option<usize> {
    let said = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    said.or_else(|| console::Term::stderr().size_checked().map(|(_, columns)| usize::from(columns)))
}

/// A bar on a terminal, of so many steps; nothing elsewhere.
///
/// # Panics
/// If the template, of indicatif's language, does not parse.
pub(crate) fn progress(steps: usize, template: &str) -> ProgressBar {
    let target = if shows_progress() { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
    waiting::end();
    let bar = ProgressBar::with_draw_target(Some(steps as u64), target);
    bar.set_style(ProgressStyle::with_template(template).expect("a template that parses"));
    bar
}

/// Shows what should be known though the command continues.
pub(crate) fn warning(lines: &str) {
    let (yellow, plain) = if stderr_colour() { ("\x1b[1;33m", "\x1b[0m") } else { ("", "") };
    say(&lines.lines().map(|line| format!("{yellow}warning{plain}: {line}\n")).collect::<String>());
}

/// Shows why a command failed.
pub(crate) fn error(message: &Message) {
    let (red, plain) = if stderr_colour() { ("\x1b[1;31m", "\x1b[0m") } else { ("", "") };
    match message {
        Message::Sentences(lines) => {
            say(&lines.lines().map(|line| format!("{red}error{plain}: {line}\n")).collect::<String>());
        }
        Message::Source(rejected) => excerpts(&rejected.render(stderr_colour())),
        Message::Rendered(text) => say(text),
        Message::Nothing => {}
    }
}

/// The panic hook: a broken invariant is our bug, and is said in one line.
pub(crate) fn report_bug(info: &PanicHookInfo<'_>) {
    let what = info.payload_as_str().unwrap_or("no message");
    let place = info.location().map_or_else(String::new, |l| format!(" ({}:{})", l.file(), l.line()));
    say(&format!("error: internal error, please report it with the source file: {what}{place}\n"));
}
