//! A real browser looks at what is left: it makes no request and runs nothing. The texts as they came are the control: they do.

use crate::{html, markdown, svg};
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

/// A text of one kind, as it came and as it is given to a viewer.
struct Text {
    mime: &'static str,
    raw: String,
    cleaned: String,
}

/// What a site serves: one page per text, and one that shows all of them.
struct Site {
    pages: Vec<(&'static str, String)>,
    /// Texts because of which anything else was asked for.
    leaked: Mutex<BTreeSet<usize>>,
}

#[test]
fn a_real_browser_makes_no_request_and_runs_nothing() {
    let texts = texts();
    let raw = visit(&texts, |text| &text.raw);
    assert!(raw.len() * 2 > texts.len(), "the browser does next to nothing: {raw:?}");
    let cleaned = visit(&texts, |text| &text.cleaned);
    let told: Vec<&str> = cleaned.iter().map(|at| texts[*at].cleaned.as_str()).collect();
    assert_eq!(told, [""; 0]);
}

fn texts() -> Vec<Text> {
    let page = "text/html; charset=utf-8";
    let html = html::PAYLOADS.iter().map(|text| Text {
        mime: page,
        raw: (*text).to_owned(),
        cleaned: atoll_guard::html::clean(text).expect("it is short").text,
    });
    let drawings = svg::INSIDE.iter().map(|inside| svg::drawing(inside));
    let svg = drawings.map(|text| Text {
        mime: "image/svg+xml",
        cleaned: atoll_guard::svg::clean(&text).expect("it is short").text,
        raw: text,
    });
    let markdown = markdown::PAYLOADS.iter().map(|text| Text {
        mime: page,
        raw: rendered(text),
        cleaned: rendered(&atoll_guard::markdown::clean(text).expect("it is short").text),
    });
    html.chain(svg).chain(markdown).collect()
}

/// As a viewer that lets HTML through would show it.
fn rendered(text: &str) -> String {
    let mut page = String::new();
    pulldown_cmark::html::push_html(&mut page, pulldown_cmark::Parser::new(text));
    page
}

/// Which texts made the browser ask for something, or run.
fn visit(texts: &[Text], form: impl Fn(&Text) -> &str) -> BTreeSet<usize> {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let page = |(at, text): (usize, &Text)| (text.mime, aimed(form(text), at, address));
    let site = Arc::new(Site {
        pages: texts.iter().enumerate().map(page).collect(),
        leaked: Mutex::default(),
    });
    let serving = Arc::clone(&site);
    std::thread::spawn(move || {
        for connection in listener.incoming().flatten() {
            let site = Arc::clone(&serving);
            std::thread::spawn(move || site.serve(connection));
        }
    });
    browse(address);
    let leaked = site.leaked.lock().expect("nobody has failed");
    leaked.clone()
}

/// Whoever is to hear of it is this test: the far host is a place of ours, and what runs says so there.
fn aimed(text: &str, at: usize, address: SocketAddr) -> String {
    let place = format!("{address}/{at}/leak");
    text.replace("https://", "http://")
        .replace("&#x68;ttps://", "http://")
        .replace("leak.example", &place)
        .replace("alert(1)", &format!("fetch('/{at}/ran')"))
}

impl Site {
    fn serve(&self, connection: TcpStream) {
        let mut line = String::new();
        let read = BufReader::new(&connection).read_line(&mut line);
        let path = line.split(' ').nth(1).filter(|_| read.is_ok()).unwrap_or("/");
        let (mime, body) = self.answer(path);
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: {mime}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
            body.len()
        );
        (&connection)
            .write_all([head.as_bytes(), body.as_bytes()].concat().as_slice())
            .ok();
    }

    fn answer(&self, path: &str) -> (&str, String) {
        let (number, rest) = path.trim_start_matches('/').split_once('/').unwrap_or((path, ""));
        match (number.parse::<usize>(), rest) {
            (Ok(at), "") if at < self.pages.len() => (self.pages[at].0, self.pages[at].1.clone()),
            (Ok(at), _) => {
                self.leaked.lock().expect("nobody has failed").insert(at);
                ("text/plain", String::new())
            }
            (Err(_), _) => ("text/html", self.index()),
        }
    }

    /// Each text in a frame of its own.
    fn index(&self) -> String {
        let frame = |at: usize| format!("<iframe src='/{at}/'></iframe>");
        (0..self.pages.len()).map(frame).collect()
    }
}

/// Shows the page of all texts until nothing is under way any more.
fn browse(address: SocketAddr) {
    let profile = tempfile::tempdir().expect("a directory");
    let status = Command::new("chromium")
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
        ])
        .args([
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
        ])
        .args(["--virtual-time-budget=10000", "--timeout=240000", "--dump-dom"])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .arg(format!("http://{address}/"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    assert!(status.is_ok_and(|status| status.success()), "chromium does not start");
}
