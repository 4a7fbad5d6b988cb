//! A real server of its own for one test, and a client that sends exactly the bytes it is told to.

use crate::process::{BOUND, eventually};
use anyhow::{Context, Result, bail, ensure};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

/// `atoll serve` on ports of its own, with a data directory of its own. Killed when dropped.
#[derive(Debug)]
pub struct Server {
    child: Child,
    home: PathBuf,
    log: PathBuf,
    pub api: SocketAddr,
    pub admin: SocketAddr,
    /// The key of the first start.
    pub key: String,
    _stdout: BufReader<std::process::ChildStdout>,
}

impl Server {
    /// In `home`, with these flags besides, and without a pool.
    pub fn start(home: &Path, flags: &[&str]) -> Result<Self> {
        let small = ["--template", "python-min", "--pool-min", "0"];
        Self::start_as_it_is(home, &[flags, &small].concat())
    }

    /// The same for one whose sandboxes may be guests. Those of the tests are lent: the first use of a build makes them.
    pub fn start_with_guests(home: &Path) -> Result<Self> {
        make_guest()?;
        lend(home, &["microvm", "agent"])?;
        // None is prepared: each machine is that of a sandbox.
        let none = ["--pool-min", "0", "--pool-max", "0"];
        let mut command = serve(home, &[&["--template", "python-min"][..], &none].concat());
        let kernel = std::env::var_os("ATOLL_MICROVM_KERNEL").context("no kernel for guests")?;
        Self::spawn(home, command.env("ATOLL_MICROVM_KERNEL", kernel))
    }

    /// In `home`, with these flags and the tests' Python for tier `wasm`, which is built first if need be.
    pub fn start_with_wasm(home: &Path, flags: &[&str]) -> Result<Self> {
        crate::ensure_component()?;
        lend(home, &["wasm"])?;
        Self::start(home, flags)
    }

    /// In `home`, with these flags and no others.
    pub fn start_as_it_is(home: &Path, flags: &[&str]) -> Result<Self> {
        Self::spawn(home, &mut serve(home, flags))
    }

    /// In `home`, by a command of [`serve`]. Templates of the tests are lent unless `home` has some.
    pub fn spawn(home: &Path, command: &mut Command) -> Result<Self> {
        let log = home.join("log");
        lend(home, &["templates", "kernels"])?;
        let mut child = command.stdout(Stdio::piped()).stderr(fs::File::create(&log)?).spawn()?;
        let mut stdout = BufReader::new(child.stdout.take().context("no stdout")?);
        let greeting = read_greeting(&mut stdout, &log)?;
        let word = |start: &str| {
            greeting
                .iter()
                .find_map(|line| line.strip_prefix(start)?.split_whitespace().next())
        };
        let address = |start| anyhow::Ok(word(start).context(start)?.trim_end_matches("/metrics").parse()?);
        Ok(Self {
            api: address("listening on http://").or_else(|_| address("listening on https://"))?,
            admin: address("metrics on http://")?,
            key: word("first key: ").unwrap_or_default().to_owned(),
            child,
            home: home.to_owned(),
            log,
            _stdout: stdout,
        })
    }

    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// `atoll` with this server's data directory.
    pub fn atoll(&self) -> Command {
        atoll_in(&self.home)
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The most memory that it has had.
    pub fn peak_bytes(&self) -> Result<u64> {
        self.status_bytes("VmHWM:")
    }

    /// The memory that it has now, with the pages of its program.
    pub fn resident_bytes(&self) -> Result<u64> {
        self.status_bytes("VmRSS:")
    }

    fn status_bytes(&self, name: &str) -> Result<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid()))?;
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let kib: u64 = line
            .and_then(|line| line.split_whitespace().next())
            .with_context(|| format!("no {name}"))?
            .parse()?;
        Ok(kib << 10)
    }

    pub fn signal(&self, signal: rustix::process::Signal) -> Result<()> {
        let pid = rustix::process::Pid::from_child(&self.child);
        Ok(rustix::process::kill_process(pid, signal)?)
    }

    /// Waits for its end.
    pub fn wait(&mut self) -> Result<ExitStatus> {
        let mut ended = None;
        eventually("the end of the server", || {
            ended = self.child.try_wait().ok().flatten();
            ended.is_some()
        })?;
        ended.context("no status")
    }

    /// Sends with the first key.
    pub fn send(&self, method: &str, path: &str, body: Option<&str>) -> Result<Answer> {
        self.send_as(&self.key, method, path, body)
    }

    /// Sends a body of JSON with the first key.
    pub fn json(&self, method: &str, path: &str, body: &serde_json::Value) -> Result<Answer> {
        self.send(method, path, Some(&body.to_string()))
    }

    /// Makes a key by the API.
    pub fn new_key(&self, request: &serde_json::Value) -> Result<String> {
        let made = self.json("POST", "/v1/keys", request)?.json()?;
        Ok(made["key"].as_str().context("no key")?.to_owned())
    }

    /// Makes a sandbox and returns its id.
    pub fn sandbox(&self, request: &serde_json::Value) -> Result<String> {
        let made = self.json("POST", "/v1/sandboxes", request)?;
        ensure!(made.status == 201, "{}", made.text());
        Ok(made.json()?["id"].as_str().context("no id")?.to_owned())
    }

    pub fn send_as(&self, key: &str, method: &str, path: &str, body: Option<&str>) -> Result<Answer> {
        let mut head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n",
            self.api
        );
        if !key.is_empty() {
            head.push_str(&format!("X-API-KEY: {key}\r\n"));
        }
        if let Some(body) = body {
            head.push_str(&format!(
                "Content-Type: application/json\r\nContent-Length: {}\r\n",
                body.len()
            ));
        }
        self.raw(format!("{head}\r\n{}", body.unwrap_or_default()).as_bytes())
    }

    /// Sends any body with the first key.
    pub fn bytes(&self, method: &str, path: &str, kind: &str, body: &[u8]) -> Result<Answer> {
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nX-API-KEY: {}\r\nContent-Type: {kind}\r\n\
             Content-Length: {}\r\n\r\n",
            self.api,
            self.key,
            body.len()
        );
        self.raw(&[head.as_bytes(), body].concat())
    }

    /// Sends these bytes and reads one answer.
    pub fn raw(&self, bytes: &[u8]) -> Result<Answer> {
        let mut connection = connect(self.api)?;
        // A server that refuses early may close before it has read all.
        connection.write_all(bytes).ok();
        Answer::read(&mut connection)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// `atoll` with this data directory, and no settings of the machine's.
pub fn atoll_in(home: &Path) -> Command {
    let mut command = Command::new(crate::binary());
    command.stdin(Stdio::null());
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("ATOLL_") {
            command.env_remove(name);
        }
    }
    command.env("ATOLL_HOME", home);
    // No guest boots: one tier that cannot be built, whatever this machine has.
    command.env("ATOLL_MICROVM_KERNEL", "/nonexistent");
    command
}

