//! Containers and clusters: `docker exec`, `kubectl exec` and similar.
//!
//! Commands inside a container are judged as if they ran here, which is never too permissive: a
//! folder of this machine may be mounted there.

use crate::program::arguments::{args_from, known_text};
use crate::program::command_analysis::{CommandAnalysis, FileAccess};
use crate::program::options::{OptionTable, ParsedArguments, options};
use crate::shell::ShellArg;
use crate::word_list::words;

pub(super) fn analyze(name: &str, args: &[ShellArg]) -> Option<CommandAnalysis> {
    Some(match name {
        "docker" | "podman" | "nerdctl" => analyze_docker(args)?,
        "docker-compose" | "podman-compose" => analyze_compose(args),
        "kubectl" | "oc" | "k" | "microk8s" => {
            analyze_after_dashes(args, &["exec", "run", "debug"])?
        }
        "multipass" | "lxc" | "incus" => analyze_after_dashes(args, &["exec"])?,
        "machinectl" => analyze_machinectl(args)?,
        "distrobox" | "toolbox" => analyze_after_dashes(args, &["enter", "run"])?,
        _ => return None,
    })
}

pub(super) const DOCKER_GLOBALS: OptionTable = options!(
    "-Dv -Hcl: host: context: config: log-level: tls tlscacert: tlscert: tlskey: tlsverify debug \
     connection: url: identity: root: runroot: storage-driver: storage-opt: cgroup-manager: remote \
     namespace: address: help version"
)
.strict();

pub(super) const RUN: OptionTable = options!(
    "-diPtq -acDehlLmpuvw: add-host: annotation: attach: blkio-weight: blkio-weight-device: \
     cap-add: cap-drop: cgroup-parent: cgroupns: cidfile: cpu-count: cpu-percent: cpu-period: \
     cpu-quota: cpu-rt-period: cpu-rt-runtime: cpu-shares: cpus: cpuset-cpus: cpuset-mems: detach \
     detach-keys: device: device-cgroup-rule: device-read-bps: device-read-iops: device-write-bps: \
     device-write-iops: disable-content-trust dns: dns-option: dns-search: domainname: entrypoint: \
     env: env-file: expose: gpus: group-add: health-cmd: health-interval: health-retries: \
     health-start-interval: health-start-period: health-timeout: hostname: init interactive \
     io-maxbandwidth: io-maxiops: ip: ip6: ipc: isolation: kernel-memory: label: label-file: link: \
     link-local-ip: log-driver: log-opt: mac-address: memory: memory-reservation: memory-swap: \
     memory-swappiness: mount: name: network: net: network-alias: no-healthcheck oom-kill-disable \
     oom-score-adj: pid: pids-limit: platform: privileged publish: publish-all pull: quiet \
     read-only restart: rm runtime: security-opt: shm-size: sig-proxy stop-signal: stop-timeout: \
     storage-opt: sysctl: tmpfs: tty ulimit: user: userns: uts: volume: volume-driver: \
     volumes-from: workdir: index: no-TTY no-deps service-ports use-aliases build remove-orphans \
     replace pod: arch: os: systemd: authfile: secret: no-hosts"
)
.strict();

pub(super) const COMPOSE_GLOBALS: OptionTable = options!(
    "-cv -fpH: file: project-name: profile: env-file: project-directory: ansi: parallel: progress: \
     compatibility all-resources dry-run verbose context: host:"
)
.strict();

fn analyze_docker(args: &[ShellArg]) -> Option<CommandAnalysis> {
    let globals = DOCKER_GLOBALS.until_operand().parse(args);
    let rest = args_from(&globals.operands, 1);
    let analysis = match (known_text(globals.operands.first()), known_text(rest.first())) {
        ("compose", _) => analyze_compose(rest),
        ("container", "run" | "create" | "exec") => analyze_container_command(args_from(rest, 1)),
        ("run" | "create" | "exec", _) => analyze_container_command(rest),
        ("cp", _) => analyze_copy(rest),
        ("container", "cp") => analyze_copy(args_from(rest, 1)),
        _ => return None,
    };
    Some(analysis.mark_guess_if(globals.uncertain))
}

