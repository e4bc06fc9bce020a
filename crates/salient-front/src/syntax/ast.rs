//! The syntax tree: what was written, with the place of every piece.
//!
//! Knows nothing of meaning: `x[i]` is a target with brackets, whether it reads a tensor or specialises a function.

pub use crate::source::Span;

/// A name with its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ident {
    /// The name.
    pub name: String,
    /// Where it stands.
    pub span: Span,
}

/// A file: its declarations in order.
#[derive(Clone, Debug)]
pub struct File {
    /// The declarations.
    pub items: Vec<Item>,
}

/// A declaration.
#[derive(Clone, Debug)]
pub enum Item {
    /// `import "FILE"`: the declarations of another file.
    Import(Text),
    /// `const NAME = VALUE`.
    Const(Const),
    /// A model, block or function.
    Function(Function),
}

/// A string literal.
#[derive(Clone, Debug)]
pub struct Text {
    /// What stands between the quotes.
    pub value: String,
    /// The literal with its quotes.
    pub span: Span,
}

/// `const NAME = VALUE`, known when compiling.
#[derive(Clone, Debug)]
pub struct Const {
    /// The documentation, line by line.
    pub docs: Vec<String>,
    /// The name.
    pub name: Ident,
    /// The value.
    pub value: Expr,
}

/// What a function may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An entry point: what the command line runs. May own parameters.
    Model,
    /// May own parameters, under the path of its call.
    Block,
    /// Pure.
    Fn,
}

impl Kind {
    /// The keyword.
    pub fn word(self) -> &'static str {
        match self {
            Kind::Model => "model",
            Kind::Block => "block",
            Kind::Fn => "fn",
        }
    }
}

/// A model, block or function.
#[derive(Clone, Debug)]
pub struct Function {
    /// The documentation, line by line.
    pub docs: Vec<String>,
    /// Which of the three.
    pub kind: Kind,
    /// Its name.
    pub name: Ident,
    /// What stands in brackets: known when compiling.
    pub statics: Vec<Static>,
    /// What stands in parentheses.
    pub params: Vec<Parameter>,
    /// The declared results, if any are.
    pub results: Option<Results>,
    /// The statements.
    pub body: Vec<Stmt>,
    /// From the keyword to the end of the header (before the body).
    pub span: Span,
    /// The braces with what stands between them.
    pub body_span: Span,
}

/// A parameter in brackets.
#[derive(Clone, Debug)]
pub struct Static {
    /// Its name.
    pub name: Ident,
    /// Whether it stands for an axis (`axis j`) or for a value.
    pub axis: bool,
    /// The value where the caller gives none.
    pub default: Option<Expr>,
}

/// A parameter in parentheses.
#[derive(Clone, Debug)]
pub struct Parameter {
    /// Its name.
    pub name: Ident,
    /// Its type; anything is taken where there is none.
    pub ty: Option<Type>,
    /// The value where the caller gives none.
    pub default: Option<Expr>,
}

/// The declared results of a function.
#[derive(Clone, Debug)]
pub enum Results {
    /// One, without a name.
    One(Type),
    /// Named ones.
    Named(Vec<NamedResult>),
}

/// `loss: f32`, `g: f32[D] as grad.weight`.
#[derive(Clone, Debug)]
pub struct NamedResult {
    /// Its name.
    pub name: Ident,
    /// Its type.
    pub ty: Type,
    /// What the result of a model is called, if not by its name.
    pub path: Option<Path>,
}

/// A type: `f32[B, T, D]`, `bool`, `fn`.
#[derive(Clone, Debug)]
pub struct Type {
    /// The element type's name, or `fn`.
    pub name: Ident,
    /// The dimensions; `None` is a scalar.
    pub shape: Option<Vec<Extent>>,
    /// The whole type.
    pub span: Span,
}

/// A dimension in a type.
#[derive(Clone, Debug)]
pub enum Extent {
    /// `..`: any number of leading dimensions.
    Rest(Span),
    /// A dimension, with a name for its axis where one is written.
    Dim(Option<Ident>, Expr),
}

/// A statement.
#[derive(Clone, Debug)]
pub struct Stmt {
    /// What it is.
    pub kind: StmtKind,
    /// All of it.
    pub span: Span,
}

/// What a statement is.
#[derive(Clone, Debug)]
pub enum StmtKind {
    /// `let TARGETS = VALUE`.
    Let(Vec<Target>, Expr),
    /// `TARGETS = VALUE`: gives existing names new values, as loops do.
    Assign(Vec<Target>, Expr),
    /// `param NAME: TYPE = INIT`.
    Param(Param),
    /// `state NAME: TYPE, …`.
    State(Vec<Cell>),
    /// `const NAME = VALUE`.
    Const(Const),
    /// `require CONDITION, "MESSAGE"`.
    Require(Expr, Option<Text>),
    /// `for NAME in LOW..HIGH { … }`, unrolled when compiling.
    For(Range, Vec<Stmt>),
    /// `for PARAMETER, GRADIENT in GRADIENTS { … }`, unrolled when compiling.
    Each(Each, Vec<Stmt>),
    /// `if CONDITION { … } else { … }`, decided when compiling.
    If(Expr, Vec<Stmt>, Vec<Stmt>),
    /// `return VALUES`.
    Return(Vec<Expr>),
}

