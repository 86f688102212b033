//! Follows the chain from line to line and derives from its breaks how the log was changed.
//!
//! One change affects more than one row: the row after a removed one has no predecessor, the row
//! after an edited one names an unknown hash. Each change is reported once, at its own position. So
//! a break is classified only when the next row is known.

use super::{
    FINDINGS_MAX, IntegrityFault, IntegrityFinding, LogHeadState, LogStart, PrunedRow,
    VerificationReport, VerifyOptions,
};
use crate::audit::chain_link::{ChainLink, ChainPosition};
use crate::audit::log_head::HEAD;

/// Most rows with the same number that are told apart by the row that follows.
const RIVALS_MAX: usize = 16;

/// The position of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct LogLinePosition {
    /// Index of the file.
    pub(super) day: usize,
    /// Line number, from 1.
    pub(super) line: u64,
}

/// A row that was read.
#[derive(Clone, Debug)]
struct LinkedRow {
    place: LogLinePosition,
    link: ChainLink,
}

impl LinkedRow {
    /// Whether a row that names `prev` follows this one. An edited row has two hashes, the recorded
    /// and the actual one; either may be the original.
    fn is_followed_by(&self, prev: &str) -> bool {
        self.link.pin.hash == prev || self.link.computed == prev
    }
}

/// The rows with the highest number so far, in file order. Usually one.
#[derive(Clone, Debug)]
struct ChainTip {
    seq: u64,
    rows: Vec<LinkedRow>,
}

/// Missing numbers, whose rows may still follow.
#[derive(Debug)]
struct SequenceGap {
    first: u64,
    last: u64,
    place: LogLinePosition,
}

/// A row that must be in the log.
#[derive(Debug)]
struct ExpectedRow {
    pin: ChainPosition,
    is_there: bool,
    other: Option<LogLinePosition>,
}

/// The chain so far.
#[derive(Debug)]
pub(super) struct ChainVerifier {
    files: Vec<String>,
    begin: LogStart,
    tip: Option<ChainTip>,
    /// The tip before a row that skipped numbers, until a row follows that one.
    before_jump: Option<ChainTip>,
    /// A row that skipped numbers which then followed: it is misplaced or inserted.
    early: Option<LinkedRow>,
    gaps: Vec<SequenceGap>,
    watched: Vec<ExpectedRow>,
    findings: Vec<(LogLinePosition, IntegrityFault)>,
    verified: VerificationReport,
}

impl ChainVerifier {
    pub(super) fn new(files: Vec<String>, check: &VerifyOptions) -> Self {
        let mut chain = Self {
            begin: check.begin,
            tip: None,
            before_jump: None,
            early: None,
            gaps: Vec::new(),
            watched: Vec::new(),
            findings: Vec::new(),
            verified: VerificationReport { days: files.len(), ..VerificationReport::default() },
            files,
        };
        if let Some(pin) = &check.expect {
            chain.expect_row(pin);
        }
        chain
    }

    /// Names the row that the first one continues, if they follow each other.
    pub(super) fn expect_start(&mut self, last_pruned: PrunedRow) {
        self.verified.pruned = Some(last_pruned);
    }

    /// Records whether this row occurs.
    pub(super) fn expect_row(&mut self, pin: &ChainPosition) {
        self.watched.push(ExpectedRow { pin: pin.clone(), is_there: false, other: None });
    }

    /// Records a fault.
    pub(super) fn report_fault(&mut self, place: LogLinePosition, fault: IntegrityFault) {
        if let Some((begin, last)) = self.findings.last_mut()
            && let Some((joined, lines)) = merge_faults(last, &fault)
            && (begin.day, begin.line + lines) == (place.day, place.line)
        {
            *last = joined;
        } else if self.findings.len() < FINDINGS_MAX {
            self.findings.push((place, fault));
        } else {
            self.verified.findings_left_out += 1;
        }
    }

    /// Records a truncated line.
    pub(super) fn record_torn_line(&mut self, place: LogLinePosition) {
        if self.verified.torn.len() < FINDINGS_MAX {
            self.verified.torn.push((self.file_name(place), place.line));
        } else {
            self.verified.torn_left_out += 1;
        }
    }

