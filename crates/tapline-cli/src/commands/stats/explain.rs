//! `tapline stats --explain SESSION`: how the cost of a session came about, request by request.

use std::io::Write as _;

use anyhow::{Result, bail};
use serde_json::json;
use tapline_archive::stats::Query;
use tapline_archive::{CostBasis, Money, Prices, Reader, Request, SessionFacts, load};
use tapline_session::text::{count_of, dollars, grouped, one_line};

use crate::archive::Archive;
use crate::args::stats::Stats;
use crate::output;

/// Takes the requests of one session.
struct One<'s> {
    start: &'s str,
    lines: Vec<Line>,
    /// The ids of the sessions that begin with the text.
    sessions: Vec<SessionFacts>,
}

struct Line {
    session: String,
    time: u64,
    model: String,
    what: &'static str,
    tokens: tapline_archive::Tokens,
    searches: u64,
    computed: Option<Money>,
    cost: Option<Money>,
    basis: CostBasis,
}

impl Reader for One<'_> {
    fn request(&mut self, request: &Request<'_>) {
        if !request.session.starts_with(self.start) {
            return;
        }
        let what = match (request.unlisted, request.subagent.is_empty()) {
            (true, _) => "no line shows it",
            (_, false) => "sub-agent",
            _ => "",
        };
        self.lines.push(Line {
            session: request.session.to_owned(),
            time: request.time,
            model: request.model.to_owned(),
            what,
            tokens: request.tokens,
            searches: request.searches,
            computed: request.computed,
            cost: request.cost,
            basis: request.basis,
        });
    }

    fn session(&mut self, session: SessionFacts) {
        if session.id.starts_with(self.start) {
            self.sessions.push(session);
        }
    }
}

/// How the cost of a session came about.
pub(super) struct Explained {
    about: SessionFacts,
    lines: Vec<Line>,
    cost: Money,
    computed: Money,
}

/// Finds the session whose id starts with this text, and its requests.
pub(super) fn read(archive: &Archive, prices: &Prices, session: &str) -> Result<Explained> {
    let mut one = One { start: session, lines: Vec::new(), sessions: Vec::new() };
    load(&archive.index, prices, &archive.selection, &mut one)?;
    let ids: Vec<String> = one.sessions.iter().map(|session| one_line(&session.id)).collect();
    let about = match one.sessions.len() {
        0 => bail!("no session has an id that starts with `{session}`: `tapline stats --by session` lists them"),
        1 => one.sessions.remove(0),
        _ => bail!("`{session}` is the start of several sessions: {}", ids.join(", ")),
    };
    let mut lines = one.lines;
    lines.retain(|line| line.session == about.id);
    lines.sort_by_key(|line| line.time);
    let sum = |cost: fn(&Line) -> Option<Money>| lines.iter().filter_map(cost).sum::<Money>();
    let (cost, computed) = (sum(|line| line.cost), sum(|line| line.computed));
    Ok(Explained { about, lines, cost, computed })
}

/// Prints it, request by request.
pub(super) fn write(explained: &Explained, query: &Query, args: &Stats) -> Result<u8> {
    let Explained { about, lines, .. } = explained;
    let (cost, computed) = (explained.cost, explained.computed);
    if args.json {
        let requests: Vec<_> = lines.iter().map(as_json).collect();
        let all = json!({"session": about.id, "cost_usd": cost.usd(), "computed_usd": computed.usd(), "forked_from": about.forked_from, "requests": requests});
        output::json(&all.to_string())?;
        return Ok(0);
    }
    let mut out = output::stdout();
    writeln!(out, "{}  {}", one_line(&about.id), one_line(&about.title))?;
    if let Some(parent) = &about.forked_from {
        writeln!(out, "Forked from {}. What was spent before counts there.", one_line(parent))?;
    }
    for file in &about.files {
        let gone = if file.gone { " (gone; its numbers are kept)" } else { "" };
        writeln!(out, "  {}{gone}", one_line(&file.path.display().to_string()))?;
    }
    for line in lines {
        let when = jiff::Timestamp::from_millisecond(line.time.cast_signed()).unwrap_or_default().to_zoned(query.zone.clone());
        let tokens = line.tokens;
        let when = when.strftime("%Y-%m-%d %H:%M:%S");
        write!(
            out,
            "{when}  {}  in {} · out {} · read {} · write {}",
            one_line(&line.model),
            grouped(tokens.input),
            grouped(tokens.output),
            grouped(tokens.cache_read),
            grouped(tokens.cache_write())
        )?;
        if tokens.cache_write_1h > 0 {
            write!(out, " ({} for an hour)", grouped(tokens.cache_write_1h))?;
        }
        if line.searches > 0 {
            write!(out, " · {}", count_of(usize::try_from(line.searches).unwrap_or(usize::MAX), "web search"))?;
        }
        let basis = match (line.basis, line.cost) {
            (CostBasis::Reported, _) if line.cost == line.computed => "reported and by the table".to_owned(),
            (CostBasis::Reported, _) => match line.computed {
                Some(computed) => format!("its share of the reported total; by the table ${:.6}", computed.usd()),
                None => "its share of the reported total; no price in the table".to_owned(),
            },
            (CostBasis::Computed, _) => "by the table".to_owned(),
            (CostBasis::Unknown, _) => "no price for this model".to_owned(),
        };
        let cost = line.cost.map_or_else(|| "unknown".to_owned(), |cost| format!("${:.6}", cost.usd()));
        let what = if line.what.is_empty() { String::new() } else { format!(" · {}", line.what) };
        writeln!(out, "  = {cost} ({basis}){what}")?;
    }
    writeln!(out, "Total {} for {}.", dollars(cost.usd()), count_of(lines.len(), "request"))?;
    if lines.iter().any(|line| line.basis == CostBasis::Reported) {
        let same = cost.pico().abs_diff(computed.pico()) <= 1_000_000;
        let than = if same { "the same".to_owned() } else { format!("${:.6}", computed.usd()) };
        writeln!(out, "The agent reports ${:.6}; by the table of prices it is {than}.", cost.usd())?;
    }
    out.flush()?;
    Ok(0)
}

fn as_json(line: &Line) -> serde_json::Value {
    let basis = match line.basis {
        CostBasis::Reported => "reported",
        CostBasis::Computed => "computed",
        CostBasis::Unknown => "unknown",
    };
    json!({
        "time": line.time, "model": line.model, "what": line.what, "tokens": line.tokens, "web_searches": line.searches,
        "cost_usd": line.cost.map(Money::usd), "computed_usd": line.computed.map(Money::usd), "basis": basis,
    })
}
