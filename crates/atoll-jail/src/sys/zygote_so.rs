//! The library that a zygote loads: waits for fork requests, forks into a prepared sandbox, locks the child down.
//!
//! Built by `build.rs` on its own (no std, no crate) and carried inside the `atoll` binary. Python calls
//! [`atoll_zygote_next`]; it returns only in a fork that is already behind every wall. No user byte has been
//! read by then, and the zygote itself never reads one.
#![no_std]
#![expect(unsafe_code, reason = "system calls and CPython's fork hooks")]

mod fork_wire;
mod lockdown;
mod message;
mod raw;

use core::ffi::c_int;
use fork_wire::*;
use lockdown::{Failed, Lock, Off, Rlimit, install_filter, lock_down, open_read, step};
use raw::{call, nr, number_call};

unsafe extern "C" {
    fn fork() -> c_int;
    fn PyOS_BeforeFork();
    fn PyOS_AfterFork_Parent();
    fn PyOS_AfterFork_Child();
}

const CONTROL: c_int = 3;
const CLONE_NEWPID: usize = 0x2000_0000;
/// USER | NS | NET | IPC | UTS | CGROUP: everything but the pid namespace, which the fork itself enters.
const CLONE_SANDBOX: usize = 0x1000_0000 | 0x0002_0000 | 0x4000_0000 | 0x0800_0000 | 0x0400_0000 | 0x0200_0000;
const SANDBOX_ID: usize = 1000;
const SIGCHLD: usize = 17;
const EPROTO: c_int = 71;

struct Zygote {
    off: Off,
    own_pid_namespace: c_int,
    child_signals: c_int,
    final_bytes: usize,
    final_filter: [u8; MAX_FILTER_BYTES],
    watch_bytes: usize,
    watch_filter: [u8; MAX_WATCH_BYTES],
}

static mut ZYGOTE: Zygote = Zygote {
    off: Off(0),
    own_pid_namespace: -1,
    child_signals: -1,
    final_bytes: 0,
    final_filter: [0; MAX_FILTER_BYTES],
    watch_bytes: 0,
    watch_filter: [0; MAX_WATCH_BYTES],
};

/// Waits for requests on descriptor 3. Returns 0 in a locked-down child, an errno if the zygote cannot go on.
#[unsafe(no_mangle)]
pub extern "C" fn atoll_zygote_next() -> c_int {
    // SAFETY: the process has one thread (checked by the caller before the first call), so this is the only
    // reference to the state that exists while this function runs.
    let zygote = unsafe { &mut *(&raw mut ZYGOTE) };
    match zygote.serve() {
        Ok(()) => 0,
        Err(failed) => failed.errno,
    }
}

impl Zygote {
    fn serve(&mut self) -> Result<(), Failed> {
        self.arm()?;
        loop {
            let (request, child) = message::wait(CONTROL, self.child_signals).map_err(|e| Failed { step: 1, errno: e })?;
            if child {
                self.report_exits()?;
            }
            if request && self.answer()? {
                return Ok(());
            }
        }
    }

    /// Takes the filters, then gives up what a zygote does not need.
    fn arm(&mut self) -> Result<(), Failed> {
        self.own_pid_namespace = step(2, open_read(c"/proc/self/ns/pid"))?;
        self.child_signals = step(3, block_child_signals())?;
        let mut bytes = [0u8; size_of::<Arm>() + 3 * MAX_FILTER_BYTES + MAX_WATCH_BYTES];
        let mut fds = [-1; MAX_FDS];
        let (length, _) = step(4, message::receive(CONTROL, &mut bytes, &mut fds))?;
        let arm: Arm = message::view(&bytes[..length]).ok_or(Failed { step: 5, errno: EPROTO })?;
        let start = size_of::<Arm>();
        let deny = start + arm.allow_bytes as usize;
        let fin = deny + arm.deny_bytes as usize;
        let last = arm.final_bytes as usize;
        let (watch, watching) = (fin + last, arm.watch_bytes as usize);
        let fits = last <= MAX_FILTER_BYTES && watching <= MAX_WATCH_BYTES;
        if arm.magic != MAGIC || length != watch + watching || !fits {
            return Err(Failed { step: 5, errno: EPROTO });
        }
        self.off = Off(arm.off);
        self.final_bytes = last;
        self.final_filter[..last].copy_from_slice(&bytes[fin..watch]);
        self.watch_bytes = watching;
        self.watch_filter[..watching].copy_from_slice(&bytes[watch..length]);
        // Not dumpable: no fork can read the zygote, whatever its uid.
        step(6, number_call(nr::PRCTL, [4, 0, 0, 0, 0]))?;
        if !self.off.has(Off::NO_NEW_PRIVS) {
            step(7, number_call(nr::PRCTL, [38, 1, 0, 0, 0]))?;
        }
        if !self.off.has(Off::SECCOMP) {
            step(8, install_filter(&bytes[start..deny], 0))?;
            step(8, install_filter(&bytes[deny..fin], 0))?;
        }
        Ok(())
    }

