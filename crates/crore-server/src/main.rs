//! The `crore` binary.

use std::process::ExitCode;

/// Jobs are allocated on one thread and freed on another; glibc's allocator takes twice as long for that.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    crore_server::main()
}
