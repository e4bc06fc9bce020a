//! A case: one program with directives on top that say what is shown and what is run.
//!
//! ```text
//! //! show: fused kernels            the stages in the case's snapshot
//! //! run: T=7 seed=1                one call: dimensions, and the seed of inputs and parameters; any number of these
//! //! input: ids = ints(0, 10)       how an input is drawn, or its values; see `data`
//! //! expect: y = [1, 2]             the outputs of every run, by independent arithmetic
//! //! model: NAME                    which model of the file
//! //! set: H=2                       a dimension or a parameter in brackets, fixed when compiling
//! //! error:                         the program is refused; the messages are the snapshot
//! //! fails: TEXT                    the runs are refused by every engine, with a message that holds the text
//! ```
//!
//! An unknown directive is an error: a misspelt one must not pass silently.

use crate::agree::all_agree;
use crate::data::Values;
use crate::ways::{Call, Ways};
use salient::{
    Arrays, Bindings, Engine, Graph, Isa, IsaChoice, Options, Sources, Stage, Timings, lower, print_stage,
};
use std::collections::BTreeMap;

/// One call of a case.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// The extents that are not those of literals.
    pub dimensions: Bindings,
    /// The seed of inputs and parameters.
    pub seed: u64,
}

/// The directives of a case.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Case {
    /// Which stages the snapshot holds, in order.
    pub show: Vec<Stage>,
    /// The calls.
    pub runs: Vec<Run>,
    /// How inputs are made, where not by default.
    pub inputs: BTreeMap<String, Values>,
    /// What outputs must be.
    pub expect: BTreeMap<String, Values>,
    /// The model's name, where the file has several.
    pub model: Option<String>,
    /// What is fixed when compiling.
    pub set: Vec<(String, String)>,
    /// Whether the program is refused.
    pub error: bool,
    /// A part of the message with which every engine refuses the runs.
    pub fails: Option<String>,
}

impl Case {
    /// Reads the directives of a program.
    ///
    /// # Errors
    /// The line that is no directive, or a combination that means nothing.
    pub fn parse(text: &str) -> Result<Case, String> {
        let mut case = Case::default();
        for (at, line) in text.lines().enumerate() {
            let Some(directive) = line.trim_start().strip_prefix("//!") else { continue };
            case.directive(directive).map_err(|why| format!("line {}: {why}", at + 1))?;
        }
        case.sensible()?;
        Ok(case)
    }

    fn directive(&mut self, text: &str) -> Result<(), String> {
        let (word, rest) = text.split_once(':').ok_or("a directive is `//! WORD: …`")?;
        let rest = rest.trim();
        match word.trim() {
            "show" => {
                for name in rest.split_whitespace() {
                    self.show.push(Stage::from_name(name).ok_or_else(|| format!("no stage `{name}`"))?);
                }
            }
            "run" => self.runs.push(run(rest)?),
            "input" => {
                let (name, values) = pair(rest)?;
                self.inputs.insert(name, Values::parse(&values)?);
            }
            "expect" => {
                let (name, values) = pair(rest)?;
                self.expect.insert(name, Values::parse(&values)?);
            }
            "model" => self.model = Some(rest.to_owned()),
            "set" => self.set.push(pair(rest)?),
            "error" if rest.is_empty() => self.error = true,
            "fails" if !rest.is_empty() => self.fails = Some(rest.to_owned()),
            other => return Err(format!("no directive `{other}: {rest}`")),
        }
        Ok(())
    }

    fn sensible(&self) -> Result<(), String> {
        if self.show.is_empty() && self.runs.is_empty() && !self.error {
            return Err("the case has no `show`, no `run` and no `error`".to_owned());
        }
        if self.error && !(self.show.is_empty() && self.runs.is_empty()) {
            return Err("a program that is refused shows and runs nothing".to_owned());
        }
        if self.runs.is_empty()
            && (!self.expect.is_empty() || !self.inputs.is_empty() || self.fails.is_some())
        {
            return Err("without a `run` there are no inputs and nothing to expect".to_owned());
        }
        if self.fails.is_some() && !self.expect.is_empty() {
            return Err("a run that fails has no outputs".to_owned());
        }
        Ok(())
    }

    /// How the case is compiled.
    pub fn options(&self) -> Options {
        // The portable vectors: what is shown must not depend on the machine.
        let isa = IsaChoice::Only(Isa::Baseline);
        Options { model: self.model.clone(), set: self.set.clone(), isa, ..Options::default() }
    }

