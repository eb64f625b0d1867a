//! Taking one picture.

use std::path::PathBuf;

use serde_json::json;

use super::super::Site;

/// The window, how many pixels of the picture are one of its, and whether all of the page is wanted or what the window shows.
pub(super) struct Format {
    width: u32,
    height: u32,
    scale: f64,
    whole: bool,
}

/// Two of three things fit; the picture has the whole page.
pub(super) const LAPTOP: Format = Format { width: 1366, height: 768, scale: 1.0, whole: true };

pub(super) const PHONE: Format = Format { width: 390, height: 844, scale: 1.0, whole: false };

/// A page for 3840 × 2160 in a picture of half of that.
pub(super) const WALL: Format = Format { width: 3840, height: 2160, scale: 0.5, whole: false };

/// The first bytes of every PNG; its width and height are further on.
const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR";

/// Takes a picture, and looks whether it is one.
pub(super) async fn picture(site: &Site, path: PathBuf, format: Format, dark: bool) {
    let Format { width, mut height, scale, whole } = format;
    let theme = if dark { "dark" } else { "light" };
    site.browser.prefer_dark(dark).await;
    site.until(&format!("document.documentElement.dataset.theme === '{theme}'")).await;
    site.browser.devtools("Emulation.setScrollbarsHidden", json!({"hidden": true})).await;
    site.window(width, height, scale).await;
    if whole {
        let all = site.browser.eval("return document.documentElement.scrollHeight").await;
        height = u32::try_from(all.as_u64().unwrap()).unwrap();
        site.window(width, height, scale).await;
    }
    // Two frames later, charts have their size.
    let drawn = "return new Promise(done => requestAnimationFrame(() => setTimeout(() => requestAnimationFrame(() => done(1)), 300)))";
    site.browser.eval(drawn).await;
    site.browser.eval("scrollTo(0, 0); document.activeElement.blur()").await;
    site.browser.screenshot(&path).await;
    let bytes = std::fs::read(&path).unwrap();
    assert!(bytes.starts_with(PNG), "{} is no picture", path.display());
    let size = |at: usize| f64::from(u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap()));
    let expected = (f64::from(width) * scale, f64::from(height) * scale);
    assert_eq!((size(16), size(20)), expected, "{}", path.display());
    let all = site.browser.eval("return document.documentElement.scrollHeight").await;
    println!("{}: {} bytes; the page is {all} high", path.display(), bytes.len());
}

impl Site {
    async fn window(&self, width: u32, height: u32, scale: f64) {
        let size = json!({"width": width, "height": height, "deviceScaleFactor": scale, "mobile": false});
        self.browser.devtools("Emulation.setDeviceMetricsOverride", size).await;
        self.until(&format!("innerWidth === {width} && innerHeight === {height}")).await;
    }
}
