//! `bench watch`: ten thousand readers of server-sent events, of tapline's server and of a plain axum broadcast, in turns; and an hour of
//! events, replayed fast.

mod load;
mod own;
mod peer;
mod server;

use std::io;
use std::path::Path;
use std::time::Duration;

use load::{Load, Turn};
use peer::Peer;
use server::Child;

use crate::row::{Figure, Promise, Row};

/// How many clients there are, and for how long they listen.
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    /// How many watch the list.
    pub list: usize,
    /// How many follow a session.
    pub follow: usize,
    /// How long the servers have to get going.
    pub warm_up: Duration,
    pub seconds: u64,
    pub rounds: usize,
    /// How many events an hour has.
    pub events: u64,
    /// How many events of a session are in one request, where each client has a session of its own.
    pub batch: u64,
}

impl Extent {
    pub const FULL: Self =
        Self { list: 9_000, follow: 1_000, warm_up: Duration::from_secs(3), seconds: 20, rounds: 3, events: 72_000, batch: 20 };
    pub const QUICK: Self =
        Self { list: 1_800, follow: 200, warm_up: Duration::from_secs(1), seconds: 3, rounds: 1, events: 14_400, ..Self::FULL };
    pub const SMOKE: Self =
        Self { list: 90, follow: 10, warm_up: Duration::from_millis(100), seconds: 1, events: 2_000, ..Self::QUICK };
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

/// How many times the peer's delay and memory are allowed.
const MOST: f64 = 1.2;

/// Ten thousand readers: how long an event takes to reach them, and how much memory each of them costs.
pub fn clients(extent: Extent, folder: &Path) -> io::Result<Vec<Row>> {
    raise_limit()?;
    let (mut ours, mut peer) = (Vec::new(), Vec::new());
    for round in 0..extent.rounds {
        let home = folder.join(format!("round-{round}"));
        let turn = load::turn(extent, &Load::Tapline, Child::tapline(&home)?)?;
        peer.push(load::turn(extent, &Load::Peer(turn.sizes), Child::peer(None, "peer")?)?);
        ours.push(turn);
        std::fs::remove_dir_all(&home)?;
    }
    let what = format!("serve, {} readers", extent.list + extent.follow);
    let pair = [&ours[..], &peer[..]];
    let of_session: fn(&Turn) -> f64 = |turn| turn.session.at(0.99) as f64 / 1e6;
    let mut rows = vec![p99(&what, "an axum broadcast", pair), memory(&what, "an axum broadcast", pair)];
    rows.push(
        Row::new(format!("{what}: p99 of those who follow a session / an axum broadcast"), median(&ours, of_session, "s"))
            .beside(median(&peer, of_session, "s")),
    );
    rows.push(wrong(&what, pair));
    Ok(rows)
}

fn median(turns: &[Turn], value: fn(&Turn) -> f64, unit: &'static str) -> Figure {
    Figure::median(turns.iter().map(value).collect(), unit)
}

fn p99(what: &str, beside: &str, [ours, peer]: [&[Turn]; 2]) -> Row {
    let value: fn(&Turn) -> f64 = |turn| turn.all.at(0.99) as f64 / 1e6;
    let row = Row::new(format!("{what}: p99 of deliveries / {beside}"), median(ours, value, "s"));
    row.beside(median(peer, value, "s")).promised(Promise::Within(MOST))
}

fn memory(what: &str, beside: &str, [ours, peer]: [&[Turn]; 2]) -> Row {
    let value: fn(&Turn) -> f64 = |turn| turn.bytes_per_client as f64 / 1024.0;
    let row = Row::new(format!("{what}: memory of each / {beside}"), median(ours, value, "KiB"));
    row.beside(median(peer, value, "KiB")).promised(Promise::Within(MOST))
}

fn wrong(what: &str, [ours, peer]: [&[Turn]; 2]) -> Row {
    let wrong = |turns: &[Turn]| {
        let told: usize = turns.iter().map(|turn| turn.all.len()).sum();
        Figure::new(turns.iter().map(|turn| turn.wrong).sum::<u64>() as f64, "events").note(format!("of {told}"))
    };
    Row::new(format!("{what}: events lost or repeated"), wrong(ours)).beside(wrong(peer)).promised(Promise::AtMost(0.0))
}

/// As many sessions as followers, and all servers keep what is posted: how long an event takes to reach the one who follows its session. One
/// peer reads and renders each line, one tells its readers before the disk is done, too, as tapline does, and one passes bytes on.
pub fn sessions(extent: Extent, folder: &Path) -> io::Result<Vec<Row>> {
    raise_limit()?;
    let mut turns: [Vec<Turn>; 4] = Default::default();
    let mut late = [0; 4];
    let mut sizes = [400, 800];
    for round in 0..extent.rounds {
        let home = folder.join(format!("sessions-{round}"));
        for (at, name) in ["tapline", "early", "reader", "peer"].into_iter().enumerate() {
            let peer = home.join(format!("peer-{at}"));
            let (load, child) = match at {
                0 => (Load::Tapline, Child::tapline(&home)?),
                _ => (Load::Peer(sizes), Child::peer(Some(&peer), name)?),
            };
            let Extent { follow: sessions, batch, warm_up, seconds, .. } = extent;
            let own = own::Own { sessions, batch, warm_up, seconds, lines: name != "peer" };
            let (turn, behind) = own::turn(own, &load, child)?;
            if at == 0 {
                sizes = turn.sizes;
            }
            turns[at].push(turn);
            late[at] += behind;
        }
        std::fs::remove_dir_all(&home)?;
    }
    let what = format!("serve, {} sessions with a reader each", extent.follow);
    let [ours, early, reader, passes] = &turns;
    let pair = [&ours[..], &early[..]];
    let broadcasts = [
        ("a broadcast that does the same", early),
        ("a broadcast that reads and renders, then tells", reader),
        ("a broadcast of bytes", passes),
    ];
    let mut rows: Vec<Row> = broadcasts.map(|(name, peer)| p99(&what, name, [ours, peer])).into();
    // Then the machine cannot carry so many events, and the delays say little.
    let noted = |figure: &mut Figure, late: u64| {
        if late > 0 {
            figure.note = format!("{late} requests late");
        }
    };
    for (row, of_peer) in rows.iter_mut().zip(&late[1..]) {
        noted(&mut row.tapline, late[0]);
        row.peer.iter_mut().for_each(|peer| noted(peer, *of_peer));
    }
    rows.push(memory(&what, "a broadcast that does the same", pair));
    rows.push(wrong(&what, pair));
    Ok(rows)
}

/// An hour of events, as fast as the server takes them: its memory must not grow.
pub fn hour(extent: Extent, folder: &Path) -> io::Result<Vec<Row>> {
    raise_limit()?;
    let home = folder.join("hour");
    let samples = load::hour(extent.events, Child::tapline(&home)?)?;
    std::fs::remove_dir_all(&home)?;
    let [_, quarter, .., end] = samples.map(|bytes| Figure::new(bytes as f64 / f64::from(1 << 20), "MiB"));
    let what = format!("serve, {} events of a session: memory after them / after a quarter of them", extent.events);
    Ok(vec![Row::new(what, end).beside(quarter)])
}
