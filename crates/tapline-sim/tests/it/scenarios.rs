//! Scenarios: the example works, wrong ones are refused with line and reason, JSON says the same as TOML.

use tapline_sim::{EXAMPLE, Scenario, ScriptedBlock, Sim};
use tapline_testkit::TempFolder;

#[test]
fn the_example_is_a_scenario() {
    let scenario = Scenario::parse(EXAMPLE).unwrap();
    assert_eq!(scenario.turns.len(), 4);
    assert_eq!(scenario.usage.cache_read_input_tokens, 2000);
    assert!(matches!(
        &scenario.turns[0].blocks[..],
        [ScriptedBlock::Thinking(_), ScriptedBlock::Text(_), ScriptedBlock::Tool(_)]
    ));
}

#[test]
fn wrong_ones_are_refused_with_line_and_reason() {
    let cases = [
        ("[[turn]]\ntxt = \"x\"\n", 2, "unknown field `txt`"),
        ("\n\n[[turn]]\n", 3, "the turn is empty"),
        ("[[turn]]\ntext = \"x\"\nrepeat = 0\n", 3, "1 or more"),
        ("[[turn]]\ntext = \"x\"\nrepeat = \"always\"\n", 3, "forever"),
        ("[[turn]]\ntext = \"x\"\nrepeat = -1\n", 3, "below 1"),
        ("[[turn]]\ntext = \"x\"\nchunk = 0\n", 3, "nonzero"),
        ("[[turn]]\ntext = \"x\"\nwhen = { last = \"(\" }\n", 3, "not a valid pattern"),
        ("[[turn]]\ntext = \"x\"\nwhen = { agent = \"boss\" }\n", 3, "`main`"),
        ("[[turn]]\ntext = \"x\"\nheaders = { \"a b\" = \"c\" }\n", 1, "cannot be set"),
        ("[[turn]]\ntext_json = 'half'\n", 2, "not a JSON string"),
        ("[[turn]]\ntext = \"x\"\n[[turn.fault]]\nkind = \"error\"\n", 3, "needs its status"),
        ("[[turn]]\ntext = \"x\"\n[[turn.fault]]\nkind = \"error\"\nstatus = 200\n", 3, "not an error"),
        ("[[turn]]\ntext = \"x\"\n[[turn.fault]]\nkind = \"cut\"\nstatus = 500\n", 3, "belong to kind"),
        ("[[turn]]\ntext = \"x\"\n[[turn.fault]]\nkind = \"explode\"\n", 4, "`explode`"),
        ("[[turn]]\ntext = \"x\"\ncontent = [{ text = \"y\" }]\n", 1, "not both"),
        ("[[turn]]\ncontent = [{ text = \"x\", thinking = \"y\" }]\n", 2, "one of"),
        ("[[turn]]\ncontent = [{ raw = '{' }]\n", 2, "not JSON"),
        ("[[turn]]\ntext = \"unclosed\n", 2, ""),
        ("[[turn]]\ntext = \"x\"\ntext_json = '\"y\"'\n", 1, "exclude each other"),
        ("[[turn]]\ntext = \"x\"\nheaders = { content-length = \"1\" }\n", 1, "cannot be set"),
        ("[[turn]]\ntext = \"x\"\n[[turn.fault]]\nkind = \"error\"\nstatus = 500\nretry_after = -1\n", 3, "seconds"),
        ("[expect]\nrequest = 3\n", 2, "`request`"),
    ];
    for (text, line, reason) in cases {
        let error = Scenario::parse(text).expect_err(text);
        assert_eq!(error.line, line, "{text}: {error}");
        assert!(error.reason.contains(reason), "{text}: {error}");
        assert!(!error.reason.contains('\n'), "{error}");
    }
    let error = Scenario::parse("{\n \"turn\": [\n  { \"txt\": \"x\" }\n ]\n}").unwrap_err();
    assert_eq!(error.line, 3);
    assert!(error.reason.contains("unknown field `txt`") && !error.reason.contains(" at line"), "{error}");
}

#[test]
fn a_home_of_somebodys_is_not_written_over() {
    let home = TempFolder::new();
    home.write(".codex/config.toml", "model = \"mine\"\n");
    let options = || tapline_sim::SimOptions { home: Some(home.to_owned()), ..tapline_sim::SimOptions::default() };
    let error = Sim::start_with(Scenario::default(), options()).unwrap_err().to_string();
    assert!(error.contains("config.toml") && error.contains("another folder"), "{error}");
    assert_eq!(std::fs::read_to_string(home.join(".codex/config.toml")).unwrap(), "model = \"mine\"\n");
    // One of its own is, and stays.
    std::fs::remove_file(home.join(".codex/config.toml")).unwrap();
    for _ in 0..2 {
        drop(Sim::start_with(Scenario::default(), options()).unwrap());
    }
    assert!(home.join(".codex/config.toml").is_file());
}

#[test]
fn json_says_the_same() {
    let json = r#"{ "model": "m", "turns": [{ "text": "x", "repeat": 2, "when": { "count": 1 }, "fault": [{ "kind": "cut", "after": 3, "times": "forever" }] }] }"#;
    let toml = "model = \"m\"\n[[turn]]\ntext = \"x\"\nrepeat = 2\nwhen = { count = 1 }\nfault = [{ kind = \"cut\", after = 3, times = \"forever\" }]\n";
    assert_eq!(format!("{:?}", Scenario::parse(json).unwrap()), format!("{:?}", Scenario::parse(toml).unwrap()));
}

#[test]
fn a_port_in_use_is_said() {
    let first = Sim::start("turn = [{ text = \"x\" }]").unwrap();
    let options = tapline_sim::SimOptions { listen: first.address(), ..tapline_sim::SimOptions::default() };
    let error = Sim::start_with(Scenario::default(), options).unwrap_err();
    let cause = std::error::Error::source(&error).unwrap().to_string();
    assert!(error.to_string().contains(&first.address().to_string()) && cause.contains("in use"), "{error}: {cause}");
}
