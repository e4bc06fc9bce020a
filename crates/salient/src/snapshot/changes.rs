//! What two sets of facts differ in, in words: one sentence for each change, and for all equal layers together.

use crate::snapshot::facts::{Facts, Finding, Kind, ModelFacts, UNFUSED, layers};
use salient_tile::plan::text::facts::Layer;

/// A sentence about a layer, if it is about one.
type Said = (Option<Layer>, String);

/// What has changed, the weightiest first; nothing where the facts are equal.
pub fn changes(before: &Facts, after: &Facts) -> Vec<String> {
    let find = |facts: &Facts, name: &str| facts.models.iter().find(|model| model.name == name).cloned();
    let mut out = Vec::new();
    for model in &before.models {
        let Some(now) = find(after, &model.name) else {
            out.push(format!("the model `{}` is gone", model.name));
            continue;
        };
        let of = if after.models.len() > 1 { format!("model `{}`: ", model.name) } else { String::new() };
        out.extend(of_model(model, &now).into_iter().map(|said| format!("{of}{said}")));
    }
    let is_new = |model: &&ModelFacts| find(before, &model.name).is_none();
    out.extend(after.models.iter().filter(is_new).map(|model| format!("the model `{}` is new", model.name)));
    out
}

fn of_model(before: &ModelFacts, after: &ModelFacts) -> Vec<String> {
    let mut said = Vec::new();
    for kind in Kind::ALL {
        for pair in matched(before, after, kind) {
            for sentence in of_finding(before, after, pair) {
                if !said.contains(&sentence) {
                    said.push(sentence);
                }
            }
        }
    }
    // What matters most comes first.
    said.sort_by_key(|(_, sentence)| !sentence.contains("no longer fuses"));
    let mut out = with_layers(&said);
    if before.settings != after.settings {
        let flags = |of: &ModelFacts| match of.settings.as_str() {
            "" => "no flags".to_owned(),
            flags => format!("`{flags}`"),
        };
        out.insert(0, format!("the call has {}; the snapshot was made with {}", flags(after), flags(before)));
    }
    out.extend(of_call(before, after));
    out
}

/// What has changed of the call as a whole.
fn of_call(before: &ModelFacts, after: &ModelFacts) -> Vec<String> {
    let mut out = Vec::new();
    if before.sizes != after.sizes {
        out.push(format!("prices are at {}; before at {}", after.sizes, before.sizes));
    }
    if before.price_us != after.price_us {
        let [old, new] = [before.price_us, after.price_us].map(duration);
        out.push(format!("price {}: {new}, was {old}", times(before.price_us, after.price_us)));
    }
    if before.plan != after.plan {
        out.push(format!(
            "the plan that is compiled is the one {}; it was the one {}",
            after.plan, before.plan
        ));
    }
    if before.kernels != after.kernels {
        out.push(format!("a call runs {} kernels; it ran {}", after.kernels, before.kernels));
    }
    if before.memory_bytes != after.memory_bytes {
        let [old, new] = [before.memory_bytes, after.memory_bytes];
        out.push(format!("memory {}: {new} bytes, was {old}", times(old as f64, new as f64)));
    }
    if before.memory != after.memory && before.memory_bytes == after.memory_bytes {
        out.push("the formula of the memory is another one, of as many bytes at these sizes".to_owned());
    }
    out
}

/// How many times of before.
fn times(before: f64, after: f64) -> String {
    let ratio = after / before;
    match ratio.is_finite() {
        true if (ratio - 1.0).abs() < 0.095 => format!("{ratio:.3}× of before"),
        true => format!("{ratio:.1}× of before"),
        false => "that there was not before".to_owned(),
    }
}

fn duration(micros: f64) -> String {
    if micros < 1e3 { format!("{micros} us") } else { format!("{} ms", micros / 1e3) }
}

type Matched<'f> = (Option<&'f Finding>, Option<&'f Finding>);

/// What was found before beside what is found now: what has the name in the same layer, then what is left of a layer in order,
/// since a value may have got another name.
fn matched<'f>(before: &'f ModelFacts, after: &'f ModelFacts, kind: Kind) -> Vec<Matched<'f>> {
    let of_kind = |facts: &'f ModelFacts| facts.findings.iter().filter(move |found| found.kind == kind);
    let mut new: Vec<Option<&Finding>> = of_kind(after).map(Some).collect();
    let mut old: Vec<(&Finding, Option<&Finding>)> = of_kind(before).map(|found| (found, None)).collect();
    let by_name = |a: &Finding, b: &Finding| a.layer == b.layer && a.name == b.name;
    let by_layer = |a: &Finding, b: &Finding| a.layer == b.layer;
    for is_same in [&by_name as &dyn Fn(&Finding, &Finding) -> bool, &by_layer] {
        for (found, with) in old.iter_mut().filter(|(_, with)| with.is_none()) {
            let place = new.iter_mut().find(|other| other.is_some_and(|other| is_same(found, other)));
            *with = place.and_then(Option::take);
        }
    }
    let kept = old.into_iter().map(|(found, with)| (Some(found), with));
    kept.chain(new.into_iter().flatten().map(|found| (None, Some(found)))).collect()
}

/// What is to be said of something that was found before, now, or both.
fn of_finding(before: &ModelFacts, after: &ModelFacts, pair: Matched<'_>) -> Vec<Said> {
    match pair {
        (Some(old), Some(new)) => differences(old, new).into_iter().map(|s| (new.layer.clone(), s)).collect(),
        (Some(old), None) => vec![(old.layer.clone(), gone(before, after, old))],
        (None, Some(new)) => {
            let said = match unfused_by(before, after, new) {
                Some(attention) => no_longer_fuses(&attention.name, new),
                None => found(new),
            };
            vec![(new.layer.clone(), said)]
        }
        (None, None) => Vec::new(),
    }
}

