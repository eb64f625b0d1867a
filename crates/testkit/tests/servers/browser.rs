//! The browser shows pages, does what people do with them, and tells what went wrong.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::time::Duration;
use std::{fs, thread};

use tidegate_testkit::Browser;

use crate::{SOON, exists};

/// Longer than a page takes on a machine that is busy with other things.
const PATIENCE: Duration = tidegate_testkit::wait::HANG_LIMIT;

const PAGE: &str = r#"<!doctype html><title>Page</title>
<style>body { margin: 0; background: rgb(255, 255, 255) }
@media (prefers-color-scheme: dark) { body { background: rgb(1, 2, 3) } }</style>
<h1 data-kind="main">Hello</h1><p id="hidden" style="display: none">later</p>
<input id="name" value="before"><button id="greet">Greet</button><output></output>
<script src="page.js"></script><script>document.title = 'forbidden';</script>"#;

const SCRIPT: &str = r"
document.querySelector('#greet').addEventListener('click', () => {
    document.querySelector('output').textContent = 'Hi ' + document.querySelector('#name').value;
    setTimeout(() => { document.querySelector('#hidden').style.display = 'block'; }, 50);
});
console.warn('careful');
setTimeout(() => { throw new Error('nobody catches this'); });";

/// Serves the page, whose own scripts are allowed and no others, for as long as the test process lives.
fn serve() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            // The browser opens connections ahead of need.
            thread::spawn(move || {
                let (mut head, mut piece) = (Vec::new(), [0; 4096]);
                while !head.ends_with(b"\r\n\r\n") {
                    match stream.read(&mut piece) {
                        Ok(read) if read > 0 => head.extend(&piece[..read]),
                        _ => return,
                    }
                }
                let (kind, body) = match () {
                    () if head.starts_with(b"GET / ") => ("text/html", PAGE),
                    () if head.starts_with(b"GET /page.js ") => ("text/javascript", SCRIPT),
                    () => ("text/plain", ""),
                };
                let policy = "default-src 'self'; style-src 'self' 'unsafe-inline'";
                let length = body.len();
                let answer = format!(
                    "HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\nconnection: close\r\n\
                     content-security-policy: {policy}\r\n\r\n{body}"
                );
                stream.write_all(answer.as_bytes()).ok();
            });
        }
    });
    url
}

/// Width and height of a PNG file.
fn size(path: &Path) -> (u32, u32) {
    let image = fs::read(path).unwrap();
    assert!(image.starts_with(b"\x89PNG\r\n\x1a\n"));
    let number = |at: usize| u32::from_be_bytes(image[at..at + 4].try_into().unwrap());
    (number(16), number(20))
}

#[tokio::test]
async fn pages_are_shown_used_and_judged() {
    let (url, folder) = (serve(), tempfile::tempdir().unwrap());
    let browser = Browser::start().await;
    browser.goto(&url).await;
    assert_eq!(browser.text("h1").await, "Hello");
    assert_eq!(browser.attribute("h1", "data-kind").await.as_deref(), Some("main"));
    assert_eq!(browser.attribute("h1", "data-none").await, None);
    assert_eq!((browser.count("input, button").await, browser.count("video").await), (2, 0));

    browser.type_in("#name", "Wilma").await;
    browser.click("#greet").await;
    browser.wait_for("#hidden", PATIENCE).await;
    assert_eq!(browser.text("output").await, "Hi Wilma");
    browser.press("#name", "!").await;
    let value = browser.wait_until("document.querySelector('#name').value", PATIENCE).await;
    assert_eq!(value, "Wilma!");
    assert_eq!(browser.eval("return Promise.resolve(document.title)").await, "Page");

    let colour = "return getComputedStyle(document.body).backgroundColor";
    browser.prefer_dark(true).await;
    assert_eq!(browser.eval(colour).await, "rgb(1, 2, 3)");
    browser.prefer_dark(false).await;
    assert_eq!(browser.eval(colour).await, "rgb(255, 255, 255)");

    // Narrower than any window can be.
    for wanted in [(320, 480), (1280, 720)] {
        browser.resize(wanted.0, wanted.1).await;
        let path = folder.path().join("page.png");
        browser.screenshot(&path).await;
        assert_eq!(size(&path), wanted);
    }

    let console = browser.console().await;
    let said = |level: &str, source: &str, text: &str| {
        console.iter().any(|one| one.level == level && one.source == source && one.text.contains(text))
    };
    assert!(said("WARNING", "console-api", "careful"), "{console:#?}");
    assert!(said("SEVERE", "javascript", "nobody catches this"), "{console:#?}");
    assert!(said("SEVERE", "security", "Content Security Policy"), "{console:#?}");
    assert_eq!(browser.console().await, console, "what was said is said once, and stays");
}

#[tokio::test]
async fn nothing_of_the_browser_stays() {
    let browser = Browser::start().await;
    let profile = browser.profile();
    let own = || -> Vec<u32> {
        let processes = fs::read_dir("/proc")
            .unwrap()
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
        processes
            .filter(|pid| {
                let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
                exists(*pid) && String::from_utf8_lossy(&command).contains(profile.to_str().unwrap())
            })
            .collect()
    };
    assert!(own().len() > 1, "the browser is many processes: {:?}", own());
    drop(browser);
    assert_eq!(own(), Vec::<u32>::new());
    assert!(!profile.exists());
}

#[tokio::test]
#[should_panic(expected = "in vain until")]
async fn what_does_not_come_is_not_waited_for_for_ever() {
    let browser = Browser::start().await;
    browser.wait_for("#never", SOON / 100).await;
}
