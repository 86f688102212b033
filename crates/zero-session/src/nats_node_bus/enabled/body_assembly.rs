//! Puts bodies together that are larger than a message.

use std::collections::HashMap;
use std::time::Duration;

use bytes::{Bytes, BytesMut};

use super::message_content::BodyPart;
use crate::node_bus::BODY_BYTES_MAX;

/// Maximum size of all bodies that are not complete.
const BYTES_MAX: usize = 4 * BODY_BYTES_MAX;
/// How long the next part of a body may take.
const IDLE_MAX: Duration = Duration::from_secs(30);

/// Bodies of which parts are missing.
#[derive(Default)]
pub(super) struct BodyAssembly {
    partial: HashMap<(String, u64), PartialBody>,
    /// Their sizes when they are complete.
    bytes: usize,
}

struct PartialBody {
    bytes: BytesMut,
    total: usize,
    changed: Duration,
}

/// What became of a part.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum PartOutcome {
    /// The body is complete.
    Complete(Bytes),
    /// More is to come.
    Incomplete,
    /// There is no space for the body.
    NoSpace,
    /// Parts are missing before it, or it does not belong to the others.
    Misplaced,
}

impl BodyAssembly {
    /// Adds the next part of a body. Parts arrive in order, or not at all.
    pub(super) fn add(&mut self, from: &str, part: BodyPart, now: Duration) -> PartOutcome {
        let (offset, total) = (part.offset as usize, part.total as usize);
        if total > BODY_BYTES_MAX || offset.saturating_add(part.bytes.len()) > total {
            return PartOutcome::Misplaced;
        }
        let name = (from.to_owned(), part.request);
        if offset == 0 {
            self.remove(&name);
            if part.bytes.len() == total {
                return PartOutcome::Complete(part.bytes);
            }
            if self.bytes + total > BYTES_MAX {
                self.expire(now);
            }
            if self.bytes + total > BYTES_MAX {
                return PartOutcome::NoSpace;
            }
            self.bytes += total;
            let body = PartialBody { bytes: BytesMut::from(part.bytes), total, changed: now };
            self.partial.insert(name, body);
            return PartOutcome::Incomplete;
        }
        let Some(body) = self.partial.get_mut(&name) else { return PartOutcome::Misplaced };
        if body.bytes.len() != offset || body.total != total || part.bytes.is_empty() {
            self.remove(&name);
            return PartOutcome::Misplaced;
        }
        body.bytes.extend_from_slice(&part.bytes);
        body.changed = now;
        if body.bytes.len() < total {
            return PartOutcome::Incomplete;
        }
        match self.remove(&name) {
            Some(body) => PartOutcome::Complete(body.bytes.freeze()),
            None => PartOutcome::Misplaced,
        }
    }

    fn remove(&mut self, name: &(String, u64)) -> Option<PartialBody> {
        let body = self.partial.remove(name)?;
        self.bytes -= body.total;
        Some(body)
    }

    fn expire(&mut self, now: Duration) {
        self.partial.retain(|_, body| now.saturating_sub(body.changed) <= IDLE_MAX);
        self.bytes = self.partial.values().map(|body| body.total).sum();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(request: u64, offset: usize, total: usize, bytes: &'static str) -> BodyPart {
        let (offset, total) = (offset as u32, total as u32);
        BodyPart { request, valid_until_ms: 0, offset, total, bytes: Bytes::from(bytes) }
    }

    #[test]
    fn parts_make_a_body_in_order() {
        let mut assembly = BodyAssembly::default();
        let mut check = |from, part, expected| {
            assert_eq!(assembly.add(from, part, Duration::ZERO), expected);
        };
        check("x", part(1, 0, 3, "abc"), PartOutcome::Complete(Bytes::from("abc")));
        check("x", part(1, 0, 0, ""), PartOutcome::Complete(Bytes::new()));
        check("x", part(1, 0, 4, "ab"), PartOutcome::Incomplete);
        check("y", part(1, 0, 4, "12"), PartOutcome::Incomplete);
        check("x", part(1, 2, 4, "c"), PartOutcome::Incomplete);
        check("x", part(1, 3, 4, "d"), PartOutcome::Complete(Bytes::from("abcd")));
        check("y", part(1, 2, 4, "34"), PartOutcome::Complete(Bytes::from("1234")));
        // A part that got lost, that is repeated, or that says something else.
        check("x", part(2, 1, 4, "b"), PartOutcome::Misplaced);
        check("x", part(3, 0, 4, "a"), PartOutcome::Incomplete);
        check("x", part(3, 2, 4, "c"), PartOutcome::Misplaced);
        check("x", part(3, 1, 4, "bcd"), PartOutcome::Misplaced);
        check("x", part(4, 0, 4, "a"), PartOutcome::Incomplete);
        check("x", part(4, 1, 5, "b"), PartOutcome::Misplaced);
        check("x", part(5, 0, 2, "abc"), PartOutcome::Misplaced);
        check("x", part(5, 0, BODY_BYTES_MAX + 1, "a"), PartOutcome::Misplaced);
        check("x", part(5, u32::MAX as usize, 2, "a"), PartOutcome::Misplaced);
        check("x", part(6, 0, 2, ""), PartOutcome::Incomplete);
        check("x", part(6, 0, 1, "b"), PartOutcome::Complete(Bytes::from("b")));
        assert!(assembly.partial.is_empty());
        assert_eq!(assembly.bytes, 0);
    }

    #[test]
    fn incomplete_bodies_are_bounded() {
        let mut assembly = BodyAssembly::default();
        for request in 0..4 {
            let added = assembly.add("x", part(request, 0, BODY_BYTES_MAX, "a"), Duration::ZERO);
            assert_eq!(added, PartOutcome::Incomplete);
        }
        let one_more = || part(9, 0, 2, "a");
        assert_eq!(assembly.add("y", one_more(), IDLE_MAX), PartOutcome::NoSpace);
        let later = IDLE_MAX + Duration::from_secs(1);
        assert_eq!(assembly.add("y", one_more(), later), PartOutcome::Incomplete);
        assert_eq!(assembly.bytes, 2);
    }
}
