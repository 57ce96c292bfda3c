//! What stands between: how much `tee` adds to a byte on its way, either way, while much passes; how fast `replay` plays.

use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::agents::{Extent, new_recording, now, script};

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
pub(crate) fn tee(extent: Extent, tapline: &str, folder: &Path) -> std::io::Result<String> {
    let (micros, size, lines) = (1_000, 16_000, extent.of(3_125));
    let me = std::env::current_exe()?;
    let agent = script(folder, "tee-agent", &format!("'{}' converse {micros} {size} {lines}", me.display()))?;
    let mut text = format!("both ways at once, a line of {size} bytes every ms each way, {lines} of them; µs\n");
    let mut all = [[Vec::new(), Vec::new()], [Vec::new(), Vec::new()]];
    for round in 0..extent.rounds(3) {
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
    for (name, ways) in ["the pipes directly", "through tee, recorded"].into_iter().zip(&mut all) {
        for (way, delays) in ["to the host", "to the agent"].into_iter().zip(ways) {
            delays.sort_unstable();
            let at = |part: f64| delays.get(((delays.len().max(1) - 1) as f64 * part) as usize).copied().unwrap_or(0);
            let _ = writeln!(
                text,
                "  {name:<22} {way:<13} p50 {:>5}  p99 {:>5}  p99.9 {:>6}  of {}",
                at(0.5),
                at(0.99),
                at(0.999),
                delays.len()
            );
        }
    }
    Ok(text)
}

/// `replay --speed instant` beside `cat`, into a pipe: a recording of this size with a piece for every line of some 400 bytes, played to a host
/// that sends nothing, and to one whose request is answered with its own id.
pub(crate) fn replay(extent: Extent, tapline: &str, folder: &Path) -> std::io::Result<String> {
    let bytes = extent.of(600_000_000);
    let mut text = format!("{} MB, a piece for every line of 380 bytes\n", bytes / 1_000_000);
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
        for _ in 0..extent.rounds(5) {
            let mut command = Command::new("cat");
            command.arg(path.join("stdout"));
            cat.push(read_all(command, "")?);
            let mut command = Command::new(tapline);
            command.arg("replay").arg(&path).args(["--speed", "instant"]);
            played.push(read_all(command, if converses { request } else { "" })?);
        }
        cat.sort_by(f64::total_cmp);
        played.sort_by(f64::total_cmp);
        let (played, cat) = (played[played.len() / 2], cat[cat.len() / 2]);
        let ratio = played / cat;
        let _ = writeln!(text, "  {name:<16} replay {played:>6.0} MB/s   cat {cat:>6.0} MB/s   ratio {ratio:.2}");
        let _ = std::fs::remove_dir_all(&path);
    }
    Ok(text)
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