/// A tensor that is kept between calls.
#[derive(Clone, Debug)]
pub struct Cell {
    /// Its name in the block.
    pub name: Ident,
    /// Its type before the call.
    pub ty: Type,
    /// What it is before the first call, where that is not zeros.
    pub init: Option<Expr>,
    /// The path under which it is held, where it is not the name.
    pub path: Option<Path>,
}

/// The left side of a definition.
#[derive(Clone, Debug)]
pub struct Target {
    /// The name defined.
    pub name: Ident,
    /// The indices of an indexed definition.
    pub indices: Option<Vec<Index>>,
    /// The declared type of a plain one.
    pub ty: Option<Type>,
}

/// An index on the left side of a definition, or bound by a reduction.
#[derive(Clone, Debug)]
pub enum Index {
    /// `..`: the leading axes, carried along.
    Rest(Span),
    /// `_`: an axis of extent one.
    Unit(Span),
    /// A name, with its extent where it is said.
    Name(Ident, Option<Expr>),
}

/// `param NAME: TYPE = INIT as PATH`.
#[derive(Clone, Debug)]
pub struct Param {
    /// The documentation, line by line.
    pub docs: Vec<String>,
    /// The name in the source, and in the checkpoint if no path says otherwise.
    pub name: Ident,
    /// Element type and shape.
    pub ty: Type,
    /// How it begins without a checkpoint.
    pub init: Option<Expr>,
    /// Its own path, relative to the block's.
    pub path: Option<Path>,
}

/// `NAME in LOW..HIGH`.
#[derive(Clone, Debug)]
pub struct Range {
    /// The loop's variable.
    pub name: Ident,
    /// First value.
    pub low: Expr,
    /// One past the last value.
    pub high: Expr,
}

/// `PARAMETER, GRADIENT in GRADIENTS`.
#[derive(Clone, Debug)]
pub struct Each {
    /// What a parameter is called in its round.
    pub parameter: Ident,
    /// What the gradient by it is called.
    pub gradient: Ident,
    /// The gradients by several parameters.
    pub of: Expr,
}

/// An expression.
#[derive(Clone, Debug)]
pub struct Expr {
    /// What it is.
    pub kind: ExprKind,
    /// All of it, with its parentheses.
    pub span: Span,
}

/// What an expression is.
#[derive(Clone, Debug)]
pub enum ExprKind {
    /// An integer literal.
    Int(i64),
    /// A float literal.
    Float(f64),
    /// `true`, `false`.
    Bool(bool),
    /// `inf`.
    Infinity,
    /// A string.
    Text(String),
    /// A name.
    Name(String),
    /// An operator with one operand.
    Unary(UnaryOp, Box<Expr>),
    /// An operator with two operands.
    Binary(BinaryOp, Box<Expr>, Box<Expr>),
    /// `a < b`, or a chain `a <= b < c`, which means `a <= b and b < c`.
    Compare(Box<Expr>, Vec<(CompareOp, Expr)>),
    /// `if CONDITION then A else B`.
    If(Box<Expr>, Box<Expr>, Box<Expr>),
    /// `TARGET(ARGUMENTS)`.
    Call(Box<Expr>, Vec<Argument>),
    /// `TARGET[ITEMS]`.
    Brackets(Box<Expr>, Vec<Bracket>),
    /// `TARGET.T`.
    Transpose(Box<Expr>),
    /// `TARGET as PATH`.
    As(Box<Expr>, Path),
    /// `parameters.PATH`, where `*` stands for any letters of a segment.
    Selection(Path),
}

/// What an expression is to a walk that follows names.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Scoping<'a> {
    /// A name.
    Name(&'a str),
    /// A call, which may bind indices for its arguments.
    Call(&'a Expr, &'a [Argument]),
    /// What is read at indices, or a function with what stands in its brackets.
    Brackets(&'a Expr, &'a [Bracket]),
    /// A call with the path of its parameters.
    As(&'a Expr, &'a Path),
    /// What is only made of its children.
    Made,
}

