//! Commands, with pipes and with a terminal.

use crate::Test;
use crate::client::{Client, HOME};
use atoll_core::wire::agent::{Answer, Ask, Refusal, TerminalSize};
use rustix::fd::OwnedFd;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Write};

pub(crate) const TESTS: &[Test] = &[
    (
        "a_command_has_its_place_and_its_environment",
        a_command_has_its_place_and_its_environment,
    ),
    (
        "what_cannot_start_is_refused_before",
        what_cannot_start_is_refused_before,
    ),
    ("a_signal_reaches_the_whole_group", a_signal_reaches_the_whole_group),
    (
        "an_interrupt_reaches_each_program_of_a_shell_once_and_late_ones_too",
        an_interrupt_reaches_each_program_of_a_shell_once_and_late_ones_too,
    ),
    (
        "a_program_that_does_not_catch_an_interrupt_has_it_again",
        a_program_that_does_not_catch_an_interrupt_has_it_again,
    ),
    ("a_terminal_controls_its_command", a_terminal_controls_its_command),
    (
        "a_terminal_is_resized_and_tells_whether_somebody_runs",
        a_terminal_is_resized_and_tells_whether_somebody_runs,
    ),
];

fn spawn(argv: &[&str], cwd: &str, terminal: Option<TerminalSize>) -> Ask {
    Ask::Spawn {
        argv: argv.iter().map(|&word| word.to_owned()).collect(),
        env: BTreeMap::from([("ASKED".to_owned(), "yes".to_owned())]),
        cwd: cwd.to_owned(),
        terminal,
    }
}

fn a_command_has_its_place_and_its_environment() {
    let mut client = Client::new();
    client.shell("mkdir d");
    let (out, theirs) = rustix::pipe::pipe().unwrap();
    let null: OwnedFd = File::open("/dev/null").unwrap().into();
    let script = "echo $HOME $USER $LOGNAME $FROM $ASKED $PATH; pwd; echo $$; exit 3";
    let request = client.ask_with(spawn(&["sh", "-c", script], "d", None), &[&null, &theirs, &theirs]);
    drop(theirs);
    let (answer, fds) = client.answer(request);
    let Answer::Spawned { pid } = answer else {
        panic!("{answer:?}")
    };
    assert_eq!(fds.len(), 1);
    let mut text = String::new();
    File::from(out).read_to_string(&mut text).unwrap();
    let wanted = format!("{HOME} user user sandbox yes /usr/local/bin:/usr/bin:/bin\n{HOME}/d\n{pid}\n");
    assert_eq!(text, wanted);
    assert_eq!(
        client.answer(request).0,
        Answer::Exited {
            code: Some(3),
            signal: None
        }
    );
}

fn what_cannot_start_is_refused_before() {
    let mut client = Client::new();
    client.put("text", b"no program");
    for (argv, cwd, why) in [
        (&["sh"][..], "none", Refusal::Invalid),
        (&["sh"], "text", Refusal::Invalid),
        (&["no-such-program"], "", Refusal::NotFound),
        (&["./none"], "", Refusal::NotFound),
        (&["./text"], "", Refusal::Denied),
        (&[], "", Refusal::Invalid),
    ] {
        assert_eq!(client.refusal(spawn(argv, cwd, None)), why, "{argv:?}");
    }
    let Answer::Refused { message, .. } = client.done(spawn(&["sh"], "none", None)) else {
        panic!("not refused")
    };
    assert_eq!(message, format!("cwd '{HOME}/none' does not exist"));
}

fn a_signal_reaches_the_whole_group() {
    let mut client = Client::new();
    let (out, theirs) = rustix::pipe::pipe().unwrap();
    let ask = spawn(&["sh", "-c", "sleep 1000 & echo up; wait"], "", None);
    let request = client.ask_with(ask, &[&theirs, &theirs, &theirs]);
    drop(theirs);
    let mut out = File::from(out);
    out.read_exact(&mut [0; 3]).unwrap();
    client.ask(Ask::Signal {
        process: request,
        signal: 9,
    });
    assert!(matches!(client.answer(request).0, Answer::Spawned { .. }));
    assert_eq!(
        client.answer(request).0,
        Answer::Exited {
            code: None,
            signal: Some(9)
        }
    );
    // The end of the pipe: nobody of the group holds it any more.
    assert_eq!(out.read(&mut [0; 1]).unwrap(), 0);
}

/// In place of a shell: it and its children tell by a letter what they hear. The second child comes when it is told to.
const LISTENERS: &str = "
import os, signal
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGURG})
def listen(letter, number):
    while signal.sigwait({number}):
        os.write(1, letter)
def child(letter):
    if os.fork() == 0:
        os.write(1, b'+')
        listen(letter, signal.SIGINT)
child(b'a')
os.read(0, 1)
child(b'b')
listen(b'u', signal.SIGURG)
";

/// As many as are waited for; those of two programs come in any order.
fn letters(out: &mut File, count: usize) -> String {
    let mut letters = vec![0; count];
    out.read_exact(&mut letters).unwrap();
    letters.sort_unstable();
    String::from_utf8(letters).unwrap()
}

