//! Programs that take a password after a short flag. Common flags are searched for first, and then such a program
//! before them, reading each byte once. For programs with rarer names, the flags are searched for after the name.

/// How far before its flag a program may be.
const FAR: usize = 512;
/// The longest name of a program.
const NAME: usize = 16;

/// Programs that take `-u USER:PASSWORD`.
pub(super) const USERS: &[&str] = &["curl", "wget", "http"];
/// Programs that take `-p PASSWORD`.
pub(super) const PASSWORDS: &[&str] =
    &["sshpass", "mysql", "mariadb", "docker login", "podman login", "registry login", "auth login", "oras login"];

/// The subcommands that take `--from-literal`. Only the values of a secret are secrets.
pub(super) const LITERALS: &[&str] = &["secret generic", "configmap", "create cm"];

/// Where a flag of a program has its secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Takes {
    /// In the word after so many others: `-a PASSWORD`.
    Next(usize),
    /// In the same word: `-pPASSWORD`.
    Glued,
    /// In the next word, behind a sign: `-a user:PASSWORD`.
    Behind(char),
    /// In the next word, which is a cookie if it has a `=`.
    Cookie,
    /// In the next word, which may also be a name.
    Token,
    /// In the argument of a call after so many others: `login("user", "PASSWORD")`.
    Argument(usize),
}

use Takes::{Argument, Behind, Cookie, Glued, Next, Token};

/// A program that takes a password after a flag that other programs use for something else.
#[derive(Debug)]
pub(super) struct Command {
    pub(super) name: &'static str,
    pub(super) flags: &'static [(&'static str, Takes)],
}

