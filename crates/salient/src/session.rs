//! A compiled model bound to dimensions and weights, to be run any number of times.
//!
//! All checks of names, shapes and dtypes that do not depend on elements are made here, before any kernel runs. Does not
//! compile anything: one model serves sessions of any dimensions.
//!
//! The folder holds what a session is made of: [`model`] (what is compiled), [`weights`] (what a caller gives as
//! parameters) and [`init`] (what is drawn where nothing is given), [`bind`] (dimensions from shapes), [`sizes`] (what
//! follows from dimensions), [`results`] (what a step gives), [`finite`] (whether all numbers are finite).

pub(crate) mod bind;
mod finite;
pub(crate) mod init;
pub(crate) mod model;
pub(crate) mod results;
pub(crate) mod sizes;
pub(crate) mod states;
pub(crate) mod train;
pub(crate) mod weights;

use self::bind::Shapes;
use self::init::initial;
use self::model::Model;
use self::results::Results;
use self::sizes::{Lengths, Sizes};
use self::weights::Weights;
use crate::compile::engine::{Arguments, BoundParameters, Prepared};
use crate::report::compare::index_of;
use crate::report::error::Error;
use crate::report::fault::{Fault, Side, Tensor};
use salient_io::{Arrays, Stored};
use salient_ir::array::{Array, ArrayError, Data, collected};
use salient_ir::{Bindings, DType, Dim, Port};
use salient_jit::{Cost, Watch};
use salient_tile::coded::Codes;
use std::borrow::Cow;
use std::sync::OnceLock;
use std::time::Duration;

impl Model {
    /// Binds the model to weights and to the dimensions that the shapes of `inputs` and of the weights give.
    ///
    /// # Errors
    /// [`Error::Call`] with everything that is wrong with names, shapes and dtypes.
    pub fn session<'a>(&'a self, inputs: &Arrays, weights: Weights<'a>) -> Result<Session<'a>, Error> {
        Session::new(self, inputs, weights, &Bindings::new())
    }

    /// As [`Model::session`], with values for dimensions that no tensor determines (or must agree with).
    ///
    /// # Errors
    /// As [`Model::session`].
    pub fn session_with<'a>(
        &'a self,
        inputs: &Arrays,
        weights: Weights<'a>,
        dimensions: &Bindings,
    ) -> Result<Session<'a>, Error> {
        Session::new(self, inputs, weights, dimensions)
    }

    /// Runs the model once: a session for a single call.
    ///
    /// # Errors
    /// As [`Model::session`] and [`Session::run`].
    pub fn run(&self, inputs: &Arrays, weights: Weights<'_>) -> Result<Arrays, Error> {
        self.session(inputs, weights)?.call(inputs)
    }
}

/// A model with its dimensions and its weights: see [`Model::session`]. Any number of threads may run it at once.
#[derive(Debug)]
pub struct Session<'a> {
    model: &'a Model,
    sizes: Sizes,
    /// The dimensions that the caller fixed, but no length of a state.
    set: Bindings,
    params: BoundParameters<'a>,
    /// By position of the graph's parameters.
    param_shapes: Vec<Vec<usize>>,
    /// The states in the order of the graph's, after the last step.
    held: Option<Vec<Array>>,
    /// Memory for the outputs of steps, in the order of the graph's; that of a state is spare.
    results: Vec<Array>,
    /// What states begin as.
    weights: Weights<'a>,
    /// Whether the results still have the states before the last step.
    may_take_back: bool,
    /// Found at the first step.
    lengths: OnceLock<Option<Lengths>>,
    prepared: Prepared<'a>,
}

/// A kernel of a session, for reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelInfo {
    /// The name of what it computes.
    pub name: String,
    /// Its form: attention, product, rows, map.
    pub kind: &'static str,
    /// What it does in one run.
    pub cost: Cost,
}

