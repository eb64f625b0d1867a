//! One Tidegate process: what all listeners share.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use http::{HeaderMap, StatusCode};
use prometheus_client::encoding::DescriptorEncoder;
use tidegate::store::spans::Origin;
use tidegate::{
    Checked, CheckedDescriptors, Clock, Decision, Limiter, Request, RequestError, RuleSet, SystemClock,
    Waited,
};
use tidegate_core::descriptor::{Descriptor, Hits};
use tidegate_core::ruleset::Kept;
use tidegate_core::{Mode, Timestamp};
use tidegate_sources::{Aside, PostgresTiers, Pulse, RuleBook};
use tidegate_wire::grpc::rate_limit::Extras;
use tidegate_wire::{ErrorBody, HeaderStyle};
use tokio::sync::{Notify, broadcast};
use tracing::Span;

use crate::access::Access;
use crate::alerts::{Alerts, Severity};
use crate::config::{Config, PeersHeard, RlsExtras, SharedStore};
use crate::connection_limiter::ConnectionLimiter;
use crate::data_plane::{DataPlane, Liveness};
use crate::feed::Loaded;
use crate::forwarded::Proxies;
use crate::health::{Change, Concern, Health, Moment};
use crate::insight::{HotKeyEvent, Insight};
use crate::live::{Entry, Kind, Live, UpstreamState};
use crate::log_level::LogHandle;
use crate::membership::Membership;
use crate::metrics::{Metrics, Table};
use crate::modes::Peers;
use crate::reply::Wrong;
use crate::settlements::Settlements;
use crate::traces::{self, Tracer, Tracing};

/// What all listeners share.
pub struct Node {
    pub(crate) limiter: Limiter,
    /// What to call the place where counters are.
    pub(crate) store_kind: String,
    pub(crate) metrics: Metrics,
    pub(crate) health: Health,
    pub(crate) insight: Insight,
    pub(crate) alerts: Alerts,
    /// What is shown to those who look at it live.
    pub(crate) live: Live,
    pub(crate) settlements: Settlements,
    pub(crate) access: Access,
    /// Limits on the connections of each address to its listeners, but for a gateway's.
    pub(crate) limiters: ConnectionLimiters,
    pub(crate) proxies: Proxies,
    pub(crate) header_styles: Vec<HeaderStyle>,
    rls_extras: RlsExtras,
    /// Whether callers may give quota back.
    credits: bool,
    pub(crate) documentation_url: Option<String>,
    pub(crate) started: Instant,
    clock: Arc<dyn Clock>,
    peers_heard: Option<PeersHeard>,
    /// The other nodes, if it knows any.
    pub(crate) cluster: Option<Membership>,
    /// Whether each thread that serves requests is stuck; empty if there are none of its own.
    pub(crate) data_threads: Box<[Arc<Liveness>]>,
    draining: AtomicBool,
    /// Documents that are not in force.
    aside: ArcSwap<Vec<Aside>>,
    /// Where users' tiers and tenants' plans can be set, if they can.
    pub(crate) tiers: Option<Arc<PostgresTiers>>,
    /// Where the rules can be changed, if they can.
    pub(crate) book: Option<RuleBook>,
    /// How old what the source of the rules told last may be; none for built-in rules.
    pub(crate) pulse: Option<Pulse>,
    /// Tells that other rules are in force.
    rules_changed: Notify,
    /// Which requests are traced, if any are.
    pub(crate) traces: Option<Box<Tracing>>,
    pub(crate) log: Option<LogHandle>,
    /// What a gateway on this node has to show.
    gateway: OnceLock<Arc<dyn Shown>>,
}

/// Limits on the connections of each address, by listener.
pub(crate) struct ConnectionLimiters {
    pub(crate) http: Arc<ConnectionLimiter>,
    pub(crate) grpc: Arc<ConnectionLimiter>,
    pub(crate) admin: Arc<ConnectionLimiter>,
}

