//! A fake agent for tests: a program that any host can start and that the test itself plays. A shell script passes its
//! streams through named pipes, so nothing needs to be installed.

use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tapline_protocol::Agent;
use tapline_recording::Recording;

use crate::error::SimError;
use crate::home::{remove, temporary};
use crate::replay::{HostEnds, Played, ReplayOptions, replay};

/// A program that plays a recording each time it is started, until this value is dropped.
///
/// ```no_run
/// use tapline_sim::{FakeAgent, ReplayOptions};
///
/// let agent = FakeAgent::replaying("tests/recordings/refactoring", ReplayOptions::default())?;
/// let output = std::process::Command::new(agent.program()).args(["-p", "…", "--output-format", "stream-json"]).output()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use = "the program is removed when it is dropped"]
pub struct FakeAgent {
    folder: PathBuf,
    program: PathBuf,
    stopped: Arc<AtomicBool>,
    played: Arc<Mutex<Vec<Played>>>,
}

impl FakeAgent {
    /// Creates a program that plays this recording.
    pub fn replaying(recording: impl AsRef<Path>, mut options: ReplayOptions) -> Result<Self, SimError> {
        let recording = Recording::open(recording.as_ref())?;
        let folder = temporary("tapline-fake").map_err(|(path, error)| SimError::Make { path, error })?;
        // The agent in a recording's metadata may be any text.
        let name = recording.meta.agent.as_deref().and_then(Agent::named).unwrap_or_default().name();
        let program = folder.join(name);
        // Each agent is released when it is dropped, and only that one.
        options.released = Arc::default();
        let agent = Self { program, stopped: Arc::clone(&options.released), played: Arc::default(), folder };
        let calls = agent.folder.join("calls");
        let fail = |error| SimError::Make { path: agent.program.clone(), error };
        std::fs::write(&agent.program, script(&agent.folder)).map_err(fail)?;
        make_executable(&agent.program).map_err(fail)?;
        let made = Command::new("mkfifo").arg(&calls).status().map_err(fail)?;
        if !made.success() {
            return Err(fail(std::io::Error::other("mkfifo failed")));
        }
        // Opened for reading and writing, so that it never ends.
        let open = OpenOptions::new().read(true).write(true).open(&calls).map_err(fail)?;
        let shared = Shared { recording, options, played: Arc::clone(&agent.played) };
        let named = std::thread::Builder::new().name("tapline-fake".to_owned());
        named.spawn(move || serve(open, &Arc::new(shared))).map_err(SimError::Thread)?;
        Ok(agent)
    }

    /// Returns how each replay so far ended.
    pub fn played(&self) -> Vec<Played> {
        self.played.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the path of the program, for a host to start.
    pub fn program(&self) -> &Path {
        &self.program
    }
}

impl Drop for FakeAgent {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::Release);
        let _ = OpenOptions::new()
            .read(true)
            .write(true)
            .open(self.folder.join("calls"))
            .and_then(|mut calls| calls.write_all(b"\n"));
        remove(&self.folder);
    }
}

/// What every call of the program shares.
struct Shared {
    recording: Recording,
    options: ReplayOptions,
    played: Arc<Mutex<Vec<Played>>>,
}

fn serve(calls: File, shared: &Arc<Shared>) {
    for call in BufReader::new(calls).lines().map_while(Result::ok) {
        if shared.options.released.load(Ordering::Acquire) {
            return;
        }
        let shared = Arc::clone(shared);
        // If it cannot be played, it ends with the test that waits for it.
        let _ = std::thread::Builder::new().name("tapline-fake".to_owned()).spawn(move || play(Path::new(&call), &shared));
    }
}

/// Plays to the host behind these pipes, and writes down how it ended.
fn play(call: &Path, shared: &Shared) -> Option<()> {
    let write = |name: &str| OpenOptions::new().write(true).open(call.join(name)).ok();
    let stdin = File::open(call.join("in")).ok()?;
    let (stdout, mut stderr) = (write("out")?, write("err")?);
    let host = HostEnds { stdin: Some(Box::new(stdin)), stdout: Box::new(stdout), stderr: Box::new(stderr.try_clone().ok()?) };
    let played = replay(&shared.recording, &shared.options, host);
    let ended = match &played {
        Ok(Played::Exit(code)) => format!("exit {code}\n"),
        Ok(Played::Signal(name)) => format!("kill {}\n", name.trim_start_matches("SIG")),
        Ok(Played::NoEnd) => "exit 4\n".to_owned(),
        Ok(Played::Departed(why)) => {
            let _ = writeln!(stderr, "the host does not follow the recording: {why}");
            "exit 3\n".to_owned()
        }
        Ok(Played::Unread) => "exit 0\n".to_owned(),
        Err(error) => {
            let _ = writeln!(stderr, "the recording cannot be played: {error}");
            "exit 126\n".to_owned()
        }
    };
    drop(stderr);
    shared.played.lock().unwrap_or_else(PoisonError::into_inner).extend(played.ok());
    write("end")?.write_all(ended.as_bytes()).ok()
}

fn script(folder: &Path) -> String {
    let folder = folder.display().to_string().replace('\'', r"'\''");
    format!(
        "#!/bin/sh\n# A fake agent of tapline-sim's: what it says comes from the test that made it.\n\
         # What it can do may be asked before: what the newest can.\n\
         [ \"$*\" = --help ] && {{ echo '  --include-hook-events'; exit; }}\n\
         call=$(mktemp -d '{folder}/call.XXXXXX') && cd \"$call\" && mkfifo in out err end || exit 126\n\
         exec 3<&0\n\
         cat <&3 >in & in=$!\n\
         cat out & out=$!\n\
         cat err >&2 & err=$!\n\
         # Whatever ends this shell, nobody stays to hold the host's pipes.\n\
         (while kill -0 $$; do sleep 0.1; done; kill $in $out $err) <&- >/dev/null 2>&1 3<&- &\n\
         echo \"$call\" > ../calls || exit 126\n\
         wait $out $err\n\
         read how what < end\n\
         kill $in 2>/dev/null\n\
         if [ \"$how\" = kill ]; then kill -\"$what\" $$; fi\n\
         exit \"${{what:-126}}\"\n"
    )
}

fn make_executable(path: &Path) -> std::io::Result<()> {
    std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o700))
}
