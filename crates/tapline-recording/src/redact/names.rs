//! Names whose value is a secret whatever it looks like, and values after such a name that are not secrets.

use std::ops::Range;

use super::words::Words;

/// How far back a name may extend.
pub(super) const NAME: usize = 64;

/// The words that such names end with or contain. Each is searched for in lower case, Capitalised and in CAPITALS.
pub(super) const KEYWORDS: &[&str] = &[
    "password",
    "passwd",
    "passphrase",
    "passwort",
    "pwd",
    "pass",
    "secret",
    "token",
    "key",
    "credential",
    "creds",
    "auth",
    "authorization",
    "cookie",
    "signature",
    "dockerconfigjson",
];

/// How certain it is that a name's value is a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Name {
    /// Any value is: `password`, `GITHUB_TOKEN`, `api_key`.
    Secret,
    /// A value that looks like a secret is: `token`, `pass`, `auth`.
    Likely,
    /// `Authorization`: a scheme and a secret, up to the end of the line.
    Authorization,
    /// `Cookie`, `Set-Cookie`: up to the end of the line.
    Cookie,
}

/// Words before `token` that make it harmless: page tokens, tokens of a grammar.
static OTHER_TOKENS: Words = Words::of(
    "page next prev previous continuation cancellation cancel sync pagination eos bos pad unk mask \
    sep cls stop special max min per first last end start current peek resume cursor new num tool input output prompt \
    completion total close open eof string number type",
);

/// Words before `key` that make it a secret, in any spelling.
static SECRET_KEYS: Words = Words::of(
    "api secret access private encryption encrypt decryption signing auth master account storage \
    service deploy ssh gpg pgp consumer shared subscription license licence admin webhook hmac aes rsa jwt crypto app \
    application token client password priv preshared",
);

/// Words before `KEY` that make it harmless, even in capitals.
static OTHER_KEYS: Words = Words::of(
    "public pub primary foreign sort partition cache hash index unique map dict group order object hot \
    short any row column lookup idempotency dedup routing composite natural registry enter escape arrow translation message \
    config property field state context query search meta data json host local session event metric label reg item parent \
    child root base answer release modifier function fn shift ctrl alt",
);

/// Words before `pass` that make it a password, in any spelling: `db_pass`, `smtpPass`, `DBPASS`.
static OWNERS: Words = Words::of(
    "db database smtp imap mail email mysql pg postgres sql mongo redis ldap bind ftp sftp ssh http proxy \
    vpn wifi mqtt amqp rabbitmq kafka jdbc admin root sudo user login account service svc keystore truststore become vault \
    sasl ssl tls cert key archive zip",
);

/// Words before `token` that are written together with it: `identitytoken`.
static TOKENS: Words = Words::of("identity refresh session bearer id api bot oauth registry user client service");

/// Words before `PAT` that make it a personal access token: `GITHUB_PAT`.
static HOSTS: Words = Words::of(
    "github gh ghcr gitlab gl git gitea azure azdo ado devops jira atlassian bitbucket docker dockerhub \
    databricks snowflake airtable my user bot ci admin deploy release",
);

/// Words in a password's name which show that the value only describes a password.
static ABOUT: Words = Words::of(
    "file path length len min max policy reset url uri field expiry expires expired count id name label \
    placeholder hint strength required changed updated at regex rule rules type input form prompt manager helper validator \
    error errors store attempts age days help text enabled disabled command cmd source provider env var ref arn less \
    protected encoder service column key link page view mode auth authentication visible",
);

/// Words that may follow a name's last word: `API_KEY_2`, `TOKEN_PROD`.
static AFTER: Words = Words::of("prod production dev test staging live old new backup base64 b64 value string base data");

/// Longer names are not names of secrets.
pub(super) const LONGEST: usize = 136;

