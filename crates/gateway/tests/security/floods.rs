//! HTTP/2 makes work cheap to ask for.

use std::time::Duration;

use tidegate_testkit::Backend;
use tokio::io::AsyncWriteExt;

use crate::frames::{
    CONTINUATION, DATA, Duplex, END_HEADERS, END_STREAM, HEADERS, Outcome, PING, PRIORITY, RST_STREAM,
    SETTINGS, WINDOW_UPDATE, block, fields, frame, request,
};
use crate::hostile::{Hostile, Then};
use crate::support::{DEADLINE, Running, Setup};
use crate::wire::assert_serves;

/// Sends a piece until the gateway hangs up or takes no more; not forever, in any case. How much it took.
async fn flood(duplex: &mut Duplex, piece: &[u8], most: usize) -> usize {
    let mut taken = 0;
    while taken < most {
        let sent = tokio::time::timeout(Duration::from_secs(1), duplex.stream.write(piece)).await;
        match sent {
            Ok(Ok(sent)) => taken += sent,
            // It has hung up, or there is no room left on the way to it.
            Ok(Err(_)) | Err(_) => break,
        }
    }
    taken
}

async fn gateway(to: std::net::SocketAddr) -> Running {
    let brief = |config: &mut tidegate_gateway::GatewayConfig| {
        config.patience.take = Duration::from_millis(500);
        config.max_streams = 100;
    };
    Setup::to(&[to]).gateway(brief).start().await
}

const LOTS: usize = 64 * 1024 * 1024;

#[tokio::test]
async fn rapid_resets_end_the_connection() {
    // It answers nobody, so that whatever reaches it stays.
    let hostile = Hostile::says("", Then::Listen).await;
    let gateway = gateway(hostile.address).await;
    let mut duplex = Duplex::to(gateway.at.listen, &[]).await;
    let mut sent = Vec::new();
    for stream in 0..5_000 {
        sent.extend(request(2 * stream + 1, "/reset"));
        sent.extend(frame(RST_STREAM, 0, 2 * stream + 1, &8u32.to_be_bytes()));
    }
    duplex.send(&sent).await;
    duplex.ended().await;
    assert!(hostile.heads() < 500, "{} of 5000 came through", hostile.heads());
    crate::slow::wait_for("what was given up is let go", || hostile.open() == 0).await;
}

#[tokio::test]
async fn more_streams_than_allowed_are_refused() {
    let hostile = Hostile::says("", Then::Listen).await;
    let gateway = gateway(hostile.address).await;
    let mut duplex = Duplex::to(gateway.at.listen, &[]).await;
    let mut refused = 0;
    // It has to be told of the limit before it is held to it.
    while duplex.next().await.unwrap().kind != SETTINGS {}
    for stream in 0..150 {
        duplex.send(&request(2 * stream + 1, "/stays")).await;
    }
    while refused < 50 {
        match duplex.next().await {
            Some(frame) if frame.kind == RST_STREAM => refused += 1,
            Some(_) => {}
            None => break,
        }
    }
    assert!(hostile.heads() <= 100, "{}", hostile.heads());
}

#[tokio::test]
async fn a_head_without_end_ends_the_connection() {
    let backend = Backend::start();
    let gateway = gateway(backend.address()).await;
    let long = [b'a'; 8 * 1024];
    for piece in [block(&[(b"x-a", &long)]), Vec::new(), block(&[(b"x-a", b"b")])] {
        let mut duplex = Duplex::to(gateway.at.listen, &[]).await;
        let head = frame(HEADERS, END_STREAM, 1, &block(&fields("GET", "/", &[])));
        duplex.send(&head).await;
        let more = frame(CONTINUATION, 0, 1, &piece).repeat(64);
        let taken = flood(&mut duplex, &more, LOTS).await;
        assert!(taken < LOTS, "it listens to anything");
        assert_serves(gateway.at.listen).await;
    }
    assert_eq!(backend.requests(), 3, "only the good ones");
}

/// A head that is small on the wire and large once it is unpacked.
#[tokio::test]
async fn a_head_that_unpacks_to_very_much_is_refused() {
    let backend = Backend::start();
    let gateway = gateway(backend.address()).await;
    let mut duplex = Duplex::to(gateway.at.listen, &[]).await;
    let long = [b'a'; 4_000];
    let mut packed = block(&fields("GET", "/", &[]));
    let mut remembered = block(&[(b"x-a", &long)]);
    // To be remembered, and then named by its number again and again: 40 MB in 10 KB.
    remembered[0] = 0x40;
    packed.extend(remembered);
    packed.extend([0xbe; 10_000]);
    let (first, rest) = packed.split_at(16_000.min(packed.len()));
    duplex.send(&frame(HEADERS, END_STREAM, 1, first)).await;
    duplex.send(&frame(CONTINUATION, END_HEADERS, 1, rest)).await;
    let outcome = duplex.outcome(1).await;
    assert!(!matches!(outcome, Outcome::Answered(Some(200), _)), "{outcome:?}");
    assert_eq!(backend.requests(), 0);
    assert_serves(gateway.at.listen).await;
}

