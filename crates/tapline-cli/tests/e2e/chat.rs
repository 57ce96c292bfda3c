//! `tapline chat` with the real programs: in a real terminal (tmux), and by a script.

use std::io::{BufRead as _, Write as _};
use std::process::{Command, Stdio};
use std::time::Duration;

use tapline_testkit::{eventually, signal};

use crate::stage::{Stage, TAPLINE, codex, newest};

/// A chat in a terminal of its own.
struct Terminal<'a> {
    stage: &'a Stage,
    name: String,
}

impl<'a> Terminal<'a> {
    /// Starts a chat there, and waits for its prompt.
    fn open(stage: &'a Stage, args: &str) -> Self {
        let name = stage.folder.file_name().unwrap().to_str().unwrap().to_owned();
        let terminal = Self { stage, name };
        let program = stage.program.path.display();
        // How it ended, and whether the terminal is as it was.
        let chat =
            format!("{TAPLINE} chat --bin {program} {args}; echo \"EXIT $?\"; stty -a | grep -o -- ' -\\?icanon'; sleep 60");
        terminal.tmux(&["new-session", "-d", "-x", "100", "-y", "40", &chat]);
        terminal.shows("Ctrl-D ends");
        terminal
    }

    fn tmux(&self, args: &[&str]) -> String {
        let mut command = self.stage.command("tmux");
        command.env("TERM", "screen-256color").env("LANG", "C.UTF-8").args(["-u", "-L", &self.name]).args(args);
        let output = command.output().unwrap();
        assert!(output.status.success(), "tmux {args:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Types a text, as it stands.
    fn types(&self, text: &str) {
        self.tmux(&["send-keys", "-l", text]);
    }

    /// Presses a key, by its name.
    fn press(&self, key: &str) {
        self.tmux(&["send-keys", key]);
    }

    /// Types a text and Enter.
    fn says(&self, text: &str) {
        self.types(text);
        self.press("Enter");
    }

    /// Answers a question: what is pressed in the first half second is not taken for an answer.
    fn answers(&self, key: &str) {
        std::thread::sleep(Duration::from_millis(600));
        self.press(key);
    }

    fn screen(&self) -> String {
        self.tmux(&["capture-pane", "-p", "-S", "-200"])
    }

    /// Waits until this is on the screen.
    fn shows(&self, text: &str) -> String {
        self.shows_times(text, 1)
    }

    /// Waits until this is on the screen so often.
    fn shows_times(&self, text: &str, times: usize) -> String {
        let mut screen = String::new();
        let is_shown = eventually(|| {
            screen = self.screen();
            screen.matches(text).count() >= times
        });
        assert!(is_shown, "`{text}` is not on the screen {times} times:\n{screen}");
        screen
    }

    /// It ended well, and the terminal is as it was.
    fn ended(&self, code: u8) {
        self.shows(&format!("EXIT {code}"));
        let screen = self.shows("icanon");
        assert!(!screen.contains("-icanon"), "the terminal is not as it was:\n{screen}");
    }
}

impl Drop for Terminal<'_> {
    fn drop(&mut self) {
        let _ = Command::new("tmux").args(["-L", &self.name, "kill-server"]).stderr(Stdio::null()).status();
    }
}

fn bash(when: &str, command: &str) -> String {
    format!(
        "[[turn]]\nwhen = {{ last = {when:?} }}\ntool = [{{ name = \"Bash\", input = {{ command = {command:?}, description = \"Run it\" }} }}]\n"
    )
}

fn says(when: &str, text: &str) -> String {
    format!("[[turn]]\nwhen = {{ last = {when:?} }}\ntext = {text:?}\n")
}

#[test]
fn questions_are_answered_with_a_key() {
    let scenario = [
        bash("make one", "touch one && echo made-one") + "delay_ms = 6000\n",
        says("made-one", "One is there."),
        bash("make two", "touch two && echo made-two"),
        bash("made-two", "touch two && echo made-two"),
        says("made-two", "Two is there."),
        bash("make three", "touch three"),
        says("said no", "Not three."),
        "[[turn]]\nwhen = { last = \"write it\" }\ntool = [{ name = \"Write\", input = { file_path = \"note.txt\", content = \"alpha\\nbeta\\n\" } }]\n".to_owned(),
        says("somewhere else", "Where, then?"),
    ];
    let stage = Stage::new(&newest(), &scenario.concat());
    let terminal = Terminal::open(&stage, "");
    terminal.says("make one");
    terminal.types("nay");
    terminal.shows("› nay");
    let screen = terminal.shows("y once");
    assert!(screen.contains("? Bash asks to run\n    touch one && echo made-one\n"), "{screen}");
    // What is typed for the prompt answers nothing, whenever it comes: it is a draft.
    terminal.answers("y");
    terminal.shows("› nayy");
    terminal.shows("Esc, then y, a, n or w to answer");
    terminal.answers("Escape");
    terminal.shows("\ny, a, n or w to answer");
    terminal.press("y");
    terminal.shows("allowed, once");
    terminal.shows("One is there.");
    terminal.shows("› nayy");
    terminal.press("C-u");
    // Always: the same again is not asked.
    terminal.says("make two");
    terminal.shows_times("y once", 2);
    terminal.answers("a");
    let screen = terminal.shows("Two is there.");
    assert_eq!(screen.matches("y once").count(), 2, "{screen}");
    terminal.says("make three");
    terminal.shows_times("y once", 3);
    terminal.answers("n");
    terminal.shows("Not three.");
    // No, and why: a diff is shown, and the model is told.
    terminal.says("write it");
    let screen = terminal.shows_times("y once", 4);
    assert!(screen.contains("? Write asks to write") && screen.contains("  + alpha\n  + beta\n"), "{screen}");
    terminal.answers("w");
    terminal.shows("why not?");
    terminal.says("somewhere else, please");
    terminal.shows("Where, then?");
    terminal.press("C-d");
    terminal.ended(0);
    let there = ["one", "two", "three", "note.txt"].map(|name| stage.work().join(name).exists());
    assert_eq!(there, [true, true, false, false]);
    stage.is_as_written();
}

const SLOWLY: &str = "[[turn]]\nwhen = { last = \"slowly\" }\ntext = \"One two three four five six seven eight nine ten eleven twelve.\"\nchunk = 4\npace_ms = 600\nrepeat = \"forever\"\n";

#[test]
fn ctrl_c_interrupts_the_turn_and_twice_ends() {
    let stage = Stage::new(&newest(), &[SLOWLY, &says("go on", "Went on.")].concat());
    let terminal = Terminal::open(&stage, "");
    terminal.says("slowly");
    terminal.shows("two");
    // What is typed meanwhile is kept.
    terminal.types("go on");
    terminal.press("C-c");
    terminal.shows("interrupted");
    terminal.shows("› go on");
    terminal.press("Enter");
    let screen = terminal.shows("Went on.");
    assert!(!screen.contains("twelve") && !screen.contains("ede_diagnostic"), "{screen}");
    terminal.says("slowly");
    terminal.shows_times("two", 2);
    terminal.press("C-c");
    terminal.press("C-c");
    terminal.shows("continue with: tapline chat --resume");
    terminal.ended(0);
}

#[test]
fn what_is_typed_while_the_answer_comes_is_seen_and_queued() {
    let stage = Stage::new(&newest(), &[SLOWLY, &says("more", "And more.")].concat());
    let terminal = Terminal::open(&stage, "");
    terminal.says("slowly");
    terminal.shows("two");
    terminal.types("more");
    terminal.shows("› more");
    terminal.press("Enter");
    terminal.shows("1 queued");
    let screen = terminal.shows("And more.");
    assert!(screen.contains("One two three four five six seven eight nine ten eleven twelve.\n"), "no line is torn: {screen}");
    terminal.press("C-d");
    terminal.ended(0);
}

/// The person is asked, and nobody else: also where a hook of the project would have answered.
#[test]
fn a_permission_request_hook_does_not_answer_for_the_person() {
    let allow = r#"{"hookSpecificOutput":{"hookEventName":"PermissionRequest","decision":{"behavior":"allow"}}}"#;
    let command = serde_json::json!({"type": "command", "command": format!("echo '{allow}'")});
    let settings = serde_json::json!({"hooks": {"PermissionRequest": [{"matcher": "*", "hooks": [command]}]}});
    let scenario =
        [bash("make it", "touch made"), says("said no", "Not made."), bash("once more", "touch made"), says("", "Made.")];
    let stage = Stage::new(&newest(), &scenario.concat());
    std::fs::create_dir_all(stage.work().join(".claude")).unwrap();
    std::fs::write(stage.work().join(".claude/settings.json"), settings.to_string()).unwrap();
    let terminal = Terminal::open(&stage, "");
    terminal.says("make it");
    terminal.shows("? Bash asks to run");
    terminal.answers("n");
    terminal.shows("Not made.");
    assert!(!stage.work().join("made").exists());
    terminal.says("once more");
    terminal.shows_times("? Bash asks to run", 2);
    terminal.answers("y");
    terminal.shows("Made.");
    assert!(stage.work().join("made").exists());
    terminal.press("C-d");
    terminal.ended(0);
}

#[test]
fn a_question_that_is_interrupted_is_gone() {
    let stage = Stage::new(&newest(), &[bash("ask", "touch never"), says("go on", "Went on.")].concat());
    let terminal = Terminal::open(&stage, "");
    terminal.says("ask");
    terminal.shows("y once");
    terminal.press("C-c");
    terminal.shows("withdrew its question");
    terminal.shows("interrupted");
    terminal.says("go on");
    terminal.shows("Went on.");
    terminal.says("/quit");
    terminal.ended(0);
    assert!(!stage.work().join("never").exists());
}

#[test]
fn resized_and_pasted_into() {
    let stage = Stage::new(&newest(), &[SLOWLY, "[[turn]]\ntext = \"Read it.\"\nrepeat = \"forever\"\n"].concat());
    let terminal = Terminal::open(&stage, "");
    terminal.types("a prompt that is somewhat longer than the terminal will be wide in a moment, when it is resized");
    terminal.tmux(&["resize-window", "-x", "40", "-y", "20"]);
    terminal.types(" and");
    terminal.shows("and");
    terminal.tmux(&["resize-window", "-x", "100", "-y", "40"]);
    terminal.types(" again");
    let screen = terminal.shows("again");
    terminal.press("Enter");
    assert!(screen.contains("› a prompt that is somewhat"), "{screen}");
    terminal.shows("Read it.");
    // A megabyte, of lines.
    let line = "a line of a large paste, with some words in it\n";
    let text = line.repeat((1 << 20) / line.len() + 1);
    let file = stage.folder.join("paste");
    std::fs::write(&file, text.trim_end()).unwrap();
    terminal.types("see ");
    terminal.tmux(&["load-buffer", file.to_str().unwrap()]);
    terminal.tmux(&["paste-buffer", "-p"]);
    terminal.shows(&format!("› see [pasted {} characters, {} lines]", text.trim_end().len(), text.lines().count()));
    terminal.press("Enter");
    terminal.shows_times("Read it.", 2);
    let asked = stage.sim.requests().iter().map(|request| request.body.len()).max().unwrap();
    assert!(asked > text.len(), "all of it reached the model: {asked}");
    // While text is typed.
    terminal.says("slowly");
    terminal.shows("two");
    terminal.tmux(&["resize-window", "-x", "60", "-y", "30"]);
    terminal.shows("twelve.");
    // The past: a paste stands as one piece there, too.
    terminal.shows_times("success", 3);
    terminal.press("Up");
    terminal.press("Up");
    terminal.shows("› [pasted");
    terminal.press("C-c");
    terminal.press("C-d");
    terminal.ended(0);
}

#[test]
fn commands_of_the_chat_and_several_lines() {
    let stage = Stage::new(
        &newest(),
        "[[turn]]\nexpect = { last = \"one\\ntwo\" }\ntext = \"Both.\"\n[[turn]]\nexpect = { model = \"haiku\" }\ntext = \"Faster.\"\n",
    );
    let terminal = Terminal::open(&stage, "");
    terminal.types("one");
    terminal.press("C-j");
    terminal.says("two");
    terminal.shows("Both.");
    terminal.says("/model");
    terminal.shows("models (choose one with /model NAME)");
    terminal.says("/model haiku");
    terminal.shows("the model is haiku from now on");
    terminal.says("/mode acceptEdits");
    terminal.shows("the permission mode is acceptEdits from now on");
    terminal.says("/mode nonsense");
    terminal.shows("set_permission_mode: the agent refused");
    terminal.says("/cost");
    terminal.shows("so far, according to the agent");
    terminal.says("/context");
    terminal.shows("tokens in use");
    terminal.says("/modle haiku");
    terminal.shows("unknown command");
    terminal.says("/help");
    terminal.shows("what fills the agent's context");
    terminal.says("more");
    terminal.shows("Faster.");
    // While the turn goes on, Ctrl-C would interrupt it.
    terminal.shows_times("✓ success", 2);
    terminal.press("C-c");
    terminal.shows("Ctrl-C again ends the chat");
    terminal.press("C-c");
    terminal.ended(0);
    stage.is_as_written();
}

#[test]
fn what_the_agent_wants_to_know() {
    let ask = r#"[[turn]]
tool = [{ name = "AskUserQuestion", input = { questions = [
  { question = "Which colour?", header = "Colour", multiSelect = false, options = [{ label = "Red", description = "warm" }, { label = "Blue", description = "cold" }] },
  { question = "Which sizes?", header = "Size", multiSelect = true, options = [{ label = "S", description = "" }, { label = "M", description = "" }, { label = "L", description = "" }] },
] } }]
[[turn]]
expect = { last = "Which colour\\?.=.Blue.*Which sizes\\?.=.S, L" }
text = "Blue, then."
"#;
    let stage = Stage::new(&newest(), ask);
    let terminal = Terminal::open(&stage, "\"ask me\"");
    let screen = terminal.shows("your own words");
    assert!(screen.contains("? Which colour?\n  1 Red warm\n  2 Blue cold\n"), "{screen}");
    terminal.answers("2");
    terminal.press("Enter");
    terminal.shows("? Which sizes?");
    terminal.answers("1");
    terminal.says(",3");
    terminal.shows("Blue, then.");
    terminal.press("C-d");
    terminal.ended(0);
    stage.is_as_written();
}

/// What a script prints, and how it ends.
fn script(stage: &Stage, args: &[&str], lines: &str) -> (String, i32) {
    let mut command = stage.command(TAPLINE);
    command.args(["chat", "--agent", stage.program.agent, "--bin"]).arg(&stage.program.path).args(args);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    (text, output.status.code().unwrap())
}

#[test]
fn a_script_is_one_conversation_in_one_process() {
    let stage = Stage::new(
        &newest(),
        "[[turn]]\nexpect = { count = 0, last = \"first\" }\ntext = \"One.\"\n[[turn]]\nexpect = { count = 1, last = \"second\\ngoes on\" }\ntext = \"Two.\"\n[[turn]]\nexpect = { count = 2 }\ntext = \"Three.\"\n",
    );
    let (text, code) = script(&stage, &["--format", "text"], "first\n\nsecond\\\ngoes on\nthird");
    assert_eq!((text.as_str(), code), ("One.\n\nTwo.\n\nThree.\n", 0));
    stage.is_as_written();
    let (view, code) = script(&Stage::new(&newest(), "turn = [{ text = \"Yes.\" }]"), &[], "really?\n/cost\n/quit\nnever\n");
    assert_eq!(code, 0);
    assert!(
        view.contains("› really?") && view.contains("Yes.") && view.contains("so far") && !view.contains("never"),
        "{view}"
    );
}

/// What this turn took, not the session.
#[test]
fn each_turn_says_what_it_took() {
    let scenario = "usage = { input_tokens = 12, output_tokens = 42, cache_read_input_tokens = 2000 }\nturn = [{ text = \"One.\" }, { text = \"Two.\" }, { text = \"Three.\" }]";
    for (program, args) in [(newest(), &[][..]), (codex(), &["--", "--skip-git-repo-check"])] {
        let (view, code) = script(&Stage::new(&program, scenario), args, "first\nsecond\nthird\n");
        let took: Vec<&str> = view.lines().filter(|line| line.starts_with("· this turn: ")).collect();
        assert_eq!((took.len(), code), (3, 0), "{} {view}", program.version);
        assert!(took.iter().all(|line| *line == took[0]), "{} {took:?}", program.version);
        assert!(took[0].ends_with(" 12 in · 42 out"), "{} {took:?}", program.version);
        assert_eq!(took[0].contains('$'), program.agent == "claude", "{} {took:?}", program.version);
    }
}

#[test]
fn a_script_ends_with_the_first_turn_that_fails() {
    let scenario = "[[turn]]\nwhen = { last = \"good\" }\ntext = \"Good.\"\nrepeat = \"forever\"\n[[turn]]\ntext = \"never\"\nfault = [{ kind = \"error\", status = 400, times = \"forever\" }]\n";
    let (text, code) = script(&Stage::new(&newest(), scenario), &["--format", "text"], "good\nbad\ngood\n");
    assert_eq!((text.as_str(), code), ("Good.\n", 1));
    let (text, code) = script(&Stage::new(&newest(), scenario), &["--format", "text", "--keep-going"], "good\nbad\ngood\n");
    assert_eq!((text.as_str(), code), ("Good.\n\nGood.\n", 1));
}

/// Whatever it waits for, a signal ends it; what was recorded is whole.
#[test]
fn a_script_ends_with_a_signal() {
    let stage = Stage::new(&newest(), "turn = [{ text = \"Yes.\" }]");
    let mut command = stage.command(TAPLINE);
    let recording = stage.folder.join("scripted");
    command.args(["chat", "--format", "text", "--bin"]).arg(&stage.program.path).arg("--record").arg(&recording);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(b"really?\n").unwrap();
    let mut line = String::new();
    std::io::BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "Yes.\n", "the answer is put out before the next prompt is there");
    signal(child.id(), "TERM");
    assert_eq!(child.wait().unwrap().code(), Some(143));
    assert!(recording.join("end.json").exists());
    drop(stdin);
}

#[test]
fn codex_goes_on_with_its_thread() {
    let stage = Stage::new(
        &codex(),
        "[[turn]]\nexpect = { count = 0, last = \"first\" }\ntext = \"One.\"\n[[turn]]\nexpect = { count = 1, last = \"second\" }\ntext = \"Two.\"\n",
    );
    let (text, code) = script(&stage, &["--format", "text", "--", "--skip-git-repo-check"], "first\nsecond\n");
    assert_eq!((text.as_str(), code), ("One.\n\nTwo.\n", 0));
    stage.is_as_written();
}