/// Returns what a name says about its value.
pub(super) fn name(name: &str) -> Option<Name> {
    let mut buffer = [0; 2 * LONGEST];
    let words = words(name, &mut buffer)?;
    let is_capital = !name.bytes().any(|byte| byte.is_ascii_lowercase());
    let mut words = words.split(' ').filter(|word| !word.is_empty());
    let mut last = words.next_back()?;
    while AFTER.has(last) || is_number(last) {
        last = words.next_back()?;
    }
    let before = words.clone().next_back();
    let is_about = |words: &Words| before.is_some_and(|word| words.has(word));
    // It is certain only after another word, or in capitals, as variables are written.
    let sure = |sure: bool| Some(if sure { Name::Secret } else { Name::Likely });
    match last {
        "secret" if before == Some("existing") => None,
        "password" | "passwords" | "passwd" | "passphrase" | "passwort" | "secret" | "secrets" | "credential"
        | "credentials" | "creds" | "apikey" | "apikeys" | "authtoken" | "accesstoken" | "secretkey" | "accesskey"
        | "privatekey" | "accountkey" | "clientsecret" | "storepass" | "keypass" | "requirepass" | "passcode" => {
            Some(Name::Secret)
        }
        // The folder of a shell is called so, too.
        "pwd" => sure(!matches!(name, "PWD" | "OLDPWD")),
        "psk" | "dockerconfigjson" => Some(Name::Secret),
        "token" if is_about(&OTHER_TOKENS) => None,
        "token" => sure(before.is_some() || is_capital),
        "tokens" if is_about(&const { Words::of("api access auth refresh bearer secret") }) => Some(Name::Secret),
        "key" if is_about(&SECRET_KEYS) => Some(Name::Secret),
        "key" if is_capital && before.is_some() && !is_about(&OTHER_KEYS) => Some(Name::Secret),
        "keys" if is_about(&const { Words::of("api secret access private encryption signing") }) => Some(Name::Secret),
        "pass" if before.is_some_and(|word| OWNERS.has(word)) => Some(Name::Secret),
        "pw" => sure(before.is_some()),
        "pat" if is_capital && before.is_some_and(|word| HOSTS.has(word)) => Some(Name::Secret),
        "pass" | "auth" => sure(is_capital && before.is_some() && !is_about(&const { Words::of("no test pre") })),
        "authorization" => Some(Name::Authorization),
        "cookies" => Some(Name::Likely),
        "cookie" if before.is_none_or(|word| word == "set") => Some(Name::Cookie),
        "signature" if is_about(&const { Words::of("amz goog access") }) => Some(Name::Secret),
        // Names without a break between their words: `PGPASSWORD`, `MYTOKEN`.
        last if ["password", "passwd", "apikey", "authtoken", "accesstoken"].iter().any(|word| last.ends_with(word)) => {
            Some(Name::Secret)
        }
        last if last.strip_suffix("pass").is_some_and(|owner| OWNERS.has(owner)) => Some(Name::Secret),
        // `identitytoken`, `refreshtoken`
        last if last.strip_suffix("token").is_some_and(|owner| TOKENS.has(owner)) => Some(Name::Secret),
        last if is_capital && (last.ends_with("token") || last.ends_with("secret")) => Some(Name::Secret),
        last => {
            let about = ABOUT.has(last) || last == "hash";
            words.any(|word| matches!(word, "password" | "passwd")).then_some(Name::Secret).filter(|_| !about)
        }
    }
}

/// What the last name says. The same name often repeats.
#[derive(Debug, Default)]
pub(super) struct LastName {
    place: Range<usize>,
    says: Option<Name>,
}

impl LastName {
    /// Returns whether this is the name that was checked last.
    pub(super) fn is(&self, text: &[u8], place: &Range<usize>) -> bool {
        text[self.place.clone()] == text[place.clone()]
    }

    /// Returns what the name at this position says about its value.
    pub(super) fn name(&mut self, text: &[u8], place: Range<usize>) -> Option<Name> {
        if !self.is(text, &place) {
            self.says = std::str::from_utf8(&text[place.clone()]).ok().and_then(name);
            self.place = place;
        }
        self.says
    }
}

/// Returns the name's words in lower case, with spaces between: `dbPassword`, `DB_PASSWORD` and `db.password` give the
/// same.
fn words<'b>(name: &str, buffer: &'b mut [u8; 2 * LONGEST]) -> Option<&'b str> {
    let bytes = name.as_bytes();
    if bytes.len() > LONGEST {
        return None;
    }
    let mut length = 0;
    for (at, byte) in bytes.iter().enumerate() {
        let before = at.checked_sub(1).map(|at| bytes[at]);
        let small = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
        let behind = bytes.get(at + 1).copied();
        let begins = byte.is_ascii_uppercase()
            && (small(before)
                || before.is_some_and(|byte| byte.is_ascii_uppercase())
                    && behind.is_some_and(|byte| byte.is_ascii_lowercase()));
        if begins {
            buffer[length] = b' ';
            length += 1;
        }
        buffer[length] = if byte.is_ascii_alphanumeric() { byte.to_ascii_lowercase() } else { b' ' };
        length += 1;
    }
    std::str::from_utf8(&buffer[..length]).ok()
}

fn is_number(word: &str) -> bool {
    word.strip_prefix('v').unwrap_or(word).bytes().all(|byte| byte.is_ascii_digit())
}

