//! Fuzzes the cleaners of results.
#![no_main]

#[path = "../../tests/src/fuzz_bodies.rs"]
#[allow(dead_code, reason = "each target uses one body of the list")]
mod fuzz_bodies;

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz_bodies::guard(data));