/// `run [options] image command`, `exec [options] container command`.
fn analyze_container_command(args: &[ShellArg]) -> CommandAnalysis {
    let options = RUN.until_operand().parse(args);
    let mut argv = Vec::new();
    // An entry point precedes the words after the image.
    argv.extend(options.values(&["entrypoint"]).last().cloned());
    argv.extend_from_slice(args_from(&options.operands, 1));
    let image_unknown = options.operands.first().is_some_and(|image| image.as_known().is_none());
    add_host_access(CommandAnalysis::opaque().with_command(&argv), &options)
        .mark_guess_if(options.uncertain || image_unknown)
}

/// Adds the parts of this machine that the container can access.
fn add_host_access(
    mut analysis: CommandAnalysis,
    options: &ParsedArguments<'_>,
) -> CommandAnalysis {
    for volume in options.values(&["v", "volume"]) {
        analysis = add_volume(analysis, volume);
    }
    for mount in options.values(&["mount"]) {
        analysis = match parse_mount_source(mount) {
            Some(source) => mark_whole_machine(
                analysis.with_recursive_touch(FileAccess::Write, &source),
                &source,
            ),
            None if mount.known_prefix().contains("type=volume") => analysis,
            None if mount.known_prefix().contains("type=tmpfs") => analysis,
            None => analysis.with_caution("what it mounts is not known"),
        };
    }
    analysis =
        analysis.with_touches(FileAccess::Read, &options.all_values(&["env-file", "label-file"]));
    analysis = analysis.with_touches(FileAccess::Write, &options.all_values(&["cidfile"]));
    let shares = options
        .values(&["pid", "ipc", "userns", "network", "net", "uts", "cgroupns"])
        .any(|value| value.as_known() == Some("host"));
    let unconfined = options
        .values(&["security-opt"])
        .any(|value| value.known_prefix().contains("unconfined") || value.as_known().is_none());
    analysis
        .with_caution_if(
            options.has(&["privileged", "cap-add", "device", "volumes-from"]) || unconfined,
            "the container gets powers over this machine",
        )
        .with_caution_if(shares, "the container shares this machine's namespaces")
}

fn add_volume(analysis: CommandAnalysis, volume: &ShellArg) -> CommandAnalysis {
    let start = volume.known_prefix();
    let Some(text) = volume.as_known() else {
        let path = start.split(':').next().unwrap_or(start);
        if start.contains(':') && path.starts_with(['/', '.', '~']) {
            return mark_whole_machine(
                analysis.with_recursive_touch(FileAccess::Write, &ShellArg::known(path)),
                &ShellArg::known(path),
            );
        }
        return analysis.with_recursive_touch(FileAccess::Write, volume);
    };
    let mut parts = text.split(':');
    let source = parts.next().unwrap_or_default();
    let read_only = parts.nth(1).is_some_and(|flags| flags.split(',').any(|flag| flag == "ro"));
    // A name without a path is a volume managed by docker.
    if !text.contains(':') || !source.starts_with(['/', '.', '~']) {
        return analysis;
    }
    let access = if read_only { FileAccess::Read } else { FileAccess::Write };
    let source = ShellArg::known(source);
    mark_whole_machine(analysis.with_recursive_touch(access, &source), &source)
}

fn mark_whole_machine(analysis: CommandAnalysis, source: &ShellArg) -> CommandAnalysis {
    let path = source.known_prefix().trim_end_matches(['/', '.']);
    let socket = path.ends_with(".sock");
    let root = path.is_empty()
        || words!("/etc /dev /proc /sys /root /home /var /usr /run /var/run /boot").contains(&path);
    let root = root && source.known_prefix().starts_with('/');
    analysis
        .with_caution_if(
            root && source.as_known().is_some(),
            "it mounts what belongs to this whole machine",
        )
        .with_caution_if(socket, "it passes on a socket that controls this machine")
}

fn parse_mount_source(mount: &ShellArg) -> Option<ShellArg> {
    let text = mount.as_known()?;
    let field =
        |name: &str| text.split(',').find_map(|part| part.strip_prefix(name)?.strip_prefix('='));
    if !matches!(field("type"), Some("bind")) {
        return None;
    }
    field("source").or_else(|| field("src")).map(ShellArg::known)
}

fn analyze_copy(args: &[ShellArg]) -> CommandAnalysis {
    let options = options!("-aLq archive follow-link quiet").strict().parse(args);
    let here =
        |arg: &ShellArg| !arg.known_prefix().split('/').next().unwrap_or_default().contains(':');
    let mut analysis = CommandAnalysis::opaque().mark_guess_if(options.uncertain);
    if let [source, target, ..] = options.operands.as_slice() {
        if here(source) {
            analysis = analysis.with_recursive_touch(FileAccess::Read, source);
        }
        if here(target) {
            analysis = analysis.with_recursive_touch(FileAccess::Write, target);
        }
    }
    analysis
}

