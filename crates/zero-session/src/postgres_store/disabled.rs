//! A build without Postgres.

use super::{PostgresOptions, PostgresPorts};
use crate::store::StoreError;

/// Opens no store: this build has none.
#[derive(Debug)]
pub enum PostgresStore {}

impl PostgresStore {
    /// Fails, and says how to build zero with it.
    #[expect(clippy::unused_async, reason = "the same signature as in a build with Postgres")]
    pub async fn open(_options: &PostgresOptions) -> Result<PostgresPorts, StoreError> {
        let why = "this build has no Postgres; build zero with `--features cluster`".to_owned();
        Err(StoreError::Broken { verb: "open", why })
    }
}
