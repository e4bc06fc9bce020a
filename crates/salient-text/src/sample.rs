//! The next token from logits: the greatest, or drawn.
//!
//! Drawn ones repeat for a seed. Ties go to the lower id.

use crate::error::TextError;

/// How the next token is chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Sampling {
    /// The one with the greatest logit.
    Greedy,
    /// Drawn from the softmax of the logits divided by a temperature, cut to the most probable.
    Random {
        /// Greater is more even; positive.
        temperature: f64,
        /// Only so many of the most probable are drawn from; 0 for all.
        top_k: usize,
        /// Only the most probable that together reach this probability are drawn from; 1 for all (Holtzman et al.,
        /// "The Curious Case of Neural Text Degeneration", 2020).
        top_p: f64,
    },
}

/// Chooses tokens one after the other.
#[derive(Clone, Debug)]
pub struct Sampler {
    sampling: Sampling,
    random: fastrand::Rng,
}

impl Sampler {
    /// Draws from this seed.
    pub fn new(sampling: Sampling, seed: u64) -> Sampler {
        Sampler { sampling, random: fastrand::Rng::with_seed(seed) }
    }

    /// The position of the chosen logit; `None` if the greatest is not finite, so that none is more probable than others.
    /// What is NaN is never chosen.
    pub fn next(&mut self, logits: &[f32]) -> Option<usize> {
        let greatest = greatest(logits)?;
        match self.sampling {
            Sampling::Greedy => Some(greatest),
            Sampling::Random { temperature, top_k, top_p } => {
                let most = f64::from(logits[greatest]);
                let mut weights: Vec<(usize, f64)> = logits
                    .iter()
                    .enumerate()
                    .filter(|(_, logit)| !logit.is_nan())
                    .map(|(at, logit)| (at, ((f64::from(*logit) - most) / temperature).exp()))
                    .collect();
                weights.sort_by(|(i, a), (j, b)| b.total_cmp(a).then(i.cmp(j)));
                if top_k > 0 {
                    weights.truncate(top_k);
                }
                keep_nucleus(&mut weights, top_p);
                let total: f64 = weights.iter().map(|(_, w)| w).sum();
                let mut left = self.random.f64() * total;
                for (at, weight) in &weights {
                    left -= weight;
                    if left < 0.0 {
                        return Some(*at);
                    }
                }
                // Rounding only: the draw is below the total.
                weights.first().map(|(at, _)| *at)
            }
        }
    }
}

/// Cuts sorted weights to the fewest whose share of the total is at least `p`.
fn keep_nucleus(weights: &mut Vec<(usize, f64)>, p: f64) {
    let total: f64 = weights.iter().map(|(_, w)| w).sum();
    let mut sum = 0.0;
    let reached = weights.iter().position(|(_, w)| {
        sum += w;
        sum >= p * total
    });
    weights.truncate(reached.map_or(weights.len(), |at| at + 1));
}

/// What is wrong with logits of which none was chosen, after so many tokens.
pub(crate) fn no_choice(logits: &[f32], position: usize) -> TextError {
    let nan = logits.iter().filter(|logit| logit.is_nan()).count();
    let greatest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    TextError::Logits { position, count: logits.len(), nan, greatest }
}

/// The first of the greatest that are numbers, if these are finite.
fn greatest(logits: &[f32]) -> Option<usize> {
    // Side by side, so that they are compared as vectors: a vocabulary is long, and this is done for every token.
    let mut most = [f32::NEG_INFINITY; 16];
    let (chunks, rest) = logits.as_chunks();
    for chunk in chunks.iter().chain([&filled(rest)]) {
        for (most, logit) in most.iter_mut().zip(chunk) {
            // What is no number is not greater.
            *most = if logit > most { *logit } else { *most };
        }
    }
    let most = most.into_iter().fold(f32::NEG_INFINITY, f32::max);
    if most.is_finite() { logits.iter().position(|logit| *logit == most) } else { None }
}

