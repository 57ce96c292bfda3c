//! Commands of the chat itself. All others are the agent's.

use std::fmt::Write as _;
use std::time::Duration;

use anyhow::Result;
use tapline_runner::Control;
use tapline_session::plausible::is_cost;
use tapline_session::text::{dollars, one_line, short_count};
use tapline_session::{Step, What};

/// A command.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Slash {
    Help,
    /// Lists the models.
    Models,
    /// Changes the model. `None` is the default.
    Model(Option<String>),
    Mode(Option<String>),
    Cost,
    Context,
    Quit,
}

/// How long a command may take.
const WITHIN: Duration = Duration::from_secs(20);

/// Parses a command of ours.
pub(super) fn read(text: &str) -> Option<Slash> {
    let mut words = text.trim().splitn(2, char::is_whitespace);
    let name = words.next()?;
    let rest = words.next().map(str::trim).filter(|rest| !rest.is_empty()).map(str::to_owned);
    Some(match name {
        "/help" => Slash::Help,
        "/model" => match rest {
            None => Slash::Models,
            Some(name) => Slash::Model(Some(name).filter(|name| name != "default")),
        },
        "/mode" => Slash::Mode(rest),
        "/cost" => Slash::Cost,
        "/context" => Slash::Context,
        "/quit" | "/exit" => Slash::Quit,
        _ => return None,
    })
}

/// The current settings, as far as the agent has reported them.
#[derive(Clone, Debug, Default)]
pub(super) struct Now {
    pub(super) model: Option<String>,
    pub(super) mode: Option<String>,
}

impl Now {
    /// Takes a step that may report them.
    pub(super) fn accept(&mut self, step: &Step) {
        if let What::Session(info) = &step.what {
            self.model = info.setup.model.clone().or(self.model.take());
            self.mode = info.setup.permission_mode.clone().or(self.mode.take());
        }
    }
}

/// Runs a command, and returns its output.
pub(super) async fn run(slash: Slash, now: Now, control: Result<Control>) -> Result<String> {
    let control = control.map(|control| control.within(WITHIN));
    Ok(match slash {
        Slash::Quit | Slash::Help => HELP.to_owned(),
        Slash::Models => {
            let mut out = String::from("models (choose one with /model NAME):");
            for model in control?.list_models().await?.models {
                let name = model.value.unwrap_or_default();
                let mark = if now.model.is_some() && model.resolved_model == now.model { "*" } else { " " };
                let _ = write!(out, "\n {mark} {:<22} {}", one_line(&name), one_line(&model.description.unwrap_or_default()));
            }
            out
        }
        Slash::Model(name) => {
            // An agent that takes no requests uses it from its next run on.
            if let Ok(control) = control {
                match name.clone() {
                    Some(name) => control.set_model(name).await?,
                    None => control.reset_model().await?,
                };
            }
            format!("the model is {} from now on", name.as_deref().unwrap_or("the default"))
        }
        Slash::Mode(None) => {
            let now = now.mode.map(|mode| format!("the mode is {mode}; ")).unwrap_or_default();
            format!("{now}modes: default, acceptEdits, plan, auto, dontAsk, bypassPermissions (choose one with /mode NAME)")
        }
        Slash::Mode(Some(mode)) => {
            let mode = control?.set_permission_mode(mode.clone()).await?.mode.unwrap_or(mode);
            format!("the permission mode is {mode} from now on")
        }
        Slash::Cost => {
            let session = control?.usage().await?.session.unwrap_or_default();
            let cost = session.total_cost_usd.map(|cost| cost.as_f64()).filter(|cost| is_cost(*cost));
            let cost = cost.map_or_else(|| "?".to_owned(), dollars);
            let lines = |count: Option<u64>| count.unwrap_or(0);
            let (added, removed) = (lines(session.total_lines_added), lines(session.total_lines_removed));
            format!("{cost} so far, according to the agent · {added} lines added, {removed} removed")
        }
        Slash::Context => {
            let usage = control?.context_usage().await?;
            let count = |count: Option<u64>| short_count(count.unwrap_or(0));
            let mut out = format!("{} of {} tokens in use", count(usage.total_tokens), count(usage.max_tokens));
            for category in
                usage.categories.iter().filter(|category| category.kind.as_deref().is_none_or(|kind| kind == "used"))
            {
                let name = one_line(category.name.as_deref().unwrap_or_default());
                let _ = write!(out, "\n  {:>7}  {name}", count(category.tokens));
            }
            out
        }
    })
}

const HELP: &str = "\
/model [NAME]   list the models, or switch to another
/mode [NAME]    what the agent may do without asking: default, acceptEdits, plan, …
/cost           what the session has cost
/context        what fills the agent's context
/quit           ends the chat (also Ctrl-D)
All other commands (/compact, /clear, …) go to the agent.
Enter sends, Alt-Enter or Ctrl-J starts a new line, Up and Down go through earlier prompts.
Ctrl-C interrupts the turn; pressed again, or twice at an empty prompt, it ends the chat.
Questions: y once · a always · n no · w no, and say why.";
