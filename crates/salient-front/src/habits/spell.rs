//! What to write instead of a call of NumPy or PyTorch: the templates of [`super::names`], filled with the arguments at hand.

use super::names::{NAMES, Row, VALUES, Write};

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
    let by_name = ["dim", "axis", "dims", "keepdim", "keepdims"];
    call.named(&by_name).is_some() || along && call.at(1).is_some_and(|text| numbers(text).is_some())
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
fn bare(text: &str) -> &str {
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
fn parts(text: &str) -> Vec<String> {
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
    fn at(&self, n: usize) -> Option<&str> {
        self.given.iter().filter(|(name, _)| name.is_none()).nth(n).map(|(_, text)| text.as_str())
    }

    fn named(&self, names: &[&str]) -> Option<&str> {
        let is = |name: &Option<String>| name.as_deref().is_some_and(|n| names.contains(&n));
        self.given.iter().find(|(name, _)| is(name)).map(|(_, text)| text.as_str())
    }

    /// The text of the tensor that it is about.
    fn first(&self) -> String {
        self.given.first().map_or_else(|| "x".to_owned(), |(_, text)| value(text))
    }

    fn rank(&self) -> Option<usize> {
        self.shape.as_ref().map(Vec::len)
    }

    /// A length of the last axis or of one before it.
    fn length_from_end(&self, n: usize, unknown: &str) -> String {
        let known = self.shape.as_ref().and_then(|s| s.iter().rev().nth(n));
        known.map_or_else(|| unknown.to_owned(), |(_, length)| operand(length))
    }

    /// A template with its holes filled.
    fn filled(&self, template: &str) -> String {
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
    fn items(&self) -> String {
        match self.at(0) {
            Some(list) if list.starts_with(['[', '(']) => parts(list).join(", "),
            _ => {
                let plain = self.given.iter().filter(|(name, _)| name.is_none());
                plain.map(|(_, text)| text.clone()).collect::<Vec<_>>().join(", ")
            }
        }
    }

    // ---- axes

    /// What is said of axes: their numbers.
    fn axis_numbers(&self, at: Option<usize>) -> Option<Vec<i64>> {
        let by_name = self.named(&["dim", "axis", "dims", "axes"]);
        by_name.or_else(|| at.and_then(|n| self.at(n))).and_then(numbers)
    }

    /// The place of an axis, counted from the first one, and whether it is the last.
    fn place(&self, number: i64) -> (Option<usize>, bool) {
        let rank = self.rank();
        let place = match (usize::try_from(number), rank) {
            (Ok(n), _) => Some(n),
            (Err(_), Some(rank)) => usize::try_from(rank as i64 + number).ok(),
            (Err(_), None) => None,
        };
        (place, number == -1 || rank.is_some_and(|rank| place == Some(rank - 1)))
    }

    /// The name of an axis, if it has one of its own.
    fn axis_name(&self, place: Option<usize>) -> Option<&str> {
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
    fn indices(&self, unknown: &[&str]) -> Vec<String> {
        match &self.shape {
            Some(shape) => {
                let spare = ["i", "j", "k", "l", "m", "n"];
                let name = |n: usize| self.axis_name(Some(n)).unwrap_or(spare[n % spare.len()]).to_owned();
                (0..shape.len()).map(name).collect()
            }
            None => unknown.iter().map(|name| (*name).to_owned()).collect(),
        }
    }

    /// Another position of one axis.
    fn position(&self, last: &str, axis_at: usize, unsaid: i64, position: &str) -> String {
        let number = self.axis_numbers(Some(axis_at)).and_then(|n| n.first().copied()).unwrap_or(unsaid);
        let (place, is_last) = self.place(number);
        if is_last {
            return self.filled(last);
        }
        let names = self.indices(&["b", "t", "d"]);
        let at = place.unwrap_or(1).min(names.len().saturating_sub(1));
        let length = self.shape.as_ref().and_then(|s| s.get(at)).map_or("T", |(_, length)| length);
        let read = self.filled(position).replace("$i", &names[at]).replace("$N", &operand(length));
        let left: Vec<String> = names.iter().map(|n| bound(n, *n == names[at], length)).collect();
        let right: Vec<&str> =
            names.iter().map(|n| if *n == names[at] { read.as_str() } else { n }).collect();
        format!("let z[{}] = {}[{}]", left.join(", "), operand(&self.first()), right.join(", "))
    }

    /// The axes in another order: two swapped, one moved, or all that are listed.
    fn order(&self) -> String {
        let said: Vec<i64> =
            self.given.iter().skip(1).filter_map(|(_, text)| numbers(text)).flatten().collect();
        let x = operand(&self.first());
        let rank = self.rank().or(Some(said.len()).filter(|n| *n > 2)).unwrap_or(3);
        let names = self.indices(&["b", "h", "t", "e", "f", "g"][..rank.min(6)]);
        let places: Option<Vec<usize>> = said
            .iter()
            .map(|n| usize::try_from(if *n < 0 { rank as i64 + n } else { *n }).ok())
            .map(|n| n.filter(|n| *n < names.len()))
            .collect();
        let mut left = names.clone();
        match (self.name.as_str(), places.as_deref()) {
            ("moveaxis" | "movedim", Some(&[from, to])) => {
                let moved = left.remove(from);
                left.insert(to, moved);
            }
            (name, Some(&[a, b])) if name != "permute" || rank == 2 => left.swap(a, b),
            (_, Some(all)) if all.len() == names.len() => {
                left = all.iter().map(|n| names[*n].clone()).collect();
            }
            ("transpose", Some([])) if self.rank().is_some_and(|rank| rank > 2) => left.reverse(),
            _ => return format!("{x}.T"),
        }
        let mut swapped = names.clone();
        swapped.swap(rank.saturating_sub(2), rank - 1);
        if left == swapped || said == [-1, -2] || said == [-2, -1] {
            return format!("{x}.T");
        }
        format!("let z[{}] = {x}[{}]", left.join(", "), names.join(", "))
    }

    /// An axis of length one more or less.
    fn axes(&self) -> String {
        let x = operand(&self.first());
        let number = self.axis_numbers(Some(1)).and_then(|n| n.first().copied()).unwrap_or(0);
        let add = self.name != "squeeze";
        let mark = if add { "_" } else { "0" };
        if number == -1 {
            return format!("{x}[.., {mark}]");
        }
        let before = match (usize::try_from(number), self.rank()) {
            (Ok(n), _) => n,
            (Err(_), Some(rank)) => {
                usize::try_from(rank as i64 + number + i64::from(add)).unwrap_or_default()
            }
            (Err(_), None) => {
                let behind = ", :".repeat(number.unsigned_abs() as usize - 1);
                return format!("{x}[.., {mark}{behind}]");
            }
        };
        format!("{x}[{}{mark}, ..]", ":, ".repeat(before))
    }

    /// Parts along a new axis, where it is not the first one by a definition that says where it stands.
    fn stacked(&self) -> String {
        let items = self.items();
        let number = self.axis_numbers(Some(1)).and_then(|n| n.first().copied()).unwrap_or(0);
        let mut names = self.indices(&["axis"]);
        let place = usize::try_from(if number < 0 { names.len() as i64 + 1 + number } else { number });
        let place = place.unwrap_or_default().min(names.len());
        if place == 0 {
            return format!("stack({items})");
        }
        names.insert(place, "n".to_owned());
        format!("let z[{}] = stack[n]({items})", names.join(", "))
    }

    /// The first part of an axis: of so many positions, or one of so many parts.
    fn part(&self) -> String {
        let number = self.axis_numbers(Some(2)).and_then(|n| n.first().copied()).unwrap_or(0);
        let (place, is_last) = self.place(number);
        let said =
            self.at(1).map_or_else(|| "2".to_owned(), |text| operand(parts(text).first().map_or("2", |p| p)));
        let length = place.and_then(|n| self.shape.as_ref()?.get(n)).map_or("T", |(_, length)| length);
        let end = if self.name == "split" { said } else { format!("{} / {said}", operand(length)) };
        let x = operand(&self.first());
        if is_last && number < 0 {
            return format!("{x}[.., 0:{end}]");
        }
        format!("{x}[{}0:{end}, ..]", ":, ".repeat(place.unwrap_or_default()))
    }

    /// Zeros before and behind the last axis.
    fn padded(&self) -> String {
        let said = self.at(1).map(parts).unwrap_or_default();
        let (before, behind) = match said.as_slice() {
            [both] => (both.as_str(), both.as_str()),
            [before, behind, ..] => (before.as_str(), behind.as_str()),
            [] => ("1", "1"),
        };
        let (x, length) = (operand(&self.first()), self.length_from_end(0, "D"));
        let (low, high) = (operand(before), operand(behind));
        format!(
            "let z[.., n: {length} + {low} + {high}] = if {low} <= n < {length} + {low} then {x}[.., n - {low}] else 0"
        )
    }

    // ---- texts and numbers

    /// `"bhie,bhje->bhij"` over its operands as an indexed definition.
    fn einsum(&self) -> Option<String> {
        let formula: String = self.at(0)?.trim_matches(['"', '\'']).split_whitespace().collect();
        let (inputs, output) = formula.split_once("->")?;
        let listed = |letters: &str| letters.chars().map(String::from).collect::<Vec<_>>().join(", ");
        let plain = |letters: &str| letters.chars().all(|c| c.is_ascii_lowercase());
        let inputs: Vec<&str> = inputs.split(',').collect();
        if !inputs.iter().all(|i| plain(i)) || !plain(output) || self.given.len() != inputs.len() + 1 {
            return None;
        }
        let read = inputs.iter().zip(&self.given[1..]);
        let factors: Vec<String> = read.map(|(i, (_, x))| format!("{}[{}]", operand(x), listed(i))).collect();
        let mut summed: Vec<char> = inputs.concat().chars().filter(|c| !output.contains(*c)).collect();
        let mut seen = Vec::new();
        summed.retain(|c| {
            !seen.contains(c) && {
                seen.push(*c);
                true
            }
        });
        let product = factors.join(" * ");
        let value = if summed.is_empty() {
            product
        } else {
            format!("sum[{}]({product})", listed(&summed.iter().collect::<String>()))
        };
        Some(if output.is_empty() { value } else { format!("let z[{}] = {value}", listed(output)) })
    }

    /// A tensor all of whose elements are one value.
    fn of_one_value(&self, element: &str) -> String {
        let element = self.filled(element);
        let like = self.name.ends_with("_like");
        let lengths: Vec<String> = match (self.at(0), &self.shape) {
            (_, Some(shape)) if like => shape.iter().map(|(_, length)| length.clone()).collect(),
            (Some(first), _) if !like && first.starts_with(['(', '[']) => parts(first),
            (Some(_), _) if !like && self.name == "full" => parts(self.at(0).unwrap_or_default()),
            (Some(_), _) if !like => {
                self.given.iter().filter(|g| g.0.is_none()).map(|g| g.1.clone()).collect()
            }
            _ => vec!["T".to_owned(), "D".to_owned()],
        };
        let names = ["i", "j", "k", "l", "m", "n"];
        let left: Vec<String> =
            lengths.iter().zip(names).map(|(length, i)| format!("{i}: {length}")).collect();
        format!("let z[{}] = {element}", left.join(", "))
    }

    fn range(&self) -> String {
        match (self.at(0), self.at(1)) {
            (Some("0"), Some(high)) => format!("let z[i: {high}] = i"),
            (Some(low), Some(high)) => format!("let z[i: {high} - {}] = i + {low}", operand(low)),
            (high, _) => format!("let z[i: {}] = i", high.unwrap_or("T")),
        }
    }

    fn element(&self) -> String {
        let words: Vec<&str> = self.given.iter().skip(1).map(|(_, text)| text.as_str()).collect();
        let said = if words.is_empty() { self.name.clone() } else { words.join(" ") };
        let x = bare(&self.first()).to_owned();
        if said.contains("int32") || said == "int" || said.contains("i32") {
            format!("i32({x})")
        } else if said.contains("int") || said.contains("long") || said.contains("i64") {
            format!("i64({x})")
        } else if said.contains("bool") {
            format!("{} != 0", operand(&x))
        } else if ["float", "double", "half", "f32", "f16"].iter().any(|word| said.contains(word)) {
            format!("f32({x})")
        } else {
            x
        }
    }

    /// The length of an axis, or of all.
    fn length(&self) -> String {
        let Some(shape) = &self.shape else { return String::new() };
        let lengths = || shape.iter().map(|(_, length)| operand(length)).collect::<Vec<_>>();
        match (self.name.as_str(), self.axis_numbers(Some(1)).as_deref()) {
            ("shape" | "size", Some([number])) => {
                let place = self.place(*number).0;
                place.and_then(|n| shape.get(n)).map_or_else(String::new, |(_, length)| length.clone())
            }
            ("shape" | "size", _) => lengths().join(", "),
            ("numel", _) => lengths().join(" * "),
            ("len", _) => shape.first().map_or_else(String::new, |(_, length)| length.clone()),
            _ => shape.len().to_string(),
        }
    }
}

/// A value without the parentheses around it.
fn bare_value(text: &str) -> String {
    value(bare(text))
}

/// A list of numbers as a tensor.
fn listed(text: &str) -> String {
    if !text.starts_with('[') {
        return text.to_owned();
    }
    let items: Vec<String> = parts(text).iter().map(|item| listed(item)).collect();
    format!("stack({})", items.join(", "))
}

/// The axes in a text: `1`, `-1`, `(1, 2)`.
fn numbers(text: &str) -> Option<Vec<i64>> {
    let all = parts(text);
    let read: Option<Vec<i64>> = all.iter().map(|part| part.replace(' ', "").parse().ok()).collect();
    read.filter(|numbers| !numbers.is_empty())
}

/// A text that any operator may take: in parentheses, if it is not simple.
fn operand(text: &str) -> String {
    if is_operand(text) { text.to_owned() } else { format!("({text})") }
}

/// An index of a left side, with its length where that is to be said.
fn bound(name: &str, says: bool, length: &str) -> String {
    if says { format!("{name}: {length}") } else { name.to_owned() }
}
