use crore_core::settings::{Setting, SettingValue, Shape, section};

section! {
    /// Tracing of jobs.
    pub struct Options = "telemetry" {
        /// Sampling rate of jobs that are pushed without a trace context, from 0 to 1. A job with a context is traced
        /// if the sampling flag of the context is set.
        sample: f64 as sample: Fraction = "1",
        /// Service name in traces.
        service: String as service: ServiceName = "crore",
    }
}

/// A fraction, from 0 to 1.
struct Fraction(f64);

impl Setting for Fraction {
    const SHAPE: Shape = Shape::Share;

    fn read(given: &SettingValue) -> Result<Self, String> {
        match given.one()?.parse() {
            Ok(share) if (0.0..=1.0).contains(&share) => Ok(Self(share)),
            _ => Err("expected a number from 0 to 1, such as `0.1`".to_owned()),
        }
    }
}

impl From<Fraction> for f64 {
    fn from(share: Fraction) -> Self {
        share.0
    }
}

/// A name that is not empty.
struct ServiceName(String);

impl Setting for ServiceName {
    const SHAPE: Shape = Shape::Text;

    fn read(given: &SettingValue) -> Result<Self, String> {
        match given.one()?.trim() {
            "" => Err("cannot be empty".to_owned()),
            name => Ok(Self(name.to_owned())),
        }
    }
}

impl From<ServiceName> for String {
    fn from(title: ServiceName) -> Self {
        title.0
    }
}
