//! What a module of Python leaves undefined until Python loads it: macOS has to be told. On Linux, functions of the same code
//! become one, which makes the wheel a twentieth smaller.

use std::env::var;

fn main() {
    let target = var("TARGET").unwrap_or_default();
    if target.ends_with("apple-darwin") {
        println!("cargo:rustc-cdylib-link-arg=-undefined");
        println!("cargo:rustc-cdylib-link-arg=dynamic_lookup");
    }
    // Here rustc links with LLVM's linker, which can, unless it was told otherwise.
    if target == "x86_64-unknown-linux-gnu" && var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default().is_empty() {
        println!("cargo:rustc-cdylib-link-arg=-Wl,--icf=all");
    }
}
