//! Syntax tree to graph: functions are inlined, loops unrolled, dimensions bound, operators checked and built.
//!
//! One walk does all of it, because what a name means here (an axis, a dimension, a tensor) depends on values that only
//! the walk knows. The pieces: [`model`] (inputs, parameters, outputs), [`stmt`] (statements), [`state`] (what is kept between calls), [`expr`] (expressions), [`call`] (functions and
//! operators by name), [`unify`] (types against values), [`index`] (brackets and bound indices), [`uses`] (how indices are used), [`align`]
//! (broadcasting, products), [`arith`] (element types, constants), [`axes`] (names of axes). Optimises nothing.

mod align;
mod arith;
mod axes;
mod call;
mod expr;
mod index;
mod lost;
mod model;
mod read;
mod state;
mod stmt;
mod unify;
mod uses;

use crate::diag::Diagnostic;
use crate::program::Program;
use crate::source::{Sources, Span};
use crate::syntax::ast::{Function, Results, Type};
use crate::value::{Slot, Tensor, Value};
pub use call::step::DRAW_STEP;
use lost::{Outside, Role};
pub use model::inner::Inner;
pub use model::shapes::{Shape, Shapes};
use salient_ir::stack;
use salient_ir::{
    AxisId, AxisSet, Builder, DType, Dim, Graph, Name, NodeId, Op, Origin, Relation, TypeError,
};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

/// Functions in functions, at most.
const MAX_CALLS: usize = 64;
/// Expressions in expressions over all functions, at most. The walk runs on a stack of its own: see [`STACK`].
const MAX_DEPTH: usize = 2000;
/// Bytes of stack for the walk; only what is used is ever touched.
const STACK: usize = 256 << 20;
/// Nodes of a graph, at most: a loop that unrolls without end is refused.
const MAX_NODES: usize = 1 << 20;

/// Operators of which each reads the one before, at most: walks of a graph are as deep.
const MAX_CHAIN: usize = 1 << 17;

/// What the caller decides instead of the source: values of dimensions and of parameters in brackets.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Name and value, as on the command line: `T` and `128`.
    pub set: Vec<(String, String)>,
    /// The seed of what is drawn while training; none at inference.
    pub train: Option<u32>,
    /// Values inside of the model that are to be results too: their paths, or the ends of them; `*` stands for any letters.
    pub inner: Vec<String>,
    /// What gives a loss the form in which `grad` differentiates it: an equal graph of the same ports. Without it a loss is
    /// differentiated as it is written.
    pub normal_form: Option<fn(&Graph) -> Graph>,
}

/// A model as a graph, with what is worth saying about it.
#[derive(Debug)]
pub struct Lowered {
    /// The graph, verified.
    pub graph: Graph,
    /// Warnings.
    pub warnings: Vec<Diagnostic>,
    /// The values inside of the model that were asked for.
    pub inner: Vec<Inner>,
}

/// Why an expression has no value.
pub(crate) enum Fail {
    /// For a reason yet to be reported.
    Report(Box<Diagnostic>),
    /// For a reason that has been reported.
    Reported,
}

impl From<Diagnostic> for Fail {
    fn from(d: Diagnostic) -> Fail {
        Fail::Report(Box::new(d))
    }
}

pub(crate) type Eval<T> = Result<T, Fail>;

/// A name's value in a function.
#[derive(Clone)]
struct Var<'a> {
    value: Value<'a>,
    span: Span,
    role: Role,
}

/// An index in scope.
#[derive(Clone)]
struct ScopedIndex {
    name: String,
    /// None while nothing says how long it is.
    axis: Option<AxisId>,
    /// Whether something would say it that has been refused before.
    refused: bool,
    /// Whether its extent was written, and not taken from a use.
    explicit: bool,
    /// What says how long it is.
    from: Span,
}

/// A function at work.
struct Frame<'a> {
    decl: Option<&'a Function>,
    library: bool,
    scopes: Vec<BTreeMap<String, Var<'a>>>,
    indices: Vec<ScopedIndex>,
    /// The path under which parameters are declared here.
    path: Vec<String>,
    /// Axes of the caller that arguments carry along.
    carried: AxisSet,
    /// Where it was called.
    call: Option<Span>,
    results: Option<Vec<(Value<'a>, Span)>>,
    /// The states that it declares and has not yet given their next values.
    states: Vec<state::Open>,
    /// The rounds of loops over gradients at work, outermost first.
    moving: Vec<call::step::Round>,
    /// The dimensions for which `..` stands in the types of its arguments, and where the first such argument is.
    rest: Option<(Vec<Dim>, Span)>,
}

