//! The audit log as a chain: tampering is detected, and zero's own writes never break it.

use std::fs;
use std::io::{BufRead, BufReader, Write as _};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use jiff::Timestamp;
use proptest::prelude::*;
use zero_runtime::audit::verification::{LogStart, VerificationReport, VerifyOptions};
use zero_runtime::audit::{AuditLog, AuditRow, ChainLink, ChainPosition};
use zero_runtime::tool_host::new_call_id;
use zero_sandbox::expiry::{ExpiryMode, ExpiryRules};
use zero_sandbox::locked_line::LockedLine;
use zero_sandbox::{StateDir, Workspace};

/// A log of three days with three rows each, 1 to 9.
struct LogFixture {
    folder: tempfile::TempDir,
    audit: AuditLog,
}

const DAYS: [&str; 3] = ["2026-01-01", "2026-01-02", "2026-01-03"];

impl LogFixture {
    fn empty() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let audit = AuditLog::new(&StateDir::new(folder.path()));
        Self { folder, audit }
    }

    fn new() -> Self {
        let log = Self::empty();
        for day in DAYS {
            for _ in 0..3 {
                log.add(day);
            }
        }
        log
    }

    fn add(&self, day: &str) {
        self.audit.write(&self.row(day)).unwrap();
    }

    fn row(&self, day: &str) -> AuditRow {
        row(self.folder.path(), day)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join("audit").join(name)
    }

    fn day_path(&self, day: usize) -> PathBuf {
        self.path(&format!("{}.jsonl", DAYS[day]))
    }

    /// Changes the lines of a day.
    fn edit_lines(&self, day: usize, change: impl FnOnce(&mut Vec<String>)) {
        let text = fs::read_to_string(self.day_path(day)).unwrap();
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        change(&mut lines);
        fs::write(
            self.day_path(day),
            lines.iter().map(|line| format!("{line}\n")).collect::<String>(),
        )
        .unwrap();
    }

    fn verify(&self, check: &VerifyOptions) -> VerificationReport {
        self.audit.verify(check, |_| {}).unwrap()
    }
}

fn row(folder: &Path, day: &str) -> AuditRow {
    let workspace = Workspace::open(&[folder.to_owned()], None).unwrap();
    let time: Timestamp = format!("{day}T12:00:00Z").parse().unwrap();
    AuditRow::new(time, &new_call_id(), &workspace, "Read")
}

fn expire(log: &LogFixture, days: u64, mode: ExpiryMode) -> (u64, u64) {
    let age_max = Some(std::time::Duration::from_secs(days * 24 * 60 * 60));
    let rules = ExpiryRules { age_max, bytes_max: None };
    let now: Timestamp = "2026-01-08T00:00:00Z".parse().unwrap();
    let report = log.audit.expire(&rules, now, mode).unwrap();
    (report.removed.count, report.remaining.count)
}

#[test]
fn pruned_days_leave_verifiable_chain() {
    let log = LogFixture::new();
    // The days ended six, five and four days before.
    assert_eq!(expire(&log, 6, ExpiryMode::Remove), (0, 3));
    assert_eq!(expire(&log, 5, ExpiryMode::DryRun), (1, 2));
    assert_eq!(expire(&log, 5, ExpiryMode::Remove), (1, 2));
    assert!(!log.day_path(0).exists() && log.day_path(1).exists());
    let check = |first: u64, day: &str| {
        let verified = log.verify(&VerifyOptions::default());
        assert_eq!((format_findings(&verified).as_str(), verified.first), ("", Some(first)));
        let pruned = verified.pruned.unwrap();
        assert_eq!((pruned.position.seq, pruned.day.to_string().as_str()), (first - 1, day));
    };
    check(4, DAYS[0]);
    let from_start = VerifyOptions { begin: LogStart::FirstRow, ..VerifyOptions::default() };
    assert_eq!(format_findings(&log.verify(&from_start)), "2026-01-02:1 removed 1-3");
    // The newest day stays, and the chain goes on from it.
    assert_eq!(expire(&log, 1, ExpiryMode::Remove), (1, 1));
    log.add(DAYS[2]);
    check(7, DAYS[1]);
    // Whoever removes more, or replaces the first row, is found out.
    log.edit_lines(2, |lines| drop(lines.remove(0)));
    let verified = log.verify(&VerifyOptions::default());
    assert_eq!((verified.first, verified.pruned), (Some(8), None));
    let log = LogFixture::new();
    expire(&log, 5, ExpiryMode::Remove);
    let other = LogFixture::new();
    fs::copy(other.day_path(1), log.day_path(1)).unwrap();
    fs::copy(other.day_path(2), log.day_path(2)).unwrap();
    fs::copy(other.path("head"), log.path("head")).unwrap();
    assert_eq!(format_findings(&log.verify(&VerifyOptions::default())), "2026-01-02:1 replaced 4");
}

