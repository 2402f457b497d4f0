//! The forms of `form.rs` as serde and the schema see them: what a field of a struct names in its attributes.
//!
//! In Rust an optional value is an `Option`; in the file it is the word `off` or `auto`, so that a default can be written
//! down. `false` counts as `off`: YAML 1.1 tools, such as those that fill templates, write the one as the other.

#![expect(clippy::ref_option, clippy::trivially_copy_pass_by_ref, reason = "serde passes the field by reference")]

use std::time::Duration;

use schemars::{Schema, SchemaGenerator, json_schema};
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use super::form::{parse_duration, parse_share, parse_size, write_duration, write_share, write_size};

/// Largest [`count`]. Far above any count here, and within every integer type that holds one.
const MAX_COUNT: u32 = 1_000_000;

/// Pattern of a duration, for editors.
const DURATION: &str = r"^[0-9]+(\.[0-9]+)?(ms|s|m|h)$";

/// A duration as text; the form of the fields with `duration` below.
struct Text(Duration);

impl Serialize for Text {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&write_duration(self.0))
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        parse_duration(&text).map(Self).map_err(D::Error::custom)
    }
}

pub(super) mod duration {
    use super::{Deserialize, Deserializer, Duration, Serialize, Serializer, Text};

    pub(in crate::config) fn serialize<S: Serializer>(value: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        Text(*value).serialize(serializer)
    }

    pub(in crate::config) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        Ok(Text::deserialize(deserializer)?.0)
    }
}

pub(super) mod off_duration {
    use super::{Deserializer, Duration, Serializer, Text, off};

    pub(in crate::config) fn serialize<S: Serializer>(
        value: &Option<Duration>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        off::serialize(&value.map(Text), serializer)
    }

    pub(in crate::config) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Duration>, D::Error> {
        Ok(off::deserialize::<Text, D>(deserializer)?.map(|text| text.0))
    }
}

pub(super) mod auto_duration {
    use super::{Deserializer, Duration, Serializer, Text, auto};

    pub(in crate::config) fn serialize<S: Serializer>(
        value: &Option<Duration>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        auto::serialize(&value.map(Text), serializer)
    }

    pub(in crate::config) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Duration>, D::Error> {
        Ok(auto::deserialize::<Text, D>(deserializer)?.map(|text| text.0))
    }
}

pub(super) mod size {
    use super::{Deserialize, Deserializer, Serializer, Value, parse_size, write_size};
    use serde::de::Error as _;

    pub(in crate::config) fn serialize<S: Serializer>(value: &u64, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&write_size(*value))
    }

    pub(in crate::config) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::String(text) => parse_size(&text).map_err(D::Error::custom),
            value => value.as_u64().ok_or_else(|| D::Error::custom("a size is text or a number")),
        }
    }
}

/// A percentage.
pub(super) mod share {
    use super::{Deserialize, Deserializer, Serializer, parse_share, write_share};
    use serde::de::Error as _;

    pub(in crate::config) fn serialize<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&write_share(*value))
    }

    pub(in crate::config) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
        parse_share(&String::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

pub(super) mod off {
    use super::{DeserializeOwned, Deserializer, Serialize, Serializer, Value, read_unless, write_or};

    pub(in crate::config) fn serialize<T: Serialize, S: Serializer>(
        value: &Option<T>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        write_or("off", value.as_ref(), serializer)
    }

    pub(in crate::config) fn deserialize<'de, T: DeserializeOwned, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<T>, D::Error> {
        read_unless(|value| *value == "off" || *value == Value::Bool(false), deserializer)
    }
}

/// A header name, in lower case as HTTP/2 has it.
pub(super) mod off_header {
    use super::{Deserializer, Serializer, off};

    pub(in crate::config) fn serialize<S: Serializer>(
        value: &Option<String>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        off::serialize(value, serializer)
    }

    pub(in crate::config) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<String>, D::Error> {
        Ok(off::deserialize::<String, D>(deserializer)?.map(|name| name.to_ascii_lowercase()))
    }
}

pub(super) mod auto {
    use super::{DeserializeOwned, Deserializer, Serialize, Serializer, read_unless, write_or};

    pub(in crate::config) fn serialize<T: Serialize, S: Serializer>(
        value: &Option<T>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        write_or("auto", value.as_ref(), serializer)
    }

    pub(in crate::config) fn deserialize<'de, T: DeserializeOwned, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<T>, D::Error> {
        read_unless(|value| *value == "auto", deserializer)
    }
}

fn write_or<T: Serialize, S: Serializer>(word: &str, value: Option<&T>, serializer: S) -> Result<S::Ok, S::Error> {
    match value {
        Some(value) => value.serialize(serializer),
        None => serializer.serialize_str(word),
    }
}

fn read_unless<'de, T: DeserializeOwned, D: Deserializer<'de>>(
    is_word: impl Fn(&Value) -> bool,
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    let value = Value::deserialize(deserializer)?;
    if is_word(&value) {
        return Ok(None);
    }
    serde_json::from_value(value).map(Some).map_err(D::Error::custom)
}

/// Schema of a duration above zero.
pub(super) fn span(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "pattern": DURATION, "x-form": "duration"})
}

/// Schema of a duration that may be zero.
pub(super) fn span_or_zero(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "pattern": DURATION, "x-form": "duration or zero"})
}

pub(super) fn span_or_off(generator: &mut SchemaGenerator) -> Schema {
    or_off(&span(generator))
}

pub(super) fn span_or_auto(generator: &mut SchemaGenerator) -> Schema {
    or_auto(&span(generator))
}

/// Schema of a size; fields add `minimum` and `maximum` in bytes.
pub(super) fn bytes(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": ["string", "integer"], "pattern": "^[0-9]+(B|KiB|MiB|GiB|TiB)?$", "x-form": "size"})
}

/// Schema of a part in percent.
pub(super) fn percent(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "pattern": r"^[0-9]+(\.[0-9]+)?%$", "x-form": "share"})
}

/// Schema of a whole number of at least one.
pub(super) fn count(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "integer", "minimum": 1, "maximum": MAX_COUNT})
}

pub(super) fn count_or_off(generator: &mut SchemaGenerator) -> Schema {
    or_off(&count(generator))
}

pub(super) fn count_or_auto(generator: &mut SchemaGenerator) -> Schema {
    or_auto(&count(generator))
}

/// Schema of a number of threads. The bound only catches slips; each thread costs memory whether used or not.
pub(super) fn threads_or_auto(_: &mut SchemaGenerator) -> Schema {
    or_auto(&json_schema!({"type": "integer", "minimum": 1, "maximum": 1024}))
}

/// Schema of an IP address and port.
pub(super) fn address(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "x-form": "address"})
}

/// Schema of an HTTP path.
pub(super) fn http_path(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "pattern": "^/", "x-form": "path"})
}

pub(super) fn header_or_off(_: &mut SchemaGenerator) -> Schema {
    or_off(&json_schema!({"type": "string", "x-form": "header"}))
}

pub(super) fn names_or_auto(_: &mut SchemaGenerator) -> Schema {
    or_auto(&json_schema!({"type": "array", "items": {"type": "string"}}))
}

pub(super) fn or_off(schema: &Schema) -> Schema {
    json_schema!({"anyOf": [{"enum": ["off", false]}, schema]})
}

fn or_auto(schema: &Schema) -> Schema {
    json_schema!({"anyOf": [{"const": "auto"}, schema]})
}
