//! Irreversible actions: removing, wiping, publishing, tearing down.
//!
//! Checked on every command line, in addition to the program's own table. If an unknown word could
//! make the command critical, the result is a caution, so that no rule allows it by name alone.

mod file_removal;
mod subcommands;

use crate::program::arguments::{args_from, known_text};
use crate::program::command_analysis::CommandAnalysis;
use crate::shell::ShellArg;

use crate::word_list::words;
pub(super) use file_removal::analyze;

/// Whether a command line is critical, or possibly critical.
#[derive(Debug, Default)]
pub(super) struct CriticalFinding {
    pub(super) critical: Option<&'static str>,
    pub(super) caution: Option<String>,
}

impl CriticalFinding {
    fn certain(why: &'static str) -> Self {
        Self { critical: Some(why), caution: None }
    }

    fn possible(why: &str) -> Self {
        Self { critical: None, caution: Some(why.to_owned()) }
    }
}

pub(super) fn assess(name: &str, args: &[ShellArg]) -> CriticalFinding {
    if let Some(CommandAnalysis { critical: Some(why), .. }) = analyze(name, args) {
        return CriticalFinding::certain(why);
    }
    if let Some(why) = always_critical_reason(name, args) {
        return CriticalFinding::certain(why);
    }
    match name {
        "kill" => assess_kill(args),
        "fuser" => assess_option(args, 'k', "kill", "ends every process that uses a file"),
        "umount" => assess_option(args, 'a', "all", "takes away every file system"),
        "chmod" | "chown" | "chgrp" | "setfacl" | "chflags" | "chattr" => assess_permissions(args),
        "psql" | "mysql" | "mariadb" | "sqlite3" | "sqlcmd" | "clickhouse-client" | "duckdb"
        | "cockroach" | "mongo" | "mongosh" | "redis-cli" | "valkey-cli" | "cqlsh" | "bq"
        | "snowsql" => assess_database(args),
        _ => subcommands::assess(name, args),
    }
}

/// Programs that are critical with any arguments.
fn always_critical_reason(name: &str, args: &[ShellArg]) -> Option<&'static str> {
    let lists = !args.is_empty()
        && args.iter().all(|arg| {
            matches!(arg.as_known(), Some("-l" | "--list" | "--help" | "-V" | "--version"))
        });
    if lists {
        return None;
    }
    let stem = name.split('.').next().unwrap_or(name);
    Some(match stem {
        // Scripts that format source code have this name, too.
        "format" if !matches!(name, "format" | "format.com") || !args.iter().any(may_be_disk) => {
            return None;
        }
        "format" | "mkfs" | "mke2fs" | "newfs" | "wipefs" | "fdisk" | "parted" | "sfdisk"
        | "gdisk" | "sgdisk" | "cfdisk" | "mkswap" | "blkdiscard" | "hdparm" | "cryptsetup"
        | "lvremove" | "vgremove" | "pvremove" | "mdadm" | "nvme" => "changes a disk itself",
        "shutdown" | "reboot" | "halt" | "poweroff" => "stops the machine",
        "killall" | "killall5" | "pkill" | "skill" => "ends every process of a name",
        "userdel" | "groupdel" | "deluser" | "delgroup" | "passwd" | "chpasswd" | "usermod"
        | "visudo" => "changes who may use the machine",
        "dropdb" | "dropuser" => "removes a database or its user",
        "ansible-playbook" => "changes other machines",
        "rimraf" | "trash-empty" | "bleachbit" => "removes files recursively",
        _ => return None,
    })
}

/// Whether an argument is a drive or a device.
fn may_be_disk(arg: &ShellArg) -> bool {
    let is_disk =
        |text: &str| text.starts_with("/dev/") || (text.len() == 2 && text.ends_with(':'));
    arg.as_known().is_none_or(is_disk)
}

/// Critical with an option, given as a letter in a cluster or by its long name.
fn assess_option(
    args: &[ShellArg],
    letter: char,
    long: &str,
    why: &'static str,
) -> CriticalFinding {
    let argument = |arg: &ShellArg| {
        let start = arg.known_prefix();
        match start.strip_prefix("--") {
            Some(name) => !name.is_empty() && long.starts_with(name),
            None => start.starts_with('-') && start.contains(letter),
        }
    };
    if args.iter().any(argument) {
        return CriticalFinding::certain(why);
    }
    if args.iter().any(|arg| arg.as_known().is_none() && arg.may_be_option()) {
        return CriticalFinding::possible("an argument that is not known may decide what it does");
    }
    CriticalFinding::default()
}