impl Command {
    const fn new(name: &'static str, flags: &'static [(&'static str, Takes)]) -> Self {
        Self { name, flags }
    }
}

const SEVEN_ZIP: &[(&str, Takes)] = &[("-p", Glued)];
const RAR: &[(&str, Takes)] = &[("-p", Glued), ("-hp", Glued)];
const LDAP: &[(&str, Takes)] = &[("-w", Next(0)), ("-w", Glued)];
const MSSQL: &[(&str, Takes)] = &[("-P", Next(0)), ("-P", Glued)];
const MONGO: &[(&str, Takes)] = &[("-p", Next(0)), ("-p", Glued)];
const HTTPIE: &[(&str, Takes)] = &[("-a", Behind(':')), ("--auth", Behind(':')), ("-a", Token), ("--auth", Token)];
const REDIS: &[(&str, Takes)] = &[("-a", Next(0)), ("--pass", Next(0)), ("AUTH", Next(0))];
const PASSWORD: &[(&str, Takes)] = &[("-P", Next(0))];

/// Programs that are searched for by name, because their flags are too common.
pub(super) const COMMANDS: &[Command] = &[
    Command::new("redis-cli", REDIS),
    Command::new("valkey-cli", REDIS),
    Command::new("openssl", &[("-k", Next(0)), ("-K", Next(0))]),
    Command::new("ldapsearch", LDAP),
    Command::new("ldapmodify", LDAP),
    Command::new("ldapadd", LDAP),
    Command::new("ldapwhoami", LDAP),
    Command::new("ldapdelete", LDAP),
    Command::new("sqlcmd", MSSQL),
    Command::new("mosquitto_pub", PASSWORD),
    Command::new("mosquitto_sub", PASSWORD),
    Command::new("ipmitool", PASSWORD),
    Command::new("zip ", &[("-P", Next(0)), ("-rP", Next(0)), ("-erP", Next(0))]),
    Command::new("7z x", SEVEN_ZIP),
    Command::new("7z a", SEVEN_ZIP),
    Command::new("7z e", SEVEN_ZIP),
    Command::new("7z l", SEVEN_ZIP),
    Command::new("7z u", SEVEN_ZIP),
    Command::new("7z t", SEVEN_ZIP),
    Command::new("7za ", SEVEN_ZIP),
    Command::new("7zr ", SEVEN_ZIP),
    Command::new("7zz ", SEVEN_ZIP),
    Command::new("rar ", RAR),
    Command::new("mongosh", MONGO),
    Command::new("mongodump", MONGO),
    Command::new("mongorestore", MONGO),
    Command::new("mongoexport", MONGO),
    Command::new("mongoimport", MONGO),
    Command::new("mongo ", MONGO),
    Command::new("http ", HTTPIE),
    Command::new("xh ", HTTPIE),
    Command::new("https ", HTTPIE),
    Command::new(
        "curl ",
        &[("-b", Cookie), ("--cookie", Cookie), ("-U", Behind(':')), ("-E", Behind(':')), ("--cert", Behind(':'))],
    ),
    Command::new("etcdctl", &[("--user", Behind(':'))]),
    Command::new("smbclient", &[("-U", Behind('%'))]),
    Command::new("lftp ", &[("-u", Behind(','))]),
    Command::new("snmpget", &[("-A", Next(0)), ("-X", Next(0))]),
    Command::new("snmpwalk", &[("-A", Next(0)), ("-X", Next(0))]),
    Command::new("xfreerdp", &[("/p:", Glued)]),
    Command::new("schtasks", &[("/rp", Next(0)), ("/RP", Next(0))]),
    Command::new("net use", &[("/user:", Glued)]),
    Command::new("nmcli ", &[("password", Next(0))]),
    Command::new("pdftk", &[("input_pw", Next(0)), ("user_pw", Next(0)), ("owner_pw", Next(0))]),
    Command::new("rclone", &[("obscure", Next(0)), ("pass", Next(0))]),
    Command::new(
        "htpasswd",
        &[("-b", Next(2)), ("-bc", Next(2)), ("-cb", Next(2)), ("-nb", Next(1)), ("-nbB", Next(1)), ("-bB", Next(2))],
    ),
    Command::new("rabbitmqctl", &[("add_user", Next(1)), ("change_password", Next(1))]),
    Command::new("wpa_passphrase", &[("wpa_passphrase", Next(1))]),
    Command::new("sqlplus", &[("sqlplus", Behind('/'))]),
    Command::new("oracle:thin:", &[("oracle:thin:", Behind('/'))]),
    Command::new("useradd", &[("-p", Next(0))]),
    Command::new("usermod", &[("-p", Next(0))]),
    Command::new("cqlsh", &[("-p", Next(0))]),
    Command::new("rdesktop", &[("-p", Next(0))]),
    Command::new("ncftp", &[("-p", Next(0))]),
    Command::new("az login", &[("-p", Next(0))]),
    Command::new("oc login", &[("-p", Next(0))]),
    Command::new("ncftpput", &[("-p", Next(0))]),
    Command::new("rabbitmqadmin", &[("-p", Next(0))]),
    Command::new("psexec", &[("-p", Next(0))]),
    Command::new("evil-winrm", &[("-p", Next(0))]),
    Command::new("crackmapexec", &[("-p", Next(0))]),
    Command::new("hydra ", &[("-p", Next(0))]),
    Command::new("bcp ", MSSQL),
    Command::new("impdp", &[("impdp", Behind('/'))]),
    Command::new("expdp", &[("expdp", Behind('/'))]),
    Command::new("signtool", &[("/p", Next(0))]),
    Command::new("cmdkey", &[("/pass:", Glued)]),
    Command::new("ngrok config", &[("add-authtoken", Next(0))]),
    Command::new("cypress", &[("--key", Token), ("-k", Token)]),
    Command::new("codecov", &[("-t", Token)]),
    Command::new("gh secret set", &[("--body", Next(0)), ("-b", Next(0))]),
    Command::new("ssh-keygen", &[("-N", Next(0)), ("-P", Next(0))]),
    Command::new("net user ", &[("net user", Next(1))]),
    Command::new("poetry config http-basic.", &[("poetry config http-basic.", Next(2))]),
    Command::new("bindpw ", &[("bindpw", Token)]),
    Command::new("mc alias set", &[("mc alias set", Next(3))]),
    Command::new("add-generic-password", &[("-w", Next(0))]),
    Command::new("add-internet-password", &[("-w", Next(0))]),
    Command::new("Unseal Key", &[("Unseal Key", Next(1))]),
    // Settings with only a space before the value.
    Command::new("requirepass ", &[("requirepass", Token)]),
    Command::new("masterauth ", &[("masterauth", Token)]),
    Command::new("password 7 ", &[("password 7", Token)]),
    Command::new("snmp-server community ", &[("snmp-server community", Token)]),
    Command::new("SecureString ", &[("SecureString", Token)]),
    Command::new("SecureString -String ", &[("SecureString -String", Token)]),
    Command::new("IDENTIFIED BY ", &[("IDENTIFIED BY", Token)]),
    Command::new("identified by ", &[("identified by", Token)]),
    Command::new("_password BY ", &[("_password BY", Token)]),
    // The word in other languages.
    Command::new("mot de passe :", &[("mot de passe :", Token)]),
    Command::new("mot de passe:", &[("mot de passe:", Token)]),
    Command::new("contraseña:", &[("contraseña:", Token)]),
    Command::new("senha:", &[("senha:", Token)]),
    Command::new("Kennwort:", &[("Kennwort:", Token)]),
    Command::new("wachtwoord:", &[("wachtwoord:", Token)]),
    // Calls.
    Command::new("auth=(", &[("auth=(", Argument(1))]),
    Command::new("BasicAuth(", &[("BasicAuth(", Argument(1))]),
    Command::new("login(", &[("login(", Argument(1))]),
    Command::new("getConnection(", &[("getConnection(", Argument(2))]),
    Command::new("Sequelize(", &[("Sequelize(", Argument(2))]),
    Command::new("NetworkCredential(", &[("NetworkCredential(", Argument(1))]),
    Command::new("PASSWORD(", &[("PASSWORD(", Argument(0))]),
    Command::new("jwt.sign(", &[("jwt.sign(", Argument(1))]),
    Command::new("jwt.verify(", &[("jwt.verify(", Argument(1))]),
    Command::new("jwt.encode(", &[("jwt.encode(", Argument(1))]),
    Command::new("jwt.decode(", &[("jwt.decode(", Argument(1))]),
    Command::new("createHmac(", &[("createHmac(", Argument(1))]),
    Command::new("hmac.new(", &[("hmac.new(", Argument(0))]),
    Command::new("AES.new(", &[("AES.new(", Argument(0))]),
    Command::new("Fernet(", &[("Fernet(", Argument(0))]),
    Command::new("algoliasearch(", &[("algoliasearch(", Argument(1))]),
    Command::new("db.auth(", &[("db.auth(", Argument(1))]),
];

/// The last of these programs that was seen.
#[derive(Debug)]
pub(super) struct Programs {
    names: &'static [&'static str],
    looked: usize,
    last: Option<usize>,
}

impl Programs {
    pub(super) fn new(names: &'static [&'static str]) -> Self {
        Self { names, looked: 0, last: None }
    }

    /// Returns the position of the last program before this position.
    pub(super) fn before(&mut self, text: &[u8], at: usize) -> Option<usize> {
        if let Some(new) = text.get(self.looked.saturating_sub(NAME).max(at.saturating_sub(FAR))..at) {
            let found = self.names.iter().filter_map(|name| memchr::memmem::rfind(new, name.as_bytes())).max();
            self.last = found.map(|found| at - new.len() + found).or(self.last);
            self.looked = at;
        }
        self.last.filter(|last| (*last..=last + FAR).contains(&at))
    }

    /// Returns the position of the last program before this position on the same line.
    pub(super) fn before_in_line(&mut self, text: &[u8], at: usize) -> Option<usize> {
        self.before(text, at).filter(|last| memchr::memchr(b'\n', &text[*last..at]).is_none())
    }
}
