//! The rate of a step by its number.

/// How the rate falls once it has risen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Decay {
    /// Not at all.
    #[default]
    Constant,
    /// On a line.
    Linear,
    /// On half a cosine.
    Cosine,
}

impl Decay {
    /// Every kind, in the order in which they are listed.
    pub const ALL: [Decay; 3] = [Decay::Constant, Decay::Linear, Decay::Cosine];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Decay::Constant => "constant",
            Decay::Linear => "linear",
            Decay::Cosine => "cosine",
        }
    }

    /// The kind of that name.
    pub fn from_name(name: &str) -> Option<Decay> {
        Decay::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// The rates of a run: a rise over the first steps, then a fall. The library of the language has the same as `warm_up`,
/// `linear_decay` and `cosine_decay`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Schedule {
    /// The greatest rate.
    pub rate: f64,
    /// The steps over which it rises.
    pub warm_up: u64,
    /// How it falls then.
    pub decay: Decay,
    /// The step at which it is least.
    pub total: u64,
    /// The least rate, as a part of the greatest.
    pub least: f64,
}

impl Schedule {
    /// One rate for all steps.
    pub fn constant(rate: f64) -> Schedule {
        Schedule { rate, warm_up: 0, decay: Decay::Constant, total: 0, least: 0.0 }
    }

    /// The rate of a step; steps count from 0.
    pub fn rate(&self, step: u64) -> f64 {
        let rise = ((step as f64 + 1.0) / (self.warm_up as f64 + 1.0)).min(1.0);
        let length = self.total.saturating_sub(self.warm_up).max(1);
        let done = (step.saturating_sub(self.warm_up) as f64 / length as f64).min(1.0);
        let share = match self.decay {
            Decay::Constant => 1.0,
            Decay::Linear => 1.0 - (1.0 - self.least) * done,
            Decay::Cosine => {
                self.least + (1.0 - self.least) * 0.5 * (1.0 + (std::f64::consts::PI * done).cos())
            }
        };
        self.rate * rise * share
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_rise_and_fall() {
        let cosine = Schedule { rate: 2.0, warm_up: 3, decay: Decay::Cosine, total: 13, least: 0.1 };
        let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-12, "{a} for {b}");
        close(cosine.rate(0), 0.5);
        close(cosine.rate(3), 2.0);
        close(cosine.rate(8), 1.1);
        close(cosine.rate(13), 0.2);
        close(cosine.rate(1000), 0.2);
        let linear = Schedule { decay: Decay::Linear, ..cosine };
        close(linear.rate(8), 1.1);
        close(linear.rate(10), 0.74);
        close(Schedule::constant(0.3).rate(7), 0.3);
    }
}
