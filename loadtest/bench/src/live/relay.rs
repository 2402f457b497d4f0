//! A proxy that decides nothing: each of its ports leads to one server, and bytes are copied.
//!
//! It shows what any hop costs on the machine of a run, before the question who is chosen.

use std::net::SocketAddr;

use anyhow::{Context as _, Result, ensure};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};

/// Copies between each port and its server, for ever.
pub(super) async fn run(listen: &[SocketAddr], to: &[SocketAddr]) -> Result<()> {
    ensure!(
        listen.len() == to.len() && !to.is_empty(),
        "wants as many addresses to listen on as servers, at least one"
    );
    let mut ports = tokio::task::JoinSet::new();
    for (&listen, &to) in listen.iter().zip(to) {
        let listener = TcpListener::bind(listen).await.with_context(|| format!("cannot listen on {listen}"))?;
        ports.spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(copy(client, to));
            }
        });
    }
    while ports.join_next().await.is_some() {}
    Ok(())
}

async fn copy(mut client: TcpStream, to: SocketAddr) {
    // Whoever closes or breaks first, both ends are over.
    if let Ok(mut server) = TcpStream::connect(to).await
        && client.set_nodelay(true).and(server.set_nodelay(true)).is_ok()
    {
        let _ = copy_bidirectional(&mut client, &mut server).await;
    }
}
