//! Dimensions from shapes: unifies the declared shapes of inputs and parameters with those of the arrays given.
//!
//! Works on shapes alone and never on elements. Dimensions are solved one unknown at a time (`T`, then `3 * D`, then
//! what those make solvable, such as `D / H`) until nothing changes; then every axis is checked, so that a clash is
//! reported with where the other value came from. Nothing is guessed: what no tensor determines is a fault.

use crate::report::fault::{Fault, Place, Side, Source, Tensor};
use salient_front::diag::nearest;
use salient_ir::{AxisId, Bindings, Dim, DimNode, Graph, Name, Op, Origin, Port, Relation, Symbol};
use std::collections::{BTreeMap, BTreeSet};

/// The shape of a tensor that was given, by its name.
pub(crate) type Shapes<'a> = BTreeMap<&'a str, &'a [usize]>;

/// The type of a port as declared: `f32[T, D]`.
pub(crate) fn declared(graph: &Graph, port: &Port) -> String {
    let dims: Vec<String> = graph.shape(&port.axes).iter().map(Dim::to_string).collect();
    format!("{}[{}]", port.dtype, dims.join(", "))
}

/// Every dimension that must have a value before a graph can run, sorted.
pub(crate) fn dimensions(graph: &Graph) -> BTreeSet<Name> {
    let mut out = graph.dimensions();
    for id in graph.ids() {
        out.extend(graph.node(id).axes.iter().flat_map(|a| graph.extent(a).dimensions()));
        if let Op::Extent(dim) = graph.op(id) {
            out.extend(dim.dimensions());
        }
    }
    for requirement in graph.requirements() {
        match &requirement.relation {
            Relation::Equal(a, b) | Relation::Divides(a, b) | Relation::AtMost(a, b) => {
                out.extend(a.dimensions());
                out.extend(b.dimensions());
            }
        }
    }
    out
}

/// The length of every dimension of the graph, or everything that is wrong with the tensors' names and shapes.
///
/// `set` fixes some. A state may be absent: it is zeros, or empty if it grows. A parameter may be absent if `absent_params` says so (it will be initialised); its shape is
/// then no source of dimensions.
pub(crate) fn bind(
    graph: &Graph,
    inputs: &Shapes<'_>,
    params: &Shapes<'_>,
    set: &Bindings,
    absent_params: bool,
) -> Result<Bindings, Vec<Fault>> {
    let mut faults = Vec::new();
    let mut given = Vec::new();
    let state = |at: usize| graph.states().iter().any(|s| s.input == at);
    names(graph, Side::Input, graph.inputs(), inputs, &state, &mut faults);
    names(graph, Side::Param, graph.params(), params, &|_| absent_params, &mut faults);
    // What is held comes first: a length that does not fit it is the input's mistake.
    let (held, new): (Vec<_>, Vec<_>) = graph.inputs().iter().enumerate().partition(|(n, _)| state(*n));
    let held = held.into_iter().map(|(_, p)| (Side::State, p, inputs));
    let new = new.into_iter().map(|(_, p)| (Side::Input, p, inputs));
    let params = graph.params().iter().map(|p| (Side::Param, p, params));
    for (side, port, shapes) in held.chain(new).chain(params) {
        let Some(shape) = shapes.get(&*port.name) else { continue };
        let tensor = Tensor { side, name: port.name.clone() };
        if shape.len() == port.axes.len() {
            let dims = graph.shape(&port.axes);
            given.extend(dims.into_iter().zip(*shape).enumerate().map(|(axis, (dim, found))| Equation {
                tensor: tensor.clone(),
                axis,
                dim,
                found: *found,
                origin: port.origin,
            }));
        } else {
            let (declared, found) = (declared(graph, port), shape.to_vec());
            faults.push(Fault::Rank { tensor, declared, found, place: port.origin.into() });
        }
    }
    let wanted = dimensions(graph);
    // A model whose states are not given holds nothing yet.
    let held: BTreeSet<Name> = graph.growths().into_iter().map(|g| g.held).collect();
    let mut known = Known::default();
    for (name, value) in set {
        if wanted.contains(name) {
            known.add(name.clone(), *value, Source::Set);
        } else {
            faults
                .push(Fault::NoSuchDimension { name: name.clone(), known: wanted.iter().cloned().collect() });
        }
    }
    known.solve(&given);
    for name in held.iter().filter(|n| !known.values.contains_key(*n)).cloned().collect::<Vec<_>>() {
        known.add(name, 0, Source::Reset);
    }
    known.solve(&given);
    faults.extend(given.iter().filter_map(|g| known.check(g)));
    let unknown: Vec<Name> = wanted.iter().filter(|n| !known.values.contains_key(*n)).cloned().collect();
    // With a tensor missing or of the wrong rank, what it would have determined is not worth a second message.
    if !unknown.is_empty() && faults.is_empty() {
        faults.push(Fault::Undetermined(unknown));
    }
    if faults.is_empty() {
        faults.extend(relations(graph, &known.values));
    }
    if faults.is_empty() { Ok(known.values) } else { Err(faults) }
}