impl<'a> Session<'a> {
    pub(crate) fn new(
        model: &'a Model,
        inputs: &Arrays,
        weights: Weights<'a>,
        set: &Bindings,
    ) -> Result<Session<'a>, Error> {
        let graph = model.graph();
        let none = Arrays::new();
        let given = weights.arrays().unwrap_or(&none);
        let mut faults = dtype_faults(Side::Input, graph.inputs(), inputs);
        faults.extend(dtype_faults(Side::Param, graph.params(), given));
        let blocks = weights.blocks().into_iter().flatten().filter(|(path, _)| given.get(path).is_none());
        faults.extend(states::faults(graph, weights, inputs));
        let mut known = shapes(graph.params(), given);
        known.retain(|path, _| !states::is_begun(graph, path));
        let mut of_inputs = states::given(graph, weights);
        of_inputs.extend(shapes(graph.inputs(), inputs));
        for (path, blocks) in blocks {
            known.insert(path, blocks.shape());
            let port = graph.params().iter().find(|port| *port.name == **path);
            if let Some(port) = port.filter(|port| port.dtype != DType::F32) {
                let tensor = Tensor { side: Side::Param, name: port.name.clone() };
                faults.push(Fault::DType { tensor, expected: port.dtype, found: Stored::F32 });
            }
        }
        let dimensions = bind::bind(graph, &of_inputs, &known, set, weights.seed().is_some());
        let dimensions = match dimensions {
            Ok(dimensions) if faults.is_empty() => dimensions,
            Ok(_) => return Err(model.refused(faults)),
            Err(others) => return Err(model.refused(others.into_iter().chain(faults).collect())),
        };
        let mut params = Vec::with_capacity(graph.params().len());
        let mut codes = Codes::new();
        for (at, port) in graph.params().iter().enumerate() {
            let given = weights.arrays().and_then(|w| w.get(&port.name));
            let blocks = weights.blocks().and_then(|w| w.get(&*port.name));
            if let (None, Some(blocks)) = (given, blocks) {
                codes.insert(at, blocks);
                params.push(Cow::Owned(if model.code().needs_param(at) {
                    blocks.widen().map_err(|e| of_tensor(&port.name, &e))?
                } else {
                    Array::from_f32(vec![0], Vec::new()).expect("nothing is no elements")
                }));
                continue;
            }
            let array = match (given, weights.seed()) {
                (Some(array), _) => widened(array, port)?,
                (None, Some(seed)) => match initial(graph, port, &dimensions, seed) {
                    Ok(Some(array)) => Cow::Owned(widened(&array, port)?.into_owned()),
                    Ok(None) => {
                        faults.push(Fault::NoInitialiser { path: port.name.clone() });
                        continue;
                    }
                    Err(e) => return Err(Error::Run(format!("parameter `{}`: {e}", port.name))),
                },
                (None, None) => unreachable!("a missing parameter is a fault of binding"),
            };
            params.push(array);
        }
        if !faults.is_empty() {
            return Err(Error::Call(faults));
        }
        let shape = |(at, array): (usize, &Cow<'_, Array>)| match codes.get(&at) {
            Some(blocks) => blocks.shape().to_vec(),
            None => array.shape().to_vec(),
        };
        let param_shapes = params.iter().enumerate().map(shape).collect();
        let params = BoundParameters::new(model.code(), graph, &dimensions, params, &codes)?;
        Session::at(model, dimensions, set, (params, param_shapes), weights)
    }

    /// A session at dimensions that have been checked, with nothing held.
    fn at(
        model: &'a Model,
        dimensions: Bindings,
        set: &Bindings,
        (params, param_shapes): (BoundParameters<'a>, Vec<Vec<usize>>),
        weights: Weights<'a>,
    ) -> Result<Session<'a>, Error> {
        let graph = model.graph();
        let prepared = Prepared::new(model.code(), &dimensions)?;
        let mut set = set.clone();
        graph.growths().iter().for_each(|g| _ = set.remove(&g.held));
        let sizes = Sizes::new(graph, dimensions);
        Ok(Session {
            model,
            sizes,
            set,
            params,
            param_shapes,
            held: None,
            results: Vec::new(),
            weights,
            may_take_back: false,
            lengths: OnceLock::new(),
            prepared,
        })
    }

    /// A session of the same model and the same parameters for inputs of other shapes, with nothing held. What was made of
    /// the parameters is shared, not made again.
    ///
    /// # Errors
    /// [`Error::Call`] with everything that is wrong with names, shapes and dtypes.
    pub fn reshaped(&self, inputs: &Arrays, set: &Bindings) -> Result<Session<'a>, Error> {
        let mut given = states::given(self.model.graph(), self.weights);
        given.extend(shapes(self.model.graph().inputs(), inputs));
        let dimensions = self.dimensions_of(inputs, given, set)?;
        let params = (self.params.clone(), self.param_shapes.clone());
        Session::at(self.model, dimensions, set, params, self.weights)
    }

    /// The dimensions that these shapes and those of the parameters give.
    fn dimensions_of(&self, inputs: &Arrays, given: Shapes<'_>, set: &Bindings) -> Result<Bindings, Error> {
        let graph = self.model.graph();
        let faults = dtype_faults(Side::Input, graph.inputs(), inputs);
        match bind::bind(graph, &given, &self.params_given(), set, false) {
            Ok(dimensions) if faults.is_empty() => Ok(dimensions),
            Ok(_) => Err(self.model.refused(faults)),
            Err(others) => Err(self.model.refused(others.into_iter().chain(faults).collect())),
        }
    }

    fn params_given(&self) -> Shapes<'_> {
        let names = self.model.graph().params().iter().map(|port| &*port.name);
        names.zip(self.param_shapes.iter().map(Vec::as_slice)).collect()
    }

    /// One call of a model that has state: begins with what the call before left, gives the results, and keeps the
    /// values of the states. From call to call dimensions may change, except those of what is held. Results lie in memory
    /// of the session, which the next step uses again.
    ///
    /// ```
    /// use salient::{Array, Arrays, Model, Options, Weights};
    ///
    /// let source = "model total(x: f32[T]) -> (y: f32[T]) {
    ///     state before: f32[]
    ///     let y = before + cumsum(x)
    ///     before = before + sum(x)
    ///     return y
    /// }";
    /// let model = Model::compile(source, &Options::default())?;
    /// let x = |values: &[f32]| {
    ///     let mut inputs = Arrays::new();
    ///     inputs.insert("x", Array::from_f32(vec![values.len()], values.to_vec()).unwrap()).unwrap();
    ///     inputs
    /// };
    /// let mut session = model.session(&x(&[1.0, 2.0]), Weights::none())?;
    /// assert_eq!(session.step(&x(&[1.0, 2.0]))?.get("y").unwrap().as_f32(), Some([1.0, 3.0].as_slice()));
    /// assert_eq!(session.step(&x(&[10.0]))?.get("y").unwrap().as_f32(), Some([13.0].as_slice()));
    /// session.reset();
    /// assert_eq!(session.step(&x(&[10.0]))?.get("y").unwrap().as_f32(), Some([10.0].as_slice()));
    /// # Ok::<(), salient::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Model::session`] and [`Session::run`]; what is held stays as it was.
    pub fn step(&mut self, inputs: &Arrays) -> Result<Results<'_>, Error> {
        self.rebind(inputs)?;
        let graph = self.model.graph();
        let fresh = self.held.is_none();
        if fresh {
            self.held = Some(states::begin(graph, &self.sizes, self.weights)?);
        }
        let result = self.step_from_held(inputs);
        self.may_take_back = result.is_ok();
        if result.is_err() && fresh {
            self.held = None;
        }
        result.map(|()| Results { graph, arrays: &self.results })
    }

    /// A step once states are held. Those to which the call appends grow where they lie; the others are replaced.
    fn step_from_held(&mut self, inputs: &Arrays) -> Result<(), Error> {
        let graph = self.model.graph();
        // By input: whether it is a state that grows in place.
        let mut grows = vec![false; graph.inputs().len()];
        for state in graph.states() {
            let is_given = inputs.get(&graph.inputs()[state.input].name).is_some();
            grows[state.input] = self.prepared.appends(state.input) && !is_given;
        }
        let mut outputs = std::mem::take(&mut self.results);
        if outputs.is_empty() {
            let nothing = graph.outputs().iter().map(|o| zeros(DType::F32, &[0], &o.name));
            outputs = nothing.collect::<Result<_, _>>()?;
        }
        let mut grown = vec![false; outputs.len()];
        graph.states().iter().for_each(|s| grown[s.output] = grows[s.input]);
        let sized = graph.outputs().iter().zip(&self.sizes.outputs).zip(&grown);
        for (array, ((output, (dtype, shape)), _)) in
            outputs.iter_mut().zip(sized).filter(|(_, (_, grown))| !**grown)
        {
            if array.dtype() != *dtype || array.shape() != shape.as_slice() {
                *array = zeros(*dtype, shape, &output.name)?;
            }
        }
        let mut has_memory = Ok(());
        // Where states grow, what is held becomes the output for the time of the call.
        for (held, state) in
            self.held.iter_mut().flatten().zip(graph.states()).filter(|(_, s)| grows[s.input])
        {
            let output = &mut outputs[state.output];
            std::mem::swap(held, output);
            let name = &graph.outputs()[state.output].name;
            let longer = output.set_outermost(self.sizes.outputs[state.output].1[0]);
            has_memory = has_memory.and(longer.map_err(|e| of_tensor(name, &e)));
        }
        let run = |()| self.run_with(inputs, &|input| grows[input], &mut outputs, &mut Watch::default());
        let mut result = has_memory.and_then(run);
        for (held, state) in self.held.iter_mut().flatten().zip(graph.states()) {
            let output = &mut outputs[state.output];
            match (&result, grows[state.input]) {
                (Ok(()), _) => std::mem::swap(held, output),
                (Err(_), true) => {
                    // Shorter again: that takes no memory.
                    let shorter = output.set_outermost(self.sizes.inputs[state.input][0]);
                    result =
                        result.and(shorter.map_err(|e| of_tensor(&graph.inputs()[state.input].name, &e)));
                    std::mem::swap(held, output);
                }
                (Err(_), false) => {}
            }
            // What grows in place at other steps needs no memory to spare.
            if self.prepared.appends(state.input) && !grows[state.input] {
                *output = zeros(output.dtype(), &[0], &graph.outputs()[state.output].name)?;
            }
        }
        self.results = outputs;
        result
    }

    /// Forgets what is held: states begin again, as zeros or as their initialisers say, and those that grow are empty.
    pub fn reset(&mut self) {
        self.held = None;
        self.may_take_back = false;
    }

    /// Puts what is held into another order, as a search does whose continuations go on or end: along every axis of a state
    /// that is as long as the dimension of that name, `from[n]` becomes `n`. Indices may come several times, and not at all;
    /// from then on the dimension is as long as `from`. What nothing is held of stays so.
    ///
    /// # Errors
    /// [`Error::Run`] if no state has such an axis, or an index is outside of it: what is held stays as it was; or if there is
    /// no memory for it: nothing is held any more.
    pub fn reorder(&mut self, dimension: &str, from: &[usize]) -> Result<(), Error> {
        let graph = self.model.graph();
        let along = Dim::symbol(dimension);
        let axes: Vec<Option<usize>> = graph
            .states()
            .iter()
            .map(|s| graph.shape(&graph.inputs()[s.input].axes).iter().position(|d| *d == along))
            .collect();
        if axes.iter().all(Option::is_none) {
            return Err(Error::Run(format!("no state of `{}` has an axis `{dimension}`", graph.name())));
        }
        let held = self.held.iter().flatten().zip(&axes);
        for extent in held.filter_map(|(held, axis)| Some(held.shape()[(*axis)?])) {
            if let Some(at) = from.iter().find(|at| **at >= extent) {
                return Err(Error::Run(format!("there is no index {at} in {extent} of `{dimension}`")));
            }
        }
        let mut result = Ok(());
        for ((held, axis), state) in self.held.iter_mut().flatten().zip(&axes).zip(graph.states()) {
            if let Some(axis) = *axis
                && !from.iter().copied().eq(0..held.shape()[axis])
            {
                let name = &graph.inputs()[state.input].name;
                result = result.and(held.reorder(axis, from).map_err(|e| of_tensor(name, &e)));
            }
        }
        if result.is_err() {
            self.held = None;
        }
        result
    }

    /// How many positions are held by the states that grow; of several lengths the greatest, 0 without any.
    pub fn positions(&self) -> usize {
        let Some(held) = &self.held else { return 0 };
        let graph = self.model.graph();
        let growing = graph.states().iter().zip(held).filter(|(s, _)| graph.growth(**s).is_some());
        growing.map(|(_, array)| array.shape()[0]).max().unwrap_or(0)
    }

    /// The states that are held after the last step, by path; none before the first.
    pub fn states(&self) -> impl Iterator<Item = (&str, &Array)> {
        self.held().map(|(port, array)| (&*port.name, array))
    }

    /// The states that are held, with the ports of their inputs.
    fn held(&self) -> impl Iterator<Item = (&'a Port, &Array)> {
        let graph = self.model.graph();
        graph
            .states()
            .iter()
            .zip(self.held.iter().flatten())
            .map(|(s, array)| (&graph.inputs()[s.input], array))
    }

    /// Binds the session to the dimensions of other inputs and of what is held.
    fn rebind(&mut self, inputs: &Arrays) -> Result<(), Error> {
        let dimensions = match self.dimensions_by_lengths(inputs) {
            Some(dimensions) => dimensions,
            None => {
                let mut given = states::given(self.model.graph(), self.weights);
                given.extend(self.held().map(|(port, array)| (&*port.name, array.shape())));
                given.extend(shapes(self.model.graph().inputs(), inputs));
                self.dimensions_of(inputs, given, &self.set)?
            }
        };
        if dimensions != self.sizes.dimensions {
            self.prepared.rebind(&dimensions)?;
            self.sizes.set(dimensions);
        }
        Ok(())
    }

    /// The dimensions of a step that differs from those before in lengths alone; `None` where that is not so.
    fn dimensions_by_lengths(&self, inputs: &Arrays) -> Option<Bindings> {
        let graph = self.model.graph();
        let found = || Lengths::new(graph, &self.params_given(), &self.set, &self.sizes.dimensions);
        let lengths = self.lengths.get_or_init(found).as_ref()?;
        let mut given = 0;
        let mut shapes: Vec<Option<&[usize]>> = Vec::with_capacity(graph.inputs().len());
        for port in graph.inputs() {
            let array = inputs.get(&port.name);
            if array.is_some_and(|array| !converts(array.dtype(), port.dtype)) {
                return None;
            }
            given += usize::from(array.is_some());
            shapes.push(array.map(Array::shape));
        }
        let begun = states::given(graph, self.weights);
        for (at, state) in graph.states().iter().enumerate() {
            let held = || match &self.held {
                Some(held) => Some(held[at].shape()),
                None => begun.get(&*graph.inputs()[state.input].name).copied(),
            };
            shapes[state.input] = shapes[state.input].or_else(held);
        }
        let mut absent = shapes.iter().enumerate().filter(|(_, shape)| shape.is_none());
        let all_there = absent.all(|(n, _)| graph.states().iter().any(|s| s.input == n));
        (given == inputs.len() && all_there).then(|| lengths.dimensions(shapes.into_iter())).flatten()
    }

    /// The value of every dimension of the model.
    pub fn dimensions(&self) -> &Bindings {
        &self.sizes.dimensions
    }

    /// Bytes of working memory beside inputs, weights and outputs; `None` for the interpreter, which does not plan it.
    pub fn working_bytes(&self) -> Option<usize> {
        self.prepared.working_bytes()
    }

    /// How many threads run a call at most; one for the interpreter.
    pub fn threads(&self) -> usize {
        self.prepared.threads()
    }

    /// Bytes of what was made of the weights once, beside the weights themselves: packed and folded copies, shared by the
    /// sessions that [`Session::reshaped`] gives. `None` for the interpreter.
    pub fn loaded_bytes(&self) -> Option<usize> {
        self.params.bytes()
    }

    /// The kernels of a run, in order; none for the interpreter.
    pub fn kernels(&self) -> Vec<KernelInfo> {
        let info = |(k, cost): (&salient_tile::Kernel, Cost)| KernelInfo {
            name: k.name.clone(),
            kind: k.kind.name(),
            cost,
        };
        self.prepared.kernels().into_iter().map(info).collect()
    }

    /// The dtype and the shape of each output, in the order of the model's.
    pub fn output_types(&self) -> &[(DType, Vec<usize>)] {
        &self.sizes.outputs
    }

    /// Memory for the outputs, in the order of the model's: zeros of the right dtypes and shapes.
    ///
    /// # Errors
    /// There is no memory for an output.
    pub fn outputs(&self) -> Result<Vec<Array>, Error> {
        let outputs = self.model.graph().outputs().iter().zip(&self.sizes.outputs);
        outputs.map(|(output, (dtype, shape))| zeros(*dtype, shape, &output.name)).collect()
    }

    /// Runs the model on borrowed inputs into memory of the caller, as made by [`Session::outputs`].
    ///
    /// # Errors
    /// [`Error::Call`] if an input or an output does not have the dtype and the shape of this session;
    /// [`Error::Run`] if the model has no value on this data, such as for an index outside its axis.
    ///
    /// # Panics
    /// The number of outputs is not that of the model.
    ///
    /// # State
    /// A state is an input here, under its path, that may be left out: then it is what is held. Its value after the call
    /// is an output, and is not kept; [`Session::step`] keeps it.
    pub fn run(&self, inputs: &Arrays, outputs: &mut [Array]) -> Result<(), Error> {
        self.run_with(inputs, &|_| false, outputs, &mut Watch::default())
    }

    /// As [`Session::run`], with a look at every number: those of inputs and parameters, of inner values that a kernel stores
    /// for others, and of outputs. Minus infinity is let pass in inputs, parameters and inner values, and where the program itself writes
    /// it into a result, as masks do. Of the interpreter's work only the outputs are looked at.
    ///
    /// # Errors
    /// As [`Session::run`]; and [`Error::Run`] at the first number that is NaN or infinite, with its value by its name in the
    /// source, its index and the line.
    ///
    /// # Panics
    /// As [`Session::run`].
    pub fn run_finite(&self, inputs: &Arrays, outputs: &mut [Array]) -> Result<(), Error> {
        let graph = self.model.graph();
        let given = graph.inputs().iter().filter_map(|port| Some((port, inputs.get(&port.name)?)));
        given
            .map(|(port, array)| (Side::Input, port, array))
            .chain(self.given_params())
            .try_for_each(|(side, port, array)| finite::given(self.model.places(), side, port, array))?;
        self.run_with(inputs, &|_| false, outputs, &mut Watch { timed: None, finite: true })?;
        finite::outputs(self.model.places(), graph, outputs)
    }

    /// The parameters that calls read as arrays.
    fn given_params(&self) -> impl Iterator<Item = (Side, &'a Port, &Array)> {
        let ports = self.model.graph().params().iter().enumerate();
        ports.filter_map(|(at, port)| Some((Side::Param, port, self.params.array(at, &port.name)?)))
    }

    /// As [`Session::run`]; `watch` is called with each kernel, by position in [`Session::kernels`], and how long it took.
    ///
    /// # Errors
    /// As [`Session::run`].
    ///
    /// # Panics
    /// As [`Session::run`].
    pub fn run_watched(
        &self,
        inputs: &Arrays,
        outputs: &mut [Array],
        watch: &mut dyn FnMut(usize, Duration),
    ) -> Result<(), Error> {
        self.run_with(inputs, &|_| false, outputs, &mut Watch { timed: Some(watch), finite: false })
    }

    /// Runs the model; the inputs for which `in_place` holds lie in the outputs that append to them.
    fn run_with(
        &self,
        inputs: &Arrays,
        in_place: &dyn Fn(usize) -> bool,
        outputs: &mut [Array],
        watch: &mut Watch<'_>,
    ) -> Result<(), Error> {
        let graph = self.model.graph();
        let mut faults = dtype_faults(Side::Input, graph.inputs(), inputs);
        let mut ordered = Vec::with_capacity(self.sizes.inputs.len());
        for (n, (port, shape)) in graph.inputs().iter().zip(&self.sizes.inputs).enumerate() {
            if in_place(n) {
                ordered.push(None);
                continue;
            }
            let tensor = Tensor { side: Side::Input, name: port.name.clone() };
            let held = || self.held().find(|(held, _)| held.name == port.name).map(|(_, array)| array);
            match inputs.get(&port.name).or_else(held) {
                None if graph.states().iter().any(|s| s.input == n) => {
                    ordered.push(Some(Cow::Owned(states::one(graph, n, &self.sizes, self.weights)?)));
                }
                None => {
                    let declared = bind::declared(graph, port);
                    faults.push(Fault::Missing { tensor, declared, nearest: None });
                }
                Some(array) if array.shape() != shape.as_slice() => {
                    let (expected, found) = (shape.clone(), array.shape().to_vec());
                    faults.push(Fault::Shape { tensor, expected, found });
                }
                Some(array) => ordered.push(Some(widened(array, port)?)),
            }
        }
        assert_eq!(outputs.len(), self.sizes.outputs.len(), "one array for each output of the model");
        for ((output, (dtype, shape)), memory) in
            graph.outputs().iter().zip(&self.sizes.outputs).zip(&*outputs)
        {
            let tensor = Tensor { side: Side::Output, name: output.name.clone() };
            if memory.dtype() != *dtype {
                let found = Stored::of(memory.dtype());
                faults.push(Fault::DType { tensor, expected: *dtype, found });
            } else if memory.shape() != shape.as_slice() {
                let (expected, found) = (shape.clone(), memory.shape().to_vec());
                faults.push(Fault::Shape { tensor, expected, found });
            }
        }
        if !faults.is_empty() {
            return Err(Error::Call(faults));
        }
        let arguments = Arguments { inputs: &ordered, params: &self.params };
        self.prepared.run(self.model, &self.sizes.dimensions, arguments, outputs, watch)
    }

    /// Runs the model into new memory.
    ///
    /// # Errors
    /// As [`Session::run`].
    pub fn call(&self, inputs: &Arrays) -> Result<Arrays, Error> {
        let mut outputs = self.outputs()?;
        self.run(inputs, &mut outputs)?;
        let mut out = Arrays::new();
        for (output, array) in self.model.graph().outputs().iter().zip(outputs) {
            out.insert(&*output.name, array)?;
        }
        Ok(out)
    }
}

