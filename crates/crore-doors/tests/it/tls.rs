//! TLS, as another implementation sees it.
