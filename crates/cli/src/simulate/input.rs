//! Recorded requests as they lie about: plain or compressed, in a file or on standard input.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::path::Path;

use flate2::bufread::MultiGzDecoder;

use super::progress::Progress;

/// What is read at once: large enough that the cost of asking does not show.
const CHUNK: usize = 1 << 20;

/// The longest line: as much as a check may have. A file without line ends must not fill the memory.
pub(crate) const MAX_LINE_BYTES: usize = 64 * 1024;

/// The first bytes of everything gzip writes.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// The lines of an input, one after the other.
pub(crate) struct Lines {
    reader: Box<dyn BufRead>,
    line: Vec<u8>,
    number: u64,
}

/// One line without its end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Line<'a> {
    /// Its number, from 1.
    pub(crate) number: u64,
    /// What it says; `None` if it is longer than [`MAX_LINE_BYTES`].
    pub(crate) text: Option<&'a [u8]>,
}

impl Lines {
    /// Opens a file, or standard input for `-`.
    pub(crate) fn open(path: &Path, progress: &Progress) -> io::Result<Self> {
        if path.as_os_str() == "-" {
            return Self::new(progress.watch(io::stdin().lock(), None));
        }
        let file = File::open(path)?;
        let metadata = file.metadata()?;
        if metadata.is_dir() {
            return Err(io::Error::new(io::ErrorKind::IsADirectory, "it is a folder"));
        }
        let bytes = metadata.is_file().then_some(metadata.len());
        Self::new(progress.watch(file, bytes))
    }

    /// Reads lines from `reader`, decompressing them if need be.
    pub(crate) fn new(reader: impl Read + 'static) -> io::Result<Self> {
        let mut reader = BufReader::with_capacity(CHUNK, reader);
        let mut start = Vec::new();
        reader.by_ref().take(GZIP.len() as u64).read_to_end(&mut start)?;
        let compressed = start == GZIP;
        let whole = Cursor::new(start).chain(reader);
        let reader: Box<dyn BufRead> = if compressed {
            // Logs that were rotated and joined are several compressed streams in a row.
            Box::new(BufReader::with_capacity(CHUNK, MultiGzDecoder::new(whole)))
        } else {
            Box::new(whole)
        };
        Ok(Self { reader, line: Vec::new(), number: 0 })
    }

    /// The next line that is not blank.
    pub(crate) fn next(&mut self) -> io::Result<Option<Line<'_>>> {
        loop {
            self.line.clear();
            self.number += 1;
            let limit = MAX_LINE_BYTES as u64 + 2;
            let read = self.reader.by_ref().take(limit).read_until(b'\n', &mut self.line)?;
            if read == 0 {
                return Ok(None);
            }
            let ended = self.line.last() == Some(&b'\n');
            if !ended && read as u64 == limit {
                self.reader.skip_until(b'\n')?;
                return Ok(Some(Line { number: self.number, text: None }));
            }
            if !self.line.trim_ascii().is_empty() {
                break;
            }
        }
        Ok(Some(Line { number: self.number, text: Some(content(&self.line, self.number)) }))
    }

    /// How far reading has come.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }
}

/// A line without its end, and the first one without the mark some editors put before it.
fn content(line: &[u8], number: u64) -> &[u8] {
    let line = line.trim_ascii_end();
    if number == 1 { line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line) } else { line }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn lines(bytes: Vec<u8>) -> Vec<(u64, Option<String>)> {
        let mut lines = Lines::new(Cursor::new(bytes)).unwrap();
        let mut all = Vec::new();
        while let Some(line) = lines.next().unwrap() {
            all.push((line.number, line.text.map(|text| String::from_utf8(text.to_vec()).unwrap())));
        }
        all
    }

    fn gzip(text: &str) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(text.as_bytes()).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn blank_lines_count_but_say_nothing() {
        let expected = vec![(1, Some("a".to_owned())), (4, Some("b".to_owned()))];
        assert_eq!(lines(b"\xef\xbb\xbfa\r\n\n  \nb".to_vec()), expected);
        assert_eq!(lines(Vec::new()), []);
        assert_eq!(lines(b"x".to_vec()), [(1, Some("x".to_owned()))]);
    }

    #[test]
    fn compressed_streams_in_a_row_are_one_input() {
        let joined = [gzip("a\nb\n"), gzip("c\n")].concat();
        assert_eq!(lines(joined), lines(b"a\nb\nc\n".to_vec()));
    }

    #[test]
    fn a_line_that_is_too_long_is_passed_over() {
        let longest = "x".repeat(MAX_LINE_BYTES);
        let text = format!("{longest}\n{longest}yyy\nz\n");
        assert_eq!(lines(text.into_bytes()), [(1, Some(longest)), (2, None), (3, Some("z".to_owned()))]);
    }

    #[test]
    fn a_cut_off_compressed_file_is_an_error() {
        let mut bytes = gzip("a\nb\nc\n");
        bytes.truncate(bytes.len() - 6);
        let mut lines = Lines::new(Cursor::new(bytes)).unwrap();
        assert!((0..9).any(|_| lines.next().is_err()));
    }
}
