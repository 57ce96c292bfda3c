//! What a reading by others found: secrets that were missed or cut short, and ordinary output that was destroyed.

use tapline_recording::{REDACTED, Redactor};

fn stream(lines: &str) -> String {
    let mut pieces = Redactor::default().pieces();
    let mut out = pieces.push(lines.as_bytes());
    out.extend(pieces.finish());
    String::from_utf8(out).unwrap()
}

/// Looks at a text as it is, in a string of JSON, and behind others in a stream.
fn assert_redacted(whole: &str, clean: &str) {
    let redactor = Redactor::default();
    assert_eq!(redactor.text(whole), clean);
    let json = serde_json::json!({ "out": whole, "n": 1 }).to_string();
    let line = redactor.line(json.as_bytes());
    assert_eq!(String::from_utf8_lossy(&line), serde_json::json!({ "out": clean, "n": 1 }).to_string());
}

#[test]
fn secrets_go_to_their_real_end_whatever_they_are_made_of() {
    // `§` stands around what is to be hidden.
    let hidden = [
        // Nothing but digits.
        "SECRET_KEY=§1234567890§",
        "PIN_TOKEN=§123456789012§ make",
        "api_key: §1234567890§\n",
        "export DB_PASS=§123456§",
        // What a variable is if it is not set.
        "PASSWORD=${X:-§hunter2§}",
        "PASSWORD=\"${X:-§hunter two§}\" run",
        "POSTGRES_PASSWORD: ${POSTGRES_PASSWORD:-§postgres§}\nPOSTGRES_DB: a",
        "  password: ${DB_PASSWORD:§hunter2§}\n",
        "TOKEN=${A:-${B-§abc-def§}} run",
        "url: https://x/${API_TOKEN:-§abc-def§}/y",
        "export API_KEY=${API_KEY:='§abc def§'}\n",
        // Several words.
        "password: §correct horse battery staple§",
        "db:\n  - password: §correct horse battery staple§ # xkcd\n    user: me",
        "passphrase: §Correct Horse Battery Staple§\nnext: 1",
        "password: §s3cret blue pony§\n",
        // Brackets.
        "password: §ab[cd]ef12§",
        "password: §ab(cd)ef12§\nuser: a",
        "password = §p@ss(word)1§\n",
        "db_password: §x{y}z9§",
        // Signs in an address.
        "https://user:§pa?ss§@host/x",
        "https://user:§pa#ss§@host",
        "postgres://user:§p?a#s/s§@host:5432/db?x=1",
        // Quotes within.
        "DB_PASSWORD='§it''s a secret 42§'",
        "DB_PASSWORD='§it'\\''s a secret 42§' run",
        "password: '§a!''b''c§'\nuser: 'me'",
        "VALUES (password='§a''b§', user='me')",
        "log('password = \\'§a b§\\'');",
    ];
    for marked in hidden {
        let mut parts = marked.split('§');
        let (before, secret, behind) = (parts.next().unwrap(), parts.next().unwrap(), parts.next().unwrap());
        assert_redacted(&format!("{before}{secret}{behind}"), &format!("{before}{REDACTED}{behind}"));
    }
}

#[test]
fn what_is_likely_a_secret_behind_a_colon() {
    for token in ["a8Kd93jfLq02Zx7Wm4Tn", "9f86d081884c7d659a2feaa0c55ad015", "123e4567-e89b-12d3-a456-426614174000"] {
        assert_redacted(&format!("token: {token}\nauth: {token}\n"), &format!("token: {REDACTED}\nauth: {REDACTED}\n"));
    }
}

