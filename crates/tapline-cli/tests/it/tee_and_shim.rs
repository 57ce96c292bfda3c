//! `tapline tee` and `tapline shim`: whoever stands between must not be noticed, and keeps everything.

use std::io::{Read as _, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use tapline_testkit::{TempFolder, TestProcess, wait_until};

use crate::tapline::{command, ran};

/// An agent that is this shell script.
fn tee(program: &str, recording: &str) -> Command {
    let mut command = command(&["tee", "--bin", program, "--record", recording, "--"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Bytes of every kind.
fn noise(size: usize) -> Vec<u8> {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    std::iter::repeat_with(next).flatten().take(size).collect()
}

#[test]
fn both_directions_are_untouched_and_kept() {
    let folder = TempFolder::new();
    let program = folder.script("agent", "echo beside >&2; exec cat");
    let recording = folder.path("r");
    let mut child = TestProcess::from(tee(&program, &recording).spawn().unwrap());
    let sent = noise(8 << 20);
    let mut stdin = child.stdin.take().unwrap();
    let writer = {
        let sent = sent.clone();
        std::thread::spawn(move || stdin.write_all(&sent).unwrap())
    };
    let (mut got, mut beside) = (Vec::new(), String::new());
    child.stdout.take().unwrap().read_to_end(&mut got).unwrap();
    child.stderr.take().unwrap().read_to_string(&mut beside).unwrap();
    writer.join().unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert!(got == sent, "{} of {} bytes came back", got.len(), sent.len());
    assert_eq!(beside, "beside\n");
    let kept = |name: &str| std::fs::read(format!("{recording}/{name}")).unwrap();
    assert!(kept("stdin") == sent && kept("stdout") == sent && kept("stderr") == b"beside\n");
    let recording = tapline_recording::Recording::open(Path::new(&recording)).unwrap();
    assert_eq!(recording.flaws(), Vec::<String>::new());
    assert_eq!(recording.end.unwrap().exit_code, Some(0));
}

#[test]
fn a_question_and_its_answer_pass_at_once() {
    let folder = TempFolder::new();
    let program = folder.script("agent", "while read line; do echo \"got $line\"; done");
    let mut child = TestProcess::from(tee(&program, &folder.path("r")).spawn().unwrap());
    let (mut stdin, mut stdout) = (child.stdin.take().unwrap(), std::io::BufReader::new(child.stdout.take().unwrap()));
    for round in 0..20 {
        stdin.write_all(format!("{round}\n").as_bytes()).unwrap();
        let mut line = String::new();
        std::io::BufRead::read_line(&mut stdout, &mut line).unwrap();
        assert_eq!(line, format!("got {round}\n"));
    }
    drop(stdin);
    assert!(child.wait().unwrap().success());
    // What followed from what stands in that order, and the host's end was closed last.
    let times = std::fs::read_to_string(folder.path("r/times")).unwrap();
    let order: String = times.lines().filter_map(|line| line.chars().next()).collect();
    assert_eq!(order, "io".repeat(20) + "i");
}

#[test]
fn it_ends_as_the_agent_ends() {
    let folder = TempFolder::new();
    for code in [0, 1, 7, 255] {
        let program = folder.script("agent", &format!("exit {code}"));
        let status = tee(&program, &folder.path(&format!("c{code}"))).status().unwrap();
        assert_eq!(status.code(), Some(code));
    }
    for (name, number) in [("TERM", 15), ("KILL", 9), ("INT", 2), ("SEGV", 11)] {
        let program = folder.script("agent", &format!("kill -{name} $$"));
        let recording = folder.path(name);
        let status = tee(&program, &recording).status().unwrap();
        assert_eq!(status.signal(), Some(number), "{name}");
        let end = tapline_recording::Recording::open(Path::new(&recording)).unwrap().end.unwrap();
        assert_eq!(end.signal, Some(format!("SIG{name}")));
    }
    let lost = tee(&folder.path("nowhere"), &folder.path("x")).output().unwrap();
    assert_eq!(lost.status.code(), Some(127));
    assert!(!Path::new(&folder.path("x")).exists(), "what never began leaves no recording");
}

#[test]
fn signals_are_passed_on() {
    let folder = TempFolder::new();
    for (name, code) in [("INT", 42), ("TERM", 43), ("HUP", 44)] {
        let program = folder.script("agent", &format!("trap 'exit {code}' {name}; echo ready; while :; do sleep 0.02; done"));
        let mut child = TestProcess::from(tee(&program, &folder.path(name)).spawn().unwrap());
        let mut ready = [0; 6];
        child.stdout.as_mut().unwrap().read_exact(&mut ready).unwrap();
        child.signal(name);
        assert_eq!(child.wait().unwrap().code(), Some(code), "{name}");
    }
}

#[test]
fn killed_it_takes_the_agent_along() {
    let folder = TempFolder::new();
    let program = folder.script("agent", "echo $$; exec sleep 1000");
    let mut child = TestProcess::from(tee(&program, &folder.path("r")).spawn().unwrap());
    let mut line = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(child.stdout.as_mut().unwrap()), &mut line).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    let lives = || std::fs::read_to_string(format!("/proc/{}/stat", line.trim())).is_ok_and(|stat| !stat.contains(") Z"));
    wait_until("the agent has ended", || !lives());
}

#[test]
fn whoever_leaves_is_found_gone() {
    let folder = TempFolder::new();
    // The host closes its reading end: the agent is told by the system, as it would be without us.
    let program = folder.script("agent", "trap '' PIPE; while echo x 2>/dev/null; do sleep 0.01; done; exit 9");
    let mut child = TestProcess::from(tee(&program, &folder.path("out")).spawn().unwrap());
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(9));
    // The agent closes its output and lives on: the host finds its end.
    let program = folder.script("agent", "echo bye; exec >&-; exec 2>&-; exec sleep 1000");
    let mut child = TestProcess::from(tee(&program, &folder.path("eof")).spawn().unwrap());
    let mut all = String::new();
    child.stdout.take().unwrap().read_to_string(&mut all).unwrap();
    assert_eq!((all.as_str(), child.try_wait().unwrap()), ("bye\n", None));
    // The agent has ended and left its output to somebody who never stops: the host is not kept waiting.
    let program = folder.script("agent", "(while :; do echo x; sleep 0.02; done) & exit 5");
    let mut child = TestProcess::from(tee(&program, &folder.path("left")).spawn().unwrap());
    let mut stdout = child.stdout.take().unwrap();
    std::thread::spawn(move || stdout.read_to_end(&mut Vec::new()));
    assert_eq!(child.wait().unwrap().code(), Some(5));
    // The host does not read, and the agent has ended: a signal ends us.
    let program = folder.script("agent", "head -c 200000 /dev/zero & exit 5");
    let mut child = TestProcess::from(tee(&program, &folder.path("stuck")).spawn().unwrap());
    wait_until("a signal has ended it", || {
        child.signal("TERM");
        child.try_wait().unwrap().is_some()
    });
}

#[test]
fn a_full_disk_stops_nothing() {
    let folder = TempFolder::new();
    let program = folder.script("agent", "head -c 3000000 /dev/zero; cat >/dev/null; exit 4");
    let mount = folder.path("disk");
    std::fs::create_dir(&mount).unwrap();
    let script = format!(
        "mount -t tmpfs -o size=128k none {mount} && {} tee --bin {program} --record {mount}/r -- ; code=$?; cat {mount}/r/end.json >&2; exit $code",
        env!("CARGO_BIN_EXE_tapline")
    );
    let output = Command::new("unshare")
        .args(["-rm", "sh", "-c", &script])
        .env_clear()
        .env("PATH", "/usr/bin:/bin:/usr/sbin:/sbin")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let err = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(4), 3_000_000), "{err}");
    assert!(err.contains("tapline: the recording's stdout is incomplete from byte") && err.contains("\"lost\":[{"), "{err}");
}

