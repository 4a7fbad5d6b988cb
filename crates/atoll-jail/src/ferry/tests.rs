//! Two ferries with a line between them: what a peer on one side sends, a peer on the other side can use.

use super::hold::{GO, HOLD};
use super::*;
use crate::channel::{pair, receive_bytes, send_bytes};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use std::fs::File;
use std::io::{Read, Write};
use std::thread::JoinHandle;

fn stream_pair() -> (OwnedFd, OwnedFd) {
    socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap()
}

fn start(side: Side, line: OwnedFd, adopted: Vec<(u32, OwnedFd)>) -> (OwnedFd, JoinHandle<Ended>) {
    let (ours, theirs) = pair().unwrap();
    let ferry = Ferry {
        side,
        channels: vec![theirs],
        reads_from: line.try_clone().unwrap(),
        writes_to: line,
        adopted,
        patient: false,
        holds: Holds::default(),
    };
    (ours, std::thread::spawn(move || run(ferry)))
}

/// The peers' ends of two connected ferries.
fn both() -> (OwnedFd, OwnedFd) {
    let (here, there) = stream_pair();
    (
        start(Side::Host, here, Vec::new()).0,
        start(Side::Guest, there, Vec::new()).0,
    )
}

/// Sends one descriptor from `from`; what arrives at `to`.
fn carry(from: &OwnedFd, to: &OwnedFd, fd: OwnedFd) -> Vec<OwnedFd> {
    send_bytes(from, b"take it", &[fd.as_fd()]).unwrap();
    drop(fd);
    let (body, fds) = receive_bytes(to).unwrap();
    assert_eq!(body, b"take it");
    fds
}

fn one(mut fds: Vec<OwnedFd>) -> File {
    assert_eq!(fds.len(), 1);
    File::from(fds.remove(0))
}

fn noise(length: usize) -> Vec<u8> {
    (0..length).map(|at| u8::try_from(at * 31 % 251).unwrap()).collect()
}

#[test]
fn messages_go_both_ways_in_order() {
    let (host, guest) = both();
    for (from, to) in [(&host, &guest), (&guest, &host)] {
        for number in 0..200u32 {
            send_bytes(from, &number.to_le_bytes(), &[]).unwrap();
        }
        for number in 0..200u32 {
            assert_eq!(receive_bytes(to).unwrap().0, number.to_le_bytes());
        }
    }
}

#[test]
fn what_is_written_there_is_read_here_to_its_end() {
    let (host, guest) = both();
    let (reads, writes) = rustix::pipe::pipe().unwrap();
    let mut there = one(carry(&host, &guest, writes));
    let sent = noise(3 << 20);
    let writer = std::thread::spawn({
        let sent = sent.clone();
        move || there.write_all(&sent).unwrap()
    });
    let mut got = Vec::new();
    File::from(reads).read_to_end(&mut got).unwrap();
    writer.join().unwrap();
    assert!(got == sent);
}

#[test]
fn what_is_written_here_is_read_there_to_its_end() {
    let (host, guest) = both();
    let (reads, writes) = rustix::pipe::pipe().unwrap();
    let mut there = one(carry(&host, &guest, reads));
    let sent = noise(1 << 20);
    let mut here = File::from(writes);
    let writer = std::thread::spawn({
        let sent = sent.clone();
        move || here.write_all(&sent).unwrap()
    });
    let mut got = Vec::new();
    there.read_to_end(&mut got).unwrap();
    writer.join().unwrap();
    assert!(got == sent);
}

#[test]
fn who_writes_hears_that_nobody_reads() {
    let (host, guest) = both();
    let (reads, writes) = rustix::pipe::pipe().unwrap();
    let there = one(carry(&host, &guest, writes));
    drop(reads);
    // It is told without a byte being written.
    let mut fds = [PollFd::new(&there, PollFlags::empty())];
    poll(&mut fds, None).unwrap();
    assert!(fds[0].revents().contains(PollFlags::ERR));
}

#[test]
fn a_socket_is_one_in_both_directions_and_ends_by_halves() {
    let (host, guest) = both();
    let (ours, theirs) = stream_pair();
    let mut there = one(carry(&host, &guest, theirs));
    let mut here = File::from(ours);
    here.write_all(b"question").unwrap();
    rustix::net::shutdown(&here, rustix::net::Shutdown::Write).unwrap();
    let mut asked = String::new();
    there.read_to_string(&mut asked).unwrap();
    there.write_all(b"answer").unwrap();
    drop(there);
    let mut answer = String::new();
    here.read_to_string(&mut answer).unwrap();
    assert_eq!((asked.as_str(), answer.as_str()), ("question", "answer"));
}

