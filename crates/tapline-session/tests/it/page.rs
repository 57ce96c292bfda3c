//! The page stands alone: its content policy allows its own style and nothing else.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};
use tapline_session::render::{CONTENT_POLICY, RenderAs};

use crate::fixtures::{folder, show, tell_plainly};

fn page(fixture: &str) -> String {
    show(&tell_plainly(&std::fs::read(folder().join(fixture)).unwrap()), RenderAs::Html)
}

#[test]
fn the_policy_names_the_style() {
    let page = page("claude-2.1.325/tools.jsonl");
    let style = page.split_once("<style>").unwrap().1.split_once("</style>").unwrap().0;
    let hash = STANDARD.encode(Sha256::digest(style));
    assert!(CONTENT_POLICY.contains(&format!("'sha256-{hash}'")), "the style's hash is now sha256-{hash}");
    assert!(CONTENT_POLICY.starts_with("default-src 'none';"));
    assert!(page.contains(CONTENT_POLICY));
}

#[test]
fn nothing_is_fetched_or_run() {
    let page = page("claude-2.1.325/subagent.jsonl");
    for word in ["<script", "src=", "href=", "url(", "@import", "onclick", "<iframe", "<form"] {
        assert!(!page.contains(word), "{word}");
    }
}

#[test]
fn sub_agents_stand_under_their_call() {
    let page = page("claude-2.1.325/subagent.jsonl");
    let agent = page.split_once("<div class=agent>").unwrap().1.split_once("</div>\n</div>").unwrap().0;
    assert!(agent.contains("Looking.") && agent.contains("echo sub"), "{agent}");
    assert!(!agent.contains("Delegating."));
}
