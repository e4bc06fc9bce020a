//! The lines of a plan's text: what is declared, and the kernels, equal blocks one after the other.

use super::{ReadError, error};
use crate::plan::text::blocks::last_defined;
use crate::plan::text::fold::{Chain, Ports, dims_of, expanded_paths, list, number, range_of};
use crate::plan::text::ports::{AS_WRITTEN, coding_word};
use crate::plan::text::words::{KernelWord, Word, bracket_end, defined, kernel_line, words};
use salient_ir::quantised::{Bits, Coding, Scales};
use salient_ir::text::identifier;
use std::collections::BTreeMap;

/// A text, taken apart.
#[derive(Clone, Debug, Default)]
pub(super) struct Document {
    pub(super) name: String,
    /// Inputs and results, each with its type.
    pub(super) inputs: Vec<(String, String)>,
    pub(super) outputs: Vec<(String, String)>,
    pub(super) keeps_order: bool,
    pub(super) requirements: Vec<(usize, String)>,
    pub(super) states: Vec<Port>,
    pub(super) params: Vec<Port>,
    pub(super) kernels: Vec<Kernel>,
    pub(super) chains: Vec<Chain>,
    /// Values, with the outputs that they are.
    pub(super) returns: Vec<(usize, String, String)>,
}

/// A parameter or a state.
#[derive(Clone, Debug)]
pub(super) struct Port {
    pub(super) line: usize,
    pub(super) path: String,
    pub(super) name: String,
    pub(super) ty: String,
    pub(super) coding: Option<Coding>,
}

/// A kernel.
#[derive(Clone, Debug)]
pub(super) struct Kernel {
    pub(super) word: KernelWord,
    pub(super) value: Value,
    /// Of an operand the form that it is brought into.
    pub(super) form: Option<String>,
    /// What stands behind it in a comment.
    pub(super) comment: String,
    /// The keys that an attention goes over.
    pub(super) over: Option<String>,
    pub(super) parts: Vec<Value>,
    /// The set of kernels that run as one.
    pub(super) joint: Option<usize>,
    /// Chain and block.
    pub(super) of: Option<(usize, usize)>,
}

/// A value with its axes and its expression.
#[derive(Clone, Debug)]
pub(super) struct Value {
    pub(super) line: usize,
    pub(super) name: String,
    /// With the brackets; nothing if it has none.
    pub(super) axes: String,
    pub(super) text: String,
}

/// A line with its number, without the space that all lines around it begin with.
type Numbered = (usize, String);
/// A kernel, or several that run as one, as lines.
type Unit = Vec<Numbered>;

/// Lines that a text may stand for, at most.
const MOST_LINES: usize = 200_000;

/// Takes a text apart.
pub(super) fn parse(text: &str) -> Result<Document, ReadError> {
    let lines: Vec<Numbered> =
        text.trim_end().lines().enumerate().map(|(n, l)| (n + 1, l.to_owned())).collect();
    let Some(((_, first), rest)) = lines.split_first() else { return error(1, "there is no plan") };
    let mut document = header(first)?;
    let Some(((last, end), body)) = rest.split_last() else { return error(1, "the plan has no end") };
    if end != "}" {
        return error(*last, "the plan has to end in `}`");
    }
    let mut groups: Vec<Group> = Vec::new();
    let body = dedented(body)?;
    let mut at = 0;
    while at < body.len() {
        let (line, text) = &body[at];
        let length = block_length(&body[at..]);
        if declaration(&mut document, *line, text)? {
            at += 1;
        } else if text.starts_with("blocks ") {
            groups.push(group(*line, text, &body[at + 1..at + length])?);
            at += length;
        } else {
            groups.push(Group { units: units(&body[at..at + length])?, ..Group::default() });
            at += length;
        }
    }
    expand(&mut document, groups)?;
    Ok(document)
}

/// How many lines belong to the first: those behind it that begin with space, and a bracket that closes what it opens.
fn block_length(lines: &[Numbered]) -> usize {
    let inner = lines.iter().skip(1).take_while(|(_, text)| text.starts_with(' ')).count();
    let closes = lines[0].1.ends_with('{') && lines.get(inner + 1).is_some_and(|(_, text)| text == "}");
    inner + 1 + usize::from(closes)
}

fn dedented(lines: &[Numbered]) -> Result<Vec<Numbered>, ReadError> {
    let without = |(line, text): &Numbered| match text.strip_prefix("    ") {
        Some(text) => Ok((*line, text.to_owned())),
        None => error(*line, "a line inside has to begin with more space"),
    };
    lines.iter().map(without).collect()
}

