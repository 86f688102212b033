//! Dialling a gateway by its address, as every member of the family wants to be dialled.

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

/// What the near side of a gateway can do: hear a ledger where there is one, and where there is none
/// what tools do and whether they may.
const CLIENT_CAPABILITIES: [&str; 3] = [CAP_EVENTS, "tool-events", "exec-approvals"];

/// The key of this device, for gateways that ask for one. It is made when it is first needed.
pub trait DeviceKeySource: Send + Sync {
    /// The key; the same each time.
    fn device_key(&self) -> Result<Arc<DeviceKey>, GatewayLinkError>;
}

/// Dials an address. A gateway that wants to know the device is told, and no other.
pub struct UrlDialer {
    url: GatewayUrl,
    options: ConnectOptions,
    source: Option<Arc<dyn DeviceKeySource>>,
    device: Mutex<Option<Arc<DeviceKey>>>,
}

impl UrlDialer {
    /// Dials so. What the near side can do is added to the options.
    pub fn new(url: GatewayUrl, options: ConnectOptions) -> Self {
        let device = Mutex::new(options.device.clone());
        Self { url, options: with_client_capabilities(options), source: None, device }
    }

    /// With the key of this device, where it is asked for.
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
        Ok(GatewayConnection { client, events, place: GatewayLocality::Remote })
    }
}

/// Options with what the near side of a gateway can do, and all that its token allows.
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

/// Who is not let in cannot reach it; the words say what to do next.
fn refusal_error(error: GatewayClientError) -> GatewayLinkError {
    GatewayLinkError::Unreachable {
        is_passing: GatewayLinkError::from(error.clone()).is_transient(),
        message: error.to_string(),
    }
}
