//! Arrays and checkpoints: bytes of others, trusted in nothing.
