//! One connection that another node has made, or a stranger: served, watched, and ended in time.

use std::pin::pin;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use hyper_util::server::graceful::GracefulConnection;
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval};

/// How soon whoever connects must show that it knows the secret: nodes connect because they have something to ask.
const STRANGER_PATIENCE: Duration = Duration::from_secs(5);

/// How long a connection may be kept without asking anything.
const IDLE_PATIENCE: Duration = Duration::from_secs(300);

/// How long one that is to end may take for that.
const END_PATIENCE: Duration = Duration::from_secs(5);

/// How often it is looked at.
const TICK: Duration = Duration::from_secs(1);

/// What goes on on a connection.
#[derive(Debug, Default)]
pub(super) struct Activity {
    begun: AtomicU64,
    in_flight: AtomicU32,
    /// Requests that the fleet's secret opened.
    opened: AtomicU64,
}

impl Activity {
    /// A request has begun; it ends when what is returned is dropped.
    pub(super) fn begin(&self) -> InFlight<'_> {
        self.begun.fetch_add(1, Ordering::Relaxed);
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        InFlight(self)
    }

    pub(super) fn opened(&self) {
        self.opened.fetch_add(1, Ordering::Relaxed);
    }
}

/// A request that is being answered.
#[derive(Debug)]
pub(super) struct InFlight<'a>(&'a Activity);

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What to do with a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Stay,
    /// Finish what has begun.
    End,
    /// At once.
    Cut,
}

/// Knows since when a connection has been at the same thing.
#[derive(Debug)]
struct Watchdog {
    made: Instant,
    /// How many requests there had been when last looked, and since when.
    begun: (u64, Instant),
    ending: Option<Instant>,
}

impl Watchdog {
    fn new(now: Instant) -> Self {
        Self { made: now, begun: (0, now), ending: None }
    }

    fn end(&mut self, now: Instant) -> Fate {
        self.ending.get_or_insert(now);
        Fate::End
    }

    fn look(&mut self, activity: &Activity, now: Instant) -> Fate {
        if self.ending.is_some_and(|since| now - since >= END_PATIENCE) {
            return Fate::Cut;
        }
        if activity.opened.load(Ordering::Relaxed) == 0 && now - self.made >= STRANGER_PATIENCE {
            return Fate::Cut;
        }
        let begun = activity.begun.load(Ordering::Relaxed);
        if self.begun.0 != begun || activity.in_flight.load(Ordering::Relaxed) > 0 {
            self.begun = (begun, now);
        }
        if self.ending.is_none() && now - self.begun.1 >= IDLE_PATIENCE {
            return self.end(now);
        }
        Fate::Stay
    }
}

/// Serves a connection to its end, or to ours: until `stop` says so or nobody is left to say it.
pub(super) async fn drive(
    connection: impl GracefulConnection,
    activity: &Activity,
    mut stop: watch::Receiver<bool>,
) {
    let mut connection = pin!(connection);
    let mut watchdog = Watchdog::new(Instant::now());
    let mut ticks = interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let fate = tokio::select! {
            biased;
            _ = connection.as_mut() => return,
            stopped = stop.wait_for(|stop| *stop), if watchdog.ending.is_none() => match stopped {
                Ok(_) => watchdog.end(Instant::now()),
                Err(_) => return,
            },
            now = ticks.tick() => watchdog.look(activity, now),
        };
        match fate {
            Fate::Stay => {}
            Fate::End => connection.as_mut().graceful_shutdown(),
            Fate::Cut => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(start: Instant, seconds: u64) -> Instant {
        start + Duration::from_secs(seconds)
    }

    #[test]
    fn strangers_do_not_stay_whatever_they_send() {
        let (activity, start) = (Activity::default(), Instant::now());
        let mut watchdog = Watchdog::new(start);
        let _busy = activity.begin();
        assert_eq!(watchdog.look(&activity, at(start, 4)), Fate::Stay);
        assert_eq!(watchdog.look(&activity, at(start, 5)), Fate::Cut);
    }

    #[test]
    fn nodes_may_rest_and_take_their_time_but_not_for_ever() {
        let (activity, start) = (Activity::default(), Instant::now());
        let mut watchdog = Watchdog::new(start);
        let busy = activity.begin();
        activity.opened();
        assert_eq!(watchdog.look(&activity, at(start, 1_000)), Fate::Stay, "somebody is at it");
        drop(busy);
        assert_eq!(watchdog.look(&activity, at(start, 1_299)), Fate::Stay);
        drop(activity.begin());
        assert_eq!(watchdog.look(&activity, at(start, 1_301)), Fate::Stay, "it asked again");
        assert_eq!(watchdog.look(&activity, at(start, 1_601)), Fate::End);
        assert_eq!(watchdog.look(&activity, at(start, 1_605)), Fate::Stay);
        assert_eq!(watchdog.look(&activity, at(start, 1_606)), Fate::Cut);
    }
}
