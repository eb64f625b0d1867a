//! Envoy, which asks over gRPC; here only that it runs and forwards.

use std::net::SocketAddr;

use tidegate_testkit::{Backend, Place, ReverseProxy};

use crate::ask::{ask, get};

#[tokio::test(flavor = "multi_thread")]
async fn envoy_forwards_to_a_back_end() {
    let backend = Backend::start();
    let envoy = ReverseProxy::envoy(|place| configuration(place, backend.address()));
    let answer = ask(envoy.address(), &get("/orders/7", &[("X-Mine", "m")])).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    assert!(answer.body.starts_with("GET /orders/7\n") && answer.body.contains("x-mine: m\n"), "{answer:?}");
    assert_eq!(backend.requests(), 1);
    let ready = ask(envoy.admin(), &get("/ready", &[])).await;
    assert_eq!(ready.status, 200, "{ready:?}");
}

fn configuration(place: Place<'_>, backend: SocketAddr) -> String {
    let address = |address: SocketAddr| {
        format!("{{socket_address: {{address: {}, port_value: {}}}}}", address.ip(), address.port())
    };
    let (admin, listener, backend) = (address(place.admin), address(place.listener), address(backend));
    format!(
        "
admin: {{address: {admin}}}
static_resources:
  listeners:
  - address: {listener}
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          '@type': type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: api
          route_config:
            virtual_hosts:
            - {{name: api, domains: ['*'], routes: [{{match: {{prefix: /}}, route: {{cluster: backend}}}}]}}
          http_filters:
          - name: envoy.filters.http.router
            typed_config: {{'@type': type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}}
  clusters:
  - name: backend
    type: STATIC
    load_assignment:
      cluster_name: backend
      endpoints: [{{lb_endpoints: [{{endpoint: {{address: {backend}}}}}]}}]
"
    )
}
