//! A recording is private, is never written over, opens however it was cut, and says where it is incomplete.

use std::path::Path;
use std::time::Duration;

use tapline_protocol::{Moment, StopReason};
use tapline_recording::{End, Meta, Recorder, Recording, RecordingError, Stop, Stream, Sync, TimedPiece};
use tapline_testkit::TempFolder;
use tapline_testkit::files::mode;

fn meta() -> Meta {
    Meta { schema: 1, agent: Some("claude".into()), argv: vec!["claude".into(), "-p".into()], ..Meta::default() }
}

fn record(path: &Path) -> Recorder {
    let mut recorder = Recorder::create(path, &meta(), Sync::Always).unwrap();
    recorder.write_at(Stream::Stdin, b"prompt\n", Duration::from_micros(5));
    recorder.write_at(Stream::Stdout, b"{\"type\":", Duration::from_micros(10));
    recorder.write_at(Stream::Stderr, b"warning\n", Duration::from_micros(12));
    recorder.write_at(Stream::Stdout, b"\"keep_alive\"}\n", Duration::from_micros(20));
    recorder
}

#[test]
fn what_was_written_is_read() {
    let folder = TempFolder::new();
    let path = folder.join("deep/inside");
    let stop = Some(Stop { reason: StopReason::Timeout, limit_ms: Some(5) });
    let end = End { exit_code: Some(3), signal: Some("SIGTERM".into()), stop, duration_ms: Some(7), ..End::default() };
    record(&path).finish(&end).unwrap();
    let recording = Recording::open(&path).unwrap();
    assert_eq!((recording.meta.clone(), recording.end.clone()), (meta(), Some(end)));
    assert_eq!(std::fs::read(recording.stdout()).unwrap(), b"{\"type\":\"keep_alive\"}\n");
    assert_eq!(recording.stderr().unwrap(), "warning\n");
    let piece = |stream, end, micros| TimedPiece { stream, end, at: Duration::from_micros(micros) };
    let expected =
        [piece(Stream::Stdin, 7, 5), piece(Stream::Stdout, 8, 10), piece(Stream::Stderr, 8, 12), piece(Stream::Stdout, 22, 20)];
    assert_eq!(recording.pieces().unwrap(), expected);
}

