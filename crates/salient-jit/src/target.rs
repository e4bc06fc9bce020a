//! The machine that code is made for: which vectors it has, and Cranelift's description of it.
//!
//! Detection and the user's choice (`--isa`) meet here, once. What is emitted for a target is decided in `bodies`; caches,
//! cores and tuned block sizes are not described here.

use std::fmt;
use std::str::FromStr;

use cranelift_codegen::ir::Function;
use cranelift_codegen::isa::{OwnedTargetIsa, TargetIsa};
use cranelift_codegen::settings::{self, Configurable, Flags};
use cranelift_jit::{ArenaMemoryProvider, JITBuilder, JITModule};

/// How wide vectors are. In order: each includes those before it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Isa {
    /// 128 bits, on every processor, with what else it reports (such as fused multiply-add).
    Baseline,
    /// 256 bits: x86-64 with AVX2, FMA and F16C.
    Avx2,
    /// 512 bits: x86-64 with AVX-512 F, VL, DQ and BW, besides AVX2, FMA and F16C.
    Avx512,
}

impl Isa {
    /// All, narrow to wide.
    pub const ALL: [Isa; 3] = [Isa::Baseline, Isa::Avx2, Isa::Avx512];

    /// The name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Isa::Baseline => "baseline",
            Isa::Avx2 => "avx2",
            Isa::Avx512 => "avx512",
        }
    }

    /// The extensions that it asks for.
    pub(crate) const fn features(self) -> &'static [Feature] {
        use Feature::{Avx, Avx2, Avx512Bw, Avx512Dq, Avx512F, Avx512Vl, F16c, Fma};
        match self {
            Isa::Baseline => &[],
            Isa::Avx2 => &[Avx, Avx2, Fma, F16c],
            Isa::Avx512 => &[Avx, Avx2, Fma, F16c, Avx512F, Avx512Vl, Avx512Dq, Avx512Bw],
        }
    }

    /// The widest that this processor and its operating system support.
    pub fn detect() -> Isa {
        let is_there = |isa: &Isa| isa.features().iter().all(|feature| feature.is_there());
        Isa::ALL.into_iter().rfind(is_there).unwrap_or(Isa::Baseline)
    }
}

/// An extension of the instruction set of x86, as CPUID reports it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Feature {
    Avx,
    Avx2,
    Fma,
    F16c,
    Avx512F,
    Avx512Vl,
    Avx512Dq,
    Avx512Bw,
}

impl Feature {
    /// Whether this processor and its operating system have it.
    #[cfg(target_arch = "x86_64")]
    fn is_there(self) -> bool {
        use std::arch::is_x86_feature_detected as has;
        match self {
            Feature::Avx => has!("avx"),
            Feature::Avx2 => has!("avx2"),
            Feature::Fma => has!("fma"),
            Feature::F16c => has!("f16c"),
            Feature::Avx512F => has!("avx512f"),
            Feature::Avx512Vl => has!("avx512vl"),
            Feature::Avx512Dq => has!("avx512dq"),
            Feature::Avx512Bw => has!("avx512bw"),
        }
    }

    /// No other processor has one.
    #[cfg(not(target_arch = "x86_64"))]
    fn is_there(self) -> bool {
        false
    }
}

/// The processor as it names itself, and its model: what is measured on one need not suit another.
#[cfg(target_arch = "x86_64")]
pub fn processor() -> String {
    use std::arch::x86_64::__cpuid;
    // AMD, "AMD64 Architecture Programmer's Manual", volume 3, and Intel, "Software Developer's Manual", volume 2, CPUID:
    // three leaves of letters; the family, the model and the stepping with their extensions.
    let letters = if __cpuid(0x8000_0000).eax >= 0x8000_0004 { 0x8000_0002..0x8000_0005 } else { 0..0 };
    let bytes = letters.flat_map(|leaf| {
        let r = __cpuid(leaf);
        [r.eax, r.ebx, r.ecx, r.edx].into_iter().flat_map(u32::to_le_bytes)
    });
    let plain = |c: &char| c.is_ascii_graphic() && !matches!(c, '"' | '\\') || *c == ' ';
    let name: String = bytes.map(char::from).filter(plain).collect();
    let signature = __cpuid(1).eax;
    let bits = |from: u32, count: u32| signature >> from & ((1 << count) - 1);
    let (family, model, stepping) = (bits(8, 4) + bits(20, 8), bits(4, 4) | bits(16, 4) << 4, bits(0, 4));
    let name = name.split_whitespace().collect::<Vec<_>>().join(" ");
    format!("{name} (family {family}, model {model}, stepping {stepping})")
}

