//! A report on a compiled model as one page of HTML, which needs neither a network nor other files.
//!
//! What the page shows is one value, [`Page`], which stands in it as one block of JSON (`docs/report.schema.json` describes it);
//! [`html()`] puts it between the style and the script that are files beside this one.

mod weights;

use serde::Serialize;

/// The version of the JSON block.
pub const VERSION: u32 = 1;

/// What a report shows of a model.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Page {
    /// The version of this block.
    pub version: u32,
    /// The name of the model.
    pub model: String,
    /// The file with its source.
    pub file: String,
    /// The lengths of the dimensions at which everything was measured and counted.
    pub sizes: Vec<Size>,
    /// Where the elements of inputs and parameters are from.
    pub data: String,
    /// The machine on which it was measured.
    pub machine: Machine,
    /// The model as written and as compiled.
    pub totals: Vec<Total>,
    /// Which plan is compiled, and why.
    pub taken: String,
    /// The forms of the model as text, the source first.
    pub panes: Vec<Pane>,
    /// The kernels in the order in which they run; of equal blocks those of the first.
    pub kernels: Vec<Kernel>,
    /// How each fused operator came about.
    pub walks: Vec<Walk>,
    /// Which keys each attention visits.
    pub masks: Vec<Mask>,
    /// What a call works in.
    pub memory: Memory,
    /// Attention weights.
    pub weights: Vec<Weights>,
}

/// A dimension with its length.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Size {
    /// Its name in the source.
    pub name: String,
    /// Its length.
    pub length: i64,
}

/// A machine.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Machine {
    /// The vectors that code is made for.
    pub isa: String,
    /// Threads that ran the model.
    pub threads: usize,
    /// Operations in a second that one core does at most by fused multiply-adds, in thousands of millions.
    pub gflops: f64,
    /// Bytes in a second that one core reads from memory at most, in thousands of millions.
    pub gbytes: f64,
}

/// A form of the model as a whole.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Total {
    /// Which form.
    pub name: String,
    /// Kernels of a call.
    pub kernels: usize,
    /// Floating-point operations of a call; what a mask hides is not subtracted.
    pub flops: f64,
    /// Bytes that its kernels read and write, each buffer once for a kernel.
    pub bytes: f64,
    /// Bytes that a call works in beside inputs, parameters and results.
    pub working: Option<u64>,
    /// Milliseconds by the price of the plan.
    pub priced: Option<f64>,
    /// Milliseconds of a call as measured, at the least.
    pub measured: Option<f64>,
}

/// A form of the model as text.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Pane {
    /// Which form.
    pub name: String,
    /// What it is, in a sentence.
    pub about: String,
    /// Its text.
    pub text: String,
    /// What its lines belong to.
    pub links: Vec<Link>,
}

/// What lines of a text belong to.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Link {
    /// The first line, from zero.
    pub first: usize,
    /// One behind the last.
    pub end: usize,
    /// Lines of the source, from zero.
    pub source: Vec<usize>,
    /// Kernels, by position.
    pub kernels: Vec<usize>,
}

/// A kernel.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Kernel {
    /// What it stores.
    pub name: String,
    /// What it is built around, as plans say it.
    pub word: String,
    /// The named values that it computes.
    pub computes: Vec<String>,
    /// How many kernels of equal blocks it stands for.
    pub times: usize,
    /// Whether it runs once, when the parameters are bound.
    pub once: bool,
    /// It runs only where this holds.
    pub when: Option<String>,
    /// Floating-point operations of one run.
    pub flops: f64,
    /// Bytes read and written by one run.
    pub bytes: f64,
    /// Milliseconds of one run by the price of the plan.
    pub priced: Option<f64>,
    /// What bounds it by that price.
    pub bound: Option<String>,
    /// Milliseconds of one run as measured, at the least.
    pub measured: Option<f64>,
}

