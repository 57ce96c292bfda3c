//! `tapline doctor`: checks which agents are installed, whether their streams are known, and everything else that a run
//! needs; and the broker, if one is named.

#[cfg(feature = "nats")]
mod broker;

use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};
use tapline_protocol::Agent;
use tapline_runner::{Process, bin_variable, locate, package, reaches_all};
use tapline_session::policy::VersionRange;
use tapline_session::render::Style;
use tapline_session::text::{one_line, with_causes, wrap};

use crate::agents::habits;
use crate::args::Doctor;
use crate::{ci, config, exit, output, store};

/// How long a program may take to print its version.
const PATIENCE: Duration = Duration::from_secs(10);
/// The columns before the text of a finding.
const MARGIN: usize = 13;

/// The tone of a finding.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mood {
    Good,
    Advice,
    Bad,
}

struct Finding {
    about: &'static str,
    mood: Mood,
    text: String,
    advice: Option<String>,
    facts: Value,
}

pub(crate) fn run(args: &Doctor) -> Result<u8> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot start")?;
    let mut findings: Vec<Finding> = Agent::ALL.iter().map(|kind| runtime.block_on(agent(*kind))).collect();
    // One agent is enough.
    if findings.iter().any(|finding| finding.mood != Mood::Bad) {
        for finding in findings.iter_mut().filter(|finding| finding.mood == Mood::Bad) {
            finding.mood = Mood::Advice;
        }
    }
    let broker = args.engine.broker()?;
    if args.setup && broker.is_none() {
        bail!("name the NATS server: --engine nats://HOST:4222, or $TAPLINE_ENGINE");
    }
    // Batches of this machine run on workers, which have agents of their own.
    if broker.is_some() {
        for finding in findings.iter_mut().filter(|finding| finding.mood == Mood::Bad && finding.facts["path"].is_null()) {
            finding.mood = Mood::Advice;
            let how = finding.advice.take().unwrap_or_default();
            finding.advice = Some(format!("needed only on machines that run agents (`tapline worker`, `run`, `chat`): {how}"));
        }
    }
    findings.extend([folder(), configuration(), processes(), terminal(args)]);
    #[cfg(feature = "nats")]
    if let Some(broker) = broker {
        if args.setup {
            runtime.block_on(Box::pin(tapline_fleet::setup(&broker)))?;
        }
        findings.extend(runtime.block_on(broker::findings(&broker)));
    }
    let ok = findings.iter().all(|finding| finding.mood != Mood::Bad);
    if args.json {
        let list: serde_json::Map<_, _> = findings.iter().map(|finding| (finding.about.to_owned(), facts(finding))).collect();
        output::json(&json!({ "ok": ok, "tapline": env!("CARGO_PKG_VERSION"), "findings": list }).to_string())?;
    } else {
        let mut out = output::stdout();
        let style = args.look.style();
        let columns = if output::is_terminal() { output::size().0 } else { usize::MAX };
        out.write_all(render(&findings, style, columns).as_bytes())?;
        out.flush()?;
    }
    for finding in findings.iter().filter(|finding| finding.mood == Mood::Bad) {
        ci::annotate(&format!("{}: {}", finding.about, finding.text));
    }
    Ok(if ok { 0 } else { exit::FAILED })
}

fn facts(finding: &Finding) -> Value {
    let mut facts = finding.facts.clone();
    facts["ok"] = json!(finding.mood != Mood::Bad);
    facts["advice"] = json!(finding.advice);
    facts
}

fn render(findings: &[Finding], style: Style, columns: usize) -> String {
    let Style { green, yellow, red, dim, reset, .. } = style;
    let mut out = format!("{dim}tapline {}{reset}\n", env!("CARGO_PKG_VERSION"));
    for finding in findings {
        let (colour, mark) = match finding.mood {
            Mood::Good => (green, "✓"),
            Mood::Advice => (yellow, "!"),
            Mood::Bad => (red, "✗"),
        };
        let _ = write!(out, "{colour}{mark}{reset} {:<10} ", finding.about);
        let text = one_line(&finding.text);
        out += &wrap(&text, columns.saturating_sub(MARGIN)).join(&format!("\n{:MARGIN$}", ""));
        out.push('\n');
        let advice = finding.advice.as_deref().map(one_line);
        for line in advice.iter().flat_map(|advice| wrap(advice, columns.saturating_sub(MARGIN))) {
            let _ = writeln!(out, "{:MARGIN$}{dim}{line}{reset}", "");
        }
    }
    out
}

async fn agent(kind: Agent) -> Finding {
    let (oldest, newest) = habits(kind).tested;
    let about = kind.name();
    let package = package(kind);
    let path = match locate(kind, None, std::env::var_os("PATH").as_deref()) {
        Ok(path) => path,
        Err(error) => {
            let advice = format!("npm install -g {package}, or set {} to its program", bin_variable(kind));
            let facts = json!({ "path": null, "version": null });
            return Finding {
                about,
                mood: Mood::Bad,
                text: with_causes(&error).trim_start_matches(about).trim_start_matches(": ").to_owned(),
                advice: Some(advice),
                facts,
            };
        }
    };
    let version = match version(&path).await {
        Ok(version) => version,
        Err(error) => {
            let text = format!("cannot get the version of {}: {error:#}", path.display());
            let advice = format!("reinstall it: npm install -g {package}");
            let facts = json!({ "path": path.display().to_string(), "version": null });
            return Finding { about, mood: Mood::Bad, text, advice: Some(advice), facts };
        }
    };
    let within = |range: &str| range.parse::<VersionRange>().is_ok_and(|range| range.contains(&version));
    let known = within(&format!(">={oldest}, <={newest}"));
    let advice = if known {
        None
    } else if within(&format!(">{newest}")) {
        Some(format!(
            "newer than the last version that tapline was tested with ({newest}): nothing is lost; `tapline check` lists what is new in its stream"
        ))
    } else {
        Some(format!("older than the first version that tapline was tested with ({oldest}): npm install -g {package}"))
    };
    Finding {
        about,
        mood: if known { Mood::Good } else { Mood::Advice },
        text: format!("{version} · {} · {}", if known { "tapline knows its stream" } else { "not tested" }, path.display()),
        advice,
        facts: json!({ "path": path.display().to_string(), "version": version, "stream_known": known }),
    }
}

