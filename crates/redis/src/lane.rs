//! The way from one event loop to one master: a connection, what waits to be sent over it, and what is on its way.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use redis::aio::MultiplexedConnection;
use redis::{Cmd, ErrorKind, Pipeline, RedisError, RedisResult, ServerErrorKind, Value};
use tidegate_store::coalesce::{Added, Coalescer};
use tidegate_store::deadline::{Late, within};
use tidegate_store::{Failure, Outcome, Permit};

use crate::encode::{Reply, Way, request};
use crate::link::{Connected, Link};
use crate::master::Master;
use crate::problem::Problem;
use crate::waiting::Waiting;

/// How long a call may take before the connection is given up. Those who wait for it have given up long before.
const CALL_LIMIT: Duration = Duration::from_secs(1);

/// A connection to a master, and the queue before it.
pub(crate) struct Lane {
    pub(crate) link: Arc<Link>,
    master: Arc<Master>,
    coalescer: Coalescer<Waiting>,
    /// Held while a batch is taken and put on its way, so that batches leave in the order they were taken.
    order: Mutex<()>,
}

/// Groups that go in one command.
type Unit = Vec<Waiting>;

/// What came back for a command.
type Returned = RedisResult<Value>;

/// A call on its way.
type OnItsWay = Pin<Box<dyn Future<Output = RedisResult<Vec<Returned>>> + Send>>;

impl Lane {
    pub(crate) fn new(master: Arc<Master>, link: Arc<Link>) -> Arc<Self> {
        let coalescer = Coalescer::new(master.clock.patience());
        Arc::new(Self { link, master, coalescer, order: Mutex::new(()) })
    }

    /// Sends a group with the next call.
    pub(crate) fn submit(self: &Arc<Self>, waiting: Waiting) {
        if let Err(failure) = self.master.breaker.lets_through() {
            self.master.stats.count_error(failure);
            return waiting.fail(Outcome::Unavailable(failure));
        }
        match self.coalescer.add(waiting, Instant::now()) {
            Added::Waits => {}
            Added::Start(pause) => {
                tokio::spawn(Arc::clone(self).send_all(pause));
            }
            Added::Full(waiting) => {
                self.master.stats.count_error(Failure::NotReady);
                waiting.fail(Outcome::Unavailable(Failure::NotReady));
            }
        }
    }

    /// Sends batches until nothing waits.
    async fn send_all(self: Arc<Self>, mut pause: Duration) {
        loop {
            wait(pause).await;
            self.link.known().await;
            let Some(Sent { units, call, start, permit }) = self.send_next() else { return };
            let answered = match call {
                // All of them came too late.
                _ if units.is_empty() => false,
                Ok(call) => self.receive(units, call, permit).await,
                Err(problem) => {
                    self.refuse_all(units, &problem);
                    false
                }
            };
            let took = start.elapsed();
            if answered {
                self.master.stats.seconds.observe(took);
            }
            pause = self.coalescer.ended(answered.then_some(took), Instant::now());
        }
    }

    /// Takes the next batch and puts it on its way.
    fn send_next(&self) -> Option<Sent> {
        let _order = self.order.lock();
        let start = Instant::now();
        let units = self.units(self.coalescer.take(start)?, start);
        let cannot = |units, problem| Some(Sent { units, call: Err(problem), start, permit: None });
        if units.is_empty() {
            return cannot(units, Problem::new(Failure::Deadline, "too late"));
        }
        let permit = match self.master.breaker.begin() {
            Ok(permit) => permit,
            Err(failure) => return cannot(units, Problem::new(failure, "left alone")),
        };
        let Ok(Connected { connection, generation }) = self.link.get() else {
            let problem = self.link.problem();
            let problem = problem.unwrap_or_else(|| Problem::new(Failure::Connection, "not connected"));
            let reached = problem.failure != Failure::Connection;
            self.master.breaker.end(permit, reached.then_some(Duration::ZERO));
            return cannot(units, problem);
        };
        let mut call = send(connection, self.commands(&units));
        // The first poll hands it to the connection, which keeps the order.
        let first = call.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        Some(Sent { units, call: Ok((call, Started { generation, first })), start, permit })
    }

