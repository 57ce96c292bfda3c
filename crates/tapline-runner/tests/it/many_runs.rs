//! Many agents at once from one program: no line lost, no descriptor left open. (A thousand: scripts/bench.)

use tapline_testkit::{HANG, rerun, wait_until};

use crate::fake_agent::{fake, id_of, left_of};

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

#[test]
fn forty_at_once() {
    // In a process of its own, so that no other test's descriptors are counted.
    if std::env::var_os("ALONE").is_none() {
        assert!(rerun(module_path!(), "forty_at_once").env("ALONE", "1").status().unwrap().success());
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let round = || async {
        let runs = (0..40).map(|_| {
            let agent = fake("lines").env("LINES_WANTED", "500").timeout(HANG);
            tokio::spawn(async move {
                let id = id_of(&agent);
                let mut run = agent.start().await.unwrap().collect_only("");
                let mut lines = 0;
                while let Some(record) = run.next().await {
                    lines += 1;
                    assert!(lines == 1 || lines == 502 || record.text().contains(&format!("\"line {}\"", lines - 1)));
                }
                assert!(run.finish().await.verdict.clean);
                assert!(left_of(&id).is_empty());
                lines
            })
        });
        for run in runs.collect::<Vec<_>>() {
            assert_eq!(run.await.unwrap(), 502);
        }
    };
    runtime.block_on(round());
    let before = descriptors();
    runtime.block_on(round());
    // What a task holds that was just aborted goes when it gets a turn.
    wait_until("no descriptor is left open", || descriptors() == before);
}