#[test]
fn a_plain_file_comes_with_its_bytes_and_a_pidfd_does_not_come() {
    let (host, guest) = both();
    let mut file = File::from(rustix::fs::memfd_create("file", rustix::fs::MemfdFlags::CLOEXEC).unwrap());
    let sent = noise(200_000);
    file.write_all(&sent).unwrap();
    std::io::Seek::rewind(&mut file).unwrap();
    let mut got = Vec::new();
    one(carry(&guest, &host, file.into())).read_to_end(&mut got).unwrap();
    assert!(got == sent);
    let me = rustix::process::getpid();
    let pidfd = rustix::process::pidfd_open(me, rustix::process::PidfdFlags::empty()).unwrap();
    assert!(carry(&guest, &host, pidfd).is_empty());
    let null = File::options().read(true).open("/dev/null").unwrap();
    assert_eq!(one(carry(&host, &guest, null.into())).read(&mut [0]).unwrap(), 0);
}

#[test]
fn a_stream_that_nobody_reads_holds_no_other_one_up() {
    let (host, guest) = both();
    let (_unread, writes) = rustix::pipe::pipe().unwrap();
    let stuck = one(carry(&host, &guest, writes));
    rustix::io::ioctl_fionbio(&stuck, true).unwrap();
    // Until neither pipe nor window takes more: looked at twice, because the ferry takes some after a moment.
    let (reads, writes) = rustix::pipe::pipe().unwrap();
    let mut other = one(carry(&host, &guest, writes));
    let mut reads = File::from(reads);
    for round in 0..50u8 {
        while rustix::io::write(&stuck, &[0; 4096]).is_ok() {}
        other.write_all(&[round]).unwrap();
        let mut got = [0];
        reads.read_exact(&mut got).unwrap();
        assert_eq!(got, [round]);
    }
    send_bytes(&guest, b"still here", &[]).unwrap();
    assert_eq!(receive_bytes(&host).unwrap().0, b"still here");
}

#[test]
fn a_stream_from_before_goes_on() {
    let (line, there) = stream_pair();
    let (near, theirs) = stream_pair();
    // The first that the host's side gives out.
    let number = 1;
    let (_host, _) = start(Side::Host, line, vec![(number, theirs)]);
    let (mut near, mut there) = (File::from(near), File::from(there));
    near.write_all(b"b").unwrap();
    let data = |bytes: &[u8]| Frame::Data {
        stream: number,
        bytes: bytes.to_vec(),
    };
    let mut said = vec![0; written(&[data(b"b")]).len()];
    there.read_exact(&mut said).unwrap();
    assert_eq!(said, written(&[data(b"b")]));
    there.write_all(&written(&[data(b"answer")])).unwrap();
    let mut answer = [0; 6];
    near.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"answer");
}

/// Two connected ferries, and the keeper's orders to the host's.
fn both_with_orders() -> (OwnedFd, OwnedFd, File) {
    let (here, there) = stream_pair();
    let (orders, taken) = stream_pair();
    let (ours, theirs) = pair().unwrap();
    let ferry = Ferry {
        side: Side::Host,
        channels: vec![theirs],
        reads_from: here.try_clone().unwrap(),
        writes_to: here,
        adopted: Vec::new(),
        patient: false,
        holds: Holds {
            orders: Some(taken),
            next: None,
        },
    };
    std::thread::spawn(move || run(ferry));
    (ours, start(Side::Guest, there, Vec::new()).0, File::from(orders))
}

#[test]
fn between_hold_and_go_nothing_is_under_way() {
    let (host, guest, mut orders) = both_with_orders();
    let (reads, writes) = rustix::pipe::pipe().unwrap();
    let mut there = one(carry(&host, &guest, writes));
    orders.write_all(&[HOLD]).unwrap();
    orders.read_exact(&mut [0]).unwrap();
    // Said meanwhile, on both sides, it waits.
    send_bytes(&host, b"later", &[]).unwrap();
    send_bytes(&guest, b"later", &[]).unwrap();
    there.write_all(b"later").unwrap();
    let reads = File::from(reads);
    let nothing = |fd: &dyn AsFd| {
        let mut fds = [PollFd::from_borrowed_fd(fd.as_fd(), PollFlags::IN)];
        let moment = Timespec {
            tv_sec: 0,
            tv_nsec: 50_000_000,
        };
        poll(&mut fds, Some(&moment)).unwrap() == 0
    };
    assert!(nothing(&host) && nothing(&guest) && nothing(&reads));
    orders.write_all(&[GO]).unwrap();
    assert_eq!(receive_bytes(&host).unwrap().0, b"later");
    assert_eq!(receive_bytes(&guest).unwrap().0, b"later");
    let mut got = [0; 5];
    (&reads).read_exact(&mut got).unwrap();
    assert_eq!(&got, b"later");
}

