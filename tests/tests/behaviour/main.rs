//! What people and their programs see: `atoll run`, contexts, limits, outcomes, bad input.

mod first;
