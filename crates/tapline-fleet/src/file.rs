//! Job files: TOML, JSON lines or CSV. Whatever is wrong with one is listed completely, each row with its reason, before
//! anything starts.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};
use tapline_session::text::nearest;
use toml::de::{DeTable, DeValue};

use crate::csv;
use crate::fields::{Fields, KEYS, NO_PROMPT, texts_of};
use crate::mistake::{Mistake, Mistakes, Place};
use crate::plan::{Entry, NO_JOBS, Plan, Row, RunsOn, Source};
use crate::template::{self, Piece};

/// Why there is no plan.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JobFileError {
    /// The file cannot be read.
    #[error("cannot read {path}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        error: io::Error,
    },
    /// Its name does not say what it is.
    #[error("{0}: a job file ends with .toml, .jsonl or .csv")]
    Kind(PathBuf),
    /// It has mistakes.
    #[error(transparent)]
    Wrong(#[from] Mistakes),
}

/// A file of jobs that can be run: an example of all that matters.
pub const EXAMPLE: &str = include_str!("example.toml");

impl Plan {
    /// Reads a job file and checks all of it. `defaults` are values for jobs that do not have their own, by their keys.
    pub fn read(path: &Path, defaults: &BTreeMap<String, Value>) -> Result<Self, JobFileError> {
        Self::read_for(path, defaults, RunsOn::ThisMachine)
    }

    /// Reads a job file whose jobs are run there.
    pub fn read_for(path: &Path, defaults: &BTreeMap<String, Value>, on: RunsOn) -> Result<Self, JobFileError> {
        let text = read_text(path)?;
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let mut reader = FileReader { name, base: folder_of(path), defaults, faults: Vec::new() };
        let entries = match kind_of(path) {
            Some(FileKind::Toml) => reader.toml(&text),
            Some(FileKind::Lines) => reader.lines(&text),
            Some(FileKind::Table) => reader.table(&text),
            None => return Err(JobFileError::Kind(path.to_owned())),
        };
        let FileReader { name: file, base, faults, .. } = reader;
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        // Mistakes of one kind do not hide those of another.
        match (Self::new(Source { base, name, entries }, on), faults.is_empty()) {
            (Ok(plan), true) => Ok(plan),
            (Ok(_), false) => Err(Mistakes::sorted(faults).into()),
            (Err(Mistakes(more)), is_empty) => {
                let misspelt = places_misspelt(&faults, &file);
                let is_misspelt = |job: &Mistake| misspelt.contains(file.as_str()) || misspelt.contains(job.place.as_str());
                let more = more
                    .into_iter()
                    .filter(|fault| is_empty || fault.why != NO_JOBS && !(fault.why == NO_PROMPT && is_misspelt(fault)));
                let named = |fault: Mistake| match fault.why.as_str() {
                    NO_JOBS => Mistake { place: file.clone(), ..fault },
                    _ => fault,
                };
                Err(Mistakes::sorted(faults.iter().cloned().chain(more.map(named)).collect()).into())
            }
        }
    }
}

