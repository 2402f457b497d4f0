//! A model of one endpoint, in virtual time.
//!
//! Prefills are computed one after the other, in the order of their coming; each takes a fixed time, a time per token that
//! is not cached, and a time per stream that decodes beside it. After its first token a request decodes: all streams get
//! their tokens in common steps, whose length grows with their number. What has been computed is cached for those after it.
//!
//! Not modelled: prefills in chunks or side by side, a batch that is full, preemption, adapters being loaded, answers as part
//! of the next prompt's prefix. A model of few terms can be fitted to what a gateway sees; one of more could not.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;

use spillway_picker::prefix::Prompt;

use super::cache::Cache;

/// Tokens by which a stream may be short of its end and still be there: rounding, far below a token.
const ROUNDING: f64 = 1e-6;

/// How fast an endpoint is, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Speed {
    /// Of each prefill.
    pub prefill: f64,
    /// Of each prompt token that is not cached.
    pub prefill_token: f64,
    /// By which each stream that decodes delays a prefill.
    pub prefill_stream: f64,
    /// Of a step of decoding.
    pub step: f64,
    /// By which each stream makes a step longer.
    pub step_stream: f64,
}

/// What an endpoint has to do for a request.
#[derive(Clone, Debug)]
pub(super) struct Job {
    /// Whose it is.
    pub(super) request: usize,
    /// The prompt.
    pub(super) prompt: Arc<Prompt>,
    /// Its tokens.
    pub(super) tokens: f64,
    /// Tokens of output, the first included.
    pub(super) output: u32,
}

/// Something that has happened to a request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Step {
    /// Its first token is there; of its prompt, `cached` tokens were.
    FirstToken { request: usize, cached: f64 },
    /// Its last token is there.
    Ended { request: usize },
}

/// A modelled endpoint. Times are nanoseconds.
#[derive(Debug)]
pub(super) struct Model {
    speed: Speed,
    cache: Cache,
    waiting: VecDeque<Job>,
    prefilling: Option<Prefill>,
    /// Streams by the progress at which they end, in bits, which order as the positive numbers do.
    decoding: BinaryHeap<Reverse<(u64, usize, u64)>>,
    /// Tokens that a stream would have got since the first of those that decode now.
    progress: f64,
    as_of: u64,
    /// Tokens of the requests that are being computed.
    active_tokens: u64,
}

#[derive(Debug)]
struct Prefill {
    job: Job,
    cached: f64,
    ends: u64,
}

impl Model {
    /// An idle endpoint with an empty cache for `capacity` bytes of prompts.
    pub(super) fn new(speed: Speed, capacity: f64) -> Self {
        Self {
            speed,
            cache: Cache::new(capacity),
            waiting: VecDeque::new(),
            prefilling: None,
            decoding: BinaryHeap::new(),
            progress: 0.0,
            as_of: 0,
            active_tokens: 0,
        }
    }

    /// A request comes. All that is due before has been played.
    pub(super) fn submit(&mut self, job: Job, now: u64) {
        self.waiting.push_back(job);
        self.begin(now);
    }

    /// When something happens next.
    pub(super) fn next(&self) -> Option<u64> {
        let prefilled = self.prefilling.as_ref().map(|prefill| prefill.ends);
        prefilled.into_iter().chain(self.next_end().map(|(at, _)| at)).min()
    }

    /// When the next stream ends, and at what progress.
    fn next_end(&self) -> Option<(u64, f64)> {
        let Reverse((end, ..)) = self.decoding.peek()?;
        let end = f64::from_bits(*end);
        let left = (end - self.progress).max(0.0);
        Some((self.as_of.saturating_add(nanos(left * self.gap())), end))
    }

