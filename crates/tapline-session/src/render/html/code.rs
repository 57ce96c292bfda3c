//! Code on a page, with its keywords, strings, comments and numbers in classes of their own. It is no parser: it reads
//! every character once, and what it does not know stays plain.

use std::fmt::Write as _;

use super::{cut, escape};

/// What is known of a language.
#[derive(Clone, Copy, Debug)]
pub(super) struct Language(&'static Table);

#[derive(Debug)]
struct Table {
    /// What a code block or a file's ending calls it.
    names: &'static [&'static str],
    /// What starts a comment up to the end of the line.
    line: &'static [&'static str],
    /// What starts and ends a comment of several lines.
    block: &'static [(&'static str, &'static str)],
    /// What starts and ends a string that may have several lines. A backslash escapes.
    long: &'static [&'static str],
    /// What starts and ends a string of one line.
    short: &'static [char],
    /// The keywords, sorted.
    words: &'static [&'static str],
    /// Whether keywords may be written in capitals.
    any_case: bool,
}

const NONE: Table = Table { names: &[], line: &[], block: &[], long: &[], short: &['"'], words: &[], any_case: false };
const C_BLOCK: &[(&str, &str)] = &[("/*", "*/")];

const LANGUAGES: &[Table] = &[
    Table {
        names: &["rust", "rs"],
        line: &["//"],
        block: C_BLOCK,
        long: &["\""],
        short: &[],
        words: &[
            "Self", "as", "async", "await", "break", "const", "continue", "crate", "dyn", "else", "enum", "extern", "false",
            "fn", "for", "if", "impl", "in", "let", "loop", "match", "mod", "move", "mut", "pub", "ref", "return", "self",
            "static", "struct", "super", "trait", "true", "type", "unsafe", "use", "where", "while",
        ],
        ..NONE
    },
    Table {
        names: &["python", "py", "pyi", "python3"],
        line: &["#"],
        long: &["\"\"\"", "'''"],
        short: &['"', '\''],
        words: &[
            "False", "None", "True", "and", "as", "assert", "async", "await", "break", "case", "class", "continue", "def",
            "del", "elif", "else", "except", "finally", "for", "from", "global", "if", "import", "in", "is", "lambda", "match",
            "nonlocal", "not", "or", "pass", "raise", "return", "self", "try", "while", "with", "yield",
        ],
        ..NONE
    },
    Table {
        names: &["javascript", "js", "jsx", "mjs", "cjs", "typescript", "ts", "tsx"],
        line: &["//"],
        block: C_BLOCK,
        long: &["`"],
        short: &['"', '\''],
        words: &[
            "as",
            "async",
            "await",
            "break",
            "case",
            "catch",
            "class",
            "const",
            "continue",
            "default",
            "delete",
            "do",
            "else",
            "enum",
            "export",
            "extends",
            "false",
            "finally",
            "for",
            "from",
            "function",
            "if",
            "implements",
            "import",
            "in",
            "instanceof",
            "interface",
            "let",
            "new",
            "null",
            "of",
            "private",
            "public",
            "readonly",
            "return",
            "static",
            "super",
            "switch",
            "this",
            "throw",
            "true",
            "try",
            "type",
            "typeof",
            "undefined",
            "var",
            "void",
            "while",
            "yield",
        ],
        ..NONE
    },
    Table {
        names: &["go", "golang"],
        line: &["//"],
        block: C_BLOCK,
        long: &["`"],
        short: &['"', '\''],
        words: &[
            "break",
            "case",
            "chan",
            "const",
            "continue",
            "default",
            "defer",
            "else",
            "fallthrough",
            "false",
            "for",
            "func",
            "go",
            "goto",
            "if",
            "import",
            "interface",
            "map",
            "nil",
            "package",
            "range",
            "return",
            "select",
            "struct",
            "switch",
            "true",
            "type",
            "var",
        ],
        ..NONE
    },
    Table {
        names: &["java", "kotlin", "kt", "kts", "csharp", "cs", "c#", "swift", "scala"],
        line: &["//"],
        block: C_BLOCK,
        long: &["\"\"\""],
        short: &['"', '\''],
        words: &[
            "abstract",
            "async",
            "await",
            "boolean",
            "break",
            "case",
            "catch",
            "class",
            "const",
            "continue",
            "default",
            "do",
            "double",
            "else",
            "enum",
            "extends",
            "false",
            "final",
            "finally",
            "float",
            "for",
            "fun",
            "func",
            "if",
            "implements",
            "import",
            "in",
            "instanceof",
            "int",
            "interface",
            "internal",
            "is",
            "let",
            "long",
            "namespace",
            "new",
            "null",
            "object",
            "override",
            "package",
            "private",
            "protected",
            "public",
            "record",
            "return",
            "sealed",
            "static",
            "string",
            "struct",
            "super",
            "switch",
            "this",
            "throw",
            "throws",
            "true",
            "try",
            "using",
            "val",
            "var",
            "void",
            "when",
            "while",
        ],
        ..NONE
    },
    Table {
        names: &["c", "h", "cpp", "c++", "cc", "hpp", "cxx"],
        line: &["//"],
        block: C_BLOCK,
        short: &['"', '\''],
        words: &[
            "auto",
            "bool",
            "break",
            "case",
            "char",
            "class",
            "const",
            "constexpr",
            "continue",
            "default",
            "define",
            "delete",
            "do",
            "double",
            "else",
            "enum",
            "extern",
            "false",
            "float",
            "for",
            "goto",
            "if",
            "include",
            "inline",
            "int",
            "long",
            "namespace",
            "new",
            "nullptr",
            "private",
            "protected",
            "public",
            "return",
            "short",
            "signed",
            "sizeof",
            "static",
            "struct",
            "switch",
            "template",
            "this",
            "true",
            "typedef",
            "typename",
            "union",
            "unsigned",
            "using",
            "virtual",
            "void",
            "volatile",
            "while",
        ],
        ..NONE
    },
    Table {
        names: &["bash", "sh", "shell", "zsh", "console", "dockerfile", "make", "makefile"],
        line: &["#"],
        long: &["\"", "'"],
        short: &[],
        words: &[
            "case", "do", "done", "elif", "else", "esac", "exit", "export", "fi", "for", "function", "if", "in", "local",
            "return", "set", "then", "until", "while",
        ],
        ..NONE
    },
    Table {
        names: &["ruby", "rb"],
        line: &["#"],
        short: &['"', '\''],
        words: &[
            "and", "begin", "break", "case", "class", "def", "do", "else", "elsif", "end", "ensure", "false", "for", "if",
            "in", "module", "next", "nil", "not", "or", "raise", "require", "rescue", "return", "self", "super", "then",
            "true", "unless", "until", "when", "while", "yield",
        ],
        ..NONE
    },
    Table {
        names: &["sql"],
        line: &["--"],
        block: C_BLOCK,
        short: &['"', '\''],
        words: &[
            "and", "as", "asc", "between", "by", "case", "create", "delete", "desc", "distinct", "drop", "else", "end",
            "exists", "from", "group", "having", "in", "index", "inner", "insert", "into", "is", "join", "left", "like",
            "limit", "not", "null", "on", "or", "order", "primary", "select", "set", "table", "then", "union", "unique",
            "update", "values", "view", "when", "where", "with",
        ],
        any_case: true,
        ..NONE
    },
    Table { names: &["json", "jsonc", "json5", "jsonl"], line: &["//"], words: &["false", "null", "true"], ..NONE },
    Table {
        names: &["yaml", "yml", "toml", "ini"],
        line: &["#"],
        short: &['"', '\''],
        words: &["false", "no", "null", "true", "yes"],
        ..NONE
    },
    Table { names: &["html", "xml", "svg", "vue"], block: &[("<!--", "-->")], ..NONE },
    Table { names: &["css", "scss", "less"], block: C_BLOCK, short: &['"', '\''], ..NONE },
    Table { names: &["diff", "patch"], ..NONE },
];

