//! The handshake: challenge, `connect`, `hello-ok`.
//!
//! A client has one message and a short time to authenticate. Every refusal names the next step,
//! and none repeats what the client sent. The scopes are decided here, once: those of the token
//! that the client requested.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use ring::rand::{SecureRandom, SystemRandom};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};
use zero_core::id::uuid_of_bits;
use zero_runtime::clock::now_ms;
use zero_wire::device::{self, ChallengeContext};
use zero_wire::frame::{FrameParseError, StateVersion};
use zero_wire::handshake::{
    Connect, ConnectAuth, ConnectChallenge, ConnectParams, GatewayFeatures, GatewayServerInfo,
    GatewaySnapshot, HelloAuth, HelloKind, HelloOk, HelloPolicy, PROTOCOL, PROTOCOL_MIN,
    SessionDefaults,
};
use zero_wire::zero_sessions::{CAPABILITIES, RUN_UNRECORDED, SESSION_EVENT};
use zero_wire::{
    CloseReason, ErrorCode, ErrorPayload, EventFrame, GatewayFrame, RequestFrame, ResponseFrame,
    close, events, parse_params, tools,
};

use crate::auth::{self, AuthError, Principal};
use crate::auth_limiter::AuthDenial;
use crate::authenticated_connection::HandshakeOutcome;
use crate::connection::{MessageTransport, PeerOrigin, TransportEvent, flush, parse_frame};
use crate::device_registry::{DeviceClaim, DeviceLogin, IssuedToken, comparison_words};
use crate::gateway_inner::GatewayInner;
use crate::methods;
use crate::read_limiter::run_blocking;
use crate::send_queue::{SendQueue, error_response};

/// The only supported role.
const OPERATOR: &str = "operator";
/// Capability in `caps` of a device that asks to be paired by an approval.
const CAP_PAIRING: &str = "zero-pairing";
/// Suggested retry delay while the gateway shuts down.
const RETRY_AFTER: Duration = Duration::from_secs(2);

/// Names of the events that clients receive.
const EVENTS: [&str; 13] = [
    events::CONNECT_CHALLENGE,
    events::TICK,
    events::CHAT,
    events::AGENT,
    events::APPROVAL_REQUESTED,
    events::APPROVAL_RESOLVED,
    events::SHUTDOWN,
    SESSION_EVENT,
    RUN_UNRECORDED,
    tools::TOOLS_USE,
    tools::TOOLS_CANCEL,
    tools::TOOLS_TERMS,
    tools::TOOLS_DISPLACED,
];

/// Sends the challenge and processes the client's `connect`. Returns the outcome and the response,
/// or the close reason.
pub(crate) async fn perform_handshake(
    gateway: &Arc<GatewayInner>,
    link: &mut impl MessageTransport,
    outbox: &SendQueue,
    from: &PeerOrigin,
) -> Result<(HandshakeOutcome, ResponseFrame), Option<CloseReason>> {
    let challenge = new_challenge().ok_or_else(|| {
        tracing::error!("the system's random number generator failed");
        Some(CloseReason::new(close::TRY_LATER, "random number generator failed"))
    })?;
    outbox.send_text(challenge.text);
    let first = timeout(gateway.limits.handshake_time, read_first_message(link, outbox)).await;
    let refused = match first {
        Ok(FirstMessage::Request(request)) => {
            let id = request.id.clone();
            let admitted = match admit(gateway, &challenge.payload, from, request) {
                Ok(AdmittedClient { greeting, hello, pairing: None }) => {
                    return Ok((greeting, hello));
                }
                Ok(AdmittedClient { greeting, hello, pairing: Some(device) }) => {
                    store_pairing(gateway, device).await.map(|()| (greeting, hello))
                }
                Err(refused) => Err(refused),
            };
            match admitted {
                Ok(greeted) => return Ok(greeted),
                Err(refused) => {
                    tracing::info!(why = %refused.log_reason(), "refused a client");
                    sleep(refused.delay).await;
                    outbox.send_response(error_response(id, refused.error));
                    refused.close
                }
            }
        }
        Ok(FirstMessage::Invalid(reason)) => reason,
        Ok(FirstMessage::Ended(reason)) => return Err(reason),
        Err(_) => {
            CloseReason::new(close::POLICY, "handshake timeout: `connect` did not come in time")
        }
    };
    outbox.close(refused.code, &refused.reason);
    Err(flush(link, outbox, gateway.limits.close_grace).await)
}

struct ChallengeFrame {
    payload: ConnectChallenge,
    text: String,
}

fn new_challenge() -> Option<ChallengeFrame> {
    let payload = ConnectChallenge { nonce: random_id()?, ts: now_ms() };
    let frame = GatewayFrame::Event(EventFrame {
        event: events::CONNECT_CHALLENGE.to_owned(),
        payload: serde_json::to_value(&payload).ok(),
        seq: None,
        state_version: None,
    });
    Some(ChallengeFrame { payload, text: serde_json::to_string(&frame).ok()? })
}