fn an_interrupt_reaches_each_program_of_a_shell_once_and_late_ones_too() {
    let mut client = Client::new();
    let (out, theirs) = rustix::pipe::pipe().unwrap();
    let (input, tell) = rustix::pipe::pipe().unwrap();
    let ask = spawn(&["python3", "-c", LISTENERS], "", None);
    let process = client.ask_with(ask, &[&input, &theirs, &theirs]);
    let mut out = File::from(out);
    let mut heard = |count| letters(&mut out, count);
    let mut interrupt = |again| assert_eq!(client.done(Ask::Interrupt { process, again }), Answer::Done);
    assert_eq!(heard(1), "+");
    interrupt(false);
    assert_eq!(heard(1), "a");
    File::from(tell).write_all(b"!").unwrap();
    assert_eq!(heard(2), "+u");
    // The first time that it is seen it may be a helper of the shell.
    interrupt(true);
    assert_eq!(heard(1), "u");
    interrupt(true);
    assert_eq!(heard(2), "bu");
    interrupt(true);
    assert_eq!(heard(1), "u");
    interrupt(false);
    assert_eq!(heard(3), "abu");
    client.ask(Ask::Signal { process, signal: 9 });
    wait_for_end(&mut client, process);
}

/// Waits for the end of a command, so that nothing of it outlives the test.
fn wait_for_end(client: &mut Client, process: u32) {
    assert!(matches!(client.answer(process).0, Answer::Spawned { .. }));
    assert!(matches!(client.answer(process).0, Answer::Exited { .. }));
}

/// Its child has no handler when it is looked at, as a subshell that has just given up the shell's.
const DEFENCELESS: &str = "
import os, signal
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGURG})
letter, number = b'u', signal.SIGURG
if os.fork() == 0:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.write(1, b'+')
    letter, number = b'd', signal.SIGINT
while signal.sigwait({number}):
    os.write(1, letter)
";

fn a_program_that_does_not_catch_an_interrupt_has_it_again() {
    let mut client = Client::new();
    let (out, theirs) = rustix::pipe::pipe().unwrap();
    let (input, _tell) = rustix::pipe::pipe().unwrap();
    let ask = spawn(&["python3", "-c", DEFENCELESS], "", None);
    let process = client.ask_with(ask, &[&input, &theirs, &theirs]);
    let mut out = File::from(out);
    let mut heard = |count| letters(&mut out, count);
    assert_eq!(heard(1), "+");
    for again in [false, true, true] {
        assert_eq!(client.done(Ask::Interrupt { process, again }), Answer::Done);
        assert_eq!(heard(2), "du");
    }
    client.ask(Ask::Signal { process, signal: 9 });
    wait_for_end(&mut client, process);
}

/// Reads until the terminal has shown a text.
fn wait_for(terminal: &mut File, wanted: &str) {
    let mut text = String::new();
    while !text.contains(wanted) {
        let mut piece = [0; 256];
        let count = terminal.read(&mut piece).unwrap();
        text.push_str(std::str::from_utf8(&piece[..count]).unwrap());
    }
}

fn a_terminal_controls_its_command() {
    let mut client = Client::new();
    let size = TerminalSize { columns: 77, rows: 9 };
    let script = "stty size; echo hi > /dev/tty; read line; echo got $line; exec cat";
    let request = client.ask(spawn(&["sh", "-c", script], "", Some(size)));
    let (answer, fds) = client.answer(request);
    assert!(matches!(answer, Answer::Spawned { .. }), "{answer:?}");
    let mut fds = fds.into_iter();
    let (_pidfd, terminal) = (fds.next().unwrap(), fds.next().unwrap());
    let mut terminal = File::from(terminal);
    wait_for(&mut terminal, "9 77\r\nhi\r\n");
    terminal.write_all(b"word\n").unwrap();
    wait_for(&mut terminal, "got word");
    // The echo and the copy of it: by now the program is there, and no shell that would catch the signal.
    terminal.write_all(b"copy\n").unwrap();
    wait_for(&mut terminal, "copy\r\ncopy\r\n");
    // The terminal itself turns this byte into an interrupt of its foreground group.
    terminal.write_all(b"\x03").unwrap();
    assert_eq!(
        client.answer(request).0,
        Answer::Exited {
            code: None,
            signal: Some(2)
        }
    );
}

/// A line editor sets the size that it was told a moment ago. Who runs could be at that.
fn a_terminal_is_resized_and_tells_whether_somebody_runs() {
    let mut client = Client::new();
    let size = TerminalSize { columns: 77, rows: 9 };
    let script = "read line; while :; do :; done & busy=$!; read line; kill $busy; wait; stty size; read line";
    let process = client.ask(spawn(&["sh", "-c", script], "", Some(size)));
    let (answer, fds) = client.answer(process);
    assert!(matches!(answer, Answer::Spawned { .. }), "{answer:?}");
    let mut terminal = File::from(fds.into_iter().nth(1).unwrap());
    let size = TerminalSize { columns: 99, rows: 30 };
    let still = |client: &mut Client| {
        let request = client.ask(Ask::Resize { process, size });
        match client.answer(request).0 {
            Answer::Resized { still } => still,
            other => panic!("{other:?}"),
        }
    };
    while !still(&mut client) {}
    terminal.write_all(b"run\n").unwrap();
    while still(&mut client) {}
    terminal.write_all(b"rest\n").unwrap();
    wait_for(&mut terminal, "30 99\r\n");
    while !still(&mut client) {}
    let unknown = client.ask(Ask::Resize {
        process: u32::MAX,
        size,
    });
    let refused = client.answer(unknown).0;
    assert!(
        matches!(
            refused,
            Answer::Refused {
                why: Refusal::NotFound,
                ..
            }
        ),
        "{refused:?}"
    );
}
