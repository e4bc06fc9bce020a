//! What is told of a run of training: a line for each step in a file, a bar on a terminal, lines elsewhere, a picture.

use crate::output::failure::{Failure, Outcome};
use crate::output::terminal;
use indicatif::ProgressBar;
use salient::{Progress, replace_text};
use salient_draw::chart::{Chart, Charts, Series, svg};
use serde_json::{Value, json};
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

/// Lines where no terminal reads, at most one in so many seconds.
const SECONDS: u64 = 10;

/// What is kept of a run.
pub(crate) struct Log {
    file: Option<(String, File)>,
    bar: ProgressBar,
    said: Instant,
    /// Steps that this call has made.
    made: u64,
    /// How long they took, without validations and checkpoints.
    spent: Duration,
    size: Size,
    pub(crate) losses: Vec<(f64, f64)>,
    pub(crate) kept: Vec<(f64, f64)>,
}

/// What a step does.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    /// Tokens, or examples.
    pub(crate) in_batch: usize,
    /// `tokens` or `examples`.
    pub(crate) unit: &'static str,
    /// Floating-point operations of the plan; what masks skip is not subtracted.
    pub(crate) flops: u64,
    /// What the threads of the run do at most, in operations a second.
    pub(crate) peak: f64,
}

impl Size {
    /// Tokens or examples a second.
    fn speed(&self, steps: u64, time: Duration) -> f64 {
        steps as f64 * self.in_batch as f64 / time.as_secs_f64().max(1e-9)
    }

    /// The operations of steps as a share of the peak.
    fn share(&self, steps: u64, time: Duration) -> f64 {
        steps as f64 * self.flops as f64 / time.as_secs_f64().max(1e-9) / self.peak
    }
}

impl Log {
    /// Of a run of so many steps; a run that goes on adds to the file of the one before.
    pub(crate) fn new(path: Option<&Path>, goes_on: bool, steps: u64, size: Size) -> Outcome<Log> {
        let open = |path: &Path| {
            let mut options = File::options();
            options.create(true).write(true).append(goes_on).truncate(!goes_on);
            let file = options.open(path);
            let name = path.display().to_string();
            file.map(|file| (name.clone(), file))
                .map_err(|e| Failure::call(format!("{name}: cannot be written: {e}")))
        };
        let file = path.map(open).transpose()?;
        let bar = terminal::progress(steps as usize, "{bar:30} {pos}/{len} {msg} {eta} left");
        let (made, spent, losses, kept) = (0, Duration::ZERO, Vec::new(), Vec::new());
        Ok(Log { file, bar, said: Instant::now(), made, spent, size, losses, kept })
    }

    /// Tokens or examples a second, over all steps so far.
    pub(crate) fn speed(&self) -> f64 {
        self.size.speed(self.made, self.spent)
    }

    /// The share of the peak, over all steps so far.
    pub(crate) fn share(&self) -> f64 {
        self.size.share(self.made, self.spent)
    }

    /// A step that took so long.
    pub(crate) fn step(&mut self, progress: &Progress, time: Duration) -> Outcome {
        self.made += 1;
        self.spent += time;
        if let Some(loss) = progress.number("loss") {
            self.losses.push((progress.step as f64, f64::from(loss)));
        }
        let numbers: serde_json::Map<String, Value> =
            progress.numbers.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
        self.write(&json!({
            "step": progress.step,
            "rate": progress.rate,
            "results": numbers,
            "per_second": self.size.speed(1, time),
            "of_peak": self.size.share(1, time),
        }))?;
        let shown: Vec<String> =
            progress.numbers.iter().map(|(name, value)| format!("{name} {value:.4}")).collect();
        let (speed, share) = (self.speed(), self.share());
        let line = format!("{}, {speed:.0} {}/s, {share:.2} of peak", shown.join(", "), self.size.unit);
        self.bar.set_position(progress.step + 1);
        self.bar.set_message(line.clone());
        if self.bar.is_hidden() && self.said.elapsed().as_secs() >= SECONDS {
            self.said = Instant::now();
            terminal::note(&format!("step {}: {line}\n", progress.step));
        }
        Ok(())
    }

    pub(crate) fn validation(&mut self, step: u64, loss: f64) -> Outcome {
        self.kept.push((step as f64, loss));
        self.write(&json!({ "step": step, "validation": loss }))?;
        let bar = &self.bar;
        bar.suspend(|| terminal::note(&format!("step {step}: validation loss {loss:.4}\n")));
        Ok(())
    }

    pub(crate) fn end(&self) {
        self.bar.finish_and_clear();
    }

    fn write(&mut self, line: &Value) -> Outcome {
        let Some((name, file)) = &mut self.file else { return Ok(()) };
        writeln!(file, "{line}").map_err(|e| Failure::call(format!("{name}: cannot be written: {e}")))
    }

    /// The losses over the steps.
    pub(crate) fn plot(&self, path: &Path, title: &str) -> Outcome {
        let series =
            |name: &str, points: &[(f64, f64)]| Series { name: name.to_owned(), points: points.to_vec() };
        let all = [series("training", &self.losses), series("validation", &self.kept)];
        let chart = Chart {
            title: "loss".to_owned(),
            is_logarithmic: false,
            series: all.into_iter().filter(|series| !series.points.is_empty()).collect(),
        };
        let charts = Charts { title: title.to_owned(), along: "step".to_owned(), charts: vec![chart] };
        Ok(replace_text(path, &svg(&charts))?)
    }
}