impl Language {
    /// Returns the language with this name, as a code block or the ending of a file says it.
    pub(super) fn named(name: &str) -> Option<Self> {
        let is = |table: &&Table| table.names.iter().any(|known| known.eq_ignore_ascii_case(name));
        LANGUAGES.iter().find(is).map(Self)
    }

    /// Returns the language of a file.
    pub(super) fn of_file(path: &str) -> Option<Self> {
        let name = path.rsplit(['/', '\\']).next().unwrap_or(path);
        Self::named(name.rsplit('.').next().unwrap_or(name))
    }

    fn is_diff(self) -> bool {
        self.0.names.contains(&"diff")
    }
}

/// Writes code as a block.
pub(super) fn write_block(code: &str, language: Option<Language>, out: &mut String) {
    let (code, more) = cut(code.trim_end());
    out.push_str("<pre class=code>");
    match language {
        Some(language) if language.is_diff() => write_patch(code, out),
        Some(language) => write(code, language, out),
        None => escape(code, out),
    }
    if more > 0 {
        let _ = write!(out, "\n<span class=quiet>… {more} more bytes</span>");
    }
    out.push_str("</pre>\n");
}

/// Writes a patch, line by line.
pub(super) fn write_patch(patch: &str, out: &mut String) {
    for line in patch.lines() {
        let class = match line.as_bytes().first() {
            Some(b'+') if !line.starts_with("+++") => "add",
            Some(b'-') if !line.starts_with("---") => "del",
            Some(b'@') => "quiet",
            _ => "same",
        };
        out.push_str("<span class=");
        out.push_str(class);
        out.push('>');
        escape(line, out);
        out.push_str("\n</span>");
    }
}

/// Writes code with its parts marked.
pub(super) fn write(code: &str, language: Language, out: &mut String) {
    let mut plain = 0;
    let mut at = 0;
    while at < code.len() {
        let (length, class) = token(code, at, language.0);
        if let Some(class) = class {
            escape(&code[plain..at], out);
            out.push_str("<span class=");
            out.push_str(class);
            out.push('>');
            escape(&code[at..at + length], out);
            out.push_str("</span>");
            plain = at + length;
        }
        at += length;
    }
    escape(&code[plain..], out);
}

