//! crore-store
