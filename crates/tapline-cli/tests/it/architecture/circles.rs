//! Files look down only. Among the files of one folder, each together with all that is in its own folder, no two use each other,
//! neither directly nor through others. A file and its own folder (`foo.rs`, `foo/`) are one room: they may.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use syn::visit::{self, Visit};
use syn::{Attribute, File, ItemMod, ItemUse, UseTree};
use tapline_testkit::files::files_below;
use tapline_testkit::root;

/// The module of a file: `["redact", "scan"]`; the crate's root is empty.
type Module = Vec<String>;

/// The names that a file imports, and the path of each.
type Imports = BTreeMap<String, Vec<String>>;

/// What a file uses of its crate.
struct Uses<'m> {
    at: &'m Module,
    modules: &'m BTreeMap<Module, Imports>,
    found: BTreeSet<Module>,
}

impl Uses<'_> {
    fn see(&mut self, path: &[String]) {
        self.follow(self.at.clone(), path, 0);
    }

    /// The module that a path in this one leads to, if it leads into this crate. A name that another module only passes on leads
    /// to where that has it from.
    fn follow(&mut self, from: Module, path: &[String], passed_on: usize) {
        let (mut at, mut rest) = match path.first().map(String::as_str) {
            Some("crate") => (Module::new(), &path[1..]),
            Some("self") => (from, &path[1..]),
            // `super`, or a name of this file's folder.
            Some(_) => (from, path),
            None => return,
        };
        while rest.first().is_some_and(|segment| segment == "super") {
            at.pop();
            rest = &rest[1..];
        }
        while let Some(segment) = rest.first() {
            let below: Module = at.iter().chain([segment]).cloned().collect();
            if !self.modules.contains_key(&below) {
                break;
            }
            (at, rest) = (below, &rest[1..]);
        }
        // Its own imports are seen where they stand.
        let source = rest.first().filter(|_| at != *self.at).and_then(|name| self.modules[&at].get(name));
        if let Some(source) = source.filter(|_| passed_on < 8) {
            self.follow(at.clone(), source, passed_on + 1);
        }
        self.found.insert(at);
    }

    fn see_tree(&mut self, before: &[String], tree: &UseTree) {
        let with = |name: &syn::Ident| before.iter().cloned().chain([name.to_string()]).collect::<Vec<_>>();
        match tree {
            UseTree::Path(path) => self.see_tree(&with(&path.ident), &path.tree),
            UseTree::Name(name) => self.see(&with(&name.ident)),
            UseTree::Rename(name) => self.see(&with(&name.ident)),
            UseTree::Glob(_) => self.see(before),
            UseTree::Group(group) => group.items.iter().for_each(|tree| self.see_tree(before, tree)),
        }
    }
}

impl<'ast> Visit<'ast> for Uses<'_> {
    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        let is_test = |attribute: &Attribute| {
            attribute.path().is_ident("cfg") && attribute.parse_args::<syn::Path>().is_ok_and(|path| path.is_ident("test"))
        };
        if !item.attrs.iter().any(is_test) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        self.see_tree(&[], &item.tree);
    }

    fn visit_macro(&mut self, item: &'ast syn::Macro) {
        let text = item.tokens.to_string().replace(" :: ", "::").replace(":: ", "::").replace(" ::", "::");
        for word in text.split(|c: char| !c.is_alphanumeric() && c != '_' && c != ':') {
            let names: Vec<String> = word.split("::").filter(|name| !name.is_empty()).map(ToOwned::to_owned).collect();
            if names.len() > 1 && ["crate", "self", "super"].contains(&names[0].as_str()) {
                self.see(&names);
            }
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        // A single name was imported, which is seen there.
        if path.segments.len() > 1 {
            let names: Vec<_> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
            self.see(&names);
        }
        visit::visit_path(self, path);
    }
}

