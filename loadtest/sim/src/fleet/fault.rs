//! A fault with its endpoint and its time.

use std::time::Duration;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use crate::engine::{Pace, SpeedFault};
use crate::fault::Fault;

/// A fault that comes at a model time: `{endpoint: 0, at: 60s, for: 30s, kind: slow, factor: 4}`. All keys but the first
/// three are those of [`Fault`].
#[derive(Clone, Debug, PartialEq)]
pub struct TimedFault {
    /// Endpoint, counted from 0 over all groups.
    pub endpoint: usize,
    /// Model time of its beginning.
    pub at: Duration,
    /// Model time it lasts, `for` in the file; without it, for good.
    pub lasts: Option<Duration>,
    /// What it is.
    pub fault: Fault,
}

impl TimedFault {
    /// What it does to the engine's speed; `None` if it is of another kind.
    pub fn speed(&self) -> Option<SpeedFault> {
        self.fault.speed(self.at, self.lasts.map(|lasts| self.at + lasts))
    }

    /// Everything that is wrong with it in a fleet of so many endpoints, each beginning with its key.
    pub fn problems(&self, endpoints: usize) -> Vec<String> {
        let mut problems = Vec::new();
        if self.endpoint >= endpoints {
            problems.push(format!("endpoint: {} is not one of {endpoints}, counted from 0", self.endpoint));
        }
        problems.extend(self.fault.problems());
        if self.fault.for_ms.is_some() {
            problems.push("for_ms: `for` says it, in model time".to_owned());
        }
        problems
    }
}

/// What becomes of the speed of one endpoint, for an engine in virtual time.
pub fn pace(faults: &[TimedFault], endpoint: usize) -> Pace {
    Pace::new(faults.iter().filter(|fault| fault.endpoint == endpoint).filter_map(TimedFault::speed))
}

impl<'de> Deserialize<'de> for TimedFault {
    // By hand: serde's `flatten` would let unknown keys pass.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut keys = Map::deserialize(deserializer)?;
        let endpoint = keys.remove("endpoint").ok_or_else(|| D::Error::missing_field("endpoint"))?;
        let at = keys.remove("at").ok_or_else(|| D::Error::missing_field("at"))?;
        let lasts = keys.remove("for").map(|value| duration("for", &value)).transpose().map_err(D::Error::custom)?;
        Ok(Self {
            endpoint: serde_json::from_value(endpoint)
                .map_err(|error| D::Error::custom(format!("endpoint: {error}")))?,
            at: duration("at", &at).map_err(D::Error::custom)?,
            lasts,
            fault: serde_json::from_value(Value::Object(keys))
                .map_err(|error| D::Error::custom(format!("fault: {error}")))?,
        })
    }
}

/// A time with its unit, up to a year.
fn duration(key: &str, value: &Value) -> Result<Duration, String> {
    const YEAR: Duration = Duration::from_secs(365 * 24 * 3_600);
    let text = value.as_str().ok_or_else(|| format!("{key}: {value} is no time with a unit, such as 60s or 1m 30s"))?;
    let time = humantime::parse_duration(text).map_err(|error| format!("{key}: {text:?}: {error}"))?;
    if time <= YEAR { Ok(time) } else { Err(format!("{key}: {text:?} is more than a year")) }
}
