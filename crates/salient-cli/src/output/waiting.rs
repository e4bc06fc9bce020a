//! What a terminal shows while a command has not said anything yet: after a second, how long that takes.

use crate::output::terminal;
use std::io::{Write, stderr};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long nothing is shown.
const PATIENCE: Duration = Duration::from_secs(1);
/// How often what is shown changes.
const TICK: Duration = Duration::from_millis(250);

/// The thread that shows it; it ends when the sender is gone.
static WAITING: Mutex<Option<(Sender<()>, JoinHandle<()>)>> = Mutex::new(None);

/// Begins to wait, where a terminal shows progress.
pub(crate) fn begin() {
    if !terminal::shows_progress() {
        return;
    }
    let (ends, ended) = channel::<()>();
    let started = Instant::now();
    let thread = std::thread::spawn(move || {
        let mut wait = PATIENCE;
        let mut is_shown = false;
        while ended.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
            (wait, is_shown) = (TICK, true);
            show(&format!("\r{}", line(started.elapsed())));
        }
        if is_shown {
            show("\r\x1b[K");
        }
    });
    *WAITING.lock().unwrap_or_else(PoisonError::into_inner) = Some((ends, thread));
}

/// Something is said: what was shown goes away.
pub(crate) fn end() {
    let waiting = WAITING.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some((ends, thread)) = waiting {
        drop(ends);
        // It does nothing that could fail.
        drop(thread.join());
    }
}

fn show(text: &str) {
    let mut out = stderr().lock();
    drop(out.write_all(text.as_bytes()).and_then(|()| out.flush()));
}

/// What is shown after so long.
fn line(elapsed: Duration) -> String {
    let seconds = elapsed.as_secs();
    match seconds / 60 {
        0 => format!("working for {seconds} s"),
        minutes => format!("working for {minutes} min {} s", seconds % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_told_in_seconds_and_minutes() {
        assert_eq!(line(Duration::from_millis(1300)), "working for 1 s");
        assert_eq!(line(Duration::from_secs(125)), "working for 2 min 5 s");
    }
}
