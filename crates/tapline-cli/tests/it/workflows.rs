//! The GitHub action: its steps with agents that play a part. And what every workflow of the project keeps to.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use tapline_testkit::{TempFolder, root};

use crate::tapline::{Ran, ran};

/// A job's folder.
struct Job {
    folder: TempFolder,
}

impl Job {
    fn new() -> Self {
        let job = Self { folder: TempFolder::new() };
        std::fs::create_dir_all(job.folder.path("bin")).unwrap();
        job
    }

    /// An agent that says this.
    fn agent(&self, script: &str) {
        self.folder.script("bin/claude", &format!("cat >/dev/null\n{script}"));
    }

    /// One step of the action, with these inputs.
    fn step(&self, step: &str, inputs: &[(&str, &str)]) -> Ran {
        let tapline = Path::new(env!("CARGO_BIN_EXE_tapline")).parent().unwrap().to_str().unwrap();
        let mut command = Command::new(root().join("scripts/action"));
        command.arg(step).current_dir(self.folder.path("")).stdin(Stdio::null()).env_clear();
        command.env("PATH", format!("{}:{tapline}:/usr/bin:/bin", self.folder.path("bin")));
        command.env("GITHUB_ACTIONS", "true").env("CI", "true").env("HOME", self.folder.path("home"));
        for (name, file) in [("RUNNER_TEMP", ""), ("GITHUB_OUTPUT", "output"), ("GITHUB_PATH", "path")] {
            command.env(name, self.folder.path(file).trim_end_matches('/'));
        }
        ran(command.envs(inputs.iter().copied()).output().unwrap())
    }

    /// What the steps have put out, as the runner reads it.
    fn outputs(&self) -> BTreeMap<String, String> {
        let text = std::fs::read_to_string(self.folder.path("output")).unwrap();
        let (mut outputs, mut lines) = (BTreeMap::new(), text.lines());
        while let Some(line) = lines.next() {
            let (name, end) = line.split_once("<<").unwrap();
            let value: Vec<&str> = lines.by_ref().take_while(|line| *line != end).collect();
            assert_eq!(outputs.insert(name.to_owned(), value.join("\n")), None, "{name} is put out once");
        }
        outputs
    }
}

fn result(text: &str) -> String {
    let text = text.replace('\n', "\\n");
    format!(
        r#"{{"type":"result","subtype":"success","is_error":false,"result":"{text}","session_id":"s","total_cost_usd":0.5,"num_turns":1}}"#
    )
}

#[test]
fn the_action_runs_an_agent_and_puts_out_what_became_of_it() {
    let job = Job::new();
    // Whatever the agent says is its answer, and nothing else.
    let answer = "first\nverdict=failure\nEOF\n::error::last";
    job.agent(&format!("cat <<'STREAM'\n{}\nSTREAM", result(answer)));
    let prompt = "\"; touch owned; `touch owned` $(touch owned) ${{ github.token }}\n--help";
    let inputs = [("TAPLINE_PROMPT", prompt), ("TAPLINE_AGENT", "claude"), ("TAPLINE_ARGUMENTS", "--label\ntwo  words\n\n")];
    let ran = job.step("run", &inputs);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.out.contains("::group::two  words\n"), "{}", ran.out);

    let mut outputs = job.outputs();
    let recording = outputs.remove("recording").unwrap();
    assert_eq!(std::fs::read_to_string(Path::new(&recording).join("stdin")).unwrap().trim_end_matches('\n'), prompt);
    assert!(!Path::new(&job.folder.path("owned")).exists());
    let expected = [("answer", answer), ("cost", "0.5"), ("exit-code", "0"), ("session", "s"), ("verdict", "success")];
    assert_eq!(outputs, expected.map(|(name, value)| (name.to_owned(), value.to_owned())).into());
}

#[test]
fn the_action_fails_where_the_run_fails() {
    let job = Job::new();
    job.agent("echo broken >&2; exit 3");
    let ran = job.step("run", &[("TAPLINE_PROMPT", "x")]);
    let outputs = job.outputs();
    assert_eq!((ran.code.to_string(), outputs["verdict"].as_str()), (outputs["exit-code"].clone(), "failure"), "{}", ran.err);
    assert_eq!((ran.code, outputs["answer"].as_str()), (1, ""));
    assert!(ran.err.contains("::error"), "{}", ran.err);
}

