//! `/v1/models`: the base model and its adapters.

use super::reply::quoted;
use super::shared::Shared;

/// The list, in vLLM's or llama.cpp's form.
pub(super) fn list(shared: &Shared) -> String {
    let (model, created) = (&shared.config.model, shared.started as u64);
    if shared.is_llama_cpp() {
        let name = quoted(model);
        return format!(
            r#"{{"models":[{{"name":{name},"model":{name},"modified_at":"","size":"","digest":"","type":"model","description":"","tags":[""],"capabilities":["completion"],"parameters":"","details":{{"parent_model":"","format":"gguf","family":"","families":[""],"parameter_size":"","quantization_level":""}}}}],"object":"list","data":[{{"id":{name},"aliases":[{name}],"tags":[],"object":"model","created":{created},"owned_by":"llamacpp","meta":{{"n_ctx":{length},"n_ctx_train":{length}}}}}]}}"#,
            length = shared.config.max_model_len
        );
    }
    let mut cards = vec![card(created, model, None, Some(shared.config.max_model_len))];
    cards.extend(shared.adapters().iter().map(|adapter| card(created, adapter, Some(model), None)));
    format!(r#"{{"object":"list","data":[{}]}}"#, cards.join(","))
}

fn card(created: u64, id: &str, parent: Option<&str>, length: Option<usize>) -> String {
    let permission: u64 = crate::engine::mix_bytes(created, id.as_bytes());
    let (name, root) = (quoted(id), quoted(&format!("/models/{id}")));
    let parent = parent.map_or_else(|| "null".to_owned(), quoted);
    let length = length.map_or_else(|| "null".to_owned(), |length| length.to_string());
    format!(
        r#"{{"id":{name},"object":"model","created":{created},"owned_by":"vllm","root":{root},"parent":{parent},"max_model_len":{length},"permission":[{{"id":"modelperm-{permission:016x}","object":"model_permission","created":{created},"allow_create_engine":false,"allow_sampling":true,"allow_logprobs":true,"allow_search_indices":false,"allow_view":true,"allow_fine_tuning":false,"organization":"*","group":null,"is_blocking":false}}]}}"#
    )
}
