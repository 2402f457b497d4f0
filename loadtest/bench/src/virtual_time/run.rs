//! The run itself: one loop over the agenda.
//!
//! The hop between gateway and engine is one constant each way. An engine's events reach the gateway a hop after they
//! happened, so a decision never knows what a real gateway could not have heard yet.

use std::sync::Arc;
use std::time::{Duration, Instant};

use spillway_picker::decide::NoPick;
use spillway_picker::flight::Flight;
use spillway_picker::pool::{Count, Event, Outcome as PickerOutcome, Slot};
use spillway_picker::registry::PolicyError;
use spillway_picker::request::RequestInfo;
use spillway_sim::engine::{self, What};

use super::agenda::Agenda;
use super::fleet::{Endpoint, EndpointTotals, Server};
use super::gateway::{Gateway, Routing, time};
use super::oracle;
use super::words::Kept;
use crate::measure::Outcome;
use crate::scenario::{Talk, Told};
use crate::workload::random::Random;
use crate::workload::text::Rendered;
use crate::workload::trace::{Start, Trace};

/// Everything that decides a run.
#[derive(Debug)]
pub struct Setup<'a> {
    /// The servers.
    pub fleet: &'a [Endpoint],
    /// The requests.
    pub trace: &'a Trace,
    /// The prompt of each request of the trace.
    pub prompts: &'a [Rendered],
    /// Who decides.
    pub routing: &'a Routing,
    /// Gateways; each request comes to one of them by chance.
    pub gateways: usize,
    /// Time between two reads of a metrics page; `None` for never.
    pub scrape: Option<Duration>,
    /// From when on servers' counters count.
    pub warm_up: Duration,
    /// Time from gateway to engine, and back.
    pub hop: Duration,
    /// What gateways are told.
    pub told: Told,
    /// What they tell each other.
    pub talk: Option<Talk>,
    /// Adapters by number: their names.
    pub adapters: &'a [Arc<str>],
    /// Decides noise and chance.
    pub seed: u64,
}

/// What came of a run.
#[derive(Debug)]
pub struct Run {
    /// Of each request that was sent, in the order of sending.
    pub outcomes: Vec<Outcome>,
    /// Of each endpoint.
    pub endpoints: Vec<EndpointTotals>,
    /// When it ended.
    pub end: Duration,
}

/// A law of nature that a run broke: a defect of the simulator or of this driver.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Broken {
    /// Requests in the engine are not arrivals times stay.
    #[error(
        "Little's law at endpoint {endpoint}: engine counted {counted:.3} request seconds, requests spent {spent:.3}"
    )]
    Little {
        /// The endpoint.
        endpoint: usize,
        /// Integral of the engine's count.
        counted: f64,
        /// Sum of the stays.
        spent: f64,
    },
    /// Tokens came or went.
    #[error("endpoint {endpoint} counted {counted} output tokens, requests got {got}")]
    Tokens {
        /// The endpoint.
        endpoint: usize,
        /// Its own counter.
        counted: u64,
        /// Sum over requests.
        got: u64,
    },
}

enum Happening {
    /// A request is sent.
    Sent(usize),
    /// It reaches its engine.
    Reached { request: usize, endpoint: usize },
    /// An engine has something to do.
    Wake(usize),
    /// An engine's events reach the gateways.
    Heard { endpoint: usize, events: Vec<engine::Event>, happened: Duration },
    /// A metrics page is read.
    Page { gateway: usize, endpoint: usize },
    /// A gateway tells the others what it has in flight.
    Tells { gateway: usize },
    /// A gateway hears words of another one.
    Words { from: usize, to: usize, words: Vec<Kept> },
    /// A gateway hears how much another one has in flight.
    Counted { from: usize, to: usize, counts: Vec<(Slot, Count)> },
    /// An endpoint joins.
    Joined,
    /// What comes from here on counts.
    WarmedUp,
}

/// How an answer comes to its gateway.
#[derive(Clone, Copy)]
struct Answer {
    /// As a stream.
    streams: bool,
    /// Its tokens are noticed as they come.
    is_noticed: bool,
}

struct Driver<'a> {
    setup: &'a Setup<'a>,
    agenda: Agenda<Happening>,
    servers: Vec<Server>,
    gateways: Vec<Gateway>,
    lots: Random,
    losses: Random,
    followers: Vec<Vec<usize>>,
    /// By request: where it is in `outcomes`, and its guard.
    places: Vec<Option<usize>>,
    flights: Vec<Option<(usize, Flight)>>,
    /// By request: how its answer comes.
    answers: Vec<Answer>,
    outcomes: Vec<Outcome>,
    /// Prompt tokens sent to each engine that it has not seen yet, for the oracle.
    on_the_way: Vec<usize>,
    decisions: usize,
    models: Option<Vec<Arc<str>>>,
    spare: Vec<Vec<engine::Event>>,
}