    /// Adds a row without a chain link.
    pub(super) fn add_unlinked_row(&mut self, place: LogLinePosition) {
        if self.tip.is_some() {
            self.report_fault(place, IntegrityFault::Untied);
        } else {
            self.verified.untied += 1;
        }
    }

    /// Adds a row with a chain link.
    pub(super) fn add_linked_row(&mut self, place: LogLinePosition, link: ChainLink) {
        self.verified.rows += 1;
        for watched in self.watched.iter_mut().filter(|watched| watched.pin.seq == link.pin.seq) {
            if watched.pin == link.pin && link.is_valid() {
                watched.is_there = true;
            } else {
                watched.other = Some(place);
            }
        }
        let row = LinkedRow { place, link };
        let Some(tip) = self.tip.take() else {
            self.start_chain(row);
            return;
        };
        let seq = row.link.pin.seq;
        match self.early.take() {
            // The misplaced row belongs between these two.
            Some(early)
                if early.link.pin.seq == tip.seq + 1
                    && seq == tip.seq + 2
                    && early.is_followed_by(&row.link.prev) =>
            {
                self.close_tip(&tip, Some(&early.link.prev));
                self.report_misplaced(&early);
                self.tip = Some(ChainTip { seq, rows: vec![row] });
                return;
            }
            Some(early) if seq < early.link.pin.seq => self.early = Some(early),
            Some(early) => {
                self.report_fault(early.place, IntegrityFault::Inserted(early.link.pin.seq))
            }
            None => {}
        }
        if seq == tip.seq + 1 {
            self.advance_tip(&tip, row);
        } else if seq > tip.seq {
            self.close_tip(&tip, None);
            self.add_gap(tip.seq + 1, seq - 1, row.place);
            self.before_jump = Some(tip);
            self.tip = Some(ChainTip { seq, rows: vec![row] });
        } else if seq == tip.seq {
            self.add_rival(tip, row);
        } else {
            self.handle_earlier_row(tip, row);
        }
    }

    /// Starts with the first row.
    fn start_chain(&mut self, row: LinkedRow) {
        let ChainLink { pin: ChainPosition { seq, .. }, prev, .. } = &row.link;
        let seq = *seq;
        self.verified.first = Some(seq);
        if seq == 1 && *prev != ChainPosition::origin().hash {
            self.report_fault(row.place, IntegrityFault::Replaced(1));
        }
        // Otherwise more was removed by other means, or nothing after all.
        self.verified.pruned =
            self.verified.pruned.take().filter(|pruned| pruned.position.seq + 1 == seq);
        if let Some(pruned) = &self.verified.pruned
            && pruned.position.hash != *prev
        {
            self.report_fault(row.place, IntegrityFault::Replaced(seq));
        }
        // Old days are removed first: if unchained rows are still there, no chained row was removed
        // on purpose.
        if seq > 1 && (self.begin == LogStart::FirstRow || self.verified.untied > 0) {
            self.add_gap(1, seq - 1, row.place);
        }
        self.tip = Some(ChainTip { seq, rows: vec![row] });
    }

    /// Adds the expected next row.
    fn advance_tip(&mut self, tip: &ChainTip, row: LinkedRow) {
        let is_tied = self.close_tip(tip, Some(&row.link.prev));
        if !is_tied {
            self.report_fault(row.place, IntegrityFault::Replaced(row.link.pin.seq));
        }
        self.before_jump = None;
        self.tip = Some(ChainTip { seq: row.link.pin.seq, rows: vec![row] });
    }

    /// Adds another row with the same number.
    fn add_rival(&mut self, mut tip: ChainTip, row: LinkedRow) {
        let is_same = tip.rows.iter().any(|other| other.link == row.link);
        if is_same {
            self.report_fault(row.place, IntegrityFault::Repeated(tip.seq, tip.seq));
        } else if tip.rows.len() < RIVALS_MAX {
            tip.rows.push(row);
        } else {
            self.report_fault(row.place, IntegrityFault::Inserted(tip.seq));
        }
        self.tip = Some(tip);
    }