/// The architecture: elsewhere than on x86 a program is not told more.
#[cfg(not(target_arch = "x86_64"))]
pub fn processor() -> String {
    std::env::consts::ARCH.to_owned()
}

impl fmt::Display for Isa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What the user asked for with `--isa`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum IsaChoice {
    /// The widest that the processor reports.
    #[default]
    Auto,
    /// This one, or an error.
    Only(Isa),
}

impl FromStr for IsaChoice {
    type Err = TargetError;

    fn from_str(name: &str) -> Result<IsaChoice, TargetError> {
        if name == "auto" {
            return Ok(IsaChoice::Auto);
        }
        match Isa::ALL.into_iter().find(|isa| isa.name() == name) {
            Some(isa) => Ok(IsaChoice::Only(isa)),
            None => Err(TargetError::UnknownIsa(name.to_owned())),
        }
    }
}

/// Why there is no such target.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    /// `--isa` was given a name that does not exist.
    #[error("unknown instruction set `{0}`; there are auto, baseline, avx2 and avx512")]
    UnknownIsa(String),
    /// The processor does not have what was asked for.
    #[error("this processor has no {wanted}; the widest it has is {widest}")]
    NotSupported {
        /// Asked for.
        wanted: Isa,
        /// Detected.
        widest: Isa,
    },
    /// Cranelift does not know this machine.
    #[error("no code can be made for this machine: {0}")]
    Cranelift(String),
}

/// A machine to make code for: this one, with all or some of its features.
#[derive(Clone)]
pub struct Target {
    isa: Isa,
    fma: bool,
    /// Whether vectors have half the width of the instruction set's.
    halved: bool,
    cranelift: OwnedTargetIsa,
    /// For functions of many calls.
    quick: OwnedTargetIsa,
}

/// A function of more calls is compiled quickly. The allocator of registers that makes the better code takes time by the calls times the
/// integers in sight, a third of the whole for the longest nests; where each call does the work of a register tile, what it gains is
/// lost in the noise, 2 % where heads are 32 wide. Loops around few calls, which may do little, are compiled thoroughly.
const MOST_CALLS: usize = 8;

/// How Cranelift optimises, and how it allocates registers.
const THOROUGH: [(&str, &str); 2] = [("opt_level", "speed"), ("regalloc_algorithm", "backtracking")];
const QUICK: [(&str, &str); 2] = [("opt_level", "none"), ("regalloc_algorithm", "single_pass")];

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let less = [(self.halved, " of 256 bits"), (!self.fma, " without fma")];
        let less: String = less.into_iter().filter(|(is, _)| *is).map(|(_, words)| words).collect();
        write!(f, "{} {}{less}", self.cranelift.triple(), self.isa)
    }
}

/// Cranelift with these settings, for this machine or for the oldest of its architecture.
fn compiler(native: bool, of_effort: [(&str, &str); 2]) -> Result<OwnedTargetIsa, TargetError> {
    let unknown = |error: &dyn fmt::Display| TargetError::Cranelift(error.to_string());
    let mut flags = settings::builder();
    let values = [
        ("is_pic", "false"),
        ("use_colocated_libcalls", "false"),
        // Costs about as much as compiling, and finds only our own bugs: those are for tests.
        ("enable_verifier", if cfg!(debug_assertions) { "true" } else { "false" }),
    ];
    for (name, value) in values.into_iter().chain(of_effort) {
        flags.set(name, value).map_err(|error| unknown(&error))?;
    }
    cranelift_native::builder_with_options(native)
        .map_err(|error| unknown(&error))?
        .finish(Flags::new(flags))
        .map_err(|error| unknown(&error))
}

impl Target {
    /// This machine.
    pub fn host(choice: IsaChoice) -> Result<Target, TargetError> {
        let widest = Isa::detect();
        let isa = match choice {
            IsaChoice::Auto => widest,
            IsaChoice::Only(wanted) if wanted <= widest => wanted,
            IsaChoice::Only(wanted) => return Err(TargetError::NotSupported { wanted, widest }),
        };
        Target::new(isa, true)
    }