fn zeros(dtype: DType, shape: &[usize], name: &str) -> Result<Array, Error> {
    Array::zeros(dtype, shape.to_vec()).map_err(|e| of_tensor(name, &e))
}

/// Why a tensor could not be made.
fn of_tensor(name: &str, why: &ArrayError) -> Error {
    Error::Run(format!("`{name}`: {why}"))
}

/// The shapes of arrays that were given for these ports. An array that was passed over counts by its name where no port has
/// it, so that it is reported as any other is that the model does not have.
fn shapes<'s>(ports: &[Port], arrays: &'s Arrays) -> Shapes<'s> {
    let is_port = |name: &&String| ports.iter().any(|port| *port.name == **name);
    let others = arrays.passed_over().iter().filter(|name| !is_port(name));
    let others = others.map(|name| (name.as_str(), [].as_slice()));
    arrays.iter().map(|(name, array)| (name, array.shape())).chain(others).collect()
}

fn dtype_faults(side: Side, ports: &[Port], arrays: &Arrays) -> Vec<Fault> {
    let wrong = ports.iter().filter_map(|port| {
        let (array, stored) = (arrays.get(&port.name)?, arrays.stored(&port.name)?);
        let tensor = || Tensor { side, name: port.name.clone() };
        if !converts(array.dtype(), port.dtype) {
            return Some(Fault::DType { tensor: tensor(), expected: port.dtype, found: stored });
        }
        let (index, value) = if port.dtype == DType::Bool { no_truth_value(array)? } else { return None };
        Some(Fault::NoTruthValue { tensor: tensor(), index, value })
    });
    wrong.collect()
}

