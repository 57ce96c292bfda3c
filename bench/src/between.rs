//! What stands between: how much `tee` adds to a byte on its way, either way, while much passes; how fast `replay` plays.

use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::Extent;
use crate::agents::{new_recording, now, percentiles, script};
use crate::row::{Figure, Promise, Row};

/// Plays an agent that is asked and answers: every line from stdin is told how long it took to come; meanwhile a line of `size` bytes every
/// `micros` goes out with the moment it was written.
pub(crate) fn converse(micros: u64, size: u64, lines: u64) -> std::io::Result<()> {
    let writer = std::thread::spawn(move || -> std::io::Result<()> {
        let (started, pad) = (Instant::now(), "x".repeat(usize::try_from(size).unwrap_or(0)));
        for line in 1..=lines {
            std::thread::sleep((started + Duration::from_micros(micros * line)).saturating_duration_since(Instant::now()));
            let text = format!("{{\"pad\":\"{pad}\",\"at\":{}}}\n", now());
            std::io::stdout().write_all(text.as_bytes())?;
            std::io::stdout().flush()?;
        }
        Ok(())
    });
    let mut delays = Vec::new();
    for line in std::io::stdin().lock().lines() {
        let read = now();
        delays.extend(at_of(&line?).map(|at| read.saturating_sub(at) / 1_000));
    }
    let _ = writer.join();
    delays.sort_unstable();
    for delay in delays {
        writeln!(std::io::stderr(), "{delay}")?;
    }
    Ok(())
}

/// The moment that a line was written.
fn at_of(line: &str) -> Option<u128> {
    line.trim_end().trim_end_matches('}').rsplit_once("\"at\":")?.1.parse().ok()
}

/// Both directions at once: what the host read, and what the agent read, in microseconds.
fn both_ways(mut command: Command, micros: u64, size: usize, lines: u64) -> std::io::Result<(Vec<u128>, Vec<u128>)> {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let gone = || std::io::Error::from(std::io::ErrorKind::BrokenPipe);
    let (mut stdin, stdout) = (child.stdin.take().ok_or_else(gone)?, child.stdout.take().ok_or_else(gone)?);
    let mut stderr = child.stderr.take().ok_or_else(gone)?;
    let writer = std::thread::spawn(move || -> std::io::Result<()> {
        let (started, pad) = (Instant::now(), "x".repeat(size));
        for line in 1..=lines {
            std::thread::sleep((started + Duration::from_micros(micros * line)).saturating_duration_since(Instant::now()));
            stdin.write_all(format!("{{\"pad\":\"{pad}\",\"at\":{}}}\n", now()).as_bytes())?;
        }
        Ok(())
    });
    let told = std::thread::spawn(move || {
        let mut text = String::new();
        let _ = stderr.read_to_string(&mut text);
        text.lines().filter_map(|line| line.parse().ok()).collect::<Vec<u128>>()
    });
    let (mut reader, mut line, mut out) = (BufReader::with_capacity(1 << 20, stdout), String::new(), Vec::new());
    while reader.read_line(&mut line)? > 0 {
        let read = now();
        out.extend(at_of(&line).map(|at| read.saturating_sub(at) / 1_000));
        line.clear();
    }
    let _ = writer.join();
    let into = told.join().unwrap_or_default();
    child.wait()?;
    Ok((out, into))
}

/// `tee` beside the two pipes directly, in turns: 100 MB pass in all, half of it each way, unless the extent is less.
pub(crate) fn tee(extent: Extent, tapline: &str, folder: &Path) -> std::io::Result<Vec<Row>> {
    let (micros, size, lines) = (1_000, 16_000, extent.pick(3_125, 1_000, 60));
    let me = std::env::current_exe()?;
    let agent = script(folder, "tee-agent", &format!("'{}' converse {micros} {size} {lines}", me.display()))?;
    let mut all = [[Vec::new(), Vec::new()], [Vec::new(), Vec::new()]];
    for round in 0..extent.pick(3, 1, 1) {
        for (way, through) in [false, true].into_iter().enumerate() {
            let mut command = Command::new(&agent);
            if through {
                command = Command::new(tapline);
                command
                    .args(["tee", "--bin"])
                    .arg(&agent)
                    .arg("--record")
                    .arg(new_recording(folder, &format!("tee-{round}")))
                    .arg("--");
            }
            let (out, into) = both_ways(command, micros, usize::try_from(size).unwrap_or(0), lines)?;
            all[way][0].extend(out);
            all[way][1].extend(into);
        }
    }
    let [[direct_out, direct_into], [out, into]] = all;
    let mut rows = percentiles("tee, 16 KB both ways every ms, to the host", "the pipes alone", out, direct_out);
    rows.extend(percentiles("tee, 16 KB both ways every ms, to the agent", "the pipes alone", into, direct_into));
    Ok(rows)
}

