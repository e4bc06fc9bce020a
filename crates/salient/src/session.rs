//! A compiled model bound to dimensions and weights, to be run any number of times.
//!
//! All checks of names, shapes and dtypes that do not depend on elements are made here, before any kernel runs. Does not
//! compile anything: one model serves sessions of any dimensions.

use crate::bind::{self, Shapes};
use crate::engine::{Arguments, Prepared};
use crate::error::Error;
use crate::fault::{Fault, Side, Tensor};
use crate::init::initial;
use crate::model::Model;
use crate::weights::Weights;
use salient_io::Arrays;
use salient_ir::array::{Array, Data};
use salient_ir::{Bindings, DType, Port};
use std::borrow::Cow;
use std::time::Duration;

/// A model with its dimensions and its weights: see [`Model::session`]. Any number of threads may run it at once.
#[derive(Debug)]
pub struct Session<'a> {
    model: &'a Model,
    dimensions: Bindings,
    /// By position of the graph's inputs.
    input_shapes: Vec<Vec<usize>>,
    /// By position of the graph's parameters.
    params: Vec<Cow<'a, Array>>,
    /// Dtype and shape, by position of the graph's outputs.
    output_types: Vec<(DType, Vec<usize>)>,
    prepared: Prepared<'a>,
}

/// A kernel of a session, for reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelInfo {
    /// The name of what it computes.
    pub name: String,
    /// Its form: attention, product, rows, map.
    pub kind: &'static str,
    /// Floating-point operations of one run; what a mask hides is not subtracted.
    pub flops: i64,
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
        let dimensions = bind::bind(graph, &shapes(inputs), &shapes(given), set, weights.seed().is_some());
        let dimensions = match dimensions {
            Ok(dimensions) if faults.is_empty() => dimensions,
            Ok(_) => return Err(Error::Call(faults)),
            Err(others) => return Err(Error::Call(others.into_iter().chain(faults).collect())),
        };
        let extents = |axes: &[salient_ir::AxisId]| -> Vec<usize> {
            let extent = |d: salient_ir::Dim| d.eval(&dimensions).ok().and_then(|n| usize::try_from(n).ok());
            graph
                .shape(axes)
                .into_iter()
                .map(|d| extent(d).expect("extents were checked when bound"))
                .collect()
        };
        let input_shapes = graph.inputs().iter().map(|p| extents(&p.axes)).collect();
        let output_types: Vec<_> =
            graph.outputs().iter().map(|o| (graph.node(o.node).dtype, extents(&o.axes))).collect();
        let mut params = Vec::with_capacity(graph.params().len());
        for port in graph.params() {
            let array = match (weights.arrays().and_then(|w| w.get(&port.name)), weights.seed()) {
                (Some(array), _) => widened(array, port.dtype),
                (None, Some(seed)) => match initial(graph, port, &dimensions, seed) {
                    Ok(Some(array)) => Cow::Owned(widened(&array, port.dtype).into_owned()),
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
        let prepared = Prepared::new(model.code(), graph, &dimensions, &params)?;
        Ok(Session { model, dimensions, input_shapes, params, output_types, prepared })
    }

    /// The value of every dimension of the model.
    pub fn dimensions(&self) -> &Bindings {
        &self.dimensions
    }

    /// Bytes of working memory beside inputs, weights and outputs; `None` for the interpreter, which does not plan it.
    pub fn working_bytes(&self) -> Option<usize> {
        self.prepared.working_bytes()
    }

    /// The kernels of a run, in order; none for the interpreter.
    pub fn kernels(&self) -> Vec<KernelInfo> {
        let Some(program) = self.prepared.program() else { return Vec::new() };
        let info = |k: &salient_tile::Kernel| KernelInfo {
            name: k.name.clone(),
            kind: k.kind.name(),
            flops: k.flops.eval(&self.dimensions).unwrap_or(0),
        };
        program.kernels.iter().map(info).collect()
    }

    /// Memory for the outputs, in the order of the model's: zeros of the right dtypes and shapes.
    ///
    /// # Errors
    /// An output is too large for the address space.
    pub fn outputs(&self) -> Result<Vec<Array>, Error> {
        let zeros = |(dtype, shape): &(DType, Vec<usize>)| Array::zeros(*dtype, shape.clone());
        self.output_types.iter().map(zeros).collect::<Result<_, _>>().map_err(|e| Error::Run(e.to_string()))
    }

    /// Runs the model on borrowed inputs into memory of the caller, as made by [`Session::outputs`].
    ///
    /// # Errors
    /// [`Error::Call`] if an input or an output does not have the dtype and the shape of this session;
    /// [`Error::Run`] if the model has no value on this data, such as for an index outside its axis.
    ///
    /// # Panics
    /// The number of outputs is not that of the model.
    pub fn run(&self, inputs: &Arrays, outputs: &mut [Array]) -> Result<(), Error> {
        self.run_watched(inputs, outputs, &mut |_, _| {})
    }

    /// As [`Session::run`]; `watch` is told of each kernel, by position in [`Session::kernels`], and how long it took.
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
        let graph = self.model.graph();
        let mut faults = dtype_faults(Side::Input, graph.inputs(), inputs);
        let mut ordered = Vec::with_capacity(self.input_shapes.len());
        for (port, shape) in graph.inputs().iter().zip(&self.input_shapes) {
            let tensor = Tensor { side: Side::Input, name: port.name.clone() };
            match inputs.get(&port.name) {
                None => {
                    let declared = bind::declared(graph, port);
                    faults.push(Fault::Missing { tensor, declared, nearest: None });
                }
                Some(array) if array.shape() != shape.as_slice() => {
                    let (expected, found) = (shape.clone(), array.shape().to_vec());
                    faults.push(Fault::Shape { tensor, expected, found });
                }
                Some(array) => ordered.push(widened(array, port.dtype)),
            }
        }
        assert_eq!(outputs.len(), self.output_types.len(), "one array for each output of the model");
        for ((output, (dtype, shape)), memory) in
            graph.outputs().iter().zip(&self.output_types).zip(&*outputs)
        {
            let tensor = Tensor { side: Side::Output, name: output.name.clone() };
            if memory.dtype() != *dtype {
                faults.push(Fault::DType { tensor, expected: *dtype, found: memory.dtype() });
            } else if memory.shape() != shape.as_slice() {
                let (expected, found) = (shape.clone(), memory.shape().to_vec());
                faults.push(Fault::Shape { tensor, expected, found });
            }
        }
        if !faults.is_empty() {
            return Err(Error::Call(faults));
        }
        let arguments = Arguments { inputs: &ordered, params: &self.params };
        self.prepared.run(graph, &self.dimensions, arguments, outputs, watch)
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

fn shapes(arrays: &Arrays) -> Shapes<'_> {
    arrays.iter().map(|(name, array)| (name, array.shape())).collect()
}

fn dtype_faults(side: Side, ports: &[Port], arrays: &Arrays) -> Vec<Fault> {
    let wrong = ports.iter().filter_map(|port| {
        let found = arrays.get(&port.name)?.dtype();
        let tensor = Tensor { side, name: port.name.clone() };
        (!converts(found, port.dtype)).then_some(Fault::DType { tensor, expected: port.dtype, found })
    });
    wrong.collect()
}

/// Whether every value of one type is one of the other.
fn converts(from: DType, to: DType) -> bool {
    from == to || matches!((from, to), (DType::F16 | DType::BF16, DType::F32) | (DType::I32, DType::I64))
}

/// The array in the type with which elements of the declared type are computed; as it is if its own type does not
/// convert to the declared one, which is a fault that has been noted.
fn widened(array: &Array, declared: DType) -> Cow<'_, Array> {
    let data = match (array.data(), declared.compute()) {
        (Data::I32(values), DType::I64) => Data::I64(values.iter().map(|n| i64::from(*n)).collect()),
        (Data::F16(_) | Data::BF16(_), DType::F32) => return Cow::Owned(array.clone().widen()),
        _ => return Cow::Borrowed(array),
    };
    Cow::Owned(Array::new(array.shape().to_vec(), data).expect("the count does not change"))
}
