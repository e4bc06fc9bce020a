//! Beam search: several continuations side by side, of which the most probable wins.
//!
//! Rules are those of transformers with `early_stopping = False`. At every step so many of the most probable continuations of
//! all beams are looked at that `width` of them do not end: of those among the first `width` that end each is finished, with
//! its score; of the others the first `width` go on. The search is over when `width` are finished and no beam scores better than the worst of them, or at the
//! length asked for, where beams are finished as they are. One beam is greedy decoding: it is over at its first end.
//!
//! Knows no models and no texts; for a method see Sutskever et al., "Sequence to Sequence Learning with Neural Networks",
//! 2014, section 3.2, and for scores by length Wu et al., "Google's Neural Machine Translation System", 2016, section 7.

use crate::error::TextError;
use crate::sample::no_choice;

/// How wide the search is and where it ends.
#[derive(Clone, Debug)]
pub struct Beams {
    /// Continuations that are kept at every step; at least 1.
    pub width: usize,
    /// A score is the sum of the logarithms of the tokens' probabilities, divided by their number to this power: above 0,
    /// longer ones are favoured.
    pub length_penalty: f64,
    /// The most tokens that are added.
    pub max_tokens: usize,
    /// What a continuation begins with; not part of the result.
    pub start: u32,
    /// A continuation ends at one of these; it is counted, and not part of the result.
    pub ends: Vec<u32>,
}

/// A continuation that is finished.
#[derive(Clone, Debug, PartialEq)]
pub struct Hypothesis {
    /// The tokens, without the one that ended it.
    pub ids: Vec<u32>,
    /// Its score; see [`Beams::length_penalty`].
    pub score: f64,
    /// Whether it ended by itself, rather than at the length asked for.
    pub has_ended: bool,
}

/// A continuation that the search asks about.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Continuation<'a> {
    /// Its tokens, with what it begins with.
    pub(crate) ids: &'a [u32],
    /// The row of the call before that it continues, by one token; 0 at the first call.
    pub(crate) from: usize,
}

/// Logits of what follows each of several continuations, all equally long.
pub(crate) type Next<'a> = dyn FnMut(&[Continuation<'_>]) -> Result<Vec<Vec<f32>>, TextError> + 'a;

/// A continuation that is not at its end.
struct Beam {
    /// With what it began with.
    ids: Vec<u32>,
    /// The beam of the step before that it continues.
    from: usize,
    sum: f64,
}

/// Searches. The result has at most `width` hypotheses, the best first.
///
/// # Errors
/// As `next`; the logits are no numbers.
pub(crate) fn search(beams: &Beams, next: &mut Next<'_>) -> Result<Vec<Hypothesis>, TextError> {
    let width = beams.width.max(1);
    let looked_at = width * (1 + beams.ends.len()).max(2);
    let mut alive = vec![Beam { ids: vec![beams.start], from: 0, sum: 0.0 }];
    let mut finished: Vec<Hypothesis> = Vec::new();
    for length in 1..=beams.max_tokens {
        let score = |sum: f64| sum / (length as f64).powf(beams.length_penalty);
        let rows: Vec<Continuation<'_>> =
            alive.iter().map(|beam| Continuation { ids: &beam.ids, from: beam.from }).collect();
        let logits = next(&rows)?;
        let mut candidates: Vec<(usize, u32, f64)> = Vec::new();
        for (at, (beam, logits)) in alive.iter().zip(&logits).enumerate() {
            let best = most_probable(logits, looked_at).ok_or_else(|| no_choice(logits, beam.ids.len()))?;
            candidates.extend(best.into_iter().map(|(id, log)| (at, id, beam.sum + log)));
        }
        candidates.sort_by(|(i, a, p), (j, b, q)| q.total_cmp(p).then((i, a).cmp(&(j, b))));
        candidates.truncate(looked_at);
        let mut follow: Vec<Beam> = Vec::new();
        for (rank, (from, id, sum)) in candidates.into_iter().enumerate() {
            let ended = beams.ends.contains(&id);
            let ids = || alive[from].ids.iter().copied().chain((!ended).then_some(id));
            if (ended || length == beams.max_tokens) && rank < width {
                let ids = ids().skip(1).collect();
                finished.push(Hypothesis { ids, score: score(sum), has_ended: ended });
            } else if !ended && follow.len() < width {
                follow.push(Beam { ids: ids().collect(), from, sum });
            }
        }
        finished.sort_by(|a, b| b.score.total_cmp(&a.score));
        finished.truncate(width);
        let worst = finished.last().filter(|_| finished.len() == width).map(|h| h.score);
        match (follow.first(), worst) {
            (None, _) => break,
            (Some(best), Some(worst)) if width == 1 || score(best.sum) <= worst => break,
            (Some(_), _) => alive = follow,
        }
    }
    Ok(finished)
}

