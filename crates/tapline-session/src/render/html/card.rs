//! Cards: what happened, one thing each, in the order in which it began. A call and its result are one card, and so is a
//! text with the parts in which it came, so a card may change after it was shown.

mod asked;

use std::collections::{HashMap, HashSet, VecDeque};
use std::fmt::Write as _;
use std::ops::Index;

use tapline_protocol::Moment;

use self::asked::Asked;
use super::remark::RemarkCard;
use super::{call, cut, escape, escaped, prose};
use crate::recent::hash;
use crate::render::marks::{Remark, Shown, session_lines, show};
use crate::step::{Call, CallAnswer, CallStatus, DeltaKind, Partial, Said, SessionInfo, Step, Turn, What};
use crate::text::{count_of, dollars, fit, one_line, short_count};
use crate::time::duration;

/// How many unreadable lines have a card of their own. Each takes many times its own size.
const ODD_LIMIT: usize = 1_000;
/// A text that was released may still be retracted until so many cards came after it.
const RETRACTED: usize = 1_024;
/// So many cards are released at least before they are forgotten, together.
const RELEASED: usize = 64;
/// How many texts of a message can be in the middle of being written. A message has few blocks.
const DRAFTS: usize = 64;
/// How many calls of long ago are remembered, if sub-agents belong to them.
const QUIET: usize = 1_024;
/// How many cards are kept at most once cards are released. If so many calls have no result, the first of them will have none.
const MOST: usize = 16_384;
/// Sub-agents deeper than this are not nested further.
const DEEPEST: usize = 24;
/// The longest title of a card, in columns.
const TITLE: usize = 160;

/// One thing that happened.
#[derive(Debug)]
#[non_exhaustive]
pub struct Card {
    /// The number, from 0, in the order in which cards began.
    pub n: usize,
    /// When it began.
    pub arrived: Option<Moment>,
    /// The card of the call that started the sub-agent; `None` for the main thread.
    pub parent: Option<usize>,
    /// The nesting of sub-agents: 0 is the main thread.
    pub depth: usize,
    body: Body,
}

#[derive(Debug)]
enum Body {
    Session(Box<SessionInfo>),
    Prompt(String),
    Text {
        text: String,
        is_cut_short: bool,
    },
    Thinking(String),
    Call(Box<CallCard>),
    Turn(Box<TurnCard>),
    Remark(Box<RemarkCard>),
    MoreOdd(usize),
    Withdrawn,
    /// It was shown, and only its place is kept.
    Released,
}

#[derive(Debug)]
struct CallCard {
    call: Call,
    answer: Option<CallAnswer>,
    /// Whether no result can come any more.
    is_over: bool,
}

#[derive(Debug)]
struct TurnCard {
    error: Option<String>,
    text: Option<String>,
    failed: bool,
    figures: String,
    cost_usd: Option<f64>,
}

/// The cards of a session. Take a card by its number (`cards[n]`) or all of them with [`Cards::iter`].
///
/// ```
/// use tapline_protocol::Reader;
/// use tapline_session::Fold;
/// use tapline_session::render::html::Cards;
///
/// let stream = br#"{"type":"assistant","message":{"content":[{"type":"text","text":"It **works** <now>."}]}}"#;
/// let (mut fold, mut cards) = (Fold::default(), Cards::default());
/// for record in Reader::new(stream.as_slice()) {
///     for step in fold.apply(&record?) {
///         for n in cards.accept(&step) {
///             assert_eq!(cards[n].html(), "<div class=prose><p>It <strong>works</strong> &lt;now&gt;.</p>\n</div>\n");
///         }
///     }
/// }
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct Cards {
    /// In the order of their numbers. Those that were released and cannot change are forgotten after a while.
    cards: Vec<Card>,
    /// How many were released since then. If too many cards are kept, those count, too, that cannot be released.
    released: usize,
    /// How many cards and texts were looked at to forget some of them.
    #[cfg(test)]
    looked_at: usize,
    /// How many there were, with those that are forgotten.
    count: usize,
    calls: HashMap<String, CallPlace>,
    /// Texts by the hashes of their events, so that they can be retracted. There are many of them.
    texts: HashMap<u64, Vec<usize>>,
    /// The message that is being written, and the cards of its blocks.
    writing: Option<String>,
    drafts: VecDeque<Draft>,
    /// The permissions that were asked for and are not decided.
    asked: Asked,
    /// The number of unreadable lines, and the card that counts those without a card.
    odd: usize,
    more_odd: Option<usize>,
    /// The number of prompts, to number turns.
    turns: usize,
}