/// The name of the base model.
pub const MODEL: &str = "model";

/// Plays a run to its horizon.
pub fn run(setup: &Setup<'_>) -> Result<Run, PolicyError> {
    let mut driver = Driver::new(setup)?;
    while let Some((now, happening)) = driver.agenda.next() {
        if now >= setup.trace.horizon {
            break;
        }
        driver.play(now, happening);
        if setup.talk.is_some() {
            driver.pass_words(now);
        }
    }
    let end = setup.trace.horizon;
    let endpoints = driver.servers.into_iter().map(|server| server.totals(end)).collect();
    Ok(Run { outcomes: driver.outcomes, endpoints, end })
}

impl<'a> Driver<'a> {
    fn new(setup: &'a Setup<'a>) -> Result<Self, PolicyError> {
        let mut gateways = Vec::new();
        if let Routing::Picker { policy, affinity } = setup.routing {
            for number in 0..setup.gateways {
                let random = Random::new(setup.seed, &format!("gateway {number}"));
                gateways.push(Gateway::new(policy.clone(), affinity.clone(), setup.fleet, setup.scrape, random)?);
            }
        }
        let mut agenda = Agenda::new();
        agenda.add(setup.warm_up, Happening::WarmedUp);
        for (request, asked) in setup.trace.requests.iter().enumerate() {
            if let Start::At(at) = asked.start {
                agenda.add(at, Happening::Sent(request));
            }
        }
        for joins in setup.fleet.iter().map(|endpoint| endpoint.joins).filter(|joins| *joins > Duration::ZERO) {
            agenda.add(joins, Happening::Joined);
        }
        if let Some(interval) = setup.scrape {
            // Readers of one gateway begin at different times, as real ones do.
            let mut phases = Random::new(setup.seed, "scrapes");
            for gateway in 0..gateways.len() {
                for (endpoint, Endpoint { joins, .. }) in setup.fleet.iter().enumerate() {
                    agenda.add(*joins + interval.mul_f64(phases.unit()), Happening::Page { gateway, endpoint });
                }
            }
        }
        if let Some(talk) = setup.talk {
            let count = gateways.len();
            for (gateway, talker) in gateways.iter_mut().enumerate().take(talk.talkers(count)) {
                talker.talk(count as u32 - 1);
                let phase = talk.every * gateway as f64 / count as f64;
                agenda.add(Duration::from_secs_f64(phase), Happening::Tells { gateway });
            }
        }
        let mut chances = Random::new(setup.seed, "told");
        let answers = setup.trace.requests.iter().map(|asked| {
            let streams = chances.unit() < setup.told.streaming && asked.streams;
            Answer { streams, is_noticed: chances.unit() < setup.told.tokens && streams }
        });
        let servers = setup.fleet.iter().enumerate();
        let models = (!setup.adapters.is_empty())
            .then(|| std::iter::once(Arc::from(MODEL)).chain(setup.adapters.iter().cloned()).collect());
        Ok(Self {
            agenda,
            servers: servers.map(|(number, endpoint)| Server::new(endpoint, setup.seed ^ number as u64)).collect(),
            gateways,
            lots: Random::new(setup.seed, "lots"),
            losses: Random::new(setup.seed, "losses"),
            followers: setup.trace.followers(),
            places: vec![None; setup.trace.requests.len()],
            flights: std::iter::repeat_with(|| None).take(setup.trace.requests.len()).collect(),
            answers: answers.collect(),
            outcomes: Vec::new(),
            on_the_way: vec![0; setup.fleet.len()],
            decisions: 0,
            models,
            spare: Vec::new(),
            setup,
        })
    }

    /// Takes the gateways' words to each other on their way.
    fn pass_words(&mut self, now: Duration) {
        for from in 0..self.gateways.len() {
            let words = self.gateways[from].said();
            if !words.is_empty() {
                let (hearers, at) = self.hearers(from, now);
                for to in hearers {
                    self.agenda.add(at, Happening::Words { from, to, words: words.clone() });
                }
            }
        }
    }

