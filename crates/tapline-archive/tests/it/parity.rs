//! Nothing changes unseen: `parity.txt` has hashes of what tapline makes of every fixture, whole, cut after each of its lines, and damaged on
//! purpose. After an intended change, `TAPLINE_PARITY=write` writes the file again, and the commit says which hashes changed and why.
//! `TAPLINE_PARITY=FOLDER` writes what was hashed into a folder: two of them, before and after, can be compared with `diff -r`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::{Duration, UNIX_EPOCH};

use rusqlite::Connection;
use rusqlite::types::ValueRef;
use tapline_archive::search::TextIndex;
use tapline_archive::{Index, Places, Prices, Reader, Request, Selection, SessionFacts, Source, SourceOptions, load};
use tapline_session::Collector;
use tapline_testkit::files::{copy_folder, files_below};
use tapline_testkit::mutations::{Dice, lines_of, mutate};
use tapline_testkit::{TempFolder, fixture, fixtures, rounds};

const HASHES: &str = "tests/it/parity.txt";
/// The report; the steps; the requests and the session that statistics count; the verdict, cut after each line; and the first three after each
/// of [`FEW`] and of [`MANY`] mutations. `search N` has the texts of all transcripts with their words, as they are (0) and after a mutation.
const COLUMNS: [&str; 6] = ["report", "steps", "rows", "cuts", "few", "many"];
const FEW: u64 = 4;
const MANY: u64 = 64;

/// A file that is read, and the folder that goes with it: the files of its sub-agents are there.
struct Input {
    folder: PathBuf,
    file: PathBuf,
}

/// Streams, transcripts, and the streams beside them. Of each transcript's case the whole folder counts.
fn inputs() -> BTreeMap<String, Input> {
    let cases = files_below(fixture("cases"));
    let mut files = files_below(fixtures());
    files.retain(|path| path.extension().is_some_and(|ending| ending == "jsonl" || ending == "zst"));
    files.retain(|path| !cases.contains(path) && path.metadata().unwrap().len() > 0 && !path.starts_with(fixture("indexes")));
    let inputs: BTreeMap<_, _> = files
        .into_iter()
        .map(|path| {
            let name = path.strip_prefix(fixtures()).unwrap().to_owned();
            let depth = if name.starts_with("transcripts") { 2 } else { 1 };
            let folder = name.components().take(depth).collect::<PathBuf>();
            let file = name.strip_prefix(&folder).unwrap().to_owned();
            (name.to_str().unwrap().to_owned(), Input { folder: fixture(folder.to_str().unwrap()), file })
        })
        .collect();
    assert!(inputs.len() > 100, "the fixtures are there: {}", inputs.len());
    inputs
}

/// What the statistics count, as text.
#[derive(Default)]
struct Rows(String);

impl Reader for Rows {
    fn request(&mut self, it: &Request<'_>) {
        let tokens = it.tokens;
        let _ = writeln!(
            self.0,
            "request {} at {} of {} in {}: {} {}#{} {} tokens {} {} {} {} {} {} searches {} cost {:?} {:?} {:?} {} {} {} {:?}",
            it.id,
            it.time,
            it.agent,
            it.session,
            it.model,
            it.folder,
            it.branch,
            it.subagent,
            tokens.input,
            tokens.output,
            tokens.cache_read,
            tokens.cache_write_5m,
            tokens.cache_write_1h,
            tokens.reasoning,
            it.searches,
            it.cost,
            it.basis,
            it.computed,
            it.exact,
            it.unlisted,
            it.error,
            it.calls,
        );
    }

    fn session(&mut self, it: SessionFacts) {
        let _ = writeln!(
            self.0,
            "session {} of {}: {:?} {}#{} {} from {:?} to {:?} prompts {} busy {} {:?} files {} tokens {:?} cost {:?} {} {:?} {} {:?}",
            it.id,
            it.agent,
            it.title,
            it.folder,
            it.branch,
            it.version,
            it.first,
            it.last,
            it.prompts,
            it.busy_ms,
            it.phase,
            it.files.len(),
            it.tokens,
            it.cost,
            it.unpriced,
            it.forked_from,
            it.damaged,
            it.limits,
        );
    }
}

fn rows_of(path: &Path) -> String {
    let (mut index, mut rows) = (Index::in_memory().unwrap(), Rows::default());
    index.update(&Places::below(&[path.to_owned()]), &AtomicBool::new(false), |_| ()).unwrap();
    load(&index, Prices::embedded(), &Selection::default(), &mut rows).unwrap();
    rows.0
}

