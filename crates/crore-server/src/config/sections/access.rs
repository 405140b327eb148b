use crore_api::Scope;
use crore_api::access;

use crate::config::section::section;
use crate::config::setting::{Given, Setting, Shape};

section! {
    /// What callers may do who are not known by a token.
    Access = "access" {
        /// What who shows a client certificate may do (see `tls.client-ca`): any of `push`, `work`, `read`,
        /// `operate`, `define` and `admin`.
        certificate_scopes: Scopes = "push,work,read,operate,define,admin",
    }
}

/// Some scopes; perhaps none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Scopes(Vec<Scope>);

impl Setting for Scopes {
    const SHAPE: Shape = Shape::Texts;

    fn read(given: &Given) -> Result<Self, String> {
        let texts: Vec<&str> = match given {
            Given::One(text) if text.trim().is_empty() => Vec::new(),
            Given::One(text) => text.split(',').map(str::trim).collect(),
            Given::Many(texts) => texts.iter().map(String::as_str).collect(),
        };
        texts.into_iter().map(str::parse).collect::<Result<_, _>>().map(Self)
    }
}

impl Access {
    pub(crate) fn options(&self, insecure: bool) -> access::Options {
        let Scopes(scopes) = &self.certificate_scopes;
        access::Options { insecure, certificate_scopes: scopes.clone() }
    }
}
