//! The engine's part, played by a test.

use atoll_core::wire::agent::{
    Answer, Ask, Change, ChangeKind, Entry, FromAgent, ListBound, Refusal, ToAgent, UNASKED,
};
use atoll_jail::plan::{Wall, Walls};
use atoll_jail::{AgentStart, channel};
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, OwnedFd};
use std::collections::{BTreeMap, VecDeque};
use std::io::Write;
use std::process::{Child, Command, ExitCode, Stdio};

pub(crate) const AGENT: &str = "--agent";
/// Where an agent has its files: a tmpfs of its own hides what was there.
pub(crate) const HOME: &str = "/tmp";
const SIZE: &str = "64m";
/// More than any list of these tests.
pub(crate) const EVERYTHING: ListBound = ListBound {
    entries: u32::MAX,
    bytes: u32::MAX,
};

type Said = (FromAgent, Vec<OwnedFd>);

/// The other side of this file: an agent on the channel that is descriptor 0.
pub(crate) fn run_agent(words: &[String]) -> ExitCode {
    own_files(&words[0]);
    let channel = std::io::stdin().as_fd().try_clone_to_owned().unwrap();
    let because = "no sandbox around it";
    let walls = Walls::default()
        .without(Wall::Landlock, because)
        .without(Wall::Seccomp, because)
        .without(Wall::Capabilities, because)
        .without(Wall::NoNewPrivs, because)
        .without(Wall::Keyring, because);
    let env = vec![
        ("HOME".to_owned(), HOME.to_owned()),
        ("FROM".to_owned(), "sandbox".to_owned()),
    ];
    let code = atoll_guest::main(AgentStart::outside(channel, env, &walls));
    ExitCode::from(u8::try_from(code).unwrap_or(1))
}

/// A user and mount namespace with a tmpfs at the home, and loopback as it is outside.
fn own_files(size: &str) {
    let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
    unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNS).unwrap();
    std::fs::write("/proc/self/setgroups", "deny").unwrap();
    std::fs::write("/proc/self/uid_map", format!("0 {uid} 1")).unwrap();
    std::fs::write("/proc/self/gid_map", format!("0 {gid} 1")).unwrap();
    let none = None::<&str>;
    mount(none, "/", none, MsFlags::MS_PRIVATE | MsFlags::MS_REC, none).unwrap();
    let options = format!("size={size},mode=0755");
    mount(
        Some("tmpfs"),
        HOME,
        Some("tmpfs"),
        MsFlags::empty(),
        Some(options.as_str()),
    )
    .unwrap();
}

pub(crate) struct Client {
    agent: Child,
    channel: OwnedFd,
    last: u32,
    /// What came while something else was waited for.
    waiting: VecDeque<Said>,
}

impl Client {
    pub(crate) fn new() -> Self {
        Self::with_room(SIZE)
    }

    pub(crate) fn with_room(size: &str) -> Self {
        let (channel, theirs) = channel::pair().unwrap();
        let this = std::env::current_exe().unwrap();
        let agent = Command::new(this)
            .args([AGENT, size])
            .stdin(Stdio::from(theirs))
            .spawn()
            .unwrap();
        let mut client = Self {
            agent,
            channel,
            last: UNASKED,
            waiting: VecDeque::new(),
        };
        assert_eq!(client.answer(UNASKED).0, Answer::Ready);
        client
    }

    pub(crate) fn ask(&mut self, ask: Ask) -> u32 {
        self.ask_with(ask, &[])
    }

    pub(crate) fn ask_with(&mut self, ask: Ask, fds: &[&OwnedFd]) -> u32 {
        self.last += 1;
        let request = self.last;
        let fds: Vec<_> = fds.iter().map(|fd| fd.as_fd()).collect();
        channel::send(&self.channel, &ToAgent { request, ask }, &fds).unwrap();
        request
    }

    /// The next answer to a request; what else comes is kept.
    pub(crate) fn answer(&mut self, request: u32) -> (Answer, Vec<OwnedFd>) {
        loop {
            let kept = self.waiting.iter().position(|(said, _)| said.request == request);
            if let Some((said, fds)) = kept.and_then(|index| self.waiting.remove(index)) {
                return (said.answer, fds);
            }
            let said = self.hear();
            self.waiting.push_back(said);
        }
    }

    fn hear(&mut self) -> Said {
        let mut fds = [PollFd::from_borrowed_fd(self.channel.as_fd(), PollFlags::IN)];
        let patience = Timespec {
            tv_sec: 120,
            tv_nsec: 0,
        };
        assert_eq!(
            poll(&mut fds, Some(&patience)),
            Ok(1),
            "the agent says nothing; waiting: {:?}",
            self.waiting
        );
        channel::receive(&self.channel).unwrap()
    }

    pub(crate) fn done(&mut self, ask: Ask) -> Answer {
        let request = self.ask(ask);
        self.answer(request).0
    }

    pub(crate) fn entry(&mut self, ask: Ask) -> Entry {
        match self.done(ask) {
            Answer::Entry { entry } => entry,
            other => panic!("no entry: {other:?}"),
        }
    }

    pub(crate) fn refusal(&mut self, ask: Ask) -> Refusal {
        match self.done(ask) {
            Answer::Refused { why, .. } => why,
            other => panic!("not refused: {other:?}"),
        }
    }

