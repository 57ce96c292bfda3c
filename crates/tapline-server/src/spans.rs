//! The spans of a session as it grows. In a build without OTLP, no value of these types can exist.

#[cfg(feature = "otlp")]
pub(crate) use tapline_session::otlp::{AgentSpan, Spans};

#[cfg(not(feature = "otlp"))]
pub(crate) use absent::{AgentSpan, Spans};

#[cfg(not(feature = "otlp"))]
mod absent {
    use std::convert::Infallible;

    use tapline_protocol::Agent;
    use tapline_session::Step;

    #[derive(Debug)]
    pub(crate) struct AgentSpan(Infallible);

    #[derive(Debug)]
    pub(crate) struct Spans(Infallible);

    impl Spans {
        pub(crate) fn note_end(&mut self, _: bool) {
            match self.0 {}
        }

        pub(crate) fn accept(&mut self, _: &Step) {
            match self.0 {}
        }

        pub(crate) fn note_agent(&mut self, _: Option<Agent>) {
            match self.0 {}
        }

        pub(crate) fn note_fork(&mut self, _: bool) {
            match self.0 {}
        }

        pub(crate) fn finish(&mut self, _: Option<&str>) {
            match self.0 {}
        }

        pub(crate) fn take(&mut self) -> Vec<AgentSpan> {
            match self.0 {}
        }

        pub(crate) fn is_idle(&self) -> bool {
            match self.0 {}
        }
    }
}
