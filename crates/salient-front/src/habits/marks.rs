//! The signs and words of other languages, each with what to write instead.

use super::reading::Reading;
use super::{calls, finders, structure};

/// What is looked for at a token.
pub(super) enum Finds {
    /// Signs with nothing between them.
    Signs(&'static [&'static str]),
    /// A word that begins a line and has something behind it.
    Leads(&'static [&'static str]),
    /// What a function finds.
    By(fn(&Reading<'_>, usize) -> Option<Match>),
}

/// A place at which something is found.
pub(super) struct Match {
    /// Its first token.
    pub(super) from: usize,
    /// One past its last token.
    pub(super) to: usize,
    /// What the message calls it.
    pub(super) it: String,
    /// What to write instead.
    pub(super) write: String,
}

/// A habit: what to look for, the message, and what to do. `{it}` and `{write}` stand for what is found.
pub(super) struct Mark {
    pub(super) finds: Finds,
    pub(super) message: &'static str,
    pub(super) help: &'static str,
}

const fn sign(signs: &'static [&'static str], message: &'static str, help: &'static str) -> Mark {
    Mark { finds: Finds::Signs(signs), message, help }
}

const fn leads(words: &'static [&'static str], message: &'static str, help: &'static str) -> Mark {
    Mark { finds: Finds::Leads(words), message, help }
}

