//! Documents as they would be, while changes are put together.

use std::collections::HashMap;
use std::sync::Arc;

use tidegate_rules::{
    Document, EditError, Problems, Source, compile, put_rule, read, remove_rule, rule_text, rule_texts, split,
};

use super::{BookError, Entry, Guard, Listing, Plan, Step};
use crate::archive::{Action, Contents, NewRecord, RuleArchive, Subject, Write};
use crate::mend::{Aside, Mended};
use crate::name;

/// How often one document is changed at once: each rule means reading all of it again.
const MAX_EDITS: usize = 1000;

/// All documents of an archive, some of them changed.
pub(super) struct Desk {
    archive: Arc<dyn RuleArchive>,
    sheets: Vec<Sheet>,
    /// Where each document is, by name.
    names: HashMap<String, usize>,
    /// Where each rule is, by id.
    places: HashMap<String, usize>,
    aside: Vec<Aside>,
    state: u64,
    /// Whether each document is taken by itself.
    apart: bool,
    steps: Vec<Step>,
}

/// A change of a rule or a document, with what is to be written.
pub(super) struct Edit {
    pub(super) subject: Subject,
    /// What it is to be; `None` if it is to be taken away.
    pub(super) text: Option<String>,
    pub(super) guard: Guard,
    /// The version that it goes back to, if that is why.
    pub(super) back_to: Option<u64>,
}

/// One document.
struct Sheet {
    name: String,
    /// The version that it has in the archive; `None` if it is not there.
    version: Option<u64>,
    /// What is written; `None` if it is not there, or no text.
    text: Option<String>,
    /// Whether what is written cannot be used, and the last good text is used instead, if there is one.
    bad: Option<Option<String>>,
    /// What has been done to it.
    records: Vec<NewRecord>,
}

impl Sheet {
    /// What nodes go by.
    fn in_force(&self) -> Option<Source<'_>> {
        let text = self.bad.as_ref().unwrap_or(&self.text).as_deref()?;
        Some(Source { name: &self.name, text })
    }

    /// What is written, to be changed.
    fn written(&self) -> Option<Source<'_>> {
        Some(Source { name: &self.name, text: self.text.as_deref()? })
    }

    /// Whether it is about this rule and nothing else.
    fn is_only(&self, rule_id: &str) -> bool {
        let rules = self.written().and_then(|source| split(&source).ok());
        matches!(rules.as_deref(), Some([(id, _)]) if id == rule_id)
    }

    fn cannot_edit(&self, error: EditError) -> BookError {
        BookError::Edit { document: self.name.clone(), error }
    }
}

impl Desk {
    pub(super) fn new(archive: Arc<dyn RuleArchive>, contents: Contents, mended: Mended) -> Self {
        let mut good: HashMap<String, Option<String>> =
            mended.documents.into_iter().map(|document| (document.name, document.text.ok())).collect();
        // Those that are taken together are what is written: to be mended by hand, with all that is in them.
        let aside = mended.aside.iter().filter(|_| contents.apart);
        let bad: Vec<&str> = aside.map(|aside| &*aside.name).collect();
        let sheets = contents.documents.into_iter().map(|document| Sheet {
            bad: bad.contains(&&*document.name).then(|| good.remove(&document.name).flatten()),
            name: document.name,
            version: Some(document.version),
            text: document.text.ok(),
            records: Vec::new(),
        });
        let sheets: Vec<Sheet> = sheets.collect();
        let names = sheets.iter().enumerate().map(|(place, sheet)| (sheet.name.clone(), place));
        let mut desk = Self {
            archive,
            names: names.collect(),
            sheets,
            places: HashMap::new(),
            aside: Vec::new(),
            state: contents.state,
            apart: contents.apart,
            steps: Vec::new(),
        };
        for position in 0..desk.sheets.len() {
            desk.find_rules(position);
        }
        desk.aside = mended.aside;
        desk
    }

    fn find_rules(&mut self, position: usize) {
        let document = self.sheets[position].in_force().and_then(|source| read(&source).ok());
        for rule in document.iter().flat_map(Document::rules) {
            self.places.entry(rule.id.to_string()).or_insert(position);
        }
    }

    /// Forgets where the rules of a document are, without looking at those of others.
    fn forget_rules(&mut self, position: usize) {
        let document = self.sheets[position].in_force().and_then(|source| read(&source).ok());
        for rule in document.iter().flat_map(Document::rules) {
            if self.places.get(&*rule.id) == Some(&position) {
                self.places.remove(&*rule.id);
            }
        }
    }

    /// A document by the name that it has here; people may leave out what all names have in common.
    pub(super) fn full_name(&self, subject: Subject) -> Result<Subject, BookError> {
        match subject {
            Subject::Document(name) if self.named(&name).is_none() => {
                name::check(&name).map_err(BookError::Name)?;
                self.archive.place_of_document(&name).map(Subject::Document).map_err(BookError::Name)
            }
            known => Ok(known),
        }
    }

