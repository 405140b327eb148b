//! Open live pages, as browsers keep them: a stream of ticks, and the page loaded again on each.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::runtime::{Builder, Runtime};

use crate::connection::PageConnection;
use crate::first_byte::BenchPage;

/// The header of requests by scripts.
const LIVE: &str = "x-crore-live: 1\r\n";

/// Pages that are open until this is dropped.
#[derive(Debug)]
pub(crate) struct LivePages {
    _runtime: Runtime,
    loads: Arc<AtomicUsize>,
}

impl LivePages {
    /// Opens `n` pages, in turn those of a list, and waits until all are connected.
    pub(crate) fn open(address: SocketAddr, pages: &[BenchPage], n: usize) -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let loads = Arc::new(AtomicUsize::new(0));
        let (connected, all) = std::sync::mpsc::channel();
        for page in pages.iter().cycle().take(n) {
            let (path, loads, connected) =
                (page.path.clone(), Arc::clone(&loads), connected.clone());
            runtime.spawn(async move {
                let mut ticks = PageConnection::open(address).await;
                let mut page = PageConnection::open(address).await;
                ticks.send("/ui/live", "").await;
                let mut buffer = Vec::new();
                ticks.read(&mut buffer).await;
                assert!(buffer.starts_with(b"HTTP/1.1 200"));
                // The receiver is gone if the pages are closed already.
                let _ = connected.send(());
                loop {
                    page.get(&path, LIVE).await;
                    loads.fetch_add(1, Ordering::Relaxed);
                    buffer.clear();
                    while !buffer.windows(4).any(|four| four == b"tick") {
                        ticks.read(&mut buffer).await;
                    }
                }
            });
        }
        (0..n).for_each(|_| all.recv().unwrap());
        Self { _runtime: runtime, loads }
    }

    /// Loads of pages so far.
    pub(crate) fn loads(&self) -> usize {
        self.loads.load(Ordering::Relaxed)
    }
}