/// Returns the length of the part that begins here, and its class. It is at least one character.
fn token(code: &str, at: usize, table: &Table) -> (usize, Option<&'static str>) {
    let rest = &code[at..];
    let Some(first) = rest.chars().next() else { return (1, None) };
    if first.is_ascii_whitespace() {
        return (1, None);
    }
    // A `#` within a word starts no comment of a shell.
    let starts_word = code[..at].chars().next_back().is_none_or(|before| before.is_whitespace() || ";()".contains(before));
    if table.line.iter().any(|mark| rest.starts_with(mark) && (*mark != "#" || starts_word)) {
        return (rest.find('\n').unwrap_or(rest.len()), Some("com"));
    }
    if let Some((start, end)) = table.block.iter().find(|(start, _)| rest.starts_with(start)) {
        let length = rest[start.len()..].find(end).map_or(rest.len(), |length| start.len() + length + end.len());
        return (length, Some("com"));
    }
    if let Some(mark) = table.long.iter().find(|mark| rest.starts_with(**mark)) {
        return (string(rest, mark, false), Some("str"));
    }
    if table.short.contains(&first) {
        return (string(rest, first.encode_utf8(&mut [0; 4]), true), Some("str"));
    }
    if first.is_ascii_digit() {
        let length = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '.')).unwrap_or(rest.len());
        return (length, Some("num"));
    }
    if first.is_alphabetic() || first == '_' {
        let length = rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(rest.len());
        return (length, is_keyword(&rest[..length], table).then_some("kw"));
    }
    (first.len_utf8(), None)
}

fn is_keyword(word: &str, table: &Table) -> bool {
    if table.any_case {
        return word.len() < 16 && table.words.binary_search(&word.to_ascii_lowercase().as_str()).is_ok();
    }
    table.words.binary_search(&word).is_ok()
}

/// Returns the length of a string that begins here, with its marks.
fn string(rest: &str, mark: &str, one_line: bool) -> usize {
    let bytes = rest.as_bytes();
    let mut at = mark.len();
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 1,
            b'\n' if one_line => return at,
            _ if rest.as_bytes()[at..].starts_with(mark.as_bytes()) => return at + mark.len(),
            _ => {}
        }
        at += 1;
    }
    // A backslash may have been the last byte, or one before a longer character.
    rest.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(code: &str, name: &str) -> String {
        let mut out = String::new();
        write(code, Language::named(name).unwrap(), &mut out);
        out.replace("<span class=", "<").replace("</span>", "</>").replace("&quot;", "\"").replace("&#39;", "'")
    }

    #[test]
    fn keywords_are_sorted_for_the_search() {
        for table in LANGUAGES {
            assert!(table.words.is_sorted(), "{:?}", table.names);
        }
    }

    #[test]
    fn words_strings_comments_and_numbers() {
        assert_eq!(
            written("let a = \"x\\\"y\"; // c\nlet b = 1_0;", "rust"),
            "<kw>let</> a = <str>\"x\\\"y\"</>; <com>// c</>\n<kw>let</> b = <num>1_0</>;"
        );
        assert_eq!(
            written("def f(x='a'):\n  \"\"\"d\n\"\"\"\n  return x1 # y", "py"),
            "<kw>def</> f(x=<str>'a'</>):\n  <str>\"\"\"d\n\"\"\"</>\n  <kw>return</> x1 <com># y</>"
        );
        assert_eq!(written("SELECT a FROM b -- c", "sql"), "<kw>SELECT</> a <kw>FROM</> b <com>-- c</>");
        assert_eq!(written("echo a#b $((1)) # c", "sh"), "echo a#b $((<num>1</>)) <com># c</>");
        assert_eq!(written("{\"a\": true}", "json"), "{<str>\"a\"</>: <kw>true</>}");
        assert_eq!(written("fn f<'a>() { 'x' }", "rs"), "<kw>fn</> f&lt;'a&gt;() { 'x' }");
    }

    #[test]
    fn nothing_is_lost_and_unfinished_code_ends() {
        for code in ["\"", "'", "/*", "\"\"\"", "\"\\", "'ä\\ä", "`\n", "#", "日本 let", "\"a\nlet b", "<!--", "--"] {
            for name in ["rust", "py", "ts", "go", "java", "c", "sh", "rb", "sql", "json", "yaml", "html", "css"] {
                let mut out = String::new();
                write(code, Language::named(name).unwrap(), &mut out);
                let mut text = String::new();
                let mut inside = false;
                out.chars().for_each(|c| match c {
                    '<' => inside = true,
                    '>' => inside = false,
                    c if !inside => text.push(c),
                    _ => {}
                });
                let text = text.replace("&lt;", "<").replace("&quot;", "\"").replace("&#39;", "'");
                assert_eq!(text, code, "{name}");
            }
        }
    }

    #[test]
    fn files_by_their_ending() {
        assert!(Language::of_file("/a/b.rs").is_some() && Language::of_file("Makefile").is_some());
        assert!(Language::of_file("notes.txt").is_none() && Language::of_file("").is_none());
    }
}
