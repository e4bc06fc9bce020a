//! The text form of a body: stable, one instruction a line, made to be read and diffed. It is not parsed.
//!
//! Parameters keep their names, other values are `v` and a number, indices of loops `i` and a number. `[i6 + 3 + 2L]` is
//! index `i6`, 3 elements and 2 vectors on; `one`, `stride s` and `at v * s` tell the access; `if v` is a mask.

use std::fmt;

use crate::body::{Access, Addr, Body, Const, Inst, Loop, LoopKind, Matrix, Place, Section, Value};

impl fmt::Display for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let params: Vec<String> =
            self.params.iter().map(|param| format!("{}: {}", param.name, self.ty(param.value))).collect();
        writeln!(f, "body {}({}) {{", self.name, params.join(", "))?;
        for section in &self.sections {
            match section {
                Section::Straight(insts) => lines(f, self, insts, "    ")?,
                Section::Loop(code) => repeat(f, self, code)?,
            }
        }
        writeln!(f, "}}")
    }
}

/// One instruction, without indentation.
pub fn line(body: &Body, inst: &Inst) -> String {
    let name = |value: Value| name(body, value);
    match inst {
        Inst::Const { out, value } => format!("{} = {}", name(*out), constant(*value)),
        Inst::Op { out, op, args } => {
            let args: Vec<String> = args.iter().map(|&arg| name(arg)).collect();
            format!("{} = {} {}", name(*out), op.info().mnemonic, args.join(", ")).trim_end().to_owned()
        }
        Inst::Address { out, elem, addr } => {
            format!("{} = address {} {}", name(*out), elem.name(), address(body, addr))
        }
        Inst::Load { out, elem, place } => {
            format!("{} = load {} {}", name(*out), elem.name(), spread(body, place))
        }
        Inst::LoadInt { out, elem, addr } => {
            format!("{} = load_int {} {}", name(*out), elem.name(), address(body, addr))
        }
        Inst::Store { elem, place, value } => {
            format!("store {} {}, {}", elem.name(), spread(body, place), name(*value))
        }
        Inst::Transpose { from, to, rows, columns } => {
            let side = |of: &Matrix| format!("{} by {}", address(body, &of.addr), name(of.row));
            format!("transpose {}, {} of {}, {}", side(from), side(to), name(*rows), name(*columns))
        }
        Inst::Prefetch { elem, addr } => format!("prefetch {} {}", elem.name(), address(body, addr)),
    }
}

fn lines(f: &mut fmt::Formatter<'_>, body: &Body, insts: &[Inst], indent: &str) -> fmt::Result {
    insts.iter().try_for_each(|inst| writeln!(f, "{indent}{}", line(body, inst)))
}

fn repeat(f: &mut fmt::Formatter<'_>, body: &Body, code: &Loop) -> fmt::Result {
    let kind = match code.kind {
        LoopKind::Count => "count",
        LoopKind::Lanes => "lanes",
    };
    write!(f, "    {kind} {} below {}", name(body, code.index), name(body, code.trip))?;
    if code.unroll != 1 {
        write!(f, " unroll {}", code.unroll)?;
    }
    let list = |show: &dyn Fn(&crate::body::Carried) -> String| -> String {
        code.carried.iter().map(show).collect::<Vec<String>>().join(", ")
    };
    if !code.carried.is_empty() {
        let starts = list(&|carried| format!("{} = {}", name(body, carried.param), name(body, carried.init)));
        write!(f, " carry {starts}")?;
    }
    writeln!(f, " {{")?;
    lines(f, body, &code.insts, "        ")?;
    if code.carried.is_empty() {
        return writeln!(f, "    }}");
    }
    let next = list(&|carried| name(body, carried.next));
    let result = list(&|carried| name(body, carried.result));
    writeln!(f, "    }} next {next} give {result}")
}

fn name(body: &Body, value: Value) -> String {
    if let Some(param) = body.params.iter().find(|param| param.value == value) {
        return param.name.clone();
    }
    let indexes = body.sections.iter().any(|section| match section {
        Section::Straight(_) => false,
        Section::Loop(code) => code.index == value,
    });
    format!("{}{}", if indexes { "i" } else { "v" }, value.0)
}

fn constant(value: Const) -> String {
    match value {
        Const::Int(value) => format!("int {value}"),
        Const::F32(value) => format!("f32 {value:?}"),
        Const::I32(value) => format!("i32 {value}"),
        Const::Mask(value) => format!("mask {value}"),
    }
}

fn address(body: &Body, addr: &Addr) -> String {
    let mut terms: Vec<String> = addr.index.map(|index| name(body, index)).into_iter().collect();
    if addr.elems != 0 {
        terms.push(addr.elems.to_string());
    }
    if addr.lanes != 0 {
        terms.push(format!("{}L", addr.lanes));
    }
    if terms.is_empty() {
        terms.push("0".to_owned());
    }
    format!("{}[{}]", name(body, addr.base), terms.join(" + "))
}

fn spread(body: &Body, place: &Place) -> String {
    let mut text = address(body, &place.addr);
    match place.access {
        Access::Unit => {}
        Access::One => text.push_str(" one"),
        Access::Strided(stride) => text.push_str(&format!(" stride {}", name(body, stride))),
        Access::Indexed { index, stride } => {
            text.push_str(&format!(" at {} * {}", name(body, index), name(body, stride)));
        }
    }
    if let Some(mask) = place.mask {
        text.push_str(&format!(" if {}", name(body, mask)));
    }
    text
}
