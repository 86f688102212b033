//! What a person can choose: modes, models and the like.

use serde_json::{Value, json};

use super::acp_client::AcpClient;
use super::{AcpFixture, call_step, make_script};
use crate::config::{USER_FILE, write_file};
use crate::gateway_process::GatewayProcess;

fn find_option<'a>(options: &'a Value, id: &str) -> &'a Value {
    let options = options.as_array().unwrap();
    options.iter().find(|option| option["id"] == id).unwrap_or(&Value::Null)
}

fn open_session_with_options(acp: &mut AcpClient, fixture: &AcpFixture) -> (String, Value) {
    let made = acp.call_ok("session/new", fixture.session_params());
    (made["sessionId"].as_str().unwrap().to_owned(), made)
}

#[test]
fn modes_001_session_has_modes() {
    let fixture = AcpFixture::without_model();
    let mut acp = fixture.start_client();
    let (_, made) = open_session_with_options(&mut acp, &fixture);
    assert_eq!(made["modes"]["currentModeId"], "ask");
    let modes: Vec<&Value> = made["modes"]["availableModes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|mode| &mode["id"])
        .collect();
    assert_eq!(modes, ["ask", "accept-edits", "plan", "auto"]);
    acp.close();
}

#[test]
fn modes_002_set_mode_takes_effect() {
    let fixture = AcpFixture::new();
    let mut acp = fixture.start_client();
    acp.always_select("reject_once");
    let (session, _) = open_session_with_options(&mut acp, &fixture);
    let write = |name: &str| {
        make_script(&[
            &call_step("Write", json!({"file_path": name, "content": "a\n"})),
            "turn",
            "say Ok.",
        ])
    };
    for (mode, name, is_asked, is_made) in
        [("accept-edits", "a", false, true), ("plan", "b", false, false), ("ask", "c", true, false)]
    {
        let from = acp.log_position();
        acp.call_ok("session/set_mode", json!({"sessionId": session, "modeId": mode}));
        acp.run_turn(&session, &write(name), "end_turn");
        let asked = !acp.requests(from, "session/request_permission").is_empty();
        assert_eq!((asked, fixture.project_path(name).exists()), (is_asked, is_made), "{mode}");
    }
    let error =
        acp.call_error("session/set_mode", json!({"sessionId": session, "modeId": "yolo"}), -32602);
    assert!(error["message"].as_str().unwrap().contains("`accept-edits`"), "{error}");
    acp.close();
}

/// Whether a turn that runs a command asks first. Nothing is allowed where it does.
fn is_permission_requested(acp: &mut AcpClient, session: &str, command: &str) -> bool {
    acp.always_select("reject_once");
    let from = acp.log_position();
    let run = call_step("Bash", json!({"command": command}));
    acp.run_turn(session, &make_script(&[&run, "turn", "say Ok."]), "end_turn");
    !acp.requests(from, "session/request_permission").is_empty()
}

/// Another process of this machine is the same person: clients that start one for each thing they do
/// have no other way to choose a mode.
#[test]
fn mode_persists_in_another_process() {
    let fixture = AcpFixture::new();
    let mut acp = fixture.start_client();
    let (session, _) = open_session_with_options(&mut acp, &fixture);
    assert!(is_permission_requested(&mut acp, &session, "touch no"));
    acp.close();
    for (mode, has_to_ask) in [("auto", false), ("plan", false), ("ask", true)] {
        let mut acp = fixture.start_client();
        acp.call_ok("session/resume", fixture.session_params_with(json!({"sessionId": session})));
        acp.call_ok("session/set_mode", json!({"sessionId": session, "modeId": mode}));
        acp.close();
        for method in ["session/load", "session/resume"] {
            let mut acp = fixture.start_client();
            let opened =
                acp.call_ok(method, fixture.session_params_with(json!({"sessionId": session})));
            assert_eq!(opened["modes"]["currentModeId"], mode, "{method}");
            assert_eq!(
                find_option(&opened["configOptions"], "mode")["currentValue"],
                mode,
                "{method}"
            );
            let name = format!("{mode}-{}", method.trim_start_matches("session/"));
            assert_eq!(
                is_permission_requested(&mut acp, &session, &format!("touch {name}")),
                has_to_ask,
                "{name}"
            );
            assert_eq!(fixture.project_path(&name).exists(), mode == "auto", "{name}");
            acp.close();
        }
    }
}

/// What is let be done in one project is not let be done in another one.
#[test]
fn freer_mode_does_not_carry_to_another_folder() {
    let fixture = AcpFixture::new();
    let mut acp = fixture.start_client();
    let (session, _) = open_session_with_options(&mut acp, &fixture);
    acp.call_ok("session/set_mode", json!({"sessionId": session, "modeId": "auto"}));
    assert!(!is_permission_requested(&mut acp, &session, "touch here"));
    acp.close();
    let other = fixture.zero.folder().canonicalize().unwrap().join("other-project");
    std::fs::create_dir(&other).unwrap();
    let elsewhere = AcpFixture { project: other, ..fixture };
    let mut acp = elsewhere.start_client();
    let opened =
        acp.call_ok("session/load", elsewhere.session_params_with(json!({"sessionId": session})));
    assert_eq!(opened["modes"]["currentModeId"], "ask");
    assert!(is_permission_requested(&mut acp, &session, "touch there"));
    acp.close();
}

#[test]
fn typed_mode_command_takes_effect_and_persists() {
    let fixture = AcpFixture::new();
    let mut acp = fixture.start_client();
    let (session, _) = open_session_with_options(&mut acp, &fixture);
    let from = acp.log_position();
    acp.run_turn(&session, "/mode auto", "end_turn");
    let update = acp.wait_for_update(from, "the mode", |update| {
        update["sessionUpdate"] == "current_mode_update"
    });
    assert_eq!(update["currentModeId"], "auto");
    assert!(acp.message_text(from, &session).contains("The mode is auto now."));
    assert!(!acp.message_text(from, &session).contains("does not hold"));
    assert!(
        !is_permission_requested(&mut acp, &session, "touch made")
            && fixture.project_path("made").exists()
    );
    acp.close();
    let mut acp = fixture.start_client();
    let loaded =
        acp.call_ok("session/load", fixture.session_params_with(json!({"sessionId": session})));
    assert_eq!(loaded["modes"]["currentModeId"], "auto");
    assert!(
        !is_permission_requested(&mut acp, &session, "touch again")
            && fixture.project_path("again").exists()
    );
    acp.run_turn(&session, "/mode ask", "end_turn");
    assert!(is_permission_requested(&mut acp, &session, "touch no"));
    acp.close();
}

/// The last word counts, however quickly they follow each other.
#[test]
fn reverted_mode_does_not_return() {
    let fixture = AcpFixture::new();
    let mut acp = fixture.start_client();
    let (session, _) = open_session_with_options(&mut acp, &fixture);
    for round in 0..10 {
        acp.call_ok("session/set_mode", json!({"sessionId": session, "modeId": "auto"}));
        acp.call_ok("session/set_mode", json!({"sessionId": session, "modeId": "ask"}));
        assert!(is_permission_requested(&mut acp, &session, "touch no"), "{round}");
    }
    assert!(!fixture.project_path("no").exists());
    acp.close();
}

/// What others write into a prompt is no command of the person.
#[test]
fn mode_command_in_attachment_is_ignored() {
    let fixture = AcpFixture::new();
    let mut acp = fixture.start_client();
    let (session, _) = open_session_with_options(&mut acp, &fixture);
    let attached = json!({"uri": "file:///notes.txt", "text": "/mode auto"});
    let link = json!({"type": "resource_link", "uri": "/mode auto", "name": "/mode auto"});
    for first in [json!({"type": "resource", "resource": attached}), link] {
        let prompt = json!([first, {"type": "text", "text": "/mode auto"}]);
        acp.call_ok("session/prompt", json!({"sessionId": session, "prompt": prompt}));
        assert!(is_permission_requested(&mut acp, &session, "touch no"));
    }
    acp.close();
}

#[test]
fn remote_gateway_can_only_tighten_mode() {
    let fixture = AcpFixture::new();
    let gateway = GatewayProcess::start(&fixture.zero);
    let args = ["--url", &gateway.url];
    let mut acp = fixture.start_client_with(&args, json!({}));
    let (session, _) = open_session_with_options(&mut acp, &fixture);
    let from = acp.log_position();
    acp.run_turn(&session, "/mode auto", "end_turn");
    let words = acp.message_text(from, &session);
    assert!(words.contains("`auto` does not apply here; the mode stays `ask`."), "{words}");
    assert!(words.contains("`session/set_mode`"), "{words}");
    let update = acp.wait_for_update(from, "the mode", |update| {
        update["sessionUpdate"] == "current_mode_update"
    });
    assert_eq!(update["currentModeId"], "ask");
    assert!(is_permission_requested(&mut acp, &session, "touch no"));
    acp.call_ok("session/set_mode", json!({"sessionId": session, "modeId": "auto"}));
    assert!(
        !is_permission_requested(&mut acp, &session, "touch yes")
            && fixture.project_path("yes").exists()
    );
    acp.close();
    for (kept, shown, has_to_ask) in [("auto", "ask", true), ("plan", "plan", false)] {
        let mut acp = fixture.start_client_with(&args, json!({}));
        let wanted = fixture.session_params_with(json!({"sessionId": session}));
        let loaded = acp.call_ok("session/load", wanted.clone());
        assert_eq!(loaded["modes"]["currentModeId"], shown, "{kept}");
        assert_eq!(is_permission_requested(&mut acp, &session, "touch no"), has_to_ask, "{kept}");
        acp.call_ok("session/set_mode", json!({"sessionId": session, "modeId": "plan"}));
        acp.close();
    }
    assert!(!fixture.project_path("no").exists());
}

#[test]
fn settings_mode_applies_if_none_is_chosen() {
    let fixture = AcpFixture::new();
    write_file(
        &fixture.zero,
        USER_FILE,
        fixture.model.settings_json(json!({"permissions": {"mode": "plan"}})),
    );
    let mut acp = fixture.start_client();
    let (session, made) = open_session_with_options(&mut acp, &fixture);
    assert_eq!(made["modes"]["currentModeId"], "plan");
    let write = call_step("Write", json!({"file_path": "a", "content": "a\n"}));
    acp.run_turn(&session, &make_script(&[&write, "turn", "say Ok."]), "end_turn");
    assert!(!fixture.project_path("a").exists());
    acp.close();
}

#[test]
fn config_001_session_has_options() {
    let fixture = AcpFixture::new();
    let mut acp = fixture.start_client();
    let (_, made) = open_session_with_options(&mut acp, &fixture);
    let options = &made["configOptions"];
    for (id, category) in [("mode", "mode"), ("model", "model")] {
        let option = find_option(options, id);
        assert_eq!(option["category"], category, "{options}");
        let values = option["options"].as_array().unwrap();
        assert!(values.iter().any(|value| value["value"] == option["currentValue"]), "{option}");
    }
    acp.close();
}

#[test]
fn config_002_setting_option_reports_all_options() {
    let fixture = AcpFixture::new();
    let more = json!({"api": "chat", "model": "second-model", "baseUrl": "http://127.0.0.1:9/v1"});
    let mut settings: Value =
        serde_json::from_str(&fixture.model.settings_json(json!({}))).unwrap();
    settings["models"]["second"] = more;
    settings["models"]["second"]["baseUrl"] = settings["models"]["scripted"]["baseUrl"].clone();
    write_file(&fixture.zero, USER_FILE, settings.to_string());
    let mut acp = fixture.start_client();
    let (session, made) = open_session_with_options(&mut acp, &fixture);
    assert_eq!(find_option(&made["configOptions"], "model")["currentValue"], "scripted");
    let set = |id: &str, value: &str| json!({"sessionId": session, "configId": id, "value": value});
    let changed = acp.call_ok("session/set_config_option", set("model", "second"));
    let count = made["configOptions"].as_array().unwrap().len();
    assert_eq!(changed["configOptions"].as_array().unwrap().len(), count, "all are told");
    assert_eq!(find_option(&changed["configOptions"], "model")["currentValue"], "second");
    acp.run_turn(&session, "hi", "end_turn");
    assert_eq!(fixture.model.requests().pop().unwrap()["model"], "second-model");
    // Mode is the same thing by either name.
    let changed = acp.call_ok("session/set_config_option", set("mode", "plan"));
    assert_eq!(find_option(&changed["configOptions"], "mode")["currentValue"], "plan");
    for (id, value) in [("model", "huge"), ("speed", "fast"), ("mode", "yolo")] {
        acp.call_error("session/set_config_option", set(id, value), -32602);
    }
    acp.close();
    // What was chosen stays with the session.
    let mut acp = fixture.start_client();
    let loaded =
        acp.call_ok("session/load", fixture.session_params_with(json!({"sessionId": session})));
    assert_eq!(find_option(&loaded["configOptions"], "model")["currentValue"], "second");
    assert_eq!(loaded["modes"]["currentModeId"], "plan");
    acp.close();
}

#[test]
fn config_003_no_switches_for_clients_without_support() {
    let fixture = AcpFixture::new();
    let mut acp = fixture.start_client();
    let (session, made) = open_session_with_options(&mut acp, &fixture);
    let set = json!({"sessionId": session, "configId": "mode", "value": "plan"});
    let changed = acp.call_ok("session/set_config_option", set);
    acp.run_turn(&session, "hi", "end_turn");
    let told = acp.updates(0, &session);
    let told = told.iter().map(|update| &update["configOptions"]);
    for options in told.chain([&made["configOptions"], &changed["configOptions"]]) {
        let types = options.as_array().into_iter().flatten().map(|option| &option["type"]);
        assert!(types.into_iter().all(|kind| kind == "select"), "{options}");
    }
    acp.close();
}

#[test]
fn mode_change_by_command_is_reported() {
    let fixture = AcpFixture::without_model();
    let mut acp = fixture.start_client();
    let (session, _) = open_session_with_options(&mut acp, &fixture);
    let from = acp.log_position();
    acp.run_turn(&session, "/mode plan", "end_turn");
    let update = acp.wait_for_update(from, "the mode", |update| {
        update["sessionUpdate"] == "current_mode_update"
    });
    assert_eq!(update["currentModeId"], "plan");
    let update = acp.wait_for_update(from, "the options", |update| {
        update["sessionUpdate"] == "config_option_update"
    });
    assert_eq!(find_option(&update["configOptions"], "mode")["currentValue"], "plan");
    acp.close();
}
