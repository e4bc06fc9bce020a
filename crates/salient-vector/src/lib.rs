//! The vector IR: bodies of tiles, written once for any lane count.
