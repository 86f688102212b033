//! Who answers for services: decides about each, and records what became of it.

use zero_core::{CallId, CommandExecution, ToolError};
use zero_sandbox::running_command::CommandExit;

use super::service_request::ServiceRequest;

/// Answers for the services of a host. All of it may block.
pub trait ServiceSupervisor: Send + Sync {
    /// Begins the record of a service. Fails where it cannot be written: then nothing is started.
    fn open_record(&self, request: &ServiceRequest) -> Result<Box<dyn ServiceRecord>, ToolError>;
}

/// The record of one service. Exactly one of the methods that end it is called.
pub trait ServiceRecord: Send {
    /// By what it is known in records about its connections.
    fn call(&self) -> &CallId;

    /// Decides whether the service may be started, and records that. Fails where it may not.
    fn authorize(&mut self, name: &str, execution: &CommandExecution) -> Result<(), ToolError>;

    /// Ends the record of one that did not start.
    fn write_failure(self: Box<Self>, error: &ToolError);

    /// Ends the record of one that ran. `is_asked` says whether somebody here wanted its end.
    fn write_end(self: Box<Self>, ended: &CommandExit, is_asked: bool);
}
