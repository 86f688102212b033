//! Programs that start another one with other limits, another user or another environment: what
//! init systems, containers and test runners put before a command.

use super::super::CommandClass;
use super::{ROW, WrapperRow};
use crate::program::options::{OptionTable, options};

/// A row that says more than its name: it changes what the command may do, so a rule must know it.
const PROGRAM: WrapperRow = WrapperRow { nature: CommandClass::Opaque, ..ROW };

const NONE: OptionTable = options!("").strict();

pub(super) const ROWS: &[WrapperRow] = &[
    WrapperRow {
        name: "prlimit",
        table: options!(
            "-hV -cdefilmnqrstuvxy:: -po: core:: data:: nice:: fsize:: sigpending:: memlock:: rss:: \
             nofile:: msgqueue:: rtprio:: stack:: cpu:: nproc:: as:: locks:: rttime:: pid: output: \
             noheadings raw verbose help version"
        ).strict(),
        acts_on: &["p", "pid"],
        ..ROW
    },
    WrapperRow {
        name: "choom",
        table: options!("-hV -np: adjust: pid: help version").strict(),
        acts_on: &["p", "pid"],
        ..ROW
    },
    WrapperRow {
        name: "aa-exec",
        table: options!("-idvh -pn: profile: namespace: immediate debug verbose help").strict(),
        ..PROGRAM
    },
    WrapperRow {
        name: "dumb-init",
        table: options!("-cvhV r: single-child rewrite: verbose help version").strict(),
        ..ROW
    },
    WrapperRow { name: "tini", table: options!("-hsvwgl -ep: version").strict(), ..ROW },
    WrapperRow {
        name: "catatonit",
        table: options!("-gPVhL help version").strict(),
        ..ROW
    },
    WrapperRow { name: "gosu", table: NONE, skips: 1, ..PROGRAM },
    WrapperRow { name: "su-exec", table: NONE, skips: 1, ..PROGRAM },
    WrapperRow { name: "setuidgid", table: NONE, skips: 1, ..PROGRAM },
    WrapperRow { name: "envuidgid", table: NONE, skips: 1, ..PROGRAM },
    WrapperRow { name: "s6-setuidgid", table: NONE, skips: 1, ..PROGRAM },
    WrapperRow {
        name: "s6-envuidgid",
        table: options!("-inugB U:").strict(),
        skips: 1,
        ..PROGRAM
    },
    WrapperRow { name: "envdir", table: NONE, skips: 1, ..PROGRAM },
    WrapperRow {
        name: "s6-envdir",
        table: options!("-ILfn c:").strict(),
        skips: 1,
        ..PROGRAM
    },
    WrapperRow { name: "s6-env", table: NONE, ..PROGRAM },
    WrapperRow { name: "s6-setsid", table: options!("-isbfgqId c:").strict(), ..ROW },
    WrapperRow {
        name: "s6-setlock",
        table: options!("-nNrw -td:").strict(),
        skips: 1,
        ..PROGRAM
    },
    WrapperRow { name: "with-contenv", table: NONE, ..PROGRAM },
    WrapperRow { name: "s6-softlimit", table: SOFTLIMIT, ..ROW },
    WrapperRow { name: "softlimit", table: SOFTLIMIT, ..ROW },
    WrapperRow {
        name: "setlock",
        table: options!("-nNxX").strict(),
        skips: 1,
        ..PROGRAM
    },
    WrapperRow { name: "pgrphack", table: NONE, ..ROW },
    WrapperRow {
        name: "chpst",
        table: options!("-vP012 -uUbe/CnlLmdopfcrt:").strict(),
        writes: &["l", "L"],
        ..PROGRAM
    },
    WrapperRow { name: "cgexec", table: options!("-bh g: sticky").strict(), ..PROGRAM },
    WrapperRow {
        name: "fakechroot",
        table: options!(
            "-shv -lecb: use-system-libs lib: elfloader: environment: config-dir: bindir: help \
             version"
        ).strict(),
        ..PROGRAM
    },
    WrapperRow {
        name: "torsocks",
        table: options!(
            "-idqhV -upaP: isolate user: pass: address: port: debug quiet help version shell on off \
             show"
        ).strict(),
        ..PROGRAM
    },
    WrapperRow {
        name: "torify",
        table: options!("-vh verbose help version").strict(),
        ..PROGRAM
    },
    WrapperRow { name: "tsocks", table: NONE, ..PROGRAM },
    WrapperRow { name: "eatmydata", table: NONE, ..PROGRAM },
    WrapperRow {
        name: "bear",
        table: options!(
            "-avhi -ocl: output: append config: verbose help version force-preload force-wrapper \
             libear: cdb:"
        ).strict(),
        writes: &["o", "output", "cdb"],
        ..PROGRAM
    },
    WrapperRow {
        name: "intercept-build",
        table: options!("-vah cdb: append override-compiler use-cc: use-c++: verbose help").strict(),
        writes: &["cdb"],
        ..PROGRAM
    },
    WrapperRow {
        name: "scan-build",
        table: options!(
            "-vkVh o: use-cc: use-c++: use-analyzer: status-bugs keep-going keep-cc html-title: \
             analyze-headers exclude: keep-empty override-compiler view help"
        ).strict(),
        writes: &["o"],
        ..PROGRAM
    },
    WrapperRow {
        name: "dbus-launch",
        table: options!(
            "auto-syntax binary-syntax close-stderr config-file: csh-syntax exit-with-session \
             exit-with-x11 sh-syntax help version"
        ).strict(),
        ..PROGRAM
    },
    WrapperRow {
        name: "daemonize",
        table: options!("-av -ceElopu:").strict(),
        writes: &["e", "o", "p", "l"],
        ..PROGRAM
    },
    WrapperRow {
        name: "retry",
        table: options!("-v -tdm: times: delay: max: until: while: help version").strict(),
        ..ROW
    },
    WrapperRow {
        name: "heaptrack",
        table: options!(
            "-rdhv -op: raw debug output: pid: help version record-only use-inject"
        ).strict(),
        writes: &["o", "output"],
        acts_on: &["p", "pid"],
        ..PROGRAM
    },
    WrapperRow {
        name: "uftrace",
        table: options!("-k -dDFNtTC: data: depth: filter: notrace: force").strict(),
        writes: &["d", "data"],
        ..PROGRAM
    },
    WrapperRow {
        name: "srun",
        table: options!(
            "-u -nNcptJwA: ntasks: nodes: cpus-per-task: partition: time: job-name: nodelist: \
             account: mem: gres: pty unbuffered exclusive"
        ).strict(),
        caution: "it runs on another machine",
        ..PROGRAM
    },
];

const SOFTLIMIT: OptionTable = options!("-h -acdfHlmoprst:").strict();
