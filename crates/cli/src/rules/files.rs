//! Rules in files, to be put into a source.

use std::collections::HashMap;
use std::io::{self, Read};
use std::path::PathBuf;

use tidegate_rules::{EditError, Problem, Problems, decode, read, split};
use tidegate_sources::{Change, Guard, Subject, Wish};

use super::change::Asker;
use super::texts::{NamedText, read_texts};
use crate::failure::Failure;

/// Files with rules.
#[derive(Debug, clap::Args)]
pub(super) struct FilesArgs {
    /// The files, or folders of files, with the rules; - is standard input
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,

    /// Store the one file whole, as the document of this name, instead of rule by rule
    #[arg(long, value_name = "NAME")]
    document: Option<String>,
}

impl FilesArgs {
    /// Whoever can be asked about them.
    pub(super) fn asker(&self) -> Asker {
        let taken = self.files.iter().any(|path| path.as_os_str() == "-");
        if taken { Asker::Nobody } else { Asker::StandardInput }
    }

    /// Has the source hold what the files say. Whatever is wrong with any of them is an error.
    pub(super) fn changes(&self, guard: Guard) -> Result<Vec<Change>, Failure> {
        let texts = self.read()?;
        match &self.document {
            Some(name) => Ok(vec![whole(name, texts, guard)?]),
            None => one_by_one(&texts, guard),
        }
    }

    fn read(&self) -> Result<Vec<NamedText>, Failure> {
        let (mut texts, mut problems) = (Vec::new(), Vec::new());
        for path in &self.files {
            let read = if path.as_os_str() == "-" { read_input() } else { read_texts(path) };
            match read {
                Ok(read) => texts.extend(read),
                Err(problem) => problems.push(problem.into()),
            }
        }
        if problems.is_empty() { Ok(texts) } else { Err(unusable(&problems)) }
    }
}

fn read_input() -> Result<Vec<NamedText>, Problem> {
    let name = "standard input";
    let mut bytes = Vec::new();
    let read = io::stdin().lock().read_to_end(&mut bytes);
    read.map_err(|error| Problem::whole(name, format!("cannot be read: {error}")))?;
    Ok(vec![NamedText { name: name.to_owned(), text: decode(name, &bytes)?.to_owned() }])
}

fn whole(name: &str, texts: Vec<NamedText>, guard: Guard) -> Result<Change, Failure> {
    let [text] = <[NamedText; 1]>::try_from(texts).map_err(|texts| {
        let message = format!("a document is one file, and these are {}; give one of them", texts.len());
        Failure::Usage(message)
    })?;
    // The source would call the text by the document's name.
    read(&text.as_source()).map_err(|problems| unusable(&[problems]))?;
    Ok(Change { subject: Subject::Document(name.to_owned()), wish: Wish::Put(text.text), guard })
}

fn one_by_one(texts: &[NamedText], guard: Guard) -> Result<Vec<Change>, Failure> {
    let (mut changes, mut problems) = (Vec::new(), Vec::new());
    let mut known: HashMap<String, &str> = HashMap::new();
    for text in texts {
        let rules = match split(&text.as_source()) {
            Ok(rules) => rules,
            Err(EditError::Text(found)) => {
                problems.push(found);
                continue;
            }
            Err(error) => return Err(not_one_by_one(&text.name, &error)),
        };
        for (id, rule) in rules {
            if let Some(other) = known.insert(id.clone(), &text.name) {
                let message = format!("rule {id} is in {other} and in {}; keep one of them", text.name);
                return Err(Failure::Failed(message));
            }
            changes.push(Change { subject: Subject::Rule(id), wish: Wish::Put(rule), guard });
        }
    }
    match (problems.is_empty(), changes.is_empty()) {
        (false, _) => Err(unusable(&problems)),
        (true, true) => Err(Failure::Failed("there are no rules in what was given; write some".to_owned())),
        (true, false) => Ok(changes),
    }
}

fn not_one_by_one(name: &str, error: &EditError) -> Failure {
    Failure::Failed(format!("{name}: {error}\nUse --document NAME to store this one file whole."))
}

fn unusable(problems: &[Problems]) -> Failure {
    let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
    Failure::Failed(format!("the rules cannot be used; nothing was changed\n{}", problems.join("\n")))
}