#[test]
fn why_a_run_was_stopped_is_flags_on_disk() {
    let cases = [
        (None, r#""timed_out":false,"interrupted":false,"lingered":false"#),
        (
            Some((StopReason::Timeout, Some(7))),
            r#""timed_out":true,"clock":{"name":"timeout","ms":7},"interrupted":false,"lingered":false"#,
        ),
        (Some((StopReason::Timeout, None)), r#""timed_out":true,"interrupted":false,"lingered":false"#),
        (
            Some((StopReason::Idle, Some(7))),
            r#""timed_out":true,"clock":{"name":"idle-timeout","ms":7},"interrupted":false,"lingered":false"#,
        ),
        (
            Some((StopReason::Linger, Some(7))),
            r#""timed_out":false,"clock":{"name":"linger","ms":7},"interrupted":false,"lingered":true"#,
        ),
        (Some((StopReason::Interrupted, None)), r#""timed_out":false,"interrupted":true,"lingered":false"#),
    ];
    for (stop, written) in cases {
        let folder = TempFolder::new();
        let place = folder.join("recording");
        let stop = stop.map(|(reason, limit_ms)| Stop { reason, limit_ms });
        record(&place).finish(&End { stop, ..End::default() }).unwrap();
        let text = std::fs::read_to_string(place.join("end.json")).unwrap();
        let text: String = text.split_whitespace().collect();
        let expected = format!(r#"{{"exit_code":null,"signal":null,{written},"violated":null,"#);
        assert!(text.starts_with(&expected), "{text}");
        assert_eq!(Recording::open(&place).unwrap().end.unwrap().stop, stop);
    }
    // Who stopped it is not kept.
    for reason in [StopReason::Terminated, StopReason::Stopped] {
        let folder = TempFolder::new();
        let place = folder.join("recording");
        record(&place).finish(&End { stop: Some(Stop { reason, limit_ms: None }), ..End::default() }).unwrap();
        let read = Recording::open(&place).unwrap().end.unwrap().stop;
        assert_eq!(read, Some(Stop { reason: StopReason::Interrupted, limit_ms: None }));
    }
}

#[test]
fn a_writer_that_is_gone_leaves_everything_it_read() {
    let folder = TempFolder::new();
    let place = folder.join("recording");
    std::mem::forget(record(&place));
    let recording = Recording::open(&place).unwrap();
    assert_eq!(recording.end, None);
    assert_eq!(std::fs::read(recording.stdout()).unwrap(), b"{\"type\":\"keep_alive\"}\n");
}

#[test]
fn a_recording_cut_anywhere_opens() {
    let folder = TempFolder::new();
    let place = folder.join("recording");
    record(&place).finish(&End::default()).unwrap();
    for name in ["stdout", "times", "meta.json", "end.json", "stderr"] {
        let path = place.join(name);
        let whole = std::fs::read(&path).unwrap();
        for length in (0..whole.len()).rev() {
            std::fs::write(&path, &whole[..length]).unwrap();
            let recording = Recording::open(&place).unwrap();
            assert!(recording.pieces().unwrap().len() <= 4);
        }
        std::fs::write(&path, whole).unwrap();
    }
}

#[cfg(unix)]
#[test]
fn files_are_private() {
    let folder = TempFolder::new();
    let place = folder.join("recording");
    record(&place).finish(&End::default()).unwrap();
    assert_eq!(mode(&place), 0o700);
    for name in ["stdout", "stderr", "stdin", "times", "meta.json", "end.json"] {
        assert_eq!(mode(place.join(name)), 0o600, "{name}");
    }
}

#[test]
fn nothing_is_written_over() {
    let folder = TempFolder::new();
    let place = folder.join("recording");
    record(&place).finish(&End::default()).unwrap();
    assert!(matches!(Recorder::create(&place, &meta(), Sync::EverySecond), Err(RecordingError::Exists(_))));
    assert!(matches!(Recording::open(Path::new("/no/such/recording")), Err(RecordingError::NotARecording(_))));
    assert!(matches!(Recording::open(&place.join("stdout")), Err(RecordingError::File(_))));
}

#[test]
fn a_folder_that_cannot_be_made_is_named() {
    let error = Recorder::create(Path::new("/proc/nothing/here"), &meta(), Sync::EverySecond).unwrap_err();
    assert!(error.to_string().contains("/proc/nothing/here"), "{error}");
}

#[test]
fn a_line_arrived_with_the_piece_that_has_its_last_byte() {
    let folder = TempFolder::new();
    let place = folder.join("recording");
    let started = Moment::from_millis(1_000_000);
    let meta = Meta { started_at: Some("2026-01-01T00:00:00Z".into()), started_ms: Some(started), ..meta() };
    let mut recorder = Recorder::create(&place, &meta, Sync::Always).unwrap();
    recorder.write_at(Stream::Stdin, b"prompt\n", Duration::from_micros(1_999));
    for (bytes, ms) in [(&b"one\ntw"[..], 10), (b"o\n", 20), (b"three\nfour\n", 30), (b"five", 40)] {
        recorder.write_at(Stream::Stderr, b"aside\n", Duration::from_millis(ms));
        recorder.write_at(Stream::Stdout, bytes, Duration::from_micros(ms * 1_000 + 999));
    }
    recorder.finish(&End::default()).unwrap();
    let recording = Recording::open(&place).unwrap();
    assert_eq!(recording.started(), started);
    let told = |recording: &Recording| {
        let mut arrivals = recording.arrivals().unwrap();
        [4, 8, 14, 19, 23].map(|end| arrivals.at(end).map(|at| at.as_millis() - recording.started().as_millis()))
    };
    assert_eq!(told(&recording), [Some(10), Some(20), Some(30), Some(30), Some(40)]);
    assert_eq!(recording.last_arrival(), Some(started.after(Duration::from_millis(40))));
    let sent: Vec<_> = recording.sent().unwrap().map(|sent| sent.at).collect();
    assert_eq!(sent, [Some(started.after(Duration::from_millis(1)))]);
    let mut sendings = recording.sendings().unwrap();
    assert_eq!([7, 8].map(|end| sendings.at(end)), [Some(started.after(Duration::from_millis(1))), None]);

    // An older recording has the second in which it started.
    let (mut older, mut cut) = (recording.clone(), recording.clone());
    older.meta.started_ms = None;
    assert_eq!(older.started(), Moment::from_millis(1_767_225_600_000));
    assert_eq!(told(&older), [Some(10), Some(20), Some(30), Some(30), Some(40)]);

    // What `times` does not tell of has no time.
    let times = place.join("times");
    let whole = std::fs::read_to_string(&times).unwrap();
    cut.end = None;
    std::fs::write(&times, whole.split_inclusive('\n').take(5).collect::<String>() + "o 2").unwrap();
    assert_eq!(told(&cut), [Some(10), Some(20), None, None, None]);
    assert_eq!(cut.sent().unwrap().count(), 1);

    // Where stdout was edited, no time fits; nor is there one without the file.
    std::fs::write(&times, &whole).unwrap();
    assert!(recording.arrivals().is_some());
    std::fs::write(recording.stdout(), "one\n").unwrap();
    assert!(recording.arrivals().is_none());
    std::fs::remove_file(&times).unwrap();
    assert!(cut.arrivals().is_none() && cut.sendings().is_none());
    assert_eq!(cut.sent().unwrap().map(|sent| sent.at).collect::<Vec<_>>(), [None]);
}
