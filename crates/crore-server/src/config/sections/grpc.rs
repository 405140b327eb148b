use crore_core::settings::{Given, Setting, Shape, section};
use crore_doors::{Origin, grpc};

section! {
    /// gRPC, on the same port.
    pub(crate) struct Grpc = "grpc" {
        /// Let tools ask which calls there are. It tells nothing that the documentation does not, and where
        /// there are tokens it needs one.
        reflection: bool = "true",
        /// Pages of other sites that may call by gRPC-Web, and only so, as their browsers name them:
        /// `https://app.example.com`. Several make a list; without it, no page of another site may call.
        allow_origins: Option<Origins> = none,
    }
}

/// Where pages come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Origins(Vec<Origin>);

impl Setting for Origins {
    const SHAPE: Shape = Shape::Texts;

    fn read(given: &Given) -> Result<Self, String> {
        given.texts().into_iter().map(str::parse).collect::<Result<_, _>>().map(Self)
    }
}

impl Grpc {
    /// How the door is set up.
    pub(crate) fn options(&self) -> grpc::Options {
        grpc::Options {
            reflection: self.reflection,
            allow_origins: self.allow_origins.clone().map_or_else(Vec::new, |Origins(all)| all),
        }
    }
}