#[test]
fn a_stand_in_never_finds_itself() {
    let folder = TempFolder::new();
    let real = folder.path("real");
    std::fs::create_dir(&real).unwrap();
    folder.script("real/claude", "echo \"the real one: $*\"");
    let shims = ["one", "two"].map(|name| folder.path(name));
    for shim in &shims {
        let made = ran(command(&["shim", shim]).output().unwrap());
        assert_eq!((made.code, made.out.trim_end()), (0, format!("{shim}/claude").as_str()), "{}", made.err);
    }
    // A copy of tapline by that name, a hard link to it, and a wrapper of somebody's.
    for name in ["copy", "hard", "wrapper", "plain"] {
        std::fs::create_dir(folder.path(name)).unwrap();
    }
    std::fs::copy(env!("CARGO_BIN_EXE_tapline"), folder.path("copy/claude")).unwrap();
    std::fs::hard_link(folder.path("copy/claude"), folder.path("hard/claude")).unwrap();
    folder.script("wrapper/claude", &format!("exec {} tee -- \"$@\"", env!("CARGO_BIN_EXE_tapline")));
    folder.script("plain/claude", &format!("{} tee -- \"$@\"\nexit $?", env!("CARGO_BIN_EXE_tapline")));
    let path =
        ["one", "two", "copy", "hard", "wrapper", "plain", "real"].map(|name| folder.path(name)).join(":") + ":/usr/bin:/bin";
    for started in ["one", "copy", "hard", "wrapper", "plain"] {
        for bin in [None, Some(folder.path("one/claude"))] {
            let mut claude = Command::new(folder.path(&format!("{started}/claude")));
            claude
                .args(["-p", "hello"])
                .env_clear()
                .env("PATH", &path)
                .env("TAPLINE_HOME", folder.path("home"))
                .stdin(Stdio::null());
            claude.envs(bin.map(|bin| ("TAPLINE_CLAUDE_BIN", bin)));
            let output = claude.output().unwrap();
            assert_eq!(
                String::from_utf8_lossy(&output.stdout),
                "the real one: -p hello\n",
                "{started}: {}",
                String::from_utf8_lossy(&output.stderr)
            );
        }
    }
    // Nor where it only hands on, without a recording.
    for started in ["wrapper", "plain", "copy"] {
        let mut claude = Command::new(folder.path(&format!("{started}/claude")));
        claude.arg("--version").env_clear().env("PATH", &path).env("TAPLINE_HOME", folder.path("home")).stdin(Stdio::null());
        assert_eq!(String::from_utf8_lossy(&claude.output().unwrap().stdout), "the real one: --version\n", "{started}");
    }
    let recordings = std::fs::read_dir(folder.path("home/recordings")).unwrap().count();
    assert!(recordings >= 8, "{recordings} recordings");
    // With no real one, it is said, not searched for ever.
    let alone = Command::new(folder.path("one/claude"))
        .env_clear()
        .env("PATH", folder.path("one"))
        .env("TAPLINE_HOME", folder.path("home"))
        .output()
        .unwrap();
    assert_eq!(alone.status.code(), Some(127));
    // Only what tapline made is written over.
    let refused = ran(command(&["shim", &real]).output().unwrap());
    assert!(refused.code == 2 && refused.err.contains("was not created by tapline"), "{}", refused.err);
}

