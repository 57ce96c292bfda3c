//! `tapline stats` on what the real programs left behind: rows, filters, formats, and costs priced by hand.

use std::process::Command;

use serde_json::{Value, json};
use tapline_archive::Money;
use tapline_testkit::files::copy_folder;
use tapline_testkit::{fixture, root};

use crate::tapline::{Ran, command, ran};

/// A HOME with the transcripts of real programs.
pub(crate) struct Home(tapline_testkit::Home);

impl Home {
    pub(crate) fn new(cases: &[&str]) -> Self {
        let home = Self(tapline_testkit::Home::new());
        for case in cases {
            for agent in ["claude", "codex"] {
                let kept = fixture("transcripts").join(case).join(agent);
                if kept.exists() {
                    copy_folder(kept, home.0.join(format!("home/.{agent}")));
                }
            }
        }
        home
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.0.path(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> String {
        self.0.file(name, text)
    }

    /// Gives a command this HOME, and the time zone of nobody.
    pub(crate) fn set(&self, mut command: Command) -> Command {
        command.envs(self.0.environment());
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Ran {
        ran(self.set(command(args)).output().unwrap())
    }

    pub(crate) fn stats(&self, args: &[&str]) -> Value {
        let ran = self.run(&[&["stats", "--json"], args].concat());
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{args:?}");
        serde_json::from_str(&ran.out).unwrap()
    }
}

fn truth(case: &str) -> Value {
    serde_json::from_slice(&std::fs::read(fixture("transcripts").join(case).join("truth.json")).unwrap()).unwrap()
}

fn keys(counted: &Value) -> Vec<&str> {
    counted["rows"].as_array().unwrap().iter().map(|row| row["key"].as_str().unwrap()).collect()
}

fn row<'v>(counted: &'v Value, key: &str) -> &'v Value {
    let found = counted["rows"].as_array().unwrap().iter().find(|row| row["key"] == key);
    found.unwrap_or_else(|| panic!("no row {key}: {:?}", keys(counted)))
}

/// A line of a transcript: one answer at this time.
pub(crate) fn answer(id: &str, session: &str, time: &str) -> String {
    json!({
        "type": "assistant", "uuid": id, "sessionId": session, "timestamp": time, "cwd": "/home/dev/app", "gitBranch": "main",
        "message": { "id": id, "model": "claude-opus-5-5", "stop_reason": "end_turn", "content": [],
            "usage": { "input_tokens": 1_000, "output_tokens": 100 } },
    })
    .to_string()
        + "\n"
}

const MODELS: &str = "a5e431eb-9bab-4b3b-9a87-6f5c0c882689";

#[test]
fn every_kind_of_row_is_there() {
    let home = Home::new(&["claude-models", "codex-fork"]);
    let by = |by: &str| home.stats(&["--by", by, "--timezone", "UTC"]);
    for (way, wanted) in [
        ("day", vec!["2026-11-16"]),
        ("week", vec!["2026-11-16"]),
        ("month", vec!["2026-11"]),
        ("hour", vec!["2026-11-16 15:00"]),
        ("block", vec!["2026-11-16 15:00"]),
        ("project", vec!["/home/dev/codex-fork", "/home/dev/claude-models"]),
        ("branch", vec!["codex-fork trunk", "claude-models trunk"]),
        ("agent", vec!["codex", "claude"]),
        ("model", vec!["gpt-6.1-sol", "claude-opus-5-5", "claude-sonnet-5-5", "claude-haiku-5-5"]),
        ("subagent", vec!["(main)", "general-purpose"]),
        ("session", vec!["01a1e4f2-62bd-74e0-8796-d30baa12839d", MODELS, "01a1e4f2-6579-7d20-9d82-abf85ac98dc9"]),
    ] {
        assert_eq!(keys(&by(way)), wanted, "{way}");
    }
    let tools = by("tool");
    assert!(keys(&tools).contains(&"(answer)") && keys(&tools).contains(&"Agent"), "{:?}", keys(&tools));
    // What the scripted model gave, for each session.
    for case in ["claude-models", "codex-fork"] {
        for (id, told) in truth(case)["sessions"].as_object().unwrap() {
            let sum = |key: &str| told["models"].as_object().unwrap().values().map(|of| of[key].as_u64().unwrap()).sum::<u64>();
            let sessions = by("session");
            let row = row(&sessions, id);
            for key in ["input", "output", "cache_read", "cache_write_1h", "web_searches", "reasoning"] {
                assert_eq!(row[key], sum(key), "{case}, {id}, {key}");
            }
            assert_eq!(row["cache_write"], sum("cache_write_5m") + sum("cache_write_1h"), "{case}, {id}");
            assert_eq!(row["requests"], sum("answers"), "{case}, {id}");
        }
    }
    let sessions = by("session");
    let about = row(&sessions, MODELS);
    assert_eq!(about["title"], "two models");
    assert_eq!((&about["agent"], &about["folder"]), (&json!("claude"), &json!("/home/dev/claude-models")));
    assert_eq!((&about["prompts"], &about["branch"]), (&json!(2), &json!("trunk")));
}

/// Millionths of a dollar, class by class: tokens × dollars for a million of them.
fn priced(tokens: [f64; 5], prices: [f64; 5], searches: f64) -> f64 {
    tokens.iter().zip(prices).map(|(tokens, price)| tokens * price).sum::<f64>() + searches * 10_000.0
}

#[test]
fn costs_are_what_a_hand_computes() {
    // Dollars for a million tokens: input, output, cache read, cache write for five minutes and for an hour.
    let opus = [4.0, 20.0, 0.2, 5.0, 8.0];
    let haiku = [0.1, 0.5, 0.01, 0.125, 0.2];
    let sonnet = [2.0, 10.0, 0.1, 2.5, 4.0];
    let sol = [2.0, 10.0, 0.1, 2.5, 2.5];
    // claude-models: two answers of Opus, each with a web search, one of Haiku as a sub-agent, one of Sonnet.
    let first = priced([1_001.0, 102.0, 10_003.0, 1_503.0, 501.0], opus, 1.0);
    let second = priced([3_001.0, 302.0, 30_003.0, 4_503.0, 1_501.0], opus, 1.0);
    let below = priced([2_001.0, 202.0, 20_003.0, 3_003.0, 1_001.0], haiku, 0.0);
    let resumed = priced([4_001.0, 402.0, 40_003.0, 6_003.0, 2_001.0], sonnet, 0.0);
    assert!((first - 29_567.6).abs() < 1e-6 && (below - 1_076.705).abs() < 1e-6, "{first} {below}");
    // codex-fork: five answers of one thread, one of its fork. The cached input is a part of the input that Codex tells.
    let thread = priced([16_005.0, 1_610.0, 160_015.0, 32_020.0, 0.0], sol, 0.0);
    let fork = priced([5_001.0, 502.0, 50_003.0, 10_004.0, 0.0], sol, 0.0);
    let home = Home::new(&["claude-models", "codex-fork"]);
    let same = |value: &Value, micro: f64, about: &str| {
        let usd = value["cost_usd"].as_f64().unwrap();
        assert!((usd * 1e6 - micro).abs() < 1e-3, "{about}: {usd} instead of {micro} millionths");
    };
    let models = home.stats(&["--by", "model"]);
    same(row(&models, "claude-opus-5-5"), first + second, "Opus");
    same(row(&models, "claude-haiku-5-5"), below, "Haiku");
    same(row(&models, "claude-sonnet-5-5"), resumed, "Sonnet");
    same(row(&models, "gpt-6.1-sol"), thread + fork, "Sol");
    let kinds = home.stats(&["--by", "subagent"]);
    same(row(&kinds, "general-purpose"), below, "the sub-agent");
    let sessions = home.stats(&["--by", "session"]);
    same(row(&sessions, MODELS), first + second + below + resumed, "Claude's session");
    same(row(&sessions, "01a1e4f2-6579-7d20-9d82-abf85ac98dc9"), fork, "the fork");
    let agents = home.stats(&["--by", "agent"]);
    // Claude Code reports what it cost, Codex does not.
    assert_eq!(row(&agents, "claude")["cost_reported_usd"], row(&agents, "claude")["cost_usd"]);
    assert_eq!(row(&agents, "codex")["cost_reported_usd"], 0.0);
    same(&home.stats(&[])["totals"], first + second + below + resumed + thread + fork, "all");
    // The cost of a request is shared evenly by its calls: the first answer called one sub-agent.
    same(row(&home.stats(&["--by", "tool", "--agent", "claude"]), "Agent"), first, "the call");
}

#[test]
fn filters_leave_out_what_they_say() {
    let home = Home::new(&["claude-models", "codex-fork"]);
    let requests = |args: &[&str]| home.stats(args)["totals"]["requests"].as_u64().unwrap();
    let all = requests(&[]);
    assert_eq!(all, 4 + 6);
    assert_eq!(requests(&["--agent", "claude"]), 4);
    assert_eq!(requests(&["--agent", "claude", "--agent", "codex"]), all);
    assert_eq!(requests(&["--model", "haiku"]), 1);
    assert_eq!(requests(&["--model", "haiku", "--model", "sonnet"]), 2);
    assert_eq!(requests(&["--model", "haiku", "--agent", "codex"]), 0);
    assert_eq!(requests(&["--project", "codex-fork"]), 6);
    assert_eq!(requests(&["--project", "nowhere"]), 0);
    // The answers of claude-models are of 15:18:31 and 15:18:32.
    assert_eq!(requests(&["--agent", "claude", "--since", "2026-11-16T15:18:32Z"]), 1);
    assert_eq!(requests(&["--agent", "claude", "--until", "2026-11-16T15:18:32Z"]), 3);
    assert_eq!(requests(&["--since", "2026-11-16", "--until", "2026-11-17", "--timezone", "UTC"]), all);
    assert_eq!(requests(&["--until", "2026-11-16", "--timezone", "UTC"]), 0);
    assert_eq!(requests(&["--since", "2026-11-17", "--timezone", "UTC"]), 0);
    // The same date begins earlier in the east.
    assert_eq!(requests(&["--since", "2026-11-17", "--timezone", "Pacific/Kiritimati"]), all);
    let nothing = home.run(&["stats", "--project", "nowhere"]);
    assert_eq!(nothing.code, 0);
    assert!(nothing.out.starts_with("No requests found."), "{}", nothing.out);
    // Paths instead of the default places.
    let path = home.path("home/.codex");
    assert_eq!(requests(&[&path]), 6);
    assert_eq!(requests(&[]), all, "the default places are as before");
}

#[test]
fn the_last_days_are_until_now() {
    let home = Home::new(&[]);
    let now = jiff::Timestamp::now();
    let ago = |hours: i64| (now - jiff::SignedDuration::from_hours(hours)).to_string();
    let lines: String = [1, 30, 24 * 6, 24 * 8].map(|hours| answer(&format!("m{hours}"), "s-1", &ago(hours))).concat();
    home.write("home/.claude/projects/a/s-1.jsonl", &lines);
    for (last, wanted) in [("2h", 1), ("2d", 2), ("7d", 3), ("30d", 4)] {
        assert_eq!(home.stats(&["--last", last])["totals"]["requests"], wanted, "{last}");
        assert_eq!(home.stats(&["--since", last])["totals"]["requests"], wanted, "{last}");
    }
    assert_eq!(home.stats(&["--until", "2d"])["totals"]["requests"], 2);
    // The window that is open now.
    let blocks = home.stats(&["--by", "block", "--limit", "2200"]);
    let open = blocks["rows"].as_array().unwrap().last().unwrap();
    assert_eq!(open["active"], true, "{open}");
    assert_eq!(open["left"], json!({ "share": 0.5, "tokens": 1_100, "as_of": null }));
    let shown = home.run(&["stats", "--by", "block", "--limit", "2200"]).out;
    assert!(shown.contains("  open until ") && shown.contains("50 % of the limit left (1.1k tokens)"), "{shown}");
    assert!(home.run(&["stats", "--by", "block"]).out.contains("what is left of the limit: unknown"));
}

#[test]
fn days_begin_where_the_user_is_also_when_clocks_change() {
    let home = Home::new(&[]);
    // In Berlin, 2026-03-29 has 23 hours, and 2026-10-25 has 25.
    let times = [
        ("2026-03-28T22:59:59.999Z", "2026-03-28"),
        ("2026-03-28T23:00:00.000Z", "2026-03-29"),
        ("2026-03-29T21:59:59.999Z", "2026-03-29"),
        ("2026-03-29T22:00:00.000Z", "2026-03-30"),
        ("2026-10-24T21:59:59.999Z", "2026-10-24"),
        ("2026-10-24T22:00:00.000Z", "2026-10-25"),
        ("2026-10-25T22:59:59.999Z", "2026-10-25"),
        ("2026-10-25T23:00:00.000Z", "2026-10-26"),
    ];
    let lines: String = times.iter().map(|(time, _)| answer(time, "s-1", time)).collect();
    home.write("home/.claude/projects/a/s-1.jsonl", &lines);
    let counted = home.stats(&["--by", "day", "--timezone", "Europe/Berlin"]);
    let mut wanted: Vec<(&str, u64)> = Vec::new();
    for (_, day) in times {
        match wanted.last_mut() {
            Some((last, count)) if *last == day => *count += 1,
            _ => wanted.push((day, 1)),
        }
    }
    let got: Vec<(&str, u64)> = counted["rows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| (row["key"].as_str().unwrap(), row["requests"].as_u64().unwrap()))
        .collect();
    assert_eq!(got, wanted);
    assert_eq!(keys(&home.stats(&["--timezone", "UTC"])), ["2026-03-28", "2026-03-29", "2026-10-24", "2026-10-25"]);
    // A zone that is not a whole number of hours away.
    assert_eq!(
        keys(&home.stats(&["--timezone", "Asia/Kathmandu", "--by", "hour", "--until", "2026-03-30", "--since", "2026-03-29"]))
            .len(),
        1
    );
    // Weeks begin on Monday: 2026-10-25 is a Sunday.
    assert_eq!(
        keys(&home.stats(&["--timezone", "Europe/Berlin", "--by", "week"])),
        ["2026-03-23", "2026-03-30", "2026-10-19", "2026-10-26"]
    );
    // The zone of the system is the default.
    let in_berlin = home.set(command(&["stats", "--json"])).env("TZ", "Europe/Berlin").output().unwrap();
    let in_berlin: Value = serde_json::from_slice(&in_berlin.stdout).unwrap();
    assert_eq!(keys(&in_berlin), ["2026-03-28", "2026-03-29", "2026-03-30", "2026-10-24", "2026-10-25", "2026-10-26"]);
}

const TOTALS: &[&str] = &[
    "input",
    "output",
    "cache_read",
    "cache_write",
    "cache_write_1h",
    "reasoning",
    "tokens",
    "cost_usd",
    "cost_reported_usd",
    "cost_computed_usd",
    "cost_unknown",
    "exact",
    "requests",
    "request_errors",
    "unlisted",
    "calls",
    "call_errors",
    "call_denials",
    "web_searches",
    "sessions",
    "cache_hit_ratio",
];
const SESSION: &[&str] = &["title", "agent", "folder", "branch", "first", "last", "busy_ms", "prompts"];
const BLOCK: &[&str] = &["start", "resets", "active", "tokens_per_minute", "usd_per_hour", "projected_usd", "left"];

fn names(value: &Value) -> Vec<&str> {
    let mut names: Vec<_> = value.as_object().unwrap().keys().map(String::as_str).collect();
    names.sort_unstable();
    names
}

fn sorted<'t>(parts: &[&[&'t str]]) -> Vec<&'t str> {
    let mut all = parts.concat();
    all.sort_unstable();
    all
}

