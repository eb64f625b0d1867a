//! Changing znodes, with what is remembered of it in others beside them.
//!
//! Every change also sets `<path>-history`, whose last transaction so stands for all of them.

use zookeeper_client::{Acl, Acls, CreateMode, CreateOptions, Error, MultiWriteResult, MultiWriter, Stat};

use super::link::Link;
use super::nodes::version_of;
use super::session::Session;
use super::trouble::Trouble;
use super::url::ZookeeperUrl;
use crate::archive::{
    Answer, ArchiveError, Commit, Contents, MAX_RECORDS, Record, RuleArchive, Subject, Write, good, line,
};
use crate::{GoodText, StoredText};

/// How many znodes with documents are changed in one step.
const MAX_WRITES: usize = 40;

/// The most that a step may hold. ZooKeeper hangs up on more than a mebibyte, and says nothing.
const MAX_STEP: usize = 1_000_000;

/// Rules in ZooKeeper, to be changed.
///
/// Records are under `<path>-history`, and what was last good under `<path>-good`. New znodes may be used by whom the path
/// may be. Each call opens a session of its own: people are slow, and servers come and go between their calls.
#[derive(Clone, Debug)]
pub struct ZookeeperArchive {
    url: ZookeeperUrl,
}

impl ZookeeperArchive {
    /// An archive of the znodes that `url` names. Nothing is connected yet.
    pub fn new(url: ZookeeperUrl) -> Self {
        Self { url }
    }

    fn changes(&self) -> String {
        format!("{}-history", self.url.path)
    }

    /// Where it is kept what a document was when it was last good: beside it, be it a child or the path itself.
    fn good(&self, document: &str) -> String {
        let path = &self.url.path;
        format!("{path}-good{}", document.strip_prefix(&**path).unwrap_or_default())
    }

    fn history(&self, subject: &Subject) -> String {
        let root = self.changes();
        match subject {
            Subject::Rule(id) => format!("{root}/rules/{id}"),
            Subject::Document(name) => match name.rsplit_once('/') {
                Some((_, child)) if *name != self.url.path => format!("{root}/documents/{child}"),
                // No child has this name: slashes cannot be part of one.
                _ => format!("{root}/document"),
            },
        }
    }

    async fn read_all(&self) -> Result<Contents, ArchiveError> {
        // The state is older than the documents: what changed in between makes a commit fail, which is the safe side.
        let session = Session::open(&self.url).await?;
        session.ask("/", session.client.sync("/")).await?;
        let state = session.stat(&self.changes()).await?.map_or(0, |stat| version_of(stat.mzxid));
        let link = Link::over(session).await?;
        Ok(Contents { documents: link.nodes().all(), apart: true, state })
    }

    async fn write(&self, commit: Commit) -> Result<u64, ArchiveError> {
        let session = Session::open(&self.url).await?;
        session.ask("/", session.client.sync("/")).await?;
        let acls = self.acls(&session).await?;
        let options = CreateMode::Persistent.with_acls(Acls::new(&acls));
        let mut step = Step { writer: session.client.new_multi_writer(), options: &options, bytes: 0 };

        let changes = self.changes();
        let state = session.stat(&changes).await?;
        if state.map_or(0, |stat| version_of(stat.mzxid)) != commit.state {
            return Err(ArchiveError::Moved);
        }
        self.make_folders(&session, &commit, &options).await?;
        // Making the folders has made this one, too, if it was not there; it must not have been changed since.
        let made = session.stat(&changes).await?;
        let untouched = state.map_or(0, |stat| stat.version);
        if made.is_none_or(|stat| stat.version != untouched) {
            return Err(ArchiveError::Moved);
        }
        step.put(&changes, &commit.author.name, made)?;
        let mut subjects = Vec::new();
        for write in &commit.writes {
            self.add(&session, &mut step, write).await?;
            for record in &write.records {
                let path = format!("{}/{:020}", self.history(&record.subject), commit.state);
                step.put(&path, &line::write(record, &commit.author, None), None)?;
                subjects.push(&record.subject);
            }
        }
        let version = session.commit(step).await?;
        for subject in subjects {
            // Old records do no harm until the next time.
            self.forget_old(&session, subject).await.ok();
        }
        Ok(version)
    }