    fn named(&self, name: &str) -> Option<usize> {
        self.names.get(name).copied()
    }

    fn place_of(&self, subject: &Subject) -> Option<usize> {
        match subject {
            Subject::Document(name) => self.named(name),
            // What stands in the place of a rule and cannot be read is what a change replaces.
            Subject::Rule(id) => self.places.get(id).copied().or_else(|| {
                self.named(&self.archive.place_of_rule(id)).filter(|&place| self.sheets[place].bad.is_some())
            }),
        }
    }

    pub(super) fn list(self) -> Listing {
        let (mut rules, mut documents) = (Vec::new(), Vec::new());
        for (sheet, source, version, ids) in self.in_force() {
            if self.is_listed(sheet, &ids) {
                documents.push((sheet.name.clone(), version));
            }
            let texts = rule_texts(&source, ids.iter().map(String::as_str));
            for (name, text) in ids.into_iter().zip(texts) {
                rules.push(Entry { name, document: sheet.name.clone(), version, text });
            }
        }
        Listing { rules, documents, aside: self.aside }
    }

    /// Returns the names and versions of the documents that are no single rules.
    pub(super) fn documents(&self) -> Vec<(String, u64)> {
        let listed = self.in_force().filter(|(sheet, _, _, ids)| self.is_listed(sheet, ids));
        listed.map(|(sheet, _, version, _)| (sheet.name.clone(), version)).collect()
    }

    /// Returns the documents that nodes go by, each with its text, its version and the ids of its rules.
    fn in_force(&self) -> impl Iterator<Item = (&Sheet, Source<'_>, u64, Vec<String>)> {
        self.sheets.iter().filter_map(|sheet| {
            let (source, version) = (sheet.in_force()?, sheet.version?);
            let ids = read(&source).ok()?.rules().map(|rule| rule.id.to_string()).collect();
            Some((sheet, source, version, ids))
        })
    }

    /// Returns whether a document is more than the place of one rule.
    fn is_listed(&self, sheet: &Sheet, ids: &[String]) -> bool {
        !self.apart || !matches!(ids, [id] if self.archive.place_of_rule(id) == sheet.name)
    }

    pub(super) fn get(&self, subject: &Subject) -> Result<Entry, BookError> {
        let subject = self.full_name(subject.clone())?;
        let sheet = self.place_of(&subject).map(|place| &self.sheets[place]);
        let Some((sheet, version)) = sheet.and_then(|sheet| Some((sheet, sheet.version?))) else {
            return Err(BookError::NotFound(subject));
        };
        let text = self.text_of(sheet, &subject);
        let (Subject::Rule(name) | Subject::Document(name)) = subject;
        Ok(Entry { name, document: sheet.name.clone(), version, text })
    }

    /// What is written of a rule or a document; a bad document as a whole.
    fn text_of(&self, sheet: &Sheet, subject: &Subject) -> Option<String> {
        match subject {
            Subject::Rule(id) if sheet.bad.is_none() => rule_text(&sheet.written()?, id).ok().flatten(),
            _ => sheet.text.clone(),
        }
    }

    /// Refuses more changes to one document than a text can be changed in a reasonable time.
    fn check_count(&self, place: usize) -> Result<(), BookError> {
        let sheet = &self.sheets[place];
        if sheet.records.len() < MAX_EDITS {
            return Ok(());
        }
        Err(BookError::Name(format!(
            "these are more than {MAX_EDITS} changes to {}; store the document as a whole instead",
            sheet.name
        )))
    }

    /// Carries out a change.
    pub(super) fn edit(&mut self, edit: Edit) -> Result<(), BookError> {
        let Edit { subject, text, guard, back_to } = edit;
        match text {
            Some(text) => self.put(subject, text, guard, back_to),
            None => self.delete(subject, guard, back_to),
        }
    }

