//! Issuers of tokens.

use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, encode};
use rcgen::{KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384, PKCS_ED25519, PKCS_RSA_SHA256};
use serde_json::{Value, json};

use super::NOW;

pub(super) const SECRET: &[u8] = b"0123456789abcdef0123456789abcdef";

pub(super) struct Signer {
    key: EncodingKey,
    algorithm: Algorithm,
    id: Option<String>,
    /// The public key, if there is one.
    pub(super) pem: String,
}

impl Signer {
    pub(super) fn new(algorithm: Algorithm) -> Self {
        use Algorithm::{ES256, ES384, EdDSA, HS256, HS384, HS512};
        let kind = match algorithm {
            HS256 | HS384 | HS512 => return Self::secret(algorithm, SECRET),
            ES256 => &PKCS_ECDSA_P256_SHA256,
            ES384 => &PKCS_ECDSA_P384_SHA384,
            EdDSA => &PKCS_ED25519,
            _ => &PKCS_RSA_SHA256,
        };
        let pair = KeyPair::generate_for(kind).unwrap();
        let private = pair.serialize_pem();
        let key = match algorithm {
            ES256 | ES384 => EncodingKey::from_ec_pem(private.as_bytes()),
            EdDSA => EncodingKey::from_ed_pem(private.as_bytes()),
            _ => EncodingKey::from_rsa_pem(private.as_bytes()),
        };
        Self { key: key.unwrap(), algorithm, id: None, pem: pair.public_key_pem() }
    }

    pub(super) fn secret(algorithm: Algorithm, secret: &[u8]) -> Self {
        Self { key: EncodingKey::from_secret(secret), algorithm, id: None, pem: String::new() }
    }

    /// The same key under a name.
    pub(super) fn named(self, id: &str) -> Self {
        Self { id: Some(id.to_owned()), ..self }
    }

    /// The same key for another algorithm.
    pub(super) fn using(self, algorithm: Algorithm) -> Self {
        Self { algorithm, ..self }
    }

    /// A token about alice, good for a minute, with `more` claims.
    pub(super) fn sign(&self, more: &Value) -> String {
        let mut claims = json!({"sub": "alice", "exp": NOW + 60});
        for (name, value) in more.as_object().unwrap() {
            claims[name] = value.clone();
        }
        self.sign_only(&self.header(), &claims)
    }

    pub(super) fn header(&self) -> Header {
        Header { kid: self.id.clone(), ..Header::new(self.algorithm) }
    }

    pub(super) fn sign_only(&self, header: &Header, claims: &Value) -> String {
        encode(header, claims, &self.key).unwrap()
    }

    pub(super) fn jwk(&self) -> Value {
        let mut jwk = if self.algorithm == Algorithm::EdDSA {
            let public = DecodingKey::from_ed_pem(self.pem.as_bytes()).unwrap();
            Jwk::from_decoding_key(&public, Some(self.algorithm)).unwrap()
        } else {
            Jwk::from_encoding_key(&self.key, self.algorithm).unwrap()
        };
        jwk.common.key_id = self.id.clone();
        serde_json::to_value(jwk).unwrap()
    }
}

/// A set of the keys of `signers`.
pub(super) fn set(signers: &[&Signer]) -> String {
    let keys: Vec<Value> = signers.iter().map(|signer| signer.jwk()).collect();
    json!({ "keys": keys }).to_string()
}
