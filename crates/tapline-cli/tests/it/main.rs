//! Tests of the binary, as people and scripts use it, and of the architecture.

#[cfg(test)]
mod architecture;
#[cfg(test)]
mod archive_index_faults;
#[cfg(test)]
mod archive_interrupt;
#[cfg(test)]
mod archive_prices;
#[cfg(test)]
mod archive_restore;
#[cfg(test)]
mod batch;
#[cfg(test)]
mod chat;
#[cfg(test)]
mod check;
#[cfg(test)]
mod collect_parquet;
#[cfg(test)]
mod convert;
#[cfg(test)]
mod denial_advice;
#[cfg(test)]
mod error_table;
#[cfg(test)]
mod explanations;
#[cfg(test)]
mod export;
#[cfg(test)]
mod features;
#[cfg(test)]
mod first_run;
#[cfg(test)]
mod github_actions;
#[cfg(test)]
mod help;
#[cfg(test)]
mod immediate_output;
#[cfg(test)]
mod init_process;
#[cfg(test)]
mod inspect;
#[cfg(test)]
mod migration_table;
#[cfg(test)]
mod output_files;
#[cfg(test)]
mod piped_input;
#[cfg(test)]
mod reader_output;
#[cfg(test)]
mod recording_faults;
#[cfg(test)]
mod recording_report;
#[cfg(test)]
mod redact;
#[cfg(test)]
mod redact_own_lines;
#[cfg(test)]
mod run;
#[cfg(test)]
mod run_in_scripts;
#[cfg(test)]
mod run_stop;
#[cfg(test)]
mod run_warnings;
#[cfg(test)]
mod schemas;
#[cfg(test)]
mod search;
#[cfg(test)]
mod search_index_faults;
#[cfg(test)]
mod serve;
#[cfg(test)]
mod sessions;
#[cfg(test)]
mod sim_and_replay;
#[cfg(test)]
mod stats;
mod stats_asked;
#[cfg(test)]
mod stats_terminal;
#[cfg(test)]
mod statusline;
#[cfg(test)]
mod surfaces;
#[cfg(test)]
mod tapline;
#[cfg(test)]
mod tee_and_shim;
#[cfg(test)]
mod times;
#[cfg(test)]
mod view;
#[cfg(test)]
mod view_follow;
#[cfg(test)]
mod wording;
#[cfg(test)]
mod workflows;
