//! The language's own library: `.attn` source, embedded.

/// Every file of the library, with the name under which messages show it.
pub(crate) const FILES: &[(&str, &str)] =
    &[("std/layers.attn", include_str!("std/layers.attn")), ("std/softmax.attn", include_str!("std/softmax.attn"))];
