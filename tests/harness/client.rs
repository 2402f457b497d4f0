//! HTTP clients that hold one connection each, so that a test decides what shares a connection and when it ends.
//!
//! Dropping a [`Client`] closes its connection whatever is in flight; dropping only a response resets its stream on
//! HTTP/2.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;

use bytes::Bytes;
use futures_util::Stream;
use http::header::{CONTENT_TYPE, HOST};
use http::{HeaderMap, Method, Request, Response, Uri};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

/// Any request body.
pub(crate) type ReqBody = UnsyncBoxBody<Bytes, Infallible>;

/// One connection to a server.
#[derive(Debug)]
pub(crate) struct Client {
    address: SocketAddr,
    sender: Sender,
    driver: JoinHandle<()>,
}

#[derive(Debug)]
enum Sender {
    H1(http1::SendRequest<ReqBody>),
    H2(http2::SendRequest<ReqBody>),
}

impl Client {
    /// Connects with HTTP/1.1.
    pub(crate) async fn h1(address: SocketAddr) -> Self {
        Self::try_h1(address).await.unwrap_or_else(|error| panic!("cannot connect to {address}: {error}"))
    }

    /// Connects with HTTP/1.1, if somebody listens.
    pub(crate) async fn try_h1(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
        // Errors of the connection show in the requests on it.
        let driver = tokio::spawn(async move { drop(connection.await) });
        Ok(Self { address, sender: Sender::H1(sender), driver })
    }

    /// Connects with HTTP/2 by prior knowledge.
    pub(crate) async fn h2(address: SocketAddr) -> Self {
        let stream =
            TcpStream::connect(address).await.unwrap_or_else(|error| panic!("cannot connect to {address}: {error}"));
        stream.set_nodelay(true).unwrap();
        let (sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
        let driver = tokio::spawn(async move { drop(connection.await) });
        Self { address, sender: Sender::H2(sender), driver }
    }

    /// Sends a request and returns what resolves with its response head; on HTTP/2 others can follow before it does.
    pub(crate) async fn start(
        &mut self,
        mut request: Request<ReqBody>,
    ) -> Pin<Box<dyn Future<Output = hyper::Result<Response<Incoming>>> + Send>> {
        let path = request.uri().path_and_query().map_or("/", |path| path.as_str()).to_owned();
        match &mut self.sender {
            Sender::H1(sender) => {
                let host = self.address.to_string().parse().expect("an address is a header value");
                request.headers_mut().entry(HOST).or_insert(host);
                match sender.ready().await {
                    Ok(()) => Box::pin(sender.send_request(request)),
                    Err(error) => Box::pin(std::future::ready(Err(error))),
                }
            }
            Sender::H2(sender) => {
                let authority = self.address.to_string();
                *request.uri_mut() =
                    Uri::builder().scheme("http").authority(authority).path_and_query(path).build().unwrap();
                match sender.ready().await {
                    Ok(()) => Box::pin(sender.send_request(request)),
                    Err(error) => Box::pin(std::future::ready(Err(error))),
                }
            }
        }
    }

    /// Sends a request, completed with what its version of HTTP wants. Resolves with the response head.
    pub(crate) async fn send(&mut self, request: Request<ReqBody>) -> hyper::Result<Response<Incoming>> {
        self.start(request).await.await
    }

    /// Sends a request and reads its whole answer. Panics if there is none.
    pub(crate) async fn call(&mut self, request: Request<ReqBody>) -> Answer {
        let what = format!("{} {}", request.method(), request.uri());
        let response = self.send(request).await.unwrap_or_else(|error| panic!("no answer to {what}: {error:?}"));
        Answer::read(response).await.unwrap_or_else(|error| panic!("the answer to {what} broke off: {error:?}"))
    }

    /// Whether another request can be sent on this connection. Waits until that is certain.
    pub(crate) async fn is_open(&mut self) -> bool {
        match &mut self.sender {
            Sender::H1(sender) => sender.ready().await.is_ok(),
            Sender::H2(sender) => sender.ready().await.is_ok(),
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

/// A request with a JSON body of declared length; without a length if it is empty and its method has none.
pub(crate) fn request(method: Method, path: &str, body: impl Into<Bytes>) -> Request<ReqBody> {
    let body = Full::new(body.into()).boxed_unsync();
    Request::builder().method(method).uri(path).header(CONTENT_TYPE, "application/json").body(body).unwrap()
}

/// A `POST` whose body has a declared length.
pub(crate) fn post(path: &str, body: impl Into<Bytes>) -> Request<ReqBody> {
    request(Method::POST, path, body)
}

/// A `GET`.
pub(crate) fn get(path: &str) -> Request<ReqBody> {
    request(Method::GET, path, "")
}

/// A `POST` whose body has no declared length: chunked on HTTP/1.1.
pub(crate) fn chunked(path: &str, chunks: impl Stream<Item = Bytes> + Send + 'static) -> Request<ReqBody> {
    use futures_util::StreamExt as _;
    let frames = chunks.map(|chunk| Ok::<_, Infallible>(Frame::data(chunk)));
    let body = StreamBody::new(frames).boxed_unsync();
    Request::post(path).header(CONTENT_TYPE, "application/json").body(body).unwrap()
}

/// A whole response.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Answer {
    /// Reads a response to its end.
    pub(crate) async fn read(response: Response<Incoming>) -> hyper::Result<Self> {
        let (head, body) = response.into_parts();
        Ok(Self { status: head.status.as_u16(), headers: head.headers, body: body.collect().await?.to_bytes() })
    }

    /// A header's value, empty if it is missing.
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap_or("not text"))
    }

    /// The body as JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error} in {}: {:?}", self.status, self.text()))
    }

    /// The body as text.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Panics, with the body, if the status is another.
    #[track_caller]
    pub(crate) fn expect(self, status: u16) -> Self {
        let text = &self.text()[..self.text().len().min(500)];
        assert_eq!(self.status, status, "unexpected status; the body says {text:?}");
        self
    }
}
