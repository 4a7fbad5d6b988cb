//! A tiny guest on `/dev/kvm`, in which one after the other is done what a kernel does. Raw calls, no crate.
//!
//! What it says is written to a port, one letter per step: `KVM_RUN` comes back for each.

use super::process::last_errno;
use rustix::fd::{AsRawFd, FromRawFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

// Ring 0 of a 64-bit machine whose first 2 MiB are mapped as they are, for user code too. Each `out` tells a step.
core::arch::global_asm!(
    ".pushsection .rodata",
    ".balign 16",
    ".globl atoll_kvm_begin, atoll_kvm_end",
    "atoll_kvm_begin:",
    // The table of pages, written and read back.
    "mov rax, cr3",
    "mov cr3, rax",
    "mov al, 'a'",
    "out 0x10, al",
    // EFER gets the system call bit; where calls go, and which segments they come with.
    "mov ecx, 0xC0000080",
    "rdmsr",
    "or eax, 1",
    "wrmsr",
    "mov ecx, 0xC0000081",
    "xor eax, eax",
    "mov edx, 0x00100008",
    "wrmsr",
    "mov ecx, 0xC0000082",
    "lea rax, [rip + 5f]",
    "xor edx, edx",
    "wrmsr",
    "mov al, 'b'",
    "out 0x10, al",
    // The handlers' addresses go into the table of interrupts, whose rest is there.
    "lea rax, [rip + 3f]",
    "mov word ptr [0x6000 + 3*16], ax",
    "lea rax, [rip + 4f]",
    "mov word ptr [0x6000 + 14*16], ax",
    "xor ebx, ebx",
    "int3",
    "cmp ebx, 1",
    "jne 9f",
    "mov al, 'c'",
    "out 0x10, al",
    // A page that is not there; its handler goes on behind.
    "mov rax, qword ptr [0x40000000]",
    "cmp ebx, 3",
    "jne 9f",
    "mov al, 'd'",
    "out 0x10, al",
    // Long enough to tell a processor from an interpreter.
    "mov ecx, 20000000",
    "2: dec ecx",
    "jnz 2b",
    "mov al, 'e'",
    "out 0x10, al",
    // To ring 3, which calls back.
    "lea rcx, [rip + 6f]",
    "mov r11d, 2",
    "sysretq",
    "6: syscall",
    "5: mov al, 'f'",
    "out 0x10, al",
    "9: hlt",
    "3: or ebx, 1",
    "iretq",
    "4: or ebx, 2",
    "add rsp, 8",
    // Of eight bytes: the read of the page that is not there.
    "add qword ptr [rsp], 8",
    "iretq",
    "atoll_kvm_end:",
    ".popsection",
);

unsafe extern "C" {
    static atoll_kvm_begin: u8;
    static atoll_kvm_end: u8;
}

const MEMORY: usize = 2 << 20;
const CODE: usize = 0x8000;
const IDT: usize = 0x6000;
const GDT: usize = 0x5000;
const STACK: u64 = 0x7000;
const EXIT_IO: u32 = 2;

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Segment {
    base: u64,
    limit: u32,
    selector: u16,
    kind: u8,
    present: u8,
    dpl: u8,
    db: u8,
    s: u8,
    l: u8,
    g: u8,
    rest: [u8; 3],
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Table {
    base: u64,
    limit: u16,
    rest: [u16; 3],
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Special {
    /// cs, ds, es, fs, gs, ss, tr, ldt.
    segments: [Segment; 8],
    gdt: Table,
    idt: Table,
    cr0: u64,
    cr2: u64,
    cr3: u64,
    cr4: u64,
    cr8: u64,
    efer: u64,
    apic_base: u64,
    interrupts: [u64; 4],
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct General {
    /// rax, rbx, rcx, rdx, rsi, rdi, rsp, rbp, r8 to r15.
    registers: [u64; 16],
    rip: u64,
    rflags: u64,
}

#[repr(C)]
struct Region {
    slot: u32,
    flags: u32,
    guest: u64,
    bytes: u64,
    here: u64,
}

#[repr(C)]
struct Cpuid {
    count: u32,
    rest: u32,
    entries: [[u32; 10]; 256],
}

/// The letters that the guest has told, and why it stopped. The caller bounds the time.
pub(crate) fn run(mut told: impl FnMut(u8)) -> Result<u32, Errno> {
    let kvm = rustix::fs::open("/dev/kvm", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    let vm = descriptor(ask(&kvm, 0xAE01, 0)?);
    let memory = map(-1, MEMORY, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS)?;
    fill(memory);
    let region = Region {
        slot: 0,
        flags: 0,
        guest: 0,
        bytes: MEMORY as u64,
        here: memory as u64,
    };
    ask(&vm, 0x4020_AE46, &raw const region as usize)?;
    let cpu = descriptor(ask(&vm, 0xAE41, 0)?);
    let mut cpuid = Box::new(Cpuid {
        count: 256,
        rest: 0,
        entries: [[0; 10]; 256],
    });
    ask(&kvm, 0xC008_AE05, &raw mut *cpuid as usize)?;
    ask(&cpu, 0x4008_AE90, &raw const *cpuid as usize)?;
    let mut special = Special::default();
    ask(&cpu, 0x8138_AE83, &raw mut special as usize)?;
    long_mode(&mut special);
    ask(&cpu, 0x4138_AE84, &raw const special as usize)?;
    let mut general = General {
        rip: CODE as u64,
        rflags: 2,
        ..General::default()
    };
    general.registers[6] = STACK;
    ask(&cpu, 0x4090_AE82, &raw const general as usize)?;
    let bytes = ask(&kvm, 0xAE04, 0)?.max(4096);
    let page = map(cpu.as_raw_fd(), bytes, libc::MAP_SHARED)?;
    loop {
        ask(&cpu, 0xAE80, 0)?;
        // SAFETY: the kernel's pages of this cpu are mapped for as long as this function runs; the reason lies at 8.
        let reason = unsafe { page.wrapping_add(8).cast::<u32>().read() };
        // SAFETY: as above; for a port, the place of the byte lies at 40.
        let at = unsafe { page.wrapping_add(40).cast::<u64>().read() };
        match reason {
            EXIT_IO if at < bytes as u64 => {
                // SAFETY: as above; `at` is within what was mapped.
                told(unsafe { page.wrapping_add(usize::try_from(at).unwrap_or(0)).read() });
            }
            other => return Ok(other),
        }
    }
}

fn ask(fd: &OwnedFd, what: libc::Ioctl, how: usize) -> Result<usize, Errno> {
    // SAFETY: each caller gives the number together with the structure that the kernel reads or writes for it, which
    // outlives the call, or with a plain number.
    let result = unsafe { libc::ioctl(fd.as_raw_fd(), what, how) };
    usize::try_from(result).map_err(|_| last_errno())
}

fn descriptor(number: usize) -> OwnedFd {
    // SAFETY: the kernel has just made this descriptor for us; nobody else owns it.
    unsafe { OwnedFd::from_raw_fd(i32::try_from(number).unwrap_or(-1)) }
}

fn map(fd: i32, bytes: usize, flags: i32) -> Result<*mut u8, Errno> {
    let rights = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping at a place of the kernel's choice; the process ends soon and with it the mapping.
    let at = unsafe { libc::mmap(core::ptr::null_mut(), bytes, rights, flags, fd, 0) };
    if at == libc::MAP_FAILED {
        return Err(last_errno());
    }
    Ok(at.cast())
}

/// Tables of pages, segments and interrupts, and the code.
fn fill(memory: *mut u8) {
    let put = |at: usize, value: u64| {
        // SAFETY: all places below are within the 2 MiB that were just mapped, at multiples of 8.
        unsafe { memory.wrapping_add(at).cast::<u64>().write(value) };
    };
    put(0x1000, 0x2007);
    put(0x2000, 0x3007);
    // One page of 2 MiB, for user code too.
    put(0x3000, 0x87);
    for (at, segment) in [
        (1, 0x00AF_9B00_0000_FFFF_u64),
        (2, 0x00CF_9300_0000_FFFF),
        (3, 0x00CF_F300_0000_FFFF),
        (4, 0x00AF_FB00_0000_FFFF),
    ] {
        put(GDT + at * 8, segment);
    }
    // Present interrupt gates of the code segment; the code fills in where they lead.
    for vector in [3, 14] {
        put(IDT + vector * 16, 0x0000_8E00_0008_0000);
    }
    let (begin, end) = (&raw const atoll_kvm_begin, &raw const atoll_kvm_end);
    let length = end as usize - begin as usize;
    // SAFETY: both symbols are of the code above, the end behind the begin; it is far shorter than the room for it.
    unsafe { core::ptr::copy_nonoverlapping(begin, memory.wrapping_add(CODE), length) };
}

fn long_mode(special: &mut Special) {
    let code = Segment {
        limit: u32::MAX,
        selector: 8,
        kind: 11,
        present: 1,
        s: 1,
        l: 1,
        g: 1,
        ..Segment::default()
    };
    let data = Segment {
        selector: 16,
        kind: 3,
        db: 1,
        l: 0,
        ..code
    };
    special.segments[0] = code;
    for segment in &mut special.segments[1..6] {
        *segment = data;
    }
    special.gdt = Table {
        base: GDT as u64,
        limit: 39,
        ..Table::default()
    };
    special.idt = Table {
        base: IDT as u64,
        limit: 15 * 16 - 1,
        ..Table::default()
    };
    special.cr3 = 0x1000;
    // Physical address extension; paging and protection; long mode, active.
    special.cr4 |= 0x20;
    special.cr0 = 0x8000_0033;
    special.efer |= 0x500;
}
