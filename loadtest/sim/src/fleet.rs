//! A fleet file: many endpoints in one process, and what goes wrong with them and when.
//!
//! What a newcomer gets wrong: `at` and `for` of a fault are model time, so that one file means the same at any
//! `time_scale` and in virtual time; other times of a fault are what the admin surface makes of them.

mod fault;
mod group;
mod limits;
mod serial;

use std::collections::HashSet;
use std::io;

use serde::Deserialize;

pub use fault::{TimedFault, pace};
pub use group::Group;
pub use serial::SerialSpeed;

use crate::problems::Problems;
use crate::{Config, Server};

/// A fleet, as its file describes it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fleet {
    /// Model seconds per wall second, 0.001 to 10,000.
    #[serde(default = "default_time_scale")]
    pub time_scale: f64,
    /// Decides noise and text. Endpoint number n, counted from 0 over all groups, has seed + n.
    #[serde(default)]
    pub seed: u64,
    /// The endpoints, in groups of equal ones.
    pub endpoints: Vec<Group>,
    /// What goes wrong, and when.
    #[serde(default)]
    pub faults: Vec<TimedFault>,
}

fn default_time_scale() -> f64 {
    1.0
}

/// Why a fleet file is of no use.
#[derive(Debug, thiserror::Error)]
pub enum FleetError {
    /// It is not the YAML of a fleet: a wrong type or an unknown key, with its place.
    #[error("not a fleet file: {0}")]
    Parse(#[from] serde_yaml::Error),
    /// It says what cannot be: all of it, one element each.
    #[error("{}", .0.join("\n"))]
    Invalid(Vec<String>),
}

impl Fleet {
    /// Reads and checks the text of a file.
    pub fn parse(text: &str) -> Result<Self, FleetError> {
        let fleet: Self = serde_yaml::from_str(text)?;
        let problems = fleet.problems();
        if problems.is_empty() { Ok(fleet) } else { Err(FleetError::Invalid(problems)) }
    }

    /// Everything that is wrong with it; each names its place.
    pub fn problems(&self) -> Vec<String> {
        let mut found = Problems::default();
        found.range("time_scale", self.time_scale, 0.001..=10_000.0);
        found.unless(!self.endpoints.is_empty(), "endpoints: there is none");
        let few = self.len() <= limits::ENDPOINTS;
        found.unless(few, "endpoints: must be 100,000 at most, over all groups");
        found.each("endpoints", &self.endpoints, |group, found| found.extend(group.problems()));
        found.each("faults", &self.faults, |fault, found| found.extend(fault.problems(self.len())));
        if few {
            found.extend(self.taken_twice());
        }
        found.lines()
    }

    /// The first address of each group that is taken before it.
    fn taken_twice(&self) -> Vec<String> {
        let mut taken = HashSet::new();
        let mut problems = Vec::new();
        for (number, group) in self.endpoints.iter().enumerate() {
            let again: Vec<_> = group.addresses().filter(|&address| !taken.insert(address)).collect();
            if let Some(first) = again.first() {
                problems.push(format!("endpoints[{number}].listen: {first} is taken by an endpoint before it"));
            }
        }
        problems
    }

    /// Endpoints over all groups.
    pub fn len(&self) -> usize {
        self.endpoints.iter().map(|group| group.count).fold(0, usize::saturating_add)
    }

    /// True without any endpoint.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Settings of each server, in order.
    pub fn servers(&self) -> Vec<Config> {
        let each = self.endpoints.iter().flat_map(|group| (0..group.count).map(move |nth| (group, nth)));
        let numbered = each.enumerate();
        numbered
            .map(|(number, (group, nth))| Config {
                time_scale: self.time_scale,
                seed: self.seed.wrapping_add(number as u64),
                ..group.server(nth, number)
            })
            .collect()
    }

    /// Starts every endpoint on the current tokio runtime, its faults scheduled from its own start.
    pub async fn start(&self) -> io::Result<Vec<Server>> {
        let mut servers = Vec::with_capacity(self.len());
        for config in self.servers() {
            let (replica, address) = (config.replica.clone(), config.listen);
            let server = Server::start(config).await;
            let named = |error: io::Error| io::Error::new(error.kind(), format!("{replica} on {address}: {error}"));
            servers.push(server.map_err(named)?);
        }
        for TimedFault { endpoint, at, lasts, fault } in &self.faults {
            if let Some(server) = servers.get_mut(*endpoint) {
                server.schedule(fault.clone(), *at, *lasts);
            }
        }
        Ok(servers)
    }
}

#[cfg(test)]
mod tests;
