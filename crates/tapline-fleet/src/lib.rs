//! Many runs of headless coding agents: a queue with a budget, retries that know about rate limits, and results in one place.
//!
//! A job file becomes a [`Plan`]. A [`Batch`] runs it through an [`Engine`]; the [`Embedded`] one needs nothing but this machine. What
//! happens is noted in the [`BatchFolder`] before anybody relies on it, so a batch that was killed goes on where it was. Every job has
//! exactly one [`JobResult`]. A [`PartitionedStore`] has the tables of an archive in a folder or an S3 store, for others to ask.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use std::collections::BTreeMap;
//! use tapline_fleet::{Batch, BatchFolder, BatchOptions, Embedded, Plan, Workplace};
//! use tapline_recording::Store;
//!
//! let store = Store::of_user().ok_or("no home folder")?;
//! let plan = Plan::read("jobs.toml".as_ref(), &BTreeMap::new())?;
//! let folder = BatchFolder::create(&store, &plan)?;
//! let (engine, notes) = Embedded::open(folder, Workplace::new(store.clone()))?;
//! let (events, _) = tokio::sync::mpsc::unbounded_channel();
//! let (_stop, stopped) = tokio::sync::watch::channel(0);
//! let end = Batch::new(engine, plan, notes, store, BatchOptions::default(), events, stopped).run().await?;
//! println!("{}", tapline_fleet::counted(&end));
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

mod batch;
mod budget;
#[cfg(feature = "nats")]
mod carried;
mod csv;
mod embedded;
mod engine;
mod estimate;
mod fields;
mod file;
mod folder;
#[cfg(any(feature = "nats", feature = "parquet"))]
mod identity;
mod job;
mod journal;
mod limits;
mod mistake;
mod mode;
#[cfg(feature = "nats")]
mod nats;
mod note;
#[cfg(feature = "parquet")]
mod partitions;
mod plan;
mod reference;
mod result;
mod shared;
mod state;
mod summary;
mod template;
mod waits;
mod work;
mod workshop;
mod worktree;

pub use batch::{Batch, BatchEnd, BatchNews, BatchOptions};
pub use embedded::Embedded;
pub use engine::{Attempted, Engine, EngineError};
pub use estimate::median_costs;
pub use file::{EXAMPLE, JobFileError};
pub use folder::{BatchError, BatchFolder};
pub use job::{CutOff, Job, KeepAs, WorktreeRule, Written};
pub use mistake::{Mistake, Mistakes};
pub use mode::PermissionMode;
#[cfg(feature = "nats")]
pub use nats::{
    Broker, BrokerError, BrokerRole, Checkup, CollectNews, CollectOptions, Collected, Nats, NatsError, Outbox, Post,
    RecordingCollector, RoleRights, Sealed, SeenWorker, Shipper, StoreState, Worker, WorkerError, WorkerNews, WorkerOptions,
    WrongKey, check_key, checkup, data_folder_key, resend, setup,
};
pub use note::{AccountLimit, BatchNote, RepeatJobs, RunAgain, RunBegun};
#[cfg(feature = "parquet")]
pub use partitions::{PartitionedStore, PartitionsError, PartitionsWritten};
pub use plan::{Plan, PlannedStep, RunsOn};
pub use result::{JobOutcome, JobResult, worst_exit_code};
pub use state::{Halt, WaitingJobs, steps_left};
pub use summary::{counted, json, json_line, junit, markdown};
pub use template::TemplateError;
pub use work::{Attempt, AttemptEnd, EngineNews, JobNews, Watch, Workplace};
pub use worktree::WorktreeError;

/// Checks that the README's example compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
