//! Decides whether services start, and records them.

use zero_core::{CallId, CommandExecution, ToolError};
use zero_sandbox::running_command::CommandExit;

use super::service_request::ServiceRequest;

/// Decides whether the services of a host start, and records them. All methods may block.
pub trait ServiceSupervisor: Send + Sync {
    /// Begins the record of a service. Fails if it cannot be written: then the service does not
    /// start.
    fn open_record(&self, request: &ServiceRequest) -> Result<Box<dyn ServiceRecord>, ToolError>;
}

/// The record of one service. Exactly one of the two methods that end it is called.
pub trait ServiceRecord: Send {
    /// The id to which its connections are attributed in records.
    fn call(&self) -> &CallId;

    /// Decides whether the service may start, and records the decision. Fails if it may not.
    fn authorize(&mut self, name: &str, execution: &CommandExecution) -> Result<(), ToolError>;

    /// Ends the record of a service that did not start.
    fn write_failure(self: Box<Self>, error: &ToolError);

    /// Ends the record of a service that ran. `is_requested` tells whether zero requested its end.
    fn write_end(self: Box<Self>, exit: &CommandExit, is_requested: bool);
}
