//! Reads pages of the audit log for the web console: newest first, with filters.

use std::collections::{HashSet, VecDeque};
use std::io;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use zero_runtime::audit::{AuditLog, AuditRow, ChainLink};
use zero_wire::machine::{AuditListParams, AuditListResult, AuditRowInfo};

use super::audit_rows::begin_status;

/// Rows of a page, if the query does not say.
const ROWS_DEFAULT: usize = 100;
/// Most rows of a page.
const ROWS_MAX: usize = 1_000;

/// How long a search may take. A day whose search takes longer is in no page.
pub(super) const SEARCH_TIME_MAX: Duration = Duration::from_secs(10);

/// The newest rows that match a query. Stops at a day whose search would take longer than `time_max`
/// altogether.
pub(super) fn list(
    audit: &AuditLog,
    query: &AuditListParams,
    time_max: Duration,
) -> io::Result<AuditListResult> {
    let begin = Instant::now();
    let limit = query.limit.map_or(ROWS_DEFAULT, |limit| limit as usize).min(ROWS_MAX);
    let bound = |ms: Option<i64>| ms.and_then(|ms| Timestamp::from_millisecond(ms).ok());
    let (since, until) = (bound(query.since_ms), bound(query.until_ms));
    let first_day = since.map(|since| since.strftime("%Y-%m-%d").to_string());
    let last_day = until.map(|until| until.strftime("%Y-%m-%d").to_string());
    let mut page = AuditListResult::default();
    // Calls that ended on the day after the one that is read, and may have begun on it.
    let mut ended_calls = HashSet::new();
    for name in audit.days()?.into_iter().rev() {
        if first_day.as_ref().is_some_and(|first| name < *first) {
            break;
        }
        if last_day.as_ref().is_some_and(|last| name > *last) {
            continue;
        }
        let room = (limit + 1).saturating_sub(page.rows.len());
        let mut rows = DayRows::new(room);
        let mut day = audit.open_day(&name)?;
        let (mut damaged, mut is_late) = (0, false);
        day.for_each_line(|line| {
            is_late = is_late || begin.elapsed() >= time_max;
            if is_late {
                return;
            }
            let Some(row) = line.parse_row() else {
                damaged += 1;
                return;
            };
            rows.end(&row);
            let is_meant = since.is_none_or(|since| row.time >= since)
                && until.is_none_or(|until| row.time < until)
                && is_match(&row, query);
            if !is_meant {
                return;
            }
            let seq = ChainLink::parse(line.bytes).map(|link| link.pin.seq);
            let is_earlier = query.before.is_none_or(|before| seq.is_some_and(|seq| seq < before));
            if is_earlier {
                rows.push(row, seq);
            }
        })?;
        if is_late {
            page.stopped_at_day = Some(name);
            break;
        }
        page.damaged_lines += damaged;
        let DayRows { rows, ended_calls: ended_now, .. } = rows;
        let rows = rows.into_iter().rev().filter(|(row, _)| {
            !(row.is_begin() && (ended_now.contains(&row.call) || ended_calls.contains(&row.call)))
        });
        page.rows.extend(rows.map(|(row, seq)| to_row_info(audit, row, seq)));
        ended_calls = ended_now;
        if page.rows.len() > limit {
            page.rows.truncate(limit);
            page.next_before = page.rows.last().and_then(|row| row.seq);
            break;
        }
    }
    Ok(page)
}

/// The newest rows of a day.
struct DayRows {
    room: usize,
    rows: VecDeque<(AuditRow, Option<u64>)>,
    /// Calls that ended on the day.
    ended_calls: HashSet<String>,
}

impl DayRows {
    fn new(room: usize) -> Self {
        Self { room, rows: VecDeque::new(), ended_calls: HashSet::new() }
    }

    /// A row with the end of a call takes the place of that with its begin.
    fn end(&mut self, row: &AuditRow) {
        if row.is_begin() || !row.is_call() {
            return;
        }
        self.ended_calls.insert(row.call.clone());
        if let Some(at) = self
            .rows
            .iter()
            .rposition(|(begin_row, _)| begin_row.is_begin() && begin_row.call == row.call)
        {
            self.rows.remove(at);
        }
    }

