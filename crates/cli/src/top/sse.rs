//! Server-sent events out of bytes as they come: no sockets, no clock, bounded.

/// The longest line, and the most data of one message, that are taken.
pub(super) const MAX_BYTES: usize = 8 << 20;

/// The name of a message without one.
const UNNAMED: &str = "message";

/// One event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Message {
    pub(super) event: String,
    pub(super) data: String,
}

/// More in one line or message than anybody should send.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooLong;

/// What has been read of a stream. After [`TooLong`] the stream is of no use any more.
#[derive(Debug)]
pub(super) struct Parser {
    limit: usize,
    line: Vec<u8>,
    event: Vec<u8>,
    data: Vec<u8>,
    /// The last byte was a carriage return: a line feed that follows belongs to it.
    after_return: bool,
    /// Nothing was read yet, so that a byte order mark may come.
    first_line: bool,
}

impl Parser {
    /// At the beginning of a stream, with room for `limit` bytes in a line, and in a message.
    pub(super) fn new(limit: usize) -> Self {
        Self {
            limit,
            line: Vec::new(),
            event: Vec::new(),
            data: Vec::new(),
            after_return: false,
            first_line: true,
        }
    }

    /// The messages that end within `bytes`, however they were cut into pieces on their way.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<Vec<Message>, TooLong> {
        let mut found = Vec::new();
        let mut rest = bytes;
        if let (true, Some((b'\n', after))) = (self.after_return, rest.split_first()) {
            rest = after;
        }
        self.after_return &= bytes.is_empty();
        while let Some(end) = rest.iter().position(|b| matches!(b, b'\n' | b'\r')) {
            self.extend(&rest[..end])?;
            found.extend(self.end_line()?);
            let returned = rest[end] == b'\r';
            rest = &rest[end + 1..];
            match rest.first() {
                Some(b'\n') if returned => rest = &rest[1..],
                None => self.after_return = returned,
                Some(_) => {}
            }
        }
        self.extend(rest)?;
        Ok(found)
    }

    fn extend(&mut self, bytes: &[u8]) -> Result<(), TooLong> {
        if self.line.len() + bytes.len() > self.limit {
            return Err(TooLong);
        }
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    fn end_line(&mut self) -> Result<Option<Message>, TooLong> {
        let read = std::mem::take(&mut self.line);
        let line = match read.strip_prefix("\u{feff}".as_bytes()) {
            Some(after) if self.first_line => after,
            _ => &read,
        };
        self.first_line = false;
        if line.is_empty() {
            return Ok(self.end_message());
        }
        let (field, value) = match line.iter().position(|b| *b == b':') {
            Some(colon) => (&line[..colon], &line[colon + 1..]),
            None => (line, &[][..]),
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match field {
            b"event" => self.event = value.to_vec(),
            b"data" if self.data.len() + value.len() >= self.limit => return Err(TooLong),
            b"data" => {
                self.data.extend_from_slice(value);
                self.data.push(b'\n');
            }
            // Comments, and what nobody here asked for.
            _ => {}
        }
        Ok(None)
    }

    fn end_message(&mut self) -> Option<Message> {
        let (event, mut data) = (std::mem::take(&mut self.event), std::mem::take(&mut self.data));
        // Without data it is none; otherwise the last line break is one too many.
        data.pop()?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let event = if event.is_empty() { UNNAMED.to_owned() } else { text(&event) };
        Some(Message { event, data: text(&data) })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn message(event: &str, data: &str) -> Message {
        Message { event: event.to_owned(), data: data.to_owned() }
    }

    #[test]
    fn messages_as_the_standard_has_them() {
        let stream = "\u{feff}event: tick\ndata: {\"a\":1}\n\n: nothing new\n\ndata:x\r\ndata: y\r\n\r\n\
                      event: empty\n\nid: 7\rdata\r\rretry: 1\nevent:a:b\ndata:  c\n\ndata: not ended";
        let expected = [
            message("tick", "{\"a\":1}"),
            message("message", "x\ny"),
            message("message", ""),
            message("a:b", " c"),
        ];
        assert_eq!(Parser::new(100).push(stream.as_bytes()).unwrap(), expected);
    }

    #[test]
    fn too_much_is_refused_in_a_line_and_in_a_message() {
        let mut parser = Parser::new(10);
        assert_eq!(parser.push(b"data: 1234\n\n").unwrap(), [message("message", "1234")]);
        assert_eq!(parser.push(b"data: 12345\n\n"), Err(TooLong));
        let mut parser = Parser::new(10);
        parser.push(b": no end").unwrap();
        assert_eq!(parser.push(b" of it"), Err(TooLong));
        let mut parser = Parser::new(10);
        assert_eq!(parser.push(b"data: 1\ndata: 2\ndata: 3\ndata: 4\n").unwrap(), []);
        assert_eq!(parser.push(b"data: 567\n"), Err(TooLong));
    }

    /// Pieces of streams that are likely to matter.
    fn piece() -> impl Strategy<Value = Vec<u8>> {
        prop_oneof![
            Just(b"\n".to_vec()),
            Just(b"\r".to_vec()),
            Just(b"\r\n".to_vec()),
            Just(b"\n\n".to_vec()),
            Just(b"data: ".to_vec()),
            Just(b"event:tick".to_vec()),
            Just("\u{feff}".as_bytes().to_vec()),
            Just("\u{1f980}".as_bytes().to_vec()),
            proptest::collection::vec(any::<u8>(), 0..6),
        ]
    }

    proptest! {
        #[test]
        fn any_split_gives_the_same_messages(
            pieces in proptest::collection::vec(piece(), 0..40),
            cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..10),
        ) {
            let stream = pieces.concat();
            let whole = Parser::new(64).push(&stream);
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(stream.len() + 1)).collect();
            cuts.sort_unstable();
            let (mut parser, mut from, mut found) = (Parser::new(64), 0, Ok(Vec::new()));
            for to in cuts.into_iter().chain([stream.len()]) {
                let more = parser.push(&stream[from..to]);
                found = found.and_then(|mut found: Vec<Message>| { found.extend(more?); Ok(found) });
                from = to;
            }
            prop_assert_eq!(found, whole);
        }

        #[test]
        fn never_more_is_kept_than_allowed(pieces in proptest::collection::vec(piece(), 0..60)) {
            let mut parser = Parser::new(16);
            for piece in pieces {
                let Ok(found) = parser.push(&piece) else { break };
                prop_assert!(found.iter().all(|message| message.data.len() <= 3 * 16));
                prop_assert!(parser.line.len() <= 16 && parser.data.len() <= 16 && parser.event.len() <= 16);
            }
        }
    }
}
