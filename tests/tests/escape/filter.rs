//! The compiled filters say what their description says: for every number, every ABI, at the edges of arguments.
//!
//! One side interprets the kernel's instructions; the other reads the TOML rules. They share nothing but the rules'
//! text. A live run in a sandbox shows that the interpreter is the kernel's equal.

use crate::lab::{engine_without, facts_of, with_args};
use atoll_jail::filter::{Arg, Filters, Rule, rules};
use atoll_jail::plan::Mode;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};

const AUDIT_X86_64: u32 = 0xC000_003E;
const AUDIT_I386: u32 = 0x4000_0003;
const X32: u32 = 0x4000_0000;

/// `uretprobe` and `uprobe`: recent kernels let them past every filter, because only they themselves plant them.
/// Called by hand they end the process with SIGILL.
const PAST_EVERY_FILTER: [u32; 2] = [335, 336];

/// Ordered from the strictest answer to the mildest, as the kernel does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Verdict {
    Kill,
    Errno(u32),
    Allow,
}

/// Filters in the order of installing.
#[derive(Debug)]
struct Programs(Vec<Vec<Instruction>>);

#[derive(Clone, Copy, Debug)]
struct Instruction {
    code: u16,
    jt: u8,
    jf: u8,
    k: u32,
}

impl Programs {
    fn shipped() -> Self {
        let filters = Filters::compile(Mode::Root).unwrap();
        Self([&filters.allow, &filters.deny].map(|bytes| decode(bytes)).to_vec())
    }

    /// The strictest answer wins; of equal kinds, the newest filter's.
    fn verdict(&self, arch: u32, number: u32, args: [u64; 6]) -> Verdict {
        let kind = |verdict: &Verdict| match verdict {
            Verdict::Kill => 0,
            Verdict::Errno(_) => 1,
            Verdict::Allow => 2,
        };
        let answers = self
            .0
            .iter()
            .rev()
            .map(|program| interpret(program, arch, number, args));
        answers.min_by_key(kind).unwrap_or(Verdict::Allow)
    }
}

fn decode(bytes: &[u8]) -> Vec<Instruction> {
    let one = |b: &[u8]| Instruction {
        code: u16::from_ne_bytes([b[0], b[1]]),
        jt: b[2],
        jf: b[3],
        k: u32::from_ne_bytes([b[4], b[5], b[6], b[7]]),
    };
    bytes.chunks_exact(8).map(one).collect()
}

/// Classic BPF over `struct seccomp_data`: number, architecture, instruction pointer, six arguments.
fn interpret(program: &[Instruction], arch: u32, number: u32, args: [u64; 6]) -> Verdict {
    let mut data = [0u8; 64];
    data[0..4].copy_from_slice(&number.to_ne_bytes());
    data[4..8].copy_from_slice(&arch.to_ne_bytes());
    for (i, arg) in args.iter().enumerate() {
        data[16 + 8 * i..24 + 8 * i].copy_from_slice(&arg.to_ne_bytes());
    }
    let (mut a, mut at) = (0u32, 0usize);
    loop {
        let Instruction { code, jt, jf, k } = program[at];
        at += 1;
        let jump = |yes: bool| usize::from(if yes { jt } else { jf });
        match code {
            // ld [k]
            0x20 => a = u32::from_ne_bytes(data[k as usize..k as usize + 4].try_into().unwrap()),
            // ja, jeq, jgt, jge, jset
            0x05 => at += k as usize,
            0x15 => at += jump(a == k),
            0x25 => at += jump(a > k),
            0x35 => at += jump(a >= k),
            0x45 => at += jump(a & k != 0),
            // and
            0x54 => a &= k,
            // ret k
            0x06 => return action(k),
            other => panic!("an instruction that this test does not know: {other:#x}"),
        }
    }
}

fn action(k: u32) -> Verdict {
    match k & 0xFFFF_0000 {
        0x7FFF_0000 => Verdict::Allow,
        0x0005_0000 => Verdict::Errno(k & 0xFFFF),
        0x8000_0000 | 0 => Verdict::Kill,
        other => panic!("an action that nobody chose: {other:#x}"),
    }
}

/// The answer by the description alone.
struct Described {
    allow: Vec<(BTreeSet<u32>, Rule)>,
    deny: Vec<(BTreeSet<u32>, Rule)>,
}

impl Described {
    fn read() -> Self {
        let table = syscall_numbers();
        let numbered = |rule: Rule| {
            let number = |name: &String| *table.get(name).unwrap_or_else(|| panic!("no number for `{name}`"));
            (rule.syscalls.iter().map(number).collect(), rule)
        };
        let all = |name| rules(name, Mode::Root).unwrap().into_iter().map(numbered).collect();
        Self {
            allow: all("allow"),
            deny: all("deny"),
        }
    }

