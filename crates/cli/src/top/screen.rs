//! What the one who looks has chosen to see.

use super::keys::Action;
use super::model::Model;

/// How far one moves with a key for pages.
const PAGE: usize = 10;

/// What can be looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum View {
    Overview,
    Rules,
    HotKeys,
    Fleet,
    Events,
}

impl View {
    /// In the order of their keys.
    pub(super) const ALL: [Self; 5] = [Self::Overview, Self::Rules, Self::HotKeys, Self::Fleet, Self::Events];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Overview => "Overview",
            Self::Rules => "Rules",
            Self::HotKeys => "Hot keys",
            Self::Fleet => "Fleet",
            Self::Events => "Events",
        }
    }

    /// The one `steps` further, around the end.
    fn further(self, steps: usize) -> Self {
        let here = Self::ALL.iter().position(|view| *view == self).unwrap_or(0);
        Self::ALL[(here + steps) % Self::ALL.len()]
    }
}

/// What to do after a key.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Show what there is now.
    Draw,
    /// The same, on a screen that something else has written on.
    DrawAnew,
    End,
}

/// What is chosen.
#[derive(Debug)]
pub(super) struct Screen {
    place: String,
    view: View,
    help: bool,
    scroll: usize,
    /// What was known when it was told to hold.
    held: Option<Box<Model>>,
}

impl Screen {
    /// The overview of the server at `place`.
    pub(super) fn new(place: String) -> Self {
        Self { place, view: View::Overview, help: false, scroll: 0, held: None }
    }

    /// Where the server is.
    pub(super) fn place(&self) -> &str {
        &self.place
    }

    pub(super) fn view(&self) -> View {
        self.view
    }

    pub(super) fn shows_help(&self) -> bool {
        self.help
    }

    pub(super) fn is_paused(&self) -> bool {
        self.held.is_some()
    }

    /// What to show instead of what is known now.
    pub(super) fn held(&self) -> Option<&Model> {
        self.held.as_deref()
    }

    /// How many lines are above what is shown, of `lines` in a place for `room` of them.
    pub(super) fn scroll(&mut self, lines: usize, room: usize) -> usize {
        self.scroll = self.scroll.min(lines.saturating_sub(room));
        self.scroll
    }

    /// Does what a key asks for.
    pub(super) fn act(&mut self, action: Action, now: &Model) -> Next {
        match action {
            Action::Leave if self.help => self.help = false,
            Action::Quit | Action::Leave => return Next::End,
            Action::Redraw => return Next::DrawAnew,
            Action::Help => self.help = !self.help,
            Action::Pause if self.held.is_some() => self.held = None,
            Action::Pause => self.held = Some(Box::new(now.clone())),
            Action::Forward => self.show(self.view.further(1)),
            Action::Back => self.show(self.view.further(View::ALL.len() - 1)),
            Action::Show(view) => self.show(view),
            Action::Down => self.scroll += 1,
            Action::Up => self.scroll = self.scroll.saturating_sub(1),
            Action::PageDown => self.scroll += PAGE,
            Action::PageUp => self.scroll = self.scroll.saturating_sub(PAGE),
        }
        Next::Draw
    }

    fn show(&mut self, view: View) {
        (self.view, self.help, self.scroll) = (view, false, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn views_come_around_and_help_is_left_first() {
        let (mut screen, model) = (Screen::new("x".to_owned()), Model::default());
        screen.act(Action::Back, &model);
        assert_eq!(screen.view(), View::Events);
        screen.act(Action::Forward, &model);
        assert_eq!(screen.view(), View::Overview);
        screen.act(Action::Help, &model);
        assert!(screen.shows_help());
        assert_eq!(screen.act(Action::Leave, &model), Next::Draw);
        assert!(!screen.shows_help());
        assert_eq!(screen.act(Action::Leave, &model), Next::End);
        screen.act(Action::Help, &model);
        assert_eq!(screen.act(Action::Quit, &model), Next::End);
    }

    #[test]
    fn what_is_held_stays_as_it_was() {
        let (mut screen, mut model) = (Screen::new("x".to_owned()), Model::default());
        screen.act(Action::Pause, &model);
        model.unread = 7;
        assert_eq!(screen.held().map(|held| held.unread), Some(0));
        screen.act(Action::Pause, &model);
        assert!(!screen.is_paused());
    }

    #[test]
    fn nobody_moves_beyond_the_end() {
        let (mut screen, model) = (Screen::new("x".to_owned()), Model::default());
        for _ in 0..5 {
            screen.act(Action::PageDown, &model);
        }
        assert_eq!(screen.scroll(30, 20), 10);
        screen.act(Action::Up, &model);
        assert_eq!((screen.scroll(30, 20), screen.scroll(5, 20)), (9, 0));
    }
}
