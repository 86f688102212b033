//! Tools that are added, replaced and removed.

use std::sync::Arc;

use serde_json::json;
use tokio::sync::broadcast::error::TryRecvError;
use zero_core::{ErrorReason, RiskLevel, ToolName};
use zero_runtime::{
    AnyTool, Dialect, DialectName, MissingTool, RegistryChange, ToolRegistry, ToolVisibility, erase,
};

use crate::fixture::{HostFixture, PuppetTool};

#[tokio::test]
async fn tool_changes_are_announced() {
    let fixture = HostFixture::new();
    let registry = fixture.host.registry();
    let mut changes = registry.subscribe();
    registry.add("server", vec![erase(PuppetTool::<'s'>::new())]).unwrap();
    assert!(fixture.call("Spare", json!({"act": "work"})).await.outcome.is_ok());
    registry.remove_source("server");
    let error = fixture.call("Spare", json!({"act": "work"})).await.outcome.unwrap_err();
    assert_eq!(error.reason(), Some(ErrorReason::UnknownTool));

    let (added, removed) = (changes.recv().await.unwrap(), changes.recv().await.unwrap());
    assert_eq!((added.source.as_str(), added.added[0].as_str()), ("server", "Spare"));
    assert_eq!((removed.removed[0].as_str(), removed.version), ("Spare", added.version + 1));
    registry.remove_source("nobody");
    assert!(changes.try_recv().is_err(), "nothing changed");
}

#[tokio::test]
async fn call_of_missing_tool_says_how_to_get_it() {
    let fixture = HostFixture::new();
    let advice = "this build has no spare tools";
    fixture.host.registry().add_missing(&[MissingTool { name: "Spare", advice }]);
    let error = fixture.call("Spare", json!({})).await.outcome.unwrap_err();
    assert_eq!(error.reason(), Some(ErrorReason::UnknownTool));
    assert_eq!(error.message, format!("there is no tool `Spare`; {advice}"));
    let dialect = Dialect::new(DialectName::Qwen);
    let registry = ToolRegistry::default();
    registry.add_missing(&[MissingTool { name: "WebFetch", advice }]);
    assert_eq!(dialect.missing_advice(&registry, "web_fetch"), Some(advice));
    assert_eq!(dialect.missing_advice(&registry, "read_file"), None);
}

#[test]
fn taken_name_rejects_whole_source() {
    let fixture = HostFixture::new();
    let registry = fixture.host.registry();
    let error = registry
        .add("server", vec![erase(PuppetTool::<'s'>::new()), erase(PuppetTool::<'p'>::new())])
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "`server` cannot register `Puppet` (of `builtin`): the name is taken"
    );
    assert!(registry.get("Spare").is_none());
    let twice = registry
        .add("server", vec![erase(PuppetTool::<'s'>::new()), erase(PuppetTool::<'s'>::new())]);
    assert!(twice.is_err());
}

#[tokio::test]
async fn running_call_keeps_its_tool() {
    let fixture = HostFixture::new();
    let call = fixture.call("Puppet", json!({"act": "work", "millis": 30}));
    let (report, ()) = tokio::join!(call, async { fixture.host.registry().remove("Puppet") });
    assert!(report.outcome.is_ok());
}

fn puppet_tool(risk: RiskLevel) -> Arc<dyn AnyTool> {
    erase(PuppetTool::<'p'> { risk, ..PuppetTool::new() })
}

fn spare_tool() -> Arc<dyn AnyTool> {
    erase(PuppetTool::<'s'>::new())
}

/// A registry, and the changes it announced so far.
struct RegistryListener {
    registry: ToolRegistry,
    changes: tokio::sync::broadcast::Receiver<RegistryChange>,
}

impl RegistryListener {
    fn new() -> Self {
        let registry = ToolRegistry::default();
        Self { changes: registry.subscribe(), registry }
    }

