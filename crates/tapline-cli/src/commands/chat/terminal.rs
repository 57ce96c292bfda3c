//! The terminal of a chat: single keys, marked pastes, and its original state at the end, however the chat ends.

use std::io::{Read as _, Write as _};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context as _, Result};
use rustix::termios::{InputModes, LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr};
use tokio::sync::mpsc;

/// Turns marked pastes on and off.
const MARK_PASTES: &[u8] = b"\x1b[?2004h";
const AS_BEFORE: &[u8] = b"\x1b[?2004l";

/// Takes the whole screen, and gives it back as it was.
const FULL: &[u8] = b"\x1b[?1049h\x1b[?25l";
const NOT_FULL: &[u8] = b"\x1b[?25h\x1b[?1049l";

/// Whether the whole screen is taken.
static IS_FULL: AtomicBool = AtomicBool::new(false);
/// The original state of the terminal.
static BEFORE: OnceLock<Termios> = OnceLock::new();

/// A terminal in raw mode, until this is dropped.
pub(in crate::commands) struct Terminal(());

impl Terminal {
    pub(in crate::commands) fn open() -> Result<Self> {
        let before = tcgetattr(std::io::stdin()).context("cannot read the terminal settings")?;
        let _ = BEFORE.set(before);
        // A panic may end the process before anything is dropped.
        let told = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            restore();
            told(info);
        }));
        let terminal = Self(());
        Self::take().context("cannot change the terminal settings")?;
        Ok(terminal)
    }

    /// The same with the whole screen. Whatever was on it comes back at the end.
    pub(in crate::commands) fn open_full() -> Result<Self> {
        let terminal = Self::open()?;
        IS_FULL.store(true, Ordering::Relaxed);
        put(FULL);
        Ok(terminal)
    }

    /// Switches to single keys.
    fn take() -> std::io::Result<()> {
        let Some(before) = BEFORE.get() else { return Ok(()) };
        let mut raw = before.clone();
        raw.local_modes -= LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG | LocalModes::IEXTEN;
        raw.input_modes -= InputModes::ICRNL | InputModes::INLCR | InputModes::IXON;
        raw.special_codes[SpecialCodeIndex::VMIN] = 1;
        raw.special_codes[SpecialCodeIndex::VTIME] = 0;
        tcsetattr(std::io::stdin(), OptionalActions::Now, &raw)?;
        put(MARK_PASTES);
        if IS_FULL.load(Ordering::Relaxed) {
            put(FULL);
        }
        Ok(())
    }

    /// Suspends this program, as Ctrl-Z does, until it is continued.
    pub(in crate::commands) fn suspend() {
        restore();
        let _ = rustix::process::kill_current_process_group(rustix::process::Signal::TSTP);
        let _ = Self::take();
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        restore();
        IS_FULL.store(false, Ordering::Relaxed);
    }
}

fn restore() {
    if let Some(before) = BEFORE.get() {
        let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, before);
        put(AS_BEFORE);
        if IS_FULL.load(Ordering::Relaxed) {
            put(NOT_FULL);
        }
    }
}

fn put(bytes: &[u8]) {
    let mut out = std::io::stdout();
    let _ = out.write_all(bytes).and_then(|()| out.flush());
}

/// Returns what is typed. The channel ends with the terminal.
pub(in crate::commands) fn typed() -> mpsc::Receiver<Vec<u8>> {
    let (send, typed) = mpsc::channel(16);
    // How many bytes were typed before the terminal was switched to single keys.
    let mut ahead = usize::try_from(rustix::io::ioctl_fionread(std::io::stdin()).unwrap_or(0)).unwrap_or(0);
    std::thread::spawn(move || {
        let mut buffer = vec![0; 64 << 10];
        loop {
            match std::io::stdin().read(&mut buffer) {
                Ok(count) if count > 0 => {
                    let earlier = ahead.min(count);
                    ahead -= earlier;
                    with_enter(&mut buffer[..earlier]);
                    if send.blocking_send(buffer[..count].to_vec()).is_err() {
                        return;
                    }
                }
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                _ => return,
            }
        }
    });
    typed
}

/// Turns line feeds back into Enter. The terminal has changed the Enter of a line that was typed ahead, and it must still
/// send the prompt.
fn with_enter(typed_ahead: &mut [u8]) {
    typed_ahead.iter_mut().filter(|byte| **byte == b'\n').for_each(|byte| *byte = b'\r');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_was_typed_ahead_is_sent() {
        let mut typed = *b"hello\nand";
        with_enter(&mut typed);
        assert_eq!(&typed, b"hello\rand");
    }
}
