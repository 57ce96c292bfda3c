//! The exit codes of `tapline`, in one table. A verdict has one of them
//! ([`Verdict::exit_code`](crate::Verdict::exit_code)).

/// Defines the codes: one row each, with a short meaning.
macro_rules! table {
    ($( $name:ident = $code:literal, $meaning:literal; )+) => {
        $( #[doc = concat!($meaning, ".")] pub const $name: u8 = $code; )+

        /// Every code with its meaning, in order.
        pub const TABLE: &[(u8, &str)] = &[$( ($code, $meaning) ),+];
    };
}

table! {
    SUCCESS = 0, "success";
    FAILED = 1, "the agent failed";
    USAGE = 2, "bad usage or input";
    VIOLATED = 3, "policy violated";
    INCOMPLETE = 4, "incomplete";
    TIMEOUT = 124, "timeout";
    NOT_EXECUTABLE = 126, "agent not executable";
    NOT_FOUND = 127, "agent not found";
    INTERRUPTED = 130, "interrupted";
    TERMINATED = 143, "terminated";
}