impl ConnectionLimiters {
    fn new(config: &Config) -> Self {
        let half = u32::try_from(config.max_connections / 2).unwrap_or(u32::MAX).max(1);
        let max = config.connections_per_address.min(half);
        let limiter = || ConnectionLimiter::of_unauthenticated(max, config.trusted_proxies.clone());
        Self { http: limiter(), grpc: limiter(), admin: limiter() }
    }
}

/// Something on a node, beside the limiter, that metrics and the status page show.
pub trait Shown: Send + Sync {
    /// Writes its metrics.
    fn encode(&self, encoder: &mut DescriptorEncoder<'_>) -> std::fmt::Result;

    /// How it is, at a glance.
    fn status(&self) -> serde_json::Value;

    /// Returns its upstreams with a limit on requests in flight.
    fn upstreams(&self) -> Vec<UpstreamState> {
        Vec::new()
    }
}

/// What belongs to rules in force, which keep it.
#[derive(Debug)]
pub(crate) struct InForce {
    /// The version their author gave them.
    pub(crate) document_version: Option<u64>,
    pub(crate) table: Table,
    /// The version of the document that each rule is in, by id.
    versions: HashMap<Box<str>, u64>,
}

impl Kept for InForce {
    fn note(&self, decision: &Decision, rules: &RuleSet) {
        self.table.count(decision, rules);
    }
}

impl InForce {
    fn kept_by(self, rules: &RuleSet) -> Arc<Self> {
        let kept = Arc::new(self);
        rules.keep(Arc::clone(&kept) as Arc<dyn Kept>);
        kept
    }

    /// What `rules` keep; those of a node always do.
    pub(crate) fn of(rules: &RuleSet) -> Option<&Self> {
        rules.kept()
    }

    /// The version of the document that a rule is in.
    pub(crate) fn version_of(&self, rule_id: &str) -> Option<u64> {
        self.versions.get(rule_id).copied()
    }
}

/// More problems than this do not fit into a health report; the log has them all.
pub(crate) const MAX_REASONS: usize = 20;

impl Node {
    pub(crate) fn new(
        config: &Config,
        access: Access,
        loaded: Loaded,
        book: Option<RuleBook>,
        pulse: Option<Pulse>,
    ) -> std::io::Result<Self> {
        let mut limiter = Limiter::builder(loaded.rules).max_keys(config.max_keys);
        if let Some(clock) = &config.clock {
            limiter = limiter.clock(Arc::clone(clock));
        }
        if let Some(shared) = &config.store {
            limiter = limiter
                .store(Arc::clone(shared.store()))
                .store_timeout(config.store_timeout)
                .nodes(config.nodes.get())
                .deny_when_not_owner(config.deny_when_not_owner)
                .emergency_cap(config.emergency_cap);
            if let Some(cluster) = &config.cluster {
                let fleet = cluster.fleet();
                limiter = limiter.peers(Arc::clone(fleet) as _, fleet.secret());
            }
        }
        if let Some(tiers) = &config.tiers {
            limiter = limiter.tiers(Arc::clone(tiers.lookup()), tiers.options());
        }
        let limiter = limiter.build()?;
        let clock = config.clock.clone().unwrap_or_else(|| Arc::new(SystemClock));
        let metrics = Metrics::default();
        let (document_version, versions) = (loaded.document_version, loaded.versions);
        let rules = limiter.rules();
        let in_force = InForce { table: metrics.decisions.table(&rules), document_version, versions };
        metrics.decisions.count_in(in_force.kept_by(&rules));
        Ok(Self {
            limiter,
            store_kind: config.store.as_ref().map_or("memory", SharedStore::kind).to_owned(),
            health: Health::new(config.thresholds, Moment { instant: Instant::now(), time: clock.now() }),
            insight: Insight::new(config, clock.now())?,
            alerts: Alerts::new(config),
            live: Live::default(),
            settlements: Settlements::default(),
            access,
            limiters: ConnectionLimiters::new(config),
            proxies: Proxies::new(config),
            header_styles: config.header_styles.clone(),
            rls_extras: config.rls_extras,
            credits: config.credits,
            documentation_url: config.documentation_url.clone(),
            tiers: config.tiers.as_ref().and_then(|tiers| tiers.database().cloned()),
            started: Instant::now(),
            metrics,
            clock,
            peers_heard: config.peers_heard.clone().or_else(|| config.cluster.as_ref().map(heard)),
            cluster: config.cluster.clone(),
            data_threads: config.data_plane.as_ref().map(DataPlane::liveness).unwrap_or_default(),
            draining: AtomicBool::new(false),
            aside: ArcSwap::default(),
            book,
            pulse,
            rules_changed: Notify::new(),
            traces: config.traces.as_ref().map(|traces| Box::new(Tracing::new(traces))),
            log: config.log.clone(),
            gateway: OnceLock::new(),
        })
    }

