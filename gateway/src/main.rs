//! The `spillway` binary. All of it is in the library, so that a build with more scorers is a main of one line.

use std::process::ExitCode;

/// Requests allocate many short-lived buffers on several threads, which the system's allocator serves poorly.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    spillway::main(spillway::Registry::default())
}
