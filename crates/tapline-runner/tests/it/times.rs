//! What a run tells of times while it goes on is what its recording tells afterwards, to the millisecond.

use std::path::Path;

use tapline_protocol::{Agent as Kind, Decoder, Moment, Record};
use tapline_recording::{Recording, Sync};
use tapline_runner::{Agent, RecordTo, Update};
use tapline_session::{Fold, Host, Step};
use tapline_testkit::TempFolder;

/// Reads its prompt and writes lines with pauses: before lines, within lines, and behind what may be the beginning of a secret.
const AGENT: &str = r#"
cat >/dev/null
echo '{"type":"system","subtype":"init","session_id":"s"}'
echo '{"type":"assistant","session_id":"s","message":{"id":"m","content":[{"type":"tool_use","id":"t","name":"Bash","input":{"command":"ls"}}]}}'
sleep 0.03
printf '%s' '{"type":"user","session_id":"s","message":{"role":"user","content":'
sleep 0.03
echo '[{"type":"tool_result","tool_use_id":"t","content":"a"}]}}'
echo '{"type":"system","subtype":"task_started","session_id":"s","task_id":"k","description":"look"}'
delta() { echo '{"type":"stream_event","session_id":"s","event":{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"'"$1"'"}}}'; }
delta 'the API key is sk-ant-'
sleep 0.03
delta 'api03-aaaaaaaaaaaaaaaaaaaa'
echo '{"type":"system","subtype":"task_notification","session_id":"s","task_id":"k","status":"completed"}'
sleep 0.03
echo '{"type":"stream_event","session_id":"s","event":{"type":"content_block_stop","index":0}}'
printf '%s' '{"type":"result","subtype":"success","result":"done","session_id":"s","num_turns":1}'
sleep 0.03
"#;

/// Runs the agent, recorded; returns the steps of what was sent, and the records with their steps.
async fn run(folder: &TempFolder, redact: bool) -> (Vec<Step>, Vec<(Record, Vec<Step>)>) {
    let program = folder.script("agent", AGENT);
    let record = RecordTo { folder: folder.join("recording"), sync: Sync::EverySecond, redact };
    let mut agent = Agent::claude().bin(program).prompt("go");
    agent.record = Some(record);
    let mut running = agent.start().await.unwrap();
    let (mut sent, mut seen) = (Vec::new(), Vec::new());
    while let Some(update) = running.next_update().await {
        match update {
            Update::Sent(steps) => sent.extend(steps),
            Update::Record(record) => seen.push((record.record, record.steps)),
            other => assert!(!matches!(other, Update::Lost(_)), "{other:?}"),
        }
    }
    (sent, seen)
}

/// The same from the recording.
fn read(path: &Path) -> (Vec<Step>, Vec<(Record, Vec<Step>)>) {
    let recording = Recording::open(path).unwrap();
    let (mut fold, mut host) = (Fold::for_agent(Some(Kind::Claude)), Host::with_text());
    for piece in recording.sent().unwrap() {
        host.push(&piece.bytes, piece.at, &mut fold);
    }
    let sent = host.close(&mut fold);
    let (mut decoder, mut arrivals) = (Decoder::default().for_agent(Some(Kind::Claude)), recording.arrivals().unwrap());
    let mut records = decoder.push(&std::fs::read(recording.stdout()).unwrap());
    records.extend(decoder.finish());
    let mut end = 0;
    let seen = records.into_iter().map(|record| {
        end += record.bytes.len() as u64;
        let record = Record { arrived: arrivals.at(end), ..record };
        let steps = fold.apply(&record);
        (record, steps)
    });
    (sent, seen.collect())
}

fn written(steps: &[Step]) -> Vec<String> {
    steps.iter().map(|step| serde_json::to_string(step).unwrap()).collect()
}

#[tokio::test]
async fn live_and_from_the_recording_every_time_and_duration_is_the_same() {
    let folder = TempFolder::new();
    let (live, retold) = (run(&folder, false).await, read(&folder.join("recording")));
    assert_eq!(written(&live.0), written(&retold.0));
    assert_eq!(live.1.len(), retold.1.len());
    for ((record, steps), (again, steps_again)) in live.1.iter().zip(&retold.1) {
        assert_eq!(record, again);
        assert_eq!(written(steps), written(steps_again));
    }
    // They are there, and count between the lines that begin and end them; what is written later counts nowhere.
    let arrived: Vec<Moment> = live.1.iter().map(|(record, _)| record.arrived.unwrap()).collect();
    let sent = live.0[0].arrived.unwrap();
    assert!(arrived.is_sorted() && sent <= arrived[0], "{sent:?} {arrived:?}");
    let steps = live.1.iter().flat_map(|(_, steps)| steps).map(|step| serde_json::to_value(step).unwrap()).collect::<Vec<_>>();
    let numbers = |key: &str| steps.iter().filter_map(|step| step[key].as_u64()).collect::<Vec<_>>();
    let [_, call, result, task, _, _, task_ended, _, ended] = arrived[..] else { panic!("{arrived:?}") };
    let (call, task, turn) =
        (result.millis_since(call).unwrap(), task_ended.millis_since(task).unwrap(), ended.millis_since(sent).unwrap());
    assert_eq!((numbers("duration_ms"), numbers("elapsed_ms")), (vec![call, task], vec![turn]));
}

#[tokio::test]
async fn a_redacted_recording_has_the_time_at_which_a_line_came_and_not_when_it_was_written() {
    let folder = TempFolder::new();
    let (live, retold) = (run(&folder, true).await, read(&folder.join("recording")));
    let arrived = |seen: &[(Record, Vec<Step>)]| seen.iter().map(|(record, _)| record.arrived).collect::<Vec<_>>();
    assert_eq!(arrived(&live.1), arrived(&retold.1));
    let stdout = std::fs::read_to_string(folder.join("recording/stdout")).unwrap();
    assert!(!stdout.contains("sk-ant-") && stdout.contains("[redacted]"), "{stdout}");
}
