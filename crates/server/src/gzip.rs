//! Gzip, for those who read the admin listener: what it tells is long, and much of it is the same words again.
//!
//! Nothing that is told there is secret from whoever may read it, and none of it is put together with what is: lengths give nothing
//! away.

use std::io::Write as _;

use axum::body::{Body, to_bytes};
use bytes::Bytes;
use flate2::write::GzEncoder;
use flate2::{Compress, Compression, FlushCompress};
use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH, ETAG, HeaderMap, HeaderValue, VARY};
use http::{Response, StatusCode};
use hyper::body::Body as _;

/// How it is called.
pub(crate) const NAME: HeaderValue = HeaderValue::from_static("gzip");

/// What is shorter is sent as it is.
const WORTH_IT: usize = 1_024;

/// What a stream of [`part`]s begins with (RFC 1952): deflated, no name, no time, from no system in particular.
pub(crate) const HEAD: Bytes = Bytes::from_static(&[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff]);

/// Whether whoever sends these headers reads it.
pub(crate) fn is_read(headers: &HeaderMap) -> bool {
    let (mut gzip, mut any) = (None, None);
    let values = headers.get_all(ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    for coding in values.flat_map(|value| value.split(',')) {
        let (name, weight) = coding.split_once(';').unwrap_or((coding, "q=1"));
        let weight = weight.trim().trim_start_matches(['q', 'Q']).trim_start_matches('=');
        let wanted = weight.parse::<f32>().is_ok_and(|weight| weight > 0.0);
        match name.trim() {
            name if name.eq_ignore_ascii_case("gzip") => gzip = Some(wanted),
            "*" => any = Some(wanted),
            _ => {}
        }
    }
    gzip.or(any).unwrap_or(false)
}

/// `bytes` in as few as possible, for what is packed once and sent often.
pub(crate) fn smallest(bytes: &[u8]) -> Bytes {
    whole(bytes, Compression::best())
}

fn whole(bytes: &[u8], effort: Compression) -> Bytes {
    let mut packed = GzEncoder::new(Vec::with_capacity(bytes.len() / 4), effort);
    // Into memory: that cannot fail.
    packed.write_all(bytes).ok();
    packed.finish().unwrap_or_default().into()
}

/// `bytes` as a part of a stream that begins with [`HEAD`]. It can be read once it is there, whatever was before it: so it is packed
/// once for all who read it, though their streams began at other times.
pub(crate) fn part(bytes: &[u8]) -> Bytes {
    let mut deflate = Compress::new(Compression::fast(), false);
    let mut packed = Vec::with_capacity(bytes.len() / 4 + 64);
    let mut left = bytes;
    loop {
        let before = deflate.total_in();
        // Into memory, from a state that is not over: that cannot fail.
        let packing = deflate.compress_vec(left, &mut packed, FlushCompress::Sync);
        let read = usize::try_from(deflate.total_in() - before).unwrap_or(left.len());
        left = &left[read..];
        // Room that is left is room that was not needed.
        if packing.is_err() || (left.is_empty() && packed.len() < packed.capacity()) {
            return packed.into();
        }
        packed.reserve(packed.len().max(64));
    }
}

/// The answer to somebody who reads it, packed if that is worth it. What has a tag is left alone: that is of its very bytes.
pub(crate) async fn packed(response: Response<Body>) -> Response<Body> {
    let length = response.body().size_hint().exact().and_then(|length| usize::try_from(length).ok());
    let known = response.headers();
    let left_alone = known.contains_key(CONTENT_ENCODING) || known.contains_key(ETAG);
    let Some(length) = length.filter(|length| *length >= WORTH_IT && !left_alone) else { return response };
    let (mut head, body) = response.into_parts();
    // It is all there already.
    let Ok(bytes) = to_bytes(body, length).await else {
        let mut lost = Response::new(Body::empty());
        *lost.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
        return lost;
    };
    head.headers.remove(CONTENT_LENGTH);
    head.headers.insert(CONTENT_ENCODING, NAME);
    head.headers.append(VARY, HeaderValue::from_static("accept-encoding"));
    Response::from_parts(head, Body::from(whole(&bytes, Compression::fast())))
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use flate2::read::GzDecoder;
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    /// What can be read of a stream that goes on.
    fn read(stream: &[u8]) -> Vec<u8> {
        let (mut decoder, mut told) = (GzDecoder::new(stream), Vec::new());
        // It ends where there is no end yet.
        assert!(decoder.read_to_end(&mut told).is_err());
        told
    }

    proptest! {
        /// Any parts in any order can be read, each as soon as it is there.
        #[test]
        fn parts_stand_for_themselves(texts in vec(("[a-z]{1,4}", 0_usize..30_000), 1..6)) {
            let texts: Vec<Vec<u8>> =
                texts.into_iter().map(|(word, times)| word.repeat(times).into_bytes()).collect();
            let (mut stream, mut told) = (HEAD.to_vec(), Vec::new());
            for text in &texts {
                stream.extend_from_slice(&part(text));
                told.extend_from_slice(text);
                prop_assert_eq!(&read(&stream), &told);
            }
        }

        #[test]
        fn what_cannot_be_packed_is_told_all_the_same(bytes in vec(any::<u8>(), 0..5_000)) {
            prop_assert_eq!(read(&[&HEAD[..], &part(&bytes)].concat()), bytes);
        }
    }

    #[test]
    fn it_is_for_those_who_ask_for_it() {
        for (said, wanted) in [
            ("gzip", true),
            ("GZIP", true),
            ("deflate, gzip;q=0.5, br", true),
            ("gzip;q=0", false),
            ("gzip ; q=0.000", false),
            ("*", true),
            ("*;q=0", false),
            ("gzip;q=0, *", false),
            ("identity", false),
            ("xgzip", false),
            ("gzip;q=x", false),
            ("", false),
        ] {
            let headers = HeaderMap::from_iter([(ACCEPT_ENCODING, HeaderValue::from_static(said))]);
            assert_eq!(is_read(&headers), wanted, "{said}");
        }
        assert!(!is_read(&HeaderMap::new()));
    }

    #[tokio::test]
    async fn only_what_is_long_and_has_no_tag_is_packed() {
        let text = "the same words again ".repeat(100);
        let long = packed(Response::new(Body::from(text.clone()))).await;
        assert_eq!(long.headers()[CONTENT_ENCODING], "gzip");
        let bytes = to_bytes(long.into_body(), usize::MAX).await.unwrap();
        let mut read = String::new();
        GzDecoder::new(&*bytes).read_to_string(&mut read).unwrap();
        assert!(read == text && bytes.len() < text.len() / 4, "{} bytes", bytes.len());

        let short = packed(Response::new(Body::from("short"))).await;
        let tagged = Response::builder().header(ETAG, "\"7\"").body(Body::from(text)).unwrap();
        for plain in [short, packed(tagged).await] {
            assert!(!plain.headers().contains_key(CONTENT_ENCODING));
        }
    }
}
