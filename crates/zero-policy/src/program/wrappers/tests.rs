//! Checks that the command inside a wrapper is found, whatever precedes it.

use super::super::analysis_text::check;

#[test]
fn wrapped_command_is_found_behind_options() {
    check("timeout 5 rm -rf x", "wrapper runs[rm -rf x]");
    check("timeout -k 1 -s KILL 5 rm x", "wrapper runs[rm x]");
    check("timeout --sig KILL --kill=1 5 rm x", "wrapper runs[rm x]");
    check("timeout --foreground 5s rm x", "wrapper runs[rm x]");
    check("timeout $T rm x", "wrapper runs[rm x] unknown");
    check("timeout --strange 5 rm x", "wrapper runs[rm x] unknown");
    check("nice rm x", "wrapper runs[rm x]");
    check("nice -n 5 rm x", "wrapper runs[rm x]");
    check("nice -10 rm x", "wrapper runs[rm x]");
    check("nice --adj=3 rm x", "wrapper runs[rm x]");
    check("ionice -c3 rm x", "wrapper runs[rm x]");
    check("ionice -p 1", "program");
    check("nohup -- rm x", "wrapper runs[rm x]");
    check("stdbuf -oL -e0 rm x", "wrapper runs[rm x]");
    check("setsid -w rm x", "wrapper runs[rm x]");
    check("/usr/bin/time -v -o log rm x", "wrapper write(log) runs[rm x]");
    check("chrt -f 10 rm x", "wrapper runs[rm x]");
    check("taskset -c 0-3 rm x", "wrapper runs[rm x]");
    check("gtimeout 5 rm x", "wrapper runs[rm x]");
    check("timeout --help", "read-only");
    check("arch -arm64 rm x", "wrapper runs[rm x]");
    check("setarch -R rm x", "wrapper runs[rm x]");
}

#[test]
fn wrapper_leaving_confinement_needs_rule() {
    check("unshare -r rm x", "program runs[rm x] caution");
    check("nsenter -t 1 -m rm x", "program runs[rm x] caution");
    check("chroot /mnt rm x", "program runs[rm x] caution");
    check("systemd-run --user -p A=b rm x", "program runs[rm x] caution");
}

#[test]
fn irregular_wrappers_reveal_their_command() {
    check("busybox rm -rf x", "wrapper runs[rm -rf x]");
    check("toybox sh -c ls", "wrapper runs[sh -c ls]");
    check("watch -n 1 ls -l", "wrapper script[ls -l]");
    check("watch -x ls -l", "wrapper runs[ls -l]");
    check("flock lock rm x", "wrapper write(lock) runs[rm x]");
    check("flock -n lock -c rm_x", "wrapper write(lock) script[rm x]");
    check("flock 9", "read-only");
    check("script -q -c rm_x /dev/null", "wrapper write(/dev/null) script[rm x]");
    check("script out rm x", "wrapper write(out) runs[rm x]");
    check("script", "wrapper write(typescript) script-from-input");
    check("strace -f -o log rm x", "wrapper write(log) runs[rm x]");
    check("strace -o |rm_y rm x", "wrapper runs[rm x] script[rm y]");
    check("strace -E LD_PRELOAD=x ls", "wrapper runs[ls] unknown");
    check("setarch $X rm x", "wrapper runs[$X rm x] unknown");
    check("strace -p 1", "program caution");
    check("gdb --args rm x", "program runs[rm x]");
    check("gdb -ex shell_rm --args rm x", "program runs[rm x] caution");
    check("perf stat -o f rm x", "program write(f) runs[rm x]");
    check("valgrind --log-file=f rm x", "program write(f) runs[rm x]");
    check("sg wheel -c rm_x", "program script[rm x]");
    check("entr -r rm x", "wrapper runs[rm x]");
    check("entr -s rm_x", "wrapper script[rm x]");
    check("watchexec -e rs cargo test", "wrapper script[cargo test]");
    check("ccache gcc -c a.c", "program runs[gcc -c a.c]");
}
