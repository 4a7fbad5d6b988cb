//! Bodies that nobody reads to their end. A request that is refused early is still being sent: to close then would reset the
//! connection, and the client would lose the answer. So the rest is taken and thrown away, up to a bound.

use super::clocked::ConnectionClock;
use axum::body::{Body, Bytes};
use axum::http::Request;
use axum::http::header::EXPECT;
use http_body::{Body as HttpBody, Frame, SizeHint};
use http_body_util::BodyExt;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

/// How much of an unwanted body is taken, and for how long.
const MOST: usize = 16 << 20;
const LONGEST: Duration = Duration::from_secs(5);

/// A body whose rest is taken when its reader goes.
#[derive(Debug)]
pub(super) struct Lingering {
    inner: Option<Body>,
    clock: ConnectionClock,
}

impl Lingering {
    /// A client that waits to be asked for its body has not begun to send it: then there is no rest.
    pub(super) fn wrap<B>(request: Request<B>, clock: ConnectionClock) -> Request<Body>
    where
        B: HttpBody<Data = Bytes> + Send + 'static,
        B::Error: Into<axum::BoxError>,
    {
        let waits = request.headers().contains_key(EXPECT);
        request.map(|body| match waits {
            true => Body::new(body),
            false => {
                let body = Self {
                    inner: Some(Body::new(body)),
                    clock,
                };
                body.look();
                Body::new(body)
            }
        })
    }
}

impl Lingering {
    /// Notes that the request has come whole.
    fn look(&self) {
        if self.is_end_stream() {
            self.clock.request_is_whole();
        }
    }
}

impl HttpBody for Lingering {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = self.get_mut();
        let Some(inner) = &mut this.inner else {
            return Poll::Ready(None);
        };
        let polled = Pin::new(inner).poll_frame(cx);
        if matches!(polled, Poll::Ready(None | Some(Err(_)))) {
            this.inner = None;
        }
        if matches!(polled, Poll::Ready(None | Some(Ok(_)))) {
            this.look();
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.inner.as_ref().is_none_or(HttpBody::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.inner
            .as_ref()
            .map_or_else(|| SizeHint::with_exact(0), HttpBody::size_hint)
    }
}

impl Drop for Lingering {
    fn drop(&mut self) {
        let rest = self.inner.take().filter(|body| !body.is_end_stream());
        if let (Some(rest), Ok(runtime)) = (rest, tokio::runtime::Handle::try_current()) {
            runtime.spawn(tokio::time::timeout(LONGEST, throw_away(rest)));
        }
    }
}

async fn throw_away(mut rest: Body) {
    let mut taken = 0;
    while let Some(Ok(frame)) = rest.frame().await {
        taken += frame.data_ref().map_or(0, Bytes::len);
        if taken > MOST {
            return;
        }
    }
}
