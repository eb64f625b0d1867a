//! Server-sent events as bytes, written once and shared by all who read them.

use bytes::Bytes;
use parking_lot::Mutex;
use serde::Serialize;

use crate::reply::to_json;

/// What goes out when nothing else would, so that nobody on the way thinks that there is nobody.
pub(crate) const COMMENT: Bytes = Bytes::from_static(b": \n\n");

/// What follows the data of an event.
const END: &[u8] = b"\n\n";

/// An event with its name and its data. JSON has no line breaks of its own.
pub(crate) fn event(name: &str, data: &impl Serialize) -> Bytes {
    let head = head(name);
    [head.as_bytes(), &to_json(data), END].concat().into()
}

/// The data of an event, which shares its bytes.
pub(crate) fn data(name: &str, event: &Bytes) -> Bytes {
    let (start, end) = (head(name).len(), event.len().saturating_sub(END.len()));
    if start <= end { event.slice(start..end) } else { Bytes::new() }
}

fn head(name: &str) -> String {
    format!("event: {name}\ndata: ")
}

/// Bytes that hold until something else has a number of its own.
#[derive(Debug, Default)]
pub(crate) struct Kept(Mutex<Option<(u64, Bytes)>>);

impl Kept {
    /// Those for `number`, made if they are not there.
    pub(crate) fn get(&self, number: u64, make: impl FnOnce() -> Bytes) -> Bytes {
        let mut kept = self.0.lock();
        match &*kept {
            Some((known, bytes)) if *known == number => bytes.clone(),
            _ => kept.insert((number, make())).1.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_has_a_name_and_one_line_of_data() {
        let event = event("tick", &["two\nlines"]);
        assert_eq!(event, &b"event: tick\ndata: [\"two\\nlines\"]\n\n"[..]);
        assert_eq!(data("tick", &event), &b"[\"two\\nlines\"]"[..]);
    }

    #[test]
    fn what_is_kept_is_made_once() {
        let kept = Kept::default();
        let get = |number, text: &'static str| kept.get(number, || Bytes::from_static(text.as_bytes()));
        assert_eq!((get(1, "a"), get(1, "b"), get(2, "c")), ("a".into(), "a".into(), "c".into()));
    }
}
