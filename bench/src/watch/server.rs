//! The servers that are measured, each in a process of its own.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child as Process, Command, Stdio};

use tapline_recording::Store;
use tapline_server::{Server, ServerOptions, ServerTokens};

/// The token of both.
pub const TOKEN: &str = "a-token-of-the-benchmark-0123456789";

/// A server that runs. It ends when it is dropped.
#[derive(Debug)]
pub struct Child {
    process: Process,
    pub address: SocketAddr,
}

impl Child {
    pub fn tapline(home: &Path) -> io::Result<Self> {
        std::fs::create_dir_all(home)?;
        Self::start(&["tapline".as_ref(), home.as_os_str()])
    }

    /// A peer, which keeps what is posted if it has a folder.
    pub fn peer(folder: Option<&Path>, name: &str) -> io::Result<Self> {
        let mut args: Vec<&std::ffi::OsStr> = vec![name.as_ref()];
        args.extend(folder.map(Path::as_os_str));
        Self::start(&args)
    }

    fn start(args: &[&std::ffi::OsStr]) -> io::Result<Self> {
        let mut process = Command::new(std::env::current_exe()?)
            .args(["watch", "serve"])
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut line = String::new();
        BufReader::new(process.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?).read_line(&mut line)?;
        let address = line.trim().parse().map_err(io::Error::other)?;
        Ok(Self { process, address })
    }

    /// Returns how much memory it has, in bytes.
    pub fn memory(&self) -> io::Result<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or(io::ErrorKind::InvalidData)?;
        let kib: u64 = line.trim().trim_end_matches(" kB").parse().map_err(io::Error::other)?;
        Ok(kib * 1024)
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Says where the server is, and waits until nobody needs it any more.
pub fn told(address: impl std::fmt::Display) -> io::Result<impl Future<Output = ()>> {
    let mut out = io::stdout().lock();
    writeln!(out, "{address}")?;
    out.flush()?;
    Ok(async {
        let _ = tokio::task::spawn_blocking(|| io::stdin().read(&mut [0])).await;
    })
}

/// tapline's server, with a home of its own and nothing in it.
pub fn tapline(home: &Path) -> io::Result<()> {
    let mut options = ServerOptions::default();
    options.roots = vec![home.join("recordings")];
    options.tokens = ServerTokens::read(TOKEN).map_err(io::Error::other)?;
    run(options, home, |server| server.address().to_string())
}

/// The same for a browser, with the transcripts of a home. It says its link.
pub fn page(home: &Path) -> io::Result<()> {
    let mut options = ServerOptions::default();
    options.roots = vec![home.join(".claude")];
    run(options, &home.join("tapline"), Server::link)
}

fn run(mut options: ServerOptions, store: &Path, says: fn(&Server) -> String) -> io::Result<()> {
    super::raise_limit()?;
    options.store = Store::at(store);
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(async {
        let server = Server::bind(options).await.map_err(io::Error::other)?;
        let end = told(says(&server))?;
        server.run(end).await;
        Ok(())
    })
}