    /// One request. True in the child.
    fn answer(&mut self) -> Result<bool, Failed> {
        let mut bytes = [0u8; size_of::<ForkRequest>() + 8];
        let mut fds = [-1; MAX_FDS];
        let (length, count) = step(9, message::receive(CONTROL, &mut bytes, &mut fds))?;
        if length == 0 {
            number_call(nr::EXIT_GROUP, [0; 5]).map_err(|e| Failed { step: 9, errno: e })?;
        }
        let request: ForkRequest = message::view(&bytes[..length]).ok_or(Failed { step: 10, errno: EPROTO })?;
        if request.magic != MAGIC || count < REQUEST_FDS {
            return Err(Failed { step: 10, errno: EPROTO });
        }
        let forked = self.fork_into(fds[FD_SHELL]);
        if forked == Ok(0) {
            self.enter(&request, &fds[..count]);
            return Ok(true);
        }
        self.reply_forked(&request, forked)?;
        for fd in &fds[..count] {
            number_call(nr::CLOSE, [fd.cast_unsigned() as usize, 0, 0, 0, 0]).ok();
        }
        Ok(false)
    }

    /// Enters the sandbox's pid namespace for the child only, forks once, and returns to the own one.
    fn fork_into(&self, shell: c_int) -> Result<c_int, c_int> {
        number_call(nr::SETNS, [shell.cast_unsigned() as usize, CLONE_NEWPID, 0, 0, 0])?;
        // SAFETY: the caller holds the interpreter lock (the library is loaded with `PyDLL`).
        unsafe { PyOS_BeforeFork() };
        // SAFETY: one thread; CPython's and glibc's fork hooks run around the call.
        let pid = unsafe { fork() };
        if pid == 0 {
            // SAFETY: we are the child of a fork announced by PyOS_BeforeFork.
            unsafe { PyOS_AfterFork_Child() };
            return Ok(0);
        }
        // SAFETY: we are the parent of a fork announced by PyOS_BeforeFork.
        unsafe { PyOS_AfterFork_Parent() };
        let own = self.own_pid_namespace.cast_unsigned() as usize;
        number_call(nr::SETNS, [own, CLONE_NEWPID, 0, 0, 0])?;
        if pid < 0 { Err(11) } else { Ok(pid) }
    }

    fn reply_forked(&self, request: &ForkRequest, forked: Result<c_int, c_int>) -> Result<(), Failed> {
        let mut reply =
            ForkReply { magic: MAGIC, kind: ForkReply::REFUSED, context: request.context, pid: 0, value: 0 };
        let mut pidfd = -1;
        match forked {
            Ok(pid) => {
                // The child is not reaped before `report_exits`, so the number still names it.
                let opened = step(11, number_call(nr::PIDFD_OPEN, [pid.cast_unsigned() as usize, 0, 0, 0, 0]))?;
                pidfd = c_int::try_from(opened).unwrap_or(-1);
                reply.kind = ForkReply::FORKED;
                reply.pid = pid;
            }
            Err(errno) => reply.value = errno,
        }
        let sent = message::send(CONTROL, message::bytes_of(&reply), pidfd);
        if pidfd >= 0 {
            number_call(nr::CLOSE, [pidfd.cast_unsigned() as usize, 0, 0, 0, 0]).ok();
        }
        step(12, sent)
    }

    /// Exit facts come from the kernel: every ended fork is reaped here and told to the spawner.
    fn report_exits(&self) -> Result<(), Failed> {
        message::drain(self.child_signals);
        loop {
            let mut status: c_int = 0;
            // SAFETY: `status` is the int that wait4 writes; it lives until the call returns.
            let waited = unsafe { call(nr::WAIT4, [usize::MAX, &raw mut status as usize, 1, 0, 0]) };
            match waited {
                Ok(0) | Err(_) => return Ok(()),
                Ok(pid) => {
                    let pid = c_int::try_from(pid).unwrap_or(0);
                    let reply =
                        ForkReply { magic: MAGIC, kind: ForkReply::EXITED, context: 0, pid, value: status };
                    step(13, message::send(CONTROL, message::bytes_of(&reply), -1))?;
                }
            }
        }
    }

