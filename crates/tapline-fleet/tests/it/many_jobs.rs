//! A thousand jobs: each has exactly one result, and its recording has exactly what the agent wrote.

use std::fmt::Write as _;

use tapline_fleet::{BatchNews, JobOutcome};
use tapline_recording::Recording;
use tapline_testkit::rounds;

use crate::stage::Stage;

#[test]
fn a_thousand_jobs() {
    let jobs = rounds(250, 1_000);
    let stage = Stage::new();
    let mut table = String::from("n\n");
    (1..=jobs).for_each(|n| writeln!(table, "{n}").unwrap());
    stage.file("rows.csv", &table);
    let text = "[[job]]\nname = \"job-{n}\"\nprompt = \"say job-{n} {n}\"\nrows = \"rows.csv\"\n";
    let ran = stage.run(text, |options| options.jobs = 8);
    assert!(ran.end.is_complete());
    let mut names: Vec<_> = ran.end.results.iter().map(|result| result.job.clone()).collect();
    let expected: Vec<_> = (1..=jobs).map(|n| format!("job-{n}")).collect();
    assert_eq!(names, expected, "in the order of the file");
    names.dedup();
    assert_eq!(names.len(), jobs);
    let mut recordings = std::collections::BTreeSet::new();
    for (n, result) in (1..).zip(&ran.end.results) {
        assert_eq!((result.outcome, result.attempts), (JobOutcome::Success, 1), "{result:?}");
        assert_eq!(result.answer.as_deref(), Some(format!("done job-{n} {n}").as_str()));
        assert_eq!(stage.traces(&result.job).len(), 1, "{} ran once", result.job);
        assert!(stage.is_recorded(result), "{}", result.job);
        let recording = Recording::open(result.recording.as_deref().unwrap().as_ref()).unwrap();
        assert!(recording.flaws().is_empty(), "{:?}", recording.flaws());
        assert_eq!(recording.meta.label.as_deref(), Some("job"));
        recordings.insert(result.recording.clone());
    }
    assert_eq!(recordings.len(), jobs, "each has its own");
    assert_eq!(stage.store().list().unwrap().len(), jobs, "and nothing else was recorded");
    let ended = ran.events.iter().filter(|event| matches!(event, BatchNews::Ended(_))).count();
    assert_eq!(ended, jobs);
    // A batch that has ended has nothing to resume.
    let again = stage.resume(|_| {});
    assert_eq!(again.end.results, ran.end.results);
    assert!(again.events.is_empty(), "{:?}", again.events);
}
