//! Makes the trace of a workload and a seed.
//!
//! Arrivals, lengths, prefixes and the rest draw from generators of their own, so two workloads that differ in one of
//! them have all else in common.

use std::time::Duration;

use spillway_sim::engine::mix;

use super::prompts::Prompts;
use super::random::{Random, Zipf};
use super::replay::Recorded;
use super::trace::{Message, Priority, Request, Role, Start, Text, Trace};
use super::{Arrivals, Class, Workload};

/// Numbers of segments: kinds never meet.
const SHARED: u64 = 1;
const DOCUMENT: u64 = 2;
const MESSAGE: u64 = 3;

/// The trace of a workload under one load.
pub fn generate(workload: &Workload, arrivals: &Arrivals, horizon: Duration, seed: u64) -> Trace {
    let mut maker = Maker::new(workload, seed);
    if let Arrivals::Replay(replay) = arrivals {
        replay.before(horizon).for_each(|(at, recorded)| maker.recorded(at, recorded, replay.block));
        return Trace { requests: maker.requests, horizon };
    }
    for at in arrivals.times(horizon, &mut Random::new(seed, "arrivals")) {
        if let Arrivals::Closed { think, requests, .. } = arrivals {
            maker.user(at, think, *requests);
        } else {
            let class = maker.class();
            maker.conversation(class, Start::At(at));
        }
    }
    Trace { requests: maker.requests, horizon }
}

struct Maker<'a> {
    workload: &'a Workload,
    seed: u64,
    popularity: Vec<Popularity>,
    adapters: Option<Zipf>,
    tenants: Option<Zipf>,
    requests: Vec<Request>,
    conversations: u64,
    lengths: Random,
    outputs: Random,
    prefixes: Random,
    classes: Random,
    pauses: Random,
    labels: Random,
}

/// The popularity of what a class shares.
struct Popularity {
    levels: Vec<Zipf>,
    documents: Option<Zipf>,
}

impl<'a> Maker<'a> {
    fn new(workload: &'a Workload, seed: u64) -> Self {
        let popularity = workload.classes.iter().map(|class| Popularity {
            levels: class.prompts.shared.iter().map(|level| Zipf::new(level.pool, level.zipf)).collect(),
            documents: class.prompts.documents.as_ref().map(|pool| Zipf::new(pool.pool, pool.zipf)),
        });
        Self {
            workload,
            seed,
            popularity: popularity.collect(),
            adapters: workload.adapters.as_ref().map(|pool| Zipf::new(pool.pool, pool.zipf)),
            tenants: workload.tenants.as_ref().map(|pool| Zipf::new(pool.pool, pool.zipf)),
            requests: Vec::new(),
            conversations: 0,
            lengths: Random::new(seed, "lengths"),
            outputs: Random::new(seed, "outputs"),
            prefixes: Random::new(seed, "prefixes"),
            classes: Random::new(seed, "classes"),
            pauses: Random::new(seed, "pauses"),
            labels: Random::new(seed, "labels"),
        }
    }

    fn class(&mut self) -> usize {
        let shares = self.workload.classes.iter().map(|class| class.share);
        let mut place = self.classes.unit() * shares.clone().sum::<f64>();
        for (number, share) in shares.enumerate() {
            place -= share;
            if place < 0.0 {
                return number;
            }
        }
        0
    }

    /// All requests of one user of a closed loop.
    fn user(&mut self, at: Duration, think: &super::Amount, requests: u32) {
        let mut start = Start::At(at);
        let first = self.requests.len();
        while self.requests.len() - first < requests as usize {
            let class = self.class();
            let last = self.conversation(class, start);
            let pause = Duration::from_secs_f64(think.draw(&mut self.pauses));
            start = Start::After { request: last, pause };
        }
    }