/// The ids of the greatest logits that are numbers, at most `count`, each with the logarithm of its probability; `None` if
/// the greatest is not finite.
fn most_probable(logits: &[f32], count: usize) -> Option<Vec<(u32, f64)>> {
    let numbers = logits.iter().map(|l| f64::from(*l)).zip(0..).filter(|(logit, _)| !logit.is_nan());
    let mut numbers: Vec<(f64, u32)> = numbers.collect();
    let greatest = numbers.iter().map(|(logit, _)| *logit).fold(f64::NEG_INFINITY, f64::max);
    if !greatest.is_finite() {
        return None;
    }
    let total = numbers.iter().map(|(logit, _)| (logit - greatest).exp()).sum::<f64>().ln();
    let order = |(a, i): &(f64, u32), (b, j): &(f64, u32)| b.total_cmp(a).then(i.cmp(j));
    if count < numbers.len() {
        numbers.select_nth_unstable_by(count, order);
        numbers.truncate(count);
    }
    numbers.sort_by(order);
    Some(numbers.into_iter().map(|(logit, id)| (id, logit - greatest - total)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const END: u32 = 0;

    /// Logits of four tokens that depend on all tokens before.
    fn logits(ids: &[u32]) -> Vec<f32> {
        let mixed = ids.iter().fold(7_u32, |sum, id| sum.wrapping_mul(31).wrapping_add(id + 1));
        (0..4).map(|v| f32::from((mixed.wrapping_mul(2_654_435_761 + 2 * v) >> 24) as u8) / 64.0).collect()
    }

    fn found(width: usize, length_penalty: f64, max_tokens: usize) -> Vec<Hypothesis> {
        let beams = Beams { width, length_penalty, max_tokens, start: 3, ends: vec![END] };
        let mut before: Vec<Vec<u32>> = Vec::new();
        let mut next = |rows: &[Continuation<'_>]| {
            for row in rows.iter().filter(|_| !before.is_empty()) {
                assert_eq!(row.ids[..row.ids.len() - 1], before[row.from], "the row it goes on from");
            }
            before = rows.iter().map(|row| row.ids.to_vec()).collect();
            Ok(rows.iter().map(|row| logits(row.ids)).collect())
        };
        search(&beams, &mut next).unwrap()
    }

    /// Every continuation of at most so many tokens, with the sum of its logarithms.
    fn all(ids: &mut Vec<u32>, sum: f64, left: usize, out: &mut Vec<Hypothesis>) {
        for (id, log) in most_probable(&logits(ids), 4).unwrap() {
            let (ids_of, has_ended) = (ids[1..].to_vec(), id == END);
            if has_ended || left == 1 {
                let ids = if has_ended { ids_of } else { [ids_of, vec![id]].concat() };
                out.push(Hypothesis { ids, score: sum + log, has_ended });
            } else {
                ids.push(id);
                all(ids, sum + log, left - 1, out);
                ids.pop();
            }
        }
    }

    #[test]
    fn a_search_as_wide_as_all_continuations_finds_the_best() {
        let mut every = Vec::new();
        all(&mut vec![3], 0.0, 5, &mut every);
        every.sort_by(|a, b| b.score.total_cmp(&a.score));
        let best = found(every.len(), 0.0, 5);
        assert_eq!(best.len(), every.len());
        for (found, want) in best.iter().zip(&every) {
            assert!((found.score - want.score).abs() < 1e-12, "{found:?} {want:?}");
        }
        assert_eq!(best[0].ids, every[0].ids);
        assert!(found(2, 0.0, 5)[0].score <= best[0].score);
    }

    #[test]
    fn one_beam_takes_the_most_probable_token_each_time() {
        let mut ids = vec![3];
        let ended = loop {
            let next = most_probable(&logits(&ids), 1).unwrap()[0].0;
            if next == END || ids.len() == 9 {
                break next == END;
            }
            ids.push(next);
        };
        let greedy = &found(1, 1.0, 8)[0];
        assert_eq!((greedy.ids.as_slice(), greedy.has_ended), (&ids[1..], ended));
    }

    #[test]
    fn scores_are_divided_by_the_length_with_the_end() {
        for width in [1, 3] {
            for (one, none) in found(width, 1.0, 4).iter().zip(found(width, 0.0, 4)) {
                if one.ids == none.ids {
                    let length = one.ids.len() + usize::from(one.has_ended);
                    assert!((one.score * length as f64 - none.score).abs() < 1e-12);
                }
            }
        }
    }

    #[test]
    fn no_tokens_and_no_numbers() {
        assert_eq!(found(3, 1.0, 0), Vec::new());
        let beams = Beams { width: 2, length_penalty: 1.0, max_tokens: 3, start: 3, ends: vec![END] };
        for (logit, nan, greatest) in
            [(f32::NAN, 4, "-inf"), (f32::NEG_INFINITY, 0, "-inf"), (f32::INFINITY, 0, "inf")]
        {
            let error = search(&beams, &mut |rows| Ok(vec![vec![logit; 4]; rows.len()])).unwrap_err();
            let expected = format!(
                "no token can be chosen after 1 tokens: of 4 logits {nan} are NaN, and the greatest of the others is {greatest}"
            );
            assert_eq!(error.to_string(), expected);
        }
    }
}
