//! Harm to the built server.
