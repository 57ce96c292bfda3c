//! The agents whose streams are known, and their names. To add one: a row here, a variant of [`Event`](crate::Event), a row in
//! `dialects.rs`, and its folder.

/// Defines the agents: `Variant = "name as people type it", "name of the product";`
macro_rules! agents {
    ($( $(#[$meta:meta])* $agent:ident = $name:literal, $title:literal; )+) => {
        /// Which agent a stream comes from. The default is the one that is meant where none is named.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, serde::Serialize)]
        #[serde(rename_all = "lowercase")]
        pub enum Agent {
            $( $(#[$meta])* #[doc = $title] $agent, )+
        }

        impl Agent {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$agent),+];

            /// Its name, as people type it.
            pub fn name(self) -> &'static str {
                match self { $( Self::$agent => $name, )+ }
            }

            /// The name of the product.
            pub fn title(self) -> &'static str {
                match self { $( Self::$agent => $title, )+ }
            }
        }
    };
}

agents! {
    #[default]
    Claude = "claude", "Claude Code";
    Codex = "codex", "Codex";
}

impl Agent {
    /// The agent of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|agent| agent.name() == name)
    }
}
