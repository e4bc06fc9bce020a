//! The public face: compile a model, look at every stage, run it.
