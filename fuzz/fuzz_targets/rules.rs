//! Permission rules: any text is decided in time, without a panic; what rules allow for what it is, a rule that denies something else does not
//! find in it. (But it guesses: the value of any long option of git's may be a command to it.)
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use tapline_session::permission::{PendingCall, Permissions, Ruling};

static ALLOW: LazyLock<Permissions> = LazyLock::new(|| {
    "[[allow]]\ntool = \"Bash\"\ncommand = [\"git *\", \"ls *\", \"timeout *\", \"echo *\"]\n".parse().expect("rules")
});
static DENY: LazyLock<Permissions> =
    LazyLock::new(|| "[[deny]]\ntool = \"Bash\"\ncommand = [\"rm *\"]\n[[allow]]\ntool = \"Bash\"\n".parse().expect("rules"));

fuzz_target!(|data: &[u8]| {
    let text = String::from_utf8_lossy(data);
    let call = PendingCall { tool: "Bash".to_owned(), command: Some(text.into_owned()), ..PendingCall::default() };
    let (allowed, denied) = (ALLOW.decide(&call).ruling, DENY.decide(&call).ruling);
    let guessed = call.command.as_ref().is_some_and(|text| text.contains("git") && text.contains("--") && text.contains('='));
    assert!(allowed != Ruling::Allow || denied != Ruling::Deny || guessed, "allowed, though it runs rm: {:?}", call.command);
});
