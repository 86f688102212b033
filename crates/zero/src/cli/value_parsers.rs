//! Parsers of flag values that several commands have.

use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use jiff::civil::Date;
use zero_core::CommandLimit;
use zero_core::host_limits::{HostLimits, parse_duration};
use zero_policy::PermissionMode;
use zero_runtime::DialectName;
use zero_settings::limit_range;

/// Parses a dialect name; help and errors list the possible values.
pub(super) fn dialect() -> impl TypedValueParser<Value = DialectName> {
    PossibleValuesParser::new(DialectName::ALL.map(DialectName::as_str))
        .try_map(|name| name.parse::<DialectName>())
}

/// Parses a permission mode; completion scripts and errors list the possible values.
pub(super) fn mode() -> impl TypedValueParser<Value = PermissionMode> {
    PossibleValuesParser::new(PermissionMode::ALL.map(PermissionMode::as_str))
        .try_map(|name| name.parse::<PermissionMode>())
}

/// Parses a duration greater than zero.
pub(super) fn some_time(text: &str) -> Result<Duration, String> {
    match parse_duration(text) {
        Ok(Duration::ZERO) => Err("the time must be greater than zero".to_owned()),
        Ok(time) => Ok(time),
        Err(error) => Err(error.to_string()),
    }
}

/// Parses a time span; its error suggests hours and days rather than milliseconds.
pub(super) fn look_back(text: &str) -> Result<Duration, String> {
    some_time(text).map_err(|_| format!("`{text}` is not a time such as `12h` or `30d`"))
}

/// Parses an amount of US dollars, with or without a `$`.
pub(super) fn dollars(text: &str) -> Result<f64, String> {
    let amount = text.strip_prefix('$').unwrap_or(text).parse::<f64>();
    amount.ok().filter(|amount| amount.is_finite() && *amount > 0.0).ok_or_else(|| {
        format!("`{text}` is not an amount of dollars greater than zero, such as `0.50`")
    })
}

/// Parses a calendar day.
pub(super) fn day(text: &str) -> Result<Date, String> {
    text.parse().map_err(|_| format!("`{text}` is not a day such as `2026-01-31`"))
}

/// Parses the number of a recorded change.
pub(super) fn change_number(text: &str) -> Result<u64, String> {
    text.parse()
        .map_err(|_| format!("`{text}` is not a change number; run `zero undo --list` to see them"))
}

/// One `--limit NAME=VALUE`, validated when it was parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitArg {
    name: String,
    value: String,
}

pub(super) fn limit_help() -> String {
    format!(
        "Set a limit, such as `file-timeout=5s` or `command-memory=2gb`; can be repeated [names: {}]",
        HostLimits::NAMES.join(", ")
    )
}

/// Parses `NAME=VALUE` and validates it.
pub(super) fn limit(text: &str) -> Result<LimitArg, String> {
    let Some((name, value)) = text.split_once('=') else {
        return Err(format!("expected NAME=VALUE; the names are {}", HostLimits::NAMES.join(", ")));
    };
    limit_range::set_limit(&mut HostLimits::default(), name, value)?;
    Ok(LimitArg { name: name.to_owned(), value: value.to_owned() })
}

pub(super) fn set_limits(args: &[LimitArg], limits: &mut HostLimits) {
    for LimitArg { name, value } in args {
        // `limit` has validated each flag, so this cannot fail.
        let _ = limits.set(name, value);
        // A flag overrides settings for single tools as well.
        for tool in
            HostLimits::COMMAND_TOOLS.iter().filter(|_| CommandLimit::from_name(name).is_some())
        {
            let _ = limits.set(&format!("{tool}.{name}"), value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limit_flags_are_checked_when_parsed() {
        for (text, fits) in [
            ("file-timeout=5s", true),
            ("file-timeout=0s", false),
            ("file-timeout=soon", false),
            ("speed=1", false),
            ("session-calls=18446744073709551615", false),
            ("file-timeout", false),
        ] {
            assert_eq!(limit(text).is_ok(), fits, "{text}");
        }
        assert!(some_time("0s").is_err());
        assert_eq!(some_time("7d"), Ok(Duration::from_secs(7 * 24 * 3600)));
    }
}
