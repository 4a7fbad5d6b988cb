//! In the child that becomes a zygote: an own id, three capabilities, one channel, then the interpreter.

use crate::plan::Mode;
use crate::step::{Step, StepError};
use rustix::fd::OwnedFd;
use rustix::thread::{CapabilitySet, CapabilitySets};
use std::collections::BTreeMap;
use std::ffi::CString;

/// What a zygote keeps: to enter a pid namespace and, in its fork, the other namespaces of a sandbox.
const KEPT: CapabilitySet = CapabilitySet::SYS_ADMIN
    .union(CapabilitySet::SYS_PTRACE)
    .union(CapabilitySet::SYS_CHROOT);

/// Never returns, except with what failed.
pub(super) fn become_zygote(
    argv: &[String],
    env: &BTreeMap<String, String>,
    mode: Mode,
    channel: OwnedFd,
) -> StepError {
    match try_become_zygote(argv, env, mode, channel) {
        Ok(never) => match never {},
        Err(error) => error,
    }
}

fn try_become_zygote(
    argv: &[String],
    env: &BTreeMap<String, String>,
    mode: Mode,
    channel: OwnedFd,
) -> Result<std::convert::Infallible, StepError> {
    if mode == Mode::Root {
        rustix::thread::set_keep_capabilities(true).step("keep capabilities")?;
        let (uid, gid) = (rustix::process::Uid::from_raw(1), rustix::process::Gid::from_raw(1));
        rustix::thread::set_thread_res_gid(gid, gid, gid).step("switch to the zygote's group")?;
        rustix::thread::set_thread_res_uid(uid, uid, uid).step("switch to the zygote's user")?;
    }
    keep_three_capabilities()?;
    let null =
        rustix::fs::open("/dev/null", rustix::fs::OFlags::RDWR, rustix::fs::Mode::empty()).step("open /dev/null")?;
    rustix::stdio::dup2_stdin(&null).step("redirect stdio to /dev/null")?;
    rustix::stdio::dup2_stdout(rustix::stdio::stderr()).step("redirect stdout")?;
    crate::sys::process::lay_and_close(channel)?;
    nix::sys::signal::SigSet::empty()
        .thread_set_mask()
        .step("unblock signals")?;
    let text = |s: &str| {
        CString::new(s)
            .map_err(std::io::Error::from)
            .step("encode the zygote's command line")
    };
    let argv = argv.iter().map(|arg| text(arg)).collect::<Result<Vec<_>, _>>()?;
    let env = env
        .iter()
        .map(|(k, v)| text(&format!("{k}={v}")))
        .collect::<Result<Vec<_>, _>>()?;
    let program = argv
        .first()
        .ok_or(rustix::io::Errno::INVAL)
        .step("find the interpreter")?;
    nix::unistd::execve(program, &argv, &env).step("start the interpreter")
}

fn keep_three_capabilities() -> Result<(), StepError> {
    // The change of ids has left all capabilities permitted but none in effect.
    let mut all = rustix::thread::capabilities(None).step("read capabilities")?;
    all.effective = all.permitted;
    rustix::thread::set_capabilities(None, all).step("raise effective capabilities")?;
    for capability in CapabilitySet::all().iter().filter(|c| !KEPT.contains(*c)) {
        match rustix::thread::remove_capability_from_bounding_set(capability) {
            Ok(()) | Err(rustix::io::Errno::INVAL) => {}
            Err(errno) => return Err(errno).step("drop a capability"),
        }
    }
    let sets = CapabilitySets {
        effective: KEPT,
        permitted: KEPT,
        inheritable: KEPT,
    };
    rustix::thread::set_capabilities(None, sets).step("set capabilities")?;
    for capability in KEPT.iter() {
        rustix::thread::configure_capability_in_ambient_set(capability, true).step("set an ambient capability")?;
    }
    Ok(())
}