#[test]
fn largest_log_loses_oldest_days_only() {
    let log = LogFixture::new();
    let rules = ExpiryRules { age_max: None, bytes_max: Some(1) };
    let now: Timestamp = "2026-01-08T00:00:00Z".parse().unwrap();
    let report = log.audit.expire(&rules, now, ExpiryMode::Remove).unwrap();
    assert_eq!((report.removed.count, report.remaining.count), (2, 1), "the newest day stays");
    assert!(log.verify(&VerifyOptions::default()).is_intact());
    // Without a log there is nothing to do, and nothing is created.
    let empty = LogFixture::empty();
    assert_eq!(expire(&empty, 1, ExpiryMode::Remove), (0, 0));
    assert!(!empty.path("head").exists());
}

/// The findings, one per line: location, kind and rows.
fn format_findings(verified: &VerificationReport) -> String {
    let line = |line: Option<u64>| line.map_or_else(String::new, |line| format!(":{line}"));
    let rows = |rows: Option<(u64, u64)>| match rows {
        Some((first, last)) if first == last => format!(" {first}"),
        Some((first, last)) => format!(" {first}-{last}"),
        None => String::new(),
    };
    let findings = verified.findings.iter().map(|finding| {
        let file = finding.file.trim_end_matches(".jsonl");
        format!(
            "{file}{} {}{}",
            line(finding.line),
            finding.fault.as_str(),
            rows(finding.fault.row_range())
        )
    });
    findings.collect::<Vec<_>>().join("; ")
}

#[track_caller]
fn check(tamper: impl FnOnce(&LogFixture), expected: &str) {
    let log = LogFixture::new();
    tamper(&log);
    assert_eq!(format_findings(&log.verify(&VerifyOptions::default())), expected);
    // The tampering is still detected after more rows were added.
    log.add(DAYS[2]);
    log.add(DAYS[2]);
    assert_eq!(log.verify(&VerifyOptions::default()).is_intact(), expected.is_empty());
}

/// A row with a valid hash of its own.
fn forge_row(line: &str, seq: u64, prev: &str) -> String {
    let body = line.split(",\"seq\":").next().unwrap().replace("Read", "Forged");
    let body = format!("{body},\"seq\":{seq},\"prev\":\"{prev}\"");
    let hash = zero_sandbox::journal::sha256(body.as_bytes());
    format!("{body},\"hash\":\"{hash}\"}}")
}

fn parse_link(line: &str) -> ChainLink {
    ChainLink::parse(line.as_bytes()).unwrap()
}

