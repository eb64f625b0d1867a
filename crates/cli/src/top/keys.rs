//! What keys ask for.

use ratatui::crossterm::event::{Event, KeyCode, KeyEventKind, KeyModifiers};

use super::screen::View;

/// What a key asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Quit,
    /// Out of the help if it is shown, else the end.
    Leave,
    Help,
    Pause,
    Redraw,
    Forward,
    Back,
    Show(View),
    Up,
    Down,
    PageUp,
    PageDown,
}

/// What something that happened at the terminal asks for, if anything.
pub(super) fn action(event: &Event) -> Option<Action> {
    let key = event.as_key_event().filter(|key| key.kind != KeyEventKind::Release)?;
    if key.modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT) {
        return match key.code {
            KeyCode::Char('c') => Some(Action::Quit),
            KeyCode::Char('l') => Some(Action::Redraw),
            _ => None,
        };
    }
    Some(match key.code {
        KeyCode::Char('q') => Action::Quit,
        KeyCode::Esc => Action::Leave,
        KeyCode::Char('?' | 'h') => Action::Help,
        KeyCode::Char('p' | ' ') => Action::Pause,
        KeyCode::Char('r') => Action::Redraw,
        KeyCode::Tab | KeyCode::Right => Action::Forward,
        KeyCode::BackTab | KeyCode::Left => Action::Back,
        KeyCode::Up | KeyCode::Char('k') => Action::Up,
        KeyCode::Down | KeyCode::Char('j') => Action::Down,
        KeyCode::PageUp => Action::PageUp,
        KeyCode::PageDown => Action::PageDown,
        KeyCode::Char(digit) => {
            let number = usize::try_from(digit.to_digit(10)?).ok()?;
            Action::Show(*View::ALL.get(number.checked_sub(1)?)?)
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use ratatui::crossterm::event::KeyEvent;

    use super::*;

    #[test]
    fn keys_and_what_they_ask_for() {
        let press = |code, modifiers| action(&Event::Key(KeyEvent::new(code, modifiers)));
        let plain = |code| press(code, KeyModifiers::NONE);
        assert_eq!(plain(KeyCode::Char('q')), Some(Action::Quit));
        assert_eq!(plain(KeyCode::Esc), Some(Action::Leave));
        assert_eq!(press(KeyCode::Char('c'), KeyModifiers::CONTROL), Some(Action::Quit));
        assert_eq!(press(KeyCode::Char('q'), KeyModifiers::CONTROL), None);
        assert_eq!(plain(KeyCode::Char('c')), None);
        assert_eq!(press(KeyCode::BackTab, KeyModifiers::SHIFT), Some(Action::Back));
        assert_eq!(plain(KeyCode::Tab), Some(Action::Forward));
        assert_eq!(plain(KeyCode::Char('4')), Some(Action::Show(View::Fleet)));
        assert_eq!((plain(KeyCode::Char('0')), plain(KeyCode::Char('6'))), (None, None));
        assert_eq!(action(&Event::Resize(1, 1)), None);
        let released = KeyEvent::new_with_kind(KeyCode::Char('q'), KeyModifiers::NONE, KeyEventKind::Release);
        assert_eq!(action(&Event::Key(released)), None);
    }
}