    /// What decides.
    pub fn limiter(&self) -> &Limiter {
        &self.limiter
    }

    /// Which rate limit headers answers carry.
    pub fn header_styles(&self) -> &[HeaderStyle] {
        &self.header_styles
    }

    /// Where the limits are explained.
    pub fn documentation_url(&self) -> Option<&str> {
        self.documentation_url.as_deref()
    }

    /// Shows what a gateway has to show. There is one at most.
    pub fn show_gateway(&self, shown: Arc<dyn Shown>) {
        self.gateway.set(shown).ok();
    }

    pub(crate) fn gateway(&self) -> Option<&dyn Shown> {
        self.gateway.get().map(AsRef::as_ref)
    }

    /// Hears of keys that become hot or cool down from now on. Whoever is slow misses the oldest.
    pub fn hot_key_events(&self) -> broadcast::Receiver<HotKeyEvent> {
        self.insight.hot_keys.subscribe()
    }

    /// Takes note of what is wrong with what a gateway depends on; nothing: all is well.
    pub fn note_gateway(&self, reasons: Vec<String>) {
        self.note(Concern::Gateway, reasons);
    }

    /// The span that `make` makes, if a request from `peer` is traced.
    #[inline]
    pub(crate) fn trace(&self, peer: IpAddr, headers: &HeaderMap, make: fn() -> Span) -> Option<Span> {
        self.trace_if(|| self.proxies.trusts(peer), headers, make)
    }

    /// The same for a request whose headers say something about traces if whoever sent them is `trusted`.
    #[inline]
    pub fn trace_if(
        &self,
        trusted: impl FnOnce() -> bool,
        headers: &HeaderMap,
        make: fn() -> Span,
    ) -> Option<Span> {
        self.traces.as_ref().and_then(|traces| traces.begin(trusted(), headers, make))
    }

    /// The span of what is done for another node, as part of that node's trace; none unless it is traced here, too.
    pub(crate) fn trace_for(&self, origin: Origin, asked: &'static str) -> Span {
        self.traces.as_ref().and_then(|traces| traces.go_on(origin, asked)).unwrap_or_else(Span::none)
    }

    /// Where spans go, if requests are traced, for whoever outlives this.
    pub(crate) fn shared_tracer(&self) -> Option<Arc<dyn Tracer>> {
        self.traces.as_ref().map(|traces| Arc::clone(&traces.tracer))
    }

    /// Where spans go, if requests are traced.
    pub fn tracer(&self) -> Option<&dyn Tracer> {
        self.traces.as_ref().map(|traces| &*traces.tracer)
    }

    /// Whether decisions must be waited for, because the counters are not in this process.
    pub(crate) fn must_wait(&self) -> bool {
        self.limiter.memory().is_none()
    }

    /// Whether those on requests may have to be, because users' tiers are not in this process either.
    pub fn may_wait(&self) -> bool {
        self.limiter.may_wait()
    }

    /// Decides `request` without waiting and counts that it did.
    pub fn decide(&self, request: &Request<'_>) -> Result<Checked, RequestError> {
        let timed = self.metrics.decision_seconds.begin();
        self.limiter.try_check_noting(request, |decision, rules| {
            self.metrics.decision_seconds.end(timed, decision.at);
            self.take_note(request, decision, rules);
        })
    }