/// The first integer of an array that is neither 0 nor 1, with its index along each axis.
fn no_truth_value(array: &Array) -> Option<(Vec<usize>, i64)> {
    let is_none = |n: &i64| *n != 0 && *n != 1;
    let (at, value) = match array.data() {
        Data::I32(values) => values.iter().copied().map(i64::from).enumerate().find(|(_, n)| is_none(n))?,
        Data::I64(values) => values.iter().copied().enumerate().find(|(_, n)| is_none(n))?,
        Data::F32(_) | Data::F16(_) | Data::BF16(_) | Data::Bool(_) => return None,
    };
    Some((index_of(at, array.shape()), value))
}

/// Whether values of one type are taken where another is declared: without loss, or 0 and 1 as truth values.
fn converts(from: DType, to: DType) -> bool {
    from == to
        || matches!(
            (from, to),
            (DType::F16 | DType::BF16, DType::F32)
                | (DType::I32, DType::I64)
                | (DType::I32 | DType::I64, DType::Bool)
        )
}

/// The array in the type with which elements of the declared type are computed; as it is if its own type does not
/// convert to the declared one, which is a fault that has been noted.
fn widened<'a>(array: &'a Array, port: &Port) -> Result<Cow<'a, Array>, Error> {
    let shape = array.shape().to_vec();
    let none = |dtype| ArrayError::no_memory(dtype, &shape);
    let wide = match (array.data(), port.dtype.compute()) {
        (Data::I32(values), DType::I64) => collected(values.len(), values.iter().map(|n| i64::from(*n)))
            .ok_or_else(|| none(DType::I64))
            .and_then(|values| Array::from_i64(shape.clone(), values)),
        (Data::I32(values), DType::Bool) => collected(values.len(), values.iter().map(|n| *n != 0))
            .ok_or_else(|| none(DType::Bool))
            .and_then(|values| Array::new(shape.clone(), Data::Bool(values.into()))),
        (Data::I64(values), DType::Bool) => collected(values.len(), values.iter().map(|n| *n != 0))
            .ok_or_else(|| none(DType::Bool))
            .and_then(|values| Array::new(shape.clone(), Data::Bool(values.into()))),
        (Data::F16(_) | Data::BF16(_), DType::F32) => array.clone().widen(),
        _ => return Ok(Cow::Borrowed(array)),
    };
    wide.map(Cow::Owned).map_err(|e| of_tensor(&port.name, &e))
}
