//! redb as a contender.

use std::path::Path;
use std::sync::Arc;

use redb::{Database, ReadableDatabase, ReadableTableMetadata, TableDefinition};

use crate::database::{JobTable, TableWrite};

const JOBS: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("jobs");
const CLAIMS: TableDefinition<'_, u64, u64> = TableDefinition::new("claims");

pub(crate) struct Redb(Arc<Database>);

impl Redb {
    pub(crate) fn open(dir: &Path) -> Self {
        std::fs::create_dir_all(dir).unwrap();
        let mut redb = Self(Arc::new(Database::create(dir.join("jobs.redb")).unwrap()));
        // Creates the tables.
        redb.commit(&[]);
        redb
    }
}

impl JobTable for Redb {
    fn connect(&self) -> Box<dyn JobTable> {
        Box::new(Self(Arc::clone(&self.0)))
    }

    fn commit(&mut self, writes: &[TableWrite]) {
        let transaction = self.0.begin_write().unwrap();
        {
            let mut jobs = transaction.open_table(JOBS).unwrap();
            let mut claims = transaction.open_table(CLAIMS).unwrap();
            for write in writes {
                match write {
                    TableWrite::Put(id, body) => {
                        assert!(jobs.insert(id, &body[..]).unwrap().is_none());
                    }
                    TableWrite::Claim(id, delivery) => drop(claims.insert(id, delivery).unwrap()),
                    TableWrite::Remove(id) => {
                        assert!(jobs.remove(id).unwrap().is_some(), "the job is there");
                        claims.remove(id).unwrap();
                    }
                }
            }
        }
        transaction.commit().unwrap();
    }

    fn read(&self, id: u64) -> Vec<u8> {
        let jobs = self.0.begin_read().unwrap().open_table(JOBS).unwrap();
        jobs.get(id).unwrap().expect("the job is there").value().to_vec()
    }

    fn count(&self) -> u64 {
        self.0.begin_read().unwrap().open_table(JOBS).unwrap().len().unwrap()
    }
}