    pub(crate) fn stat(&mut self, path: &str) -> Entry {
        self.entry(Ask::Stat { path: path.to_owned() })
    }

    pub(crate) fn list(&mut self, path: &str, depth: u32) -> Vec<Entry> {
        self.page(path, depth, None, EVERYTHING).0
    }

    /// No more than `most` of a list, and where to go on.
    pub(crate) fn page(
        &mut self,
        path: &str,
        depth: u32,
        after: Option<String>,
        most: ListBound,
    ) -> (Vec<Entry>, Option<String>) {
        let path = path.to_owned();
        let request = self.ask(Ask::List {
            path,
            depth,
            after,
            most,
        });
        let mut all = Vec::new();
        loop {
            match self.answer(request).0 {
                Answer::Entries { entries, last, next } => {
                    all.extend(entries);
                    if last {
                        return (all, next);
                    }
                }
                other => panic!("no entries: {other:?}"),
            }
        }
    }

    pub(crate) fn paths(&mut self, path: &str, depth: u32) -> Vec<String> {
        self.list(path, depth).into_iter().map(|entry| entry.path).collect()
    }

    /// Begins an upload: its number, and where its bytes go.
    pub(crate) fn begin(&mut self, path: &str, metadata: &[(&str, &str)]) -> (u32, std::fs::File) {
        let (read, write) = rustix::pipe::pipe().unwrap();
        let path = path.to_owned();
        let pairs = metadata.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
        let metadata: BTreeMap<_, _> = pairs.collect();
        let request = self.ask_with(Ask::Write { path, metadata }, &[&read]);
        (request, write.into())
    }

    pub(crate) fn upload(&mut self, path: &str, bytes: &[u8]) -> Answer {
        let (request, mut pipe) = self.begin(path, &[]);
        // A refused upload has no reader any more.
        pipe.write_all(bytes).ok();
        drop(pipe);
        self.ask(Ask::Commit { write: request });
        self.answer(request).0
    }

    pub(crate) fn put(&mut self, path: &str, bytes: &[u8]) {
        let answer = self.upload(path, bytes);
        assert!(matches!(answer, Answer::Entry { .. }), "{answer:?}");
    }

    pub(crate) fn get(&mut self, path: &str) -> Vec<u8> {
        let request = self.ask(Ask::Read { path: path.to_owned() });
        let (answer, fds) = self.answer(request);
        let Answer::File { size, .. } = answer else {
            panic!("no file: {answer:?}")
        };
        let mut bytes = Vec::new();
        let mut file = std::fs::File::from(fds.into_iter().next().unwrap());
        std::io::Read::read_to_end(&mut file, &mut bytes).unwrap();
        assert_eq!(bytes.len() as u64, size);
        bytes
    }

    pub(crate) fn watch(&mut self, path: &str, recursive: bool) -> u32 {
        let path = path.to_owned();
        let request = self.ask(Ask::Watch { path, recursive });
        assert_eq!(self.answer(request).0, Answer::Watching);
        request
    }

    /// The changes that a watch has told by now: all that were sent before the answer to a request of now.
    pub(crate) fn changes(&mut self, watch: u32) -> Vec<Change> {
        self.done(Ask::Scratch);
        let mut changes = Vec::new();
        while let Some(index) = self.waiting.iter().position(|(said, _)| said.request == watch) {
            match self.waiting.remove(index) {
                Some((
                    FromAgent {
                        answer: Answer::Changed { change },
                        ..
                    },
                    _,
                )) => changes.push(change),
                other => panic!("no change: {other:?}"),
            }
        }
        changes
    }

    pub(crate) fn seen(&mut self, watch: u32) -> Vec<(String, ChangeKind)> {
        let changes = self.changes(watch).into_iter();
        changes.map(|change| (change.name, change.kind)).collect()
    }

    /// Runs a shell command inside to its end, without descriptors of its own.
    pub(crate) fn shell(&mut self, script: &str) {
        let null: OwnedFd = std::fs::File::options()
            .read(true)
            .write(true)
            .open("/dev/null")
            .unwrap()
            .into();
        let request = self.ask_with(shell(script), &[&null, &null, &null]);
        assert!(matches!(self.answer(request).0, Answer::Spawned { .. }));
        let exited = self.answer(request).0;
        assert_eq!(
            exited,
            Answer::Exited {
                code: Some(0),
                signal: None
            },
            "{script}"
        );
    }

    /// The same, but nothing of the agent is heard meanwhile: the end of a pipe tells the end.
    pub(crate) fn shell_unheard(&mut self, script: &str) {
        let (mut end, theirs) = std::io::pipe().unwrap();
        let theirs = OwnedFd::from(theirs);
        self.ask_with(shell(script), &[&theirs, &theirs, &theirs]);
        drop(theirs);
        std::io::Read::read_to_end(&mut end, &mut Vec::new()).unwrap();
    }
}

fn shell(script: &str) -> Ask {
    Ask::Spawn {
        argv: ["/bin/sh", "-c", script].map(str::to_owned).to_vec(),
        env: BTreeMap::new(),
        cwd: String::new(),
        terminal: None,
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.agent.kill().ok();
        self.agent.wait().ok();
    }
}
