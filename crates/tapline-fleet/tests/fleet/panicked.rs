//! A panic in a run: the worker goes on, and the job has a result that says so.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

use tapline_fleet::{Worker, WorkerNews};
use tokio::sync::{mpsc, watch};

use crate::broker::{Server, wait_until};
use crate::crew::{Crew, options};

/// Wakes the reader of a worker's news. Once, it panics where the news is sent.
struct Bomb {
    reader: Thread,
    is_armed: AtomicBool,
}

impl Wake for Bomb {
    fn wake(self: Arc<Self>) {
        self.reader.unpark();
        assert!(!self.is_armed.swap(false, Ordering::SeqCst), "this panic is part of the test");
    }
}

/// Reads news until there is none. What is sent after `Ready` makes whoever sends it panic, once.
fn read(mut news: mpsc::UnboundedReceiver<WorkerNews>) {
    let bomb = Arc::new(Bomb { reader: std::thread::current(), is_armed: AtomicBool::new(false) });
    let waker = Waker::from(Arc::clone(&bomb));
    loop {
        match news.poll_recv(&mut Context::from_waker(&waker)) {
            Poll::Ready(Some(WorkerNews::Ready)) => bomb.is_armed.store(true, Ordering::SeqCst),
            Poll::Ready(Some(_)) => {}
            Poll::Ready(None) => return,
            Poll::Pending => std::thread::park(),
        }
    }
}

#[test]
fn a_worker_goes_on_after_a_panic_in_a_run() {
    let server = Server::start();
    let crew = Crew::new(&server);
    let (broker, place) = (crew.broker(), crew.place("w1"));
    let (news, told) = mpsc::unbounded_channel();
    let (stop, stopped) = watch::channel(0);
    std::thread::scope(|scope| {
        scope.spawn(move || read(told));
        scope.spawn(move || {
            let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
            runtime.block_on(async {
                let worker = Box::pin(Worker::open(&broker, place, options("w1", 1), news)).await;
                worker.unwrap_or_else(|error| panic!("{error}")).run(stopped).await;
            });
            runtime.shutdown_background();
        });
        let text = "[[job]]\nname = \"a\"\nprompt = \"say a\"\n[[job]]\nname = \"b\"\nprompt = \"say b\"\n";
        let ran = crew.run_while(text, |_| {}, |_| wait_until("both have ended", || crew.ended().len() == 2));
        stop.send(1).unwrap();
        assert_eq!(ran.outcomes(), [("a", "failure"), ("b", "success")]);
        let result = ran.result("a");
        let error = result.error.clone().unwrap_or_default();
        assert!(error.contains("worker w1") && error.contains("panicked"), "{error}");
        assert_eq!((result.worker.as_deref(), crew.traces("a").len()), (Some("w1"), 0));
    });
}
