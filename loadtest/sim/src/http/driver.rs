//! Drives the engine in real time and hands its events to the requests that wait for them.
//!
//! A [`Generation`] is the only handle to sequences: dropping it aborts those that still run.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, mpsc};

use crate::Timer;
use crate::engine::{CacheChange, Engine, Event, Finish, Pace, Refused, Request, SequenceId, What};

/// The engine, its clock, and who listens to which sequence.
#[derive(Debug)]
pub(crate) struct Driver {
    inner: Mutex<Inner>,
    wake: Notify,
    origin: Instant,
    /// Model seconds per wall second.
    scale: f64,
}

#[derive(Debug)]
struct Inner {
    engine: Engine,
    listeners: HashMap<SequenceId, Listener>,
    events: Vec<Event>,
    /// Who tells of changes in the cache.
    publisher: Option<mpsc::UnboundedSender<News>>,
}

/// News of the cache.
#[derive(Debug)]
pub(crate) enum News {
    /// What changed in one step.
    Changed(Vec<CacheChange>),
    /// The process is another one.
    Restarted,
}

#[derive(Debug)]
struct Listener {
    choice: usize,
    sender: mpsc::UnboundedSender<Item>,
}

/// News of one choice of a generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Item {
    /// It left the queue.
    Scheduled { choice: usize, cached: u32, queued: Duration },
    /// An output token, and the end when it was the last.
    Token { choice: usize, token: u32, finish: Option<Finish> },
}

impl Driver {
    pub(crate) fn new(engine: Engine, scale: f64) -> Self {
        let inner = Inner { engine, listeners: HashMap::new(), events: Vec::new(), publisher: None };
        let scale = if scale.is_finite() && scale > 0.0 { scale } else { 1.0 };
        Self { inner: Mutex::new(inner), wake: Notify::new(), origin: Instant::now(), scale }
    }

    /// Plays the engine for ever.
    pub(crate) async fn run(&self) {
        let mut timer = Timer::new();
        loop {
            let next = self.lock().play(self.model_now());
            let woken = self.wake.notified();
            match next {
                Some(time) => tokio::select! {
                    () = timer.until(self.instant(time)) => {}
                    () = woken => {}
                },
                None => woken.await,
            }
        }
    }

    /// Submits one sequence per request, all or none.
    pub(crate) fn submit(self: &Arc<Self>, requests: Vec<Request>) -> Result<Generation, Refused> {
        let (sender, receiver) = mpsc::unbounded_channel();
        let mut inner = self.lock();
        let now = self.model_now();
        inner.engine.observe_choices(requests.len());
        let mut generation = Generation {
            driver: self.clone(),
            receiver,
            open: Vec::with_capacity(requests.len()),
            cached: Vec::with_capacity(requests.len()),
        };
        for (choice, request) in requests.into_iter().enumerate() {
            match inner.engine.submit(request, now) {
                Ok(id) => {
                    generation.open.push(id);
                    generation.cached.push(inner.engine.cached_tokens(id));
                    inner.listeners.insert(id, Listener { choice, sender: sender.clone() });
                }
                Err(refused) => {
                    // The guard's drop takes the same lock.
                    drop(inner);
                    drop(generation);
                    return Err(refused);
                }
            }
        }
        drop(inner);
        self.wake.notify_one();
        Ok(generation)
    }

    /// From here on tells of changes in the cache.
    pub(crate) fn publish(&self, publisher: mpsc::UnboundedSender<News>) {
        let mut inner = self.lock();
        inner.engine.record_changes();
        inner.publisher = Some(publisher);
    }

    /// Empties the prefix cache; false while a sequence runs.
    pub(crate) fn clear_cache(&self) -> bool {
        self.lock().engine.clear_cache()
    }

    /// Loses all sequences, the cache and the counters. Listeners see the end of their channel.
    pub(crate) fn reset(&self) {
        let mut inner = self.lock();
        inner.engine.reset();
        inner.listeners.clear();
        if let Some(publisher) = &inner.publisher {
            let _ = publisher.send(News::Restarted);
        }
        drop(inner);
        self.wake.notify_one();
    }