/// A declared parameter.
struct Weight {
    node: Option<NodeId>,
    pos: Vec<Slot>,
    dims: Vec<Dim>,
    dtype: DType,
    span: Span,
    call: Option<Span>,
    /// Whether its path was written at the declaration, so that sharing it is meant.
    explicit: bool,
    /// In which rounds of the loops around.
    rounds: Vec<i64>,
}

struct Lowerer<'a, 's> {
    sources: &'s Sources,
    program: &'s Program<'a>,
    settings: &'s Settings,
    b: Builder,
    frames: Vec<Frame<'a>>,
    constants: BTreeMap<String, Var<'a>>,
    weights: BTreeMap<String, Weight>,
    states: Vec<state::Held>,
    /// The new values of parameters.
    moves: Vec<call::step::Move>,
    /// The parameters that have some, once these are results.
    moved: Vec<call::step::Moved>,
    /// The lengths that states have by themselves, and where the first is declared.
    lengths: BTreeMap<String, Span>,
    /// What `--set` may name: the model's brackets and the dimensions in its types.
    settable: BTreeSet<String>,
    /// The functions that were at work at some time.
    reached: BTreeSet<String>,
    errors: Vec<Diagnostic>,
    warnings: Vec<Diagnostic>,
    depth: usize,
    /// Choices around the expression at hand: what an index reads there may be excluded elsewhere.
    guards: usize,
    /// Above zero while an expression is tried for its shape only: what fails then is no one's mistake yet.
    trials: usize,
    /// Losses in the forms in which they are differentiated.
    normal_forms: BTreeMap<NodeId, NodeId>,
    /// Places at which numbers are drawn, so far.
    draws: i64,
    /// The rounds of the loops at work, outermost first.
    rounds: Vec<i64>,
    /// Inputs and values of the user's functions, by where they are made.
    made: BTreeMap<Span, (String, Role)>,
    /// Where what was read so far was made.
    read: RefCell<BTreeSet<Span>>,
    /// Indices that leave their axis.
    outside: Vec<Outside>,
    /// What definitions gave, where values are asked for.
    defined: Vec<model::inner::Defined>,
    /// The values that were asked for.
    inner: Vec<Inner>,
    /// What places of the text are, where that is asked for.
    shapes: Option<Shapes>,
}

/// As [`lower`], noting what places of the text are.
pub(crate) fn lower_noting<'a>(
    sources: &Sources,
    program: &Program<'a>,
    model: &'a Function,
    settings: &Settings,
    shapes: &mut Shapes,
) -> (Result<Lowered, Vec<Diagnostic>>, BTreeSet<String>) {
    let known = std::mem::take(shapes);
    let (lowered, reached, noted) = lower_model(sources, program, model, settings, Some(known));
    *shapes = noted.unwrap_or_default();
    (lowered, reached)
}

/// Lowers a model; also names the functions that it reaches. Runs with a stack of [`STACK`] bytes, so that no input overflows the caller's.
pub(crate) fn lower<'a>(
    sources: &Sources,
    program: &Program<'a>,
    model: &'a Function,
    settings: &Settings,
) -> (Result<Lowered, Vec<Diagnostic>>, BTreeSet<String>) {
    let (lowered, reached, _) = lower_model(sources, program, model, settings, None);
    (lowered, reached)
}

