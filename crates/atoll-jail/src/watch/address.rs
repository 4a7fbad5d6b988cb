//! Where a socket call goes: the addresses of the internet. Others stay inside of the sandbox.

use super::Tried;
use super::memory::Memory;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const MAX_LENGTH: u64 = 28;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Address {
    ip: IpAddr,
    pub(super) port: u16,
}

impl Address {
    pub(super) fn read(memory: &Memory, at: u64, length: u64) -> Option<Self> {
        (at != 0).then(|| Self::parse(&memory.bytes(at, length.min(MAX_LENGTH))))?
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let family = u16::from_ne_bytes(*bytes.first_chunk::<2>()?);
        let port = u16::from_be_bytes(*bytes.get(2..)?.first_chunk::<2>()?);
        let ip = match i32::from(family) {
            // The kernel takes an address of no family for one of the first.
            libc::AF_UNSPEC | libc::AF_INET => IpAddr::from(Ipv4Addr::from(*bytes.get(4..)?.first_chunk::<4>()?)),
            libc::AF_INET6 => IpAddr::from(Ipv6Addr::from(*bytes.get(8..)?.first_chunk::<16>()?)).to_canonical(),
            _ => return None,
        };
        Some(Self { ip, port })
    }

    /// Somebody outside. A sandbox may talk to itself; a question to a name server is told by its name.
    pub(super) fn tried(self) -> Option<Tried> {
        let inside = self.ip.is_loopback() || self.ip.is_unspecified();
        // Resolvers connect to port 0 only to learn which address they would use.
        (!inside && self.port != 0).then(|| Tried::Host {
            host: self.ip.to_string(),
            port: self.port,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v4(port: u16, ip: [u8; 4]) -> Vec<u8> {
        let family = u16::try_from(libc::AF_INET).unwrap().to_ne_bytes();
        [&family[..], &port.to_be_bytes(), &ip].concat()
    }

    fn v6(port: u16, ip: Ipv6Addr) -> Vec<u8> {
        let family = u16::try_from(libc::AF_INET6).unwrap().to_ne_bytes();
        [&family[..], &port.to_be_bytes(), &[0; 4], &ip.octets()].concat()
    }

    #[test]
    fn addresses_of_the_internet_are_told_and_inner_ones_are_not() {
        let told = |bytes: &[u8]| Address::parse(bytes).and_then(Address::tried);
        let host = |host: &str, port| {
            Some(Tried::Host {
                host: host.to_owned(),
                port,
            })
        };
        assert_eq!(told(&v4(443, [192, 0, 2, 7])), host("192.0.2.7", 443));
        assert_eq!(told(&v6(80, "2001:db8::1".parse().unwrap())), host("2001:db8::1", 80));
        assert_eq!(
            told(&v6(80, "::ffff:192.0.2.7".parse().unwrap())),
            host("192.0.2.7", 80)
        );
        for inner in [
            v4(80, [127, 0, 0, 1]),
            v6(80, Ipv6Addr::LOCALHOST),
            v4(0, [192, 0, 2, 7]),
        ] {
            assert_eq!(told(&inner), None);
        }
        for broken in [
            &b""[..],
            &[2],
            &[2, 0, 1],
            &[10, 0, 0, 80, 1, 2],
            &[1, 0, b'/', b'x', 0],
        ] {
            assert_eq!(told(broken), None, "{broken:?}");
        }
    }
}
