//! Running agents: a thousand at once beside a plain `cat` pipeline, what pass-through adds to each event, and what a
//! whole run costs on top of the agent's own.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use tapline_runner::Agent;

use crate::Extent;
use crate::row::{Figure, Promise, Row};

/// Plays an agent: a line every `micros`, each with the moment it was written; some lines are `size` bytes long.
pub(crate) fn play(lines: u64, micros: u64, size: u64) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    let (started, pad) = (Instant::now(), "x".repeat(usize::try_from(size).unwrap_or(0)));
    out.write_all(b"{\"type\":\"system\",\"subtype\":\"init\",\"session_id\":\"s\"}\n")?;
    for line in 1..=lines {
        let due = started + Duration::from_micros(micros * line);
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        let pad = if line % 50 == 0 { pad.as_str() } else { "" };
        writeln!(out, "{{\"type\":\"keep_alive\",\"pad\":\"{pad}\",\"at\":{}}}", now())?;
        out.flush()?;
    }
    out.write_all(b"{\"type\":\"result\",\"subtype\":\"success\",\"is_error\":false,\"result\":\"ok\",\"num_turns\":1}\n")
}

pub(crate) fn now() -> u128 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_nanos())
}

/// A script that plays this agent, whatever it is asked.
pub(crate) fn script(folder: &Path, name: &str, command: &str) -> std::io::Result<std::path::PathBuf> {
    use std::os::unix::fs::PermissionsExt as _;
    let path = folder.join(name);
    std::fs::write(&path, format!("#!/bin/sh\nexec {command}\n"))?;
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755))?;
    Ok(path)
}

/// A folder for a recording: that of an earlier round goes.
pub(crate) fn new_recording(folder: &Path, name: &str) -> std::path::PathBuf {
    let path = folder.join(name);
    let _ = std::fs::remove_dir_all(&path);
    path
}

/// How long each event took from the agent to a reader, in microseconds.
fn delays(mut command: Command) -> std::io::Result<Vec<u128>> {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
    let mut delays = Vec::new();
    let mut reader = BufReader::with_capacity(1 << 21, child.stdout.take().ok_or(std::io::ErrorKind::BrokenPipe)?);
    let mut line = String::new();
    while reader.read_line(&mut line)? > 0 {
        let read = now();
        if let Some((_, at)) = line.trim_end().trim_end_matches('}').rsplit_once("\"at\":") {
            delays.push(read.saturating_sub(at.parse().unwrap_or(read)) / 1_000);
        }
        line.clear();
    }
    child.wait()?;
    Ok(delays)
}

/// How much later than the peer's the 99th of a hundred events may come, in seconds.
const MOST_MORE: f64 = 0.001;

/// A row for each of three percentiles of delays in microseconds.
pub(crate) fn percentiles(what: &str, beside: &str, mut ours: Vec<u128>, mut peer: Vec<u128>) -> Vec<Row> {
    ours.sort_unstable();
    peer.sort_unstable();
    let at = |delays: &[u128], part: f64| {
        Figure::seconds(delays.get(((delays.len().max(1) - 1) as f64 * part) as usize).copied().unwrap_or(0) as f64 / 1e6)
    };
    let row = |(name, part)| {
        let row = Row::new(format!("{what}, {name} / {beside}"), at(&ours, part)).beside(at(&peer, part));
        if name == "p99" { row.promised(Promise::AtMostMore(MOST_MORE)) } else { row }
    };
    [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999)].into_iter().map(row).collect()
}

/// Pass-through beside reading the pipe directly, in turns: an event every millisecond, some 4 KB long.
pub(crate) fn latency(extent: Extent, tapline: &str, folder: &Path) -> std::io::Result<Vec<Row>> {
    let (me, lines) = (std::env::current_exe()?, extent.pick(3_000, 1_000, 60));
    let play = format!("'{}' play {lines} 1000 4000", me.display());
    let agent = script(folder, "latency-agent", &play)?;
    let (mut direct, mut through) = (Vec::new(), Vec::new());
    for round in 0..extent.pick(3, 1, 1) {
        direct.extend(delays(Command::new(&agent))?);
        let mut command = Command::new(tapline);
        command
            .args(["run", "go", "--format", "stream-json", "--record"])
            .arg(new_recording(folder, &format!("latency-{round}")));
        command.arg("--bin").arg(&agent);
        through.extend(delays(command)?);
    }
    if through.len() != direct.len() {
        return Err(std::io::Error::other(format!("{} events came through tapline, {} directly", through.len(), direct.len())));
    }
    Ok(percentiles("run, event to reader, recorded", "the pipe alone", through, direct))
}

/// How long a command takes, and the most memory it took itself, in KiB.
fn timed(mut command: Command) -> std::io::Result<(Duration, u64)> {
    let started = Instant::now();
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    let mut peak = 0;
    let status = format!("/proc/{}/status", child.id());
    while child.try_wait()?.is_none() {
        let text = std::fs::read_to_string(&status).unwrap_or_default();
        let kib = text.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.trim().parse().ok());
        peak = peak.max(kib.unwrap_or(0));
        std::thread::sleep(Duration::from_millis(2));
    }
    Ok((started.elapsed(), peak))
}

