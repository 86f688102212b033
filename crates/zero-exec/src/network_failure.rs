//! Explains commands that failed because they cannot connect to a host.

use zero_policy::HostName;

/// Messages of a failed name lookup or connection, in lower case.
pub(crate) const MESSAGES: &[&str] = &[
    "could not resolve",
    "couldn't resolve",
    "unable to resolve host",
    "temporary failure in name resolution",
    "temporary failure resolving",
    "name or service not known",
    "no address associated with hostname",
    "failed to lookup address",
    "no such host",
    "unknownhostexception",
    "getaddrinfo",
    "eai_again",
    "enotfound",
    "enetunreach",
    "network is unreachable",
    "connect: operation not permitted",
    "socket: operation not permitted",
];

/// Words before the name of a host, in lower case.
const HOST_MARKS: &[&str] = &[
    "resolve host:",
    "resolve host",
    "resolving",
    "could not resolve:",
    "lookup",
    "eai_again",
    "enotfound",
    "unknownhostexception:",
    "host=",
];

/// Whether the network of a program leads to any host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum HostReach {
    /// It does.
    Hosts,
    /// It does not: no host is allowed to commands.
    #[default]
    NoneAllowed,
    /// It does not: the program was judged to need no network. Others of the session have one.
    NoneJudged,
    /// Both.
    NoneJudgedOrAllowed,
}

/// Explains a message of a program whose network leads to these hosts.
pub(crate) fn explain(host_reach: HostReach, line: &str) -> String {
    let host = find_host(line);
    let (host, named) = match &host {
        Some(host) => (host.to_string(), host.to_string()),
        None => ("HOST".to_owned(), "a host".to_owned()),
    };
    let allow = format!("to allow {named}: zero config add sandbox.network {host}");
    let request = "request it with network access (`\"network_access\": true`)";
    match host_reach {
        HostReach::NoneAllowed => format!("network: commands have no network access; {allow}"),
        HostReach::NoneJudged => format!("network: judged as needing no network; {request}"),
        HostReach::NoneJudgedOrAllowed => format!(
            "network: judged as needing no network, and no host is allowed to commands; {allow}, then {request}"
        ),
        HostReach::Hosts => "network: commands look up no names and connect only through the proxy that `HTTPS_PROXY` and `ALL_PROXY` name, which this program did not use; configure it to use the proxy"
            .to_owned(),
    }
}

/// The host that a message is about: a name after one of the marks, or that of an address.
fn find_host(line: &str) -> Option<HostName> {
    let is_edge = |letter: char| letter.is_whitespace() || "'\"`()[]<>,;".contains(letter);
    let lower = line.to_lowercase();
    let after_mark = HOST_MARKS.iter().find_map(|mark| {
        let rest = lower.get(lower.find(mark)? + mark.len()..)?;
        rest.split(is_edge).find(|word| !word.is_empty()).and_then(parse_host)
    });
    after_mark.or_else(|| {
        let rest = lower.split_once("://")?.1;
        rest.split(is_edge).next().and_then(parse_host)
    })
}

/// A host with a dot in its name, without user, port and path. Other words are not likely hosts.
fn parse_host(word: &str) -> Option<HostName> {
    let word = word.split(['/', '?', '#']).next()?;
    let word = word.rsplit('@').next()?;
    let name = word.split(':').next()?.trim_end_matches('.');
    let is_name = name.contains('.')
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-.".contains(&byte))
        && name.bytes().any(|byte| byte.is_ascii_alphabetic());
    if is_name { HostName::from_host(name).ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_is_found_in_messages_of_programs() {
        for (line, expected) in [
            ("curl: (6) Could not resolve host: example.com", Some("example.com")),
            ("npm error getaddrinfo EAI_AGAIN packages.example.com", Some("packages.example.com")),
            (
                "dial tcp: lookup mirror.example.org on 127.0.0.53:53: no such host",
                Some("mirror.example.org"),
            ),
            (
                "fatal: unable to access 'https://a.com/x.git/': Could not resolve host: a.com",
                Some("a.com"),
            ),
            (
                "java.net.UnknownHostException: maven.example.com: Name or service not known",
                Some("maven.example.com"),
            ),
            (
                "HTTPSConnectionPool(host='pip.example.com', port=443): [Errno -3] Temporary failure in name resolution",
                Some("pip.example.com"),
            ),
            ("ssh: Could not resolve hostname git.example.com: Temporary failure", None),
            (
                "failed to fetch `https://me@index.example.com:8443/x`: dns: failed to lookup address information",
                Some("index.example.com"),
            ),
            ("[Errno -3] Temporary failure in name resolution", None),
            ("bash: /dev/tcp/192.0.2.1/9: Network is unreachable", None),
        ] {
            let host = find_host(line).map(|host| host.to_string());
            assert_eq!(host.as_deref(), expected, "{line}");
        }
    }
}
