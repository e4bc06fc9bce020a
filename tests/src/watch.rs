//! Work on numbers in child processes that are watched: one that ends, hangs or wants too much memory has failed at the number
//! it was at, and another goes on behind it.
//!
//! A child is this program again with `--child --from N --to N --step N`. It says `at N` before each number, and anything
//! else of its own; what it says is handed on. Knows nothing of the work.

use std::io::{BufRead, BufReader, Write};
use std::ops::Range;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

/// How children are kept.
#[derive(Clone, Debug)]
pub struct Watched {
    /// How many run side by side.
    pub lanes: u64,
    /// One that says nothing for so long hangs.
    pub patience: Duration,
    /// Kilobytes of address space of each.
    pub memory: u64,
    /// What they are started with.
    pub arguments: Vec<String>,
}

/// How a child ended.
enum End {
    /// When it was done.
    Done,
    /// Otherwise, at a number.
    At(u64, String),
}

impl Watched {
    /// Works on all numbers, and tells of every line that a child says; where one ends early, of `failed REASON NUMBER`.
    pub fn run(&self, numbers: &Range<u64>, mut tell: impl FnMut(&str)) {
        let (send, receive) = mpsc::channel::<String>();
        for lane in 0..self.lanes {
            let (own, numbers, send) = (self.clone(), numbers.clone(), send.clone());
            std::thread::spawn(move || own.lane(lane, &numbers, &send));
        }
        drop(send);
        for line in receive {
            tell(&line);
        }
    }

    fn lane(&self, lane: u64, numbers: &Range<u64>, send: &mpsc::Sender<String>) {
        let mut next = numbers.start + lane;
        while next < numbers.end {
            match self.child(next, numbers.end, send) {
                End::Done => return,
                End::At(number, why) => {
                    if send.send(format!("failed {why} {number}")).is_err() {
                        return;
                    }
                    next = number + self.lanes;
                }
            }
        }
    }

    fn child(&self, from: u64, to: u64, send: &mpsc::Sender<String>) -> End {
        let program = std::env::current_exe().expect("a program knows where it is");
        let mut command = Command::new("sh");
        command.arg("-c").arg(format!("ulimit -v {}; exec \"$0\" \"$@\"", self.memory)).arg(program);
        command.args(&self.arguments).arg("--child");
        for (name, value) in [("--from", from), ("--to", to), ("--step", self.lanes)] {
            command.arg(name).arg(value.to_string());
        }
        let mut child =
            match command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn() {
                Ok(child) => child,
                Err(e) => return End::At(to, format!("Start({e})").replace(' ', "_")),
            };
        let (lines, said) = mpsc::channel();
        let out = child.stdout.take().expect("it is piped");
        std::thread::spawn(move || {
            for line in BufReader::new(out).lines().map_while(Result::ok) {
                if lines.send(line).is_err() {
                    return;
                }
            }
        });
        let mut at = from;
        loop {
            match said.recv_timeout(self.patience) {
                Ok(line) => match line.strip_prefix("at ").and_then(|n| n.parse().ok()) {
                    Some(number) => at = number,
                    None => _ = send.send(line),
                },
                Err(mpsc::RecvTimeoutError::Timeout) => {
                    // It may have ended just now; either way it is gone.
                    _ = child.kill();
                    _ = child.wait();
                    return End::At(at, "Hang".to_owned());
                }
                Err(mpsc::RecvTimeoutError::Disconnected) => {
                    let status = child.wait();
                    if status.as_ref().is_ok_and(std::process::ExitStatus::success) {
                        return End::Done;
                    }
                    let how = status.map_or_else(|e| e.to_string(), |s| s.to_string());
                    return End::At(at, format!("Abort({how})").replace(' ', "_"));
                }
            }
        }
    }
}

/// What a child says to its parent: a line, at once. A parent that is gone needs no answer.
pub fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    if writeln!(out, "{}", line.replace('\\', "\\\\").replace('\n', "\\n"))
        .and_then(|()| out.flush())
        .is_err()
    {
        std::process::exit(0);
    }
}

/// A line as it was before it was said.
pub fn heard(line: &str) -> String {
    line.replace("\\n", "\n").replace("\\\\", "\\")
}

/// The value of a number among the arguments of a program.
///
/// # Errors
/// It is missing or no number.
pub fn number(name: &str, text: Option<String>) -> Result<u64, String> {
    let text = text.ok_or_else(|| format!("{name} lacks its number"))?;
    text.parse().map_err(|_| format!("{name} {text}: no number"))
}