#[test]
fn the_action_fails_where_there_is_no_agent() {
    let job = Job::new();
    let ran = job.step("run", &[("TAPLINE_PROMPT", "x"), ("TAPLINE_AGENT", "codex")]);
    let outputs = job.outputs();
    assert_eq!((ran.code, outputs["verdict"].as_str(), outputs["exit-code"].as_str()), (127, "failure", "127"), "{}", ran.err);
}

#[test]
fn the_last_attempt_is_what_the_action_puts_out() {
    let job = Job::new();
    job.agent(&format!("if [ -e tried ]; then cat <<'STREAM'\n{}\nSTREAM\nelse : >tried; fi", result("at last")));
    let ran = job.step("run", &[("TAPLINE_PROMPT", "x"), ("TAPLINE_ARGUMENTS", "--retry\n1")]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let outputs = job.outputs();
    assert!(outputs["recording"].ends_with("recording-2"), "{outputs:?}");
    assert_eq!(outputs["answer"], "at last");
}

#[test]
fn a_warning_that_the_job_names_fails_it() {
    let job = Job::new();
    let denied = result("done")
        .replace(r#""num_turns""#, r#""permission_denials":[{"tool_name":"Bash","tool_use_id":"t"}],"num_turns""#);
    job.agent(&format!("cat <<'STREAM'\n{denied}\nSTREAM"));
    assert_eq!(job.step("run", &[("TAPLINE_PROMPT", "x"), ("TAPLINE_FAIL_ON", "denied")]).code, 1);
    assert_eq!(job.outputs()["verdict"], "success");
}

/// Makes a release as `scripts/release` does, with a program that says its name.
fn release(job: &Job) -> String {
    let script = r#"
        set -e
        case "$(uname -s) $(uname -m)" in
            'Linux x86_64') target=x86_64-unknown-linux-musl ;; Linux*) target=aarch64-unknown-linux-musl ;;
            'Darwin x86_64') target=x86_64-apple-darwin ;; *) target=aarch64-apple-darwin ;;
        esac
        mkdir -p files/tapline-$target releases/latest/download releases/download/v1.2.3
        printf '#!/bin/sh\necho tapline of the release\n' >files/tapline-$target/tapline
        chmod +x files/tapline-$target/tapline
        for folder in releases/latest/download releases/download/v1.2.3; do
            tar -czf $folder/tapline-$target.tar.gz -C files tapline-$target
            (cd $folder && { sha256sum tapline-$target.tar.gz || shasum -a 256 tapline-$target.tar.gz; } >tapline-$target.tar.gz.sha256)
        done
    "#;
    let made = Command::new("sh").args(["-c", script]).current_dir(job.folder.path("")).status().unwrap();
    assert!(made.success());
    format!("file://{}", job.folder.path("releases"))
}

#[test]
fn the_action_installs_a_release_whose_checksum_is_right() {
    let job = Job::new();
    let releases = release(&job);
    for version in ["latest", "v1.2.3"] {
        let ran = job.step("install", &[("TAPLINE_RELEASES", &releases), ("TAPLINE_VERSION", version)]);
        assert_eq!(ran.code, 0, "{version}: {}{}", ran.out, ran.err);
        assert!(ran.out.ends_with("tapline of the release\n"), "{}", ran.out);
    }
    let path = std::fs::read_to_string(job.folder.path("path")).unwrap();
    assert_eq!(path.lines().next(), Some(job.folder.path("tapline-bin").as_str()));
}

#[test]
fn the_action_installs_nothing_whose_checksum_is_wrong() {
    let job = Job::new();
    let releases = release(&job);
    let folder = job.folder.path("releases/download/v1.2.3");
    let archive = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
    let archive = archive.into_iter().find(|path| path.extension().is_some_and(|end| end == "gz")).unwrap();
    let mut bytes = std::fs::read(&archive).unwrap();
    bytes.push(0);
    std::fs::write(&archive, bytes).unwrap();
    let ran = job.step("install", &[("TAPLINE_RELEASES", &releases), ("TAPLINE_VERSION", "v1.2.3")]);
    assert_eq!(ran.code, 1);
    assert!(ran.out.contains("::error title=tapline::the checksum of"), "{}", ran.out);
    assert!(!Path::new(&job.folder.path("tapline-bin/tapline")).exists() && !Path::new(&job.folder.path("path")).exists());
    for version in ["v9.9.9", "1.2.3; rm -rf x", "", "v1\n::add-mask::x", "v1/../../x", "\r\n::add-mask::x"] {
        let releases = format!("{releases}/none");
        let ran = job.step("install", &[("TAPLINE_RELEASES", &releases), ("TAPLINE_VERSION", version)]);
        assert_eq!((ran.code, ran.out.contains("::error")), (1, true), "{version}");
        assert!(!ran.out.lines().any(|line| line.starts_with("::add-mask")), "{version}: {}", ran.out);
    }
}

