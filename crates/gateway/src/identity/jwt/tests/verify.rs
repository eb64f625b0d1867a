//! What is accepted, and what is not.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use jsonwebtoken::Algorithm;
use jsonwebtoken::Algorithm::{
    ES256, ES384, EdDSA, HS256, HS384, HS512, PS256, PS384, PS512, RS256, RS384, RS512,
};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::signer::{SECRET, set};
use super::*;
use crate::identity::jwt::keys::Keys;
use crate::identity::jwt::{REMEMBERED_BYTES, Ring};

fn plain() -> Value {
    json!({})
}

/// Tokens that are verified with a set.
fn with_set(text: &str) -> Tokens {
    let tokens = tokens(JwtKeys::SetFile("/nowhere/keys.json".into()));
    tokens.ring.store(Some(Ring::new(Keys::set(text.as_bytes(), true).unwrap())));
    tokens
}

fn encoded(json: &Value) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let text = json.to_string();
    let bits: String = text.bytes().map(|byte| format!("{byte:08b}")).collect();
    let digit = |bits: &[u8]| {
        let padded = format!("{:0<6}", std::str::from_utf8(bits).unwrap());
        char::from(DIGITS[usize::from_str_radix(&padded, 2).unwrap()])
    };
    bits.as_bytes().chunks(6).map(digit).collect()
}

#[test]
fn every_kind_of_key_verifies() {
    let check = |signer: &Signer, other: &Signer, algorithm: Algorithm| {
        let token = signer.sign(&plain());
        let verified = ask(&tokens(JwtKeys::Pem(signer.pem.clone())), &token);
        assert_eq!(verified.as_deref(), Ok("alice"), "{algorithm:?} by PEM");
        assert_eq!(ask(&with_set(&set(&[signer])), &token).as_deref(), Ok("alice"), "{algorithm:?} by set");
        refused(&tokens(JwtKeys::Pem(other.pem.clone())), &token, "signature");
        refused(&with_set(&set(&[other])), &token, "signature");
    };
    for algorithm in [ES256, ES384, EdDSA] {
        check(&Signer::new(algorithm).named("a"), &Signer::new(algorithm).named("a"), algorithm);
    }
    let (mut signer, mut other) = (Signer::new(RS256).named("a"), Signer::new(RS256).named("a"));
    for algorithm in [RS256, RS384, RS512, PS256, PS384, PS512] {
        (signer, other) = (signer.using(algorithm), other.using(algorithm));
        check(&signer, &other, algorithm);
    }
    for algorithm in [HS256, HS384, HS512] {
        let token = Signer::new(algorithm).sign(&plain());
        assert_eq!(ask(&tokens(JwtKeys::Secret(SECRET.to_vec())), &token).as_deref(), Ok("alice"));
        refused(&tokens(JwtKeys::Secret(vec![b'x'; 32])), &token, "signature");
    }
}

#[test]
fn a_public_key_is_no_secret() {
    for algorithm in [RS256, ES256, EdDSA] {
        let real = Signer::new(algorithm).named("a");
        let der = real.pem.lines().filter(|line| !line.starts_with('-')).collect::<String>();
        let by_pem = tokens(JwtKeys::Pem(real.pem.clone()));
        let by_set = with_set(&set(&[&real]));
        for secret in [real.pem.as_bytes(), real.pem.trim().as_bytes(), der.as_bytes(), b"" as &[u8]] {
            for hmac in [HS256, HS384, HS512] {
                let forged = Signer::secret(hmac, secret).named("a").sign(&plain());
                refused(&by_pem, &forged, "its key is not for");
                refused(&by_set, &forged, "its key is not for");
            }
        }
    }
    assert!(Keys::secret(Signer::new(RS256).pem.as_bytes()).is_err());
}

#[test]
fn keys_of_a_set_are_for_their_algorithm_only() {
    let rsa = Signer::new(RS256).named("rsa");
    let tokens = with_set(&set(&[&rsa]));
    assert!(ask(&tokens, &rsa.sign(&plain())).is_ok());
    refused(&tokens, &rsa.using(PS256).sign(&plain()), "its key is not for");
}