    /// The oldest processor of this machine's architecture: no detected feature is used. For tests of the portable code.
    pub fn oldest() -> Result<Target, TargetError> {
        Target::new(Isa::Baseline, false)
    }

    /// AVX-512 with vectors of 256 bits, whether or not this processor has it. For tests of the emitter, to which that is one
    /// more value.
    #[doc(hidden)]
    pub fn avx512_of_256() -> Result<Target, TargetError> {
        Ok(Target { halved: true, ..Target::new(Isa::Avx512, true)? })
    }

    fn new(isa: Isa, native: bool) -> Result<Target, TargetError> {
        let cranelift = compiler(native, THOROUGH)?;
        let quick = compiler(native, QUICK)?;
        let has = |name: &str| {
            cranelift.isa_flags().iter().any(|flag| flag.name == name && flag.as_bool() == Some(true))
        };
        // Elsewhere than on x86 fused multiply-add is part of the base.
        let fma = !cfg!(target_arch = "x86_64") || (has("has_fma") && has("has_avx"));
        Ok(Target { isa, fma, halved: false, cranelift, quick })
    }

    /// Cranelift as it compiles this function.
    pub(crate) fn compiler_of(&self, function: &Function) -> &dyn TargetIsa {
        let insts = function.layout.blocks().flat_map(|block| function.layout.block_insts(block));
        let calls = insts.filter(|inst| function.dfg.insts[*inst].opcode().is_call()).count();
        if calls > MOST_CALLS { &*self.quick } else { &*self.cranelift }
    }

    /// The vectors to be used.
    pub fn isa(&self) -> Isa {
        self.isa
    }

    /// Whether `fma` is one instruction that rounds once.
    pub fn fma(&self) -> bool {
        self.fma
    }

    /// Whether vectors have half the width of the instruction set's.
    pub(crate) fn is_halved(&self) -> bool {
        self.halved
    }

    /// Cranelift's description.
    pub fn cranelift(&self) -> &OwnedTargetIsa {
        &self.cranelift
    }

    /// An empty module for code that runs in this process. Its code lies in one reservation of addresses, so that direct
    /// calls reach; the memory is committed as it is used, and freed by [`JITModule::free_memory`] only.
    pub fn module(&self) -> Result<JITModule, TargetError> {
        const RESERVED: usize = 64 << 20;
        let memory = ArenaMemoryProvider::new_with_size(RESERVED)
            .map_err(|error| TargetError::Cranelift(format!("no memory for code: {error}")))?;
        let names = cranelift_module::default_libcall_names();
        let mut builder = JITBuilder::with_isa(self.cranelift.clone(), names);
        builder.memory_provider(Box::new(memory));
        for (name, function) in ROUNDING {
            builder.symbol(name, function as *const u8);
        }
        Ok(JITModule::new(builder))
    }
}

/// What Cranelift calls where the processor has no such instruction (x86 before SSE4.1), lane by lane.
const ROUNDING: [(&str, extern "C" fn(f32) -> f32); 4] =
    [("floorf", floor), ("ceilf", ceil), ("truncf", trunc), ("nearbyintf", nearest)];

extern "C" fn floor(x: f32) -> f32 {
    x.floor()
}

extern "C" fn ceil(x: f32) -> f32 {
    x.ceil()
}

extern "C" fn trunc(x: f32) -> f32 {
    x.trunc()
}

extern "C" fn nearest(x: f32) -> f32 {
    x.round_ties_even()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_parse_back() {
        assert_eq!("auto".parse::<IsaChoice>().ok(), Some(IsaChoice::Auto));
        for isa in Isa::ALL {
            assert_eq!(isa.name().parse::<IsaChoice>().ok(), Some(IsaChoice::Only(isa)));
        }
        let error = "avx".parse::<IsaChoice>().expect_err("no such name");
        assert!(error.to_string().contains("`avx`"), "{error}");
    }

    #[test]
    fn the_processor_has_one_name_of_one_line() {
        let name = processor();
        assert!(!name.is_empty() && !name.contains(['\n', '"', '\\']), "{name}");
        assert_eq!(name, processor());
    }

    #[test]
    fn what_the_processor_lacks_is_refused() {
        for isa in Isa::ALL {
            assert_eq!(Target::host(IsaChoice::Only(isa)).is_ok(), isa <= Isa::detect());
        }
    }
}
