use crore_api::Scope;
use crore_api::access;
use crore_core::settings::{Given, Setting, Shape, section};

section! {
    /// What callers may do who are not known by a token.
    pub(crate) struct Access = "access" {
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
        let texts = match given {
            Given::One(text) if text.trim().is_empty() => Vec::new(),
            given => given.texts(),
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