#[test]
fn nothing_is_no_signature() {
    let signer = Signer::new(RS256);
    let all = [
        tokens(JwtKeys::Pem(signer.pem.clone())),
        tokens(JwtKeys::Secret(SECRET.to_vec())),
        with_set(&set(&[&signer])),
    ];
    let claims = encoded(&json!({"sub": "alice", "exp": NOW + 60}));
    let good = signer.sign(&plain());
    let signature = good.rsplit('.').next().unwrap();
    for algorithm in ["none", "None", "NONE", "nOnE", "", "HS255", "RS256 "] {
        let header = encoded(&json!({"alg": algorithm, "typ": "JWT"}));
        for forged in [
            format!("{header}.{claims}."),
            format!("{header}.{claims}.{signature}"),
            format!("{header}.{claims}"),
        ] {
            all.iter().for_each(|tokens| refused(tokens, &forged, "no token"));
        }
    }
    let header = encoded(&json!({"alg": "RS256"}));
    refused(&all[0], &format!("{header}.{claims}."), "signature");
    let header = encoded(&json!({"alg": "HS256"}));
    refused(&all[1], &format!("{header}.{claims}."), "signature");
}

#[test]
fn garbage_is_refused() {
    let tokens = tokens(JwtKeys::Secret(SECRET.to_vec()));
    for garbage in
        ["", ".", "..", "...", "a.b.c", "\u{7f}", "e30.e30.e30", &".".repeat(8_000), &"a".repeat(8_192)]
    {
        if HeaderValue::from_str(garbage).is_ok() {
            refused(&tokens, garbage, "no token");
        }
    }
    refused(&tokens, &"a".repeat(8_193), "longer than 8 KiB");
    let long = Signer::new(HS256).sign(&json!({"more": "x".repeat(8_192)}));
    refused(&tokens, &long, "longer than 8 KiB");
    let critical = Signer::new(HS256);
    let header = jsonwebtoken::Header { crit: Some(vec!["b64".to_owned()]), ..critical.header() };
    refused(&tokens, &critical.sign_only(&header, &json!({"sub": "a", "exp": NOW + 60})), "understood");
    for claims in [json!([]), json!("alice"), json!(7), json!(null)] {
        let token = critical.sign_only(&critical.header(), &claims);
        assert!(ask(&tokens, &token).unwrap_err().starts_with("401 invalid_token"), "{claims}");
    }
}

#[test]
fn times_issuer_and_audience_are_looked_at() {
    let mut config = JwtConfig::new(JwtKeys::Secret(SECRET.to_vec()));
    config.audiences = vec!["api".to_owned()];
    config.issuer = Some("issuer".to_owned());
    config.leeway = Duration::from_secs(5);
    let tokens = Tokens::new(&config, Pace::default()).unwrap();
    let signer = Signer::new(HS256);
    let good = json!({"aud": ["api", "web"], "iss": "issuer"});
    let with = |name: &str, value: Value| {
        let mut claims = good.clone();
        claims[name] = value;
        signer.sign(&claims)
    };
    assert_eq!(ask(&tokens, &signer.sign(&good)).as_deref(), Ok("alice"));
    assert_eq!(ask(&tokens, &with("exp", json!(NOW - 4))).as_deref(), Ok("alice"));
    assert_eq!(ask(&tokens, &with("nbf", json!(NOW + 5))).as_deref(), Ok("alice"));
    refused(&tokens, &with("exp", json!(NOW - 5)), "has expired");
    refused(&tokens, &with("exp", json!(null)), "never expires");
    assert!(ask(&tokens, &with("exp", json!("soon"))).is_err());
    refused(&tokens, &with("nbf", json!(NOW + 6)), "not valid yet");
    refused(&tokens, &with("aud", json!("web")), "somebody else");
    refused(&tokens, &with("iss", json!("other")), "another issuer");
    refused(&tokens, &with("sub", json!("a\u{0}b")), "plain text");
}

