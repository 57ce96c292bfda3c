//! The table in the code and the table in docs/REDACT.md are one, and every row of it is held.

use tapline_recording::{REDACTED, Redactor, SHAPES};

/// A row as the document has it.
fn rows() -> Vec<String> {
    let row = |shape: &tapline_recording::Shape| {
        let starts: Vec<_> = shape.starts.iter().map(|start| format!("`{start}`")).collect();
        format!("| {} | {} | {} |", shape.name, starts.join(" "), shape.rest())
    };
    SHAPES.iter().map(row).collect()
}

#[test]
fn the_document_has_the_table_row_by_row() {
    let document = std::fs::read_to_string(tapline_testkit::root().join("docs/REDACT.md")).unwrap();
    let begin = document.find("| whose | begins with | then |").expect("the table is there");
    let table: Vec<_> = document[begin..].lines().skip(2).take_while(|line| line.starts_with('|')).collect();
    assert_eq!(table, rows(), "docs/REDACT.md should hold:\n{}", rows().join("\n"));
}

#[test]
fn each_row_hides_what_it_says_and_nothing_less() {
    let redactor = Redactor::default();
    for shape in SHAPES {
        for start in shape.starts {
            let key = shape.example(start, false);
            for (before, behind) in [("", ""), ("a ", " b"), ("\n", "\n"), ("k=\"", "\""), ("(", ")."), ("'", "',")] {
                let text = format!("{before}{key}{behind}");
                assert_eq!(redactor.text(&text), format!("{before}{REDACTED}{behind}"), "{}", shape.name);
            }
            let miss = format!("a {} b", shape.example(start, true));
            assert_eq!(redactor.text(&miss), miss, "{}: one character less is none", shape.name);
        }
    }
}