#[test]
fn ordinary_output_is_not_destroyed() {
    let same = [
        // Tests of Go, automake, DejaGnu, and what parsers print.
        "--- PASS: TestParse2JSON (0.00s)\n--- PASS: TestUTF8ToUTF16Conversion (0.01s)\nPASS: TestHTTP2Server\n",
        "    --- PASS: TestServer/GET_/v1/users2 (0.00s)\nPASS: gdb.base/break-on-2nd.exp: run until 2nd\n",
        "PASS: test-utf8-to-utf16.sh\nPASS: tests/cp/link-no-deref2\nXPASS: a1b2",
        "Auth: OAuth2Client\nToken: StringLiteral2\ntoken: Identifier3 at 4:5\nauth: HTTPBasic2\n",
        "fetch(url, { method: 'POST', credentials: 'include' }); credentials: \"same-origin\", credentials: 'omit'",
        // Sentences, and what forms and programs say of passwords.
        "password: must be at least 8 characters long\nPassword: too short\npassword: this field is required",
        "Password: Name of the database user\nPassword: incorrect, try again",
        "password: at most 3 attempts remain today\npassword: wrong password for user root",
        // Numbers that are none.
        "total_token: 12345678 PROMPT_TOKEN=1234567890 CACHE_KEY=1234567890 SECRET_KEY=5 API_KEY=1.2.3.4",
        "{\"token\": 1234567890, \"api_key\": 12345678901}",
        // Variables.
        "PASSWORD=${X:-} TOKEN=${X:?must be set} SECRET=${X:+set} API_KEY=${X:-$Y} TOKEN=${1:-$2} PASSWORD=${X:-$(cat f)}",
        "token: ${TOKEN:0:4}... password: ${db.password} api_key: ${input:api-key} secret: ${{ secrets.X }}",
        "PASSWORD=${X:-${Y:-}} SECRET=${A}${B} TOKEN=${X%y}",
        // Programs.
        "password: args[1]\npassword: config[\"db\"].password\npassword = get(1)\nsecret: load(path).trim()\n",
        "x.replace('password=','') + 'abc'; password='' + ''; {'password': '', 'x': ''}",
        "http://host:8080?mail=a@b.c http://host/?x=a:b@c http://host:80#a@b",
    ];
    for same in same {
        assert_redacted(same, same);
        assert_eq!(stream(same), same);
    }
}

#[test]
fn lines_behind_the_mention_of_a_private_key_stay() {
    let begin = "-----BEGIN RSA PRIVATE KEY-----";
    for mention in [begin.to_owned(), format!("looking for {begin} in files"), format!("grep: '{begin}'")] {
        let behind = "Building\nDone\nsuccess\n\nok: 1\nTests passed\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7\n";
        let clean = stream(&format!("{mention}\n{behind}"));
        assert_eq!(clean, format!("{}\n{behind}", mention.replace(begin, REDACTED)));
        let text = format!("{mention}\n{behind}");
        assert_eq!(Redactor::default().text(&text), text.replace(begin, REDACTED));
    }
}

#[test]
fn a_key_that_was_cut_off_is_hidden_as_far_as_it_goes() {
    let line = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj";
    let begin = "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,0A1B\n\n";
    for length in 16..line.len() {
        let cut = &line[..length];
        let clean = stream(&format!("{begin}{cut}\nBuilding now\n"));
        assert!(!clean.contains(cut) && clean.ends_with("\nBuilding now\n"), "{clean}");
        let clean = stream(&format!("{begin}{line}\n{cut}\nBuilding\nDone\n"));
        assert!(!clean.contains(cut) && clean.ends_with("\nBuilding\nDone\n"), "{clean}");
    }
}

#[test]
fn nesting_without_end_needs_no_stack() {
    const LEVELS: usize = 100_000;
    let around = |open: &str, close: &str| format!("{}hunter2{}", open.repeat(LEVELS), close.repeat(LEVELS));
    let texts = [
        format!("\"password\": {}", around("{\"value\":", "}")),
        format!("\"password\": {}", around("[{\"value\":", "}]")),
        format!("password: {}", around("{value: ", "}")),
        around("${A:- ", "}"),
        around("${A:-'\" ", "\"'}"),
        format!("PASSWORD={}", around("${A:- ", "}")),
        format!("PASSWORD=\"{}", around("${A:- ", "}")),
        around("\u{1b}[", "m"),
        format!("\"password\": {}", around("[", "]")),
        format!("kind: Secret\ndata: {}", around("{a: ", "}")),
    ];
    let work = move || {
        let redactor = Redactor::default();
        for text in texts {
            redactor.text(&text);
            for json in [serde_json::json!({ "password": text }), serde_json::json!({ "out": [text, "password"] })] {
                redactor.line(json.to_string().as_bytes());
            }
            stream(&text);
        }
    };
    std::thread::Builder::new().stack_size(256 << 10).spawn(work).unwrap().join().unwrap();
}

#[test]
fn a_value_behind_another_that_is_missing_is_hidden() {
    let secret = ["Zx8Q2m", "Lw9Rt4Kp7Vb"].concat();
    for sign in ["||", " || ", "|| ", " ||", "??", " ?? ", " or "] {
        let code = format!("password = process.env.PASSWORD{sign}'§'");
        assert_redacted(&code.replace('§', &secret), &code.replace('§', REDACTED));
    }
    for nested in ["${A:- ${B:-§}}", "${A:-\"${B:-§}\"}", "${A:-' ${B:-§}'}"] {
        let code = format!("PASSWORD={nested} run");
        assert_redacted(&code.replace('§', &secret), &code.replace('§', REDACTED));
    }
}