/// The tests' saved guest, in the tests' data directory.
fn make_guest() -> Result<()> {
    let mut first = crate::atoll();
    first.args(["run", "--tier", "microvm", "--template", "python-min", "-c", "1"]);
    let made = first.output()?;
    ensure!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    Ok(())
}

/// Lends the disk images of the tests' guests and no saved guest: the first use in `home` boots one.
pub fn lend_guest_images(home: &Path) -> Result<()> {
    make_guest()?;
    fs::create_dir_all(home.join("microvm"))?;
    lend(home, &["templates", "kernels", "agent", "microvm/images"])
}

/// What the tests have made already, so that no server makes its own.
fn lend(home: &Path, names: &[&str]) -> Result<()> {
    for name in names {
        let place = home.join(name);
        if !place.exists() {
            std::os::unix::fs::symlink(crate::home().join(name), place)?;
        }
    }
    Ok(())
}

/// `atoll serve` on free ports.
pub fn serve(home: &Path, flags: &[&str]) -> Command {
    let mut command = atoll_in(home);
    command.args(["serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"]);
    command.args(flags);
    command
}

fn read_greeting(stdout: &mut impl BufRead, log: &Path) -> Result<Vec<String>> {
    let mut lines = Vec::new();
    while !lines.iter().any(|line: &String| line.starts_with("metrics on ")) {
        let mut line = String::new();
        if stdout.read_line(&mut line)? == 0 {
            bail!("the server did not start: {}", fs::read_to_string(log)?);
        }
        lines.push(line);
    }
    Ok(lines)
}

pub fn connect(address: SocketAddr) -> Result<TcpStream> {
    let connection = TcpStream::connect(address)?;
    connection.set_read_timeout(Some(BOUND))?;
    connection.set_write_timeout(Some(BOUND))?;
    Ok(connection)
}

/// One answer of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub status: u16,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Answer {
    /// Reads one answer and leaves the connection as it is.
    pub fn read(connection: &mut impl Read) -> Result<Self> {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            ensure!(
                connection.read(&mut byte)? == 1,
                "the connection ended after {:?}",
                String::from_utf8_lossy(&head)
            );
            head.extend(byte);
        }
        let head = String::from_utf8(head)?;
        let mut lines = head.split("\r\n");
        let status = lines
            .next()
            .and_then(|line| line.split(' ').nth(1))
            .context("no status")?;
        let headers: Vec<(String, String)> = lines
            .filter_map(|line| line.split_once(": "))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
            .collect();
        let mut answer = Self {
            status: status.parse()?,
            headers,
            body: Vec::new(),
        };
        let length: usize = answer.header("content-length").map_or(Ok(0), str::parse)?;
        answer.body.resize(length, 0);
        connection.read_exact(&mut answer.body)?;
        Ok(answer)
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(other, _)| other == name);
        found.map(|(_, value)| value.as_str())
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn json(&self) -> Result<serde_json::Value> {
        serde_json::from_slice(&self.body).with_context(|| self.text())
    }

    /// The code of a refusal.
    pub fn code(&self) -> Result<String> {
        let body = self.json()?;
        let code = body["error"]["code"].as_str().with_context(|| self.text())?;
        Ok(code.to_owned())
    }
}

/// Whether the other side has closed.
pub fn is_closed(connection: &mut TcpStream) -> bool {
    let mut rest = Vec::new();
    let ended = connection.read_to_end(&mut rest);
    connection.shutdown(Shutdown::Both).ok();
    match ended {
        Ok(_) => true,
        Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
    }
}
