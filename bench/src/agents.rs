//! Running agents: a thousand at once beside a plain `cat` pipeline, what pass-through adds to each event, and what a
//! whole run costs on top of the agent's own.

use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use tapline_runner::Agent;

/// How much a benchmark does.
#[derive(Clone, Copy)]
pub(crate) enum Extent {
    /// Enough for its figures.
    Full,
    /// Enough to show that it runs.
    Smoke,
}

impl Extent {
    /// How many of `full` lines, bytes or agents there are.
    pub(crate) fn of(self, full: u64) -> u64 {
        match self {
            Self::Full => full,
            Self::Smoke => full / 50,
        }
    }

    pub(crate) fn rounds(self, full: usize) -> usize {
        match self {
            Self::Full => full,
            Self::Smoke => 1,
        }
    }
}

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

/// How long each event took from the agent to a reader, in microseconds, sorted.
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
    delays.sort_unstable();
    Ok(delays)
}

/// Pass-through beside reading the pipe directly, in turns.
pub(crate) fn latency(extent: Extent, tapline: &str, folder: &Path) -> std::io::Result<String> {
    let (me, lines) = (std::env::current_exe()?, extent.of(3_000));
    let play = format!("'{}' play {lines} 1000 4000", me.display());
    let agent = script(folder, "latency-agent", &play)?;
    let mut text = format!("event to reader, one every ms, {lines} of them, some 4 KB long; µs\n");
    let (mut direct, mut through) = (Vec::new(), Vec::new());
    for round in 0..extent.rounds(3) {
        direct.extend(delays(Command::new(&agent))?);
        let mut command = Command::new(tapline);
        command
            .args(["run", "go", "--format", "stream-json", "--record"])
            .arg(new_recording(folder, &format!("latency-{round}")));
        command.arg("--bin").arg(&agent);
        through.extend(delays(command)?);
    }
    for (name, delays) in [("the pipe directly", &mut direct), ("through tapline, recorded", &mut through)] {
        delays.sort_unstable();
        let at = |part: f64| delays[((delays.len() - 1) as f64 * part) as usize];
        let _ =
            writeln!(text, "  {name:<28} p50 {:>5}  p99 {:>5}  p99.9 {:>6}  of {}", at(0.5), at(0.99), at(0.999), delays.len());
    }
    Ok(text)
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
pub(crate) fn overhead(extent: Extent, tapline: &str, folder: &Path) -> std::io::Result<String> {
    // At least one long line.
    let (me, lines) = (std::env::current_exe()?, extent.of(1_000).max(50));
    let agent = script(folder, "overhead-agent", &format!("'{}' play {lines} 8000 1048000", me.display()))?;
    let mut text = format!("{lines} lines, one every 8 ms, every 50th 1 MiB long\n");
    let (mut alone, mut run, mut memory) = (Vec::new(), Vec::new(), 0);
    for round in 0..extent.rounds(3) {
        let mut command = Command::new("sh");
        command.arg("-c").arg(format!("'{}' | cat", agent.display()));
        alone.push(timed(command)?.0);
        let mut command = Command::new(tapline);
        command
            .args(["run", "go", "--format", "stream-json", "--record"])
            .arg(new_recording(folder, &format!("overhead-{round}")));
        command.arg("--bin").arg(&agent);
        let (time, peak) = timed(command)?;
        run.push(time);
        memory = memory.max(peak);
    }
    alone.sort_unstable();
    run.sort_unstable();
    let (run, alone) = (run[run.len() / 2].as_secs_f64(), alone[alone.len() / 2].as_secs_f64());
    let _ = writeln!(text, "  the agent | cat             {alone:>8.3} s");
    let _ = writeln!(
        text,
        "  tapline run, recorded       {run:>8.3} s  (+{:.2} %), peak {:.1} MB",
        (run / alone - 1.0) * 100.0,
        memory as f64 * 1.024 / 1e3
    );
    Ok(text)
}

/// How long the agents of `many` are given to come to the gate, in milliseconds for each of them.
const GATHER: u64 = 8;

/// So many agents at once from one program, beside as many `cat`s. Each waits at a gate until all are there.
pub(crate) fn many(count: u64, folder: &Path, stream: &Path) -> std::io::Result<String> {
    let gather = Duration::from_millis(GATHER * count.max(100));
    let bytes = std::fs::metadata(stream)?.len();
    let lines = BufReader::new(std::fs::File::open(stream)?).lines().count() as u64;
    let gate = folder.join("gate");
    let _ = std::fs::remove_file(&gate);
    Command::new("mkfifo").arg(&gate).status()?;
    let agent =
        script(folder, "gated-agent", &format!("sh -c 'read x < \"{}\"; exec cat \"{}\"'", gate.display(), stream.display()))?;
    let mut text = format!("{count} agents at once, {lines} lines and {:.1} MB each\n", bytes as f64 / 1e6);

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
    let _ = writeln!(text, "  cat | wc -l                 {plain:>8.2} s from the gate to the end, {counted} lines");

    let descriptors = || std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
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
    drop(runtime);
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or("?").trim().to_owned();
    let took = took.as_secs_f64();
    let _ = writeln!(
        text,
        "  tapline, decoded and folded {took:>8.2} s from the gate to the end, {seen} lines, {clean} of {count} with exit code 0"
    );
    let _ = writeln!(
        text,
        "    started in {:.2} s, peak memory {peak}, descriptors before {before}, after {}",
        started_in.as_secs_f64(),
        descriptors()
    );
    let _ = writeln!(text, "  tapline / cat: {:.2}×", took / plain);
    if seen != lines * count || clean != count {
        text += "  LINES WERE LOST\n";
    }
    let _ = std::fs::remove_file(&gate);
    Ok(text)
}
