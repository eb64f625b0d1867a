//! The same as plain text, for scripts and for those who cannot use a screen that changes.

use std::io::{self, Write};

use super::model::Model;
use super::palette::Palette;
use super::panels;
use super::screen::Screen;

/// How wide it is: nobody knows what reads it.
const WIDTH: usize = 100;

/// Writes everything that is known.
pub(super) fn write(out: &mut dyn Write, model: &Model, screen: &Screen) -> io::Result<()> {
    let palette = Palette::plain();
    writeln!(out, "{}", panels::header(model, screen, palette))?;
    let lists = [
        panels::notices(model, screen, WIDTH, usize::MAX, palette),
        panels::rates(model, WIDTH, palette),
        panels::store(model, WIDTH, palette),
        panels::rules(model, WIDTH, palette),
        panels::tiers(model, WIDTH, palette),
        panels::hot_keys(model, WIDTH, palette),
        panels::refused(model, WIDTH, palette),
        panels::recent(model, WIDTH, palette),
    ];
    for (index, lines) in lists.iter().filter(|lines| !lines.is_empty()).enumerate() {
        if index > 0 {
            writeln!(out)?;
        }
        for line in lines {
            writeln!(out, "{}", line.to_string().trim_end())?;
        }
    }
    Ok(())
}
