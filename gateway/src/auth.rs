//! Who is asking: the API key of a request and the tenant it stands for.
//!
//! Without keys everybody may ask and nobody has a name; a key that a client sends is then the endpoint's matter and goes
//! on untouched. With keys every request needs one, and it ends here: endpoints never see it. No key, and no part of
//! one, is ever logged, counted or shown.

pub mod keys;

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use http::HeaderMap;
use http::header::{AUTHORIZATION, HeaderName};

use crate::error::Refusal;

pub use keys::{Caller, Keys};

/// Where clients put their key: OpenAI's header, Anthropic's, and that of Azure's OpenAI service.
static HEADERS: [HeaderName; 3] =
    [AUTHORIZATION, HeaderName::from_static("x-api-key"), HeaderName::from_static("api-key")];

/// The keys in force. Readers never wait; a change takes effect with the next request.
#[derive(Default)]
pub struct Auth {
    keys: ArcSwapOption<Keys>,
}

impl Auth {
    /// Puts other keys in force; `None` lets everybody in.
    pub fn set(&self, keys: Option<Keys>) {
        self.keys.store(keys.map(Arc::new));
    }

    /// The keys in force.
    pub fn keys(&self) -> Option<Arc<Keys>> {
        self.keys.load_full()
    }

    /// Finds out who sends a request; `None` where no keys are asked for.
    pub fn identify(&self, headers: &HeaderMap) -> Result<Option<Arc<Caller>>, Refusal> {
        let keys = self.keys.load();
        let Some(keys) = &*keys else { return Ok(None) };
        let mut given = presented(headers).peekable();
        if given.peek().is_none() {
            return Err(Refusal::NoKey);
        }
        // A client library may fill one header with a placeholder and another with the key.
        given.find_map(|key| keys.find(key)).map(Some).ok_or(Refusal::BadKey)
    }
}

/// Whether this text is a key that the request brings, right or wrong: such a text must not be taken for a mere name.
pub fn is_presented(headers: &HeaderMap, text: &[u8]) -> bool {
    presented(headers).any(|key| key == text)
}

/// The keys a request brings.
fn presented(headers: &HeaderMap) -> impl Iterator<Item = &[u8]> {
    HEADERS.iter().flat_map(|name| headers.get_all(name).iter().map(move |value| (name, value.as_bytes()))).filter_map(
        |(name, value)| {
            let key = if *name == AUTHORIZATION { bearer(value)? } else { value }.trim_ascii();
            (!key.is_empty()).then_some(key)
        },
    )
}

/// The scheme's name has no case (RFC 9110, section 11.1).
fn bearer(value: &[u8]) -> Option<&[u8]> {
    let (scheme, key) = value.split_at_checked("Bearer ".len())?;
    scheme.eq_ignore_ascii_case(b"Bearer ").then_some(key)
}

/// Takes the key out of what goes on to an endpoint.
pub fn strip(request: &mut pingora_http::RequestHeader) {
    for name in &HEADERS {
        request.remove_header(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::load_keys;

    fn auth() -> Auth {
        let digest = keys::hex_digest(b"sk-right");
        let file = format!("keys:\n  - {{tenant: team-a, sha256: {digest}, models: [m]}}\n");
        let auth = Auth::default();
        auth.set(Some(Keys::new(&load_keys(file.as_bytes()).unwrap())));
        auth
    }

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs.iter().map(|&(name, value)| (HeaderName::from_static(name), value.parse().unwrap())).collect()
    }

    #[test]
    fn a_key_is_found_wherever_clients_put_it() {
        for pair in [
            ("authorization", "Bearer sk-right"),
            ("authorization", "bearer  sk-right "),
            ("x-api-key", "sk-right"),
            ("api-key", "sk-right"),
        ] {
            let caller = auth().identify(&headers(&[pair])).unwrap().unwrap();
            assert_eq!(&*caller.tenant, "team-a", "{pair:?}");
        }
        let both = headers(&[("authorization", "Bearer placeholder"), ("x-api-key", "sk-right")]);
        assert!(auth().identify(&both).unwrap().is_some(), "one right key among several is enough");
    }

    #[test]
    fn no_key_and_a_wrong_key_are_told_apart() {
        for none in
            [vec![], vec![("authorization", "Basic abc")], vec![("x-api-key", " ")], vec![("authorization", "Bearer ")]]
        {
            assert_eq!(auth().identify(&headers(&none)), Err(Refusal::NoKey), "{none:?}");
        }
        for wrong in ["Bearer sk-wrong", "Bearer sk-righ", "Bearer sk-rightt", "Bearer SK-RIGHT"] {
            assert_eq!(auth().identify(&headers(&[("authorization", wrong)])), Err(Refusal::BadKey), "{wrong}");
        }
    }

    #[test]
    fn without_keys_everybody_may_ask_and_a_list_of_nobody_lets_nobody_in() {
        assert_eq!(Auth::default().identify(&HeaderMap::new()), Ok(None));
        let auth = Auth::default();
        auth.set(Some(Keys::new(&load_keys(b"keys: []\n").unwrap())));
        assert_eq!(auth.identify(&headers(&[("x-api-key", "sk-right")])), Err(Refusal::BadKey));
    }
}