    /// Who may use new znodes: whoever may use the path.
    async fn acls(&self, session: &Session) -> Result<Vec<Acl>, Trouble> {
        let path = &self.url.path;
        let usual = if self.url.login.is_some() { Acls::creator_all() } else { Acls::anyone_all() };
        let known = session.find(path, session.client.get_acl(path)).await?;
        Ok(known.map_or_else(|| usual.to_vec(), |(acls, _)| acls))
    }

    async fn make_folders(
        &self,
        session: &Session,
        commit: &Commit,
        options: &CreateOptions<'_>,
    ) -> Result<(), Trouble> {
        let mut folders = vec![self.url.path.clone(), self.good(&self.url.path)];
        let records = commit.writes.iter().flat_map(|write| &write.records);
        folders.extend(records.map(|record| self.history(&record.subject)));
        for folder in folders {
            if session.stat(&folder).await?.is_none() {
                session.ask(&folder, session.client.mkdir(&folder, options)).await?;
            }
        }
        Ok(())
    }

    async fn add(&self, session: &Session, step: &mut Step<'_>, write: &Write) -> Result<(), ArchiveError> {
        let path = &write.document;
        let is_path = *path == self.url.path;
        let present = session.stat(path).await?;
        // The path itself is there as a folder, too.
        let known = present.filter(|stat| !is_path || stat.data_length > 0);
        if known.map(|stat| version_of(stat.mzxid)) != write.expected {
            return Err(ArchiveError::Moved);
        }
        let place = self.good(path);
        let noted = session.stat(&place).await?;
        match &write.text {
            Some(text) => {
                step.put(path, text, present)?;
                step.put(&place, &good::write(text, None), noted)?;
            }
            None => {
                step.remove(path, present, is_path)?;
                step.remove(&place, noted, is_path)?;
            }
        }
        Ok(())
    }

    async fn forget_old(&self, session: &Session, subject: &Subject) -> Result<(), Trouble> {
        let folder = self.history(subject);
        let mut names = session.ask(&folder, session.client.list_children(&folder)).await?;
        names.sort_unstable();
        for old in &names[..names.len().saturating_sub(MAX_RECORDS)] {
            let path = format!("{folder}/{old}");
            session.find(&path, session.client.delete(&path, None)).await?;
        }
        Ok(())
    }

    async fn records(&self, subject: &Subject) -> Result<Vec<Record>, ArchiveError> {
        let session = Session::open(&self.url).await?;
        session.ask("/", session.client.sync("/")).await?;
        let folder = self.history(subject);
        let names = session.find(&folder, session.client.list_children(&folder)).await?;
        let mut names = names.unwrap_or_default();
        names.sort_unstable();
        let mut records = Vec::new();
        for name in names.iter().rev() {
            let path = format!("{folder}/{name}");
            let found = session.find(&path, session.client.get_data(&path)).await?;
            records.extend(found.and_then(|(data, stat)| line::read(&data, Some(version_of(stat.czxid)))));
        }
        Ok(records)
    }

    async fn good_texts(&self, names: &[String]) -> Result<Vec<(String, GoodText)>, ArchiveError> {
        let session = Session::open(&self.url).await?;
        let mut texts = Vec::new();
        for name in names {
            let good = session.good_text(&self.good(name)).await?;
            texts.extend(good.map(|good| (name.clone(), good)));
        }
        Ok(texts)
    }

