//! Assembling the process: services, ports, shutdown.

mod preface;
mod shutdown;

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context as _;
use pingora::apps::HttpServerOptions;
use pingora::server::configuration::ServerConf;
use pingora::server::{RunArgs, Server};
use pingora::services::background::background_service;
use pingora::services::listening::Service;
use pingora_proxy::{http_proxy, http_proxy_service_with_name};
use spillway_picker::registry::Registry;
use tracing::info;

use crate::access_log::AccessLog;
use crate::admin::{AdminPort, MetricsPort};
use crate::auth::Auth;
use crate::config::{self, Config, Problems};
use crate::fleet::Fleet;
use crate::keeper::Keeper;
use crate::peers::{Peers, PeersService};
use crate::picker_config;
use crate::proxy::Gateway;
use crate::reload::{ReloadService, Reloader, cannot_record};
use crate::trace::Recorder;

/// Idle connections kept to endpoints, all together. Pingora counts them per thread; a gateway in front of 2,000
/// endpoints wants one or two each.
const IDLE_CONNECTIONS: usize = 4096;

/// Pingora's own bound on turns of its retry loop. Ours is `retries.attempts`, plus one second try each after a stale
/// connection; the configuration allows ten attempts.
const MOST_TURNS: usize = 32;

/// Where the configuration comes from.
pub enum Source {
    /// A file, watched for changes.
    File(PathBuf),
    /// A text made by the program, as the demo does.
    Text(String),
}

impl Source {
    /// Loads and validates.
    pub fn load(&self, registry: &Registry) -> anyhow::Result<(Config, Vec<u8>)> {
        let (contents, name) = match self {
            Self::File(path) => {
                let contents = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
                (contents, path.display().to_string())
            }
            Self::Text(text) => (text.clone().into_bytes(), "configuration".to_owned()),
        };
        let config = config::load(&contents, &picker_config::known(registry))
            .map_err(|problems| anyhow::anyhow!("{}", problems.in_file(&name)))?;
        Ok((config, contents))
    }
}

/// What a process is made of.
pub struct Options {
    /// The configuration.
    pub source: Source,
    /// The policies, scorers and filters it may name.
    pub registry: Registry,
    /// Where access-log lines go.
    pub access_log: Box<dyn std::io::Write + Send>,
}

/// Runs a gateway until it is told to stop. `beside` adds further services to the process.
pub fn serve(options: Options, beside: impl FnOnce(&mut Server)) -> anyhow::Result<()> {
    let Options { source, registry, access_log } = options;
    let (config, contents) = source.load(&registry)?;
    let server_settings = config.server.clone();
    check_ports(&server_settings)?;
    let fleet = Fleet::new(config, registry)?;
    let auth = Arc::new(Auth::default());
    let recorder = Arc::new(Recorder::new(Arc::clone(&fleet)));
    let trace = fleet.live().config.trace.clone();
    recorder.set(recorder.open(&trace).with_context(|| cannot_record(&trace))?);
    let id = getrandom::u64().map_err(|error| anyhow::anyhow!("the system gives no randomness: {error}"))?;
    let peers = Arc::new(Peers::new(Arc::clone(&fleet), id));
    peers.set(peers.prepare(&fleet.live().config.peers)?);
    let reloader = match &source {
        Source::File(path) => {
            let shared = (Arc::clone(&fleet), Arc::clone(&auth), Arc::clone(&recorder), Arc::clone(&peers));
            let reloader = Reloader::new(shared, path.clone(), &contents);
            Some(Arc::new(reloader.map_err(|problems| anyhow::anyhow!("{}", Problems(problems)))?))
        }
        Source::Text(_) => None,
    };
    let log = Arc::new(AccessLog::to(access_log).context("cannot start the access log")?);
    let gateway = Gateway::new(Arc::clone(&fleet), auth, log, recorder);

    let mut server = Server::new_with_opt_and_conf(None, server_conf(&server_settings));
    server.bootstrap();
    add_listeners(&mut server, &gateway, &server_settings);
    let metrics = MetricsPort { fleet: Arc::clone(&fleet) };
    server.add_service(port("metrics", metrics, server_settings.metrics.address));
    let admin = AdminPort {
        fleet: Arc::clone(&fleet),
        reloader: reloader.clone(),
        token_file: server_settings.admin.token_file.clone(),
    };
    server.add_service(port("admin", admin, server_settings.admin.address));
    server.add_service(background_service("keeper", Keeper::new(Arc::clone(&fleet))));
    server.add_service(background_service("peers", PeersService(peers)));
    if let Some(reloader) = reloader {
        server.add_service(background_service("reload", ReloadService(reloader)));
    }
    beside(&mut server);
    info!(
        version = env!("CARGO_PKG_VERSION"),
        listen = %server_settings.listen.iter().map(|one| one.address.to_string()).collect::<Vec<_>>().join(", "),
        metrics = %server_settings.metrics.address,
        admin = %server_settings.admin.address,
        "spillway starts"
    );
    server.run(RunArgs { shutdown_signal: Box::new(shutdown::Signals::new(fleet, server_settings.drain)) });
    Ok(())
}

/// Refuses to start on a port that is taken. Pingora finds that out in a thread of its own, after half a minute of tries, and
/// the process lives on without it.
fn check_ports(settings: &config::Server) -> anyhow::Result<()> {
    let listeners = settings.listen.iter().map(|listen| listen.address);
    let taken = listeners
        .chain([settings.metrics.address, settings.admin.address])
        .map(|address| std::net::TcpListener::bind(address).with_context(|| format!("cannot listen on {address}")));
    // All are held until all are known: two of ours may be the same.
    taken.collect::<anyhow::Result<Vec<_>>>().map(drop)
}

fn server_conf(settings: &config::Server) -> ServerConf {
    ServerConf {
        threads: settings
            .threads
            .unwrap_or_else(|| std::thread::available_parallelism().map_or(1, std::num::NonZero::get)),
        // Pingora sleeps through the whole grace period; `shutdown` ends the process as soon as it is idle.
        grace_period_seconds: Some(settings.drain.as_secs()),
        graceful_shutdown_timeout_seconds: Some(1),
        upstream_keepalive_pool_size: IDLE_CONNECTIONS,
        max_retries: MOST_TURNS,
        ..ServerConf::default()
    }
}

fn add_listeners(server: &mut Server, gateway: &Gateway, settings: &config::Server) {
    let conf = Arc::clone(&server.configuration);
    let (h2c, plain): (Vec<_>, Vec<_>) = settings.listen.iter().partition(|listen| listen.h2c);
    if !plain.is_empty() {
        let mut service = http_proxy_service_with_name(&conf, gateway.clone(), "gateway");
        for listen in plain {
            service.add_tcp(&listen.address.to_string());
        }
        server.add_service(service);
    }
    if !h2c.is_empty() {
        let mut proxy = http_proxy(&conf, gateway.clone());
        let mut options = HttpServerOptions::default();
        options.h2c = true;
        proxy.server_options = Some(options);
        let mut service = Service::new("gateway h2c".to_owned(), preface::Timed::new(proxy));
        for listen in h2c {
            service.add_tcp(&listen.address.to_string());
        }
        server.add_service(service);
    }
}

fn port<A>(name: &str, app: A, address: std::net::SocketAddr) -> Service<A>
where
    A: pingora::apps::ServerApp + Send + Sync + 'static,
{
    let mut service = Service::new(name.to_owned(), app);
    service.threads = Some(1);
    service.add_tcp(&address.to_string());
    service
}
