//! Rows with numbers: a small arena whose numbers stand for rows in the rest of the index.

/// Rows by number. A number is used again only after its row was removed.
#[derive(Debug)]
pub(crate) struct Table<T> {
    rows: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self { rows: Vec::new(), free: Vec::new() }
    }
}

#[expect(
    clippy::expect_used,
    reason = "a number without its row is a fault of the index itself, and going on would give jobs away wrongly"
)]
impl<T> Table<T> {
    pub(crate) fn add(&mut self, row: T) -> u32 {
        if let Some(no) = self.free.pop() {
            *self.rows.get_mut(no as usize).expect("free numbers have been rows") = Some(row);
            return no;
        }
        self.rows.push(Some(row));
        u32::try_from(self.rows.len() - 1).expect("fewer than 2³² rows fit in memory")
    }

    pub(crate) fn at(&self, no: u32) -> &T {
        self.rows.get(no as usize).and_then(Option::as_ref).expect("numbers have rows")
    }

    pub(crate) fn at_mut(&mut self, no: u32) -> &mut T {
        self.rows.get_mut(no as usize).and_then(Option::as_mut).expect("numbers have rows")
    }

    pub(crate) fn remove(&mut self, no: u32) {
        if self.rows.get_mut(no as usize).and_then(Option::take).is_some() {
            self.free.push(no);
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.rows.iter().enumerate().filter_map(|(no, row)| Some((no as u32, row.as_ref()?)))
    }
}