    /// Plays all that is due, and tells what has happened.
    pub(super) fn advance(&mut self, now: u64, steps: &mut Vec<Step>) {
        while let Some(at) = self.next().filter(|at| *at <= now) {
            let next_end = self.next_end();
            self.pass(at);
            // What rounding left of the last token: at a progress of billions it could be more than a nanosecond adds.
            if let Some((_, end)) = next_end.filter(|(due, _)| *due <= at) {
                self.progress = self.progress.max(end);
            }
            while let Some(&Reverse((end, request, tokens))) = self.decoding.peek()
                && f64::from_bits(end) <= self.progress + ROUNDING
            {
                self.decoding.pop();
                self.active_tokens -= tokens;
                steps.push(Step::Ended { request });
            }
            if let Some(Prefill { job, cached, .. }) = self.prefilling.take_if(|prefill| prefill.ends <= at) {
                self.computed(&job, cached, steps);
                self.begin(at);
            }
        }
        self.pass(now);
    }

    /// Requests that wait.
    pub(super) fn queued(&self) -> usize {
        self.waiting.len()
    }

    /// Requests that are being computed.
    pub(super) fn running(&self) -> usize {
        self.decoding.len() + usize::from(self.prefilling.is_some())
    }

    /// Tokens of those, prompts and outputs.
    pub(super) fn active_tokens(&self) -> u64 {
        self.active_tokens
    }

    fn begin(&mut self, now: u64) {
        if self.prefilling.is_some() {
            return;
        }
        let Some(job) = self.waiting.pop_front() else { return };
        let cached = job.tokens * job.prompt.share(self.cache.matched(&job.prompt.blocks));
        // The last token is computed whatever is cached: the next one comes of it.
        let uncached = (job.tokens - cached).max(1.0);
        let Speed { prefill, prefill_token, prefill_stream, .. } = self.speed;
        let takes = prefill + prefill_token * uncached + prefill_stream * self.decoding.len() as f64;
        self.active_tokens += size(&job);
        self.prefilling = Some(Prefill { job, cached, ends: now.saturating_add(nanos(takes)) });
    }

    fn computed(&mut self, job: &Job, cached: f64, steps: &mut Vec<Step>) {
        let request = job.request;
        self.cache.insert(&job.prompt.blocks);
        steps.push(Step::FirstToken { request, cached });
        if job.output <= 1 {
            self.active_tokens -= size(job);
            steps.push(Step::Ended { request });
            return;
        }
        if self.decoding.is_empty() {
            self.progress = 0.0;
        }
        let end = self.progress + f64::from(job.output - 1);
        self.decoding.push(Reverse((end.to_bits(), request, size(job))));
    }

    /// Streams get tokens until `now`.
    fn pass(&mut self, now: u64) {
        let passed = now.saturating_sub(self.as_of) as f64 * 1e-9;
        self.as_of = self.as_of.max(now);
        if let Some(Reverse((end, ..))) = self.decoding.peek() {
            let end = f64::from_bits(*end);
            let gap = self.gap();
            let gained = if gap > 0.0 { passed / gap } else { f64::INFINITY };
            // Nobody gets past the next end, whose time `next` has rounded up.
            self.progress = (self.progress + gained).min(end.max(self.progress));
        }
    }

    /// Length of a step, seconds.
    fn gap(&self) -> f64 {
        self.speed.step + self.speed.step_stream * self.decoding.len() as f64
    }
}

fn size(job: &Job) -> u64 {
    job.tokens as u64 + u64::from(job.output)
}