/// `plan NAME(inputs) -> (outputs) {`.
fn header(line: &str) -> Result<Document, ReadError> {
    let ports = |text: &str| -> Option<Vec<(String, String)>> {
        let all = list(text.strip_prefix('(')?.strip_suffix(')')?);
        let pair = |port: &str| port.split_once(": ").map(|(name, ty)| (name.to_owned(), ty.to_owned()));
        all.into_iter().map(pair).collect()
    };
    let parsed = || {
        let rest = line.strip_prefix("plan ")?.strip_suffix(" {")?;
        let open = rest.find('(')?;
        let end = open + bracket_end(&rest[open..])?;
        let outputs = rest[end..].strip_prefix(" -> ")?;
        let (inputs, outputs) = (ports(&rest[open..end])?, ports(outputs)?);
        Some(Document { name: rest[..open].to_owned(), inputs, outputs, ..Document::default() })
    };
    parsed().map_or_else(|| error(1, "a plan begins with `plan NAME(inputs) -> (outputs) {`"), Ok)
}

/// Takes a line that declares something.
fn declaration(document: &mut Document, line: usize, text: &str) -> Result<bool, ReadError> {
    if text == AS_WRITTEN {
        document.keeps_order = true;
    } else if let Some(relation) = text.strip_prefix("require ") {
        document.requirements.push((line, relation.to_owned()));
    } else if let Some(state) = text.strip_prefix("state ") {
        let Some((of, ty)) = state.split_once(": ") else { return error(line, "the state has no type") };
        document.states.extend(ports(line, of, ty, None)?);
    } else if let Some(rest) = text.strip_prefix("param ") {
        let Some((ty, all)) = rest.split_once(": ") else {
            return error(line, "the parameters have no type");
        };
        let (coding, ty) = coding(ty);
        for param in list(all) {
            document.params.extend(ports(line, param, ty, coding)?);
        }
    } else if let Some(all) = text.strip_prefix("return ") {
        for one in list(all) {
            let Some((name, output)) = one.split_once(" as ") else {
                return error(line, "what is returned has the form `value as output`");
            };
            document.returns.push((line, name.to_owned(), output.to_owned()));
        }
    } else {
        return Ok(false);
    }
    Ok(true)
}

/// How parameters are stored, and the rest of their type.
fn coding(ty: &str) -> (Option<Coding>, &str) {
    let all = [Scales::Single, Scales::Half]
        .into_iter()
        .flat_map(|scales| [Bits::Four, Bits::Eight].map(|bits| Coding { bits, scales }));
    let read =
        |coding: Coding| Some((Some(coding), ty.strip_prefix(&*coding_word(coding))?.strip_prefix(' ')?));
    all.into_iter().find_map(read).unwrap_or((None, ty))
}

/// `path[axes] as name`, the path maybe that of several blocks.
fn ports(line: usize, text: &str, ty: &str, coding: Option<Coding>) -> Result<Vec<Port>, ReadError> {
    let (text, name) = text.split_once(" as ").map_or((text, None), |(text, name)| (text, Some(name)));
    let (path, axes) = match text.find('[') {
        Some(at) => (&text[..at], Some(&text[at..])),
        None => (text, None),
    };
    let ty = match axes {
        None => ty.to_owned(),
        Some(axes) => match with_axes(ty, axes) {
            Some(ty) => ty,
            None => return error(line, format!("`{path}` has other axes than its type")),
        },
    };
    let Some(paths) = expanded_paths(path) else { return error(line, format!("`{path}` is no path")) };
    let is_path = |path: &String| path.chars().all(|c| c.is_ascii_alphanumeric() || "._".contains(c));
    if let Some(path) = paths.iter().find(|path| path.is_empty() || !is_path(path)) {
        return error(line, format!("`{path}` is no path"));
    }
    let named = |path: &String| name.map_or_else(|| identifier(path), str::to_owned);
    let port = |path: String| Port { line, name: named(&path), path, ty: ty.clone(), coding };
    Ok(paths.into_iter().map(port).collect())
}

/// `f32[4, 8]` with the axes `[t, d]` as `f32[t: 4, d: 8]`.
fn with_axes(ty: &str, axes: &str) -> Option<String> {
    let (elem, dims) = dims_of(ty)?;
    let axes = list(axes.strip_prefix('[')?.strip_suffix(']')?);
    let both: Vec<String> = axes.iter().zip(&dims).map(|(axis, dim)| format!("{axis}: {dim}")).collect();
    (axes.len() == dims.len()).then(|| format!("{elem}[{}]", both.join(", ")))
}

/// Kernels, or those of equal blocks.
#[derive(Default)]
struct Group {
    blocks: Option<Header>,
    units: Vec<Unit>,
}

/// `blocks h.{0 .. 12}, as h.0 but for (x = x.3) {`.
struct Header {
    line: usize,
    stem: String,
    range: (usize, usize),
    like: Option<usize>,
    carried: BTreeMap<String, String>,
}