/// A guest's ferry that was saved while it held still: a copy's host names one of two streams.
#[test]
fn a_copy_goes_on_with_the_streams_that_it_names_and_nobody_waits_for_the_others() {
    let (line, there) = stream_pair();
    let (guest, _) = start(Side::Guest, there, Vec::new());
    let mut line = File::from(line);
    let beside = vec![(1, Kind::Writes), (3, Kind::Writes)];
    let message = Frame::Message {
        channel: 0,
        beside,
        body: b"x".to_vec(),
    };
    line.write_all(&written(&[message, Frame::Hold])).unwrap();
    let (_, fds) = receive_bytes(&guest).unwrap();
    let [mut known, mut forgotten] = <[OwnedFd; 2]>::try_from(fds).unwrap().map(File::from);
    let mut held = vec![0; written(&[Frame::Held]).len()];
    line.read_exact(&mut held).unwrap();
    assert_eq!(held, written(&[Frame::Held]));
    line.write_all(&written(&[Frame::Go { only: Some(vec![1]) }])).unwrap();
    // Far more than a window and a pipe.
    forgotten.write_all(&noise(1 << 20)).unwrap();
    known.write_all(b"heard").unwrap();
    let heard = written(&[Frame::Data {
        stream: 1,
        bytes: b"heard".to_vec(),
    }]);
    let mut said = vec![0; heard.len()];
    line.read_exact(&mut said).unwrap();
    assert_eq!(said, heard);
}

/// A guest that says these bytes.
fn said(bytes: &[u8]) -> Ended {
    let (line, there) = stream_pair();
    let (_host, ended) = start(Side::Host, line, Vec::new());
    // A ferry that has ended takes no more.
    File::from(there).write_all(bytes).ok();
    ended.join().unwrap()
}

fn written(frames: &[Frame]) -> Vec<u8> {
    let mut bytes = Vec::new();
    frames.iter().for_each(|frame| frame.write(&mut bytes));
    bytes
}

#[test]
fn whoever_breaks_the_rules_ends_the_talk() {
    let message = |channel, number, kind| Frame::Message {
        channel,
        beside: vec![(number, kind)],
        body: b"x".to_vec(),
    };
    let data = |stream| Frame::Data {
        stream,
        bytes: vec![0; frame::PIECE],
    };
    // Our own number; one number twice; a channel that is not there; more than a window; more room than there is.
    assert_eq!(said(&written(&[message(0, 1, Kind::Reads)])), Ended::Broken);
    let twice = [message(0, 2, Kind::Writes), message(0, 2, Kind::Writes)];
    assert_eq!(said(&written(&twice)), Ended::Broken);
    assert_eq!(said(&written(&[message(7, 2, Kind::Null)])), Ended::Broken);
    let mut flood = vec![message(0, 2, Kind::Reads)];
    flood.extend((0..64).map(|_| data(2)));
    assert_eq!(said(&written(&flood)), Ended::Broken);
    let room = Frame::Room {
        stream: 2,
        bytes: u32::MAX,
    };
    assert_eq!(said(&written(&[message(0, 2, Kind::Writes), room])), Ended::Broken);
    // Only a host holds and lets go.
    assert_eq!(said(&written(&[Frame::Hold])), Ended::Broken);
    assert_eq!(said(&written(&[Frame::Go { only: None }])), Ended::Broken);
    // Streams that nobody knows are streams that were closed.
    assert_eq!(said(&written(&[data(9), Frame::End { stream: 9 }])), Ended::There);
}

#[test]
fn open_streams_have_a_bound() {
    let flood: Vec<Frame> = (1..2000u32)
        .map(|number| Frame::Message {
            channel: 0,
            beside: vec![(2 * number, Kind::Writes)],
            body: b"x".to_vec(),
        })
        .collect();
    let (line, there) = stream_pair();
    let (host, ended) = start(Side::Host, line, Vec::new());
    // Somebody takes the messages and keeps what stands beside them.
    let keeper = std::thread::spawn(move || {
        let mut kept = Vec::new();
        while let Ok((_, fds)) = receive_bytes(&host) {
            kept.extend(fds);
        }
        kept.len()
    });
    File::from(there).write_all(&written(&flood)).ok();
    assert_eq!(ended.join().unwrap(), Ended::Broken);
    assert!(keeper.join().unwrap() <= 2 * MOST_STREAMS);
}
