//! Every way of running a model: the interpreter, code of the graph as written, code fused by exact rules alone, and fused
//! code for each width of vectors, on one thread and on several.
//!
//! The interpreter on the graph as written is the oracle; all others must agree with it, and the same code must give the
//! same bits on any number of threads.

use crate::agree::all_agree;
use salient::{Arrays, Bindings, Engine, Error, Fp, Graph, Isa, IsaChoice, Model, Options, Weights};

/// The arguments of one call.
#[derive(Clone, Debug, Default)]
pub struct Call {
    /// The inputs by name.
    pub inputs: Arrays,
    /// The parameters by path.
    pub params: Arrays,
    /// Draws the parameters that are not given.
    pub seed: Option<u64>,
    /// Dimensions that no tensor determines.
    pub dimensions: Bindings,
}

impl Call {
    /// The outputs of a model.
    ///
    /// # Errors
    /// As [`Model::session_with`] and [`salient::Session::run`].
    pub fn run(&self, model: &Model) -> Result<Arrays, Error> {
        let mut weights = Weights::from(&self.params);
        if let Some(seed) = self.seed {
            weights = weights.or_seeded(seed);
        }
        model.session_with(&self.inputs, weights, &self.dimensions)?.call(&self.inputs)
    }
}

/// A model, compiled in every way.
#[derive(Debug)]
pub struct Ways {
    oracle: Model,
    /// The name of each way, and one model for each number of threads: the first runs on one.
    compiled: Vec<(String, Vec<Model>)>,
}

/// The widths of vectors that this machine has.
fn widths() -> impl Iterator<Item = Isa> {
    Isa::ALL.into_iter().filter(|isa| *isa <= Isa::detect())
}

impl Ways {
    /// Compiles a graph in every way.
    ///
    /// # Errors
    /// A way in which it does not compile, and why.
    pub fn new(graph: &Graph) -> Result<Ways, String> {
        let with = |engine, fp, isa, threads| {
            let options = Options { engine, fp, isa, threads: Some(threads), ..Options::default() };
            Model::from_graph(graph.clone(), &options).map_err(|e| format!("{engine}: {e}"))
        };
        let compile = |engine, isa, threads| with(engine, Fp::Default, isa, threads);
        let oracle = compile(Engine::Oracle, IsaChoice::Auto, 1)?;
        let mut compiled = Vec::new();
        let unfused = [1, 3].map(|threads| compile(Engine::Unfused, IsaChoice::Auto, threads));
        compiled.push(("unfused".to_owned(), unfused.into_iter().collect::<Result<_, _>>()?));
        compiled.push(("strict".to_owned(), vec![with(Engine::Jit, Fp::Strict, IsaChoice::Auto, 1)?]));
        for isa in widths() {
            // The widest is what users get; the schedule of threads does not depend on the width.
            let threads: &[usize] = if isa == Isa::detect() { &[1, 2, 3] } else { &[1] };
            let models = threads.iter().map(|n| compile(Engine::Jit, IsaChoice::Only(isa), *n));
            compiled.push((format!("jit on {isa}"), models.collect::<Result<_, _>>()?));
        }
        Ok(Ways { oracle, compiled })
    }

    /// The graph as written.
    pub fn graph(&self) -> &Graph {
        self.oracle.graph()
    }

    /// Runs every way and compares each with the oracle, and thread counts with each other; gives the oracle's outputs.
    ///
    /// # Errors
    /// Every way that fails or deviates, with its name.
    pub fn check(&self, call: &Call) -> Result<Arrays, String> {
        let expected = call.run(&self.oracle).map_err(|e| format!("oracle: {e}"))?;
        let mut faults = Vec::new();
        for (name, outputs) in self.each(call, &mut faults) {
            if let Err(why) = all_agree(&outputs, &expected) {
                faults.push(format!("{name}: {why}"));
            }
        }
        if faults.is_empty() { Ok(expected) } else { Err(faults.join("\n")) }
    }

    /// The outputs of every way, the oracle's first; thread counts are compared, ways are not.
    ///
    /// # Errors
    /// Every way that fails, with its name.
    pub fn outputs(&self, call: &Call) -> Result<Vec<(String, Arrays)>, String> {
        let mut faults = Vec::new();
        let mut out =
            vec![("oracle".to_owned(), call.run(&self.oracle).map_err(|e| format!("oracle: {e}"))?)];
        out.extend(self.each(call, &mut faults));
        if faults.is_empty() { Ok(out) } else { Err(faults.join("\n")) }
    }

    fn each(&self, call: &Call, faults: &mut Vec<String>) -> Vec<(String, Arrays)> {
        let mut out = Vec::new();
        for (name, models) in &self.compiled {
            let runs: Result<Vec<Arrays>, Error> = models.iter().map(|m| call.run(m)).collect();
            match runs {
                Err(e) => faults.push(format!("{name}: {e}")),
                Ok(mut runs) => {
                    if runs.iter().any(|r| !r.same_bits(&runs[0])) {
                        faults.push(format!("{name}: the number of threads changes the result"));
                    }
                    out.push((name.clone(), runs.swap_remove(0)));
                }
            }
        }
        out
    }

    /// What each way makes of a call, on one thread.
    pub fn each_result(&self, call: &Call) -> Vec<(String, Result<Arrays, Error>)> {
        let first = self.compiled.iter().map(|(name, models)| (name.clone(), call.run(&models[0])));
        std::iter::once(("oracle".to_owned(), call.run(&self.oracle))).chain(first).collect()
    }

    /// The message of every way, where all of them must refuse the call.
    ///
    /// # Errors
    /// A way that does not refuse it.
    pub fn refusals(&self, call: &Call) -> Result<Vec<(String, String)>, String> {
        let oracle = ("oracle", &self.oracle);
        let ways = self.compiled.iter().flat_map(|(name, models)| models.iter().map(|m| (name.as_str(), m)));
        let refused = std::iter::once(oracle).chain(ways).map(|(name, model)| match call.run(model) {
            Ok(_) => Err(format!("{name}: gives a result")),
            Err(e) => Ok((name.to_owned(), e.to_string())),
        });
        refused.collect()
    }
}
