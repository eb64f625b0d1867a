//! What tokens are verified with.
//!
//! Each key says which algorithms it is for; a token only chooses among those. So nobody signs with a public key as if
//! it were a shared secret, and `none` is not an algorithm at all.

use std::collections::HashSet;

use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, KeyOperations, PublicKeyUse};
use jsonwebtoken::{Algorithm, AlgorithmFamily, DecodingKey, Header, Validation};
use serde_json::Value;

/// What RFC 7518 asks of the secret of the weakest algorithm.
const MIN_SECRET_BYTES: usize = 32;

/// More keys than any issuer has in use at a time.
const MAX_KEYS: usize = 256;

/// A key, with the algorithms it is for.
pub(super) struct Key {
    id: Option<String>,
    key: DecodingKey,
    validation: Validation,
}

impl Key {
    fn new(id: Option<String>, key: DecodingKey, algorithms: &[Algorithm]) -> Self {
        // Claims are looked at by us, at a time that we say.
        let validation = Validation {
            algorithms: algorithms.to_vec(),
            required_spec_claims: HashSet::new(),
            validate_exp: false,
            validate_nbf: false,
            validate_aud: false,
            ..Validation::default()
        };
        Self { id, key, validation }
    }

    fn is_for(&self, algorithm: Algorithm) -> bool {
        self.validation.algorithms.contains(&algorithm)
    }

    /// What `token` claims, if it was signed with this key.
    pub(super) fn verify(&self, token: &[u8]) -> Result<Value, &'static str> {
        let verified = jsonwebtoken::decode::<Value>(token, &self.key, &self.validation);
        verified.map(|data| data.claims).map_err(|_| "the token's signature or form is wrong; get a new one")
    }
}

/// The keys in use.
pub(super) enum Keys {
    /// The only one; what tokens call theirs does not matter.
    One(Box<Key>),
    /// Several, with names.
    Set(Vec<Key>),
}

/// Why there is no key for a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoKey {
    /// None has the name that it asks for. There may be one later.
    Unknown,
    /// The key is not for this algorithm.
    Algorithm,
    /// It does not say which, and there are several.
    Ambiguous,
}

impl Keys {
    /// A shared secret.
    pub(super) fn secret(secret: &[u8]) -> Result<Self, &'static str> {
        if secret.len() < MIN_SECRET_BYTES {
            return Err("the secret has fewer than 32 bytes and could be guessed; use a longer one");
        }
        if secret.starts_with(b"-----BEGIN") {
            return Err("the secret is a key in PEM form, which others may have; give it as a public key");
        }
        Ok(Self::one(DecodingKey::from_secret(secret), AlgorithmFamily::Hmac))
    }

    /// A public key in PEM form.
    pub(super) fn pem(text: &str) -> Result<Self, &'static str> {
        let is_public = |line: &str| {
            matches!(line.trim(), "-----BEGIN PUBLIC KEY-----" | "-----BEGIN RSA PUBLIC KEY-----")
        };
        let mut begins = text.lines().filter(|line| line.trim_start().starts_with("-----BEGIN"));
        if !begins.next().is_some_and(is_public) || begins.next().is_some() {
            return Err(
                "this is not one public key in PEM form; `openssl pkey -pubout` prints that of a private key",
            );
        }
        let pem = text.as_bytes();
        let rsa = DecodingKey::from_rsa_pem(pem).map(|key| (key, AlgorithmFamily::Rsa));
        let ec = |_| DecodingKey::from_ec_pem(pem).map(|key| (key, AlgorithmFamily::Ec));
        let ed = |_| DecodingKey::from_ed_pem(pem).map(|key| (key, AlgorithmFamily::Ed));
        let (key, family) = rsa.or_else(ec).or_else(ed).map_err(
            |_| "the public key is of no kind that is known here; use RSA, P-256, P-384 or Ed25519",
        )?;
        Ok(Self::one(key, family))
    }

    fn one(key: DecodingKey, family: AlgorithmFamily) -> Self {
        Self::One(Box::new(Key::new(None, key, family.algorithms())))
    }

    /// A set (RFC 7517). Keys that are for something else, or of unknown kinds, are left out. Shared secrets are only
    /// taken from where nobody else can read them.
    pub(super) fn set(text: &[u8], secrets: bool) -> Result<Self, String> {
        let set: Value =
            serde_json::from_slice(text).map_err(|error| format!("this is not JSON: {error}"))?;
        let Some(entries) = set.get("keys").and_then(Value::as_array) else {
            return Err("this is not a set of keys: it has no list `keys`".to_owned());
        };
        if entries.len() > MAX_KEYS {
            return Err(format!("there are more than {MAX_KEYS} keys; remove old ones"));
        }
        let usable = |key: &Key| {
            secrets
                || !key.is_for(Algorithm::HS256)
                    && !key.is_for(Algorithm::HS384)
                    && !key.is_for(Algorithm::HS512)
        };
        let keys: Vec<Key> = entries.iter().filter_map(key_of_set).filter(usable).collect();
        if keys.is_empty() {
            return Err("there is no key in it that could verify tokens".to_owned());
        }
        Ok(Self::Set(keys))
    }

    /// The one key that a token with this header may be verified with.
    pub(super) fn find(&self, header: &Header) -> Result<&Key, NoKey> {
        match self {
            Self::One(key) if key.is_for(header.alg) => Ok(key),
            Self::One(_) => Err(NoKey::Algorithm),
            Self::Set(keys) => find_in(keys, header),
        }
    }
}

