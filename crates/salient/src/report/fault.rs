//! What can be wrong with the tensors of a call, each as data and as one sentence.
//!
//! Says nothing about how a fault is found (that is `bind`) and nothing about the source of the model.

use crate::report::places::Places;
use salient_io::Stored;
use salient_ir::{DType, Name, Origin};
use std::fmt;

/// What a tensor of a call is to the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Side {
    /// An input, given anew with each call.
    Input,
    /// What is kept from the call before.
    State,
    /// A parameter, as checkpoints hold them.
    Param,
    /// A result, whose memory the caller gives.
    Output,
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Side::Input => "input",
            Side::State => "state",
            Side::Param => "parameter",
            Side::Output => "output",
        })
    }
}

/// A tensor of a model, as messages name it: ``input `x` ``.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tensor {
    /// Which kind.
    pub side: Side,
    /// The name of the input or output, or the path of the parameter or state.
    pub name: Name,
}

impl fmt::Display for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} `{}`", self.side, self.name)
    }
}

/// Where the value of a dimension came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// The caller fixed it (`--set` of the command line).
    Set,
    /// A state that holds nothing yet.
    Reset,
    /// The length of an axis of a tensor that was given.
    Axis(Tensor, usize),
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Set => f.write_str("as it was set"),
            Source::Reset => f.write_str("as nothing is held yet"),
            Source::Axis(tensor, axis) => write!(f, "from axis {axis} of {tensor}"),
        }
    }
}

/// Where in the source that which a call does not fit was written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// In the sources of the compilation.
    pub origin: Option<Origin>,
    /// `FILE:LINE:COLUMN`, lines and columns from one, if the model was compiled from source text.
    pub text: Option<String>,
}

impl From<Option<Origin>> for Place {
    fn from(origin: Option<Origin>) -> Place {
        Place { origin, text: None }
    }
}

/// One thing that is wrong with a call. Axes count from zero.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A tensor of the model was not given.
    Missing {
        /// The tensor.
        tensor: Tensor,
        /// Its type as declared: `f32[T, D]`.
        declared: String,
        /// A tensor that was given, is not of the model, and has nearly that name.
        nearest: Option<String>,
    },
    /// A tensor was given that the model does not have.
    Unknown {
        /// The tensor.
        tensor: Tensor,
        /// The names that the model has on that side.
        known: Vec<Name>,
        /// The one of them that is nearest.
        nearest: Option<String>,
    },
    /// The elements are of another type, from which nothing can be converted without loss.
    DType {
        /// The tensor.
        tensor: Tensor,
        /// As declared.
        expected: DType,
        /// As given: as the file stores it, where it is from one.
        found: Stored,
    },
    /// An integer that is given as a truth value is neither 0 nor 1.
    NoTruthValue {
        /// The tensor.
        tensor: Tensor,
        /// The index of the element along each axis.
        index: Vec<usize>,
        /// The integer.
        value: i64,
    },
    /// Another number of axes.
    Rank {
        /// The tensor.
        tensor: Tensor,
        /// Its type as declared: `f32[T, D]`.
        declared: String,
        /// The shape that was given.
        found: Vec<usize>,
        /// Where the tensor is declared.
        place: Place,
    },
    /// Another shape than the session was made for.
    Shape {
        /// The tensor.
        tensor: Tensor,
        /// The session's shape.
        expected: Vec<usize>,
        /// The shape that was given.
        found: Vec<usize>,
    },
    /// An axis has another length.
    Extent {
        /// The tensor.
        tensor: Tensor,
        /// The axis.
        axis: usize,
        /// The dimension as declared: `3 * D`.
        dim: String,
        /// Its value.
        expected: i64,
        /// Where the values of its symbols came from, by symbol.
        because: Vec<(Name, Source)>,
        /// The length that was given.
        found: usize,
        /// Where the tensor is declared.
        place: Place,
    },
    /// The length of an axis cannot be what its dimension says, whatever its symbol is: 7 for `2 * T`.
    Impossible {
        /// The tensor.
        tensor: Tensor,
        /// The axis.
        axis: usize,
        /// The dimension as declared, with what is known of it.
        dim: String,
        /// The length that was given.
        found: usize,
        /// Where the tensor is declared.
        place: Place,
    },
    /// No trials were asked for.
    NothingTried,
    /// No lengths of these dimensions were found that the model accepts; there may be some.
    NoLengths(Vec<Name>),
    /// No tensor determines these dimensions.
    Undetermined(Vec<Name>),
    /// Dimensions were set that the model does not have.
    NoSuchDimension {
        /// What was set.
        name: Name,
        /// The dimensions that the model has.
        known: Vec<Name>,
    },
    /// A relation between dimensions that the model requires does not hold.
    Requirement {
        /// Which, with its numbers.
        sentence: String,
        /// Where it is required.
        place: Place,
    },
    /// A dimension of the model has no value or a negative one.
    Dimension {
        /// Which, with its numbers.
        sentence: String,
        /// Where something of that length is defined.
        place: Place,
    },
    /// A parameter was to be initialised and declares no initialiser.
    NoInitialiser {
        /// The parameter's path.
        path: Name,
    },
}

