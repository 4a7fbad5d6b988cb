//! `atoll serve` and `atoll keys` as operators and clients see them: the real binary, real sockets.

mod admin;
mod attack;
mod clients;
mod drain;
mod keys;
mod kill;
mod load;
mod logs;
mod native;
mod settings;
