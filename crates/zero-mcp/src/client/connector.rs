//! How the servers of a host are reached: by programs that run beside its calls, and by HTTP.

use std::sync::Arc;

use zero_runtime::Services;
use zero_runtime::tool::BoxFuture;

use super::credentials::Credentials;
use super::error::ServerError;
use super::http::{self, NetworkGuard};
use super::link::{Connector, Link, Way, Witness};
use super::process::Process;
use super::status::Quarantined;
use crate::definition::{Alias, Endpoint, Reach, ServerDefinition};
use crate::wire::{TroubleReport, Troubles};

/// What servers are reached with that run elsewhere.
#[derive(Clone)]
pub struct Web {
    /// What may be connected to.
    pub guard: NetworkGuard,
    /// Where logins are kept.
    pub credentials: Arc<dyn Credentials>,
}

/// Reaches the servers of a host.
pub(crate) struct HostConnector {
    services: Services,
    web: Web,
}

impl HostConnector {
    pub(crate) fn new(services: Services, web: Web) -> Self {
        Self { services, web }
    }

    fn web(&self, alias: &Alias, endpoint: &Endpoint) -> Result<Way, ServerError> {
        let Web { guard, credentials } = &self.web;
        let troubles = Troubles::default();
        let link = http::connect(alias, endpoint, guard, Arc::clone(credentials), troubles.clone())
            .map_err(|error| ServerError::new(error.to_string()))?;
        Ok(Way { link: Link::new(link), witness: Arc::new(Elsewhere(troubles)) })
    }
}

impl Connector for HostConnector {
    fn connect<'a>(
        &'a self,
        definition: &'a ServerDefinition,
    ) -> BoxFuture<'a, Result<Way, ServerError>> {
        Box::pin(async move {
            match &definition.reach {
                Reach::Command(launch) => {
                    let started = Process::start(&self.services, launch, &definition.alias);
                    let (process, lines) = started.await?;
                    Ok(Way { link: Link::new(lines), witness: Arc::new(process) })
                }
                Reach::Http(endpoint) => self.web(&definition.alias, endpoint),
            }
        })
    }
}

impl Witness for Process {
    fn ended(&self) -> Option<(Option<i32>, Option<i32>)> {
        self.exit().map(|exit| (exit.code, exit.signal))
    }

    fn stderr_tail(&self) -> String {
        Process::stderr_tail(self)
    }

    fn is_drained(&self) -> bool {
        Process::is_drained(self)
    }

    fn closed(&self) -> Option<String> {
        self.troubles().closed().map(|why| why.to_string())
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = Process::notes(self);
        notes.extend(troubles_in_words(&self.troubles().report()));
        notes
    }

    fn refused(&self) -> Vec<String> {
        Process::refused(self)
    }

    fn malformed(&self) -> Vec<Quarantined> {
        malformed(self.troubles())
    }

    fn is_outdated(&self) -> BoxFuture<'_, bool> {
        Box::pin(Process::is_outdated(self))
    }

    fn end(&self) -> BoxFuture<'_, ()> {
        Box::pin(Process::end(self))
    }
}

/// A server that runs elsewhere: all there is to see of it is what it says.
struct Elsewhere(Troubles);

impl Witness for Elsewhere {
    fn closed(&self) -> Option<String> {
        self.0.closed().map(|why| why.to_string())
    }

    fn notes(&self) -> Vec<String> {
        troubles_in_words(&self.0.report())
    }

    fn malformed(&self) -> Vec<Quarantined> {
        malformed(&self.0)
    }
}

/// The tools of the list that was just asked for which could not be read.
pub(crate) fn malformed(troubles: &Troubles) -> Vec<Quarantined> {
    let report = troubles.report();
    troubles.forget_quarantined();
    let unread = report.quarantined.into_iter();
    unread.map(|tool| Quarantined { tool: tool.tool, reason: tool.reason }).collect()
}

/// What went wrong in what a server said, for a person.
pub(crate) fn troubles_in_words(report: &TroubleReport) -> Vec<String> {
    let counted = |count: u64, what: &str, samples: &[String]| {
        let sample = samples.first().map(|sample| format!(", such as: {sample}"));
        (count > 0).then(|| format!("{count} {what}{}", sample.unwrap_or_default()))
    };
    [
        counted(report.noise, "lines of its output were no messages", &report.noise_samples),
        counted(report.refused, "of its messages were refused", &report.refused_samples),
        counted(report.mended, "parts of its messages were mended", &report.mended_samples),
        counted(report.unasked_answers, "of its answers were to nothing that was asked", &[]),
    ]
    .into_iter()
    .flatten()
    .collect()
}
