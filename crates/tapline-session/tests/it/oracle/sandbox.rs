//! A bash that can do no harm, to see what commands really run: a root of its own in memory, with bash, what runs other programs, and stubs
//! that note how they were called. No network, no file of the host, no other process.

use std::io::{BufReader, Read, Write};
use std::process::{Child, Command, ExitStatus, Stdio};

use tapline_testkit::TempFolder;

/// A program that ran: where, and with what words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ran {
    pub(crate) folder: String,
    pub(crate) words: Vec<String>,
}

/// Real programs in it.
const REAL: &str = "bash env timeout nice nohup setsid stdbuf xargs find cat rev base64 tr sed mkfifo";
/// Stubs.
pub(crate) const STUBS: &str = "rm ls git cargo touch grep make";

/// Builds the root, in a mount namespace of its own, and stays in it. $1 is an empty folder to mount it on.
const SETUP: &str = r#"
set -eu
PATH=$PATH:/usr/sbin:/sbin
root=$1
chroot=$(command -v chroot)
mount -t tmpfs -o size=64m,mode=755 tmpfs "$root"
mkdir -p "$root/bin" "$root/lib" "$root/usr" "$root/dev" "$root/home" "$root/tmp" "$root/log"
ln -s ../bin "$root/usr/bin"
: >"$root/dev/null"
mount --bind /dev/null "$root/dev/null"
ln -s /proc/self/fd "$root/dev/fd"
ln -s /proc/self/fd/0 "$root/dev/stdin"
mkdir "$root/proc"
mount -t proc proc "$root/proc"
# What is allowed must hold in dash, too: there it is `sh`.
sh=$(command -v dash) || sh=$(command -v sh)
cp -L "$sh" "$root/bin/sh"
for name in $REAL; do
  file=$(command -v "$name") || { echo "the sandbox needs $name" >&2; exit 1; }
  cp -L "$file" "$root/bin/$name"
done
for file in "$root"/bin/*; do
  ldd "$file" 2>/dev/null | sed -n 's/.*[[:space:]]\(\/[^ ]*\) (0x.*/\1/p'
done | sort -u | while read -r library; do
  mkdir -p "$root$(dirname "$library")"
  cp -L "$library" "$root$library"
