//! The policy engine from outside.

mod bash;
