//! The forms of a model as text, and what their lines belong to.

use super::kernels::Kept;
use crate::compile::pipeline::print_plan;
use salient_draw::page::{Link, Pane};
use salient_front::Sources;
use salient_ir::{Graph, NodeId, Origin, text};
use salient_opt::Named;
use salient_tile::plan::text::lines::Made;
use salient_tile::{Plan, Program};
use std::collections::{BTreeMap, BTreeSet};

/// The lines of the user's files, one file after the other.
pub(super) struct SourceLines {
    text: String,
    /// The first line of each file, and the file as the graph knows it.
    files: Vec<(String, usize)>,
    sources: Sources,
}

impl SourceLines {
    pub(super) fn new(sources: &Sources) -> SourceLines {
        let files = sources.user_files();
        let (mut text, mut firsts, mut line) = (String::new(), Vec::new(), 0);
        for file in files {
            if files.len() > 1 {
                text.push_str(&format!("// {}\n", file.name));
                line += 1;
            }
            firsts.push((file.name.clone(), line));
            text.push_str(file.text.trim_end());
            text.push('\n');
            line += file.text.trim_end().lines().count();
        }
        SourceLines { text, files: firsts, sources: sources.clone() }
    }

    /// The line where an origin begins, from zero; none of the library's.
    pub(super) fn line(&self, origin: Origin) -> Option<usize> {
        let (file, line, _) = self.sources.position(self.sources.span(origin));
        let (_, first) = self.files.iter().find(|(name, _)| name == file)?;
        Some(first + line - 1)
    }

    /// The line of a node, or of the nearest value that reads it.
    fn of(&self, g: &Graph, id: NodeId) -> Option<usize> {
        let own = g.node(id).origin.and_then(|origin| self.line(origin));
        own.or_else(|| {
            let is_mine = |node: &salient_ir::Node| node.origin.is_some_and(|o| self.line(o).is_some());
            self.line(g.nearest_user(id, is_mine)?.origin?)
        })
    }
}

/// What panes are made from.
pub(super) struct Forms<'a> {
    pub(super) lines: &'a SourceLines,
    pub(super) written: &'a Graph,
    pub(super) plan: &'a Plan<'a>,
    pub(super) named: &'a [Named],
    pub(super) program: &'a Program,
    pub(super) assembly: String,
    pub(super) made: &'a [Made],
    pub(super) kept: &'a Kept,
}

/// What some kernels or values belong to.
#[derive(Clone, Default, PartialEq)]
struct Belongs {
    source: Vec<usize>,
    kernels: Vec<usize>,
}

/// Characters of the machine code that are shown.
const MOST_CODE: usize = 600_000;

pub(super) fn panes(of: &Forms<'_>) -> Vec<Pane> {
    let plan_text = print_plan(of.plan, of.named);
    let fused = text::print(of.plan.graph());
    let by_kernel = of.by_kernel();
    let pane = |name: &str, about: &str, text: String, links: Vec<Link>| Pane {
        name: name.to_owned(),
        about: about.to_owned(),
        text: text.trim_end().to_owned(),
        links,
    };
    let (loops, loop_links) = of.loops(&by_kernel);
    let (code, code_links) = of.code(&by_kernel);
    let fused_links = of.fused(&fused);
    let graph = text::print(of.written);
    let graph_links = of.graph(&graph, &fused_links);
    vec![
        pane("source", "The program as it is written.", of.lines.text.clone(), of.source(&by_kernel)),
        pane("graph", "The typed graph as written.", graph, graph_links),
        pane(
            "fused",
            "The graph that is planned: after equality saturation, where a fused form is compiled.",
            fused,
            fused_links,
        ),
        pane(
            "plan",
            "What is stored, and the kernels that store it.",
            plan_text.clone(),
            of.plan(&plan_text, &by_kernel),
        ),
        pane("kernels", "Loops over tiles; of equal blocks those of the first.", loops, loop_links),
        pane("machine code", "What runs; of equal blocks that of the first.", code, code_links),
    ]
}

