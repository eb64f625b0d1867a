//! Which alerts there are.

use std::fmt;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Severity {
    Info,
    Warning,
    Critical,
}

impl Severity {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Critical => "critical",
        }
    }
}

/// Something that is wrong for a while and then is not. Names are those of metrics, Prometheus rules and runbooks, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Alert {
    StoreDown,
    BreakerOpen,
    StoreErrors,
    StoreCpuCritical,
    StoreMemoryCritical,
    Latency,
    HotKey,
    StoreCpu,
    StoreMemory,
    ReplicationLag,
    ConnectionsExhausted,
    KeysExhausted,
    Overload,
    Rejections,
    ThroughputDrop,
    Degraded,
}

impl Alert {
    /// All of them, each at its own number.
    pub(crate) const ALL: [Self; 16] = [
        Self::StoreDown,
        Self::BreakerOpen,
        Self::StoreErrors,
        Self::StoreCpuCritical,
        Self::StoreMemoryCritical,
        Self::Latency,
        Self::HotKey,
        Self::StoreCpu,
        Self::StoreMemory,
        Self::ReplicationLag,
        Self::ConnectionsExhausted,
        Self::KeysExhausted,
        Self::Overload,
        Self::Rejections,
        Self::ThroughputDrop,
        Self::Degraded,
    ];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::StoreDown => "store_down",
            Self::BreakerOpen => "breaker_open",
            Self::StoreErrors => "store_errors",
            Self::StoreCpuCritical => "store_cpu_critical",
            Self::StoreMemoryCritical => "store_memory_critical",
            Self::Latency => "latency",
            Self::HotKey => "hot_key",
            Self::StoreCpu => "store_cpu",
            Self::StoreMemory => "store_memory",
            Self::ReplicationLag => "replication_lag",
            Self::ConnectionsExhausted => "connections_exhausted",
            Self::KeysExhausted => "keys_exhausted",
            Self::Overload => "overload",
            Self::Rejections => "rejections",
            Self::ThroughputDrop => "throughput_drop",
            Self::Degraded => "degraded",
        }
    }

    pub(crate) const fn severity(self) -> Severity {
        match self {
            Self::StoreDown
            | Self::BreakerOpen
            | Self::StoreErrors
            | Self::StoreCpuCritical
            | Self::StoreMemoryCritical => Severity::Critical,
            Self::Latency
            | Self::HotKey
            | Self::StoreCpu
            | Self::StoreMemory
            | Self::ReplicationLag
            | Self::ConnectionsExhausted
            | Self::KeysExhausted
            | Self::Overload
            | Self::Rejections
            | Self::ThroughputDrop
            | Self::Degraded => Severity::Warning,
        }
    }
}

impl fmt::Display for Alert {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Something that happened, which nobody has to do anything about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EventKind {
    RulesChanged,
    ShardAdded,
    ShardRemoved,
    Failover,
}

impl EventKind {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::RulesChanged => "rules_changed",
            Self::ShardAdded => "shard_added",
            Self::ShardRemoved => "shard_removed",
            Self::Failover => "failover",
        }
    }
}