    /// All turns of one conversation; returns the place of the last.
    fn conversation(&mut self, class: usize, start: Start) -> usize {
        let workload = self.workload;
        let Class { prompts, output, .. } = &workload.classes[class];
        self.conversations += 1;
        let conversation = self.conversations;
        let mut messages = self.head(class, prompts);
        let turns = prompts.turns.as_ref();
        let count = turns.map_or(1, |turns| self.lengths.geometric(turns.mean).min(turns.most));
        let adapter = self.adapters.as_ref().map(|zipf| zipf.draw(&mut self.labels));
        let tenant = self.tenants.as_ref().map(|zipf| zipf.draw(&mut self.labels));
        let mut start = start;
        for turn in 0..count {
            let amount = match turns {
                Some(turns) if turn > 0 => turns.message.as_ref().unwrap_or(&prompts.message),
                _ => &prompts.message,
            };
            let role = if turn > 0 && turns.is_some_and(|turns| turns.tools) { Role::Tool } else { Role::User };
            let segment = self.segment(MESSAGE, conversation, u64::from(turn));
            let text = Text::Words { segment, tokens: amount.tokens(&mut self.lengths) };
            messages.push(Message { role, text });
            let place = self.requests.len();
            let request = Request {
                start,
                messages: messages.clone(),
                output: output.tokens(&mut self.outputs),
                adapter,
                tenant,
                priority: self.priority(),
                streams: self.labels.unit() < self.workload.streaming,
                seed: mix(self.seed, place as u64),
                conversation,
            };
            self.requests.push(request);
            messages.push(Message { role: Role::Assistant, text: Text::Reply { request: place } });
            if let Some(turns) = turns {
                let pause = Duration::from_secs_f64(turns.think.draw(&mut self.pauses));
                start = Start::After { request: place, pause };
            }
        }
        self.requests.len() - 1
    }

    /// One request of a recording.
    fn recorded(&mut self, at: Duration, recorded: &Recorded, block: u32) {
        self.conversations += 1;
        let (seed, place) = (self.seed, self.requests.len() as u64);
        let own = self.segment(MESSAGE, self.conversations, 0);
        let texts = recorded.texts(block, |id| mix(mix(seed, SHARED), id), own);
        let request = Request {
            start: Start::At(at),
            messages: texts.into_iter().map(|text| Message { role: Role::User, text }).collect(),
            output: recorded.output_length,
            adapter: self.adapters.as_ref().map(|zipf| zipf.draw(&mut self.labels)),
            tenant: self.tenants.as_ref().map(|zipf| zipf.draw(&mut self.labels)),
            priority: self.priority(),
            streams: self.labels.unit() < self.workload.streaming,
            seed: mix(seed, place),
            conversation: self.conversations,
        };
        self.requests.push(request);
    }

    /// What stands before the first message.
    fn head(&mut self, class: usize, prompts: &Prompts) -> Vec<Message> {
        let mut messages = Vec::new();
        // A text belongs below the one before it: two roles under two tool schemas are four texts.
        let mut path = class as u64;
        for (level, zipf) in prompts.shared.iter().zip(&self.popularity[class].levels) {
            let which = match self.prefixes.unit() {
                place if place < level.hot => 0,
                _ => zipf.draw(&mut self.prefixes) as u64 + u64::from(level.hot > 0.0),
            };
            path = mix(path, which);
            let segment = mix(mix(self.seed, SHARED), path);
            // Its length is its own, whoever asks for it.
            let tokens = level.tokens.tokens(&mut Random::new(segment, "length"));
            messages.push(Message { role: Role::System, text: Text::Words { segment, tokens } });
        }
        if let (Some(pool), Some(zipf)) = (&prompts.documents, &self.popularity[class].documents) {
            let mut chosen = zipf.distinct(pool.each, &mut self.prefixes);
            if pool.sorted {
                chosen.sort_unstable();
            }
            for document in chosen {
                let segment = self.segment(DOCUMENT, class as u64, document as u64);
                let tokens = pool.tokens.tokens(&mut Random::new(segment, "length"));
                messages.push(Message { role: Role::System, text: Text::Words { segment, tokens } });
            }
        }
        messages
    }

    fn priority(&mut self) -> Priority {
        let [critical, standard, sheddable] = self.workload.priorities;
        let place = self.labels.unit() * (critical + standard + sheddable);
        match place {
            place if place < critical => Priority::Critical,
            place if place < critical + standard => Priority::Standard,
            _ => Priority::Sheddable,
        }
    }

    fn segment(&self, kind: u64, which: u64, part: u64) -> u64 {
        mix(mix(mix(self.seed, kind), which), part)
    }
}
