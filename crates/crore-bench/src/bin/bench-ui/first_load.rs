//! The bytes that a browser with an empty cache loads: the page, its style sheet, its scripts and its icon.

use std::collections::BTreeSet;

use tokio::runtime::Builder;

use crate::UiBench;
use crate::connection::PageConnection;
use crate::first_byte::pages;
use crore_bench::report::ReportRow;

/// Maximum, in kilobytes.
const MAX_KILOBYTES: f64 = 150.0;

pub(crate) fn measure(bench: &mut UiBench) {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let (assets, sizes) = runtime.block_on(async {
        let mut connection = PageConnection::open(bench.server.address).await;
        let mut sizes = Vec::new();
        let mut assets = 0;
        for page in pages(&bench.data) {
            let body = connection.get(&page.path, "").await.body;
            if assets == 0 {
                assets = assets_of(&mut connection, &body).await;
            }
            sizes.push((page.name, body.len()));
        }
        (assets, sizes)
    });
    let kilobytes = |bytes: usize| (assets + bytes) as f64 / 1e3;
    for (name, bytes) in sizes.iter().filter(|(name, _)| *name == "overview") {
        let name = format!("first load: {name}");
        let row = ReportRow::with_bound(name, (kilobytes(*bytes), "kB"), MAX_KILOBYTES);
        bench.report.rows.push(row);
    }
    if let Some((name, bytes)) = sizes.iter().max_by_key(|(_, bytes)| *bytes) {
        let name = format!("first load: largest page ({name})");
        let row = ReportRow::with_bound(name, (kilobytes(*bytes), "kB"), MAX_KILOBYTES);
        bench.report.rows.push(row);
    }
    let list: Vec<String> = sizes.iter().map(|(name, bytes)| format!("{name} {bytes}")).collect();
    bench.report.notes.push(format!("bytes: assets {assets}; pages: {}", list.join(", ")));
}

/// The bytes of all assets of a page, with the modules that its scripts import.
async fn assets_of(connection: &mut PageConnection, page: &[u8]) -> usize {
    let text = String::from_utf8_lossy(page).into_owned();
    let mut waiting: Vec<String> = quoted(&text, "/ui/assets/");
    let (mut known, mut bytes) = (BTreeSet::new(), 0);
    while let Some(path) = waiting.pop() {
        if !known.insert(path.clone()) {
            continue;
        }
        let body = connection.get(&path, "").await.body;
        bytes += body.len();
        let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
        let modules = quoted(&String::from_utf8_lossy(&body), "./");
        waiting.extend(modules.iter().map(|module| format!("{folder}/{}", &module[2..])));
    }
    assert!(known.len() > 3, "style sheet, scripts and icon: {known:?}");
    bytes
}

/// Texts in double quotes that begin with a prefix.
fn quoted(text: &str, prefix: &str) -> Vec<String> {
    let parts = text.split('"').filter(|part| part.starts_with(prefix));
    parts.map(str::to_owned).collect()
}