/// A text that is being written.
#[derive(Debug)]
struct Draft {
    /// The number of its block in the message.
    index: u64,
    /// The number of its card.
    n: usize,
    /// Whether its card was released as it is now.
    is_kept: bool,
}

/// Where a call is.
#[derive(Clone, Copy, Debug)]
struct CallPlace {
    /// The number of its card.
    n: usize,
    /// Its nesting.
    depth: usize,
    /// The last card of the sub-agent that it started.
    last: Option<usize>,
}

impl Index<usize> for Cards {
    type Output = Card;

    #[expect(clippy::expect_used, reason = "an index that is not there is a mistake of the caller, as for a slice")]
    fn index(&self, n: usize) -> &Card {
        self.get(n).expect("the card is there, and not forgotten")
    }
}

impl Cards {
    /// Takes the next step. Returns the numbers of the cards that are new or have changed.
    pub fn accept(&mut self, step: &Step) -> Vec<usize> {
        if let What::Retracted { uuids } = &step.what {
            return self.retract(uuids);
        }
        if let What::Odd(_) = &step.what {
            self.odd += 1;
            if self.odd > ODD_LIMIT {
                return vec![self.one_more_odd(step)];
            }
        }
        let body = match show(step) {
            Shown::Session(info) => Body::Session(Box::new(info.clone())),
            Shown::Prompt(text) => Body::Prompt(cut(text).0.to_owned()),
            Shown::Text(said) => return self.text(said, step),
            Shown::Thinking(said) => Body::Thinking(said.text.trim().to_owned()),
            Shown::Call(call) => {
                let card = CallCard { call: call.clone(), answer: None, is_over: false };
                let n = self.add(step, Body::Call(Box::new(card)));
                let depth = self[n].depth;
                self.calls.extend(call.id.clone().map(|id| (id, CallPlace { n, depth, last: None })));
                return vec![n];
            }
            Shown::Answer(answer) => {
                let decided = self.asked.answered(answer).and_then(|decided| self.decide(decided));
                return self.answer(answer).into_iter().chain(decided).collect();
            }
            Shown::Turn(turn) => Body::Turn(Box::new(self.turn(turn))),
            Shown::Remark(remark) => Body::Remark(Box::new(RemarkCard::of(&remark))),
            Shown::Partial(part) => return self.partial(part, step).into_iter().collect(),
            Shown::Nothing => return Vec::new(),
        };
        let n = self.add(step, body);
        if let What::Question(question) = &step.what {
            self.asked.add(question, n);
        }
        vec![n]
    }

    /// Says how the permission was decided that was asked for with this id. Returns the number of the card that has changed. Without this, the
    /// result of the call says it.
    pub fn note_decision(&mut self, request: &str, is_allowed: bool) -> Option<usize> {
        let decided = self.asked.decided(request, is_allowed)?;
        self.decide(decided)
    }

    fn decide(&mut self, (n, remark): (usize, Remark)) -> Option<usize> {
        self.get_mut(n)?.body = Body::Remark(Box::new(RemarkCard::of(&remark)));
        Some(n)
    }

    /// Says that nothing follows: calls without a result are unanswered. Returns the numbers of the cards that have changed.
    pub fn close(&mut self) -> Vec<usize> {
        let mut changed = Vec::new();
        for card in &mut self.cards {
            if let Body::Call(call) = &mut card.body
                && call.answer.is_none()
                && !std::mem::replace(&mut call.is_over, true)
            {
                changed.push(card.n);
            }
        }
        changed
    }

    /// Forgets what a card shows, once its HTML is kept elsewhere, so that a long session takes little memory. One that can still
    /// change keeps it.
    pub fn release(&mut self, n: usize) {
        if let Some(draft) = self.drafts.iter_mut().find(|draft| draft.n == n) {
            draft.is_kept = true;
        } else if self.more_odd != Some(n) {
            self.empty(n);
        }
        // Never for each card: all of them are looked at.
        self.released += usize::from(self.cards.len() >= MOST);
        if self.released >= RELEASED.max(self.cards.len() / 8) {
            self.forget(n);
        }
    }

    /// Empties a card, unless it is a call that waits for its result.
    fn empty(&mut self, n: usize) {
        if let Some(card) = self.get_mut(n)
            && !matches!(&card.body, Body::Call(call) if call.answer.is_none())
        {
            card.body = Body::Released;
            self.released += 1;
        }
    }