const fn by(
    find: fn(&Reading<'_>, usize) -> Option<Match>,
    message: &'static str,
    help: &'static str,
) -> Mark {
    Mark { finds: Finds::By(find), message, help }
}

pub(super) const WRITE: &str = "write `{write}`";
const NO_OPERATOR: &str = "`{it}` is no operator";
const NO_STATEMENT: &str = "there is no `{it}` statement";
const A_DECLARATION: &str =
    "a function is `fn name(x) { return … }`, what is compiled is a `model`, what owns parameters a `block`";

/// Every habit; the first that is found at a token counts.
pub(super) const MARKS: &[Mark] = &[
    // ---- comments and texts
    by(calls::number_of_text, "`float` takes no text", WRITE),
    by(finders::block_comment, "`/*` begins no comment", "a comment is `//` up to the end of its line"),
    by(finders::hash, "`#` begins no comment", "a comment is `//` up to the end of its line"),
    by(finders::quotes, "`{it}` is no quotation mark", "a text stands in straight quotes: `\"layers.attn\"`"),
    sign(&["\\"], "`\\` continues no line", "a line break means nothing: leave the `\\` out"),
    sign(&["`"], "a backtick means nothing", "leave it out"),
    // ---- declarations
    by(
        finders::python_import,
        "there is no module to import",
        "what the library has is known without an import; `import \"FILE.attn\"` brings a file",
    ),
    by(
        finders::class,
        "there are no classes",
        "layers with parameters are a `block`: `block layer[H](x: f32[.., D]) -> f32[.., D] { … }`",
    ),
    by(finders::function, "`{it}` declares no function", A_DECLARATION),
    by(finders::result_by_colon, "the type of a result stands behind `->`", WRITE),
    by(finders::body_by_colon, "a body stands in braces", WRITE),
    leads(&["@"], "there are no decorators", "leave it out"),
    // ---- statements
    by(finders::loop_, "a loop goes over a range of numbers, in braces", WRITE),
    by(finders::python_if, "a choice between statements stands in braces", WRITE),
    by(
        finders::while_,
        "a loop has a number of rounds that is known when compiling",
        "write `for i in 0..3 { … }`",
    ),
    leads(&["elif", "elsif"], "`{it}` is no word of the language", "write `} else if c { … }`"),
    leads(&["assert"], NO_STATEMENT, "what dimensions must satisfy is `require D % H == 0`"),
    leads(
        &["pass", "break", "continue", "del", "global", "yield", "raise", "with", "try"],
        NO_STATEMENT,
        "leave it out: a body has definitions, `for`, `if`, `require` and `return`",
    ),
    by(
        finders::print,
        "nothing is printed while a model runs",
        "return the value as a result, or look at it with `salient run`",
    ),
    by(finders::declared_by_word, "a definition begins with `let`", WRITE),
    by(
        structure::no_name,
        "`{it}` can be no name",
        "a name is letters, digits and `_`, and no word of the language: write `{write}`",
    ),
    by(finders::mutable, "every name can be given a new value", WRITE),
    by(finders::compound, "`{it}` is no operator", WRITE),
    by(finders::increment, "`{it}` is no operator", WRITE),
    by(finders::element_assigned, "no element of a tensor can be assigned", WRITE),
    sign(&[":", "="], "`:=` is no operator", "a definition is `let y = x`"),
    sign(&[";"], "a statement needs no `;`", "leave it out"),
    // ---- functions without names
    by(finders::lambda, "a function needs a name", WRITE),
    // ---- choices
    by(finders::ternary, "a choice between values is `if`, `then`, `else`", WRITE),
    by(finders::python_choice, "a choice between values is `if`, `then`, `else`", WRITE),
    by(structure::choice_by_colon, "a choice between values is `if`, `then`, `else`", WRITE),
    by(finders::braced_choice, "a choice between values is `if`, `then`, `else`", WRITE),
    // ---- methods, modules and the arguments of functions
    by(calls::dotted, "{it}", "{write}"),
    by(calls::foreign, "{it}", "{write}"),
    by(finders::magnitude, "`|` is no operator", WRITE),
    // ---- brackets
    sign(&["..", "."], "`...` is one point too many", "all axes that are left are `..`: `x[.., 0]`"),
    sign(&["…"], "`…` is no operator", "all axes that are left are `..`: `x[.., 0]`"),
    by(finders::stepped, "a slice has no step", WRITE),
    by(finders::tuple, "there are no tuples", WRITE),
    by(finders::list, "there are no lists", WRITE),
    // ---- numbers
    by(finders::suffix, "a number has no suffix", WRITE),
    by(finders::number_times, "a product has a sign between its factors", WRITE),
    by(finders::point, "a number has digits on both sides of its point", WRITE),
    // ---- types
    by(structure::cast, "a value is converted by a function", WRITE),
    // ---- operators
    sign(&["|", ">"], "`|>` is no operator", "a function is called with its arguments: `softmax(x)`"),
    by(structure::power_of_transpose, "`^` is no operator", WRITE),
    sign(&["&", "&"], "`&&` is no operator", "write `and`"),
    sign(&["|", "|"], "`||` is no operator", "write `or`"),
    sign(&["<", ">"], "`<>` is no operator", "write `!=`"),
    sign(&["==", "="], "`===` is no operator", "write `==`"),
    sign(&["!=", "="], "`!==` is no operator", "write `!=`"),
    sign(&["=", "<"], "`=<` is no operator", "write `<=`"),
    sign(&["=", ">"], "`=>` is no operator", "write `>=`; a function has a name: `fn f(x) { return … }`"),
    sign(&["<", "-"], "`<-` is no operator", "a definition is `let y = x`"),
    by(finders::is_none, "`None` is not known", super::NO_NULL),
    by(finders::is_, NO_OPERATOR, WRITE),
    by(finders::bang, "`!` is no operator", WRITE),
    sign(&["&"], NO_OPERATOR, "write `and`"),
    sign(&["|"], NO_OPERATOR, "write `or`"),
    sign(&["~"], NO_OPERATOR, "write `not`"),
    sign(&["^"], NO_OPERATOR, "a power is written `**`"),
    sign(&["×"], NO_OPERATOR, "write `*`"),
    sign(&["·"], NO_OPERATOR, "write `*`, or `@` for a product of matrices"),
    sign(&["÷"], NO_OPERATOR, "write `/`"),
    sign(&["−"], NO_OPERATOR, "write `-`"),
    sign(&["–"], NO_OPERATOR, "write `-`"),
    sign(&["≤"], NO_OPERATOR, "write `<=`"),
    sign(&["≥"], NO_OPERATOR, "write `>=`"),
    sign(&["≠"], NO_OPERATOR, "write `!=`"),
    sign(&["²"], NO_OPERATOR, "write `** 2`"),
    sign(&["√"], NO_OPERATOR, "write `sqrt(x)`"),
    sign(&["∞"], "`∞` is no number", "write `inf`"),
    sign(&["∑"], NO_OPERATOR, "write `sum[i](x[i])`"),
    sign(&["\u{a0}"], "this space is none that the language knows", "write an ordinary space"),
    sign(&["$"], "`$` means nothing", "leave it out"),
    sign(&["?"], "`?` means nothing", "leave it out"),
    by(
        structure::side_by_side,
        "two values stand side by side",
        "an operator or a comma is missing, as in `{write}`",
    ),
];

/// What the grammar expected something else than, where no habit is found: by the text that stands there.
pub(super) const MISPLACED: &[(&str, &str)] = &[
    ("///", "documentation (`///`) stands before a declaration or a `param`; elsewhere write `//`"),
    ("=", "`==` compares; `=` defines"),
    ("then", "a choice between values is `if a then b else c`; between statements `if a { … } else { … }`"),
    ("else", "a choice between values is `if a then b else c`; between statements `if a { … } else { … }`"),
    ("{", "a choice between values is `if a then b else c`, without braces"),
    ("axis", crate::diag::AXIS_IN_BRACKETS),
    (".", "`.T` is the only thing that may follow a dot"),
    (",", "what a comma parts stands on both sides of it"),
    ("->", "the type of a result stands behind the parameters: `fn f(x: f32[T]) -> f32[T] { … }`"),
    (":", "a type stands behind the name that is declared, as in `let y: f32[T] = x`"),
];
