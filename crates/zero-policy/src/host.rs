//! Parses the host that a command or a tool would connect to.
//!
//! A host rule is only reliable if the host is parsed unambiguously. A text that two programs could
//! parse as two hosts is an error, and every spelling of an address yields the same [`HostName`].

mod address;
mod host_pattern;
mod punycode;

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

pub use self::host_pattern::{HostPattern, is_web_port};

/// A host as rules compare it: lower case, no trailing dot, punycode, or an address.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostName(HostKind);

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum HostKind {
    Name(String),
    Address(IpAddr),
}

/// Why a text is not a host, or not an unambiguous one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HostNameError {
    /// A file URL, an empty text, `https:///x`.
    #[error("it names no host")]
    Missing,
    /// A space, a backslash, a control character, `%` or the like.
    #[error("the host contains an invalid character")]
    Character,
    /// Letters that resolvers replace by others: `ｇithub.com`, `ﬁle.com`.
    #[error("the host contains look-alike characters")]
    LookAlike,
    /// Programs disagree on the host.
    #[error("programs can read the address as two different hosts")]
    Ambiguous,
    /// An empty label, a label of more than 63 letters, or a name of more than 253.
    #[error("the host name is malformed")]
    Malformed,
    /// It looks like an address and is not a valid one.
    #[error("the address is malformed")]
    Address,
}

/// Schemes after which some programs accept one `:` without `//` as a URL.
const URL_SCHEMES: &[&str] = &[
    "http", "https", "ftp", "ftps", "sftp", "scp", "ws", "wss", "ssh", "git", "file", "rsync",
    "ldap", "ldaps", "gopher", "dict", "telnet", "tftp", "smb", "smtp", "imap", "pop3",
];

const LABEL_MAX: usize = 63;
const NAME_MAX: usize = 253;

impl HostName {
    /// Parses a URL, `user@host:path`, `host:port` or a bare host.
    pub fn parse(text: &str) -> Result<Self, HostNameError> {
        if text.chars().any(|c| c.is_control() || c.is_whitespace() || c == '\\') {
            return Err(HostNameError::Character);
        }
        if let Some((scheme, rest)) = text.split_once("://")
            && is_url_scheme(scheme)
        {
            return Self::from_authority(split_authority(rest));
        }
        if let Some(rest) = text.strip_prefix("//") {
            return Self::from_authority(split_authority(rest));
        }
        if let Some((scheme, _)) = text.split_once(':')
            && URL_SCHEMES.iter().any(|known| known.eq_ignore_ascii_case(scheme))
        {
            // `https:evil.com` and `https:/evil.com` are URLs to some programs and paths to others.
            return Err(HostNameError::Ambiguous);
        }
        if let Ok(address) = text.parse::<Ipv6Addr>() {
            return Ok(Self::from_address(IpAddr::V6(address)));
        }
        if let Some((before, after)) = text.split_once(':')
            && after.starts_with(':')
            && !before.contains('[')
        {
            // `ext::command`: git passes the rest to a helper, and it need not be a host.
            return Err(HostNameError::Ambiguous);
        }
        let as_url = Self::from_authority(split_authority(text));
        match parse_scp_host(text).map(Self::from_host) {
            Some(as_scp) if as_scp != as_url => Err(HostNameError::Ambiguous),
            _ => as_url,
        }
    }

    /// Parses a host without user, port or path. An IPv6 address is in brackets.
    pub fn from_host(text: &str) -> Result<Self, HostNameError> {
        if let Some(inner) = text.strip_prefix('[') {
            let inner = inner.strip_suffix(']').ok_or(HostNameError::Address)?;
            let (inner, _zone) = inner.split_once('%').unwrap_or((inner, ""));
            let address: Ipv6Addr = inner.parse().map_err(|_| HostNameError::Address)?;
            return Ok(Self::from_address(IpAddr::V6(address)));
        }
        let name = canonical_name(text)?;
        if name.rsplit('.').next().is_some_and(address::is_number) {
            let address = address::parse_v4(&name).ok_or(HostNameError::Address)?;
            return Ok(Self::from_address(IpAddr::V4(address)));
        }
        Ok(Self(HostKind::Name(name)))
    }

    /// Parses `user:password@host:port`.
    fn from_authority(authority: &str) -> Result<Self, HostNameError> {
        let host_and_port = match authority.split_once('@') {
            Some((_, rest)) if rest.contains('@') => return Err(HostNameError::Ambiguous),
            Some((_, rest)) => rest,
            None => authority,
        };
        let host = match host_and_port.find(']') {
            Some(end) if host_and_port.starts_with('[') => {
                let (host, port) = host_and_port.split_at(end + 1);
                if !(port.is_empty() || port.starts_with(':')) {
                    return Err(HostNameError::Address);
                }
                host
            }
            _ => host_and_port.split_once(':').map_or(host_and_port, |(host, _)| host),
        };
        Self::from_host(host)
    }

    /// The host of an address; an address that embeds another one becomes that one.
    pub fn from_address(address: IpAddr) -> Self {
        Self(HostKind::Address(address.to_canonical()))
    }

    /// The address, if the host is an address.
    pub fn ip(&self) -> Option<IpAddr> {
        match self.0 {
            HostKind::Address(address) => Some(address),
            HostKind::Name(_) => None,
        }
    }

