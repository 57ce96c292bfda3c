//! Secrets that sentences tell and commands are given, and sentences about secrets that tell none.

use tapline_recording::{REDACTED, Redactor};

/// `§` stands around what is to be hidden.
const TOLD: &[&str] = &[
    // Sentences.
    "my password is §hunter2§",
    "My password is §hunter2§, thanks",
    "The password is: §Xq7Lm2Rt9vB§\nand the user is me",
    "the admin password is \"§Summer2024§\"",
    "the password is `§P@ssw0rd§`. Use it.",
    "the password was §s3cretPony§ until May",
    "my passphrase is §correct-horse-42-battery§ and nothing else",
    "the password for the staging database is §hunter2§",
    "the password to server01 is §hunter22§",
    "set the password to §Winter-2025§ please",
    "its password is now §tr0ub4dor§",
    "password should be §S0mething§",
    "das Passwort ist §hunter2§",
    "the password is §Tr!ggerHappy§",
    "The pin's password is §123456§ today",
    "the credentials are §admin:hunter2§",
    "the api key is §9f86d081884c7d659a2feaa0c55ad015§",
    "The API key is §9f86d081884c7d65§. Use it.",
    "use this, the API key for staging is §a8Kd93jfLq02§",
    "your access token is §a8Kd93jfLq02Zx7Wm§ ok",
    "the token is §9f86d081884c7d659a2feaa0c55ad015§",
    "the client secret is §a8Kd93jf§",
    "API key: §9f86d081884c7d65§\n",
    "my secret key = §a8Kd93jfLq02§\n",
    "**Password:** §hunter2§\n",
    // To the full stop that ends all, and no further.
    "my password is §83920174§.",
    "The password is §123456§.",
    "my password is §hunter2§.",
    // What a word of programs begins with, and goes on otherwise.
    "the password is §p4ssword§",
    "the password is §x1234567§",
    "the password is §v2secret§",
    "the password is §12monkeys§",
    "the password is §123abc§",
    "the password is §$ecret99§",
    "the password is §@dmin123§",
    "the password is §Summer-2024§ until May",
    "the password is §winter-2025§",
    "the password \"§hunter2§\" works",
    // What is set.
    "set the password to  §hunter2§",
    "I have changed the admin user's password to §server-42x§",
    "please reset password as §Abc-123§ now",
    "MY PASSWORD IS §HUNTER2§",
    "THE PASSWORD IS NOW §HUNTER2§ OK",
    // Markdown.
    "**Password**: §hunter2§\n",
    "- *Password*: §hunter2§",
    "`password`: §hunter2§",
    "**API key:** §abcd1234efgh§",
    "**API key**: §abcd1234efgh§",
    // Names.
    "db_pass: §hunter2x§\n",
    "smtp_pass: §hunter2x§",
    "smtpPass: §hunter2x§",
    "DBPASS=§hunter2x§ run",
    "DBPASS=§swordfish§",
    "GITHUB_PAT=§swordfish§",
    "DB_PW=§swordfish§",
    "pw: §hunter2x§",
    "pw=§hunter2x§",
    "passcode=§hunter2x§",
    // A name in capitals, and a blank.
    "AWS_SECRET_ACCESS_KEY §wJalrXUtnFEMI/K7MDENG/bPxRfiCYzEXAMPLEzz§",
    "AWS_SECRET_ACCESS_KEY\t§wJalrXUtnFEMI/K7MDENG/bPxRfiCYzEXAMPLEzz§\nx",
    "DB_PASSWORD §hunter2x§ and so on",
    "ENV DB_PASSWORD §hunter2§\nRUN make",
    "STRIPE_SECRET §a8Kd93jfLq02Zx7W§",
    "ALTER USER me WITH PASSWORD '§swordfish§';",
    "setenv DB_PASSWORD §swordfish§\n",
    "set -gx DB_PASSWORD §swordfish§\n",
    // Commands.
    "kubectl create secret generic db --from-literal=pw=§swordfish§",
    "kubectl -n x create secret generic db --from-literal=user=§me§ --from-literal=pw='§a b§' -o yaml",
    "kubectl create secret generic db \\\n  --from-literal user=§admin§ \\\n  --from-literal=\"pw=§it is§\"\n",
    "oc create secret generic db '--from-literal=pw=§swordfish§'",
    "redis-cli -a §swordfish§ ping",
    "redis-cli -h host -p 6379 -a '§sword fish§' --no-auth-warning get a",
    "redis-cli --pass §swordfish§ ping",
    "valkey-cli -n 1 \\\n  -a §swordfish§ ping",
    "openssl enc -aes-256-cbc -salt -in a -out b -k §swordfish§",
    "openssl aes-256-cbc -d -k \"§sword fish§\" -in a",
    "openssl rsa -in key.pem -passin pass:§swordfish§ -out a",
    "openssl pkcs12 -export -passout 'pass:§sword fish§' -out a",
    "openssl enc -aes-256-cbc -pass pass:§swordfish§ -in a",
    "openssl enc -aes-256-cbc -pass pass:§hunter22§",
    "ldapsearch -x -D cn=admin -w §swordfish§ -b dc=x",
    "sqlcmd -S host -U sa -P §swordfish§ -Q 'select 1'",
];

