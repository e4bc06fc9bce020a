//! What a call works in: the formula, and the life of each buffer.

use crate::compile::options::Options;
use crate::compile::pipeline::lanes;
use salient_draw::page::{Buffer, Memory};
use salient_ir::Bindings;
use salient_tile::memory::{bytes, contract, lifetimes};
use salient_tile::plan::text::lines::Made;
use salient_tile::{Plan, Section, Sizes};

/// The memory of a plan at these sizes.
pub(super) fn memory(plan: &Plan<'_>, made: &[Made], (sizes, options): (&Bindings, &Options)) -> Memory {
    let sizes = Sizes { dimensions: sizes, lanes: lanes(options) };
    let usage = plan.usage();
    let lives = lifetimes(&usage, Section::Call);
    let lived = usage.buffers.iter().zip(lives).filter_map(|(buffer, life)| Some((buffer, life?)));
    let mut buffers: Vec<Buffer> = lived
        .filter_map(|(buffer, (first, last))| {
            let bytes = bytes(&buffer.count(), buffer.elem().size(), sizes).ok()?;
            let of_call = |at: usize| at.saturating_sub(usage.loads).min(made.len() - usage.loads - 1);
            Some(Buffer {
                name: buffer.name.clone(),
                bytes: bytes as u64,
                first: of_call(first),
                last: of_call(last),
            })
        })
        .collect();
    buffers.sort_by(|a, b| b.bytes.cmp(&a.bytes).then(a.first.cmp(&b.first)));
    Memory {
        formula: contract(&usage).to_string().lines().map(str::to_owned).collect(),
        kernels: made.iter().skip(usage.loads).map(|kernel| kernel.name.clone()).collect(),
        buffers,
    }
}