fn found(new: &Finding) -> String {
    let (name, because) = (&new.name, new.get("because"));
    match new.kind {
        Kind::Attention => format!("attention `{name}` is one kernel now"),
        Kind::Array => format!("`{name}` is stored, {} elements: {because}", new.get("elements")),
        Kind::Again => format!("`{name}` computes its scores again for each {}: {because}", new.get("along")),
        Kind::Apart => format!("`{name}` stays a sum apart from its weights: {because}"),
    }
}

fn gone(before: &ModelFacts, after: &ModelFacts, old: &Finding) -> String {
    let name = &old.name;
    match old.kind {
        Kind::Attention => match reason(before, after, old) {
            Some(found) => no_longer_fuses(name, found),
            None => format!("attention `{name}` is gone"),
        },
        Kind::Array => format!("`{name}` is no longer stored"),
        Kind::Again => format!("`{name}` no longer computes its scores again"),
        Kind::Apart => format!("`{name}` is no longer a sum apart from its weights"),
    }
}

/// An attention that was fused is not any more, for what is found now.
fn no_longer_fuses(name: &str, new: &Finding) -> String {
    format!("attention `{name}` no longer fuses, because {}", found(new))
}

/// The attention of the same layer that is not fused any more because of something new, if that is something which no fused
/// attention does.
fn unfused_by<'f>(before: &'f ModelFacts, after: &'f ModelFacts, new: &Finding) -> Option<&'f Finding> {
    let is_unfused = match new.kind {
        Kind::Array => new.get("counts_as") == UNFUSED,
        Kind::Again => true,
        Kind::Attention | Kind::Apart => false,
    };
    let attentions = matched(before, after, Kind::Attention).into_iter();
    let attentions = attentions.filter_map(|(old, now)| Some((old?, now)));
    let near: Vec<_> = attentions.filter(|(old, _)| is_unfused && old.layer == new.layer).collect();
    let lost = near.iter().find(|(_, now)| now.is_none());
    let named = near.iter().find(|(old, _)| old.name == new.name);
    lost.or(named).or(near.first()).map(|(old, _)| *old)
}

/// Why an attention no longer fuses: what is found in its layer, or else elsewhere, and was not before.
fn reason<'f>(before: &'f ModelFacts, after: &'f ModelFacts, lost: &Finding) -> Option<&'f Finding> {
    let new: Vec<&Finding> = [Kind::Array, Kind::Again, Kind::Apart]
        .iter()
        .flat_map(|kind| matched(before, after, *kind))
        .filter_map(|(old, new)| new.filter(|_| old.is_none()))
        .collect();
    new.iter().find(|found| found.layer == lost.layer).or(new.first()).copied()
}

fn differences(old: &Finding, new: &Finding) -> Vec<String> {
    let name = &new.name;
    let mut out = Vec::new();
    for field in new.kind.fields() {
        let [was, is] = [old, new].map(|found| found.get(field));
        if was == is {
            continue;
        }
        out.push(match *field {
            "skips" if is == "no" => {
                let [was, is] = [old, new].map(|found| found.get("keys"));
                format!("attention `{name}` no longer skips tiles of keys: rows visit the keys {is}, and visited {was}")
            }
            "skips" if was == "no" => format!("attention `{name}` skips tiles of keys {is} now"),
            "skips" => format!("attention `{name}` skips tiles of keys {is}, and did {was}"),
            "keys" if old.get("skips") == new.get("skips") => {
                format!("attention `{name}` visits the keys {is}, and visited {was}")
            }
            "keys" => continue,
            "scores" => format!("attention `{name}` keeps scores {is}, and kept them {was}"),
            "rules" => format!("attention `{name}` is found by {}; before by {}", rules(is), rules(was)),
            "counts_as" => format!("`{name}` is {is}; before {was}"),
            "elements" => format!("`{name}` is stored with {is} elements; before with {was}"),
            "along" => format!("`{name}` computes its scores again for each {is}; before for each {was}"),
            _ => format!("`{name}`: {is}; before {was}"),
        });
    }
    if old.name != new.name {
        out.push(format!("`{}` is called `{name}` now", old.name));
    }
    out
}

fn rules(names: &str) -> String {
    if names.is_empty() { "no rule".to_owned() } else { format!("the rules {names}") }
}

/// Sentences with the layers that they are about, each once for layers that follow each other.
fn with_layers(said: &[Said]) -> Vec<String> {
    let mut groups: Vec<(Option<&Layer>, usize, &str)> = Vec::new();
    for (layer, sentence) in said {
        let follows = |(first, count, other): &&mut (Option<&Layer>, usize, &str)| match (first, layer) {
            (Some(first), Some(layer)) => {
                first.stem == layer.stem && first.number + *count == layer.number && *other == sentence
            }
            (Some(_), None) | (None, Some(_)) | (None, None) => false,
        };
        match groups.iter_mut().find(follows) {
            Some((_, count, _)) => *count += 1,
            None => groups.push((layer.as_ref(), 1, sentence)),
        }
    }
    let with_layer = |(first, count, sentence): (Option<&Layer>, usize, &str)| {
        let at = layers(first, count);
        match first {
            None => sentence.to_owned(),
            Some(layer) if count == 1 => format!("layer {} (`{at}`): {sentence}", layer.number),
            Some(layer) => {
                format!("layers {} to {} (`{at}`): {sentence}", layer.number, layer.number + count - 1)
            }
        }
    };
    groups.into_iter().map(with_layer).collect()
}