impl Expr {
    /// What it is to a walk that follows names.
    pub(crate) fn scoping(&self) -> Scoping<'_> {
        match &self.kind {
            ExprKind::Name(name) => Scoping::Name(name),
            ExprKind::Call(target, args) => Scoping::Call(target, args),
            ExprKind::Brackets(target, items) => Scoping::Brackets(target, items),
            ExprKind::As(call, path) => Scoping::As(call, path),
            ExprKind::Int(_) | ExprKind::Float(_) | ExprKind::Bool(_) | ExprKind::Infinity => Scoping::Made,
            ExprKind::Text(_) | ExprKind::Unary(..) | ExprKind::Binary(..) | ExprKind::Compare(..) => {
                Scoping::Made
            }
            ExprKind::If(..) | ExprKind::Selection(_) | ExprKind::Transpose(_) => Scoping::Made,
        }
    }

    /// The expressions directly inside this one, in the order of the text.
    pub fn children(&self) -> Vec<&Expr> {
        match &self.kind {
            ExprKind::Int(_) | ExprKind::Float(_) | ExprKind::Bool(_) => Vec::new(),
            ExprKind::Infinity | ExprKind::Text(_) | ExprKind::Name(_) => Vec::new(),
            ExprKind::Selection(path) => path.holes().collect(),
            ExprKind::Unary(_, x) | ExprKind::Transpose(x) | ExprKind::As(x, _) => vec![x],
            ExprKind::Binary(_, x, y) => vec![x, y],
            ExprKind::Compare(x, rest) => std::iter::once(&**x).chain(rest.iter().map(|(_, y)| y)).collect(),
            ExprKind::If(c, x, y) => vec![c, x, y],
            ExprKind::Call(target, args) => {
                std::iter::once(&**target).chain(args.iter().map(|a| &a.value)).collect()
            }
            ExprKind::Brackets(target, items) => {
                std::iter::once(&**target).chain(items.iter().flat_map(Bracket::values)).collect()
            }
        }
    }
}

impl Bracket {
    /// The expressions in it.
    fn values(&self) -> Vec<&Expr> {
        match self {
            Bracket::Rest(_) | Bracket::Unit(_) => Vec::new(),
            Bracket::Named(_, x) | Bracket::Value(x) => vec![x],
            Bracket::Colon(a, b, _) => a.iter().chain(b).collect(),
        }
    }
}

/// One item between brackets.
#[derive(Clone, Debug)]
pub enum Bracket {
    /// `..`.
    Rest(Span),
    /// `_`.
    Unit(Span),
    /// `NAME = VALUE`.
    Named(Ident, Expr),
    /// An index, a dimension, any value.
    Value(Expr),
    /// `LOW:HIGH` with either side left out; behind a reduction, `INDEX: EXTENT`.
    Colon(Option<Expr>, Option<Expr>, Span),
}

impl Bracket {
    /// Where it stands.
    pub fn span(&self) -> Span {
        match self {
            Bracket::Named(name, value) => name.span.to(value.span),
            Bracket::Value(value) => value.span,
            Bracket::Colon(_, _, span) | Bracket::Rest(span) | Bracket::Unit(span) => *span,
        }
    }
}

/// An argument in parentheses.
#[derive(Clone, Debug)]
pub struct Argument {
    /// The parameter's name, where it is said.
    pub name: Option<Ident>,
    /// The value.
    pub value: Expr,
    /// `VALUE for NAME in LOW..HIGH`: one argument for each value of the name.
    pub each: Option<Range>,
}

/// Operators with one operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnaryOp {
    /// `-x`
    Neg,
    /// `not x`
    Not,
}

/// Operators with two operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the signs below document each")]
pub enum BinaryOp {
    Or,
    And,
    Add,
    Sub,
    Mul,
    Div,
    Rem,
    Pow,
    MatMul,
}

impl BinaryOp {
    /// The operator as written.
    pub fn sign(self) -> &'static str {
        match self {
            BinaryOp::Or => "or",
            BinaryOp::And => "and",
            BinaryOp::Add => "+",
            BinaryOp::Sub => "-",
            BinaryOp::Mul => "*",
            BinaryOp::Div => "/",
            BinaryOp::Rem => "%",
            BinaryOp::Pow => "**",
            BinaryOp::MatMul => "@",
        }
    }
}

/// Comparisons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the signs below document each")]
pub enum CompareOp {
    Lt,
    Le,
    Gt,
    Ge,
    Eq,
    Ne,
}

impl CompareOp {
    /// The operator as written.
    pub fn sign(self) -> &'static str {
        match self {
            CompareOp::Lt => "<",
            CompareOp::Le => "<=",
            CompareOp::Gt => ">",
            CompareOp::Ge => ">=",
            CompareOp::Eq => "==",
            CompareOp::Ne => "!=",
        }
    }
}

/// A checkpoint path, segment by segment; a segment may hold expressions, as `{l}`.
#[derive(Clone, Debug)]
pub struct Path {
    /// The segments between the dots.
    pub segments: Vec<Vec<PathPart>>,
    /// All of it.
    pub span: Span,
}

/// A piece of a segment.
#[derive(Clone, Debug)]
pub enum PathPart {
    /// Text as it stands.
    Text(String),
    /// `{EXPR}`, an integer known when compiling.
    Hole(Expr),
}

impl Path {
    /// The expressions in it.
    pub fn holes(&self) -> impl Iterator<Item = &Expr> {
        self.segments.iter().flatten().filter_map(|part| match part {
            PathPart::Text(_) => None,
            PathPart::Hole(hole) => Some(hole),
        })
    }
}

impl File {
    /// The models of the file, in order.
    pub fn models(&self) -> impl Iterator<Item = &Function> {
        self.functions().filter(|f| f.kind == Kind::Model)
    }

    /// Every model, block and function, in order.
    pub fn functions(&self) -> impl Iterator<Item = &Function> {
        self.items.iter().filter_map(|item| match item {
            Item::Function(f) => Some(f),
            Item::Import(_) | Item::Const(_) => None,
        })
    }
}
