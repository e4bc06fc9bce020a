//! Bodies to machine code: the seam behind which the emitters stand.
//!
//! Loops see a body as a function of a module: its parameters in order, pointers and integers as `i64`, floats as `f32`, no
//! result, the platform's C calling convention. Which emitter made it shows in [`lanes`] alone, on which the layout of packed
//! panels and the steps of loops depend.
//!
//! The order of a body's code, with its loops over lanes, is the same for every emitter (`skeleton`); an emitter gives the
//! instructions.

pub mod cranelift;
mod skeleton;
mod wide;

use cranelift_codegen::Context;
use cranelift_codegen::ir::{AbiParam, Signature, types};
use cranelift_codegen::isa::CallConv;
use cranelift_jit::JITModule;
use cranelift_module::{FuncId, Linkage, Module};
use salient_vector::{Body, Ty};

use self::wide::VectorIsa;
use crate::machine_code::MachineCode;
use crate::target::{Isa, Target};

/// Who makes the machine code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Emitter {
    /// 128-bit vectors on every machine that Cranelift knows.
    Cranelift,
    /// 256-bit vectors.
    Avx2,
    /// 512-bit vectors.
    Avx512,
    /// 256-bit vectors in the encoding of the wider ones: see [`Target::avx512_of_256`].
    Avx512Of256,
}

impl Emitter {
    fn wide(self) -> Option<VectorIsa> {
        match self {
            Emitter::Cranelift => None,
            Emitter::Avx2 => Some(VectorIsa::AVX2),
            Emitter::Avx512 => Some(VectorIsa::AVX512),
            Emitter::Avx512Of256 => Some(VectorIsa::AVX512_OF_256),
        }
    }
}

/// The emitter for a target.
pub fn emitter(target: &Target) -> Emitter {
    // The wide emitter knows one convention; where that is not the platform's, the portable one serves.
    let system_v = target.cranelift().default_call_conv() == CallConv::SystemV;
    match target.isa() {
        Isa::Avx2 if system_v => Emitter::Avx2,
        Isa::Avx512 if system_v && target.is_halved() => Emitter::Avx512Of256,
        Isa::Avx512 if system_v => Emitter::Avx512,
        Isa::Baseline | Isa::Avx2 | Isa::Avx512 => Emitter::Cranelift,
    }
}

/// `L`, the number of lanes of a vector, for a target.
pub fn lanes(target: &Target) -> usize {
    emitter(target).wide().map_or(cranelift::LANES, VectorIsa::lanes)
}

/// The signature that a body has for its callers.
pub fn signature(body: &Body, target: &Target) -> Signature {
    let mut signature = Signature::new(target.cranelift().default_call_conv());
    signature.params = body
        .params
        .iter()
        .map(|param| match body.ty(param.value) {
            Ty::Ptr | Ty::PtrMut | Ty::Int => AbiParam::new(types::I64),
            Ty::F32 => AbiParam::new(types::F32),
            ty @ (Ty::I32 | Ty::Mask) => unreachable!("a {ty} is not passed: the verifier refuses it"),
        })
        .collect();
    signature
}

/// A body for which no machine code could be made: a bug of an emitter, not of the body.
#[derive(Debug, thiserror::Error)]
#[error("no code for body `{body}`: {why}")]
pub struct EmitError {
    body: String,
    why: String,
}

impl EmitError {
    fn new(body: &Body, why: impl std::fmt::Display) -> EmitError {
        EmitError { body: body.name.clone(), why: why.to_string() }
    }
}

/// Compiles a verified body into a module, under a name unique there.
pub fn define(module: &mut JITModule, target: &Target, name: &str, body: &Body) -> Result<FuncId, EmitError> {
    let id = module
        .declare_function(name, Linkage::Local, &signature(body, target))
        .map_err(|error| EmitError::new(body, error))?;
    compile(target, id, body)?.define(module).map_err(|error| EmitError::new(body, error))?;
    Ok(id)
}

/// The machine code of a verified body that has been declared.
pub(crate) fn compile(target: &Target, id: FuncId, body: &Body) -> Result<MachineCode, EmitError> {
    match emitter(target).wide() {
        None => MachineCode::of_function(id, cranelift::emit(body, target), target)
            .map_err(|error| EmitError::new(body, error)),
        Some(isa) => Ok(MachineCode::of_bytes(id, wide::emit(body, isa).bytes, wide::VECTOR_BYTES)),
    }
}

/// The assembly of a body, as `ir --stage asm` shows it.
pub fn assembly(target: &Target, body: &Body) -> Result<String, EmitError> {
    if let Some(isa) = emitter(target).wide() {
        return Ok(wide::listing(&wide::emit(body, isa)));
    }
    let mut context = Context::for_function(cranelift::emit(body, target));
    context.set_disasm(true);
    let code = context
        .compile(&**target.cranelift(), &mut Default::default())
        .map_err(|error| EmitError::new(body, error.inner))?;
    Ok(code.vcode.clone().unwrap_or_default())
}

/// The body in the IR of its emitter, as `ir --stage clif` shows it: Cranelift's, or where that does not compile it, its own.
pub fn text(target: &Target, body: &Body) -> Result<String, EmitError> {
    match emitter(target) {
        Emitter::Cranelift => Ok(cranelift::emit(body, target).display().to_string()),
        Emitter::Avx2 | Emitter::Avx512 | Emitter::Avx512Of256 => Ok(body.to_string()),
    }
}
