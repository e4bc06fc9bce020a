//! What to write instead of a call of NumPy or PyTorch: the templates of [`super::names`], filled with the arguments at hand.

use super::names::{NAMES, Row, VALUES, Write};

/// The greatest number that can be one of an axis.
const MOST_AXES: u64 = 64;

/// The name and the length of each axis of a tensor.
pub(crate) type Shape = Vec<(String, String)>;

/// A call as it is written, with what is known of its first argument.
#[derive(Clone, Debug, Default)]
pub(crate) struct Foreign {
    /// The function, without its module.
    pub(crate) name: String,
    /// The arguments, with their names where they are said.
    pub(crate) given: Vec<(Option<String>, String)>,
    /// What the result of the call is called with.
    pub(crate) input: Option<String>,
    /// The shape of the first argument.
    pub(crate) shape: Option<Shape>,
}

/// A spelling, and what else there is to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Spelling {
    /// The code; empty if the language cannot say it.
    pub(crate) code: String,
    /// A note, or nothing.
    pub(crate) note: String,
}

impl Spelling {
    /// As a hint.
    pub(crate) fn help(&self) -> String {
        match (self.code.as_str(), self.note.as_str()) {
            ("", note) => note.to_owned(),
            (code, "") => format!("write `{code}`"),
            (code, note) => format!("write `{code}`; {note}"),
        }
    }

    /// Whether it is a value, and no statement.
    pub(crate) fn is_value(&self) -> bool {
        !self.code.is_empty() && !self.code.starts_with("let ") && !self.code.starts_with("param ")
    }
}

/// What to write instead of a call, if its name is one of NumPy's or PyTorch's.
pub(crate) fn spelled(call: &Foreign) -> Option<Spelling> {
    // Of what has no axes no axis can be named.
    let call = &Foreign { shape: call.shape.clone().filter(|shape| !shape.is_empty()), ..call.clone() };
    let row = NAMES.iter().find(|row| row.names.contains(&call.name.as_str()) && call.fits(row))?;
    let mut note = row.note.to_owned();
    let code = match &row.write {
        Write::Code(template) => call.filled(template),
        Write::Index { last, axis_at, unsaid, position } => call.position(last, *axis_at, *unsaid, position),
        Write::Stack => call.stacked(),
        Write::Part => call.part(),
        Write::Padded => call.padded(),
        Write::Listed => listed(&bare_value(&call.first())),
        Write::Order => call.order(),
        Write::Axes => call.axes(),
        Write::Einsum => call.einsum()?,
        Write::Filled(element) => call.of_one_value(element),
        Write::Range => call.range(),
        Write::Element => call.element(),
        Write::Length => {
            note = "the lengths of an input's axes are names in its type, as in `x: f32[T, D]`".to_owned();
            call.length()
        }
        Write::Nothing => String::new(),
    };
    let unsaid = matches!(&row.write, Write::Code(template) if template.contains("{along}") || template.contains("{along;"));
    if unsaid && call.axis_numbers(Some(1)).is_none() && call.rank() != Some(1) && note.is_empty() {
        note = "that is along the last axis".to_owned();
    }
    if code.contains("[axis]") || code.contains("[axis,") {
        note = "`axis` stands for the name of that axis".to_owned();
    }
    Some(Spelling { code, note })
}

/// What says an axis in other systems.
const BY_NAME: &[&str] = &["dim", "axis", "dims", "keepdim", "keepdims"];

/// Whether a parameter of this name says an axis in other systems.
pub(crate) fn says_an_axis(name: &str) -> bool {
    BY_NAME.contains(&name)
}

/// Whether a call says an axis among its arguments, by a name for that or by a number where one is taken.
pub(crate) fn names_an_axis(call: &Foreign) -> bool {
    let row = NAMES.iter().find(|row| row.names.contains(&call.name.as_str()));
    let along = row.is_some_and(|row| match &row.write {
        Write::Code(template) => template.contains("{axis") || template.contains("{along"),
        Write::Index { axis_at, .. } => *axis_at == 1,
        Write::Order
        | Write::Axes
        | Write::Einsum
        | Write::Filled(_)
        | Write::Range
        | Write::Element
        | Write::Length
        | Write::Stack
        | Write::Part
        | Write::Padded
        | Write::Listed
        | Write::Nothing => false,
    });
    call.named(BY_NAME).is_some() || along && call.at(1).is_some_and(|text| numbers(text).is_some())
}