    /// Runs everything that the directives ask for; gives the text of the snapshot, if there is one.
    ///
    /// # Errors
    /// Whatever is not as the directives say.
    pub fn check(&self, sources: &Sources) -> Result<Option<String>, String> {
        let options = self.options();
        let graph = match lower(sources, &options) {
            Ok(lowered) if self.error => return Err(format!("`{}` is accepted", lowered.graph.name())),
            Ok(lowered) => lowered.graph,
            Err(error) if self.error => return Ok(Some(error.to_string())),
            Err(error) => return Err(error.to_string()),
        };
        if !self.runs.is_empty() {
            let ways = Ways::new(&graph)?;
            for run in &self.runs {
                self.check_run(&ways, run).map_err(|why| format!("at {run:?}:\n{why}"))?;
            }
        }
        let mut shown = String::new();
        for stage in &self.show {
            let options = Options { engine: Engine::Jit, ..options.clone() };
            let text =
                print_stage(sources, *stage, &options, &mut Timings::default()).map_err(|e| e.to_string())?;
            shown += &format!("// {stage}\n{text}");
        }
        Ok((!shown.is_empty()).then_some(shown))
    }

    fn check_run(&self, ways: &Ways, run: &Run) -> Result<(), String> {
        let call = self.call(ways.graph(), run)?;
        if let Some(text) = &self.fails {
            let silent = ways.refusals(&call)?.into_iter().find(|(_, message)| !message.contains(text));
            return silent.map_or(Ok(()), |(way, message)| Err(format!("{way} says: {message}")));
        }
        let outputs = ways.check(&call)?;
        if self.expect.is_empty() {
            return Ok(());
        }
        let mut found = Arrays::new();
        let mut expected = Arrays::new();
        for (name, values) in &self.expect {
            let output = outputs.get(name).ok_or_else(|| format!("`{name}` is no output"))?;
            let array =
                values.array(output.dtype(), output.shape(), name).map_err(|e| format!("`{name}`: {e}"))?;
            expected.insert(name.clone(), array).map_err(|e| e.to_string())?;
            found.insert(name.clone(), output.clone()).map_err(|e| e.to_string())?;
        }
        all_agree(&found, &expected)
    }

    /// The arguments of one of the runs on a model with that graph.
    ///
    /// # Errors
    /// An input that the graph does not have, or that does not fit it.
    pub fn call(&self, graph: &Graph, run: &Run) -> Result<Call, String> {
        let unknown = self.inputs.keys().find(|name| !graph.inputs().iter().any(|p| *p.name == ***name));
        if let Some(name) = unknown {
            return Err(format!("the model has no input `{name}`"));
        }
        let mut call = Call { seed: Some(run.seed), dimensions: run.dimensions.clone(), ..Call::default() };
        for port in graph.inputs() {
            let values = self.inputs.get(&*port.name).cloned().unwrap_or(Values::default_for(port.dtype));
            let shape = match &values {
                Values::Literal(shape, _) => shape.clone(),
                Values::Floats(..) | Values::Ints(..) | Values::Bools(_) => {
                    let extents = graph.shape(&port.axes).into_iter().map(|dim| {
                        let n = dim.eval(&run.dimensions).map_err(|e| format!("`{}`: {e}", port.name))?;
                        usize::try_from(n).map_err(|e| format!("`{}`: {e}", port.name))
                    });
                    extents.collect::<Result<_, String>>()?
                }
            };
            let key = format!("{}/{}", run.seed, port.name);
            let array =
                values.array(port.dtype, &shape, &key).map_err(|e| format!("`{}`: {e}", port.name))?;
            call.inputs.insert(&*port.name, array).map_err(|e| e.to_string())?;
        }
        Ok(call)
    }
}

fn pair(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or_else(|| format!("`{text}` is not NAME = VALUE"))?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

fn run(text: &str) -> Result<Run, String> {
    let mut run = Run { dimensions: Bindings::new(), seed: 0 };
    for word in text.split_whitespace() {
        let (name, value) = pair(word)?;
        let bad = |_| format!("`{word}` is not NAME=NUMBER");
        if name == "seed" {
            run.seed = value.parse().map_err(bad)?;
        } else {
            run.dimensions.insert(name.as_str().into(), value.parse().map_err(bad)?);
        }
    }
    Ok(run)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directives_are_read() {
        let case = Case::parse(
            "//! show: fused kernels\n//! run: T=7 seed=3\n//! run: T=1\n//! input: x = [1]\n\
             /// Documentation.\nmodel m() {}",
        )
        .unwrap();
        assert_eq!(case.show, [Stage::Fused, Stage::Kernels]);
        assert_eq!(case.runs.len(), 2);
        assert_eq!((case.runs[0].seed, case.runs[0].dimensions["T"]), (3, 7));
        assert_eq!(case.inputs["x"], Values::Literal(vec![1], vec![1.0]));
    }

    #[test]
    fn whatever_is_no_directive_is_refused() {
        for wrong in [
            "model m() {}",
            "//! shows: fused",
            "//! show: fusion",
            "//! show fused",
            "//! run: T",
            "//! run: T=x",
            "//! error: soon",
            "//! error:\n//! show: graph",
            "//! show: graph\n//! expect: y = [1]",
            "//! run: T=1\n//! fails:",
            "//! run: T=1\n//! fails: x\n//! expect: y = [1]",
            "//! run: T=1\n//! input: x 3",
        ] {
            assert!(Case::parse(wrong).is_err(), "{wrong}");
        }
    }
}