/// A random id in the format of a UUID.
fn random_id() -> Option<String> {
    let mut bytes = [0; 16];
    SystemRandom::new().fill(&mut bytes).ok()?;
    Some(uuid_of_bits(u128::from_be_bytes(bytes)))
}

enum FirstMessage {
    Request(RequestFrame),
    Invalid(CloseReason),
    Ended(Option<CloseReason>),
}

async fn read_first_message(link: &mut impl MessageTransport, outbox: &SendQueue) -> FirstMessage {
    loop {
        return match link.exchange(outbox).await {
            TransportEvent::KeepAlive => continue,
            TransportEvent::Ended(reason) => FirstMessage::Ended(reason),
            TransportEvent::NotText => FirstMessage::Invalid(CloseReason::new(close::NORMAL, "")),
            TransportEvent::Text(text) => match parse_frame(text).await {
                Ok(GatewayFrame::Request(request)) => FirstMessage::Request(request),
                Ok(_) => {
                    FirstMessage::Invalid(CloseReason::new(close::POLICY, "invalid request frame"))
                }
                Err(FrameParseError::NotJson) => {
                    FirstMessage::Invalid(CloseReason::new(close::NORMAL, ""))
                }
                Err(bad) => FirstMessage::Invalid(CloseReason::new(close::POLICY, bad.to_string())),
            },
        };
    }
}

/// Reason for refusing a client.
struct HandshakeRefusal {
    error: ErrorPayload,
    close: CloseReason,
    delay: Duration,
}

impl HandshakeRefusal {
    fn new(error: ErrorPayload, code: u16) -> Self {
        let close = CloseReason::new(code, error.message.clone());
        Self { error, close, delay: Duration::ZERO }
    }

    fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorPayload::invalid(message), close::POLICY)
    }

    /// The more specific reason, for the log.
    fn log_reason(&self) -> &str {
        let code = self.error.details.as_ref().and_then(|details| details.get("code"));
        code.and_then(Value::as_str).unwrap_or(&self.error.message)
    }
}

/// A client that may connect.
struct AdmittedClient {
    greeting: HandshakeOutcome,
    hello: ResponseFrame,
    /// Id of the device that was paired just now, which has to be stored first.
    pairing: Option<String>,
}

fn admit(
    gateway: &GatewayInner,
    challenge: &ConnectChallenge,
    from: &PeerOrigin,
    request: RequestFrame,
) -> Result<AdmittedClient, HandshakeRefusal> {
    if request.method != "connect" {
        return Err(HandshakeRefusal::invalid("invalid handshake: first request must be connect"));
    }
    if gateway.closing.is_cancelled() {
        return Err(closing_refusal());
    }
    let params = parse_params::<Connect>(request.params)
        .map_err(|error| HandshakeRefusal::new(error, close::POLICY))?;
    let protocol = negotiate_protocol(&params)?;
    let role = params.role.as_deref().unwrap_or(OPERATOR);
    if role != OPERATOR {
        return Err(HandshakeRefusal::invalid(
            "invalid role: this gateway has no nodes; connect as `operator`",
        ));
    }
    let login = match from {
        PeerOrigin::Process(principal) => {
            check_device(&params, role, challenge, protocol)?;
            ClientLogin::new(principal.clone())
        }
        PeerOrigin::Network { address, .. } => {
            authenticate(gateway, *address, &params, role, challenge, protocol)?
        }
    };
    let ClientLogin { principal, device, token } = login;
    let pairing = device.clone().filter(|_| token.is_some());
    let scopes = auth::grant_scopes(&principal.scopes, params.scopes.as_deref());
    let conn_id = random_id().ok_or_else(internal_refusal)?;
    let ConnectParams { client, caps, .. } = params;
    let greeting = HandshakeOutcome { principal, scopes, protocol, caps, client, conn_id, device };
    let mut hello = hello_response(gateway, &greeting);
    if let (Some(auth), Some(issued)) = (&mut hello.auth, token) {
        auth.device_token = Some(issued.token);
        auth.issued_at_ms = Some(issued.issued_at_ms);
    }
    let payload = serde_json::to_value(hello).map_err(|_| internal_refusal())?;
    let hello = ResponseFrame { id: request.id, ok: true, payload: Some(payload), error: None };
    Ok(AdmittedClient { greeting, hello, pairing })
}

