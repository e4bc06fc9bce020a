//! The class `salient.Model` and the function that makes one.

use crate::arrays::{like, to_numpy};
use crate::bound::Bound as BoundModel;
use crate::call::{Inputs, Results, one_or_all, results};
use crate::errors::raised;
use crate::html;
use crate::weights::{Given, Held};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use salient::{Array, Arrays, DType, Data, Error, Options, Sources, Stage, Timings};
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes of stack. Passes recurse along chains of operators, which a program can make long; only what is used is touched.
const STACK: usize = 1 << 30;

/// What a model was compiled from.
struct Origin {
    sources: Sources,
    options: Options,
    /// Whether the model is the backward pass of what stands in the source.
    is_backward: bool,
}

impl Origin {
    /// A text that is made of the source is not one of its backward pass.
    fn source(&self) -> PyResult<(&Sources, &Options)> {
        if self.is_backward {
            return Err(PyValueError::new_err(
                "a backward pass has no source: ask the model that it belongs to",
            ));
        }
        Ok((&self.sources, &self.options))
    }
}

/// A compiled model with its weights. Call it with arrays; any number of threads may.
#[pyclass(frozen, module = "salient", weakref)]
pub(crate) struct Model {
    origin: Arc<Origin>,
    code: Arc<salient::Model>,
    weights: Arc<Held>,
    /// Made at the first call, whose shapes it needs.
    bound: Mutex<Option<Arc<BoundModel>>>,
}

/// Compiles texts of files, of which the first is the program.
#[pyfunction]
#[pyo3(signature = (files, path, model, sizes, weights, prefix, seed, threads))]
#[expect(clippy::too_many_arguments, reason = "called by the function of salient that has names for them")]
pub(crate) fn compile(
    py: Python<'_>,
    files: Vec<(String, String)>,
    path: Option<std::path::PathBuf>,
    model: Option<String>,
    sizes: Vec<(String, String)>,
    weights: Option<Bound<'_, PyAny>>,
    prefix: String,
    seed: Option<u64>,
    threads: Option<usize>,
) -> PyResult<Model> {
    let options = Options { model, set: sizes, threads, ..Options::default() };
    let sources = match path {
        Some(path) => py.detach(|| salient::read_sources(path)).map_err(raised)?,
        None => {
            let mut sources = Sources::new();
            files.iter().for_each(|(name, text)| _ = sources.add(name, text));
            sources
        }
    };
    let given = Given { weights, prefix, seed };
    let graph = py.detach(|| on_stack(|| salient::lower(&sources, &options))).map_err(raised)?.graph;
    let weights = Held::of(py, &given, &graph)?;
    let options = weights.options(options);
    let code = py.detach(|| on_stack(|| salient::Model::from_sources(&sources, &options))).map_err(raised)?;
    let origin = Arc::new(Origin { sources, options, is_backward: false });
    Ok(Model { origin, code: Arc::new(code), weights: Arc::new(weights), bound: Mutex::new(None) })
}

/// Does it on a deep stack.
fn on_stack<R: Send>(work: impl FnOnce() -> Result<R, Error> + Send) -> Result<R, Error> {
    let failed = |e: std::io::Error| Error::Run(format!("no thread could be started: {e}"));
    salient::with_stack(STACK, work).map_err(failed)?
}

