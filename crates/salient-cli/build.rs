//! How the binary is linked.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let set = |name: &str| std::env::var(name).unwrap_or_default();
    // A binary that is made for its size: functions of the same code are one. The linker that rustc brings for this target can
    // do that.
    if set("OPT_LEVEL") == "z"
        && set("TARGET") == "x86_64-unknown-linux-gnu"
        && set("RUSTC_LINKER").is_empty()
    {
        println!("cargo:rustc-link-arg-bins=-Wl,--icf=all");
    }
}
