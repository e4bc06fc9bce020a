//! What the kernels of a session take: time, arithmetic and traffic, beside what the machine can do.
//!
//! Times are measured by whoever runs the session; this is the one place that says how they are shown.

use salient::{Isa, IsaChoice, KernelInfo, peak};
use serde_json::{Value, json};
use std::fmt::Write;
use std::time::Duration;

/// What one core does at most, measured in the same run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peaks {
    isa: Isa,
    /// Fused multiply-adds, in thousands of millions of operations a second.
    pub(crate) fma: f64,
    /// Reading memory, in thousands of millions of bytes a second.
    memory: f64,
}

/// The vectors that a choice means on this machine.
fn chosen(isa: IsaChoice) -> Isa {
    match isa {
        IsaChoice::Auto => Isa::detect(),
        IsaChoice::Only(isa) => isa,
    }
}

/// What one core does by fused multiply-adds alone, in thousands of millions of operations a second, measured now.
pub(crate) fn fma_peak(isa: IsaChoice) -> f64 {
    peak::fma_peak(chosen(isa))
}

impl Peaks {
    /// Nothing measured yet.
    pub(crate) fn of(isa: IsaChoice) -> Peaks {
        Peaks { isa: chosen(isa), fma: 0.0, memory: 0.0 }
    }

    /// Measures again and keeps the best.
    pub(crate) fn measure(&mut self) {
        self.fma = self.fma.max(peak::fma_peak(self.isa));
        self.memory = self.memory.max(peak::memory_peak(1));
    }

    /// One line.
    pub(crate) fn text(&self) -> String {
        format!("{}; one core does {:.1} GF/s (fma) and reads {:.1} GB/s\n", self.isa, self.fma, self.memory)
    }
}

/// The least times of a session's kernels.
#[derive(Debug)]
pub(crate) struct Profile {
    kernels: Vec<KernelInfo>,
    least: Vec<Duration>,
}

/// Thousands of millions a second.
fn rate(count: u64, time: Duration) -> f64 {
    count as f64 / time.as_secs_f64().max(1e-9) / 1e9
}

impl Profile {
    /// Of a session with these kernels, not run yet.
    pub(crate) fn new(kernels: Vec<KernelInfo>) -> Profile {
        let least = vec![Duration::MAX; kernels.len()];
        Profile { kernels, least }
    }

    /// A kernel, by position, took so long.
    pub(crate) fn note(&mut self, at: usize, time: Duration) {
        self.least[at] = self.least[at].min(time);
    }

    /// Operations of one run.
    pub(crate) fn flops(&self) -> u64 {
        self.kernels.iter().map(|k| k.cost.flops).sum()
    }

    /// A line for each kernel that does anything: its time and share of all, arithmetic and traffic in a second, and the
    /// part that they are of one core's peaks.
    pub(crate) fn text(&self, peaks: &Peaks) -> String {
        let mut out = format!(
            "    {:<10} {:<28} {:>9} {:>6} {:>8} {:>7} {:>5} {:>5}  threads\n",
            "kernel", "stores", "ms", "share", "GF/s", "GB/s", "fma", "mem"
        );
        let all: Duration = self.least.iter().sum();
        for (kernel, time) in self.kernels.iter().zip(&self.least).filter(|(k, _)| k.cost.threads > 0) {
            let (flops, bytes) = (rate(kernel.cost.flops, *time), rate(kernel.cost.bytes, *time));
            let _ = writeln!(
                out,
                "    {:<10} {:<28} {:>9.4} {:>5.1}% {flops:>8.1} {bytes:>7.1} {:>5.2} {:>5.2}  {}",
                kernel.kind,
                kernel.name,
                time.as_secs_f64() * 1e3,
                100.0 * time.as_secs_f64() / all.as_secs_f64().max(1e-9),
                flops / peaks.fma,
                bytes / peaks.memory,
                kernel.cost.threads,
            );
        }
        out
    }

    /// For programs.
    pub(crate) fn json(&self, peaks: &Peaks) -> Value {
        let kernels = self.kernels.iter().zip(&self.least).filter(|(k, _)| k.cost.threads > 0);
        let kernels = kernels.map(|(kernel, time)| {
            json!({
                "name": kernel.name,
                "kind": kernel.kind,
                "ms": time.as_secs_f64() * 1e3,
                "flops": kernel.cost.flops,
                "bytes": kernel.cost.bytes,
                "threads": kernel.cost.threads,
            })
        });
        json!({
            "isa": peaks.isa.name(),
            "fma_gflops": peaks.fma,
            "memory_gbytes": peaks.memory,
            "kernels": kernels.collect::<Vec<_>>(),
        })
    }
}