/// The names that a file imports.
fn imports(text: &str) -> Imports {
    fn add(before: &[String], tree: &UseTree, imports: &mut Imports) {
        let with = |name: &syn::Ident| before.iter().cloned().chain([name.to_string()]).collect::<Vec<_>>();
        match tree {
            UseTree::Path(path) => add(&with(&path.ident), &path.tree, imports),
            UseTree::Name(name) => drop(imports.insert(name.ident.to_string(), with(&name.ident))),
            UseTree::Rename(name) => drop(imports.insert(name.rename.to_string(), with(&name.ident))),
            UseTree::Glob(_) => {}
            UseTree::Group(group) => group.items.iter().for_each(|tree| add(before, tree, imports)),
        }
    }
    let file: File = syn::parse_file(text).unwrap_or_else(|error| panic!("{error}"));
    let mut imports = Imports::new();
    for item in &file.items {
        if let syn::Item::Use(item) = item {
            add(&[], &item.tree, &mut imports);
        }
    }
    imports
}

/// Every module of a crate, with what it imports.
fn modules_of(files: &BTreeMap<Module, String>) -> BTreeMap<Module, Imports> {
    files.iter().map(|(at, text)| (at.clone(), imports(text))).collect()
}

/// The modules that a file uses.
fn uses(at: &Module, text: &str, modules: &BTreeMap<Module, Imports>) -> BTreeSet<Module> {
    let file: File = syn::parse_file(text).unwrap_or_else(|error| panic!("{at:?}: {error}"));
    let mut uses = Uses { at, modules, found: BTreeSet::new() };
    uses.visit_file(&file);
    uses.found
}

/// The circles among the files of one crate: each as the names of the rooms that tie it.
fn circles(files: &BTreeMap<Module, String>) -> Vec<String> {
    let modules = modules_of(files);
    // Of each folder: which of its rooms uses which, and where.
    let mut folders: BTreeMap<Module, BTreeMap<String, BTreeMap<String, String>>> = BTreeMap::new();
    for (at, text) in files {
        for used in &uses(at, text, &modules) {
            let shared = at.iter().zip(used).take_while(|(a, b)| a == b).count();
            if let (Some(from), Some(to)) = (at.get(shared), used.get(shared)) {
                let place = format!("{} uses {}", at.join("::"), used.join("::"));
                folders.entry(at[..shared].to_vec()).or_default().entry(from.clone()).or_default().insert(to.clone(), place);
            }
        }
    }
    let mut found = Vec::new();
    for edges in folders.values() {
        for (from, uses) in edges {
            for (to, place) in uses {
                if reaches(edges, to, from) {
                    found.push(format!("{place}, from where it goes back to {from}"));
                }
            }
        }
    }
    found
}

fn reaches(edges: &BTreeMap<String, BTreeMap<String, String>>, from: &str, to: &str) -> bool {
    let (mut seen, mut open) = (BTreeSet::new(), vec![from]);
    while let Some(at) = open.pop() {
        if at == to {
            return true;
        }
        if seen.insert(at) {
            open.extend(edges.get(at).into_iter().flat_map(BTreeMap::keys).map(String::as_str));
        }
    }
    false
}

/// The files of a crate, by their modules.
fn files_of(crate_folder: &Path) -> BTreeMap<Module, String> {
    let folder = crate_folder.join("src");
    let paths = files_below(&folder);
    let sources = paths.iter().filter(|path| path.extension().is_some_and(|extension| extension == "rs"));
    let read = |path: &PathBuf| (module_of(path.strip_prefix(&folder).unwrap()), std::fs::read_to_string(path).unwrap());
    let files: BTreeMap<_, _> = sources.map(read).collect();
    assert!(!files.is_empty(), "{}", folder.display());
    files
}

fn module_of(path: &Path) -> Module {
    let names = path.with_extension("");
    let names: Module = names.components().map(|part| part.as_os_str().to_str().unwrap().to_owned()).collect();
    if matches!(names.as_slice(), [only] if only == "lib" || only == "main") { Module::new() } else { names }
}

