//! Signals have the numbers of the system that runs this: its own shell knows them.

use std::process::Command;

use tapline_session::{parse_signal, signal_name};

#[test]
fn names_and_numbers_are_those_of_this_system() {
    let script = "for n in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 24 25 30 31; do echo $n $(kill -l $n); done";
    let told = Command::new("sh").args(["-c", script]).output().unwrap();
    let told = String::from_utf8(told.stdout).unwrap();
    let mut known = 0;
    for line in told.lines() {
        let (number, name) = line.split_once(' ').unwrap();
        let named = signal_name(number.parse().unwrap());
        if let Some(short) = named.strip_prefix("SIG") {
            assert_eq!(short, name.trim_start_matches("SIG"), "{line}");
            assert_eq!(parse_signal(number), parse_signal(name), "{line}");
            known += 1;
        }
    }
    assert_eq!(known, 18, "{told}");
}