fn group(line: usize, text: &str, body: &[Numbered]) -> Result<Group, ReadError> {
    let Some((_, inner)) = body.split_last().filter(|((_, end), _)| end == "}") else {
        return error(line, "the blocks have no end");
    };
    let parsed = || {
        let rest = text.strip_prefix("blocks ")?.strip_suffix(" {")?;
        let (rest, carried) = match rest.split_once(" (") {
            Some((rest, carried)) => (rest, list(carried.strip_suffix(')')?)),
            None => (rest, Vec::new()),
        };
        let pair = |pair: &str| pair.split_once(" = ").map(|(a, b)| (a.to_owned(), b.to_owned()));
        let carried = carried.into_iter().map(pair).collect::<Option<_>>()?;
        let (rest, like) = match rest.split_once(", as ") {
            Some((rest, like)) => (rest, Some(like.strip_suffix(" but for")?)),
            None => (rest, None),
        };
        let (stem, range) = rest.strip_suffix('}')?.split_once('{')?;
        let like = match like {
            Some(like) => Some(number(like.strip_prefix(stem)?)?),
            None => None,
        };
        Some(Header { line, stem: stem.to_owned(), range: range_of(range)?, like, carried })
    };
    match parsed() {
        Some(header) => Ok(Group { blocks: Some(header), units: units(&dedented(inner)?)? }),
        None => {
            error(line, "blocks are written `blocks PATH{0 .. 6} {`, as far as they go `, as PATH0 but for`")
        }
    }
}

/// Each kernel with its lines.
fn units(lines: &[Numbered]) -> Result<Vec<Unit>, ReadError> {
    let (mut out, mut at) = (Vec::new(), 0);
    while at < lines.len() {
        let (line, text) = &lines[at];
        let length = block_length(&lines[at..]);
        let is_joint = text == "joint {" && lines[at + length - 1].1 == "}" && length > 2;
        if !is_joint && kernel_line(text).is_none() {
            return error(*line, "this is no line of a plan");
        }
        out.push(lines[at..at + length].to_vec());
        at += length;
    }
    Ok(out)
}

/// The kernels of a unit in a block: from which block its text is.
type Effective = Vec<(usize, Unit)>;

/// Puts the kernels of all groups one after the other.
fn expand(document: &mut Document, groups: Vec<Group>) -> Result<(), ReadError> {
    let mut ports = Ports::default();
    document.params.iter().chain(&document.states).for_each(|port| ports.add(&port.name, &port.path));
    // An output has its name in whichever block it is.
    let is_output = |name: &str| document.outputs.iter().any(|(output, _)| output == name);
    let is_other = |name: &str| ports.has(name) || name.contains('@') || is_output(name);
    let mut chains: Vec<Chain> = Vec::new();
    for group in &groups {
        let Some(header) = &group.blocks else { continue };
        let at = chains.iter().position(|chain| chain.stem == header.stem).unwrap_or_else(|| {
            let first = header.range.0;
            chains.push(Chain { stem: header.stem.clone(), first, ..Chain::default() });
            chains.len() - 1
        });
        chains[at].carried.extend(header.carried.clone());
        let defined = group.units.iter().flatten().filter_map(|(_, line)| defined(line));
        let own = defined.map(|(name, _)| name).filter(|name| !is_other(name));
        chains[at].own.extend(own.map(str::to_owned));
    }
    for chain in &mut chains {
        let carried: Vec<(String, String)> = chain.carried.clone().into_iter().collect();
        for (name, _) in &carried {
            chain.own.remove(name);
        }
        chain.own.extend(carried.into_iter().map(|(_, of)| of));
    }
    let mut known: BTreeMap<(usize, usize), Effective> = BTreeMap::new();
    let (mut set, mut lines) = (0, 0);
    for group in groups {
        let Some(header) = &group.blocks else {
            for unit in &group.units {
                set += 1;
                lines += unit.len();
                document.kernels.extend(kernels(unit, set, None)?);
            }
            continue;
        };
        let chain = chains.iter().position(|c| c.stem == header.stem).unwrap_or(0);
        let of = &chains[chain];
        if header.range.0 < of.first {
            return error(header.line, format!("the blocks of `{}` begin with {}", of.stem, of.first));
        }
        let like = header.like.map(|first| known.get(&(chain, first)));
        let units = effective(header, like, &group.units, (of, &ports))?;
        for block in header.range.0..header.range.1 {
            for (from, unit) in &units {
                set += 1;
                lines += unit.len();
                if lines > MOST_LINES {
                    return error(header.line, "the blocks are too many");
                }
                let text: Vec<&str> = unit.iter().map(|(_, line)| line.as_str()).collect();
                let text = of.expanded(&ports, &text.join("\n"), *from, block);
                let unit: Unit = unit.iter().map(|(n, _)| *n).zip(text.lines().map(str::to_owned)).collect();
                document.kernels.extend(kernels(&unit, set, Some((chain, block)))?);
            }
        }
        known.insert((chain, header.range.0), units);
    }
    document.chains = chains;
    Ok(())
}