/// The text, and the text without what stands between two `§`.
fn unmarked(marked: &str) -> (String, String) {
    let parts: Vec<&str> = marked.split('§').collect();
    let clean = parts.iter().enumerate().map(|(at, part)| if at % 2 == 1 { REDACTED } else { part });
    (parts.concat(), clean.collect())
}

/// What a text becomes that should become something else: as it is, and in a string of JSON, alone and behind a line end.
fn wrong(whole: &str, clean: &str) -> Vec<String> {
    let redactor = Redactor::default();
    let as_it_is = (redactor.text(whole) != clean).then(|| redactor.text(whole).into_owned());
    let in_json = ["", "first\n", "\"\t"].into_iter().filter_map(|before| {
        let json = |text: &str| serde_json::json!({ "out": format!("{before}{text}"), "n": 1 }).to_string();
        let line = String::from_utf8_lossy(&redactor.line(json(whole).as_bytes())).into_owned();
        (line != json(clean)).then_some(line)
    });
    as_it_is.into_iter().chain(in_json).collect()
}

#[test]
fn secrets_that_sentences_tell_and_commands_are_given_are_hidden() {
    let wrong: Vec<_> = TOLD.iter().map(|marked| unmarked(marked)).flat_map(|(whole, clean)| wrong(&whole, &clean)).collect();
    assert_eq!(wrong, [""; 0]);
}

fn delta(text: &str) -> String {
    let text = serde_json::json!(text);
    format!(
        "{{\"type\":\"stream_event\",\"event\":{{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{{\"type\":\"text_delta\",\"text\":{text}}}}}}}\n"
    )
}

#[test]
fn the_same_cut_in_pieces() {
    let mut wrong = Vec::new();
    for marked in TOLD {
        let (whole, clean) = unmarked(marked);
        for size in [1, 3, 7, 20] {
            let letters: Vec<char> = whole.chars().collect();
            let lines = letters.chunks(size).map(|piece| delta(&piece.iter().collect::<String>()));
            let mut pieces = Redactor::default().pieces();
            let mut out: Vec<u8> = lines.flat_map(|line| pieces.push(line.as_bytes())).collect();
            out.extend(pieces.finish());
            let value = |line: &str| serde_json::from_str::<serde_json::Value>(line).unwrap();
            let said = |line: &str| value(line)["event"]["delta"]["text"].as_str().unwrap().to_owned();
            let text: String = std::str::from_utf8(&out).unwrap().lines().map(said).collect();
            if text != clean {
                wrong.push((size, text));
            }
        }
    }
    assert_eq!(wrong, []);
}

