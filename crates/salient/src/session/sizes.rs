//! The dimensions of a session, what follows from them for its arrays, and those of the next call without solving for all
//! of them again.
//!
//! Says nothing of what is wrong with a call: where a call is not as the last one but for lengths, [`bind`] does.

use crate::session::bind::{self, Shapes};
use salient_ir::{Bindings, DType, DimAt, Dims, Graph, Name, Requirement};

/// What is known of a call before any element is: the dimensions, and what follows from them.
#[derive(Debug)]
pub(crate) struct Sizes {
    pub(crate) dimensions: Bindings,
    /// By position of the graph's inputs.
    pub(crate) inputs: Vec<Vec<usize>>,
    /// Dtype and shape, by position of the graph's outputs.
    pub(crate) outputs: Vec<(DType, Vec<usize>)>,
    dims: Dims,
    /// Of the inputs, then of the outputs.
    axes: Vec<Vec<DimAt>>,
}

impl Sizes {
    /// Of dimensions that have been checked.
    pub(crate) fn new(graph: &Graph, dimensions: Bindings) -> Sizes {
        let mut dims = Dims::default();
        let ports = graph.inputs().iter().map(|p| &p.axes).chain(graph.outputs().iter().map(|o| &o.axes));
        let axes = ports.map(|axes| graph.shape(axes).iter().map(|d| dims.intern(d)).collect()).collect();
        let inputs = vec![Vec::new(); graph.inputs().len()];
        let outputs = graph.outputs().iter().map(|o| (o.dtype, Vec::new())).collect();
        let mut sizes = Sizes { dimensions: Bindings::new(), inputs, outputs, dims, axes };
        sizes.set(dimensions);
        sizes
    }

    /// Takes over other dimensions.
    pub(crate) fn set(&mut self, dimensions: Bindings) {
        let values = self.dims.eval_each(&dimensions);
        let extent = |at: &DimAt| {
            let extent = values[*at].and_then(|n| usize::try_from(n).ok());
            extent.expect("extents were checked when bound")
        };
        let shapes = self.inputs.iter_mut().chain(self.outputs.iter_mut().map(|(_, shape)| shape));
        for (shape, axes) in shapes.zip(&self.axes) {
            shape.clear();
            shape.extend(axes.iter().map(extent));
        }
        self.dimensions = dimensions;
    }
}

/// How the dimensions of a call follow from the shapes of its inputs, where that takes no solving: every symbol is fixed by
/// the parameters or by the caller, or is itself the length of an axis of an input, or the length of what is held.
#[derive(Debug)]
pub(crate) struct Lengths {
    /// What neither inputs nor states change.
    fixed: Bindings,
    /// How many symbols there are.
    symbols: usize,
    /// Lengths that are zero while nothing is held.
    held: Vec<Name>,
    /// By position of the graph's inputs, its axes: those whose length is a symbol, and the length of the others.
    inputs: Vec<Vec<Result<Name, DimAt>>>,
    dims: Dims,
    requirements: Vec<Requirement>,
}

impl Lengths {
    /// For calls with these parameters, where the caller set `set`, of which one had these dimensions; `None` if a call could
    /// change the length of a parameter.
    pub(crate) fn new(
        graph: &Graph,
        params: &Shapes<'_>,
        set: &Bindings,
        dimensions: &Bindings,
    ) -> Option<Lengths> {
        let mut dims = Dims::default();
        bind::extents(graph).into_iter().for_each(|axis| _ = dims.intern(graph.extent(axis)));
        // Of an input whose length is an expression the sign is checked with the others.
        let axis = |dims: &mut Dims, dim: &salient_ir::Dim| match dim.as_dimension() {
            Some(name) => Ok(name.clone()),
            None => Err(dims.intern(dim)),
        };
        let axes = graph.inputs().iter().map(|port| graph.shape(&port.axes));
        let inputs = axes.map(|axes| axes.iter().map(|dim| axis(&mut dims, dim)).collect()).collect();
        let fixed = bind::fixed(graph, params, set);
        // What is fixed must be what the parameters were bound to; and parameters have no length that a call may change.
        let agrees = |name: &Name| dimensions.get(name).is_some_and(|n| fixed.get(name) == Some(n));
        let all_agree = fixed.keys().all(agrees)
            && graph
                .params()
                .iter()
                .flat_map(|p| graph.shape(&p.axes))
                .all(|d| d.dimensions().iter().all(agrees));
        if !all_agree {
            return None;
        }
        let symbols = bind::dimensions(graph).len();
        let mut requirements: Vec<Requirement> = Vec::new();
        for requirement in graph.requirements() {
            if !requirements.iter().any(|known| known.relation == requirement.relation) {
                requirements.push(requirement.clone());
            }
        }
        let held = graph.growths().into_iter().map(|g| g.held).collect();
        Some(Lengths { fixed, symbols, held, inputs, dims, requirements })
    }

    /// The dimensions of a call whose inputs, by position, have these shapes, as [`bind::bind`] finds them; `None` where that
    /// has to say what they are, or why there are none.
    pub(crate) fn dimensions<'s>(
        &self,
        shapes: impl Iterator<Item = Option<&'s [usize]>>,
    ) -> Option<Bindings> {
        let mut known = self.fixed.clone();
        let mut others: Vec<(DimAt, usize)> = Vec::new();
        for (axes, shape) in self.inputs.iter().zip(shapes) {
            let Some(shape) = shape else { continue };
            if shape.len() != axes.len() {
                return None;
            }
            for (axis, length) in axes.iter().zip(shape) {
                let value = i64::try_from(*length).ok()?;
                match axis {
                    Ok(name) => match known.get(name) {
                        Some(before) if *before == value => {}
                        Some(_) => return None,
                        None => _ = known.insert(name.clone(), value),
                    },
                    Err(dim) if others.contains(&(*dim, *length)) => {}
                    Err(dim) => others.push((*dim, *length)),
                }
            }
        }
        for name in &self.held {
            known.entry(name.clone()).or_insert(0);
        }
        if known.len() != self.symbols {
            return None;
        }
        let values = self.dims.eval(&known).ok()?;
        let fits = values.iter().all(|value| *value >= 0)
            && others.iter().all(|(dim, length)| usize::try_from(values[*dim]) == Ok(*length))
            && self.requirements.iter().all(|r| r.check(&known).is_ok());
        fits.then_some(known)
    }
}
