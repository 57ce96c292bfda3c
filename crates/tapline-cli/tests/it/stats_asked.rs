//! What `tapline stats` can be asked for besides rows: the keys of ccusage, a row for each project, the window that is open, and times that make
//! sense.

use serde_json::{Value, json};

use crate::stats::{Home, answer};

/// The keys are those that ccusage 20.0.24 writes about these transcripts, in its reports of all agents and of Claude Code alone.
#[test]
fn scripts_that_read_ccusage_need_no_change() {
    let home = Home::new(&["claude-models"]);
    let shaped = |args: &[&str]| home.stats(&[&["--shape", "ccusage", "--timezone", "UTC"], args].concat());
    let totals = &home.stats(&[])["totals"];
    let sums = ["inputTokens", "outputTokens", "cacheCreationTokens", "cacheReadTokens", "totalTokens", "totalCost"];
    for (by, list, key) in [
        ("day", "daily", "date"),
        ("week", "weekly", "week"),
        ("month", "monthly", "month"),
        ("session", "sessions", "sessionId"),
    ] {
        let told = shaped(&["--by", by]);
        let row = &told[list][0];
        assert!(sums.iter().all(|name| row[name].is_number() && row[name] == told["totals"][name]), "{told}");
        assert_eq!((&row["totalTokens"], &row["totalCost"]), (&totals["tokens"], &totals["cost_usd"]), "{by}");
        assert!(row[key].is_string() && row[key] == row["period"], "{row}");
        let models = row["modelBreakdowns"].as_array().unwrap();
        let of_models = |name: &str| models.iter().map(|model| model[name].as_u64().unwrap()).sum::<u64>();
        assert!(sums[..4].iter().all(|name| row[name] == of_models(name)), "{row}");
        assert!(models.iter().all(|model| model["modelName"].is_string() && model["cost"].is_number()), "{row}");
        assert_eq!(row["modelsUsed"].as_array().unwrap().len(), models.len());
    }
    let sessions = shaped(&["--by", "session"]);
    assert_eq!(sessions["session"], sessions["sessions"]);
    for time in ["firstActivity", "lastActivity"] {
        let time = sessions["sessions"][0][time].as_str().unwrap();
        assert!(time.starts_with("2026-11-16T15:18:3") && time.len() == 24 && time.ends_with('Z'), "{time}");
    }
    let projects = shaped(&["--instances"]);
    let row = &projects["projects"]["/home/dev/claude-models"][0];
    assert_eq!((&row["date"], &row["project"]), (&json!("2026-11-16"), &json!("/home/dev/claude-models")), "{projects}");
    let blocks = shaped(&["--by", "block"]);
    let block = &blocks["blocks"][0];
    assert_eq!(
        (&block["startTime"], &block["endTime"]),
        (&json!("2026-11-16T15:00:00.000Z"), &json!("2026-11-16T20:00:00.000Z"))
    );
    assert_eq!((&block["isActive"], &block["isGap"], &block["burnRate"]), (&json!(false), &json!(false), &Value::Null));
    assert_eq!((&block["totalTokens"], &block["costUSD"]), (&totals["tokens"], &totals["cost_usd"]));
    assert_eq!(block["tokenCounts"]["cacheCreationInputTokens"], totals["cache_write"]);
    for (args, why) in [
        (&["--json", "--shape", "ccusage", "--by", "tool"][..], "ccusage has no such rows"),
        (&["--shape", "ccusage"], "--json"),
    ] {
        let ran = home.run(&[&["stats"], args].concat());
        assert!(ran.code == 2 && ran.err.contains(why), "{ran:?}");
    }
}

#[test]
fn rows_of_times_can_be_of_one_project_each() {
    let home = Home::new(&[]);
    let there = |id: &str, folder: &str| answer(id, "s-1", "2026-11-16T10:00:00Z").replace("/home/dev/app", folder);
    let next_day = answer("c", "s-1", "2026-11-17T10:00:00Z");
    home.write("home/.claude/projects/a/s-1.jsonl", &(there("a", "/x/shop") + &there("b", "/x/app") + &next_day));
    let counted = home.stats(&["--instances", "--timezone", "UTC"]);
    let rows: Vec<_> = counted["rows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| (row["key"].as_str().unwrap(), row["project"].as_str().unwrap()))
        .collect();
    assert_eq!(rows, [("2026-11-16", "/x/app"), ("2026-11-16", "/x/shop"), ("2026-11-17", "/home/dev/app")]);
    assert!(counted["rows"].as_array().unwrap().iter().all(|row| row["requests"] == 1 && row["sessions"] == 1));
    let shown = home.run(&["stats", "--instances", "--timezone", "UTC"]).out;
    assert!(shown.contains("\n2026-11-16  shop ") && shown.contains("\n2026-11-17  app "), "{shown}");
    let csv = home.run(&["stats", "--instances", "--csv", "--timezone", "UTC"]).out;
    assert!(csv.starts_with("key,project,sessions,") && csv.contains("\n2026-11-16,/x/shop,1,1,"), "{csv}");
    let empty = Home::new(&[]).run(&["stats", "--instances", "--csv"]).out;
    assert_eq!(empty.lines().next(), csv.lines().next(), "without rows, the columns are the same");
    let wrong = home.run(&["stats", "--instances", "--by", "tool"]);
    assert!(wrong.code == 2 && wrong.err.contains("rows of times"), "{wrong:?}");
}

#[test]
fn the_window_that_is_open_now_can_be_alone() {
    let home = Home::new(&["claude-models"]);
    let active = || home.run(&["stats", "--by", "block", "--active"]);
    assert_eq!((active().code, active().out.as_str()), (0, "No window of five hours is open.\n"));
    home.write("home/.claude/projects/a/s-1.jsonl", &answer("a", "s-1", &jiff::Timestamp::now().to_string()));
    let shown = active().out;
    assert!(shown.contains("open until") && !shown.contains("2026-11-16 15:00"), "{shown}");
    let json = home.stats(&["--by", "block", "--active"]);
    assert_eq!((json["rows"].as_array().unwrap().len(), &json["totals"]["requests"]), (1, &json!(1)), "{json}");
    let wrong = home.run(&["stats", "--active"]);
    assert!(wrong.code == 2 && wrong.err.contains("--by block"), "{wrong:?}");
}

#[test]
fn a_time_without_a_unit_is_asked_about() {
    let home = Home::new(&["claude-models"]);
    for args in [["stats", "--last", "7"], ["stats", "--since", "30"], ["search", "since:7", "x"]] {
        let ran = home.run(&args);
        let days = args[2].trim_end_matches('x');
        assert!(ran.code == 2 && ran.err.contains("has no unit") && (days == "30" || ran.err.contains("7d?")), "{ran:?}");
    }
    assert_eq!(home.run(&["stats", "--since", "20261101"]).code, 0, "a date, as ccusage has it");
}
