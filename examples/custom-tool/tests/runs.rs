//! The program does what its README says.
#![expect(clippy::disallowed_methods, reason = "a test runs the program")]

use std::process::Command;

#[test]
fn allowed_call_is_answered_and_other_is_denied() {
    let output = Command::new(env!("CARGO_BIN_EXE_custom-tool")).output().unwrap();
    let (stdout, stderr) =
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert!(output.status.success(), "{stderr}");
    let lines: Vec<&str> = stdout.lines().collect();
    assert_eq!(lines[0], r#"poem.txt: "13 words" {"words":13}"#);
    assert!(lines[1].starts_with("/etc/passwd: "), "{stdout}");
    assert!(lines[1].contains("no user can approve it"), "{stdout}");
    let readme = include_str!("../README.md");
    assert!(readme.contains(stdout.trim_end()), "the README shows another output than\n{stdout}");
}