/// Frames that are not counted against any window.
#[tokio::test]
async fn empty_pieces_of_a_body_end_the_connection() {
    let hostile = Hostile::says("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok", Then::Listen).await;
    let gateway = gateway(hostile.address).await;
    let mut duplex = Duplex::to(gateway.at.listen, &[]).await;
    duplex.send(&frame(HEADERS, END_HEADERS, 1, &block(&fields("POST", "/", &[])))).await;
    let taken = flood(&mut duplex, &frame(DATA, 0, 1, &[]).repeat(1_000), LOTS).await;
    assert!(taken < LOTS, "it listens to nothing for ever");
    assert_serves(gateway.at.listen).await;
}

/// What costs the gateway nothing to keep may go on; others are served meanwhile.
#[tokio::test]
async fn chatter_is_in_nobodys_way() {
    let backend = Backend::start();
    let gateway = gateway(backend.address()).await;
    for piece in
        [frame(PRIORITY, 0, 1, &[0, 0, 0, 0, 1]), frame(WINDOW_UPDATE, 0, 0, &[0; 4]), frame(99, 0, 0, b"?")]
    {
        let mut duplex = Duplex::to(gateway.at.listen, &[]).await;
        let chatter = tokio::spawn(async move { flood(&mut duplex, &piece.repeat(1_000), LOTS).await });
        for _ in 0..20 {
            assert_serves(gateway.at.listen).await;
        }
        chatter.abort();
    }
    assert_eq!(backend.requests(), 60);
}

#[tokio::test]
async fn who_asks_for_signs_of_life_and_takes_none_is_cut_off() {
    let backend = Backend::start();
    let gateway = gateway(backend.address()).await;
    for piece in
        [frame(PING, 0, 0, &[0; 8]), frame(SETTINGS, 0, 0, &[]), frame(SETTINGS, 0, 0, &[0, 4, 0, 1, 0, 0])]
    {
        let mut duplex = Duplex::to(gateway.at.listen, &[]).await;
        let taken = flood(&mut duplex, &piece.repeat(1_000), LOTS).await;
        assert!(taken < LOTS, "it keeps answers for ever");
        assert_serves(gateway.at.listen).await;
        // Nothing is read here, so only the gateway can end this.
        let ended = async {
            while duplex.stream.write_all(&piece).await.is_ok() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(DEADLINE, ended).await.expect("it is cut off");
    }
}

#[tokio::test]
async fn nonsense_ends_the_connection_and_nothing_else() {
    let backend = Backend::start();
    let gateway = gateway(backend.address()).await;
    let head = block(&fields("GET", "/", &[]));
    let flags = END_HEADERS | END_STREAM;
    for nonsense in [
        frame(HEADERS, flags, 2, &head),
        frame(HEADERS, flags, 0, &head),
        frame(HEADERS, flags, 1, b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"),
        frame(HEADERS, flags, 1, b"\xbf"),
        frame(HEADERS, flags | 8, 1, &[255, 0, 0]),
        frame(CONTINUATION, END_HEADERS, 1, &head),
        frame(RST_STREAM, 0, 1, &[0; 4]),
        frame(RST_STREAM, 0, 0, &[0; 4]),
        frame(SETTINGS, 0, 0, &[0; 5]),
        frame(SETTINGS, 0, 1, &[]),
        frame(SETTINGS, 0, 0, &[0, 4, 255, 255, 255, 255]),
        frame(PING, 0, 0, &[0; 7]),
        frame(PING, 0, 1, &[0; 8]),
        frame(8, 0, 0, &[0; 4]),
        frame(8, 0, 0, &[0x7f, 255, 255, 255]),
        frame(0, 0, 0, b"data"),
        frame(0, 0, 1, b"data"),
        frame(5, END_HEADERS, 1, &[0, 0, 0, 2, 0x82]),
        vec![255; 64],
    ] {
        let mut duplex = Duplex::to(gateway.at.listen, &[]).await;
        duplex.send(&nonsense).await;
        duplex.ended().await;
        assert_serves(gateway.at.listen).await;
    }
}