#[test]
fn the_keys_of_json_are_stable_and_described() {
    let home = Home::new(&["claude-models", "codex-limits"]);
    let plain = home.stats(&[]);
    assert_eq!(
        names(&plain),
        sorted(&[&["totals", "rows", "unknown_models", "damaged_lines", "damaged_files", "prices_dated"]])
    );
    assert_eq!(names(&plain["totals"]), sorted(&[TOTALS]));
    assert_eq!(names(&plain["rows"][0]), sorted(&[TOTALS, &["key"]]));
    assert_eq!(names(&home.stats(&["--by", "session"])["rows"][0]), sorted(&[TOTALS, SESSION, &["key"]]));
    let blocks = home.stats(&["--by", "block"]);
    assert_eq!(names(&blocks["rows"][0]), sorted(&[TOTALS, BLOCK, &["key"]]));
    // Codex was told that an eighth of the window was used.
    assert_eq!(blocks["rows"][0]["left"]["share"], 0.875);
    assert_eq!(names(&blocks["rows"][0]["left"]), ["as_of", "share", "tokens"]);
    let page = std::fs::read_to_string(root().join("docs/STATS.md")).unwrap();
    for key in
        [TOTALS, SESSION, BLOCK, &["unknown_models", "damaged_lines", "damaged_files", "prices_dated", "models"]].concat()
    {
        assert!(page.contains(&format!("`{key}`")), "docs/STATS.md does not describe {key}");
    }
    for way in ["day", "week", "month", "hour", "session", "project", "model", "agent", "tool", "subagent", "branch", "block"] {
        assert!(page.contains(&format!("`{way}`")), "docs/STATS.md does not describe --by {way}");
        let models = &home.stats(&["--by", way, "--breakdown"])["rows"][0]["models"];
        let models = models.as_object().unwrap();
        assert!(!models.is_empty(), "{way}");
        for of in models.values() {
            assert_eq!(names(of), sorted(&[TOTALS]), "{way}");
            assert!(of["sessions"].as_u64().unwrap() > 0, "{way}");
        }
    }
}

