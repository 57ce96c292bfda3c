//! The environment of an agent.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

use crate::marker;
use crate::spec::Environment;

/// Names and values.
pub(crate) type Variables = BTreeMap<OsString, OsString>;

/// The variables that every program needs.
const NEEDED: &[&str] = &["PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR"];

/// Returns the environment of an agent without its mark. It does not inherit variables that `is_of_another` agent.
pub(crate) fn of(wanted: &Environment, is_of_another: impl Fn(&OsStr) -> bool) -> Variables {
    let inherited = |name: &OsStr| {
        let needed = NEEDED.iter().any(|known| name == *known);
        (needed || !wanted.clean)
            && !wanted.remove.iter().any(|removed| removed == name)
            && !is_of_another(name)
            && !marker::is_variable(name)
    };
    let mut variables: Variables = std::env::vars_os().filter(|(name, _)| inherited(name)).collect();
    for (name, value) in &wanted.set {
        let inherited = || std::env::var_os(name).filter(|_| !wanted.remove.contains(name));
        if let Some(value) = value.clone().or_else(inherited) {
            variables.insert(name.clone(), value);
        }
    }
    variables
}

/// Returns the value of a variable.
pub(crate) fn value(variables: &Variables, name: &str) -> Option<OsString> {
    variables.get(OsStr::new(name)).cloned()
}