    /// Says that a text will not be finished. If its card was released, nobody will release it again.
    fn abandon(&mut self, draft: &Draft) {
        if draft.is_kept {
            self.empty(draft.n);
        }
    }

    /// Forgets cards that were released, unless they may be retracted: many sessions are read at once, and some go on for days. Those after
    /// the last one that was released may not have been shown yet.
    fn forget(&mut self, last: usize) {
        #[cfg(test)]
        {
            self.looked_at += self.cards.len() + self.texts.values().map(Vec::len).sum::<usize>();
        }
        self.released = 0;
        let recent = self.len().saturating_sub(RETRACTED);
        self.texts.retain(|_, cards| {
            cards.retain(|n| *n >= recent);
            !cards.is_empty()
        });
        let texts: HashSet<usize> = self.texts.values().flatten().copied().collect();
        let drafts: Vec<usize> =
            self.drafts.iter().map(|draft| draft.n).chain(self.more_odd).chain(self.asked.cards()).collect();
        let stays = |card: &Card| !matches!(card.body, Body::Released) || texts.contains(&card.n) || drafts.contains(&card.n);
        self.cards.retain(stays);
        // A call that still waits for its result stays, unless too many do.
        if self.cards.len() >= MOST {
            let dropped = self.cards[self.cards.len() - MOST / 2].n.min(last);
            self.cards.retain(|card| card.n >= dropped || drafts.contains(&card.n));
        }
        self.forget_calls(recent);
    }

    /// Forgets calls before a card, unless a result may come, or their sub-agents may go on.
    fn forget_calls(&mut self, recent: usize) {
        let mut quiet: Vec<usize> = self.calls.values().filter_map(|call| call.last.filter(|last| *last < recent)).collect();
        quiet.sort_unstable();
        let at_work = quiet.len().checked_sub(QUIET).map_or(0, |older| quiet[older]);
        let cards = &self.cards;
        self.calls.retain(|_, call| {
            let is_open = || cards.binary_search_by_key(&call.n, |card| card.n).is_ok();
            call.n >= recent || call.last.is_some_and(|last| last >= at_work) || is_open()
        });
    }

    fn get_mut(&mut self, n: usize) -> Option<&mut Card> {
        let at = self.place(n)?;
        self.cards.get_mut(at)
    }

    fn place(&self, n: usize) -> Option<usize> {
        self.cards.binary_search_by_key(&n, |card| card.n).ok()
    }

    /// Returns how many cards, calls and texts are kept in memory. Cards that were released count until they are forgotten.
    pub fn kept(&self) -> usize {
        self.cards.len() + self.calls.len() + self.texts.values().map(Vec::len).sum::<usize>() + self.drafts.len()
    }

    /// Returns the number of cards, with those that were released.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Returns whether there is no card.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the card with this number, unless it was released and is forgotten.
    pub fn get(&self, n: usize) -> Option<&Card> {
        self.cards.get(self.place(n)?)
    }

