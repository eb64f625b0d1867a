//! The value a rule counts by.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use smallvec::SmallVec;

use crate::key::{Encoding, Secret, Tag};
use crate::path::Path;
use crate::request::{Request, counted_ip};

/// What a rule counts by: one or several facts of a request, together.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Identifier(Vec<Facet>);

/// One fact that can be counted by.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Facet {
    /// The user, within its tenant when there is one.
    User,
    /// The tenant.
    Tenant,
    /// The address; IPv6 by its network.
    Ip,
    /// The API key.
    ApiKey,
    /// A header's value; the name in lower case.
    Header(Box<str>),
    /// An attribute's value.
    Attribute(Box<str>),
    /// The path in normal form.
    Path,
    /// Nothing: one count for all.
    Global,
}

impl Identifier {
    /// Counts by all of `facets` together; `None` if there are none.
    pub fn new(facets: Vec<Facet>) -> Option<Self> {
        (!facets.is_empty()).then_some(Self(facets))
    }

    /// The facts counted by, in order.
    pub fn facets(&self) -> &[Facet] {
        &self.0
    }

    /// Returns true if it counts a tenant, and not the users of it apart.
    pub(crate) fn is_of_tenant(&self) -> bool {
        self.0.contains(&Facet::Tenant) && !self.0.contains(&Facet::User)
    }

    /// Who `request` is to this identifier, or `None` if it lacks a fact.
    pub fn identify<'a>(
        &self,
        request: &Request<'a>,
        path: &'a Path<'_>,
        ipv6_prefix: u8,
    ) -> Option<Identity<'a>> {
        let mut parts = SmallVec::new();
        self.each_part(request, path, ipv6_prefix, |part| parts.push(part))?;
        Some(Identity(parts))
    }

    /// The tag of [`Self::identify`], without making the identity.
    pub fn tag(
        &self,
        request: &Request<'_>,
        path: &Path<'_>,
        ipv6_prefix: u8,
        secret: &Secret,
    ) -> Option<Tag> {
        let mut encoding = secret.encode();
        self.each_part(request, path, ipv6_prefix, |part| part.encode(&mut encoding))?;
        Some(encoding.tag())
    }

    /// Shows the parts of an identity to `add`; `None` if the request lacks one.
    fn each_part<'a>(
        &self,
        request: &Request<'a>,
        path: &'a Path<'_>,
        ipv6_prefix: u8,
        mut add: impl FnMut(Part<'a>),
    ) -> Option<()> {
        for facet in &self.0 {
            let part = match facet {
                Facet::User => {
                    let user = request.user?;
                    request.tenant.map(Part::Tenant).into_iter().for_each(&mut add);
                    Part::User(user)
                }
                Facet::Tenant => Part::Tenant(request.tenant?),
                Facet::Ip => Part::Ip(counted_ip(request.ip?, ipv6_prefix)),
                Facet::ApiKey => Part::ApiKey(request.api_key?),
                Facet::Header(name) => Part::Header(present(request.headers.value(name))?),
                Facet::Attribute(name) => Part::Attribute(present(request.attributes.value(name))?),
                Facet::Path => Part::Path(path.identity()),
                Facet::Global => continue,
            };
            add(part);
        }
        Some(())
    }
}

/// An empty text says nothing about who somebody is.
pub(crate) fn present(text: Option<&str>) -> Option<&str> {
    text.filter(|text| !text.is_empty())
}

impl From<Facet> for Identifier {
    fn from(facet: Facet) -> Self {
        Self(vec![facet])
    }
}

/// The names of the facets that stand alone, as rule documents write them.
const PLAIN: [(&str, Facet); 6] = [
    ("user_id", Facet::User),
    ("tenant_id", Facet::Tenant),
    ("ip_address", Facet::Ip),
    ("api_key", Facet::ApiKey),
    ("path", Facet::Path),
    ("global", Facet::Global),
];

impl Facet {
    /// The names that need nothing after them, for suggestions.
    pub fn plain_names() -> impl Iterator<Item = &'static str> {
        PLAIN.iter().map(|(name, _)| *name)
    }
}

impl FromStr for Facet {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        if let Some((_, facet)) = PLAIN.iter().find(|(name, _)| *name == text) {
            return Ok(facet.clone());
        }
        match text.split_once(':') {
            Some(("header", name)) if !name.is_empty() => Ok(Self::Header(name.to_ascii_lowercase().into())),
            Some(("attribute", name)) if !name.is_empty() => Ok(Self::Attribute(name.into())),
            _ => Err(()),
        }
    }
}

impl fmt::Display for Facet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Header(name) => write!(f, "header:{name}"),
            Self::Attribute(name) => write!(f, "attribute:{name}"),
            plain => f.write_str(PLAIN.iter().find(|(_, facet)| facet == plain).map_or("", |(name, _)| name)),
        }
    }
}

