//! Colours that everybody can tell apart, each beside a word that says the same.

use ratatui::style::{Color, Modifier, Style};

/// How what is shown looks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Palette {
    colours: bool,
}

impl Palette {
    /// With colours, unless `NO_COLOR` is set to anything.
    pub(super) fn of_environment() -> Self {
        Self { colours: std::env::var_os("NO_COLOR").is_none_or(|set| set.is_empty()) }
    }

    /// Without colours.
    pub(super) fn plain() -> Self {
        Self { colours: false }
    }

    /// With them, whatever the environment says.
    #[cfg(test)]
    pub(super) fn coloured() -> Self {
        Self { colours: true }
    }

    /// What is said on top of something else.
    pub(super) fn remark() -> Style {
        Style::new().remove_modifier(Modifier::UNDERLINED).add_modifier(Modifier::DIM)
    }

    fn colour(self, colour: Color) -> Style {
        if self.colours { Style::new().fg(colour) } else { Style::new() }
    }

    /// Blue and not green: those who cannot tell green from red see blue.
    pub(super) fn good(self) -> Style {
        self.colour(Color::Cyan)
    }

    pub(super) fn warning(self) -> Style {
        self.colour(Color::Yellow).add_modifier(Modifier::BOLD)
    }

    pub(super) fn critical(self) -> Style {
        self.colour(Color::LightRed).add_modifier(Modifier::BOLD | Modifier::REVERSED)
    }

    pub(super) fn faint(self) -> Style {
        Style::new().add_modifier(Modifier::DIM)
    }

    pub(super) fn strong(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    /// The heads of tables.
    pub(super) fn head(self) -> Style {
        Style::new().add_modifier(Modifier::UNDERLINED)
    }

    /// Whatever is chosen.
    pub(super) fn chosen(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    /// As bad as a word says it is: modes, severities, breakers and states of nodes.
    pub(super) fn word(self, word: &str) -> Style {
        match word {
            "normal" | "closed" | "alive" | "live" => self.good(),
            "degraded" | "half-open" | "suspect" | "warning" => self.warning(),
            "emergency" | "open" | "lost" | "critical" => self.critical(),
            _ => Style::new(),
        }
    }
}