/// A value of Python's as it is written here.
pub(crate) fn value(text: &str) -> String {
    let text = text.trim();
    let (sign, bare) = text.strip_prefix('-').map_or(("", text), |rest| ("-", rest.trim()));
    let inner = bare.strip_prefix("float(").and_then(|rest| rest.strip_suffix(')'));
    if let Some(name) = inner.map(|i| i.trim_matches(['"', '\''])) {
        let (minus, name) = name.strip_prefix('-').map_or(("", name), |rest| ("-", rest));
        return format!("{sign}{minus}{name}");
    }
    let last = bare.rsplit('.').next().unwrap_or(bare);
    let known = VALUES.iter().find(|(name, _)| *name == last && (bare == last || is_path(bare)));
    known.map_or_else(|| text.to_owned(), |(_, here)| format!("{sign}{here}"))
}

/// Whether a text is names with points between them.
fn is_path(text: &str) -> bool {
    text.split('.').all(|part| part.starts_with(|c: char| c.is_ascii_alphabetic()))
}

/// Whether a text can be an operand of any operator as it is.
fn is_operand(text: &str) -> bool {
    let mut depth = 0_i32;
    let mut whole = !text.is_empty();
    for c in text.chars() {
        depth += match c {
            '(' | '[' => 1,
            ')' | ']' => -1,
            _ => 0,
        };
        whole &= depth > 0 || c.is_alphanumeric() || "_.)]".contains(c);
    }
    whole
}

/// A text without the parentheses around all of it.
pub(super) fn bare(text: &str) -> &str {
    let text = text.trim();
    let Some(inner) = text.strip_prefix('(').and_then(|t| t.strip_suffix(')')) else { return text };
    let mut depth = 0_i32;
    let closes_early = inner.chars().any(|c| {
        depth += i32::from(c == '(') - i32::from(c == ')');
        depth < 0
    });
    if closes_early { text } else { inner.trim() }
}

/// The parts of a list or tuple; a text that is none is one part.
pub(super) fn parts(text: &str) -> Vec<String> {
    let text = text.trim();
    let inner = text.strip_prefix('[').and_then(|t| t.strip_suffix(']')).unwrap_or_else(|| bare(text));
    let mut out = vec![String::new()];
    let mut depth = 0;
    for c in inner.chars() {
        depth += i32::from("([".contains(c)) - i32::from(")]".contains(c));
        if c == ',' && depth == 0 {
            out.push(String::new());
        } else if let Some(last) = out.last_mut() {
            last.push(c);
        }
    }
    out.iter().map(|part| part.trim().to_owned()).filter(|part| !part.is_empty()).collect()
}

impl Foreign {
    /// Whether a row is about such arguments: an axis is a number or several.
    fn fits(&self, row: &Row) -> bool {
        let Write::Code(template) = &row.write else { return true };
        let second = self.at(1);
        let tensor = second.is_some_and(|text| numbers(text).is_none() && text != "None");
        let matrices =
            self.name != "dot" || !template.contains('@') || self.rank().is_some_and(|rank| rank > 1);
        matrices && !(template.contains("{axis}") && tensor)
    }

    /// The argument at a place among those without a name.
    pub(super) fn at(&self, n: usize) -> Option<&str> {
        self.given.iter().filter(|(name, _)| name.is_none()).nth(n).map(|(_, text)| text.as_str())
    }

    pub(super) fn named(&self, names: &[&str]) -> Option<&str> {
        let is = |name: &Option<String>| name.as_deref().is_some_and(|n| names.contains(&n));
        self.given.iter().find(|(name, _)| is(name)).map(|(_, text)| text.as_str())
    }

    /// The text of the tensor that it is about.
    pub(super) fn first(&self) -> String {
        self.given.first().map_or_else(|| "x".to_owned(), |(_, text)| value(text))
    }

    pub(super) fn rank(&self) -> Option<usize> {
        self.shape.as_ref().map(Vec::len)
    }

    /// A length of the last axis or of one before it.
    pub(super) fn length_from_end(&self, n: usize, unknown: &str) -> String {
        let known = self.shape.as_ref().and_then(|s| s.iter().rev().nth(n));
        known.map_or_else(|| unknown.to_owned(), |(_, length)| operand(length))
    }