/// Stores the pairing of a device, and ends the connections of an earlier one: its token is void.
/// The device is forgotten if that fails.
async fn store_pairing(
    gateway: &Arc<GatewayInner>,
    device: String,
) -> Result<(), HandshakeRefusal> {
    gateway.close_device(&device, "this device was paired again");
    let owned = Arc::clone(gateway);
    let stored = run_blocking(move || owned.devices.store()).await;
    let stored = stored.map_err(|error| error.to_string()).flatten();
    stored.map_err(|error| {
        tracing::error!(%error, "a paired device could not be stored");
        gateway.devices.revoke(&device);
        internal_refusal()
    })
}

/// Who a client is.
struct ClientLogin {
    principal: Principal,
    /// Id of its paired device.
    device: Option<String>,
    /// New token of the device.
    token: Option<IssuedToken>,
}

impl ClientLogin {
    fn new(principal: Principal) -> Self {
        Self { principal, device: None, token: None }
    }
}

/// Authenticates a client of the network: by a token or password, as a paired device, or by a code
/// that pairs it.
fn authenticate(
    gateway: &GatewayInner,
    address: IpAddr,
    params: &ConnectParams,
    role: &str,
    challenge: &ConnectChallenge,
    protocol: u32,
) -> Result<ClientLogin, HandshakeRefusal> {
    let auth = params.auth.as_ref();
    let shown = |field: fn(&ConnectAuth) -> &Option<String>| {
        auth.and_then(|auth| field(auth).as_deref()).filter(|text| !text.is_empty())
    };
    let (token, code) = (shown(|auth| &auth.device_token), shown(|auth| &auth.bootstrap_token));
    let has_secret = shown(|auth| &auth.token).or(shown(|auth| &auth.password)).is_some();
    let asks = token.or(code).is_none() && params.caps.iter().any(|cap| cap == CAP_PAIRING);
    let attempt = |check: &dyn Fn() -> Result<ClientLogin, AuthError>| {
        gateway.limiter.attempt(address, Instant::now(), check).map_err(auth_refusal)
    };
    let is_device = gateway.auth.is_auth_required() && !has_secret;
    if !is_device || (token.or(code).is_none() && !asks) {
        let login = attempt(&|| gateway.auth.authenticate(auth).map(ClientLogin::new))?;
        check_device(params, role, challenge, protocol)?;
        return Ok(login);
    }
    let Some(proof) = &params.device else {
        return attempt(&|| Err(AuthError::DeviceProofMissing));
    };
    // Before the code is looked at, which is void after it.
    check_device(params, role, challenge, protocol)?;
    let name = params.client.display_name.as_deref().unwrap_or_default();
    let claim = DeviceClaim { id: &proof.id, name, now_ms: now_ms() };
    let devices = &gateway.devices;
    match (token, code) {
        (Some(token), _) => attempt(&|| Ok(devices.authenticate(&claim, token)?.into())),
        (None, Some(code)) => attempt(&|| Ok(devices.redeem(&claim, code)?.into())),
        (None, None) => match devices.collect(&claim) {
            Some(login) => Ok(login.into()),
            None => Err(pairing_refusal(gateway, &claim, address)),
        },
    }
}

impl From<DeviceLogin> for ClientLogin {
    fn from(login: DeviceLogin) -> Self {
        let DeviceLogin { principal, device, token } = login;
        Self { principal, device: Some(device), token }
    }
}

/// Records that a device asks to be paired, and says what the user has to do.
fn pairing_refusal(
    gateway: &GatewayInner,
    claim: &DeviceClaim<'_>,
    address: IpAddr,
) -> HandshakeRefusal {
    let Some(request) = gateway.devices.request(claim, address) else {
        let error = ErrorPayload::new(
            ErrorCode::Unavailable,
            "too many devices ask to be paired; try again in some minutes, or use a code",
        );
        return HandshakeRefusal::new(error, close::TRY_LATER);
    };
    let message = "this device is not paired yet; approve it on a paired device";
    let error = ErrorPayload::new(ErrorCode::NotPaired, message).with_details(json!({
        "code": "PAIRING_REQUIRED",
        "reason": "not-paired",
        "requestId": request.id,
        "words": comparison_words(claim.id),
        "expiresAtMs": request.expires_at_ms(),
    }));
    HandshakeRefusal::new(error, close::POLICY)
}

/// Selects the protocol version that both sides support.
fn negotiate_protocol(params: &ConnectParams) -> Result<u32, HandshakeRefusal> {
    let (min, max) = (params.min_protocol, params.max_protocol);
    if min <= max && min <= PROTOCOL && max >= PROTOCOL_MIN {
        return Ok(max.min(PROTOCOL));
    }
    let error = ErrorPayload::invalid("protocol mismatch").with_details(json!({
        "code": "PROTOCOL_MISMATCH",
        "clientMinProtocol": min,
        "clientMaxProtocol": max,
        "expectedProtocol": PROTOCOL,
        "minimumProbeProtocol": PROTOCOL_MIN,
    }));
    Err(HandshakeRefusal::new(error, close::PROTOCOL_ERROR))
}

