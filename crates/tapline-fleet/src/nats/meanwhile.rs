//! What happens beside a run: somebody stops it, it has ended elsewhere, or the broker has lost the note of it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::bucket::{NEW, written};
use super::order::RunOf;
use super::workbench::Workbench;

/// How often a run that another worker may make, too, looks whether it has an outcome.
const LOOK: Duration = Duration::from_secs(3);

/// Notes a run again if the broker has lost the note, so that no other worker begins it.
pub(super) async fn note_again(shared: Arc<Workbench>, job_key: String, note: RunOf) {
    let mut renewed = shared.queue.renewed.subscribe();
    while renewed.changed().await.is_ok() {
        shared.queue.runs.swap(&job_key, &written(&note), NEW).await;
    }
}

/// Returns when the order has an outcome that is not ours. That is possible only if it is the second run of the order, or if the connection was
/// lost meanwhile.
pub(super) async fn ended_elsewhere(shared: Arc<Workbench>, key: String, is_second: bool) {
    if !is_second {
        shared.queue.trouble.back().await;
    }
    while shared.queue.outcomes.bytes(&key).await.is_none() {
        tokio::time::sleep(LOOK).await;
    }
}

/// Stops a run if its batch is stopped, or its worker for the second time, or if it has ended elsewhere.
pub(super) async fn stop_with(
    batch: String,
    mut batches: watch::Receiver<BTreeMap<String, u32>>,
    mut worker: watch::Receiver<u32>,
    ended: impl Future<Output = ()>,
    stops: watch::Sender<u32>,
) {
    let mut ended = std::pin::pin!(ended);
    let mut has_ended = false;
    loop {
        let of_batch = batches.borrow_and_update().get(&batch).copied().unwrap_or_default();
        let of_worker = worker.borrow_and_update().saturating_sub(1);
        let now = of_batch.max(of_worker).max(u32::from(has_ended));
        stops.send_if_modified(|level| std::mem::replace(level, now) != now);
        tokio::select! {
            () = &mut ended, if !has_ended => has_ended = true,
            changed = batches.changed() => if changed.is_err() { return },
            changed = worker.changed() => if changed.is_err() { return },
        }
    }
}