/// Tensors that are missing and tensors that the model does not have, each with the nearest of the other kind.
fn names(
    graph: &Graph,
    side: Side,
    ports: &[Port],
    shapes: &Shapes<'_>,
    may_be_absent: &dyn Fn(usize) -> bool,
    faults: &mut Vec<Fault>,
) {
    let known: Vec<Name> = ports.iter().map(|p| p.name.clone()).collect();
    let absent =
        ports.iter().enumerate().filter(|(n, p)| !may_be_absent(*n) && !shapes.contains_key(&*p.name));
    let extra: Vec<&str> = shapes.keys().copied().filter(|n| !known.iter().any(|k| **k == **n)).collect();
    for (_, port) in absent {
        faults.push(Fault::Missing {
            tensor: Tensor { side, name: port.name.clone() },
            declared: declared(graph, port),
            nearest: nearest(&port.name, extra.iter().copied()).map(str::to_owned),
        });
    }
    for name in extra {
        let candidates = known.iter().map(|n| &**n);
        faults.push(Fault::Unknown {
            tensor: Tensor { side, name: name.into() },
            nearest: nearest(name, candidates).map(str::to_owned),
            known: known.clone(),
        });
    }
}

/// Relations that the model requires, and extents that come out negative or not at all.
pub(crate) fn relations(graph: &Graph, bindings: &Bindings) -> Vec<Fault> {
    let unmet = graph.requirements().iter().filter_map(|r| {
        let sentence = r.check(bindings).err()?;
        Some(Fault::Requirement { sentence, place: r.origin.into() })
    });
    let mut faults: Vec<Fault> = unmet.collect();
    for axis in extents(graph) {
        let dim = graph.extent(axis);
        let problem = match dim.eval(bindings) {
            Ok(n) if n >= 0 => continue,
            Ok(n) => format!("the axis `{}` would have the length {dim} = {n}", graph.axis(axis).name),
            Err(error) => error.to_string(),
        };
        let fault = Fault::Dimension { sentence: problem, place: defined_in(graph, axis).into() };
        if !faults.contains(&fault) {
            faults.push(fault);
        }
    }
    faults
}

/// Where the first value with an axis was written.
fn defined_in(graph: &Graph, axis: AxisId) -> Option<Origin> {
    let ports = graph.inputs().iter().chain(graph.params());
    let port = ports.filter(|port| port.axes.contains(&axis)).find_map(|port| port.origin);
    let nodes = || graph.ids().map(|id| graph.node(id)).filter(|node| node.axes.contains(axis));
    port.or_else(|| nodes().find_map(|node| node.origin))
}

/// The axes whose lengths must not be negative.
pub(crate) fn extents(graph: &Graph) -> BTreeSet<AxisId> {
    let ports = graph.inputs().iter().chain(graph.params()).flat_map(|p| p.axes.iter().copied());
    let outputs = graph.outputs().iter().flat_map(|o| o.axes.iter().copied());
    let nodes = graph.ids().flat_map(|id| graph.node(id).axes.iter().collect::<Vec<_>>());
    nodes.chain(ports).chain(outputs).collect()
}

