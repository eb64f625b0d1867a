//! `tidegate top`: what a node does, as it happens, on a terminal.

mod bounded;
mod columns;
mod feed;
mod keys;
mod model;
mod once;
mod palette;
mod panels;
mod screen;
mod sse;
mod text;
mod units;
mod view;
mod watch;
mod wire;

use std::io::{self, IsTerminal};
use std::process::ExitCode;

use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};

use crate::client::{Address, Connect};
use crate::failure::{Failure, Outcome};
use crate::runtime::block_on;
use feed::{Feed, News};
use model::{Link, Model};
use screen::Screen;

/// How many messages may wait to be shown; a server that says more has to wait.
const WAITING: usize = 16;

/// The arguments of `tidegate top`.
#[derive(Debug, clap::Args)]
pub(crate) struct TopArgs {
    /// Print what there is to see once, as plain text, and end; so it is whenever the output is no terminal
    #[arg(long)]
    once: bool,

    /// The node's admin listener
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8082", help_heading = "Server")]
    admin: Address,

    #[command(flatten)]
    connect: Connect,
}

/// Shows what a node does until told to end, or once.
pub(crate) fn run(args: &TopArgs) -> Outcome {
    let feed = Feed { connect: &args.connect, server: &args.admin };
    let screen = Screen::new(args.admin.to_string());
    if args.once || !io::stdout().is_terminal() {
        let model = block_on(look(&feed))??;
        once::write(&mut io::stdout().lock(), &model, &screen)?;
        return Ok(ExitCode::SUCCESS);
    }
    block_on(watch::watch(&feed, screen))?
}

/// What the server tells at once.
async fn look(feed: &Feed<'_>) -> Result<Model, Failure> {
    let (send, mut news) = mpsc::channel(WAITING);
    let mut model = Model::default();
    let deadline = Instant::now() + feed.connect.patience();
    let gathered = async {
        while let Some(news) = news.recv().await {
            match news {
                News::Link(Link::Lost(why, _)) => {
                    return Err(Connect::cannot_ask(feed.server, why.as_str(), "--admin"));
                }
                News::Link(link) => model.link = link,
                News::Message(message) => model.take(&message),
                News::Fleet(_) => {}
            }
            if model.is_complete() {
                break;
            }
        }
        Ok(())
    };
    let ended = tokio::select! {
        ended = timeout_at(deadline, gathered) => ended,
        failure = feed.follow(&send) => return Err(failure),
    };
    match ended {
        Ok(ended) => ended?,
        // An old server may tell less than others.
        Err(_) if model.tick.is_some() => {}
        Err(_) => {
            let what = if model.link == Link::Live { "figures" } else { "answer" };
            let why = format!("no {what} within {}", feed.connect.timeout);
            return Err(Connect::cannot_ask(feed.server, &why, "--admin"));
        }
    }
    Ok(model)
}
