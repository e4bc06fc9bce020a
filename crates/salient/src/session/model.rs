//! A model that is ready to run, for any dimensions.
//!
//! Ties the stages together; binding dimensions and weights is the work of [`Session`](crate::Session).

use crate::compile::engine::Code;
use crate::compile::explain::require_fused;
use crate::compile::options::Options;
use crate::compile::pipeline::{lower, normal_form};
use crate::compile::sources::read_sources;
use crate::report::error::{Error, Rejected};
use crate::report::fault::Fault;
use crate::report::places::Places;
use crate::report::timings::{Step, Timings};
use salient_front::{Inner, Lowered, Sources};
use salient_grad::in_normal_form;
use salient_ir::Graph;
use salient_tile::plan::text::read::ReadPlan;
use std::path::Path;

/// A compiled model. Immutable: any number of threads may make sessions of it and run them at once.
#[derive(Debug)]
pub struct Model {
    graph: Graph,
    code: Code,
    warnings: Option<Box<Rejected>>,
    inner: Vec<Inner>,
    timings: Timings,
    places: Places,
}

impl Model {
    /// Compiles source text.
    ///
    /// ```
    /// use salient::{Array, Arrays, Model, Options, Weights};
    ///
    /// let source = "model double(x: f32[T]) -> (y: f32[T]) { return x + x }";
    /// let model = Model::compile(source, &Options::default())?;
    ///
    /// let mut inputs = Arrays::new();
    /// inputs.insert("x", Array::from_f32(vec![3], vec![1.0, 2.0, 3.0]).unwrap())?;
    /// let outputs = model.run(&inputs, Weights::none())?;
    /// assert_eq!(outputs.get("y").unwrap().as_f32(), Some([2.0, 4.0, 6.0].as_slice()));
    /// # Ok::<(), salient::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Source`] if the source is refused, [`Error::Code`] if no code can be made for it on this machine,
    /// [`Error::Unfused`] if that is required and not reached.
    pub fn compile(source: &str, options: &Options) -> Result<Model, Error> {
        let mut sources = Sources::new();
        sources.add("source", source);
        Model::from_sources(&sources, options)
    }

    /// Compiles a file and what it imports.
    ///
    /// # Errors
    /// As [`read_sources`] and [`Model::compile`].
    pub fn from_file(path: impl AsRef<Path>, options: &Options) -> Result<Model, Error> {
        Model::from_sources(&read_sources(path)?, options)
    }

    /// Compiles source files that have been read.
    ///
    /// # Errors
    /// As [`Model::compile`].
    pub fn from_sources(sources: &Sources, options: &Options) -> Result<Model, Error> {
        let mut timings = Timings::default();
        let Lowered { graph, warnings, inner } = timings.time(Step::Lower, || lower(sources, options))?;
        if options.require_fused {
            require_fused(sources, &graph, options)?;
        }
        let mut model = Model::timed(graph, options, timings)?;
        model.inner = inner;
        model.places = Places::of(sources);
        if !warnings.is_empty() {
            model.warnings = Some(Box::new(Rejected { diagnostics: warnings, sources: sources.clone() }));
        }
        Ok(model)
    }

    /// Makes a graph ready to run.
    ///
    /// # Errors
    /// [`Error::Code`] if a dimension has the name of an index, or if no code can be made for it on this machine.
    pub fn from_graph(graph: Graph, options: &Options) -> Result<Model, Error> {
        named_apart(&graph)?;
        Model::timed(graph, options, Timings::default())
    }

    /// Compiles a plan that was [read](crate::read_plan).
    ///
    /// # Errors
    /// As [`Model::from_graph`].
    pub fn from_plan(plan: &ReadPlan, options: &Options) -> Result<Model, Error> {
        named_apart(plan.graph())?;
        let mut timings = Timings::default();
        let code = Code::of_plan(plan, options, &mut timings)?;
        let (graph, places) = (plan.graph().clone(), Places::default());
        Ok(Model { graph, code, warnings: None, inner: Vec::new(), timings, places })
    }

    /// The backward pass: a model of the same inputs and parameters, and of a further input for each result that is a number, its
    /// cotangent: `d_y` for the result `y`. It gives the results of this model, and the gradient by each input and each parameter
    /// on which they depend: `d_x`.
    ///
    /// # Errors
    /// [`Error::Code`] if the model has no derivative, or no code can be made for it on this machine.
    pub fn backward(&self, options: &Options) -> Result<Model, Error> {
        let normal = in_normal_form(&self.graph, normal_form(options.fp));
        let graph = salient_grad::backward(&normal).map_err(|e| Error::Code(e.to_string()))?;
        Model::from_graph(graph, options)
    }

    fn timed(graph: Graph, options: &Options, mut timings: Timings) -> Result<Model, Error> {
        let code = Code::new(&graph, options, &mut timings)?;
        let places = Places::default();
        Ok(Model { graph, code, warnings: None, inner: Vec::new(), timings, places })
    }

    /// The model as written: its inputs, parameters and outputs with their types.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// The values inside of the model that [`Options::inner`] asked for, each a result of a name of its own.
    ///
    /// A value is called by the path under which parameters are declared where it is defined, and its own name
    /// (`layers.0.attn.weights`); an end of that from a dot on will do, and `*` stands for any letters. Later values of one name
    /// have their number behind it (`x#2`).
    pub fn inner(&self) -> &[Inner] {
        &self.inner
    }

    /// What the source should be told, rendered with excerpts; empty if there is nothing.
    pub fn warnings(&self, colour: bool) -> String {
        self.warnings.as_ref().map_or_else(String::new, |w| w.render(colour))
    }

    /// How long each step of compiling took, in order.
    pub fn timings(&self) -> &Timings {
        &self.timings
    }

    /// Where in its source something was written.
    pub(crate) fn places(&self) -> &Places {
        &self.places
    }

    /// What is wrong with a call, with the places in the source that it does not fit.
    pub(crate) fn refused(&self, mut faults: Vec<Fault>) -> Error {
        faults.iter_mut().for_each(|fault| fault.locate(&self.places));
        Error::Call(faults)
    }

    pub(crate) fn code(&self) -> &Code {
        &self.code
    }
}

/// Refuses a graph in which a dimension has the name of an index: compiled code tells them apart by their names.
fn named_apart(graph: &Graph) -> Result<(), Error> {
    salient_ir::verify::misnamed(graph).next().map_or(Ok(()), |why| Err(Error::Code(why)))
}
