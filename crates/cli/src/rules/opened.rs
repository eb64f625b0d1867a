//! The rules of a source, opened for a command.

use std::cell::Cell;
use std::future::Future;
use std::path::PathBuf;
use std::time::Duration;

use tidegate_core::Span;
use tidegate_rules::EditError;
use tidegate_sources::{BookError, PostgresArchive, RuleBook, Subject};
use tokio::time::Instant;

use crate::config_file;
use crate::failure::Failure;
use crate::options::AnyOptions;
use crate::runtime::block_on;
use crate::source::{Primary, RulesSource};

/// Where the rules are.
#[derive(Debug, clap::Args)]
pub(super) struct SourceArgs {
    /// Where the rules are, as `tidegate serve --rules` has it
    #[arg(
        long,
        value_name = "SOURCE",
        env = "TIDEGATE_RULES",
        hide_env_values = true,
        help_heading = "Source"
    )]
    rules: Option<RulesSource>,

    /// Where rules in PostgreSQL are changed, as `tidegate serve --rules-primary` has it
    #[arg(
        long,
        value_name = "URL",
        env = "TIDEGATE_RULES_PRIMARY",
        hide_env_values = true,
        help_heading = "Source"
    )]
    rules_primary: Option<Primary>,

    /// The configuration file of `tidegate serve`, which may say so, too
    #[arg(long, value_name = "FILE", env = "TIDEGATE_CONFIG", help_heading = "Source")]
    config: Option<PathBuf>,

    /// How long to wait for an answer of the source
    #[arg(long, value_name = "DURATION", default_value = "10s", help_heading = "Source")]
    timeout: Span,
}

/// A rule or a document.
#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
pub(super) struct SubjectArgs {
    /// The rule, by its id
    #[arg(value_name = "RULE")]
    rule: Option<String>,

    /// A whole document instead, by its name
    #[arg(long, value_name = "NAME")]
    document: Option<String>,
}

impl SubjectArgs {
    pub(super) fn subject(&self) -> Subject {
        match &self.document {
            Some(name) => Subject::Document(name.clone()),
            None => Subject::Rule(self.rule.clone().unwrap_or_default()),
        }
    }
}

/// The rules of a source, and how long to wait for it.
pub(super) struct Opened {
    pub(super) source: RulesSource,
    pub(super) book: RuleBook,
    primary: Option<Primary>,
    patience: Span,
}

impl Opened {
    /// Finds out which source is meant. Nothing is asked of it yet.
    pub(super) fn new(args: &SourceArgs) -> Result<Self, Failure> {
        let (mut source, mut primary) = (args.rules.clone(), args.rules_primary.clone());
        if let Some(path) = args.config.as_ref().filter(|_| source.is_none() || primary.is_none()) {
            let file = config_file::read::<AnyOptions>(path, "serve")?.common;
            source = source.or(file.rules);
            primary = primary.or(file.rules_primary);
        }
        let source = source.ok_or_else(|| {
            Failure::Usage(
                "it is not said where the rules are; give --rules SOURCE as `tidegate serve` takes it, set TIDEGATE_RULES, or \
                 give a --config FILE that has `rules: SOURCE`"
                    .to_owned(),
            )
        })?;
        Ok(Self { book: source.book(primary.as_ref()), source, primary, patience: args.timeout })
    }

    /// The tables that hold the rules, if they are in tables.
    pub(super) fn tables(&self) -> Option<PostgresArchive> {
        self.source.tables(self.primary.as_ref())
    }

    /// Rules that tests have made up.
    #[cfg(test)]
    pub(super) fn to(book: RuleBook) -> Self {
        Self { source: RulesSource::File("rules".into()), book, primary: None, patience: Span::from_secs(10) }
    }

    /// Waits for an answer, as long as is allowed.
    pub(super) fn ask<T>(&self, answer: impl Future<Output = Result<T, BookError>>) -> Result<T, Failure> {
        self.listen(&Cell::new(Instant::now()), answer)?.map_err(|error| explain(&error))
    }

    /// Waits for an answer that comes in parts, as long as is allowed since the last part was `heard`.
    pub(super) fn listen<T>(
        &self,
        heard: &Cell<Instant>,
        answer: impl Future<Output = T>,
    ) -> Result<T, Failure> {
        let patience = Duration::from_millis(self.patience.as_millis());
        block_on(async {
            tokio::select! {
                biased;
                answer = answer => Ok(answer),
                () = silence(heard, patience) => Err(Failure::Failed(format!(
                    "{} has not answered within {}; see that it is well, or give it more with --timeout",
                    self.source, self.patience
                ))),
            }
        })?
    }
}

/// Ends when nothing has been heard for so long.
async fn silence(heard: &Cell<Instant>, patience: Duration) {
    loop {
        let end = heard.get() + patience;
        tokio::time::sleep_until(end).await;
        if heard.get() + patience <= end {
            return;
        }
    }
}

/// What went wrong, with the commands that help.
pub(super) fn explain(error: &BookError) -> Failure {
    Failure::Failed(match error {
        BookError::NotFound(_) => format!("{error}; `tidegate rules list` shows what there is"),
        BookError::NoSuchVersion { .. } => format!("{error} (`tidegate rules history`)"),
        BookError::Invalid(problems) => {
            format!("the rules would not be good; nothing was changed\n{problems}")
        }
        BookError::Edit {
            document,
            error: EditError::Form(_) | EditError::Alias(_) | EditError::Layout(_) | EditError::More(_),
        } => format!(
            "{error}\nPrint it with `tidegate rules get --document {document}`, and give it back with \
             `tidegate rules apply --document {document} FILE`."
        ),
        _ => error.to_string(),
    })
}
