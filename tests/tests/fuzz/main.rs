//! Every parser that reads bytes of a sandbox or of a caller's code, on seeds and on mutations of them. The targets in
//! `fuzz/` do the same with a coverage-guided fuzzer.

use atoll_tests::fuzz_bodies::{TARGETS, Target};

/// `cargo xtask test --full` sets `ATOLL_FUZZ_MUTATIONS` higher.
fn mutations() -> usize {
    let given = std::env::var("ATOLL_FUZZ_MUTATIONS").ok();
    given.and_then(|value| value.parse().ok()).unwrap_or(20_000)
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % (bound.max(1) as u64)).unwrap_or(0)
    }

    fn byte(&mut self) -> u8 {
        self.next().to_le_bytes()[3]
    }
}

/// Bytes that parsers care about.
const TOKENS: &[&[u8]] = &[
    b"{",
    b"}",
    b"[[[[[[[[",
    b"\"",
    b"\\u0000",
    b"null",
    b"-1",
    b"1e309",
    b"\n",
    b" ",
    b"\0\0\0\0",
    b"\xff\xff\xff\xff",
    b"/",
    b"..",
    b":",
];

fn mutate(bytes: &mut Vec<u8>, random: &mut Random) {
    for _ in 0..=random.below(4) {
        let at = random.below(bytes.len() + 1);
        match random.below(6) {
            0 if !bytes.is_empty() => {
                let at = at.min(bytes.len() - 1);
                bytes[at] = random.byte();
            }
            1 if !bytes.is_empty() => {
                let at = at.min(bytes.len() - 1);
                bytes[at] ^= 1 << random.below(8);
            }
            2 => bytes.truncate(at),
            3 => {
                let token = TOKENS[random.below(TOKENS.len())];
                bytes.splice(at..at, token.iter().copied());
            }
            4 => {
                let end = (at + random.below(8)).min(bytes.len());
                bytes.drain(at..end);
            }
            _ => {
                let end = (at + random.below(16)).min(bytes.len());
                let piece = bytes[at..end].to_vec();
                bytes.extend(piece);
            }
        }
    }
}

fn run(target: &Target) {
    let mut random = Random(0x5eed_f022);
    target.seeds.iter().for_each(|seed| (target.body)(seed));
    (target.body)(b"");
    for _ in 0..mutations() {
        let mut bytes = target.seeds[random.below(target.seeds.len())].to_vec();
        mutate(&mut bytes, &mut random);
        (target.body)(&bytes);
    }
}

fn run_named(name: &str) {
    let target = TARGETS.iter().find(|target| target.name == name);
    assert!(target.is_some(), "no target {name}");
    target.into_iter().for_each(run);
}

#[test]
fn audit() {
    run_named("audit");
}

#[test]
fn frames() {
    run_named("frames");
}

#[test]
fn guard() {
    run_named("guard");
}

#[test]
fn kernel() {
    run_named("kernel");
}

#[test]
fn agent() {
    run_named("agent");
}

#[test]
fn stat() {
    run_named("stat");
}

#[test]
fn layout() {
    run_named("layout");
}

#[test]
fn code_policy() {
    run_named("code_policy");
}

/// A target without a test here, or without a file for the fuzzer, is forgotten.
#[test]
fn every_target_has_a_test_and_a_file() {
    let dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/fuzz_targets");
    let own = include_str!("main.rs");
    for target in TARGETS {
        assert!(
            dir.join(format!("{}.rs", target.name)).is_file(),
            "no file for {}",
            target.name
        );
        assert!(
            own.contains(&format!("fn {}()", target.name)),
            "no test for {}",
            target.name
        );
    }
    assert_eq!(std::fs::read_dir(dir).unwrap().count(), TARGETS.len());
}

/// The mutations must be able to break something: a parser that indexes without looking falls.
#[test]
fn mutations_reach_a_careless_parser() {
    let careless = |bytes: &[u8]| assert!(!(bytes.starts_with(b"{\"type\"") && bytes.contains(&0xff)));
    let target = Target {
        name: "careless",
        body: careless,
        seeds: &[br#"{"type":"ready"}"#],
    };
    let broke = std::panic::catch_unwind(|| run(&target)).is_err();
    assert!(broke);
}
