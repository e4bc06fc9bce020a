//! The language's own library: `.attn` source, embedded.

/// Every file of the library, with the name under which messages show it.
pub(crate) const FILES: &[(&str, &str)] = &[];
