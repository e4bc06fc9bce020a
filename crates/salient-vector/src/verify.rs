//! The verifier: every rule of the IR that types of Rust cannot hold.
//!
//! It stops at the first broken rule. It says nothing about whether addresses are in bounds; `eval` does.

use crate::body::{Access, Addr, Body, Elem, Inst, Loop, LoopKind, Place, Section, Value};
use crate::text;
use crate::ty::Ty;

/// A broken rule.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("body `{body}`: {rule}{}", if place.is_empty() { String::new() } else { format!(", in `{place}`") })]
pub struct VerifyError {
    /// The name of the body.
    pub body: String,
    /// What is wrong.
    pub rule: String,
    /// The instruction, in the text form; empty where it is not one instruction's fault.
    pub place: String,
}

/// Checks types, that each value is defined once and before its uses, and the rules of loops.
pub fn verify(body: &Body) -> Result<(), VerifyError> {
    let mut check = Check { body, seen: vec![Seen::Not; body.types.len()] };
    check.params()?;
    for section in &body.sections {
        match section {
            Section::Straight(insts) => check.insts(insts, None)?,
            Section::Loop(code) => check.repeat(code)?,
        }
    }
    Ok(())
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Seen {
    Not,
    Now,
    /// Defined in a loop that is over.
    Past,
}

struct Check<'a> {
    body: &'a Body,
    seen: Vec<Seen>,
}

