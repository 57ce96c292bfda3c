//! Secrets as programs print them and people type them, and ordinary text that looks like one. A secret is put together here, so
//! that no scanner takes this file for a leak.

use tapline_recording::{REDACTED, Redactor};

/// Something that only its place tells to be a secret.
const SECRET: &str = "Xq7!Lm2Rt9vB";
/// The same in base64.
const ENCODED: &str = "WHE3IUxtMlJ0OXZCCg==";

/// `§` stands for a secret, `¤` for one in base64.
const PRINTED: &[&str] = &[
    // kubectl get secret -o yaml, -o json
    "apiVersion: v1\ndata:\n  connection: ¤\n  tls.crt: ¤\nkind: Secret\nmetadata:\n  name: db\ntype: Opaque\n",
    "apiVersion: v1\nkind: Secret\nmetadata:\n  name: db\nstringData:\n  url: §\n  \"x\": \"§\"\n",
    "items:\n- apiVersion: v1\n  data:\n    a: ¤\n  kind: Secret\n- apiVersion: v1\n  data:\n    b: ¤\n  kind: Secret\n",
    "{\n    \"apiVersion\": \"v1\",\n    \"data\": {\n        \"a\": \"¤\",\n        \"b\": \"¤\"\n    },\n    \"kind\": \"Secret\"\n}",
    "data:\n  .dockerconfigjson: ¤\nkind: Secret\n",
    "{\"apiVersion\":\"v1\",\"data\":{\"a\":\"¤\",\"b\":\"¤\"},\"kind\":\"Secret\",\"metadata\":{\"name\":\"db\"}}",
    "data:\n  a: ¤\nkind: Secret\nmetadata:\n  annotations:\n    last-applied: |\n      {\"data\":{\"a\":\"¤\"},\"kind\":\"Secret\"}\n  name: db\n",
    // docker, compose, environments
    "\"Env\": [\n  \"PATH=/usr/bin\",\n  \"POSTGRES_PASSWORD=§\",\n  \"LANG=C\"\n]",
    "{\"auths\":{\"ghcr.io\":{\"auth\":\"¤\"}}}",
    "declare -x AWS_SECRET_ACCESS_KEY=\"§\"",
    "SECRET_KEY_BASE=§\nA=1",
    "setx DB_PASSWORD \"§\"",
    "$env:DB_PASSWORD = '§'",
    "$password = ConvertTo-SecureString \"§\" -AsPlainText -Force",
    "$password = ConvertTo-SecureString -String \"§\" -AsPlainText",
    // terraform, YAML, INI, TOML
    "  + password                = \"§\"\n",
    "  ~ secret_string = \"§\" -> (known after apply)",
    "password: |\n  §\nuser: me\n",
    "db:\n  password: >-\n    §\n  user: me\n",
    "[pypi]\nusername = me\npassword = §\n",
    "[default]\naws_secret_access_key = §\nregion = eu\n",
    "//registry.npmjs.org/:_password=¤\n",
    "_auth=¤\nemail=a@b.c",
    "PrivateKey = ¤\nAddress = 10.0.0.1/24",
    "PresharedKey = ¤\n",
    // XML and property lists
    "<property name=\"password\" value=\"§\"/>",
    "<string name=\"api_key\">§</string>",
    "<key>APIKey</key>\n\t<string>§</string>",
    // connection strings
    "mongodb+srv://user:§@cluster0.mongodb.net/?w=majority",
    "Endpoint=sb://x/;SharedAccessKeyName=Root;SharedAccessKey=¤",
    "DefaultEndpointsProtocol=https;AccountName=a;AccountKey=¤;EndpointSuffix=core.windows.net",
    "Data Source=x;Uid=sa;Pwd=§;",
    // commands
    "sshpass -p § ssh me@host",
    "sshpass -p '§' ssh me@host",
    "docker login -u me -p § ghcr.io",
    "mysql -u root -p§ db",
    "mysqldump -uroot -p\"§\" db > x.sql",
    "keytool -list -storepass § -keystore x",
    "aws configure set aws_secret_access_key § --profile x",
    "redis-server --requirepass §",
    "helm install x --set db.password=§",
    "kubectl create secret generic x --from-literal=password=§",
    // headers
    "> Proxy-Authorization: Basic ¤\r\n> Accept: */*",
    "< set-cookie: sid=§\r\n",
    "X-Vault-Token: §\n",
];

#[test]
fn what_programs_print_and_people_type_is_hidden() {
    let redactor = Redactor::default();
    for printed in PRINTED {
        let whole = printed.replace('§', SECRET).replace('¤', ENCODED);
        // A cookie is hidden with its name.
        let clean = printed.replace("sid=§", REDACTED).replace(['§', '¤'], REDACTED);
        assert_eq!(redactor.text(&whole), clean);
        let json = serde_json::json!({ "out": whole }).to_string();
        let line = redactor.line(json.as_bytes());
        assert_eq!(String::from_utf8_lossy(&line), serde_json::json!({ "out": clean }).to_string());
    }
}

