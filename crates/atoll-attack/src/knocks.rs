//! Canary listeners on the machine's loopback: they answer one byte and count who knocked.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// How long a silent caller is waited for.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(crate) struct Knocks {
    pub(crate) tcp: u16,
    /// 0 where the machine has no IPv6.
    pub(crate) tcp6: u16,
    pub(crate) udp: u16,
    heard: Arc<AtomicUsize>,
    over: Arc<AtomicBool>,
    listeners: Vec<(SocketAddr, JoinHandle<()>)>,
    datagrams: Option<JoinHandle<()>>,
}

impl Knocks {
    pub(crate) fn listen() -> std::io::Result<Self> {
        let udp = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        let mut knocks = Self {
            tcp: 0,
            tcp6: 0,
            udp: udp.local_addr()?.port(),
            heard: Arc::default(),
            over: Arc::default(),
            listeners: Vec::new(),
            datagrams: None,
        };
        knocks.tcp = knocks.accept(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?)?;
        if let Ok(listener) = TcpListener::bind((Ipv6Addr::LOCALHOST, 0)) {
            knocks.tcp6 = knocks.accept(listener)?;
        }
        let (heard, over) = (Arc::clone(&knocks.heard), Arc::clone(&knocks.over));
        knocks.datagrams = Some(std::thread::spawn(move || answer_datagrams(&udp, &heard, &over)));
        Ok(knocks)
    }

    /// How often anybody knocked.
    pub(crate) fn count(&self) -> usize {
        self.heard.load(Ordering::SeqCst)
    }

    fn accept(&mut self, listener: TcpListener) -> std::io::Result<u16> {
        let address = listener.local_addr()?;
        let (heard, over) = (Arc::clone(&self.heard), Arc::clone(&self.over));
        let thread = std::thread::spawn(move || {
            while let Ok((caller, _)) = listener.accept() {
                if over.load(Ordering::SeqCst) {
                    return;
                }
                heard.fetch_add(1, Ordering::SeqCst);
                answer(caller).ok();
            }
        });
        self.listeners.push((address, thread));
        Ok(address.port())
    }
}

fn answer(mut caller: TcpStream) -> std::io::Result<()> {
    caller.set_read_timeout(Some(PATIENCE))?;
    caller.read_exact(&mut [0])?;
    caller.write_all(b"!")
}

fn answer_datagrams(socket: &UdpSocket, heard: &AtomicUsize, over: &AtomicBool) {
    while let Ok((_, from)) = socket.recv_from(&mut [0; 16]) {
        if over.load(Ordering::SeqCst) {
            return;
        }
        heard.fetch_add(1, Ordering::SeqCst);
        socket.send_to(b"!", from).ok();
    }
}

impl Drop for Knocks {
    /// Each thread is knocked at once more, sees that it is over, and ends.
    fn drop(&mut self) {
        self.over.store(true, Ordering::SeqCst);
        for (address, thread) in self.listeners.drain(..) {
            if TcpStream::connect(address).is_ok() {
                thread.join().ok();
            }
        }
        let knocked = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0));
        let knocked = knocked.and_then(|socket| socket.send_to(b"?", (Ipv4Addr::LOCALHOST, self.udp)));
        if let (Ok(_), Some(thread)) = (knocked, self.datagrams.take()) {
            thread.join().ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_knock_is_counted_and_answered() {
        let knocks = Knocks::listen().unwrap();
        let mut caller = TcpStream::connect((Ipv4Addr::LOCALHOST, knocks.tcp)).unwrap();
        caller.write_all(b"?").unwrap();
        let mut said = [0];
        caller.read_exact(&mut said).unwrap();
        assert_eq!((&said, knocks.count()), (b"!", 1));
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        socket.send_to(b"?", (Ipv4Addr::LOCALHOST, knocks.udp)).unwrap();
        socket.recv_from(&mut said).unwrap();
        assert_eq!((&said, knocks.count()), (b"!", 2));
    }
}
