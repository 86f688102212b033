//! Tools that come and go.

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
        "`server` cannot bring `Puppet` (of `builtin`): the name is taken"
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

/// A registry, and what it has told so far: what appeared, vanished and changed.
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
        let mut heard = Vec::new();
        loop {
            let RegistryChange { source, added, removed, changed, .. } =
                match self.changes.try_recv() {
                    Ok(change) => change,
                    Err(TryRecvError::Empty) => break,
                    Err(error) => panic!("{error}"),
                };
            for (sign, names) in [('+', added), ('-', removed), ('~', changed)] {
                heard.extend(names.iter().map(|name| format!("{source}{sign}{name}")));
            }
        }
        assert_eq!(heard, expected);
    }

    fn visibility(&self, name: &str) -> Option<ToolVisibility> {
        self.registry.get(name).map(|tool| tool.shown)
    }
}

#[test]
fn source_tools_are_replaced_atomically() {
    let mut heard = RegistryListener::new();
    let replace = |heard: &RegistryListener, source: &str, tools: Vec<Arc<dyn AnyTool>>| {
        let tools = tools.into_iter().map(|tool| (tool, ToolVisibility::Always)).collect();
        let homeless = heard.registry.replace(source, tools);
        homeless.iter().map(|tool| tool.spec().name.to_string()).collect::<Vec<_>>()
    };
    assert!(replace(&heard, "a", vec![puppet_tool(RiskLevel::Low)]).is_empty());
    heard.check(&["a+Puppet"]);
    // The same again is no news, another tool of the same name is.
    replace(&heard, "a", vec![puppet_tool(RiskLevel::Low)]);
    heard.check(&[]);
    replace(&heard, "a", vec![puppet_tool(RiskLevel::High), spare_tool()]);
    heard.check(&["a+Spare", "a~Puppet"]);
    assert_eq!(heard.registry.get("Puppet").unwrap().tool.spec().risk, RiskLevel::High);
    // A name stays with who has it, and with the first of two.
    assert_eq!(
        replace(&heard, "b", vec![spare_tool(), puppet_tool(RiskLevel::Low)]),
        ["Spare", "Puppet"]
    );
    heard.check(&[]);
    assert_eq!(replace(&heard, "a", vec![spare_tool(), spare_tool()]), ["Spare"]);
    heard.check(&["a-Puppet"]);
    assert!(replace(&heard, "b", vec![puppet_tool(RiskLevel::Low)]).is_empty());
    heard.check(&["b+Puppet"]);
    replace(&heard, "a", Vec::new());
    heard.check(&["a-Spare"]);
    assert_eq!(heard.registry.get("Puppet").unwrap().source, "b");
    assert_eq!(heard.registry.version(), 5);
}

#[test]
fn revealed_tool_stays_visible() {
    let mut heard = RegistryListener::new();
    let names = ["Puppet", "Nobody"].map(|name| ToolName::new(name).unwrap());
    let wait = |heard: &RegistryListener, risk| {
        heard.registry.replace(
            "a",
            vec![
                (puppet_tool(risk), ToolVisibility::WhenFound),
                (spare_tool(), ToolVisibility::WhenFound),
            ],
        )
    };
    wait(&heard, RiskLevel::Low);
    assert_eq!(heard.visibility("Puppet"), Some(ToolVisibility::WhenFound));
    heard.check(&["a+Puppet", "a+Spare"]);
    heard.registry.reveal(&names);
    assert_eq!(heard.visibility("Puppet"), Some(ToolVisibility::Always));
    assert_eq!(heard.visibility("Spare"), Some(ToolVisibility::WhenFound));
    heard.check(&["a~Puppet"]);
    // Once is enough.
    heard.registry.reveal(&names);
    heard.check(&[]);
    wait(&heard, RiskLevel::High);
    assert_eq!(heard.visibility("Puppet"), Some(ToolVisibility::Always));
    heard.check(&["a~Puppet"]);
    // One that went and came back is looked for again.
    heard.registry.replace("a", Vec::new());
    wait(&heard, RiskLevel::High);
    assert_eq!(heard.visibility("Puppet"), Some(ToolVisibility::WhenFound));
}

#[tokio::test]
async fn hidden_tool_can_be_called() {
    let fixture = HostFixture::new();
    fixture.host.registry().replace("server", vec![(spare_tool(), ToolVisibility::WhenFound)]);
    assert!(fixture.call("Spare", json!({"act": "work"})).await.outcome.is_ok());
    assert_eq!(spare_tool().claims(), Vec::<String>::new());
}
