//! Who the client is, and who says so.

use std::net::Ipv4Addr;

use super::{borrowed, refused, use_up};
use crate::ask::{ask_from, get};
use crate::made_up;
use crate::stand::Recipe;

/// With nothing left, whatever a client says about itself gets it nothing.
pub(crate) async fn made_up_identities_gain_nothing(recipe: Recipe) {
    let stand = recipe.stand().await;
    for path in ["/by-user", "/by-tenant", "/by-key", "/by-tier", "/by-plan", "/orders/7"] {
        use_up(&stand, path).await;
        let passed = stand.backend.requests();
        for claims in made_up::claims() {
            let answer = stand.ask(&get(path, &borrowed(&claims))).await;
            assert_eq!(answer.status, 429, "{path} {claims:?}: {answer:?}");
        }
        assert_eq!(stand.backend.requests(), passed);
    }
}

pub(crate) async fn made_up_identities_do_not_arrive(recipe: Recipe) {
    let stand = recipe.stand().await;
    for claims in made_up::claims() {
        let answer = stand.ask(&get("/no-rule", &borrowed(&claims))).await;
        assert_eq!(answer.status, 200, "{claims:?}: {answer:?}");
        let heard: Vec<&str> = answer.body.lines().collect();
        assert!(!made_up::VALUES.iter().any(|value| answer.body.contains(value)), "{claims:?}: {heard:?}");
        let from = heard.iter().filter(|line| line.starts_with("x-forwarded-for:")).collect::<Vec<_>>();
        assert_eq!(from, [&"x-forwarded-for: 127.0.0.1"], "{claims:?}: {heard:?}");
    }
}

/// What the proxy itself says counts, and nothing that a client adds makes it say something else, or nothing.
pub(crate) async fn the_proxy_says_who_the_client_is(recipe: Recipe) {
    let stand = recipe.stand_with(recipe.identify).await;
    for (path, other) in [
        ("/by-user?user=alice", "/by-user?user=bob"),
        ("/by-tenant?tenant=acme", "/by-tenant?tenant=corp"),
        ("/by-key?key=k-1", "/by-key?key=k-2"),
        ("/by-tier?user=alice", "/by-tier?user=bob"),
        ("/by-plan?tenant=shop", "/by-plan?tenant=bank"),
    ] {
        use_up(&stand, path).await;
        let passed = stand.backend.requests();
        for claims in made_up::claims() {
            let answer = stand.ask(&get(path, &borrowed(&claims))).await;
            assert_eq!(answer.status, 429, "{path} {claims:?}: {answer:?}");
        }
        assert_eq!(stand.backend.requests(), passed);
        let answer = stand.get(other).await;
        assert_eq!((answer.status, answer.header("x-ratelimit-remaining")), (200, Some("2")), "{answer:?}");
    }
    let answer = stand.get("/by-tier?user=carol&tier=premium").await;
    assert_eq!(answer.header("x-ratelimit-limit"), Some("1000"), "{answer:?}");
    let answer = stand.get("/by-plan?tenant=corp&plan=premium").await;
    assert_eq!(answer.header("x-ratelimit-limit"), Some("1000"), "{answer:?}");
    for claims in made_up::claims() {
        let target = "/no-rule?user=bob&tenant=corp&key=k-2&tier=free&plan=free";
        let answer = stand.ask(&get(target, &borrowed(&claims))).await;
        for line in ["x-user-id: bob", "x-tenant-id: corp", "x-api-key: k-2", "x-tier: free", "x-plan: free"]
        {
            let name = line.split(' ').next().unwrap();
            let heard: Vec<&str> = answer.body.lines().filter(|heard| heard.starts_with(name)).collect();
            assert_eq!(heard, [line], "{claims:?}: {answer:?}");
        }
    }
}

/// Each address has limits of its own, and it is the client's, not the proxy's.
pub(crate) async fn clients_are_told_apart_by_their_address(recipe: Recipe) {
    let stand = recipe.stand().await;
    use_up(&stand, "/orders/7").await;
    refused(&stand.get("/orders/7").await);
    let elsewhere = Ipv4Addr::new(127, 0, 0, 2);
    let answer = ask_from(elsewhere, stand.proxy.address(), &get("/orders/7", &[])).await.unwrap();
    assert_eq!((answer.status, answer.header("x-ratelimit-remaining")), (200, Some("2")), "{answer:?}");
    assert!(answer.body.contains("\nx-forwarded-for: 127.0.0.2\n"), "{answer:?}");
}
