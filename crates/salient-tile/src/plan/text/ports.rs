//! What a plan declares beside its kernels: requirements, states, parameters, and which values are outputs.

use super::Printer;
use super::fold::{Ports, folded_paths};
use super::words::OperandForm;
use crate::program::kernel::Role;
use salient_ir::quantised::{Coding, Scales};
use salient_ir::text::{Declared, identifier};
use std::fmt::Write;

/// The line that says that no factor is taken in another order.
pub(super) const AS_WRITTEN: &str = "products as written";

impl Printer<'_, '_> {
    /// What is declared: the requirements, the states and the parameters, those of one type on a line.
    pub(super) fn declarations(&self, out: &mut String) {
        if self.plan.options.keeps_order {
            let _ = writeln!(out, "    {AS_WRITTEN}");
        }
        for requirement in self.expressions.requirements() {
            let _ = writeln!(out, "    require {requirement}");
        }
        let renamed = |d: &Declared| {
            let is_usual = d.name == identifier(&d.path);
            if is_usual { String::new() } else { format!(" as {}", d.name) }
        };
        let states = self.expressions.states();
        let states = states.iter().map(|d| format!("{}{}: {}", d.path, renamed(d), d.ty));
        for state in folded_paths(states) {
            let _ = writeln!(out, "    state {state}");
        }
        let mut params: Vec<(String, Vec<String>)> = Vec::new();
        for (at, d) in self.expressions.params().iter().enumerate() {
            let axes = if d.axes.is_empty() { String::new() } else { format!("[{}]", d.axes.join(", ")) };
            let coding = self.plan.options.coded.get(&at).map(|coding| format!("{} ", coding_word(*coding)));
            let ty = format!("{}{}", coding.unwrap_or_default(), d.shape);
            let param = format!("{}{axes}{}", d.path, renamed(d));
            match params.iter_mut().find(|(known, _)| *known == ty) {
                Some((_, all)) => all.push(param),
                None => params.push((ty, vec![param])),
            }
        }
        for (ty, all) in params {
            let _ = writeln!(out, "    param {ty}: {}", folded_paths(all.into_iter()).join(", "));
        }
    }

    /// Which values are the outputs whose names others have.
    pub(super) fn returns(&self, out: &mut String) {
        let plan = self.plan;
        let others = plan.steps.iter().filter_map(|step| {
            let buffer = &plan.buffers[step.buffer.0];
            let name = self.step_name(step.node, step.buffer);
            let is_other = matches!(buffer.role, Role::Output(_)) && name != buffer.name;
            is_other.then(|| format!("{name} as {}", buffer.name))
        });
        let others: Vec<String> = others.collect();
        if !others.is_empty() {
            let _ = writeln!(out, "    return {}", others.join(", "));
        }
    }

    /// What is stored outside.
    pub(super) fn ports(&self) -> Ports {
        let mut ports = Ports::default();
        for declared in self.expressions.params().iter().chain(&self.expressions.states()) {
            ports.add(&declared.name, &declared.path);
        }
        ports
    }
}

/// The words for parameters in blocks.
pub(super) fn coding_word(coding: Coding) -> String {
    match coding.scales {
        Scales::Half => OperandForm::Codes(coding.bits).text().to_owned(),
        Scales::Single => format!("{} f32 scales", OperandForm::Codes(coding.bits).text()),
    }
}