impl Check<'_> {
    fn params(&mut self) -> Result<(), VerifyError> {
        for (at, param) in self.body.params.iter().enumerate() {
            self.define(param.value)?;
            let ty = self.body.ty(param.value);
            if matches!(ty, Ty::I32 | Ty::Mask) {
                return Err(self.error(format!("parameter `{}` cannot be of type {ty}", param.name)));
            }
            if self.body.params[..at].iter().any(|other| other.name == param.name) {
                return Err(self.error(format!("two parameters are named `{}`", param.name)));
            }
        }
        Ok(())
    }

    fn repeat(&mut self, code: &Loop) -> Result<(), VerifyError> {
        self.expect(code.trip, Ty::Int, "trip count")?;
        if code.unroll == 0 {
            return Err(self.error("a loop is laid out at least once, not 0 times"));
        }
        for carried in &code.carried {
            self.used(carried.init)?;
        }
        let before = self.seen.clone();
        self.define(code.index)?;
        self.expect(code.index, Ty::Int, "loop index")?;
        for carried in &code.carried {
            self.define(carried.param)?;
        }
        self.insts(&code.insts, Some(code.kind))?;
        for carried in &code.carried {
            self.used(carried.next)?;
            let ty = self.body.ty(carried.init);
            for other in [carried.param, carried.next, carried.result] {
                let found = self.known(other)?;
                if found != ty {
                    return Err(self.error(format!("a carried value changes from {ty} to {found}")));
                }
            }
            if code.kind == LoopKind::Lanes && !ty.is_vector() {
                return Err(self.error(format!("a loop over lanes cannot carry a value of type {ty}")));
            }
        }
        for (seen, was) in self.seen.iter_mut().zip(before) {
            if was == Seen::Not && *seen == Seen::Now {
                *seen = Seen::Past;
            }
        }
        for carried in &code.carried {
            self.define(carried.result)?;
        }
        Ok(())
    }

    fn insts(&mut self, insts: &[Inst], within: Option<LoopKind>) -> Result<(), VerifyError> {
        for inst in insts {
            // The text of an instruction is made only where it is shown.
            let body = self.body;
            self.inst(inst, within).map_err(|e| VerifyError { place: text::line(body, inst), ..e })?;
        }
        Ok(())
    }

    fn inst(&mut self, inst: &Inst, within: Option<LoopKind>) -> Result<(), VerifyError> {
        for value in inst.uses() {
            self.used(value)?;
        }
        let result = match inst {
            Inst::Const { value, .. } => Some(value.ty()),
            Inst::Op { op, args, .. } => {
                let types: Vec<Ty> = args.iter().map(|&arg| self.body.ty(arg)).collect();
                let Some(ty) = op.info().sig.result(&types) else {
                    let names: Vec<&str> = types.iter().map(|ty| ty.name()).collect();
                    return Err(self.error(format!("no such operator on ({})", names.join(", "))));
                };
                if within == Some(LoopKind::Lanes) && op.is_horizontal() {
                    return Err(self.error("lanes cannot be mixed where some may be inactive"));
                }
                Some(ty)
            }
            Inst::Address { addr, .. } => {
                self.addr(addr)?;
                Some(self.body.ty(addr.base))
            }
            Inst::Load { elem, place, .. } => {
                self.place(place)?;
                Some(elem.ty())
            }
            Inst::LoadInt { elem, addr, .. } => {
                self.addr(addr)?;
                if elem.ty() == Ty::F32 {
                    return Err(self.error("a float is not loaded as an int"));
                }
                Some(Ty::Int)
            }
            Inst::Store { elem, place, value } => {
                self.place(place)?;
                if *elem == Elem::F16 {
                    return Err(self.error("a half is loaded and never stored"));
                }
                self.expect(place.addr.base, Ty::PtrMut, "pointer stored through")?;
                self.expect(*value, elem.ty(), "value stored")?;
                None
            }
            Inst::Transpose { from, to, rows, columns } => {
                if within.is_some() {
                    return Err(self.error("a matrix is not transposed inside of a loop"));
                }
                self.addr(&from.addr)?;
                self.addr(&to.addr)?;
                self.expect(to.addr.base, Ty::PtrMut, "pointer stored through")?;
                for (value, what) in [(from.row, "distance of rows"), (to.row, "distance of rows")] {
                    self.expect(value, Ty::Int, what)?;
                }
                self.expect(*rows, Ty::Int, "number of rows")?;
                self.expect(*columns, Ty::Int, "number of columns")?;
                None
            }
            Inst::Prefetch { addr, .. } => {
                self.addr(addr)?;
                None
            }
        };
        if let (Some(out), Some(ty)) = (inst.out(), result) {
            self.define(out)?;
            self.expect(out, ty, "result")?;
        }
        Ok(())
    }

    fn addr(&self, addr: &Addr) -> Result<(), VerifyError> {
        if !self.body.ty(addr.base).is_pointer() {
            return Err(self.error("the base of an address is not a pointer"));
        }
        addr.index.map_or(Ok(()), |index| self.expect(index, Ty::Int, "index"))
    }

    fn place(&self, place: &Place) -> Result<(), VerifyError> {
        self.addr(&place.addr)?;
        match place.access {
            Access::Unit | Access::One => {}
            Access::Strided(stride) => self.expect(stride, Ty::Int, "stride")?,
            Access::Indexed { index, stride } => {
                self.expect(index, Ty::I32, "vector of indices")?;
                self.expect(stride, Ty::Int, "stride")?;
            }
        }
        place.mask.map_or(Ok(()), |mask| self.expect(mask, Ty::Mask, "mask"))
    }

    fn known(&self, value: Value) -> Result<Ty, VerifyError> {
        match self.body.types.get(value.index()) {
            Some(&ty) => Ok(ty),
            None => Err(self.error(format!("v{} has no type", value.0))),
        }
    }

    fn expect(&self, value: Value, ty: Ty, role: &str) -> Result<(), VerifyError> {
        self.used(value)?;
        let found = self.known(value)?;
        if found == ty { Ok(()) } else { Err(self.error(format!("the {role} is {found}, not {ty}"))) }
    }

    fn used(&self, value: Value) -> Result<(), VerifyError> {
        self.known(value)?;
        match self.seen[value.index()] {
            Seen::Now => Ok(()),
            Seen::Not => Err(self.error(format!("v{} is used before it is defined", value.0))),
            Seen::Past => Err(self.error(format!("v{} is used outside its loop", value.0))),
        }
    }

    fn define(&mut self, value: Value) -> Result<(), VerifyError> {
        self.known(value)?;
        if self.seen[value.index()] != Seen::Not {
            return Err(self.error(format!("v{} is defined twice", value.0)));
        }
        self.seen[value.index()] = Seen::Now;
        Ok(())
    }

    fn error(&self, rule: impl Into<String>) -> VerifyError {
        VerifyError { body: self.body.name.clone(), rule: rule.into(), place: String::new() }
    }
}
