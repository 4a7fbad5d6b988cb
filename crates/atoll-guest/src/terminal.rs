//! Terminals: a pair from the sandbox's own `/dev/pts`.

use crate::refused::{About, Refused};
use crate::relay::Relay;
use atoll_core::wire::agent::TerminalSize;
use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::pty::{OpenptFlags, ioctl_tiocgptpeer, openpt, ptsname, unlockpt};
use rustix::termios::{InputModes, OptionalActions, Winsize, tcgetattr, tcsetattr, tcsetwinsize};

#[derive(Debug)]
pub(crate) struct Pair {
    /// What the engine reads and writes.
    pub(crate) outside: OwnedFd,
    /// Descriptors 0, 1 and 2 of the command.
    pub(crate) inside: Vec<OwnedFd>,
    /// Whether the outside hears of the end when nobody has the inside any more. Under gVisor it does not.
    pub(crate) tells_end: bool,
}

pub(crate) fn open(size: TerminalSize) -> Result<Pair, Errno> {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let outside = openpt(flags)?;
    unlockpt(&outside)?;
    let (inside, tells_end) = match ioctl_tiocgptpeer(&outside, flags) {
        // gVisor has no such call.
        Err(Errno::NOTTY | Errno::INVAL) => (by_name(&outside)?, false),
        inside => (inside?, true),
    };
    let mut modes = tcgetattr(&inside)?;
    // Erase takes away a whole character, not a byte of it.
    modes.input_modes |= InputModes::IUTF8;
    tcsetattr(&inside, OptionalActions::Now, &modes)?;
    resize(&outside, size)?;
    let copy = || inside.try_clone().map_err(|_| Errno::MFILE);
    let inside = vec![copy()?, copy()?, copy()?];
    Ok(Pair {
        outside,
        inside,
        tells_end,
    })
}

fn by_name(outside: &OwnedFd) -> Result<OwnedFd, Errno> {
    let name = ptsname(outside, Vec::new())?;
    rustix::fs::open(name, OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty())
}

/// Who uses the terminal is told, if the size is another than before.
pub(crate) fn resize(outside: &OwnedFd, size: TerminalSize) -> Result<(), Errno> {
    let size = Winsize {
        ws_col: size.columns,
        ws_row: size.rows,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    tcsetwinsize(outside, size)
}

/// The ends of a terminal that are not the command's: ours, the engine's, and who is between them if they are two.
#[derive(Debug, Default)]
pub(crate) struct Ends {
    pub(crate) terminal: Option<OwnedFd>,
    pub(crate) engine: Option<OwnedFd>,
    pub(crate) relay: Option<Relay>,
}

impl Ends {
    pub(crate) fn of(outside: OwnedFd, tells_end: bool) -> Result<Self, Refused> {
        let terminal = outside.try_clone().about("cannot duplicate the terminal")?;
        let (relay, engine) = match tells_end {
            true => (None, outside),
            false => {
                let (relay, engine) = Relay::new(outside).about("cannot relay the terminal")?;
                (Some(relay), engine)
            }
        };
        Ok(Self {
            terminal: Some(terminal),
            engine: Some(engine),
            relay,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::termios::{isatty, tcgetwinsize};

    #[test]
    fn both_ends_are_one_terminal_of_the_asked_size() {
        let size = TerminalSize { columns: 91, rows: 7 };
        let pair = open(size).unwrap();
        assert_eq!(pair.inside.len(), 3);
        let seen = tcgetwinsize(&pair.inside[2]).unwrap();
        assert_eq!((seen.ws_col, seen.ws_row, isatty(&pair.inside[0])), (91, 7, true));
        rustix::io::write(&pair.inside[1], b"x\n").unwrap();
        let mut bytes = [0; 8];
        let count = rustix::io::read(&pair.outside, &mut bytes).unwrap();
        assert_eq!(&bytes[..count], b"x\r\n");
    }
}