/// `kill -9 -1` ends all processes.
fn assess_kill(args: &[ShellArg]) -> CriticalFinding {
    // The first argument may be a signal; the following ones are not.
    let rest = args_from(args, 1);
    // Process 1 is the ancestor of all others.
    let all = |arg: &ShellArg| matches!(arg.as_known(), Some("-1" | "0" | "1"));
    let first_is_target = matches!(known_text(args.first()), "0" | "1");
    let everything = rest.iter().enumerate().any(|(at, arg)| {
        // `-s 0` and `-n 0` name a signal, and `-l 1` prints the name of one.
        let names_signal = at == 0 && matches!(known_text(args.first()), "-s" | "-n" | "-l" | "-L");
        all(arg) && !names_signal
    });
    if everything || first_is_target {
        return CriticalFinding::certain("ends every process there is");
    }
    CriticalFinding::default()
}

/// Permissions of a whole tree, or of the root folder.
fn assess_permissions(args: &[ShellArg]) -> CriticalFinding {
    let options: Vec<&ShellArg> =
        args.iter().take_while(|arg| arg.as_known() != Some("--")).collect();
    let recursive = options.iter().any(|arg| {
        let start = arg.known_prefix();
        match start.strip_prefix("--") {
            Some(long) => !long.is_empty() && "recursive".starts_with(long),
            None => start.starts_with('-') && start.contains('R'),
        }
    });
    let root = args.iter().any(|arg| {
        let text = known_text(Some(arg));
        text.starts_with('/') && text.bytes().filter(|byte| *byte == b'/').count() <= 1
            || matches!(text, "~" | "~/")
    });
    if recursive {
        return CriticalFinding::certain("changes the permissions of everything beneath a folder");
    }
    if root {
        return CriticalFinding::certain("changes the permissions of a system folder");
    }
    let open =
        options.iter().any(|arg| matches!(arg, ShellArg::Unknown { .. }) && arg.may_be_option());
    if open {
        CriticalFinding::possible("an argument may be `-R`")
    } else {
        CriticalFinding::default()
    }
}

/// Statements that remove data, anywhere in the arguments.
fn assess_database(args: &[ShellArg]) -> CriticalFinding {
    const REMOVING_STATEMENTS: &[&str] = words!(
        "drop truncate delete flushall flushdb dropdatabase deletemany deleteone remove alter rm"
    );
    let removes = args.iter().any(|arg| {
        let text = arg.to_string().to_ascii_lowercase();
        text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
            .any(|word| REMOVING_STATEMENTS.contains(&word))
    });
    if removes {
        return CriticalFinding::certain("removes data from a database");
    }
    if args.iter().any(|arg| arg.as_known().is_none()) {
        return CriticalFinding::possible("a statement that is not known may remove data");
    }
    CriticalFinding::default()
}

#[cfg(test)]
mod tests {
    use super::super::analysis_text::check;

    #[test]
    fn process_and_machine_commands_are_critical() {
        check("kill 123", "program");
        check("kill -9 123", "program");
        check("kill -9 -1", "program critical");
        check("kill -9 1", "program critical");
        check("kill -l 1", "program");
        check("kill -s 1 123", "program");
        check("kill -s KILL -- -1", "program critical");
        check("kill -KILL -1", "program critical");
        check("killall node", "program critical");
        check("pkill -f x", "program critical");
        check("shutdown -h now", "program critical");
        check("systemctl --now reboot", "program critical");
        check("systemctl status x", "read-only");
        check("init 0", "program critical");
        check("mkfs.ext4 /dev/sda", "program critical");
        check("format /dev/sda", "program critical");
        check("format.com C:", "program critical");
        check("format --help", "program");
        check("format", "program");
        check("./scripts/format.sh src", "program");
        check("format src/a.rs", "program");
        check("fdisk /dev/sda", "program critical");
        check("fdisk -l", "program");
    }

    #[test]
    fn permission_changes_are_critical() {
        check("chmod -R 777 x", "files write(x/**) critical");
        check("chmod --rec 777 x", "files write(x/**) critical");
        check("chmod -vR 777 x", "files write(x/**) critical");
        check("chmod 777 /", "files write(/) critical");
        check("chmod +x f", "files write(f)");
        check("chown -R me x", "program write(x/**) critical");
        check("chmod $X f", "files write(f) caution");
    }

    #[test]
    fn database_removals_are_critical() {
        check("psql -c drop_table_x", "program critical");
        check("psql -c select_1", "program");
        check("psql -c $X", "program caution");
        check("redis-cli -n 1 FLUSHALL", "program critical");
        check("dropdb x", "program critical");
    }
}