    /// Handles a row with a lower number than the tip's.
    fn handle_earlier_row(&mut self, tip: ChainTip, row: LinkedRow) {
        let seq = row.link.pin.seq;
        let before = self.before_jump.take();
        let goes_on = before.as_ref().is_some_and(|before| {
            before.seq + 1 == seq
                && before.rows.iter().any(|other| other.is_followed_by(&row.link.prev))
        });
        if goes_on && let [early] = &tip.rows[..] {
            // No row was missing: the row that seemed to skip numbers is the wrong one.
            self.fill_gap(seq, tip.seq - 1);
            if let Some(other) = self.early.replace(early.clone()) {
                self.report_fault(other.place, IntegrityFault::Inserted(other.link.pin.seq));
            }
            self.tip = Some(ChainTip { seq, rows: vec![row] });
            return;
        }
        if self.fill_gap(seq, seq) {
            self.report_misplaced(&row);
        } else if row.link.is_valid() {
            self.report_fault(row.place, IntegrityFault::Repeated(seq, seq));
        } else {
            self.report_fault(row.place, IntegrityFault::Inserted(seq));
        }
        self.tip = Some(tip);
    }

    /// Reports a row of the chain that is at the wrong position.
    fn report_misplaced(&mut self, row: &LinkedRow) {
        let seq = row.link.pin.seq;
        self.report_fault(row.place, IntegrityFault::Moved(seq, seq));
        if !row.link.is_valid() {
            self.report_fault(row.place, IntegrityFault::Edited(seq));
        }
    }

    /// Classifies the rows with one number, given the hash that the next row names. Returns whether
    /// the next row is linked to one of them; if not and one of them was edited, the edit explains
    /// it.
    fn close_tip(&mut self, tip: &ChainTip, prev: Option<&str>) -> bool {
        let follows = |row: &LinkedRow| prev.is_some_and(|prev| row.is_followed_by(prev));
        let chosen = tip.rows.iter().position(follows);
        let kept = chosen.unwrap_or(0);
        let mut explained = chosen.is_some();
        for (index, row) in tip.rows.iter().enumerate() {
            if index != kept {
                self.report_fault(row.place, IntegrityFault::Inserted(tip.seq));
            } else if !row.link.is_valid() {
                explained = true;
                self.report_fault(row.place, IntegrityFault::Edited(tip.seq));
            }
        }
        explained
    }

    fn add_gap(&mut self, first: u64, last: u64, place: LogLinePosition) {
        if self.gaps.len() < FINDINGS_MAX {
            self.gaps.push(SequenceGap { first, last, place });
        } else {
            self.report_fault(place, IntegrityFault::Removed(first, last));
        }
    }

    /// Removes numbers from the gaps; returns whether they were missing.
    fn fill_gap(&mut self, first: u64, last: u64) -> bool {
        let Some(at) = self.gaps.iter().position(|gap| gap.first <= first && last <= gap.last)
        else {
            return false;
        };
        let gap = self.gaps.swap_remove(at);
        if gap.first < first {
            self.gaps.push(SequenceGap { first: gap.first, last: first - 1, place: gap.place });
        }
        if last < gap.last {
            self.gaps.push(SequenceGap { first: last + 1, last: gap.last, place: gap.place });
        }
        true
    }

