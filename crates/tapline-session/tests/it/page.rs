//! The page stands alone: its content policy allows its own style and its own script, and nothing else.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};
use tapline_session::render::RenderAs;
use tapline_session::render::html::{CONTENT_POLICY, STYLE};
use tapline_testkit::fixture;

use crate::read_stream::{show, tell_plainly};

fn page(name: &str) -> String {
    show(&tell_plainly(&std::fs::read(fixture(name)).unwrap()), RenderAs::Html)
}

/// What stands between these tags, each time.
fn parts<'p>(page: &'p str, start: &str, end: &str) -> Vec<&'p str> {
    page.split(start).skip(1).map(|rest| rest.split_once(end).unwrap().0).collect()
}

#[test]
fn the_policy_names_the_styles_and_the_script() {
    let page = page("claude-2.1.325/tools.jsonl");
    let (styles, scripts) = (parts(&page, "<style>", "</style>"), parts(&page, "<script>", "</script>"));
    assert_eq!((styles.len(), styles[0], scripts.len()), (2, STYLE, 1));
    let hashes = |parts: &[&str]| {
        parts.iter().map(|part| format!("'sha256-{}'", STANDARD.encode(Sha256::digest(part)))).collect::<Vec<_>>().join(" ")
    };
    let (styles, scripts) = (hashes(&styles), hashes(&scripts));
    let policy = format!("default-src 'none'; style-src {styles}; script-src {scripts}; base-uri 'none'; form-action 'none'");
    assert_eq!(CONTENT_POLICY, policy);
    assert!(page.contains(CONTENT_POLICY));
}

#[test]
fn nothing_is_fetched_and_links_stay_on_the_page() {
    let page = page("claude-2.1.325/subagent.jsonl");
    for word in ["src=", "url(", "@import", "onclick", "<iframe", "<form", "<img", "<link", "fetch(", "style="] {
        assert!(!page.contains(word), "{word}");
    }
    for link in parts(&page, "href=", ">") {
        assert!(link.starts_with("\"#step-"), "{link}");
    }
}

#[test]
fn every_link_of_the_page_leads_somewhere() {
    let page = page("claude-2.1.325/subagent.jsonl");
    let links = parts(&page, "href=\"#", "\"");
    assert!(links.len() > 5);
    for link in links {
        assert!(page.contains(&format!("id={link}>")), "{link}");
    }
}

#[test]
fn sub_agents_stand_under_their_call() {
    let page = page("claude-2.1.325/subagent.jsonl");
    let cards = parts(&page, "<article class=\"", "</article>");
    let kinds: Vec<_> = cards.iter().map(|card| card.split('"').next().unwrap()).collect();
    let call = kinds.iter().position(|kind| *kind == "card call").unwrap();
    let agent: Vec<_> = (0..cards.len()).filter(|at| kinds[*at].ends_with(" d1")).collect();
    assert_eq!(agent.first(), Some(&(call + 1)), "{kinds:?}");
    assert_eq!(agent, (call + 1..=call + agent.len()).collect::<Vec<_>>(), "{kinds:?}");
    let agent: String = agent.into_iter().map(|at| cards[at]).collect();
    assert!(agent.contains("Looking.") && agent.contains("echo sub") && !agent.contains("Delegating."), "{agent}");
}
