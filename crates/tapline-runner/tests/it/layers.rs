//! The layers of this crate, as `lib.rs` lists them: a file uses its own layer and those before it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

/// Every module, and the number of its layer: a comment begins one, an empty line ends the list.
fn layers(lib: &str) -> BTreeMap<&str, usize> {
    let mut layer = 0;
    let list = lib.lines().skip_while(|line| !line.starts_with("// The layers,")).take_while(|line| !line.is_empty());
    let mut layers = BTreeMap::new();
    for line in list {
        match line.strip_prefix("mod ").and_then(|rest| rest.strip_suffix(';')) {
            Some(module) => drop(layers.insert(module, layer)),
            None => layer += 1,
        }
    }
    layers
}

/// The modules that a text names by `crate::`, leaving out comments.
fn used(text: &str) -> Vec<&str> {
    let code = text.lines().map(|line| line.split("//").next().unwrap_or_default());
    let paths = code.flat_map(|line| line.split("crate::").skip(1));
    paths.map(|path| path.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default()).collect()
}

/// Whatever looks up: a file, its module, and the module that it uses.
fn wrong<'t>(layers: &BTreeMap<&str, usize>, module: &str, text: &'t str) -> Vec<&'t str> {
    let own = layers.get(module).copied().unwrap_or(usize::MAX);
    used(text).into_iter().filter(|used| layers.get(used).is_none_or(|layer| *layer > own)).collect()
}

#[test]
fn files_look_down() {
    let lib = std::fs::read_to_string(source().join("lib.rs")).unwrap();
    let layers = layers(&lib);
    let (mut folders, mut seen) = (vec![source()], 0);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let place = path.strip_prefix(source()).unwrap().with_extension("");
            let module = place.iter().next().unwrap().to_str().unwrap().to_owned();
            // The front page, and tests, stand above all.
            if !["lib", "paused"].contains(&module.as_str()) {
                let text = std::fs::read_to_string(&path).unwrap();
                assert!(layers.contains_key(module.as_str()), "{module} is in no layer of lib.rs");
                assert_eq!(wrong(&layers, &module, &text), Vec::<&str>::new(), "{}", path.display());
                seen += 1;
            }
        }
    }
    assert!(seen > 50, "{seen} files");
}

#[test]
fn one_that_looks_up_is_found() {
    let layers = layers("// The layers, from the ground up\n// a:\nmod spec;\n// b:\nmod driver;\nmod tree;\n\nmod later;\n");
    assert_eq!(wrong(&layers, "spec", "use crate::driver::Driver;"), ["driver"]);
    assert_eq!(wrong(&layers, "driver", "use crate::spec::Limits; use crate::tree::Tree;"), Vec::<&str>::new());
    assert_eq!(wrong(&layers, "driver", "// crate::later\nlet a = crate::later::a();"), ["later"]);
}
