//! The transcripts and streams of the real programs: what the loader counts is what the scripted model gave.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use serde_json::Value;
use tapline_archive::{Index, Places, Prices, Reader, Request, Selection, Tokens, load};

/// The cases of `fixtures/transcripts/`.
fn cases() -> Vec<PathBuf> {
    let folder = tapline_testkit::fixture("transcripts");
    let mut cases: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    cases.sort();
    assert!(cases.len() > 20, "the fixtures are there");
    cases
}

/// Tokens by session and model.
#[derive(Default)]
struct Count {
    by_model: BTreeMap<(String, String), Tokens>,
    all: Tokens,
    costs: BTreeMap<String, f64>,
}

impl Reader for Count {
    fn request(&mut self, request: &Request<'_>) {
        if request.tokens.total() > 0 {
            *self.by_model.entry((request.session.to_owned(), request.model.to_owned())).or_default() += request.tokens;
            self.all += request.tokens;
        }
        *self.costs.entry(request.session.to_owned()).or_default() += request.cost.unwrap_or_default().usd();
    }
}

fn counted(paths: &[PathBuf]) -> Count {
    let mut index = Index::in_memory().unwrap();
    index.update(&Places::below(paths), &AtomicBool::new(false), |_| {}).unwrap();
    let mut count = Count::default();
    load(&index, Prices::embedded(), &Selection::default(), &mut count).unwrap();
    count
}

/// The tokens of an object of `truth.json`, with all cache writes in one.
fn classes(of: &Value) -> [u64; 4] {
    let count = |key: &str| of[key].as_u64().unwrap_or(0);
    let written = count("cache_write") + count("cache_write_5m") + count("cache_write_1h");
    [count("input"), count("output"), count("cache_read"), written]
}

fn of(tokens: Tokens) -> [u64; 4] {
    [tokens.input, tokens.output, tokens.cache_read, tokens.cache_write()]
}

#[test]
fn every_session_has_the_tokens_that_the_model_gave() {
    let mut wrong = Vec::new();
    for case in cases() {
        let truth: Value = serde_json::from_slice(&std::fs::read(case.join("truth.json")).unwrap()).unwrap();
        let streams: Vec<PathBuf> = std::fs::read_dir(&case).unwrap().map(|entry| entry.unwrap().path()).collect();
        let streams: Vec<PathBuf> =
            streams.into_iter().filter(|path| path.extension().is_some_and(|end| end == "jsonl")).collect();
        let transcripts: Vec<PathBuf> = ["claude", "codex"].map(|agent| case.join(agent)).into();
        let transcripts: Vec<PathBuf> = transcripts.into_iter().filter(|path| path.exists()).collect();
        let both = [&streams[..], &transcripts[..]].concat();
        for (source, paths) in [("transcript", &transcripts), ("stream", &streams), ("both", &both)] {
            if paths.is_empty() {
                continue;
            }
            let about = format!("{}, {source}", case.file_name().unwrap().to_str().unwrap());
            let got = counted(paths);
            // What neither of them shows, both together do not show.
            let neither = source == "both" && truth.get("stream_alone").is_some();
            let alone = if neither { "transcript_alone".to_owned() } else { format!("{source}_alone") };
            if let Some(alone) = truth.get(alone) {
                if of(got.all) != classes(alone) {
                    wrong.push(format!("{about}: {:?} instead of {:?}", of(got.all), classes(alone)));
                }
                continue;
            }
            for (session, told) in truth["sessions"].as_object().unwrap() {
                if let Some(cost) = told["cost_usd"]
                    .as_f64()
                    .filter(|_| source != "transcript" || !told["reported"]["cost_state_usd"].is_null())
                {
                    let mine = got.costs.get(session).copied().unwrap_or_default();
                    if (mine - cost).abs() > 1e-7 {
                        wrong.push(format!("{about}, {session}: {mine} USD instead of {cost}"));
                    }
                }
                for (model, tokens) in told["models"].as_object().unwrap() {
                    // The streams of Codex do not name the model.
                    let named = if source == "stream" && truth["agent"] == "codex" { "" } else { model };
                    let mine = got.by_model.get(&(session.clone(), named.to_owned())).copied().unwrap_or_default();
                    let hour = tokens["cache_write_1h"].as_u64().unwrap_or(0);
                    if source == "transcript" && mine.cache_write_1h != hour {
                        wrong.push(format!(
                            "{about}, {session}, {model}: {} for an hour instead of {hour}",
                            mine.cache_write_1h
                        ));
                    }
                    if of(mine) != classes(tokens) {
                        wrong.push(format!("{about}, {session}, {model}: {:?} instead of {:?}", of(mine), classes(tokens)));
                    }
                }
            }
            if of(got.all) != classes(&truth["totals"]) {
                wrong.push(format!("{about}, in all: {:?} instead of {:?}", of(got.all), classes(&truth["totals"])));
            }
        }
    }
    assert!(wrong.is_empty(), "{} are wrong\n{}", wrong.len(), wrong.join("\n"));
}

/// Claude Code writes `HEAD` where there is no repository, or no branch.
#[test]
fn head_is_no_branch() {
    let folder = tapline_testkit::TempFolder::new();
    let line = |id: &str, branch: &str| {
        let usage = serde_json::json!({ "input_tokens": 1, "output_tokens": 1 });
        let message = serde_json::json!({ "id": id, "model": "m", "usage": usage, "content": [] });
        serde_json::json!({ "type": "assistant", "sessionId": "s", "cwd": "/p", "gitBranch": branch, "message": message })
            .to_string()
    };
    folder.write("s.jsonl", [line("m1", "HEAD"), line("m2", "main"), line("m3", "HEAD")].join("\n"));
    let mut index = Index::in_memory().unwrap();
    crate::totals::update(&mut index, &folder);
    let counted = crate::totals::by(&index, tapline_archive::stats::By::Branch);
    let rows: Vec<_> =
        counted["rows"].as_array().unwrap().iter().map(|row| (row["key"].as_str(), row["requests"].as_u64())).collect();
    assert_eq!(rows, [(Some("p (unknown)"), Some(2)), (Some("p main"), Some(1))]);
}
