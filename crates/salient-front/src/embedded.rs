//! The files of the language's own library.

macro_rules! library {
    ($($name:literal),*) => { &[$((concat!("std/", $name), include_str!(concat!("std/", $name)))),*] };
}

/// Every file of the library, with the name under which messages show it.
pub(crate) const FILES: &[(&str, &str)] = library![
    "activations.attn",
    "attention.attn",
    "axes.attn",
    "layers.attn",
    "losses.attn",
    "optimisers.attn",
    "softmax.attn"
];
