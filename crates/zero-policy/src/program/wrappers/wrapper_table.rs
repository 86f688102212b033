//! Wrappers of the form `name [options] [words] command`, as they come with a system.

use super::super::CommandClass;
use super::super::getopt::GetoptSpec;
use super::{ROW, WrapperRow};

pub(super) const ROWS: &[WrapperRow] = &[
    WrapperRow {
        name: "timeout",
        table: GetoptSpec {
            short: "k:s:vfp",
            long: "kill-after: signal: verbose foreground preserve-status help version",
        },
        skips: 1,
        ..ROW
    },
    WrapperRow {
        name: "nice",
        table: GetoptSpec { short: "n:0123456789", long: "adjustment: help version" },
        ..ROW
    },
    WrapperRow {
        name: "ionice",
        table: GetoptSpec {
            short: "c:n:p:P:u:t",
            long: "class: classdata: pid: pgid: uid: ignore help version",
        },
        acts_on: &["p", "P", "u", "pid", "pgid", "uid"],
        ..ROW
    },
    WrapperRow { name: "nohup", ..ROW },
    WrapperRow { name: "catchsegv", ..ROW },
    WrapperRow { name: "chronic", table: GetoptSpec { short: "ev", long: "" }, ..ROW },
    WrapperRow { name: "ifne", table: GetoptSpec { short: "n", long: "" }, ..ROW },
    WrapperRow {
        name: "stdbuf",
        table: GetoptSpec { short: "i:o:e:", long: "input: output: error: help version" },
        ..ROW
    },
    WrapperRow {
        name: "setsid",
        table: GetoptSpec { short: "cfw", long: "ctty fork wait help version" },
        ..ROW
    },
    WrapperRow {
        name: "time",
        table: GetoptSpec {
            short: "ao:f:pvqlhV",
            long: "append output: format: portability verbose quiet help version",
        },
        writes: &["o", "output"],
        ..ROW
    },
    WrapperRow {
        name: "chrt",
        table: GetoptSpec {
            short: "abdefGhimorRT:P:D:pv",
            long: "all-tasks batch deadline ext fifo idle other rr reset-on-fork sched-runtime: \
                   sched-period: sched-deadline: max pid verbose help version",
        },
        skips: 1,
        acts_on: &["p", "pid"],
        ..ROW
    },
    WrapperRow {
        name: "taskset",
        table: GetoptSpec { short: "acp", long: "all-tasks cpu-list pid help version" },
        skips: 1,
        acts_on: &["p", "pid"],
        ..ROW
    },
    WrapperRow {
        name: "numactl",
        table: GetoptSpec {
            short: "i:N:m:C:p:lbaHs",
            long: "interleave: cpunodebind: membind: physcpubind: preferred: localalloc balancing \
                   all hardware show",
        },
        ..ROW
    },
    WrapperRow { name: "faketime", table: GetoptSpec { short: "mf", long: "" }, skips: 1, ..ROW },
    WrapperRow { name: "unbuffer", table: GetoptSpec { short: "p", long: "" }, ..ROW },
    WrapperRow { name: "caffeinate", table: GetoptSpec { short: "dimsut:w:", long: "" }, ..ROW },
    WrapperRow {
        name: "rlwrap",
        table: GetoptSpec { short: "acinrRsuwA", long: "help version" },
        nature: CommandClass::Opaque,
        ..ROW
    },
    WrapperRow { name: "ccache", nature: CommandClass::Opaque, ..ROW },
    WrapperRow { name: "sccache", nature: CommandClass::Opaque, ..ROW },
    WrapperRow { name: "distcc", nature: CommandClass::Opaque, ..ROW },
    WrapperRow {
        name: "ltrace",
        table: GetoptSpec {
            short: "a:A:bcCD:e:F:fhiLl:n:o:p:rs:StTu:w:Vx:",
            long: "align: config: demangle output: indent: help version library:",
        },
        nature: CommandClass::Opaque,
        writes: &["o", "output"],
        acts_on: &["p"],
        ..ROW
    },
    WrapperRow {
        name: "valgrind",
        table: GetoptSpec {
            short: "vqdh",
            long: "tool:: leak-check:: show-leak-kinds:: track-origins:: error-exitcode:: \
                   log-file:: xml:: xml-file:: suppressions:: num-callers:: trace-children:: \
                   quiet verbose callgrind-out-file:: massif-out-file:: gen-suppressions:: \
                   track-fds:: help version",
        },
        nature: CommandClass::Opaque,
        writes: &["log-file", "xml-file", "callgrind-out-file", "massif-out-file"],
        ..ROW
    },
    WrapperRow {
        name: "unshare",
        table: GetoptSpec {
            short: "muinpUCTrcfR:w:S:G:h",
            long: "mount:: uts:: ipc:: net:: pid:: user:: cgroup:: time:: fork map-root-user \
                   map-current-user map-auto map-user: map-group: map-users: map-groups: \
                   mount-proc:: propagation: setgroups: keep-caps root: wd: setuid: setgid: \
                   kill-child:: monotonic: boottime: help version",
        },
        nature: CommandClass::Opaque,
        caution: "it leaves the confinement it runs in",
        ..ROW
    },
    WrapperRow {
        name: "nsenter",
        table: GetoptSpec {
            short: "at:m::u::i::n::p::C::U::T::S:G:r::w::W:FZeh",
            long: "all target: mount:: uts:: ipc:: net:: pid:: cgroup:: user:: time:: setuid: \
                   setgid: preserve-credentials root:: wd:: wdns: env no-fork follow-context \
                   join-cgroup help version",
        },
        nature: CommandClass::Opaque,
        caution: "it enters the confinement of another process",
        ..ROW
    },
    WrapperRow {
        name: "chroot",
        table: GetoptSpec { short: "", long: "groups: userspec: skip-chdir help version" },
        skips: 1,
        nature: CommandClass::Opaque,
        caution: "it runs with another root folder, where names mean other programs",
        ..ROW
    },
    WrapperRow {
        name: "systemd-run",
        table: GetoptSpec {
            short: "GdPqrtSE:H:M:p:u:",
            long: "user system scope unit: property: description: slice: slice-inherit \
                   remain-after-exit send-sighup service-type: uid: gid: nice: \
                   working-directory: same-dir setenv: pty pipe shell quiet on-active: on-boot: \
                   on-startup: on-unit-active: on-unit-inactive: on-calendar: timer-property: \
                   path-property: socket-property: no-block wait collect no-ask-password \
                   expand-environment: host: machine: help version",
        },
        nature: CommandClass::Opaque,
        caution: "the service manager runs it, outside of any confinement",
        ..ROW
    },
    WrapperRow {
        name: "sandbox-exec",
        table: GetoptSpec { short: "f:n:p:D:", long: "" },
        nature: CommandClass::Opaque,
        ..ROW
    },
    WrapperRow {
        name: "setpriv",
        table: GetoptSpec {
            short: "dh",
            long: "dump clear-groups groups: inh-caps: ambient-caps: bounding-set: init-groups \
                   keep-groups list-caps no-new-privs rgid: ruid: egid: euid: regid: reuid: \
                   securebits: pdeathsig: selinux-label: apparmor-profile: reset-env help version",
        },
        nature: CommandClass::Opaque,
        ..ROW
    },
    WrapperRow {
        name: "fakeroot",
        table: GetoptSpec {
            short: "l:s:i:uf:b:hv",
            long: "lib: faked: unknown-is-real help version",
        },
        nature: CommandClass::Opaque,
        writes: &["s"],
        ..ROW
    },
    WrapperRow {
        name: "xvfb-run",
        table: GetoptSpec {
            short: "ae:f:hn:lp:s:w:",
            long: "auto-servernum error-file: auth-file: server-num: listen-tcp xauth-protocol: \
                   server-args: wait: help",
        },
        nature: CommandClass::Opaque,
        writes: &["e", "error-file"],
        ..ROW
    },
    WrapperRow {
        name: "proxychains",
        table: GetoptSpec { short: "qf:", long: "" },
        nature: CommandClass::Opaque,
        ..ROW
    },
    WrapperRow {
        name: "proxychains4",
        table: GetoptSpec { short: "qf:", long: "" },
        nature: CommandClass::Opaque,
        ..ROW
    },
    WrapperRow {
        name: "dbus-run-session",
        table: GetoptSpec { short: "", long: "config-file: dbus-daemon: help version" },
        nature: CommandClass::Opaque,
        ..ROW
    },
];
