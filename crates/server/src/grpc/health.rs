//! `grpc.health.v1`.

use tonic_health::ServingStatus;
use tonic_health::pb::health_server::{Health, HealthServer};
use tonic_health::server::{HealthReporter, health_reporter};

/// Tells health watchers how things stand.
#[derive(Debug)]
pub(crate) struct Reporter {
    reporter: HealthReporter,
    services: &'static [&'static str],
}

impl Reporter {
    /// All of `services` are serving; who asks is answered by the other.
    pub(crate) async fn new(services: &'static [&'static str]) -> (Self, HealthServer<impl Health>) {
        let (reporter, server) = health_reporter();
        let reporter = Self { reporter, services };
        reporter.report(ServingStatus::Serving).await;
        (reporter, server)
    }

    pub(crate) async fn not_serving(&self) {
        self.report(ServingStatus::NotServing).await;
    }

    /// Ends all watches, which would otherwise keep their connections busy for good.
    pub(crate) async fn end(&mut self) {
        for service in self.services {
            self.reporter.clear_service_status(service).await;
        }
    }

    async fn report(&self, status: ServingStatus) {
        for service in self.services {
            self.reporter.set_service_status(service, status).await;
        }
    }
}
