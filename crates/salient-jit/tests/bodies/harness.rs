//! Compiles a body, runs it on memory between guard pages, and compares every byte with the interpreter.

use cranelift_codegen::Context;
use cranelift_codegen::ir::{self, AbiParam, InstBuilder, MemFlagsData, types};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use cranelift_jit::JITModule;
use cranelift_module::{Linkage, Module};
use salient_jit::bodies;
use salient_jit::target::{Isa, IsaChoice, Target};
use salient_vector::eval::{Arg, Machine, Memory, eval};
use salient_vector::{Body, Ty};

/// Everything this machine can make code for.
pub(crate) fn targets() -> Vec<Target> {
    let mut targets = vec![Target::oldest().expect("a target")];
    for isa in Isa::ALL.into_iter().filter(|&isa| isa <= Isa::detect()) {
        targets.push(Target::host(IsaChoice::Only(isa)).expect("a target"));
    }
    if Isa::detect() == Isa::Avx512 {
        targets.push(Target::avx512_of_256().expect("a target"));
    }
    targets
}

/// Runs the body on all targets, with the memory flush against a guard page at either end.
pub(crate) fn agree(body: &Body, args: &[Arg], memory: &Memory) {
    for target in targets() {
        Compiled::new(body, &target).agrees(args, memory);
    }
}

/// A body as machine code, called through a function that takes its arguments from memory.
pub(crate) struct Compiled {
    body: Body,
    target: Target,
    entry: extern "C" fn(*const u64),
    module: Option<JITModule>,
}

impl Compiled {
    pub(crate) fn new(body: &Body, target: &Target) -> Compiled {
        let mut module = target.module().expect("a module");
        let id = bodies::define(&mut module, target, "body", body)
            .unwrap_or_else(|error| panic!("{error:?} on {target:?}\n{body}"));

        let mut context = Context::new();
        context.func.signature.params.push(AbiParam::new(types::I64));
        let mut frontend = FunctionBuilderContext::new();
        let mut b = FunctionBuilder::new(&mut context.func, &mut frontend);
        let block = b.create_block();
        b.append_block_params_for_function_params(block);
        b.switch_to_block(block);
        let base = b.block_params(block)[0];
        let args: Vec<ir::Value> = body
            .params
            .iter()
            .enumerate()
            .map(|(at, param)| {
                let ty = if body.ty(param.value) == Ty::F32 { types::F32 } else { types::I64 };
                b.ins().load(ty, MemFlagsData::trusted(), base, 8 * at as i32)
            })
            .collect();
        let callee = module.declare_func_in_func(id, b.func);
        b.ins().call(callee, &args);
        b.ins().return_(&[]);
        b.seal_all_blocks();
        b.finalize(target.cranelift().frontend_config());
        let entry =
            module.declare_function("entry", Linkage::Local, &context.func.signature).expect("declared");
        module.define_function(entry, &mut context).expect("defined");
        module.finalize_definitions().expect("finalised");
        let code = module.get_finalized_function(entry);
        // SAFETY: `code` is the function just defined, of exactly this signature; it lives as long as the module.
        let entry = unsafe { std::mem::transmute::<*const u8, extern "C" fn(*const u64)>(code) };
        Compiled { body: body.clone(), target: target.clone(), entry, module: Some(module) }
    }

    /// The number of lanes of this code.
    pub(crate) fn lanes(&self) -> usize {
        bodies::lanes(&self.target)
    }

    pub(crate) fn agrees(&self, args: &[Arg], memory: &Memory) {
        let machine = Machine { lanes: self.lanes(), fused: self.target.fma() };
        let mut expected = memory.clone();
        eval(&self.body, machine, args, &mut expected)
            .unwrap_or_else(|error| panic!("{error}\n{}", self.body));
        for flush_right in [true, false] {
            let found = self.run(args, memory, flush_right);
            for (buffer, (want, found)) in expected.buffers.iter().zip(&found.buffers).enumerate() {
                compare(want, found).unwrap_or_else(|why| {
                    panic!("buffer {buffer}, {why}\n{:?}, {args:?}\n{}", self.target, self.body)
                });
            }
        }
    }

