//! Text as agents and their tools write it, made from a seed: code, logs, tables, prose, with the quotes,
//! backslashes, control characters and non-ASCII letters that make JSON strings slow to read.

/// Numbers from a seed, the same everywhere (`SplitMix64`).
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// From `low` up to, but not including, `high`.
    pub fn between(&mut self, low: usize, high: usize) -> usize {
        low + (self.next() % (high - low) as u64) as usize
    }

    /// Between `low` and `high`, each order of magnitude as likely as the next.
    pub fn spread(&mut self, low: usize, high: usize) -> usize {
        let unit = (self.next() >> 11) as f64 / (1u64 << 53) as f64;
        (low as f64 * (high as f64 / low as f64).powf(unit)) as usize
    }

    pub fn one_of<'a>(&mut self, choices: &[&'a str]) -> &'a str {
        choices[self.between(0, choices.len())]
    }
}

/// A long text, already escaped for JSON, from which pieces are cut: the corpora grow at memory speed.
pub struct Pool {
    escaped: Vec<u8>,
    /// Where a piece may begin and end.
    breaks: Vec<usize>,
}

impl Pool {
    /// Lines of code and of what tools print.
    pub fn code(random: &mut Random, size: usize) -> Self {
        Self::grow(size, || {
            let line = random.one_of(CODE).to_owned();
            fill(&line, random) + "\n"
        })
    }

    /// Words of prose, each with the blank before it.
    pub fn prose(random: &mut Random, size: usize) -> Self {
        Self::grow(size, || random.one_of(WORDS).to_owned())
    }

    fn grow(size: usize, mut next: impl FnMut() -> String) -> Self {
        let (mut escaped, mut breaks) = (Vec::with_capacity(size + 256), vec![0]);
        while escaped.len() < size {
            escaped.extend_from_slice(escape(&next()).as_bytes());
            breaks.push(escaped.len());
        }
        Self { escaped, breaks }
    }

    /// About `size` bytes, whole lines or words, at least one.
    pub fn piece(&self, random: &mut Random, size: usize) -> &[u8] {
        let last_start = self.breaks.partition_point(|&at| at + size < self.escaped.len()).max(1);
        let start = self.breaks[random.between(0, last_start)];
        let end = self.breaks.partition_point(|&at| at < start + size.max(1)).min(self.breaks.len() - 1);
        &self.escaped[start..self.breaks[end]]
    }

    /// `count` words or lines in a row, one by one.
    pub fn units(&self, random: &mut Random, count: usize) -> impl Iterator<Item = &[u8]> {
        let start = random.between(0, self.breaks.len() - count - 1);
        self.breaks[start..=start + count].windows(2).map(|ends| &self.escaped[ends[0]..ends[1]])
    }
}

/// A string as it stands between the quotes of a JSON text.
pub fn escape(text: &str) -> String {
    let quoted = serde_json::to_string(text).expect("a string is JSON");
    quoted[1..quoted.len() - 1].to_owned()
}

/// Puts names for `§` and numbers for `#`.
pub fn fill(template: &str, random: &mut Random) -> String {
    let mut line = String::new();
    for letter in template.chars() {
        match letter {
            '§' => line.push_str(random.one_of(NAMES)),
            '#' => line.push_str(&random.between(0, 4000).to_string()),
            other => line.push(other),
        }
    }
    line
}

const NAMES: &[&str] = &[
    "session",
    "parser",
    "buffer",
    "index",
    "request_id",
    "config",
    "handler",
    "tokens",
    "stream",
    "line_count",
    "retry",
    "user",
    "payload",
    "cursor",
    "registry",
    "timeout",
    "worker",
    "chunk",
    "schema",
    "renderer",
    "größe",
    "café",
    "path",
    "offset",
];