#[test]
fn a_named_stand_in_is_started_or_refused_and_never_replaced_by_the_agent_on_path() {
    let folder = TempFolder::new();
    std::fs::create_dir(folder.path("real")).unwrap();
    let real = folder.script("real/claude", "echo the real one");
    let recorded = folder.script("recorded", "echo what was recorded");
    assert!(tee(&recorded, &folder.path("r")).output().unwrap().status.success());
    let shim = |args: &[&str]| {
        let args: Vec<&str> = ["shim"].iter().chain(args).copied().collect();
        ran(command(&args).output().unwrap())
    };
    let fake =
        shim(&[&folder.path("fake"), "--replay", &folder.path("r"), "--", "--speed", "instant"]).out.trim_end().to_owned();
    let pinned = shim(&[&folder.path("pinned"), "--bin", &fake]).out.trim_end().to_owned();
    let searching = [&[][..], &["--record-in", &folder.path("in")]].map(|more: &[&str]| {
        let name = folder.path(&format!("searching{}", more.len()));
        shim(&[&[name.as_str()][..], more].concat()).out.trim_end().to_owned()
    });
    let path = |first: &str| format!("{first}:{}:/usr/bin:/bin", folder.path("real"));
    let play = |program: &str, args: &[&str], bin: Option<&str>, first: &str| {
        let mut started = Command::new(program);
        started.args(args).env_clear().env("PATH", path(first)).env("TAPLINE_HOME", folder.path("home")).stdin(Stdio::null());
        started.envs(bin.map(|bin| ("TAPLINE_CLAUDE_BIN", bin)));
        ran(started.output().unwrap())
    };
    let own = env!("CARGO_BIN_EXE_tapline");
    let here = folder.path("real");
    let by_flag = |bin| play(own, &["tee", "--bin", bin, "--", "-p", "hi"], None, &here);
    for (how, started) in [
        ("--bin", by_flag(&fake)),
        ("--bin, one that names it", by_flag(&pinned)),
        ("the variable", play(own, &["tee", "--", "-p", "hi"], Some(&fake), &here)),
        ("PATH", play(own, &["tee", "--", "-p", "hi"], None, &folder.path("fake"))),
        ("shim --bin", play(&pinned, &["-p", "hi"], None, &here)),
        ("a stand-in that searches", play(&searching[0], &["-p", "hi"], Some(&pinned), &here)),
    ] {
        assert_eq!((started.code, started.out.as_str()), (0, "what was recorded\n"), "{how}: {}", started.err);
    }
    for bin in &searching {
        let refused = by_flag(bin);
        assert_eq!((refused.code, refused.out.as_str()), (2, ""), "{bin}: {}", refused.err);
        assert!(refused.err.contains(bin.as_str()) && refused.err.contains("not the agent"), "{}", refused.err);
        let refused = shim(&[&folder.path("made"), "--bin", bin]);
        assert!(refused.code == 2 && refused.err.contains("not the agent"), "{}", refused.err);
    }
    let itself = shim(&[&folder.path("pinned"), "--bin", &pinned]);
    assert!(itself.code == 2 && itself.err.contains("not the agent"), "{}", itself.err);
    // A wrapper that leads back is found when it does.
    let circle = folder.script("circle", &format!("exec {own} tee --bin {} -- \"$@\"", folder.path("circle")));
    let refused = play(&circle, &["-p", "hi"], None, &here);
    assert!(refused.code == 2 && refused.out.is_empty() && refused.err.contains("not the agent"), "{}", refused.err);
    assert_eq!(by_flag(&real).out, "the real one\n");
}

