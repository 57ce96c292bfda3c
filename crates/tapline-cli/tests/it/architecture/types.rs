//! One name per idea: no two public types of the libraries have the same name. And an error is a type, not a text.

use std::collections::BTreeMap;

use syn::visit::{self, Visit};
use syn::{GenericArgument, PathArguments, Type, Visibility};

use super::{names, sources};

/// Names that two types may have, and why.
const EXCEPTIONS: &[(&str, &str)] = &[
    ("Agent", "the protocol's says which agent it is (`tapline::AgentKind`), the runner's starts it"),
    ("Event", "all agents' events, and in each agent's folder its own"),
    ("Progress", "the session's is of a run, the archive's of reading files"),
    ("Reader", "the protocol's reads records, the archive's takes requests and sessions"),
    ("SessionFacts", "the session's is what one stream says about it, the archive's what all files say"),
    ("Speed", "the archive's has a price, the simulator's a pace"),
];

/// Modules that are a name of their own: `claude::Message`, `facts::Message`.
const MODULES: &[&str] = &["tapline-protocol/src/claude", "tapline-protocol/src/codex", "tapline-archive/src/facts"];

/// The public types that a file defines, also those inside a macro.
fn defined(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| {
        let (kind, rest) = line.trim_start().strip_prefix("pub ")?.split_once(' ')?;
        let is_type = ["struct", "enum", "trait", "type"].contains(&kind);
        let name = rest.split(|c: char| !c.is_alphanumeric()).next()?;
        (is_type && !name.is_empty()).then_some(name)
    })
}

#[test]
fn a_type_is_found_however_it_is_written() {
    let text =
        "pub struct A;\n    pub enum B {\npub trait C: D {\npub type E<T> = F;\npub(crate) struct G;\npub fn h() {}\nstruct I;";
    assert_eq!(defined(text).collect::<Vec<_>>(), ["A", "B", "C", "E"]);
}

#[test]
fn public_types_have_names_of_their_own() {
    let mut all: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (path, text) in sources() {
        let name = path.to_str().unwrap().rsplit_once("/crates/").unwrap().1.to_owned();
        // The command line is not a library.
        let is_library = name.contains("/src/") && !name.starts_with("tapline-cli/");
        let is_named = MODULES.iter().any(|module| name.starts_with(&format!("{module}/")) || name == format!("{module}.rs"));
        if is_library && !is_named {
            for defined in defined(&text) {
                all.entry(defined.to_owned()).or_default().push(name.clone());
            }
        }
    }
    assert!(all.contains_key("Report") && all.contains_key("Session"), "{all:?}");
    all.retain(|name, files| files.len() > 1 && !EXCEPTIONS.iter().any(|(known, _)| known == name));
    assert!(all.is_empty(), "{all:#?}");
}

/// Counts how often what others can see of a file has a text for an error.
#[derive(Default)]
struct TextErrors(usize);

fn is_public(visibility: &Visibility) -> bool {
    matches!(visibility, Visibility::Public(_))
}

impl<'ast> Visit<'ast> for TextErrors {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        if is_public(&item.vis) {
            self.visit_signature(&item.sig);
        }
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if is_public(&item.vis) {
            self.visit_signature(&item.sig);
        }
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        self.visit_signature(&item.sig);
    }

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        if is_public(&item.vis) {
            visit::visit_item_trait(self, item);
        }
    }

    fn visit_item_enum(&mut self, item: &'ast syn::ItemEnum) {
        if is_public(&item.vis) {
            item.variants.iter().flat_map(|variant| &variant.fields).for_each(|field| self.visit_type(&field.ty));
        }
    }

    fn visit_field(&mut self, field: &'ast syn::Field) {
        if is_public(&field.vis) {
            self.visit_type(&field.ty);
        }
    }

    fn visit_item_type(&mut self, item: &'ast syn::ItemType) {
        if is_public(&item.vis) {
            self.visit_type(&item.ty);
        }
    }

    fn visit_path_segment(&mut self, segment: &'ast syn::PathSegment) {
        if let PathArguments::AngleBracketed(given) = &segment.arguments
            && segment.ident == "Result"
            && let Some(GenericArgument::Type(Type::Path(error))) = given.args.iter().nth(1)
        {
            self.0 += usize::from(error.path.segments.last().is_some_and(|last| last.ident == "String"));
        }
        visit::visit_path_segment(self, segment);
    }
}

fn text_errors(text: &str) -> usize {
    let mut found = TextErrors::default();
    found.visit_file(&syn::parse_file(text).unwrap_or_else(|error| panic!("{error}")));
    found.0
}

#[test]
fn no_public_error_is_a_text() {
    for (path, text) in names::sources().iter().filter(|(path, _)| !path.starts_with("tapline-cli")) {
        assert_eq!(text_errors(text), 0, "{}: an error that others see has a type", path.display());
    }
}

#[test]
fn a_text_for_an_error_is_found_however_it_is_written() {
    for text in [
        "pub fn f() -> Result<(), String> {}",
        "pub fn f(read: impl Fn(&str) -> Result<u64, String>) {}",
        "impl A { pub fn f(&self) -> std::io::Result<Option<Result<(), std::string::String>>> {} }",
        "pub trait T { fn f() -> Result<(), String>; }",
        "pub struct A { pub f: Result<(), String> }",
        "pub struct A(pub Box<dyn Fn() -> Result<(), String>>);",
        "pub enum A { B(Result<(), String>) }",
        "pub type A = Result<(), String>;",
    ] {
        assert_eq!(text_errors(text), 1, "{text}");
    }
    for text in [
        "fn f() -> Result<(), String> {}",
        "pub(crate) fn f() -> Result<(), String> {}",
        "pub fn f() -> Result<String, Error> { let read: Result<u8, String>; }",
        "impl TryFrom<A> for B { fn try_from(a: A) -> Result<Self, String> {} }",
        "pub struct A { f: Result<(), String> }",
        "enum A { B(Result<(), String>) }",
    ] {
        assert_eq!(text_errors(text), 0, "{text}");
    }
}