    #[track_caller]
    fn check(&mut self, expected: &[&str]) {
        let mut listener = Vec::new();
        loop {
            let RegistryChange { source, added, removed, changed, .. } =
                match self.changes.try_recv() {
                    Ok(change) => change,
                    Err(TryRecvError::Empty) => break,
                    Err(error) => panic!("{error}"),
                };
            for (sign, names) in [('+', added), ('-', removed), ('~', changed)] {
                listener.extend(names.iter().map(|name| format!("{source}{sign}{name}")));
            }
        }
        assert_eq!(listener, expected);
    }

    fn visibility(&self, name: &str) -> Option<ToolVisibility> {
        self.registry.get(name).map(|tool| tool.shown)
    }
}

#[test]
fn source_tools_are_replaced_atomically() {
    let mut listener = RegistryListener::new();
    let replace = |listener: &RegistryListener, source: &str, tools: Vec<Arc<dyn AnyTool>>| {
        let tools = tools.into_iter().map(|tool| (tool, ToolVisibility::Always)).collect();
        let homeless = listener.registry.replace(source, tools);
        homeless.iter().map(|tool| tool.spec().name.to_string()).collect::<Vec<_>>()
    };
    assert!(replace(&listener, "a", vec![puppet_tool(RiskLevel::Low)]).is_empty());
    listener.check(&["a+Puppet"]);
    // The same tool again is not a change; another tool of the same name is.
    replace(&listener, "a", vec![puppet_tool(RiskLevel::Low)]);
    listener.check(&[]);
    replace(&listener, "a", vec![puppet_tool(RiskLevel::High), spare_tool()]);
    listener.check(&["a+Spare", "a~Puppet"]);
    assert_eq!(listener.registry.get("Puppet").unwrap().tool.spec().risk, RiskLevel::High);
    // A name stays with its source, and with the first of two.
    assert_eq!(
        replace(&listener, "b", vec![spare_tool(), puppet_tool(RiskLevel::Low)]),
        ["Spare", "Puppet"]
    );
    listener.check(&[]);
    assert_eq!(replace(&listener, "a", vec![spare_tool(), spare_tool()]), ["Spare"]);
    listener.check(&["a-Puppet"]);
    assert!(replace(&listener, "b", vec![puppet_tool(RiskLevel::Low)]).is_empty());
    listener.check(&["b+Puppet"]);
    replace(&listener, "a", Vec::new());
    listener.check(&["a-Spare"]);
    assert_eq!(listener.registry.get("Puppet").unwrap().source, "b");
    assert_eq!(listener.registry.version(), 5);
}

#[test]
fn revealed_tool_stays_visible() {
    let mut listener = RegistryListener::new();
    let names = ["Puppet", "Nobody"].map(|name| ToolName::new(name).unwrap());
    let wait = |listener: &RegistryListener, risk| {
        listener.registry.replace(
            "a",
            vec![
                (puppet_tool(risk), ToolVisibility::WhenFound),
                (spare_tool(), ToolVisibility::WhenFound),
            ],
        )
    };
    wait(&listener, RiskLevel::Low);
    assert_eq!(listener.visibility("Puppet"), Some(ToolVisibility::WhenFound));
    listener.check(&["a+Puppet", "a+Spare"]);
    listener.registry.reveal(&names);
    assert_eq!(listener.visibility("Puppet"), Some(ToolVisibility::Always));
    assert_eq!(listener.visibility("Spare"), Some(ToolVisibility::WhenFound));
    listener.check(&["a~Puppet"]);
    // Revealing again has no effect.
    listener.registry.reveal(&names);
    listener.check(&[]);
    wait(&listener, RiskLevel::High);
    assert_eq!(listener.visibility("Puppet"), Some(ToolVisibility::Always));
    listener.check(&["a~Puppet"]);
    // A tool that was removed and added again must be found again.
    listener.registry.replace("a", Vec::new());
    wait(&listener, RiskLevel::High);
    assert_eq!(listener.visibility("Puppet"), Some(ToolVisibility::WhenFound));
}

#[tokio::test]
async fn hidden_tool_can_be_called() {
    let fixture = HostFixture::new();
    fixture.host.registry().replace("server", vec![(spare_tool(), ToolVisibility::WhenFound)]);
    assert!(fixture.call("Spare", json!({"act": "work"})).await.outcome.is_ok());
    assert_eq!(spare_tool().claims(), Vec::<String>::new());
}