/// A run of some seconds with lines up to 1 MiB, beside the agent alone.
pub(crate) fn overhead(extent: Extent, tapline: &str, folder: &Path) -> std::io::Result<Vec<Row>> {
    // At least one long line.
    let (me, lines) = (std::env::current_exe()?, extent.pick(1_000, 250, 50));
    let agent = script(folder, "overhead-agent", &format!("'{}' play {lines} 8000 1048000", me.display()))?;
    let (mut alone, mut run, mut memory) = (Vec::new(), Vec::new(), 0);
    for round in 0..extent.pick(3, 1, 1) {
        let mut command = Command::new("sh");
        command.arg("-c").arg(format!("'{}' | cat", agent.display()));
        alone.push(timed(command)?.0.as_secs_f64());
        let mut command = Command::new(tapline);
        command
            .args(["run", "go", "--format", "stream-json", "--record"])
            .arg(new_recording(folder, &format!("overhead-{round}")));
        command.arg("--bin").arg(&agent);
        let (time, peak) = timed(command)?;
        run.push(time.as_secs_f64());
        memory = memory.max(peak);
    }
    let what = format!("run, {lines} lines, one every 8 ms, some of 1 MiB, recorded");
    Ok(vec![
        Row::new(format!("{what} / the agent alone"), Figure::median(run, "s"))
            .beside(Figure::median(alone, "s"))
            .promised(Promise::Within(1.01)),
        Row::new(format!("{what}: peak memory"), Figure::new(memory as f64 * 1.024 / 1e3, "MB"))
            .promised(Promise::AtMost(20.0)),
    ])
}

/// How long the agents of `many` are given to come to the gate, in milliseconds for each of them.
const GATHER: u64 = 8;

/// So many agents at once from one program, beside as many `cat`s. Each waits at a gate until all are there.
pub(crate) fn many(count: u64, folder: &Path, stream: &Path) -> std::io::Result<Vec<Row>> {
    let gather = Duration::from_millis(GATHER * count.max(100));
    let lines = BufReader::new(std::fs::File::open(stream)?).lines().count() as u64;
    let gate = folder.join("gate");
    let _ = std::fs::remove_file(&gate);
    Command::new("mkfifo").arg(&gate).status()?;
    let agent =
        script(folder, "gated-agent", &format!("sh -c 'read x < \"{}\"; exec cat \"{}\"'", gate.display(), stream.display()))?;

    // Held for writing to the end, so that nobody waits for a writer. A line for each lets them through, also those that are late.
    let script = format!(
        "exec 9<>'{gate}'; for i in $(seq {count}); do ('{agent}' 9>&- | wc -l) 9>&- & done; sleep {gather}; date +%s.%N; printf '%.0s\\n' $(seq {count}) >&9; wait; date +%s.%N",
        gate = gate.display(),
        agent = agent.display(),
        gather = gather.as_secs_f64(),
    );
    let output = Command::new("bash").arg("-c").arg(script).stderr(Stdio::inherit()).output()?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let times: Vec<f64> = said.lines().filter(|line| line.contains('.')).filter_map(|line| line.parse().ok()).collect();
    let counted: u64 = said.lines().filter_map(|line| line.trim().parse::<u64>().ok()).sum();
    let plain = times.get(1).copied().unwrap_or(0.0) - times.first().copied().unwrap_or(0.0);
    if counted != lines * count {
        return Err(std::io::Error::other(format!("cat passed {counted} lines on, of {}", lines * count)));
    }

    let descriptors = || std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
    // tokio opens two descriptors when a process first uses signals, and keeps them.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async { tokio::signal::unix::signal(tokio::signal::unix::SignalKind::child()).map(drop) })?;
    drop(runtime);
    let before = descriptors();
    let mut held = std::fs::OpenOptions::new().read(true).write(true).open(&gate)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let ((seen, clean), started_in, took) = runtime.block_on(async {
        let begun = Instant::now();
        let mut runs = Vec::new();
        for _ in 0..count {
            runs.push(Agent::claude().bin(&agent).prompt("go").start().await.map_err(std::io::Error::other)?.collect_only(""));
        }
        let started_in = begun.elapsed();
        tokio::time::sleep(gather.saturating_sub(started_in)).await;
        let opened = Instant::now();
        held.write_all(&b"\n".repeat(usize::try_from(count).unwrap_or(usize::MAX)))?;
        let follow = |mut run: tapline_runner::Running| async move {
            let mut lines = 0_u64;
            while run.next().await.is_some() {
                lines += 1;
            }
            (lines, u64::from(run.finish().await.verdict.exit.code == Some(0)))
        };
        let tasks: Vec<_> = runs.into_iter().map(|run| tokio::spawn(follow(run))).collect();
        let mut sum = (0, 0);
        for task in tasks {
            let (lines, clean) = task.await?;
            sum = (sum.0 + lines, sum.1 + clean);
        }
        Ok::<_, std::io::Error>((sum, started_in, opened.elapsed()))
    })?;
    drop((runtime, held));
    let (after, wanted) = (descriptors(), lines * count);
    if seen != wanted || clean != count || after > before {
        return Err(std::io::Error::other(format!(
            "{seen} lines of {wanted}, {clean} of {count} with exit code 0, {before} descriptors before and {after} after"
        )));
    }
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak =
        status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.trim().parse::<f64>().ok());
    let _ = std::fs::remove_file(&gate);
    let what = format!("run, {count} agents at once, {lines} lines each");
    let mut rows = vec![
        Row::new(format!("{what}, from the gate to the end / `cat | wc -l`"), Figure::seconds(took.as_secs_f64()))
            .beside(Figure::seconds(plain)),
        Row::new(format!("{what}: to start them"), Figure::seconds(started_in.as_secs_f64())),
    ];
    rows.extend(peak.map(|kib| Row::new(format!("{what}: peak memory"), Figure::new(kib * 1.024 / 1e3, "MB"))));
    Ok(rows)
}