/// Returns the version that the program prints.
async fn version(path: &Path) -> Result<String> {
    let mut command = std::process::Command::new(path);
    command.arg("--version");
    let printed = Process::output(command, PATIENCE).await?;
    let text = String::from_utf8_lossy(&printed);
    let number = text.split_whitespace().find(|word| word.starts_with(|c: char| c.is_ascii_digit()) && word.contains('.'));
    number.map(str::to_owned).with_context(|| format!("it says `{}`", text.trim()))
}

fn folder() -> Finding {
    let about = "recordings";
    let bad = |text: String| {
        let advice = "set TAPLINE_HOME to a folder that you can write to, or run with --no-record";
        Finding { about, mood: Mood::Bad, text, advice: Some(advice.to_owned()), facts: json!({ "path": null }) }
    };
    let folder = match store::store() {
        Ok(store) => store.folder(),
        Err(error) => return bad(error.to_string()),
    };
    if let Err(error) = may_keep(&folder) {
        return bad(error);
    }
    let count = std::fs::read_dir(&folder).map_or(0, Iterator::count);
    let so_far = if folder.exists() { format!("{count} so far") } else { "created by the first run".to_owned() };
    let facts = json!({ "path": folder.display().to_string(), "count": count });
    Finding { about, mood: Mood::Good, text: format!("{} · {so_far}", folder.display()), advice: None, facts }
}

/// Checks the configuration. With a broken file, no run starts.
fn configuration() -> Finding {
    let about = "config";
    let path = config::path().filter(|path| path.exists()).map(|path| path.display().to_string());
    let facts = json!({ "path": path });
    match config::redactor() {
        Err(error) => {
            let advice = Some("correct the file, or remove it".to_owned());
            Finding { about, mood: Mood::Bad, text: format!("{error:#}"), advice, facts }
        }
        Ok((_, notes)) => {
            let mood = if notes.is_empty() { Mood::Good } else { Mood::Advice };
            let text = path.unwrap_or_else(|| "no file: defaults".to_owned());
            Finding { about, mood, text, advice: (!notes.is_empty()).then(|| notes.join("; ")), facts }
        }
    }
}

/// Checks whether files can be kept in this folder, or in the one in which it would be created: a byte is written there and removed. Who may
/// write finds a full disk or a used-up quota only so.
fn may_keep(folder: &Path) -> Result<(), String> {
    let there = folder.ancestors().find(|folder| folder.symlink_metadata().is_ok()).unwrap_or(Path::new("/"));
    if !there.is_dir() {
        return Err(format!("{} is not a folder", there.display()));
    }
    let path = there.join(format!(".tapline-doctor-{}", tapline_recording::recording_name()));
    let written = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path).and_then(|mut file| {
        let written = file.write_all(b"\n").and_then(|()| file.sync_all());
        std::fs::remove_file(&path).and(written)
    });
    written.map_err(|error| format!("cannot write in {}: {error}", there.display()))
}

fn processes() -> Finding {
    let about = "processes";
    let reaches = reaches_all();
    let (mood, text, advice) = if reaches {
        (Mood::Good, "all processes that an agent starts are found through /proc and stopped with it", None)
    } else {
        let advice = "a process that leaves the agent's process group may outlive it";
        (Mood::Advice, "/proc is not usable here: only the agent's process group is stopped with it", Some(advice.to_owned()))
    };
    Finding { about, mood, text: text.to_owned(), advice, facts: json!({ "reaches_all": reaches }) }
}

fn terminal(args: &Doctor) -> Finding {
    let (columns, rows) = output::size();
    let (text, facts) = if output::is_terminal() {
        let colour = if args.look.is_coloured() { "colour" } else { "no colour" };
        let term = std::env::var("TERM").unwrap_or_else(|_| "unknown".to_owned());
        let drawn = if output::is_capable() { "live view" } else { "lines only" };
        (format!("{columns}×{rows} · {term} · {colour} · {drawn}"), json!({ "columns": columns, "rows": rows }))
    } else {
        ("stdout is not a terminal: lines, no colour".to_owned(), json!({ "columns": null, "rows": null }))
    };
    Finding { about: "terminal", mood: Mood::Good, text, advice: None, facts }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_broken_between_words() {
        let words = "newer than the last version that tapline was tested with: nothing is lost";
        let finding = Finding {
            about: "claude",
            mood: Mood::Advice,
            text: format!("2.1.999 · {words}"),
            advice: Some(words.to_owned()),
            facts: json!({}),
        };
        let shown = render(&[finding], Style::plain(), 40);
        assert!(shown.lines().all(|line| line.chars().count() <= 40), "{shown}");
        assert_eq!(shown.split_whitespace().collect::<Vec<_>>().join(" ").matches(words).count(), 2, "{shown}");
        assert!(shown.lines().skip(2).all(|line| line.starts_with(&" ".repeat(MARGIN))), "{shown}");
    }
}
