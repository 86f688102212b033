//! A build without Postgres.

use super::{PostgresOptions, PostgresPorts};
use crate::store::StoreError;
use crate::store_transfer::TransferStore;

/// Opens no store: this build has none.
#[derive(Debug)]
pub enum PostgresStore {}

impl PostgresStore {
    /// Fails, and says how to build zero with it.
    #[expect(clippy::unused_async, reason = "the same signature as in a build with Postgres")]
    pub async fn open(_options: &PostgresOptions) -> Result<PostgresPorts, StoreError> {
        Err(missing_error())
    }

    /// Fails likewise.
    #[expect(clippy::unused_async, reason = "the same signature as in a build with Postgres")]
    pub async fn open_transfer(
        _options: &PostgresOptions,
        _home: &str,
    ) -> Result<TransferStore, StoreError> {
        Err(missing_error())
    }
}

fn missing_error() -> StoreError {
    let why = "this build has no Postgres; build zero with `--features cluster`".to_owned();
    StoreError::Broken { verb: "open", why }
}
