//! The gateway's configuration as a sentence: `config_for(&sims).with("retries: {attempts: 2}").limits("body: 1KiB")`.
//!
//! Settings are lines of YAML as an operator would write them. Ports are filled in when the gateway starts.

use std::fmt::Write as _;

use spillway_sim::Server;

use super::ports::Ports;

/// A configuration without its ports.
#[derive(Clone, Debug, Default)]
pub(crate) struct Config {
    server: Vec<String>,
    admin: Vec<String>,
    limits: Vec<String>,
    top: Vec<String>,
    pools: Vec<Pool>,
}

#[derive(Clone, Debug)]
struct Pool {
    name: String,
    endpoints: Vec<String>,
    settings: Vec<String>,
}

/// Both ways to speak to endpoints, as settings of a pool.
pub(crate) const ENDPOINT_HTTP: [&str; 2] = ["http2: false", "http2: true"];

/// One pool named `main` over `sims`.
pub(crate) fn config_for(sims: &[Server]) -> Config {
    Config::default().pool("main", sims)
}

impl Config {
    /// Adds a pool over `sims`.
    pub(crate) fn pool(mut self, name: &str, sims: &[Server]) -> Self {
        let endpoints = sims.iter().map(Server::url).collect();
        self.pools.push(Pool { name: name.to_owned(), endpoints, settings: Vec::new() });
        self
    }

    /// Adds an endpoint to the pool named last: a URL, or a mapping as YAML.
    pub(crate) fn endpoint(mut self, endpoint: &str) -> Self {
        self.last_pool().endpoints.push(endpoint.to_owned());
        self
    }

    /// Sets something of the pool named last, such as `timeouts: {ttft: 300ms}`.
    pub(crate) fn with(mut self, setting: &str) -> Self {
        self.last_pool().settings.push(setting.to_owned());
        self
    }

    /// Sets something under `limits`, such as `body: 1KiB`.
    pub(crate) fn limits(mut self, setting: &str) -> Self {
        self.limits.push(setting.to_owned());
        self
    }

    /// Sets something under `server`, such as `drain: 5s`. Listeners are set already.
    pub(crate) fn server(mut self, setting: &str) -> Self {
        self.server.push(setting.to_owned());
        self
    }

    /// Sets something under `server.admin`, such as `token_file: /path`. Its address is set already.
    pub(crate) fn admin(mut self, setting: &str) -> Self {
        self.admin.push(setting.to_owned());
        self
    }

    /// Sets a key of the file itself, such as `default_model: chat` or `models: [...]`.
    pub(crate) fn top(mut self, setting: &str) -> Self {
        self.top.push(setting.to_owned());
        self
    }

    fn last_pool(&mut self) -> &mut Pool {
        self.pools.last_mut().expect("settings follow their pool")
    }

    /// The file.
    pub(super) fn yaml(&self, ports: &Ports) -> String {
        let mut yaml = format!(
            "server:\n  listen: [{{address: \"{}\"}}, {{address: \"{}\", h2c: true}}]\n  metrics: {{address: \"{}\"}}\n  \
             admin: {{{}}}\n  threads: 2\n",
            ports.h1,
            ports.h2,
            ports.metrics,
            [vec![format!("address: \"{}\"", ports.admin)], self.admin.clone()].concat().join(", ")
        );
        for line in &self.server {
            let _ = writeln!(yaml, "  {line}");
        }
        if !self.limits.is_empty() {
            let _ = writeln!(yaml, "limits: {{{}}}", self.limits.join(", "));
        }
        for line in &self.top {
            let _ = writeln!(yaml, "{line}");
        }
        yaml.push_str("pools:\n");
        for pool in &self.pools {
            let quoted = |one: &String| if one.starts_with('{') { one.clone() } else { format!("\"{one}\"") };
            let endpoints: Vec<String> = pool.endpoints.iter().map(quoted).collect();
            let _ = writeln!(yaml, "  {}:", pool.name);
            if !endpoints.is_empty() {
                let _ = writeln!(yaml, "    endpoints: [{}]", endpoints.join(", "));
            }
            for line in &pool.settings {
                let _ = writeln!(yaml, "    {line}");
            }
        }
        yaml
    }
}
