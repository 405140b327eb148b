//! An arena: rows are referred to by number in the rest of the index.

/// Rows by number. A number is reused only after its row was removed.
#[derive(Debug)]
pub(crate) struct Arena<T> {
    rows: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Default for Arena<T> {
    fn default() -> Self {
        Self { rows: Vec::new(), free: Vec::new() }
    }
}

#[expect(
    clippy::expect_used,
    reason = "a number without a row is a bug in the index, and continuing would hand out wrong jobs"
)]
impl<T> Arena<T> {
    pub(crate) fn add(&mut self, row: T) -> u32 {
        if let Some(no) = self.free.pop() {
            *self.rows.get_mut(no as usize).expect("a free number was a row") = Some(row);
            return no;
        }
        self.rows.push(Some(row));
        u32::try_from(self.rows.len() - 1).expect("fewer than 2³² rows fit in memory")
    }

    pub(crate) fn at(&self, no: u32) -> &T {
        self.rows.get(no as usize).and_then(Option::as_ref).expect("a number in use has a row")
    }

    pub(crate) fn at_mut(&mut self, no: u32) -> &mut T {
        self.rows.get_mut(no as usize).and_then(Option::as_mut).expect("a number in use has a row")
    }

    pub(crate) fn remove(&mut self, no: u32) {
        if self.rows.get_mut(no as usize).and_then(Option::take).is_some() {
            self.free.push(no);
        }
    }

    pub(crate) fn each_mut(&mut self, change: impl FnMut(&mut T)) {
        self.rows.iter_mut().flatten().for_each(change);
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.rows.iter().enumerate().filter_map(|(no, row)| Some((no as u32, row.as_ref()?)))
    }
}
