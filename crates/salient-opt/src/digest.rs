//! Digests of texts: what breaks ties, the same for the same program however it was written down.

/// A digest of a text and of the digests of what is below it, in that order. FNV-1a: stable across versions of the
/// compiler, unlike the standard library's hasher.
pub(crate) fn digest(text: &str, below: impl Iterator<Item = u64>) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    let mut feed = |bytes: &[u8]| {
        for b in bytes {
            hash = (hash ^ u64::from(*b)).wrapping_mul(0x0100_0000_01b3);
        }
    };
    feed(text.as_bytes());
    below.for_each(|b| feed(&b.to_le_bytes()));
    hash
}