    /// Groups into commands: one for all of them, or one per slot in a Cluster. Who is late is not sent.
    fn units(&self, batch: Vec<Waiting>, now: Instant) -> Vec<Unit> {
        let mut units: Vec<Unit> = Vec::new();
        for waiting in batch {
            if waiting.deadline <= now {
                // Who has given up waiting has counted it already.
                if !waiting.reply.is_closed() {
                    self.master.stats.count_error(Failure::Deadline);
                }
                waiting.fail(Outcome::Unavailable(Failure::Deadline));
                continue;
            }
            waiting.ops.iter().for_each(|op| self.master.stats.count_operation(&op.action));
            let place = |waiting: &Waiting| (waiting.slot, waiting.asking, waiting.alone);
            let here = place(&waiting);
            let shared = |first: &Waiting| !self.master.clustered || (place(first) == here && !waiting.alone);
            let together = |unit: &&mut Unit| unit.first().is_some_and(shared);
            match units.iter_mut().find(together) {
                Some(unit) => unit.push(waiting),
                None => units.push(vec![waiting]),
            }
        }
        units
    }

    /// The command for each unit, and whether it goes to a server that is only about to take over its slot.
    fn commands(&self, units: &[Unit]) -> Vec<(Cmd, bool)> {
        let time = self.master.clock.time();
        let command = |unit: &Unit| {
            let keys: Vec<&[u8]> =
                unit.iter().flat_map(|group| &group.ops).map(|op| op.key.as_slice()).collect();
            let (way, groups) = (way_of(unit), unit.iter().map(|group| group.ops.as_slice()));
            let cmd = self.master.connector.scripts.run(way, keys.into_iter(), &request(way, time, groups));
            (cmd, unit.first().is_some_and(|first| first.asking))
        };
        units.iter().map(command).collect()
    }

    /// Waits for a call and tells everybody; false if the server did not answer.
    async fn receive(
        &self,
        units: Vec<Unit>,
        (call, started): (OnItsWay, Started),
        permit: Option<Permit>,
    ) -> bool {
        self.master.stats.count_call();
        let Started { generation, first } = started;
        let (returned, unanswered) = match first {
            Poll::Ready(returned) => (Ok(returned), Duration::ZERO),
            Poll::Pending => {
                let call = within(CALL_LIMIT, call);
                self.master.breaker.watch(permit, call).await
            }
        };
        let lost = match returned {
            Ok(Ok(returned)) => {
                self.master.breaker.end(permit, Some(unanswered));
                self.link.heard();
                Box::pin(self.sort_out(units, returned, generation)).await;
                return true;
            }
            Ok(Err(error)) => Problem::of(&error, &self.master.name),
            Err(Late) => {
                Problem::new(Failure::Connection, format!("{}: it does not answer", self.master.name))
            }
        };
        self.master.breaker.end(permit, None);
        self.lose(generation, &lost);
        self.master.stats.count_error(lost.failure);
        for group in units.into_iter().flatten() {
            group.fail(Outcome::Unknown(lost.failure));
        }
        false
    }

    /// Tells groups that were not sent why.
    fn refuse_all(&self, units: Vec<Unit>, problem: &Problem) {
        let groups = units.into_iter().flatten();
        groups.for_each(|group| self.fail_all(vec![group], Outcome::Unavailable(problem.failure)));
    }

    /// Tells every group what the server said. A server that has forgotten the scripts is taught them again, and
    /// what went the short way in vain goes the long way.
    async fn sort_out(&self, units: Vec<Unit>, returned: Vec<Returned>, generation: u64) {
        let (mut forgotten, mut undecided) = (Vec::new(), Vec::new());
        for (unit, returned) in units.into_iter().zip(returned) {
            match returned {
                Err(error) if is_forgotten(&error) => forgotten.push(unit),
                returned => undecided.push(self.hand_out(unit, returned, generation)),
            }
        }
        if !forgotten.is_empty() {
            tracing::info!(
                server = self.master.name,
                "the store has forgotten the scripts, loading them again"
            );
            for (unit, returned) in self.repeat(forgotten, true).await {
                undecided.push(self.hand_out(unit, returned, generation));
            }
        }
        undecided.retain(|unit| !unit.is_empty());
        if !undecided.is_empty() {
            for (unit, returned) in self.repeat(undecided, false).await {
                let left = self.hand_out(unit, returned, generation);
                self.fail_all(left, Outcome::Unavailable(Failure::NotAStore));
            }
        }
    }