#[test]
fn csv_has_a_line_for_each_row() {
    let home = Home::new(&["claude-models", "codex-fork"]);
    let ran = home.run(&["stats", "--by", "model", "--csv"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    let mut lines = ran.out.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let head = lines.next().unwrap();
    let page = std::fs::read_to_string(root().join("docs/STATS.md")).unwrap();
    for name in &head {
        assert!(page.contains(&format!("`{name}`")), "{name}");
    }
    let counted = home.stats(&["--by", "model"]);
    let lines: Vec<_> = lines.collect();
    assert_eq!(lines.len(), counted["rows"].as_array().unwrap().len());
    for (line, row) in lines.iter().zip(counted["rows"].as_array().unwrap()) {
        assert_eq!(line.len(), head.len());
        for (name, cell) in head.iter().zip(line) {
            let wanted = row[*name].as_str().map_or_else(|| row[*name].to_string(), str::to_owned);
            let same = *cell == wanted
                || cell
                    .parse::<f64>()
                    .ok()
                    .zip(wanted.parse().ok())
                    .is_some_and(|(one, other): (f64, f64)| (one - other).abs() < 1e-12);
            assert!(same, "{name}: {cell} and {wanted}");
        }
    }
    // With a line for each model, the lines of a row add up to it.
    let ran = home.run(&["stats", "--by", "day", "--csv", "--breakdown"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    let lines: Vec<Vec<_>> = ran.out.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!(lines[0][..2], ["key", "model"]);
    let output = lines[0].iter().position(|name| *name == "output").unwrap();
    for row in home.stats(&["--by", "day"])["rows"].as_array().unwrap() {
        let of_row = lines.iter().filter(|line| row["key"] == line[0]);
        assert_eq!(of_row.map(|line| line[output].parse::<u64>().unwrap()).sum::<u64>(), row["output"].as_u64().unwrap());
    }
    // Whatever a folder is called, it is one field, and no formula.
    let hostile = answer("m1", "s-1", "2026-11-16T10:00:00Z").replace("/home/dev/app", "=HYPERLINK(\\\"x\\\",\\ny)");
    home.write("home/.claude/projects/a/s-1.jsonl", &hostile);
    let ran = home.run(&["stats", "--by", "project", "--csv"]);
    assert!(ran.out.contains("\n\"'=HYPERLINK(\"\"x\"\",\ny)\",1,1,"), "{}", ran.out);
}

#[test]
fn what_a_stream_says_reaches_no_terminal_as_it_is() {
    let home = Home::new(&[]);
    let evil = "\\u001b[31mred\\u202e\\u0007";
    let line = answer("m1", "s-1", "2026-11-16T10:00:00Z");
    let line = line.replace("/home/dev/app", evil).replace("claude-opus-5-5", evil).replace("main", evil).replace("s-1", evil);
    home.write("home/.claude/projects/a/s-1.jsonl", &line);
    for by in ["session", "project", "model", "branch"] {
        let ran = home.run(&["stats", "--by", by, "--breakdown"]);
        assert_eq!(ran.code, 0, "{}", ran.err);
        assert!(!ran.out.contains(['\u{1b}', '\u{202e}', '\u{7}']), "{by}: {:?}", ran.out);
    }
    let ran = home.run(&["stats", "--explain", "\u{1b}"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(!ran.out.contains(['\u{1b}', '\u{202e}', '\u{7}']), "{:?}", ran.out);
}

#[test]
fn wrong_input_is_told_with_what_to_write_instead() {
    let home = Home::new(&["claude-models"]);
    for (args, says) in [
        (vec!["--since", "yesterday"], "write it like 2026-11-01, 2026-11-01T09:00, 7d or 12h"),
        (vec!["--until", "2026-13-01"], "`2026-13-01` is not a time"),
        (vec!["--last", "soon"], "`soon` is not a time"),
        (vec!["--timezone", "Nowhere/City"], "write it like Europe/Berlin or UTC"),
        (vec!["--by", "year"], "possible values: day, week, month"),
        (vec!["--agent", "nobody"], "nobody"),
        (vec!["--json", "--csv"], "cannot be used with"),
        (vec!["--limit", "100"], "add `--by block`"),
        (vec!["--last", "7d", "--since", "2026-11-01"], "cannot be used with"),
        (vec!["--explain", "nothing"], "`tapline stats --by session` lists them"),
        (vec!["/nowhere/at/all"], "cannot read /nowhere/at/all"),
        (vec!["--prices", "/nowhere.toml"], "cannot read the prices /nowhere.toml"),
    ] {
        let ran = home.run(&[&["stats"], &args[..]].concat());
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{args:?}: {}", ran.err);
        assert!(ran.err.contains(says), "{args:?}: {}", ran.err);
    }
}

#[test]
fn a_model_without_a_price_is_unknown_and_never_free() {
    let home = Home::new(&["claude-unknown-model"]);
    let counted = home.stats(&["--by", "model"]);
    assert_eq!(counted["unknown_models"], json!(["claude-opus-9-9", "my-model"]));
    assert!(counted["totals"]["cost_unknown"].as_u64().unwrap() > 0);
    assert!(counted["totals"]["tokens"].as_u64().unwrap() > 0);
    let shown = home.run(&["stats", "--by", "model"]).out;
    assert!(shown.contains("unknown") && shown.contains("no price for claude-opus-9-9, my-model"), "{shown}");
    // A price of the user's own makes it known.
    let mine = home.write(
        "mine.toml",
        "[models]\n\"my-model\" = { input = 1, output = 2 }\n\"claude-opus-9-9\" = { input = 0, output = 0 }\n",
    );
    let counted = home.stats(&["--by", "model", "--prices", &mine]);
    assert_eq!((&counted["totals"]["cost_unknown"], &counted["unknown_models"]), (&json!(0), &json!([])));
}

#[test]
fn an_explained_cost_adds_up_to_the_total() {
    for case in ["claude-models", "claude-fork", "claude-subagents", "claude-compact", "claude-killed", "codex-fork"] {
        let home = Home::new(&[case]);
        let sessions = home.stats(&["--by", "session"]);
        for row in sessions["rows"].as_array().unwrap() {
            let id = row["key"].as_str().unwrap();
            let explained = home.stats(&["--explain", id]);
            assert_eq!((&explained["session"], &explained["cost_usd"]), (&row["key"], &row["cost_usd"]), "{case}");
            let requests = explained["requests"].as_array().unwrap();
            let pico = |value: &Value| Money::from_usd(value["cost_usd"].as_f64().unwrap_or(0.0));
            assert_eq!(requests.iter().map(pico).sum::<Money>(), pico(&explained), "{case}, {id}");
            assert_eq!(requests.len() as u64, row["requests"].as_u64().unwrap(), "{case}, {id}");
            for key in ["input", "output", "cache_read", "cache_write_1h", "reasoning"] {
                let sum: u64 = requests.iter().map(|request| request["tokens"][key].as_u64().unwrap()).sum();
                assert_eq!(sum, row[key].as_u64().unwrap(), "{case}, {id}, {key}");
            }
            let text = home.run(&["stats", "--explain", &id[..20]]);
            assert_eq!(text.code, 0, "{}", text.err);
            let shown = text.out.lines().filter(|line| line.contains("  = ")).count();
            assert_eq!(shown, requests.len(), "{}", text.out);
            assert!(text.out.starts_with(id) && text.out.contains("\nTotal $"), "{}", text.out);
        }
    }
    let home = Home::new(&["codex-fork"]);
    let ran = home.run(&["stats", "--explain", "01a1e4f2"]);
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("is the start of several sessions: 01a1e4f2-"), "{}", ran.err);
}

/// In a terminal, Claude Code writes both `sessionId` and `session_id` into its lines. They are no stream's: their count is final.
#[test]
fn the_answers_of_a_session_in_a_terminal_have_the_output_that_they_tell() {
    let home = Home::new(&["claude-side-question"]);
    let session = home.stats(&["--by", "session"])["rows"][0]["key"].as_str().unwrap().to_owned();
    let explained = home.stats(&["--explain", &session]);
    let requests = explained["requests"].as_array().unwrap().iter();
    let told: Vec<_> = requests.map(|request| (&request["tokens"]["output"], request["what"].as_str().unwrap())).collect();
    assert_eq!(told, [(&json!(102), ""), (&json!(302), ""), (&json!(202), "no line shows it")]);
}

#[test]
fn stats_and_inspect_agree_on_a_stream() {
    let home = Home::new(&[]);
    for name in [
        "claude-2.1.325/tools.jsonl",
        "claude-2.1.325/multi.jsonl",
        "claude-2.1.325/subagent.jsonl",
        "codex-0.166.0/tools.jsonl",
    ] {
        let path = fixture(name);
        let path = path.to_str().unwrap();
        let report: Value = serde_json::from_str(&home.run(&["inspect", "--json", path]).out).unwrap();
        let counted = home.stats(&[path]);
        for key in ["input", "output", "cache_read"] {
            assert_eq!(counted["totals"][key], report["ledger"]["tokens"][key], "{name}, {key}");
        }
        if let Some(cost) = report["ledger"]["cost_usd"].as_f64() {
            assert!((counted["totals"]["cost_usd"].as_f64().unwrap() - cost).abs() < 1e-9, "{name}");
        }
    }
}

#[test]
fn what_was_counted_stays_counted_after_its_file_was_deleted() {
    let home = Home::new(&["claude-fork", "codex-fork"]);
    let before = home.stats(&["--by", "session"]);
    std::fs::remove_dir_all(home.path("home/.claude")).unwrap();
    std::fs::remove_dir_all(home.path("home/.codex/sessions")).unwrap();
    assert_eq!(home.stats(&["--by", "session"]), before);
    let id = before["rows"][0]["key"].as_str().unwrap();
    let explained = home.run(&["stats", "--explain", id]).out;
    assert!(explained.contains("(gone; its numbers are kept)"), "{explained}");
}

/// A call of each kind, what its result says, and whether that is a failure.
const RESULTS: &[(&str, &str, bool)] = &[
    ("flagged", r#""content":"no such file","is_error":true"#, true),
    ("flagged-zero", r#""content":"Exit code 0","is_error":true"#, true),
    ("not-flagged", r#""content":"Exit code 1\nbut it says that it is fine","is_error":false"#, false),
    ("quotes-an-error", r#""content":"<tool_use_error>as a text</tool_use_error>","is_error":false"#, false),
    ("code", r#""content":"Exit code 3\nfailed""#, true),
    ("colon", r#""content":"Exit code: 3""#, true),
    ("code-zero", r#""content":"Exit code 0\nfine""#, false),
    ("tag", r#""content":[{"type":"text","text":"<tool_use_error>no such tool</tool_use_error>"}]"#, true),
    ("word", r#""content":[{"type":"text","text":"Error: it broke"}]"#, true),
    ("fine", r#""content":"all is well""#, false),
];

/// Statistics, the search and the report read the same lines, so they must find the same failures.
#[test]
fn stats_search_and_inspect_agree_on_what_failed() {
    let home = Home::new(&[]);
    let mut lines = String::new();
    for (at, (tool, result, _)) in RESULTS.iter().enumerate() {
        let line = |kind: &str, message: &str| {
            format!(
                r#"{{"type":"{kind}","sessionId":"f-1","cwd":"/work","uuid":"{kind}{at}","timestamp":"2026-11-16T10:00:{at:02}Z","message":{message}}}"#
            )
        };
        let call = format!(
            r#"{{"id":"m{at}","role":"assistant","model":"claude-opus-5-5","content":[{{"type":"tool_use","id":"c{at}","name":"{tool}","input":{{}}}}],"usage":{{"input_tokens":1,"output_tokens":1}}}}"#
        );
        let answer = format!(r#"{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"c{at}",{result}}}]}}"#);
        for line in [line("assistant", &call), line("user", &answer)] {
            lines.push_str(&line);
            lines.push('\n');
        }
    }
    home.write("home/.claude/projects/-work/f-1.jsonl", &lines);
    let wanted: Vec<&str> = RESULTS.iter().filter(|(.., failed)| *failed).map(|(tool, ..)| *tool).collect();
    let sorted = |mut tools: Vec<String>| {
        tools.sort();
        tools
    };
    let wanted = sorted(wanted.into_iter().map(str::to_owned).collect());
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let counted = home.stats(&["--by", "tool"]);
    let failed = counted["rows"].as_array().unwrap().iter().filter(|row| row["call_errors"] == 1).map(|row| text(&row["key"]));
    assert_eq!(sorted(failed.collect()), wanted, "stats");
    let json = |args: &[&str]| {
        let ran = home.run(args);
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{args:?}");
        serde_json::from_str::<Value>(&ran.out).unwrap()
    };
    let found = json(&["search", "is:error", "--json", "--hits", "50"]);
    let hits = found["sessions"][0]["hits"].as_array().unwrap().iter().map(|hit| text(&hit["tool"]));
    assert_eq!(sorted(hits.collect()), wanted, "search");
    let report = json(&["inspect", "f-1", "--json"]);
    let calls = report["tools"]["calls"].as_array().unwrap().iter().filter(|call| call["status"] == "error");
    assert_eq!(sorted(calls.map(|call| text(&call["name"])).collect()), wanted, "inspect");
}

/// Such a stream begins with its parent's total, and nothing in it says so.
#[test]
fn the_stream_of_a_forked_thread_is_not_exact_unless_its_rollouts_are_there() {
    let home = Home::new(&["codex-fork"]);
    let case = fixture("transcripts/codex-fork");
    let fork = case.join("fork.jsonl");
    let alone = home.stats(&[fork.to_str().unwrap()]);
    assert_eq!((&alone["totals"]["exact"], &alone["totals"]["output"]), (&false.into(), &1_510.into()));
    let table = home.run(&["stats", fork.to_str().unwrap()]);
    assert!(table.out.contains("Some numbers are not exact"), "{}", table.out);
    assert_eq!(home.stats(&[])["totals"]["exact"], true);
    let both = home.stats(&[case.to_str().unwrap()]);
    assert_eq!((&both["totals"]["exact"], &both["totals"]["output"]), (&true.into(), &2_112.into()));
}
