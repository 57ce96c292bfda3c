//! The table of prices is what the real program computes for the same tokens.

use tapline_archive::{Asked, Prices, Tokens};

use crate::session_control::agent;
use crate::stage::{Stage, newest};

/// Models of the table that this program does not know, or replaces with a newer one.
const NOT_ITS_OWN: &[&str] =
    &["claude-3-haiku", "claude-3-opus", "claude-3-sonnet", "claude-mythos-preview", "claude-opus-4", "claude-opus-4-1"];

#[tokio::test(flavor = "multi_thread")]
async fn the_table_of_prices_has_the_prices_of_the_program() {
    // The answers outside the conversation cost nothing.
    let stage = Stage::new(
        &newest(),
        r#"
usage = { input_tokens = 0, output_tokens = 0 }
[[turn]]
text = "Done."
repeat = "forever"
usage = { input_tokens = 1000, output_tokens = 200, cache_read_input_tokens = 30000, cache_creation_input_tokens = 4000 }
"#,
    );
    let tokens = Tokens { input: 1_000, output: 200, cache_read: 30_000, cache_write_5m: 4_000, ..Tokens::default() };
    let mut session = agent(&stage).session().await.unwrap();
    let (mut before, mut compared) = (0.0, 0);
    let names = Prices::embedded().table().map(|(name, _)| name);
    for name in names.filter(|name| name.starts_with("claude-") && !NOT_ITS_OWN.contains(name)) {
        session.set_model(name).await.unwrap();
        session.turn("go").await.unwrap();
        let total = session.usage().await.unwrap().session.unwrap().total_cost_usd.unwrap().as_f64();
        let ours = Prices::embedded().price(&Asked { model: name, tokens, ..Asked::default() }).unwrap().usd();
        assert!((total - before - ours).abs() < 1e-9, "{name}: the program says {}, the table {ours}", total - before);
        (before, compared) = (total, compared + 1);
    }
    assert!(compared > 20, "{compared}");
    session.finish().await;
}
