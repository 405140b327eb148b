//! crore-testkit