fn nanos(seconds: f64) -> u64 {
    (seconds * 1e9).ceil() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPEED: Speed =
        Speed { prefill: 0.010, prefill_token: 0.001, prefill_stream: 0.002, step: 0.020, step_stream: 0.005 };
    const MILLI: u64 = 1_000_000;

    fn job(request: usize, blocks: &[u64], output: u32) -> Job {
        let prompt = Prompt { blocks: blocks.to_vec(), bytes: 256 * blocks.len() as u64, ..Prompt::default() };
        Job { request, prompt: Arc::new(prompt), tokens: 100.0, output }
    }

    /// Plays to the end; what happened, and when in milliseconds.
    fn play(model: &mut Model) -> Vec<(u64, Step)> {
        let (mut all, mut steps) = (Vec::new(), Vec::new());
        while let Some(at) = model.next() {
            model.advance(at, &mut steps);
            all.extend(steps.drain(..).map(|step| ((at + MILLI / 2) / MILLI, step)));
        }
        assert_eq!((model.queued(), model.running(), model.active_tokens()), (0, 0, 0), "it is idle in the end");
        all
    }

    #[test]
    fn an_idle_endpoint_takes_its_own_prefill_and_steps() {
        let mut model = Model::new(SPEED, 1e9);
        model.submit(job(7, &[1, 2], 5), 1_000 * MILLI);
        assert_eq!((model.queued(), model.running(), model.active_tokens()), (0, 1, 105));
        let first = Step::FirstToken { request: 7, cached: 0.0 };
        assert_eq!(play(&mut model), [(1_110, first), (1_210, Step::Ended { request: 7 })]);
    }

    #[test]
    fn prefills_wait_for_each_other_and_what_one_computed_the_next_need_not() {
        let mut model = Model::new(SPEED, 1e9);
        model.submit(job(1, &[1, 2], 1), 0);
        model.submit(job(2, &[1, 3], 1), 0);
        model.submit(job(3, &[1, 2], 1), 0);
        let first = |request, cached| Step::FirstToken { request, cached };
        let ended = |request| Step::Ended { request };
        let expected = [
            (110, first(1, 0.0)),
            (110, ended(1)),
            (170, first(2, 50.0)),
            (170, ended(2)),
            // All but its last token is cached.
            (181, first(3, 100.0)),
            (181, ended(3)),
        ];
        assert_eq!(play(&mut model), expected);
    }

    #[test]
    fn streams_share_their_steps_and_delay_prefills() {
        let mut model = Model::new(SPEED, 1e9);
        model.submit(job(1, &[], 11), 0);
        model.submit(job(2, &[], 2), 0);
        // The first has 110 ms of steps of 25 ms for itself, then one of 30 ms beside the second, then the rest alone. The
        // second's prefill is 2 ms longer for the stream beside it.
        let ended: Vec<(u64, Step)> =
            play(&mut model).into_iter().filter(|(_, step)| matches!(step, Step::Ended { .. })).collect();
        let alone = 112.0 / 25.0;
        let last: f64 = 110.0 + 112.0 + 30.0 + (10.0 - alone - 1.0) * 25.0;
        assert_eq!(ended, [(252, Step::Ended { request: 2 }), (last.round() as u64, Step::Ended { request: 1 })]);
    }

    #[test]
    fn a_model_without_any_speed_ends_at_once() {
        let mut model = Model::new(Speed::default(), 0.0);
        model.submit(job(1, &[1], 1_000), 5);
        model.submit(job(2, &[1], u32::MAX), 5);
        let mut steps = Vec::new();
        model.advance(5, &mut steps);
        assert_eq!(steps.len(), 4);
        assert_eq!(model.next(), None);
    }

    #[test]
    fn billions_of_tokens_end_too() {
        let mut model = Model::new(Speed { step: 3e-7, ..SPEED }, 1e9);
        model.submit(job(1, &[], u32::MAX), 300_000_000_000_000_007);
        model.submit(job(2, &[], u32::MAX - 1), 300_000_000_000_000_007);
        model.submit(job(3, &[], 4_000_000_001), 300_000_000_000_000_007);
        assert_eq!(play(&mut model).len(), 6);
    }

    proptest::proptest! {
        #[test]
        fn whatever_comes_all_of_it_ends(
            jobs in proptest::collection::vec((0_u64..50, 0_u64..4, 0_u32..40, 0_u32..2_000), 1..40),
            speed in proptest::array::uniform5(0.0..0.01_f64),
        ) {
            let [prefill, prefill_token, prefill_stream, step, step_stream] = speed;
            let mut model = Model::new(Speed { prefill, prefill_token, prefill_stream, step, step_stream }, 600.0);
            let (mut now, mut steps) = (0, Vec::new());
            let count = jobs.len();
            for (number, (pause, block, output, tokens)) in jobs.into_iter().enumerate() {
                now += pause * MILLI;
                model.advance(now, &mut steps);
                model.submit(Job { tokens: f64::from(tokens), ..job(number, &[block, block + 9], output) }, now);
            }
            steps.extend(play(&mut model).into_iter().map(|(_, step)| step));
            proptest::prop_assert_eq!(steps.len(), 2 * count);
        }
    }
}
