//! Subnormal results, which are below the least normal number, are zero while kernels run.
//!
//! Processors take some hundred cycles for an operation that gives one. Sums of values under weights that fall far, as those
//! of forgetting and of stick breaking do, are full of them: those loops took up to five times as long. An operation loses at
//! most 1.2e-38.

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use std::arch::asm;

/// The bit of the control register of SSE and AVX that makes such results zero.
#[cfg(target_arch = "x86_64")]
const FLUSH: u32 = 1 << 15;
/// The bit of `FPCR` that does; it takes such operands for zero too.
#[cfg(target_arch = "aarch64")]
const FLUSH: u64 = 1 << 24;

/// Runs machine code in that mode, and puts back the mode of the caller.
#[cfg(target_arch = "x86_64")]
pub(super) fn flush_to_zero<T>(run: impl FnOnce() -> T) -> T {
    let mut before = 0_u32;
    // SAFETY: the register is stored into a variable of its size. Of the modes only this one is changed, `run` calls machine
    // code that relies on none, and the mode is put back before the caller goes on.
    unsafe { asm!("stmxcsr [{}]", in(reg) &raw mut before, options(nostack, preserves_flags)) };
    let flush = before | FLUSH;
    // SAFETY: as above.
    unsafe { asm!("ldmxcsr [{}]", in(reg) &raw const flush, options(nostack, preserves_flags)) };
    let out = run();
    // SAFETY: as above.
    unsafe { asm!("ldmxcsr [{}]", in(reg) &raw const before, options(nostack, preserves_flags)) };
    out
}

/// Runs machine code in that mode, and puts back the mode of the caller.
#[cfg(target_arch = "aarch64")]
pub(super) fn flush_to_zero<T>(run: impl FnOnce() -> T) -> T {
    let before: u64;
    // SAFETY: the register is read. Of the modes only this one is changed, `run` calls machine code that relies on none, and the
    // mode is put back before the caller goes on.
    unsafe { asm!("mrs {}, fpcr", out(reg) before, options(nomem, nostack, preserves_flags)) };
    // SAFETY: as above.
    unsafe { asm!("msr fpcr, {}", in(reg) before | FLUSH, options(nostack, preserves_flags)) };
    let out = run();
    // SAFETY: as above.
    unsafe { asm!("msr fpcr, {}", in(reg) before, options(nostack, preserves_flags)) };
    out
}

/// Runs machine code on processors of which the mode is not known here: subnormal results stay.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(super) fn flush_to_zero<T>(run: impl FnOnce() -> T) -> T {
    run()
}

#[cfg(all(test, any(target_arch = "x86_64", target_arch = "aarch64")))]
mod tests {
    use super::flush_to_zero;
    use std::hint::black_box;

    #[test]
    fn the_mode_of_the_caller_comes_back() {
        let product = || black_box(1e-20_f32) * black_box(1e-20_f32);
        let inside = flush_to_zero(|| black_box(product()));
        assert_eq!(inside, 0.0);
        assert!(product() > 0.0, "1e-40 is a number outside");
    }
}