    fn play(&mut self, now: Duration, happening: Happening) {
        match happening {
            Happening::Sent(request) => self.sent(request, now),
            Happening::Reached { request, endpoint } => self.reached(request, endpoint, now),
            Happening::Wake(endpoint) => {
                if self.servers[endpoint].wakes == Some(now) {
                    self.advance(endpoint, now);
                }
            }
            Happening::Heard { endpoint, events, happened } => self.heard(endpoint, events, happened, now),
            Happening::Joined => {
                self.gateways.iter_mut().for_each(|gateway| gateway.discover(self.setup.fleet, now));
            }
            Happening::WarmedUp => self.servers.iter_mut().for_each(Server::warmed_up),
            Happening::Tells { gateway } => {
                let counts = self.gateways[gateway].pool.counts();
                let (hearers, at) = self.hearers(gateway, now);
                for to in hearers {
                    self.agenda.add(at, Happening::Counted { from: gateway, to, counts: counts.clone() });
                }
                let every = self.setup.talk.map_or(f64::MAX, |talk| talk.every);
                self.agenda.add(now + Duration::from_secs_f64(every), Happening::Tells { gateway });
            }
            Happening::Words { from, to, words } => {
                for word in &words {
                    self.gateways[to].pool.observe(Event::Peer { peer: from as u64, word: word.word() }, time(now));
                }
            }
            Happening::Counted { from, to, counts } => {
                let event = Event::PeerCounts { peer: from as u64, counts: &counts };
                self.gateways[to].pool.observe(event, time(now));
            }
            Happening::Page { gateway, endpoint } => {
                let facts = self.servers[endpoint].page(self.models.as_deref(), self.setup.told.cache);
                self.gateways[gateway].scraped(endpoint, facts, now);
                if let Some(interval) = self.setup.scrape {
                    self.agenda.add(now + interval, Happening::Page { gateway, endpoint });
                }
            }
        }
    }

    /// Those who hear a word of a gateway, and when.
    fn hearers(&mut self, from: usize, now: Duration) -> (Vec<usize>, Duration) {
        let Some(talk) = self.setup.talk else { return (Vec::new(), now) };
        let talkers = talk.talkers(self.gateways.len());
        let hear = (0..talkers).filter(|to| *to != from && from < talkers);
        let hear = hear.filter(|_| self.losses.unit() >= talk.loss).collect();
        (hear, now + Duration::from_secs_f64(talk.delay))
    }

    fn sent(&mut self, request: usize, now: Duration) {
        self.places[request] = Some(self.outcomes.len());
        self.outcomes.push(Outcome::sent(request, now));
        let began = Instant::now();
        let choice = self.choose(request, now);
        let took = began.elapsed();
        let outcome = self.outcomes.last_mut().expect("just added");
        outcome.decision = took;
        match choice {
            Ok((endpoint, flight)) => {
                outcome.endpoint = Some(endpoint);
                self.flights[request] = flight;
                self.servers[endpoint].dispatched();
                self.on_the_way[endpoint] += self.setup.prompts[request].tokens.len();
                self.agenda.add(now + self.setup.hop, Happening::Reached { request, endpoint });
            }
            Err(_) => self.end(request, now),
        }
    }

    fn choose(&mut self, request: usize, now: Duration) -> Result<(usize, Option<(usize, Flight)>), NoPick> {
        let asked = &self.setup.trace.requests[request];
        self.decisions += 1;
        if self.gateways.is_empty() {
            let asked = self.engine_request(request);
            let joined = |number: usize| self.setup.fleet[number].joins <= now;
            return Ok((
                oracle::choose(&mut self.servers, joined, &self.on_the_way, &asked, now, self.decisions),
                None,
            ));
        }
        let adapter = asked.adapter.map(|number| self.setup.adapters[number].clone());
        let info = RequestInfo {
            model: adapter.clone().unwrap_or_else(|| MODEL.into()),
            adapter,
            prompt: self.setup.prompts[request].prompt.clone(),
            tenant: asked.tenant.map_or(0, |tenant| 1 + tenant as u64),
            max_tokens: self.setup.told.max_tokens(asked.output),
            streams: self.answers[request].streams,
            ..RequestInfo::default()
        };
        let gateway = self.lots.below(self.gateways.len());
        let (endpoint, flight) = self.gateways[gateway].decide(&info, now)?;
        Ok((endpoint, Some((gateway, flight))))
    }

    fn engine_request(&self, request: usize) -> engine::Request {
        let asked = &self.setup.trace.requests[request];
        engine::Request {
            prompt: self.setup.prompts[request].tokens.clone(),
            max_tokens: asked.output,
            stop_after: None,
            adapter: asked.adapter.map(|number| self.setup.adapters[number].clone()),
            salt: 0,
            seed: asked.seed,
        }
    }

