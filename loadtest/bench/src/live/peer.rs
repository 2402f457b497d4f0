//! Other routers and proxies: where their programs are, and how each is told of the servers.
//!
//! All have their documented defaults; what is set is where they listen and whom they ask. Their own times in seconds, such
//! as those of health checks and of forgetting, are not made shorter with the time scale: their rules of choice have none.

use std::ffi::OsString;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use super::arm::{Arm, Kind};
use super::process::version;

const ENVOY: &str = include_str!("../../../peers/envoy.yaml");
const NGINX: &str = include_str!("../../../peers/nginx.conf");

/// Where programs are looked for, in this order.
#[derive(Clone, Debug)]
pub(super) struct Programs {
    folders: Vec<PathBuf>,
}

impl Programs {
    /// The folder of an environment first, then those of PATH, then that of system programs.
    pub(super) fn new(environment: &Path) -> Self {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let mut folders = vec![environment.to_owned()];
        folders.extend(std::env::split_paths(&path));
        folders.push("/usr/sbin".into());
        Self { folders }
    }

    /// A peer's program.
    pub(super) fn find(&self, kind: Kind) -> Result<PathBuf> {
        let found = self.folders.iter().map(|folder| folder.join(kind.name())).find(|path| path.is_file());
        found.with_context(|| format!("{} is not installed; loadtest/peers/install says how", kind.name()))
    }

    /// The version of a peer. The routers' own answers say less than the package they came in.
    pub(super) fn version(&self, kind: Kind) -> Result<String> {
        let program = self.find(kind)?;
        if !matches!(kind, Kind::SglangRouter | Kind::VllmRouter) {
            return Ok(version(&program, if kind == Kind::Nginx { "-v" } else { "--version" }));
        }
        let package = format!("{}-", kind.name().replace('-', "_"));
        let libraries = program.parent().and_then(Path::parent).map(|root| root.join("lib")).unwrap_or_default();
        let folders = |path: PathBuf| fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
        let of = |path: PathBuf| {
            let name = path.file_name()?.to_str()?.strip_prefix(&package)?.strip_suffix(".dist-info")?;
            Some(name.to_owned())
        };
        let mut all = folders(libraries).flat_map(|python| folders(python.join("site-packages")));
        Ok(all.find_map(of).unwrap_or_else(|| "version unknown".to_owned()))
    }
}

/// How to start a peer on `listen` in front of servers; files go to `folder`.
pub(super) fn arguments(
    arm: &Arm,
    listen: SocketAddr,
    metrics: SocketAddr,
    servers: &[SocketAddr],
    folder: &Path,
) -> Result<Vec<OsString>> {
    let policy = arm.policy.as_str();
    let written = |name: &str, text: String| -> Result<OsString> {
        let path = folder.join(name);
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(path.into())
    };
    let plain = |text: String| text.split_whitespace().map(OsString::from).collect::<Vec<_>>();
    match arm.kind {
        Kind::SglangRouter | Kind::VllmRouter => {
            let (own, quiet) = match arm.kind {
                Kind::SglangRouter => ("launch", "--log-level warn"),
                // Without it the first look at the servers is followed by a pause of 30 s.
                _ => ("", "--log-level warning --worker-startup-check-interval 1"),
            };
            let urls: Vec<String> = servers.iter().map(|server| format!("http://{server}")).collect();
            let options: Vec<String> = arm.options.iter().map(|(key, value)| format!("--{key} {value}")).collect();
            Ok(plain(format!(
                "{own} --host {} --port {} --prometheus-host {} --prometheus-port {} {quiet} --policy {policy} {} \
                 --worker-urls {}",
                listen.ip(),
                listen.port(),
                metrics.ip(),
                metrics.port(),
                options.join(" "),
                urls.join(" "),
            )))
        }
        Kind::Envoy => {
            let rule = match policy {
                "least_request" => "LEAST_REQUEST",
                "round_robin" => "ROUND_ROBIN",
                "random" => "RANDOM",
                _ => bail!("Envoy is set up here with least_request, round_robin and random, not {policy}"),
            };
            let address = |server: &SocketAddr| {
                format!(
                    "        - endpoint: {{address: {{socket_address: {{address: {}, port_value: {}}}}}}}\n",
                    server.ip(),
                    server.port()
                )
            };
            let text = ENVOY.replace("$PORT", &listen.port().to_string()).replace("$POLICY", rule);
            let text = text + &servers.iter().map(address).collect::<String>();
            let path = written("envoy.yaml", text)?;
            let mut all = vec!["-c".into(), path];
            all.extend(plain("--concurrency 1 --disable-hot-restart --log-level error".to_owned()));
            Ok(all)
        }
        Kind::Nginx => {
            let rule = match policy {
                "least_conn" => "least_conn;",
                "round_robin" => "",
                "random_two" => "random two least_conn;",
                _ => bail!("nginx is set up here with least_conn, round_robin and random_two, not {policy}"),
            };
            let servers: Vec<String> = servers.iter().map(|server| format!("server {server};")).collect();
            let text = NGINX
                .replace("$PORT", &listen.port().to_string())
                .replace("$FOLDER", &folder.to_string_lossy())
                .replace("$POLICY", rule)
                .replace("$SERVERS", &servers.join("\n        "));
            let path = written("nginx.conf", text)?;
            Ok(vec!["-p".into(), folder.into(), "-c".into(), path])
        }
        Kind::Spillway | Kind::NullProxy | Kind::Direct => bail!("{arm} is no peer"),
    }
}
