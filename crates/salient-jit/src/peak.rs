//! What this machine can do at most: the figures beside which others are read.
//!
//! Measured in the same run as what they are compared with, since clocks and neighbours change from second to second.

use crate::target::Isa;
use std::hint::black_box;
use std::sync::Barrier;
use std::thread;
use std::time::Instant;

/// Floating-point operations per second of one core, in thousands of millions: fused multiply-adds on registers, in as
/// many independent chains as hide their latency, at the widest vectors of `isa`. The best of several short runs.
pub fn fma_peak(isa: Isa) -> f64 {
    const STEPS: usize = 100_000;
    let mut best = f64::INFINITY;
    let mut flops = 1.0;
    for _ in 0..12 {
        let start = Instant::now();
        flops = run(isa, STEPS) as f64;
        best = best.min(start.elapsed().as_secs_f64());
    }
    flops / best / 1e9
}

/// Bytes read from memory per second by so many threads at once, in thousands of millions: the sums of arrays that are
/// together larger than the caches. The best of several runs.
pub fn memory_peak(threads: usize) -> f64 {
    const BYTES: usize = 128 << 20;
    let threads = threads.max(1);
    let each = BYTES / 8 / threads;
    let arrays: Vec<Vec<u64>> = (0..threads).map(|_| vec![1u64; each]).collect();
    let start = Barrier::new(threads);
    let read = |data: &[u64]| {
        let mut runs = Vec::new();
        for _ in 0..4 {
            start.wait();
            let run = Instant::now();
            let mut sums = [0u64; 16];
            for chunk in data.chunks_exact(16) {
                sums.iter_mut().zip(chunk).for_each(|(s, x)| *s = s.wrapping_add(*x));
            }
            black_box(sums);
            runs.push(run.elapsed().as_secs_f64());
        }
        runs
    };
    let runs: Vec<Vec<f64>> = thread::scope(|scope| {
        let (first, others) = arrays.split_first().expect("there is a thread");
        let others: Vec<_> = others.iter().map(|data| scope.spawn(|| read(data))).collect();
        let mut runs = vec![read(first)];
        runs.extend(others.into_iter().map(|thread| thread.join().expect("reading does not panic")));
        runs
    });
    // A run is over when the last thread is.
    let last = |run: usize| runs.iter().map(|of| of[run]).fold(0.0, f64::max);
    let best = (0..4).map(last).fold(f64::INFINITY, f64::min);
    (each * 8 * threads) as f64 / best / 1e9
}

#[cfg(target_arch = "x86_64")]
macro_rules! chains {
    ($name:ident, $feature:literal, $set:ident, $fma:ident, $store:ident, $lanes:literal) => {
        /// Twelve chains of so many steps; gives the number of floating-point operations.
        #[target_feature(enable = $feature)]
        fn $name(steps: usize) -> usize {
            use std::arch::x86_64::*;
            let (x, y) = ($set(black_box(0.5)), $set(black_box(0.25)));
            let mut sums = [x; 12];
            for _ in 0..steps {
                for s in &mut sums {
                    *s = $fma(*s, x, y);
                }
            }
            for s in sums {
                let mut out = [0f32; $lanes];
                // SAFETY: the array has as many elements as the vector has lanes; the store needs no alignment.
                unsafe { $store(out.as_mut_ptr(), s) };
                black_box(out);
            }
            steps * 12 * $lanes * 2
        }
    };
}

#[cfg(target_arch = "x86_64")]
chains!(chains_128, "avx2,fma", _mm_set1_ps, _mm_fmadd_ps, _mm_storeu_ps, 4);
#[cfg(target_arch = "x86_64")]
chains!(chains_256, "avx2,fma", _mm256_set1_ps, _mm256_fmadd_ps, _mm256_storeu_ps, 8);
#[cfg(target_arch = "x86_64")]
chains!(chains_512, "avx512f", _mm512_set1_ps, _mm512_fmadd_ps, _mm512_storeu_ps, 16);

#[cfg(target_arch = "x86_64")]
fn run(isa: Isa, steps: usize) -> usize {
    match isa.min(Isa::detect()) {
        // SAFETY: `Isa::detect` says that the processor has AVX-512 F.
        Isa::Avx512 => unsafe { chains_512(steps) },
        // SAFETY: as above, AVX2 and FMA.
        Isa::Avx2 => unsafe { chains_256(steps) },
        Isa::Baseline if Isa::detect() > Isa::Baseline => {
            // SAFETY: as above: a processor with more than the baseline has them.
            unsafe { chains_128(steps) }
        }
        Isa::Baseline => scalar(steps),
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn run(_isa: Isa, steps: usize) -> usize {
    scalar(steps)
}

/// As the chains above, in what the compiler makes of scalars in arrays.
fn scalar(steps: usize) -> usize {
    let (x, y) = (black_box(0.5f32), black_box(0.25f32));
    let mut sums = [[x; 4]; 12];
    for _ in 0..steps {
        for s in sums.as_flattened_mut() {
            *s = s.mul_add(x, y);
        }
    }
    black_box(sums);
    steps * 12 * 4 * 2
}
