//! How long each step of compiling takes, for those who wait for it.
//!
//! Steps are timed where they are taken, in [`pipeline`](crate::compile::pipeline); nothing here is needed to compile.

use std::fmt;
use std::time::{Duration, Instant};

/// A step of the way from source text to machine code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Step {
    /// Parsing, resolving, checking shapes, building the graph.
    Lower,
    /// Equality saturation and what surrounds it.
    Optimise,
    /// Cutting the graph into loop programs.
    Schedule,
    /// Making machine code.
    Emit,
}

impl Step {
    /// What the step makes of what.
    pub fn name(self) -> &'static str {
        match self {
            Step::Lower => "source to graph",
            Step::Optimise => "graph to fused graph",
            Step::Schedule => "fused graph to kernels",
            Step::Emit => "kernels to machine code",
        }
    }
}

/// The steps that were taken, in order, and how long each took.
#[derive(Clone, Debug, Default)]
pub struct Timings(Vec<(Step, Duration)>);

impl Timings {
    /// Takes a step and notes how long it took.
    pub fn time<T>(&mut self, step: Step, take: impl FnOnce() -> T) -> T {
        let before = Instant::now();
        let out = take();
        self.0.push((step, before.elapsed()));
        out
    }

    /// The steps, in order. A step that was taken again is there again.
    pub fn steps(&self) -> &[(Step, Duration)] {
        &self.0
    }

    /// All steps together.
    pub fn total(&self) -> Duration {
        self.0.iter().map(|(_, time)| *time).sum()
    }

    /// The part of the total that a step took, between 0 and 1; 0 where no step was taken.
    pub fn share(&self, step: Step) -> f64 {
        let taken: Duration = self.0.iter().filter(|(s, _)| *s == step).map(|(_, time)| *time).sum();
        let total = self.total();
        if total.is_zero() { 0.0 } else { taken.as_secs_f64() / total.as_secs_f64() }
    }
}

/// One line a step, with its share, and one for the total.
impl fmt::Display for Timings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let total = self.total().as_secs_f64();
        for (step, time) in &self.0 {
            let share = if total == 0.0 { 0.0 } else { time.as_secs_f64() / total };
            writeln!(f, "{:>10.3} ms  {:>3.0} %  {}", millis(*time), share * 100.0, step.name())?;
        }
        writeln!(f, "{:>10.3} ms         in all", millis(self.total()))
    }
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_of_all_steps_together() {
        let mut timings = Timings::default();
        assert_eq!(timings.share(Step::Optimise), 0.0);
        timings.0 = vec![(Step::Lower, Duration::from_millis(1)), (Step::Optimise, Duration::from_millis(3))];
        assert_eq!(timings.share(Step::Optimise), 0.75);
        assert_eq!(timings.share(Step::Emit), 0.0);
        let text = timings.to_string();
        assert!(text.starts_with("     1.000 ms   25 %  source to graph\n"), "{text}");
        assert!(text.contains("     3.000 ms   75 %  graph to fused graph\n"), "{text}");
    }
}