/// The files that GitHub runs, each with its lines.
fn workflows() -> Vec<(String, String)> {
    let folder = std::fs::read_dir(root().join(".github/workflows")).unwrap().map(|entry| entry.unwrap().path());
    let all = folder.chain([root().join("action.yml")]);
    all.map(|path| (path.display().to_string(), std::fs::read_to_string(path).unwrap())).collect()
}

/// The script that a step calls, if that is all it does.
fn script_of(run: &str) -> Option<&str> {
    let run = run.trim_matches('\'');
    let call = run.strip_prefix("\"$GITHUB_ACTION_PATH/scripts/").or_else(|| run.strip_prefix("scripts/"))?;
    let is_plain = !call.contains([';', '|', '&', '<', '>', '`', '(', '\\']);
    call.split([' ', '"']).next().filter(|script| is_plain && !script.is_empty())
}

/// Whether an action is pinned to a commit, with its version beside it. A tag can be moved.
fn is_pinned(action: &str) -> bool {
    let parts = action.split_once('@').and_then(|(_, version)| version.split_once(" # v"));
    parts.is_some_and(|(commit, version)| {
        commit.len() == 40
            && commit.bytes().all(|byte| byte.is_ascii_hexdigit())
            && version.starts_with(|first: char| first.is_ascii_digit())
    })
}

#[test]
fn what_a_workflow_may_do_is_not_evaded() {
    assert_eq!(script_of("scripts/test unit"), Some("test"));
    assert_eq!(script_of("scripts/test \"$PART\""), Some("test"));
    for evaded in
        ["curl x | sh; scripts/test", "scripts/test && curl x", "scripts/test `curl x`", "scripts/test $(x)", "scripts/"]
    {
        assert_eq!(script_of(evaded), None, "{evaded}");
    }
    assert!(is_pinned(&format!("actions/checkout@{} # v5.0.0", "0".repeat(40))));
    for movable in ["actions/checkout@v", "actions/checkout@v5", "actions/checkout@main"] {
        assert!(!is_pinned(movable), "{movable}");
    }
}

#[test]
fn a_release_is_published_only_if_all_checks_passed() {
    let (_, text) = workflows().into_iter().find(|(name, _)| name.ends_with("release.yml")).unwrap();
    for job in ["checks", "audit"] {
        assert!(text.contains(&format!("\n  {job}:\n    uses: ./.github/workflows/{job}.yml\n")), "{job}");
    }
    assert!(text.contains("\n    needs: [rest, package, checks, audit]\n"), "{text}");
}

#[test]
fn workflows_call_scripts_that_are_there_and_put_no_input_into_shell() {
    let mut called = 0;
    for (name, text) in workflows() {
        assert!(!text.contains("run: |"), "{name}: a step calls a script");
        for line in text.lines() {
            let line = line.trim_start().trim_start_matches("- ");
            if let Some(run) = line.strip_prefix("run: ") {
                assert!(!run.contains("${{"), "{name}: an expression would be read as shell: {line}");
                let script =
                    script_of(run).unwrap_or_else(|| panic!("{name}: a step calls a script, and nothing else: {line}"));
                let mode = std::fs::metadata(root().join("scripts").join(script)).unwrap().permissions().mode();
                assert_eq!(mode & 0o111, 0o111, "{script} can be run");
                called += 1;
            } else if let Some(action) = line.strip_prefix("uses: ").filter(|action| !action.starts_with("./")) {
                assert!(is_pinned(action), "{name}: {action} is not pinned");
            }
        }
    }
    assert!(called > 10, "{called}");
}