    /// Returns all cards that are not forgotten, in the order in which they began.
    pub fn iter(&self) -> std::slice::Iter<'_, Card> {
        self.cards.iter()
    }

    fn add(&mut self, step: &Step, body: Body) -> usize {
        let n = self.len();
        let above = step.parent.as_ref().and_then(|id| self.calls.get_mut(id)).map(|call| {
            call.last = Some(n);
            *call
        });
        let depth = above.map_or(0, |call| call.depth + 1);
        let parent = above.filter(|_| depth <= DEEPEST).map(|call| call.n);
        self.count += 1;
        self.cards.push(Card { n, arrived: step.arrived, parent, depth: depth.min(DEEPEST), body });
        n
    }

    fn text(&mut self, said: &Said, step: &Step) -> Vec<usize> {
        let text = said.text.trim();
        let begins = |n: usize| matches!(&self[n].body, Body::Text { text, .. } if said.text.starts_with(text.as_str()));
        let draft = self.drafts.iter().position(|draft| begins(draft.n));
        let draft = draft.filter(|_| step.parent.is_none() && self.writing == said.message_id);
        let body = Body::Text { text: text.to_owned(), is_cut_short: said.aborted };
        let n = match draft.and_then(|at| self.drafts.remove(at)) {
            Some(Draft { n, .. }) => {
                if let Some(card) = self.get_mut(n) {
                    card.body = body;
                }
                n
            }
            None if text.is_empty() => return Vec::new(),
            None => self.add(step, body),
        };
        if let Some(uuid) = &said.uuid {
            self.texts.entry(hash(uuid)).or_default().push(n);
        }
        vec![n]
    }

    /// Takes a part of a text that is being written. Its card grows until the whole text replaces it.
    fn partial(&mut self, part: &Partial, step: &Step) -> Option<usize> {
        if step.parent.is_some() {
            return None;
        }
        match part {
            Partial::MessageStart { message_id } => {
                self.writing.clone_from(message_id);
                for draft in std::mem::take(&mut self.drafts) {
                    self.abandon(&draft);
                }
                None
            }
            Partial::Delta { index, kind: DeltaKind::Text, text } => {
                if self.drafts.back().is_none_or(|draft| draft.index != *index) {
                    if self.drafts.len() >= DRAFTS
                        && let Some(oldest) = self.drafts.pop_front()
                    {
                        self.abandon(&oldest);
                    }
                    let n = self.add(step, Body::Text { text: String::new(), is_cut_short: false });
                    self.drafts.push_back(Draft { index: *index, n, is_kept: false });
                }
                let draft = self.drafts.back_mut()?;
                draft.is_kept = false;
                let n = draft.n;
                if let Some(Card { body: Body::Text { text: draft, .. }, .. }) = self.get_mut(n) {
                    draft.push_str(text);
                }
                Some(n)
            }
            Partial::Delta { .. }
            | Partial::BlockStart { .. }
            | Partial::BlockStop { .. }
            | Partial::MessageDelta { .. }
            | Partial::MessageStop => None,
        }
    }

    fn answer(&mut self, answer: &CallAnswer) -> Option<usize> {
        let n = self.calls.get(answer.id.as_ref()?)?.n;
        // One that was released has its answer, and its HTML is elsewhere.
        let Body::Call(call) = &mut self.get_mut(n)?.body else { return None };
        // Only what is shown is kept.
        let (text, more) = cut(answer.text.trim_end());
        let text = if more > 0 { format!("{text}\n… {more} more bytes") } else { text.to_owned() };
        let CallAnswer { status, is_error, block, duration_ms, .. } = *answer;
        call.answer = Some(CallAnswer { status, text, is_error, block, duration_ms, ..CallAnswer::default() });
        Some(n)
    }

    fn turn(&mut self, turn: &Turn) -> TurnCard {
        self.turns += 1;
        let mut parts = vec![format!("turn {}", self.turns)];
        parts.extend(turn.took_ms().map(duration));
        let counts = &turn.usage.counts;
        for (count, what) in
            [(counts.input_tokens.0, "in"), (counts.output_tokens.0, "out"), (counts.cache_read_input_tokens.0, "cached")]
        {
            parts.extend((count > 0).then(|| format!("{} {what}", short_count(count))));
        }
        parts.extend(turn.cost_usd.map(dollars));
        let error = turn.message.as_ref().filter(|_| !turn.repeats_text);
        TurnCard {
            text: turn.news().filter(|_| error.is_none()).map(str::to_owned),
            error: error.map(|error| cut(error).0.to_owned()),
            failed: turn.failed,
            figures: parts.join(" · "),
            cost_usd: turn.cost_usd,
        }
    }

    fn retract(&mut self, uuids: &[String]) -> Vec<usize> {
        let said: Vec<usize> = uuids.iter().filter_map(|uuid| self.texts.remove(&hash(uuid))).flatten().collect();
        let mut changed = Vec::new();
        for n in said {
            if let Some(card) = self.get_mut(n) {
                card.body = Body::Withdrawn;
                changed.push(n);
            }
        }
        changed
    }

    fn one_more_odd(&mut self, step: &Step) -> usize {
        let n = self.more_odd.unwrap_or_else(|| self.add(step, Body::MoreOdd(0)));
        let count = self.odd - ODD_LIMIT;
        if let Some(card) = self.get_mut(n) {
            card.body = Body::MoreOdd(count);
        }
        self.more_odd = Some(n);
        n
    }
}

