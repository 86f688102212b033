//! [`PendingRequests`]: the requests of both sides that are not answered yet.
//!
//! An answer is parsed according to its request, and an answer without a request is recognized.

use std::collections::{HashMap, HashSet};

use rmcp::model::RequestId;

/// Maximum number of sent requests to remember. A request that is dropped without a cancellation is
/// never answered.
const SENT_MAX: usize = 1024;

/// Kind of a request, which determines how its answer is parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum McpRequestKind {
    /// An `initialize` request.
    Greeting,
    /// A `server/discover` request.
    Discovery,
    /// A `tools/list` request, whose answer is repaired tool by tool.
    ToolList,
    /// A `tools/call` request, whose answer is repaired block by block.
    ToolCall,
    /// Any other request.
    Other,
}

/// The unanswered requests of a connection, in both directions.
#[derive(Debug, Default)]
pub(crate) struct PendingRequests {
    requests: HashMap<RequestId, (u64, McpRequestKind)>,
    asked_so_far: u64,
    working_on: HashSet<RequestId>,
}

impl PendingRequests {
    /// Records a request of this side.
    pub(crate) fn record_sent(&mut self, id: RequestId, request_kind: McpRequestKind) {
        if self.requests.len() >= SENT_MAX
            && let Some(oldest) =
                self.requests.iter().min_by_key(|(_, (age, _))| *age).map(|(id, _)| id.clone())
        {
            self.requests.remove(&oldest);
        }
        self.asked_so_far += 1;
        self.requests.insert(id, (self.asked_so_far, request_kind));
    }

    /// Forgets a cancelled request of this side.
    pub(crate) fn forget_sent(&mut self, id: &RequestId) {
        self.requests.remove(id);
    }

    /// Removes and returns the request that an answer belongs to. Some servers turn numeric ids
    /// into strings.
    pub(crate) fn take_answered(&mut self, id: &RequestId) -> Option<(RequestId, McpRequestKind)> {
        if let Some((id, (_, asked))) = self.requests.remove_entry(id) {
            return Some((id, asked));
        }
        let RequestId::String(text) = id else { return None };
        let number = RequestId::Number(text.parse().ok()?);
        self.requests.remove_entry(&number).map(|(id, (_, asked))| (id, asked))
    }

    /// Records a request of the peer, unless there are too many.
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

    /// Forgets a request of the peer that was answered or cancelled.
    pub(crate) fn finish(&mut self, id: &RequestId) {
        self.working_on.remove(id);
    }
}

/// Whether a request of the peer is processed.
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
