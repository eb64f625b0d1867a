//! Which country an address is in, by a file in MaxMind's format.

use std::fmt;
use std::io;
use std::net::IpAddr;
use std::path::Path;

use maxminddb::{PathElement, Reader, path};

/// A file that knows countries. It is read once.
pub(crate) struct Countries(Reader<Vec<u8>>);

impl Countries {
    /// Reads a file.
    pub(crate) fn open(file: &Path) -> io::Result<Self> {
        let reader = Reader::open_readfile(file);
        reader.map(Self).map_err(|error| io::Error::other(format!("geoip: {}: {error}", file.display())))
    }

    /// The code of the country that an address is in, such as `SE`.
    pub(crate) fn of(&self, ip: IpAddr) -> Option<&str> {
        let found = self.0.lookup(ip.to_canonical()).ok()?;
        let code = |path: &[PathElement<'_>]| found.decode_path(path).ok().flatten();
        // Where MaxMind's own files have it, and where flat ones do.
        code(&path!["country", "iso_code"]).or_else(|| code(&path!["country_code"]))
    }
}

impl fmt::Debug for Countries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Countries").field(&self.0.metadata().database_type).finish()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A text as the format has it.
    fn text(text: &str) -> Vec<u8> {
        [&[0x40 | u8::try_from(text.len()).unwrap()], text.as_bytes()].concat()
    }

    /// A file that knows where 203.0.113.0/24 is, and nothing else.
    pub(crate) fn file(code: &str) -> Vec<u8> {
        file_with(&[&[0xe1][..], &text("country"), &[0xe1], &text("iso_code"), &text(code)].concat())
    }

    /// The same with another record.
    fn file_with(record: &[u8]) -> Vec<u8> {
        let (network, nodes) = (u32::from_be_bytes([203, 0, 113, 0]), 24u32);
        let mut file = Vec::new();
        for node in 0..nodes {
            // The data begins 16 after the last node; the number of nodes stands for nothing at all.
            let next = if node + 1 == nodes { nodes + 16 } else { node + 1 };
            let right = network >> (31 - node) & 1 == 1;
            let records = if right { [nodes, next] } else { [next, nodes] };
            records.iter().for_each(|record| file.extend_from_slice(&record.to_be_bytes()[1..]));
        }
        file.extend([0; 16]);
        file.extend(record);
        file.extend(b"\xab\xcd\xefMaxMind.com");
        let number = |name: &str, value: u8| [&text(name)[..], &[0xa1, value]].concat();
        file.push(0xe0 | 9);
        file.extend(number("binary_format_major_version", 2));
        file.extend(number("binary_format_minor_version", 0));
        file.extend([&text("build_epoch")[..], &[0x01, 0x02, 1]].concat());
        file.extend([text("database_type"), text("Test")].concat());
        file.extend([&text("description")[..], &[0xe0]].concat());
        file.extend(number("ip_version", 4));
        file.extend([&text("languages")[..], &[0x00, 0x04]].concat());
        file.extend([&text("node_count")[..], &[0xc1, 24]].concat());
        file.extend(number("record_size", 24));
        file
    }

    #[test]
    fn addresses_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().join("countries.mmdb");
        std::fs::write(&at, file("SE")).unwrap();
        let countries = Countries::open(&at).unwrap();
        let of = |ip: &str| countries.of(ip.parse().unwrap());
        assert_eq!(of("203.0.113.7"), Some("SE"));
        assert_eq!(of("::ffff:203.0.113.7"), Some("SE"));
        assert_eq!(of("203.0.114.7"), None);
        assert_eq!(of("2001:db8::1"), None, "it knows IPv4 only");
    }

    #[test]
    fn flat_records_are_read_too() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().join("countries.mmdb");
        let of = |record: &[u8]| {
            std::fs::write(&at, file_with(record)).unwrap();
            Countries::open(&at).unwrap().of("203.0.113.7".parse().unwrap()).map(str::to_owned)
        };
        let flat = [&[0xe1][..], &text("country_code"), &text("SE")].concat();
        assert_eq!(of(&flat).as_deref(), Some("SE"));
        let neither = [&[0xe1][..], &text("city"), &text("Kiruna")].concat();
        assert_eq!(of(&neither), None);
        let no_text = [&[0xe1][..], &text("country_code"), &[0xa1, 7]].concat();
        assert_eq!(of(&no_text), None);
    }

    #[test]
    fn what_is_no_such_file_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().join("countries.mmdb");
        for garbage in [&b""[..], b"garbage", b"\xab\xcd\xefMaxMind.com", &file("SE")[..100]] {
            std::fs::write(&at, garbage).unwrap();
            let error = Countries::open(&at).unwrap_err().to_string();
            assert!(error.contains("countries.mmdb"), "{error}");
        }
        assert!(Countries::open(&folder.path().join("missing")).is_err());
    }
}
