//! What of a model is shown: [`page`], a report on all of it, and [`view`], the weights of its attentions.

pub mod page;
pub mod view;
