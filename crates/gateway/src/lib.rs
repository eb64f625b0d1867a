//! A reverse proxy with the limiter inside: what is allowed is forwarded, what is not never gets to a back end.
//!
//! A [`Gateway`] is a node like any other, with rules, a store and an administrator's door, whose clients do not ask
//! whether something is allowed but simply ask for it:
//!
//! ```no_run
//! use tidegate_gateway::{Gateway, GatewayConfig, Routes, RoutesFeed};
//! use tidegate_server::{Config, RulesFeed};
//!
//! # async fn serve() -> Result<(), Box<dyn std::error::Error>> {
//! let rules = RulesFeed::fixed("rules.yaml", "rules:\n  - {rule_id: all, identifier_type: ip_address, limit: 9, window: 1s}\n");
//! let routes = RoutesFeed::fixed(Routes::single(&["http://127.0.0.1:9000"]).map_err(|problems| problems.to_string())?);
//! let gateway = Gateway::bind(GatewayConfig::default(), Config::default(), rules, routes).await?;
//! println!("http://{}/", gateway.addresses().listen);
//! gateway.run(async { drop(tokio::signal::ctrl_c().await) }).await?;
//! # Ok(())
//! # }
//! ```

mod access_log;
mod answer;
mod body;
mod config;
mod exchange;
mod finish;
mod forward;
mod forwarded;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod gateway;
mod holding;
mod hop;
pub mod identity;
mod metrics;
mod proxy;
pub mod routes;
mod spans;
mod target;
mod unauthenticated;
mod upgrade;
pub mod upstream;

pub use access_log::AccessLogTarget;
pub use answer::RefusalFormat;
pub use config::GatewayConfig;
pub use gateway::{Gateway, GatewayAddresses, GatewayError};
pub use routes::{Routes, RoutesFeed};
