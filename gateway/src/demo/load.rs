//! The demo's light load: a few conversations that share system prompts, so that prefix affinity has something to do.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use pingora_core::connectors::http::Connector;
use pingora_core::server::ShutdownWatch;
use pingora_core::services::background::BackgroundService;
use pingora_core::upstreams::peer::HttpPeer;
use pingora_http::RequestHeader;
use serde_json::json;

/// Conversations at once, and the pause of each between two questions: about four requests a second.
const CONVERSATIONS: usize = 8;
const PAUSE: Duration = Duration::from_secs(2);

/// Distinct system prompts, of about 2,000 bytes each.
const TOPICS: [&str; 3] = ["You answer questions about rivers. ", "You write SQL. ", "You support our customers. "];
const SYSTEM_BYTES: usize = 2_000;

/// The load.
pub(super) struct Load {
    port: u16,
    models: Arc<[String]>,
}

impl Load {
    pub(super) fn new(port: u16, model: &str, adapters: &[&str]) -> Self {
        let models = std::iter::repeat_n(model, 4).chain(adapters.iter().copied()).map(str::to_owned).collect();
        Self { port, models }
    }
}

#[async_trait]
impl BackgroundService for Load {
    async fn start(&self, mut shutdown: ShutdownWatch) {
        let mut conversations = tokio::task::JoinSet::new();
        for index in 0..CONVERSATIONS {
            let model = self.models[index % self.models.len()].clone();
            conversations.spawn(converse(self.port, model, index));
        }
        let _ = shutdown.changed().await;
    }
}

async fn converse(port: u16, model: String, index: usize) {
    let connector = Connector::new(None);
    let topic = TOPICS[index % TOPICS.len()];
    let system = topic.repeat(SYSTEM_BYTES / topic.len());
    for turn in 0_u64.. {
        tokio::time::sleep(PAUSE.mul_f64(0.5 + fastrand::f64())).await;
        let question = format!("Question {turn} of conversation {index}?");
        let body = json!({
            "model": model, "stream": true, "max_tokens": fastrand::u32(16..96),
            "messages": [{"role": "system", "content": system}, {"role": "user", "content": question}],
        });
        // The gateway says in its metrics what goes wrong; the demo's load just goes on.
        let _ = ask(&connector, port, body.to_string().into()).await;
    }
}

async fn ask(connector: &Connector, port: u16, body: Bytes) -> pingora_core::Result<()> {
    let peer = HttpPeer::new(("127.0.0.1", port), false, String::new());
    let (mut session, _) = connector.get_http_session(&peer).await?;
    let mut head = RequestHeader::build("POST", b"/v1/chat/completions", Some(4))?;
    head.insert_header("host", format!("127.0.0.1:{port}"))?;
    head.insert_header("content-type", "application/json")?;
    head.insert_header("content-length", body.len())?;
    session.write_request_header(Box::new(head)).await?;
    session.write_request_body(body, true).await?;
    session.finish_request_body().await?;
    session.read_response_header().await?;
    while session.read_response_body().await?.is_some() {}
    connector.release_http_session(session, &peer, None).await;
    Ok(())
}
