//! Spellings that are definitions: another position of an axis, another order or number of axes, a tensor that is new.

use super::spell::{Foreign, bare, numbers, operand, parts};

impl Foreign {
    /// Another position of one axis.
    pub(super) fn position(&self, last: &str, axis_at: usize, unsaid: i64, position: &str) -> String {
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
    pub(super) fn order(&self) -> String {
        let said: Vec<i64> =
            self.given.iter().skip(1).filter_map(|(_, text)| numbers(text)).flatten().collect();
        let x = operand(&self.first());
        let rank = self.rank().or(Some(said.len()).filter(|n| *n > 2)).unwrap_or(3);
        let names = self.indices(&["b", "h", "t", "e", "f", "g"][..rank.min(6)]);
        let rank = names.len();
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
        swapped.swap(rank.saturating_sub(2), rank.saturating_sub(1));
        if left == swapped || said == [-1, -2] || said == [-2, -1] {
            return format!("{x}.T");
        }
        format!("let z[{}] = {x}[{}]", left.join(", "), names.join(", "))
    }

    /// An axis of length one more or less.
    pub(super) fn axes(&self) -> String {
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
                let behind = ", :".repeat((number.unsigned_abs() as usize).saturating_sub(1));
                return format!("{x}[.., {mark}{behind}]");
            }
        };
        format!("{x}[{}{mark}, ..]", ":, ".repeat(before))
    }

    /// Parts along a new axis, where it is not the first one by a definition that says where it stands.
    pub(super) fn stacked(&self) -> String {
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
    pub(super) fn part(&self) -> String {
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
    pub(super) fn padded(&self) -> String {
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
    pub(super) fn einsum(&self) -> Option<String> {
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
    pub(super) fn of_one_value(&self, element: &str) -> String {
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

    pub(super) fn range(&self) -> String {
        match (self.at(0), self.at(1)) {
            (Some("0"), Some(high)) => format!("let z[i: {high}] = i"),
            (Some(low), Some(high)) => format!("let z[i: {high} - {}] = i + {low}", operand(low)),
            (high, _) => format!("let z[i: {}] = i", high.unwrap_or("T")),
        }
    }

    pub(super) fn element(&self) -> String {
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
    pub(super) fn length(&self) -> String {
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

/// An index of a left side, with its length where that is to be said.
fn bound(name: &str, says: bool, length: &str) -> String {
    if says { format!("{name}: {length}") } else { name.to_owned() }
}
