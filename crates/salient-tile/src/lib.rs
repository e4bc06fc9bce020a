//! A fused graph to loop programs over tiles, and the memory plan.
