//! Wrappers of the form `name [options] [words] command`, as they come with a system.

use super::super::Nature;
use super::super::getopt::Getopt;
use super::{ROW, Row};

pub(super) const ROWS: &[Row] = &[
    Row {
        name: "timeout",
        table: Getopt {
            short: "k:s:vfp",
            long: "kill-after: signal: verbose foreground preserve-status help version",
        },
        skips: 1,
        ..ROW
    },
    Row {
        name: "nice",
        table: Getopt { short: "n:0123456789", long: "adjustment: help version" },
        ..ROW
    },
    Row {
        name: "ionice",
        table: Getopt {
            short: "c:n:p:P:u:t",
            long: "class: classdata: pid: pgid: uid: ignore help version",
        },
        acts_on: &["p", "P", "u", "pid", "pgid", "uid"],
        ..ROW
    },
    Row { name: "nohup", ..ROW },
    Row { name: "catchsegv", ..ROW },
    Row { name: "chronic", table: Getopt { short: "ev", long: "" }, ..ROW },
    Row { name: "ifne", table: Getopt { short: "n", long: "" }, ..ROW },
    Row {
        name: "stdbuf",
        table: Getopt { short: "i:o:e:", long: "input: output: error: help version" },
        ..ROW
    },
    Row {
        name: "setsid",
        table: Getopt { short: "cfw", long: "ctty fork wait help version" },
        ..ROW
    },
    Row {
        name: "time",
        table: Getopt {
            short: "ao:f:pvqlhV",
            long: "append output: format: portability verbose quiet help version",
        },
        writes: &["o", "output"],
        ..ROW
    },
    Row {
        name: "chrt",
        table: Getopt {
            short: "abdefGhimorRT:P:D:pv",
            long: "all-tasks batch deadline ext fifo idle other rr reset-on-fork sched-runtime: \
                   sched-period: sched-deadline: max pid verbose help version",
        },
        skips: 1,
        acts_on: &["p", "pid"],
        ..ROW
    },
    Row {
        name: "taskset",
        table: Getopt { short: "acp", long: "all-tasks cpu-list pid help version" },
        skips: 1,
        acts_on: &["p", "pid"],
        ..ROW
    },
    Row {
        name: "numactl",
        table: Getopt {
            short: "i:N:m:C:p:lbaHs",
            long: "interleave: cpunodebind: membind: physcpubind: preferred: localalloc balancing \
                   all hardware show",
        },
        ..ROW
    },
    Row { name: "faketime", table: Getopt { short: "mf", long: "" }, skips: 1, ..ROW },
    Row { name: "unbuffer", table: Getopt { short: "p", long: "" }, ..ROW },
    Row { name: "caffeinate", table: Getopt { short: "dimsut:w:", long: "" }, ..ROW },
    Row {
        name: "rlwrap",
        table: Getopt { short: "acinrRsuwA", long: "help version" },
        nature: Nature::Program,
        ..ROW
    },
    Row { name: "ccache", nature: Nature::Program, ..ROW },
    Row { name: "sccache", nature: Nature::Program, ..ROW },
    Row { name: "distcc", nature: Nature::Program, ..ROW },
    Row {
        name: "ltrace",
        table: Getopt {
            short: "a:A:bcCD:e:F:fhiLl:n:o:p:rs:StTu:w:Vx:",
            long: "align: config: demangle output: indent: help version library:",
        },
        nature: Nature::Program,
        writes: &["o", "output"],
        acts_on: &["p"],
        ..ROW
    },
    Row {
        name: "valgrind",
        table: Getopt {
            short: "vqdh",
            long: "tool:: leak-check:: show-leak-kinds:: track-origins:: error-exitcode:: \
                   log-file:: xml:: xml-file:: suppressions:: num-callers:: trace-children:: \
                   quiet verbose callgrind-out-file:: massif-out-file:: gen-suppressions:: \
                   track-fds:: help version",
        },
        nature: Nature::Program,
        writes: &["log-file", "xml-file", "callgrind-out-file", "massif-out-file"],
        ..ROW
    },
    Row {
        name: "unshare",
        table: Getopt {
            short: "muinpUCTrcfR:w:S:G:h",
            long: "mount:: uts:: ipc:: net:: pid:: user:: cgroup:: time:: fork map-root-user \
                   map-current-user map-auto map-user: map-group: map-users: map-groups: \
                   mount-proc:: propagation: setgroups: keep-caps root: wd: setuid: setgid: \
                   kill-child:: monotonic: boottime: help version",
        },
        nature: Nature::Program,
        caution: "it leaves the confinement it runs in",
        ..ROW
    },
    Row {
        name: "nsenter",
        table: Getopt {
            short: "at:m::u::i::n::p::C::U::T::S:G:r::w::W:FZeh",
            long: "all target: mount:: uts:: ipc:: net:: pid:: cgroup:: user:: time:: setuid: \
                   setgid: preserve-credentials root:: wd:: wdns: env no-fork follow-context \
                   join-cgroup help version",
        },
        nature: Nature::Program,
        caution: "it enters the confinement of another process",
        ..ROW
    },
    Row {
        name: "chroot",
        table: Getopt { short: "", long: "groups: userspec: skip-chdir help version" },
        skips: 1,
        nature: Nature::Program,
        caution: "it runs with another root folder, where names mean other programs",
        ..ROW
    },
    Row {
        name: "systemd-run",
        table: Getopt {
            short: "GdPqrtSE:H:M:p:u:",
            long: "user system scope unit: property: description: slice: slice-inherit \
                   remain-after-exit send-sighup service-type: uid: gid: nice: \
                   working-directory: same-dir setenv: pty pipe shell quiet on-active: on-boot: \
                   on-startup: on-unit-active: on-unit-inactive: on-calendar: timer-property: \
                   path-property: socket-property: no-block wait collect no-ask-password \
                   expand-environment: host: machine: help version",
        },
        nature: Nature::Program,
        caution: "the service manager runs it, outside of any confinement",
        ..ROW
    },
    Row {
        name: "sandbox-exec",
        table: Getopt { short: "f:n:p:D:", long: "" },
        nature: Nature::Program,
        ..ROW
    },
    Row {
        name: "setpriv",
        table: Getopt {
            short: "dh",
            long: "dump clear-groups groups: inh-caps: ambient-caps: bounding-set: init-groups \
                   keep-groups list-caps no-new-privs rgid: ruid: egid: euid: regid: reuid: \
                   securebits: pdeathsig: selinux-label: apparmor-profile: reset-env help version",
        },
        nature: Nature::Program,
        ..ROW
    },
    Row {
        name: "fakeroot",
        table: Getopt { short: "l:s:i:uf:b:hv", long: "lib: faked: unknown-is-real help version" },
        nature: Nature::Program,
        writes: &["s"],
        ..ROW
    },
    Row {
        name: "xvfb-run",
        table: Getopt {
            short: "ae:f:hn:lp:s:w:",
            long: "auto-servernum error-file: auth-file: server-num: listen-tcp xauth-protocol: \
                   server-args: wait: help",
        },
        nature: Nature::Program,
        writes: &["e", "error-file"],
        ..ROW
    },
    Row {
        name: "proxychains",
        table: Getopt { short: "qf:", long: "" },
        nature: Nature::Program,
        ..ROW
    },
    Row {
        name: "proxychains4",
        table: Getopt { short: "qf:", long: "" },
        nature: Nature::Program,
        ..ROW
    },
    Row {
        name: "dbus-run-session",
        table: Getopt { short: "", long: "config-file: dbus-daemon: help version" },
        nature: Nature::Program,
        ..ROW
    },
];
