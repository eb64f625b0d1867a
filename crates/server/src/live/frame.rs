//! Server-sent events as bytes, written once and shared by all who read them.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use parking_lot::Mutex;
use serde::Serialize;

use crate::gzip;
use crate::reply::to_json;

/// What follows the data of an event.
const END: &[u8] = b"\n\n";

/// An event, for however many read it.
#[derive(Clone, Debug)]
pub(crate) struct Event(Arc<Written>);

#[derive(Debug)]
struct Written {
    plain: Bytes,
    /// Where its data begins.
    data: usize,
    packed: OnceLock<Bytes>,
}

impl Event {
    /// An event with its name and its data. JSON has no line breaks of its own.
    pub(super) fn new(name: &str, data: &impl Serialize) -> Self {
        let head = format!("event: {name}\ndata: ");
        Self::written([head.as_bytes(), &to_json(data), END].concat().into(), head.len())
    }

    /// What goes out when nothing else would, so that nobody on the way thinks that there is nobody.
    pub(crate) fn comment() -> Self {
        Self::written(Bytes::from_static(b": \n\n"), 0)
    }

    fn written(plain: Bytes, data: usize) -> Self {
        Self(Arc::new(Written { plain, data, packed: OnceLock::new() }))
    }

    /// As it is.
    pub(crate) fn plain(&self) -> Bytes {
        self.0.plain.clone()
    }

    /// As a part of a stream in gzip.
    pub(crate) fn packed(&self) -> Bytes {
        self.0.packed.get_or_init(|| gzip::part(&self.0.plain)).clone()
    }

    /// Its data alone.
    pub(super) fn data(&self) -> &[u8] {
        let plain = &self.0.plain;
        plain.get(self.0.data..plain.len().saturating_sub(END.len())).unwrap_or_default()
    }

    /// Whether both are the very same.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// What holds until something else has a number of its own.
#[derive(Debug)]
pub(crate) struct Kept<T>(Mutex<Option<(u64, T)>>);

impl<T> Default for Kept<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T: Clone> Kept<T> {
    /// That for `number`, made if it is not there.
    pub(crate) fn get(&self, number: u64, make: impl FnOnce() -> T) -> T {
        let mut kept = self.0.lock();
        match &*kept {
            Some((known, made)) if *known == number => made.clone(),
            _ => kept.insert((number, make())).1.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_has_a_name_and_one_line_of_data() {
        let event = Event::new("tick", &["two\nlines"]);
        assert_eq!(event.plain(), &b"event: tick\ndata: [\"two\\nlines\"]\n\n"[..]);
        assert_eq!(event.data(), b"[\"two\\nlines\"]");
    }

    #[test]
    fn what_is_kept_is_made_once() {
        let kept = Kept::default();
        let get = |number, text: &'static str| kept.get(number, || text);
        assert_eq!((get(1, "a"), get(1, "b"), get(2, "c")), ("a", "a", "c"));
    }
}
