//! Secrets are taken out of text, lines and streams; everything else stays. Keys are put together here from pieces, so that
//! no scanner takes this file for a leak.

use proptest::prelude::*;
use tapline_protocol::Reader;
use tapline_recording::{REDACTED, Redactor, SHAPES};

/// A key as Anthropic makes them.
fn key() -> String {
    ["sk-", "ant-", "api03-", "Zx9_", "qW3e-", "R5tYuI7oP"].concat()
}

/// A character as JSON escapes it.
fn unit(code: u32) -> String {
    format!("\\u{code:04x}")
}

fn text(text: &str) -> String {
    Redactor::default().text(text).into_owned()
}

fn line(line: &str) -> String {
    String::from_utf8(Redactor::default().line(line.as_bytes()).into_owned()).unwrap()
}

fn stream(lines: &str) -> String {
    let mut redactor = Redactor::default().stream();
    let mut out = Vec::new();
    for line in lines.split_inclusive('\n') {
        redactor.line(line.as_bytes().to_vec(), |line| out.extend(line));
    }
    redactor.finish(|line| out.extend(line));
    String::from_utf8(out).unwrap()
}

#[test]
fn keys_behind_line_ends_and_tabs_in_json() {
    for before in
        ["\\n", "\\t", "\\r\\n", "\\u000a", "\\u0009", "x\\n", "KEY=", "\\\"", "\\\\n", "\\/", "(", "é", "日", "\\ud83d"]
    {
        for behind in ["", "\\n", "\\t", " ", ".", ",", "\\\"", "\\u000a", "é", ")", "\\\\n"] {
            let json = format!("{{\"a\":\"{before}{}{behind}\",\"b\":[1,2.50,null]}}\n", key());
            let expected = format!("{{\"a\":\"{before}{REDACTED}{behind}\",\"b\":[1,2.50,null]}}\n");
            assert_eq!(line(&json), expected);
        }
    }
}

#[test]
fn keys_that_are_escaped_letter_by_letter() {
    let escaped: String = key().chars().map(|c| unit(u32::from(c))).collect::<Vec<_>>().concat();
    assert_eq!(line(&format!("{{\"a\":\"x {escaped} y\"}}")), format!("{{\"a\":\"x {REDACTED} y\"}}"));
    // In JSON within a string, at any depth: only the key goes, and each layer stays JSON.
    let mut nested = format!("{{\"k\":\"{escaped}\",\"n\":1}}");
    for depth in 1..6 {
        nested = serde_json::to_string(&serde_json::json!({ "text": nested })).unwrap();
        let clean = line(&nested);
        let mut inner = clean.clone();
        for _ in 0..depth {
            let value: serde_json::Value = serde_json::from_str(&inner).unwrap();
            inner = value["text"].as_str().unwrap().to_owned();
        }
        assert_eq!(inner, format!("{{\"k\":\"{REDACTED}\",\"n\":1}}"), "{depth}");
    }
}