    /// A template with its holes filled.
    pub(super) fn filled(&self, template: &str) -> String {
        let mut out = String::new();
        let mut rest = template;
        while let Some((before, behind)) = rest.split_once('{') {
            let (hole, after) = behind.split_once('}').unwrap_or((behind, ""));
            out.push_str(before);
            let alone = before.is_empty() && after.is_empty() && out.is_empty();
            out.push_str(&self.hole(hole, alone));
            rest = after;
        }
        out + rest
    }

    fn hole(&self, hole: &str, alone: bool) -> String {
        if let Some(unknown) = hole.strip_prefix("in|") {
            return self.input.clone().unwrap_or_else(|| unknown.to_owned());
        }
        match hole {
            "name" => self.name.clone(),
            "axis" => self.axis_brackets(self.axis_numbers(Some(1)), true, None),
            "axis@-" => self.axis_brackets(self.axis_numbers(None), true, None),
            "along" => self.axis_brackets(self.axis_numbers(Some(1)), false, None),
            "along@0" => self.axis_brackets(self.axis_numbers(Some(0)), false, None),
            "along=0" => self.axis_brackets(self.axis_numbers(Some(1)).or(Some(vec![0])), false, None),
            "along=1" => self.axis_brackets(self.axis_numbers(Some(1)).or(Some(vec![1])), false, None),
            "along;correction = 1" => {
                self.axis_brackets(self.axis_numbers(Some(1)), false, Some("correction = 1"))
            }
            "keep" => self.kept(),
            "mask" => self.mask(),
            "items" => self.items(),
            "N" => self.length_from_end(0, "D"),
            "M" => self.length_from_end(1, "T"),
            argument => self.argument(argument, alone),
        }
    }

    /// `0`, `(1:name,name|unknown)`: an argument by its place or its names; in parentheses it is an operand.
    fn argument(&self, hole: &str, alone: bool) -> String {
        let inner = hole.strip_prefix('(').and_then(|h| h.strip_suffix(')'));
        let (place, unknown) = inner.unwrap_or(hole).split_once('|').unwrap_or((inner.unwrap_or(hole), "x"));
        let (place, names) = place.split_once(':').unwrap_or((place, ""));
        let names: Vec<&str> = names.split(',').collect();
        let by_place = match place.parse::<usize>() {
            Ok(n) => self.at(n),
            // The last one that is no axis, or that is a number.
            Err(_) => {
                let fits = |text: &str| (place == "-2") == numbers(text).is_some_and(|n| n.len() == 1);
                let mut plain = self.given.iter().skip(1).filter(|(name, text)| name.is_none() && fits(text));
                plain.next_back().map(|(_, text)| text.as_str())
            }
        };
        let text = self.named(&names).or(by_place).filter(|text| *text != "None");
        let text = value(bare(text.unwrap_or(unknown)));
        if inner.is_some() && !alone { operand(&text) } else { text }
    }

    /// The parts of a list, or all arguments.
    pub(super) fn items(&self) -> String {
        match self.at(0) {
            Some(list) if list.starts_with(['[', '(']) => parts(list).join(", "),
            _ => {
                let plain = self.given.iter().filter(|(name, _)| name.is_none());
                plain.map(|(_, text)| text.clone()).collect::<Vec<_>>().join(", ")
            }
        }
    }

    /// The mask of an attention as one more argument: a mask, or what is before each query.
    fn mask(&self) -> String {
        let at =
            |name: &[&str], n: usize| self.named(name).or_else(|| self.at(n)).filter(|text| *text != "None");
        let length = |n: usize| {
            self.shape.as_ref().and_then(|s| s.iter().rev().nth(n)).map(|(_, length)| operand(length))
        };
        if at(&["is_causal"], 5) == Some("True") {
            let length = length(1).unwrap_or_else(|| "T".to_owned());
            return format!(", causal[{length}, {length}, offset = 0]()");
        }
        at(&["attn_mask", "mask"], 3).map_or_else(String::new, |mask| format!(", {}", value(mask)))
    }

    // ---- axes