/// The symbols that the shapes of parameters give, and those that were set.
pub(crate) fn fixed(graph: &Graph, params: &Shapes<'_>, set: &Bindings) -> Bindings {
    let mut known = Known::default();
    set.iter().for_each(|(name, value)| known.add(name.clone(), *value, Source::Set));
    let shapes = graph.params().iter().filter_map(|port| Some((port, params.get(&*port.name)?)));
    let axes = shapes.flat_map(|(port, shape)| {
        let tensor = Tensor { side: Side::Param, name: port.name.clone() };
        let (origin, dims) = (port.origin, graph.shape(&port.axes).into_iter().zip(*shape).enumerate());
        let tensor = move || tensor.clone();
        dims.map(move |(axis, (dim, found))| Equation { tensor: tensor(), axis, dim, found: *found, origin })
    });
    known.solve(&axes.collect::<Vec<Equation>>());
    known.values
}

/// One axis of one tensor: `dim` must be `found`.
struct Equation {
    tensor: Tensor,
    axis: usize,
    dim: Dim,
    found: usize,
    /// Where the tensor is declared.
    origin: Option<Origin>,
}

/// What is known of the dimensions, and from where.
#[derive(Default)]
struct Known {
    values: Bindings,
    sources: BTreeMap<Name, Source>,
    dims: BTreeMap<Symbol, Dim>,
}

impl Known {
    fn add(&mut self, name: Name, value: i64, source: Source) {
        self.dims.insert((&name).into(), Dim::constant(value));
        self.values.insert(name.clone(), value);
        self.sources.insert(name, source);
    }

    /// Solves whatever has one unknown left: plain symbols before expressions, so that the source that a message names
    /// is the plainest one; within each, in the order of the declarations.
    fn solve(&mut self, given: &[Equation]) {
        loop {
            let before = self.values.len();
            for g in given {
                if let Some(name) = g.dim.as_dimension()
                    && !self.values.contains_key(name)
                    && let Ok(value) = i64::try_from(g.found)
                {
                    self.add(name.clone(), value, Source::Axis(g.tensor.clone(), g.axis));
                }
            }
            if self.values.len() == before
                && let Some((name, value, source)) = given.iter().find_map(|g| self.solution(g))
            {
                self.add(name, value, source);
            }
            if self.values.len() == before {
                return;
            }
        }
    }

    fn solution(&self, g: &Equation) -> Option<(Name, i64, Source)> {
        let rest = g.dim.substitute(&self.dims);
        let unknown = rest.dimensions();
        let name = unknown.first().filter(|_| unknown.len() == 1)?;
        let value = invert(&rest, name, i64::try_from(g.found).ok()?)?;
        Some((name.clone(), value, Source::Axis(g.tensor.clone(), g.axis)))
    }

    fn check(&self, g: &Equation) -> Option<Fault> {
        let tensor = g.tensor.clone();
        let (axis, found, place) = (g.axis, g.found, Place::from(g.origin));
        match g.dim.eval(&self.values) {
            Ok(expected) if usize::try_from(expected) == Ok(found) => None,
            Ok(expected) => {
                let because = g.dim.dimensions().into_iter();
                let because = because.filter_map(|n| self.sources.get(&n).map(|s| (n.clone(), s.clone())));
                let (dim, because) = (g.dim.to_string(), because.collect());
                Some(Fault::Extent { tensor, axis, dim, expected, because, found, place })
            }
            Err(salient_ir::DimError::Unbound(_)) => {
                // One unknown and still not solved: no value of it gives this length.
                let rest = g.dim.substitute(&self.dims);
                (rest.dimensions().len() == 1 && rest.is_nonnegative() && !has_quotient(&rest.to_node()))
                    .then(|| Fault::Impossible { tensor, axis, dim: rest.to_string(), found, place })
            }
            Err(error) => {
                let sentence = format!("{tensor}: axis {axis}: {error}");
                Some(Fault::Dimension { sentence, place })
            }
        }
    }
}

fn has_quotient(node: &DimNode) -> bool {
    match node {
        DimNode::Constant(_) | DimNode::Symbol(_) => false,
        DimNode::Add(a, b) | DimNode::Mul(a, b) => has_quotient(a) || has_quotient(b),
        DimNode::Div(..) => true,
    }
}

