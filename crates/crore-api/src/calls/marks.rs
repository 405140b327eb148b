//! Marks for charts: restarts, deploys and changes.

use crore_wire::api::marks::{Marks, MarksQuery};

use crate::{Api, Grant};

impl Api {
    /// Marks of a time range, oldest first. A restricted caller sees starts, and those of its queues and kinds.
    pub fn list_marks(&self, grant: &Grant, which: &MarksQuery) -> Marks {
        let (from, to) = (which.from.map(|from| from.0), which.to.map(|to| to.0));
        Marks { marks: self.marks().select(grant, from, to) }
    }
}
