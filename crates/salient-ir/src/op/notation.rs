//! How operators are written.

/// How tightly an operator binds in text: an operand that binds less stands in parentheses.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[expect(missing_docs, reason = "from the loosest to the tightest")]
pub enum Binding {
    Choice,
    Or,
    And,
    Not,
    Comparison,
    Sum,
    Product,
    Sign,
    Power,
    Atom,
}

/// How an operator is written in text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notation {
    /// By its name, `name(arguments)`, as a function of one number that the documents and the editors name.
    Function,
    /// By its name, which stands elsewhere in the documents or only in dumps.
    Call,
    /// As a sign between its arguments, or before its only one.
    Sign(&'static str, Binding),
    /// `if … then … else …`.
    Choice,
}