#[pymethods]
impl Model {
    /// Runs the model: see `salient.Model.__call__` in the stubs.
    #[pyo3(signature = (*args, out = None, **inputs))]
    fn __call__<'py>(
        &self,
        py: Python<'py>,
        args: &Bound<'py, PyTuple>,
        out: Option<&Bound<'py, PyAny>>,
        inputs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let given = Inputs::given(self.code.graph(), args, inputs)?;
        let bound = self.bound(py, &given.arrays)?;
        let types = py.detach(|| bound.with_session(&given.arrays, |s| Ok(s.output_types().to_vec())));
        let types = types.map_err(raised)?;
        let mut results = Results::memory(py, (self.code.graph(), &types), out, &given)?;
        let arrays = &given.arrays;
        let run = |memory: &mut Vec<Array>| bound.with_session(arrays, |s| s.run(arrays, memory));
        py.detach(|| run(&mut results.memory)).map_err(raised)?;
        results.give(py, out, given.other.as_ref())
    }

    /// Seconds that a call takes without what Python adds to it, on average of so many: for measurements.
    fn _seconds(&self, py: Python<'_>, count: u32, args: &Bound<'_, PyTuple>) -> PyResult<f64> {
        let given = Inputs::given(self.code.graph(), args, None)?;
        let bound = self.bound(py, &given.arrays)?;
        let time = |session: &salient::Session<'_>| {
            let mut memory = session.outputs()?;
            let before = std::time::Instant::now();
            (0..count).try_for_each(|_| session.run(&given.arrays, &mut memory))?;
            Ok(before.elapsed().as_secs_f64() / f64::from(count.max(1)))
        };
        py.detach(|| bound.with_session(&given.arrays, time)).map_err(raised)
    }

    /// Where the elements lie that a call with these inputs reads: for tests.
    fn _addresses(&self, args: &Bound<'_, PyTuple>) -> PyResult<Vec<usize>> {
        let given = Inputs::given(self.code.graph(), args, None)?;
        Ok(given.arrays.iter().map(|(_, array)| address(array)).collect())
    }

    /// Runs one step of a model with states, which begins with what the step before left.
    #[pyo3(signature = (*args, **inputs))]
    fn step<'py>(
        &self,
        py: Python<'py>,
        args: &Bound<'py, PyTuple>,
        inputs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let given = Inputs::given(self.code.graph(), args, inputs)?;
        let bound = self.bound(py, &given.arrays)?;
        let results = py.detach(|| bound.step(&given.arrays)).map_err(raised)?;
        let named = results.into_iter().map(|(name, array)| {
            let dtype = array.dtype();
            Ok((name, like(given.other.as_ref(), to_numpy(py, array)?, dtype)?))
        });
        one_or_all(py, named.collect::<PyResult<Vec<_>>>()?)
    }

    /// Forgets the states: the next step begins with zeros.
    fn reset(&self) {
        if let Some(bound) = &*self.bound.lock().unwrap_or_else(PoisonError::into_inner) {
            bound.reset();
        }
    }

    /// The states after the last step, by path: copies. Empty before the first.
    #[getter]
    fn states<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let states = PyDict::new(py);
        let bound = self.bound.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for (name, array) in bound.iter().flat_map(|bound| bound.states()) {
            states.set_item(name, to_numpy(py, array)?)?;
        }
        Ok(states)
    }

    /// The same code with other weights.
    #[pyo3(signature = (weights, prefix = "", seed = None))]
    fn with_weights(
        &self,
        py: Python<'_>,
        weights: Bound<'_, PyAny>,
        prefix: &str,
        seed: Option<u64>,
    ) -> PyResult<Model> {
        let given = Given { weights: Some(weights), prefix: prefix.to_owned(), seed };
        let weights = Arc::new(Held::of(py, &given, self.code.graph())?);
        let (origin, code) = (self.origin.clone(), self.code.clone());
        Ok(Model { origin, code, weights, bound: Mutex::new(None) })
    }

    /// The name of the model in the source.
    #[getter]
    fn name(&self) -> &str {
        self.code.graph().name()
    }

    /// The inputs, by name: dtype and the dimensions of the shape, as text.
    #[getter]
    fn inputs<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let graph = self.code.graph();
        let is_state = |at: &usize| graph.states().iter().any(|state| state.input == *at);
        let ports = graph.inputs().iter().enumerate().filter(|(at, _)| !is_state(at));
        self.types(py, ports.map(|(_, port)| (&*port.name, port.dtype, &*port.axes)))
    }

    /// The parameters, by path: dtype and the dimensions of the shape, as text.
    #[getter]
    fn parameters<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let ports = self.code.graph().params().iter();
        self.types(py, ports.map(|port| (&*port.name, port.dtype, &*port.axes)))
    }

    /// The results, by name: dtype and the dimensions of the shape, as text.
    #[getter]
    fn outputs<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let graph = self.code.graph();
        let types = PyDict::new(py);
        for (at, name) in results(graph) {
            let output = &graph.outputs()[at];
            let dtype = graph.node(output.node).dtype;
            types.set_item(name, self.typed(dtype, &output.axes))?;
        }
        Ok(types)
    }

    /// The weights that the model was given, by path: copies. Those of `in_blocks` are not among them.
    #[getter]
    fn weights<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        self.weights.copies(py)
    }

    /// The paths of the weights that the checkpoint stores in blocks of few bits, and that calls read in that form.
    #[getter]
    fn in_blocks(&self) -> Vec<&str> {
        self.weights.in_blocks()
    }

    /// The backward pass: a model of the same inputs and parameters and of the cotangents of its results, which gives its results and
    /// the gradients by inputs and parameters. The cotangent of a result `y` and the gradient by an input `x` are called `d_y` and
    /// `d_x`.
    fn backward(&self, py: Python<'_>) -> PyResult<Model> {
        let options = Options { coded: Default::default(), ..self.origin.options.clone() };
        let code = py.detach(|| on_stack(|| self.code.backward(&options))).map_err(raised)?;
        let origin = Arc::new(Origin { sources: self.origin.sources.clone(), options, is_backward: true });
        let weights = self.weights.clone();
        Ok(Model { origin, code: Arc::new(code), weights, bound: Mutex::new(None) })
    }

    /// What the source is warned of, with the lines; empty if there is nothing.
    #[getter]
    fn warnings(&self) -> String {
        self.code.warnings(false)
    }

    /// The model as text, on its way to machine code: see `salient ir`.
    #[pyo3(signature = (stage = "fused"))]
    fn ir(&self, py: Python<'_>, stage: &str) -> PyResult<String> {
        let found = Stage::from_name(stage).ok_or_else(|| {
            let names: Vec<&str> = Stage::ALL.into_iter().map(Stage::name).collect();
            PyValueError::new_err(format!("there is no stage `{stage}`; there are {}", names.join(", ")))
        })?;
        self.print(py, found, &[])
    }

    /// What is stored, and the kernels that store it.
    fn plan(&self, py: Python<'_>) -> PyResult<String> {
        self.print(py, Stage::Plan, &[])
    }

    /// How much memory a call works in, beside inputs, weights and results: formulas of the dimensions that are not given.
    #[pyo3(signature = (**sizes))]
    fn memory(&self, py: Python<'_>, sizes: Option<&Bound<'_, PyDict>>) -> PyResult<String> {
        let mut set = Vec::new();
        for (name, value) in sizes.into_iter().flatten() {
            set.push((name.extract::<String>()?, value.str()?.to_string()));
        }
        self.print(py, Stage::Memory, &set)
    }

    /// What was fused, by which rules, and why what was not was not; `node` says of which value alone.
    #[pyo3(signature = (node = None))]
    fn explain(&self, py: Python<'_>, node: Option<&str>) -> PyResult<String> {
        let (sources, options) = self.origin.source()?;
        let explain = || salient::explain(sources, options, node, &mut Timings::default());
        py.detach(|| on_stack(explain)).map_err(raised)
    }

    /// The picture of a stage (`graph`, `fused` or `plan`) as SVG.
    #[pyo3(signature = (stage = "plan"))]
    fn svg(&self, py: Python<'_>, stage: &str) -> PyResult<String> {
        let (sources, options) = self.origin.source()?;
        let draw = |stage| salient::drawing(sources, stage, options, &mut Timings::default());
        let drawn = match Stage::from_name(stage) {
            Some(stage) => py.detach(|| on_stack(|| draw(stage))).map_err(raised)?,
            None => None,
        };
        let none = || PyValueError::new_err(format!("graph, fused and plan can be drawn, and not `{stage}`"));
        Ok(salient_draw::graph::picture::picture(&drawn.ok_or_else(none)?))
    }

    /// What notebooks show: the fused program, the certificate, the picture of the plan, and the masks of attentions.
    fn _repr_html_(&self, py: Python<'_>) -> PyResult<String> {
        let (sources, options) = self.origin.source()?;
        let mask = py.detach(|| on_stack(|| Ok(html::mask(sources, options, self.code.graph()))));
        Ok(html::page(&html::Parts {
            head: self.__repr__()?,
            fused: self.ir(py, "fused")?,
            certificate: self.explain(py, None)?,
            plan: self.svg(py, "plan")?,
            mask: mask.map_err(raised)?,
        }))
    }

    fn __repr__(&self) -> PyResult<String> {
        let graph = self.code.graph();
        let mut text = format!("<salient.Model {}(", graph.name());
        let is_state = |at: &usize| graph.states().iter().any(|state| state.input == *at);
        let ports = graph.inputs().iter().enumerate().filter(|(at, _)| !is_state(at));
        let inputs: Vec<String> =
            ports.map(|(_, p)| format!("{}: {}", p.name, self.typed(p.dtype, &p.axes))).collect();
        text += &inputs.join(", ");
        let outputs: Vec<&str> = results(graph).map(|(_, name)| name).collect();
        text += &format!(") -> {}", outputs.join(", "));
        if !graph.params().is_empty() {
            text += &format!(", {} parameters", graph.params().len());
        }
        Ok(text + ">")
    }

    /// What another process makes the same model of.
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let (sources, options) = self.origin.source()?;
        let files: Vec<(String, String)> =
            sources.user_files().iter().map(|f| (f.name.clone(), f.text.clone())).collect();
        let (weights, prefix, seed) = self.weights.sent(py)?;
        let compile = py.import("salient._salient")?.getattr("compile")?;
        let (model, set) = (options.model.clone(), options.set.clone());
        let arguments = (files, None::<String>, model, set, weights, prefix, seed, options.threads);
        Ok((compile, arguments.into_pyobject(py)?))
    }
}