fn auth_refusal(denied: AuthDenial) -> HandshakeRefusal {
    match denied {
        AuthDenial::BadCredentials(problem, delay) => {
            let error = ErrorPayload::invalid(problem.message()).with_details(json!({
                "code": problem.code(),
                "authReason": problem.reason(),
                "canRetryWithDeviceToken": false,
                "recommendedNextStep": problem.next_step(),
            }));
            HandshakeRefusal { delay, ..HandshakeRefusal::new(error, close::POLICY) }
        }
        AuthDenial::Locked { retry_after } => {
            let seconds = retry_after.as_secs().saturating_add(1);
            let message = format!(
                "unauthorized: too many failed authentication attempts; try again in {seconds} s"
            );
            let mut error = ErrorPayload::invalid(message).with_details(json!({
                "code": "AUTH_RATE_LIMITED",
                "authReason": "rate_limited",
                "canRetryWithDeviceToken": false,
                "recommendedNextStep": "wait_then_retry",
            }));
            error.retryable = Some(true);
            error.retry_after_ms = u64::try_from(retry_after.as_millis()).ok();
            HandshakeRefusal::new(error, close::POLICY)
        }
    }
}

/// Verifies the device signature. It is optional, but must be valid if present.
fn check_device(
    params: &ConnectParams,
    role: &str,
    challenge: &ConnectChallenge,
    protocol: u32,
) -> Result<(), HandshakeRefusal> {
    let Some(proof) = &params.device else { return Ok(()) };
    let auth = params.auth.as_ref();
    let signed = auth.and_then(|auth| {
        let tokens = [&auth.token, &auth.device_token, &auth.bootstrap_token];
        tokens.into_iter().find_map(Option::as_deref)
    });
    let scopes = params.scopes.as_deref().unwrap_or_default();
    let context =
        ChallengeContext::from_client(&params.client, role, scopes, signed.unwrap_or_default())
            .with_challenge(&challenge.nonce, challenge.ts);
    device::verify(proof, &context, protocol).map_err(|problem| {
        let details = json!({ "code": problem.code(), "reason": problem.reason() });
        let error = ErrorPayload::invalid(problem.to_string()).with_details(details);
        HandshakeRefusal::new(error, close::POLICY)
    })
}

/// Refusal while the gateway shuts down.
fn closing_refusal() -> HandshakeRefusal {
    unavailable_refusal("the gateway is shutting down; connect again in a moment", "shutting-down")
}

/// Refusal after an internal failure.
fn internal_refusal() -> HandshakeRefusal {
    unavailable_refusal(
        "the handshake failed because of an internal error; connect again in a moment",
        "internal",
    )
}

fn unavailable_refusal(message: &str, reason: &str) -> HandshakeRefusal {
    let mut error = ErrorPayload::new(ErrorCode::Unavailable, message)
        .with_details(json!({ "reason": reason }));
    error.retryable = Some(true);
    error.retry_after_ms = u64::try_from(RETRY_AFTER.as_millis()).ok();
    HandshakeRefusal::new(error, close::TRY_LATER)
}

/// Response to an accepted client. It contains nothing about other clients or this machine.
fn hello_response(gateway: &GatewayInner, greeting: &HandshakeOutcome) -> HelloOk {
    let limits = &gateway.limits;
    let agent = gateway.sessions.agents().default_id();
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    HelloOk {
        kind: HelloKind::HelloOk,
        protocol: greeting.protocol,
        server: GatewayServerInfo {
            version: gateway.version.clone(),
            conn_id: greeting.conn_id.clone(),
        },
        features: GatewayFeatures {
            methods: std::iter::once("connect")
                .chain(methods::NAMES.iter().copied())
                .map(str::to_owned)
                .collect(),
            events: words(&EVENTS),
            capabilities: words(&CAPABILITIES),
        },
        snapshot: GatewaySnapshot {
            presence: Vec::new(),
            health: json!({}),
            state_version: StateVersion::default(),
            uptime_ms: millis(gateway.started.elapsed()),
            session_defaults: Some(SessionDefaults {
                default_agent_id: agent.to_owned(),
                main_key: "main".to_owned(),
                main_session_key: format!("agent:{agent}:main"),
            }),
        },
        // In protocol 3 this field exists only for device tokens.
        auth: (greeting.protocol > PROTOCOL_MIN).then(|| HelloAuth {
            role: OPERATOR.to_owned(),
            scopes: greeting.scopes.iter().map(|scope| scope.as_str().to_owned()).collect(),
            device_token: None,
            issued_at_ms: None,
        }),
        policy: HelloPolicy {
            max_payload: limits.payload_bytes_max as u64,
            max_buffered_bytes: limits.buffered_bytes_max as u64,
            tick_interval_ms: millis(limits.tick_interval),
        },
    }
}
