//! A bash that can do no harm, to see what commands really run: a root of its own in memory, with bash, what runs other programs, and stubs
//! that note how they were called. No network, no file of the host, no other process.

use std::io::{BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// A program that ran: where, and with what words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ran {
    pub(crate) folder: String,
    pub(crate) words: Vec<String>,
}

/// Real programs in it.
const REAL: &str = "bash env timeout nice nohup setsid stdbuf xargs find cat rev base64 tr sed";
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
[ "$NOBODY" = 0 ] || nobody=--userspec=65534:65534
status=0
env -i PATH=/bin HOME=/project LC_ALL=C "$chroot" $nobody "$root" /bin/bash /driver || status=$?
exit $status
"#;

/// Runs what comes, one at a time, and tells what each has run. All processes in there but the first are its own: it waits for them, and ends
/// them if they take too long. A subshell now and then has bash notice that a child is gone.
const DRIVER: &str = r#"
ulimit -c 0 -f 2048 -v 4000000
[ "$UID" = 0 ] || ulimit -u 256
exec 8<>/log/clock
while IFS= read -r -d '' command; do
  : >/log/ran
  cd /project
  { ulimit -t 5; exec /bin/bash -c "$command"; } </dev/null >/dev/null 2>&1 8<&- &
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

pub(crate) struct Sandbox {
    child: Child,
    folder: PathBuf,
}

impl Sandbox {
    pub(crate) fn new() -> Self {
        static COUNT: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
        let count = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("tapline-oracle-{}-{count}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let root = std::fs::metadata("/proc/self").is_ok_and(|me| std::os::unix::fs::MetadataExt::uid(&me) == 0);
        let spaces: &[&str] = &["--mount", "--pid", "--net", "--ipc", "--fork", "--kill-child"];
        let user: &[&str] = if root { &[] } else { &["--user", "--map-root-user"] };
        let child = Command::new("unshare")
            .args(spaces)
            .args(user)
            .args(["sh", "-c", SETUP, "sandbox"])
            .arg(&folder)
            .env("REAL", REAL)
            .env("STUBS", STUBS)
            .env("DRIVER", DRIVER)
            .env("NOBODY", if root { "1" } else { "0" })
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        Self { child: child.expect("the oracle needs unshare (util-linux)"), folder }
    }

    /// What each of these commands runs.
    pub(crate) fn run<'a>(&mut self, commands: impl Iterator<Item = &'a str> + Send, mut ran: impl FnMut(Vec<Ran>)) {
        let mut to = self.child.stdin.take().expect("one use");
        let from = BufReader::with_capacity(1 << 16, self.child.stdout.take().expect("one use"));
        let (count, told) = std::thread::scope(|scope| {
            let writing = scope.spawn(move || {
                let mut count = 0;
                for command in commands {
                    if to.write_all(command.as_bytes()).and_then(|()| to.write_all(&[0])).is_err() {
                        break;
                    }
                    count += 1;
                }
                count
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
            (writing.join().expect("the commands were written"), told)
        });
        let status = self.child.wait().expect("the sandbox ends");
        assert!(status.success() && count == told, "the sandbox ran {told} of {count} commands and ended with {status}");
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
        // The root was mounted in a namespace that is gone: what is here is the empty folder.
        drop(std::fs::remove_dir(&self.folder));
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
