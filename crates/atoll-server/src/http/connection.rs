//! One connection: requests one after another until the client, a clock or the end of the server ends it.

use super::clocked::{Clocked, ConnectionClock, Times};
use super::lingering::Lingering;
use super::listen::{ConnectionInfo, ConnectionLimits};
use super::places::Place;
use super::transport::Transport;
use crate::tls::Tls;
use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::header::CONTENT_LENGTH;
use axum::http::{Request, Response, StatusCode};
use http_body::{Body as _, Frame, SizeHint};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use std::convert::Infallible;
use std::io::ErrorKind;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tower::ServiceExt;

/// Head and buffered part of a request.
const MAX_HEAD: usize = 64 << 10;

pub(super) async fn serve_one(
    stream: TcpStream,
    info: ConnectionInfo,
    place: Place,
    app: Router,
    limits: ConnectionLimits,
    tls: Option<Arc<Tls>>,
    mut stopping: watch::Receiver<bool>,
) {
    // The time for the head of the first request includes the handshake.
    let clock = ConnectionClock::new();
    let handshake = tokio::time::timeout(limits.header_timeout, Transport::open(stream, tls.as_deref()));
    let opened = tokio::select! {
        biased;
        opened = handshake => opened.unwrap_or_else(|_| Err(ErrorKind::TimedOut.into())),
        () = place.displaced() => return tracing::debug!("unauthenticated connection closed to make room for another"),
    };
    let stream = match opened {
        Ok(stream) => stream,
        Err(error) => return tracing::debug!(error = %error, "TLS handshake failed"),
    };
    let times = Times {
        head: limits.header_timeout,
        idle: limits.idle_timeout,
    };
    let bytes = TokioIo::new(Clocked::new(stream, clock.clone(), times));
    let about = (info, place.clone());
    let service = service_fn(move |request: Request<Incoming>| {
        // At once: bytes may be asked for before the answer is.
        clock.request_begins(request.version());
        answer(
            app.clone(),
            about.clone(),
            Busy(clock.clone()),
            Lingering::wrap(request, clock.clone()),
        )
    });
    let connection = http1::Builder::new()
        .header_read_timeout(None)
        .max_buf_size(MAX_HEAD)
        .serve_connection(bytes, service)
        .with_upgrades();
    let mut connection = pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = told_to_stop(&mut stopping) => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
        () = place.displaced() => return tracing::debug!("unauthenticated connection closed to make room for another"),
    };
    if let Err(error) = ended {
        // A client that goes away is its own business.
        tracing::debug!(error = %crate::chain(&error), "connection ended early");
    }
}

async fn told_to_stop(stopping: &mut watch::Receiver<bool>) {
    // An end of the other side means the same.
    stopping.wait_for(|stop| *stop).await.ok();
}

async fn answer(
    app: Router,
    (info, place): (ConnectionInfo, Place),
    busy: Busy,
    mut request: Request<Body>,
) -> Result<Response<Answering>, Infallible> {
    request.extensions_mut().insert(info);
    request.extensions_mut().insert(place);
    let response = app.oneshot(request).await?;
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        busy.0.upgraded();
    } else if !goes_on(&response) {
        busy.0.may_fall_silent();
    }
    Ok(response.map(|body| Answering { body, _busy: busy }))
}

/// A mark on answers that say something every few seconds, whatever happens.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lively;

/// Whether its bytes come one after the other until the end.
fn goes_on(response: &Response<Body>) -> bool {
    let has_length = response.headers().contains_key(CONTENT_LENGTH) || response.body().size_hint().exact().is_some();
    has_length || response.extensions().get::<Lively>().is_some()
}

/// While it lives, a request is being answered.
struct Busy(ConnectionClock);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.request_ends();
    }
}

/// A body that says when it has gone out.
struct Answering {
    body: Body,
    _busy: Busy,
}

impl http_body::Body for Answering {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.get_mut().body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