const CODE: &[&str] = &[
    "",
    "",
    "}",
    "    }",
    "        }",
    "    });",
    "use std::collections::{BTreeMap, HashMap, HashSet};",
    "pub fn §(&mut self, §: &str, §: usize) -> Result<Option<§>, Error> {",
    "    let § = self.§.iter().filter(|§| §.len() > #).collect::<Vec<_>>();",
    "    let mut § = HashMap::<String, Vec<u8>>::with_capacity(#);",
    "        .with_context(|| format!(\"cannot read {}: line {}\", §.display(), #))?;",
    "    assert_eq!(§.get(\"§\"), Some(&\"§\\n\".to_string()));",
    "    match §.kind() {",
    "        Kind::§ => return Err(Error::new(\"unexpected § in §\")),",
    "        b'\"' | b'\\\\' => self.§ += 1,",
    "    // The § is kept until the § ends: see issue #.",
    "    /// Returns the § of this §, or `None` when there is no §.",
    "def §(self, §: str, *, §: int = #) -> dict[str, list[int]]:",
    "    \"\"\"Return the § for the given §, raising KeyError if it's missing.\"\"\"",
    "    return {\"§\": §, \"§\": [int(x) for x in §.split(\",\")], 'raw': f\"{§!r}\\t{§:>#}\"}",
    "    if not re.match(r\"^[a-z_]\\w+\\s*=\\s*\\\"(.*?)\\\"$\", §):",
    "        raise ValueError(f\"bad §: {§}\")",
    "\tif err := §.§(ctx, \"§\", §); err != nil {",
    "\t\treturn nil, fmt.Errorf(\"§ %q: %w\", §, err)",
    "\t}",
    "\t\t\tlog.Printf(\"§=%d §=%s\\n\", §, §)",
    "export const § = async ({ §, § }: Props): Promise<§[]> => {",
    "  const § = await fetch(`/api/v1/§/${§}?limit=#`, { headers: { 'Content-Type': 'application/json' } });",
    "  return §.map((§) => ({ ...§, label: \"§\", count: # }));",
    "    <div className=\"§-§\" onClick={() => set§(\"§\")}>{§ ?? \"—\"}</div>",
    "{\"level\":\"info\",\"ts\":1763170000.#,\"msg\":\"§ done\",\"§\":\"C:\\\\Users\\\\dev\\\\§\",\"took\":#}",
    "2026-11-15T02:#:11.#Z  INFO §::§: finished § in # ms §=# §=\"§\"",
    "-rw-r--r--  1 dev  dev  # Nov 15 00:45 §.rs",
    "drwxr-xr-x 12 dev  dev  4096 Nov 15 00:45 §",
    "src/§/§.rs:#:#: warning: unused variable: `§`",
    "\u{1b}[1m\u{1b}[32m   Compiling\u{1b}[0m § v0.#.# (/home/dev/project/crates/§)",
    "\u{1b}[31merror[E0#]\u{1b}[0m: cannot find value `§` in this scope",
    "test §::§::handles_# ... ok",
    "  ✓ § › returns § when § is empty (# ms)",
    "  │ §        │ #     │ #      │ \"§\" │",
    "  └──────────┴────────┴────────┴──────────────┘",
    "+    let § = §::new(#).expect(\"§\");",
    "-    let § = §::default();",
    "@@ -#,8 +#,9 @@ impl § for § {",
    "// 設定を読み込み、§ を返します。見つからない場合は None。",
    "-- Größe der § prüfen – wird später für „§“ gebraucht",
    "commit 9f3a7c1e5b2d#: fix(§): don't drop the last § — naïve split on \"\\r\\n\" 🎉",
    "SELECT § FROM § WHERE § = '§' AND created_at > now() - interval '# days' ORDER BY § DESC LIMIT #;",
    "                                        ^^^^^^^^^^^^^^^^^^^^^ expected `&str`, found `String`",
    "https://docs.example.com/§/§?§=#&page=#",
];

const WORDS: &[&str] = &[
    " the",
    " the",
    " a",
    " to",
    " of",
    " and",
    " in",
    " is",
    " I",
    " I'll",
    " now",
    " file",
    " test",
    " function",
    " should",
    " which",
    " `main.rs`",
    " error",
    " returns",
    " because",
    " **important**",
    " let",
    " me",
    " check",
    " that",
    " this",
    " fails",
    ".",
    ",",
    ":",
    " \"quoted\"",
    "\n\n",
    "\n- ",
    " —",
    " naïve",
    " 日本語",
    " ✓",
    " implementation",
    " `src/lib.rs`",
    " run",
    " with",
    " for",
    " it",
    " be",
    " changes",
    " update",
    " dependency",
    " version",
    " first",
    " then",
    " parser",
    "ing",
    "s",
    "ed",
    " configuration",
    " 3",
    " 42",
];
