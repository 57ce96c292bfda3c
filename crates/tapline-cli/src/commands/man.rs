//! `tapline man` and `tapline completions`: generated from the command line itself, so that they cannot disagree.

use std::io::Write as _;
use std::path::Path;

use anyhow::{Context, Result};
use clap_complete::Shell;
use clap_mangen::Man;

use crate::args::command_line;
use crate::output;

pub(crate) fn run(folder: Option<&Path>) -> Result<u8> {
    let mut command = command_line();
    command.build();
    let Some(folder) = folder else {
        let mut out = output::stdout();
        Man::new(command).render(&mut out)?;
        out.flush()?;
        return Ok(0);
    };
    std::fs::create_dir_all(folder).with_context(|| format!("cannot create the folder {}", folder.display()))?;
    let subcommands = command.get_subcommands().filter(|sub| !sub.is_hide_set()).cloned();
    // Commands of commands too: `tapline archive prices`.
    let subcommands = subcommands.flat_map(|sub| sub.get_subcommands().cloned().chain([sub.clone()]).collect::<Vec<_>>());
    for sub in subcommands.chain([command.clone()]) {
        let man = Man::new(sub);
        let path = folder.join(man.get_filename());
        let mut file = output::OutputFile::open(&path)?;
        man.render(&mut file)?;
        file.keep()?;
    }
    Ok(0)
}

pub(crate) fn completions(shell: Shell) -> Result<u8> {
    let mut out = output::stdout();
    clap_complete::generate(shell, &mut command_line(), "tapline", &mut out);
    out.flush()?;
    Ok(0)
}
