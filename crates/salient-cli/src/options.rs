//! Flags that several commands share.

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use salient::{Engine, Options, Stage};

/// What is compiled.
#[derive(Args, Debug)]
pub(crate) struct Compile {
    /// The model to compile, where the file has several
    #[arg(long, value_name = "NAME")]
    pub(crate) model: Option<String>,
    /// The value of a dimension or of a parameter in brackets; may be given several times
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair)]
    pub(crate) set: Vec<(String, String)>,
}

impl Compile {
    /// The library's options.
    pub(crate) fn options(&self) -> Options {
        Options { model: self.model.clone(), set: self.set.clone(), ..Options::default() }
    }
}

/// `NAME=VALUE`, neither of them empty.
pub(crate) fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() && !value.is_empty() => {
            Ok((name.to_owned(), value.to_owned()))
        }
        Some(_) | None => Err("expected NAME=VALUE".to_owned()),
    }
}

/// Parses the name of a stage.
pub(crate) fn stage() -> impl TypedValueParser<Value = Stage> {
    PossibleValuesParser::new(Stage::ALL.map(Stage::name))
        .map(|name| Stage::from_name(&name).expect("one of the possible values"))
}

/// Parses the name of an engine.
pub(crate) fn engine() -> impl TypedValueParser<Value = Engine> {
    PossibleValuesParser::new(Engine::ALL.map(Engine::name))
        .map(|name| Engine::from_name(&name).expect("one of the possible values"))
}
