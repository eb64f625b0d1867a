//! Overload protection: keeps a service that gets more requests than it can serve at full throughput, and serves its higher
//! tiers first.
//!
//! > A request is admitted while fewer requests than its tier's share of the limit are in flight. At any moment, whatever a
//! > lower tier may do, a higher one may do as well.
//!
//! Beyond a certain number of requests at once a service answers no more of them per second; each only takes longer. The
//! [`InFlightLimiter`] keeps requests beyond that number away. How many that is, it learns from response times:
//!
//! ```text
//!  request ──▶ acquire ──▶ Permit ──▶ responded ──▶ dropped
//!                 ▲                       │
//!          limit  │                       ▼ response time, requests in flight when it was admitted
//!                 │                    Window ── every 100 ms or more ──▶ WindowSummary
//!                 │                                                          │
//!                 └───────────── AdaptiveLimit ◀── BaseLatency ◀─────────────┘
//! ```
//!
//! While responses take little longer than when the service has hardly anything to do ([`BaseLatency`]), the limit grows by
//! about its square root per window; when they take longer, it shrinks in proportion ([`AdaptiveLimit`]). [`Headroom`] keeps the
//! upper part of the limit for higher tiers, so that a flood of requests of a lower tier never takes all of it.
//!
//! Nothing here reads a clock: time is an argument. Nothing waits: a request is admitted or not.

mod adaptive;
mod base_latency;
mod headroom;
mod in_flight;
mod window;

pub use adaptive::{AdaptiveLimit, LimitBounds, LimitBoundsError};
pub use base_latency::BaseLatency;
pub use headroom::{Headroom, HeadroomError, PriorityClass, Share};
pub use in_flight::{InFlightLimiter, InFlightStats, Overloaded, Permit};
pub use window::{Window, WindowSummary};