    /// Decides `request`, which was all there at `arrived`, wherever the counters are, and counts that it did.
    pub async fn ask(&self, request: &Request<'_>, arrived: Instant) -> Result<Checked, ErrorBody> {
        let checked = self.limiter.check_since(request, arrived).await.map_err(refused)?;
        self.took(arrived.elapsed());
        self.take_note(request, &checked, checked.rules());
        Ok(checked)
    }

    /// The same for a caller that lets its answer be held back for `patience`, until it is the request's turn. That is not
    /// part of how long the decision took.
    pub async fn ask_or_wait(
        &self,
        request: &Request<'_>,
        arrived: Instant,
        patience: Duration,
    ) -> Result<Waited, ErrorBody> {
        let waited = self.limiter.check_or_wait(request, arrived, patience).await.map_err(refused)?;
        let took = arrived.elapsed().saturating_sub(waited.waited);
        self.took(took);
        self.take_note(request, &waited.checked, waited.checked.rules());
        Ok(waited)
    }

    /// Returns what would be decided about `request`, which was all there at `arrived`. Only a refusal is counted, as one.
    pub async fn preview(&self, request: &Request<'_>, arrived: Instant) -> Result<Checked, ErrorBody> {
        let checked = self.limiter.explain(request).await.map_err(refused)?;
        if !checked.allowed {
            self.took(arrived.elapsed());
            self.take_note(request, &checked, checked.rules());
        }
        Ok(checked)
    }