/// Everything in the text index but what says how the file is found again.
fn search_of(folder: &Path) -> String {
    let kept = TempFolder::new();
    let mut index = TextIndex::open(&kept).unwrap();
    index.update(&Places::below(&[folder.to_owned()]), &AtomicBool::new(false), |_| ()).unwrap();
    drop(index);
    let db = Connection::open(kept.join("text.db")).unwrap();
    db.execute_batch("CREATE VIRTUAL TABLE temp.placed USING fts5vocab (main, text, instance)").unwrap();
    let mut told = String::new();
    for query in [
        "SELECT path, agent FROM files ORDER BY path",
        "SELECT name, agent, folder, title, titled FROM sessions ORDER BY name",
        "SELECT entries.id, files.path, at, entries.len, part, about & 127, t.name, sessions.name, a.name, f.name, b.name FROM entries JOIN files ON files.id = file \
         LEFT JOIN names t ON t.id = about >> 7 \
         JOIN scopes ON scopes.id = scope JOIN sessions ON sessions.id = session JOIN names a ON a.id = scopes.agent \
         JOIN names f ON f.id = scopes.folder JOIN names b ON b.id = scopes.branch ORDER BY entries.id",
        "SELECT entry, files.path, at, copies.len, part FROM copies JOIN files ON files.id = file ORDER BY entry, files.path",
        "SELECT doc, col, offset, term FROM temp.placed ORDER BY doc, col, offset, term",
    ] {
        let mut statement = db.prepare(query).unwrap();
        let columns = statement.column_count();
        let mut rows = statement.query([]).unwrap();
        while let Some(row) = rows.next().unwrap() {
            for column in 0..columns {
                let _ = match row.get_ref(column).unwrap() {
                    ValueRef::Integer(number) => write!(told, "{number} "),
                    ValueRef::Text(text) | ValueRef::Blob(text) => write!(told, "{:?} ", String::from_utf8_lossy(text)),
                    other => write!(told, "{other:?} "),
                };
            }
            told.push('\n');
        }
    }
    told.replace(folder.to_str().unwrap(), "FOLDER")
}

/// The report and the steps.
fn told_of(path: &Path) -> [String; 2] {
    let mut source = match Source::open(path, SourceOptions::default()) {
        Ok(source) => source,
        Err(error) => return [error.to_string(), String::new()],
    };
    let (mut collector, mut steps) = (Collector::default(), String::new());
    loop {
        match source.advance() {
            Ok(Some((_, more))) => {
                for step in more {
                    let _ = writeln!(steps, "{}", serde_json::to_string(&step).unwrap());
                    collector.take(step);
                }
            }
            Ok(None) => break,
            Err(error) => return [error.to_string(), steps],
        }
    }
    let done = source.finish();
    [collector.report(done.summary, done.format, done.run, &done.ending).to_json(), steps]
}

/// All that is made of a file, each part without the name of the folder that it is in.
fn made_of(path: &Path, folder: &Path) -> [String; 3] {
    let [report, steps] = told_of(path);
    [report, steps, rows_of(path)].map(|text| text.replace(folder.to_str().unwrap(), "FOLDER"))
}

/// FNV-1a: the same everywhere, and nobody attacks it.
fn hash(text: &str) -> String {
    let hash =
        text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    format!("{:012x}", hash >> 16)
}

/// The time of a file is what counts where its lines have none.
fn set_time(path: &Path) {
    let time = UNIX_EPOCH + Duration::from_secs(1_795_000_000);
    File::options().append(true).open(path).unwrap().set_modified(time).unwrap();
}

fn copied(from: &Path) -> TempFolder {
    let folder = TempFolder::new();
    copy_folder(from, &folder);
    for path in files_below(&folder) {
        set_time(&path);
    }
    folder
}

/// The lines of a file, to be damaged and written again.
struct Lines {
    path: PathBuf,
    packed: bool,
    lines: Vec<Vec<u8>>,
}

impl Lines {
    fn of(path: PathBuf) -> Self {
        let bytes = std::fs::read(&path).unwrap();
        let packed = path.extension().is_some_and(|ending| ending == "zst");
        let lines = lines_of(&if packed { zstd::decode_all(bytes.as_slice()).unwrap() } else { bytes });
        Self { path, packed, lines }
    }

    fn write(&self, lines: &[Vec<u8>]) {
        let bytes = lines.iter().flat_map(|line| [line.as_slice(), b"\n"].concat()).collect::<Vec<u8>>();
        let bytes = if self.packed { zstd::encode_all(bytes.as_slice(), 1).unwrap() } else { bytes };
        std::fs::write(&self.path, bytes).unwrap();
        set_time(&self.path);
    }

    fn write_mutated(&self, name: &str, seed: u64) {
        let others = lines_of(&std::fs::read(fixture("events/claude-catalogue.jsonl")).unwrap());
        let mut dice = Dice::new(seed ^ u64::from_str_radix(&hash(name), 16).unwrap());
        let mut mutated = self.lines.clone();
        for _ in 0..=dice.roll(4) {
            mutate(&mut mutated, &others, &mut dice);
        }
        self.write(&mutated);
    }
}