    fn run(&self, args: &[Arg], memory: &Memory, flush_right: bool) -> Memory {
        let mut guarded: Vec<Guarded> =
            memory.buffers.iter().map(|bytes| Guarded::new(bytes, flush_right)).collect();
        let raw: Vec<u64> = args
            .iter()
            .map(|&arg| match arg {
                Arg::Ptr(buffer, offset) => (guarded[buffer].start() as u64).wrapping_add(offset as u64),
                Arg::Int(value) => value as u64,
                Arg::F32(value) => u64::from(value.to_bits()),
            })
            .collect();
        (self.entry)(raw.as_ptr());
        Memory { buffers: guarded.iter_mut().map(|guarded| guarded.take()).collect(), ..Memory::default() }
    }
}

impl Drop for Compiled {
    fn drop(&mut self) {
        if let Some(module) = self.module.take() {
            // SAFETY: `entry` is private, and its owner is going away.
            unsafe { module.free_memory() };
        }
    }
}

/// Bytes with a page that cannot be touched right after them or right before them, and known bytes on the other side.
struct Guarded {
    pages: region::Allocation,
    start: usize,
    size: usize,
}

const CANARY: u8 = 0xa5;

impl Guarded {
    fn new(bytes: &[u8], flush_right: bool) -> Guarded {
        let page = region::page::size();
        let middle = bytes.len().next_multiple_of(page).max(page);
        let mut pages = region::alloc(middle + 2 * page, region::Protection::READ_WRITE).expect("memory");
        let start = page + if flush_right { middle - bytes.len() } else { 0 };
        // SAFETY: the range lies in the allocation just made, which nothing else refers to.
        let inside = unsafe { std::slice::from_raw_parts_mut(pages.as_mut_ptr::<u8>().add(page), middle) };
        inside.fill(CANARY);
        inside[start - page..start - page + bytes.len()].copy_from_slice(bytes);
        for guard in [0, page + middle] {
            // SAFETY: the page is part of the allocation and no reference to it exists.
            unsafe {
                let at = pages.as_ptr::<u8>().add(guard);
                region::protect(at, page, region::Protection::NONE).expect("protected");
            }
        }
        Guarded { pages, start, size: bytes.len() }
    }

    fn start(&mut self) -> *mut u8 {
        // SAFETY: within the allocation.
        unsafe { self.pages.as_mut_ptr::<u8>().add(self.start) }
    }

    /// The bytes, after a look at the canaries.
    fn take(&mut self) -> Vec<u8> {
        let page = region::page::size();
        let middle = self.pages.len() - 2 * page;
        // SAFETY: the middle pages can be read, and the machine code has returned.
        let inside = unsafe { std::slice::from_raw_parts(self.pages.as_ptr::<u8>().add(page), middle) };
        let (before, rest) = inside.split_at(self.start - page);
        let (bytes, after) = rest.split_at(self.size);
        assert!(
            before.iter().chain(after).all(|&byte| byte == CANARY),
            "memory outside the buffer was written"
        );
        bytes.to_vec()
    }
}

/// Bytes are equal, except that any NaN is as good as another.
fn compare(want: &[u8], found: &[u8]) -> Result<(), String> {
    assert_eq!(want.len(), found.len());
    for (at, (want, found)) in want.chunks(4).zip(found.chunks(4)).enumerate() {
        let float = |bytes: &[u8]| bytes.try_into().ok().map(f32::from_ne_bytes);
        let both_nan = float(want).is_some_and(f32::is_nan) && float(found).is_some_and(f32::is_nan);
        if want != found && !both_nan {
            return Err(format!(
                "word {at}: {found:02x?} ({:?}), not {want:02x?} ({:?})",
                float(found),
                float(want)
            ));
        }
    }
    Ok(())
}
