//! What a session had used before a run resumed it: from the agent's transcript when the run is started, from the recording
//! afterwards.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use tapline_archive::{report, used_before};
use tapline_protocol::{Agent, Json};
use tapline_recording::{Meta, Recorder, Stream, Sync};
use tapline_session::{SessionTotals, Tokens};
use tapline_testkit::{TempFolder, fixture};

const SESSION: &str = "01a1e4f2-62bd-74e0-8796-d30baa12839d";
const FORK: &str = "01a1e4f2-6579-7d20-9d82-abf85ac98dc9";

fn before(session: &str, home: &std::path::Path) -> Option<u64> {
    let variable = |name: &str| (name == "CODEX_HOME").then(|| PathBuf::from(home));
    used_before(Agent::Codex, session, &variable).map(|before| before.tokens.output)
}

#[test]
fn a_transcript_says_what_its_session_has_used() {
    let home = fixture("transcripts/codex-fork/codex");
    assert_eq!((before(SESSION, &home), before(FORK, &home)), (Some(1_610), Some(1_510)));
    let variable = |name: &str| (name == "CODEX_HOME").then(|| home.clone());
    let tokens = used_before(Agent::Codex, SESSION, &variable).map(|before| before.tokens);
    let truth =
        Tokens { input: 16_005, output: 1_610, cache_read: 160_015, cache_write_5m: 32_020, cache_write_1h: 0, reasoning: 37 };
    assert_eq!(tokens, Some(truth));
}

#[test]
fn what_is_not_there_is_not_known() {
    let home = fixture("transcripts/codex-fork/codex");
    assert_eq!((before("01a1e4f2-0000-7d20-9d82-abf85ac98dc9", &home), before("", &home)), (None, None));
    let folder = TempFolder::new();
    assert_eq!((before(SESSION, &folder.join("nowhere")), before(SESSION, &folder.join("."))), (None, None));
    let sessions = folder.join("sessions");
    fs::create_dir(&sessions).unwrap();
    fs::write(sessions.join(format!("rollout-{SESSION}.jsonl")), "no JSON\n{\"type\":1}\n").unwrap();
    assert_eq!(before(SESSION, &folder.join(".")), None);
    // Claude Code's own stream says it.
    assert_eq!(used_before(Agent::Claude, SESSION, &|_| Some(home.clone())), None);
}

#[test]
fn a_recording_keeps_it() {
    let folder = TempFolder::new();
    let stream = fs::read(fixture("transcripts/codex-fork/resume.jsonl")).unwrap();
    let record = |name: &str, argv: &[&str], session_before| {
        let meta = Meta {
            schema: 1,
            agent: Some("codex".to_owned()),
            argv: argv.iter().map(ToString::to_string).collect(),
            session_before,
            ..Meta::default()
        };
        let mut recorder = Recorder::create(&folder.join(name), &meta, Sync::EverySecond).unwrap();
        recorder.write_at(Stream::Stdout, &stream, Duration::ZERO);
        drop(recorder);
        let ledger = report(folder.join(name)).unwrap().ledger;
        (ledger.tokens.output, ledger.exact, ledger.session.map(|session| session.tokens.output))
    };
    let tokens =
        Tokens { input: 6_003, output: 606, cache_read: 60_009, cache_write_5m: 12_012, cache_write_1h: 0, reasoning: 23 };
    let before = Json::of(&SessionTotals { tokens, ..SessionTotals::default() });
    let resumes = ["codex", "exec", "--json", "resume", SESSION];
    assert_eq!(record("known", &resumes, Some(before)), (402, true, Some(1_008)));
    assert_eq!(record("unknown", &resumes, None), (1_008, false, None));
    assert_eq!(record("new", &resumes[..3], None), (1_008, true, None));
    assert_eq!(record("damaged", &resumes, Json::parse("1").ok()), (1_008, false, None));
}
