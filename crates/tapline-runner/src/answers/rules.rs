//! Applies the rules to a call with a view of the file system, so that links in paths are resolved.

use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use tapline_protocol::Json;
use tapline_session::permission::{Decision, NoRule, PendingCall, Permissions, Ruling, Suggestion};

/// Where an agent was started, and where it is now.
#[derive(Clone, Debug, Default)]
pub(crate) struct Places {
    pub(crate) home: Option<String>,
    pub(crate) cwd: Option<String>,
}

/// Returns what the rules decide. It reads the disk, which may take a while: if that takes too long, the call is
/// denied.
pub(super) async fn decide(
    rules: &Permissions,
    tool: &str,
    input: Option<&Json>,
    places: &Places,
    within: Duration,
) -> Decision {
    let lost = || Decision { ruling: Ruling::Deny, rule: None, reason: Some("the rules could not be checked".to_owned()) };
    look(rules, tool, input, places, within, Permissions::decide).await.unwrap_or_else(lost)
}

/// Returns the rule that would allow a call that nobody could be asked about, or why no rule can.
pub(super) async fn suggest(
    rules: &Permissions,
    tool: &str,
    input: Option<&Json>,
    places: &Places,
    within: Duration,
) -> Option<Result<Suggestion, NoRule>> {
    look(rules, tool, input, places, within, Permissions::suggest).await
}

/// Resolves the links of rules and a call and passes them to `find`. Returns `None` if the disk does not answer in
/// time.
async fn look<T: Send + 'static>(
    rules: &Permissions,
    tool: &str,
    input: Option<&Json>,
    places: &Places,
    within: Duration,
    find: impl FnOnce(&Permissions, &PendingCall) -> T + Send + 'static,
) -> Option<T> {
    let (rules, tool, input, places) = (rules.clone(), tool.to_owned(), input.cloned(), places.clone());
    let look = move || {
        let [home, cwd] = [places.home, places.cwd].map(|folder| folder.map(|folder| real(&folder)));
        let call = PendingCall::of(&tool, input.as_ref(), cwd.as_deref()).at_home(home.as_deref()).behind_links(real);
        find(&rules.behind_links(home.as_deref(), real), &call)
    };
    tokio::time::timeout(within.min(LOOKS_WITHIN), tokio::task::spawn_blocking(look)).await.ok()?.ok()
}

/// How long the disk may take.
const LOOKS_WITHIN: Duration = Duration::from_secs(10);

/// How many links the system follows in one path.
const LINKS: usize = 40;

/// Returns a path with all links resolved, including links to files that do not exist yet.
fn real(path: &str) -> String {
    fn follow(path: &Path, left: &mut usize) -> PathBuf {
        let mut there = PathBuf::new();
        for part in path.components() {
            match part {
                Component::CurDir => {}
                Component::ParentDir => drop(there.pop()),
                Component::Prefix(_) | Component::RootDir | Component::Normal(_) => there.push(part),
            }
            if matches!(part, Component::Normal(_))
                && *left > 0
                && let Ok(target) = there.read_link()
            {
                *left -= 1;
                there.pop();
                there = follow(&there.join(target), left);
            }
        }
        there
    }
    follow(Path::new(path), &mut LINKS.clone()).to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use tapline_testkit::TempFolder;

    use super::*;

    /// Creates a folder with `inside`, `outside/deep`, and links.
    fn tree() -> std::io::Result<TempFolder> {
        let folder = TempFolder::new();
        std::fs::create_dir_all(folder.join("inside"))?;
        std::fs::create_dir_all(folder.join("outside/deep"))?;
        let link = |to: &str, name: &str| std::os::unix::fs::symlink(to, folder.join(name));
        link("inside", "link")?;
        link("link/new", "dangling")?;
        link("../outside/deep", "inside/out")?;
        link("outside", "alias")?;
        Ok(folder)
    }

    #[test]
    fn a_path_is_what_is_behind_its_links() -> std::io::Result<()> {
        let folder = tree()?;
        let at = |name: &str| real(&folder.join(name).to_string_lossy());
        let wanted = |name: &str| folder.join(name).to_string_lossy().into_owned();
        assert_eq!(at("link/new.txt"), wanted("inside/new.txt"));
        assert_eq!(at("nothing/here"), wanted("nothing/here"));
        assert_eq!(at("dangling"), wanted("inside/new"), "a link to what is not there yet is followed, too");
        assert_eq!(at("inside/out/../secret"), wanted("outside/secret"), "up from where it leads");
        Ok(())
    }

    #[tokio::test]
    async fn no_link_leads_around_a_rule() -> std::io::Result<()> {
        let folder = tree()?;
        let at = |name: &str| folder.join(name).to_string_lossy().into_owned();
        let rules = |text: String| toml::from_str::<Permissions>(&text).unwrap_or_default();
        let here = Places { home: Some(at("")), cwd: Some(at("")) };
        let decide = async |rules: &Permissions, input: serde_json::Value| {
            decide(rules, "Read", Some(&input.into()), &here, LOOKS_WITHIN).await.ruling
        };
        let allow = rules(format!("allow = [{{ tool = \"Read\", path = \"{}/**\" }}]", at("inside")));
        let read = |name: &str| serde_json::json!({"file_path": at(name)});
        assert_eq!(decide(&allow, read("inside/x")).await, Ruling::Allow);
        assert_eq!(decide(&allow, read("link/x")).await, Ruling::Allow, "it is where it is");
        for name in ["inside/out/x", "inside/out/../secret", "inside/../outside/x", "alias/x"] {
            assert_eq!(decide(&allow, read(name)).await, Ruling::Ask, "{name}");
        }
        let decoy = serde_json::json!({"file_path": at("inside/x"), "path": at("outside/x")});
        assert_eq!(decide(&allow, decoy).await, Ruling::Ask, "which of the two it reads, nobody knows");
        // A rule with the name of a link also applies to its target.
        let deny =
            rules(format!("allow = [{{ tool = \"*\" }}]\ndeny = [{{ tool = \"Read\", path = \"{}/**\" }}]", at("alias")));
        for name in ["alias/key", "outside/key", "inside/out/../key"] {
            assert_eq!(decide(&deny, read(name)).await, Ruling::Deny, "{name}");
        }
        assert_eq!(decide(&deny, read("inside/key")).await, Ruling::Allow);
        Ok(())
    }
}
