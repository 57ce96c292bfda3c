//! Permission rules: any text is decided in time, without a panic; what rules allow for what it is, a rule that denies something else does not
//! find in it.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use tapline_session::permission::{Call, Permissions, Ruling};

static ALLOW: LazyLock<Permissions> = LazyLock::new(|| {
    "[[allow]]\ntool = \"Bash\"\ncommand = [\"git *\", \"ls *\", \"timeout *\", \"echo *\"]\n".parse().expect("rules")
});
static DENY: LazyLock<Permissions> =
    LazyLock::new(|| "[[deny]]\ntool = \"Bash\"\ncommand = [\"rm *\"]\n[[allow]]\ntool = \"Bash\"\n".parse().expect("rules"));

fuzz_target!(|data: &[u8]| {
    let text = String::from_utf8_lossy(data);
    let call = Call { tool: "Bash".to_owned(), command: Some(text.into_owned()), ..Call::default() };
    let (allowed, denied) = (ALLOW.decide(&call).ruling, DENY.decide(&call).ruling);
    assert!(allowed != Ruling::Allow || denied != Ruling::Deny, "allowed, though it runs rm: {:?}", call.command);
});
