//! The HTTP client shared by models, with restrictive defaults.

use std::sync::{Arc, OnceLock};

use zero_core::ExtraRootCertificates;
use zero_core::error_chain::root_cause;
use zero_runtime::web::client_builder;

use crate::model::attempt_failure::provider_text;
use crate::model::{ModelError, ModelErrorKind, ModelHttpLimits};

/// Maximum number of response headers.
const HEADERS_MAX: usize = 100;
/// Idle connections kept per host.
const IDLE_CONNECTIONS_MAX: usize = 4;
/// The HTTP client of several models, created on first use.
#[derive(Clone, Default)]
pub(crate) struct SharedHttpClient {
    made: Arc<OnceLock<Result<reqwest::Client, ModelError>>>,
    extra_roots: ExtraRootCertificates,
}

impl SharedHttpClient {
    /// Creates a client that trusts these certificates in addition to those of the system.
    pub(crate) fn with_extra_roots(extra_roots: ExtraRootCertificates) -> Self {
        Self { made: Arc::default(), extra_roots }
    }

    pub(super) fn get(&self, limits: &ModelHttpLimits) -> Result<reqwest::Client, ModelError> {
        self.made
            .get_or_init(|| build_client(limits, &self.extra_roots).map_err(client_build_error))
            .clone()
    }
}

fn build_client(
    limits: &ModelHttpLimits,
    extra_roots: &ExtraRootCertificates,
) -> Result<reqwest::Client, reqwest::Error> {
    client_builder(extra_roots)?
        .http1_max_headers(HEADERS_MAX)
        .connect_timeout(limits.connect_time)
        .pool_max_idle_per_host(IDLE_CONNECTIONS_MAX)
        .build()
}

fn client_build_error(error: reqwest::Error) -> ModelError {
    let message = format!("no HTTP client could be made: {}", describe_root_cause(&error));
    ModelError::new(ModelErrorKind::InvalidRequest, message)
}

/// The root cause of an error. The error's own message contains the address and is not used.
pub(super) fn describe_root_cause(error: &reqwest::Error) -> String {
    root_cause(error)
        .and_then(|why| provider_text(&why))
        .unwrap_or_else(|| "no reason is known".to_owned())
}
