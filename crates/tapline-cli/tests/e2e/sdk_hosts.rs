//! The official SDKs as hosts: they drive the real program through `tee`, then the replay of what was recorded, and see the same
//! messages both times: permissions, a hook, a tool of their own, a change of model and mode, an interrupt.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::stage::{Stage, TAPLINE, installed, newest, own, setting};

/// A host: its interpreter and its script.
struct Host {
    name: &'static str,
    interpreter: PathBuf,
    script: PathBuf,
}

fn python() -> Host {
    let interpreter = installed(&format!("sdk-py-{}/bin/python", setting("TAPLINE_E2E_SDK_PY")));
    Host { name: "python", interpreter, script: own("sdk_hosts/host.py") }
}

fn node(stage: &Stage) -> Host {
    // It looks for its modules from where it lies.
    let modules = installed(&format!("sdk-js-{}/node_modules", setting("TAPLINE_E2E_SDK_JS")));
    let script = stage.folder.join("host.mjs");
    std::fs::copy(own("sdk_hosts/host.mjs"), &script).unwrap();
    std::os::unix::fs::symlink(modules, stage.folder.join("node_modules")).unwrap();
    Host { name: "node", interpreter: "node".into(), script }
}

fn shim(stage: &Stage, folder: &str, args: &[&str]) -> PathBuf {
    let output = Command::new(TAPLINE).arg("shim").arg(stage.folder.join(folder)).args(args).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    PathBuf::from(String::from_utf8(output.stdout).unwrap().trim_end())
}

impl Host {
    /// What the host saw of this program.
    fn saw(&self, stage: &Stage, program: &Path) -> String {
        let output = stage.command(&self.interpreter).arg(&self.script).arg(program).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success() && stderr.is_empty(), "{}: {} {stderr}", self.name, output.status);
        String::from_utf8(output.stdout).unwrap()
    }

    fn drives_both(&self, stage: &Stage) {
        let program = stage.program.path.to_str().unwrap();
        let recordings = stage.folder.join("host");
        let tee = shim(stage, "tee", &["--bin", program, "--record-in", recordings.to_str().unwrap()]);
        let real = self.saw(stage, &tee);
        for wanted in [
            "\"permission\"",
            "\"hook\"",
            "\"mcp_tool\"",
            "\"set_model\"",
            "\"interrupt\"",
            "Done: 5.",
            "no writes today",
            "error_during_execution",
            "{\"end\"",
        ] {
            assert!(real.contains(wanted), "{}: no {wanted} in {real}", self.name);
        }
        let recording = std::fs::read_dir(&recordings).unwrap().next().unwrap().unwrap().path();
        for (folder, options) in [
            ("instant", &["--speed", "instant", "--strict"][..]),
            ("bytes", &["--speed", "instant", "--chunks", "997"]),
            ("real", &["--speed", "2"]),
        ] {
            let args: Vec<&str> = ["--replay", recording.to_str().unwrap(), "--"].iter().chain(options).copied().collect();
            let replayed = self.saw(stage, &shim(stage, folder, &args));
            for (line, (one, other)) in real.lines().zip(replayed.lines()).enumerate() {
                assert_eq!(one, other, "{} {folder}: line {}", self.name, line + 1);
            }
            assert_eq!(real.lines().count(), replayed.lines().count(), "{} {folder}", self.name);
        }
        stage.is_as_written();
    }
}

fn session() -> String {
    std::fs::read_to_string(own("sdk_hosts/session.toml")).unwrap()
}

#[test]
fn the_python_sdk() {
    let stage = Stage::new(&newest(), &session());
    python().drives_both(&stage);
}

#[test]
fn the_typescript_sdk() {
    let stage = Stage::new(&newest(), &session());
    node(&stage).drives_both(&stage);
}
