//! Models are chains of equal blocks. One block is optimised by itself, and what surrounds the chain as a second graph, where
//! there may be other chains; the two are put together again with the block as often as it stood there.

pub(crate) mod join;
pub(crate) mod repeat;
pub(crate) mod split;
