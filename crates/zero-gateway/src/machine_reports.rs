//! What the console shows of the machine: its audit log, policy and health.
//!
//! The program that runs the gateway implements it with the same code as its commands, so that the
//! console and the command line give the same answers.

use zero_wire::machine::{
    AuditListParams, AuditListResult, AuditRecordInfo, AuditVerifyResult, MachineDoctorResult,
    PolicyExplainParams, PolicyExplainResult, PolicyRulesResult, PolicySaveParams,
    PolicySaveResult, PolicySimulateParams, PolicySimulateResult,
};

/// Reports on the machine. Every function blocks, runs nothing and fails with a message for the user.
pub trait MachineReports: Send + Sync {
    /// Rows of the audit log.
    fn list_audit(&self, query: &AuditListParams) -> Result<AuditListResult, String>;
    /// One row of the audit log.
    fn show_audit(&self, call: &str) -> Result<AuditRecordInfo, String>;
    /// Checks the chain of the audit log.
    fn verify_audit(&self) -> Result<AuditVerifyResult, String>;
    /// Judges a call.
    fn explain_policy(&self, call: &PolicyExplainParams) -> Result<PolicyExplainResult, String>;
    /// The rules of the user's settings file.
    fn read_rules(&self) -> Result<PolicyRulesResult, String>;
    /// Judges recorded calls again.
    fn simulate_policy(&self, draft: &PolicySimulateParams)
    -> Result<PolicySimulateResult, String>;
    /// Changes the rules of the user's settings file.
    fn save_rules(&self, draft: &PolicySaveParams) -> Result<PolicySaveResult, String>;
    /// Runs the checks of the machine.
    fn run_doctor(&self) -> Result<MachineDoctorResult, String>;
}
