//! Properties that cannot be enforced are reported before a command starts.

use zero_sandbox::{NetworkAccess, SandboxProperty};

use crate::attack_lab::{AttackLab, Attacker, SandboxSetup};

#[test]
fn protection_without_mounts_is_refused() {
    let lab = AttackLab::new(Attacker::Me);
    let mut profile = lab.profile(SandboxSetup::Full);
    let answer = lab.attempt_under(SandboxSetup::Direct, &profile, &["threads"]);
    for property in ["attributes", "protected", "masked", "private_tmp"] {
        assert!(answer.contains(&format!("`{property}` cannot be enforced here")), "{answer}");
    }
    assert!(answer.contains("bubblewrap is disabled"), "{answer}");
    use SandboxProperty::{Attributes, Masked, PrivateTmp, Protected};
    profile.weaknesses = vec![Attributes, Protected, Masked, PrivateTmp];
    assert_eq!(lab.attempt_under(SandboxSetup::Direct, &profile, &["threads"]), "ok");
    // Properties that are not given up still hold.
    assert_eq!(
        lab.attempt_under(SandboxSetup::Direct, &profile, &["read", "$/secret/key"]),
        "EACCES"
    );
}

#[test]
fn own_network_needs_namespace() {
    let lab = AttackLab::new(Attacker::Me);
    let mut profile = lab.profile(SandboxSetup::Direct);
    profile.network = NetworkAccess::Loopback;
    let answer = lab.attempt_under(SandboxSetup::Direct, &profile, &["own-loopback"]);
    assert!(answer.contains("`network` cannot be enforced here"), "{answer}");
}

#[test]
fn link_cannot_be_protected() {
    let lab = AttackLab::new(Attacker::Me);
    std::os::unix::fs::symlink("sub", lab.path("ws/linked")).unwrap();
    let mut profile = lab.profile(SandboxSetup::Full);
    profile.protected.push(lab.path("ws/linked"));
    let answer = lab.attempt_under(SandboxSetup::Full, &profile, &["threads"]);
    assert!(answer.contains("is a link, and could be replaced"), "{answer}");
    profile.weaknesses = vec![SandboxProperty::Protected];
    let answer = lab.attempt_under(SandboxSetup::Full, &profile, &["write", "$/ws/sub/file"]);
    assert_eq!(answer, "EROFS", "what it points at is held");
}

#[test]
fn root_cannot_be_writable() {
    let lab = AttackLab::new(Attacker::Me);
    let mut profile = lab.profile(SandboxSetup::Full);
    profile.writable.push("/".into());
    let answer = lab.attempt_under(SandboxSetup::Full, &profile, &["threads"]);
    assert!(answer.contains("`/` cannot be a writable folder"), "{answer}");
}

#[test]
fn innermost_path_access_wins() {
    for who in Attacker::available() {
        let lab = AttackLab::new(*who);
        let mut profile = lab.profile(SandboxSetup::Full);
        profile.masked = vec![lab.path("ws"), lab.path("ws/keys/key")];
        profile.writable = vec![lab.path("ws/sub"), lab.path("ws/keys")];
        let attempt = |words: &[&str]| lab.attempt_under(SandboxSetup::Full, &profile, words);
        assert_eq!(attempt(&["list", "$/ws"]), "ok");
        assert_eq!(attempt(&["read", "$/ws/file"]), "ENOENT");
        assert_eq!(attempt(&["write", "$/ws/file"]), "EROFS");
        assert_eq!(attempt(&["write", "$/ws/sub/file"]), "ok");
        assert_eq!(attempt(&["read", "$/ws/keys/key"]), "EACCES");
    }
}

#[test]
fn relative_path_is_refused() {
    let lab = AttackLab::new(Attacker::Me);
    let mut profile = lab.profile(SandboxSetup::Full);
    profile.protected.push("hooks".into());
    let answer = lab.attempt_under(SandboxSetup::Full, &profile, &["threads"]);
    assert!(answer.contains("`hooks` is not an absolute path"), "{answer}");
}
