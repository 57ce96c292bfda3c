//! The picker: a list that is filtered as you type, with a preview. The terminal is as before at the end, however it
//! ends.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::Write as _;

use anyhow::{Context as _, Result};
use tapline_archive::sessions::ListedSession;
use tapline_archive::{Source, SourceOptions};
use tapline_session::render::{RenderAs, Style, TerminalOptions, Times};
use tapline_session::text::{fit, grouped, one_line};
use tokio::signal::unix::{SignalKind, signal};

use super::list::{Table, colour_of};
use super::shown::Shown;
use crate::commands::chat::keys::{Key, Keys};
use crate::commands::chat::terminal::{self, Terminal};
use crate::commands::view::HINTS;
use crate::exit;
use crate::output;
use crate::signals::Signals;

/// How many lines of a session the preview reads at most.
const READ: usize = 400;
/// Where the screen is lower, there is no preview.
const LOW: usize = 12;

/// What was picked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Picked {
    Nothing,
    /// A signal ended it, with this exit code.
    Signal(u8),
    View(usize),
    Page(usize),
    Resume(usize),
}

/// Lets a person pick a session.
pub(super) fn pick(sessions: &[ListedSession], shown: &[Shown], style: Style) -> Result<Picked> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot start")?;
    runtime.block_on(async {
        let mut signals = Signals::listen()?;
        let mut resized = signal(SignalKind::window_change()).context("cannot listen for signals")?;
        let _terminal = Terminal::open_full()?;
        let mut typed = terminal::typed();
        let mut keys = Keys::default();
        let mut picker = Picker::new(sessions, shown, style);
        loop {
            picker.draw();
            let waits = keys.waits();
            let pressed = tokio::select! {
                bytes = typed.recv() => match bytes {
                    Some(bytes) => keys.push(&bytes),
                    None => return Ok(Picked::Nothing),
                },
                () = tokio::time::sleep(waits.unwrap_or_default()), if waits.is_some() => keys.close(),
                _ = resized.recv() => Vec::new(),
                signal = signals.next() => return Ok(Picked::Signal(u8::try_from(128 + signal).unwrap_or(exit::FAILED))),
            };
            for key in pressed {
                if key == Key::Ctrl('z') {
                    Terminal::suspend();
                } else if let Some(picked) = picker.choice.press(key, shown) {
                    return Ok(picked);
                }
            }
        }
    })
}

/// What is typed and chosen. Pure.
#[derive(Debug, Default)]
struct Choice {
    filter: String,
    /// The sessions that have all words of the filter.
    matching: Vec<usize>,
    /// Which of them is chosen.
    at: usize,
}

impl Choice {
    fn of(shown: &[Shown]) -> Self {
        Self { matching: (0..shown.len()).collect(), ..Self::default() }
    }

    fn chosen(&self) -> Option<usize> {
        self.matching.get(self.at).copied()
    }

    fn press(&mut self, key: Key, shown: &[Shown]) -> Option<Picked> {
        let last = self.matching.len().saturating_sub(1);
        match key {
            Key::Escape | Key::Ctrl('c' | 'd' | 'q') => return Some(Picked::Nothing),
            Key::Enter => return self.chosen().map(Picked::View),
            Key::Ctrl('o') => return self.chosen().map(Picked::Page),
            Key::Ctrl('r') => return self.chosen().map(Picked::Resume),
            Key::Up | Key::Ctrl('p' | 'k') => self.at = self.at.saturating_sub(1),
            Key::Down | Key::Ctrl('n') | Key::NewLine => self.at = (self.at + 1).min(last),
            Key::Home => self.at = 0,
            Key::End => self.at = last,
            Key::Char(c) if !c.is_control() => self.refilter(shown, |filter| filter.push(c)),
            Key::Paste(text) => self.refilter(shown, |filter| *filter += &one_line(&text)),
            Key::Backspace => self.refilter(shown, |filter| {
                filter.pop();
            }),
            Key::Ctrl('u') => self.refilter(shown, String::clear),
            Key::Ctrl('w') => self.refilter(shown, |filter| {
                let kept = filter.trim_end().rfind(' ').map_or(0, |at| at + 1);
                filter.truncate(kept);
            }),
            Key::Char(_) | Key::Ctrl(_) | Key::Delete | Key::Left | Key::Right | Key::WordLeft | Key::WordRight => {}
        }
        None
    }

    fn refilter(&mut self, shown: &[Shown], change: impl FnOnce(&mut String)) {
        change(&mut self.filter);
        self.matching = (0..shown.len()).filter(|at| shown[*at].has(&self.filter)).collect();
        self.at = 0;
    }
}

struct Picker<'s> {
    sessions: &'s [ListedSession],
    shown: &'s [Shown],
    style: Style,
    choice: Choice,
    /// Previews that were made, for a width.
    previews: HashMap<(usize, usize), Vec<String>>,
}

impl<'s> Picker<'s> {
    fn new(sessions: &'s [ListedSession], shown: &'s [Shown], style: Style) -> Self {
        Self { sessions, shown, style, choice: Choice::of(shown), previews: HashMap::new() }
    }

