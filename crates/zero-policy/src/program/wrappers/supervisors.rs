//! Programs that start another one with other limits, another user or another environment: what
//! init systems, containers and test runners put before a command.

use super::super::CommandClass;
use super::super::getopt::GetoptSpec;
use super::{ROW, WrapperRow};

/// A row that says more than its name: it changes what the command may do, so a rule must know it.
const PROGRAM: WrapperRow = WrapperRow { nature: CommandClass::Opaque, ..ROW };

const NONE: GetoptSpec = GetoptSpec { short: "", long: "" };

pub(super) const ROWS: &[WrapperRow] = &[
    WrapperRow {
        name: "prlimit",
        table: GetoptSpec {
            short: "c::d::e::f::i::l::m::n::q::r::s::t::u::v::x::y::p:o:hV",
            long: "core:: data:: nice:: fsize:: sigpending:: memlock:: rss:: nofile:: msgqueue:: \
                   rtprio:: stack:: cpu:: nproc:: as:: locks:: rttime:: pid: output: noheadings \
                   raw verbose help version",
        },
        acts_on: &["p", "pid"],
        ..ROW
    },
    WrapperRow {
        name: "choom",
        table: GetoptSpec { short: "n:p:hV", long: "adjust: pid: help version" },
        acts_on: &["p", "pid"],
        ..ROW
    },
    WrapperRow {
        name: "aa-exec",
        table: GetoptSpec {
            short: "p:n:idvh",
            long: "profile: namespace: immediate debug verbose help",
        },
        ..PROGRAM
    },
    WrapperRow {
        name: "dumb-init",
        table: GetoptSpec { short: "cr:vhV", long: "single-child rewrite: verbose help version" },
        ..ROW
    },
    WrapperRow { name: "tini", table: GetoptSpec { short: "hsvwgle:p:", long: "version" }, ..ROW },
    WrapperRow {
        name: "catatonit",
        table: GetoptSpec { short: "gPVhL", long: "help version" },
        ..ROW
    },
    WrapperRow { name: "gosu", table: NONE, skips: 1, ..PROGRAM },
    WrapperRow { name: "su-exec", table: NONE, skips: 1, ..PROGRAM },
    WrapperRow { name: "setuidgid", table: NONE, skips: 1, ..PROGRAM },
    WrapperRow { name: "envuidgid", table: NONE, skips: 1, ..PROGRAM },
    WrapperRow { name: "s6-setuidgid", table: NONE, skips: 1, ..PROGRAM },
    WrapperRow {
        name: "s6-envuidgid",
        table: GetoptSpec { short: "inugU:B", long: "" },
        skips: 1,
        ..PROGRAM
    },
    WrapperRow { name: "envdir", table: NONE, skips: 1, ..PROGRAM },
    WrapperRow {
        name: "s6-envdir",
        table: GetoptSpec { short: "ILfnc:", long: "" },
        skips: 1,
        ..PROGRAM
    },
    WrapperRow { name: "s6-env", table: NONE, ..PROGRAM },
    WrapperRow { name: "s6-setsid", table: GetoptSpec { short: "isbfgqIdc:", long: "" }, ..ROW },
    WrapperRow {
        name: "s6-setlock",
        table: GetoptSpec { short: "nNrwt:d:", long: "" },
        skips: 1,
        ..PROGRAM
    },
    WrapperRow { name: "with-contenv", table: NONE, ..PROGRAM },
    WrapperRow { name: "s6-softlimit", table: SOFTLIMIT, ..ROW },
    WrapperRow { name: "softlimit", table: SOFTLIMIT, ..ROW },
    WrapperRow {
        name: "setlock",
        table: GetoptSpec { short: "nNxX", long: "" },
        skips: 1,
        ..PROGRAM
    },
    WrapperRow { name: "pgrphack", table: NONE, ..ROW },
    WrapperRow {
        name: "chpst",
        table: GetoptSpec { short: "vP012u:U:b:e:/:C:n:l:L:m:d:o:p:f:c:r:t:", long: "" },
        writes: &["l", "L"],
        ..PROGRAM
    },
    WrapperRow { name: "cgexec", table: GetoptSpec { short: "g:bh", long: "sticky" }, ..PROGRAM },
    WrapperRow {
        name: "fakechroot",
        table: GetoptSpec {
            short: "sl:e:c:b:hv",
            long: "use-system-libs lib: elfloader: environment: config-dir: bindir: help version",
        },
        ..PROGRAM
    },
    WrapperRow {
        name: "torsocks",
        table: GetoptSpec {
            short: "iu:p:a:P:dqhV",
            long: "isolate user: pass: address: port: debug quiet help version shell on off show",
        },
        ..PROGRAM
    },
    WrapperRow {
        name: "torify",
        table: GetoptSpec { short: "vh", long: "verbose help version" },
        ..PROGRAM
    },
    WrapperRow { name: "tsocks", table: NONE, ..PROGRAM },
    WrapperRow { name: "eatmydata", table: NONE, ..PROGRAM },
    WrapperRow {
        name: "bear",
        table: GetoptSpec {
            short: "o:ac:vhil:",
            long: "output: append config: verbose help version force-preload force-wrapper \
                   libear: cdb:",
        },
        writes: &["o", "output", "cdb"],
        ..PROGRAM
    },
    WrapperRow {
        name: "intercept-build",
        table: GetoptSpec {
            short: "vah",
            long: "cdb: append override-compiler use-cc: use-c++: verbose help",
        },
        writes: &["cdb"],
        ..PROGRAM
    },
    WrapperRow {
        name: "scan-build",
        table: GetoptSpec {
            short: "o:vkVh",
            long: "use-cc: use-c++: use-analyzer: status-bugs keep-going keep-cc html-title: \
                   analyze-headers exclude: keep-empty override-compiler view help",
        },
        writes: &["o"],
        ..PROGRAM
    },
    WrapperRow {
        name: "dbus-launch",
        table: GetoptSpec {
            short: "",
            long: "auto-syntax binary-syntax close-stderr config-file: csh-syntax \
                   exit-with-session exit-with-x11 sh-syntax help version",
        },
        ..PROGRAM
    },
    WrapperRow {
        name: "daemonize",
        table: GetoptSpec { short: "ac:e:E:l:o:p:u:v", long: "" },
        writes: &["e", "o", "p", "l"],
        ..PROGRAM
    },
    WrapperRow {
        name: "retry",
        table: GetoptSpec {
            short: "t:d:m:v",
            long: "times: delay: max: until: while: help version",
        },
        ..ROW
    },
    WrapperRow {
        name: "heaptrack",
        table: GetoptSpec {
            short: "rdo:hvp:",
            long: "raw debug output: pid: help version record-only use-inject",
        },
        writes: &["o", "output"],
        acts_on: &["p", "pid"],
        ..PROGRAM
    },
    WrapperRow {
        name: "uftrace",
        table: GetoptSpec { short: "d:D:F:N:t:T:C:k", long: "data: depth: filter: notrace: force" },
        writes: &["d", "data"],
        ..PROGRAM
    },
    WrapperRow {
        name: "srun",
        table: GetoptSpec {
            short: "n:N:c:p:t:J:w:A:u",
            long: "ntasks: nodes: cpus-per-task: partition: time: job-name: nodelist: account: \
                   mem: gres: pty unbuffered exclusive",
        },
        caution: "it runs on another machine",
        ..PROGRAM
    },
];

const SOFTLIMIT: GetoptSpec = GetoptSpec { short: "a:c:d:f:H:hl:m:o:p:r:s:t:", long: "" };