impl Fault {
    /// Says where in these sources that was written which the call does not fit.
    pub(crate) fn locate(&mut self, places: &Places) {
        match self {
            Fault::Rank { place, .. }
            | Fault::Extent { place, .. }
            | Fault::Impossible { place, .. }
            | Fault::Requirement { place, .. }
            | Fault::Dimension { place, .. } => place.text = places.place(place.origin),
            Fault::Missing { .. }
            | Fault::Unknown { .. }
            | Fault::DType { .. }
            | Fault::NoTruthValue { .. }
            | Fault::Shape { .. }
            | Fault::NothingTried
            | Fault::NoLengths(_)
            | Fault::Undetermined(_)
            | Fault::NoSuchDimension { .. }
            | Fault::NoInitialiser { .. } => {}
        }
    }
}

/// Where a tensor was declared, behind what is wrong with it.
fn declared_in(f: &mut fmt::Formatter<'_>, place: &Place) -> fmt::Result {
    place.text.as_ref().map_or(Ok(()), |text| write!(f, "; it is declared in {text}"))
}

/// `` `a`, `b` and `c` ``, or what to say where there is none.
fn listed(names: &[Name]) -> String {
    salient_front::diag::listed(names.iter().map(|n| &**n))
}

fn shape_text(shape: &[usize]) -> String {
    let extents: Vec<String> = shape.iter().map(usize::to_string).collect();
    format!("[{}]", extents.join(", "))
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Missing { tensor, declared, nearest } => {
                write!(f, "{tensor} is missing: the model needs {declared}")?;
                match nearest {
                    Some(name) => write!(f, " (`{name}` was given; is it meant?)"),
                    None => Ok(()),
                }
            }
            Fault::Unknown { tensor, known, nearest } => {
                let side = tensor.side;
                write!(f, "the model has no {tensor}; ")?;
                match nearest {
                    Some(name) => write!(f, "did you mean `{name}`?"),
                    None if known.is_empty() => write!(f, "it has no {side}s"),
                    None => write!(f, "its {side}s are {}", listed(known)),
                }
            }
            Fault::DType { tensor, expected, found } => {
                write!(f, "{tensor} has elements of type {}, expected {expected}", found.described())
            }
            Fault::NoTruthValue { tensor, index, value } => {
                let index = shape_text(index);
                write!(f, "{tensor}: element {index} is {value}; an integer is a truth value if it is 0 or 1")
            }
            Fault::Rank { tensor, declared, found, place } => {
                write!(f, "{tensor} has the shape {}, expected {declared}", shape_text(found))?;
                declared_in(f, place)
            }
            Fault::Shape { tensor, expected, found } => {
                let (expected, found) = (shape_text(expected), shape_text(found));
                write!(f, "{tensor} has the shape {found}, expected {expected}")
            }
            Fault::Extent { tensor, axis, dim, expected, because, found, place } => {
                write!(f, "{tensor}: axis {axis} has length {found}, expected ")?;
                match because.as_slice() {
                    [] => write!(f, "{expected}"),
                    [(_, source)] => write!(f, "{dim} = {expected} ({source})"),
                    several => {
                        let from: Vec<String> = several.iter().map(|(n, s)| format!("{n} {s}")).collect();
                        write!(f, "{dim} = {expected} ({})", from.join(", "))
                    }
                }?;
                declared_in(f, place)
            }
            Fault::Impossible { tensor, axis, dim, found, place } => {
                write!(f, "{tensor}: axis {axis} has length {found}, which {dim} cannot be")?;
                declared_in(f, place)
            }
            Fault::Undetermined(names) => {
                let (noun, it) = if names.len() == 1 { ("dimension", "it") } else { ("dimensions", "them") };
                write!(f, "no tensor determines the {noun} {}; give {it} with ", listed(names))?;
                let flags: Vec<String> = names.iter().map(|n| format!("--set {n}=LENGTH")).collect();
                f.write_str(&flags.join(" "))
            }
            Fault::NoLengths(names) => {
                let flags: Vec<String> = names.iter().map(|n| format!("--set {n}=LENGTH")).collect();
                let (names, flags) = (listed(names), flags.join(" "));
                write!(f, "no lengths of {names} were found that the model accepts; give some with {flags}")
            }
            Fault::NothingTried => f.write_str("nothing is compared in 0 trials"),
            Fault::NoSuchDimension { name, known } => {
                write!(f, "the model has no dimension `{name}` to set; its dimensions are {}", listed(known))
            }
            Fault::Requirement { sentence, place } | Fault::Dimension { sentence, place } => {
                f.write_str(sentence)?;
                place.text.as_ref().map_or(Ok(()), |text| write!(f, " ({text})"))
            }
            Fault::NoInitialiser { path } => {
                write!(f, "parameter `{path}` is missing and declares no initialiser")
            }
        }
    }
}