    fn draw(&mut self) {
        let (columns, rows) = output::size();
        let lines = self.lines(columns, rows);
        let mut screen = String::from("\x1b[H");
        for (at, line) in lines.iter().take(rows).enumerate() {
            let _ = write!(screen, "{}{line}\x1b[K", if at == 0 { "" } else { "\r\n" });
        }
        screen += "\x1b[J";
        let mut out = std::io::stdout();
        let _ = out.write_all(screen.as_bytes()).and_then(|()| out.flush());
    }

    /// Returns the lines of the screen.
    fn lines(&mut self, columns: usize, rows: usize) -> Vec<String> {
        let Style { bold, dim, reset, .. } = self.style;
        let Choice { filter, matching, at } = &self.choice;
        let (all, at) = (self.shown.len(), *at);
        let count = format!("{} of {}", matching.len(), all);
        let typed = fit(&format!("› {filter}▏"), columns.saturating_sub(count.len() + 2)).into_owned();
        let mut lines = vec![format!("{bold}{typed}{reset}  {dim}{count}{reset}")];
        let has_preview = rows >= LOW;
        let room = if has_preview { (rows.saturating_sub(4) / 2).max(3) } else { rows.saturating_sub(3) };
        // Columns keep their width, whatever is typed.
        let table = Table::of(self.shown, columns.saturating_sub(2));
        lines.push(format!("{dim}  {}{reset}", fit(&table.head(), columns.saturating_sub(2))));
        let top = at.saturating_sub(room.saturating_sub(1));
        for (place, session) in matching.iter().enumerate().skip(top).take(room) {
            let shown = &self.shown[*session];
            let row = fit(&table.row(shown), columns.saturating_sub(2)).into_owned();
            let (mark, weight) = if place == at { ("›", bold) } else { (" ", "") };
            lines.push(format!("{weight}{}{mark} {row}{reset}", colour_of(shown.state, self.style)));
        }
        if matching.is_empty() {
            lines.push(format!("{dim}  no session has these words{reset}"));
        }
        if has_preview {
            let chosen = self.choice.chosen();
            while lines.len() < room + 2 {
                lines.push(String::new());
            }
            lines.push(format!("{dim}{}{reset}", "─".repeat(columns)));
            let left = rows.saturating_sub(lines.len() + 1);
            let preview: &[String] = match chosen {
                Some(chosen) => self.preview(chosen, columns),
                None => &[],
            };
            lines.extend(preview.iter().take(left).cloned());
        }
        while lines.len() + 1 < rows {
            lines.push(String::new());
        }
        lines.truncate(rows.saturating_sub(1));
        let keys = "Enter view · Ctrl-O page · Ctrl-R resume command · Esc leave";
        lines.push(format!("{dim}{}{reset}", fit(keys, columns)));
        lines
    }

    fn preview(&mut self, chosen: usize, columns: usize) -> &[String] {
        let (session, style) = (&self.sessions[chosen], self.style);
        self.previews.entry((chosen, columns)).or_insert_with(|| preview(session, columns, style))
    }
}

/// Returns the facts of a session and how it begins, in lines that fit.
fn preview(session: &ListedSession, columns: usize, style: Style) -> Vec<String> {
    let facts = &session.facts;
    let Style { dim, reset, .. } = style;
    let tokens = facts.tokens;
    let about = [
        format!("{}  {}", one_line(&facts.id), session.state.name()),
        format!("{}  {}", one_line(&facts.folder), one_line(&facts.branch)),
        format!(
            "{}  {} tokens in, {} out, {} cached",
            one_line(&session.model),
            grouped(tokens.input),
            grouped(tokens.output),
            grouped(tokens.cache_read)
        ),
    ];
    let mut lines: Vec<String> = about.iter().map(|line| format!("{dim}{}{reset}", fit(line.trim(), columns))).collect();
    let said = match session.opens() {
        None => Err("its files are gone; only its numbers are kept".to_owned()),
        Some(path) => beginning(path, columns).map_err(|error| one_line(&format!("{error:#}"))),
    };
    match said {
        Ok(text) => lines.extend(text.lines().map(|line| fit(line, columns).into_owned())),
        Err(why) => lines.push(fit(&why, columns).into_owned()),
    }
    lines
}

/// Returns how a session begins, without colours, so that every line can be cut.
fn beginning(path: &std::path::Path, columns: usize) -> Result<String> {
    let options = TerminalOptions {
        style: Style::plain(),
        width: Some(columns),
        rows: READ,
        live: false,
        thinking: false,
        partial: false,
        full: false,
        times: Times::Hidden,
        hints: HINTS,
    };
    let mut renderer = RenderAs::Terminal(options).renderer();
    let mut source = Source::open(path, SourceOptions::default())?;
    let mut text = String::new();
    for _ in 0..READ {
        let Some((_, steps)) = source.advance()? else { break };
        for step in &steps {
            text += &renderer.step(step);
        }
    }
    Ok(text)
}
