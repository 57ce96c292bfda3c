//! `tapline statusline`: one line about the session, today and the five-hour window. It runs every second in every
//! session, so it reads only what grew in its own session, and looks for others once a minute.

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use tapline_archive::stats::{By, Query, stats};
use tapline_archive::{Index, Places, Prices, Selection};
use tapline_protocol::{Tape, Value};
use tapline_session::plausible::cost;
use tapline_session::render::Style;
use tapline_session::text::{dollars, one_line};

use crate::args::stats::Statusline;
use crate::when::now;
use crate::{archive, output, prices};

/// More than this is not read here: `tapline stats` does that.
const LITTLE: u64 = 32 << 20;
/// How often other sessions are looked for.
const LOOKED: Duration = Duration::from_secs(60);
/// The most that is read from stdin.
const INPUT: u64 = 1 << 20;
/// The length of the window.
const WINDOW: u64 = 5 * 60 * 60 * 1_000;

/// What Claude Code writes to stdin. All of it may be missing.
#[derive(Default)]
struct StatusInput {
    model: String,
    transcript: Option<PathBuf>,
    cost: Option<f64>,
    context: Option<f64>,
    /// The share of the five-hour window that is used, in percent, and when it ends, in seconds since 1970.
    window: Option<(f64, i64)>,
}

pub(crate) fn run(args: &Statusline) -> Result<u8> {
    let mut input = Vec::new();
    std::io::stdin().lock().take(INPUT).read_to_end(&mut input)?;
    let told = told(&String::from_utf8_lossy(&input));
    let prices = Prices::embedded().clone().with(&prices::own(&args.prices)?);
    // A status line is never an error: without an archive it shows what the agent wrote to it.
    let counted = counted(&told, &prices).ok();
    let mut out = output::stdout();
    writeln!(out, "{}", line(&told, counted, args.look.style()))?;
    out.flush()?;
    Ok(0)
}

fn told(text: &str) -> StatusInput {
    let mut tape = Tape::default();
    let Ok(value) = tape.parse(text.trim()) else { return StatusInput::default() };
    let at = |path: &[&str]| path.iter().try_fold(value, |value, key| value.get(key));
    let number = |path: &[&str]| at(path)?.as_number()?.parse::<f64>().ok();
    let text = |path: &[&str]| at(path).and_then(Value::as_str).map(std::borrow::Cow::into_owned);
    #[expect(clippy::cast_possible_truncation, reason = "a cast from float to integer saturates")]
    let window = number(&["rate_limits", "five_hour", "used_percentage"])
        .map(|used| (used, number(&["rate_limits", "five_hour", "resets_at"]).unwrap_or(0.0) as i64));
    StatusInput {
        model: text(&["model", "display_name"]).or_else(|| text(&["model", "id"])).unwrap_or_default(),
        transcript: text(&["transcript_path"]).filter(|path| !path.is_empty()).map(PathBuf::from),
        cost: at(&["cost", "total_cost_usd"]).and_then(cost),
        context: number(&["context_window", "used_percentage"]),
        window,
    }
}

/// What the archive knows: the cost of today, and of the window.
struct Counted {
    today: f64,
    window: f64,
    /// Whether the cost of a request is not known.
    is_least: bool,
}

fn counted(told: &StatusInput, prices: &Prices) -> Result<Counted> {
    let folder = archive::folder()?;
    let mut index = Index::open(&folder)?;
    let own = own_files(told.transcript.as_deref());
    index.update_little(&Places::below(&own), LITTLE)?;
    if is_due(&folder.join("looked")) {
        index.update_little(&archive::places_of_user(), LITTLE)?;
    }
    let now = now();
    let zone = TimeZone::system();
    let midnight = Timestamp::from_millisecond(now.cast_signed())?.to_zoned(zone.clone()).start_of_day()?;
    let midnight = midnight.timestamp().as_millisecond().max(0).cast_unsigned();
    let since = midnight.min(now.saturating_sub(WINDOW));
    // Count the same sessions as `stats` does: the index may have more.
    let below = Places::roots_of_user(&archive::path_of).into_iter().chain(own).collect();
    let selection = Selection { below, since: Some(since), ..Selection::default() };
    let mut query = Query::default();
    (query.by, query.since, query.now, query.zone) = (By::Block, Some(since), now, zone);
    let blocks = stats(&index, prices, &selection, &query)?;
    let open = blocks.rows.iter().find(|row| row.block.as_ref().is_some_and(|block| block.active));
    let window = open.map_or(0.0, |row| row.totals.cost_usd.usd());
    (query.by, query.since) = (By::Agent, Some(midnight));
    let today = stats(&index, prices, &selection, &query)?.totals;
    Ok(Counted { today: today.cost_usd.usd(), window, is_least: today.cost_unknown > 0 })
}

/// Returns the files of the session that asks: its transcript and those of its sub-agents.
fn own_files(transcript: Option<&Path>) -> Vec<PathBuf> {
    let Some(transcript) = transcript else { return Vec::new() };
    let beside = transcript.with_extension("");
    [transcript.to_owned(), beside].into_iter().filter_map(|path| path.canonicalize().ok()).collect()
}

/// Returns whether other sessions were not looked for lately, and notes that they are now.
fn is_due(stamp: &Path) -> bool {
    let age = fs::metadata(stamp).and_then(|meta| meta.modified()).ok().and_then(|time| time.elapsed().ok());
    let due = age.is_none_or(|age| age >= LOOKED);
    let stamped = || fs::OpenOptions::new().create(true).write(true).truncate(true).mode(0o600).open(stamp);
    due && stamped().is_ok()
}

/// Formats dollars. Nothing is not a small amount.
fn amount(usd: f64) -> String {
    if usd <= 0.0 { "$0".to_owned() } else { dollars(usd) }
}

/// Writes the line.
fn line(told: &StatusInput, counted: Option<Counted>, style: Style) -> String {
    let Style { bold, dim, yellow, red, reset, .. } = style;
    let warned = |share: f64| {
        if share >= 90.0 {
            red
        } else if share >= 75.0 {
            yellow
        } else {
            ""
        }
    };
    let mut parts = Vec::new();
    if !told.model.is_empty() {
        parts.push(format!("{bold}{}{reset}", one_line(&told.model)));
    }
    if let Some(share) = told.context {
        parts.push(format!("{}context {share:.0} %{reset}", warned(share)));
    }
    if let Some(cost) = told.cost {
        parts.push(format!("session {}", amount(cost)));
    }
    if let Some(counted) = &counted {
        let least = if counted.is_least { "≥ " } else { "" };
        parts.push(format!("today {least}{}", amount(counted.today)));
    }
    match (told.window, counted) {
        (Some((used, resets)), _) => {
            let ends = Timestamp::from_second(resets).unwrap_or_default().to_zoned(TimeZone::system());
            let until = if resets > 0 { format!(" until {:02}:{:02}", ends.hour(), ends.minute()) } else { String::new() };
            parts.push(format!("{}5 h {used:.0} % used{until}{reset}", warned(used)));
        }
        (None, Some(counted)) => parts.push(format!("5 h {}", amount(counted.window))),
        (None, None) => {}
    }
    parts.join(&format!("{dim} · {reset}"))
}