/// Returns whether a value is only a placeholder: `$TOKEN`, `${TOKEN}`, `<your key>`, `***`, `null`, or text that is
/// already hidden.
pub(super) fn is_placeholder(value: &str) -> bool {
    let value = value.trim();
    let bytes = value.as_bytes();
    let Some(first) = bytes.first() else { return true };
    let word = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let starts = |start: &str| value.get(..start.len()).is_some_and(|head| head.eq_ignore_ascii_case(start));
    let around = |open: &str, close: &str| value.len() > open.len() && value.starts_with(open) && value.ends_with(close);
    let variable = value.strip_prefix('$').is_some_and(|name| {
        let upper = !name.bytes().any(|byte| byte.is_ascii_lowercase())
            && !name.as_bytes()[..1.min(name.len())].iter().any(u8::is_ascii_digit);
        word(name) && (upper || name.contains('_'))
    });
    variable
        || around("${", "}") && default(value).is_none()
        || around("$(", ")")
        || around("{{", "}}")
        || around("<", ">")
        || around("%", "%") && word(&value[1..value.len() - 1])
        || value.starts_with(super::REDACTED)
        || value.ends_with("...")
        || bytes.len() > 2 && matches!(first, b'*' | b'x' | b'X' | b'.' | b'-' | b'#') && bytes.iter().all(|byte| byte == first)
        || value.chars().all(|c| matches!(c, '•' | '…' | '●'))
        || matches!(first | 0x20, b'c' | b'y' | b'p' | b'o' | b'e' | b's' | b'v') && STARTS.split('|').any(starts)
        || WORDS.has(value)
}

/// Returns the position of a default value that a shell uses if the variable is not set: `hunter2` in
/// `${PASSWORD:-hunter2}` or `${A:-${B:-hunter2}}`. Spring writes `${PASSWORD:hunter2}`.
pub(super) fn default(value: &str) -> Option<Range<usize>> {
    let (mut from, mut to) = (0, value.len());
    while let Some(inner) = value[from..to].strip_prefix("${").and_then(|rest| rest.strip_suffix('}')) {
        let name = inner.bytes().take_while(|byte| byte.is_ascii_alphanumeric() || *byte == b'_').count();
        let is_variable = !inner[..name].bytes().any(|byte| byte.is_ascii_lowercase());
        // A substring of a variable: `${TOKEN:0:4}`.
        let is_number = inner[name..].bytes().all(|byte| byte.is_ascii_digit() || b": -".contains(&byte));
        let operator = match &inner.as_bytes()[name..] {
            [b':', b'-' | b'=', ..] => 2,
            _ if is_number => return None,
            [b':', b'?' | b'+', ..] => return None,
            [b'-' | b'=' | b':', ..] if is_variable => 1,
            _ => return None,
        };
        if name == 0 {
            return None;
        }
        // Blanks and quotes around the next one are taken off here, so that no level is left to `is_placeholder`.
        let is_edge = |c: char| c.is_whitespace() || matches!(c, '"' | '\'');
        let next = &value[from + 2 + name + operator..to - 1];
        to = from + 2 + name + operator + next.trim_end_matches(is_edge).len();
        from = to - next.trim_matches(is_edge).len();
    }
    let quotes = |text: &str| text.len() > 1 && text.starts_with(['"', '\'']) && text.ends_with(['"', '\'']);
    let (from, to) = if quotes(&value[from..to]) { (from + 1, to - 1) } else { (from, to) };
    (from > 0 && !value[from..to].starts_with('$') && !is_placeholder(&value[from..to])).then_some(from..to)
}

/// What begins with one of these is no value.
const STARTS: &str = "ConvertTo-|your-|your_|your |process.env|os.environ|os.getenv|env.|env:|secrets.|vars.";
/// Words that describe a value, or say that there is none.
static WORDS: Words = Words::of(
    "null none nil undefined true false yes no string str number boolean bool int integer object array any \
    optional required hidden empty redacted [redacted] n/a ... include omit same-origin",
);

/// Returns whether a value is code and not a secret: a path of identifiers that mentions one.
pub(super) fn is_code(value: &str) -> bool {
    let plain = value.bytes().all(|byte| byte.is_ascii_alphabetic() || matches!(byte, b'_' | b'.'));
    plain && speaks_of_secret(value) || ["::", "->", "=>"].iter().any(|sign| value.contains(sign)) || is_use(value)
}

