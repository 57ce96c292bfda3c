//! Policies that are written wrongly: what can never hold is refused, what is most likely a mistake is doubted, both in plain words.

use std::collections::BTreeSet;

use tapline_session::permission::{Permissions, RuleFile};
use tapline_session::policy::Policy;
use tapline_testkit::root;

fn wrong(text: &str) -> String {
    text.parse::<Policy>().map(|policy| panic!("{text} was taken: {policy:?}")).unwrap_err().to_string()
}

/// Words of the reader, which people who write a file need not know.
fn is_plain(error: &str) -> bool {
    let foreign = [
        "u64",
        "f64",
        "sequence",
        "invalid type",
        "invalid value",
        "unknown field",
        "missing field",
        "TOML parse error",
        "struct",
    ];
    !foreign.iter().any(|word| error.contains(word))
}

#[test]
fn a_tool_that_can_never_be_called_so_is_refused_in_every_list_of_a_policy() {
    for (name, said) in [
        (r#""bash""#, "no tool is called `bash`: did you mean `Bash`?"),
        (r#"["Read", "WEBFETCH"]"#, "did you mean `WebFetch`?"),
        (r#""bash*""#, "did you mean `Bash`?"),
        (r#""Bash(rm *)""#, r#"is a permission rule, and a policy names tools: write "Bash""#),
        (r#""Bash(rm *)""#, r#"put tool = "Bash" and command = "rm *" into a permission file"#),
        (r#""Edit(src/**)""#, r#"tool = "Edit" and path = "src/**""#),
        (r#""Bash, Read""#, r#"write ["Bash", "Read"]"#),
        (r#""mcp__github""#, r#"write "mcp__github__*""#),
        (r#""""#, "an empty name matches nothing"),
    ] {
        for (table, key) in
            [("tools", "allow"), ("tools", "forbid"), ("tools", "require"), ("calls", "allow"), ("calls", "forbid")]
        {
            let error = wrong(&format!("[{table}]\n{key} = {name}\n"));
            assert!(error.starts_with(&format!("line 2: `{table}.{key}`: ")) && error.contains(said), "{name}: {error}");
        }
    }
}

#[test]
fn a_tool_that_nobody_knows_is_doubted_unless_the_session_has_it() {
    let doubts = |text: &str, offered: &[&str]| {
        let offered = offered.iter().map(|tool| (*tool).to_owned()).collect();
        text.parse::<Policy>().unwrap().doubts(&offered)
    };
    let typo = "[calls]\nforbid = [\"Bsh\"]\n";
    assert_eq!(doubts(typo, &[]), ["calls.forbid: no tool named `Bsh` is known: did you mean `Bash`?"]);
    assert_eq!(doubts(typo, &["Bash"]).len(), 1);
    assert_eq!(doubts(typo, &["Bsh"]), [""; 0], "the session has a tool of that name");
    let own = "[tools]\nallow = [\"MyOwnTool\"]\n";
    assert_eq!(doubts(own, &[]), ["tools.allow: no tool named `MyOwnTool` is known"]);
    for sound in [
        "[tools]\nallow = [\"Bash\", \"Task\", \"mcp__github__search\", \"mcp__*\", \"*\", \"Web*\"]\nforbid = \"command_execution\"\n",
        "[calls]\nallow = []\nforbid = []\n[session]\nskills = []\npermission_mode = [\"default\", \"plan\", \"accept*\"]\n",
        "[mcp]\nconnected = \"github\"\nallow = [\"git*\"]\n[limits]\ncost_usd = 0\nturns = 0\ncalls = 0\ndenials = 0\nseconds = 0.5\n",
        "",
    ] {
        assert_eq!(doubts(sound, &[]), [""; 0], "{sound}");
    }
    for (text, said) in [
        ("[session]\npermission_mode = \"acceptedits\"\n", "no mode named `acceptedits` is known: did you mean `acceptEdits`?"),
        ("[session]\npermission_mode = \"yolo\"\n", "bypassPermissions"),
        ("[mcp]\nallow = \"mcp__github__*\"\n", "its server is `github`"),
        ("[tools]\nrequire = \"Bash\"\nforbid = \"Bash\"\n", "no run can keep both"),
        ("[tools]\nrequire = \"Bash\"\nallow = \"Read\"\n", "no run can keep both"),
    ] {
        let doubts = doubts(text, &[]);
        assert!(doubts.len() == 1 && doubts[0].contains(said), "{text}: {doubts:?}");
    }
}

#[test]
fn a_value_that_makes_no_sense_is_refused_with_its_key_what_it_is_and_what_it_must_be() {
    for (text, said) in [
        ("[limits]\nturns = -1", "`limits.turns` is -1, but must be a whole number from 0 up, like turns = 20"),
        (
            "[limits]\nturns = \"20\"",
            "`limits.turns` is the text \"20\", but must be a whole number from 0 up, like turns = 20",
        ),
        ("[limits]\ncalls = 1.5", "`limits.calls` is 1.5, but must be a whole number"),
        ("[limits]\ndenials = true", "`limits.denials` is true, but"),
        ("[limits]\ncost_usd = -0.5", "`limits.cost_usd` is -0.5, but must be a number from 0 up, like cost_usd = 0.50"),
        ("[limits]\ncost_usd = nan", "`limits.cost_usd` is nan"),
        ("[limits]\ncost_usd = inf", "`limits.cost_usd` is inf"),
        ("[limits]\nseconds = 0", "`limits.seconds` is 0, but must be a number above 0, like seconds = 600"),
        ("[limits]\nseconds = 2026-01-01", "is the date 2026-01-01"),
        ("[tools]\nrequire = 5", "`tools.require` is 5, but must be a name or a list of names, like require = [\"Bash\"]"),
        ("[calls]\nforbid = [\"Bash\", 5]", "`calls.forbid` contains 5, but may contain only names"),
        (
            "[mcp]\nall_connected = \"yes\"",
            "`mcp.all_connected` is the text \"yes\", but must be true or false, like all_connected = true",
        ),
        ("[session]\nmodel = []", "`session.model` is an empty list, but must be at least one name"),
        ("[session]\ncli_version = \"latest\"", "`latest` is not a version: write"),
        ("[session]\ncli_version = 2.1", "`session.cli_version` is 2.1, but must be a text"),
        ("[limits]\ncosts_usd = 1", "[limits] has no key `costs_usd`: did you mean `cost_usd`?"),
        ("[limit]\nturns = 1", "a policy has no key `limit`: did you mean `limits`?"),
        ("limits = 5", "`limits` is 5, but must be a table, like [limits]"),
        ("cost_usd = 2", "`cost_usd` belongs below [limits]"),
        ("[calls]\nforbid = Bash", "`forbid = Bash` is not TOML: string values must be quoted; it is written like"),
        ("[limits]\nturns = 1\nturns = 2", "line 3: `turns = 2` is not TOML: duplicate key"),
    ] {
        let error = wrong(text);
        assert!(error.starts_with("line ") && error.contains(said) && is_plain(&error), "{text}: {error}");
    }
}

#[test]
fn a_number_may_be_written_in_any_way_that_toml_knows() {
    let limits = |text: &str| text.parse::<Policy>().unwrap().limits;
    for count in ["255", "0xFF", "0o377", "0b1111_1111", "2_5_5", "+255"] {
        assert_eq!(limits(&format!("[limits]\nturns = {count}\n")).turns, Some(255), "{count}");
        let amounts = limits(&format!("[limits]\ncost_usd = {count}\nseconds = {count}\n"));
        assert_eq!((amounts.cost_usd, amounts.seconds), (Some(255.0), Some(255.0)), "{count}");
    }
    assert!(wrong("[limits]\nseconds = 0x0").contains("`limits.seconds` is 0x0, but must be a number above 0"));
    assert!(wrong("[limits]\nturns = 0xFFFFFFFFFFFFFFFF").contains("`limits.turns` is 0xFFFFFFFFFFFFFFFF, but must be"));
}

#[test]
fn a_file_of_the_other_kind_is_told_as_a_value() {
    for list in ["allow", "deny", "ask"] {
        let error = format!("[[{list}]]\ntool = \"Bash\"\n").parse::<Policy>().unwrap_err();
        let said = format!("line 1: `{list}` does not belong in a policy, but in a permission file. Allowed here: ");
        assert!(error.to_string().starts_with(&said), "{error}");
        assert_eq!(error.belongs_in(), Some(RuleFile::Permissions));
    }
    for table in ["tools", "calls", "mcp", "session", "limits"] {
        let error = format!("[{table}]\n").parse::<Permissions>().unwrap_err();
        let said = format!("line 1: `{table}` does not belong in a permission file, but in a policy. Allowed here: ");
        assert!(error.to_string().starts_with(&said), "{error}");
        assert_eq!(error.belongs_in(), Some(RuleFile::Policy));
    }
}

/// docs/POLICY.md shows every key, and its examples are policies without a doubt.
#[test]
fn every_example_of_the_documentation_is_a_policy() {
    let text = std::fs::read_to_string(root().join("docs/POLICY.md")).unwrap();
    let examples: Vec<_> = text.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert_eq!(examples.len(), 2);
    for example in examples {
        assert_eq!(example.parse::<Policy>().unwrap().doubts(&BTreeSet::new()), [""; 0], "{example}");
    }
}
