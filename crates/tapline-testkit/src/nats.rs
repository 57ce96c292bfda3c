//! A NATS server of a test's own, on loopback. It is gone after the test.

use std::io::Read as _;
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::Command;

use tokio::net::TcpSocket;

use crate::{TempFolder, TestProcess, wait_until};

/// A server with `JetStream`. The variable `NATS_SERVER` says which program it is.
#[derive(Debug)]
pub struct NatsServer {
    process: Option<TestProcess>,
    args: Vec<String>,
    address: SocketAddr,
    /// Nobody else gets the port while the server is away: this socket has it, and does not listen.
    _port: TcpSocket,
    folder: TempFolder,
}

impl NatsServer {
    /// Starts a server.
    pub fn start() -> Self {
        Self::with(&[])
    }

    /// Starts a server with more arguments.
    pub fn with(args: &[&str]) -> Self {
        let (port, folder) = (reserve(), TempFolder::new());
        let address = port.local_addr().unwrap();
        let args = args.iter().map(ToString::to_string).collect();
        let mut server = Self { process: None, args, address, _port: port, folder };
        server.again();
        server
    }

    /// Returns where the server is.
    pub fn url(&self) -> String {
        format!("nats://{}", self.address)
    }

    /// Returns the port of the server.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Returns a path in the folder of this server, for whatever else a test needs.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Ends the server with SIGKILL.
    pub fn kill(&mut self) {
        self.process = None;
    }

    /// Starts the server again, at the same address and with what it had stored.
    pub fn again(&mut self) {
        let program = std::env::var_os("NATS_SERVER");
        let program =
            program.unwrap_or_else(|| panic!("NATS_SERVER is the path of a nats-server: scripts/fleet and scripts/e2e set it"));
        let mut command = Command::new(program);
        command.args(["-a", "127.0.0.1", "-p", &self.port().to_string(), "-js", "-sd"]).arg(self.path("server"));
        let log = self.path("server.log");
        let process = self.process.insert(TestProcess::logged(command.args(&self.args), &log));
        let address = self.address;
        wait_until("the server answers", || {
            assert!(!process.has_ended(), "the server ended:\n{}", std::fs::read_to_string(&log).unwrap_or_default());
            greets(address)
        });
    }
}

/// Reserves a port on loopback: nobody else gets it as long as this socket is there. The socket does not listen, so a server can.
pub fn reserve() -> TcpSocket {
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
