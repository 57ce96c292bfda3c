//! A NATS server of a test's own, on loopback. It is gone after the test.

use std::fs::File;
use std::io::Read as _;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tokio::net::TcpSocket;

/// Whoever takes longer hangs. No speed is tested by it: a busy machine may be slow.
pub(crate) const HANG: Duration = Duration::from_secs(180);

/// A folder of a test's own, gone afterwards.
#[derive(Debug)]
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("tapline-nats-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A server with JetStream.
#[derive(Debug)]
pub(crate) struct Server {
    child: Option<Child>,
    args: Vec<String>,
    address: SocketAddr,
    /// Nobody else gets the port while the server is away: this socket has it, and does not listen.
    _port: TcpSocket,
    folder: Folder,
}

impl Server {
    /// Starts a server.
    pub(crate) fn start() -> Self {
        Self::with(&[])
    }

    /// Starts a server with these arguments besides.
    pub(crate) fn with(args: &[&str]) -> Self {
        let (port, folder) = (reserve(), Folder::new());
        let address = port.local_addr().unwrap();
        let args = args.iter().map(ToString::to_string).collect();
        let mut server = Self { child: None, args, address, _port: port, folder };
        server.again();
        server
    }

    /// Where the server is.
    pub(crate) fn url(&self) -> String {
        format!("nats://{}", self.address)
    }

    /// A path in the folder of this server, for whatever else a test needs.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path(name)
    }

    /// Ends the server with SIGKILL.
    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Starts the server again, at the same address and with what it had stored.
    pub(crate) fn again(&mut self) {
        let program = std::env::var_os("NATS_SERVER").expect("NATS_SERVER is the path of a nats-server: run scripts/fleet");
        let log = self.path("server.log");
        let mut command = Command::new(program);
        command.args(["-a", "127.0.0.1", "-p", &self.address.port().to_string(), "-js", "-sd"]).arg(self.path("server"));
        command.arg("-l").arg(&log).args(&self.args).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = self.child.insert(command.spawn().unwrap());
        let address = self.address;
        wait_until("the server answers", || {
            if let Some(ended) = child.try_wait().unwrap() {
                panic!("the server ended: {ended}\n{}", std::fs::read_to_string(&log).unwrap_or_default());
            }
            greets(address)
        });
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A port on loopback that nobody else gets as long as this socket is there. It does not listen, so a server can.
pub(crate) fn reserve() -> TcpSocket {
    let port = TcpSocket::new_v4().unwrap();
    port.set_reuseaddr(true).unwrap();
    port.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    port
}

/// Whether a server says at this address what it is.
fn greets(address: SocketAddr) -> bool {
    let mut greeting = [0; 4];
    TcpStream::connect(address).and_then(|mut to| to.read_exact(&mut greeting)).is_ok() && greeting == *b"INFO"
}

/// A process of this test binary that plays a part in a test, and can be killed: it runs this test, with these variables.
#[derive(Debug)]
pub(crate) struct Process(Child);

impl Process {
    pub(crate) fn new(test: &str, environment: &[(&str, &Path)], log: &Path) -> Self {
        let log = File::options().create(true).append(true).open(log).unwrap();
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", test, "--nocapture"]).envs(environment.iter().copied()).stdin(Stdio::null());
        command.stdout(log.try_clone().unwrap()).stderr(log);
        Self(command.spawn().unwrap())
    }
}

impl Process {
    pub(crate) fn has_ended(&mut self) -> bool {
        self.0.try_wait().unwrap().is_some()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits until this is so.
pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let until = Instant::now() + HANG;
    while !is_so() {
        assert!(Instant::now() < until, "it never came to this: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}
