//! Taking connections: not more than allowed, until told to stop; then running requests get time to end.

use super::connection::serve_one;
use super::places::Places;
use super::spare::Spare;
use super::transport::Transport;
use crate::tls::Tls;
use axum::Router;
use rustix::io::Errno;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

/// Connections that the kernel keeps until they are accepted; it bounds this by `net.core.somaxconn`.
const BACKLOG: u32 = 4_096;
/// How long a refused connection may take to read why.
const REFUSAL_TIME: Duration = Duration::from_secs(1);
/// Refused connections that are told why at the same time; more are just closed.
const REFUSALS: usize = 64;
/// A pause when there are no descriptors left, not even the spare one, so that the loop does not spin.
const OUT_OF_DESCRIPTORS: Duration = Duration::from_millis(50);

const REFUSAL: &str = concat!(
    "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\ncontent-length: 146\r\n",
    "retry-after: 1\r\nshould-retry: false\r\nconnection: close\r\n\r\n",
    r#"{"error":{"code":"at_capacity","message":"the server has reached its connection limit","#,
    r#""hint":"close some connections, or raise max_connections"}}"#
);

const NO_DESCRIPTORS: &str = concat!(
    "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\ncontent-length: 177\r\n",
    "retry-after: 1\r\nshould-retry: false\r\nconnection: close\r\n\r\n",
    r#"{"error":{"code":"at_capacity","message":"the server has no file descriptors left","#,
    r#""hint":"retry later; the operator can raise the open file limit of the server (LimitNOFILE)"}}"#
);

/// The two ends of the connection of a request.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionInfo {
    pub peer: SocketAddr,
    pub local: SocketAddr,
}

#[derive(Clone, Copy, Debug)]
pub struct ConnectionLimits {
    pub max_connections: usize,
    pub header_timeout: Duration,
    pub idle_timeout: Duration,
    pub drain_timeout: Duration,
}

/// How the end went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drained {
    /// Connections that were cut when the time was over.
    pub cut: usize,
}

/// What ends the patience with requests that still run.
#[derive(Clone, Copy, Debug)]
pub struct Hurry<H>(pub H);

/// Listens on an address. A burst of clients waits in the kernel's queue instead of being dropped.
pub fn bind(address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = if address.is_ipv4() {
        TcpSocket::new_v4()?
    } else {
        TcpSocket::new_v6()?
    };
    // A server that starts again does not wait for old connections.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Serves until `stop` ends, then drains; what `stop` gives ends the patience. With `tls`, HTTPS alone.
pub(crate) async fn serve<H: Future<Output = ()>>(
    listener: TcpListener,
    app: Router,
    limits: ConnectionLimits,
    tls: Option<Arc<Tls>>,
    stop: impl Future<Output = Hurry<H>>,
) -> Drained {
    let mut stop = std::pin::pin!(stop);
    let (stopping, _) = watch::channel(false);
    let places = Places::new(limits.max_connections);
    let refusals = Arc::new(Semaphore::new(REFUSALS));
    let spare = Spare::new();
    let mut tasks = JoinSet::new();
    let Hurry(hurry) = loop {
        let accepted = tokio::select! {
            biased;
            hurry = &mut stop => break hurry,
            Some(_) = tasks.join_next() => continue,
            accepted = listener.accept() => accepted,
        };
        if accepted.as_ref().is_err_and(is_out_of_descriptors) {
            refuse_next(&listener, &spare, tls.as_ref(), &mut tasks).await;
            continue;
        }
        let Some((stream, info)) = accept(accepted).await else {
            continue;
        };
        match places.take(info.peer.ip()) {
            Some(place) => {
                let served = serve_one(
                    stream,
                    info,
                    place,
                    app.clone(),
                    limits,
                    tls.clone(),
                    stopping.subscribe(),
                );
                tasks.spawn(served);
            }
            None => {
                if let Ok(permit) = Arc::clone(&refusals).try_acquire_owned() {
                    let tls = tls.clone();
                    tasks.spawn(async move {
                        refuse(stream, tls, REFUSAL).await;
                        drop(permit);
                    });
                }
            }
        }
    };
    drop(listener);
    stopping.send_replace(true);
    drain(tasks, limits.drain_timeout, hurry).await
}

async fn accept(accepted: std::io::Result<(TcpStream, SocketAddr)>) -> Option<(TcpStream, ConnectionInfo)> {
    match accepted {
        Ok((stream, peer)) => {
            // Small answers go out at once.
            stream.set_nodelay(true).ok();
            let local = stream.local_addr().ok()?;
            Some((stream, ConnectionInfo { peer, local }))
        }
        Err(error) => {
            tracing::warn!(error = %error, "connection could not be accepted");
            tokio::time::sleep(OUT_OF_DESCRIPTORS).await;
            None
        }
    }
}

fn is_out_of_descriptors(error: &std::io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE))
}

/// Takes the connection that found no descriptor in place of the spare one, so that its client is told.
async fn refuse_next(listener: &TcpListener, spare: &Spare, tls: Option<&Arc<Tls>>, tasks: &mut JoinSet<()>) {
    tracing::warn!("connection refused: the server has no file descriptors left");
    if spare.give_up()
        && let Ok(Ok((stream, _))) = tokio::time::timeout(OUT_OF_DESCRIPTORS, listener.accept()).await
    {
        let (spare, tls) = (spare.clone(), tls.cloned());
        tasks.spawn(async move {
            refuse(stream, tls, NO_DESCRIPTORS).await;
            spare.restore();
        });
    } else {
        spare.restore();
        tokio::time::sleep(OUT_OF_DESCRIPTORS).await;
    }
}

/// Says why, and reads what comes until the client has closed, so that the words are not lost.
async fn refuse(stream: TcpStream, tls: Option<Arc<Tls>>, why: &str) {
    let say = async {
        let mut stream = Transport::open(stream, tls.as_deref()).await?;
        stream.write_all(why.as_bytes()).await?;
        stream.shutdown().await?;
        let mut rest = [0; 1024];
        while stream.read(&mut rest).await? > 0 {}
        Ok::<(), std::io::Error>(())
    };
    tokio::time::timeout(REFUSAL_TIME, say).await.ok();
}

async fn drain(mut tasks: JoinSet<()>, within: Duration, hurry: impl Future<Output = ()>) -> Drained {
    let all = async { while tasks.join_next().await.is_some() {} };
    tokio::select! {
        () = all => return Drained { cut: 0 },
        () = tokio::time::sleep(within) => {}
        () = hurry => {}
    }
    let cut = tasks.len();
    tasks.shutdown().await;
    Drained { cut }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_burst_of_clients_waits_to_be_accepted() {
        let listener = bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        let address = listener.local_addr().unwrap();
        // Nothing is accepted. With a full queue the kernel drops what comes, and a client fails after its retries.
        let clients: Vec<_> = (0..300).map(|_| std::net::TcpStream::connect(address)).collect();
        assert!(clients.iter().all(Result::is_ok), "{:?}", clients.last());
    }

    #[test]
    fn the_refusals_are_whole_answers() {
        for refusal in [REFUSAL, NO_DESCRIPTORS] {
            let (head, body) = refusal.split_once("\r\n\r\n").unwrap();
            let length = head.split("content-length: ").nth(1).unwrap().lines().next();
            assert_eq!(length, Some(body.len().to_string().as_str()));
            let body: crate::api::native::ErrorBody = serde_json::from_str(body).unwrap();
            assert_eq!(body.error.code, crate::api::ErrorCode::AtCapacity.as_str());
        }
    }
}
