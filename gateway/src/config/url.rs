//! The address of an endpoint: scheme, host and port, and nothing else.
//!
//! Its text is the endpoint's identity everywhere (ring, metrics, `/drain`), so two ways to write one address must give
//! one text: the host is lower case, IPv6 is in its short form, the port is always there.

use std::fmt;
use std::net::{Ipv6Addr, SocketAddr};
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::form::Refused;

/// Longest host name that DNS allows.
const MAX_HOST: usize = 253;

/// Longest label between two dots of a host name that DNS allows.
const MAX_LABEL: usize = 63;

/// How an endpoint is spoken to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Scheme {
    /// Plain text.
    #[default]
    Http,
    /// TLS.
    Https,
}

impl Scheme {
    /// Returns `http` or `https`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }

    fn default_port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }
}

/// Where an endpoint listens. Displays as its identity, such as `http://10.0.0.11:8000`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EndpointUrl {
    scheme: Scheme,
    host: String,
    port: u16,
}

impl EndpointUrl {
    /// Returns the URL of a socket address.
    pub fn of_socket(scheme: Scheme, socket: SocketAddr) -> Self {
        Self { scheme, host: socket.ip().to_string(), port: socket.port() }
    }

    /// Returns the scheme.
    pub fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// Returns the host: a name in lower case or an IP address, IPv6 without brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Returns the port; without one in the file, 80 or 443 by scheme. Never 0.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns `host:port`, IPv6 in brackets: what to connect to, and the `Host` header.
    pub fn authority(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }
}

impl fmt::Display for EndpointUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.scheme.as_str(), self.authority())
    }
}

impl FromStr for EndpointUrl {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Self, UrlError> {
        Ok(parse(text)?)
    }
}

/// Why a text is not the address of an endpoint.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(transparent)]
pub struct UrlError(#[from] pub(super) Refused);

fn parse(text: &str) -> Result<EndpointUrl, Refused> {
    let (scheme, rest) = match text.split_once("://") {
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") => (Scheme::Http, rest),
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("https") => (Scheme::Https, rest),
        Some(_) => return Err(Refused::new("has an unknown scheme; http and https are known")),
        None => {
            let message = "is not a URL such as http://10.0.0.11:8000";
            return Err(match parse(&format!("http://{text}")) {
                Ok(url) => Refused::meant(message, url),
                Err(_) => Refused::new(message),
            });
        }
    };
    let authority = rest.strip_suffix('/').unwrap_or(rest);
    if authority.contains(['/', '?', '#']) {
        let message = "has a path; an endpoint is scheme, host and port";
        let host = authority.split(['/', '?', '#']).next().unwrap_or_default();
        return Err(Refused::meant(message, format_args!("{}://{host}", scheme.as_str())));
    }
    if authority.contains('@') {
        return Err(Refused::new("has a user or password, which would be written to logs"));
    }
    let (host, port) = split_port(authority)?;
    let port = match port {
        None => scheme.default_port(),
        Some(digits) => match digits.parse() {
            Ok(port) if port != 0 && digits.bytes().all(|b| b.is_ascii_digit()) => port,
            _ => return Err(Refused::new("has a port that is not between 1 and 65535")),
        },
    };
    Ok(EndpointUrl { scheme, host, port })
}

/// Returns the canonical host and the text of the port.
fn split_port(authority: &str) -> Result<(String, Option<&str>), Refused> {
    if let Some(bracketed) = authority.strip_prefix('[') {
        let Some((address, after)) = bracketed.split_once(']') else {
            return Err(Refused::new("has an IPv6 address without the closing bracket"));
        };
        let Ok(address) = address.parse::<Ipv6Addr>() else {
            return Err(Refused::new("has brackets around what is not an IPv6 address"));
        };
        return match after.strip_prefix(':') {
            Some(port) => Ok((address.to_string(), Some(port))),
            None if after.is_empty() => Ok((address.to_string(), None)),
            None => Err(Refused::new("has text between the IPv6 address and the port")),
        };
    }
    let (host, port) = match authority.split_once(':') {
        Some((host, port)) => (host, Some(port)),
        None => (authority, None),
    };
    if port.is_some_and(|port| port.contains(':')) {
        return Err(Refused::new("has an IPv6 address without brackets"));
    }
    if !is_host(host) {
        return Err(Refused::new("has no valid host"));
    }
    Ok((host.to_ascii_lowercase(), port))
}

/// Letters, digits, `-` and `_` in labels. An underscore is not a host name by the letter, but container tools make them.
pub(super) fn is_host(host: &str) -> bool {
    let is_label = |label: &str| {
        (1..=MAX_LABEL).contains(&label.len())
            && label.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'))
    };
    let name = host.strip_suffix('.').unwrap_or(host);
    host.len() <= MAX_HOST && name.split('.').all(is_label)
}

impl Serialize for EndpointUrl {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for EndpointUrl {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

impl JsonSchema for EndpointUrl {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "EndpointUrl".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "pattern": "^[hH][tT][tT][pP][sS]?://", "x-form": "url"})
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_way_to_write_an_address_gives_one_identity() {
        for (text, id) in [
            ("http://10.0.0.11:8000", "http://10.0.0.11:8000"),
            ("HTTP://Model-A.Example:8000/", "http://model-a.example:8000"),
            ("http://vllm", "http://vllm:80"),
            ("https://vllm", "https://vllm:443"),
            ("http://[2001:DB8:0:0::1]:8000", "http://[2001:db8::1]:8000"),
            ("http://[::1]", "http://[::1]:80"),
            ("http://vllm_1:08000", "http://vllm_1:8000"),
        ] {
            let url: EndpointUrl = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(url.to_string(), id, "{text}");
        }
    }

    #[test]
    fn what_is_more_or_less_than_an_address_is_refused() {
        for text in [
            "",
            "http://",
            "http://:8000",
            "ftp://a",
            "http://a:0",
            "http://a:65536",
            "http://a:+1",
            "http://a:",
            "a b",
            "http://a b",
            "http://u:p@a",
            "http://a/v1",
            "http://a?x",
            "http://::1:80",
            "http://[::1",
            "http://[a]:1",
            "http://[::1]x",
            "http://a..b",
            "http://\u{e4}",
            "http://a:80:80",
        ] {
            assert!(text.parse::<EndpointUrl>().is_err(), "{text:?} must be refused");
        }
    }

    #[test]
    fn a_missing_scheme_and_a_path_show_what_was_meant() {
        for (text, hint) in [
            ("10.0.0.11:8000", "did you mean http://10.0.0.11:8000?"),
            ("http://10.0.0.11:8000/v1", "did you mean http://10.0.0.11:8000?"),
        ] {
            let UrlError(refused) = text.parse::<EndpointUrl>().expect_err(text);
            assert_eq!(refused.hint.as_deref(), Some(hint), "{text}");
        }
    }

    proptest! {
        #[test]
        fn an_identity_parses_to_itself(text in "(http|https)://[a-zA-Z0-9.\\[\\]:_-]{1,20}(:[0-9]{1,5})?") {
            if let Ok(url) = text.parse::<EndpointUrl>() {
                prop_assert_eq!(url.to_string().parse::<EndpointUrl>(), Ok(url));
            }
        }

        #[test]
        fn any_text_is_parsed_or_refused(text in ".*") {
            drop(text.parse::<EndpointUrl>());
        }
    }
}
