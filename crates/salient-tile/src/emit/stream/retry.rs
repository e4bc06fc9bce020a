//! A second pass over the keys where a sum of the first is NaN or infinite. A masked key adds nothing even where its value is one of
//! these, which a weight of zero alone does not ensure: the second pass skips weights of zero.

use crate::dims::{n, var};
use crate::emit::maker::{Maker, for_loop};
use crate::emit::stream::look::read_flag;
use crate::emit::stream::softmax::fill;
use crate::emit::stream::values::find_not_finite;
use crate::plan::attention::key_loop::NanCheck;
use crate::plan::scratch::Slot;
use crate::program::kernel::{Base, Stmt};
use salient_ir::{Dim, Symbol};

/// What the two passes over the keys of a tile of rows share.
pub(crate) struct Retry {
    check: NanCheck,
    /// Two numbers: whether a tile skips weights of zero, and whether some sum is not finite.
    flags: Base,
    /// Whether this is the second pass.
    again: Symbol,
}

/// How a pass knows which tiles skip weights of zero.
pub(crate) enum Skips {
    /// All of them, where this number is not zero.
    AllWhere(Dim),
    /// Those in which the first of these flags is not zero.
    Marked(Base),
}

impl Retry {
    pub(crate) const OF_TILE: i64 = 0;
    const OF_SUMS: i64 = 1;

    /// What the plan asks for, if the values are those of keys that may be masked.
    pub(crate) fn new(m: &mut Maker<'_, '_>, check: NanCheck) -> Option<Retry> {
        (check != NanCheck::Never).then(|| {
            let flags = m.scratch(Slot::NotFinite);
            Retry { check, flags, again: m.variable("again", &n(2)) }
        })
    }

    /// Begins a tile: where only some skip weights of zero, this one does not yet.
    pub(crate) fn of_tile(&self, m: &mut Maker<'_, '_>, tile: &mut Vec<Stmt>) -> Skips {
        if self.check == NanCheck::EveryTile {
            return Skips::AllWhere(var(&self.again));
        }
        tile.push(fill(m, self.flags, &n(1), 0.0));
        Skips::Marked(self.flags)
    }

    /// Marks a tile to which the mask is applied, in the second pass.
    pub(crate) fn masked(&self, m: &mut Maker<'_, '_>) -> Option<Stmt> {
        let mark = (self.check == NanCheck::MaskedTiles).then(|| fill(m, self.flags, &n(1), 1.0))?;
        Some(Stmt::If { left: n(0), right: var(&self.again), then: vec![mark], otherwise: Vec::new() })
    }

    /// The first pass, and the second if it is wanted.
    pub(crate) fn passes(
        &self,
        m: &mut Maker<'_, '_>,
        mut pass: Vec<Stmt>,
        (sums, count): (Base, &Dim),
    ) -> [Stmt; 2] {
        let number = m.variable("pass", &n(2));
        let flag = (self.flags, n(Self::OF_SUMS));
        pass.push(find_not_finite(m, (sums, n(0)), count, flag));
        let read = read_flag(self.again.clone(), self.flags, Self::OF_SUMS);
        let wanted = &var(&self.again) + &n(1);
        let run = Stmt::If { left: var(&number), right: wanted, then: pass, otherwise: Vec::new() };
        let clear = fill(m, self.flags, &n(2), 0.0);
        [clear, for_loop(&number, n(0), n(2), n(1), vec![read, run])]
    }
}