#[test]
fn the_name_of_the_key_counts() {
    let (one, two) = (Signer::new(ES256).named("1"), Signer::new(ES256).named("2"));
    let both = with_set(&set(&[&one, &two]));
    assert!(ask(&both, &one.sign(&plain())).is_ok() && ask(&both, &two.sign(&plain())).is_ok());
    let two = two.named("1");
    refused(&both, &two.sign(&plain()), "signature");
    let two = two.named("3");
    refused(&both, &two.sign(&plain()), "not known");
    let nameless = Signer::new(ES256);
    refused(&both, &nameless.sign(&plain()), "does not say which");
    refused(&both, &Signer::new(RS256).sign(&plain()), "its key is not for");
    let only = with_set(&set(&[&nameless, &Signer::new(ES384).named("4")]));
    assert!(ask(&only, &nameless.sign(&plain())).is_ok(), "there is only one that it can be");
}

#[test]
fn sets_are_read_with_care() {
    let good = Signer::new(ES256).named("1");
    let with = |change: &dyn Fn(&mut Value)| {
        let mut jwk = good.jwk();
        change(&mut jwk);
        Keys::set(json!({"keys": [jwk]}).to_string().as_bytes(), false).is_ok()
    };
    assert!(with(&|_| {}));
    assert!(with(&|jwk| jwk["use"] = json!("sig")));
    assert!(with(&|jwk| drop(jwk.as_object_mut().unwrap().remove("alg"))));
    assert!(!with(&|jwk| jwk["use"] = json!("enc")));
    assert!(!with(&|jwk| jwk["key_ops"] = json!(["sign"])));
    assert!(!with(&|jwk| jwk["alg"] = json!("ES384")));
    assert!(!with(&|jwk| jwk["alg"] = json!("HS256")));
    assert!(!with(&|jwk| jwk["alg"] = json!("RSA-OAEP")));
    assert!(!with(&|jwk| jwk["kty"] = json!("XX")));
    assert!(!with(&|jwk| jwk["x"] = json!("!!!")));
    for bad in ["", "[]", "{}", "{\"keys\":[]}", "{\"keys\":{}}", "{\"keys\":[1,null,{}]}", "<html>"] {
        assert!(Keys::set(bad.as_bytes(), true).is_err(), "{bad}");
    }
    let shared = Signer::new(HS256).named("s");
    assert!(Keys::set(set(&[&shared]).as_bytes(), false).is_err(), "a secret that everybody can read");
    assert!(ask(&with_set(&set(&[&shared])), &shared.sign(&plain())).is_ok());
    let short = Signer::secret(HS256, b"guess");
    assert!(Keys::set(set(&[&short]).as_bytes(), true).is_err());
    let many = json!({"keys": vec![good.jwk(); 257]}).to_string();
    assert!(Keys::set(many.as_bytes(), true).is_err_and(|wrong| wrong.contains("more than 256")));
}

#[test]
fn unusable_keys_are_told_at_the_start() {
    let wrong = |keys: JwtKeys| Tokens::new(&JwtConfig::new(keys), Pace::default()).err().unwrap();
    assert!(wrong(JwtKeys::Secret(b"short".to_vec())).contains("fewer than 32 bytes"));
    let private = rcgen::KeyPair::generate().unwrap().serialize_pem();
    let public = Signer::new(ES256).pem;
    for pem in ["", "garbage", &private, &format!("{public}{private}"), &public.replace("MF", "XX")] {
        assert!(wrong(JwtKeys::Pem(pem.to_owned())).contains("public key"), "{pem}");
    }
    for url in ["", "keys.json", "ftp://a/b", "http:///b", "https://user:word@host/"] {
        let keys = JwtKeys::SetUrl { url: url.to_owned(), authorities: None };
        assert!(wrong(keys).contains("https://HOST/PATH"), "{url}");
    }
}

#[test]
fn a_remembered_token_expires_all_the_same() {
    let tokens = tokens(JwtKeys::Secret(SECRET.to_vec()));
    let remembered = || tokens.ring.load().as_ref().unwrap().verified.len();
    let token = Signer::new(HS256).sign(&plain());
    for seconds in [NOW, NOW + 1, NOW + 89] {
        assert_eq!(ask_at(&tokens, &token, seconds).as_deref(), Ok("alice"));
        assert_eq!(remembered(), 1);
    }
    assert!(ask_at(&tokens, &token, NOW + 90).unwrap_err().contains("has expired"));
    assert_eq!(remembered(), 0);
    refused(&tokens, &format!("{token}x"), "signature");
    assert_eq!(remembered(), 0, "what is not good is not remembered");
}