/// As many as are compared side by side, the others no numbers.
fn filled(rest: &[f32]) -> [f32; 16] {
    let mut all = [f32::NAN; 16];
    all.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOGITS: [f32; 5] = [1.0, 3.0, f32::NAN, 3.0, 0.0];

    fn drawn(sampling: Sampling, seed: u64) -> Vec<usize> {
        let mut sampler = Sampler::new(sampling, seed);
        (0..4000).map(|_| sampler.next(&LOGITS).unwrap()).collect()
    }

    fn random(temperature: f64, top_k: usize, top_p: f64) -> Sampling {
        Sampling::Random { temperature, top_k, top_p }
    }

    #[test]
    fn greedy_takes_the_first_of_the_greatest() {
        assert_eq!(Sampler::new(Sampling::Greedy, 0).next(&LOGITS), Some(1));
        assert_eq!(Sampler::new(Sampling::Greedy, 0).next(&[f32::NAN]), None);
        for sampling in [Sampling::Greedy, random(1.0, 0, 1.0)] {
            assert_eq!(Sampler::new(sampling, 0).next(&[]), None);
            assert_eq!(Sampler::new(sampling, 0).next(&[f32::NEG_INFINITY; 20]), None);
            assert_eq!(Sampler::new(sampling, 0).next(&[0.0, f32::INFINITY]), None);
        }
    }

    #[test]
    fn the_greatest_of_many_is_found_wherever_it_is() {
        for (count, at) in [(1, 0), (16, 15), (17, 16), (100, 40), (100, 99)] {
            let mut logits: Vec<f32> = (0..count).map(|k| -((k % 7) as f32)).collect();
            logits[at] = 0.5;
            assert_eq!(greatest(&logits), Some(at), "{count}");
            logits.insert(0, f32::NAN);
            logits.push(0.5);
            assert_eq!(greatest(&logits), Some(at + 1), "{count}");
        }
        for none in [f32::NEG_INFINITY, f32::INFINITY, f32::NAN] {
            assert_eq!(greatest(&[f32::NAN, none]), None);
        }
        assert_eq!(greatest(&[f32::NEG_INFINITY, f32::MIN]), Some(1));
    }

    #[test]
    fn a_seed_repeats_its_draws() {
        assert_eq!(drawn(random(1.0, 0, 1.0), 7), drawn(random(1.0, 0, 1.0), 7));
        assert_ne!(drawn(random(1.0, 0, 1.0), 7), drawn(random(1.0, 0, 1.0), 8));
    }

    #[test]
    fn draws_follow_the_softmax() {
        let draws = drawn(random(2.0, 0, 1.0), 1);
        let weight = |x: f64| (x / 2.0).exp();
        let total = weight(1.0) + 2.0 * weight(3.0) + weight(0.0);
        for (at, logit) in [(0, 1.0), (1, 3.0), (3, 3.0), (4, 0.0)] {
            let share = draws.iter().filter(|d| **d == at).count() as f64 / draws.len() as f64;
            assert!((share - weight(logit) / total).abs() < 0.03, "{at}: {share}");
        }
        assert!(!draws.contains(&2), "what is no number is never drawn");
    }

    #[test]
    fn only_the_most_probable_are_drawn() {
        let seen = |sampling| drawn(sampling, 3).into_iter().collect::<std::collections::BTreeSet<_>>();
        assert_eq!(seen(random(1.0, 1, 1.0)), [1].into());
        assert_eq!(seen(random(1.0, 2, 1.0)), [1, 3].into());
        assert_eq!(seen(random(5.0, 3, 1.0)), [0, 1, 3].into());
        // The two greatest have a share of 0.92 together.
        assert_eq!(seen(random(1.0, 0, 0.9)), [1, 3].into());
        assert_eq!(seen(random(1.0, 0, 0.1)), [1].into());
    }
}
