//! The agents whose streams tapline knows, and their names. To add an agent: add a row here, a variant of
//! [`Event`](crate::Event), a row in `dialects.rs`, and the agent's folder.

/// Defines the agents: `Variant = "name that people type", "product name";`
macro_rules! agents {
    ($( $(#[$meta:meta])* $agent:ident = $name:literal, $title:literal; )+) => {
        /// The agent that wrote a stream. The default is the agent that is used when none is named.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, serde::Serialize)]
        #[serde(rename_all = "lowercase")]
        pub enum Agent {
            $( $(#[$meta])* #[doc = $title] $agent, )+
        }

        impl Agent {
            /// All known agents.
            pub const ALL: &'static [Self] = &[$(Self::$agent),+];

            /// Returns the name that people type.
            pub fn name(self) -> &'static str {
                match self { $( Self::$agent => $name, )+ }
            }

            /// Returns the product name.
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
    /// Returns the agent with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|agent| agent.name() == name)
    }
}
