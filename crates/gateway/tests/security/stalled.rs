//! Clients of HTTP/2 that ask for much and open no window for it.

use std::time::Duration;

use crate::frames::{Duplex, INITIAL_WINDOW_SIZE, Outcome, RST_STREAM, WINDOW_UPDATE, frame, request};
use crate::hostile::{Hostile, Then};
use crate::slow::{LARGE, wait_for};
use crate::support::Setup;

const SHORT: Duration = Duration::from_millis(300);

#[tokio::test]
async fn an_answer_without_a_window_is_given_up_and_the_others_go_on() {
    let hostile = Hostile::says(
        "HTTP/1.1 200 OK\r\ncontent-length: 1000000000\r\n\r\n",
        Then::Repeat(&[b'a'; 64 * 1024]),
    )
    .await;
    let quick = tidegate_testkit::Backend::start();
    let routes = format!(
        "upstreams:\n  large: {{servers: 'http://{}'}}\n  quick: {{servers: 'http://{}'}}\nroutes:\n  \
         - {{path: '/large/*', upstream: large}}\n  - {{path: '/*', upstream: quick}}\n",
        hostile.address,
        quick.address()
    );
    let gateway = Setup::by(&routes).gateway(|config| config.patience.take = SHORT).start().await;
    let mut duplex = Duplex::to(gateway.at.listen, &[(INITIAL_WINDOW_SIZE, 0)]).await;
    for stream in 0..10 {
        duplex.send(&request(2 * stream + 1, "/large/one")).await;
    }
    // Its connection is busy, and answers whatever it is asked, all the time.
    wait_for("the back end is asked", || hostile.heads() == 10).await;
    let mut stuck: Vec<u32> = (0..10).map(|stream| 2 * stream + 1).collect();
    while !stuck.is_empty() {
        let frame = duplex.next().await.expect("the connection stays");
        if frame.kind == RST_STREAM {
            stuck.retain(|stream| *stream != frame.stream);
        }
    }
    wait_for("the back end is let go", || hostile.open() == 0).await;
    assert!(hostile.repeated() < 10 * LARGE, "nothing is piled up for who does not take it");

    duplex.send(&request(21, "/quick")).await;
    duplex.send(&frame(WINDOW_UPDATE, 0, 21, &65_535u32.to_be_bytes())).await;
    let outcome = duplex.outcome(21).await;
    assert!(matches!(outcome, Outcome::Answered(Some(200), _)), "{outcome:?}");
}
