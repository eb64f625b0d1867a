//! `match`: which requests a rule applies to.

use std::collections::HashSet;
use std::net::IpAddr;

use ipnet::{IpNet, Ipv4Net};
use tidegate_core::Condition;
use tidegate_core::pattern::Pattern;
use tidegate_core::rule::Wanted;

use crate::fields::Fields;
use crate::node::{Entry, Node};
use crate::problem::quoted;
use crate::reader::Reader;
use crate::schema::SHAPES;
use crate::text::Place;

/// The value that stands for any value.
pub(crate) const ANY_VALUE: &str = "*";

/// Reads a condition; what cannot be read is reported and left out.
pub(crate) fn read(reader: &mut Reader<'_>, node: &Node<'_>) -> Option<Condition> {
    let fields = Fields::open(reader, node, &SHAPES.condition)?;
    let methods = fields.get("methods").map(|node| methods(reader, node)).unwrap_or_default();
    let headers = fields.read("required_headers", |key, node| wanted(reader, key, node, Names::Header));
    let attributes =
        fields.read("required_attributes", |key, node| wanted(reader, key, node, Names::Attribute));
    Some(Condition {
        path: fields.read("path_pattern", |key, node| pattern(reader, key, node)),
        methods,
        requires_authentication: fields
            .read("requires_authentication", |key, node| reader.flag(key, node))
            .unwrap_or_default(),
        headers: headers.unwrap_or_default(),
        attributes: attributes.unwrap_or_default(),
        subnets: fields.get("ip_subnet").map(|node| subnets(reader, node)).unwrap_or_default(),
    })
}

fn pattern(reader: &mut Reader<'_>, key: &str, node: &Node<'_>) -> Option<Pattern> {
    let text = reader.text(key, node)?;
    match text.parse() {
        Ok(pattern) => Some(pattern),
        Err(error) => {
            reader.problem(node.at, format!("{}: {error}", quoted(key)));
            None
        }
    }
}

fn methods(reader: &mut Reader<'_>, node: &Node<'_>) -> Vec<Box<str>> {
    let mut methods: Vec<Box<str>> = Vec::new();
    let mut seen = HashSet::new();
    for item in reader.many("methods", node) {
        let Some(text) = reader.text("methods", item) else { continue };
        let method = text.to_ascii_uppercase().into_boxed_str();
        if !is_token(text) {
            let message = format!("{} is no HTTP method; write one such as GET or POST", quoted(text));
            reader.problem(item.at, message);
        } else if seen.insert(method.clone()) {
            methods.push(method);
        }
    }
    methods
}

/// What names stand before the values.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Names {
    Header,
    Attribute,
}

impl Names {
    fn example(self) -> &'static str {
        match self {
            Self::Header => "{ X-Client-Type: mobile }",
            Self::Attribute => "{ plan: premium }",
        }
    }

    /// The name as it is compared, if it can be one.
    fn read(self, reader: &mut Reader<'_>, name: &str, at: Place) -> Option<Box<str>> {
        match self {
            Self::Header => is_header(reader, name, at).then(|| name.to_ascii_lowercase().into()),
            Self::Attribute => reader.is_name("an attribute's name", name, at).then(|| name.into()),
        }
    }
}

fn wanted(
    reader: &mut Reader<'_>,
    key: &str,
    node: &Node<'_>,
    names: Names,
) -> Option<Vec<(Box<str>, Wanted)>> {
    let mut list = Vec::new();
    let mut seen = HashSet::new();
    for Entry { key, value } in reader.map(key, node, names.example())? {
        let name = names.read(reader, &key.value, key.at);
        if name.is_some() && !seen.insert(key.value.to_ascii_lowercase()) {
            let written = quoted(&key.value);
            reader.problem(
                key.at,
                format!("{written} is given twice, because case does not count; remove one"),
            );
        }
        let wanted = reader.text(&key.value, value).map(|text| match text {
            ANY_VALUE => Wanted::Present,
            text => Wanted::Value(text.into()),
        });
        list.extend(name.zip(wanted));
    }
    Some(list)
}

fn subnets(reader: &mut Reader<'_>, node: &Node<'_>) -> Vec<IpNet> {
    let mut subnets = Vec::new();
    for item in reader.many("ip_subnet", node) {
        let Some(text) = reader.text("ip_subnet", item) else { continue };
        match subnet(text) {
            Ok(subnet) => subnets.push(subnet),
            Err(message) => reader.problem(item.at, message),
        }
    }
    subnets
}

/// A network, or an address that stands for itself.
fn subnet(text: &str) -> Result<IpNet, String> {
    if let Ok(ip) = text.parse::<IpAddr>() {
        return Ok(unmapped(ip.into()));
    }
    let net: IpNet = text.parse().map_err(|_| {
        format!("{} is no network; write one such as 192.168.1.0/24 or 2001:db8::/32", quoted(text))
    })?;
    if net.trunc() != net {
        return Err(format!(
            "{} has bits set beyond its prefix; write {} for the network or {} for the one address",
            quoted(text),
            net.trunc(),
            net.addr()
        ));
    }
    Ok(unmapped(net))
}

/// IPv4-mapped networks as IPv4, because that is how addresses are compared.
fn unmapped(net: IpNet) -> IpNet {
    let IpNet::V6(v6) = net else { return net };
    let prefix = v6.prefix_len().checked_sub(96);
    match (v6.addr().to_ipv4_mapped(), prefix) {
        (Some(addr), Some(prefix)) => Ipv4Net::new(addr, prefix).map_or(net, IpNet::V4),
        _ => net,
    }
}

/// Whether `name` can be a header's name; reports it if not.
pub(crate) fn is_header(reader: &mut Reader<'_>, name: &str, at: Place) -> bool {
    let sound = is_token(name);
    if !sound {
        let message = format!("{} is no header name; write one such as X-Client-Type", quoted(name));
        reader.problem(at, message);
    }
    sound
}

/// What HTTP allows in the names of methods and headers.
fn is_token(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= 128
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
}