    /// Has a rule or a document be `text`; because it was so at version `back_to`, if that is why.
    fn put(
        &mut self,
        subject: Subject,
        text: String,
        guard: Guard,
        back_to: Option<u64>,
    ) -> Result<(), BookError> {
        self.check_guard(&subject, guard)?;
        let place = self.place_of(&subject);
        let before = place.and_then(|place| self.text_of(&self.sheets[place], &subject));
        if before.as_deref().map(str::trim_end) == Some(text.trim_end()) {
            return Ok(());
        }
        let place = match (place, &subject) {
            (Some(place), _) => place,
            (None, Subject::Rule(id)) => self.sheet(self.archive.place_of_rule(id)),
            (None, Subject::Document(name)) => self.sheet(name.clone()),
        };
        self.check_count(place)?;
        let sheet = &self.sheets[place];
        let whole = match &subject {
            Subject::Document(name) => {
                read(&Source { name, text: &text }).map_err(BookError::Invalid)?;
                text.clone()
            }
            Subject::Rule(id) => {
                is_rule(id, &text)?;
                match sheet.written() {
                    // A file keeps its comments even if it has but one rule.
                    Some(written) if sheet.bad.is_none() && !(self.apart && self.is_own(sheet, id)) => {
                        put_rule(&written, id, &text).map_err(|error| sheet.cannot_edit(error))?
                    }
                    _ => text.clone(),
                }
            }
        };
        if sheet.text.as_ref() == Some(&whole) {
            return Ok(());
        }
        let action = match (back_to, &before) {
            (Some(to), _) => Action::RolledBack { to },
            (None, Some(_)) => Action::Changed,
            (None, None) => Action::Created,
        };
        self.write(place, Some(whole), subject, action, before, Some(text));
        Ok(())
    }

    /// Takes a rule or a document away.
    fn delete(&mut self, subject: Subject, guard: Guard, back_to: Option<u64>) -> Result<(), BookError> {
        self.check_guard(&subject, guard)?;
        let Some(place) = self.place_of(&subject) else { return Err(BookError::NotFound(subject)) };
        self.check_count(place)?;
        let sheet = &self.sheets[place];
        let before = self.text_of(sheet, &subject);
        // A file that is all there is stays, and says that there are no rules.
        let more = self.apart || self.sheets.len() > 1;
        let rest = match (&subject, sheet.written()) {
            (Subject::Rule(id), Some(written))
                if sheet.bad.is_none() && !(more && self.is_own(sheet, id)) =>
            {
                Some(remove_rule(&written, id).map_err(|error| sheet.cannot_edit(error))?)
            }
            _ => None,
        };
        let action = back_to.map_or(Action::Deleted, |to| Action::RolledBack { to });
        self.write(place, rest, subject, action, before, None);
        Ok(())
    }

    /// Whether a document is there for this rule alone.
    fn is_own(&self, sheet: &Sheet, rule_id: &str) -> bool {
        self.archive.place_of_rule(rule_id) == sheet.name && sheet.is_only(rule_id)
    }

    fn check_guard(&self, subject: &Subject, guard: Guard) -> Result<(), BookError> {
        let present = self.place_of(subject).and_then(|place| self.sheets[place].version);
        let (holds, expected) = match guard {
            Guard::Any => (true, None),
            Guard::Version(version) => (present == Some(version), Some(version)),
            Guard::Absent => (present.is_none(), None),
            Guard::Present if present.is_some() => (true, None),
            Guard::Present => return Err(BookError::NotFound(subject.clone())),
        };
        if holds {
            return Ok(());
        }
        Err(BookError::Conflict { subject: subject.clone(), expected, present })
    }

    /// The position of a document, which is put on the desk if it is not there.
    fn sheet(&mut self, name: String) -> usize {
        self.named(&name).unwrap_or_else(|| {
            self.names.insert(name.clone(), self.sheets.len());
            self.sheets.push(Sheet { name, version: None, text: None, bad: None, records: Vec::new() });
            self.sheets.len() - 1
        })
    }

    fn write(
        &mut self,
        place: usize,
        text: Option<String>,
        subject: Subject,
        action: Action,
        before: Option<String>,
        after: Option<String>,
    ) {
        self.forget_rules(place);
        let sheet = &mut self.sheets[place];
        (sheet.text, sheet.bad) = (text, None);
        let (document, previous) = (sheet.name.clone(), sheet.version);
        sheet.records.push(NewRecord {
            subject: subject.clone(),
            action,
            previous,
            before: before.clone(),
            after: after.clone(),
        });
        self.steps.push(Step { subject, document, previous, action, before, after });
        self.find_rules(place);
    }

    /// What is to be written, if all documents together are good.
    pub(super) fn finish(self) -> Result<Plan, BookError> {
        let Self { sheets, state, steps, .. } = self;
        if !steps.is_empty() {
            check_together(&sheets)?;
        }
        let writes = sheets.into_iter().filter(|sheet| !sheet.records.is_empty());
        let writes = writes.map(|Sheet { name, version, text, records, .. }| Write {
            document: name,
            expected: version,
            text,
            records,
        });
        Ok(Plan { steps, writes: writes.collect(), state })
    }
}

