//! The committed inputs of every target, in `fuzz/corpus`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use crore_fuzz::TARGETS;

fn fuzz_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz")
}

/// A panic in a task of the runtime, which does not reach the caller.
static HAS_PANICKED: AtomicBool = AtomicBool::new(false);

/// The committed inputs of a target, each with its file.
pub(crate) fn inputs(name: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let folder = fuzz_folder().join("corpus").join(name);
    let files = std::fs::read_dir(&folder).expect("every target has a corpus");
    let paths = files.map(|file| file.expect("a readable folder").path());
    paths.map(|path| (path.clone(), std::fs::read(&path).expect("a readable input"))).collect()
}

fn run_corpus(name: &str) {
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        HAS_PANICKED.store(true, Ordering::SeqCst);
        print(panic);
    }));
    let inputs = inputs(name);
    assert!(inputs.len() >= 5, "{name} has {} inputs", inputs.len());
    for (path, input) in inputs {
        crore_fuzz::run(name, &input);
        assert!(!HAS_PANICKED.load(Ordering::SeqCst), "{} panics", path.display());
    }
}

macro_rules! corpora {
    ($($name:ident)+) => {
        $(#[test]
        fn $name() {
            run_corpus(stringify!($name));
        })+

        #[test]
        fn every_target_has_a_test_and_a_binary() {
            let tested: BTreeSet<&str> = [$(stringify!($name)),+].into();
            assert_eq!(tested, TARGETS.iter().map(|target| target.name).collect());
            let manifest = std::fs::read_to_string(fuzz_folder().join("Cargo.toml")).expect("a manifest");
            let bins = manifest.lines().filter_map(|line| line.strip_prefix("path = \"fuzz_targets/"));
            let bins: BTreeSet<&str> = bins.filter_map(|line| line.strip_suffix(".rs\"")).collect();
            assert_eq!(tested, bins);
        }
    };
}

corpora! { config connection grpc handlers http messages plugin queues recover texts values }
