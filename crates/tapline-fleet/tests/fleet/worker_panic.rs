//! A panic in a run: the worker goes on, and the job has a result that says so.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

use tapline_fleet::{Worker, WorkerNews};
use tapline_testkit::nats::NatsServer;
use tapline_testkit::{HANG, wait_until};
use tokio::sync::{mpsc, watch};

use crate::crew::{Crew, options};

/// Wakes the reader of a worker's news. Once, it panics where the news is sent.
struct Bomb {
    reader: Thread,
    woken: AtomicU32,
    is_armed: AtomicBool,
}

impl Wake for Bomb {
    fn wake(self: Arc<Self>) {
        // First: the reader can arm it as soon as it knows of this call.
        let goes_off = self.is_armed.swap(false, Ordering::SeqCst);
        self.woken.fetch_add(1, Ordering::SeqCst);
        self.reader.unpark();
        assert!(!goes_off, "this panic is part of the test");
    }
}

/// Reads news until there is none, and says twice that it waits for some. The second time, `Ready` has come, and whoever sends the next panics.
///
/// A sender first stores what it has to say and then wakes the reader, who may have read it by then. So the wake of `Ready` is waited for.
fn read(mut news: mpsc::UnboundedReceiver<WorkerNews>, waits: &std::sync::mpsc::Sender<()>) {
    let bomb = Bomb { reader: std::thread::current(), woken: AtomicU32::new(0), is_armed: AtomicBool::new(false) };
    let bomb = Arc::new(bomb);
    let waker = Waker::from(Arc::clone(&bomb));
    let mut said = 0;
    let mut is_ready = false;
    loop {
        let woken = bomb.woken.load(Ordering::SeqCst);
        match news.poll_recv(&mut Context::from_waker(&waker)) {
            Poll::Ready(Some(event)) => is_ready |= matches!(event, WorkerNews::Ready),
            Poll::Ready(None) => return,
            Poll::Pending => {
                if said == 0 || (said == 1 && is_ready && woken == 1) {
                    bomb.is_armed.store(said == 1, Ordering::SeqCst);
                    said += 1;
                    waits.send(()).unwrap();
                }
                std::thread::park();
            }
        }
    }
}

/// Stops the worker when it is dropped, also if the test fails: the scope would wait for it forever.
struct Stops(watch::Sender<u32>);

impl Drop for Stops {
    fn drop(&mut self) {
        let _ = self.0.send(3);
    }
}

#[test]
fn a_worker_goes_on_after_a_panic_in_a_run() {
    let server = NatsServer::start();
    let crew = Crew::new(&server);
    let (broker, place) = (crew.broker(), crew.place("w1"));
    let (news, told) = mpsc::unbounded_channel();
    let (stop, stopped) = watch::channel(0);
    let (waits, is_waiting) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let _stops = Stops(stop);
        scope.spawn(move || read(told, &waits));
        is_waiting.recv_timeout(HANG).unwrap();
        scope.spawn(move || {
            let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
            runtime.block_on(async {
                let worker = Box::pin(Worker::open(&broker, place, options("w1", 1), news)).await;
                worker.unwrap_or_else(|error| panic!("{error}")).run(stopped).await;
            });
            runtime.shutdown_background();
        });
        is_waiting.recv_timeout(HANG).unwrap();
        let text = "[[job]]\nname = \"a\"\nprompt = \"say a\"\n[[job]]\nname = \"b\"\nprompt = \"say b\"\n";
        let ran = crew.run_while(text, |_| {}, |_| wait_until("both have ended", || crew.ended().len() == 2));
        assert_eq!(ran.outcomes(), [("a", "failure"), ("b", "success")]);
        let result = ran.result("a");
        let error = result.error.clone().unwrap_or_default();
        assert!(error.contains("worker w1") && error.contains("panicked"), "{error}");
        assert_eq!((result.worker.as_deref(), crew.traces("a").len()), (Some("w1"), 0));
    });
}