/// The kernels of a block of a group: its own, or those of an earlier block with its own in their places and behind them.
fn effective(
    header: &Header,
    like: Option<Option<&Effective>>,
    own: &[Unit],
    (chain, ports): (&Chain, &Ports),
) -> Result<Effective, ReadError> {
    let first = header.range.0;
    let name = |unit: &Unit, block: usize| {
        let text: Vec<&str> = unit.iter().map(|(_, line)| line.as_str()).collect();
        chain.in_first(ports, last_defined(&text.join("\n")), block)
    };
    let Some(like) = like else { return Ok(own.iter().map(|unit| (first, unit.clone())).collect()) };
    let Some(like) = like else { return error(header.line, "no such blocks stand before these") };
    let mut out = like.clone();
    for unit in own {
        let wanted = name(unit, first);
        match out.iter_mut().find(|(from, known)| name(known, *from) == wanted) {
            Some(known) => *known = (first, unit.clone()),
            None => out.push((first, unit.clone())),
        }
    }
    Ok(out)
}

/// The kernels of a unit.
fn kernels(unit: &Unit, set: usize, of: Option<(usize, usize)>) -> Result<Vec<Kernel>, ReadError> {
    let is_joint = unit[0].1 == "joint {";
    let lines = if is_joint { dedented(&unit[1..unit.len() - 1])? } else { unit.clone() };
    let mut out: Vec<Kernel> = Vec::new();
    for (line, text) in &lines {
        if let Some((_, word, rest)) = kernel_line(text).filter(|_| !text.starts_with(' ')) {
            let (rest, comment) = rest.split_once("  // ").unwrap_or((rest, ""));
            let (value, form) = value(*line, rest)?;
            out.push(Kernel {
                word,
                value,
                form,
                comment: comment.to_owned(),
                over: None,
                parts: Vec::new(),
                joint: is_joint.then_some(set),
                of,
            });
            continue;
        }
        let Some(kernel) = out.last_mut() else { return error(*line, "no kernel stands before this line") };
        if let Some(keys) = text.strip_prefix("    over ") {
            kernel.over = Some(keys.to_owned());
        } else if let Some(part) = text.strip_prefix("    where ") {
            let (value, form) = value(*line, part)?;
            if form.is_some() {
                return error(*line, "a part of an expression has no form of its own");
            }
            kernel.parts.push(value);
        } else {
            return error(*line, "this is no line of a plan");
        }
    }
    Ok(out)
}

/// `name~form[axes] = text`.
fn value(line: usize, text: &str) -> Result<(Value, Option<String>), ReadError> {
    let parsed = || {
        let (target, text) = text.split_once(" = ")?;
        let all = words(target);
        let Some(Word::Name { name, form }) = all.first() else { return None };
        let axes = &target[name.len() + form.map_or(0, |form| form.len() + 1)..];
        let is_whole = axes.is_empty() || bracket_end(axes) == Some(axes.len());
        let value = Value { line, name: (*name).to_owned(), axes: axes.to_owned(), text: text.to_owned() };
        is_whole.then(|| (value, form.map(str::to_owned)))
    };
    parsed().map_or_else(|| error(line, "this has to be a value and its expression"), Ok)
}

/// The axis of the rows that a clause about keys names.
pub(super) fn rows(over: &str) -> Option<&str> {
    let rest = &over[over.find(", rows ")? + ", rows ".len()..];
    Some(rest.split(',').next().unwrap_or(rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::text::fold::numbered;

    #[test]
    fn blocks_are_read_one_after_the_other() {
        let text = "plan m(x: f32[T]) -> (x.1: f32[T]) {
    param f32[T]: h.{0 .. 3}.w
    blocks h.{0 .. 3} (x = y) {
        map y[t] = x[t] * h_0_w[t]
    }
    map x.1[t] = y@2[t]
}";
        let document = parse(text).unwrap_or_else(|why| panic!("{why}"));
        let shown: Vec<String> =
            document.kernels.iter().map(|k| format!("{} = {}", k.value.name, k.value.text)).collect();
        assert_eq!(
            shown,
            ["y = x[t] * h_0_w[t]", "y@1 = y[t] * h_1_w[t]", "y@2 = y@1[t] * h_2_w[t]", "x.1 = y@2[t]"]
        );
        assert_eq!(document.params.len(), 3);
    }

    #[test]
    fn numbers_of_paths_are_the_first() {
        assert_eq!(numbered("h.3.x.4"), Some(("h.", 3, ".x.4")));
        assert_eq!(rows("t in 0 .. T, rows s, split_kv"), Some("s"));
    }
}