    /// Decides requests that came together, and counts each.
    pub(crate) async fn ask_all(&self, requests: &[Request<'_>]) -> Vec<Result<Checked, ErrorBody>> {
        let start = Instant::now();
        let decided = self.limiter.check_all(requests).await;
        let took = start.elapsed();
        let each = requests.iter().zip(decided).map(|(request, checked)| {
            let checked = checked.map_err(refused)?;
            self.took(took);
            self.take_note(request, &checked, checked.rules());
            Ok(checked)
        });
        each.collect()
    }

    /// Decides on what a proxy says about a request without waiting, and counts that it did.
    pub(crate) fn decide_descriptors(
        &self,
        domain: &str,
        descriptors: &[Descriptor<'_>],
    ) -> Result<CheckedDescriptors, Wrong> {
        self.admit_credits(descriptors)?;
        let timed = self.metrics.decision_seconds.begin();
        let checked = self.limiter.try_check_descriptors(domain, descriptors).map_err(refused)?;
        self.metrics.decision_seconds.end(timed, checked.decision.at);
        self.count_descriptors(domain, descriptors, &checked);
        Ok(checked)
    }

    /// The same for a request that was all there at `arrived`, wherever the counters are.
    pub(crate) async fn ask_descriptors(
        &self,
        domain: &str,
        descriptors: &[Descriptor<'_>],
        arrived: Instant,
    ) -> Result<CheckedDescriptors, Wrong> {
        self.admit_credits(descriptors)?;
        let checked = self.limiter.check_descriptors(domain, descriptors, arrived).await;
        self.took(arrived.elapsed());
        self.count_descriptors(domain, descriptors, &checked);
        Ok(checked)
    }

    fn admit_credits(&self, descriptors: &[Descriptor<'_>]) -> Result<(), Wrong> {
        if self.credits || !descriptors.iter().any(|each| matches!(each.hits, Hits::GiveBack(_))) {
            return Ok(());
        }
        let message =
            "negative hits give quota back, which is not allowed here; serve with `--credits allow`";
        Err(Wrong::new(StatusCode::FORBIDDEN, "forbidden", message).about("is_negative_hits"))
    }

    /// What answers of the rate limit service carry besides verdicts.
    pub(crate) fn rls_extras(&self) -> Extras<'_> {
        let RlsExtras { headers, body, .. } = self.rls_extras;
        Extras {
            header_styles: if headers { &self.header_styles } else { &[] },
            body,
            documentation_url: self.documentation_url.as_deref(),
        }
    }

    /// Whether they have metadata.
    pub(crate) fn has_rls_metadata(&self) -> bool {
        self.rls_extras.metadata
    }

    fn count_descriptors(&self, domain: &str, descriptors: &[Descriptor<'_>], checked: &CheckedDescriptors) {
        self.count(&checked.decision, checked.rules());
        self.insight.see_descriptors(domain, descriptors, checked);
        self.metrics.descriptors.count(&checked.said, descriptors, checked.rules());
    }

    fn took(&self, took: Duration) {
        self.metrics.decision_seconds.histogram.observe(took);
    }

    #[inline]
    fn take_note(&self, request: &Request<'_>, decision: &Decision, rules: &RuleSet) {
        self.count(decision, rules);
        self.insight.see(request, decision, rules);
    }

    #[inline]
    fn count(&self, decision: &Decision, rules: &RuleSet) {
        rules.note(decision);
        if self.traces.is_some() {
            traces::note(decision, rules);
        }
    }

    /// What would be decided, which is neither counted nor measured.
    pub(crate) async fn explain(
        &self,
        request: &Request<'_>,
    ) -> Result<(Checked, Vec<Option<String>>), ErrorBody> {
        let checked = self.limiter.explain(request).await.map_err(refused)?;
        let identities = self.limiter.identities(&checked, request).map_err(refused)?;
        Ok((checked, identities))
    }

    /// What time it is.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub(crate) fn moment(&self) -> Moment {
        Moment { instant: Instant::now(), time: self.now() }
    }

    /// Takes note of what is wrong with something it depends on; nothing: all is well.
    pub(crate) fn note(&self, concern: Concern, reasons: Vec<String>) {
        self.health.set(concern, reasons, self.moment(), |change| self.changed(change));
    }

    /// The same for the store, at every look at it, together with whether peers are heard.
    pub(crate) fn note_store(&self, problems: Vec<String>) {
        let peers = self.peers_heard.as_ref().map_or(Peers::None, |heard| Peers::Heard(heard()));
        self.health.look_at_store(problems, peers, self.moment(), |change| self.changed(change));
    }

    /// Writes something into the journal that happens now.
    pub(crate) fn write_down(&self, kind: Kind, severity: Severity, title: &str, detail: &str) {
        self.live.journal.note(Entry::new(self.now(), kind, severity, title).detail(detail));
    }

    /// The mode changes.
    fn changed(&self, change: &Change) {
        let (from, to, reasons) = (change.from.name(), change.to.name(), change.reasons.join("; "));
        if change.to > change.from {
            tracing::warn!(from, to, reasons, "operating mode");
        } else {
            tracing::info!(from, to, reasons, "operating mode");
        }
        let severity = match change.to {
            Mode::Normal => Severity::Info,
            Mode::Degraded => Severity::Warning,
            Mode::Emergency => Severity::Critical,
        };
        let title = format!("{to}, {from} before");
        self.live.journal.note(Entry::new(change.at, Kind::Mode, severity, title).detail(&reasons));
        self.told(change.to);
    }

    /// Tells those whom it concerns that the mode is another. Called in the order of changes, one at a time; it must not
    /// wait, nor change what the mode depends on.
    fn told(&self, mode: Mode) {
        self.metrics.mode_changes.count(mode);
        if let Some(fallback) = self.limiter.fallback() {
            fallback.set_emergency(mode == Mode::Emergency);
        }
    }

    /// Puts other rules in force.
    pub(crate) fn put_in_force(&self, loaded: Loaded) {
        let Loaded { rules, document_version, versions } = loaded;
        let table = self.metrics.decisions.table(&rules);
        let in_force = InForce { table, document_version, versions }.kept_by(&rules);
        if let Err(error) = self.limiter.set_rules(rules) {
            return self.keep_rules(&error.to_string(), vec![error.to_string()]);
        }
        // Now the rules before the last are gone, and with them what only they knew.
        self.metrics.decisions.count_in(in_force);
        let rules = self.limiter.rules();
        self.rules_changed.notify_waiters();
        self.note(Concern::Rules, Vec::new());
        tracing::info!(version = rules.version(), rules = rules.len(), "rules in force");
        let detail = format!("version {}, {} rules", rules.version(), rules.len());
        self.write_down(Kind::Rules, Severity::Info, "other rules in force", &detail);
    }

    /// Takes note of documents that are not in force beside the rules that just came to be.
    pub(crate) fn put_aside(&self, aside: Vec<Aside>) {
        if !aside.is_empty() {
            self.metrics.rules_load_errors.fetch_add(1, Ordering::Relaxed);
            for each in &aside {
                tracing::warn!("a rule document is put aside:\n{}", each.problems);
            }
            let detail = aside.iter().take(MAX_REASONS).map(Aside::reason).collect::<Vec<_>>().join("; ");
            self.write_down(Kind::Rules, Severity::Warning, "rule documents put aside", &detail);
            let reasons = aside.iter().take(MAX_REASONS).map(Aside::reason).collect();
            self.note(Concern::Rules, reasons);
        }
        self.aside.store(Arc::new(aside));
    }

    /// Documents that are not in force.
    pub(crate) fn aside(&self) -> Arc<Vec<Aside>> {
        self.aside.load_full()
    }

    /// Whether it knows of rules that it does not have.
    pub(crate) fn lacks_rules(&self) -> bool {
        self.aside.load().iter().any(|aside| !aside.replaced)
    }

    /// Waits until a rule is in force as its document has it at `version`, or not at all. Says whether that came to pass
    /// within `patience`.
    pub(crate) async fn has_in_force(&self, rule_id: &str, version: Option<u64>, patience: Duration) -> bool {
        let wait = async {
            loop {
                let changed = self.rules_changed.notified();
                let rules = self.limiter.rules();
                if InForce::of(&rules).and_then(|it| it.version_of(rule_id)) == version {
                    return;
                }
                changed.await;
            }
        };
        tokio::time::timeout(patience, wait).await.is_ok()
    }

    /// Takes note that new rules cannot be used, for these reasons; those in force stay.
    pub(crate) fn keep_rules(&self, details: &str, reasons: Vec<String>) {
        self.metrics.rules_load_errors.fetch_add(1, Ordering::Relaxed);
        let version = self.limiter.rules().version();
        tracing::warn!(version, "new rules refused, the last good ones stay in force:\n{details}");
        self.write_down(Kind::Rules, Severity::Warning, "new rules refused", details);
        let more = reasons.len().saturating_sub(MAX_REASONS);
        let shown = reasons.into_iter().take(MAX_REASONS);
        let mut reasons: Vec<String> = shown
            .map(|reason| format!("rules not loaded, version {version} stays in force: {reason}"))
            .collect();
        if more > 0 {
            reasons.push(format!("rules not loaded: {more} more problems"));
        }
        self.note(Concern::Rules, reasons);
    }

    /// Whether it is about to end and wants no more requests.
    pub fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    pub(crate) fn start_draining(&self) {
        self.write_down(
            Kind::Node,
            Severity::Info,
            "draining",
            "it is about to end and wants no more requests",
        );
        self.draining.store(true, Ordering::Relaxed);
    }
}

/// When another node of the fleet was last heard.
fn heard(cluster: &Membership) -> PeersHeard {
    let fleet = Arc::clone(cluster.fleet());
    Arc::new(move || fleet.cluster().last_heard())
}

/// That a request cannot be decided, as callers are told.
pub(crate) fn refused(error: RequestError) -> ErrorBody {
    ErrorBody::field(error.field, error.message)
}

impl From<RequestError> for Wrong {
    fn from(error: RequestError) -> Self {
        refused(error).into()
    }
}

impl std::fmt::Debug for Node {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Node").field("limiter", &self.limiter).finish_non_exhaustive()
    }
}