impl Forms<'_> {
    /// The source lines of each kernel that is shown.
    fn by_kernel(&self) -> Vec<Belongs> {
        let g = self.plan.graph();
        let of = |at: &usize| {
            let nodes = &self.made[*at].nodes;
            let lines: BTreeSet<usize> = nodes.iter().filter_map(|id| self.own_line(g, *id)).collect();
            // What only brings an operand into another form is of the line that reads it.
            let readers = || nodes.iter().filter_map(|id| self.lines.of(g, *id)).collect();
            let lines = if lines.is_empty() { readers() } else { lines };
            lines.into_iter().collect::<Vec<usize>>()
        };
        let belongs = |(place, at): (usize, &usize)| Belongs { source: of(at), kernels: vec![place] };
        self.kept.kernels.iter().enumerate().map(belongs).collect()
    }

    /// The line of what is computed; what is read has lines of its own.
    fn own_line(&self, g: &Graph, id: NodeId) -> Option<usize> {
        (g.port(id).is_none()).then(|| self.lines.of(g, id)).flatten()
    }

    fn joined(kernels: &[Belongs]) -> Belongs {
        let source: BTreeSet<usize> = kernels.iter().flat_map(|k| k.source.iter().copied()).collect();
        let places: BTreeSet<usize> = kernels.iter().flat_map(|k| k.kernels.iter().copied()).collect();
        Belongs { source: source.into_iter().collect(), kernels: places.into_iter().collect() }
    }

    /// A line of the source belongs to every kernel that computes something of it.
    fn source(&self, by_kernel: &[Belongs]) -> Vec<Link> {
        let mut at: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for kernel in by_kernel {
            for line in &kernel.source {
                at.entry(*line).or_default().extend(&kernel.kernels);
            }
        }
        // What a line computes may be gone where it was not needed.
        let written = self.written.ids().filter_map(|id| self.own_line(self.written, id));
        written.for_each(|line| _ = at.entry(line).or_default());
        at.into_iter()
            .map(|(line, kernels)| Link { first: line, end: line + 1, source: vec![line], kernels })
            .collect()
    }

    /// The node that each line of a graph's text defines.
    fn defined(g: &Graph, text: &str) -> Vec<Option<NodeId>> {
        let names = text::node_names(g);
        let by_name: BTreeMap<&str, NodeId> =
            g.ids().filter_map(|id| Some((names[id.index()].as_deref()?, id))).collect();
        let name = |line: &str| {
            let rest = line.trim_start().strip_prefix("let ")?.to_owned();
            let end = rest.find(['[', ' ', ':', '=']).unwrap_or(rest.len());
            by_name.get(&rest[..end]).copied()
        };
        text.lines().map(name).collect()
    }

    fn fused(&self, text: &str) -> Vec<Link> {
        let g = self.plan.graph();
        // A product that a kernel makes while it sums has no place of its own there: it belongs to what reads it.
        let mut of_node: Vec<Vec<usize>> = vec![Vec::new(); g.len()];
        for id in g.ids().rev() {
            let computing = self.made.iter().enumerate().filter(|(_, kernel)| kernel.nodes.contains(&id));
            let mut places = self.kept.places(computing.map(|(at, _)| at));
            if places.is_empty() {
                let users = g.users(id).into_iter().flat_map(|user| of_node[user.index()].clone());
                places = users.collect::<BTreeSet<usize>>().into_iter().collect();
            }
            of_node[id.index()] = places;
        }
        let kernels_of = |id: NodeId| of_node[id.index()].clone();
        let link = |(line, node): (usize, Option<NodeId>)| {
            let id = node?;
            let source = self.lines.of(g, id).into_iter().collect();
            Some(Link { first: line, end: line + 1, source, kernels: kernels_of(id) })
        };
        Forms::defined(g, text).into_iter().enumerate().filter_map(link).collect()
    }

    /// A value as written belongs to the kernels of its line.
    fn graph(&self, text: &str, fused: &[Link]) -> Vec<Link> {
        let g = self.written;
        let link = |(line, node): (usize, Option<NodeId>)| {
            let at = self.lines.of(g, node?)?;
            let same = fused.iter().filter(|link| link.source.contains(&at));
            let kernels: BTreeSet<usize> = same.flat_map(|link| link.kernels.iter().copied()).collect();
            let kernels = kernels.into_iter().collect();
            Some(Link { first: line, end: line + 1, source: vec![at], kernels })
        };
        Forms::defined(g, text).into_iter().enumerate().filter_map(link).collect()
    }

    fn plan(&self, text: &str, by_kernel: &[Belongs]) -> Vec<Link> {
        let mut links: Vec<Link> = Vec::new();
        for (line, kernels) in self.plan.kernels_of_lines(text).into_iter().enumerate() {
            if kernels.is_empty() {
                continue;
            }
            let places = self.kept.places(kernels);
            let all: Vec<Belongs> = places.iter().map(|at| by_kernel[*at].clone()).collect();
            let Belongs { source, kernels } = Forms::joined(&all);
            match links.last_mut() {
                Some(last) if last.end == line && last.kernels == kernels => last.end += 1,
                Some(_) | None => links.push(Link { first: line, end: line + 1, source, kernels }),
            }
        }
        links
    }

    /// The loops of the kernels that are shown.
    fn loops(&self, by_kernel: &[Belongs]) -> (String, Vec<Link>) {
        let (mut text, kernels) = salient_tile::text::print_parts(self.program);
        let (mut line, mut links) = (text.lines().count(), Vec::new());
        for (belongs, at) in by_kernel.iter().zip(&self.kept.kernels) {
            let Some(kernel) = kernels.get(*at) else { continue };
            text.push('\n');
            text.push_str(kernel);
            let (first, end) = (line + 1, line + 1 + kernel.lines().count());
            links.push(Link { first, end, source: belongs.source.clone(), kernels: belongs.kernels.clone() });
            line = end;
        }
        (text, links)
    }

    /// Machine code, up to so many characters.
    fn code(&self, by_kernel: &[Belongs]) -> (String, Vec<Link>) {
        let (mut text, mut links, mut line): (String, Vec<Link>, usize) = (String::new(), Vec::new(), 0);
        let mut current: Option<Link> = None;
        for of in self.assembly.lines() {
            if let Some(names) = of.strip_prefix("; kernel ") {
                links.extend(current.take());
                if text.len() > MOST_CODE {
                    text.push_str("; the rest: salient ir --stage asm\n");
                    return (text, links);
                }
                let names: BTreeSet<&str> = names.split(", ").collect();
                let is_of = |kernel: &Made| kernel.name.split('+').any(|name| names.contains(name));
                let run = self.made.iter().enumerate().filter(|(_, kernel)| is_of(kernel));
                let places = self.kept.places(run.map(|(at, _)| at));
                let all: Vec<Belongs> = places.iter().map(|at| by_kernel[*at].clone()).collect();
                let Belongs { source, kernels } = Forms::joined(&all);
                current = Some(Link { first: line, end: line, source, kernels });
            }
            text.push_str(of);
            text.push('\n');
            line += 1;
            if let Some(link) = &mut current {
                link.end = line;
            }
        }
        links.extend(current);
        (text, links)
    }
}
