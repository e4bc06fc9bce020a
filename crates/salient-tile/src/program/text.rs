//! The text form of a program: buffers, then each kernel as the loops that it is.
//!
//! For reading and for snapshots; it is not read back. Bodies are named where they are called, and printed by the vector
//! IR's own text form only where asked for.

use crate::program::kernel::{Arg, Base, Buffer, Int, Kernel, Program, Role, Stmt};
use salient_ir::Dim;
use salient_vector::Body;
use std::fmt::Write;

/// The program, without the code of its bodies.
pub fn print(program: &Program) -> String {
    let (head, kernels) = print_parts(program);
    kernels.into_iter().fold(head, |out, kernel| out + "\n" + &kernel)
}

/// The same in parts: what is stored, and each kernel.
pub fn print_parts(program: &Program) -> (String, Vec<String>) {
    let mut out = String::new();
    let _ = writeln!(out, "program {}", program.name);
    for buffer in &program.buffers {
        let _ = writeln!(out, "    {}", declaration(buffer));
    }
    for append in &program.appends {
        let (input, output) = (&program.buffer(append.input).name, &program.buffer(append.output).name);
        let _ = writeln!(out, "    {output} begins with {input}");
    }
    let kernels = program.kernels.iter().enumerate().map(|(at, kernel)| {
        let mut out = String::new();
        if at < program.loads {
            out.push_str("# once, when the parameters are bound\n");
        }
        print_kernel(program, kernel, &mut out);
        out
    });
    (out, kernels.collect())
}

/// The code of every body of the program, each once.
pub fn print_bodies(program: &Program) -> String {
    let mut shown = Vec::new();
    for body in program.kernels.iter().flat_map(|k| &k.bodies) {
        let text = body.to_string();
        if !shown.contains(&text) {
            shown.push(text);
        }
    }
    shown.join("\n")
}

fn declaration(buffer: &Buffer) -> String {
    let role = match buffer.role {
        Role::Input(_) => "input",
        Role::Param(_) => "param",
        Role::Output(_) => "output",
        Role::Temporary => "temporary",
        Role::Loaded => "loaded",
        Role::Coded(_) => "codes",
    };
    let shape: Vec<String> = buffer.shape.iter().map(Dim::to_string).collect();
    format!("{role} {}: {}[{}]", buffer.name, buffer.dtype, shape.join(", "))
}

fn print_kernel(program: &Program, kernel: &Kernel, out: &mut String) {
    let _ = writeln!(out, "# fuses: {}", kernel.fuses.join(", "));
    if let Some(form) = kernel.form {
        let _ = writeln!(out, "# form: {form}");
    }
    let names = |ids: &[crate::BufferId]| {
        ids.iter().map(|id| program.buffer(*id).name.as_str()).collect::<Vec<_>>().join(", ")
    };
    let (reads, writes) = (names(&kernel.reads), names(&kernel.writes));
    let _ = writeln!(out, "{} {}({reads}) -> {writes} {{", kernel.kind.name(), kernel.name);
    for slot in &kernel.scratch {
        let _ = writeln!(out, "    scratch {}: {}", slot.name, slot.count);
    }
    let _ = writeln!(out, "    parallel {} in 0..{} {{", kernel.item, kernel.items);
    let p = Printer { program, kernel };
    p.block(&kernel.block, 2, out);
    out.push_str("    }\n}\n");
}

/// One call, as it stands in the text of its kernel.
pub(crate) fn call(program: &Program, kernel: &Kernel, body: &Body, args: &[Arg]) -> String {
    Printer { program, kernel }.call(body, args)
}

struct Printer<'a> {
    program: &'a Program,
    kernel: &'a Kernel,
}

impl Printer<'_> {
    fn block(&self, stmts: &[Stmt], depth: usize, out: &mut String) {
        for stmt in stmts {
            self.stmt(stmt, depth, out);
        }
    }

    fn stmt(&self, stmt: &Stmt, depth: usize, out: &mut String) {
        let pad = "    ".repeat(depth);
        match stmt {
            Stmt::For { var, from, to, step, block } => {
                let step =
                    if step.as_constant() == Some(1) { String::new() } else { format!(" step {step}") };
                let _ = writeln!(out, "{pad}for {var} in {from}..{to}{step} {{");
                self.block(block, depth + 1, out);
                let _ = writeln!(out, "{pad}}}");
            }
            Stmt::Let { var, value } => {
                let _ = writeln!(out, "{pad}let {var} = {}", int(value));
            }
            Stmt::Read { var, scratch, offset } => {
                let _ = writeln!(out, "{pad}let {var} = {}", self.address(Base::Scratch(*scratch), offset));
            }
            Stmt::If { left, right, then, otherwise } => {
                let _ = writeln!(out, "{pad}if {left} < {right} {{");
                self.block(then, depth + 1, out);
                if !otherwise.is_empty() {
                    let _ = writeln!(out, "{pad}}} else {{");
                    self.block(otherwise, depth + 1, out);
                }
                let _ = writeln!(out, "{pad}}}");
            }
            Stmt::Call { body, args } => {
                let _ = writeln!(out, "{pad}{}", self.call(&self.kernel.bodies[*body], args));
            }
        }
    }

    fn call(&self, body: &Body, args: &[Arg]) -> String {
        let args: Vec<String> = args
            .iter()
            .map(|arg| match arg {
                Arg::Address { base, offset } => self.address(*base, offset),
                Arg::Int(d) => d.to_string(),
            })
            .collect();
        format!("{}({})", body.name, args.join(", "))
    }

    fn address(&self, base: Base, offset: &Dim) -> String {
        let name = match base {
            Base::Buffer(id) => &self.program.buffer(id).name,
            Base::Scratch(slot) => &self.kernel.scratch[slot].name,
            Base::Status => "status",
        };
        format!("{name}[{offset}]")
    }
}

fn int(value: &Int) -> String {
    let list = |word: &str, of: &[Dim]| match of {
        [one] => one.to_string(),
        _ => format!("{word}({})", of.iter().map(Dim::to_string).collect::<Vec<_>>().join(", ")),
    };
    match value {
        Int::Dim(d) => d.to_string(),
        Int::Min(of) => list("min", of),
        Int::Max(of) => list("max", of),
    }
}
