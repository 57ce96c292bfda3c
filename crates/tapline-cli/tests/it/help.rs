//! Help, versions, completions and manual pages.

use std::path::PathBuf;

use tapline_testkit::{TempFolder, root};

use crate::tapline::tapline;

const COMMANDS: &[&str] = &[
    "inspect",
    "view",
    "convert",
    "check",
    "stats",
    "statusline",
    "sessions",
    "export",
    "archive",
    "search",
    "demo",
    "completions",
    "man",
    "help",
];

#[test]
fn every_command_explains_itself() {
    let help = tapline(&["--help"]);
    assert_eq!(help.code, 0);
    for command in COMMANDS {
        assert!(help.out.contains(command), "{command}");
        let ran = tapline(&[command, "--help"]);
        assert_eq!((ran.code, ran.err.as_str()), (0, ""));
        assert!(ran.out.contains("Usage: tapline"), "{command}");
    }
    assert_eq!(tapline(&["--version"]).out, format!("tapline {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn bad_usage_is_told_on_stderr() {
    for args in [["nonsense"].as_slice(), &["convert"], &["convert", "--to", "yaml"], &[]] {
        let ran = tapline(args);
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{args:?}");
        assert!(!ran.err.is_empty());
    }
}

#[test]
fn completions_for_every_shell() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let ran = tapline(&["completions", shell]);
        assert!(ran.code == 0 && ran.out.contains("convert"), "{shell}");
    }
}

#[test]
fn a_page_for_every_command() {
    assert!(tapline(&["man"]).out.contains(".TH tapline"));
    let folder = TempFolder::new();
    assert_eq!(tapline(&["man", &folder.path("pages")]).code, 0);
    for command in COMMANDS.iter().chain(&["archive-prices", "archive-keep", "archive-status"]) {
        let page = std::fs::read_to_string(folder.path(&format!("pages/tapline-{command}.1"))).unwrap();
        assert!(page.contains(".TH"), "{command}");
    }
}

#[test]
fn the_readme_knows_every_command() {
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    for command in COMMANDS {
        assert!(readme.contains(&format!("tapline {command}")), "{command}");
    }
}

#[test]
fn the_readme_and_the_help_have_every_exit_code() {
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    let help = tapline(&["run", "--help"]).out.replace('\n', " ");
    for (code, meaning) in tapline_session::exit::TABLE {
        assert!(readme.contains(&format!("\n| {code} | ")), "{code}");
        assert!(help.contains(&format!("{code} {meaning}")), "{code}");
    }
}

#[test]
fn the_help_has_every_agent_and_every_code() {
    let one_line = |args: &[&str]| tapline(args).out.split_whitespace().collect::<Vec<_>>().join(" ");
    let help = one_line(&["--help"]);
    for agent in tapline_protocol::Agent::ALL {
        assert!(help.contains(&format!("`{} ", agent.name())) && help.contains(agent.title()), "{help}");
        for command in ["run", "chat", "tee"] {
            let variable = format!("$TAPLINE_{}_BIN", agent.name().to_uppercase());
            assert!(one_line(&[command, "--help"]).contains(&variable), "{command}: {variable}");
        }
    }
    for command in ["run", "inspect"] {
        assert!(one_line(&[command, "--help"]).contains(&tapline_session::UNCLEAN_CODES.join(",")), "{command}");
    }
    let schema = tapline(&["schema", "nothing"]);
    assert!(schema.code == 2 && schema.err.contains("WHAT") && schema.err.contains("report, steps"), "{}", schema.err);
}

#[test]
fn a_help_that_speaks_of_a_host_says_what_one_is() {
    for command in ["tee", "shim", "replay"] {
        let help = tapline(&[command, "--help"]).out.replace('\n', " ");
        assert!(help.contains("ost is the program that") || help.contains("host (the program that"), "{command}: {help}");
    }
}

/// The pages of docs/.
fn pages() -> impl Iterator<Item = PathBuf> {
    let entries = std::fs::read_dir(root().join("docs")).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.extension().is_some_and(|ending| ending == "md"))
}

/// Markdown reads nothing in a code block: a link there is shown with its brackets.
#[test]
fn no_page_has_a_link_in_a_code_block() {
    for page in pages() {
        let text = std::fs::read_to_string(page).unwrap();
        for (at, block) in text.split("\n```").enumerate() {
            assert!(at % 2 == 0 || !block.contains("]("), "{block}");
        }
    }
}

/// Where a heading can be linked to, as GitHub has it.
fn anchors(text: &str) -> Vec<String> {
    let is_kept = |c: &char| c.is_alphanumeric() || " -_".contains(*c);
    let heads = text.split("\n```").step_by(2).flat_map(str::lines).filter(|line| line.starts_with('#'));
    let slug = |line: &str| line.trim_start_matches('#').trim().to_lowercase().chars().filter(is_kept).collect::<String>();
    heads.map(|line| slug(line).replace(' ', "-")).collect()
}

