//! Names in client certificates.

use std::sync::Arc;

use x509_parser::prelude::{FromDer, GeneralName, X509Certificate, X509Name};
use x509_parser::x509::AttributeTypeAndValue;

use super::config::{CertificateConfig, CertificateTenant, CertificateUser};
use super::who::is_name;

/// Why a certificate names nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the certificate cannot be read")]
pub struct CertificateError;

/// The names in a certificate, read once per connection. Whoever verified the certificate vouches for them.
///
/// Names that could be mistaken for others are left out: with control characters, spaces around them, or beside another of
/// their kind in the subject, where readers differ about which of them counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientName {
    common_name: Option<Arc<str>>,
    organization: Option<Arc<str>>,
    organizational_unit: Option<Arc<str>>,
    email: Option<Arc<str>>,
    dns: Option<Arc<str>>,
    uri: Option<Arc<str>>,
}

impl ClientName {
    /// Reads a certificate that has been verified. Of several alternative names of a kind, the first counts.
    pub fn from_der(der: &[u8]) -> Result<Self, CertificateError> {
        let (rest, certificate) = X509Certificate::from_der(der).map_err(|_| CertificateError)?;
        if !rest.is_empty() {
            return Err(CertificateError);
        }
        let mut names = Self::of_subject(certificate.subject());
        let alternatives = certificate.subject_alternative_name().map_err(|_| CertificateError)?;
        for name in alternatives.iter().flat_map(|extension| &extension.value.general_names) {
            let (kind, text) = match name {
                GeneralName::RFC822Name(text) => (&mut names.email, text),
                GeneralName::DNSName(text) => (&mut names.dns, text),
                GeneralName::URI(text) => (&mut names.uri, text),
                _ => continue,
            };
            if kind.is_none() && is_name(text) {
                *kind = Some((*text).into());
            }
        }
        Ok(names)
    }

    fn of_subject(subject: &X509Name<'_>) -> Self {
        Self {
            common_name: only(subject.iter_common_name()),
            organization: only(subject.iter_organization()),
            organizational_unit: only(subject.iter_organizational_unit()),
            ..Self::default()
        }
    }

    /// The name that is the user.
    pub(super) fn user(&self, config: CertificateConfig) -> Option<&Arc<str>> {
        match config.user? {
            CertificateUser::CommonName => self.common_name.as_ref(),
            CertificateUser::SanEmail => self.email.as_ref(),
            CertificateUser::SanDns => self.dns.as_ref(),
            CertificateUser::SanUri => self.uri.as_ref(),
        }
    }

    /// The name that is the tenant.
    pub(super) fn tenant(&self, config: CertificateConfig) -> Option<&Arc<str>> {
        match config.tenant? {
            CertificateTenant::Organization => self.organization.as_ref(),
            CertificateTenant::OrganizationalUnit => self.organizational_unit.as_ref(),
        }
    }
}

/// Returns the name of a kind if there is one, and no other.
fn only<'n>(mut names: impl Iterator<Item = &'n AttributeTypeAndValue<'n>>) -> Option<Arc<str>> {
    let name = names.next().filter(|_| names.next().is_none())?;
    name.as_str().ok().filter(|text| is_name(text)).map(Arc::from)
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair, SanType};

    use super::*;

    fn certificate(common_name: &str, alternatives: Vec<SanType>) -> Vec<u8> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, common_name);
        params.distinguished_name.push(DnType::OrganizationName, "Acme");
        params.distinguished_name.push(DnType::OrganizationalUnitName, "North");
        params.subject_alt_names = alternatives;
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().to_vec()
    }

    fn alternatives() -> Vec<SanType> {
        vec![
            SanType::Rfc822Name("alice@example.com".try_into().unwrap()),
            SanType::Rfc822Name("second@example.com".try_into().unwrap()),
            SanType::DnsName("alice.example.com".try_into().unwrap()),
            SanType::URI("spiffe://example.com/alice".try_into().unwrap()),
        ]
    }

    #[test]
    fn each_name_can_be_the_user() {
        let names = ClientName::from_der(&certificate("alice", alternatives())).unwrap();
        for (user, expected) in [
            (CertificateUser::CommonName, "alice"),
            (CertificateUser::SanEmail, "alice@example.com"),
            (CertificateUser::SanDns, "alice.example.com"),
            (CertificateUser::SanUri, "spiffe://example.com/alice"),
        ] {
            let config =
                CertificateConfig { user: Some(user), tenant: Some(CertificateTenant::Organization) };
            assert_eq!(names.user(config).map(|name| &**name), Some(expected));
            assert_eq!(names.tenant(config).map(|name| &**name), Some("Acme"));
        }
        let config = CertificateConfig { user: None, tenant: Some(CertificateTenant::OrganizationalUnit) };
        assert_eq!((names.user(config), names.tenant(config).map(|name| &**name)), (None, Some("North")));
    }

    #[test]
    fn names_that_could_be_mistaken_are_none() {
        let config = CertificateConfig { user: Some(CertificateUser::CommonName), tenant: None };
        for odd in ["", " alice", "alice\0.example.com", "a\nb", &"a".repeat(1_025)] {
            let names = ClientName::from_der(&certificate(odd, Vec::new())).unwrap();
            assert_eq!(names.user(config), None, "{odd:?}");
        }
    }

    #[test]
    fn two_names_of_a_kind_in_the_subject_are_none() {
        for (kind, number) in
            [(DnType::CommonName, 3), (DnType::OrganizationName, 10), (DnType::OrganizationalUnitName, 11)]
        {
            let mut params = CertificateParams::default();
            params.distinguished_name = DistinguishedName::new();
            // The same kind by its number, which keeps both of them.
            params.distinguished_name.push(kind, "alice");
            params.distinguished_name.push(DnType::CustomDnType(vec![2, 5, 4, number]), "admin");
            let der = params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().to_vec();
            assert_eq!(ClientName::from_der(&der), Ok(ClientName::default()), "2.5.4.{number}");
        }
    }

    #[test]
    fn garbage_names_nobody() {
        let good = certificate("alice", alternatives());
        for bad in [&b""[..], b"garbage", &good[1..], &good[..good.len() - 1], &[&good[..], b"x"].concat()] {
            assert_eq!(ClientName::from_der(bad), Err(CertificateError));
        }
    }
}
