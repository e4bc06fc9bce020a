//! What people know from NumPy and PyTorch is answered with what to write instead, and that compiles.
//! `SALIENT_WRITE_DOCS=1` writes the table of `docs/names.md`.

use salient_front::habits::{EXAMPLE, Known, known_names};
use salient_front::{Diagnostic, Settings, Sources, compile, render};
use std::collections::BTreeSet;
use std::path::Path;

/// The example's tensors with these statements.
fn model(statements: &str) -> String {
    format!("{EXAMPLE} {{\n    {statements}\n}}\n")
}

/// The errors of a program, and how they are shown.
fn errors(text: &str) -> Result<(), (Vec<Diagnostic>, String)> {
    let mut sources = Sources::new();
    sources.add("names.attn", text);
    match compile(&sources, None, &Settings::default()) {
        Ok(_) => Ok(()),
        Err(errors) => {
            let shown = render(&errors, &sources, false);
            Err((errors, shown))
        }
    }
}

/// What the one error of a program says to write; nothing if it says why there is nothing to write.
fn suggested(program: &str) -> Result<Option<String>, String> {
    let (errors, shown) = errors(program).err().ok_or_else(|| format!("nothing is wrong with\n{program}"))?;
    let help = match errors.as_slice() {
        [one] => one.help.as_deref().ok_or_else(|| format!("no help:\n{shown}"))?,
        _ => return Err(format!("more than one error:\n{shown}")),
    };
    let code = help.strip_prefix("write `").and_then(|rest| rest.split_once('`'));
    Ok(code.map(|(code, _)| code.to_owned()))
}

/// Compiles what is suggested, as the value of a model or as the definition of one.
fn compiles(code: &str) -> Result<(), String> {
    let defines = code.starts_with("let ") || code.starts_with("param ");
    let statements = if defines { format!("{code}\n    return z") } else { format!("return {code}") };
    errors(&model(&statements)).map_err(|(_, shown)| format!("`{code}` is suggested:\n{shown}"))
}

/// The example as a method of its first argument, if that is a tensor.
fn method(known: &Known) -> Option<String> {
    let inside = known.call.strip_prefix('(')?.strip_suffix(')')?;
    let (first, rest) = inside.split_once(", ").unwrap_or((inside, ""));
    let is_tensor = ["x", "y", "s", "r", "u", "v", "w", "ids", "mask"].contains(&first);
    is_tensor.then(|| format!("{first}.{}({rest})", known.name))
}

/// What is suggested for a name of a module; the same is suggested for it alone and as a method.
fn spelling(known: &Known) -> Result<Option<String>, String> {
    let Known { name, call } = known;
    let code = suggested(&model(&format!("return torch.{name}{call}")))?;
    let alone =
        Some(format!("{name}{call}")).filter(|alone| errors(&model(&format!("return {alone}"))).is_err());
    for other in [alone, method(known)].into_iter().flatten() {
        let same = suggested(&model(&format!("return {other}")))?;
        if same != code {
            return Err(format!("`torch.{name}{call}`: {code:?}, but `{other}`: {same:?}"));
        }
    }
    Ok(code)
}

#[test]
fn every_name_is_answered_with_what_compiles() {
    let mut names = BTreeSet::new();
    let mut failed = Vec::new();
    for known in known_names() {
        names.insert(known.name);
        let checked = spelling(&known).and_then(|code| code.map_or(Ok(()), |code| compiles(&code)));
        failed.extend(checked.err());
    }
    assert!(failed.is_empty(), "{}", failed.join("\n\n"));
    assert!(names.len() >= 200, "{} names", names.len());
}

#[test]
fn the_table_of_names_is_the_documents() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/names.md");
    let document = std::fs::read_to_string(&path).unwrap();
    let (head, _) = document.split_once("| there |").expect("the table begins");
    let mut table = String::from("| there | here |\n|---|---|\n");
    for known in known_names() {
        let spelled = spelling(&known).unwrap_or_else(|why| panic!("{why}"));
        let code = spelled.map_or_else(
            || "not said: the shape would depend on the data".to_owned(),
            |c| format!("`{}`", c.replace('|', "\\|")),
        );
        table += &format!("| `{}{}` | {code} |\n", known.name, known.call);
    }
    let written = format!("{head}{table}");
    if std::env::var_os("SALIENT_WRITE_DOCS").is_some() {
        std::fs::write(&path, &written).unwrap();
        return;
    }
    assert!(document == written, "docs/names.md: run this test with SALIENT_WRITE_DOCS=1");
}
