//! The memory plan: every temporary gets a place in one arena, shared by those that are never alive at once.
//!
//! Which temporaries are alive together follows from the order of the kernels alone; how much room that takes depends on
//! the dimensions of a call. Inputs, parameters and outputs belong to the caller and are not planned.

use crate::kernel::{Program, Role};
use salient_ir::{Bindings, Dim, DimError};

/// Every place in the arena begins at a multiple of this many bytes: a cache line.
pub const ALIGNMENT: usize = 64;

/// The number of bytes rounded up to whole cache lines.
fn round_up(bytes: usize) -> usize {
    bytes.next_multiple_of(ALIGNMENT)
}

/// More bytes than any address space has; sums of this many bytes do not overflow.
const MOST: usize = 1 << 47;

/// Bytes of `count` elements of `size` bytes, rounded up to whole cache lines.
///
/// # Errors
/// The count has no value, is negative, or is of more bytes than there can be.
pub fn bytes(count: &Dim, size: i64, bindings: &Bindings) -> Result<usize, DimError> {
    let bytes = usize::try_from(count.eval(bindings)?).ok().and_then(|n| n.checked_mul(size as usize));
    match bytes {
        Some(bytes) if bytes <= MOST => Ok(round_up(bytes)),
        Some(_) | None => Err(DimError::Overflow(count.clone())),
    }
}

/// Where each temporary lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arena {
    /// Bytes from the start of the arena, by buffer; `None` for what is not a temporary.
    pub offsets: Vec<Option<usize>>,
    /// Bytes in all.
    pub size: usize,
}

/// For each buffer the first and the last kernel that touches it, by position; `None` where none does.
pub fn lifetimes(program: &Program) -> Vec<Option<(usize, usize)>> {
    let mut out = vec![None; program.buffers.len()];
    for (at, kernel) in program.kernels.iter().enumerate() {
        for id in kernel.writes.iter().chain(&kernel.reads) {
            let (first, _) = out[id.0].unwrap_or((at, at));
            out[id.0] = Some((first, at));
        }
    }
    out
}

/// Places every temporary, larger ones first, each at the lowest address where it meets no other that is alive with it.
pub fn plan(program: &Program, bindings: &Bindings) -> Result<Arena, DimError> {
    struct Place {
        buffer: usize,
        life: (usize, usize),
        bytes: usize,
        offset: usize,
    }
    let mut wanted = Vec::new();
    for ((at, buffer), life) in program.buffers.iter().enumerate().zip(lifetimes(program)) {
        let (Role::Temporary, Some(life)) = (buffer.role, life) else { continue };
        let bytes = bytes(&buffer.count(), buffer.elem().size(), bindings)?;
        wanted.push(Place { buffer: at, life, bytes, offset: 0 });
    }
    wanted.sort_by_key(|p| (std::cmp::Reverse(p.bytes), p.buffer));
    let mut placed: Vec<Place> = Vec::new();
    for mut next in wanted {
        let mut others: Vec<&Place> =
            placed.iter().filter(|p| p.life.0 <= next.life.1 && next.life.0 <= p.life.1).collect();
        others.sort_by_key(|p| p.offset);
        for other in others {
            if next.offset + next.bytes <= other.offset {
                break;
            }
            next.offset = next.offset.max(other.offset + other.bytes);
        }
        placed.push(next);
    }
    let mut arena = Arena { offsets: vec![None; program.buffers.len()], size: 0 };
    for p in placed {
        arena.offsets[p.buffer] = Some(p.offset);
        arena.size = arena.size.max(p.offset + p.bytes);
    }
    Ok(arena)
}
