//! Tells what an agent does while it does it: `claude -p "…" --output-format stream-json --verbose | cargo run --example live`

use std::io::{self, Read as _, Write as _};

use tapline::{Decoder, Ending, Fold, What};

fn main() -> io::Result<()> {
    let (mut decoder, mut fold) = (Decoder::default(), Fold::default());
    let (mut stdin, mut stdout) = (io::stdin().lock(), io::stdout().lock());
    let mut buffer = vec![0; 1 << 16];
    loop {
        let count = stdin.read(&mut buffer)?;
        let records = if count == 0 { decoder.finish() } else { decoder.push(&buffer[..count]) };
        for step in records.iter().flat_map(|record| fold.apply(record)) {
            if let What::Call(call) = step.what {
                writeln!(stdout, "{}: {}", call.doing, call.title)?;
            } else if let What::Turn(turn) = step.what {
                writeln!(stdout, "turn {} ended, {}", turn.index + 1, if turn.failed { "and failed" } else { "well" })?;
            }
        }
        if count == 0 {
            break;
        }
    }
    let summary = fold.finish(&Ending::default());
    writeln!(stdout, "{}: {}", summary.verdict.outcome, summary.answer.unwrap_or_default())
}
