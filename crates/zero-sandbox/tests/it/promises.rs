//! What cannot be kept is said beforehand.

use zero_sandbox::{Network, Property};

use crate::lab::{Lab, Walls, Who};

#[test]
fn protection_without_mounts_is_refused() {
    let lab = Lab::new(Who::Me);
    let mut profile = lab.profile(Walls::Full);
    let answer = lab.attempt_under(Walls::Direct, &profile, &["threads"]);
    for property in ["protected", "masked", "private_tmp"] {
        assert!(answer.contains(&format!("`{property}` cannot be enforced here")), "{answer}");
    }
    assert!(answer.contains("bubblewrap is switched off"), "{answer}");
    profile.weaknesses = vec![Property::Protected, Property::Masked, Property::PrivateTmp];
    assert_eq!(lab.attempt_under(Walls::Direct, &profile, &["threads"]), "ok");
    // What is not given up still holds.
    assert_eq!(lab.attempt_under(Walls::Direct, &profile, &["read", "$/secret/key"]), "EACCES");
}

#[test]
fn a_network_of_its_own_needs_a_namespace() {
    let lab = Lab::new(Who::Me);
    let mut profile = lab.profile(Walls::Direct);
    profile.network = Network::Loopback;
    let answer = lab.attempt_under(Walls::Direct, &profile, &["own-loopback"]);
    assert!(answer.contains("`network` cannot be enforced here"), "{answer}");
}

#[test]
fn a_link_cannot_be_protected() {
    let lab = Lab::new(Who::Me);
    std::os::unix::fs::symlink("sub", lab.path("ws/linked")).unwrap();
    let mut profile = lab.profile(Walls::Full);
    profile.protected.push(lab.path("ws/linked"));
    let answer = lab.attempt_under(Walls::Full, &profile, &["threads"]);
    assert!(answer.contains("is a link, and could be replaced"), "{answer}");
    profile.weaknesses = vec![Property::Protected];
    let answer = lab.attempt_under(Walls::Full, &profile, &["write", "$/ws/sub/file"]);
    assert_eq!(answer, "EROFS", "what it points at is held");
}

#[test]
fn the_root_is_no_workspace() {
    let lab = Lab::new(Who::Me);
    let mut profile = lab.profile(Walls::Full);
    profile.writable.push("/".into());
    let answer = lab.attempt_under(Walls::Full, &profile, &["threads"]);
    assert!(answer.contains("`/` cannot be a writable folder"), "{answer}");
}
