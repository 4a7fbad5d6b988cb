//! The filter, interpreted as the kernel does it, call by call.

use super::*;

const OWN: u32 = 4711;
const OTHER: u64 = 4712;
const ARCHITECTURE: u32 = if cfg!(target_arch = "aarch64") {
    0xC000_00B7
} else {
    0xC000_003E
};
const ALLOW: u32 = 0x7FFF_0000;
const REFUSE: u32 = 0x0005_0000 | EPERM;
const NOT_THERE: u32 = 0x0005_0000 | ENOSYS;

/// The two first arguments decide.
fn answer(program: &BpfProgram, number: u32, arguments: [u64; 2]) -> u32 {
    let low = |value: u64| u32::try_from(value & 0xFFFF_FFFF).unwrap();
    let mut data = [0; 16];
    (data[0], data[1]) = (number, ARCHITECTURE);
    for (at, value) in arguments.into_iter().enumerate() {
        (data[4 + 2 * at], data[5 + 2 * at]) = (low(value), low(value >> 32));
    }
    let (mut accumulator, mut at) = (0, 0);
    loop {
        let sock_filter { code, jt, jf, k } = program[at];
        at += 1;
        let skip = |holds: bool| usize::from(if holds { jt } else { jf });
        match code {
            LOAD => accumulator = data[k as usize / 4],
            0x05 => at += k as usize,
            IF_EQUAL => at += skip(accumulator == k),
            IF_AT_LEAST => at += skip(accumulator >= k),
            0x54 => accumulator &= k,
            RETURN => return k,
            other => panic!("an instruction that this test does not know: {other:#x}"),
        }
    }
}

fn of(call: i64, arguments: [u64; 2]) -> u32 {
    let number = u32::try_from(call).unwrap();
    answer(&program(OWN).unwrap(), number, arguments)
}

#[test]
fn each_refused_call_is_refused_with_any_arguments() {
    for call in REFUSED.iter().chain(REFUSED_HERE) {
        for arguments in [[0, 0], [OTHER, 9], [u64::from(OWN), 9], [u64::MAX; 2]] {
            assert_eq!(of(*call, arguments), REFUSE, "{call} {arguments:?}");
        }
        // A rule with a condition would replace the one without.
        assert!(by_argument(OWN).iter().all(|(other, ..)| other != call), "{call}");
    }
}

#[test]
fn a_process_signals_and_limits_itself_only() {
    let own = u64::from(OWN);
    for (target, expected) in [
        (own, ALLOW),
        (OTHER, REFUSE),
        (0, REFUSE),
        (u64::MAX, REFUSE),
        // The kernel reads 32 bits.
        (own | (1 << 32), ALLOW),
        (OTHER | (1 << 32), REFUSE),
    ] {
        assert_eq!(of(libc::SYS_tgkill, [target, 1]), expected, "{target:#x}");
    }
    assert_eq!(of(libc::SYS_prlimit64, [0, 7]), ALLOW);
    assert_eq!(of(libc::SYS_prlimit64, [OTHER, 7]), REFUSE);
    for command in [F_SETOWN, F_SETSIG, F_SETOWN_EX] {
        assert_eq!(of(libc::SYS_fcntl, [3, command]), REFUSE, "{command}");
    }
    for request in [FIOSETOWN, SIOCSPGRP, TIOCSTI, TIOCLINUX] {
        assert_eq!(of(libc::SYS_ioctl, [3, request]), REFUSE, "{request}");
    }
}

#[test]
fn a_thread_can_be_started_and_a_process_cannot() {
    // As the C library starts a thread, and as it forks.
    assert_eq!(of(libc::SYS_clone, [0x003D_0F00, 0]), ALLOW);
    assert_eq!(of(libc::SYS_clone, [0x0120_0011, 0]), REFUSE);
    assert_eq!(of(libc::SYS_clone, [0, 0]), REFUSE);
    // Which makes the C library call `clone`.
    assert_eq!(i64::from(CLONE3), libc::SYS_clone3);
    assert_eq!(of(libc::SYS_clone3, [0, 0]), NOT_THERE);
}

#[test]
fn calls_of_x32_are_refused_as_a_whole() {
    let program = program(OWN).unwrap();
    for number in 0..1024 {
        assert_eq!(answer(&program, X32 | number, [0, 0]), REFUSE, "{number}");
    }
}

#[test]
fn what_the_runtime_needs_is_allowed() {
    for call in [
        libc::SYS_mmap,
        libc::SYS_munmap,
        libc::SYS_mprotect,
        libc::SYS_madvise,
        libc::SYS_futex,
        libc::SYS_rt_sigaction,
        libc::SYS_rt_sigprocmask,
        libc::SYS_sigaltstack,
        libc::SYS_sched_getaffinity,
        libc::SYS_set_robust_list,
        libc::SYS_rseq,
        libc::SYS_getrandom,
        libc::SYS_openat,
        libc::SYS_recvmsg,
        libc::SYS_sendmsg,
        libc::SYS_exit,
        libc::SYS_exit_group,
        libc::SYS_ioctl,
    ] {
        assert_eq!(of(call, [0, 0]), ALLOW, "{call}");
    }
    for command in [libc::F_GETFL, libc::F_SETFL, libc::F_DUPFD_CLOEXEC] {
        assert_eq!(of(libc::SYS_fcntl, [3, u64::from(command.unsigned_abs())]), ALLOW);
    }
}
