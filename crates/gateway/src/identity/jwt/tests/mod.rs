mod follow;
mod signer;
mod verify;

use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderValue};
use tidegate_core::Timestamp;

use super::{Pace, Tokens};
use crate::identity::config::{JwtConfig, JwtKeys};

use signer::Signer;

/// When tests take place, in unix seconds.
const NOW: u64 = 1_800_000_000;

fn tokens(keys: JwtKeys) -> Tokens {
    Tokens::new(&JwtConfig::new(keys), Pace::default()).unwrap()
}

/// Who `token` is about, or the kind of mistake and what it is.
fn ask_at(tokens: &Tokens, token: &str, seconds: u64) -> Result<String, String> {
    let mut headers = HeaderMap::new();
    headers.insert(AUTHORIZATION, HeaderValue::from_str(&format!("Bearer {token}")).unwrap());
    match tokens.find(&headers, || Timestamp::from_millis(seconds * 1_000)) {
        Ok(Some(verified)) => Ok(verified.user.as_deref().unwrap_or_default().to_owned()),
        Ok(None) => Err("no token".to_owned()),
        Err(wrong) => Err(format!("{} {wrong}", wrong.status.as_u16())),
    }
}

fn ask(tokens: &Tokens, token: &str) -> Result<String, String> {
    ask_at(tokens, token, NOW)
}

/// Asserts that `token` is refused because of `why`.
fn refused(tokens: &Tokens, token: &str, why: &str) {
    let wrong = ask(tokens, token).unwrap_err();
    assert!(wrong.starts_with("401 invalid_token: ") && wrong.contains(why), "{wrong}");
}