/// The one value of `name` for which `dim`, which has no other symbol, is `target`; `None` where there is none or
/// where it is not unique (a quotient that rounds down) or not found (the symbol occurs more than once).
pub(crate) fn invert(dim: &Dim, name: &Name, target: i64) -> Option<i64> {
    let value = invert_node(&dim.to_node(), target)?;
    let at = |v: i64| dim.eval(&Bindings::from([(name.clone(), v)])).ok();
    // A quotient may round: then its neighbours give the same length, and the value is only one of several.
    let unique = at(value) == Some(target)
        && at(value.checked_add(1)?) != Some(target)
        && at(value.checked_sub(1)?) != Some(target);
    (unique && value >= 0).then_some(value)
}

fn invert_node(node: &DimNode, target: i64) -> Option<i64> {
    match node {
        DimNode::Constant(_) => None,
        DimNode::Symbol(_) => Some(target),
        DimNode::Add(a, b) => match (constant(a), constant(b)) {
            (None, Some(b)) => invert_node(a, target.checked_sub(b)?),
            (Some(a), None) => invert_node(b, target.checked_sub(a)?),
            (Some(_), Some(_)) | (None, None) => None,
        },
        DimNode::Mul(a, b) => match (constant(a), constant(b)) {
            (None, Some(c)) if c != 0 && target % c == 0 => invert_node(a, target / c),
            (Some(c), None) if c != 0 && target % c == 0 => invert_node(b, target / c),
            (None, Some(_)) | (Some(_), None) | (Some(_), Some(_)) | (None, None) => None,
        },
        DimNode::Div(a, b) => match (constant(a), constant(b)) {
            (None, Some(c)) => invert_node(a, target.checked_mul(c)?),
            (Some(c), None) if target != 0 && c % target == 0 => invert_node(b, c / target),
            (Some(_), None) | (Some(_), Some(_)) | (None, None) => None,
        },
    }
}