#[test]
fn untouched_log_is_intact_and_private() {
    let log = LogFixture::new();
    let verified =
        log.verify(&VerifyOptions { begin: LogStart::FirstRow, ..VerifyOptions::default() });
    assert_eq!(format_findings(&verified), "");
    assert_eq!((verified.rows, verified.days, verified.first), (9, 3, Some(1)));
    assert_eq!(verified.head.as_ref().unwrap().seq, 9);
    for name in ["head", "2026-01-01.jsonl"] {
        let mode = fs::metadata(log.path(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
    assert_eq!(format_findings(&LogFixture::empty().verify(&VerifyOptions::default())), "");
}

#[test]
fn every_tampering_is_located() {
    check(|_| {}, "");
    // Edited.
    check(
        |log| log.edit_lines(1, |l| l[1] = l[1].replace("Read", "Reed")),
        "2026-01-02:2 edited 5",
    );
    check(
        |log| log.edit_lines(2, |l| l[2] = l[2].replace("Read", "Reed")),
        "2026-01-03:3 edited 9",
    );
    let flip_hash = |line: &mut String| {
        let at = line.len() - 3;
        let flipped = if line.as_bytes()[at] == b'0' { "1" } else { "0" };
        line.replace_range(at..=at, flipped);
    };
    check(|log| log.edit_lines(1, |l| flip_hash(&mut l[1])), "2026-01-02:2 edited 5");
    // Edited, with a matching hash.
    check(
        |log| log.edit_lines(1, |l| l[1] = forge_row(&l[1], 5, &parse_link(&l[1]).prev)),
        "2026-01-02:3 replaced 6",
    );
    check(
        |log| log.edit_lines(2, |l| l[2] = forge_row(&l[2], 9, &parse_link(&l[2]).prev)),
        "head head_differs 9",
    );
    // Removed.
    check(|log| log.edit_lines(1, |l| drop(l.remove(1))), "2026-01-02:2 removed 5");
    check(|log| log.edit_lines(1, |l| drop(l.drain(..2))), "2026-01-02:1 removed 4-5");
    check(|log| fs::remove_file(log.day_path(1)).unwrap(), "2026-01-03:1 removed 4-6");
    // Moved.
    check(|log| log.edit_lines(1, |l| l.swap(1, 2)), "2026-01-02:2 moved 6");
    check(|log| log.edit_lines(2, |l| l.swap(1, 2)), "2026-01-03:2 moved 9");
    check(|log| log.edit_lines(1, |l| l.rotate_left(1)), "2026-01-02:3 moved 4");
    check(
        |log| {
            fs::rename(log.day_path(1), log.path("x")).unwrap();
            fs::rename(log.day_path(2), log.day_path(1)).unwrap();
            fs::rename(log.path("x"), log.day_path(2)).unwrap();
        },
        "2026-01-02:1 other_day 7; 2026-01-03:1 other_day 4; 2026-01-03:1 moved 4-6",
    );
    // Renamed.
    let rename = |from: usize, to: &'static str| {
        move |log: &LogFixture| fs::rename(log.day_path(from), log.path(to)).unwrap()
    };
    check(rename(2, "2027-01-01.jsonl"), "2027-01-01:1 other_day 7");
    check(rename(0, "2025-01-01.jsonl"), "2025-01-01:1 other_day 1");
    // Repeated.
    check(|log| log.edit_lines(1, |l| l.insert(1, l[0].clone())), "2026-01-02:2 repeated 4");
    check(|log| log.edit_lines(1, |l| l.extend_from_within(..2)), "2026-01-02:4 repeated 4-5");
    // Inserted.
    check(
        |log| log.edit_lines(1, |l| l.insert(1, forge_row(&l[0], 5, &parse_link(&l[0]).pin.hash))),
        "2026-01-02:2 inserted 5",
    );
    check(
        |log| log.edit_lines(1, |l| l.insert(2, forge_row(&l[0], 5, &parse_link(&l[0]).pin.hash))),
        "2026-01-02:3 inserted 5",
    );
    check(
        |log| {
            log.edit_lines(1, |l| l.insert(1, forge_row(&l[0], 999, &parse_link(&l[0]).pin.hash)))
        },
        "2026-01-02:2 inserted 999",
    );
    for line in ["not a row", r#"{"time":"x"}"#, r#"{"time":"x",}"#, r#"{"time":"x"} {"#, "{}"] {
        check(|log| log.edit_lines(1, |l| l.insert(1, line.to_owned())), "2026-01-02:2 foreign");
    }
    let untied = |line: &str| format!("{}}}", line.split(",\"seq\":").next().unwrap());
    check(|log| log.edit_lines(1, |l| l.insert(1, untied(&l[0]))), "2026-01-02:2 untied");
    // The link removed from a row: the row exists, and its number is missing.
    check(
        |log| log.edit_lines(1, |l| l[1] = untied(&l[1])),
        "2026-01-02:2 untied; 2026-01-02:3 removed 5",
    );
    // Truncated at the end.
    check(|log| log.edit_lines(2, |l| l.truncate(1)), "2026-01-03 cut_off 8-9");
    check(|log| fs::remove_file(log.day_path(2)).unwrap(), "2026-01-02 cut_off 7-9");
    check(|log| log.edit_lines(2, |l| l[2].truncate(60)), "2026-01-03 cut_off 9");
    // Two changes at once.
    check(
        |log| {
            log.edit_lines(0, |l| l[1] = l[1].replace("Read", "Reed"));
            log.edit_lines(2, |l| drop(l.remove(0)));
        },
        "2026-01-01:2 edited 2; 2026-01-03:1 removed 7",
    );
}

#[test]
fn long_log_is_verified_from_its_newest_days() {
    let log = LogFixture::new();
    let size = |day: usize| fs::metadata(log.day_path(day)).unwrap().len();
    let check = |bytes_max: u64, first: u64, day: Option<&str>| {
        let options = VerifyOptions { bytes_max: Some(bytes_max), ..VerifyOptions::default() };
        let verified = log.verify(&options);
        let unread_before = verified.unread_before.map(|day| day.to_string());
        assert_eq!(format_findings(&verified), "");
        assert_eq!((verified.first, unread_before.as_deref()), (Some(first), day), "{bytes_max}");
    };
    check(u64::MAX, 1, None);
    check(size(0) + size(1) + size(2), 1, None);
    check(size(0) + size(1) + size(2) - 1, 4, Some(DAYS[1]));
    check(size(1) + size(2) - 1, 7, Some(DAYS[2]));
    check(0, 7, Some(DAYS[2]));
    // What is left out is not judged, and what is read is.
    log.edit_lines(0, |lines| drop(lines.remove(1)));
    check(0, 7, Some(DAYS[2]));
    log.edit_lines(2, |lines| drop(lines.remove(1)));
    let options = VerifyOptions { bytes_max: Some(0), ..VerifyOptions::default() };
    assert_eq!(format_findings(&log.verify(&options)), "2026-01-03:2 removed 8");
}

/// One change to a day's file, at positions given as shares of its length.
#[derive(Clone, Debug)]
enum Tampering {
    Byte(f64, u8),
    Remove(f64),
    Repeat(f64, f64),
    Swap(f64, f64),
    Cut(f64),
    Forge(f64, u64),
}

fn any_tampering() -> impl Strategy<Value = Tampering> {
    let share = || 0.0..1.0f64;
    prop_oneof![
        (share(), any::<u8>()).prop_map(|(at, byte)| Tampering::Byte(at, byte)),
        share().prop_map(Tampering::Remove),
        (share(), share()).prop_map(|(from, to)| Tampering::Repeat(from, to)),
        (share(), share()).prop_map(|(one, other)| Tampering::Swap(one, other)),
        share().prop_map(Tampering::Cut),
        (share(), 1..12u64).prop_map(|(at, seq)| Tampering::Forge(at, seq)),
    ]
}

fn apply_tampering(text: &[u8], deed: &Tampering) -> Vec<u8> {
    let at = |share: f64, length: usize| (share * length as f64) as usize;
    let mut bytes = text.to_vec();
    let mut lines: Vec<&[u8]> = text.split_inclusive(|byte| *byte == b'\n').collect();
    let forgery;
    let count = lines.len();
    if count == 0 {
        return bytes;
    }
    match *deed {
        Tampering::Byte(share, byte) => {
            let at = at(share, bytes.len());
            bytes[at] = byte;
            return bytes;
        }
        Tampering::Cut(share) => {
            bytes.truncate(at(share, bytes.len()));
            return bytes;
        }
        Tampering::Remove(share) => drop(lines.remove(at(share, count))),
        Tampering::Repeat(from, to) => lines.insert(at(to, count), lines[at(from, count)]),
        Tampering::Swap(one, other) => lines.swap(at(one, count), at(other, count)),
        Tampering::Forge(share, seq) => {
            let line = String::from_utf8_lossy(lines[at(share, count)]).into_owned();
            let Some(prev) = ChainLink::parse(line.as_bytes()).map(|link| link.pin.hash) else {
                return bytes;
            };
            forgery = format!("{}\n", forge_row(&line, seq, &prev)).into_bytes();
            lines.insert(at(share, count), &forgery);
        }
    }
    lines.concat()
}

#[test]
fn random_tampering_is_detected() {
    let log = LogFixture::new();
    let days: Vec<Vec<u8>> = (0..3).map(|day| fs::read(log.day_path(day)).unwrap()).collect();
    let strategy = proptest::collection::vec((0..3usize, any_tampering()), 1..4);
    let from_start = VerifyOptions { begin: LogStart::FirstRow, ..VerifyOptions::default() };
    let mut runner = proptest::test_runner::TestRunner::default();
    runner
        .run(&strategy, |deeds| {
            let mut changed = days.clone();
            for (day, deed) in &deeds {
                changed[*day] = apply_tampering(&changed[*day], deed);
            }
            for (day, text) in changed.iter().enumerate() {
                fs::write(log.day_path(day), text).unwrap();
            }
            let verified = log.verify(&from_start);
            // The rows, without fragments that were reported as such.
            let rows = |days: &[Vec<u8>], torn: &[(String, u64)]| -> Vec<Vec<u8>> {
                let lines = days.iter().zip(DAYS).flat_map(|(text, day)| {
                    let text = text.strip_suffix(b"\n").unwrap_or(text);
                    text.split(|byte| *byte == b'\n').zip(1..).map(move |line| (day, line))
                });
                let is_row = |day: &str, line| !torn.contains(&(format!("{day}.jsonl"), line));
                let rows = lines.filter(|(day, (_, line))| is_row(day, *line));
                rows.map(|(_, (bytes, _))| bytes.to_vec()).collect()
            };
            // Unchained rows before the chain are reported by number.
            let older = usize::try_from(verified.untied).unwrap();
            let tied: Vec<_> = rows(&changed, &verified.torn).into_iter().skip(older).collect();
            prop_assert_eq!(verified.is_intact(), tied == rows(&days, &[]));
            Ok(())
        })
        .unwrap();
}

#[test]
fn tampered_head_is_detected() {
    let log = LogFixture::new();
    let head = fs::read_to_string(log.path("head")).unwrap();
    let hash = log.verify(&VerifyOptions::default()).head.unwrap().hash;
    let edit = |from: &str, to: &str| {
        assert!(head.contains(from), "{from} is not in {head}");
        fs::write(log.path("head"), head.replacen(from, to, 1)).unwrap();
        format_findings(&log.verify(&VerifyOptions::default()))
    };
    assert_eq!(edit("009 ", "009 "), "");
    assert_eq!(edit("009 ", "005 "), "head head_behind 5");
    assert_eq!(edit("009 ", "008 "), "head head_differs 8");
    assert_eq!(edit("009 ", "012 "), "2026-01-03 cut_off 10-12");
    assert_eq!(edit("009 ", "nine"), "head head_missing");
    assert_eq!(edit(&hash, &"0".repeat(64)), "head head_differs 9");
    fs::write(log.path("head"), "").unwrap();
    assert_eq!(format_findings(&log.verify(&VerifyOptions::default())), "head head_missing");
    fs::remove_file(log.path("head")).unwrap();
    assert_eq!(format_findings(&log.verify(&VerifyOptions::default())), "head head_missing");
    // The next row creates a new head, and the chain continues.
    log.add(DAYS[2]);
    let verified = log.verify(&VerifyOptions::default());
    assert_eq!((format_findings(&verified), verified.head.unwrap().seq), (String::new(), 10));
}

#[test]
fn expected_position_detects_rewritten_log() {
    let log = LogFixture::new();
    let pin = log.verify(&VerifyOptions::default()).head.unwrap();
    let expect = |pin: &ChainPosition| VerifyOptions {
        expect: Some(pin.clone()),
        ..VerifyOptions::default()
    };
    log.add(DAYS[2]);
    assert_eq!(format_findings(&log.verify(&expect(&pin))), "");
    let other = ChainPosition { seq: 4, ..pin.clone() };
    assert_eq!(format_findings(&log.verify(&expect(&other))), "2026-01-02:1 not_expected 4");
    let later = ChainPosition { seq: 40, ..pin.clone() };
    assert_eq!(format_findings(&log.verify(&expect(&later))), "2026-01-03 expected_missing 40");
    // The whole log rewritten: consistent in itself.
    let rewritten = LogFixture::new();
    assert_eq!(format_findings(&rewritten.verify(&VerifyOptions::default())), "");
    assert_eq!(format_findings(&rewritten.verify(&expect(&pin))), "2026-01-03:3 not_expected 9");
}

#[test]
fn old_days_may_be_removed_and_unlinked_rows_kept() {
    let log = LogFixture::new();
    fs::remove_file(log.day_path(0)).unwrap();
    let verified = log.verify(&VerifyOptions::default());
    assert_eq!((format_findings(&verified), verified.first), (String::new(), Some(4)));
    let from_start = VerifyOptions { begin: LogStart::FirstRow, ..VerifyOptions::default() };
    assert_eq!(format_findings(&log.verify(&from_start)), "2026-01-02:1 removed 1-3");
    let since = VerifyOptions { since: Some(DAYS[2].parse().unwrap()), ..VerifyOptions::default() };
    let verified = log.verify(&since);
    assert_eq!((format_findings(&verified), verified.rows, verified.days), (String::new(), 3, 1));

    // Unchained rows, in a separate file and at the beginning of the next one.
    let log = LogFixture::empty();
    let old = serde_json::to_string(&log.row(DAYS[0])).unwrap();
    fs::create_dir(log.path("")).unwrap();
    fs::write(log.day_path(0), format!("{old}\n{old}\n")).unwrap();
    fs::write(log.day_path(1), format!("{old}\n")).unwrap();
    log.add(DAYS[1]);
    log.add(DAYS[2]);
    let verified = log.verify(&from_start);
    assert_eq!((format_findings(&verified), verified.untied, verified.rows), (String::new(), 3, 2));
    assert_eq!(verified.first, Some(1));
    log.edit_lines(1, |lines| drop(lines.remove(1)));
    assert_eq!(format_findings(&log.verify(&VerifyOptions::default())), "2026-01-03:1 removed 1");
}

#[test]
fn late_row_is_appended_at_log_end() {
    let log = LogFixture::new();
    log.add(DAYS[0]);
    log.audit.ensure_writable(log.row(DAYS[1]).time).unwrap();
    log.add(DAYS[1]);
    assert_eq!(format_findings(&log.verify(&VerifyOptions::default())), "");
    assert_eq!(fs::read_to_string(log.day_path(2)).unwrap().lines().count(), 5);
}

#[test]
fn torn_line_is_reported_and_breaks_nothing() {
    let log = LogFixture::new();
    let tear = |text: &str| {
        let mut file = fs::OpenOptions::new().append(true).open(log.day_path(2)).unwrap();
        file.write_all(text.as_bytes()).unwrap();
    };
    tear("{\"time\":\"2026-01-03T1");
    let verified = log.verify(&VerifyOptions::default());
    assert_eq!((format_findings(&verified), verified.torn.len()), (String::new(), 1));
    log.add(DAYS[2]);
    // Another process, which did not see the interruption.
    AuditLog::new(&StateDir::new(log.folder.path())).write(&log.row(DAYS[2])).unwrap();
    tear("{");
    log.add("2026-01-04");
    log.add("2026-01-04");
    let verified = log.verify(&VerifyOptions::default());
    let torn = |line| ("2026-01-03.jsonl".to_owned(), line);
    assert_eq!((format_findings(&verified), verified.rows), (String::new(), 13));
    assert_eq!(verified.torn, [torn(4), torn(7)]);
}

#[test]
fn interrupted_writer_loses_nothing() {
    let log = LogFixture::new();
    let head = fs::read(log.path("head")).unwrap();
    log.add(DAYS[2]);
    fs::write(log.path("head"), &head).unwrap();
    assert_eq!(format_findings(&log.verify(&VerifyOptions::default())), "");
    let text = fs::read_to_string(log.day_path(2)).unwrap();
    fs::write(log.day_path(2), text.trim_end()).unwrap();
    assert_eq!(format_findings(&log.verify(&VerifyOptions::default())), "");
    log.add("2026-01-04");
    let verified = log.verify(&VerifyOptions::default());
    assert_eq!(
        (format_findings(&verified), verified.rows, verified.torn.len()),
        (String::new(), 11, 0)
    );
}

#[test]
fn cleared_log_restarts_the_chain() {
    let log = LogFixture::new();
    fs::remove_dir_all(log.path("")).unwrap();
    log.audit.ensure_writable(log.row(DAYS[2]).time).unwrap();
    log.add(DAYS[2]);
    let verified = log.verify(&VerifyOptions::default());
    assert_eq!((format_findings(&verified), verified.head.unwrap().seq), (String::new(), 1));
    fs::remove_file(log.day_path(2)).unwrap();
    log.add(DAYS[2]);
    assert!(log.day_path(2).exists(), "a row is never added to a file that is gone");
}

#[test]
fn locked_log_is_not_writable() {
    let log = LogFixture::new();
    let time = log.row(DAYS[2]).time;
    log.audit.ensure_writable(time).unwrap();
    let head = LockedLine::open(&StateDir::new(log.path("")), "head").unwrap();
    let held = head.lock().unwrap();
    let error = log.audit.ensure_writable(time).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::TimedOut, "{error}");
    drop(held);
    log.audit.ensure_writable(time).unwrap();
    log.add(DAYS[2]);
    assert_eq!(format_findings(&log.verify(&VerifyOptions::default())), "");
}

#[test]
fn concurrent_writers_make_one_chain() {
    let log = LogFixture::empty();
    let row = log.row(DAYS[0]);
    std::thread::scope(|scope| {
        for writer in 0..8 {
            let (log, mut row) = (&log, row.clone());
            scope.spawn(move || {
                let audit = AuditLog::new(&StateDir::new(log.folder.path()));
                for turn in 0..200 {
                    // Some begin the next day while others still finish calls of the previous one.
                    let day = if turn < 100 + writer { DAYS[0] } else { DAYS[1] };
                    row.time = format!("{day}T12:00:00Z").parse().unwrap();
                    audit.ensure_writable(row.time).unwrap();
                    audit.write(&row).unwrap();
                }
            });
        }
        // A concurrent verification finds no damage.
        for _ in 0..20 {
            assert_eq!(format_findings(&log.verify(&VerifyOptions::default())), "");
        }
    });
    let verified =
        log.verify(&VerifyOptions { begin: LogStart::FirstRow, ..VerifyOptions::default() });
    assert_eq!((format_findings(&verified), verified.rows), (String::new(), 1_600));
    assert_eq!((verified.days, verified.torn.len()), (2, 0));
}

/// The next day's file exists before its first row, so the day before it still grows.
#[test]
fn rows_added_while_log_is_read_are_not_findings() {
    let log = LogFixture::empty();
    log.add(DAYS[0]);
    let tomorrow = log.row(DAYS[1]).time;
    log.audit.ensure_writable(tomorrow).unwrap();
    assert!(log.day_path(1).exists());
    let mut added = 0;
    let verified = log.audit.verify(&VerifyOptions::default(), |_| {
        for _ in 0..3 {
            log.add(DAYS[0]);
            added += 1;
        }
    });
    assert_eq!((format_findings(&verified.unwrap()), added), (String::new(), 6));
}

/// Set in the process that writes rows until it is killed: the folder to write to.
const WRITER_FOLDER_VARIABLE: &str = "ZERO_TEST_AUDIT_VICTIM";

#[test]
fn killed_writers_leave_a_whole_chain() {
    if let Some(folder) = std::env::var_os(WRITER_FOLDER_VARIABLE) {
        write_until_killed(folder.into());
    }
    let log = LogFixture::empty();
    for kill in 0..30u64 {
        let name = "audit_chain::killed_writers_leave_a_whole_chain";
        let mut victim = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", name, "--nocapture"])
            .env(WRITER_FOLDER_VARIABLE, log.folder.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(victim.stdout.take().unwrap()).lines();
        lines.find(|line| line.as_ref().unwrap().contains("writing")).unwrap().unwrap();
        std::thread::sleep(std::time::Duration::from_micros(kill * 137));
        victim.kill().unwrap();
        victim.wait().unwrap();
        assert_eq!(
            format_findings(&log.verify(&VerifyOptions::default())),
            "",
            "after kill {kill}"
        );
    }
    log.add(DAYS[0]);
    let verified =
        log.verify(&VerifyOptions { begin: LogStart::FirstRow, ..VerifyOptions::default() });
    assert_eq!(format_findings(&verified), "");
    assert!(verified.rows > 30, "{}", verified.rows);
}

#[expect(clippy::print_stdout, reason = "signals that it is writing")]
fn write_until_killed(folder: PathBuf) -> ! {
    let row = row(&folder, DAYS[0]);
    let audit = AuditLog::new(&StateDir::new(folder));
    audit.write(&row).unwrap();
    println!("writing");
    loop {
        audit.write(&row).unwrap();
    }
}

#[test]
fn call_without_end_is_unfinished_once_its_process_is_gone() {
    let log = LogFixture::new();
    let other = AuditLog::new(&StateDir::new(log.folder.path()));
    let (ended, open) = (log.row(DAYS[2]), log.row(DAYS[2]));
    other.write_begin(&ended).unwrap();
    other.write_begin(&open).unwrap();
    other.write(&ended).unwrap();
    let verified = log.verify(&VerifyOptions::default());
    assert!(verified.is_intact() && verified.rows == 12, "{verified:?}");
    let calls = verified.open_calls;
    assert_eq!((calls.running, calls.unfinished.len()), (1, 0), "{calls:?}");
    // As the kernel does for a killed process.
    drop(other);
    let calls = log.verify(&VerifyOptions::default()).open_calls;
    let [cut] = &calls.unfinished[..] else { panic!("{calls:?}") };
    let day = format!("{}.jsonl", DAYS[2]);
    assert_eq!((&cut.call, &cut.file, cut.line, calls.running), (&open.call, &day, 5, 0));
    // The end may follow after midnight.
    log.audit.write(&AuditRow { call: open.call, ..log.row("2026-01-04") }).unwrap();
    assert_eq!(log.verify(&VerifyOptions::default()).open_calls.unfinished, []);
}

#[test]
fn begins_are_left_out_of_ordinary_reads() {
    let log = LogFixture::empty();
    let row = log.row(DAYS[0]);
    log.audit.write_begin(&row).unwrap();
    log.audit.write(&row).unwrap();
    let read = |all: bool| {
        let (mut statuses, mut day) = (Vec::new(), log.audit.open_day(DAYS[0]).unwrap());
        match all {
            true => day.for_each_written_row(|row, _| statuses.push(row.status)).unwrap(),
            false => day.for_each_row(|row| statuses.push(row.status)).unwrap(),
        }
        assert_eq!(day.damaged_lines(), 0);
        statuses
    };
    assert_eq!((read(false), read(true)), (vec!["ok".into()], vec!["started".into(), "ok".into()]));
}