    async fn note(&self, documents: Vec<StoredText>) -> Result<(), ArchiveError> {
        let session = Session::open(&self.url).await?;
        let acls = self.acls(&session).await?;
        let options = CreateMode::Persistent.with_acls(Acls::new(&acls));
        let folder = self.good(&self.url.path);
        if session.stat(&folder).await?.is_none() {
            session.ask(&folder, session.client.mkdir(&folder, &options)).await?;
        }
        for StoredText { name, text, version } in documents {
            let Ok(text) = text else { continue };
            let path = self.good(&name);
            let known = session.good_text(&path).await?;
            if known.is_some_and(|known| known.version >= version || known.text == text) {
                continue;
            }
            let present = session.stat(&name).await?;
            let Some(present) = present.filter(|stat| version_of(stat.mzxid) == version) else { continue };
            let noted = session.stat(&path).await?;
            let mut step = Step { writer: session.client.new_multi_writer(), options: &options, bytes: 0 };
            step.check(&name, present)?;
            step.put(&path, &good::write(&text, Some(version)), noted)?;
            match session.commit(step).await {
                // Whoever was faster has seen the same or better.
                Ok(_) | Err(ArchiveError::Moved) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

impl RuleArchive for ZookeeperArchive {
    fn read(&self) -> Answer<'_, Contents> {
        Box::pin(self.read_all())
    }

    fn commit(&self, commit: Commit) -> Answer<'_, u64> {
        Box::pin(self.write(commit))
    }

    fn history<'a>(&'a self, subject: &'a Subject) -> Answer<'a, Vec<Record>> {
        Box::pin(self.records(subject))
    }

    fn remember(&self, good: Vec<StoredText>) -> Answer<'_, ()> {
        Box::pin(self.note(good))
    }

    fn last_good<'a>(&'a self, names: &'a [String]) -> Answer<'a, Vec<(String, GoodText)>> {
        Box::pin(self.good_texts(names))
    }

    fn place_of_rule(&self, rule_id: &str) -> String {
        format!("{}/{rule_id}", self.url.path)
    }

    fn place_of_document(&self, name: &str) -> Result<String, String> {
        if name.is_empty() || name.contains('/') || matches!(name, "." | "..") {
            return Err(format!("`{name}` cannot be the name of a document; leave out the slashes"));
        }
        Ok(format!("{}/{name}", self.url.path))
    }

    fn max_writes(&self) -> usize {
        MAX_WRITES
    }
}

impl Session {
    async fn stat(&self, path: &str) -> Result<Option<Stat>, Trouble> {
        self.ask(path, self.client.check_stat(path)).await
    }

    async fn good_text(&self, path: &str) -> Result<Option<GoodText>, Trouble> {
        let found = self.find(path, self.client.get_data(path)).await?;
        Ok(found.and_then(|(data, stat)| good::read(&data, version_of(stat.mzxid))))
    }

    /// Does all of it or nothing; returns the version of what it has made.
    async fn commit(&self, mut step: Step<'_>) -> Result<u64, ArchiveError> {
        if step.bytes > MAX_STEP {
            return Err(ArchiveError::Refused(
                "ZooKeeper takes no more than 1 MB in one step; change fewer rules at once, or spread a document".to_owned(),
            ));
        }
        let answer = async {
            match step.writer.commit().await.map_err(Error::from) {
                Err(Error::BadVersion | Error::NodeExists) => Ok(None),
                done => done.map(Some),
            }
        };
        let done = self.find(&self.url.path, answer).await?.flatten().ok_or(ArchiveError::Moved)?;
        let changed = done.iter().find_map(|result| match result {
            MultiWriteResult::SetData { stat } => Some(stat.mzxid),
            _ => None,
        });
        Ok(changed.map_or(0, version_of))
    }
}

/// What is to be done at once.
struct Step<'a> {
    writer: MultiWriter<'a>,
    options: &'a CreateOptions<'a>,
    bytes: usize,
}

impl Step<'_> {
    /// Has a znode hold `text`, if it still is as it was; `None` if it must not be there.
    fn put(&mut self, path: &str, text: &str, present: Option<Stat>) -> Result<(), ArchiveError> {
        self.bytes += path.len() + text.len();
        let added = match present {
            Some(stat) => self.writer.add_set_data(path, text.as_bytes(), Some(stat.version)),
            None => self.writer.add_create(path, text.as_bytes(), self.options),
        };
        added.map_err(|error| cannot(path, &error))
    }

    /// Takes a znode away, or only what it holds.
    fn remove(&mut self, path: &str, present: Option<Stat>, keep_folder: bool) -> Result<(), ArchiveError> {
        let Some(stat) = present else { return Ok(()) };
        let added = if keep_folder {
            self.writer.add_set_data(path, b"", Some(stat.version))
        } else {
            self.writer.add_delete(path, Some(stat.version))
        };
        added.map_err(|error| cannot(path, &error))
    }

    /// That a znode still is as it was.
    fn check(&mut self, path: &str, present: Stat) -> Result<(), ArchiveError> {
        self.writer.add_check_version(path, present.version).map_err(|error| cannot(path, &error))
    }
}

fn cannot(path: &str, error: &Error) -> ArchiveError {
    ArchiveError::Refused(format!("{path} cannot be the path of a znode: {error}; choose another name"))
}
