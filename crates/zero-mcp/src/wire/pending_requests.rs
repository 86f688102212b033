//! Who waits for what: requests of ours without an answer, and theirs that we work on.
//!
//! With it, an answer is read as what was asked for, and one that nobody asked for is told apart
//! from one that came too late.

use std::collections::{HashMap, HashSet};

use rmcp::model::RequestId;

/// Requests of ours that are remembered. Whoever gives up without saying so leaves one behind.
const SENT_MAX: usize = 1024;

/// What an answer has to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum McpRequestKind {
    /// `initialize`
    Greeting,
    /// `server/discover`
    Discovery,
    /// `tools/list`
    ToolList,
    /// `tools/call`
    ToolCall,
    /// Whatever else.
    Other,
}

/// The requests of a connection, both ways.
#[derive(Debug, Default)]
pub(crate) struct PendingRequests {
    asked: HashMap<RequestId, (u64, McpRequestKind)>,
    asked_so_far: u64,
    working_on: HashSet<RequestId>,
}

impl PendingRequests {
    /// Notes a request of ours.
    pub(crate) fn record_sent(&mut self, id: RequestId, asked: McpRequestKind) {
        if self.asked.len() >= SENT_MAX
            && let Some(oldest) =
                self.asked.iter().min_by_key(|(_, (age, _))| *age).map(|(id, _)| id.clone())
        {
            self.asked.remove(&oldest);
        }
        self.asked_so_far += 1;
        self.asked.insert(id, (self.asked_so_far, asked));
    }

    /// Forgets a request of ours: it is given up.
    pub(crate) fn forget_sent(&mut self, id: &RequestId) {
        self.asked.remove(id);
    }

    /// Takes the request that an answer is for. Some servers turn our numbers into texts.
    pub(crate) fn take_answered(&mut self, id: &RequestId) -> Option<(RequestId, McpRequestKind)> {
        if let Some((id, (_, asked))) = self.asked.remove_entry(id) {
            return Some((id, asked));
        }
        let RequestId::String(text) = id else { return None };
        let number = RequestId::Number(text.parse().ok()?);
        self.asked.remove_entry(&number).map(|(id, (_, asked))| (id, asked))
    }

    /// Notes a request of theirs.
    pub(crate) fn admit(&mut self, id: &RequestId, max: usize) -> RequestAdmission {
        if self.working_on.contains(id) {
            return RequestAdmission::IdInUse;
        }
        if self.working_on.len() >= max {
            return RequestAdmission::TooMany;
        }
        self.working_on.insert(id.clone());
        RequestAdmission::Admitted
    }

    /// Forgets a request of theirs: it is answered, or they gave it up.
    pub(crate) fn finish(&mut self, id: &RequestId) {
        self.working_on.remove(id);
    }
}

/// Whether a request is worked on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestAdmission {
    Admitted,
    IdInUse,
    TooMany,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answer_counts_once() {
        let mut ledger = PendingRequests::default();
        ledger.record_sent(RequestId::Number(1), McpRequestKind::ToolCall);
        let taken = ledger.take_answered(&RequestId::String("1".into()));
        assert_eq!(taken, Some((RequestId::Number(1), McpRequestKind::ToolCall)));
        assert_eq!(ledger.take_answered(&RequestId::Number(1)), None);
    }

    #[test]
    fn oldest_request_is_forgotten_first() {
        let mut ledger = PendingRequests::default();
        for number in 0..=SENT_MAX as i64 {
            ledger.record_sent(RequestId::Number(number), McpRequestKind::Other);
        }
        assert_eq!(ledger.take_answered(&RequestId::Number(0)), None);
        assert!(ledger.take_answered(&RequestId::Number(1)).is_some());
    }

    #[test]
    fn peer_requests_are_bounded() {
        let mut ledger = PendingRequests::default();
        let id = RequestId::Number(1);
        assert_eq!(ledger.admit(&id, 1), RequestAdmission::Admitted);
        assert_eq!(ledger.admit(&id, 1), RequestAdmission::IdInUse);
        assert_eq!(ledger.admit(&RequestId::Number(2), 1), RequestAdmission::TooMany);
        ledger.finish(&id);
        assert_eq!(ledger.admit(&RequestId::Number(2), 1), RequestAdmission::Admitted);
    }
}
