//! Streams and transcripts that are damaged on purpose: lines lost, doubled, cut, out of order, values of the wrong type. A seed decides,
//! so every run tries the same.

use serde_json::{Value, json};

/// Numbers that look random and are the same every time (xorshift).
#[derive(Debug)]
pub struct Dice(u64);

impl Dice {
    /// Dice with a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    /// Returns a number below `below`, or 0.
    pub fn roll(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 16).unwrap() % below.max(1)
    }
}

/// Returns the lines of a file that are not empty.
pub fn lines_of(bytes: &[u8]) -> Vec<Vec<u8>> {
    bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).map(<[u8]>::to_vec).collect()
}

/// Changes one value somewhere in an object: gone, renamed, or of another type.
fn spoil(value: &mut Value, dice: &mut Dice) {
    let Some(object) = value.as_object_mut().filter(|object| !object.is_empty()) else { return };
    let key = object.keys().nth(dice.roll(object.len())).unwrap().clone();
    if dice.roll(2) == 0 && matches!(object[&key], Value::Object(_)) {
        return spoil(object.get_mut(&key).unwrap(), dice);
    }
    let others =
        [json!(null), json!(true), json!(-7), json!("7"), json!([]), json!({}), json!([{"type": "text"}]), json!(1e300)];
    let old = object.remove(&key).unwrap();
    match dice.roll(4) {
        0 => {}
        1 => drop(object.insert(format!("{key}_"), old)),
        _ => drop(object.insert(key, others[dice.roll(others.len())].clone())),
    }
}

/// Damages one line, or the order of two. `others` are lines that can come in between.
pub fn mutate(lines: &mut Vec<Vec<u8>>, others: &[Vec<u8>], dice: &mut Dice) {
    if lines.is_empty() {
        return;
    }
    let (at, to) = (dice.roll(lines.len()), dice.roll(lines.len()));
    match dice.roll(11) {
        0 => lines.insert(to, lines[at].clone()),
        1 => drop(lines.remove(at)),
        2 => lines.swap(at, to),
        3 => {
            let half = dice.roll(lines[at].len());
            lines[at].truncate(half);
        }
        4 => {
            let next = lines.remove(at);
            if let Some(line) = lines.get_mut(at.saturating_sub(1)) {
                line.extend(next);
            }
        }
        5 => lines[at].push(b'\r'),
        6 => lines.insert(at, [&b""[..], b"words", b"[1]", b"\xff\xfe", b"{}"][dice.roll(5)].to_vec()),
        7 => lines.insert(at, others[dice.roll(others.len())].clone()),
        8 => {
            let moved = lines.remove(at);
            lines.push(moved);
        }
        _ => {
            if let Ok(mut value) = serde_json::from_slice::<Value>(&lines[at]) {
                spoil(&mut value, dice);
                lines[at] = value.to_string().into_bytes();
            }
        }
    }
}
