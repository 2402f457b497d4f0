//! The servers behind the proxies, in one process; prints their ports and runs until killed.

use clap::Parser;

/// Serves as the endpoints behind a proxy.
#[derive(Debug, Parser)]
struct Arguments {
    /// Number of ports.
    #[arg(default_value_t = 4)]
    count: usize,
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(spillway_cost::origin::serve(arguments.count))
}