    /// Sends units once more, to a server that may have to be taught the scripts first.
    async fn repeat(&self, units: Vec<Unit>, teach: bool) -> Vec<(Unit, Returned)> {
        let again = async {
            let Connected { mut connection, .. } = self.link.get().map_err(|_| lost())?;
            if teach {
                for load in self.master.connector.scripts.load() {
                    load.query_async::<Value>(&mut connection).await?;
                }
            }
            self.master.stats.count_call();
            send(connection, self.commands(&units)).await
        };
        match within(CALL_LIMIT, again).await {
            Ok(Ok(returned)) => units.into_iter().zip(returned).collect(),
            Ok(Err(error)) => units.into_iter().map(|unit| (unit, Err(error.clone()))).collect(),
            Err(Late) => units.into_iter().map(|unit| (unit, Err(lost()))).collect(),
        }
    }

    /// Tells the groups of a unit what the server said; answers with those that it said nothing about.
    fn hand_out(&self, unit: Unit, returned: Returned, generation: u64) -> Unit {
        match returned {
            Ok(Value::BulkString(bytes)) => return self.answer_all(unit, &bytes),
            Ok(_) => self.fail_all(unit, Outcome::Unavailable(Failure::NotAStore)),
            Err(error) => self.sort_error(unit, &error, generation),
        }
        Unit::new()
    }

    fn answer_all(&self, groups: Vec<Waiting>, bytes: &[u8]) -> Unit {
        self.master.obeys();
        let (mut reply, mut undecided) = (Reply::new(way_of(&groups), bytes), Unit::new());
        for group in groups {
            match reply.as_mut().and_then(|reply| reply.next(&group.ops)) {
                Some(outcomes) if outcomes.len() < group.ops.len() => {
                    undecided.push(Waiting { long_way: true, ..group });
                }
                Some(outcomes) => {
                    if let Some(Outcome::Unavailable(failure)) = outcomes.first() {
                        self.master.stats.count_error(*failure);
                    }
                    group.answer(outcomes, reply.as_ref().map(|reply| reply.now));
                }
                None => self.fail_all(vec![group], Outcome::Unknown(Failure::NotAStore)),
            }
        }
        undecided
    }

    /// What a server refuses to do it has not done, unless the connection was lost meanwhile.
    fn sort_error(&self, groups: Vec<Waiting>, error: &RedisError, generation: u64) {
        if let Some(redirect) = self.master.redirect.upgrade() {
            let address = error.redirect_node().map(|(address, _)| address);
            match (error.kind(), address) {
                (ErrorKind::Server(ServerErrorKind::Moved), Some(address)) => {
                    return groups.into_iter().for_each(|group| redirect.moved(group, address));
                }
                (ErrorKind::Server(ServerErrorKind::Ask), Some(address)) if belong_together(&groups) => {
                    return groups.into_iter().for_each(|group| redirect.ask(group, address));
                }
                // Old servers send on a command of which some keys are still here: a group that followed the
                // others would begin a new counter there.
                (ErrorKind::Server(ServerErrorKind::Ask | ServerErrorKind::TryAgain), _) => {
                    return groups.into_iter().for_each(|group| redirect.try_again(group));
                }
                _ => {}
            }
        }
        let problem = Problem::of(error, &self.master.name);
        let failure = problem.failure;
        let outcome =
            if is_answer(error) { Outcome::Unavailable(failure) } else { Outcome::Unknown(failure) };
        match failure {
            Failure::Replica | Failure::Credentials | Failure::Connection | Failure::NotAStore => {
                self.lose(generation, &problem);
            }
            _ => {
                if failure == Failure::ClusterDown {
                    self.master.doubt();
                }
                self.master.refuses(problem);
            }
        }
        self.fail_all(groups, outcome);
    }

