//! `tapline search`: finds texts in all sessions.

mod print;

use std::io::Write as _;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use anyhow::{Context as _, Result};
use jiff::tz::TimeZone;
use tapline_archive::search::{Copies, SearchFound, SearchOptions, SearchQuery, TextIndex};
use tapline_archive::{ArchiveError, Places};
use tapline_recording::Redactor;
use tapline_session::text::{count_of, one_line, with_causes};

use crate::archive::{self, Bar};
use crate::args::search::Search;
use crate::{exit, output, secrets, when};

/// About how much of a text is in the JSON.
const JSON_WIDTH: usize = 240;

pub(crate) fn run(args: &Search) -> Result<u8> {
    let zone = TimeZone::system();
    let asked = args.words.join(" ");
    let query = SearchQuery::parse(&asked, |text| when::moment(text, &zone))?;
    let redactor = secrets::redactor()?;
    let (columns, _) = output::size();
    let mut options = SearchOptions::default();
    (options.sort, options.sessions, options.hits) = (args.sort.into(), args.limit, args.hits);
    options.width = if args.json { JSON_WIDTH } else { print::snippet_width(columns) };
    if let Ok(kept) = archive::kept::kept() {
        options.copies = Copies::found_by(move |path| kept.find(path));
    }
    let found = find(args, &query, &mut options, &redactor)?;
    let mut out = output::stdout();
    if args.json {
        output::json(&serde_json::to_string(&print::json(&asked, args.sort, &found, &redactor))?)?;
    } else if found.sessions.is_empty()
        && let Some(nothing) = archive::nothing_there(&args.path, "tapline search --path PATH WORDS")
    {
        out.write_all(nothing.as_bytes())?;
    } else {
        let columns = output::is_terminal().then_some(columns);
        out.write_all(print::text(&found, &zone, columns, args.look.style()).as_bytes())?;
    }
    out.flush()?;
    // Other commands take a folder as their last word.
    if let Some(path) =
        args.words.last().filter(|word| found.sessions.is_empty() && word.contains('/') && Path::new(word).exists())
    {
        output::tell(&format!("{path} was searched for as a word. To search in it: --path {path}", path = one_line(path)));
    }
    // As grep does.
    Ok(if found.sessions.is_empty() { exit::FAILED } else { 0 })
}

/// Brings the index up to date and searches it. A damaged index is made again, once.
fn find(args: &Search, query: &SearchQuery, options: &mut SearchOptions, redactor: &Redactor) -> Result<SearchFound> {
    let mut places = archive::places(&args.path)?;
    let mut search = |index: &mut TextIndex| {
        if args.path.is_empty() {
            archive::kept::add_to(&mut places, || index.paths())?;
        }
        update(index, &places, args)?;
        // The index may also have sessions that other command lines named.
        options.below.clone_from(&places.roots);
        index.search(query, options, redactor)
    };
    let mut index = open()?;
    let mut found = search(&mut index);
    if found.as_ref().is_err_and(ArchiveError::is_damage) {
        found = index.rebuild().and_then(|()| {
            tell_damaged();
            search(&mut index)
        });
    }
    if let Err(error) = &found {
        // The disk may be full, for example. What is found is still right.
        tell_not_kept(&with_causes(error), "what is new");
        let folder = archive::folder()?;
        found = TextIndex::copy_in_memory(&folder).and_then(|mut copy| search(&mut copy));
    }
    if found.is_err() {
        found = TextIndex::in_memory().and_then(|mut index| search(&mut index));
    }
    found.context("cannot search the archive")
}

/// Opens the text index. If its folder cannot be written, the index is only in memory.
fn open() -> Result<TextIndex> {
    match archive::folder().and_then(|folder| Ok(TextIndex::open(&folder)?)) {
        Ok(index) => {
            if index.was_damaged() {
                tell_damaged();
            }
            Ok(index)
        }
        Err(error) => {
            tell_not_kept(&format!("{error:#}"), "everything");
            Ok(archive::folder().map_or_else(|_| TextIndex::in_memory(), |folder| TextIndex::copy_in_memory(&folder))?)
        }
    }
}

fn tell_damaged() {
    output::tell("the text index was damaged: it is built again, and the old one is kept as text.db.old");
}

fn tell_not_kept(why: &str, what: &str) {
    output::tell(&format!("the text index cannot be kept ({why}): {what} is read again each time"));
}

fn update(index: &mut TextIndex, places: &Places, args: &Search) -> Result<(), ArchiveError> {
    let mut bar = Bar::new("reading text", args.quiet || args.json);
    let updated = index.update(places, &AtomicBool::new(false), |progress| bar.show(progress));
    bar.clear();
    let updated = updated?;
    archive::tell_unreadable(places, &updated.unreadable);
    if updated.cut > 0 && !args.quiet {
        let cut = count_of(updated.cut, "new text");
        output::tell(&one_line(&format!("{cut} longer than 64 KiB: only the first 48 KiB and the last 16 KiB can be found")));
    }
    Ok(())
}
