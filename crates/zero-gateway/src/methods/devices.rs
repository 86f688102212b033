//! `zero.devices.…`: paired devices and how others are paired.

use std::sync::Arc;

use zero_wire::ErrorPayload;
use zero_wire::approvals::Acknowledgement;
use zero_wire::devices::{
    DeviceApproveParams, DeviceInviteParams, DeviceInviteResult, DeviceRejectParams,
    DeviceRevokeParams, DeviceRevokeResult, DeviceScopeParams, DevicesListParams,
    DevicesListResult, PairedDeviceInfo, PairingRequestInfo, TokenInfo,
};
use zero_wire::method::TokenScope;

use crate::auth::Principal;
use crate::authenticated_connection::AuthenticatedConnection;
use crate::device_registry::{PairedDevice, PairingRequest};
use crate::error_payloads::{quote_input, to_error_shape, unavailable_error};
use crate::read_limiter::run_blocking;

pub(super) async fn list(
    peer: &Arc<AuthenticatedConnection>,
    _: DevicesListParams,
) -> Result<DevicesListResult, ErrorPayload> {
    let (devices, requests) = peer.gateway().devices.list();
    Ok(DevicesListResult {
        devices: devices.into_iter().map(|device| to_device_info(peer, device)).collect(),
        requests: requests.into_iter().map(to_request_info).collect(),
        tokens: peer.gateway().auth.principals().map(to_token_info).collect(),
    })
}

pub(super) async fn invite(
    peer: &Arc<AuthenticatedConnection>,
    params: DeviceInviteParams,
) -> Result<DeviceInviteResult, ErrorPayload> {
    let scopes = parse_scopes(&params.scopes)?;
    let invited = peer.gateway().invite_device(scopes, peer.owner(), params.page.as_deref());
    let Some(invited) = invited else {
        return Err(unavailable_error("the system's random number generator failed".to_owned()));
    };
    tracing::info!(by = %peer.name(), "a pairing code was created");
    Ok(invited)
}

pub(super) async fn approve(
    peer: &Arc<AuthenticatedConnection>,
    params: DeviceApproveParams,
) -> Result<PairedDeviceInfo, ErrorPayload> {
    let scopes = parse_scopes(&params.scopes)?;
    let devices = &peer.gateway().devices;
    let approved = devices.approve(&params.id, &scopes, peer.owner());
    let device = approved.map_err(|error| ErrorPayload::invalid(error.to_string()))?;
    peer.gateway().close_device(&device.id, "this device was paired again");
    if let Err(error) = store(peer).await {
        devices.revoke(&device.id);
        return Err(error);
    }
    tracing::info!(by = %peer.name(), device = %device.id, "a device was paired");
    Ok(to_device_info(peer, device))
}

pub(super) async fn reject(
    peer: &Arc<AuthenticatedConnection>,
    params: DeviceRejectParams,
) -> Result<Acknowledgement, ErrorPayload> {
    Ok(Acknowledgement { ok: peer.gateway().devices.reject(&params.id) })
}

pub(super) async fn scope(
    peer: &Arc<AuthenticatedConnection>,
    params: DeviceScopeParams,
) -> Result<PairedDeviceInfo, ErrorPayload> {
    let scopes = parse_scopes(&params.scopes)?;
    let Some(device) = peer.gateway().devices.set_scopes(&params.id, &scopes) else {
        let id = quote_input(&params.id);
        return Err(ErrorPayload::invalid(format!("no device `{id}` is paired")));
    };
    // A connection has the scopes that it began with.
    peer.gateway().close_device(&device.id, "the scopes of this device were changed");
    tracing::info!(by = %peer.name(), device = %device.id, "the scopes of a device were changed");
    store(peer).await?;
    Ok(to_device_info(peer, device))
}

pub(super) async fn revoke(
    peer: &Arc<AuthenticatedConnection>,
    params: DeviceRevokeParams,
) -> Result<DeviceRevokeResult, ErrorPayload> {
    let gateway = peer.gateway();
    let revoked = gateway.devices.revoke(&params.id);
    // First of all, whether or not it can be stored.
    let closed = gateway.close_device(&params.id, "this device was revoked");
    if revoked {
        tracing::info!(by = %peer.name(), device = %quote_input(&params.id), "a device was revoked");
    }
    // An earlier revocation of it may not have been stored.
    store(peer).await?;
    Ok(DeviceRevokeResult { revoked, closed })
}

async fn store(peer: &Arc<AuthenticatedConnection>) -> Result<(), ErrorPayload> {
    let owned = Arc::clone(peer);
    let stored = run_blocking(move || owned.gateway().devices.store()).await;
    stored.map_err(|error| to_error_shape(error.into()))?.map_err(|error| {
        unavailable_error(format!("the paired devices could not be stored: {error}"))
    })
}

fn parse_scopes(names: &[String]) -> Result<Vec<TokenScope>, ErrorPayload> {
    let parse = |name: &String| {
        TokenScope::from_name(name).ok_or_else(|| {
            let known = TokenScope::ALL.map(TokenScope::as_str).join(", ");
            let name = quote_input(name);
            ErrorPayload::invalid(format!("there is no scope `{name}`; the scopes are {known}"))
        })
    };
    names.iter().map(parse).collect()
}

fn to_device_info(peer: &AuthenticatedConnection, device: PairedDevice) -> PairedDeviceInfo {
    PairedDeviceInfo {
        connections: peer.gateway().device_queues(&device.id).len() as u64,
        is_this: peer.device() == Some(&device.id),
        id: device.id,
        name: device.name,
        scopes: device.scopes,
        owner: device.owner,
        paired_at_ms: device.paired_at_ms,
        seen_at_ms: device.seen_at_ms,
    }
}

fn to_token_info((kind, principal): (&'static str, &Principal)) -> TokenInfo {
    TokenInfo {
        name: principal.name.clone(),
        kind: kind.to_owned(),
        scopes: principal.scopes.iter().map(|scope| scope.as_str().to_owned()).collect(),
        owner: principal.owner.clone().unwrap_or_else(|| principal.name.clone()),
    }
}

fn to_request_info(request: PairingRequest) -> PairingRequestInfo {
    PairingRequestInfo {
        words: request.words(),
        expires_at_ms: request.expires_at_ms(),
        address: request.address.to_canonical().to_string(),
        id: request.id,
        name: request.name,
        asked_at_ms: request.asked_at_ms,
    }
}
