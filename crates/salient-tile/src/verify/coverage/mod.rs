//! Every element of each result, and of each value that is stored on the way, is written by one item of one kernel, for all
//! sizes that the model allows.
//!
//! What a kernel writes are sets of elements over variables (`writes`): items, loops, and the loops of its bodies. A set is
//! put together until it goes from one place to another without variables (`combine`). What kernels write of one buffer has
//! to follow one on the other from its first element to its last, with what an append leaves where it was; of kernels that
//! run under conditions this holds in each case. An item may write an element more than once.
//!
//! Of packed panels the columns after the last are not written, and of states of parts the rows that there are not. Scratch
//! memory is written again and again and is not looked at. Where no proof is found the elements are counted at some sizes
//! (`count`): what is written by two items, or by none, is shown with these sizes; all else is open.

mod combine;
mod count;
mod known;
#[cfg(test)]
mod tests;
mod writes;

use super::bounds::scope_of;
use crate::dims::n;
use crate::program::kernel::{BufferId, Program, Role};
use combine::{Reach, combined};
use known::Known;
use salient_ir::{Dim, Requirement};
use std::collections::{BTreeSet, HashMap};
use writes::{Found, Room, Set, Writes};

/// What is known of how the buffers of a program are written.
#[derive(Clone, Debug, Default)]
pub struct Coverage {
    /// Buffers of which every element is proved to be written by one item of one kernel.
    pub whole: usize,
    /// Buffers of which that is proved of every element but of those that have no value, with what these are.
    pub with_room: Vec<(String, String)>,
    /// Those of which it is not proved.
    pub open: Vec<Open>,
}

/// A buffer of which it is not proved that each element is written by one item of one kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Open {
    /// Its name.
    pub buffer: String,
    /// Where the proof ended.
    pub why: String,
    /// An element that is written by two items or by none, and sizes at which that is so, if it is known.
    pub shown: Option<String>,
}

impl std::fmt::Display for Open {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Open { buffer, why, shown } = self;
        match shown {
            Some(shown) => write!(f, "{buffer}: {shown}"),
            None => write!(f, "{buffer}: it is not proved that each element is written once: {why}"),
        }
    }
}

/// Looks at every buffer that kernels of the program write. What is not proved is counted, each kernel once and not its copies.
pub fn coverage(program: &Program, requirements: &[Requirement]) -> Coverage {
    let (mut found, unproved) = proved(program, requirements);
    let mut before: BTreeSet<Sources> = BTreeSet::new();
    for (open, (id, sources)) in found.open.iter_mut().zip(unproved) {
        if before.insert(sources) {
            open.shown = count::shown(program, requirements, id);
        }
    }
    found
}

/// The kernels that write a buffer, or of which those are copies that do, and which of what they write it is.
type Sources = Vec<(usize, usize)>;

/// What is proved, and the buffers that are open, in the same order.
fn proved(program: &Program, requirements: &[Requirement]) -> (Coverage, Vec<(BufferId, Sources)>) {
    let known = Known::of(scope_of(program, requirements));
    let mut found = Coverage::default();
    let mut kernels = Kernels { program, known: &known, of: HashMap::new(), combined: HashMap::new() };
    let mut unproved = Vec::new();
    for (at, buffer) in program.buffers.iter().enumerate() {
        let id = BufferId(at);
        let sources = kernels.sources(id);
        let is_result = matches!(buffer.role, Role::Output(_));
        if sources.is_empty() && !is_result {
            continue;
        }
        let reach = if is_result { Reach::Items } else { Reach::WithRoom };
        let written = kernels.written(&sources, reach);
        let stored = Stored { program, known: &known, id, is_result };
        match stored.verdict(&written) {
            Ok(None) => found.whole += 1,
            Ok(Some(room)) => found.with_room.push((buffer.name.clone(), room)),
            Err(why) => {
                found.open.push(Open { buffer: buffer.name.clone(), why, shown: None });
                unproved.push((id, sources));
            }
        }
    }
    (found, unproved)
}