#[test]
fn no_two_files_use_each_other() {
    let crates = std::fs::read_dir(root().join("crates")).unwrap().map(|entry| entry.unwrap().path());
    for folder in crates.chain([root().join("python")]) {
        let found = circles(&files_of(&folder));
        assert!(found.is_empty(), "{}:\n{}", folder.display(), found.join("\n"));
    }
}

/// The rooms of `tapline-session` that others do not look into: what is allowed or odd, and how it looks. What happened is the rest.
const ROOMS: &[(&str, &[&str])] =
    &[("rules", &["check", "pattern", "permission", "policy", "rulefile"]), ("render", &["render"])];

/// The room of a module.
fn room(module: &Module) -> Option<&'static str> {
    let top = module.first()?;
    ROOMS.iter().find(|(_, modules)| modules.contains(&top.as_str())).map(|(room, _)| *room)
}

#[test]
fn what_happened_what_is_allowed_and_how_it_looks_are_three_rooms() {
    let files = files_of(&root().join("crates/tapline-session"));
    let modules = modules_of(&files);
    for name in ROOMS.iter().flat_map(|(_, modules)| *modules) {
        assert!(modules.contains_key(&vec![(*name).to_owned()]), "{name} is in no file");
    }
    // The front page shows all of them.
    for (at, text) in files.iter().filter(|(at, _)| !at.is_empty()) {
        for used in uses(at, text, &modules) {
            let (from, to) = (room(at), room(&used));
            assert!(to.is_none() || from == to, "{} uses {}", at.join("::"), used.join("::"));
        }
    }
}

#[test]
fn a_circle_is_found_however_it_is_made() {
    let crate_of = |files: &[(&str, &str)]| {
        let module = |name: &str| name.split("::").filter(|name| !name.is_empty()).map(ToOwned::to_owned).collect();
        circles(&files.iter().map(|(name, text)| (module(name), (*text).to_owned())).collect())
    };
    let root = ("", "mod a; mod b; mod c;");
    let made: &[&[(&str, &str)]] = &[
        &[root, ("a", "use crate::b::B;"), ("b", "use crate::a;")],
        &[root, ("a", "use super::{b::{B, C}, c};"), ("b", "fn f() { crate::c::g() }"), ("c", "struct C(super::a::A);")],
        &[root, ("a", "mod x;"), ("a::x", "use crate::b::B;"), ("b", "impl crate::a::x::X for u8 {}")],
        &[("", "mod a;"), ("a", "mod x; mod y;"), ("a::x", "use super::y::Y;"), ("a::y", "fn f(x: super::x::X) {}")],
        &[("", "mod a; mod b; pub use a::A;"), ("a", "use crate::b::B;"), ("b", "fn f(a: crate::A) {}")],
        &[
            ("", "mod a;"),
            ("a", "mod x; mod y; pub use {x::X, y::Y};"),
            ("a::x", "use super::{Y, Z};"),
            ("a::y", "use super::X;"),
        ],
        &[root, ("a", "use crate::b::B;"), ("b", "fn f() { vec![crate::a::A] }")],
    ];
    for files in made {
        assert!(!crate_of(files).is_empty(), "{files:?}");
    }
    let none: &[&[(&str, &str)]] = &[
        &[root, ("a", "use crate::b::B;"), ("b", "/// See [`crate::a::A`].\nconst TEXT: &str = \"crate::a::A\";")],
        &[root, ("a", "use crate::b::B;"), ("b", "#[cfg(test)]\nmod tests { use crate::a::A; }")],
        &[root, ("a", "mod x; use x::X;"), ("a::x", "use super::A;")],
        &[("", "mod a; mod b; pub use a::A; pub use b::B;"), ("a", "use crate::B;"), ("b", "fn f() {}")],
        &[root, ("a", "use crate::b::B; use crate::c::C;"), ("b", "use crate::c::C;"), ("c", "use std::fmt;")],
    ];
    for files in none {
        assert_eq!(crate_of(files), Vec::<String>::new(), "{files:?}");
    }
}
