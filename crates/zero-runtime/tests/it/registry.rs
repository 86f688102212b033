//! Tools that come and go.

use serde_json::json;
use zero_core::Reason;
use zero_runtime::erase;

use crate::fixture::{Fixture, Puppet};

#[tokio::test]
async fn tools_appear_vanish_and_are_announced() {
    let fixture = Fixture::new();
    let registry = fixture.host.registry();
    let mut changes = registry.changes();
    registry.add("server", vec![erase(Puppet::<'s'>::new())]).unwrap();
    assert!(fixture.call("Spare", json!({"act": "work"})).await.outcome.is_ok());
    registry.remove_source("server");
    let error = fixture.call("Spare", json!({"act": "work"})).await.outcome.unwrap_err();
    assert_eq!(error.reason(), Some(Reason::UnknownTool));

    let (added, removed) = (changes.recv().await.unwrap(), changes.recv().await.unwrap());
    assert_eq!((added.source.as_str(), added.added[0].as_str()), ("server", "Spare"));
    assert_eq!((removed.removed[0].as_str(), removed.version), ("Spare", added.version + 1));
    registry.remove_source("nobody");
    assert!(changes.try_recv().is_err(), "nothing changed");
}

#[test]
fn a_taken_name_refuses_all_of_a_source() {
    let fixture = Fixture::new();
    let registry = fixture.host.registry();
    let error = registry
        .add("server", vec![erase(Puppet::<'s'>::new()), erase(Puppet::<'p'>::new())])
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "`server` cannot bring `Puppet` (of `builtin`): the name is taken"
    );
    assert!(registry.get("Spare").is_none());
    let twice =
        registry.add("server", vec![erase(Puppet::<'s'>::new()), erase(Puppet::<'s'>::new())]);
    assert!(twice.is_err());
}

#[tokio::test]
async fn a_running_call_keeps_its_tool() {
    let fixture = Fixture::new();
    let call = fixture.call("Puppet", json!({"act": "work", "millis": 30}));
    let (report, ()) = tokio::join!(call, async { fixture.host.registry().remove("Puppet") });
    assert!(report.outcome.is_ok());
}