/// Returns whether this is a call or an index (`get(1)`, `args[1].trim()`), as far as the text goes. A password may
/// contain brackets, too, but then other signs come before them or a word follows.
fn is_use(value: &str) -> bool {
    let Some(open) = value.find(['(', '[', '{']) else { return false };
    let is_path = value[..open].bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.$@&*!?".contains(&byte));
    let behind = value.rfind([')', ']', '}']).map_or("", |close| &value[close + 1..]);
    is_path && !behind.starts_with(|c: char| c.is_ascii_alphanumeric())
}

/// Returns whether a value contains one of the [`KEYWORDS`].
pub(super) fn speaks_of_secret(value: &str) -> bool {
    KEYWORDS.iter().any(|word| find_ignoring_case(value, word))
}

/// Returns whether this is the `kind` of a manifest, and what follows it is its value.
pub(super) fn is_kind(before: &[u8]) -> bool {
    let back =
        |bytes: &[u8], what: &[u8]| bytes.len() - bytes.iter().rev().take(16).take_while(|byte| what.contains(byte)).count();
    let quote = &before[..back(before, b"\"'\\")];
    let joint = &quote[..back(quote, b" ")];
    joint.strip_suffix(b":").is_some_and(|key| key[..back(key, b" \"'\\")].ends_with(b"kind"))
}

/// Returns whether a name is just `key`, which means nothing by itself.
pub(super) fn is_bare_key(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(b"key") || name.eq_ignore_ascii_case(b"keys")
}

/// Returns whether the word before a `key` or `token` makes it a secret: `api key`, `access token`.
pub(super) fn is_one_with(before: &[u8]) -> bool {
    let Some(words) = before.strip_suffix(b" ") else { return false };
    let length = words.iter().rev().take(NAME).take_while(|byte| byte.is_ascii_alphanumeric()).count();
    let (before, word) = words.split_at(words.len() - length);
    // The letter of an escape is not part of the word.
    let behind_escape = if before.ends_with(b"\\") { word.get(1..).unwrap_or_default() } else { word };
    SECRET_KEYS.has(word) || SECRET_KEYS.has(behind_escape)
}

pub(super) fn find_ignoring_case(text: &str, word: &str) -> bool {
    text.as_bytes().windows(word.len()).any(|part| part.eq_ignore_ascii_case(word.as_bytes()))
}

/// Words that follow a flag's name in a sentence and are not its value.
pub(super) static PROSE: Words = Words::of(
    "to is and or flag option in for from with as if the argument value on must can was which \
    that when not needs requires takes instead here to, are will should",
);

/// Returns whether a word belongs to a sentence about passwords and is not a password.
pub(super) fn is_prose(word: &str) -> bool {
    static MORE: Words = Words::of(
        "a an at be been by of it its this your you my has have had no does do did than least most only cannot \
    may please use used using set enter type change changed reset too short long weak strong minimum maximum min max length \
    characters chars letters digits invalid incorrect wrong missing required optional expired failed error errors found \
    mismatch match matches user users login account field fields string hash hashed encoded encrypted checksum default empty \
    see attempts but so then there after before each every all any per about new old",
    );
    let small = word.to_ascii_lowercase();
    PROSE.has(word) || MORE.has(word) || KEYWORDS.iter().any(|known| small.contains(known))
}

/// Returns the position of the name whose last word ends here, if a value may follow it.
pub(super) fn name_around(bytes: &[u8], end: usize) -> Option<Range<usize>> {
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    let mut to = end + bytes[end..].iter().take(NAME).take_while(|byte| is_name(byte) && **byte != b'-').count();
    // `client-key-data`
    if let Some(rest) = bytes[to..].strip_prefix(b"-")
        && let Some(word) = AFTER.all().find(|word| rest.starts_with(word.as_bytes()))
    {
        to += 1 + word.len();
    }
    // Most words are followed by nothing that could join a value to them.
    let calls = bytes.get(to) == Some(&b'(') && matches!(bytes.get(to + 1), Some(b'"' | b'\'' | b'\\'));
    if !calls && !bytes.get(to).is_none_or(|byte| b"=:\"'` \t\\]><*\n\r,".contains(byte)) {
        return None;
    }
    let from = end - bytes[..end].iter().rev().take(NAME).take_while(|byte| is_name(byte)).count();
    // Neither the letter of an escape nor the dashes of a flag are part of the name.
    let is_escape = from > 0 && bytes[from - 1] == b'\\' && matches!(bytes[from], b'n' | b'r' | b't');
    let from = if is_escape && from + 1 < end { from + 1 } else { from };
    Some((from..end).find(|at| bytes[*at] != b'-').unwrap_or(end)..to)
}
