//! The typed tensor graph and what is true of it alone.
