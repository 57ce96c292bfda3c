//! How browsers come in: by a link on another site, and with a token that is pasted.

use tapline_server::ServerTokens;

use crate::stage::{Answer, Stage, TOKEN};

/// What a browser sends when a person follows a link on another site. The cookie is strict, so it stays behind.
const FOLLOWED: [(&str, &str); 3] =
    [("Sec-Fetch-Site", "cross-site"), ("Sec-Fetch-Mode", "navigate"), ("Sec-Fetch-Dest", "document")];

#[test]
fn a_link_on_another_site_leads_to_the_page_and_to_nothing_else() {
    let stage = Stage::new();
    for path in ["/", "/sessions/x", "/costs?by=model"] {
        let answer = stage.ask("GET", path, &FOLLOWED, b"");
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
        assert!(answer.head.contains("content-type: text/html") && answer.head.contains("x-frame-options: deny"), "{answer:?}");
        assert!(answer.body.contains("/assets/main.js"), "{answer:?}");
    }
    let token = format!("Bearer {TOKEN}");
    for path in ["/api/v1/sessions", "/api/v1/sessions/x/download", "/api/v1/openapi.json", "/metrics", "/nothing"] {
        let answer = stage.ask("GET", path, &[&FOLLOWED[..], &[("Authorization", &token)]].concat(), b"");
        assert_eq!((answer.status, answer.code().as_str()), (403, "wrong-origin"), "{path}");
    }
    // Another site must not get the page into one of its own: not as a frame, an image or a script, and not by a form.
    for (site, mode, dest) in [
        ("cross-site", "navigate", "iframe"),
        ("cross-site", "no-cors", "image"),
        ("same-site", "no-cors", "script"),
        ("cross-site", "cors", "empty"),
        ("cross-site", "navigate", "object"),
    ] {
        let answer =
            stage.ask("GET", "/", &[("Sec-Fetch-Site", site), ("Sec-Fetch-Mode", mode), ("Sec-Fetch-Dest", dest)], b"");
        assert_eq!(answer.status, 403, "{site} {mode} {dest}");
    }
    let posted = stage.ask("POST", "/", &[&FOLLOWED[..], &[("Origin", "http://evil.example")]].concat(), b"");
    assert_eq!(posted.status, 403, "{posted:?}");
}

fn cookie(answer: &Answer) -> String {
    let cookie = answer.head.lines().find_map(|line| line.strip_prefix("set-cookie: ")).unwrap();
    for part in ["httponly", "samesite=strict", "path=/"] {
        assert!(cookie.contains(part), "{cookie}");
    }
    cookie.split(';').next().unwrap().to_owned()
}

#[test]
fn a_token_that_is_pasted_becomes_a_cookie_with_its_rights() {
    const READER: &str = "reader-0123456789-0123456789";
    let stage = Stage::with(|options| {
        options.tokens = ServerTokens::read(&format!("read {READER}\n{TOKEN}")).unwrap();
    });
    let own = format!("http://{}", stage.address);
    // As the page asks.
    let sign_in = |token: &str| {
        let headers = [("Authorization", token), ("Origin", own.as_str()), ("Sec-Fetch-Site", "same-origin")];
        stage.ask("POST", "/api/v1/sign-in", &headers, b"")
    };
    assert_eq!(sign_in("Bearer another-0123456789-0123456789").code(), "wrong-token");
    assert_eq!(stage.ask("POST", "/api/v1/sign-in", &[], b"").code(), "no-token");
    let (reader, all) = (sign_in(&format!("Bearer {READER}")), sign_in(&format!("Bearer {TOKEN}")));
    assert_eq!((reader.status, all.status), (200, 200));
    let (reader, all) = (cookie(&reader), cookie(&all));
    assert!(reader != all && !reader.contains(READER) && !all.contains(TOKEN), "{reader} {all}");
    let ask =
        |method: &str, path: &str, cookie: &str| stage.ask(method, path, &[("Cookie", cookie), ("Origin", &own)], b"{}\n");
    for cookie in [&reader, &all] {
        let told = ask("GET", "/api/v1/sessions", cookie).json().unwrap();
        let rights = if *cookie == reader { vec!["read"] } else { vec!["push", "read", "control"] };
        assert_eq!(told["rights"], serde_json::json!(rights));
        // It is no token.
        let (_, value) = cookie.split_once('=').unwrap();
        let asked = stage.ask("GET", "/api/v1/sessions", &[("Authorization", &format!("Bearer {value}"))], b"");
        assert_eq!(asked.code(), "wrong-token");
    }
    assert_eq!(ask("POST", "/api/v1/ingest/run", &reader).code(), "no-right");
    assert_eq!(ask("POST", "/api/v1/ingest/run", &all).status, 200);
    // With the cookie alone there is no token to sign in with.
    assert_eq!(ask("POST", "/api/v1/sign-in", &all).status, 400);
    // A token under the name of the cookie is none, and nor is the cookie under another name.
    let name = all.split('=').next().unwrap();
    for wrong in [format!("{name}={TOKEN}"), format!("x{all}"), format!("{name}={name}={all}")] {
        assert_eq!(ask("GET", "/api/v1/sessions", &wrong).code(), "no-token", "{wrong}");
    }
}
