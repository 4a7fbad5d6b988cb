//! The first process of the guest that `tests/guest` boots: mounts what a machine has, with control groups of version 2
//! only, does the orders one by one, and writes one line of JSON per order to the second serial port.
//!
//! It knows nothing of what should come out: the test outside judges.

mod machine;

use anyhow::{Context, Result};
use atoll_tests::guest::{ORDERS, Order, Report, USER, Who};
use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.as_slice() {
        [step, group, command @ ..] if step == "enter" => enter(group, command),
        [step, group] if step == "leave" => Ok(fs::create_dir(group)?),
        _ => {
            let done = serve();
            if let Err(error) = &done {
                fs::write("/dev/console", format!("guest: {error:?}\n")).ok();
            }
            machine::end()
        }
    }
}

fn serve() -> Result<()> {
    machine::set_up()?;
    let orders: Vec<Order> = serde_json::from_slice(&fs::read(ORDERS)?)?;
    let mut port = machine::results()?;
    for order in &orders {
        let report = serde_json::to_string(&run(order)?)?;
        writeln!(port, "{report}")?;
    }
    Ok(())
}

fn run(order: &Order) -> Result<Report> {
    machine::give_home_to(if order.who == Who::Root { 0 } else { USER })?;
    let (groups, processes) = (machine::groups(), machine::processes());
    let began = Instant::now();
    let mut command = prepared(order)?;
    let output = match &order.kill_after {
        None => command.output().with_context(|| format!("start {command:?}"))?,
        Some(line) => kill_after(command, line, &processes)?,
    };
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ok(Report {
        name: order.name.clone(),
        code: output.status.code(),
        stdout: text(&output.stdout),
        stderr: text(&output.stderr),
        groups_left: machine::groups().difference(&groups).cloned().collect(),
        processes_left: machine::processes().difference(&processes).cloned().collect(),
        seconds: began.elapsed().as_secs_f64(),
    })
}

fn prepared(order: &Order) -> Result<Command> {
    let (program, args) = order.command.split_first().context("an order without words")?;
    let mut command = Command::new(program);
    match order.who {
        Who::Root => {}
        Who::User => drop(command.uid(USER).gid(USER)),
        Who::Delegated => {
            command = Command::new("/proc/self/exe");
            command.args(["enter", machine::DELEGATED, program]);
        }
    }
    command.args(args).env_clear().env("ATOLL_HOME", machine::HOME);
    command
        .env("PATH", "/usr/bin:/bin")
        .current_dir("/tmp")
        .stdin(Stdio::null());
    Ok(command)
}

/// Kills the command when it has printed `line`, and waits for what it started.
fn kill_after(mut command: Command, line: &str, before: &BTreeSet<String>) -> Result<Output> {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let said = BufReader::new(child.stdout.take().context("no stdout")?).lines();
    said.map_while(Result::ok)
        .find(|said| said == line)
        .context("it did not say so")?;
    child.kill()?;
    let output = child.wait_with_output()?;
    let began = Instant::now();
    while machine::processes() != *before && began.elapsed() < Duration::from_secs(120) {
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(output)
}

/// Goes into the group, becomes the user, becomes the command.
fn enter(group: &str, command: &[String]) -> Result<()> {
    fs::write(format!("{group}/cgroup.procs"), "0").context("enter the group")?;
    let (program, args) = command.split_first().context("no command")?;
    let failed = Command::new(program).args(args).uid(USER).gid(USER).exec();
    Err(failed).with_context(|| format!("become {program}"))
}
