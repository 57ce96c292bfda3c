//! `tapline statusline` as the status line of the real Claude Code, in a real terminal (tmux).

use std::process::{Command, Stdio};

use serde_json::json;
use tapline_testkit::eventually;

use crate::stage::{Stage, TAPLINE, newest};

/// A terminal that ends with its test.
struct Terminal<'s>(&'s Stage, String);

impl Terminal<'_> {
    fn tmux(&self, args: &[&str]) -> String {
        let mut command = self.0.command("tmux");
        command.env("TERM", "screen-256color").env("LANG", "C.UTF-8").env("TZ", "UTC").args(["-u", "-L", &self.1]).args(args);
        let output = command.output().unwrap();
        assert!(output.status.success(), "tmux {args:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn shows(&self, text: &str) {
        let mut screen = String::new();
        let is_shown = eventually(|| {
            screen = self.tmux(&["capture-pane", "-p"]);
            screen.contains(text)
        });
        assert!(is_shown, "`{text}` is not on the screen:\n{screen}");
    }
}

impl Drop for Terminal<'_> {
    fn drop(&mut self) {
        let _ = Command::new("tmux").args(["-L", &self.1, "kill-server"]).stderr(Stdio::null()).status();
    }
}

#[test]
fn claude_code_shows_it() {
    let turn = "[[turn]]\ntext = \"Hello there.\"\nusage = { input_tokens = 1001, output_tokens = 102, cache_read_input_tokens = 10003, cache_creation_input_tokens = 2004 }\n";
    let stage = Stage::new(&newest(), turn);
    let (home, work) = (stage.sim.home(), stage.folder.join("work"));
    std::fs::create_dir_all(home.join(".claude")).unwrap();
    let settings = json!({ "statusLine": { "type": "command", "command": format!("{TAPLINE} statusline") } });
    std::fs::write(home.join(".claude/settings.json"), settings.to_string()).unwrap();
    // As somebody who has answered the questions of the first start.
    let key = stage.sim.environment().into_iter().find(|(name, _)| name == "ANTHROPIC_API_KEY").map(|(_, key)| key);
    let key = key.map(|key| key.to_string_lossy().into_owned()).unwrap_or_default();
    let asked = json!({
        "hasCompletedOnboarding": true, "theme": "dark",
        "projects": { work.to_str().unwrap(): { "hasTrustDialogAccepted": true, "hasCompletedProjectOnboarding": true } },
        "customApiKeyResponses": { "approved": [key.chars().skip(key.chars().count().saturating_sub(20)).collect::<String>()], "rejected": [] },
    });
    std::fs::write(home.join(".claude.json"), asked.to_string()).unwrap();
    let name = stage.folder.file_name().unwrap().to_str().unwrap().to_owned();
    let terminal = Terminal(&stage, format!("{name}-line"));
    terminal.tmux(&["new-session", "-d", "-x", "120", "-y", "40", &format!("{}; sleep 60", stage.program.path.display())]);
    terminal.shows(" · session $0 · today $0 · 5 h $0");
    terminal.tmux(&["send-keys", "-l", "Hi"]);
    terminal.tmux(&["send-keys", "Enter"]);
    // 1,001 × $4 + 102 × $20 + 10,003 × $0.2 + 2,004 × $5 for a million = $0.0180646.
    terminal.shows("context 1 % · session $0.0181 · today ");
}
