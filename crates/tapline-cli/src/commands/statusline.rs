//! `tapline statusline`: one line about the session, today and the five-hour window. It runs every second in every
//! session, so it reads only what grew in its own session, and looks for others once a minute.

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::Result;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use tapline_archive::stats::{By, Query, Totals, stats};
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
    /// The windows of the account's limits: of five hours, and of seven days.
    windows: [Option<UsedWindow>; 2],
}

/// Which share of a window is used, in percent, and when it ends, in seconds since 1970.
#[derive(Clone, Copy)]
struct UsedWindow {
    used: f64,
    resets: i64,
}

pub(crate) fn run(args: &Statusline) -> Result<u8> {
    let mut input = Vec::new();
    std::io::stdin().lock().take(INPUT).read_to_end(&mut input)?;
    let told = told(&String::from_utf8_lossy(&input));
    let prices = Prices::embedded().clone().with(&prices::own(&args.prices)?);
    // A status line is never an error: without an archive it shows what the agent wrote to it.
    let counted = counted(&told, &prices).ok();
    let mut out = output::stdout();
    // It is no terminal, but its reader shows colours.
    writeln!(out, "{}", line(&told, counted, args.look.style_for_a_reader()))?;
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
    let windows = ["five_hour", "seven_day"].map(|name| {
        let resets = number(&["rate_limits", name, "resets_at"]).unwrap_or(0.0) as i64;
        Some(UsedWindow { used: number(&["rate_limits", name, "used_percentage"])?, resets })
    });
    StatusInput {
        model: text(&["model", "display_name"]).or_else(|| text(&["model", "id"])).unwrap_or_default(),
        transcript: text(&["transcript_path"]).filter(|path| !path.is_empty()).map(PathBuf::from),
        cost: at(&["cost", "total_cost_usd"]).and_then(cost),
        context: number(&["context_window", "used_percentage"]),
        windows,
    }
}

/// What the archive knows: the cost of today, and of the window.
struct Counted {
    /// `None` if it is not known: no price is, or there is more to read than was read.
    today: Option<f64>,
    window: Option<f64>,
    /// Whether the cost of a request is not known.
    is_least: bool,
}

fn counted(told: &StatusInput, prices: &Prices) -> Result<Counted> {
    let folder = archive::folder()?;
    let mut index = Index::open(&folder)?;
    let own = own_files(told.transcript.as_deref());
    index.update_little(&Places::below(&own), LITTLE)?;
    let looked = folder.join("looked");
    if is_due(&looked) && index.update_little(&archive::places_of_user(), LITTLE)?.is_none() {
        // The next look is in a minute. Until then the note has something in it.
        fs::write(&looked, "there is more to read")?;
        read_behind()?;
    }
    let is_known = fs::metadata(&looked).is_ok_and(|note| note.len() == 0);
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
    let known = |cost: &Totals| {
        let usd = cost.cost_usd.usd();
        Some(usd).filter(|usd| is_known && (*usd > 0.0 || cost.cost_unknown == 0))
    };
    let window = known(&open.map(|row| row.totals.clone()).unwrap_or_default());
    (query.by, query.since) = (By::Agent, Some(midnight));
    let today = stats(&index, prices, &selection, &query)?.totals;
    Ok(Counted { today: known(&today), window, is_least: today.cost_unknown > 0 })
}

/// Reads all sessions into the index in a process of its own, which goes on when this one has ended. If another one does that, it waits for it.
fn read_behind() -> Result<()> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["stats", "--quiet", "--json"]).process_group(0);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    Ok(())
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
    let least = if counted.as_ref().is_some_and(|counted| counted.is_least) { "≥ " } else { "" };
    let today = counted.as_ref().and_then(|counted| counted.today);
    parts.push(today.map_or_else(|| "today ?".to_owned(), |usd| format!("today {least}{}", amount(usd))));
    let windows = told.windows.iter().zip([("5 h", "%H:%M"), ("7 d", "%a %H:%M")]);
    for (UsedWindow { used, resets }, (name, form)) in windows.filter_map(|(window, name)| Some(((*window)?, name))) {
        let ends = Timestamp::from_second(resets).unwrap_or_default().to_zoned(TimeZone::system());
        let until = if resets > 0 { format!(" until {}", ends.strftime(form)) } else { String::new() };
        parts.push(format!("{}{name} {used:.0} % used{until}{reset}", warned(used)));
    }
    if let (None, Some(counted)) = (told.windows[0], counted) {
        parts.push(counted.window.map_or_else(|| "5 h ?".to_owned(), |usd| format!("5 h {}", amount(usd))));
    }
    parts.join(&format!("{dim} · {reset}"))
}