/// Where the key of a prompt is misspelt, so that there is none: in a job, or for all jobs of the file.
fn places_misspelt<'f>(faults: &'f [Mistake], file: &'f str) -> BTreeSet<&'f str> {
    let is_meant = |fault: &&Mistake| fault.why.ends_with("did you mean `prompt`?") || fault.why.ends_with("`prompt_file`?");
    let of_all = |place: &'f str| if place.ends_with("[defaults]") { file } else { place };
    faults.iter().filter(is_meant).map(|fault| of_all(&fault.place)).collect()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FileKind {
    Toml,
    Lines,
    Table,
}

fn kind_of(path: &Path) -> Option<FileKind> {
    match path.extension()?.to_str()?.to_ascii_lowercase().as_str() {
        "toml" => Some(FileKind::Toml),
        "jsonl" | "ndjson" => Some(FileKind::Lines),
        "csv" => Some(FileKind::Table),
        _ => None,
    }
}

fn read_text(path: &Path) -> Result<String, JobFileError> {
    let fail = |error| JobFileError::Read { path: path.to_owned(), error };
    let bytes = std::fs::read(path).map_err(fail)?;
    String::from_utf8(bytes).map_err(|_| fail(io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8")))
}

fn folder_of(path: &Path) -> PathBuf {
    Source::based_on(path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new(".")))
}

struct FileReader<'d> {
    name: String,
    base: PathBuf,
    defaults: &'d Fields,
    faults: Vec<Mistake>,
}

impl FileReader<'_> {
    fn wrong(&mut self, place: &Place, why: impl Into<String>) {
        self.faults.push(Mistake::new(place, why));
    }

    /// The whole file.
    fn whole(&self) -> Place {
        Place::new(0, self.name.as_str())
    }

    /// Where values stand that come from the command line.
    fn homes(&self) -> BTreeMap<String, Place> {
        self.defaults.keys().map(|key| (key.clone(), Place::new(0, "command line"))).collect()
    }

    fn toml(&mut self, text: &str) -> Vec<Entry> {
        let (name, whole) = (self.name.clone(), self.whole());
        let table: toml::Table = match text.parse() {
            Ok(table) => table,
            Err(error) => {
                let at = error.span().map_or(0, |span| span.start);
                let line = text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1;
                self.wrong(&Place::new(at, format!("{name}, line {line}")), error.message());
                return Vec::new();
            }
        };
        let Ok(Value::Object(mut table)) = serde_json::to_value(table) else { return Vec::new() };
        let offsets = Offsets::of(text);
        let (mut defaults, mut homes) = (self.defaults.clone(), self.homes());
        match table.remove("defaults") {
            Some(Value::Object(own)) => {
                let here = homes_of(&offsets.defaults, &Place::new(0, format!("{name}, [defaults]")), &own);
                self.check_keys(&here, &own);
                for key in ["name", "step", "rows"].iter().filter(|key| own.contains_key(**key)) {
                    self.wrong(&here[*key], format!("`{key}` belongs into each [[job]]"));
                }
                homes.extend(here);
                defaults.extend(own);
            }
            Some(_) => self.wrong(&whole, "`defaults` is a table: write [defaults] on a line of its own"),
            None => {}
        }
        let jobs = match table.remove("job") {
            Some(Value::Array(jobs)) => jobs,
            Some(_) => {
                self.wrong(&whole, "`job` is a list: write [[job]] on a line of its own before each");
                Vec::new()
            }
            None => Vec::new(),
        };
        for key in table.keys() {
            self.wrong(&whole, format!("`{key}` is not a key of a job file: it has [defaults] and [[job]]"));
        }
        let mut entries = Vec::new();
        for (number, job) in (1..).zip(jobs) {
            let Value::Object(own) = job else {
                self.wrong(&whole, "`job` is a list of tables: write [[job]] on a line of its own before each");
                continue;
            };
            let called = own.get("name").and_then(Value::as_str).map(|name| format!(" (`{name}`)")).unwrap_or_default();
            let nothing = BTreeMap::new();
            let keys = offsets.jobs.get(number - 1).unwrap_or(&nothing);
            let begin = keys.values().min().copied().unwrap_or(text.len());
            let place = Place::new(begin, format!("{name}, job {number}{called}"));
            let here = homes_of(keys, &place, &own);
            self.check_keys(&here, &own);
            let homes = homes.clone().into_iter().chain(here).collect();
            let fields: Fields = defaults.clone().into_iter().chain(own).collect();
            entries.push(self.entry(place, fields, homes));
        }
        entries
    }

    /// Takes the rows out of the fields.
    fn entry(&mut self, place: Place, mut fields: Fields, homes: BTreeMap<String, Place>) -> Entry {
        let rows = match fields.remove("rows") {
            Some(Value::String(file)) => Some(self.rows_of_file(&place, &file)),
            Some(Value::Array(rows)) => {
                let rows: Vec<_> = (1..).zip(rows).collect();
                Some(
                    rows.into_iter()
                        .filter_map(|(number, row)| self.row(place.row(number, format!("{place}, row {number}")), row))
                        .collect(),
                )
            }
            Some(_) => {
                self.wrong(&place, "rows: the name of a file is expected, or a list of tables");
                None
            }
            None => None,
        };
        // A list that is written down is a table with one column.
        match (&rows, fields.get("for_each")) {
            (None, Some(Value::Array(items))) => {
                let row = |(number, item): (usize, &Value)| Row {
                    place: place.row(number, format!("{place}, item {number}")),
                    columns: BTreeMap::from([("item".to_owned(), text_of(item))]),
                };
                let rows = (1..).zip(items).map(row).collect();
                fields.remove("for_each");
                Entry { place, fields, rows: Some(rows), homes }
            }
            (_, Some(Value::Array(_))) => {
                self.wrong(&place, "for_each: a job has either rows or a list of its own");
                Entry { place, fields, rows, homes }
            }
            _ => Entry { place, fields, rows, homes },
        }
    }

    fn row(&mut self, place: Place, row: Value) -> Option<Row> {
        let Value::Object(columns) = row else {
            self.wrong(&place, "a row is an object: {\"column\": \"value\"}");
            return None;
        };
        Some(Row { place, columns: columns.iter().map(|(key, value)| (key.clone(), text_of(value))).collect() })
    }

    /// The rows of another file.
    fn rows_of_file(&mut self, place: &Place, file: &str) -> Vec<Row> {
        let path = self.base.join(file);
        let text = match read_text(&path) {
            Ok(text) => text,
            Err(error) => {
                self.wrong(place, format!("rows: {}", tapline_session::text::with_causes(&error)));
                return Vec::new();
            }
        };
        match kind_of(&path) {
            Some(FileKind::Table) => self.table_rows(|line| place.row(line, format!("{file}, line {line}")), &text).1,
            Some(FileKind::Lines) => {
                let rows = self.objects(|line| place.row(line, format!("{file}, line {line}")), &text);
                rows.into_iter().filter_map(|(place, row)| self.row(place, Value::Object(row))).collect()
            }
            Some(FileKind::Toml) | None => {
                self.wrong(place, format!("rows: {file}: a file of rows ends with .csv or .jsonl"));
                Vec::new()
            }
        }
    }

    /// The objects of a file of JSON lines, each with its place.
    fn objects(&mut self, place: impl Fn(usize) -> Place, text: &str) -> Vec<(Place, Map<String, Value>)> {
        let mut objects = Vec::new();
        for (number, line) in (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty()) {
            let place = place(number);
            match serde_json::from_str(line) {
                Ok(Value::Object(object)) => objects.push((place, object)),
                Ok(_) => self.wrong(&place, "a line is an object: {\"prompt\": \"…\"}"),
                Err(error) => {
                    // Its line would be that of this text, which is always 1.
                    let told = error.to_string();
                    let what = told.rsplit_once(" at line ").map_or(told.as_str(), |(what, _)| what);
                    self.wrong(&place, format!("this is not JSON: {what} at column {}", error.column()));
                }
            }
        }
        objects
    }

    /// Each line is a job. Keys that no job has are columns, for its own texts.
    fn lines(&mut self, text: &str) -> Vec<Entry> {
        let stem = Path::new(&self.name).file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let name = self.name.clone();
        let mut entries = Vec::new();
        let place = |line: usize| Place::new(line, format!("{name}, line {line}"));
        for (number, (place, object)) in (1..).zip(self.objects(place, text)) {
            let (own, columns): (Map<_, _>, Map<_, _>) = object.into_iter().partition(|(key, _)| KEYS.contains(&key.as_str()));
            let mut homes = self.homes();
            homes.retain(|key, _| !own.contains_key(key));
            let mut fields: Fields = self.defaults.clone().into_iter().chain(own).collect();
            fields.entry("name".to_owned()).or_insert_with(|| format!("{stem}-{number}").into());
            fields.entry("step".to_owned()).or_insert_with(|| stem.clone().into());
            self.check_columns(&place, columns.keys().map(String::as_str), &fields);
            let row = self.row(place.clone(), Value::Object(columns)).filter(|row| !row.columns.is_empty());
            let mut entry = self.entry(place, fields, homes);
            entry.rows = entry.rows.or(row.map(|row| vec![row]));
            entries.push(entry);
        }
        entries
    }

    /// Each row is a job. A column with the name of a key is this key's value.
    fn table(&mut self, text: &str) -> Vec<Entry> {
        let name = self.name.clone();
        let (columns, rows) = self.table_rows(|line| Place::new(line, format!("{name}, line {line}")), text);
        let (mut fields, mut homes) = (self.defaults.clone(), self.homes());
        for column in columns.iter().filter(|column| KEYS.contains(&column.as_str())) {
            homes.remove(column);
            fields.insert(column.clone(), format!("{{{column}}}").into());
        }
        let place = self.whole();
        self.check_columns(&place, columns.iter().map(String::as_str).filter(|column| !KEYS.contains(column)), &fields);
        vec![Entry { place, fields, rows: Some(rows), homes }]
    }

    fn table_rows(&mut self, place: impl Fn(usize) -> Place, text: &str) -> (Vec<String>, Vec<Row>) {
        let lines = match csv::lines(text) {
            Ok(lines) => lines,
            Err((line, why)) => {
                self.wrong(&place(line), why);
                return (Vec::new(), Vec::new());
            }
        };
        let mut lines = lines.into_iter();
        let Some(head) = lines.next() else {
            self.wrong(&place(1), "it is empty: its first line names the columns");
            return (Vec::new(), Vec::new());
        };
        let columns: Vec<String> = head.fields.iter().map(|column| column.trim().to_owned()).collect();
        for (at, column) in columns.iter().enumerate() {
            if column.is_empty() {
                self.wrong(&place(head.number), format!("column {} has no name", at + 1));
            } else if columns[..at].contains(column) {
                self.wrong(&place(head.number), format!("two columns are called `{column}`"));
            }
        }
        let mut rows = Vec::new();
        for line in lines {
            if line.fields.len() == columns.len() {
                let columns = columns.iter().cloned().zip(line.fields).collect();
                rows.push(Row { place: place(line.number), columns });
            } else {
                let why = format!("it has {} fields, but there are {} columns", line.fields.len(), columns.len());
                self.wrong(&place(line.number), why);
            }
        }
        (columns, rows)
    }

    /// Each key stands at its home.
    fn check_keys(&mut self, homes: &BTreeMap<String, Place>, own: &Map<String, Value>) {
        for key in own.keys().filter(|key| !KEYS.contains(&key.as_str())) {
            let meant =
                nearest(key, KEYS.iter().copied()).map(|meant| format!(": did you mean `{meant}`?")).unwrap_or_default();
            self.wrong(&homes[key], format!("`{key}` is not a key of a job{meant}"));
        }
    }

    /// A column that no text uses is most likely a key that is misspelt, if it looks like one.
    fn check_columns<'c>(&mut self, place: &Place, columns: impl Iterator<Item = &'c str>, fields: &Fields) {
        let texts: Vec<&str> = fields.values().flat_map(texts_of).collect();
        let is_used = |column: &str| {
            let uses = |text: &&str| template::pieces(text).is_ok_and(|pieces| pieces.contains(&Piece::Place(column)));
            texts.iter().any(uses)
        };
        // A short name resembles any other: `id` is no `if`.
        let is_long = |column: &&str| column.chars().count() > 3;
        for column in columns.filter(is_long).filter(|column| !is_used(column)) {
            if let Some(meant) = nearest(column, KEYS.iter().copied()) {
                self.wrong(place, format!("`{column}` is not a key of a job, and no text uses it: did you mean `{meant}`?"));
            }
        }
    }
}