fn lower_model<'a>(
    sources: &Sources,
    program: &Program<'a>,
    model: &'a Function,
    settings: &Settings,
    shapes: Option<Shapes>,
) -> (Result<Lowered, Vec<Diagnostic>>, BTreeSet<String>, Option<Shapes>) {
    let lowered = stack::with_stack(STACK, || {
        let mut lowerer = Lowerer {
            sources,
            program,
            settings,
            b: Builder::new(&model.name.name),
            frames: Vec::new(),
            constants: BTreeMap::new(),
            weights: BTreeMap::new(),
            states: Vec::new(),
            moves: Vec::new(),
            moved: Vec::new(),
            lengths: BTreeMap::new(),
            settable: BTreeSet::new(),
            reached: BTreeSet::new(),
            errors: Vec::new(),
            warnings: Vec::new(),
            depth: 0,
            guards: 0,
            trials: 0,
            normal_forms: BTreeMap::new(),
            draws: 0,
            rounds: Vec::new(),
            made: BTreeMap::new(),
            read: RefCell::new(BTreeSet::new()),
            outside: Vec::new(),
            defined: Vec::new(),
            inner: Vec::new(),
            shapes,
        };
        lowerer.constants();
        lowerer.model(model);
        lowerer.unread();
        let reached = std::mem::take(&mut lowerer.reached);
        let shapes = lowerer.shapes.take();
        (lowerer.finish(), reached, shapes)
    });
    lowered.unwrap_or_else(|e| {
        let fault = Diagnostic::placeless(format!("no thread could be started: {e}"));
        (Err(vec![fault]), BTreeSet::new(), None)
    })
}

impl<'a> Lowerer<'a, '_> {
    fn finish(self) -> Result<Lowered, Vec<Diagnostic>> {
        if !self.errors.is_empty() {
            return Err(self.errors);
        }
        let graph = call::step::moved(model::units::without_unit_indices(self.b.finish()), &self.moved);
        let beyond = beyond_limits(&graph, self.sources);
        if !beyond.is_empty() {
            return Err(beyond);
        }
        let faults = salient_ir::verify::verify(&graph);
        assert!(faults.is_empty(), "lowering made a graph that is not well-formed: {faults:?}");
        Ok(Lowered { graph, warnings: self.warnings, inner: self.inner })
    }

    fn frame(&mut self) -> &mut Frame<'a> {
        self.frames.last_mut().expect("a function is at work")
    }

    fn here(&self) -> &Frame<'a> {
        self.frames.last().expect("a function is at work")
    }

    /// Where something was written, as users are told: for what a function of the library does, where they call that.
    fn place(&self, span: Span) -> Span {
        let library = self.frames.iter().rev().take_while(|frame| frame.library);
        library.last().and_then(|frame| frame.call).unwrap_or(span)
    }

    fn lookup(&self, name: &str) -> Option<&Var<'a>> {
        let frame = self.here();
        frame.scopes.iter().rev().find_map(|s| s.get(name)).or_else(|| self.constants.get(name))
    }

    fn define(&mut self, name: &str, value: Value<'a>, span: Span) {
        self.define_as(name, value, span, Role::Other);
    }

    fn define_as(&mut self, name: &str, value: Value<'a>, span: Span, role: Role) {
        // An argument's place is in the call, which has noted what stands there.
        if role != Role::Argument {
            self.note_shape(span, &value);
        }
        let scope = self.frame().scopes.last_mut().expect("a function has a scope");
        scope.insert(name.to_owned(), Var { value, span, role });
    }

    /// Reports a failure, with the calls that led to it.
    fn report(&mut self, fail: Fail) {
        let Fail::Report(mut d) = fail else { return };
        if self.trials > 0 {
            return;
        }
        for n in (0..self.frames.len()).rev() {
            let Some(call) = self.frames[n].call else { continue };
            let name = self.frames[n].decl.map_or("", |f| f.name.name.as_str());
            // A mistake inside the library is the caller's: it is shown where the caller made it.
            let inner = self.frames[n].library && !self.frames[n - 1].library;
            if inner
                && let Some((place, words)) = d.primary.replace((call, format!("in this call of `{name}`")))
            {
                d.secondary.insert(0, (place, words));
            } else if !self.frames[n].library && d.secondary.len() < 4 {
                *d = d.also(call, format!("in this call of `{name}`"));
            }
        }
        let known = |o: &Diagnostic| {
            o.message == d.message && o.primary.as_ref().map(|p| p.0) == d.primary.as_ref().map(|p| p.0)
        };
        if !self.errors.iter().any(known) {
            self.errors.push(*d);
        }
    }

    fn warn(&mut self, d: Diagnostic) {
        if self.trials == 0 && !self.warnings.contains(&d) {
            self.warnings.push(d);
        }
    }

    /// Runs `f`; what it reports is dropped. For finding out a shape.
    fn trial<T>(&mut self, f: impl FnOnce(&mut Self) -> Eval<T>) -> Option<T> {
        self.trials += 1;
        let draws = self.draws;
        let out = f(self).ok();
        self.trials -= 1;
        self.draws = draws;
        out
    }

    /// Gives every node made since `before` the place that made it.
    fn locate(&mut self, before: usize, span: Span) {
        if self.here().library {
            return;
        }
        let made = self.b.len() - before;
        let ids: Vec<NodeId> = self.b.ids().rev().take(made).collect();
        for id in ids {
            self.b.describe(id, None, Some(span.origin()));
        }
    }

    /// Gives a tensor's node the name of the definition that made it; the library's own names stay its own.
    fn name_node(&mut self, tensor: &Tensor, name: &str, span: Span) {
        if !self.here().library {
            self.b.describe(tensor.node, Some(&Name::from(name)), Some(span.origin()));
        }
    }

    // ---- axes

    fn extent(&self, slot: &Slot) -> Dim {
        slot.axis.map_or(Dim::constant(1), |a| self.b.extent(a).clone())
    }

    /// The shape of a tensor as text: `f32[T, D]`, and the free indices of an indexed expression.
    fn shape_text(&self, t: &Tensor) -> String {
        let dims: Vec<_> = t.pos.iter().map(|s| self.extent(s).to_string()).collect();
        let by_name: Vec<_> = t.named.iter().filter_map(|s| s.label.as_deref()).collect();
        let dtype = self.b.node(t.node).dtype;
        let shape = if dims.is_empty() { dtype.to_string() } else { format!("{dtype}[{}]", dims.join(", ")) };
        match by_name.as_slice() {
            [] => shape,
            names => format!("{shape} for each {}", names.join(", ")),
        }
    }

    fn dtype(&self, t: &Tensor) -> DType {
        self.b.node(t.node).dtype
    }

    fn describe(&self, value: &Value<'a>) -> String {
        value.as_tensor().map_or_else(|| value.describe(), |t| self.shape_text(t))
    }
}