    /// Tells groups that they were not decided. Those that only a replica has refused find out who the master is instead, if somebody
    /// knows: masters change places while calls are on their way.
    fn fail_all(&self, groups: Vec<Waiting>, outcome: Outcome) {
        // What failed for nobody is no failure.
        if groups.is_empty() {
            return;
        }
        if let Outcome::Unavailable(failure) | Outcome::Unknown(failure) = outcome {
            self.master.stats.count_error(failure);
        }
        let redirect =
            self.master.redirect.upgrade().filter(|_| outcome == Outcome::Unavailable(Failure::Replica));
        groups.into_iter().for_each(|group| match &redirect {
            Some(redirect) => redirect.not_master(group),
            None => group.fail(outcome),
        });
    }

    /// Gives the connection up, and asks whether this is still the master.
    fn lose(&self, generation: u64, problem: &Problem) {
        tracing::warn!(server = self.master.name, %problem, "store connection given up");
        self.link.broke(generation, problem);
        self.master.doubt();
    }
}

/// A batch that has left, or could not.
struct Sent {
    units: Vec<Unit>,
    call: Result<(OnItsWay, Started), Problem>,
    start: Instant,
    /// What the breaker is owed; nothing if there is none.
    permit: Option<Permit>,
}

/// What is known of a call when it has just left.
struct Started {
    generation: u64,
    first: Poll<RedisResult<Vec<Returned>>>,
}

/// Sends commands; the answer has one entry for each, whether it succeeded or not.
fn send(mut connection: MultiplexedConnection, mut cmds: Vec<(Cmd, bool)>) -> OnItsWay {
    if let [(_, false)] = cmds[..]
        && let Some((cmd, _)) = cmds.pop()
    {
        return Box::pin(async move {
            let value = connection.send_packed_command(&cmd).await?;
            Ok(vec![value.extract_error()])
        });
    }
    let mut pipeline = Pipeline::with_capacity(cmds.len());
    let mut wanted = Vec::with_capacity(cmds.len());
    for (cmd, asking) in cmds {
        if asking {
            pipeline.cmd("ASKING");
        }
        wanted.push(pipeline.len());
        pipeline.add_command(cmd);
    }
    Box::pin(async move {
        let count = pipeline.len();
        let mut values = connection.send_packed_commands(&pipeline, 0, count).await?;
        let returned = wanted.into_iter().map(|index| match values.get_mut(index).map(std::mem::take) {
            Some(value) => value.extract_error(),
            None => Err(lost()),
        });
        Ok(returned.collect())
    })
}

/// Which script decides a unit: the same when it is sent and when its answer is read.
fn way_of(unit: &[Waiting]) -> Way {
    if unit.iter().any(|group| group.long_way) {
        return Way::Long;
    }
    Way::of(unit.iter().map(|group| group.ops.as_slice()))
}

/// Whether what is said of all the groups goes for each of them: there is only one, or all are about the same
/// key.
fn belong_together(groups: &[Waiting]) -> bool {
    let mut keys = groups.iter().flat_map(|group| &group.ops).map(|op| &op.key);
    let first = keys.next();
    groups.len() == 1 || keys.all(|key| Some(key) == first)
}

/// Whether the server itself said so.
fn is_answer(error: &RedisError) -> bool {
    matches!(error.kind(), ErrorKind::Server(_) | ErrorKind::Extension)
}

fn is_forgotten(error: &RedisError) -> bool {
    error.kind() == ErrorKind::Server(ServerErrorKind::NoScript)
}

fn lost() -> RedisError {
    std::io::Error::from(std::io::ErrorKind::NotConnected).into()
}

/// Waits more exactly than the runtime's timer, which counts in milliseconds.
async fn wait(pause: Duration) {
    if !pause.is_zero() {
        tokio::task::spawn_blocking(move || std::thread::sleep(pause)).await.ok();
    }
}
