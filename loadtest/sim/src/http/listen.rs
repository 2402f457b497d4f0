//! Listeners and the life of their connections.
//!
//! While connections are refused the listener is closed, not just left unaccepted: a client gets a refusal, not a
//! connection that hangs. The port is taken again afterwards.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tokio::net::{TcpListener, TcpStream};

use super::connection::{Connection, Order, Wire};
use super::shared::Shared;
use super::{admin, route};
use crate::fault::FaultKind;

/// How long a written response is given to leave the process before its socket is closed on purpose. hyper writes in the
/// same wake-up, so a few milliseconds are plenty.
pub(super) const FLUSH: Duration = Duration::from_millis(5);
/// Pause between two tries to take the port again.
const REBIND: Duration = Duration::from_millis(10);

/// Serves the model port for ever.
pub(super) async fn model_port(shared: Arc<Shared>, listener: TcpListener, address: SocketAddr) {
    let mut listener = Some(listener);
    loop {
        let mut changes = shared.faults.changes();
        if let Some(refusal) = shared.faults.standing(FaultKind::Refuse) {
            listener = None;
            match refusal.until {
                Some(until) => drop(tokio::time::timeout_at(until.into(), changes.changed()).await),
                None => drop(changes.changed().await),
            }
            continue;
        }
        let Some(open) = &listener else {
            listener = TcpListener::bind(address).await.ok();
            if listener.is_none() {
                tokio::time::sleep(REBIND).await;
            }
            continue;
        };
        tokio::select! {
            accepted = open.accept() => if let Ok((stream, _)) = accepted {
                tokio::spawn(connection(shared.clone(), stream));
            },
            _ = changes.changed() => {}
        }
    }
}

/// Serves the admin port for ever.
pub(super) async fn admin_port(shared: Arc<Shared>, listener: TcpListener) {
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            continue;
        };
        let shared = shared.clone();
        let service = service_fn(move |request| {
            let shared = shared.clone();
            async move { Ok::<_, Infallible>(admin::handle(&shared, request).await) }
        });
        tokio::spawn(async move {
            // An admin client that breaks off concerns nobody.
            let _ = auto::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

async fn connection(shared: Arc<Shared>, stream: TcpStream) {
    // Small events must leave at once.
    let _ = stream.set_nodelay(true);
    let connection = shared.connect();
    let service = service_fn({
        let (shared, connection) = (shared.clone(), connection.clone());
        move |request| {
            let (shared, connection) = (shared.clone(), connection.clone());
            async move { Ok::<_, Infallible>(route::handle(shared, connection, request).await) }
        }
    });
    let io = TokioIo::new(Wire { stream, connection: connection.clone() });
    let builder = auto::Builder::new(TokioExecutor::new());
    {
        let mut serving = pin!(builder.serve_connection(io, service));
        let mut idle = pin!(idle_too_long(&shared, &connection));
        let mut orders = connection.orders();
        loop {
            tokio::select! {
                _ = serving.as_mut() => break,
                () = idle.as_mut() => break,
                _ = orders.changed() => match *orders.borrow_and_update() {
                    Order::Serve => {}
                    Order::EndAfterResponse => serving.as_mut().graceful_shutdown(),
                    Order::End => break,
                },
            }
        }
    }
    shared.disconnect(&connection);
}

/// Returns when nothing has happened on the connection for as long as it may.
async fn idle_too_long(shared: &Shared, connection: &Connection) {
    let mut faults = shared.faults.changes();
    let mut activity = connection.activity();
    loop {
        let fault = shared.faults.standing(FaultKind::CloseIdle);
        let limit = match fault {
            Some(strike) => Some(strike.fault.delay(0).max(FLUSH)),
            None => shared.config.idle_timeout,
        };
        let deadline = connection.idle_since().zip(limit).map(|(since, limit)| since + limit);
        tokio::select! {
            biased;
            // First: a request that came at the last moment keeps the connection.
            _ = activity.changed() => {}
            _ = faults.changed() => {}
            () = reached(deadline) => return,
        }
    }
}

async fn reached(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline.into()).await,
        None => std::future::pending().await,
    }
}