#[test]
fn under_a_secrets_name_the_whole_string_goes_and_json_stays_json() {
    let same = [
        r#"{"password":null,"token":5,"secret":"","api_key":true}"#,
        r#"{"properties":{"password":{"type":"string","description":"your password"}},"required":["password"]}"#,
        r#"{"type":"object","properties":{"api_key":{"type":["string","null"]}}}"#,
        r#"{"password":"${DB_PASSWORD}","token":"$TOKEN","api_key":"<your-key>","secret":"***"}"#,
        r#"{"input_tokens":5,"token_count":"12345","max_tokens":"100","apiKeySource":"none","public_key":"abcdef12345"}"#,
        r#"{"next_page_token":"CAUQAA1234","eos_token":"</s>","primary_key":"id","cache_key":"a:b:c"}"#,
    ];
    for json in same {
        assert_eq!(line(json), json);
    }
    for name in [
        "password",
        "DB_PASSWORD",
        "dbPassword",
        "GITHUB_TOKEN",
        "access_token",
        "client_secret",
        "api-key",
        "apiKey",
        "OPENAI_KEY",
        "token",
        "pass\\u0077ord",
    ] {
        let json = format!(r#"{{"{name}":"two words, 'more' \\ \" \n","n":1}}"#);
        assert_eq!(line(&json), format!(r#"{{"{name}":"{REDACTED}","n":1}}"#));
    }
    assert_eq!(line(r#"{"passwords":["one","two",3],"x":"one"}"#), r#"{"passwords":["[redacted]","[redacted]",3],"x":"one"}"#);
    assert_eq!(line(r#"{"password":{"value":"x","api_key":"abc"}}"#), r#"{"password":{"value":"x","api_key":"[redacted]"}}"#);
}

#[test]
fn keys_count_that_are_keys_of_objects() {
    assert_eq!(line(&format!("{{\"{}\":1}}", key())), format!("{{\"{REDACTED}\":1}}"));
}

#[test]
fn values_behind_names_go_to_their_real_end() {
    let hidden = [
        ("export GITHUB_TOKEN=§ && ls", "abc,def'gh\\ij"),
        ("A=1 MY_SECRET=§\nB=2", "x;y|z"),
        ("STRIPE_KEY=\"§\" run", "with blanks, and 'quotes'"),
        ("db_password: §\nnext: 1", "hunter2"),
        ("password = \"§\"", "it's \\\" this"),
        ("password = '§' # why", "a\"b"),
        ("  api_key: '§'", "abc def"),
        ("const apiKey = `§`;", "abc-def"),
        ("\"client_secret\" : \"§\",", "q"),
        ("{'password': '§', 'a': 1}", "p,w"),
        ("x-api-key: §\r\nhost: a", "abcdef"),
        ("mysql --password §", "hunter2"),
        ("mysql --password=§ db", "hunter2"),
        ("tool --api-key '§' x", "a b"),
        ("machine github.com login me password §", "hunter"),
        ("machine github.com\n  login me\n  password §\nmachine b", "hunter"),
        ("https://me:§@example.com/path?x=1", "pa:ss"),
        ("postgres://u:§@h:5432/db", "p/w"),
        ("redis://:§@h:6379", "pw"),
        ("curl -u me:§ https://a", "pass"),
        ("curl --user 'me:§' https://a", "pa ss"),
        ("Authorization: Bearer §", "abc.def"),
        ("-H \"Authorization: token §\" -v", "abc"),
        ("authorization: Basic §\nx", "dXNlcjpw"),
        ("Cookie: §\nx: y", "sid=abc; theme=dark"),
        ("Set-Cookie: §", "sid=abc; Path=/; HttpOnly"),
        ("curl -H 'Cookie: §' x", "a=b"),
        ("Bearer § ok", "abcdef1234567890abcd"),
        ("AccountName=a;AccountKey=§;EndpointSuffix=core", "abc+/def=="),
        ("https://a.blob.core.windows.net/c?sv=1&sig=§&se=2", "abcdefgh%2Bijklmnop%3D"),
        ("<password>§</password>", "a b"),
        ("<add key=\"ClearTextPassword\" value=\"§\" />", "a b"),
        ("//registry.example.com/:_authToken=§\n", "abc-def"),
        ("Server=a;Password=§;Database=b", "p,w"),
        ("user=a,password=§,host=b", "pw"),
        ("?a=1&access_token=§&b=2", "abcdef"),
        ("os.environ['DB_PASSWORD'] = '§'", "x"),
        ("password: \"§\"", "correct horse"),
        ("PGPASSWORD=§ psql", "hunter2"),
        ("DB_PASS=§\n", "x(y)z"),
        ("aws_secret_access_key = §\n", "wJalr/XUtn+abc"),
        ("PASSWORD_PROD=§\n", "x1"),
    ];
    for (around, secret) in hidden {
        let (whole, clean) = (around.replace('§', secret), around.replace('§', REDACTED));
        assert_eq!(text(&whole), clean, "{whole}");
        // The same in a string of JSON, and in JSON within that.
        let json = serde_json::json!({ "out": whole }).to_string();
        assert_eq!(line(&json), serde_json::json!({ "out": clean }).to_string());
        let nested = serde_json::json!({ "out": json }).to_string();
        assert_eq!(line(&nested), serde_json::json!({ "out": serde_json::json!({ "out": clean }).to_string() }).to_string());
    }
}

#[test]
fn ordinary_text_stays() {
    let hash = "0123456789abcdef0123456789abcdef01234567";
    let same = [
        "123e4567-e89b-12d3-a456-426614174000",
        hash,
        "toolu_01AbCdEfGhIjKlMnOpQrStUv msg_01AbCdEfGhIjKlMnOpQrStUv call_AbCdEfGhIjKlMnOpQrStUvWx",
        "tokens: 5, max_tokens=100, input_tokens: 1234567, token: 5, token_count=12345678",
        "the password is required; a password must have 8 characters",
        "password: must be at least 8 characters long",
        "key: value, keys=3, monkey=banana1234, keyboard: qwerty12, tokenizer=cl100k_base",
        "SSH_PUBLIC_KEY=abcdef123456 PRIMARY_KEY=id PWD=/home/me OLDPWD=/tmp",
        "let token = next_token(&mut lexer);\nlet password: String = args.password;",
        "fn login(password: &str, token: Option<String>) -> Result<(), Error>",
        "def f(password=None, api_key=os.environ[\"API_KEY\"], token=token, secret=self.secret):",
        "password=$PASSWORD TOKEN=${TOKEN} API_KEY=$(cat key) SECRET=<your-secret> PASSWORD=*** TOKEN=xxxx",
        "use the --password flag, or --token to log in",
        "Authorization: the process of deciding",
        "bearer tokens are sent; Basic auth is not",
        "http://localhost:8080/path@x git@github.com:a/b.git ssh://git@host:22/x mailto:a@b.c https://a.b/c:d@e",
        "-----BEGIN PUBLIC KEY-----\nabc\n-----END PUBLIC KEY-----",
        "-----BEGIN CERTIFICATE-----\nabc\n-----END CERTIFICATE-----",
        "risk-averse task-and-more-and-more-and-more sk-short eyJ 日本語 password",
        "passed=12 author=me tests pass: 5 secretary: Jane cookie: yes",
        "npm_config_cache npm_lifecycle_event hf_hub re_match pat_tern sk_test_mode key-value",
        "docker run -u 1000:1000 image; git push -u origin main:main",
        "crates/tapline-recording/src/redact/token.rs: 12: token",
        "PASSWORD_FILE=/run/secrets/db password_reset_url=https://a/b secretKeyRef: x private_key_id=abc123",
        "if password == \"\" { } password != other; token::Kind; KEY_ENTER=13",
        "C:\\new\\token\\x the \\n escape \\u",
        "",
        "\u{feff}",
    ];
    for same in same {
        assert_eq!(text(same), same);
        let json = serde_json::json!({ "out": same, "list": [same] }).to_string();
        assert_eq!(line(&json), json);
        assert_eq!(line(&serde_json::json!(json).to_string()), serde_json::json!(json).to_string());
    }
}

#[test]
fn private_keys_closed_and_unclosed() {
    let body = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj\nMzEfYyjiWA4R4/M2bS1GB4t7NXp98C3SC6dVMvDuictGeurT8jNbvJZHtCSuYEvu\nNMoSfm76oqFvAp8=";
    for kind in ["", "RSA ", "EC ", "OPENSSH ", "ENCRYPTED ", "PGP "] {
        let block = if kind == "PGP " { " BLOCK" } else { "" };
        let closed = format!("-----BEGIN {kind}PRIVATE KEY{block}-----\n{body}\n-----END {kind}PRIVATE KEY{block}-----");
        let unclosed = format!("-----BEGIN {kind}PRIVATE KEY{block}-----\n{body}");
        let numbered: String =
            closed.lines().enumerate().map(|(at, line)| format!("{:>6}\t{line}\n", at + 1)).collect::<Vec<_>>().concat();
        for key in [&closed, &unclosed, &closed.replace('\n', "\r\n"), &closed.replace('\n', "\\n"), &numbered] {
            let clean = text(&format!("a {key}\n\nand then"));
            assert!(!clean.contains("MIIE") && !clean.contains("NMoS") && !clean.contains("MzEf"), "{clean}");
            assert!(clean.starts_with("a ") && clean.ends_with("\n\nand then"), "{clean}");
            let json = serde_json::json!({ "out": format!("a {key}\n{{\"x\":1}}"), "b": 1 }).to_string();
            let clean: serde_json::Value = serde_json::from_str(&line(&json)).unwrap();
            assert!(clean["out"].as_str().unwrap().ends_with("\n{\"x\":1}") && clean["b"] == 1, "{clean}");
            assert!(!clean.to_string().contains("MzEf"), "{clean}");
        }
        // Line by line: as many lines as before, and what is no key stays.
        for key in [&closed, &unclosed] {
            let lines = format!("before\n{key}\n{{\"type\":\"result\"}}\nafter\n");
            let clean = stream(&lines);
            assert_eq!(clean.lines().count(), lines.lines().count());
            assert!(!clean.contains("MzEf") && !clean.contains("NMoS"), "{clean}");
            assert!(clean.starts_with("before\n") && clean.ends_with("\n{\"type\":\"result\"}\nafter\n"), "{clean}");
        }
    }
}

#[test]
fn an_unclosed_key_does_not_swallow_the_result() {
    let lines = "{\"type\":\"assistant\",\"message\":{\"content\":[{\"type\":\"text\",\"text\":\"-----BEGIN RSA PRIVATE KEY-----\"}]}}\n{\"type\":\"result\",\"subtype\":\"success\",\"result\":\"ok\"}\n";
    let clean = stream(lines);
    let records: Vec<_> = Reader::new(clean.as_bytes()).map(Result::unwrap).collect();
    assert!(records[1].event.as_result().is_some(), "{clean}");
}

#[test]
fn lines_that_are_no_json_and_no_text() {
    let broken = format!("{{\"a\":\"{} \\u0073k-{}\"", key(), &key()[3..]);
    let clean = line(&broken);
    assert_eq!(clean, format!("{{\"a\":\"{REDACTED} {REDACTED}\""));
    let mut bytes = b"\xff{\"password\":\"a\xfe".to_vec();
    bytes.extend(b"b\",\"n\":1} \xff ");
    bytes.extend(key().bytes());
    bytes.extend(b" \xfd\r\n");
    let mut expected = b"\xff{\"password\":\"[redacted]\",\"n\":1} \xff ".to_vec();
    expected.extend(b"[redacted] \xfd\r\n");
    assert_eq!(*Redactor::default().line(&bytes), *expected);
}

#[test]
fn what_a_user_adds() {
    let patterns = ["corp-[0-9]{6}".to_owned(), "pin ([0-9]{4})".to_owned()];
    let redactor =
        Redactor::with(&patterns, ["s3same open".to_owned(), "short".to_owned(), "first line\nsecond line\n".to_owned()])
            .unwrap();
    assert_eq!(redactor.text("id corp-123456, pin 1234, short"), "id [redacted], pin [redacted], short");
    assert_eq!(redactor.text("xs3same openx; second line"), "x[redacted]x; [redacted]");
    assert_eq!(*redactor.line(br#"{"a":"s3same\u0020open"}"#), *br#"{"a":"[redacted]"}"#);
    let error = Redactor::with(&["(".to_owned()], []).unwrap_err();
    assert_eq!((error.index, error.pattern.as_str()), (0, "("));
}

#[test]
fn arguments() {
    let redactor = Redactor::default();
    let args = |args: &[&str]| redactor.args(args.iter().copied()).join(" ");
    for flag in [
        "--auth",
        "--apikey",
        "--api-key",
        "--pass",
        "--password",
        "--token",
        "--secret",
        "--key",
        "-password",
        "--authorization",
        "--db-password",
    ] {
        assert_eq!(args(&[flag, "X y", "-p"]), format!("{flag} {REDACTED} -p"));
        assert_eq!(args(&[&format!("{flag}=X y"), "-p"]), format!("{flag}={REDACTED} -p"));
    }
    assert_eq!(
        args(&[
            "--mcp-config",
            r#"{"mcpServers":{"a":{"env":{"API_KEY":"x","B":"y"},"headers":{"Authorization":"Bearer z"}}}}"#
        ]),
        r#"--mcp-config {"mcpServers":{"a":{"env":{"API_KEY":"[redacted]","B":"y"},"headers":{"Authorization":"[redacted]"}}}}"#
    );
    assert_eq!(
        args(&["--header", "X-Api-Key: abc", "https://u:p@h/x"]),
        "--header X-Api-Key: [redacted] https://u:[redacted]@h/x"
    );
    assert_eq!(
        args(&["-c", "API_TOKEN=abc", "--max-tokens", "5", "--allowed-tools", "Read"]),
        "-c API_TOKEN=[redacted] --max-tokens 5 --allowed-tools Read"
    );
    assert_eq!(args(&["--token", "$TOKEN", "--token", "--verbose"]), "--token $TOKEN --token --verbose");
}

/// A delta of a block, as the agent writes it.
fn delta(parent: &str, index: usize, field: &str, text: &str) -> String {
    let kind = match field {
        "text" => "text_delta",
        "thinking" => "thinking_delta",
        _ => "input_json_delta",
    };
    let parent = if parent.is_empty() { serde_json::Value::Null } else { parent.into() };
    let event = serde_json::json!({ "type": "content_block_delta", "index": index, "delta": { "type": kind, field: text } });
    serde_json::json!({ "type": "stream_event", "event": event, "parent_tool_use_id": parent, "uuid": "u" }).to_string() + "\n"
}

/// The texts of a block's deltas, joined.
fn joined(lines: &str, parent: &str, index: usize, field: &str) -> String {
    let texts = lines.lines().filter_map(|line| {
        let value: serde_json::Value = serde_json::from_str(line).unwrap();
        let ours = value["parent_tool_use_id"].as_str().unwrap_or_default() == parent && value["event"]["index"] == index;
        let text = value["event"]["delta"][field].as_str()?.to_owned();
        ours.then_some(text)
    });
    texts.collect()
}

#[test]
fn keys_that_are_split_over_partial_messages() {
    let said = format!("Here: {} and PASSWORD=hunter2 done.\nMore.", key());
    let clean = text(&said);
    assert!(!clean.contains("hunter2") && !clean.contains("R5tYu"));
    for size in 1..30 {
        let letters: Vec<char> = said.chars().collect();
        for field in ["text", "thinking"] {
            let lines: String =
                letters.chunks(size).map(|piece| delta("", 0, field, &piece.iter().collect::<String>())).collect();
            let out = stream(&lines);
            assert_eq!(joined(&out, "", 0, field), clean, "pieces of {size}");
            assert_eq!(out.lines().count(), lines.lines().count());
        }
    }
}

#[test]
fn names_count_in_the_pieces_of_a_tools_input() {
    let input = serde_json::json!({ "command": format!("curl -H 'X-Api-Key: abc-{}'", 1), "env": { "DB_PASSWORD": "two \"words\"", "n": 5 } }).to_string();
    for size in 1..40 {
        let letters: Vec<char> = input.chars().collect();
        let lines: String =
            letters.chunks(size).map(|piece| delta("t", 1, "partial_json", &piece.iter().collect::<String>())).collect();
        let joined = joined(&stream(&lines), "t", 1, "partial_json");
        let value: serde_json::Value = serde_json::from_str(&joined).unwrap_or_else(|error| panic!("{error}: {joined}"));
        assert_eq!(value["env"], serde_json::json!({ "DB_PASSWORD": REDACTED, "n": 5 }), "pieces of {size}");
        assert!(!joined.contains("words") && !joined.contains("abc-1"), "{joined}");
    }
}

#[test]
fn blocks_and_sub_agents_may_interleave() {
    let key = key();
    let (a, b) = key.split_at(9);
    let lines = [
        delta("", 0, "text", &format!("one {a}")),
        delta("sub", 0, "text", "hello s"),
        "{\"type\":\"system\",\"subtype\":\"status\"}\n".to_owned(),
        delta("sub", 0, "text", "ub"),
        delta("", 0, "text", &format!("{b} two")),
        "{\"type\":\"stream_event\",\"event\":{\"type\":\"content_block_stop\",\"index\":0},\"parent_tool_use_id\":null}\n"
            .to_owned(),
    ];
    let out = stream(&lines.concat());
    assert_eq!(joined(&out, "", 0, "text"), format!("one {REDACTED} two"));
    assert_eq!(joined(&out, "sub", 0, "text"), "hello sub");
    let kinds = |text: &str| text.lines().map(|line| line.contains("stream_event")).collect::<Vec<_>>();
    assert_eq!(kinds(&out), kinds(&lines.concat()), "the order stays");
}

#[test]
fn a_line_waits_only_while_it_could_begin_a_secret() {
    let mut redactor = Redactor::default().stream();
    let mut given = |line: String| {
        let mut count = 0;
        redactor.line(line.into_bytes(), |_| count += 1);
        count
    };
    assert_eq!(given(delta("", 0, "text", "Let me look at the ")), 1);
    assert_eq!(given(delta("", 0, "text", "file")), 1, "no secret begins so");
    assert_eq!(given(delta("", 0, "text", " sk-ant-")), 0);
    assert_eq!(given("{\"type\":\"system\"}\n".to_owned()), 0, "the order stays");
    assert_eq!(given(delta("", 0, "text", "x is a prefix. ")), 3);
    assert_eq!(given(delta("", 0, "text", "sk-ant-")), 0);
    let stop = "{\"type\":\"stream_event\",\"event\":{\"type\":\"content_block_stop\",\"index\":0}}\n";
    assert_eq!(given(stop.to_owned()), 2, "the block has ended");
}

#[test]
fn what_never_ends_is_not_waited_for() {
    let mut redactor = Redactor::default().stream();
    let (mut out, mut most, mut given) = (Vec::new(), 0, 0);
    for _ in 0..40_000 {
        redactor.line(delta("", 0, "text", "PASSWORD=abc").into_bytes(), |line| out.push(line));
        given += 1;
        most = most.max(given - out.len());
    }
    redactor.finish(|line| out.push(line));
    assert_eq!(out.len(), given);
    assert!(most <= 16 << 10, "{most} lines waited");
    let out = String::from_utf8(out.concat()).unwrap();
    assert!(!joined(&out, "", 0, "text")[12..].contains("abc"));
}

#[test]
fn whole_messages_of_the_real_programs_stay_as_they_are() {
    let fixtures = tapline_testkit::fixtures();
    let mut count = 0;
    for folder in ["claude-2.1.325", "claude-2.0.76", "claude-1.0.128", "codex-0.166.0"] {
        let Ok(files) = std::fs::read_dir(fixtures.join(folder)) else { continue };
        for file in files.map(|file| file.unwrap().path()) {
            let Ok(lines) = std::fs::read_to_string(&file) else { continue };
            assert_eq!(stream(&lines), lines, "{}", file.display());
            count += 1;
        }
    }
    assert!(count > 10, "the fixtures are there");
}

/// Any key of the table.
fn any_key() -> impl Strategy<Value = String> {
    let all: Vec<String> =
        SHAPES.iter().flat_map(|shape| shape.starts.iter().map(|start| shape.example(start, false))).collect();
    proptest::sample::select(all)
}

/// A string of JSON, written in any of the ways there are.
fn escaped(text: &str, ways: &[u8]) -> String {
    let mut out = String::from("\"");
    for (at, c) in text.chars().enumerate() {
        match (ways[at % ways.len()] % 4, c) {
            (0, c) => c.encode_utf16(&mut [0; 2]).iter().for_each(|code| out += &unit(u32::from(*code))),
            (1, '/') => out += "\\/",
            (_, '"' | '\\') => out.extend(['\\', c]),
            (_, '\n') => out += "\\n",
            (_, '\t') => out += "\\t",
            (_, c) if c < ' ' => out += &unit(u32::from(c)),
            (_, c) => out.push(c),
        }
    }
    out + "\""
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    /// A planted key is gone, in whatever escape and at whatever depth it stood, and the rest is there unchanged.
    #[test]
    fn a_planted_key_is_gone_and_the_rest_unchanged(
        before in "[ -~\\n\\té日]{0,20}[ \\n\\t(]", behind in "[ \\n\\t)][ -~\\n\\té日]{0,20}", key in any_key(),
        ways in proptest::collection::vec(any::<u8>(), 1..9), depth in 0..3usize,
    ) {
        // What stands around it must be no secret itself, and not make one with the mark.
        let plain = format!("{before}{REDACTED}{behind}");
        prop_assume!(text(&plain) == plain);
        let mut json = format!("{{\"a\":{},\"n\":[1,null]}}", escaped(&format!("{before}{key}{behind}"), &ways));
        for _ in 0..depth {
            json = format!("{{\"t\":{}}}", escaped(&json, &ways));
        }
        let clean = line(&json);
        prop_assert_eq!(clean.lines().count(), json.lines().count());
        let mut inner = clean;
        for _ in 0..depth {
            let value: serde_json::Value = serde_json::from_str(&inner).unwrap();
            inner = value["t"].as_str().unwrap().to_owned();
        }
        let value: serde_json::Value = serde_json::from_str(&inner).unwrap();
        prop_assert_eq!(value["a"].as_str().unwrap(), &plain);
        prop_assert_eq!(&value["n"], &serde_json::json!([1, null]));
    }

    /// Cut into pieces of any size, a planted key is gone as well.
    #[test]
    fn a_planted_key_is_gone_from_pieces(
        before in "[a-z =:\\n]{0,30} ", behind in "( [a-z =:\\n]{0,30})?", key in any_key(),
        cuts in proptest::collection::vec(1..12usize, 1..6),
    ) {
        let said = format!("{before}{key}{behind}");
        let mut letters = said.chars();
        let mut lines = String::new();
        for size in cuts.iter().cycle() {
            let piece: String = letters.by_ref().take(*size).collect();
            if piece.is_empty() {
                break;
            }
            lines += &delta("", 3, "text", &piece);
        }
        let out = stream(&lines);
        let said = joined(&out, "", 3, "text");
        prop_assert!(!said.contains(&key), "{}", said);
        prop_assert_eq!(out.lines().count(), lines.lines().count());
    }

    /// Whatever comes in, nothing breaks, and what is clean stays as it is.
    #[test]
    fn anything_goes_through(text in "\\PC{0,200}", bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let redactor = Redactor::default();
        let once = redactor.text(&text).into_owned();
        prop_assert_eq!(redactor.text(&once), once.as_str());
        let line = redactor.line(&bytes);
        prop_assert_eq!(lines_in(&line), lines_in(&bytes));
        redactor.stream().line(bytes.clone(), |_| {});
    }
}

fn lines_in(bytes: &[u8]) -> usize {
    bytes.split(|byte| *byte == b'\n').count()
}