    fn reached(&mut self, request: usize, endpoint: usize, now: Duration) {
        let asked = self.engine_request(request);
        self.on_the_way[endpoint] -= asked.prompt.len();
        if let Some((gateway, flight)) = &mut self.flights[request] {
            let pool = &self.gateways[*gateway].pool;
            pool.observe(Event::Connected { flight, round_trip: Some(self.setup.hop * 2) }, time(now));
        }
        if self.servers[endpoint].submit(request, asked, now).is_err() {
            // Longer than the whole cache of this engine: it answers with an error.
            if let Some((gateway, flight)) = self.flights[request].take() {
                let ended = Event::Ended { flight, outcome: PickerOutcome::Status(400) };
                self.gateways[gateway].pool.observe(ended, time(now));
            }
            self.servers[endpoint].in_flight -= 1;
            return self.end(request, now + self.setup.hop);
        }
        if let Some(place) = self.places[request] {
            self.outcomes[place].reached = Some(now);
        }
        self.advance(endpoint, now);
    }

    fn advance(&mut self, endpoint: usize, now: Duration) {
        let server = &mut self.servers[endpoint];
        let mut events = self.spare.pop().unwrap_or_default();
        let next = server.advance(now, &mut events);
        if server.wakes != next {
            server.wakes = next;
            if let Some(next) = next {
                self.agenda.add(next, Happening::Wake(endpoint));
            }
        }
        if events.is_empty() {
            self.spare.push(events);
        } else {
            self.agenda.add(now + self.setup.hop, Happening::Heard { endpoint, events, happened: now });
        }
    }

    fn heard(&mut self, endpoint: usize, mut events: Vec<engine::Event>, happened: Duration, now: Duration) {
        for event in events.drain(..) {
            let request = self.servers[endpoint].request_of(event.id);
            let place = self.places[request].expect("only what was sent is heard of");
            let outcome = &mut self.outcomes[place];
            match event.what {
                What::Scheduled { cached, queued } => {
                    outcome.cached = cached;
                    outcome.queued = queued;
                }
                What::Token(_) => {
                    outcome.token(now);
                    if let Some((gateway, flight)) = &mut self.flights[request] {
                        let pool = &self.gateways[*gateway].pool;
                        let told = match outcome.tokens {
                            1 => Event::FirstToken { flight },
                            _ => Event::Token { flight, count: 1 },
                        };
                        if self.answers[request].is_noticed {
                            pool.observe(told, time(now));
                        }
                    }
                }
                What::Finished(_) => {
                    outcome.left = Some(happened);
                    outcome.completed = true;
                    self.servers[endpoint].in_flight -= 1;
                    self.completed(request, now);
                    self.end(request, now);
                }
            }
        }
        self.spare.push(events);
    }

    fn completed(&mut self, request: usize, now: Duration) {
        let Some((gateway, mut flight)) = self.flights[request].take() else { return };
        let pool = &self.gateways[gateway].pool;
        if self.setup.told.usage {
            let place = self.places[request].expect("it was sent");
            let outcome = &self.outcomes[place];
            let usage = Event::Usage {
                flight: &mut flight,
                prompt: Some(self.setup.prompts[request].tokens.len() as u32),
                cached: Some(outcome.cached),
                completion: Some(outcome.tokens),
            };
            pool.observe(usage, time(now));
        }
        pool.observe(Event::Ended { flight, outcome: PickerOutcome::Completed }, time(now));
    }

    /// The client has its answer, of whatever kind: those who waited for it go on.
    fn end(&mut self, request: usize, now: Duration) {
        for &follower in &self.followers[request] {
            if let Start::After { pause, .. } = self.setup.trace.requests[follower].start {
                self.agenda.add(now + pause, Happening::Sent(follower));
            }
        }
    }
}

impl Run {
    /// Checks what must hold whatever the policy: Little's law within 1 %, and that tokens are conserved.
    pub fn check(&self) -> Result<(), Broken> {
        let mut spent = vec![0.0; self.endpoints.len()];
        let mut got = vec![0; self.endpoints.len()];
        for outcome in &self.outcomes {
            if let (Some(endpoint), Some(reached)) = (outcome.endpoint, outcome.reached) {
                spent[endpoint] += outcome.left.unwrap_or(self.end).saturating_sub(reached).as_secs_f64();
                got[endpoint] += u64::from(outcome.tokens);
            }
        }
        for (endpoint, totals) in self.endpoints.iter().enumerate() {
            let (counted, spent) = (totals.area, spent[endpoint]);
            if (counted - spent).abs() > 0.01 * spent.max(1.0) {
                return Err(Broken::Little { endpoint, counted, spent });
            }
            // Those on their way to the gateway at the end have been counted by one side only.
            let (counted, got) = (totals.after.output, got[endpoint]);
            if counted < got || counted - got > 2_048 {
                return Err(Broken::Tokens { endpoint, counted, got });
            }
        }
        Ok(())
    }
}
