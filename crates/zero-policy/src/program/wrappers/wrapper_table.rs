//! Wrappers of the form `name [options] [words] command`, as they come with a system.

use super::super::CommandClass;
use super::{ROW, WrapperRow};
use crate::program::options::options;

pub(super) const ROWS: &[WrapperRow] = &[
    WrapperRow {
        name: "timeout",
        table: options!(
            "-vfp -ks: kill-after: signal: verbose foreground preserve-status help version"
        ).strict(),
        skips: 1,
        ..ROW
    },
    WrapperRow {
        name: "nice",
        table: options!("-0123456789 n: adjustment: help version").strict(),
        ..ROW
    },
    WrapperRow {
        name: "ionice",
        table: options!("-t -cnpPu: class: classdata: pid: pgid: uid: ignore help version").strict(),
        acts_on: &["p", "P", "u", "pid", "pgid", "uid"],
        ..ROW
    },
    WrapperRow { name: "nohup", ..ROW },
    WrapperRow { name: "catchsegv", ..ROW },
    WrapperRow { name: "chronic", table: options!("-ev").strict(), ..ROW },
    WrapperRow { name: "ifne", table: options!("-n").strict(), ..ROW },
    WrapperRow {
        name: "stdbuf",
        table: options!("-ioe: input: output: error: help version").strict(),
        ..ROW
    },
    WrapperRow {
        name: "setsid",
        table: options!("-cfw ctty fork wait help version").strict(),
        ..ROW
    },
    WrapperRow {
        name: "time",
        table: options!(
            "-apvqlhV -of: append output: format: portability verbose quiet help version"
        ).strict(),
        writes: &["o", "output"],
        ..ROW
    },
    WrapperRow {
        name: "chrt",
        table: options!(
            "-abdefGhimorRpv -TPD: all-tasks batch deadline ext fifo idle other rr reset-on-fork \
             sched-runtime: sched-period: sched-deadline: max pid verbose help version"
        ).strict(),
        skips: 1,
        acts_on: &["p", "pid"],
        ..ROW
    },
    WrapperRow {
        name: "taskset",
        table: options!("-acp all-tasks cpu-list pid help version").strict(),
        skips: 1,
        acts_on: &["p", "pid"],
        ..ROW
    },
    WrapperRow {
        name: "numactl",
        table: options!(
            "-lbaHs -iNmCp: interleave: cpunodebind: membind: physcpubind: preferred: localalloc \
             balancing all hardware show"
        ).strict(),
        ..ROW
    },
    WrapperRow { name: "faketime", table: options!("-mf").strict(), skips: 1, ..ROW },
    WrapperRow { name: "unbuffer", table: options!("-p").strict(), ..ROW },
    WrapperRow { name: "caffeinate", table: options!("-dimsu -tw:").strict(), ..ROW },
    WrapperRow {
        name: "rlwrap",
        table: options!("-acinrRsuwA help version").strict(),
        nature: CommandClass::Opaque,
        ..ROW
    },
    WrapperRow { name: "ccache", nature: CommandClass::Opaque, ..ROW },
    WrapperRow { name: "sccache", nature: CommandClass::Opaque, ..ROW },
    WrapperRow { name: "distcc", nature: CommandClass::Opaque, ..ROW },
    WrapperRow {
        name: "ltrace",
        table: options!(
            "-bcCfhiLrStTV -aADeFlnopsuwx: align: config: demangle output: indent: help version \
             library:"
        ).strict(),
        nature: CommandClass::Opaque,
        writes: &["o", "output"],
        acts_on: &["p"],
        ..ROW
    },
    WrapperRow {
        name: "valgrind",
        table: options!(
            "-vqdh tool:: leak-check:: show-leak-kinds:: track-origins:: error-exitcode:: log-file:: \
             xml:: xml-file:: suppressions:: num-callers:: trace-children:: quiet verbose \
             callgrind-out-file:: massif-out-file:: gen-suppressions:: track-fds:: help version"
        ).strict(),
        nature: CommandClass::Opaque,
        writes: &["log-file", "xml-file", "callgrind-out-file", "massif-out-file"],
        ..ROW
    },
    WrapperRow {
        name: "unshare",
        table: options!(
            "-muinpUCTrcfh -RwSG: mount:: uts:: ipc:: net:: pid:: user:: cgroup:: time:: fork \
             map-root-user map-current-user map-auto map-user: map-group: map-users: map-groups: \
             mount-proc:: propagation: setgroups: keep-caps root: wd: setuid: setgid: kill-child:: \
             monotonic: boottime: help version"
        ).strict(),
        nature: CommandClass::Opaque,
        caution: "it leaves the confinement it runs in",
        ..ROW
    },
    WrapperRow {
        name: "nsenter",
        table: options!(
            "-aFZeh t: -muinpCUT:: -SG: -rw:: W: all target: mount:: uts:: ipc:: net:: pid:: \
             cgroup:: user:: time:: setuid: setgid: preserve-credentials root:: wd:: wdns: env \
             no-fork follow-context join-cgroup help version"
        ).strict(),
        nature: CommandClass::Opaque,
        caution: "it enters the confinement of another process",
        ..ROW
    },
    WrapperRow {
        name: "chroot",
        table: options!("groups: userspec: skip-chdir help version").strict(),
        skips: 1,
        nature: CommandClass::Opaque,
        caution: "it runs with another root folder, where names mean other programs",
        ..ROW
    },
    WrapperRow {
        name: "systemd-run",
        table: options!(
            "-GdPqrtS -EHMpu: user system scope unit: property: description: slice: slice-inherit \
             remain-after-exit send-sighup service-type: uid: gid: nice: working-directory: same-dir \
             setenv: pty pipe shell quiet on-active: on-boot: on-startup: on-unit-active: \
             on-unit-inactive: on-calendar: timer-property: path-property: socket-property: no-block \
             wait collect no-ask-password expand-environment: host: machine: help version"
        ).strict(),
        nature: CommandClass::Opaque,
        caution: "the service manager runs it, outside of any confinement",
        ..ROW
    },
    WrapperRow {
        name: "sandbox-exec",
        table: options!("-fnpD:").strict(),
        nature: CommandClass::Opaque,
        ..ROW
    },
    WrapperRow {
        name: "setpriv",
        table: options!(
            "-dh dump clear-groups groups: inh-caps: ambient-caps: bounding-set: init-groups \
             keep-groups list-caps no-new-privs rgid: ruid: egid: euid: regid: reuid: securebits: \
             pdeathsig: selinux-label: apparmor-profile: reset-env help version"
        ).strict(),
        nature: CommandClass::Opaque,
        ..ROW
    },
    WrapperRow {
        name: "fakeroot",
        table: options!("-uhv -lsifb: lib: faked: unknown-is-real help version").strict(),
        nature: CommandClass::Opaque,
        writes: &["s"],
        ..ROW
    },
    WrapperRow {
        name: "xvfb-run",
        table: options!(
            "-ahl -efnpsw: auto-servernum error-file: auth-file: server-num: listen-tcp \
             xauth-protocol: server-args: wait: help"
        ).strict(),
        nature: CommandClass::Opaque,
        writes: &["e", "error-file"],
        ..ROW
    },
    WrapperRow {
        name: "proxychains",
        table: options!("-q f:").strict(),
        nature: CommandClass::Opaque,
        ..ROW
    },
    WrapperRow {
        name: "proxychains4",
        table: options!("-q f:").strict(),
        nature: CommandClass::Opaque,
        ..ROW
    },
    WrapperRow {
        name: "dbus-run-session",
        table: options!("config-file: dbus-daemon: help version").strict(),
        nature: CommandClass::Opaque,
        ..ROW
    },
];
