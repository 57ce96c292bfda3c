//! Writes protobuf: the few kinds of fields that OTLP has. Written by hand, because it is less than the code that a generator would need.

/// A message that is being written.
#[derive(Debug, Default)]
pub(super) struct Proto(pub(super) Vec<u8>);

/// How a field is written.
const VARINT: u64 = 0;
const FIXED64: u64 = 1;
const LENGTH: u64 = 2;

impl Proto {
    fn raw(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(number.to_le_bytes()[0] | 0x80);
            number >>= 7;
        }
        self.0.push(number.to_le_bytes()[0]);
    }

    fn tag(&mut self, field: u64, kind: u64) {
        self.raw(field << 3 | kind);
    }

    /// Writes a whole number, even 0.
    pub(super) fn whole(&mut self, field: u64, number: u64) {
        self.tag(field, VARINT);
        self.raw(number);
    }

    /// Writes a number of eight bytes.
    pub(super) fn fixed(&mut self, field: u64, number: u64) {
        self.tag(field, FIXED64);
        self.0.extend(number.to_le_bytes());
    }

    /// Writes a double.
    pub(super) fn double(&mut self, field: u64, number: f64) {
        self.fixed(field, number.to_bits());
    }

    /// Writes bytes.
    pub(super) fn bytes(&mut self, field: u64, bytes: &[u8]) {
        self.tag(field, LENGTH);
        self.raw(bytes.len() as u64);
        self.0.extend(bytes);
    }

    /// Writes a text, if there is one.
    pub(super) fn text(&mut self, field: u64, text: &str) {
        if !text.is_empty() {
            self.bytes(field, text.as_bytes());
        }
    }

    /// Writes a message.
    pub(super) fn message(&mut self, field: u64, write: impl FnOnce(&mut Self)) {
        let mut inner = Self::default();
        write(&mut inner);
        self.bytes(field, &inner.0);
    }

    /// Writes numbers of eight bytes, one after the other.
    pub(super) fn packed(&mut self, field: u64, numbers: impl ExactSizeIterator<Item = u64>) {
        self.tag(field, LENGTH);
        self.raw(8 * numbers.len() as u64);
        numbers.for_each(|number| self.0.extend(number.to_le_bytes()));
    }
}

/// Reads the fields of a message: the number of each, and its value if it is a whole number, or else its bytes. Ends where the bytes make no sense.
pub(super) fn fields(mut bytes: &[u8]) -> impl Iterator<Item = (u64, Result<u64, &[u8]>)> {
    std::iter::from_fn(move || {
        let tag = varint(&mut bytes)?;
        let value = match tag & 7 {
            VARINT => Ok(varint(&mut bytes)?),
            LENGTH => {
                let length = usize::try_from(varint(&mut bytes)?).ok()?;
                let (value, rest) = bytes.split_at_checked(length)?;
                bytes = rest;
                Err(value)
            }
            _ => return None,
        };
        Some((tag >> 3, value))
    })
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (first, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}
