//! Ctrl-C in the middle of what the archive does: the next run is right, and nothing is left behind. And the line that says
//! how far the reading is. Needs strace (scripts/test installs it).

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tapline_testkit::files::files_below;
use tapline_testkit::rounds;

use crate::stats::{Home, answer};
use crate::tapline::{Ran, ran};

const CASES: &[&str] = &["claude-models", "codex-fork"];
/// What gives a file its name. Not every system has each.
const NAMES: &str = "?link,?linkat,?rename,?renameat,?renameat2";

/// Runs tapline under strace, which sends it a signal at one of its system calls. Returns whether it came through.
fn interrupted(home: &Home, args: &[&str], calls: &str, signal: &str, at: usize) -> bool {
    tapline_testkit::catch_ignored_signals();
    let mut command = Command::new("strace");
    command.args(["-f", "-qq", "-o", "/dev/null", "-e", &format!("trace={calls}")]);
    command.args(["-e", &format!("inject={calls}:signal={signal}:when={at}")]);
    command.arg(env!("CARGO_BIN_EXE_tapline")).args(args).env_clear().env("PATH", "/usr/bin:/bin");
    home.set(command).stdin(Stdio::null()).output().unwrap().status.success()
}

/// All files below a folder, with what is in them.
fn files(folder: &str) -> Vec<(PathBuf, Vec<u8>)> {
    files_below(folder).into_iter().map(|path| (path.clone(), std::fs::read(path).unwrap())).collect()
}

fn is_part(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == "part")
}

#[test]
fn interrupted_at_any_write_the_next_run_is_the_same() {
    let home = Home::new(CASES);
    let out = home.path("out");
    let export = ["export", "--to", "ndjson", "-o", &out, "--quiet"];
    let runs: &[(&[&str], &[&str])] = &[
        (&["stats", "--json", "--by", "session"], &["pwrite64"]),
        (&["search", "models", "--json"], &["pwrite64"]),
        (&["archive", "keep", "--quiet"], &["pwrite64", NAMES, "write"]),
        (&export, &["pwrite64", NAMES]),
    ];
    for (args, calls) in runs {
        let forget = || {
            let _ = std::fs::remove_dir_all(home.path("tapline"));
            let _ = std::fs::remove_dir_all(&out);
        };
        let results = || (files(&out), files(&home.path("tapline/archive/kept")));
        forget();
        let wanted = home.run(args);
        assert_eq!((wanted.code, wanted.err.as_str()), (0, ""), "{args:?}");
        let made = results();
        for calls in *calls {
            let mut stopped = 0;
            for at in (1..=9).chain((10..40).step_by(7)).step_by(rounds(3, 1)) {
                forget();
                stopped += usize::from(!interrupted(&home, args, calls, "SIGINT", at));
                let next = home.run(args);
                assert_eq!((next.code, &next.out), (0, &wanted.out), "{args:?}, interrupted at {calls} {at}: {}", next.err);
                assert_eq!(results(), made, "{args:?}, interrupted at {calls} {at}");
                let left: Vec<_> = files(&home.path("")).into_iter().filter(|(path, _)| is_part(path)).collect();
                assert!(left.is_empty(), "{args:?}, interrupted at {calls} {at}: {left:?}");
            }
            assert!(stopped > 0, "{args:?} at {calls}");
        }
    }
}

/// The tables of an export belong together.
#[test]
fn an_interrupted_export_leaves_all_old_tables_or_all_new_ones() {
    let home = Home::new(CASES);
    let out = home.path("out");
    let args = ["export", "--to", "ndjson", "-o", &out, "--quiet"];
    assert_eq!(home.run(&args).code, 0);
    let old = files(&out);
    home.write("home/.claude/projects/more/s.jsonl", &answer("m1", "s", "2026-11-16T10:00:00Z"));
    assert_eq!(home.run(&args).code, 0);
    let new = files(&out);
    assert!(old.len() == 4 && new.len() == 4 && old != new);
    let put_back = || old.iter().for_each(|(path, bytes)| std::fs::write(path, bytes).unwrap());
    for at in 1..=10 {
        put_back();
        interrupted(&home, &args, NAMES, "SIGINT", at);
        let left = files(&out);
        assert!(left == old || left == new, "interrupted at {at}: {:?}", left.iter().map(|(path, _)| path).collect::<Vec<_>>());
    }
    // Nothing can be done about SIGKILL, but each file is whole.
    for at in 1..=10 {
        put_back();
        interrupted(&home, &args, NAMES, "SIGKILL", at);
        for (path, bytes) in files(&out).into_iter().filter(|(path, _)| !is_part(path)) {
            assert!(old.contains(&(path.clone(), bytes.clone())) || new.contains(&(path.clone(), bytes)), "{}", path.display());
        }
        for (path, _) in files(&out).into_iter().filter(|(path, _)| is_part(path)) {
            std::fs::remove_file(path).unwrap();
        }
    }
}

/// On a terminal. Each call that opens or reads a file takes a quarter of a second here, so the second one is worth a line.
#[test]
fn long_work_shows_how_far_it_is_and_takes_the_line_away_again() {
    let home = Home::new(&[]);
    for number in 1..=4 {
        home.write(
            &format!("home/.claude/projects/p/s{number}.jsonl"),
            &answer(&format!("m{number}"), "s", "2026-11-16T10:00:00Z"),
        );
    }
    let shown = |args: &str| {
        let _ = std::fs::remove_dir_all(home.path("tapline"));
        let path = |number: u32| home.path(&format!("home/.claude/projects/p/s{number}.jsonl"));
        let paths = (1..=4).map(path).collect::<Vec<_>>().join(" -P ");
        let tapline = env!("CARGO_BIN_EXE_tapline");
        let traced = format!(
            "strace -f -qq -o /dev/null -P {paths} -e trace=openat,openat2,read,pread64 -e inject=openat,openat2,read,pread64:delay_exit=250000 {tapline} {args} > {}",
            home.path("out")
        );
        let mut script = Command::new("script");
        script
            .args(["-qefc", &traced, "/dev/null"])
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("TERM", "xterm")
            .env("SHELL", "/bin/sh");
        ran(home.set(script).stdin(Stdio::null()).output().unwrap())
    };
    let Ran { code, out, err } = shown("stats");
    assert_eq!(code, 0, "{out}{err}");
    assert!(out.contains("reading sessions … ") && out.contains(" % of "), "{out:?}");
    assert!(out.ends_with("\r\x1b[K"), "it is taken away: {out:?}");
    let counted = std::fs::read_to_string(home.path("out")).unwrap();
    assert!(counted.contains("total") && !counted.contains("reading"), "{counted}");
    let keep = shown("archive keep");
    assert!(keep.out.contains("reading sessions … "), "{:?}", keep.out);
    for args in ["stats --quiet", "stats --json"] {
        assert_eq!(shown(args).out, "", "{args}");
    }
}