impl Model {
    fn typed(&self, dtype: DType, axes: &[salient::AxisId]) -> String {
        let extents: Vec<String> = self.code.graph().shape(axes).iter().map(ToString::to_string).collect();
        format!("{dtype}[{}]", extents.join(", "))
    }

    fn types<'py, 'm>(
        &self,
        py: Python<'py>,
        ports: impl Iterator<Item = (&'m str, DType, &'m [salient::AxisId])>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let types = PyDict::new(py);
        for (name, dtype, axes) in ports {
            types.set_item(name, self.typed(dtype, axes))?;
        }
        Ok(types)
    }

    fn print(&self, py: Python<'_>, stage: Stage, set: &[(String, String)]) -> PyResult<String> {
        let (sources, options) = self.origin.source()?;
        let mut options = options.clone();
        options.set.extend_from_slice(set);
        let print = || salient::print_stage(sources, stage, &options, &mut Timings::default());
        py.detach(|| on_stack(print)).map_err(raised)
    }

    /// The model with its weights; they are bound at the first call.
    fn bound(&self, py: Python<'_>, inputs: &Arrays) -> PyResult<Arc<BoundModel>> {
        if let Some(bound) = &*self.bound.lock().unwrap_or_else(PoisonError::into_inner) {
            return Ok(bound.clone());
        }
        let (code, weights) = (self.code.clone(), self.weights.clone());
        let made = py.detach(|| BoundModel::bind(code, weights, inputs)).map_err(raised)?;
        // Of two threads that call first the one that comes last finds what the other has made.
        let mut bound = self.bound.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(bound.get_or_insert_with(|| Arc::new(made)).clone())
    }
}

/// Where the elements of an array lie.
fn address(array: &Array) -> usize {
    match array.data() {
        Data::F32(v) => v.as_ptr().addr(),
        Data::F16(v) | Data::BF16(v) => v.as_ptr().addr(),
        Data::I32(v) => v.as_ptr().addr(),
        Data::I64(v) => v.as_ptr().addr(),
        Data::Bool(v) => v.as_ptr().addr(),
    }
}
