//! Whoever reads the updates of a run reads all kinds: `Update` is matched without a wildcard, so that a new kind is an error of
//! the compiler wherever it could be missed.

use syn::visit::{self, Visit};
use syn::{ExprLet, ExprMatch, Local, Macro, Pat, Path};
use tapline_testkit::files::files_below;
use tapline_testkit::root;

use super::names;

/// Whether a path or a pattern names a variant of `Update`.
#[derive(Default)]
struct Names(bool);

impl<'ast> Visit<'ast> for Names {
    fn visit_path(&mut self, path: &'ast Path) {
        self.0 |= path.segments.len() > 1 && path.segments.iter().rev().nth(1).is_some_and(|name| name.ident == "Update");
    }
}

fn names_variant(pattern: &Pat) -> bool {
    let mut names = Names::default();
    names.visit_pat(pattern);
    names.0
}

/// Whether a pattern takes whatever is left.
fn takes_all(pattern: &Pat) -> bool {
    match pattern {
        Pat::Wild(_) => true,
        // `None` looks like a name that is given to whatever is left.
        Pat::Ident(name) if name.ident.to_string().starts_with(char::is_uppercase) => false,
        Pat::Ident(name) => name.subpat.as_ref().is_none_or(|(_, below)| takes_all(below)),
        Pat::Or(or) => or.cases.iter().any(takes_all),
        Pat::Paren(inner) => takes_all(&inner.pat),
        // `Some(_)`, around what may be an update.
        Pat::TupleStruct(around) => !names_variant(pattern) && around.elems.iter().any(takes_all),
        _ => false,
    }
}

/// The places in a file that look at some kinds of updates, and pass over the others.
#[derive(Default)]
struct Passed(Vec<&'static str>);

impl<'ast> Visit<'ast> for Passed {
    fn visit_expr_match(&mut self, item: &'ast ExprMatch) {
        let reads = item.arms.iter().any(|arm| names_variant(&arm.pat));
        if reads && item.arms.iter().any(|arm| takes_all(&arm.pat)) {
            self.0.push("a wildcard");
        }
        visit::visit_expr_match(self, item);
    }

    fn visit_expr_let(&mut self, item: &'ast ExprLet) {
        if names_variant(&item.pat) {
            self.0.push("if let");
        }
        visit::visit_expr_let(self, item);
    }

    fn visit_local(&mut self, item: &'ast Local) {
        if names_variant(&item.pat) {
            self.0.push("let else");
        }
        visit::visit_local(self, item);
    }

    fn visit_macro(&mut self, item: &'ast Macro) {
        let text = item.tokens.to_string().replace(' ', "");
        let mut paths = text.split(|c: char| !c.is_alphanumeric() && c != '_' && c != ':');
        let names = paths.any(|path| path.starts_with("Update::") || path.contains("::Update::"));
        if names && (item.path.is_ident("matches") || text.contains("matches!(")) {
            self.0.push("matches!");
        }
    }
}

fn passed(text: &str) -> Vec<&'static str> {
    let code = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
    let mut found = Passed::default();
    found.visit_file(&syn::parse_file(code).unwrap_or_else(|error| panic!("{error}")));
    found.0
}

#[test]
fn whoever_reads_updates_reads_all_kinds() {
    let mut sources = names::sources();
    let python = files_below(root().join("python/src"));
    sources.extend(python.into_iter().map(|path| (path.clone(), std::fs::read_to_string(path).unwrap())));
    let mut readers = 0;
    for (path, text) in &sources {
        assert_eq!(passed(text), [""; 0], "{}: a new kind of `Update` would be missed", path.display());
        readers += usize::from(text.contains("Update::Settled(_)"));
    }
    assert!(readers > 5, "{readers}");
}

#[test]
fn a_reader_that_passes_over_updates_is_found() {
    for (body, how) in [
        ("match update { Update::Sent(_) => 1, _ => 2 }", "a wildcard"),
        ("match update { Some(tapline::Update::Sent(_)) => 1, Some(_) => 2, None => 3 }", "a wildcard"),
        ("match update { Update::Sent(_) => 1, other => 2 }", "a wildcard"),
        ("if let Some(Update::Sent(_)) = update {}", "if let"),
        ("let Update::Sent(_) = update else { return };", "let else"),
        ("f(matches!(update, Update::Sent(_) | Update::Left(_)));", "matches!"),
        ("assert!(is_told || matches!(update, tapline::Update::Sent(_)));", "matches!"),
    ] {
        assert_eq!(passed(&format!("fn f() {{ {body} }}")), [how], "{body}");
    }
    for body in [
        "match update { Update::Sent(_) => 1, Update::Left(n) => n }",
        "match update { Some(Update::Sent(_)) => 1, Some(Update::Left(n)) => n, None => 3 }",
        "match other { PermissionUpdate::Add(_) => 1, _ => 2 }",
        "self.tell(Update::Sent(steps));",
        "assert!(matches!(reason, StopReason::Stopped));",
        "assert!(matches!(one, PermissionUpdate::Add(_)));",
    ] {
        assert_eq!(passed(&format!("fn f() {{ {body} }}")), [""; 0], "{body}");
    }
}
