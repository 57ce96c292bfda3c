//! `tapline stats --watch`: the table on a screen of its own, renewed until a signal ends it. What was on the terminal
//! before is there again afterwards, with the last table below it.

use std::io::Write as _;
use std::time::Duration;

use anyhow::{Context as _, Result};
use tapline_archive::Prices;
use tapline_archive::stats::Query;
use tokio::signal::unix::SignalKind;

use super::table;
use crate::args::stats::Stats;
use crate::signals::Signals;
use crate::when::now;
use crate::{archive, exit, output};

/// How often the table is renewed.
const RENEWED: Duration = Duration::from_secs(2);

/// The other screen of the terminal, without a cursor. Dropping it returns to the first screen.
struct OtherScreen;

impl OtherScreen {
    fn enter() -> Result<Self> {
        let mut out = output::stdout();
        out.write_all(b"\x1b[?1049h\x1b[?25l")?;
        out.flush()?;
        Ok(Self)
    }
}

impl Drop for OtherScreen {
    fn drop(&mut self) {
        let mut out = output::stdout();
        let _ = out.write_all(b"\x1b[?25h\x1b[?1049l").and_then(|()| out.flush());
    }
}

pub(super) fn run(args: &Stats, prices: &Prices, mut query: Query) -> Result<u8> {
    // The first reading can take a while: it shows its progress, and Ctrl-C ends it at once.
    drop(archive::open(&args.paths, args.quiet)?);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot watch")?;
    runtime.block_on(async {
        let mut signals = Signals::listen()?;
        let screen = OtherScreen::enter()?;
        let (number, last) = loop {
            query.now = now();
            (query.since, query.until) = super::times(args)?;
            let shown = archive::read_again(&args.paths, |archive| super::count(archive, prices, &query, args))?;
            let table = table::render(&shown, &query, args.breakdown, Some(output::size().0), args.look.style());
            draw(&table)?;
            if let Ok(number) = tokio::time::timeout(RENEWED, signals.next()).await {
                break (number, table);
            }
        };
        drop(screen);
        let mut out = output::stdout();
        out.write_all(last.as_bytes())?;
        out.flush()?;
        drop(out);
        // Ctrl-C is how watching ends. Other signals mean what they always mean.
        if number == SignalKind::interrupt().as_raw_value() {
            return Ok(0);
        }
        exit::die_of(number);
        Ok(exit::FAILED)
    })
}

/// Draws the end of a text over what is on the screen: the newest rows and the totals are there.
fn draw(text: &str) -> Result<()> {
    let height = output::size().1;
    let lines: Vec<&str> = text.lines().collect();
    let from = lines.len().saturating_sub(height.saturating_sub(1));
    let mut out = output::stdout();
    out.write_all(b"\x1b[H")?;
    for line in &lines[from..] {
        // Each line over the old one: a screen that is cleared first flickers.
        write!(out, "{line}\x1b[K\r\n")?;
    }
    out.write_all(b"\x1b[J")?;
    Ok(out.flush()?)
}