#[test]
fn every_part_of_the_checks_runs_on_linux() {
    let script = std::fs::read_to_string(root().join("scripts/test")).unwrap();
    let parts = script.lines().find_map(|line| line.trim().strip_prefix("all | ")?.strip_suffix(") ;;")).unwrap();
    let (_, checks) = workflows().into_iter().find(|(name, _)| name.ends_with("checks.yml")).unwrap();
    let matrix = checks.lines().find_map(|line| line.trim().strip_prefix("part: [")?.strip_suffix(']')).unwrap();
    // `quick` is a part of others; the acceptance cases stand beside the checkout, not in it.
    let elsewhere = ["quick", "accept"];
    let parts: Vec<_> = parts.split(" | ").filter(|part| !elsewhere.contains(part)).collect();
    assert_eq!(matrix.split(", ").collect::<Vec<_>>(), parts);
}

#[test]
fn what_macos_skips_is_there_and_has_a_reason() {
    let list = std::fs::read_to_string(root().join(".config/macos-skips")).unwrap();
    let (about, list) = list.split_once("\n\n").unwrap();
    let reasons: Vec<&str> = about.lines().filter_map(|line| Some(line.strip_prefix("# ")?.split_once(": ")?.0)).collect();
    let sources: Vec<_> =
        ["tapline-runner", "tapline-cli"].iter().flat_map(|name| tests_of(&root().join("crates").join(name))).collect();
    for line in list.lines() {
        let (name, reason) = line.split_once(' ').unwrap();
        assert!(reasons.contains(&reason.trim()), "{line}");
        let is_there = |(module, text): &(String, String)| module == name || text.contains(&format!("fn {name}()"));
        assert!(sources.iter().any(is_there), "there is no test {name}");
    }
}

/// The names of a crate's test files, and their texts.
fn tests_of(folder: &Path) -> Vec<(String, String)> {
    let files =
        std::fs::read_dir(folder.join("tests/it")).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_file());
    files.map(|path| (path.file_stem().unwrap().to_str().unwrap().to_owned(), std::fs::read_to_string(path).unwrap())).collect()
}

#[test]
fn no_dependency_needs_a_newer_rust_than_we_promise() {
    let version = |text: &str| -> Vec<u32> { text.split('.').map(|part| part.parse().unwrap()).collect() };
    let promised = |manifest: &str| {
        let text = std::fs::read_to_string(root().join(manifest)).unwrap();
        text.lines().find_map(|line| line.strip_prefix("rust-version = \"")?.strip_suffix('"')).unwrap().to_owned()
    };
    let ours = promised("Cargo.toml");
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    assert!(readme.contains(&format!("# Rust {ours} or newer\n")), "README.md: {ours}");

    let output = |program: &str, args: &[&str]| {
        let ran = Command::new(program).args(args).current_dir(root()).output().unwrap();
        assert!(ran.status.success(), "{program}: {}", String::from_utf8_lossy(&ran.stderr));
        String::from_utf8(ran.stdout).unwrap()
    };
    // Only the crates of this system: whoever runs this test has them already.
    let about = output("rustc", &["-vV"]);
    let host = about.lines().find_map(|line| line.strip_prefix("host: ")).unwrap();
    let args = ["metadata", "--locked", "--format-version", "1", "--all-features", "--filter-platform", host];
    let metadata: serde_json::Value = serde_json::from_str(&output(env!("CARGO"), &args)).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    assert!(packages.len() > 50, "{}", packages.len());
    let needs = |package: &&serde_json::Value| {
        package["rust_version"].as_str().is_some_and(|wanted| version(wanted.trim_end_matches(".0")) > version(&ours))
    };
    let newer: Vec<_> = packages.iter().filter(needs).map(|package| (&package["name"], &package["rust_version"])).collect();
    assert!(newer.is_empty(), "Cargo.toml promises Rust {ours}: {newer:?}");
}

#[test]
fn workflows_may_do_little_and_run_once_for_each_branch() {
    for (name, text) in workflows().iter().filter(|(name, _)| !name.ends_with("action.yml")) {
        assert!(text.contains("\npermissions:\n  contents: read\n"), "{name}");
        assert!(text.contains("\nconcurrency:\n"), "{name}");
        let jobs = text.matches("runs-on:").count();
        assert_eq!(text.matches("timeout-minutes:").count(), jobs, "{name}: every job has a limit");
        let checkouts = text.matches("uses: actions/checkout@").count();
        assert_eq!(text.matches("persist-credentials: false").count(), checkouts, "{name}: no later step can push");
    }
}
