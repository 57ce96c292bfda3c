//! Says why no rule can allow a call, so that people know what to change, or that they must be asked. `covers.rs`
//! decides; this file only explains.

use super::covers::{BUILTINS, given_to_a_shell, is_harmless, is_plain, name};
use super::naming::WrongName;
use super::shell::{self, Node, Piece, Redirect, Script, Simple, Word};
use super::{PendingCall, tools};

/// Says why no rule can allow this call. `rule` is the rule that prevents it, if one does.
pub(super) fn of(call: &PendingCall, rule: Option<&str>) -> String {
    if let Some(why) = in_name(&call.tool) {
        return why;
    }
    if call.lost_command {
        return "its command is not plain text".to_owned();
    }
    if let Some(rule) = rule {
        return format!("{rule} prevents it");
    }
    let Some(command) = &call.command else {
        return if call.lost_path {
            "it names a file in a way that can be read differently (`~`, or from a folder that is not known): \
             a rule with a path needs the whole path"
                .to_owned()
        } else if call.is_bare() {
            let what = if tools::runs_commands(&call.tool) { "command" } else { "file" };
            format!("it names no {what}, and a rule for {} alone would allow every {what}", call.tool)
        } else if call.paths.iter().any(|path| path.contains('*')) {
            star("the name of its file")
        } else {
            "no rule can be written for just this call".to_owned()
        };
    };
    if command.trim().is_empty() {
        return "its command is empty".to_owned();
    }
    if tools::is_powershell(&call.tool) {
        return "for PowerShell, a rule allows only plain words".to_owned();
    }
    let at_home = call.cwd.is_some() && call.cwd == call.home;
    in_text(command, at_home)
        .unwrap_or_else(|| if command.contains('*') { star("it") } else { "its text does not show what it runs".to_owned() })
}

/// Says why no rule can name this tool.
fn in_name(tool: &str) -> Option<String> {
    let read_as = match WrongName::of(tool) {
        _ if tool.trim().is_empty() => return Some("its tool has no name".to_owned()),
        _ if tool.contains('*') => return Some(star("the name of its tool")),
        None => return None,
        Some(WrongName::OfAgent { .. }) => "a rule of the agent's own".to_owned(),
        Some(WrongName::Several(_)) => "several names".to_owned(),
        Some(WrongName::Server) => "the name of an MCP server".to_owned(),
        Some(WrongName::Letters { meant }) => format!("`{meant}` in a different case"),
    };
    Some(format!("a rule cannot name its tool: `{tool}` is read as {read_as}"))
}

fn star(what: &str) -> String {
    format!("{what} has a `*`, and in a rule that stands for anything: the rule would allow more than this call")
}

fn in_text(text: &str, at_home: bool) -> Option<String> {
    if text.contains("\\\n") {
        return Some("a line continues with `\\`, which shells read differently".to_owned());
    }
    if text.chars().any(|c| c.is_control() && c != '\n' && c != '\t') {
        return Some("it has control characters".to_owned());
    }
    let Ok(script) = shell::read(text) else {
        return Some("it cannot be read: its syntax is wrong or not known, or it is too long or nested too deep".to_owned());
    };
    if let [Node::Simple(simple)] = script.nodes.as_slice()
        && let Some(inner) = given_to_a_shell(simple)
    {
        return in_text(&inner, at_home);
    }
    let mut found = Vec::new();
    let obstacle = simple_commands(&script, &mut found);
    if let Some(what) = obstacle {
        return Some(what);
    }
    let moved = found.iter().any(|simple| name(simple).is_none_or(|name| matches!(&*name, "cd" | "pushd" | "popd")));
    let alone = found.len() == 1;
    let of_simple = found.iter().find_map(|simple| in_simple(simple, alone, at_home && !moved));
    of_simple.or_else(|| Some(format!("it has {}", script.odd?)))
}

/// Collects the simple commands of a script, or says what else it contains.
fn simple_commands<'a>(script: &'a Script, found: &mut Vec<&'a Simple>) -> Option<String> {
    let only = "a rule allows lists and pipes of plain commands";
    for node in &script.nodes {
        let stages = if let Node::Pipe(stages) = node { stages.as_slice() } else { std::slice::from_ref(node) };
        for stage in stages {
            let simple = match stage {
                Node::Simple(simple) => simple,
                Node::Function { name, .. } => return Some(format!("it defines a function (`{name}`); {only}")),
                Node::Group { .. } | Node::Pipe(_) => {
                    return Some(format!("it has more than plain commands (`if`, a loop, brackets, `!`, `time` …); {only}"));
                }
            };
            found.push(simple);
            for piece in simple.words.iter().flat_map(|word| &word.pieces) {
                if let Piece::Output { script, .. } = piece
                    && let Some(what) = simple_commands(script, found)
                {
                    return Some(what);
                }
            }
        }
    }
    None
}

fn in_simple(simple: &Simple, alone: bool, at_home: bool) -> Option<String> {
    if let Some(redirect) = simple.redirects.iter().find(|redirect| !is_harmless(redirect)) {
        return Some(redirected(redirect));
    }
    let Some(name) = name(simple) else {
        return Some(match (simple.words.first(), simple.assigns.first()) {
            (Some(word), _) => format!("the name of a command must be written out, and `{}` is not", word.raw),
            (None, Some(set)) => format!("it sets a variable and runs nothing with it (`{}`): rules are for commands", set.raw),
            (None, None) => "it has a part without a command".to_owned(),
        });
    };
    if let Some(word) = simple.words.iter().find(|word| !is_plain(word)) {
        return Some(format!("`{}` is more than text, plain variables and `$(…)`", word.raw));
    }
    if let Some(assign) = simple.assigns.iter().find(|assign| !assign.values.iter().all(is_literal)) {
        return Some(format!("what is set before a command must be plain text, unlike `{}`", assign.raw));
    }
    if !alone && BUILTINS.split(' ').any(|known| known == name) {
        return Some(format!("`{name}` evaluates its arguments: a rule allows it only as the whole command, word for word"));
    }
    let elsewhere = name.contains('/') && !name.starts_with('/') && !at_home;
    elsewhere.then(|| format!("`{name}` is allowed only in the folder where the agent was started, and not after `cd`"))
}

fn is_literal(word: &Word) -> bool {
    word.literal().is_some()
}

fn redirected(Redirect { operator, target, .. }: &Redirect) -> String {
    match *operator {
        "<<" | "<<-" => format!("it has a here-document (`{operator}{}`)", target.raw),
        _ => format!("it is redirected (`{operator} {}`); a rule allows only `> /dev/null` and `2>&1`", target.raw),
    }
}
