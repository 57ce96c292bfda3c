//! A fleet of real processes: a broker, workers, batches and collectors that are killed, and a network that is cut. Every job has exactly
//! one result, and every recording is what the agent wrote.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use tapline_testkit::agent::by_prompt;
use tapline_testkit::nats::NatsServer;
use tapline_testkit::{TempFolder, TestProcess, eventually, rounds};

use crate::stage::{Stage, TAPLINE, newest};

/// A worker that says nothing for this long is taken for dead.
const WORKER_TIMEOUT: &str = "3s";

/// A broker, and a folder for everything of a test.
struct Fleet {
    folder: TempFolder,
    broker: NatsServer,
}

impl Fleet {
    fn new() -> Self {
        let folder = TempFolder::new();
        std::fs::create_dir(folder.join("traces")).unwrap();
        // Workers in a network of their own reach it, too.
        Self { folder, broker: NatsServer::with(&["-a", "0.0.0.0"]) }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn url(&self) -> String {
        self.broker.url()
    }

    /// A command of tapline with a data folder of its own.
    fn command(&self, home: &str) -> Command {
        let mut command = Command::new(TAPLINE);
        command.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").env("HOME", self.path(home));
        command.env("TAPLINE_HOME", self.path(home)).env("TRACES", self.path("traces")).env("TAPLINE_ENGINE", self.url());
        command.current_dir(&self.folder);
        command
    }

    fn start_worker(&self, home: &str) -> TestProcess {
        let agent = by_prompt();
        let mut command = self.command(home);
        command.args(["worker", "--jobs", "2", "--bin"]).arg(agent);
        TestProcess::logged(&mut command, self.path(&format!("{home}.log")))
    }

    fn start_batch(&self, args: &[&str]) -> TestProcess {
        let mut command = self.command("batch");
        command.arg("batch").args(args).args(["--engine", &self.url(), "--worker-timeout", WORKER_TIMEOUT]);
        TestProcess::logged(&mut command, self.path("batch.log"))
    }

    fn start_collector(&self) -> TestProcess {
        let mut command = self.command("collector");
        command.arg("collect");
        TestProcess::logged(&mut command, self.path("collector.log"))
    }

    /// Writes a table of jobs of the fake agent: what each does, and its name.
    fn jobs(&self, does: &str, count: usize) {
        let mut table = String::from("name,prompt\n");
        (1..=count).for_each(|n| writeln!(table, "j{n},{}", does.replace("NAME", &format!("j{n}"))).unwrap());
        std::fs::write(self.path("jobs.csv"), table).unwrap();
    }

    /// What the batch has noted.
    fn notes(&self) -> Vec<Value> {
        let batch = std::fs::read_dir(self.path("batch/batches")).into_iter().flatten().flatten().next();
        let text = batch.and_then(|batch| std::fs::read_to_string(batch.path().join("journal")).ok()).unwrap_or_default();
        text.split_inclusive('\n').filter(|line| line.ends_with('\n')).map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// How many results each job has.
    fn ended(&self) -> BTreeMap<String, usize> {
        let mut ended = BTreeMap::new();
        for note in self.notes() {
            if let Some(job) = note["ended"]["job"].as_str() {
                *ended.entry(job.to_owned()).or_default() += 1;
            }
        }
        ended
    }

    /// What the runs of a job wrote, by the agent's own account.
    fn traces(&self, job: &str) -> Vec<Vec<u8>> {
        let all = std::fs::read_dir(self.path("traces")).unwrap().map(|entry| entry.unwrap().path());
        let is_one = |path: &PathBuf| {
            let name = path.file_name().and_then(|name| name.to_str()?.split_once('.'));
            name.is_some_and(|(name, pid)| name == job && pid.parse::<u32>().is_ok())
        };
        all.filter(is_one).map(|path| std::fs::read(path).unwrap()).collect()
    }

    fn wait_until(&self, what: &str, is_so: impl FnMut() -> bool) {
        let logs = ["batch", "worker-0", "worker-1", "collector"].map(|name| self.path(&format!("{name}.log")));
        let log = |path: PathBuf| std::fs::read_to_string(path).unwrap_or_default();
        assert!(eventually(is_so), "it never came to this: {what}\n{}", logs.map(log).concat());
    }

    /// Goes on with the batch to its end, and checks what must hold for every job.
    fn check(&self, count: usize) -> Vec<Value> {
        let mut command = self.command("batch");
        command.args(["batch", "--resume", "last", "--json", "--engine", &self.url(), "--worker-timeout", WORKER_TIMEOUT]);
        let output = command.stdin(Stdio::null()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        let value: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {said}"));
        assert_eq!(value["complete"], true, "{said}");
        let results = value["results"].as_array().unwrap().clone();
        assert_eq!(results.len(), count);
        for result in &results {
            assert_eq!(result["outcome"], "success", "{result}");
            let recording = Path::new(result["recording"].as_str().unwrap());
            assert!(recording.starts_with(self.path("batch")), "{result}");
            let stdout = std::fs::read(recording.join("stdout")).unwrap();
            assert!(self.traces(result["job"].as_str().unwrap()).contains(&stdout), "{result}");
        }
        let ended = self.ended();
        assert!(ended.len() == count && ended.values().all(|ended| *ended == 1), "each job has one result: {ended:?}");
        results
    }

    /// Collects what is left, and compares all recordings that were collected with those of the workers.
    fn check_collected(&self, results: &[Value]) {
        let output = self.command("collector").args(["collect", "--once"]).stdin(Stdio::null()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let collected = recordings(&self.path("collector"));
        let mut originals = BTreeMap::new();
        for entry in std::fs::read_dir(&self.folder).unwrap().flatten() {
            if entry.file_name().to_string_lossy().starts_with("worker-") && entry.path().is_dir() {
                originals.extend(recordings(&entry.path()));
            }
        }
        for result in results {
            let name = Path::new(result["recording"].as_str().unwrap()).file_name().unwrap().to_str().unwrap();
            assert!(collected.contains_key(name), "{name} was collected");
        }
        for (name, folder) in &collected {
            // Room for the end of a run that was cut off, and whose worker never came back to it, is no part of what travels.
            let travels = |file: &std::fs::DirEntry| file.file_name() != "end.json.part";
            for file in std::fs::read_dir(&originals[name]).unwrap().flatten().filter(travels) {
                let copy = std::fs::read(folder.join(file.file_name())).unwrap_or_default();
                let original = std::fs::read(file.path()).unwrap();
                assert!(copy == original, "{name}: {:?}: {} and {} bytes", file.file_name(), copy.len(), original.len());
            }
        }
    }
}

/// The recordings in a data folder, by name.
fn recordings(home: &Path) -> BTreeMap<String, PathBuf> {
    let all = std::fs::read_dir(home.join("recordings")).into_iter().flatten().flatten();
    all.map(|entry| (entry.file_name().to_string_lossy().into_owned(), entry.path())).collect()
}

#[test]
fn twenty_jobs_over_four_workers_are_recorded_as_the_agent_wrote_them() {
    let stage = Stage::new(&newest(), "[[turn]]\ntext = \"Fine.\"\nrepeat = \"forever\"\n");
    let fleet = Fleet::new();
    let mut table = String::from("n\n");
    (1..=20).for_each(|n| writeln!(table, "{n}").unwrap());
    std::fs::write(stage.work().join("jobs.csv"), table).unwrap();
    let workers: Vec<TestProcess> = (0..4)
        .map(|number| {
            let home = format!("worker-{number}");
            let mut command = stage.command(TAPLINE);
            command.args(["worker", "--engine", &fleet.url(), "--jobs", "1", "--bin"]).arg(stage.stand_in());
            TestProcess::logged(command.env("TAPLINE_HOME", fleet.path(&home)), fleet.path(&format!("{home}.log")))
        })
        .collect();
    let mut batch = stage.command(TAPLINE);
    batch.args(["batch", "jobs.csv", "--prompt", "Say number {n}", "--timeout", "10m", "--json", "--engine", &fleet.url()]);
    let output = batch.output().unwrap();
    drop(workers);
    let said = String::from_utf8_lossy(&output.stderr);
    let value: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {said}"));
    let results = value["results"].as_array().unwrap();
    assert_eq!((output.status.code(), results.len()), (Some(0), 20), "{said}");
    let teed = std::fs::read_dir(stage.folder.join("teed")).unwrap().map(|entry| entry.unwrap().path());
    let teed: Vec<_> = teed.map(|folder| std::fs::read(folder.join("stdout")).unwrap()).collect();
    assert_eq!(teed.len(), 20, "each ran once");
    let mut sessions = std::collections::BTreeSet::new();
    for result in results {
        assert_eq!((&result["outcome"], &result["answer"]), (&Value::from("success"), &Value::from("Fine.")), "{result}");
        let recording = Path::new(result["recording"].as_str().unwrap());
        assert!(recording.starts_with(stage.folder.join("store")), "it is where the batch is: {result}");
        assert!(teed.contains(&std::fs::read(recording.join("stdout")).unwrap()), "{result}");
        sessions.insert(result["session"].as_str().unwrap().to_owned());
    }
    assert_eq!(sessions.len(), 20);
    let made: usize = (0..4).map(|number| recordings(&fleet.path(&format!("worker-{number}"))).len()).sum();
    assert_eq!(made, 20, "every run was made by a worker");
}

#[test]
fn workers_broker_batch_and_collector_are_killed_at_random() {
    // Three times each, and a hundred times with `scripts/e2e --all`.
    let rounds = rounds(12, 400);
    let mut fleet = Fleet::new();
    let count = 10 * rounds;
    fleet.jobs("slow NAME", count);
    let mut workers: Vec<TestProcess> = (0..4).map(|number| fleet.start_worker(&format!("worker-{number}"))).collect();
    let mut collector = fleet.start_collector();
    let mut batch = fleet.start_batch(&["jobs.csv"]);
    let mut random = u64::from(std::process::id()) | 1;
    for round in 0..rounds {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let notes = (fleet.notes().len() + 1 + usize::try_from(random >> 61).unwrap()).min(2 * count);
        let mut is_over = false;
        fleet.wait_until(&format!("round {round}: the batch goes on"), || {
            is_over = batch.has_ended();
            is_over || fleet.notes().len() >= notes
        });
        assert!(!is_over || fleet.ended().len() == count, "{}", std::fs::read_to_string(fleet.path("batch.log")).unwrap());
        match round % 4 {
            0 => {
                let number = usize::try_from(random >> 40).unwrap() % 4;
                workers.remove(number);
                workers.insert(number, fleet.start_worker(&format!("worker-{number}")));
            }
            1 => {
                fleet.broker.kill();
                fleet.broker.again();
            }
            2 => {
                drop(batch);
                batch = fleet.start_batch(&["--resume", "last"]);
            }
            _ => {
                drop(collector);
                collector = fleet.start_collector();
            }
        }
    }
    fleet.wait_until("the batch ends", || batch.has_ended());
    drop(collector);
    let results = fleet.check(count);
    // What was cut off is sent when its worker starts again.
    for number in 0..4 {
        workers.remove(number);
        workers.insert(number, fleet.start_worker(&format!("worker-{number}")));
    }
    fleet.wait_until("nothing is left to send", || {
        (0..4).all(|number| {
            std::fs::read_dir(fleet.path(&format!("worker-{number}/fleet/outbox"))).map_or(0, Iterator::count) == 0
        })
    });
    fleet.check_collected(&results);
}

/// A worker in a network of its own, which can be cut.
struct Remote {
    worker: TestProcess,
    link: String,
}

impl Remote {
    /// Its only way out is a pair of devices: this side has `10.77.N.1`, and the worker `10.77.N.2`.
    fn start(fleet: &Fleet, number: u32) -> Self {
        let home = format!("worker-{number}");
        let script = format!(
            "echo ready; read -r go; ip link set lo up; ip addr add 10.77.{number}.2/24 dev out; ip link set out up; exec \"$@\" <&-"
        );
        let mut command = fleet.command(&home);
        let tapline = command.get_program().to_owned();
        let mut alone = Command::new("unshare");
        alone.env_clear().envs(command.get_envs().filter_map(|(name, value)| Some((name, value?)))).current_dir(&fleet.folder);
        command = alone;
        command.args(["-n", "sh", "-c", &script, "sh"]).arg(tapline).args(["worker", "--jobs", "2", "--bin"]);
        command.arg(by_prompt());
        command.args(["--engine", &format!("nats://10.77.{number}.1:{}", fleet.broker.port())]);
        let log = std::fs::File::create(fleet.path(&format!("{home}.log"))).unwrap();
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log).spawn().unwrap();
        let mut ready = [0; 6];
        child.stdout.as_mut().unwrap().read_exact(&mut ready).unwrap_or_else(|error| panic!("no network can be made: {error}"));
        let link = format!("tl{}-{number}", std::process::id() % 100_000);
        ip(&["link", "add", &link, "type", "veth", "peer", "name", "out", "netns", &child.id().to_string()]);
        ip(&["addr", "add", &format!("10.77.{number}.1/24"), "dev", &link]);
        ip(&["link", "set", &link, "up"]);
        child.stdin.take().unwrap().write_all(b"go\n").unwrap();
        Self { worker: child.into(), link }
    }

    fn set(&self, state: &str) {
        ip(&["link", "set", &self.link, state]);
    }
}

fn ip(args: &[&str]) {
    let output = Command::new("ip").args(args).output().unwrap();
    assert!(output.status.success(), "ip {args:?}: {}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn the_network_is_cut_for_thirty_seconds() {
    let fleet = Fleet::new();
    let go = fleet.path("go");
    fleet.jobs(&format!("wait NAME {}", go.display()), 8);
    let remotes = [Remote::start(&fleet, 0), Remote::start(&fleet, 1)];
    let mut batch = fleet.start_batch(&["jobs.csv", "--jobs", "8"]);
    let began = |fleet: &Fleet| (1..=8).filter(|n| !fleet.traces(&format!("j{n}")).is_empty()).count();
    fleet.wait_until("both workers are busy", || began(&fleet) == 4);
    remotes[0].set("down");
    // Its runs end while nobody hears of it.
    std::fs::write(&go, "").unwrap();
    // The network is away for so long: this is what is tested, and no clock of a test can be set for four programs.
    std::thread::sleep(Duration::from_secs(30));
    remotes[0].set("up");
    fleet.wait_until("the batch ends", || batch.has_ended());
    let results = fleet.check(8);
    fleet.wait_until("nothing is left to send", || {
        (0..2).all(|number| {
            std::fs::read_dir(fleet.path(&format!("worker-{number}/fleet/outbox"))).map_or(0, Iterator::count) == 0
        })
    });
    fleet.check_collected(&results);
    for mut remote in remotes {
        assert!(!remote.worker.has_ended(), "a worker survives it");
    }
}