#[test]
fn memory_is_bounded() {
    let tokens = tokens(JwtKeys::Secret(SECRET.to_vec()));
    let ring = tokens.ring.load_full().unwrap();
    for number in 0..4_000 {
        let token = format!("{number:08000}").into_bytes().into();
        ring.verified.insert(token, Arc::default());
    }
    assert!(ring.verified.len() > 1_000, "{}", ring.verified.len());
    assert!(ring.verified.weight() <= REMEMBERED_BYTES);
}

#[test]
fn only_bearer_tokens_are_ours() {
    let tokens = tokens(JwtKeys::Secret(SECRET.to_vec()));
    let token = Signer::new(HS256).sign(&plain());
    let find = |values: &[&str]| {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(AUTHORIZATION, HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        let found = tokens.find(&headers, || Timestamp::from_millis(NOW * 1_000));
        found.map(|found| found.is_some()).map_err(|wrong| wrong.status.as_u16())
    };
    let bearer = format!("bEaReR   {token} ");
    assert_eq!(find(&[]), Ok(false));
    assert_eq!(find(&["Basic YTpi"]), Ok(false));
    assert_eq!(find(&["Bearerx"]), Ok(false));
    assert_eq!(find(&[&token]), Ok(false));
    assert_eq!(find(&["zo\u{eb}"]), Ok(false));
    assert_eq!(find(&["Bearer"]), Err(401));
    assert_eq!(find(&["Bearer "]), Err(401));
    assert_eq!(find(&["Bearer\tx"]), Err(401));
    assert_eq!(find(&["Bearer \u{eb}"]), Err(401));
    assert_eq!(find(&[&bearer]), Ok(true));
    assert_eq!(find(&[&bearer, &bearer]), Ok(true));
    assert_eq!(find(&[&bearer, "Bearer other"]), Err(400));
    assert_eq!(find(&["Basic YTpi", &bearer]), Err(400));
}

#[test]
fn another_header_needs_no_bearer() {
    let mut config = JwtConfig::new(JwtKeys::Secret(SECRET.to_vec()));
    config.header = http::HeaderName::from_static("x-jwt");
    let tokens = Tokens::new(&config, Pace::default()).unwrap();
    let token = Signer::new(HS256).sign(&plain());
    for (value, good) in [
        (token.clone(), Ok(true)),
        (format!("Bearer {token}"), Ok(true)),
        (String::new(), Ok(false)),
        ("x".to_owned(), Err(401)),
    ] {
        let mut headers = HeaderMap::new();
        headers.insert("x-jwt", HeaderValue::from_str(&value).unwrap());
        headers.insert(AUTHORIZATION, HeaderValue::from_static("Bearer somebody-elses"));
        let found = tokens.find(&headers, || Timestamp::from_millis(NOW * 1_000));
        assert_eq!(
            found.map(|found| found.is_some()).map_err(|wrong| wrong.status.as_u16()),
            good,
            "{value}"
        );
    }
}

/// One key for many cases: RSA keys take a while to make.
fn case(algorithm: Algorithm) -> &'static (Tokens, String) {
    static RSA: OnceLock<(Tokens, String)> = OnceLock::new();
    static EC: OnceLock<(Tokens, String)> = OnceLock::new();
    let cell = if algorithm == RS256 { &RSA } else { &EC };
    cell.get_or_init(|| {
        let signer = Signer::new(algorithm);
        let token = signer.sign(&json!({"aud": "api"}));
        (tokens(JwtKeys::Pem(signer.pem)), token)
    })
}

proptest! {
    #[test]
    fn no_other_token_passes_for_a_good_one(
        rsa in any::<bool>(), at in any::<prop::sample::Index>(), byte in 0x21_u8..0x7f, cut in any::<bool>(),
    ) {
        let (tokens, good) = case(if rsa { RS256 } else { ES256 });
        let mut bytes = good.clone().into_bytes();
        let at = at.index(bytes.len());
        if cut { bytes.truncate(at) } else { bytes[at] = byte }
        let other = String::from_utf8(bytes).unwrap();
        prop_assert_eq!(ask(tokens, &other).is_ok(), other == *good);
    }
}
