//! The screen that changes.

use std::process::ExitCode;
use std::thread;

use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event};
use tokio::sync::{mpsc, watch};

use super::WAITING;
use super::feed::{Feed, News};
use super::keys::action;
use super::model::Model;
use super::palette::Palette;
use super::screen::{Next, Screen, View};
use super::view::draw;
use crate::failure::{Failure, Outcome};
use crate::signals::Signals;

/// The terminal as it was before, whatever happens in between; a panic gives it back before it is told.
struct Restored(DefaultTerminal);

impl Restored {
    fn take() -> Result<Self, Failure> {
        ratatui::try_init().map(Self).map_err(|error| {
            ratatui::restore();
            Failure::Failed(format!("cannot draw on this terminal: {error}\nUse --once for plain text."))
        })
    }
}

impl Drop for Restored {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

/// Shows what comes until a key or a signal ends it, or the server does not want to tell.
pub(super) async fn watch(feed: &Feed<'_>, screen: Screen) -> Outcome {
    let told = Signals::listen()?.told(1);
    let mut terminal = Restored::take()?;
    let (send, news) = mpsc::channel(WAITING);
    let (wants, wanted) = watch::channel(false);
    let shown = Shown { screen, model: Model::default(), palette: Palette::of_environment(), wants };
    tokio::select! {
        ended = shown.run(&mut terminal.0, news) => ended.map(|()| ExitCode::SUCCESS),
        failure = feed.follow(&send) => Err(failure),
        () = feed.follow_fleet(&send, wanted) => Ok(ExitCode::SUCCESS),
        () = told => Ok(ExitCode::SUCCESS),
    }
}

/// What is on the screen, and what is known.
struct Shown {
    screen: Screen,
    model: Model,
    palette: Palette,
    /// Whether other nodes are to be asked.
    wants: watch::Sender<bool>,
}

impl Shown {
    async fn run(
        mut self,
        terminal: &mut DefaultTerminal,
        mut news: mpsc::Receiver<News>,
    ) -> Result<(), Failure> {
        let mut events = events();
        loop {
            terminal.draw(|frame| draw(frame, &self.model, &mut self.screen, self.palette))?;
            tokio::select! {
                Some(first) = news.recv() => {
                    self.take(first);
                    // What has come meanwhile is drawn at once.
                    while let Ok(more) = news.try_recv() {
                        self.take(more);
                    }
                }
                event = events.recv() => match event.and_then(Result::ok) {
                    Some(event) => match self.act(&event) {
                        Next::Draw => {}
                        Next::DrawAnew => terminal.clear()?,
                        Next::End => return Ok(()),
                    },
                    // Nobody sits at the terminal any more.
                    None => return Ok(()),
                },
            }
        }
    }

    fn take(&mut self, news: News) {
        match news {
            News::Link(link) => self.model.link = link,
            News::Message(message) => self.model.take(&message),
            News::Fleet(fleet) => self.model.fleet = Some(fleet),
        }
    }

    fn act(&mut self, event: &Event) -> Next {
        let Some(action) = action(event) else { return Next::Draw };
        let next = self.screen.act(action, &self.model);
        let wants = self.screen.view() == View::Fleet;
        self.wants.send_if_modified(|wanted| std::mem::replace(wanted, wants) != wants);
        next
    }
}

/// Keys and new sizes, read by a thread of its own: a terminal can only be waited for by blocking.
fn events() -> mpsc::Receiver<std::io::Result<Event>> {
    let (send, events) = mpsc::channel(WAITING);
    thread::spawn(move || {
        loop {
            let event = event::read();
            let ended = event.is_err();
            if send.blocking_send(event).is_err() || ended {
                return;
            }
        }
    });
    events
}