/// How a fused operator came about.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Walk {
    /// The value that it computes.
    pub name: String,
    /// The operator.
    pub operator: String,
    /// What the operator does.
    pub about: String,
    /// The line of the source, from zero.
    pub line: Option<usize>,
    /// How many equal blocks have one like it.
    pub times: usize,
    /// The rules, one after the other.
    pub steps: Vec<Step>,
}

/// A use of a rule.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Step {
    /// The rule.
    pub rule: String,
    /// In what sense its sides are equal.
    pub holds: String,
    /// The mathematics.
    pub why: String,
    /// What it found.
    pub before: String,
    /// What it put there.
    pub after: String,
    /// The line of the source, from zero.
    pub line: Option<usize>,
}

/// Which keys an attention visits.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Mask {
    /// The attention, the first of several with equal maps.
    pub name: String,
    /// How many attentions have these maps.
    pub times: usize,
    /// The kernel of the first, by position.
    pub kernel: usize,
    /// The keys of a row, as the plan says them.
    pub keys: String,
    /// What is known of the mask.
    pub about: String,
    /// The tiles at several lengths.
    pub maps: Vec<TileMap>,
}

/// The tiles of queries and keys at one length.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TileMap {
    /// Queries.
    pub queries: usize,
    /// Keys.
    pub keys: usize,
    /// Queries and keys of a tile.
    pub tile: usize,
    /// Tiles in a row of tiles.
    pub columns: usize,
    /// Row by row: `-` a tile that no query visits, `~` one of which some pairs count, `#` one of which all do.
    pub tiles: String,
    /// Pairs of a query and a key that the kernel does not visit, as a share of all.
    pub skipped: f64,
    /// Pairs that count, as a share of all, where the mask is known.
    pub kept: Option<f64>,
}

/// What a call works in.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Memory {
    /// The formula of the dimensions, line by line.
    pub formula: Vec<String>,
    /// The kernels of a call, in order.
    pub kernels: Vec<String>,
    /// What is stored between kernels.
    pub buffers: Vec<Buffer>,
}

/// What is stored between kernels.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Buffer {
    /// Its name.
    pub name: String,
    /// Bytes.
    pub bytes: u64,
    /// The kernel that writes it first, by position in [`Memory::kernels`].
    pub first: usize,
    /// The kernel that reads it last.
    pub last: usize,
}

/// The weights of a head.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Weights {
    /// The attention.
    pub attention: String,
    /// The head, if there are several.
    pub head: String,
    /// Rows of the map.
    pub rows: usize,
    /// Columns of the map.
    pub columns: usize,
    /// Queries in a row of the map.
    pub queries: usize,
    /// Keys in a column of the map.
    pub keys: usize,
    /// The greatest weight.
    pub high: f64,
    /// Row by row a byte for each cell, in base64: 255 is the greatest weight.
    pub cells: String,
    /// The queries' words, where there are some.
    pub row_labels: Vec<String>,
    /// The keys' words, where there are some.
    pub column_labels: Vec<String>,
}

const FRAME: &str = include_str!("page/frame.html");
const STYLE: &str = include_str!("page/style.css");
const SCRIPT: &str = include_str!("page/script.js");

/// The page of a report.
///
/// # Panics
/// Never: a page is strings and numbers, which JSON has.
pub fn html(page: &Page) -> String {
    let json = serde_json::to_string(page).expect("strings and numbers");
    // A script ends at the first `</`, whatever is around it.
    let json = json.replace("</", "<\\/").replace("<!--", "<\\u0021--");
    let title = escaped(&page.model);
    // The data comes last: nothing is looked for in it.
    FRAME
        .replace("{{title}}", &title)
        .replace("{{style}}", STYLE)
        .replace("{{script}}", SCRIPT)
        .replacen("{{data}}", &json, 1)
}

/// The JSON schema of the block.
#[cfg(feature = "schema")]
pub fn schema() -> serde_json::Value {
    schemars::schema_for!(Page).to_value()
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
