//! The reads inside of a value of which an index may leave its axis.

use smallvec::SmallVec;

/// Reads of which an index may leave its axis, inside of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpenReads {
    /// These: a digest of each read, sorted.
    Some(SmallVec<[u64; 4]>),
    /// More than are listed.
    Many,
}

impl Default for OpenReads {
    fn default() -> OpenReads {
        OpenReads::Some(SmallVec::new())
    }
}

impl OpenReads {
    /// As many are listed.
    const MOST: usize = 16;

    /// One read, by its digest.
    pub(super) fn one(digest: u64) -> OpenReads {
        OpenReads::Some(SmallVec::from_slice(&[digest]))
    }

    /// Those that stand in both.
    #[must_use]
    pub(super) fn common(&self, other: &OpenReads) -> OpenReads {
        match (self, other) {
            (OpenReads::Some(a), OpenReads::Some(b)) => {
                OpenReads::Some(a.iter().filter(|read| b.contains(read)).copied().collect())
            }
            (OpenReads::Many, _) | (_, OpenReads::Many) => OpenReads::default(),
        }
    }

    /// Those of both.
    #[must_use]
    pub fn and(&self, other: &OpenReads) -> OpenReads {
        let (OpenReads::Some(a), OpenReads::Some(b)) = (self, other) else { return OpenReads::Many };
        if b.iter().all(|read| a.contains(read)) {
            return self.clone();
        }
        let mut all = a.clone();
        all.extend(b.iter().copied());
        all.sort_unstable();
        all.dedup();
        if all.len() > OpenReads::MOST { OpenReads::Many } else { OpenReads::Some(all) }
    }

    /// Whether each is among the others.
    pub fn is_within(&self, others: &OpenReads) -> bool {
        match (self, others) {
            (OpenReads::Some(a), OpenReads::Some(b)) => a.iter().all(|read| b.contains(read)),
            (OpenReads::Some(a), OpenReads::Many) => a.is_empty(),
            (OpenReads::Many, _) => false,
        }
    }
}
