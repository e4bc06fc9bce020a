//! A graph to a cheaper equal graph, by equality saturation.
