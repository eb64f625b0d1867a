//! Changing keys, with what is remembered of it under other keys.
//!
//! Every change also puts `<prefix>/changes`, whose last revision so stands for all of them.

use std::collections::HashMap;

use super::client::Client;
use super::link::Place;
use super::message::{Compare, KeyValue, Op, RangeRequest, TxnRequest};
use super::trouble::Trouble;
use super::url::EtcdUrl;
use crate::archive::{
    Answer, ArchiveError, Commit, Contents, MAX_RECORDS, Record, RuleArchive, Subject, good, line,
};
use crate::{GoodText, StoredText};

/// How many keys with documents are changed in one step: three operations each, and etcd takes 128.
const MAX_WRITES: usize = 40;

/// Rules in etcd, to be changed.
///
/// Records are under `<prefix>/history/`, and what was last good under `<prefix>/good/`. Each call connects anew: people
/// are slow, and servers come and go between their calls.
#[derive(Clone, Debug)]
pub struct EtcdArchive {
    url: EtcdUrl,
}

impl EtcdArchive {
    /// An archive of the keys that `url` names. Nothing is connected yet.
    pub fn new(url: EtcdUrl) -> Self {
        Self { url }
    }

    fn changes(&self) -> String {
        format!("{}/changes", self.url.prefix)
    }

    /// Where it is kept what a document was when it was last good.
    fn good(&self, document: &str) -> String {
        let prefix = &self.url.prefix;
        format!("{prefix}/good{}", document.strip_prefix(&**prefix).unwrap_or(document))
    }

    /// The beginning of the keys with records of a subject; some of them may be about others.
    fn history(&self, subject: &Subject) -> String {
        let prefix = &self.url.prefix;
        match subject {
            Subject::Rule(id) => format!("{prefix}/history/rules/{id}/"),
            Subject::Document(name) => format!("{prefix}/history/documents/{name}/"),
        }
    }

