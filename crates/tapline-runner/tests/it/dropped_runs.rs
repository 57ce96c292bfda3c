//! A run that is dropped, awaited or not, leaves no process.

use std::time::Duration;

use crate::fake_agent::{fake, gone, id_of};

#[tokio::test]
async fn dropped_before_a_word_was_read() {
    for mode in ["hang", "stubborn", "grandchild", "hang-silent"] {
        let agent = fake(mode);
        let id = id_of(&agent);
        drop(agent.start().await.unwrap());
        assert!(gone(&id), "{mode}: {:?}", crate::fake_agent::left_of(&id));
    }
}

#[tokio::test]
async fn dropped_while_it_is_waited_for() {
    let agent = fake("stubborn");
    let id = id_of(&agent);
    let run = agent.start().await.unwrap();
    assert!(tokio::time::timeout(Duration::from_millis(300), run.finish()).await.is_err());
    assert!(gone(&id));
}

#[tokio::test]
async fn dropped_while_it_starts() {
    let agent = fake("hang");
    let id = id_of(&agent);
    // Polled once: the process may be there, and nobody has it yet (or, rarely, somebody does).
    drop(tokio::time::timeout(Duration::ZERO, agent.start()).await);
    // One thread starts all of them, in order: behind this one, the first has been started.
    let _ = fake("ok").start().await.unwrap().finish().await;
    assert!(gone(&id));
}

#[test]
fn dropped_with_its_runtime() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let agent = fake("grandchild");
    let id = id_of(&agent);
    let run = runtime.block_on(agent.start()).unwrap();
    drop(runtime);
    drop(run);
    assert!(gone(&id));
}

#[test]
fn a_runtime_that_ends_under_it_ends_it_too() {
    let agent = fake("stubborn");
    let id = id_of(&agent);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async move {
        let (begun, begins) = tokio::sync::oneshot::channel();
        tokio::spawn(async move {
            let mut run = agent.start().await.unwrap();
            run.next().await.unwrap();
            begun.send(()).unwrap();
            while run.next().await.is_some() {}
        });
        begins.await.unwrap();
    });
    drop(runtime);
    assert!(gone(&id));
}