    /// What is said of axes: their numbers.
    pub(super) fn axis_numbers(&self, at: Option<usize>) -> Option<Vec<i64>> {
        let by_name = self.named(&["dim", "axis", "dims", "axes"]);
        let said = by_name.or_else(|| at.and_then(|n| self.at(n))).and_then(numbers);
        said.filter(|numbers| numbers.iter().all(|n| n.unsigned_abs() <= MOST_AXES))
    }

    /// The place of an axis, counted from the first one, and whether it is the last.
    pub(super) fn place(&self, number: i64) -> (Option<usize>, bool) {
        let rank = self.rank();
        let place = match (usize::try_from(number), rank) {
            (Ok(n), _) => Some(n),
            (Err(_), Some(rank)) => usize::try_from(rank as i64 + number).ok(),
            (Err(_), None) => None,
        };
        (place, number == -1 || rank.is_some_and(|rank| place == Some(rank - 1)))
    }

    /// The name of an axis, if it has one of its own.
    pub(super) fn axis_name(&self, place: Option<usize>) -> Option<&str> {
        let shape = self.shape.as_ref()?;
        let (name, _) = shape.get(place?)?;
        let own = shape.iter().filter(|(other, _)| other == name).count() == 1 && !name.is_empty();
        own.then_some(name)
    }

    /// The axes of a call along some, as its brackets; without a word about them `all` are meant, or the last one.
    fn axis_brackets(&self, said: Option<Vec<i64>>, all: bool, more: Option<&str>) -> String {
        let mut inside: Vec<String> = match said {
            Some(numbers) if numbers.len() == 1 && self.place(numbers[0]).1 => Vec::new(),
            Some(numbers) => {
                let names = numbers.iter().map(|n| self.axis_name(self.place(*n).0).unwrap_or("axis"));
                names.map(str::to_owned).collect()
            }
            None if all && self.rank().is_some_and(|rank| rank > 1) => {
                let rank = self.rank().unwrap_or_default();
                (0..rank).map(|n| self.axis_name(Some(n)).unwrap_or("axis").to_owned()).collect()
            }
            None => Vec::new(),
        };
        inside.extend(more.map(str::to_owned));
        if inside.is_empty() { String::new() } else { format!("[{}]", inside.join(", ")) }
    }

    /// The brackets that keep a reduced axis, if it is asked for.
    fn kept(&self) -> String {
        if self.named(&["keepdim", "keepdims"]) != Some("True") {
            return String::new();
        }
        match (self.axis_numbers(Some(1)).as_deref(), self.rank()) {
            (Some([number]), Some(rank)) if !self.place(*number).1 => {
                let place = self.place(*number).0.unwrap_or_default();
                let items = (0..rank).map(|n| if n == place { "_" } else { ":" });
                format!("[{}]", items.collect::<Vec<_>>().join(", "))
            }
            _ => "[.., _]".to_owned(),
        }
    }

    /// The names of all axes as indices: those of the shape, or some.
    pub(super) fn indices(&self, unknown: &[&str]) -> Vec<String> {
        match &self.shape {
            Some(shape) => {
                let spare = ["i", "j", "k", "l", "m", "n"];
                let name = |n: usize| self.axis_name(Some(n)).unwrap_or(spare[n % spare.len()]).to_owned();
                (0..shape.len()).map(name).collect()
            }
            None => unknown.iter().map(|name| (*name).to_owned()).collect(),
        }
    }
}

/// A value without the parentheses around it.
pub(super) fn bare_value(text: &str) -> String {
    value(bare(text))
}

/// A list of numbers as a tensor.
pub(super) fn listed(text: &str) -> String {
    if !text.starts_with('[') {
        return text.to_owned();
    }
    let items: Vec<String> = parts(text).iter().map(|item| listed(item)).collect();
    format!("stack({})", items.join(", "))
}

/// The axes in a text: `1`, `-1`, `(1, 2)`.
pub(super) fn numbers(text: &str) -> Option<Vec<i64>> {
    let all = parts(text);
    let read: Option<Vec<i64>> = all.iter().map(|part| part.replace(' ', "").parse().ok()).collect();
    read.filter(|numbers| !numbers.is_empty())
}

/// A text that any operator may take: in parentheses, if it is not simple.
pub(super) fn operand(text: &str) -> String {
    if is_operand(text) { text.to_owned() } else { format!("({text})") }
}
