use crore_core::settings::{Given, Setting, Shape, section};

section! {
    /// How traces are made.
    pub struct Options = "telemetry" {
        /// Which share of the jobs that are pushed without a trace context are traced, from 0 to 1. One that comes
        /// with a context is traced if that says so.
        sample: f64 as sample: Share = "1",
        /// Under which name.
        service: String as service: Title = "crore",
    }
}

/// A part of a whole, from 0 to 1.
struct Share(f64);

impl Setting for Share {
    const SHAPE: Shape = Shape::Share;

    fn read(given: &Given) -> Result<Self, String> {
        match given.one()?.parse() {
            Ok(share) if (0.0..=1.0).contains(&share) => Ok(Self(share)),
            _ => Err("write a number from 0 to 1, as in `0.1`".to_owned()),
        }
    }
}

impl From<Share> for f64 {
    fn from(share: Share) -> Self {
        share.0
    }
}

/// A name for people, which is not empty.
struct Title(String);

impl Setting for Title {
    const SHAPE: Shape = Shape::Text;

    fn read(given: &Given) -> Result<Self, String> {
        match given.one()?.trim() {
            "" => Err("a name cannot be empty".to_owned()),
            name => Ok(Self(name.to_owned())),
        }
    }
}

impl From<Title> for String {
    fn from(title: Title) -> Self {
        title.0
    }
}
