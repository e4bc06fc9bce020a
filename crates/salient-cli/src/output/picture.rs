//! Pictures in files.

use crate::output::failure::{Failure, Outcome};
use salient::replace_text;
use salient_draw::heat::{Grid, png, svg};
use std::path::Path;

/// Writes heat maps to a file: of the ending `.png` as pixels, else as SVG.
pub(crate) fn picture(path: &Path, grid: &Grid) -> Outcome {
    match path.extension().and_then(|ending| ending.to_str()) {
        Some("png") => {
            let fail = |e| Failure::call(format!("{}: cannot be written: {e}", path.display()));
            std::fs::write(path, png(grid)).map_err(fail)
        }
        Some("svg") => Ok(replace_text(path, &svg(grid))?),
        Some(_) | None => Err(Failure::call(format!("{}: a picture is a file .svg or .png", path.display()))),
    }
}