    /// Replaces what slows the engine, from this moment on. `pace` is asked when no other change can come between.
    pub(crate) fn set_pace(&self, pace: impl FnOnce() -> Pace) {
        let mut inner = self.lock();
        inner.play(self.model_now());
        inner.engine.set_pace(pace());
        drop(inner);
        self.wake.notify_one();
    }

    /// Looks at the engine, which is up to date as of this moment.
    pub(crate) fn with_engine<T>(&self, look: impl FnOnce(&Engine) -> T) -> T {
        look(&self.lock().engine)
    }

    /// Wall time of a span of model time.
    pub(crate) fn wall(&self, model: Duration) -> Duration {
        model.div_f64(self.scale)
    }

    /// Model time of an instant.
    pub(crate) fn model(&self, instant: Instant) -> Duration {
        instant.saturating_duration_since(self.origin).mul_f64(self.scale)
    }

    /// The instant of a model time.
    pub(crate) fn instant(&self, model: Duration) -> Instant {
        self.origin + self.wall(model)
    }

    fn model_now(&self) -> Duration {
        self.model(Instant::now())
    }

    fn abort(&self, ids: &[SequenceId]) {
        let mut inner = self.lock();
        // So that it happens now, and not when the engine was last looked at.
        inner.play(self.model_now());
        for id in ids {
            // Unknown ids have finished; their last events may still be on the way to nobody.
            inner.engine.abort(*id);
            inner.listeners.remove(id);
        }
        drop(inner);
        self.wake.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    /// Plays what is due and hands out its events; returns when the next is.
    fn play(&mut self, now: Duration) -> Option<Duration> {
        let Self { engine, listeners, events, publisher } = self;
        let next = engine.advance(now, events);
        // Before the tokens of the step: real engines publish as they schedule.
        if let Some(publisher) = publisher {
            let changes = engine.take_changes();
            if !changes.is_empty() {
                let _ = publisher.send(News::Changed(changes));
            }
        }
        let mut rest = events.drain(..).peekable();
        while let Some(event) = rest.next() {
            let choice = listeners.get(&event.id).map_or(0, |listener| listener.choice);
            // The end always follows the last token directly.
            let item = match event.what {
                What::Scheduled { cached, queued } => Item::Scheduled { choice, cached, queued },
                What::Token(token) => {
                    let end = rest.next_if(|next| next.id == event.id && matches!(next.what, What::Finished(_)));
                    let finish = end.and_then(|end| match end.what {
                        What::Finished(finish) => Some(finish),
                        _ => None,
                    });
                    Item::Token { choice, token, finish }
                }
                What::Finished(_) => continue,
            };
            if let Some(listener) = listeners.get(&event.id) {
                // A receiver that has just gone aborts by itself.
                let _ = listener.sender.send(item);
            }
            if matches!(item, Item::Token { finish: Some(_), .. }) {
                listeners.remove(&event.id);
            }
        }
        next
    }
}

/// The sequences of one request.
#[derive(Debug)]
pub(crate) struct Generation {
    driver: Arc<Driver>,
    receiver: mpsc::UnboundedReceiver<Item>,
    /// Sequences that may still run.
    open: Vec<SequenceId>,
    /// Prompt tokens the cache held on arrival, by choice.
    cached: Vec<usize>,
}

impl Generation {
    /// The next news; `None` after the end of all choices, or when the engine lost them.
    pub(crate) async fn next(&mut self) -> Option<Item> {
        self.receiver.recv().await
    }

    /// Prompt tokens the cache held on arrival, by choice.
    pub(crate) fn cached_on_arrival(&self) -> &[usize] {
        &self.cached
    }

    /// Wall time of a span of model time.
    pub(crate) fn wall(&self, model: Duration) -> Duration {
        self.driver.wall(model)
    }
}

impl Drop for Generation {
    fn drop(&mut self) {
        self.driver.abort(&self.open);
    }
}