#[test]
fn sentences_about_secrets_that_tell_none_stay() {
    let same = [
        "the password is wrong",
        "the password is required",
        "The password is incorrect, 3 attempts left",
        "the API key is missing",
        "the API key is invalid or expired; the API key for openai is unset",
        "the password is 8 characters long, the password is 16-character and must be 12chars at least",
        "the password is hashed, the password is SHA-256 hashed, the password is sha256-hashed",
        "the password is base64-encoded; the secret is base64 encoded; the token is base64url-encoded",
        "the password is argon2id-hashed, the token is OAuth2-compatible, the key is ed25519",
        "the password is stored in config2.json, the secret is in vault2/path, the password is auth2.yaml",
        "the password for user2 is wrong, the password of account1234 is expired",
        "the secret is to use step2first, the secret is out",
        "the token is a JWT, the token is StringLiteral2, the token is Identifier3",
        "the access token is claude-3-5-sonnet, the api key is gpt-4o-mini-2024",
        "if password is None: pass\nassert password is old_password2",
        "the password is $DB_PASSWORD2, the password is <password1>, the password is ${PW2}, the api key is sk-...",
        "the password is sent to me2@example.com; the password is me22@example.com",
        "reset the password to continue, change the password to something else, use the password as given",
        "the secret is 42, the api key is 12345, the password is 1234",
        "the primary key is user1234id, the cache key is abc123def456, the foreign key is a1b2c3d4e5f6",
        "the api key: required\nAPI key: see https://example.com/a1b2c3\nThe private key: /etc/ssl/key2.pem",
        "the passwords are equal, the tokens are 1234567890 in total",
        // Where something is, goes, or what it is called.
        "I moved the credentials to server-02",
        "mount the secret as volume1",
        "store the secret as GITHUB_PAT_2",
        "rename the secret to app-config-v2",
        "pass the secret to verifyHS256",
        "I forgot the password to server42.",
        "the secret to success is practice2win",
        "copy the password to clipboard2, send the password to user1234, use the password as param1",
        "I set it up. The password to server42 is lost; set up host2, and give the password to bob1234",
        "the secret is app-config-v2, the credentials are k8s-managed-v2",
        // What describes.
        "passwords are PBKDF2-HMAC-SHA256 hashed",
        "passwords are PBKDF2-HMAC-SHA256.",
        "the password is UTF-16LE encoded",
        "secrets are k8s-native objects",
        "the password is k8s-managed here too, the password is s3-backed. The password is AES-256-GCM encrypted, the password is SHA512 hashed",
        "the password \"field1\" is missing, the password 'input2' field, the password `param1` must be set",
        "secret \"registry-key1\" already exists\nsecret \"default-token-x7k2p\" deleted\nsecret \"app1234\" not found",
        "the password is 12characters, the password is 256bits, the password is x86_64, the password is v1.2.3",
        "the password is $variable_12, the password is $password12, the password is @scope12/pkg",
        // Other names.
        "FILE_PAT=foo.rs SEARCH_PAT=abc123 PYTHON_PATH=/usr/lib PATH=/bin PWD=/work",
        "XPASS=3 BYPASS=yes test_pass: test1234 bypass: a1b2c3d4 compass: north12 pw: Page\nupwards: yes",
        "**bold** password** and *password* alone: see **docs**; `password`: required",
        // Names in capitals.
        "set AWS_SECRET_ACCESS_KEY before you run it; the GITHUB_TOKEN permissions; DB_PASSWORD environment variable",
        "AWS_SECRET_ACCESS_KEY  2024-01-05T10:11:12Z\nDB_PASSWORD\t2023-05-01\nAPI_KEY about 2 days ago\n",
        "ANTHROPIC_API_KEY claude-3-5-sonnet-20241022, GITHUB_TOKEN actions/checkout@v4",
        "if DB_PASSWORD == other then; [ -z \"$API_KEY\" ] && exit 1; unset API_KEY OPENAI_API_KEY_2",
        "PASS tests/auth2/login.spec.ts\nPASS src/App2Component.test.tsx (5.2 s)\nFAIL a1b2c3",
        "CREATE TABLE users (PASSWORD VARCHAR(255), TOKEN CHAR(64)); PRIMARY KEY (id2345678)",
        "-----BEGIN PUBLIC KEY----- MIIBIjANBg",
        // Commands.
        "kubectl create configmap x --from-literal=log=debug --from-literal=a1=hunter22",
        "kubectl create secret generic a --from-file=x\nkubectl create cm b --from-literal=log=debug",
        "redis-cli ping; ls -a hunter2",
        "redis-cli -h localhost -p 6379 info | grep -a hunter2",
        "redis-cli is a client; git commit -a message",
        "openssl-sys v0.9.1 -k x; openssl s_client -connect a:443 -key k.pem",
        "openssl rsa -in a -passin env:MY_PW2 -passout file:out22.txt -passin stdin",
        "openssl enc -aes-256-cbc -pass env:PW22 -in a; openssl enc -pass file:pw22.txt",
        "curl -k hunter22 https://a; set -x; set -gx PATH /usr/bin",
        "pass: openssl, fail: none; test pass:3 fail:4",
    ];
    let wrong: Vec<_> = same.into_iter().flat_map(|same| wrong(same, same)).collect();
    assert_eq!(wrong, [""; 0]);
}
