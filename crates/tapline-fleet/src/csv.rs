//! Rows of a CSV file (RFC 4180): the first row names the columns. Quoted fields may hold commas, quotes and line ends.

/// A row, and the line that it begins in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) number: usize,
    pub(crate) fields: Vec<String>,
}

/// Splits a text into rows. Empty lines are skipped. An error names its line.
pub(crate) fn lines(text: &str) -> Result<Vec<Line>, (usize, String)> {
    let mut lines = Vec::new();
    let mut rest = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut number = 1;
    while !rest.is_empty() {
        let begun = number;
        let (mut fields, mut blank) = (Vec::new(), true);
        loop {
            let (field, quoted, after) = field(rest).map_err(|why| (begun, why))?;
            number += rest[..rest.len() - after.len()].matches('\n').count();
            blank &= field.is_empty() && !quoted;
            fields.push(field);
            rest = after;
            if let Some(more) = rest.strip_prefix(',') {
                rest = more;
                continue;
            }
            rest = rest.strip_prefix('\r').filter(|rest| rest.is_empty() || rest.starts_with('\n')).unwrap_or(rest);
            if let Some(more) = rest.strip_prefix('\n') {
                rest = more;
                number += 1;
            }
            break;
        }
        if !(blank && fields.len() == 1) {
            lines.push(Line { number: begun, fields });
        }
    }
    Ok(lines)
}

/// The next field, whether it is quoted, and what comes after it.
fn field(text: &str) -> Result<(String, bool, &str), String> {
    let Some(mut rest) = text.strip_prefix('"') else {
        let end = text.find([',', '\n']).unwrap_or(text.len());
        let field = &text[..end];
        let field = if text[end..].starts_with(',') { field } else { field.strip_suffix('\r').unwrap_or(field) };
        if field.contains('"') {
            return Err(format!("a quote stands inside `{field}`: write the field in quotes, and each quote in it twice"));
        }
        return Ok((field.to_owned(), false, &text[field.len()..]));
    };
    let mut field = String::new();
    loop {
        let end = rest.find('"').ok_or("a quoted field does not end")?;
        field.push_str(&rest[..end]);
        rest = &rest[end + 1..];
        match rest.strip_prefix('"') {
            Some(more) => {
                field.push('"');
                rest = more;
            }
            None if rest.is_empty() || rest.starts_with([',', '\n']) || rest.starts_with("\r\n") || rest == "\r" => {
                return Ok((field, true, rest));
            }
            None => return Err("something stands between the end of a quoted field and the next comma".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<(usize, Vec<String>)> {
        lines(text).unwrap_or_else(|why| panic!("{why:?}")).into_iter().map(|line| (line.number, line.fields)).collect()
    }

    #[test]
    fn rows_have_their_fields_and_lines() {
        let rows = read("\u{feff}repo,text\r\na,\"x, \"\"y\"\"\nz\"\n\nb,\nc,d");
        let fields = |fields: [&str; 2]| fields.map(str::to_owned).to_vec();
        let expected = [(1, ["repo", "text"]), (2, ["a", "x, \"y\"\nz"]), (5, ["b", ""]), (6, ["c", "d"])]
            .map(|(at, row)| (at, fields(row)));
        assert_eq!(rows, expected);
        assert!(read("").is_empty());
        assert_eq!(read("\"\"\n").len(), 1, "an empty field that is written down is a row");
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        assert_eq!(lines("a\n\"b").map_err(|(line, _)| line), Err(2));
        assert_eq!(lines("a\n\"b\"c").map_err(|(line, _)| line), Err(2));
        assert_eq!(lines("a\nb\nc\"d").map_err(|(line, _)| line), Err(3));
    }

    proptest::proptest! {
        #[test]
        fn what_is_written_is_read_back(rows in proptest::collection::vec(proptest::collection::vec("[a\",\r\n é]{0,6}", 2..4), 1..5)) {
            let quoted = |field: &String| format!("\"{}\"", field.replace('"', "\"\""));
            let text: String = rows.iter().map(|row| row.iter().map(quoted).collect::<Vec<_>>().join(",") + "\r\n").collect();
            let read: Vec<_> = lines(&text).unwrap_or_default().into_iter().map(|line| line.fields).collect();
            proptest::prop_assert_eq!(read, rows);
        }
    }
}