/// What kernels write, each looked at once.
struct Kernels<'p> {
    program: &'p Program,
    known: &'p Known,
    of: HashMap<usize, Found>,
    /// Sets that were put together: kernels write tensors of few shapes.
    combined: HashMap<(Set, Reach), Set>,
}

/// What is written of a buffer, and why not all is known of it.
#[derive(Default)]
struct Written {
    /// With the calls that write it.
    sets: Vec<(Set, String)>,
    unknown: Vec<String>,
}

impl Kernels<'_> {
    fn sources(&self, id: BufferId) -> Sources {
        let all = self.program.kernels.iter().enumerate();
        all.filter_map(|(at, kernel)| {
            let place = kernel.writes.iter().position(|other| *other == id)?;
            Some((self.program.copies.get(at).copied().flatten().unwrap_or(at), place))
        })
        .collect()
    }

    /// What kernels write of a buffer, put together.
    fn written(&mut self, sources: &[(usize, usize)], reach: Reach) -> Written {
        let mut out = Written::default();
        for (at, place) in sources {
            let of = self.program.kernels[*at].writes.get(*place);
            let found = match self.of.remove(at) {
                Some(found) => found,
                None => self.by_items(*at),
            };
            for writes in found.writes.iter().filter(|writes| Some(&writes.buffer) == of) {
                out.sets.push((self.combined(writes.set.clone(), reach), writes.call.clone()));
            }
            let unknown = found.unknown.iter().filter(|(id, _)| Some(id) == of);
            out.unknown.extend(unknown.map(|(_, why)| why.clone()));
            self.of.insert(*at, found);
        }
        out
    }

    fn combined(&mut self, set: Set, reach: Reach) -> Set {
        let known = self.known;
        self.combined
            .entry((set, reach))
            .or_insert_with_key(|(set, _)| combined(set.clone(), known, reach))
            .clone()
    }

    /// What a kernel writes, for each of its items put together, and what it writes more than once taken once.
    fn by_items(&mut self, at: usize) -> Found {
        let Found { writes, unknown } = writes::writes(self.program, &self.program.kernels[at]);
        let mut once: Vec<Writes> = Vec::new();
        for writes in writes {
            let set = self.combined(writes.set, Reach::Item);
            let is_it = |other: &&mut Writes| other.buffer == writes.buffer && other.set.is_same(&set);
            match once.iter_mut().find(is_it) {
                Some(other) => other.set.is_certain |= set.is_certain,
                None => once.push(Writes { set, ..writes }),
            }
        }
        Found { writes: side_by_side(once, self.known), unknown }
    }
}

/// What is written side by side for the same numbers of the same variables, taken together.
fn side_by_side(mut all: Vec<Writes>, known: &Known) -> Vec<Writes> {
    let follows = |a: &Writes, b: &Writes| {
        let (one, next) = (&a.set, &b.set);
        a.buffer == b.buffer
            && one.has_same_variables(next)
            && one.is_certain == next.is_certain
            && known.same(one, &one.to, &next.from)
            && known.prove(one, &(&one.to - &one.from))
            && known.prove(next, &(&next.to - &next.from))
    };
    let mut at = 0;
    while at < all.len() {
        match (0..all.len()).find(|next| *next != at && follows(&all[at], &all[*next])) {
            Some(next) => {
                all[at].set.to = all[next].set.to.clone();
                all.remove(next);
                at = 0;
            }
            None => at += 1,
        }
    }
    all
}

/// A buffer that is written.
struct Stored<'p> {
    program: &'p Program,
    known: &'p Known,
    id: BufferId,
    is_result: bool,
}

/// Conditions that are looked at each by itself, at most: each doubles the cases.
const CONDITIONS: usize = 4;