done
for library in /usr/lib*/coreutils/libstdbuf.so /usr/lib/*/coreutils/libstdbuf.so; do
  [ ! -e "$library" ] || { mkdir -p "$root$(dirname "$library")"; cp "$library" "$root$library"; }
done
stub() { # FILE
  printf '#!/bin/sh\nIFS=\037\nprintf "\\036%%s\\037%%s\\037%%s" "$PWD" "$0" "$*" >>/log/ran\n' >"$1"
  chmod 755 "$1"
}
mkdir -p "$root/project/sub"
for name in $STUBS; do stub "$root/bin/$name"; done
stub "$root/project/test.sh"
# What an agent may have put there: a program that is found with PATH=., and files whose names are evaluated.
stub "$root/project/git"
stub "$root/project/ls"
: >"$root/project/-v"
: >"$root/project/a[\$(rm x)]"
chmod 555 "$root/project/git" "$root/project/ls"
stub "$root/project/sub/test.sh"
: >"$root/log/ran"
mkfifo "$root/log/clock"
chmod 1777 "$root/project" "$root/tmp"
chmod 777 "$root/log"
chmod 666 "$root/log/ran" "$root/log/clock"
printf '%s' "$DRIVER" >"$root/driver"
chmod 755 "$root/driver"
# Root of the machine becomes nobody; root of a user namespace is nobody already. This shell stays: it is the first process in there, and
# takes leave of what others leave behind.
nobody=
[ "$NOBODY" = 0 ] || nobody=--userspec=$NOBODY:65534
status=0
env -i PATH=/bin HOME=/project LC_ALL=C "$chroot" $nobody "$root" /bin/bash /driver || status=$?
exit $status
"#;

/// Runs what comes, one at a time, and tells what each has run. All processes in there but the first are its own: it waits for them, and ends
/// them if they take too long. A subshell now and then has bash notice that a child is gone. A command that starts more and more processes
/// reaches its limit before the driver, which needs some to end it.
const DRIVER: &str = r#"
ulimit -c 0 -f 2048 -v 4000000
limit=true
[ "$UID" = 0 ] || { ulimit -u 512; limit='ulimit -u 256'; }
exec 8<>/log/clock
while IFS= read -r -d '' command; do
  : >/log/ran
  cd /project
  { ulimit -t 5; $limit; exec /bin/bash -c "$command"; } </dev/null >/dev/null 2>&1 8<&- &
  polls=0
  while kill -0 -1 2>/dev/null; do
    read -r -t 0.001 -u 8
    polls=$((polls + 1))
    [ $((polls % 20)) -ne 0 ] || (:)
    [ $polls -lt 1500 ] || kill -KILL -1 2>/dev/null
  done
  wait 2>/dev/null
  printf '%s\035' "$(</log/ran)"
done 2>/dev/null
"#;

struct Sandbox {
    child: Child,
    // The root is mounted on it, in a namespace that is gone before the folder is.
    _folder: TempFolder,
}

impl Sandbox {
    fn new() -> std::io::Result<Self> {
        static COUNT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let count = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let folder = TempFolder::new();
        let root = std::fs::metadata("/proc/self").is_ok_and(|me| std::os::unix::fs::MetadataExt::uid(&me) == 0);
        let spaces: &[&str] = &["--mount", "--pid", "--net", "--ipc", "--fork", "--kill-child"];
        // Nobody else has this number, nor another sandbox: a limit of processes counts all of a user's.
        let nobody = 0x4000_0000 + std::process::id() * 16 + count % 16;
        let user: &[&str] = if root { &[] } else { &["--user", "--map-root-user"] };
        let child = Command::new("unshare")
            .args(spaces)
            .args(user)
            .args(["sh", "-c", SETUP, "sandbox"])
            .arg(&*folder)
            .env("REAL", REAL)
            .env("STUBS", STUBS)
            .env("DRIVER", DRIVER)
            .env("NOBODY", if root { nobody.to_string() } else { "0".to_owned() })
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        match child {
            Ok(child) => Ok(Self { child, _folder: folder }),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => Err(error),
            Err(error) => panic!("the oracle needs unshare (util-linux): {error}"),
        }
    }

    /// What each of these commands runs, in order; how many were run, and how the sandbox ended.
    fn run_some(mut self, commands: &[&str], ran: &mut impl FnMut(Vec<Ran>)) -> (usize, ExitStatus) {
        let mut to = self.child.stdin.take().expect("one use");
        let from = BufReader::with_capacity(1 << 16, self.child.stdout.take().expect("one use"));
        let told = std::thread::scope(|scope| {
            scope.spawn(move || {
                // One that has ended reads no more.
                commands.iter().try_for_each(|command| to.write_all(command.as_bytes()).and_then(|()| to.write_all(&[0])))
            });
            let (mut told, mut answer) = (0, Vec::new());
            for byte in from.bytes() {
                match byte.expect("the sandbox tells") {
                    0x1d => {
                        ran(read(&String::from_utf8_lossy(&answer)));
                        answer.clear();
                        told += 1;
                    }
                    byte => answer.push(byte),
                }
            }
            told
        });
        (told, self.child.wait().expect("the sandbox ends"))
    }
}

/// What each of these commands runs, in order. Where no number is left for a process on the whole machine, a sandbox cannot start, or ends
/// early: another goes on from there.
pub(crate) fn run_each(commands: &[&str], mut ran: impl FnMut(Vec<Ran>)) {
    let (mut told, mut in_vain) = (0, 0);
    while told < commands.len() {
        let ended = Sandbox::new().map(|sandbox| sandbox.run_some(&commands[told..], &mut ran));
        let more = ended.as_ref().map_or(0, |(more, _)| *more);
        told += more;
        in_vain = if more == 0 { in_vain + 1 } else { 0 };
        assert!(in_vain < 60, "the sandbox does not run {:?}: {ended:?}", commands[told]);
        if in_vain > 0 {
            std::thread::sleep(std::time::Duration::from_secs(1));
        }
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn read(answer: &str) -> Vec<Ran> {
    let records = answer.split('\u{1e}').filter(|record| !record.is_empty());
    let ran = records.map(|record| {
        let mut fields = record.split('\u{1f}').map(str::to_owned);
        let folder = fields.next().unwrap_or_default();
        let mut words: Vec<_> = fields.collect();
        // A stub that got no words tells an empty one.
        if words.len() == 2 && words[1].is_empty() {
            words.pop();
        }
        Ran { folder, words }
    });
    ran.collect()
}
