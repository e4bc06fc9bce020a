//! Machine code on its way into a module: making it needs no module, so that any thread can.
//!
//! What it is made of, and where it goes, others decide.

use crate::pool::Pool;
use cranelift_codegen::Context;
use cranelift_codegen::ir::Function;
use cranelift_jit::JITModule;
use cranelift_module::{FuncId, Module, ModuleReloc};
use std::sync::OnceLock;

use crate::target::Target;

/// The code of a function that has been declared.
pub(crate) struct MachineCode {
    id: FuncId,
    alignment: u64,
    bytes: Vec<u8>,
    relocations: Vec<ModuleReloc>,
}

impl MachineCode {
    /// Bytes that refer to nothing outside.
    pub(crate) fn of_bytes(id: FuncId, bytes: Vec<u8>, alignment: u64) -> MachineCode {
        MachineCode { id, alignment, bytes, relocations: Vec::new() }
    }

    /// What Cranelift makes of a function.
    ///
    /// # Errors
    /// What Cranelift says: a bug of whoever built the function.
    pub(crate) fn of_function(
        id: FuncId,
        function: Function,
        target: &Target,
    ) -> Result<MachineCode, String> {
        let compiler = target.compiler_of(&function);
        let mut context = Context::for_function(function);
        let compiled = context.compile(compiler, &mut Default::default());
        let buffer = &compiled.map_err(|error| error.inner.to_string())?.buffer;
        let (alignment, bytes) = (u64::from(buffer.alignment), buffer.data().to_vec());
        let relocations = buffer.relocs().to_vec();
        let relocation = |r| ModuleReloc::from_mach_reloc(r, &context.func, id);
        Ok(MachineCode { id, alignment, bytes, relocations: relocations.iter().map(relocation).collect() })
    }

    /// Puts it into the module in which the function was declared.
    ///
    /// # Errors
    /// The function has code already, or there is no memory.
    pub(crate) fn define(&self, module: &mut JITModule) -> Result<(), String> {
        let defined = module.define_function_bytes(self.id, self.alignment, &self.bytes, &self.relocations);
        defined.map_err(|error| error.to_string())
    }
}

/// The results of so many jobs, in their order, done by all threads of a pool.
pub(crate) fn on_all<T: Send + Sync>(pool: &Pool, jobs: usize, job: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let done: Vec<OnceLock<T>> = (0..jobs).map(|_| OnceLock::new()).collect();
    pool.run(jobs, pool.threads(), &|_, range| {
        for at in range {
            // Each job is in one range.
            let _ = done[at].set(job(at));
        }
    });
    done.into_iter().map(|result| result.into_inner().expect("the pool has run every job")).collect()
}
