//! What a caller says about the trace that its request is part of (W3C Trace Context).

use http::header::{HeaderMap, HeaderName, HeaderValue};

/// Names the trace and the span that a request comes from.
pub const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// What others have to say about the trace.
pub const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");

/// How long a `traceparent` of the version that is known is.
const LENGTH: usize = 55;

/// More than this of `tracestate` is not passed on; so much has to be (W3C, 3.3.1.5).
const LONGEST_STATE: usize = 512;

/// A span elsewhere that a trace goes on from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceParent {
    /// The trace; never all zeros.
    pub trace: [u8; 16],
    /// The span; never all zeros.
    pub span: [u8; 8],
    /// Whether whoever is there records it.
    pub sampled: bool,
}

impl TraceParent {
    /// Reads a header's value. Anything that is not quite right is as if it were not there, as the standard says.
    pub fn parse(value: &[u8]) -> Option<Self> {
        let (head, rest) = value.split_at_checked(LENGTH)?;
        let [v0, v1, b'-', ids @ ..] = head else { return None };
        let version = byte(*v0, *v1)?;
        // Versions to come may have more to say, behind another dash.
        let fits = match version {
            0 => rest.is_empty(),
            0xff => false,
            _ => rest.is_empty() || rest[0] == b'-',
        };
        let (trace, ids) = ids.split_at_checked(32)?;
        let (span, flags) = ids.strip_prefix(b"-")?.split_at_checked(16)?;
        let [b'-', f0, f1] = flags else { return None };
        let parent = Self { trace: bytes(trace)?, span: bytes(span)?, sampled: byte(*f0, *f1)? & 1 == 1 };
        (fits && parent.trace != [0; 16] && parent.span != [0; 8]).then_some(parent)
    }

    /// What `headers` say, if they say one thing.
    pub fn read(headers: &HeaderMap) -> Option<Self> {
        let mut all = headers.get_all(TRACEPARENT).iter();
        let parent = Self::parse(all.next()?.as_bytes())?;
        all.next().is_none().then_some(parent)
    }

    /// The value of a header that names it.
    pub fn value(&self) -> Option<HeaderValue> {
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let flags = u8::from(self.sampled);
        HeaderValue::try_from(format!("00-{}-{}-{flags:02x}", hex(&self.trace), hex(&self.span))).ok()
    }
}

/// What others have to say about a trace, in one line; nothing if that is too much or no text.
pub(super) fn state(headers: &HeaderMap) -> String {
    let mut state = String::new();
    for value in headers.get_all(TRACESTATE) {
        let Ok(text) = value.to_str() else { return String::new() };
        if !state.is_empty() {
            state.push(',');
        }
        if state.len() + text.len() > LONGEST_STATE {
            return String::new();
        }
        state.push_str(text);
    }
    state
}

fn bytes<const N: usize>(text: &[u8]) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    for (byte_, pair) in bytes.iter_mut().zip(text.chunks_exact(2)) {
        *byte_ = byte(pair[0], pair[1])?;
    }
    (text.len() == 2 * N).then_some(bytes)
}

/// Lower case only: the standard knows no other.
fn byte(high: u8, low: u8) -> Option<u8> {
    let digit = |digit: u8| match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    };
    Some(digit(high)? << 4 | digit(low)?)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const GOOD: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn what_is_right_is_read_and_written_again() {
        let parent = TraceParent::parse(GOOD.as_bytes()).unwrap();
        assert!(parent.sampled && parent.trace[0] == 0x4b && parent.span[7] == 0xb7, "{parent:?}");
        assert_eq!(parent.value().unwrap(), GOOD);
        for (text, sampled) in [
            ("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00", false),
            ("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-fe", false),
            ("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-ff", true),
            ("cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", true),
            ("cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-what-comes", true),
        ] {
            assert_eq!(
                TraceParent::parse(text.as_bytes()).map(|parent| parent.sampled),
                Some(sampled),
                "{text}"
            );
        }
    }

    #[test]
    fn what_is_not_quite_right_is_not_there() {
        for text in [
            "",
            "00",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
            "cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01.more",
            "00_4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736_00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7_01",
            "00-4bf92f3577b34da6a3ce929d0e0e473-600f067aa0ba902b7-01",
            "0g-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            " 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        ] {
            assert_eq!(TraceParent::parse(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn two_of_them_are_none_and_too_much_state_is_left_out() {
        let mut headers = HeaderMap::new();
        headers.append(TRACEPARENT, HeaderValue::from_static(GOOD));
        assert!(TraceParent::read(&headers).is_some());
        headers.append(TRACEPARENT, HeaderValue::from_static(GOOD));
        assert_eq!(TraceParent::read(&headers), None);
        headers.append(TRACESTATE, HeaderValue::from_static("a=1"));
        headers.append(TRACESTATE, HeaderValue::from_static("b=2"));
        assert_eq!(state(&headers), "a=1,b=2");
        headers.append(TRACESTATE, HeaderValue::try_from("c".repeat(LONGEST_STATE)).unwrap());
        assert_eq!(state(&headers), "");
    }

    proptest! {
        #[test]
        fn whatever_is_read_is_written_the_same(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            if let Some(parent) = TraceParent::parse(&bytes) {
                prop_assert_eq!(TraceParent::parse(parent.value().unwrap().as_bytes()), Some(parent));
            }
        }

        #[test]
        fn one_changed_byte_is_never_misread(at in 0..LENGTH, byte in any::<u8>()) {
            let mut text = GOOD.as_bytes().to_vec();
            text[at] = byte;
            if let Some(parent) = TraceParent::parse(&text) {
                let again = parent.value().unwrap();
                // The version and the flags that nobody knows are not passed on.
                prop_assert_eq!(&again.as_bytes()[3..52], &text[3..52]);
            }
        }
    }
}