/// Needs strace (scripts/test installs it).
#[test]
fn a_slow_reader_of_the_agents_output_loses_nothing() {
    let folder = TempFolder::new();
    let program = folder.script("agent", "read line; head -c 50000 /dev/zero; exit 6");
    let recording = folder.path("r");
    let mut child = TestProcess::from(tee(&program, &recording).spawn().unwrap());
    let tasks = format!("/proc/{}/task", child.id());
    let mut thread = String::new();
    wait_until("the agent's output is read", || {
        let found = std::fs::read_dir(&tasks).unwrap().filter_map(|task| Some(task.ok()?.file_name().into_string().unwrap()));
        let is_reader = |task: &String| {
            std::fs::read_to_string(format!("{tasks}/{task}/comm")).is_ok_and(|name| name == "tapline-stdout\n")
        };
        thread = { found }.find(is_reader).unwrap_or_default();
        !thread.is_empty()
    });
    // The thread gets to run a second too late, as on a machine that has too much to do. By then the agent has ended.
    let mut slow = Command::new("strace");
    slow.args(["-qq", "-o", "/dev/null", "-p", &thread, "-e", "trace=read,poll,ppoll"]);
    slow.args(["-e", "inject=read,poll,ppoll:delay_exit=1000000"]);
    let _slow = TestProcess::from(slow.spawn().expect("strace is here: scripts/test installs it"));
    let status = format!("{tasks}/{thread}/status");
    wait_until("strace holds it", || !std::fs::read_to_string(&status).unwrap().contains("TracerPid:\t0\n"));
    child.stdin.as_mut().unwrap().write_all(b"go\n").unwrap();
    let mut got = Vec::new();
    child.stdout.take().unwrap().read_to_end(&mut got).unwrap();
    assert_eq!((child.wait().unwrap().code(), got.len()), (Some(6), 50_000));
    assert_eq!(std::fs::read(format!("{recording}/stdout")).unwrap().len(), 50_000);
}
