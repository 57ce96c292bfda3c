//! The native part of tapline for Python. Everything that is decided (verdicts, folding, what a process tree is) is decided in
//! Rust; the package around it (`tapline/*.py`) gives it Python's shapes.

mod ahead;
mod answers;
mod conversation;
mod json;
mod line;
mod lines;
mod options;
mod record;
mod report;
mod run;
mod runtime;
mod session;
mod sim;
mod source;
mod step;
mod time;

use pyo3::prelude::*;

/// Reading makes many small values: a third of the time of a report was malloc and free of the system (perf).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The native part of tapline.
#[pymodule]
mod _native {
    use super::{PyModule, PyResult};
    use pyo3::prelude::*;

    #[pymodule_export]
    use super::answers::Reply;
    #[pymodule_export]
    use super::conversation::Conversation;
    #[pymodule_export]
    use super::lines::{
        extract_session_id, extract_text, extract_tool_result_content, extract_tool_results, extract_tool_uses, loads,
        summary_of_line,
    };
    #[pymodule_export]
    use super::record::{Record, Records, read};
    #[pymodule_export]
    use super::report::{Report, report};
    #[pymodule_export]
    use super::run::{Run, start};
    #[pymodule_export]
    use super::runtime::shut_down;
    #[pymodule_export]
    use super::session::{Session, open_session};
    #[pymodule_export]
    use super::sim::{Replay, Sim};
    #[pymodule_export]
    use super::step::{Steps, steps};

    /// The version of the package.
    #[pymodule_export]
    const VERSION: &str = env!("CARGO_PKG_VERSION");

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        for class in super::step::classes(module.py()) {
            module.add(class.name()?, class)?;
        }
        Ok(())
    }
}