/// `replay --speed instant` beside `cat`, into a pipe: a recording of this size with a piece for every line of some 400 bytes, played to a host
/// that sends nothing, and to one whose request is answered with its own id.
pub(crate) fn replay(extent: Extent, tapline: &str, folder: &Path) -> std::io::Result<Vec<Row>> {
    let bytes = extent.pick(600_000_000_u64, 100_000_000, 12_000_000);
    let mut rows = Vec::new();
    let request = "{\"type\":\"control_request\",\"request_id\":\"ID\",\"request\":{\"subtype\":\"initialize\"}}\n";
    for (name, converses) in [("a run", false), ("a conversation", true)] {
        let path = new_recording(folder, &format!("replay-{converses}"));
        std::fs::create_dir_all(&path)?;
        let line = format!(
            "{{\"type\":\"assistant\",\"message\":{{\"content\":[{{\"type\":\"text\",\"text\":\"{}\"}}]}}}}\n",
            "x".repeat(300)
        );
        let answer = "{\"type\":\"control_response\",\"response\":{\"subtype\":\"success\",\"request_id\":\"recorded\"}}\n";
        let (mut stdout, mut times) = (std::io::BufWriter::new(std::fs::File::create(path.join("stdout"))?), String::new());
        let mut end: u64 = 0;
        if converses {
            std::fs::write(path.join("stdin"), request.replace("ID", "recorded"))?;
            let _ = writeln!(times, "i {} 1", request.replace("ID", "recorded").len());
            stdout.write_all(answer.as_bytes())?;
            end = answer.len() as u64;
            let _ = writeln!(times, "o {end} 2");
        }
        while end < bytes {
            stdout.write_all(line.as_bytes())?;
            end += line.len() as u64;
            let _ = writeln!(times, "o {end} 3");
        }
        stdout.flush()?;
        std::fs::write(path.join("times"), times)?;
        std::fs::write(path.join("meta.json"), "{\"schema\":1,\"agent\":\"claude\"}\n")?;
        std::fs::write(path.join("end.json"), "{\"exit_code\":0}\n")?;
        for file in ["stderr", "stdin"] {
            std::fs::OpenOptions::new().create(true).append(true).open(path.join(file))?;
        }
        let (mut cat, mut played) = (Vec::new(), Vec::new());
        for _ in 0..extent.pick(5, 2, 1) {
            let mut command = Command::new("cat");
            command.arg(path.join("stdout"));
            cat.push(read_all(command, "")?);
            let mut command = Command::new(tapline);
            command.arg("replay").arg(&path).args(["--speed", "instant"]);
            played.push(read_all(command, if converses { request } else { "" })?);
        }
        let median = |mut speeds: Vec<f64>| {
            speeds.sort_by(f64::total_cmp);
            Figure::new(speeds[speeds.len() / 2], "MB/s").worst(speeds[0])
        };
        rows.push(
            Row::new(format!("replay --speed instant, {name} of {} MB / `cat`", bytes / 1_000_000), median(played))
                .beside(median(cat))
                .promised(Promise::AtLeast(500.0)),
        );
        let _ = std::fs::remove_dir_all(&path);
    }
    Ok(rows)
}

/// How fast a command's output can be read, in MB/s.
fn read_all(mut command: Command, sends: &str) -> std::io::Result<f64> {
    let started = Instant::now();
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    if let Some(stdin) = &mut child.stdin {
        stdin.write_all(sends.as_bytes())?;
    }
    let (mut buffer, mut bytes) = (vec![0; 1 << 20], 0);
    if let Some(stdout) = &mut child.stdout {
        loop {
            match stdout.read(&mut buffer)? {
                0 => break,
                count => bytes += count,
            }
        }
    }
    child.stdin.take();
    child.wait()?;
    Ok(bytes as f64 / 1e6 / started.elapsed().as_secs_f64())
}