    /// In the child: from the zygote's world into the sandbox, then every wall. Ends the process on any failure.
    fn enter(&self, request: &ForkRequest, fds: &[c_int]) {
        if let Err(failed) = self.try_enter(request, fds) {
            message::tell_failure(if failed.step < 17 || failed.step == 29 { fds[FD_CONTROL] } else { CONTROL }, failed);
            number_call(nr::EXIT_GROUP, [111, 0, 0, 0, 0]).ok();
        }
    }

    fn try_enter(&self, request: &ForkRequest, fds: &[c_int]) -> Result<(), Failed> {
        let (groups, ruleset) = step(29, wait_at_gate(fds[FD_GATE]))?;
        for cgroup in groups.iter().take_while(|fd| **fd >= 0) {
            step(14, message::write_zero(*cgroup))?;
        }
        let shell = fds[FD_SHELL].cast_unsigned() as usize;
        step(15, number_call(nr::SETNS, [shell, CLONE_SANDBOX, 0, 0, 0]))?;
        step(16, number_call(nr::SETRESGID, [SANDBOX_ID; 5]))?;
        step(16, number_call(nr::SETRESUID, [SANDBOX_ID; 5]))?;
        step(16, number_call(nr::SETSID, [0; 5]))?;
        let ruleset = step(17, message::lay_descriptors(fds, ruleset))?;
        step(18, change_dir())?;
        step(19, unblock_child_signals())?;
        let limits: &[Rlimit] = &request.rlimits[..(request.rlimit_count as usize).min(MAX_RLIMITS)];
        let filters = [&self.final_filter[..self.final_bytes]];
        let watch = if request.watched != 0 { &self.watch_filter[..self.watch_bytes] } else { &[] };
        lock_down(&Lock { off: self.off, ruleset, filters: &filters, watch, rlimits: limits, expendable: true })?;
        number_call(nr::CLOSE, [ruleset.cast_unsigned() as usize, 0, 0, 0, 0]).ok();
        step(30, message::tell_locked(CONTROL))?;
        Ok(())
    }
}

/// Sleeps until the sandbox stands. Returns its cgroups (the rest of the list is -1) and its ruleset; where that wall
/// is off, any descriptor keeps its place. A gate that closes means that there will be no sandbox.
fn wait_at_gate(gate: c_int) -> Result<([c_int; MAX_FDS], c_int), c_int> {
    let mut bytes = [0u8; size_of::<Enter>()];
    let mut fds = [-1; MAX_FDS];
    let (length, count) = message::receive(gate, &mut bytes, &mut fds)?;
    let enter: Enter = message::view(&bytes[..length]).ok_or(EPROTO)?;
    if enter.magic != MAGIC {
        return Err(EPROTO);
    }
    let mut groups = [-1; MAX_FDS];
    let members = count.saturating_sub(usize::from(enter.has_ruleset != 0));
    groups[..members].copy_from_slice(&fds[..members]);
    let ruleset = if enter.has_ruleset != 0 && count > 0 { fds[members] } else { gate };
    Ok((groups, ruleset))
}

fn change_dir() -> Result<usize, c_int> {
    number_call(nr::UMASK, [0o022, 0, 0, 0, 0])?;
    // SAFETY: the path is a NUL-terminated constant.
    unsafe { call(nr::CHDIR, [c"/home/user".as_ptr() as usize, 0, 0, 0, 0]) }
}

fn block_child_signals() -> Result<c_int, c_int> {
    let mask = 1u64 << (SIGCHLD - 1);
    let address = &raw const mask as usize;
    // SAFETY: `mask` is the 8-byte signal set that rt_sigprocmask reads; it outlives the call.
    unsafe { call(nr::RT_SIGPROCMASK, [0, address, 0, 8, 0]) }?;
    // SAFETY: `mask` is the 8-byte signal set that signalfd4 reads; it outlives the call.
    let fd = unsafe { call(nr::SIGNALFD4, [usize::MAX, address, 8, 0o2_004_000, 0]) }?;
    c_int::try_from(fd).map_err(|_| EPROTO)
}

fn unblock_child_signals() -> Result<usize, c_int> {
    let mask = 0u64;
    // SAFETY: `mask` is the 8-byte signal set that rt_sigprocmask reads; it outlives the call.
    unsafe { call(nr::RT_SIGPROCMASK, [2, &raw const mask as usize, 0, 8, 0]) }
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {
        number_call(nr::EXIT_GROUP, [112, 0, 0, 0, 0]).ok();
    }
}

/// The precompiled `core` names it; with `panic = abort` nothing ever calls it.
#[unsafe(no_mangle)]
pub extern "C" fn rust_eh_personality() {}
