//! What a token claims, once its signature is known to be good. Time is an argument.

use std::sync::Arc;

use serde_json::Value;
use tidegate_core::Timestamp;

use crate::identity::config::JwtConfig;
use crate::identity::who::is_name;

/// What is asked of claims, and which of them say who it is.
#[derive(Debug)]
pub(super) struct ClaimRules {
    issuer: Option<String>,
    audiences: Vec<String>,
    leeway_ms: u64,
    require_expiry: bool,
    user: String,
    tenant: Option<String>,
    tier: Option<String>,
    plan: Option<String>,
}

/// Who a token is about, and for how long.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in crate::identity) struct Verified {
    pub(in crate::identity) user: Option<Arc<str>>,
    pub(in crate::identity) tenant: Option<Arc<str>>,
    pub(in crate::identity) tier: Option<Arc<str>>,
    pub(in crate::identity) plan: Option<Arc<str>>,
    /// Unix milliseconds, with leeway.
    from_ms: u64,
    until_ms: u64,
}

impl Verified {
    /// Whether it is good at `now`.
    pub(super) fn check(&self, now: Timestamp) -> Result<(), &'static str> {
        let now = now.as_millis();
        if now >= self.until_ms {
            return Err("the token has expired; get a new one");
        }
        if now < self.from_ms {
            return Err("the token is not valid yet; try again later");
        }
        Ok(())
    }
}

impl ClaimRules {
    pub(super) fn new(config: &JwtConfig) -> Self {
        Self {
            issuer: config.issuer.clone(),
            audiences: config.audiences.clone(),
            leeway_ms: u64::try_from(config.leeway.as_millis()).unwrap_or(u64::MAX),
            require_expiry: config.require_expiry,
            user: config.user_claim.clone(),
            tenant: config.tenant_claim.clone(),
            tier: config.tier_claim.clone(),
            plan: config.plan_claim.clone(),
        }
    }

    /// Who `claims` are about, if they are for us. When they are good is for [`Verified::check`] to say.
    pub(super) fn read(&self, claims: &Value) -> Result<Verified, &'static str> {
        if !claims.is_object() {
            return Err("the token has no claims; get another");
        }
        if self.issuer.is_some() && claims.get("iss").and_then(Value::as_str) != self.issuer.as_deref() {
            return Err("the token is by another issuer; get one from the right one");
        }
        if !self.audiences.is_empty() && !claims.get("aud").is_some_and(|audience| self.is_meant(audience)) {
            return Err("the token is for somebody else; get one for this audience");
        }
        let until_ms = match date(claims, "exp")? {
            Some(expiry) => expiry.saturating_add(self.leeway_ms),
            None if self.require_expiry => return Err("the token never expires; get one that does"),
            None => u64::MAX,
        };
        let from_ms = date(claims, "nbf")?.unwrap_or(0).saturating_sub(self.leeway_ms);
        let named = |claim: &Option<String>| claim.as_ref().map_or(Ok(None), |claim| name(claims, claim));
        Ok(Verified {
            user: name(claims, &self.user)?,
            tenant: named(&self.tenant)?,
            tier: named(&self.tier)?,
            plan: named(&self.plan)?,
            from_ms,
            until_ms,
        })
    }

    fn is_meant(&self, audience: &Value) -> bool {
        let is_ours =
            |one: &Value| one.as_str().is_some_and(|one| self.audiences.iter().any(|own| own == one));
        match audience {
            Value::Array(all) => all.iter().any(is_ours),
            one => is_ours(one),
        }
    }
}

/// A time in unix milliseconds. Fractions are allowed and cut off.
fn date(claims: &Value, claim: &str) -> Result<Option<u64>, &'static str> {
    let seconds = match claims.get(claim) {
        None | Some(Value::Null) => return Ok(None),
        Some(value) => value.as_u64().or_else(|| value.as_f64().and_then(whole)),
    };
    seconds
        .map(|seconds| Some(seconds.saturating_mul(1_000)))
        .ok_or("the token has a time that is none; get another")
}

/// The whole part of a time that can be one.
fn whole(seconds: f64) -> Option<u64> {
    let usual = (0.0..=9_007_199_254_740_992.0).contains(&seconds);
    // Without a sign and below 2^53, nothing is lost but the fraction.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    usual.then_some(seconds as u64)
}

/// The name in a claim: a text, or a whole number, as many databases have it.
fn name(claims: &Value, claim: &str) -> Result<Option<Arc<str>>, &'static str> {
    match find(claims, claim) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) if text.is_empty() => Ok(None),
        Some(Value::String(text)) if is_name(text) => Ok(Some(text.as_str().into())),
        Some(Value::Number(number)) if !number.is_f64() => Ok(Some(number.to_string().into())),
        Some(_) => Err("the token has a name that is no plain text; get another"),
    }
}