#[test]
fn every_link_leads_somewhere() {
    let others = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "BENCHMARKS.md", "CHANGELOG.md", "python/README.md"];
    for page in pages().chain(others.map(|name| root().join(name))) {
        let text = std::fs::read_to_string(&page).unwrap();
        let links = text.split("\n```").step_by(2).flat_map(|part| part.split("](").skip(1));
        for link in links.filter_map(|rest| rest.split([')', ' ']).next()).filter(|link| !link.contains(':')) {
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = if file.is_empty() { page.clone() } else { page.parent().unwrap().join(file) };
            assert!(target.exists(), "{}: {link}", page.display());
            if !anchor.is_empty() {
                let there = anchors(&std::fs::read_to_string(&target).unwrap());
                assert!(there.iter().any(|known| known == anchor), "{}: {link}: there are {there:?}", page.display());
            }
        }
    }
}

/// The topics that `tapline help` lists.
fn topics() -> Vec<String> {
    let help = tapline(&["help"]).out;
    let (_, list) = help.split_once("Topics").unwrap();
    list.lines().skip(1).map(|line| line.split_whitespace().next().unwrap().to_owned()).collect()
}

#[test]
fn help_lists_every_page_and_prints_each() {
    let topics = topics();
    assert_eq!(topics.len(), pages().count(), "each page of docs/ is a topic: {topics:?}");
    for topic in &topics {
        let ran = tapline(&["help", topic]);
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{topic}");
        assert!(ran.out.starts_with("# ") && ran.out.lines().count() > 20, "{topic}: {}", ran.out);
        let text = ran.out.lines().filter(|line| !line.starts_with("    "));
        for line in text {
            assert!(!line.contains("](") && !line.contains(".md)"), "{topic} has a link that leads nowhere here: {line}");
            assert!(
                line.chars().count() <= 100 || !line.trim_start().contains(' '),
                "{topic} has a line that is too long: {line}"
            );
        }
        assert!(tapline(&["completions", "bash"]).out.contains(topic.as_str()), "{topic}");
    }
}

#[test]
fn help_of_a_command_is_what_the_command_prints() {
    assert_eq!(tapline(&["help"]).out, tapline(&["--help"]).out);
    for command in COMMANDS.iter().chain(&["run", "chat", "sim", "tee", "shim", "replay", "doctor"]) {
        assert_eq!(tapline(&["help", command]).out, tapline(&[command, "--help"]).out, "{command}");
    }
}

#[test]
fn words_that_people_try_are_topics_and_commands_name_theirs() {
    for (word, topic) in [("costs", "counting"), ("secrets", "redact"), ("resume", "browsing"), ("rules", "permissions")] {
        assert_eq!(tapline(&["help", word]).out, tapline(&["help", topic]).out, "{word}");
    }
    let one_line = |args: &[&str]| tapline(args).out.split_whitespace().collect::<Vec<_>>().join(" ");
    for (command, topic) in [
        ("run", "running"),
        ("chat", "chatting"),
        ("inspect", "report"),
        ("check", "findings"),
        ("tee", "replaying"),
        ("stats", "counting"),
    ] {
        let help = one_line(&["help", command]);
        assert!(help.contains(&format!("`tapline help {topic}`")), "{command}: {help}");
    }
}

#[test]
fn help_for_a_name_that_nobody_has_suggests_one() {
    let ran = tapline(&["help", "permisions"]);
    assert_eq!((ran.code, ran.out.as_str()), (2, ""));
    assert!(ran.err.contains("'permissions'"), "{}", ran.err);
}

/// Whoever reads a message has the binary, and perhaps not the repository.
#[test]
fn every_text_that_cites_a_page_cites_a_topic() {
    let topics = topics();
    let mut cited = 0;
    for (path, text) in crate::architecture::shipped() {
        let seen = text.lines().filter(|line| {
            let line = line.trim_start();
            line.starts_with("///") || !(line.starts_with("//") || line.starts_with("#["))
        });
        for line in seen {
            let page = regex_lite::Regex::new("docs/[A-Z]+\\.md").unwrap().find(line).map(|page| page.as_str().to_owned());
            assert!(page.is_none(), "{}: {line}", path.display());
            for name in line.split("tapline help ").skip(1) {
                let name: String = name.chars().take_while(char::is_ascii_lowercase).collect();
                assert!(name.is_empty() || topics.contains(&name), "{}: {line}", path.display());
                cited += usize::from(!name.is_empty());
            }
        }
    }
    assert!(cited > 15, "{cited}");
}
