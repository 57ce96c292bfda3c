//! The fake agent, and whether anything of it is left.

use std::path::PathBuf;
use std::time::Duration;

use tapline_runner::Agent;

pub(crate) fn program() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fake-agent")
}

/// A Claude that does this.
pub(crate) fn fake(mode: &str) -> Agent {
    Agent::claude().bin(program()).prompt("go").env("FAKE", mode).env("FAKE_ID", unique()).grace(Duration::from_millis(300))
}

/// A word that no other test has.
pub(crate) fn unique() -> String {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("fake-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// The id that was given to an agent.
pub(crate) fn id_of(agent: &Agent) -> String {
    let id = agent.environment.set.iter().find(|(name, _)| name == "FAKE_ID").and_then(|(_, value)| value.clone());
    id.unwrap().into_string().unwrap()
}

/// The command lines of what is left of an agent, found by an id that the runner knows nothing of.
pub(crate) fn left_of(id: &str) -> Vec<String> {
    let wanted = format!("FAKE_ID={id}").into_bytes();
    let pids = std::fs::read_dir("/proc").unwrap().filter_map(|entry| entry.unwrap().file_name().to_str()?.parse::<u32>().ok());
    let ours = pids.filter(|pid| {
        let environ = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environ.split(|byte| *byte == 0).any(|entry| entry == wanted)
    });
    ours.map(|pid| String::from_utf8_lossy(&std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default()).into_owned())
        .collect()
}

/// Whoever takes longer hangs. No speed is tested by it: a busy machine may be slow.
pub(crate) const HANG: Duration = Duration::from_secs(120);

/// Waits until this is so; whether it ever was.
fn comes(mut is_so: impl FnMut() -> bool) -> bool {
    let until = std::time::Instant::now() + HANG;
    loop {
        // Before it is looked at: the machine may stand still in between.
        let late = std::time::Instant::now() > until;
        if is_so() {
            return true;
        }
        if late {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Waits until this is so.
pub(crate) fn wait_until(what: &str, is_so: impl FnMut() -> bool) {
    assert!(comes(is_so), "it never came to this: {what}");
}

/// Waits until nothing is left; whether that ever was so.
pub(crate) fn gone(id: &str) -> bool {
    comes(|| left_of(id).is_empty())
}

/// A folder of a test's own, gone afterwards.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        let path = std::env::temp_dir().join(format!("tapline-runner-{}", unique()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