/// The claim called `path`, or what its dots lead to: issuers use URLs for names, too.
fn find<'c>(claims: &'c Value, path: &str) -> Option<&'c Value> {
    let inner = || path.split('.').try_fold(claims, |inside, name| inside.get(name));
    claims.get(path).or_else(inner)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::identity::config::JwtKeys;

    fn config() -> JwtConfig {
        JwtConfig::new(JwtKeys::Secret(Vec::new()))
    }

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_millis(seconds * 1_000)
    }

    #[test]
    fn names_are_found_by_their_path() {
        let config = JwtConfig {
            user_claim: "app.user".to_owned(),
            tenant_claim: Some("https://example.com/tenant".to_owned()),
            tier_claim: Some("app.plan.tier".to_owned()),
            plan_claim: Some("app.plan.of_tenant".to_owned()),
            ..config()
        };
        let claims = json!({
            "exp": 9, "sub": "x", "https://example.com/tenant": 42,
            "app": {"user": "zo\u{eb}", "plan": {"tier": "gold", "of_tenant": "PREMIUM"}},
        });
        let read = ClaimRules::new(&config).read(&claims).unwrap();
        assert_eq!(read.user.as_deref(), Some("zo\u{eb}"));
        assert_eq!((read.tenant.as_deref(), read.tier.as_deref()), (Some("42"), Some("gold")));
        assert_eq!(read.plan.as_deref(), Some("PREMIUM"));
        let read = ClaimRules::new(&config).read(&json!({"exp": 9, "app": "no object"})).unwrap();
        assert_eq!((read.user, read.tenant, read.tier, read.plan), (None, None, None, None));
    }

    #[test]
    fn what_is_not_for_us_is_refused() {
        let config = JwtConfig {
            issuer: Some("https://issuer".to_owned()),
            audiences: vec!["api".to_owned(), "web".to_owned()],
            ..config()
        };
        let rules = ClaimRules::new(&config);
        let good = json!({"exp": 9, "iss": "https://issuer", "aud": "web", "sub": "alice"});
        assert!(rules.read(&good).is_ok());
        let with = |claim: &str, value: Value| {
            let mut claims = good.clone();
            claims[claim] = value;
            rules.read(&claims).err().unwrap_or("good").split(';').next().unwrap().to_owned()
        };
        assert_eq!(with("aud", json!(["other", "api"])), "good");
        for aud in [json!(null), json!("other"), json!(["other"]), json!([]), json!(7), json!({"api": 1})] {
            assert_eq!(with("aud", aud.clone()), "the token is for somebody else", "{aud}");
        }
        for iss in [json!(null), json!("https://issuer/"), json!(["https://issuer"]), json!(1)] {
            assert_eq!(with("iss", iss.clone()), "the token is by another issuer", "{iss}");
        }
        for exp in [json!("9"), json!(-1), json!(1e300), json!([9])] {
            assert_eq!(with("exp", exp.clone()), "the token has a time that is none", "{exp}");
        }
        assert_eq!(with("exp", json!(null)), "the token never expires");
        for sub in
            [json!(" alice"), json!("a\nb"), json!(true), json!(1.5), json!(["a"]), json!("a".repeat(2_000))]
        {
            assert_eq!(with("sub", sub.clone()), "the token has a name that is no plain text", "{sub}");
        }
        assert!(rules.read(&json!("text")).is_err());
    }

    #[test]
    fn a_token_may_be_for_good_if_that_is_allowed() {
        let rules = ClaimRules::new(&JwtConfig { require_expiry: false, ..config() });
        let read = rules.read(&json!({"sub": "alice"})).unwrap();
        assert_eq!(read.check(Timestamp::from_millis(u64::MAX - 1)), Ok(()));
        let read = rules.read(&json!({"sub": "alice", "exp": 100})).unwrap();
        assert!(read.check(at(1_000)).is_err(), "one that says it expires does");
    }

    proptest! {
        #[test]
        fn a_token_is_good_between_its_times(
            nbf in 0_u64..1_000, exp in 0_u64..1_000, leeway in 0_u64..100, now in 0_u64..1_200,
        ) {
            let config = JwtConfig { leeway: Duration::from_secs(leeway), ..config() };
            let read = ClaimRules::new(&config).read(&json!({"nbf": nbf, "exp": exp})).unwrap();
            let good = now + leeway >= nbf && now < exp + leeway;
            prop_assert_eq!(read.check(at(now)).is_ok(), good);
        }
    }
}
