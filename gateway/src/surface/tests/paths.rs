//! Which surface a path is, and what stands in it.

use super::*;

#[test]
fn paths_lead_to_surfaces() {
    for (method, path, surface) in [
        ("POST", "/v1/chat/completions", Surface::ChatCompletions),
        ("POST", "/v1/completions", Surface::Completions),
        ("POST", "/v1/embeddings", Surface::Embeddings),
        ("POST", "/v1/responses", Surface::Responses),
        ("POST", "/v1/messages", Surface::Messages),
        ("POST", "/v1/messages/count_tokens", Surface::CountTokens),
        ("POST", "/v1/rerank", Surface::Rerank),
        ("POST", "/score", Surface::Rerank),
        ("POST", "/tokenize", Surface::Tokenize),
        ("POST", "/v1/audio/transcriptions", Surface::Form),
        ("POST", "/v1/audio/speech", Surface::OtherJson),
        ("POST", "/v1/chat/completions/batch", Surface::OtherJson),
        ("GET", "/v1/models", Surface::Models),
        ("HEAD", "/v1/models", Surface::Models),
        ("GET", "/v1/models/org/name", Surface::Model),
        ("GET", "/v1/responses/resp_1", Surface::ResponseById),
        ("DELETE", "/v1/responses/resp_1", Surface::ResponseById),
        ("POST", "/v1/responses/resp_1/cancel", Surface::ResponseById),
        ("GET", "/v1/chat/completions", Surface::MethodNotAllowed { allow: "POST" }),
        ("POST", "/v1/models", Surface::MethodNotAllowed { allow: "GET, HEAD" }),
        ("DELETE", "/v1/models/m", Surface::MethodNotAllowed { allow: "GET, HEAD" }),
        ("GET", "/v1/responses/resp_1/cancel", Surface::MethodNotAllowed { allow: "POST" }),
        ("GET", "/v1/unheard_of", Surface::Unknown),
        ("POST", "/v1/chat/completions/", Surface::Unknown),
        ("POST", "/V1/chat/completions", Surface::Unknown),
        ("POST", "/v1/", Surface::Unknown),
        ("POST", "/", Surface::Unknown),
        ("POST", "", Surface::Unknown),
    ] {
        assert_eq!(Surface::classify(method, path), surface, "{method} {path}");
    }
}

#[test]
fn paths_of_an_engines_own_administration_stay_inside() {
    for path in [
        "/sleep",
        "/reset_prefix_cache",
        "/v1/load_lora_adapter",
        "/v1/unload_lora_adapter",
        "/v1/../sleep",
        "/v1/x/../../sleep",
        "/v1/%2e%2e/sleep",
        "/v1//sleep",
        "/v1/.",
        "/v1\\..\\sleep",
    ] {
        assert_eq!(Surface::classify("POST", path), Surface::Unknown, "{path}");
    }
}

#[test]
fn ids_are_read_from_paths() {
    assert_eq!(model_in_path("/v1/models/org%2Fname:8b").as_deref(), Some("org/name:8b"));
    assert_eq!(model_in_path("/v1/models/org/name").as_deref(), Some("org/name"));
    assert_eq!(model_in_path("/v1/models/a%2"), None);
    assert_eq!(model_in_path("/v1/models/%ff"), None);
    assert_eq!(model_in_path("/v1/models/"), None);
    assert_eq!(response_in_path("/v1/responses/resp_1-a/cancel"), Some("resp_1-a"));
    assert_eq!(response_in_path("/v1/responses/../x"), None);
    assert_eq!(response_in_path("/v1/responses/cancel"), Some("cancel"));
}
