//! What a person can choose: modes, models and the like.

use serde_json::{Value, json};

use super::client::Acp;
use super::{Desk, call, script};
use crate::config::{USER, write};

fn option<'a>(options: &'a Value, id: &str) -> &'a Value {
    let options = options.as_array().unwrap();
    options.iter().find(|option| option["id"] == id).unwrap_or(&Value::Null)
}

fn open(acp: &mut Acp, desk: &Desk) -> (String, Value) {
    let made = acp.ok("session/new", desk.wanted());
    (made["sessionId"].as_str().unwrap().to_owned(), made)
}

#[test]
fn modes_001_a_session_has_modes() {
    let desk = Desk::direct();
    let mut acp = desk.acp();
    let (_, made) = open(&mut acp, &desk);
    assert_eq!(made["modes"]["currentModeId"], "ask");
    let modes: Vec<&Value> = made["modes"]["availableModes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|mode| &mode["id"])
        .collect();
    assert_eq!(modes, ["ask", "accept-edits", "plan", "auto"]);
    acp.leave();
}

#[test]
fn modes_002_a_mode_is_set_and_holds() {
    let desk = Desk::new();
    let mut acp = desk.acp();
    acp.chooses("reject_once");
    let (session, _) = open(&mut acp, &desk);
    let write = |name: &str| {
        script(&[&call("Write", json!({"file_path": name, "content": "a\n"})), "turn", "say Ok."])
    };
    for (mode, name, is_asked, is_made) in
        [("accept-edits", "a", false, true), ("plan", "b", false, false), ("ask", "c", true, false)]
    {
        let from = acp.mark();
        acp.ok("session/set_mode", json!({"sessionId": session, "modeId": mode}));
        acp.turn(&session, &write(name), "end_turn");
        let asked = !acp.asked(from, "session/request_permission").is_empty();
        assert_eq!((asked, desk.file(name).exists()), (is_asked, is_made), "{mode}");
    }
    let error =
        acp.error("session/set_mode", json!({"sessionId": session, "modeId": "yolo"}), -32602);
    assert!(error["message"].as_str().unwrap().contains("`accept-edits`"), "{error}");
    acp.leave();
}

#[test]
fn the_mode_that_is_shown_after_loading_is_the_one_that_holds() {
    let desk = Desk::new();
    let mut acp = desk.acp();
    let (session, _) = open(&mut acp, &desk);
    acp.ok("session/set_mode", json!({"sessionId": session, "modeId": "accept-edits"}));
    acp.turn(&session, "hi", "end_turn");
    acp.leave();
    let mut acp = desk.acp();
    let loaded = acp.ok("session/load", desk.wanted_with(json!({"sessionId": session})));
    let accepts = loaded["modes"]["currentModeId"] == "accept-edits";
    let write = call("Write", json!({"file_path": "a", "content": "a\n"}));
    acp.turn(&session, &script(&[&write, "turn", "say Ok."]), "end_turn");
    let asked = acp.asked(0, "session/request_permission").len();
    assert_eq!(asked, usize::from(!accepts), "{}", loaded["modes"]["currentModeId"]);
    acp.leave();
}

#[test]
fn the_mode_of_the_settings_holds_where_none_is_chosen() {
    let desk = Desk::new();
    write(&desk.zero, USER, desk.model.settings(json!({"permissions": {"mode": "plan"}})));
    let mut acp = desk.acp();
    let (session, made) = open(&mut acp, &desk);
    assert_eq!(made["modes"]["currentModeId"], "plan");
    let write = call("Write", json!({"file_path": "a", "content": "a\n"}));
    acp.turn(&session, &script(&[&write, "turn", "say Ok."]), "end_turn");
    assert!(!desk.file("a").exists());
    acp.leave();
}

#[test]
fn config_001_a_session_has_options() {
    let desk = Desk::new();
    let mut acp = desk.acp();
    let (_, made) = open(&mut acp, &desk);
    let options = &made["configOptions"];
    for (id, category) in [("mode", "mode"), ("model", "model")] {
        let option = option(options, id);
        assert_eq!(option["category"], category, "{options}");
        let values = option["options"].as_array().unwrap();
        assert!(values.iter().any(|value| value["value"] == option["currentValue"]), "{option}");
    }
    acp.leave();
}

#[test]
fn config_002_an_option_is_set_and_all_are_told() {
    let desk = Desk::new();
    let more = json!({"api": "chat", "model": "second-model", "baseUrl": "http://127.0.0.1:9/v1"});
    let mut settings: Value = serde_json::from_str(&desk.model.settings(json!({}))).unwrap();
    settings["models"]["second"] = more;
    settings["models"]["second"]["baseUrl"] = settings["models"]["scripted"]["baseUrl"].clone();
    write(&desk.zero, USER, settings.to_string());
    let mut acp = desk.acp();
    let (session, made) = open(&mut acp, &desk);
    assert_eq!(option(&made["configOptions"], "model")["currentValue"], "scripted");
    let set = |id: &str, value: &str| json!({"sessionId": session, "configId": id, "value": value});
    let changed = acp.ok("session/set_config_option", set("model", "second"));
    let count = made["configOptions"].as_array().unwrap().len();
    assert_eq!(changed["configOptions"].as_array().unwrap().len(), count, "all are told");
    assert_eq!(option(&changed["configOptions"], "model")["currentValue"], "second");
    acp.turn(&session, "hi", "end_turn");
    assert_eq!(desk.model.requests().pop().unwrap()["model"], "second-model");
    // Mode is the same thing by either name.
    let changed = acp.ok("session/set_config_option", set("mode", "plan"));
    assert_eq!(option(&changed["configOptions"], "mode")["currentValue"], "plan");
    for (id, value) in [("model", "huge"), ("speed", "fast"), ("mode", "yolo")] {
        acp.error("session/set_config_option", set(id, value), -32602);
    }
    acp.leave();
    // What was chosen stays with the session.
    let mut acp = desk.acp();
    let loaded = acp.ok("session/load", desk.wanted_with(json!({"sessionId": session})));
    assert_eq!(option(&loaded["configOptions"], "model")["currentValue"], "second");
    assert_eq!(loaded["modes"]["currentModeId"], "plan");
    acp.leave();
}

#[test]
fn config_003_no_switches_for_clients_that_have_none() {
    let desk = Desk::new();
    let mut acp = desk.acp();
    let (session, made) = open(&mut acp, &desk);
    let set = json!({"sessionId": session, "configId": "mode", "value": "plan"});
    let changed = acp.ok("session/set_config_option", set);
    acp.turn(&session, "hi", "end_turn");
    let told = acp.updates(0, &session);
    let told = told.iter().map(|update| &update["configOptions"]);
    for options in told.chain([&made["configOptions"], &changed["configOptions"]]) {
        let types = options.as_array().into_iter().flatten().map(|option| &option["type"]);
        assert!(types.into_iter().all(|kind| kind == "select"), "{options}");
    }
    acp.leave();
}

#[test]
fn a_command_that_changes_the_mode_is_told() {
    let desk = Desk::direct();
    let mut acp = desk.acp();
    let (session, _) = open(&mut acp, &desk);
    let from = acp.mark();
    acp.turn(&session, "/mode plan", "end_turn");
    let update = acp
        .until_update(from, "the mode", |update| update["sessionUpdate"] == "current_mode_update");
    assert_eq!(update["currentModeId"], "plan");
    let update = acp.until_update(from, "the options", |update| {
        update["sessionUpdate"] == "config_option_update"
    });
    assert_eq!(option(&update["configOptions"], "mode")["currentValue"], "plan");
    acp.leave();
}
