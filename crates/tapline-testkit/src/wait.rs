//! Waiting for a condition. No speed is tested by it: the deadline only ends a hang, and a busy machine may be slow.

use std::time::{Duration, Instant};

/// Whatever takes longer hangs.
pub const HANG: Duration = Duration::from_secs(180);

/// How long to wait before the next look: a part of the time so far, so that looks that cost something are not many.
fn pause(since: Instant) -> Duration {
    (since.elapsed() / 8).clamp(Duration::from_millis(1), Duration::from_millis(50))
}

/// Waits until this is so. Returns whether it ever was.
pub fn eventually(mut is_so: impl FnMut() -> bool) -> bool {
    let since = Instant::now();
    loop {
        // Before the look: the machine may stand still in between.
        let is_late = since.elapsed() > HANG;
        if is_so() {
            return true;
        }
        if is_late {
            return false;
        }
        std::thread::sleep(pause(since));
    }
}

/// Waits until this is so. Fails with `what` if it never is.
pub fn wait_until(what: &str, is_so: impl FnMut() -> bool) {
    assert!(eventually(is_so), "it never came to this: {what}");
}

/// Waits until something is there, and returns it. Fails with `what` if it never is.
pub fn wait_for<T>(what: &str, mut find: impl FnMut() -> Option<T>) -> T {
    let mut found = None;
    wait_until(what, || {
        found = find();
        found.is_some()
    });
    found.unwrap()
}

/// Waits until this is so, in an async test. Fails with `what` if it never is.
#[cfg(feature = "tokio")]
pub async fn wait_until_async(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let since = Instant::now();
    let wait = async {
        while !is_so().await {
            tokio::time::sleep(pause(since)).await;
        }
    };
    within(what, wait).await;
}

/// Waits for work, in an async test. Fails with `what` if the work never ends.
#[cfg(feature = "tokio")]
pub async fn within<T>(what: &str, work: impl Future<Output = T>) -> T {
    let done = tokio::time::timeout(HANG, Box::pin(work)).await;
    done.unwrap_or_else(|_| panic!("it never came to this: {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_later_is_waited_for() {
        let mut looks = 0;
        let mut look = || {
            looks += 1;
            (looks == 3).then_some(looks)
        };
        assert_eq!(wait_for("the third look", &mut look), 3);
        wait_until("it is so at once", || true);
        assert_eq!(looks, 3);
    }
}
