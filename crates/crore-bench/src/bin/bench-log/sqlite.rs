//! SQLite as a contender.

use std::path::{Path, PathBuf};

use rusqlite::Connection;

use crate::database::{JobTable, TableWrite};

pub(crate) struct Sqlite {
    path: PathBuf,
    connection: Connection,
}

impl Sqlite {
    pub(crate) fn open(dir: &Path) -> Self {
        std::fs::create_dir_all(dir).unwrap();
        let sqlite = Self::at(dir.join("jobs.sqlite"));
        let table = "CREATE TABLE jobs (id INTEGER PRIMARY KEY, delivery INTEGER, body BLOB)";
        sqlite.connection.execute_batch(table).unwrap();
        sqlite
    }

    fn at(path: PathBuf) -> Self {
        let connection = Connection::open(&path).unwrap();
        connection.pragma_update(None, "journal_mode", "WAL").unwrap();
        connection.pragma_update(None, "synchronous", "FULL").unwrap();
        Self { path, connection }
    }
}

impl JobTable for Sqlite {
    fn connect(&self) -> Box<dyn JobTable> {
        Box::new(Self::at(self.path.clone()))
    }

    fn commit(&mut self, writes: &[TableWrite]) {
        let transaction = self.connection.transaction().unwrap();
        {
            let put = "INSERT INTO jobs (id, body) VALUES (?1, ?2)";
            let mut put = transaction.prepare_cached(put).unwrap();
            let claim = "UPDATE jobs SET delivery = ?2 WHERE id = ?1";
            let mut claim = transaction.prepare_cached(claim).unwrap();
            let mut remove = transaction.prepare_cached("DELETE FROM jobs WHERE id = ?1").unwrap();
            for write in writes {
                let changed = match write {
                    TableWrite::Put(id, body) => put.execute((*id as i64, &body[..])),
                    TableWrite::Claim(id, delivery) => {
                        claim.execute((*id as i64, *delivery as i64))
                    }
                    TableWrite::Remove(id) => remove.execute([*id as i64]),
                };
                assert_eq!(changed.unwrap(), 1, "the job is there");
            }
        }
        transaction.commit().unwrap();
    }

    fn read(&self, id: u64) -> Vec<u8> {
        let mut read =
            self.connection.prepare_cached("SELECT body FROM jobs WHERE id = ?1").unwrap();
        read.query_row([id as i64], |row| row.get(0)).unwrap()
    }

    fn count(&self) -> u64 {
        let count = "SELECT count(*) FROM jobs";
        self.connection.query_row(count, [], |row| row.get::<_, i64>(0)).unwrap() as u64
    }
}