impl Stored<'_> {
    /// What is left out of it, if all else is written once; or why that is not proved.
    fn verdict(&self, written: &Written) -> Result<Option<String>, String> {
        if let Some(why) = written.unknown.first() {
            return Err(why.clone());
        }
        let all = &written.sets;
        if let Some((open, call)) = all.iter().find(|(set, _)| !set.variables.is_empty()) {
            return Err(format!("{call} writes {open}"));
        }
        let mut conditions: Vec<Dim> = Vec::new();
        for condition in all.iter().flat_map(|(set, _)| &set.when) {
            if !conditions.contains(condition) && !conditions.contains(&opposite(condition)) {
                conditions.push(condition.clone());
            }
        }
        if conditions.len() > CONDITIONS {
            return Err("its kernels run under too many conditions".to_owned());
        }
        let mut room = None;
        for case in 0..1usize << conditions.len() {
            let holds = |at: usize| case >> at & 1 == 0;
            let case = conditions.iter().enumerate();
            let case = case.map(|(at, c)| if holds(at) { c.clone() } else { opposite(c) });
            let case: Vec<Dim> = case.collect();
            let Some(known) = self.known.where_holds(&case) else { continue };
            let runs = |(set, _): &&(Set, String)| set.when.iter().all(|condition| case.contains(condition));
            let now: Vec<&(Set, String)> = all.iter().filter(runs).collect();
            // What is stored on the way is stored where it is read: the verifier of plans sees to that.
            if self.is_result || !now.is_empty() {
                room = self.one_after_the_other(&now, &known)?.or(room);
            }
        }
        Ok(room)
    }

    /// What is left out if all that is written follows one on the other from the first element to the last.
    fn one_after_the_other(&self, all: &[&(Set, String)], known: &Known) -> Result<Option<String>, String> {
        let buffer = self.program.buffer(self.id);
        let held = self.program.appends.iter().find(|append| append.output == self.id);
        let mut at = held.map_or(n(0), |append| self.program.buffer(append.input).count());
        let mut left = all.to_vec();
        let mut last = &Set::nothing();
        while let Some(next) = left.iter().position(|(set, _)| known.same(set, &set.from, &at)) {
            let (set, call) = left.remove(next);
            if !set.is_certain {
                return Err(format!("{call} may write nothing of {set}"));
            }
            if !known.prove(set, &(&set.to - &set.from)) {
                return Err(format!("{call} writes {set}"));
            }
            at = set.to.clone();
            last = set;
        }
        if let Some((open, call)) = left.first() {
            return Err(format!("all up to element {at} is written, and {call} writes {open}"));
        }
        let count = buffer.count();
        let rest = &count - &at;
        if known.same(last, &count, &at) {
            Ok(all.iter().find_map(|(set, _)| set.room.as_ref()).map(text))
        } else if !self.is_result && last.leaves_rows(&rest) && known.prove(last, &rest) {
            Ok(Some(text(&Room::Rows)))
        } else {
            Err(format!("elements 0 .. {at} of 0 .. {count} are written"))
        }
    }
}

/// What holds where a condition does not.
fn opposite(condition: &Dim) -> Dim {
    &(&n(0) - condition) - &n(1)
}

/// What has no value.
fn text(room: &Room) -> String {
    match room {
        Room::Columns(columns) => format!("columns after {columns}"),
        Room::Rows => "rows that there are not".to_owned(),
    }
}

/// What is wrong with any buffer that is written, by counting alone.
#[cfg(test)]
pub(super) fn counted(program: &Program) -> Vec<String> {
    let is_written = |id: &BufferId| program.kernels.iter().any(|kernel| kernel.writes.contains(id));
    let written = (0..program.buffers.len()).map(BufferId).filter(is_written);
    written.filter_map(|id| count::shown(program, &[], id)).collect()
}

/// Whether all is proved; nothing is counted.
#[cfg(test)]
pub(super) fn is_proved(program: &Program) -> bool {
    proved(program, &[]).0.open.is_empty()
}

/// What a kernel writes, as text.
#[cfg(test)]
pub(super) fn written(program: &Program, kernel: usize) -> Vec<String> {
    let found = writes::writes(program, &program.kernels[kernel]);
    let sets =
        found.writes.iter().map(|writes| format!("{:?} {:?} {}", writes.buffer, writes.set.when, writes.set));
    sets.chain(found.unknown.into_iter().map(|(_, why)| why)).collect()
}
