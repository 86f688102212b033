//! Programs that start another one with other limits, another user or another environment: what
//! init systems, containers and test runners put before a command.

use super::super::Nature;
use super::super::getopt::Getopt;
use super::{ROW, Row};

/// A row that says more than its name: it changes what the command may do, so a rule must know it.
const PROGRAM: Row = Row { nature: Nature::Program, ..ROW };

const NONE: Getopt = Getopt { short: "", long: "" };

pub(super) const ROWS: &[Row] = &[
    Row {
        name: "prlimit",
        table: Getopt {
            short: "c::d::e::f::i::l::m::n::q::r::s::t::u::v::x::y::p:o:hV",
            long: "core:: data:: nice:: fsize:: sigpending:: memlock:: rss:: nofile:: msgqueue:: \
                   rtprio:: stack:: cpu:: nproc:: as:: locks:: rttime:: pid: output: noheadings \
                   raw verbose help version",
        },
        acts_on: &["p", "pid"],
        ..ROW
    },
    Row {
        name: "choom",
        table: Getopt { short: "n:p:hV", long: "adjust: pid: help version" },
        acts_on: &["p", "pid"],
        ..ROW
    },
    Row {
        name: "aa-exec",
        table: Getopt {
            short: "p:n:idvh",
            long: "profile: namespace: immediate debug verbose help",
        },
        ..PROGRAM
    },
    Row {
        name: "dumb-init",
        table: Getopt { short: "cr:vhV", long: "single-child rewrite: verbose help version" },
        ..ROW
    },
    Row { name: "tini", table: Getopt { short: "hsvwgle:p:", long: "version" }, ..ROW },
    Row { name: "catatonit", table: Getopt { short: "gPVhL", long: "help version" }, ..ROW },
    Row { name: "gosu", table: NONE, skips: 1, ..PROGRAM },
    Row { name: "su-exec", table: NONE, skips: 1, ..PROGRAM },
    Row { name: "setuidgid", table: NONE, skips: 1, ..PROGRAM },
    Row { name: "envuidgid", table: NONE, skips: 1, ..PROGRAM },
    Row { name: "s6-setuidgid", table: NONE, skips: 1, ..PROGRAM },
    Row { name: "s6-envuidgid", table: Getopt { short: "inugU:B", long: "" }, skips: 1, ..PROGRAM },
    Row { name: "envdir", table: NONE, skips: 1, ..PROGRAM },
    Row { name: "s6-envdir", table: Getopt { short: "ILfnc:", long: "" }, skips: 1, ..PROGRAM },
    Row { name: "s6-env", table: NONE, ..PROGRAM },
    Row { name: "s6-setsid", table: Getopt { short: "isbfgqIdc:", long: "" }, ..ROW },
    Row { name: "s6-setlock", table: Getopt { short: "nNrwt:d:", long: "" }, skips: 1, ..PROGRAM },
    Row { name: "with-contenv", table: NONE, ..PROGRAM },
    Row { name: "s6-softlimit", table: SOFTLIMIT, ..ROW },
    Row { name: "softlimit", table: SOFTLIMIT, ..ROW },
    Row { name: "setlock", table: Getopt { short: "nNxX", long: "" }, skips: 1, ..PROGRAM },
    Row { name: "pgrphack", table: NONE, ..ROW },
    Row {
        name: "chpst",
        table: Getopt { short: "vP012u:U:b:e:/:C:n:l:L:m:d:o:p:f:c:r:t:", long: "" },
        writes: &["l", "L"],
        ..PROGRAM
    },
    Row { name: "cgexec", table: Getopt { short: "g:bh", long: "sticky" }, ..PROGRAM },
    Row {
        name: "fakechroot",
        table: Getopt {
            short: "sl:e:c:b:hv",
            long: "use-system-libs lib: elfloader: environment: config-dir: bindir: help version",
        },
        ..PROGRAM
    },
    Row {
        name: "torsocks",
        table: Getopt {
            short: "iu:p:a:P:dqhV",
            long: "isolate user: pass: address: port: debug quiet help version shell on off show",
        },
        ..PROGRAM
    },
    Row { name: "torify", table: Getopt { short: "vh", long: "verbose help version" }, ..PROGRAM },
    Row { name: "tsocks", table: NONE, ..PROGRAM },
    Row { name: "eatmydata", table: NONE, ..PROGRAM },
    Row {
        name: "bear",
        table: Getopt {
            short: "o:ac:vhil:",
            long: "output: append config: verbose help version force-preload force-wrapper \
                   libear: cdb:",
        },
        writes: &["o", "output", "cdb"],
        ..PROGRAM
    },
    Row {
        name: "intercept-build",
        table: Getopt {
            short: "vah",
            long: "cdb: append override-compiler use-cc: use-c++: verbose help",
        },
        writes: &["cdb"],
        ..PROGRAM
    },
    Row {
        name: "scan-build",
        table: Getopt {
            short: "o:vkVh",
            long: "use-cc: use-c++: use-analyzer: status-bugs keep-going keep-cc html-title: \
                   analyze-headers exclude: keep-empty override-compiler view help",
        },
        writes: &["o"],
        ..PROGRAM
    },
    Row {
        name: "dbus-launch",
        table: Getopt {
            short: "",
            long: "auto-syntax binary-syntax close-stderr config-file: csh-syntax \
                   exit-with-session exit-with-x11 sh-syntax help version",
        },
        ..PROGRAM
    },
    Row {
        name: "daemonize",
        table: Getopt { short: "ac:e:E:l:o:p:u:v", long: "" },
        writes: &["e", "o", "p", "l"],
        ..PROGRAM
    },
    Row {
        name: "retry",
        table: Getopt { short: "t:d:m:v", long: "times: delay: max: until: while: help version" },
        ..ROW
    },
    Row {
        name: "heaptrack",
        table: Getopt {
            short: "rdo:hvp:",
            long: "raw debug output: pid: help version record-only use-inject",
        },
        writes: &["o", "output"],
        acts_on: &["p", "pid"],
        ..PROGRAM
    },
    Row {
        name: "uftrace",
        table: Getopt { short: "d:D:F:N:t:T:C:k", long: "data: depth: filter: notrace: force" },
        writes: &["d", "data"],
        ..PROGRAM
    },
    Row {
        name: "srun",
        table: Getopt {
            short: "n:N:c:p:t:J:w:A:u",
            long: "ntasks: nodes: cpus-per-task: partition: time: job-name: nodelist: account: \
                   mem: gres: pty unbuffered exclusive",
        },
        caution: "it runs on another machine",
        ..PROGRAM
    },
];

const SOFTLIMIT: Getopt = Getopt { short: "a:c:d:f:H:hl:m:o:p:r:s:t:", long: "" };