const ORDINARY: &[&str] = &[
    "commit 9fceb02d0ae598e95dc970b74767f19372d61af8\nindex e69de29..d95f3ad 100644",
    "4b1dc44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  file",
    "\"integrity\": \"sha512-v2kDEe57lecTulaDIuNTPy3Ry4gLGJ6Z1O3vE1krgXZNrsQ+LFTGHVxVjcXPs17LhbZVGedAJv8XZ1tvj5FvSg==\",",
    "checksum = \"a3c2b1d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f60718293a4b5c6d7e8f90\"",
    "<img src=\"data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAUAAAAFCAYAAACNbyblAAAAHElEQVQI12P4//8/w38GIAXDIBKE0DHx\">",
    "token = next_token(); key = get_key(); secret = load_secret(path)",
    "interface Login { password: string; token?: string; apiKey: string | undefined }",
    "type Config struct { Password string `json:\"password\"`; Token string }",
    "const { token, password } = req.body; if (!token) throw new Error(\"token is missing\");",
    "password = getpass.getpass(\"Password: \")",
    "api_key = os.environ.get(\"OPENAI_API_KEY\")",
    "SyntaxError: Unexpected token '<', \"<!DOCTYPE \"... is not valid JSON",
    "CREATE TABLE users (id int PRIMARY KEY, password varchar(255) NOT NULL, token text);",
    "<input type=\"password\" name=\"password\" placeholder=\"Password\" autocomplete=\"current-password\">",
    "<label for=\"password\">Password</label> <td id=\"token\">Tokens used</td>",
    "SSH_AUTH_SOCK=/private/tmp/com.apple.launchd.AbC123xyz/Listeners",
    "docker.io/library/nginx@sha256:0d17b565c37bcbd895e9d92315a05c1c3c9a29f762b011a10c54a66cd53c9b31",
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ0zkRr3r2qPqTnG5Jb1zq0W3q9cQxkz5vF9m1dJ8wQe me@host",
    "certificate-authority-data: LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1JSURkekNDQWwrZ0F3SUJBZ0lFQWdBQXVUQU5CZ2txaGtpRzl3",
    "mkdir -p /tmp/a/b && docker run -p 8080:80 -u 1000:1000 nginx && ssh -p 2222 me@host",
    "mysql -u root -p mydb; docker run --name mysql -p3306:3306 mysql",
    "kind: ConfigMap\napiVersion: v1\ndata:\n  app.properties: abc123def456\n",
    "{\"data\":{\"a\":\"abc123def456\"},\"kind\":\"ConfigMap\"}",
    "kind: Deployment\nspec:\n  a: abc123def456\n---\nkind: SecretList\n",
    "kind: Secret\nmetadata:\n  name: db\n  labels:\n    app: abc123def456\ntype: Opaque\n",
    "envFrom:\n- secretRef:\n    name: db-secret\nvalueFrom: { secretKeyRef: { name: db, key: password } }",
    "password: ${{ secrets.DB_PASSWORD }}\nother: {{ .Values.db.password }}\napi_key: !vault |\n",
    "password: |\n  ${DB_PASSWORD}\n",
    "key-value store, key-1234, api-gateway, API-first, sk-learn, pat-terns, sk_buff, disk_usage, fc-list, sl.json",
    "0x1f9840a85d5aF5bf1D1762F925BDADdC4201F984 costs $5 and $6, cost: $6$",
    "s3://bucket/key/path?versionId=3HL4kqtJlcpXroDTDmJ.rMSpXd3dIbrHY",
    "author = \"Jane\"; authority = \"x\"; authorization_code_flow = true; oauth: see the docs",
    "test password_is_hidden ... ok\ntest token_refresh::works ... FAILED",
    "secret-test-for-something-that-is-long-enough-to-match and access-production-data-of-last-year",
    "grant_type=refresh_token&scope=x; token_type = \"bearer\"; keys = list(d.keys())",
    "set password requirements in the config; npm config set registry https://a.b",
    "let key_string = \"abc\"; const tokenBase = 5; use the -password option, or -token",
];

#[test]
fn ordinary_text_of_programs_stays() {
    let redactor = Redactor::default();
    for ordinary in ORDINARY {
        assert_eq!(redactor.text(ordinary), *ordinary);
        let json = serde_json::json!({ "out": ordinary }).to_string();
        assert_eq!(String::from_utf8_lossy(&redactor.line(json.as_bytes())), json);
    }
}
