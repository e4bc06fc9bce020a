//! Elements counted at some sizes: what is written by two items of kernels, or by none.

use super::writes::{Set, writes};
use crate::dims::LANES;
use crate::program::kernel::{BufferId, Program, Role};
use salient_ir::{Requirement, Symbol};
use std::collections::BTreeMap;

/// Numbers for dimensions and variables.
type Numbers = BTreeMap<Symbol, i64>;

/// Sizes that are tried, for dimensions in turn, beginning with each of them: small ones, ones at which conditions change, and
/// ones of several tiles.
const SIZES: [[i64; 4]; 6] =
    [[1, 1, 1, 1], [2, 4, 8, 16], [8, 8, 8, 8], [9, 9, 9, 9], [12, 24, 6, 48], [140, 5, 3, 2]];

/// Lanes of a vector.
const WIDTH: i64 = 2;

/// Elements of a buffer, and sets of elements, above which sizes are too large.
const MOST: usize = 1 << 15;

/// Sizes at which an element is written by two items or by none, and what happens there, if there are such among those tried.
/// Of a buffer that is no result elements may have no value.
pub(super) fn shown(program: &Program, requirements: &[Requirement], id: BufferId) -> Option<String> {
    let kernels = program.kernels.iter().enumerate();
    let kernels: Vec<(usize, Vec<Set>)> = kernels
        .filter(|(_, kernel)| kernel.writes.contains(&id))
        .map(|(at, kernel)| {
            let found = writes(program, kernel);
            // Where not all is known nothing is shown.
            let is_known = found.unknown.iter().all(|(of, _)| *of != id);
            is_known.then(|| {
                (
                    at,
                    found
                        .writes
                        .into_iter()
                        .filter(|writes| writes.buffer == id)
                        .map(|writes| writes.set)
                        .collect(),
                )
            })
        })
        .collect::<Option<_>>()?;
    let trials = SIZES.iter().flat_map(|sizes| (0..sizes.len()).map(move |first| (sizes, first)));
    let mut trials = trials.filter(|(sizes, first)| *first == 0 || sizes[0] != sizes[1]);
    trials.find_map(|(sizes, first)| {
        let in_turn = sizes.iter().copied().cycle().skip(first);
        let dimensions = program.dimensions.iter().map(|name| Symbol::Dimension(name.clone()));
        let mut known: Numbers = dimensions.zip(in_turn).collect();
        known.insert(LANES.clone(), WIDTH);
        let fits = requirements.iter().all(|requirement| requirement.check(&known).is_ok());
        let found = if fits { count(program, id, &kernels, &known)? } else { None };
        let at = program
            .dimensions
            .iter()
            .map(|name| format!("{name} = {}", known[&Symbol::Dimension(name.clone())]));
        found.map(|what| format!("{what} at {}", at.collect::<Vec<_>>().join(", ")))
    })
}

/// What is wrong with what is written at some sizes, if anything is; `None` where these are too large, or have no meaning.
fn count(
    program: &Program,
    id: BufferId,
    kernels: &[(usize, Vec<Set>)],
    known: &Numbers,
) -> Option<Option<String>> {
    let size = |id: BufferId| {
        let count = program.buffer(id).count().eval(known).ok()?;
        usize::try_from(count).ok().filter(|count| *count <= MOST)
    };
    let mut owners: Vec<Option<Owner>> = vec![None; size(id)?];
    if let Some(append) = program.appends.iter().find(|append| append.output == id) {
        owners.get_mut(..size(append.input)?)?.fill(Some(Owner { kernel: None, item: 0 }));
    }
    let (mut twice, mut beyond) = (None, None);
    for (at, set) in kernels.iter().flat_map(|(at, all)| all.iter().map(move |set| (*at, set))) {
        let mut left = MOST;
        let mut note = |item: i64, elements: std::ops::Range<i64>| {
            for element in elements {
                let owner = Owner { kernel: Some(at), item };
                let before = usize::try_from(element).ok().and_then(|element| owners.get_mut(element));
                match before.map(|before| before.replace(owner)) {
                    None => {
                        let count = program.buffer(id).count();
                        beyond.get_or_insert_with(|| format!("element {element} of {count} is written"));
                    }
                    Some(Some(other)) if other != owner => {
                        let (one, other) = (other.text(program), owner.text(program));
                        let what = format!("element {element} is written by {one} and by {other}");
                        twice.get_or_insert(what);
                    }
                    Some(_) => {}
                }
            }
        };
        each(set, 0, &mut known.clone(), &mut left, &mut note)?;
    }
    let is_result = matches!(program.buffer(id).role, Role::Output(_));
    let missing = owners.iter().position(Option::is_none).filter(|_| is_result);
    let missing = missing.map(|element| format!("element {element} is not written"));
    Some(twice.or(missing).or(beyond))
}

/// Who has written an element: an item of a kernel, or no kernel, where it was there before.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Owner {
    kernel: Option<usize>,
    item: i64,
}

impl Owner {
    fn text(&self, program: &Program) -> String {
        match self.kernel {
            Some(kernel) => format!("item {} of `{}`", self.item, program.kernels[kernel].name),
            None => "what is held".to_owned(),
        }
    }
}

/// Goes through all numbers of the variables from one on; `None` where that is too long, or has no meaning.
fn each(
    set: &Set,
    depth: usize,
    known: &mut Numbers,
    left: &mut usize,
    note: &mut impl FnMut(i64, std::ops::Range<i64>),
) -> Option<()> {
    // Minima may be of others.
    for _ in 0..set.least.len() {
        for (name, of) in &set.least {
            let values: Option<Vec<i64>> = of.iter().map(|d| d.eval(known).ok()).collect();
            match values.and_then(|values| values.into_iter().min()) {
                Some(least) => known.insert(name.clone(), least),
                None => known.remove(name),
            };
        }
    }
    if set.when.iter().any(|condition| condition.eval(known).is_ok_and(|value| value < 0)) {
        return Some(());
    }
    *left = left.checked_sub(1)?;
    let Some(variable) = set.variables.get(depth) else {
        let item = set.variables.first().map_or(Some(0), |item| known.get(&item.name).copied())?;
        note(item, set.from.eval(known).ok()?..set.to.eval(known).ok()?);
        return Some(());
    };
    for at in variable.from.eval(known).ok()?..variable.to.eval(known).ok()? {
        known.insert(variable.name.clone(), at);
        each(set, depth + 1, known, left, note)?;
    }
    known.remove(&variable.name);
    Some(())
}
