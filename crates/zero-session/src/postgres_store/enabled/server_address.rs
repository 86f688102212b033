//! The address of a database: checked, and described without its password.

use std::str::FromStr;
use std::time::Duration;

use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};
use zero_core::loopback_host::is_loopback_host;

use crate::store::StoreError;

/// How long a connection may take to be made.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long sent bytes may stay unacknowledged before the connection counts as lost.
const UNACKNOWLEDGED_MAX: Duration = Duration::from_secs(10);
/// Silence after which the system asks whether the server is still there.
const KEEPALIVE_AFTER: Duration = Duration::from_secs(10);

/// A checked address.
#[derive(Debug)]
pub(super) struct ServerAddress {
    pub(super) config: Config,
    /// Names user, hosts and database, for messages.
    pub(super) description: String,
}

impl ServerAddress {
    /// Parses an address such as `postgres://user:password@host:5432/database?sslmode=disable`.
    ///
    /// Without `sslmode`, a connection to another machine is encrypted. Encrypted ones always check
    /// the certificate.
    pub(super) fn parse(url: &str) -> Result<Self, StoreError> {
        let is_url = url.starts_with("postgres://") || url.starts_with("postgresql://");
        if !is_url {
            return Err(address_error("it does not begin with `postgres://`"));
        }
        let (base, query) = url.split_once('?').unwrap_or((url, ""));
        let mut mode = None;
        let mut others = Vec::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            match pair.split_once('=') {
                Some(("sslmode", value)) => mode = Some(parse_ssl_mode(value)?),
                _ => others.push(pair),
            }
        }
        let url = match others.is_empty() {
            true => base.to_owned(),
            false => format!("{base}?{}", others.join("&")),
        };
        let mut config =
            Config::from_str(&url).map_err(|error| address_error(&describe(&error)))?;
        if config.get_hosts().is_empty() {
            return Err(address_error("it names no host"));
        }
        let default_mode = match config.get_hosts().iter().all(is_this_machine) {
            true => SslMode::Disable,
            false => SslMode::Require,
        };
        config
            .ssl_mode(mode.unwrap_or(default_mode))
            .application_name("zero")
            .connect_timeout(CONNECT_TIMEOUT)
            .tcp_user_timeout(UNACKNOWLEDGED_MAX)
            .keepalives_idle(KEEPALIVE_AFTER);
        let description = describe_server(&config);
        Ok(Self { config, description })
    }
}

fn parse_ssl_mode(value: &str) -> Result<SslMode, StoreError> {
    match value {
        "disable" => Ok(SslMode::Disable),
        "require" | "verify-ca" | "verify-full" => Ok(SslMode::Require),
        _ => Err(address_error(&format!(
            "`sslmode={value}` is not supported; use `verify-full` or `disable`"
        ))),
    }
}

fn is_this_machine(host: &Host) -> bool {
    match host {
        Host::Unix(_) => true,
        Host::Tcp(name) => is_loopback_host(name),
    }
}

/// Such as `zero@db.example:5432/sessions`.
fn describe_server(config: &Config) -> String {
    let ports = config.get_ports();
    let port = |at: usize| ports.get(at).or(ports.first()).copied().unwrap_or(5432);
    let hosts = config.get_hosts().iter().enumerate().map(|(at, host)| match host {
        Host::Tcp(name) => format!("{name}:{}", port(at)),
        Host::Unix(folder) => format!("{}:{}", folder.display(), port(at)),
    });
    let hosts = hosts.collect::<Vec<_>>().join(",");
    let user = config.get_user().map_or_else(String::new, |user| format!("{user}@"));
    let database = config.get_dbname().or(config.get_user()).unwrap_or_default();
    format!("`{user}{hosts}/{database}`")
}

fn describe(error: &tokio_postgres::Error) -> String {
    // Its cause names the option, and never a value of it.
    std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string)
}

fn address_error(problem: &str) -> StoreError {
    let why = format!(
        "the address of the database is wrong: {problem}; write \
         `postgres://user@host:5432/database`"
    );
    StoreError::Broken { verb: "open", why }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(url: &str, expected: &str) {
        let parsed = ServerAddress::parse(url);
        let text = match parsed {
            Ok(address) => format!("{} {:?}", address.description, address.config.get_ssl_mode()),
            Err(error) => error.to_string(),
        };
        assert!(text.contains(expected), "{url}: {text}");
        assert!(!text.contains("hunter2"), "{text}");
    }

    #[test]
    fn address_is_described_without_password() {
        check("postgres://me:hunter2@db.example/zero", "`me@db.example:5432/zero` Require");
        check("postgresql://me:hunter2@[::1]:99/zero", "`me@::1:99/zero` Disable");
        check("postgres://me:hunter2@localhost/zero?sslmode=verify-full", "/zero` Require");
        check("postgres://me:hunter2@db.example/zero?sslmode=disable", "/zero` Disable");
        check("postgres://me:hunter2@a:1,b:2/zero", "`me@a:1,b:2/zero` Require");
        check("postgres://me:hunter2@/zero?host=/run/postgresql", "/run/postgresql:5432/zero`");
        for (url, problem) in [
            ("mysql://me:hunter2@db/zero", "does not begin with `postgres://`"),
            ("postgres://me:hunter2@db:hunter2/zero", "port"),
            ("postgres://me:hunter2@db/zero?sslmode=prefer", "use `verify-full` or `disable`"),
            ("postgres://me:hunter2@db/zero?hunter=2", "hunter"),
            ("postgres:///zero", "names no host"),
        ] {
            check(url, problem);
        }
    }
}
