//! The rules that led to each fused operator, one after the other.

use super::panes::SourceLines;
use salient_draw::page::{Step, Walk};
use salient_ir::text;
use salient_opt::rules::all_rules;
use salient_opt::{Optimised, WalkStep};

/// Those of a model; of equal blocks the first stands for all.
pub(super) fn walks(optimised: &Optimised, lines: &SourceLines) -> Vec<Walk> {
    let names = text::node_names(&optimised.graph);
    let certificates = &optimised.report.certificates;
    let times = |block: Option<usize>, name: Option<&salient_ir::Name>, op| {
        if block.is_none() {
            return 1;
        }
        let alike =
            certificates.iter().filter(|c| c.block.is_some() && c.name.as_ref() == name && c.op == op);
        let blocks: std::collections::BTreeSet<Option<usize>> = alike.map(|c| c.block).collect();
        blocks.len()
    };
    let shown = certificates.iter().filter(|c| c.block.is_none_or(|block| block == 0));
    shown
        .map(|c| Walk {
            name: names[c.node.index()].clone().unwrap_or_else(|| "an unnamed value".to_owned()),
            operator: c.op.info().name.to_owned(),
            about: c.op.info().doc.to_owned(),
            line: c.origin.and_then(|origin| lines.line(origin)),
            times: times(c.block, c.name.as_ref(), c.op),
            steps: c.walk.iter().map(|step| shown_step(step, lines)).collect(),
        })
        .collect()
}

fn shown_step(step: &WalkStep, lines: &SourceLines) -> Step {
    let row = all_rules().find(|row| row.name == step.rule);
    Step {
        rule: step.rule.to_owned(),
        holds: row.map_or("", |row| row.holds.name()).to_owned(),
        why: row.map_or("", |row| row.why).to_owned(),
        before: step.before.clone(),
        after: step.after.clone(),
        line: step.origin.and_then(|origin| lines.line(origin)),
    }
}