    /// The name, if the host is not an address.
    pub fn name(&self) -> Option<&str> {
        match &self.0 {
            HostKind::Name(name) => Some(name),
            HostKind::Address(_) => None,
        }
    }

    /// Why the host is not on the public internet, as far as its name or address shows.
    pub fn private_reason(&self) -> Option<&'static str> {
        let name = match &self.0 {
            HostKind::Address(address) => return address::private_reason(*address),
            HostKind::Name(name) => name.as_str(),
        };
        match name {
            "localhost" | "localhost.localdomain" | "ip6-localhost" | "ip6-loopback" => {
                Some("this machine")
            }
            "metadata" | "metadata.goog" | "instance-data" => Some("a cloud metadata service"),
            _ if name.ends_with(".localhost") => Some("this machine"),
            _ if name.starts_with("metadata.") && name.ends_with(".internal") => {
                Some("a cloud metadata service")
            }
            _ if name.ends_with(".internal") => Some("a private network"),
            _ => None,
        }
    }
}

impl fmt::Display for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            HostKind::Name(name) => f.write_str(name),
            HostKind::Address(IpAddr::V4(address)) => address.fmt(f),
            HostKind::Address(IpAddr::V6(address)) => write!(f, "[{address}]"),
        }
    }
}

/// The canonical form of a host name: lower case, punycode, no trailing dot.
fn canonical_name(text: &str) -> Result<String, HostNameError> {
    // Resolvers of international names treat these characters as dots.
    let text = text.replace(['\u{3002}', '\u{ff0e}', '\u{ff61}'], ".");
    let text = text.strip_suffix('.').unwrap_or(&text);
    if text.is_empty() {
        return Err(HostNameError::Missing);
    }
    let labels: Vec<String> = text.split('.').map(canonical_label).collect::<Result<_, _>>()?;
    let name = labels.join(".");
    if name.len() > NAME_MAX {
        return Err(HostNameError::Malformed);
    }
    Ok(name)
}

/// The canonical form of one label.
pub(crate) fn canonical_label(label: &str) -> Result<String, HostNameError> {
    if label.is_empty() || label.starts_with('-') {
        return Err(HostNameError::Malformed);
    }
    if label.chars().any(is_confusable) {
        return Err(HostNameError::LookAlike);
    }
    let label = label.to_lowercase();
    let fits = |c: char| c.is_alphanumeric() || c == '-' || c == '_' || !c.is_ascii();
    if !label.chars().all(fits) {
        return Err(HostNameError::Character);
    }
    let label = match label.is_ascii() {
        true => label,
        false if label.chars().any(is_confusable) => return Err(HostNameError::LookAlike),
        false => punycode::encode(&label).ok_or(HostNameError::Malformed)?,
    };
    if label.len() > LABEL_MAX { Err(HostNameError::Malformed) } else { Ok(label) }
}

/// Characters that a resolver replaces or drops before the lookup.
fn is_confusable(c: char) -> bool {
    matches!(
        c,
        '\u{80}'..='\u{b6}' | '\u{b8}'..='\u{be}' | '\u{d7}' | '\u{f7}'
            | 'ĳ' | 'Ĳ' | 'ŀ' | 'Ŀ' | 'ŉ' | 'ſ' | 'Ǆ'..='ǌ' | 'Ǳ'..='ǳ'
            | '\u{2b0}'..='\u{36f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}'
            | '\u{17b5}' | '\u{180b}'..='\u{180f}' | '\u{1d2c}'..='\u{1dff}'
            | '\u{2000}'..='\u{20ff}' | '\u{2100}'..='\u{218f}' | '\u{2460}'..='\u{24ff}'
            | '\u{2c7c}' | '\u{2c7d}' | '\u{3000}'..='\u{3004}' | '\u{3164}'
            | '\u{3200}'..='\u{33ff}' | '\u{a69c}' | '\u{a69d}' | '\u{a770}'
            | '\u{f900}'..='\u{faff}' | '\u{fb00}'..='\u{fb06}' | '\u{fe00}'..='\u{fe0f}'
            | '\u{fe20}'..='\u{fe6f}' | '\u{feff}'..='\u{ffff}' | '\u{1d400}'..='\u{1d7ff}'
            | '\u{1f100}'..='\u{1f2ff}' | '\u{1fbf0}'..='\u{1fbf9}' | '\u{e0000}'..='\u{e0fff}'
    )
}

fn is_url_scheme(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b))
}

/// The part before the path, the query and the fragment.
fn split_authority(text: &str) -> &str {
    text.split(['/', '?', '#']).next().unwrap_or(text)
}

/// The host of `user@host:path`; `None` if the text does not have that form.
fn parse_scp_host(text: &str) -> Option<&str> {
    let after_user = |host: &str| host.rfind('@').map_or(0, |at| at + 1);
    let bracket = after_user(text.split('[').next().unwrap_or(text));
    let colon = match text.get(bracket..).filter(|rest| rest.starts_with('[')) {
        Some(rest) => bracket + rest.find("]:")? + 1,
        None => text.find(':')?,
    };
    let host = text.get(..colon).filter(|host| !host.contains('/'))?;
    host.get(after_user(host)..)
}

#[cfg(test)]
mod tests;
