//! Wrappers of the form `name [options] [words] command`.
//!
//! The columns: the class, the number of words between the options and the command, the names, the
//! options, and why no rule may cover it, if so. A wrapper that changes what the command may do is
//! opaque: a rule must name it.

use super::WrapperRow;
use crate::program::command_analysis::CommandClass;
use crate::program::options::options;
use crate::word_list::words;

macro_rules! wrappers {
    ($($class:ident $skips:literal $names:literal $options:literal $($caution:literal)?;)*) => {
        &[$(WrapperRow {
            names: words!($names),
            table: options!($options).strict().until_operand(),
            skips: $skips,
            class: CommandClass::$class,
            caution: concat!($($caution)?),
        }),*]
    };
}

pub(super) static ROWS: &[WrapperRow] = wrappers! {
    // Wrappers of operating systems.
    Wrapper 1 "timeout"
        "-vfp -ks: kill-after: signal: verbose foreground preserve-status help version";
    Wrapper 0 "nice" "-0123456789 n: adjustment: help version";
    Wrapper 0 "ionice" "p,P,u,pid,pgid,uid:!process -t -cn: class: classdata: ignore help version";
    Wrapper 0 "nohup catchsegv" "help version";
    Wrapper 0 "chronic" "-ev";
    Wrapper 0 "ifne" "-n";
    Wrapper 0 "stdbuf" "-ioe: input: output: error: help version";
    Wrapper 0 "setsid" "-cfw ctty fork wait help version";
    Wrapper 0 "time"
        "o,output:write -apvqlhV f: append format: portability verbose quiet help version";
    Wrapper 1 "chrt"
        "p,pid!process -abdefGhimorRv -TPD: all-tasks batch deadline ext fifo idle other rr \
         reset-on-fork sched-runtime: sched-period: sched-deadline: max verbose help version";
    Wrapper 1 "taskset" "p,pid!process -ac all-tasks cpu-list help version";
    Wrapper 0 "numactl"
        "-lbaHs -iNmCp: interleave: cpunodebind: membind: physcpubind: preferred: localalloc \
         balancing all hardware show";
    Wrapper 1 "faketime" "-mf";
    Wrapper 0 "timelimit" "-pq -SsTt:";
    Wrapper 0 "unbuffer" "-p";
    Wrapper 0 "caffeinate" "-dimsu -tw:";
    Opaque 0 "rlwrap" "-acinrRsuwA help version";
    Opaque 0 "ccache sccache distcc" "help version";
    Opaque 0 "ltrace"
        "p:!process o,output:write -bcCfhiLrStTV -aADeFlnsuwx: align: config: demangle indent: \
         help version library:";
    Opaque 0 "valgrind"
        "log-file,xml-file,callgrind-out-file,massif-out-file::write -vqdh tool:: leak-check:: \
         show-leak-kinds:: track-origins:: error-exitcode:: xml:: suppressions:: num-callers:: \
         trace-children:: quiet verbose gen-suppressions:: track-fds:: help version";
    Opaque 0 "unshare"
        "-muinpUCTrcfh -RwSG: mount:: uts:: ipc:: net:: pid:: user:: cgroup:: time:: fork \
         map-root-user map-current-user map-auto map-user: map-group: map-users: map-groups: \
         mount-proc:: propagation: setgroups: keep-caps root: wd: setuid: setgid: kill-child:: \
         monotonic: boottime: help version"
        "it leaves the confinement it runs in";
    Opaque 0 "nsenter"
        "-aFZeh t: -muinpCUT:: -SG: -rw:: W: all target: mount:: uts:: ipc:: net:: pid:: cgroup:: \
         user:: time:: setuid: setgid: preserve-credentials root:: wd:: wdns: env no-fork \
         follow-context join-cgroup help version"
        "it enters the confinement of another process";
    Opaque 1 "chroot"
        "groups: userspec: skip-chdir help version"
        "it runs with another root folder, where names mean other programs";
    Opaque 0 "proot"
        "-0VhlLn -rbmqwviRSkp: rootfs: bind: mount: qemu: cwd: pwd: verbose: version help about \
         root-id change-id: kill-on-exit kernel-release: link2symlink"
        "it runs with another root folder, where names mean other programs";
    Opaque 0 "sshpass" "f:read -evhV -dpP:";
    Opaque 0 "systemd-run"
        "-GdPqrtS -EHMpu: user system scope unit: property: description: slice: slice-inherit \
         remain-after-exit send-sighup service-type: uid: gid: nice: working-directory: same-dir \
         setenv: pty pipe shell quiet on-active: on-boot: on-startup: on-unit-active: \
         on-unit-inactive: on-calendar: timer-property: path-property: socket-property: no-block \
         wait collect no-ask-password expand-environment: host: machine: help version"
        "the service manager runs it, outside of any confinement";
    Opaque 0 "sandbox-exec" "-fnpD:";
    Opaque 0 "setpriv"
        "-dh dump clear-groups groups: inh-caps: ambient-caps: bounding-set: init-groups \
         keep-groups list-caps no-new-privs rgid: ruid: egid: euid: regid: reuid: securebits: \
         pdeathsig: selinux-label: apparmor-profile: reset-env help version";
    Opaque 0 "fakeroot" "s:write -uhv -lifb: lib: faked: unknown-is-real help version";
    Opaque 0 "xvfb-run"
        "e,error-file:write -ahl -fnpsw: auto-servernum auth-file: server-num: listen-tcp \
         xauth-protocol: server-args: wait: help";
    Opaque 0 "proxychains proxychains4" "-q f:";
    Opaque 0 "dbus-run-session" "config-file: dbus-daemon: help version";
    // Wrappers of init systems, containers and test runners.
    Wrapper 0 "prlimit"
        "p,pid:!process -hV -cdefilmnqrstuvxy:: o: core:: data:: nice:: fsize:: sigpending:: \
         memlock:: rss:: nofile:: msgqueue:: rtprio:: stack:: cpu:: nproc:: as:: locks:: rttime:: \
         output: noheadings raw verbose help version";
    Wrapper 0 "choom" "p,pid:!process -hV n: adjust: help version";
    Opaque 0 "aa-exec" "-idvh -pn: profile: namespace: immediate debug verbose help";
    Wrapper 0 "dumb-init" "-cvhV r: single-child rewrite: verbose help version";
    Wrapper 0 "tini" "-hsvwgl -ep: version";
    Wrapper 0 "catatonit" "-gPVhL help version";
    Opaque 1 "gosu su-exec setuidgid envuidgid s6-setuidgid envdir" "";
    Opaque 1 "s6-envuidgid" "-inugB U:";
    Opaque 1 "s6-envdir" "-ILfn c:";
    Opaque 0 "s6-env with-contenv with-env tsocks eatmydata" "";
    Wrapper 0 "s6-setsid" "-isbfgqId c:";
    Opaque 1 "s6-setlock" "-nNrw -td:";
    Wrapper 0 "s6-softlimit softlimit" "-h -acdfHlmoprst:";
    Opaque 1 "setlock" "-nNxX";
    Wrapper 0 "pgrphack" "";
    Opaque 0 "chpst" "l,L:write -vP012 -uUbe/Cnmdopfcrt:";
    Opaque 0 "cgexec" "-bh g: sticky";
    Opaque 0 "fakechroot"
        "-shv -lecb: use-system-libs lib: elfloader: environment: config-dir: bindir: help version";
    Opaque 0 "torsocks"
        "-idqhV -upaP: isolate user: pass: address: port: debug quiet help version shell on off \
         show";
    Opaque 0 "torify" "-vh verbose help version";
    Opaque 0 "bear"
        "o,output,cdb:write -avhi -cl: append config: verbose help version force-preload \
         force-wrapper libear:";
    Opaque 0 "intercept-build"
        "cdb:write -vah append override-compiler use-cc: use-c++: verbose help";
    Opaque 0 "scan-build"
        "o:write -vkVh use-cc: use-c++: use-analyzer: status-bugs keep-going keep-cc html-title: \
         analyze-headers exclude: keep-empty override-compiler view help";
    Opaque 0 "dbus-launch"
        "auto-syntax binary-syntax close-stderr config-file: csh-syntax exit-with-session \
         exit-with-x11 sh-syntax help version";
    Opaque 0 "daemonize" "e,o,p,l:write -av -cEu:";
    Wrapper 0 "retry" "-v -tdm: times: delay: max: until: while: help version";
    Opaque 0 "heaptrack"
        "p,pid:!process o,output:write -rdhv raw debug help version record-only use-inject";
    Opaque 0 "uftrace" "d,data:write -k -DFNtTC: depth: filter: notrace: force";
    Opaque 0 "srun"
        "-u -nNcptJwA: ntasks: nodes: cpus-per-task: partition: time: job-name: nodelist: account: \
         mem: gres: pty unbuffered exclusive"
        "it runs on another machine";
};