impl<'c> IntoIterator for &'c Cards {
    type Item = &'c Card;
    type IntoIter = std::slice::Iter<'c, Card>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl Card {
    /// Returns what it is, in one word: `session`, `prompt`, `text`, `thinking`, `call`, `turn` or `remark`.
    pub fn kind(&self) -> &'static str {
        match &self.body {
            Body::Session(_) => "session",
            Body::Prompt(_) => "prompt",
            Body::Text { .. } => "text",
            Body::Thinking(_) => "thinking",
            Body::Call(_) => "call",
            Body::Turn(_) => "turn",
            Body::Remark(_) | Body::MoreOdd(_) | Body::Withdrawn | Body::Released => "remark",
        }
    }

    /// Returns it as HTML, which is safe to put into a page. It has no element of its own around it.
    pub fn html(&self) -> String {
        let mut out = String::new();
        self.write(&mut out);
        out
    }

    /// Writes it as HTML.
    pub fn write(&self, out: &mut String) {
        match &self.body {
            Body::Session(info) => session(info, out),
            Body::Prompt(text) => {
                out.push_str("<div class=prompt>");
                escape(text, out);
                out.push_str("</div>\n");
            }
            Body::Text { text, is_cut_short } => {
                out.push_str("<div class=prose>");
                prose::write(text, out);
                out.push_str("</div>\n");
                if *is_cut_short {
                    out.push_str("<div class=\"line warn\"><span class=mark>!</span> cut short</div>\n");
                }
            }
            Body::Thinking(text) => {
                let words = count_of(text.split_whitespace().count(), "word");
                let _ = write!(out, "<details class=thought><summary>thought ({words})</summary><div class=prose>");
                prose::write(text, out);
                out.push_str("</div></details>\n");
            }
            Body::Call(card) => call::write(&card.call, card.answer.as_ref(), card.is_over, out),
            Body::Turn(turn) => {
                if let Some(error) = &turn.error {
                    let _ = writeln!(out, "<div class=error>{}</div>", escaped(error));
                } else if let Some(text) = &turn.text {
                    out.push_str("<div class=prose>");
                    prose::write(text, out);
                    out.push_str("</div>\n");
                }
                let (class, mark) = if turn.failed { ("bad", "✗") } else { ("good", "✓") };
                let _ = writeln!(
                    out,
                    "<div class=\"line end {class}\"><span class=mark>{mark}</span> {}</div>",
                    escaped(&turn.figures)
                );
            }
            Body::Remark(remark) => remark.write(out),
            Body::MoreOdd(count) => {
                let more = count_of(*count, "more odd line");
                let _ = writeln!(out, "<div class=\"line warn\"><span class=mark>!</span> … {more}</div>");
            }
            Body::Withdrawn => out.push_str("<div class=\"line aside\"><span class=mark>↶</span> withdrawn</div>\n"),
            Body::Released => {}
        }
    }

    /// Returns what it is about, on one line, as text: the prompt, the call's title, the beginning of a text.
    pub fn title(&self) -> String {
        let text = match &self.body {
            Body::Session(info) => session_lines(info).about,
            Body::Prompt(text) | Body::Thinking(text) | Body::Text { text, .. } => return title_of(text),
            Body::Remark(remark) => return title_of(&remark.text),
            Body::Call(card) => return title_of(card.call.title.trim_matches('`')),
            Body::Turn(turn) => turn.figures.clone(),
            Body::MoreOdd(count) => count_of(*count, "more odd line"),
            Body::Withdrawn => "withdrawn".to_owned(),
            Body::Released => String::new(),
        };
        title_of(&text)
    }

    /// Returns the tool and the call's state, if it is a call.
    pub fn call(&self) -> Option<(&str, CallStatus)> {
        let Body::Call(card) = &self.body else { return None };
        Some((&card.call.name, card.answer.as_ref().map_or(CallStatus::Pending, |answer| answer.status)))
    }

    /// Returns when a call ended, if both that and its beginning are known.
    pub fn ended(&self) -> Option<Moment> {
        let Body::Call(card) = &self.body else { return None };
        let took = card.answer.as_ref()?.duration_ms?;
        Some(Moment::from_millis(self.arrived?.as_millis().saturating_add(took)))
    }

    /// Returns what a turn cost, if this is its end and the cost is known.
    pub fn cost_usd(&self) -> Option<f64> {
        let Body::Turn(turn) = &self.body else { return None };
        turn.cost_usd
    }
}

fn title_of(text: &str) -> String {
    fit(&one_line(cut(text).0), TITLE).into_owned()
}

fn session(info: &SessionInfo, out: &mut String) {
    let lines = session_lines(info);
    out.push_str("<div class=facts>\n");
    for line in [lines.about, lines.has].iter().filter(|line| !line.is_empty()) {
        let _ = writeln!(out, "<p>{}</p>", escaped(&one_line(line)));
    }
    for line in lines.not_connected {
        let _ = writeln!(out, "<p class=warn><span class=mark>!</span> {}</p>", escaped(&one_line(&line)));
    }
    out.push_str("</div>\n");
}

#[cfg(test)]
mod tests;