/// One fact of an identity, with what it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Part<'a> {
    /// A tenant's name.
    Tenant(&'a str),
    /// A user's name.
    User(&'a str),
    /// A counted address.
    Ip(IpAddr),
    /// An API key.
    ApiKey(&'a str),
    /// A header's value.
    Header(&'a str),
    /// An attribute's value.
    Attribute(&'a str),
    /// A path in normal form.
    Path(&'a str),
    /// All requests without an identity.
    Shared,
}

/// Who a request is, to one rule.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Identity<'a>(SmallVec<[Part<'a>; 3]>);

impl<'a> Identity<'a> {
    /// The identity all requests without one share.
    pub fn shared() -> Self {
        Self(SmallVec::from_slice(&[Part::Shared]))
    }

    /// The identity of an address.
    pub fn ip(ip: IpAddr, ipv6_prefix: u8) -> Self {
        Self(SmallVec::from_slice(&[Part::Ip(counted_ip(ip, ipv6_prefix))]))
    }

    /// The facts it is made of.
    pub fn parts(&self) -> &[Part<'a>] {
        &self.0
    }

    /// What its counters are found by, under `secret`.
    pub fn tag(&self, secret: &Secret) -> Tag {
        let mut encoding = secret.encode();
        self.0.iter().for_each(|part| part.encode(&mut encoding));
        encoding.tag()
    }
}

impl Part<'_> {
    fn encode(&self, encoding: &mut Encoding) {
        match self {
            Self::Tenant(text) => encoding.part(1, text.as_bytes()),
            Self::User(text) => encoding.part(2, text.as_bytes()),
            Self::Ip(IpAddr::V4(v4)) => encoding.part(3, &v4.octets()),
            Self::Ip(IpAddr::V6(v6)) => encoding.part(4, &v6.octets()),
            Self::ApiKey(text) => encoding.part(5, text.as_bytes()),
            Self::Header(text) => encoding.part(6, text.as_bytes()),
            Self::Attribute(text) => encoding.part(7, text.as_bytes()),
            Self::Path(text) => encoding.part(8, text.as_bytes()),
            Self::Shared => encoding.part(9, &[]),
        };
    }
}

/// Who it is, for people: control characters escaped, API keys not shown.
impl fmt::Display for Identity<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("everybody");
        }
        for (index, part) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str("/")?;
            }
            match part {
                Part::Tenant(text)
                | Part::User(text)
                | Part::Header(text)
                | Part::Attribute(text)
                | Part::Path(text) => {
                    text.chars().try_for_each(|c| {
                        if c.is_control() { write!(f, "{}", c.escape_default()) } else { write!(f, "{c}") }
                    })?;
                }
                Part::Ip(ip) => write!(f, "{ip}")?,
                Part::ApiKey(_) => f.write_str("(api key)")?,
                Part::Shared => f.write_str("(nobody)")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identify(facets: &[&str], request: &Request<'_>) -> Option<String> {
        let identifier = Identifier::new(facets.iter().map(|f| f.parse().unwrap()).collect()).unwrap();
        identifier
            .identify(request, &Path::parse(request.path).unwrap(), 64)
            .map(|identity| identity.to_string())
    }

    #[test]
    fn identities_are_read_off_requests() {
        let headers = [("X-Client", "ios")];
        let alice = Request {
            user: Some("alice"),
            ip: Some("2001:db8:1:2:3::4".parse().unwrap()),
            api_key: Some("k-1"),
            headers: &headers,
            attributes: &[("org", "north"), ("empty", "")],
            ..Request::new("/a%2Fb/")
        };
        let at_acme = Request { tenant: Some("acme"), ..alice };
        assert_eq!(identify(&["user_id"], &alice).unwrap(), "alice");
        assert_eq!(identify(&["user_id"], &at_acme).unwrap(), "acme/alice");
        assert_eq!(identify(&["tenant_id"], &at_acme).unwrap(), "acme");
        assert_eq!(identify(&["tenant_id"], &alice), None);
        assert_eq!(identify(&["ip_address"], &alice).unwrap(), "2001:db8:1:2::");
        assert_eq!(identify(&["header:x-client", "path"], &alice).unwrap(), "ios//a/b");
        assert_eq!(identify(&["attribute:org"], &alice).unwrap(), "north");
        assert_eq!(identify(&["attribute:empty"], &alice), None);
        assert_eq!(identify(&["api_key"], &alice).unwrap(), "(api key)");
        assert_eq!(identify(&["global"], &alice).unwrap(), "everybody");
    }

    #[test]
    fn hostile_names_do_no_harm_on_a_terminal() {
        let request = Request { user: Some("a\u{1b}[2J\nb"), ..Request::new("/") };
        assert_eq!(identify(&["user_id"], &request).unwrap(), "a\\u{1b}[2J\\nb");
    }
}
