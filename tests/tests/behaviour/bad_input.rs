//! Bad input: a clear sentence, exit code 2, and nothing started, made or left behind.

mod files;
mod words;
mod world;
