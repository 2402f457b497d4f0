//! An endpoint whose every byte the test decides: for replies that no sim gives, sent in pieces when the test says so.
//!
//! Probes are answered by itself: healthy, one model, and the metrics that [`Scripted::page`] sets, none at first. Each
//! `POST` comes out of [`Scripted::call`] as a connection whose request has been read.

use std::collections::HashMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// What `GET /v1/models` says.
const MODELS: &str = r#"{"object":"list","data":[{"id":"sim-model","object":"model","created":1}]}"#;

/// Longest wait for a call that must come.
const PATIENCE: Duration = Duration::from_secs(10);

/// What is at each path, and how often it was asked for.
type Pages = Arc<Mutex<HashMap<String, (String, usize)>>>;

/// A listening endpoint.
#[derive(Debug)]
pub(crate) struct Scripted {
    address: SocketAddr,
    pages: Pages,
    calls: mpsc::UnboundedReceiver<Call>,
    listening: JoinHandle<()>,
}

/// One request, to be answered by hand. Dropping it closes the connection.
#[derive(Debug)]
pub(crate) struct Call {
    stream: TcpStream,
}

impl Scripted {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("loopback has a free port");
        let address = listener.local_addr().expect("it is bound");
        let (sender, calls) = mpsc::unbounded_channel();
        let pages = Pages::default();
        let served = Arc::clone(&pages);
        let listening = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, sender.clone(), Arc::clone(&served)));
            }
        });
        Self { address, pages, calls, listening }
    }

    /// Answers `GET` of a path with this from here on, and counts its calls from zero. An empty page is a 404.
    pub(crate) fn page(&self, path: &str, body: &str) {
        self.pages.lock().unwrap().insert(path.to_owned(), (body.to_owned(), 0));
    }

    /// How often a path was asked for since it was set.
    pub(crate) fn asked(&self, path: &str) -> usize {
        self.pages.lock().unwrap().get(path).map_or(0, |(_, asked)| *asked)
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The next call, as soon as its body is whole.
    pub(crate) async fn call(&mut self) -> Call {
        let call = tokio::time::timeout(PATIENCE, self.calls.recv()).await;
        call.expect("the gateway calls the endpoint").expect("the listener lives as long as this")
    }
}

impl Drop for Scripted {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

impl Call {
    /// Sends bytes as they are.
    pub(crate) async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).await.expect("the gateway still reads");
    }

    /// Sends bytes as they are, to a gateway that may have had enough.
    pub(crate) async fn try_send(&mut self, bytes: impl AsRef<[u8]>) {
        let _ = self.stream.write_all(bytes.as_ref()).await;
    }

    /// Sends a chunk of a chunked body; an empty one ends it.
    pub(crate) async fn chunk(&mut self, bytes: impl AsRef<[u8]>) {
        let bytes = bytes.as_ref();
        let framed = [format!("{:x}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat();
        self.send(framed).await;
    }

    /// Ends the connection with RST.
    pub(crate) fn reset(self) {
        self.stream.set_zero_linger().expect("the socket is open");
    }

    /// Waits until the gateway has closed the connection.
    pub(crate) async fn gone(&mut self) {
        let mut byte = [0];
        let read = tokio::time::timeout(PATIENCE, self.stream.read(&mut byte)).await;
        assert!(matches!(read, Ok(Ok(0) | Err(_))), "the connection is still open: {read:?}");
    }
}

async fn serve(mut stream: TcpStream, calls: mpsc::UnboundedSender<Call>, pages: Pages) {
    // A gateway that goes away ends this with an error.
    while let Ok(Some(head)) = read(&mut stream).await {
        let (status, text) = match head.split(' ').nth(1).unwrap_or("") {
            _ if head.starts_with("POST") => {
                let _ = calls.send(Call { stream });
                return;
            }
            "/v1/models" => (200, MODELS.to_owned()),
            "/health" => (200, String::new()),
            path => match pages.lock().unwrap().get_mut(path) {
                Some((page, asked)) => {
                    *asked += 1;
                    (if page.is_empty() { 404 } else { 200 }, page.clone())
                }
                None => (404, String::new()),
            },
        };
        let answer = format!("HTTP/1.1 {status} -\r\nContent-Length: {}\r\n\r\n{text}", text.len());
        if stream.write_all(answer.as_bytes()).await.is_err() {
            return;
        }
    }
}

/// Reads a request with a declared length or without a body, and returns its head.
async fn read(stream: &mut TcpStream) -> io::Result<Option<String>> {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break end + 4;
        }
        if stream.read_buf(&mut bytes).await? == 0 {
            return Ok(None);
        }
    };
    let mut body = bytes.split_off(end);
    let head = String::from_utf8_lossy(&bytes).into_owned();
    let length =
        head.lines().find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length:")?.trim().parse().ok());
    let length: usize = length.unwrap_or(0);
    while body.len() < length {
        if stream.read_buf(&mut body).await? == 0 {
            return Ok(None);
        }
    }
    Ok(Some(head))
}
