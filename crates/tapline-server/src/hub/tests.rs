//! Files of one session, files that are no session, and sessions that go away.

use tapline_testkit::TempFolder;

use super::*;

const LINE: &str = "{\"type\":\"assistant\",\"session_id\":\"one\",\"message\":{\"role\":\"assistant\",\"content\":[{\"type\":\"text\",\"text\":\"x\"}]}}\n";

/// Returns all sessions, and two files of one session, of which the second is shown.
fn hub() -> (Hub, TempFolder, [PathBuf; 2]) {
    let folder = TempFolder::new();
    let shelf = Arc::new(Shelf::new(folder.join("archive"), Vec::new(), tapline_archive::Prices::embedded().clone()));
    let hub = Hub::new(shelf, folder.to_owned(), Controls::new(false), None);
    let paths = ["a.jsonl", "b.jsonl"].map(|name| folder.join(name));
    for path in &paths {
        std::fs::write(path, LINE).unwrap();
        read(&hub, path);
    }
    (hub, folder, paths)
}

fn read(hub: &Hub, path: &Path) -> Arc<Live> {
    let live = hub.follow(SessionFile { path: path.to_owned(), recording: None }, true).unwrap();
    while hub.advance(&live, locked(&live.follower)) {}
    live
}

#[test]
fn a_file_that_was_hidden_comes_back() {
    let (hub, _folder, [hidden, shown]) = hub();
    assert!(hub.of_file(&hidden).is_none() && hub.knows(&hidden));
    // The other one is not read any more.
    hub.forget(&hub.of_file(&shown).unwrap());
    assert!(!hub.knows(&hidden));
    for path in [&hidden, &shown] {
        read(&hub, path);
    }
    assert!(hub.of_file(&hidden).is_none() && hub.knows(&hidden));
    // The session goes on in it alone.
    let file = std::fs::File::options().append(true).open(&hidden).unwrap();
    file.set_modified(SystemTime::now() + 2 * TOGETHER).unwrap();
    assert!(!hub.knows(&hidden));
    read(&hub, &hidden);
    assert_eq!(hub.find("one").unwrap().file.path, hidden);
    assert!(hub.of_file(&shown).is_none() && hub.knows(&shown));
}

#[test]
fn a_copy_stays_hidden_however_new_it_is() {
    let (hub, folder, _) = hub();
    let recordings = [("own", crate::ingest::PUSHED_AS), ("copy", crate::ingest::MARK)].map(|(name, mark)| {
        let recording = folder.join(name);
        let meta = tapline_recording::Meta::default();
        drop(tapline_recording::Recorder::create(&recording, &meta, tapline_recording::Sync::EverySecond).unwrap());
        std::fs::write(recording.join(mark), "{\"run\":\"r\"}").unwrap();
        let path = recording.join(tapline_recording::Stream::Stdout.file_name());
        std::fs::write(&path, LINE.replace("one", "two")).unwrap();
        SessionFile { path, recording: Some(recording) }
    });
    let follow = |file: &SessionFile| {
        let live = hub.follow(file.clone(), true).unwrap();
        while hub.advance(&live, locked(&live.follower)) {}
        live
    };
    let [own, copy] = &recordings;
    let original = follow(own);
    follow(copy);
    assert!(hub.of_file(&copy.path).is_none() && hub.knows(&copy.path));
    let file = std::fs::File::options().append(true).open(&copy.path).unwrap();
    file.set_modified(SystemTime::now() + 2 * TOGETHER).unwrap();
    assert!(hub.knows(&copy.path), "it is not looked at again and again");
    // Only it is left, once the other is not read any more. The readers of that one are told.
    let last = original.feed.newest();
    hub.forget(&original);
    assert!(!hub.knows(&copy.path));
    assert_eq!(original.feed.after(last), crate::feed::Taken::Over);
}

#[test]
fn a_session_that_breaks_the_reader_is_left_alone() {
    let (hub, _folder, [_, shown]) = hub();
    let live = hub.of_file(&shown).unwrap();
    assert_eq!(hub.attempt(&live, || 1), Some(1));
    assert_eq!(hub.attempt(&live, || panic!("a bug")), None::<()>);
    assert!(hub.live().is_empty() && hub.knows(&shown), "it is not read again and again");
    assert_eq!(hub.broken.load(Ordering::Relaxed), 1);
}

#[test]
fn who_comes_back_is_told_that_something_changed() {
    let (hub, _folder, [_, shown]) = hub();
    let live = hub.of_file(&shown).unwrap();
    let last = live.feed.newest();
    live.asked.store(0, Ordering::Relaxed);
    locked(&live.follower).is_current = true;
    let row = Row { title: "old".to_owned(), ..(*live.row()).clone() };
    locked(&live.told).row = Arc::new(row);
    hub.show(&live, &locked(&live.follower));
    assert!(matches!(live.feed.after(last), crate::feed::Taken::Missed(_)));
}

#[test]
fn a_file_that_is_no_session_is_not_shown_until_it_is_one() {
    let (hub, folder, _) = hub();
    let strays = [
        ("package.json", "{\"name\":\"x\",\"type\":\"module\"}\n"),
        ("log.jsonl", "{\"level\":\"info\",\"session_id\":\"s\"}\n"),
    ];
    for (name, text) in strays {
        let path = folder.join(name);
        std::fs::write(&path, text).unwrap();
        let live = read(&hub, &path);
        assert!(live.is_stray() && hub.find(&live.file.name()).is_none() && hub.find("s").is_none(), "{name}");
    }
    assert_eq!(hub.rows().iter().map(|row| row.id.clone()).collect::<Vec<_>>(), ["one"]);
    // One begins with lines that no agent writes, and goes on as a session.
    tapline_testkit::files::append(folder.join("log.jsonl"), LINE.replace("one", "two"));
    let live = hub.of_file(&folder.join("log.jsonl")).unwrap();
    while hub.advance(&live, locked(&live.follower)) {}
    assert!(!live.is_stray() && hub.rows().len() == 2);
}