/// The value of a tree without symbols.
fn constant(node: &DimNode) -> Option<i64> {
    match node {
        DimNode::Constant(n) => Some(*n),
        DimNode::Symbol(_) => None,
        DimNode::Add(a, b) => constant(a)?.checked_add(constant(b)?),
        DimNode::Mul(a, b) => constant(a)?.checked_mul(constant(b)?),
        DimNode::Div(a, b) => {
            let b = constant(b)?;
            if b == 0 { None } else { constant(a).map(|a| a.div_euclid(b)) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use salient_ir::{Builder, DType, Requirement};

    fn s(name: &str) -> Dim {
        Dim::symbol(name)
    }

    /// A graph whose inputs have these dimensions, all of them outputs too.
    fn graph(inputs: &[(&str, &[Dim])], requirements: &[Relation]) -> Graph {
        let mut b = Builder::new("test");
        for (name, dims) in inputs {
            let axes: Vec<_> = dims.iter().enumerate().map(|(n, d)| b.axis_id(&format!("a{n}"), d)).collect();
            let node = b.input(name, &axes, DType::F32, None);
            b.output(&format!("{name}_out"), &axes, node).unwrap();
        }
        for relation in requirements {
            b.require(Requirement { relation: relation.clone(), message: None, origin: None });
        }
        b.finish()
    }

    fn bound(g: &Graph, shapes: &[(&str, &[usize])], set: &[(&str, i64)]) -> Result<String, String> {
        let shapes: Shapes<'_> = shapes.iter().copied().collect();
        let set = set.iter().map(|(n, v)| ((*n).into(), *v)).collect();
        match bind(g, &shapes, &Shapes::new(), &set, false) {
            Ok(b) => Ok(b.iter().map(|(n, v)| format!("{n}={v}")).collect::<Vec<_>>().join(" ")),
            Err(faults) => Err(faults.iter().map(Fault::to_string).collect::<Vec<_>>().join("\n")),
        }
    }

    #[test]
    fn symbols_then_products_then_quotients() {
        let e = s("D").exact_div(&s("H")).unwrap();
        let g = graph(&[("a", &[e, s("H")]), ("b", &[&Dim::constant(3) * &s("H")])], &[]);
        assert_eq!(bound(&g, &[("a", &[5, 4]), ("b", &[12])], &[]), Ok("D=20 H=4".into()));
        let g = graph(&[("b", &[&(&Dim::constant(3) * &s("H")) + &Dim::constant(1)])], &[]);
        assert_eq!(bound(&g, &[("b", &[13])], &[]), Ok("H=4".into()));
    }

    #[test]
    fn quotients_that_round_are_not_guessed() {
        let half = s("T").floor_div(&Dim::constant(2)).unwrap();
        let g = graph(&[("a", &[half])], &[]);
        let message = "no tensor determines the dimension `T`; give it with --set T=LENGTH";
        assert_eq!(bound(&g, &[("a", &[3])], &[]), Err(message.into()));
        assert_eq!(bound(&g, &[("a", &[3])], &[("T", 7)]), Ok("T=7".into()));
    }

    #[test]
    fn a_clash_names_both_sides() {
        let g = graph(&[("a", &[s("T"), s("D")]), ("b", &[s("S"), &Dim::constant(2) * &s("D")])], &[]);
        assert_eq!(
            bound(&g, &[("a", &[4, 6]), ("b", &[3, 13])], &[]),
            Err("input `b`: axis 1 has length 13, expected 2 * D = 12 (from axis 1 of input `a`)".into())
        );
        assert_eq!(
            bound(&g, &[("a", &[4, 6]), ("b", &[3, 12])], &[("T", 5)]),
            Err("input `a`: axis 0 has length 4, expected T = 5 (as it was set)".into())
        );
        let g = graph(&[("b", &[&Dim::constant(2) * &s("D")])], &[]);
        assert_eq!(
            bound(&g, &[("b", &[13])], &[]),
            Err("input `b`: axis 0 has length 13, which 2 * D cannot be".into())
        );
    }

    #[test]
    fn every_fault_is_reported_at_once() {
        let g = graph(&[("query", &[s("T")]), ("keys", &[s("T"), s("D")]), ("v", &[Dim::constant(3)])], &[]);
        let found =
            bound(&g, &[("qeury", &[4]), ("keys", &[4]), ("v", &[2]), ("zzzzzzzz", &[])], &[("Q", 1)]);
        let expected = [
            "input `query` is missing: the model needs f32[T] (`qeury` was given; is it meant?)",
            "the model has no input `qeury`; did you mean `query`?",
            "the model has no input `zzzzzzzz`; its inputs are `query`, `keys` and `v`",
            "input `keys` has the shape [4], expected f32[T, D]",
            "the model has no dimension `Q` to set; its dimensions are `D` and `T`",
            "input `v`: axis 0 has length 2, expected 3",
        ];
        assert_eq!(found, Err(expected.join("\n")));
    }

    #[test]
    fn relations_are_checked() {
        let g = graph(&[("a", &[s("D"), s("H")])], &[Relation::Divides(s("D"), s("H"))]);
        assert_eq!(bound(&g, &[("a", &[12, 3])], &[]), Ok("D=12 H=3".into()));
        let message = "D = 10 is not divisible by H = 3";
        assert_eq!(bound(&g, &[("a", &[10, 3])], &[]), Err(message.into()));
    }

    #[test]
    fn an_axis_may_not_be_negative() {
        let g = graph(&[("a", &[s("T"), &s("T") - &s("W")])], &[]);
        assert_eq!(bound(&g, &[("a", &[5, 2])], &[]), Ok("T=5 W=3".into()));
        let mut b = Builder::new("test");
        let (t, d) = (b.axis_id("t", &s("T")), b.axis_id("d", &(&s("T") - &s("W"))));
        let x = b.input("x", &[t], DType::F32, None);
        b.output("y", &[t, d], x).unwrap();
        let g = b.finish();
        let message = "the axis `d` would have the length T - W = -1";
        assert_eq!(bound(&g, &[("x", &[5])], &[("W", 6)]), Err(message.into()));
    }
}
