//! Text files: which encoding they have, and how to read and write it.
