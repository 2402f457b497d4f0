//! One request on one connection: how tests ask the operator ports.

use std::io;
use std::net::SocketAddr;

use http::{Method, Request};

use super::client::{Answer, Client, ReqBody, request};

/// Sends a request and returns its answer, or why there was none.
pub(crate) async fn fetch(
    address: SocketAddr,
    method: Method,
    path: &str,
    body: impl Into<bytes::Bytes>,
) -> io::Result<Answer> {
    let mut client = Client::try_h1(address).await?;
    let request: Request<ReqBody> = request(method, path, body);
    let response = client.send(request).await.map_err(io::Error::other)?;
    Answer::read(response).await.map_err(io::Error::other)
}