/// What of a graph later steps need not be able to take: dimensions beyond limits that nobody wrote in one expression, and
/// values that depend on each other over too many operators.
fn beyond_limits(graph: &Graph, sources: &Sources) -> Vec<Diagnostic> {
    let mut out: Vec<Diagnostic> = Vec::new();
    let mut refuse = |origin: Option<Origin>, message: String| {
        let found = match origin {
            Some(origin) => Diagnostic::error(sources.span(origin), message),
            None => Diagnostic::placeless(message),
        };
        if !out.contains(&found) {
            out.push(found);
        }
    };
    for id in graph.ids() {
        let node = graph.node(id);
        let own = if let Op::Extent(dim) = &node.op { dim.limit() } else { None };
        if let Some(limit) = own {
            refuse(node.origin, format!("this integer is too large: it has {limit}"));
        }
        let axes = node.axes.iter().map(|a| graph.axis(a));
        for (axis, limit) in axes.filter_map(|axis| Some((axis, axis.extent.limit()?))) {
            refuse(node.origin, format!("the axis `{}` is too long: its length has {limit}", axis.name));
        }
    }
    for required in graph.requirements() {
        let (Relation::Equal(a, b) | Relation::Divides(a, b) | Relation::AtMost(a, b)) = &required.relation;
        if let Some(limit) = a.limit().or_else(|| b.limit()) {
            refuse(required.origin, format!("this requirement is about an integer that has {limit}"));
        }
    }
    if graph.depth() > MAX_CHAIN {
        refuse(
            None,
            format!("this program is too deep: more than {MAX_CHAIN} operators, each reading the one before"),
        );
    }
    out
}

/// A typing error of the graph at a place. What lowering checks itself it says better.
fn typing(span: Span) -> impl Fn(TypeError) -> Fail {
    move |e| Diagnostic::error(span, e.to_string()).into()
}

/// The types that a function declares for its results.
fn result_types(f: &Function) -> Vec<&Type> {
    match &f.results {
        Some(Results::Named(list)) => list.iter().map(|result| &result.ty).collect(),
        Some(Results::One(ty)) => vec![ty],
        None => Vec::new(),
    }
}
