//! Which tuning a command uses: that of `--tuning`, else of the environment, else of the user's folder, else the defaults.
//!
//! What a tuning is, and what its file looks like, is the library's business; measuring one is `tune`'s.

use crate::output::failure::Outcome;
use crate::output::terminal;
use salient::Tuning;
use std::path::{Path, PathBuf};

/// The environment variable that stands for `--tuning` where that is not given.
const VARIABLE: &str = "SALIENT_TUNING";

/// In place of a file: none.
const DEFAULT: &str = "default";

/// The file that every command reads if it is there.
pub(crate) fn user_file() -> Option<PathBuf> {
    dirs::config_dir().map(|folder| folder.join("salient").join("tuning.toml"))
}

/// The tuning of the file that is asked for. One that was named must be right; one in the user's folder that is not is
/// reported and ignored, since the work can be done without it.
pub(crate) fn chosen(named: Option<&str>) -> Outcome<Tuning> {
    let variable = std::env::var(VARIABLE).ok().filter(|value| !value.is_empty());
    match named.or(variable.as_deref()) {
        Some(DEFAULT) => Ok(Tuning::default()),
        Some(file) => Ok(Tuning::from_file(file)?),
        None => Ok(user_file().filter(|file| file.exists()).map_or_else(Tuning::default, |file| {
            Tuning::from_file(file).unwrap_or_else(|error| {
                let what = format!("{error}\nthe defaults are used; `salient tune` makes the file anew");
                terminal::warning(&what);
                Tuning::default()
            })
        })),
    }
}

/// What a file that is about to be written says already; nothing where it is not there, or not right for this machine.
pub(crate) fn existing(file: &Path) -> Tuning {
    if !file.exists() {
        return Tuning::default();
    }
    Tuning::from_file(file).unwrap_or_else(|error| {
        terminal::warning(&format!("{error}\nnothing of it is kept"));
        Tuning::default()
    })
}