    fn verdict(&self, arch: u32, number: u32, args: [u64; 6]) -> Verdict {
        let hit = |list: &[(BTreeSet<u32>, Rule)]| {
            list.iter()
                .any(|(numbers, rule)| numbers.contains(&number) && fits(rule, args))
        };
        match (arch == AUDIT_X86_64, hit(&self.deny), hit(&self.allow)) {
            (false, _, _) => Verdict::Kill,
            (true, true, _) => Verdict::Errno(1),
            (true, false, true) => Verdict::Allow,
            (true, false, false) => Verdict::Errno(38),
        }
    }
}

/// Arguments are compared by their low 32 bits, or whole if the rule says so.
fn fits(rule: &Rule, args: [u64; 6]) -> bool {
    let low = |index: u8| args[usize::from(index)] & 0xFFFF_FFFF;
    let one = |arg: &Arg| {
        let given = if arg.wide {
            args[usize::from(arg.index)]
        } else {
            low(arg.index)
        };
        match (arg.mask, arg.over, arg.under) {
            (Some(mask), _, _) => given & mask == arg.value.unwrap_or(0) & mask,
            (None, Some(over), _) => given > over,
            (None, None, Some(under)) => given < under,
            (None, None, None) => given == arg.value.unwrap_or(0),
        }
    };
    match &rule.values {
        Some(values) => values.any.iter().any(|value| low(values.index) == *value),
        None => rule.args.iter().all(one),
    }
}

/// Names and numbers from the C library's own header, read now.
pub(crate) fn syscall_numbers() -> BTreeMap<String, u32> {
    let text =
        std::fs::read_to_string("/usr/include/x86_64-linux-gnu/asm/unistd_64.h").expect("libc6-dev is installed");
    let mut table: BTreeMap<String, u32> = text
        .lines()
        .filter_map(|line| line.strip_prefix("#define __NR_")?.split_once(' '))
        .filter_map(|(name, number)| Some((name.to_owned(), number.trim().parse().ok()?)))
        .collect();
    // Younger than the header of Debian 12.
    for (name, number) in [
        ("cachestat", 451),
        ("fchmodat2", 452),
        ("futex_wake", 454),
        ("futex_wait", 455),
        ("futex_requeue", 456),
    ] {
        table.entry(name.to_owned()).or_insert(number);
    }
    table
}

/// Values at and beside every bound that any rule names, alone and with high bits.
fn edges(rules: &Described) -> BTreeMap<u32, Vec<[u64; 6]>> {
    let mut edges: BTreeMap<u32, Vec<[u64; 6]>> = BTreeMap::new();
    for (numbers, rule) in rules.allow.iter().chain(&rules.deny) {
        let mut bounds: BTreeMap<u8, BTreeSet<u64>> = BTreeMap::new();
        let named = rule.args.iter().flat_map(|arg| {
            [arg.value, arg.mask, arg.over, arg.under]
                .into_iter()
                .flatten()
                .map(|value| (arg.index, value))
        });
        for (index, value) in named.chain(
            rule.values
                .iter()
                .flat_map(|v| v.any.iter().map(|value| (v.index, *value))),
        ) {
            let near = [
                value,
                value.wrapping_add(1),
                value.wrapping_sub(1),
                value ^ 0x8000_0000,
                value | 0x1_0000_0000,
                value | 0x0008_0800,
            ];
            bounds.entry(index).or_default().extend(near);
        }
        for number in numbers {
            edges.entry(*number).or_default().extend(combinations(&bounds));
        }
    }
    edges
}

fn combinations(bounds: &BTreeMap<u8, BTreeSet<u64>>) -> Vec<[u64; 6]> {
    let mut all = vec![[0u64; 6]];
    for (index, values) in bounds {
        let with_high = values.iter().flat_map(|v| [*v, *v | 1 << 32, *v | 0xFFFF_FFFF << 32]);
        let with_high: Vec<u64> = with_high.collect();
        let one = |args: &[u64; 6]| {
            let args = *args;
            with_high
                .iter()
                .map(move |value| {
                    let mut args = args;
                    args[usize::from(*index)] = *value;
                    args
                })
                .collect::<Vec<_>>()
        };
        all = all.iter().flat_map(one).collect();
    }
    all
}

