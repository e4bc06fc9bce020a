//! Parameters made ready: packed, folded and reduced once, for any number of calls on any number of threads.
//!
//! What is done is the program's [`Section::Load`]; the arrays themselves stay the caller's.

use crate::call::arguments::{Arguments, Inputs, Loaded, checked, narrow};
use crate::call::plan::Plan;
use crate::call::region::Region;
use crate::call::watch::Watch;
use crate::compile::Compiled;
use crate::error::RunError;
use salient_ir::array::Array;
use salient_ir::{Bindings, Name};
use salient_tile::coded::{Codes, code_words, pack_codes};
use salient_tile::memory;
use salient_tile::{Role, Section};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};

impl Compiled {
    /// Computes what follows from the parameters alone. `dimensions` must hold those that occur in the shapes of
    /// parameters, and may hold others. A changed parameter is loaded again: this holds what it was made of. For parameters
    /// that no kernel reads in f32 ([`Compiled::needs_param`]) any array may stand.
    ///
    /// # Errors
    /// As [`Compiled::run`]; and if the codes are not those of the parameters that the program reads in blocks.
    pub fn load(
        &self,
        dimensions: &Bindings,
        params: &[&Array],
        codes: &Codes<'_>,
    ) -> Result<Loaded, RunError> {
        let program = &self.program;
        let plan = self.plan(Section::Load, dimensions)?;
        let known = self.known(dimensions);
        let places = memory::kept(program, known)?;
        let bytes = places.size;
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let mut loaded = Loaded {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            compiled: self.id,
            dimensions: self.fixed_by_parameters(&plan),
            region: Region::new(bytes).ok_or_else(|| self.no_memory(bytes, known, kept_bytes(&places)))?,
            offsets: places.offsets,
            bytes,
        };
        for (at, buffer) in program.buffers.iter().enumerate() {
            let (Role::Param(k), Some(offset)) = (buffer.role, loaded.offsets[at]) else { continue };
            let count = plan.counts[at];
            let array = checked(buffer, count, params.get(k).copied())?;
            if let Some(values) = array.as_i64() {
                narrow(buffer, values, loaded.region.words(offset, count))?;
            }
        }
        for (at, buffer) in program.buffers.iter().enumerate() {
            let (Role::Coded(k), Some(offset)) = (buffer.role, loaded.offsets[at]) else { continue };
            let count = plan.counts[at];
            let width = buffer.shape[2].eval(&self.known(dimensions))? as usize;
            let from = codes.get(&k).copied().filter(|from| code_words(from, width) == count);
            let from = from.ok_or_else(|| RunError::Codes { tensor: buffer.name.clone() })?;
            pack_codes(from, width, loaded.region.words(offset, count));
        }
        if program.loads > 0 {
            let mut workspace = plan.take(self)?;
            let given = Arguments { loaded: &loaded, inputs: Inputs::All(&[]), params };
            self.run_in(&plan, &mut workspace, given, &mut [], &mut Watch::default())?;
        }
        Ok(loaded)
    }

    /// Whether any kernel reads a parameter as the caller holds it, be it when it is bound.
    pub fn needs_param(&self, at: usize) -> bool {
        let id = self.program.with_role(Role::Param(at));
        id.is_some_and(|id| [Section::Load, Section::Call].iter().any(|s| self.program.touched(*s)[id.0]))
    }

    /// Whether calls read a parameter as the caller holds it, by its position among the graph's.
    pub fn reads_param(&self, at: usize) -> bool {
        let called = self.program.touched(Section::Call);
        let own = |id: usize| called[id] && !memory::is_copied(&self.program.buffers[id]);
        self.program.with_role(Role::Param(at)).is_some_and(|id| own(id.0))
    }

    /// Whether the parameters were loaded for this program, at the dimensions of a plan.
    pub(crate) fn fits(&self, plan: &Plan, loaded: &Loaded) -> Result<(), RunError> {
        let same = loaded.dimensions.iter().all(|(at, value)| plan.symbols[*at] == *value);
        if loaded.compiled == self.id && same { Ok(()) } else { Err(RunError::Loaded) }
    }

    fn fixed_by_parameters(&self, plan: &Plan) -> Vec<(usize, i64)> {
        let buffers = self.program.buffers.iter().filter(|b| match b.role {
            Role::Param(_) | Role::Loaded | Role::Coded(_) => true,
            Role::Input(_) | Role::Output(_) | Role::Temporary => false,
        });
        let fixed: BTreeSet<Name> = buffers.flat_map(|b| &b.shape).flat_map(|d| d.dimensions()).collect();
        let symbols = self.program.dimensions.iter().enumerate();
        symbols.filter(|(_, name)| fixed.contains(*name)).map(|(at, _)| (at, plan.symbols[at])).collect()
    }
}

/// What each buffer takes of a region in which they lie one after the other.
fn kept_bytes(places: &memory::Arena) -> impl Iterator<Item = usize> {
    let starts: Vec<usize> = places.offsets.iter().flatten().copied().chain([places.size]).collect();
    let mut next = starts.into_iter().skip(1);
    places
        .offsets
        .iter()
        .map(move |offset| offset.map_or(0, |start| next.next().map_or(0, |end| end - start)))
}
