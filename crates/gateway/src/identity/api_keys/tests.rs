use std::time::Duration;

use tokio::time::timeout;

use super::*;

/// SHA-256 of `abc`.
const ABC: &str = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

fn head(uri: &str, lines: &[(&str, &[u8])]) -> Parts {
    let request =
        lines.iter().fold(http::Request::get(uri), |request, (name, value)| request.header(*name, *value));
    request.body(()).unwrap().into_parts().0
}

/// The key that is found, or the status.
fn found(keys: &ApiKeys, uri: &str, lines: &[(&str, &[u8])]) -> Result<Option<String>, u16> {
    let head = head(uri, lines);
    let found = keys.find(&head).map_err(|wrong| wrong.status.as_u16())?;
    Ok(found.map(|sent| sent.key.into_owned()))
}

fn some(key: &str) -> Result<Option<String>, u16> {
    Ok(Some(key.to_owned()))
}

#[test]
fn a_key_is_in_one_place_or_the_same_everywhere() {
    let config = ApiKeyConfig {
        headers: vec![HeaderName::from_static("x-api-key"), HeaderName::from_static("api-key")],
        query: Some("api_key".to_owned()),
        known: None,
    };
    let keys = ApiKeys::new(&config).unwrap();
    assert_eq!(found(&keys, "/", &[]), Ok(None));
    assert_eq!(found(&keys, "/", &[("x-api-key", b"")]), Ok(None));
    assert_eq!(found(&keys, "/", &[("x-api-key", b"k")]), some("k"));
    assert_eq!(found(&keys, "/", &[("api-key", b"k"), ("x-api-key", b"k")]), some("k"));
    assert_eq!(found(&keys, "/", &[("api-key", b"k"), ("x-api-key", b"l")]), Err(400));
    assert_eq!(found(&keys, "/", &[("x-api-key", b"k"), ("x-api-key", b"l")]), Err(400));
    assert_eq!(found(&keys, "/", &[("x-api-key", b"\xff")]), Err(400));
    assert_eq!(found(&keys, "/", &[("x-api-key", &[b'k'; 1_025])]), Err(400));
    assert_eq!(found(&keys, "/?api_key=k", &[("x-api-key", b"k")]), some("k"));
    assert_eq!(found(&keys, "/?api_key=k", &[("x-api-key", b"l")]), Err(400));
}

#[test]
fn a_query_is_read_as_back_ends_do() {
    let config = ApiKeyConfig { headers: Vec::new(), query: Some("api_key".to_owned()), known: None };
    let keys = ApiKeys::new(&config).unwrap();
    for (query, expected) in [
        ("", Ok(None)),
        ("api_key", Ok(None)),
        ("api_key=", Ok(None)),
        ("xapi_key=k&api_keys=k&API_KEY=k", Ok(None)),
        ("a=b&api_key=k&c", some("k")),
        ("api_key=k&api_key=k", some("k")),
        ("api_key=&api_key=k", some("k")),
        ("api_key=k&api_key=l", Err(400)),
        ("%61pi%5Fkey=k", some("k")),
        ("api_key=k&%61pi_key=l", Err(400)),
        ("api_key=a%20b+c%2B", some("a b c+")),
        ("api_key=a=b", some("a=b")),
        ("api_key=100%", some("100%")),
        ("api_key=%zz", some("%zz")),
        ("api_key=%c3%ab", some("\u{eb}")),
        ("api_key=%ff", Err(400)),
        ("api_key=a%0ab", Err(400)),
        ("api_key=a%00", Err(400)),
        ("%ff=k", Ok(None)),
    ] {
        assert_eq!(found(&keys, &format!("/?{query}"), &[]), expected, "{query}");
    }
    let by_default = ApiKeys::new(&ApiKeyConfig::default()).unwrap();
    assert_eq!(
        found(&by_default, "/?api_key=k", &[]),
        Ok(None),
        "unless told, it is not looked for in the query"
    );
}

#[tokio::test]
async fn known_keys_may_change() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys");
    std::fs::write(&path, format!("shop {ABC} tenant=acme\n")).unwrap();
    let config = ApiKeyConfig { known: Some(path.clone()), ..ApiKeyConfig::default() };
    let mut keys = ApiKeys::new(&config).unwrap();
    keys.tick = Duration::from_millis(2);
    let owner = || {
        let head = head("/", &[("x-api-key", b"abc")]);
        let sent = keys.find(&head).ok()??;
        Some(sent.owner?.name.to_string())
    };
    let until = async |what: &str, is_so: &dyn Fn() -> bool| {
        let waited = timeout(Duration::from_secs(20), async {
            while !is_so() {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        });
        waited.await.unwrap_or_else(|_| panic!("not so after 20 s: {what}"));
    };
    assert_eq!(owner().as_deref(), Some("shop"));
    assert_eq!(found(&keys, "/", &[("x-api-key", b"abd")]), Err(401));
    assert_eq!(found(&keys, "/", &[]), Ok(None), "no key is no wrong key");
    let changes = async {
        std::fs::write(&path, format!("shop {ABC}\nnonsense\n")).unwrap();
        until("it is told", &|| keys.problem().is_some_and(|problem| problem.contains("keys:2: a line is")))
            .await;
        assert_eq!(owner().as_deref(), Some("shop"));
        std::fs::write(&path, format!("other {ABC}\n")).unwrap();
        until("it has another owner", &|| owner().as_deref() == Some("other")).await;
        assert_eq!(keys.problem(), None);
        std::fs::write(&path, "# nobody\n").unwrap();
        until("it is taken away", &|| owner().is_none()).await;
        std::fs::remove_file(&path).unwrap();
        until("it is told", &|| keys.problem().is_some_and(|problem| problem.contains("cannot be read")))
            .await;
    };
    tokio::select! {
        () = keys.follow() => unreachable!("following does not end"),
        () = changes => {}
    }
}

#[test]
fn a_bad_file_is_told_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys");
    let config = ApiKeyConfig { known: Some(path.clone()), ..ApiKeyConfig::default() };
    let wrong = || ApiKeys::new(&config).err().unwrap();
    assert!(wrong().contains("cannot be read"));
    std::fs::write(&path, b"\xff").unwrap();
    assert!(wrong().contains("it is not UTF-8"));
    std::fs::write(&path, "a\nb\n").unwrap();
    assert_eq!(wrong().lines().count(), 2);
}
