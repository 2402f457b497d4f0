//! What stands between client and servers in one run: `spillway:adaptive`, `nginx:least_conn`, `direct`.
//!
//! Options follow the policy: `sglang-router:cache_aware+balance-abs-threshold=8` hands `--balance-abs-threshold 8` to the
//! router, so that a default and a changed setting are two arms with two names.

use std::fmt;
use std::str::FromStr;

/// One of the things that are compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Arm {
    pub(super) kind: Kind,
    /// Its rule, by the name it has there; empty for the two that have none.
    pub(super) policy: String,
    /// Settings apart from its defaults.
    pub(super) options: Vec<(String, String)>,
}

/// Which program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// The gateway.
    Spillway,
    /// SGLang's router.
    SglangRouter,
    /// vLLM's router.
    VllmRouter,
    /// Envoy as a plain proxy.
    Envoy,
    /// nginx as a plain proxy.
    Nginx,
    /// A copier of bytes that decides nothing: the client takes turns.
    NullProxy,
    /// Nothing: the client takes turns.
    Direct,
}

const KINDS: [(&str, Kind); 7] = [
    ("spillway", Kind::Spillway),
    ("sglang-router", Kind::SglangRouter),
    ("vllm-router", Kind::VllmRouter),
    ("envoy", Kind::Envoy),
    ("nginx", Kind::Nginx),
    ("null-proxy", Kind::NullProxy),
    ("direct", Kind::Direct),
];

impl Kind {
    /// Its name, which is that of its program where it has one.
    pub(super) fn name(self) -> &'static str {
        KINDS.iter().find(|(_, kind)| *kind == self).map_or("", |(name, _)| name)
    }
}

impl Arm {
    /// A control: something without a rule of its own.
    pub(super) fn control(kind: Kind) -> Self {
        Self { kind, policy: String::new(), options: Vec::new() }
    }

    /// The policy that virtual time knows it by, if it does.
    pub(super) fn in_virtual_time(&self) -> Option<&str> {
        match self.kind {
            Kind::Spillway if self.options.is_empty() => Some(&self.policy),
            // The client takes turns, which is what the policy does.
            Kind::NullProxy | Kind::Direct => Some("round_robin"),
            _ => None,
        }
    }
}

impl FromStr for Arm {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err("an arm is empty; is there a comma too many?".to_owned());
        }
        let (name, rest) = text.split_once(':').unwrap_or((text, ""));
        let Some((_, kind)) = KINDS.iter().find(|(known, _)| *known == name) else {
            let known: Vec<_> = KINDS.iter().map(|(name, _)| *name).collect();
            return Err(format!("{name:?} is none of {}", known.join(", ")));
        };
        let mut parts = rest.split('+');
        let policy = parts.next().unwrap_or_default().to_owned();
        let decides = !matches!(kind, Kind::NullProxy | Kind::Direct);
        if decides == policy.is_empty() {
            let what = if decides { "needs a policy, as in nginx:least_conn" } else { "decides nothing" };
            return Err(format!("{name} {what}"));
        }
        let option = |part: &str| match part.split_once('=') {
            Some((key, value)) => Ok((key.to_owned(), value.to_owned())),
            None => Err(format!("{part:?} is no option: KEY=VALUE")),
        };
        let options = parts.map(option).collect::<Result<Vec<_>, _>>()?;
        if !options.is_empty() && !matches!(kind, Kind::SglangRouter | Kind::VllmRouter) {
            return Err(format!("{name} takes no options here"));
        }
        Ok(Self { kind: *kind, policy, options })
    }
}

impl fmt::Display for Arm {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.kind.name())?;
        if !self.policy.is_empty() {
            write!(formatter, ":{}", self.policy)?;
        }
        self.options.iter().try_for_each(|(key, value)| write!(formatter, "+{key}={value}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_arm_is_written_as_it_is_read() {
        for text in ["spillway:adaptive", "direct", "sglang-router:cache_aware+balance-abs-threshold=8+x=y"] {
            assert_eq!(text.parse::<Arm>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn what_is_no_arm_is_refused_with_the_reason() {
        for (text, reason) in [
            ("", "a comma too many"),
            ("haproxy:leastconn", "none of spillway"),
            ("nginx", "needs a policy"),
            ("direct:round_robin", "decides nothing"),
            ("vllm-router:cache_aware+threshold", "no option"),
            ("spillway:adaptive+gateways=2", "takes no options"),
        ] {
            let said = text.parse::<Arm>().unwrap_err();
            assert!(said.contains(reason), "{text}: {said}");
        }
    }
}