    /// A connection to a server that is in touch with the others, and the latest change.
    async fn connect(&self) -> Result<Session<'_>, Trouble> {
        let mut worst = None;
        for address in &self.url.addresses {
            match self.connect_to(address).await {
                Ok(session) => return Ok(session),
                Err(trouble) => worst = Some(Trouble::more_telling(worst, trouble)),
            }
        }
        Err(worst.unwrap_or_else(|| Trouble::away("there is no etcd to ask; name one".to_owned())))
    }

    async fn connect_to<'a>(&'a self, address: &'a str) -> Result<Session<'a>, Trouble> {
        let place = Place { address, prefix: &self.url.prefix };
        let client = place.patiently(Client::connect(&self.url, address)).await?;
        let mut session = Session { place, client, state: 0 };
        session.state = session.get(&self.changes()).await?.map_or(0, |kv| kv.mod_revision);
        Ok(session)
    }

    async fn read_all(&self) -> Result<Contents, ArchiveError> {
        // The state is older than the documents: what changed in between makes a commit fail, which is the safe side.
        let mut session = self.connect().await?;
        let (keys, _) = session.place.read(&mut session.client).await?;
        Ok(Contents { documents: keys.all(), apart: true, state: session.state.unsigned_abs() })
    }

    async fn write(&self, commit: Commit) -> Result<u64, ArchiveError> {
        let mut session = self.connect().await?;
        let mut txn = TxnRequest::default();
        txn.compare.push(Compare::changed_at(&self.changes(), commit.state.cast_signed()));
        txn.success.push(Op::put(&self.changes(), commit.author.name.clone()));
        let mut subjects = Vec::new();
        for write in &commit.writes {
            let (key, noted) = (&write.document, self.good(&write.document));
            txn.compare.push(Compare::changed_at(key, write.expected.unwrap_or(0).cast_signed()));
            match &write.text {
                Some(text) => {
                    txn.success.push(Op::put(key, text.clone()));
                    txn.success.push(Op::put(&noted, good::write(text, None)));
                }
                None => txn.success.extend([Op::delete(key), Op::delete(&noted)]),
            }
            for record in &write.records {
                // No two commits follow the same state.
                let key = format!("{}{:020}", self.history(&record.subject), commit.state);
                txn.success.push(Op::put(&key, line::write(record, &commit.author, None)));
                subjects.push(&record.subject);
            }
        }
        let done = session.place.patiently(session.client.txn(txn)).await?;
        if !done.succeeded {
            return Err(ArchiveError::Moved);
        }
        for subject in subjects {
            // Old records do no harm until the next time.
            self.forget_old(&mut session, subject).await.ok();
        }
        Ok(done.header.unwrap_or_default().revision.unsigned_abs())
    }

    async fn forget_old(&self, session: &mut Session<'_>, subject: &Subject) -> Result<(), Trouble> {
        let folder = self.history(subject);
        let all = RangeRequest { keys_only: true, ..RangeRequest::of_all(&folder, 0) };
        let keys = session.place.patiently(session.client.range(all)).await?.kvs;
        let Some(oldest_kept) = keys.len().checked_sub(MAX_RECORDS).filter(|&old| old > 0) else {
            return Ok(());
        };
        let old = Op::delete_range(keys[0].key.clone(), keys[oldest_kept].key.clone());
        let txn = TxnRequest { compare: Vec::new(), success: vec![old] };
        session.place.patiently(session.client.txn(txn)).await.map(drop)
    }

    async fn records(&self, subject: &Subject) -> Result<Vec<Record>, ArchiveError> {
        let mut session = self.connect().await?;
        let kvs = session.get_all(&self.history(subject)).await?;
        let read = |kv: &KeyValue| line::read(&kv.value, u64::try_from(kv.mod_revision).ok());
        let records = kvs.iter().rev().filter_map(read);
        Ok(records.filter(|record| record.change.subject == *subject).collect())
    }

    async fn good_texts(&self, names: &[String]) -> Result<Vec<(String, GoodText)>, ArchiveError> {
        let mut session = self.connect().await?;
        let mut texts = Vec::new();
        for name in names {
            let kv = session.get(&self.good(name)).await?;
            texts.extend(kv.and_then(|kv| Some((name.clone(), good_text(&kv)?))));
        }
        Ok(texts)
    }

    async fn note(&self, documents: Vec<StoredText>) -> Result<(), ArchiveError> {
        let mut session = self.connect().await?;
        let mut noted: HashMap<Vec<u8>, KeyValue> = HashMap::new();
        let own = session.get(&self.good(&self.url.prefix)).await?;
        let all = session.get_all(&format!("{}/good/", self.url.prefix)).await?;
        noted.extend(own.into_iter().chain(all).map(|kv| (kv.key.clone(), kv)));
        let mut news = Vec::new();
        for StoredText { name, text, version } in documents {
            let Ok(text) = text else { continue };
            let kv = noted.get(self.good(&name).as_bytes());
            let known = kv.and_then(good_text);
            if known.is_none_or(|known| known.version < version && known.text != text) {
                news.push((name, version, text, kv.map_or(0, |kv| kv.mod_revision)));
            }
        }
        for some in news.chunks(MAX_WRITES) {
            let mut txn = TxnRequest::default();
            for (name, version, text, noted_at) in some {
                let key = self.good(name);
                txn.compare.push(Compare::changed_at(name, version.cast_signed()));
                txn.compare.push(Compare::changed_at(&key, *noted_at));
                txn.success.push(Op::put(&key, good::write(text, Some(*version))));
            }
            // Whoever was faster has seen the same or better.
            session.place.patiently(session.client.txn(txn)).await?;
        }
        Ok(())
    }
}

impl RuleArchive for EtcdArchive {
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
        format!("{}/rules/{rule_id}", self.url.prefix)
    }

    fn place_of_document(&self, name: &str) -> Result<String, String> {
        if name.is_empty() || name.contains('/') {
            return Err(format!("`{name}` cannot be the name of a document; leave out the slashes"));
        }
        Ok(format!("{}/documents/{name}", self.url.prefix))
    }

    fn max_writes(&self) -> usize {
        MAX_WRITES
    }
}

/// A connection, and what it was opened for.
struct Session<'a> {
    place: Place<'a>,
    client: Client,
    /// The revision of the latest change.
    state: i64,
}

impl Session<'_> {
    async fn get(&mut self, key: &str) -> Result<Option<KeyValue>, Trouble> {
        let request = RangeRequest { key: key.into(), ..RangeRequest::default() };
        let answer = self.place.patiently(self.client.range(request)).await?;
        Ok(answer.kvs.into_iter().next())
    }

    async fn get_all(&mut self, folder: &str) -> Result<Vec<KeyValue>, Trouble> {
        let (mut all, mut page) = (Vec::new(), Some(RangeRequest::of_all(folder, 0)));
        while let Some(request) = page {
            let answer = self.place.patiently(self.client.range(request.clone())).await?;
            page = request.after(&answer);
            all.extend(answer.kvs);
        }
        Ok(all)
    }
}

fn good_text(kv: &KeyValue) -> Option<GoodText> {
    good::read(&kv.value, kv.mod_revision.unsigned_abs())
}
