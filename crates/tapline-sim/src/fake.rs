//! A fake agent for tests: a program that any host can start, played by the test itself. A shell passes its streams through named
//! pipes, so that nothing needs to be installed.

use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tapline_recording::Recording;

use crate::error::SimError;
use crate::home::{remove, temporary};
use crate::replay::{HostEnds, Played, ReplayOptions, replay};

/// A program that plays a recording to whoever starts it, as often as it is started, until this is dropped.
///
/// ```no_run
/// use tapline_sim::{FakeAgent, ReplayOptions};
///
/// let agent = FakeAgent::replaying("tests/recordings/refactoring".as_ref(), ReplayOptions::default())?;
/// let output = std::process::Command::new(agent.program()).args(["-p", "…", "--output-format", "stream-json"]).output()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct FakeAgent {
    folder: PathBuf,
    program: PathBuf,
    stopped: Arc<AtomicBool>,
}

impl FakeAgent {
    /// A program that plays this recording.
    pub fn replaying(recording: &Path, options: ReplayOptions) -> Result<Self, SimError> {
        let recording = Recording::open(recording).map_err(|error| SimError::Recording(error.to_string()))?;
        let folder = temporary("tapline-fake").map_err(|(path, error)| SimError::Make { path, error })?;
        let program = folder.join(recording.meta.agent.as_deref().unwrap_or("claude"));
        let agent = Self { program, stopped: Arc::default(), folder };
        let calls = agent.folder.join("calls");
        let fail = |error| SimError::Make { path: agent.program.clone(), error };
        std::fs::write(&agent.program, script(&agent.folder)).map_err(fail)?;
        make_executable(&agent.program).map_err(fail)?;
        let made = Command::new("mkfifo").arg(&calls).status().map_err(fail)?;
        if !made.success() {
            return Err(fail(std::io::Error::other("mkfifo failed")));
        }
        // Open both ways, so that it never ends.
        let open = OpenOptions::new().read(true).write(true).open(&calls).map_err(fail)?;
        let stopped = Arc::clone(&agent.stopped);
        let named = std::thread::Builder::new().name("tapline-fake".to_owned());
        named.spawn(move || serve(open, &Arc::new(recording), &Arc::new(options), &stopped)).map_err(SimError::Thread)?;
        Ok(agent)
    }

    /// Its path, for a host to start.
    pub fn program(&self) -> &Path {
        &self.program
    }
}

impl Drop for FakeAgent {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::Release);
        let _ = OpenOptions::new().write(true).open(self.folder.join("calls")).and_then(|mut calls| calls.write_all(b"\n"));
        remove(&self.folder);
    }
}

fn serve(calls: File, recording: &Arc<Recording>, options: &Arc<ReplayOptions>, stopped: &AtomicBool) {
    for call in BufReader::new(calls).lines().map_while(Result::ok) {
        if stopped.load(Ordering::Acquire) {
            return;
        }
        let (recording, options) = (Arc::clone(recording), Arc::clone(options));
        let play = move || play(Path::new(&call), &recording, &options);
        // One that cannot be played ends with the test that waits for it.
        let _ = std::thread::Builder::new().name("tapline-fake".to_owned()).spawn(play);
    }
}

/// Plays to the host behind these pipes, and says how it ended.
fn play(call: &Path, recording: &Recording, options: &ReplayOptions) -> Option<()> {
    let write = |name: &str| OpenOptions::new().write(true).open(call.join(name)).ok();
    let stdin = File::open(call.join("in")).ok()?;
    let (stdout, stderr) = (write("out")?, write("err")?);
    let host = HostEnds { stdin: Some(Box::new(stdin)), stdout: Box::new(stdout), stderr: Box::new(stderr) };
    let ended = match replay(recording, options, host) {
        Ok(Played::Exit(code)) => format!("exit {code}\n"),
        Ok(Played::Signal(name)) => format!("kill {}\n", name.trim_start_matches("SIG")),
        Ok(Played::NoEnd) => "exit 4\n".to_owned(),
        Ok(Played::Departed(_)) => "exit 3\n".to_owned(),
        Ok(Played::Unread) => "exit 0\n".to_owned(),
        Err(_) => "exit 126\n".to_owned(),
    };
    write("end")?.write_all(ended.as_bytes()).ok()
}

fn script(folder: &Path) -> String {
    let folder = folder.display().to_string().replace('\'', r"'\''");
    format!(
        "#!/bin/sh\n# A fake agent of tapline-sim's: what it says comes from the test that made it.\n\
         call=$(mktemp -d '{folder}/call.XXXXXX') && cd \"$call\" && mkfifo in out err end || exit 126\n\
         exec 3<&0\n\
         cat <&3 >in & in=$!\n\
         cat out & out=$!\n\
         cat err >&2 & err=$!\n\
         trap 'kill $in $out $err 2>/dev/null; trap - TERM; kill -TERM $$' TERM\n\
         trap 'kill $in $out $err 2>/dev/null; trap - INT; kill -INT $$' INT\n\
         echo \"$call\" > ../calls || exit 126\n\
         wait $out $err\n\
         read how what < end\n\
         kill $in 2>/dev/null\n\
         if [ \"$how\" = kill ]; then kill -\"$what\" $$; fi\n\
         exit \"${{what:-126}}\"\n"
    )
}

#[cfg(unix)]
fn make_executable(path: &Path) -> std::io::Result<()> {
    std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o700))
}

#[cfg(not(unix))]
fn make_executable(_: &Path) -> std::io::Result<()> {
    Ok(())
}
