//! Dialling a gateway by its address, as every member of the family wants to be dialled.

use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;
use zero_runtime::tool::BoxFuture;
use zero_wire::client::{Client, ClientError, ConnectOptions, GatewayUrl, Target};
use zero_wire::device::DeviceKey;
use zero_wire::method::Scope;
use zero_wire::zero_sessions::CAP_EVENTS;

use crate::error::LinkError;
use crate::link::{Dial, Dialled, Place};

/// What the near side of a gateway can do: hear a ledger where there is one, and where there is none
/// what tools do and whether they may.
const CAPS: [&str; 3] = [CAP_EVENTS, "tool-events", "exec-approvals"];

/// The key of this device, for gateways that ask for one. It is made when it is first needed.
pub trait DeviceSource: Send + Sync {
    /// The key; the same each time.
    fn device(&self) -> Result<Arc<DeviceKey>, LinkError>;
}

/// Dials an address. A gateway that wants to know the device is told, and no other.
pub struct ToUrl {
    url: GatewayUrl,
    options: ConnectOptions,
    source: Option<Arc<dyn DeviceSource>>,
    device: Mutex<Option<Arc<DeviceKey>>>,
}

impl ToUrl {
    /// Dials so. What the near side can do is added to the options.
    pub fn new(url: GatewayUrl, options: ConnectOptions) -> Self {
        let device = Mutex::new(options.device.clone());
        Self { url, options: near_side(options), source: None, device }
    }

    /// With the key of this device, where it is asked for.
    pub fn with_device(mut self, source: Arc<dyn DeviceSource>) -> Self {
        self.source = Some(source);
        self
    }

    async fn connect(&self, device: Option<Arc<DeviceKey>>) -> Result<Dialled, ClientError> {
        let options = ConnectOptions { device, ..self.options.clone() };
        let (client, events) = Client::connect(Target::Url(self.url.clone()), options).await?;
        Ok(Dialled { client, events, place: Place::Elsewhere })
    }
}

/// Options with what the near side of a gateway can do, and all that its token allows.
pub fn near_side(options: ConnectOptions) -> ConnectOptions {
    ConnectOptions {
        caps: CAPS.map(str::to_owned).to_vec(),
        scopes: vec![Scope::Admin.word().to_owned()],
        ..options
    }
}

impl Dial for ToUrl {
    fn dial(&self) -> BoxFuture<'_, Result<Dialled, LinkError>> {
        Box::pin(async {
            let known = self.device.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let had_none = known.is_none();
            match (self.connect(known).await, &self.source) {
                (Ok(dialled), _) => Ok(dialled),
                (Err(error), Some(source)) if had_none && wants_device(&error) => {
                    let device = source.device()?;
                    let dialled = self.connect(Some(Arc::clone(&device))).await;
                    let dialled = dialled.map_err(refused_entry)?;
                    *self.device.lock().unwrap_or_else(PoisonError::into_inner) = Some(device);
                    Ok(dialled)
                }
                (Err(error), _) => Err(refused_entry(error)),
            }
        })
    }

    fn whereabouts(&self) -> String {
        self.url.to_string()
    }
}

fn wants_device(error: &ClientError) -> bool {
    let ClientError::Refused { error } = error else { return false };
    let code = error.details.as_ref().and_then(|details| details.get("code"));
    code.and_then(Value::as_str) == Some("DEVICE_IDENTITY_REQUIRED")
}

/// Who is not let in cannot reach it; the words say what to do next.
fn refused_entry(error: ClientError) -> LinkError {
    LinkError::Unreachable {
        is_passing: LinkError::from(error.clone()).is_passing(),
        message: error.to_string(),
    }
}