/// What was made of a file, in the order of [`COLUMNS`]. The last is empty unless all mutations are asked for.
fn texts_of(name: &str, input: &Input, mutations: u64) -> Vec<String> {
    let folder = copied(&input.folder);
    let lines = Lines::of(folder.join(&input.file));
    let [report, steps, rows] = made_of(&lines.path, &folder);
    let (mut cuts, mut few, mut many) = (String::new(), String::new(), String::new());
    for end in 0..lines.lines.len() {
        lines.write(&lines.lines[..end]);
        let report = told_of(&lines.path)[0].clone();
        let verdict = serde_json::from_str::<serde_json::Value>(&report).map(|report| report["verdict"].to_string());
        let _ = writeln!(cuts, "{end}: {}", verdict.unwrap_or(report).replace(folder.to_str().unwrap(), "FOLDER"));
    }
    for seed in 1..=mutations {
        lines.write_mutated(name, seed);
        let told = made_of(&lines.path, &folder).join("\n\n");
        for text in [Some(&mut many), (seed <= FEW).then_some(&mut few)].into_iter().flatten() {
            let _ = writeln!(text, "seed {seed}\n{told}\n");
        }
    }
    if mutations < MANY {
        many.clear();
    }
    vec![report, steps, rows, cuts, few, many]
}

/// What the search knows of all transcripts together, as they are (0) or after one mutation of each.
fn search_texts(inputs: &BTreeMap<String, Input>, seed: u64) -> String {
    let folder = copied(&fixture("transcripts"));
    for (name, input) in inputs.iter().filter(|(name, _)| seed > 0 && name.starts_with("transcripts/")) {
        let case = input.folder.strip_prefix(fixture("transcripts")).unwrap();
        Lines::of(folder.join(case).join(&input.file)).write_mutated(name, seed);
    }
    search_of(&folder)
}

/// Does all of the work, on all cores, and returns the results by their names.
fn all_texts(inputs: &BTreeMap<String, Input>, mutations: u64) -> BTreeMap<String, Vec<String>> {
    let texts = Mutex::new(BTreeMap::new());
    let jobs =
        Mutex::new(inputs.keys().cloned().chain((0..=mutations).map(|seed| format!("search {seed}"))).collect::<Vec<_>>());
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(2, usize::from) {
            scope.spawn(|| {
                while let Some(job) = { jobs.lock().unwrap().pop() } {
                    let made = match job.strip_prefix("search ") {
                        Some(seed) => vec![search_texts(inputs, seed.parse().unwrap())],
                        None => texts_of(&job, &inputs[&job], mutations),
                    };
                    texts.lock().unwrap().insert(job, made);
                }
            });
        }
    });
    texts.into_inner().unwrap()
}

#[test]
fn what_is_made_of_the_fixtures_stays_as_it_is() {
    let wish = std::env::var("TAPLINE_PARITY").unwrap_or_default();
    let mutations = if wish.is_empty() { rounds(FEW, MANY) } else { MANY };
    let texts = all_texts(&inputs(), mutations);
    let place = Path::new(env!("CARGO_MANIFEST_DIR")).join(HASHES);
    let known = std::fs::read_to_string(&place).unwrap_or_default();
    let lines = known.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once('\t'));
    let known: BTreeMap<&str, Vec<&str>> = lines.map(|(name, hashes)| (name, hashes.split(' ').collect())).collect();
    let mut written = format!("# Hashes: see parity.rs.\n# file\t{}\n", COLUMNS.join(" "));
    let mut changed = Vec::new();
    for (name, texts) in &texts {
        let hashes: Vec<_> = texts.iter().map(|text| hash(text)).collect();
        let _ = writeln!(written, "{name}\t{}", hashes.join(" "));
        for (at, text) in texts.iter().enumerate() {
            let column = COLUMNS[at];
            let asked = column != "many" || mutations == MANY;
            if asked && known.get(name.as_str()).and_then(|known| known.get(at)) != Some(&hashes[at].as_str()) {
                changed.push(if name.starts_with("search ") { name.clone() } else { format!("{name}: {column}") });
            }
            if !wish.is_empty() && wish != "write" {
                let file = Path::new(&wish).join(name);
                std::fs::create_dir_all(&file).unwrap();
                std::fs::write(file.join(column), text).unwrap();
            }
        }
    }
    if wish == "write" {
        return std::fs::write(place, written).unwrap();
    }
    let gone = known.keys().filter(|name| !texts.contains_key(**name));
    let gone = gone.filter(|name| mutations == MANY || !name.starts_with("search "));
    changed.extend(gone.map(|name| format!("{name}: no such fixture")));
    assert!(
        changed.is_empty(),
        "what is made of these has changed; the comment at the top of tests/it/parity.rs says what to do:\n{}",
        changed.join("\n")
    );
}