    /// Classifies what is left, and compares the end with the head and the expected row.
    pub(super) fn finish(
        mut self,
        check: &VerifyOptions,
        head: Option<&LogHeadState>,
    ) -> VerificationReport {
        let mut tip = self.tip.take();
        if let (Some(before), Some(early)) = (&tip, self.early.take()) {
            if early.link.pin.seq == before.seq + 1 {
                // The last two rows were swapped.
                self.close_tip(before, Some(&early.link.prev));
                self.report_fault(
                    early.place,
                    IntegrityFault::Moved(early.link.pin.seq, early.link.pin.seq),
                );
                tip = Some(ChainTip { seq: early.link.pin.seq, rows: vec![early] });
            } else {
                self.report_fault(early.place, IntegrityFault::Inserted(early.link.pin.seq));
            }
        }
        if let Some(tip) = &tip {
            let known = match head {
                Some(LogHeadState::Known(head)) if head.pin.seq == tip.seq => Some(&*head.pin.hash),
                _ => None,
            };
            self.close_tip(tip, known);
            let last = known.and_then(|hash| tip.rows.iter().find(|row| row.is_followed_by(hash)));
            self.verified.head = last.or(tip.rows.first()).map(|row| row.link.pin.clone());
        }
        for gap in std::mem::take(&mut self.gaps) {
            self.report_fault(gap.place, IntegrityFault::Removed(gap.first, gap.last));
        }
        self.findings.sort_by_key(|(place, _)| *place);
        let mut verified = std::mem::take(&mut self.verified);
        verified.findings = self
            .findings
            .iter()
            .map(|(place, fault)| IntegrityFinding {
                file: self.file_name(*place),
                line: Some(place.line),
                fault: fault.clone(),
            })
            .collect();
        verified.findings.extend(head.and_then(|head| self.check_head(head, tip.as_ref())));
        verified.findings.extend(self.check_expected(check));
        verified
    }

    /// Compares the end of the log with the head.
    fn check_head(&self, head: &LogHeadState, tip: Option<&ChainTip>) -> Option<IntegrityFinding> {
        let last = tip.map_or(0, |tip| tip.seq);
        let at_head = |fault| IntegrityFinding { file: HEAD.to_owned(), line: None, fault };
        let head = match head {
            // A writer may be interrupted between its row and the head, so the head may lack one
            // row.
            LogHeadState::Empty => return (last > 1).then(|| at_head(IntegrityFault::HeadMissing)),
            LogHeadState::Missing => {
                return (last > 0).then(|| at_head(IntegrityFault::HeadMissing));
            }
            LogHeadState::Known(head) => head,
        };
        let seq = head.pin.seq;
        let watched = self.watched.iter().find(|watched| watched.pin == head.pin)?;
        match seq {
            _ if seq > last => Some(IntegrityFinding {
                file: self.files.last().cloned().unwrap_or_else(|| HEAD.to_owned()),
                line: None,
                fault: IntegrityFault::CutOff(last + 1, seq),
            }),
            _ if seq + 1 < last => Some(at_head(IntegrityFault::HeadBehind(seq, last))),
            // An edited row that kept its hash is reported as edited.
            _ if watched.is_there || self.is_reported(seq) => None,
            _ => Some(at_head(IntegrityFault::HeadDiffers(seq))),
        }
    }

    fn is_reported(&self, seq: u64) -> bool {
        self.findings.iter().any(|(_, fault)| *fault == IntegrityFault::Edited(seq))
    }

    /// Checks that the expected row exists.
    fn check_expected(&self, check: &VerifyOptions) -> Option<IntegrityFinding> {
        let pin = check.expect.as_ref()?;
        let watched = self.watched.iter().find(|watched| watched.pin == *pin)?;
        match (watched.is_there, watched.other) {
            (true, _) => None,
            (false, Some(place)) => Some(IntegrityFinding {
                file: self.file_name(place),
                line: Some(place.line),
                fault: IntegrityFault::NotExpected(pin.seq),
            }),
            (false, None) => Some(IntegrityFinding {
                file: self.files.last().cloned().unwrap_or_else(|| HEAD.to_owned()),
                line: None,
                fault: IntegrityFault::ExpectedMissing(pin.seq),
            }),
        }
    }

    fn file_name(&self, place: LogLinePosition) -> String {
        self.files.get(place.day).cloned().unwrap_or_default()
    }
}

/// Merges two faults of the same kind on consecutive rows; returns the number of lines of the
/// first.
fn merge_faults(one: &IntegrityFault, next: &IntegrityFault) -> Option<(IntegrityFault, u64)> {
    match (one, next) {
        (IntegrityFault::Moved(first, last), IntegrityFault::Moved(next, _))
            if last + 1 == *next =>
        {
            Some((IntegrityFault::Moved(*first, *next), next - first))
        }
        (IntegrityFault::Repeated(first, last), IntegrityFault::Repeated(next, _))
            if last + 1 == *next =>
        {
            Some((IntegrityFault::Repeated(*first, *next), next - first))
        }
        _ => None,
    }
}