/// A rule and nothing else, by this id.
fn is_rule(rule_id: &str, text: &str) -> Result<(), BookError> {
    let rules = split(&Source { name: rule_id, text }).map_err(|error| match error {
        EditError::Text(problems) => BookError::Invalid(problems),
        error => BookError::Edit { document: rule_id.to_owned(), error },
    })?;
    match &*rules {
        [(id, _)] if id == rule_id => Ok(()),
        [(id, _)] => Err(BookError::Name(format!(
            "the text is about rule {id}, not {rule_id}; to give a rule another id, create the new one and delete the old"
        ))),
        several => Err(BookError::Name(format!("the text has {} rules; one is needed", several.len()))),
    }
}

fn check_together(sheets: &[Sheet]) -> Result<(), BookError> {
    let documents: Result<Vec<Document>, Problems> =
        sheets.iter().filter_map(Sheet::in_force).map(|source| read(&source)).collect();
    let documents = documents.map_err(BookError::Invalid)?;
    if documents.is_empty() {
        return Err(BookError::Last);
    }
    compile(documents, 0).map(drop).map_err(BookError::Invalid)
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use allocation_counter::measure;

    use super::*;
    use crate::mend::{LastGood, mend};
    use crate::{FileArchive, StoredText};

    /// Something that is done with all documents, and what to call it.
    type Work = (&'static str, fn(Desk));

    fn rule(id: &str) -> String {
        format!("{{rule_id: {id}, identifier_type: user_id, limit: 7, window: 1h}}")
    }

    fn desk(documents: Vec<StoredText>) -> Desk {
        let contents = Contents { documents, apart: false, state: 1 };
        let mended = mend(&contents.documents, &LastGood::default());
        Desk::new(Arc::new(FileArchive::new("rules.yaml")), contents, mended)
    }

    fn one_file(rules: usize) -> Desk {
        let mut text = "rules:\n".to_owned();
        (0..rules).for_each(|number| writeln!(text, "- {}", rule(&format!("r{number}"))).unwrap());
        desk(vec![StoredText::new("rules.yaml", 1, text)])
    }

    fn a_file_each(rules: usize) -> Desk {
        let document = |number| {
            let id = format!("r{number}");
            StoredText::new(format!("{id}.yaml"), 1, rule(&id))
        };
        desk((0..rules).map(document).collect())
    }

    fn put_first(mut desk: Desk) {
        let (subject, text) = (Subject::Rule("r0".to_owned()), rule("r0").replace('7', "8"));
        desk.edit(Edit { subject, text: Some(text), guard: Guard::Any, back_to: None }).unwrap();
        assert_eq!(desk.finish().unwrap().steps.len(), 1);
    }

    fn get_last(desk: &Desk) {
        let last = desk.places.len() - 1;
        assert!(desk.get(&Subject::Rule(format!("r{last}"))).unwrap().text.is_some());
    }

    /// Reading a document allocates for each of its values, so what reads it once per rule shows.
    #[test]
    fn ten_times_the_rules_are_ten_times_the_work() {
        let work: [Work; 4] = [
            ("list", |desk| assert!(desk.list().rules.iter().all(|entry| entry.text.is_some()))),
            ("documents", |desk| assert!(!desk.documents().is_empty())),
            ("get", |desk| get_last(&desk)),
            ("put", put_first),
        ];
        for desk_of in [one_file as fn(usize) -> Desk, a_file_each] {
            for (name, work) in work {
                let allocations = |rules| {
                    let desk = desk_of(rules);
                    measure(move || work(desk)).count_total
                };
                allocations(1);
                let (few, many) = (allocations(100), allocations(1_000));
                assert!(many <= 11 * few, "{name}: {few} allocations for 100 rules, {many} for 1000");
            }
        }
    }

    #[test]
    fn names_with_control_characters_are_refused() {
        let desk = a_file_each(1);
        for name in ["a\u{1b}[2J.yaml", "r\n0", "\u{9b}"] {
            let refused = desk.get(&Subject::Document(name.to_owned())).unwrap_err().to_string();
            assert!(
                refused.contains("has control characters") && !refused.contains(char::is_control),
                "{refused}"
            );
        }
    }

    #[test]
    fn a_rule_whose_document_has_changed_is_found_where_it_is() {
        let mut desk = a_file_each(3);
        let text = format!("- {}\n- {}\n", rule("r0"), rule("new"));
        let subject = Subject::Document("r0.yaml".to_owned());
        desk.edit(Edit { subject, text: Some(text), guard: Guard::Any, back_to: None }).unwrap();
        assert_eq!(desk.get(&Subject::Rule("new".to_owned())).unwrap().document, "r0.yaml");
        let subject = Subject::Document("r0.yaml".to_owned());
        let text = Some(rule("other"));
        desk.edit(Edit { subject, text, guard: Guard::Any, back_to: None }).unwrap();
        assert!(desk.get(&Subject::Rule("r0".to_owned())).is_err());
        assert_eq!(desk.get(&Subject::Rule("other".to_owned())).unwrap().document, "r0.yaml");
    }
}
