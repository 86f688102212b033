//! `zero.audit.…`, `zero.policy.…` and `zero.machine.…`: answered by the program that runs the gateway.

use std::sync::Arc;

use zero_wire::ErrorPayload;
use zero_wire::machine::{
    AuditListParams, AuditListResult, AuditRecordInfo, AuditShowParams, AuditVerifyParams,
    AuditVerifyResult, MachineDoctorParams, MachineDoctorResult, PolicyExplainParams,
    PolicyExplainResult, PolicyRulesParams, PolicyRulesResult, PolicySaveParams, PolicySaveResult,
    PolicySimulateParams, PolicySimulateResult,
};

use crate::authenticated_connection::AuthenticatedConnection;
use crate::error_payloads::{to_error_shape, unavailable_error};
use crate::machine_reports::MachineReports;
use crate::read_limiter::run_blocking;

pub(super) async fn list_audit(
    peer: &Arc<AuthenticatedConnection>,
    params: AuditListParams,
) -> Result<AuditListResult, ErrorPayload> {
    report(peer, move |machine| machine.list_audit(&params)).await
}

pub(super) async fn show_audit(
    peer: &Arc<AuthenticatedConnection>,
    params: AuditShowParams,
) -> Result<AuditRecordInfo, ErrorPayload> {
    report(peer, move |machine| machine.show_audit(&params.call)).await
}

pub(super) async fn verify_audit(
    peer: &Arc<AuthenticatedConnection>,
    _: AuditVerifyParams,
) -> Result<AuditVerifyResult, ErrorPayload> {
    report(peer, |machine| machine.verify_audit()).await
}

pub(super) async fn explain_policy(
    peer: &Arc<AuthenticatedConnection>,
    params: PolicyExplainParams,
) -> Result<PolicyExplainResult, ErrorPayload> {
    report(peer, move |machine| machine.explain_policy(&params)).await
}

pub(super) async fn read_rules(
    peer: &Arc<AuthenticatedConnection>,
    _: PolicyRulesParams,
) -> Result<PolicyRulesResult, ErrorPayload> {
    report(peer, |machine| machine.read_rules()).await
}

pub(super) async fn simulate_policy(
    peer: &Arc<AuthenticatedConnection>,
    params: PolicySimulateParams,
) -> Result<PolicySimulateResult, ErrorPayload> {
    report(peer, move |machine| machine.simulate_policy(&params)).await
}

pub(super) async fn save_rules(
    peer: &Arc<AuthenticatedConnection>,
    params: PolicySaveParams,
) -> Result<PolicySaveResult, ErrorPayload> {
    if params.write {
        tracing::info!(by = %peer.name(), "rules of the user's settings are changed");
    }
    report(peer, move |machine| machine.save_rules(&params)).await
}

pub(super) async fn run_doctor(
    peer: &Arc<AuthenticatedConnection>,
    _: MachineDoctorParams,
) -> Result<MachineDoctorResult, ErrorPayload> {
    report(peer, |machine| machine.run_doctor()).await
}

/// Makes a report on a blocking thread.
async fn report<T: Send + 'static>(
    peer: &AuthenticatedConnection,
    make: impl FnOnce(&dyn MachineReports) -> Result<T, String> + Send + 'static,
) -> Result<T, ErrorPayload> {
    let Some(machine) = peer.gateway().machine.clone() else {
        let why = "this gateway does not report on its machine";
        return Err(unavailable_error(why.to_owned()));
    };
    let made = run_blocking(move || make(&*machine)).await;
    made.map_err(|error| to_error_shape(error.into()))?.map_err(ErrorPayload::invalid)
}
