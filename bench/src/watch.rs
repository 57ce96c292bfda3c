//! `bench watch`: ten thousand readers of server-sent events, of tapline's server and of a plain axum broadcast, in turns; and an hour of
//! events, replayed fast.

mod load;
mod own;
mod peer;
mod server;

use std::fmt::Write as _;
use std::io;
use std::path::Path;

use load::{Load, Turn};
use peer::Peer;
use server::Child;

/// How many clients there are, and for how long they listen.
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    /// How many watch the list.
    pub list: usize,
    /// How many follow a session.
    pub follow: usize,
    pub seconds: u64,
    pub rounds: usize,
    /// How many events an hour has.
    pub events: u64,
    /// How many events of a session are in one request, where each client has a session of its own.
    pub batch: u64,
}

impl Extent {
    pub const FULL: Self = Self { list: 9_000, follow: 1_000, seconds: 20, rounds: 3, events: 72_000, batch: 20 };
    pub const QUICK: Self = Self { seconds: 8, rounds: 2, ..Self::FULL };
    pub const SMOKE: Self = Self { list: 90, follow: 10, seconds: 2, rounds: 1, events: 2_000, batch: 20 };
}

/// Serves for the others: `tapline FOLDER`, `peer`, `reader FOLDER` or `early FOLDER`; `page HOME` for the browser.
pub fn serve(args: &[&str]) -> io::Result<()> {
    match args {
        ["tapline", folder] => server::tapline(folder.as_ref()),
        ["page", home] => server::page(home.as_ref()),
        ["peer"] => peer::serve(None, Peer::default()),
        ["peer", folder] => peer::serve(Some(folder.as_ref()), Peer::default()),
        ["reader", folder] => peer::serve(Some(folder.as_ref()), Peer { reads: true, early: false }),
        ["early", folder] => peer::serve(Some(folder.as_ref()), Peer { reads: true, early: true }),
        _ => Err(io::Error::other("serve tapline FOLDER | page HOME | peer [FOLDER] | reader FOLDER | early FOLDER")),
    }
}

fn raise_limit() -> io::Result<()> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum })?;
    Ok(())
}

fn ms(micros: u64) -> f64 {
    micros as f64 / 1e3
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// Ten thousand readers: how long an event takes to reach them, and how much memory each of them costs.
pub fn clients(extent: Extent, folder: &Path) -> io::Result<String> {
    raise_limit()?;
    let mut sizes = [400, 800];
    let mut turns: [Vec<Turn>; 2] = [Vec::new(), Vec::new()];
    for round in 0..extent.rounds {
        let home = folder.join(format!("round-{round}"));
        let turn = load::turn(extent, &Load::Tapline, Child::tapline(&home)?)?;
        sizes = turn.sizes;
        turns[0].push(turn);
        turns[1].push(load::turn(extent, &Load::Peer(sizes), Child::peer(None, "peer")?)?);
        std::fs::remove_dir_all(&home)?;
    }
    let mut out = format!(
        "{} clients: {} watch the list, {} follow a session; {} s, {} rounds in turns; an event of the session has {} bytes, one of the list {}\n",
        extent.list + extent.follow,
        extent.list,
        extent.follow,
        extent.seconds,
        extent.rounds,
        sizes[0],
        sizes[1]
    );
    write_turns(&mut out, &turns, extent.seconds);
    Ok(out)
}

fn write_turns(out: &mut String, turns: &[Vec<Turn>; 2], seconds: u64) {
    for (name, turns) in ["tapline", "axum broadcast"].iter().zip(turns) {
        for turn in turns {
            let _ = writeln!(
                out,
                "  {name:<15} p50 {:>6.1} ms  p99 {:>6.1} ms  (session p99 {:>6.1} ms, list p99 {:>6.1} ms)  {:>5.1} KiB a client  {:>6.0} events/s  {} lost or repeated",
                ms(turn.all.at(0.5)),
                ms(turn.all.at(0.99)),
                ms(turn.session.at(0.99)),
                ms(turn.list.at(0.99)),
                turn.bytes_per_client as f64 / 1024.0,
                turn.all.len() as f64 / seconds as f64,
                turn.wrong
            );
        }
    }
    let median = |turns: &[Turn], value: fn(&Turn) -> f64| {
        let mut values: Vec<f64> = turns.iter().map(value).collect();
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    for (what, value) in [
        ("p99 delivery", (|turn: &Turn| turn.all.at(0.99) as f64) as fn(&Turn) -> f64),
        ("memory a client", |turn| turn.bytes_per_client as f64),
    ] {
        let ratio = median(&turns[0], value) / median(&turns[1], value);
        let kept = if ratio <= 1.2 { "kept" } else { "not kept" };
        let _ = writeln!(out, "  {what}, tapline / axum broadcast: {ratio:.2}× (medians; at most 1.2×: {kept})");
    }
}

/// As many sessions as followers, and all servers keep what is posted: how long an event takes to reach the one who follows its session. One
/// peer reads and renders each line, one tells its readers before the disk is done, too, as tapline does, and one passes bytes on.
pub fn sessions(extent: Extent, folder: &Path) -> io::Result<String> {
    raise_limit()?;
    let mut turns: [Vec<Turn>; 4] = Default::default();
    let mut late: [Vec<u64>; 4] = Default::default();
    let mut sizes = [400, 800];
    for round in 0..extent.rounds {
        let home = folder.join(format!("sessions-{round}"));
        for (at, name) in ["tapline", "reader", "early", "peer"].into_iter().enumerate() {
            let peer = home.join(format!("peer-{at}"));
            let (load, child) = match at {
                0 => (Load::Tapline, Child::tapline(&home)?),
                _ => (Load::Peer(sizes), Child::peer(Some(&peer), name)?),
            };
            let own = own::Own { sessions: extent.follow, batch: extent.batch, seconds: extent.seconds, lines: name != "peer" };
            let (turn, behind) = own::turn(own, &load, child)?;
            if at == 0 {
                sizes = turn.sizes;
            }
            turns[at].push(turn);
            late[at].push(behind);
        }
        std::fs::remove_dir_all(&home)?;
    }
    let mut out = format!(
        "{} clients, each follows a session of its own with 20 events a second, {} in a request; {} s, {} rounds in turns; an event has {} bytes; requests that were late, of each: {late:?}\n",
        extent.follow, extent.batch, extent.seconds, extent.rounds, sizes[0]
    );
    let [ours, reads, early, passes] = turns;
    let mut pair = [ours, Vec::new()];
    for (what, peer) in [
        ("reads and renders each line, and tells when it is on the disk", reads),
        ("reads and renders each line, and tells while the disk is at work, as tapline does", early),
        ("passes bytes on when they are on the disk", passes),
    ] {
        pair[1] = peer;
        let _ = writeln!(out, "beside a broadcast that {what}");
        write_turns(&mut out, &pair, extent.seconds);
    }
    Ok(out)
}

/// An hour of events, as fast as the server takes them: its memory must not grow.
pub fn hour(extent: Extent, folder: &Path) -> io::Result<String> {
    raise_limit()?;
    let home = folder.join("hour");
    let samples = load::hour(extent.events, Child::tapline(&home)?)?;
    std::fs::remove_dir_all(&home)?;
    let mut out = format!(
        "an hour of events: {} of a session with 10 followers, {} changes of the list\n",
        extent.events,
        extent.events / 20
    );
    for (at, bytes) in samples {
        let _ = writeln!(out, "  {at:<6} {:>6.1} MiB resident", mib(bytes));
    }
    Ok(out)
}