#[test]
fn every_number_of_every_abi_is_answered_as_described() {
    let (programs, described) = (Programs::shipped(), Described::read());
    let mut edges = edges(&described);
    let mut differences = Vec::new();
    let mut compared = 0;
    for number in (0..=600).chain([u32::MAX, i32::MAX.cast_unsigned()]) {
        let mut all = edges.remove(&number).unwrap_or_default();
        all.extend([[0; 6], [u64::MAX; 6], [1; 6], [0xDEAD; 6]]);
        for args in all {
            for (arch, number) in [
                (AUDIT_X86_64, number),
                (AUDIT_X86_64, number | X32),
                (AUDIT_I386, number),
                (0, number),
            ] {
                compared += 1;
                let (got, want) = (
                    programs.verdict(arch, number, args),
                    described.verdict(arch, number, args),
                );
                if got != want {
                    differences.push(format!("{arch:#x} {number} {args:x?}: {got:?}, described as {want:?}"));
                }
            }
        }
    }
    differences.truncate(20);
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    assert!(
        edges.is_empty() && compared > 10_000,
        "{compared} compared, left: {edges:?}"
    );
}

#[test]
fn x32_and_i386_reach_nothing() {
    let programs = Programs::shipped();
    for number in 0..=1100 {
        assert_ne!(
            programs.verdict(AUDIT_X86_64, number | X32, [0; 6]),
            Verdict::Allow,
            "x32 {number}"
        );
        assert_eq!(
            programs.verdict(AUDIT_I386, number, [0; 6]),
            Verdict::Kill,
            "i386 {number}"
        );
    }
}

/// The comparison can fail: one changed instruction is noticed.
#[test]
fn a_changed_filter_is_noticed() {
    let (mut programs, described) = (Programs::shipped(), Described::read());
    assert_eq!(
        programs.verdict(AUDIT_X86_64, 101, [0; 6]),
        described.verdict(AUDIT_X86_64, 101, [0; 6])
    );
    programs.0.pop();
    let differs =
        (0..=600).filter(|n| programs.verdict(AUDIT_X86_64, *n, [0; 6]) != described.verdict(AUDIT_X86_64, *n, [0; 6]));
    assert!(differs.count() > 50);
}

/// Every call entered to join a sandbox is shut again by the second filter.
#[test]
fn what_the_entry_needs_is_refused_afterwards() {
    let (described, programs) = (Described::read(), Programs::shipped());
    let mut open = Vec::new();
    for (numbers, rule) in described.allow.iter().filter(|(_, rule)| rule.entering) {
        for number in numbers {
            let values = rule
                .values
                .as_ref()
                .map_or(vec![(0, 0)], |v| v.any.iter().map(|x| (v.index, *x)).collect());
            for (index, value) in values {
                let mut args = [0; 6];
                args[usize::from(index)] = value;
                rule.args
                    .iter()
                    .for_each(|arg| args[usize::from(arg.index)] = arg.value.unwrap_or(0));
                if programs.verdict(AUDIT_X86_64, *number, args) == Verdict::Allow {
                    open.push((*number, value));
                }
            }
        }
    }
    // prctl(PR_SET_NO_NEW_PRIVS) can only tighten and libraries call it.
    assert_eq!(open, [(157, 38)]);
}

/// In a sandbox every refused number answers with the errno that the interpreter foretold.
#[tokio::test]
async fn the_kernel_agrees() {
    let programs = Programs::shipped();
    let zeros = [0; 6];
    let refused = |n: &u32| matches!(programs.verdict(AUDIT_X86_64, *n, zeros), Verdict::Errno(_));
    let all = (0..=600)
        .filter(|n| !PAST_EVERY_FILTER.contains(n))
        .chain((0..=600).map(|n| n | X32));
    let numbers: Vec<u32> = all.filter(refused).collect();
    let args = json!({ "numbers": numbers });
    let code = "
for number in ARGS['numbers']:
    result, code = raw(number, 0, 0, 0, 0, 0, 0)
    facts[str(number)] = str(code) if result == -1 else 'passed'
twin('an allowed number passes', raw(39)[0] == os.getpid())
report()";
    let engine = engine_without(&[]).await.unwrap();
    let mut sandbox = atoll_tests::sandbox(&engine).await.unwrap();
    let execution = atoll_tests::python(&mut sandbox, &with_args(args.as_object().unwrap(), code))
        .await
        .unwrap();
    sandbox.end().await.unwrap();
    atoll_tests::stop(engine).await.unwrap();
    let facts = facts_of(&execution).unwrap();
    assert!(facts.dead_twins().is_empty());
    let said = |number: &u32| match programs.verdict(AUDIT_X86_64, *number, zeros) {
        Verdict::Errno(errno) => facts.word(&number.to_string()) == errno.to_string(),
        Verdict::Kill | Verdict::Allow => false,
    };
    let wrong: Vec<_> = numbers
        .iter()
        .filter(|n| !said(n))
        .map(|n| (n, facts.word(&n.to_string())))
        .collect();
    assert!(wrong.is_empty(), "{wrong:?}");
    assert!(numbers.len() > 700, "only {} numbers were tried", numbers.len());
}
