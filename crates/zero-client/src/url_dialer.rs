//! Dials a gateway by its URL, with the handshake of the OpenClaw protocol.

use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;
use zero_runtime::tool::BoxFuture;
use zero_wire::client::{
    ConnectOptions, GatewayClient, GatewayClientError, GatewayTarget, GatewayUrl,
};
use zero_wire::device::DeviceKey;
use zero_wire::method::TokenScope;
use zero_wire::zero_sessions::CAP_EVENTS;

use crate::gateway_dialer::{GatewayConnection, GatewayDialer, GatewayLocality};
use crate::link_error::GatewayLinkError;

/// The capabilities of this client: ledger events, and for gateways without a ledger tool events
/// and approvals.
const CLIENT_CAPABILITIES: [&str; 3] = [CAP_EVENTS, "tool-events", "exec-approvals"];

/// Provides the device key for gateways that require one. The key is created on first use.
pub trait DeviceKeySource: Send + Sync {
    /// The key; the same for each call.
    fn device_key(&self) -> Result<Arc<DeviceKey>, GatewayLinkError>;
}

/// Dials a URL. The device identity is sent only to a gateway that asks for it.
pub struct UrlDialer {
    url: GatewayUrl,
    options: ConnectOptions,
    source: Option<Arc<dyn DeviceKeySource>>,
    device: Mutex<Option<Arc<DeviceKey>>>,
}

impl UrlDialer {
    /// Creates a dialer; adds the client capabilities to the options.
    pub fn new(url: GatewayUrl, options: ConnectOptions) -> Self {
        let device = Mutex::new(options.device.clone());
        Self { url, options: with_client_capabilities(options), source: None, device }
    }

    /// Sets the source of the device key.
    pub fn with_device(mut self, source: Arc<dyn DeviceKeySource>) -> Self {
        self.source = Some(source);
        self
    }

    async fn connect(
        &self,
        device: Option<Arc<DeviceKey>>,
    ) -> Result<GatewayConnection, GatewayClientError> {
        let options = ConnectOptions { device, ..self.options.clone() };
        let (client, events) =
            GatewayClient::connect(GatewayTarget::Url(self.url.clone()), options).await?;
        Ok(GatewayConnection { client, events, locality: GatewayLocality::Remote })
    }
}

/// Adds the client capabilities to the options, and requests all scopes of the token.
pub fn with_client_capabilities(options: ConnectOptions) -> ConnectOptions {
    ConnectOptions {
        caps: CLIENT_CAPABILITIES.map(str::to_owned).to_vec(),
        scopes: vec![TokenScope::Admin.as_str().to_owned()],
        ..options
    }
}

impl GatewayDialer for UrlDialer {
    fn dial(&self) -> BoxFuture<'_, Result<GatewayConnection, GatewayLinkError>> {
        Box::pin(async {
            let known = self.device.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let had_none = known.is_none();
            match (self.connect(known).await, &self.source) {
                (Ok(dialled), _) => Ok(dialled),
                (Err(error), Some(source)) if had_none && is_device_required(&error) => {
                    let device = source.device_key()?;
                    let dialled = self.connect(Some(Arc::clone(&device))).await;
                    let dialled = dialled.map_err(refusal_error)?;
                    *self.device.lock().unwrap_or_else(PoisonError::into_inner) = Some(device);
                    Ok(dialled)
                }
                (Err(error), _) => Err(refusal_error(error)),
            }
        })
    }

    fn location(&self) -> String {
        self.url.to_string()
    }
}

fn is_device_required(error: &GatewayClientError) -> bool {
    let GatewayClientError::Refused { error } = error else { return false };
    let code = error.details.as_ref().and_then(|details| details.get("code"));
    code.and_then(Value::as_str) == Some("DEVICE_IDENTITY_REQUIRED")
}

/// A rejected connection is `Unreachable`; the message says what to do next.
fn refusal_error(error: GatewayClientError) -> GatewayLinkError {
    GatewayLinkError::Unreachable {
        is_passing: GatewayLinkError::from(error.clone()).is_transient(),
        message: error.to_string(),
    }
}