    fn push(&mut self, row: AuditRow, seq: Option<u64>) {
        self.rows.push_back((row, seq));
        if self.rows.len() > self.room {
            self.rows.pop_front();
        }
    }
}

fn is_match(row: &AuditRow, query: &AuditListParams) -> bool {
    let decision = row.decision.as_ref();
    let is = |wanted: &Option<String>, value: Option<&str>| {
        wanted.as_deref().is_none_or(|call_id| value == Some(call_id))
    };
    let has = |wanted: &Option<String>, values: Vec<&str>| match wanted {
        None => true,
        Some(wanted) => {
            let wanted = wanted.to_lowercase();
            values.iter().any(|value| value.to_lowercase().contains(&wanted))
        }
    };
    let effects = |kinds: &'static [&'static str]| {
        let of_kind = row.effects.iter().filter(|effect| kinds.contains(&effect.kind.as_str()));
        of_kind.map(|effect| effect.target.as_str())
    };
    let rules = || {
        let of_effects = row.effects.iter().filter_map(|effect| effect.rule.as_deref());
        decision.and_then(|decision| decision.rule.as_deref()).into_iter().chain(of_effects)
    };
    let texts = || {
        let command = row.input.get("command").and_then(|command| command.as_str());
        row.title.as_deref().into_iter().chain(command)
    };
    is(&query.tool, Some(&row.tool))
        && is(&query.status, Some(&row.status))
        && is(&query.session, row.session.as_deref())
        && is(&query.verdict, decision.map(|decision| decision.verdict.as_str()))
        && has(&query.rule, rules().collect())
        && has(&query.host, effects(&["net", "endpoint"]).collect())
        && has(&query.path, effects(&["read", "write", "delete"]).collect())
        && has(&query.text, texts().collect())
}

fn to_row_info(audit: &AuditLog, row: AuditRow, seq: Option<u64>) -> AuditRowInfo {
    let status = match row.is_begin() {
        true => begin_status(audit, &row).to_owned(),
        false => row.status,
    };
    let (verdict, rule, source) = match row.decision {
        Some(decision) => (Some(decision.verdict), decision.rule, decision.source),
        None => (None, None, None),
    };
    AuditRowInfo {
        seq,
        time_ms: row.time.as_millisecond(),
        call: row.call,
        session: row.session,
        workspace: row.workspace,
        title: row.title.unwrap_or_else(|| row.tool.clone()),
        tool: row.tool,
        verdict,
        rule,
        source,
        status,
        duration_us: row.duration_us,
    }
}

#[cfg(test)]
mod tests {
    use zero_sandbox::StateDir;

    use super::*;

    fn row(call: &str, time: &str) -> String {
        format!(
            r#"{{"time":"{time}","call":"{call}","workspace":"/w","tool":"LS","dialect":"canonical","input":{{}},"status":"ok","duration_us":7}}"#
        )
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "the rows are written outside zero")]
    fn search_that_takes_too_long_says_where_it_stopped() {
        let folder = tempfile::tempdir().unwrap();
        let state = StateDir::new(folder.path());
        let dir = state.child("audit");
        dir.create().unwrap();
        for (day, call) in [("2026-01-01", "a"), ("2026-01-02", "b")] {
            let path = dir.path().join(format!("{day}.jsonl"));
            std::fs::write(path, row(call, &format!("{day}T03:04:05Z")) + "\n").unwrap();
        }
        let audit = AuditLog::new(&state);
        let list = |time_max| list(&audit, &AuditListParams::default(), time_max).unwrap();
        let whole = list(Duration::MAX);
        let calls: Vec<&str> = whole.rows.iter().map(|row| &*row.call).collect();
        assert_eq!((calls, whole.stopped_at_day), (vec!["b", "a"], None));
        let cut = list(Duration::ZERO);
        assert!(cut.rows.is_empty() && cut.next_before.is_none());
        assert_eq!(cut.stopped_at_day.as_deref(), Some("2026-01-02"));
    }
}