fn find_in<'k>(keys: &'k [Key], header: &Header) -> Result<&'k Key, NoKey> {
    let Some(id) = &header.kid else {
        let mut able = keys.iter().filter(|key| key.is_for(header.alg));
        return match (able.next(), able.next()) {
            (None, _) => Err(NoKey::Algorithm),
            (Some(only), None) => Ok(only),
            (Some(_), Some(_)) => Err(NoKey::Ambiguous),
        };
    };
    let mut named = keys.iter().filter(|key| key.id.as_ref() == Some(id)).peekable();
    if named.peek().is_none() {
        return Err(NoKey::Unknown);
    }
    named.find(|key| key.is_for(header.alg)).ok_or(NoKey::Algorithm)
}

fn key_of_set(entry: &Value) -> Option<Key> {
    let jwk: Jwk = serde_json::from_value(entry.clone()).ok()?;
    let common = &jwk.common;
    if common.public_key_use.as_ref().is_some_and(|purpose| *purpose != PublicKeyUse::Signature) {
        return None;
    }
    if common.key_operations.as_ref().is_some_and(|all| !all.contains(&KeyOperations::Verify)) {
        return None;
    }
    let able = able(&jwk.algorithm)?;
    let algorithms = match common.key_algorithm {
        None => able.to_vec(),
        Some(named) => vec![Algorithm::try_from(named).ok().filter(|named| able.contains(named))?],
    };
    let key = DecodingKey::from_jwk(&jwk).ok()?;
    if matches!(jwk.algorithm, AlgorithmParameters::OctetKey(_))
        && key.try_get_as_bytes().is_ok_and(|secret| secret.len() < MIN_SECRET_BYTES)
    {
        return None;
    }
    Some(Key::new(common.key_id.clone(), key, &algorithms))
}

/// What a key of a kind can be used for.
fn able(parameters: &AlgorithmParameters) -> Option<&'static [Algorithm]> {
    use Algorithm::{ES256, ES384, EdDSA, HS256, HS384, HS512, PS256, PS384, PS512, RS256, RS384, RS512};
    match parameters {
        AlgorithmParameters::RSA(_) => Some(&[RS256, RS384, RS512, PS256, PS384, PS512]),
        AlgorithmParameters::OctetKey(_) => Some(&[HS256, HS384, HS512]),
        AlgorithmParameters::EllipticCurve(key) => match key.curve {
            EllipticCurve::P256 => Some(&[ES256]),
            EllipticCurve::P384 => Some(&[ES384]),
            _ => None,
        },
        AlgorithmParameters::OctetKeyPair(key) if key.curve == EllipticCurve::Ed25519 => Some(&[EdDSA]),
        _ => None,
    }
}