fn analyze_compose(args: &[ShellArg]) -> CommandAnalysis {
    let globals = COMPOSE_GLOBALS.until_operand().parse(args);
    let analysis = match known_text(globals.operands.first()) {
        "exec" | "run" => analyze_container_command(args_from(&globals.operands, 1)),
        _ => CommandAnalysis::opaque(),
    };
    analysis
        .with_touches(FileAccess::Read, &globals.all_values(&["f", "file", "env-file"]))
        .mark_guess_if(globals.uncertain)
}

/// `kubectl exec pod -c container -- command`: the command follows `--`, in old versions directly
/// the pod.
fn analyze_after_dashes(args: &[ShellArg], verbs: &[&str]) -> Option<CommandAnalysis> {
    let end = args.iter().position(|arg| arg.as_known() == Some("--"));
    let before = args.get(..end.unwrap_or(args.len())).unwrap_or_default();
    let at =
        before.iter().position(|arg| arg.as_known().is_some_and(|verb| verbs.contains(&verb)))?;
    let analysis = CommandAnalysis::opaque();
    Some(match end {
        Some(end) => analysis.with_command(args_from(args, end + 1)),
        None => {
            // Without `--`, the start of the command depends on the options.
            let words = args_from(before, at + 2);
            let starts = words.iter().position(|arg| !arg.may_be_option());
            let argv = starts.map_or(&[] as &[ShellArg], |at| args_from(words, at));
            let flags = words.iter().any(ShellArg::may_be_option);
            analysis.with_command(argv).mark_guess_if(flags && !argv.is_empty())
        }
    })
}

fn analyze_machinectl(args: &[ShellArg]) -> Option<CommandAnalysis> {
    let at = args.iter().position(|arg| arg.as_known() == Some("shell"))?;
    let options = options!("-q -EM: uid: setenv: machine: quiet")
        .strict()
        .until_operand()
        .parse(args_from(args, at + 1));
    Some(
        CommandAnalysis::opaque()
            .with_command(args_from(&options.operands, 1))
            .mark_guess_if(options.uncertain),
    )
}

#[cfg(test)]
mod tests {
    use super::super::analysis_text::check;

    #[test]
    fn container_command_is_found() {
        check("docker exec -it c rm -rf x", "program runs[rm -rf x]");
        check("docker --host h exec -u 0 c sh -c rm_x", "program runs[sh -c rm x] caution");
        check("docker container exec c rm x", "program runs[rm x]");
        check("podman run --rm -it image rm x", "program runs[rm x]");
        check("docker run --entrypoint rm image -rf x", "program runs[rm -rf x]");
        check("docker run --strange image rm x", "program runs[rm x] unknown");
        check("docker compose -f f exec web rm x", "program read(f) runs[rm x]");
        check("docker-compose run --rm web rm x", "program runs[rm x]");
        check("kubectl -n x exec pod -c a -- rm x", "program runs[rm x]");
        check("kubectl exec pod rm x", "program runs[rm x]");
        check("kubectl get pods", "read-only");
        check("multipass exec vm -- rm x", "program runs[rm x]");
        check("lxc exec c -- rm x", "program runs[rm x]");
        check("machinectl shell me@c /bin/rm x", "program runs[/bin/rm x]");
        check("docker ps", "read-only");
    }

    #[test]
    fn container_mounts_are_recorded_as_touches() {
        check("docker run -v /:/host image ls", "program write(//**) runs[ls] caution");
        check("docker run -v ./a:/a image ls", "program write(./a/**) runs[ls]");
        check("docker run -v ./a:/a:ro image ls", "program read(./a/**) runs[ls]");
        check("docker run -v data:/a image ls", "program runs[ls]");
        check(
            "docker run -v /var/run/docker.sock:/s image",
            "program write(/var/run/docker.sock/**) caution",
        );
        check("docker run --privileged image ls", "program runs[ls] caution");
        check("docker run --pid=host image ls", "program runs[ls] caution");
        check("docker run --mount type=bind,source=/x,target=/y image", "program write(/x/**)");
        check("docker cp f c:/x", "program read(f/**)");
        check("docker cp c:/x f", "program write(f/**)");
    }
}
