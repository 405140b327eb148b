//! crore-remote
