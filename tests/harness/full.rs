//! An endpoint to which no connection can be made and none is refused: its queue of connections is full, and the kernel
//! lets further ones wait.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::{TcpListener, TcpSocket, TcpStream};

/// By then a connection that can be made on loopback has been made.
const MADE: Duration = Duration::from_millis(300);

/// The listener, and the connections that fill its queue.
#[derive(Debug)]
pub(crate) struct Full {
    address: SocketAddr,
    _listener: TcpListener,
    _queued: Vec<TcpStream>,
}

impl Full {
    pub(crate) async fn start() -> Self {
        let socket = TcpSocket::new_v4().expect("sockets can be made");
        socket.bind("127.0.0.1:0".parse().expect("an address")).expect("loopback has a free port");
        let listener = socket.listen(0).expect("it is bound");
        let address = listener.local_addr().expect("it is bound");
        let mut queued = Vec::new();
        while let Ok(Ok(one)) = tokio::time::timeout(MADE, TcpStream::connect(address)).await {
            queued.push(one);
            assert!(queued.len() < 100, "this system lets connections in without bound");
        }
        Self { address, _listener: listener, _queued: queued }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}