/// Where the keys of a TOML file stand, in bytes: those of [defaults], and those of each job.
#[derive(Default)]
struct Offsets {
    defaults: BTreeMap<String, usize>,
    jobs: Vec<BTreeMap<String, usize>>,
}

impl Offsets {
    fn of(text: &str) -> Self {
        let keys = |value: &DeValue<'_>| match value {
            DeValue::Table(table) => table.keys().map(|key| (key.get_ref().to_string(), key.span().start)).collect(),
            _ => BTreeMap::new(),
        };
        let mut offsets = Self::default();
        let Ok(table) = DeTable::parse(text) else { return offsets };
        for (key, value) in table.get_ref() {
            match (&**key.get_ref(), value.get_ref()) {
                ("defaults", value) => offsets.defaults = keys(value),
                ("job", DeValue::Array(jobs)) => offsets.jobs = jobs.iter().map(|job| keys(job.get_ref())).collect(),
                _ => {}
            }
        }
        offsets
    }
}

/// Where each key of a table stands: the table itself, in the order of the file.
fn homes_of(offsets: &BTreeMap<String, usize>, place: &Place, own: &Map<String, Value>) -> BTreeMap<String, Place> {
    own.keys().map(|key| (key.clone(), offsets.get(key).map_or_else(|| place.clone(), |at| place.moved(*at)))).collect()
}

fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}
