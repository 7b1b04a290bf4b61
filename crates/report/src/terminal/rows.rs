//! A table whose cells are words: in columns where they fit, else row by row.

use threadgauge_results::Table;

use super::text::{Ink, Style, clean, paint, wrap};

/// Before a row, which stands below an answer.
const INDENT: &str = "    ";
/// Between two columns.
const GAP: &str = "  ";

/// The rows of a table as lines, indented, without its title. Nothing of a table without rows.
pub(super) fn lines(table: &Table, style: &Style) -> Vec<String> {
    if table.rows.is_empty() {
        return Vec::new();
    }
    let cell = |row: &[String], i: usize| row.get(i).map_or_else(String::new, |text| clean(text));
    let width = |i: usize| {
        let all = std::iter::once(&table.columns).chain(&table.rows);
        let widths = all.map(|row| cell(row, i).chars().count());
        widths.max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..table.columns.len()).map(width).collect();
    let gaps = GAP.len() * widths.len().saturating_sub(1);
    let whole = INDENT.len() + gaps + widths.iter().sum::<usize>();
    if whole > style.width {
        return table
            .rows
            .iter()
            .flat_map(|row| in_words(table, row, style))
            .collect();
    }
    let line = |row: &[String]| {
        let cells = widths.iter().enumerate().map(|(i, width)| {
            let text = cell(row, i);
            let pad = " ".repeat(width - text.chars().count());
            format!("{text}{pad}")
        });
        let cells: Vec<String> = cells.collect();
        format!("{INDENT}{}", cells.join(GAP).trim_end())
    };
    let head = paint(style, Ink::Faint, &line(&table.columns));
    std::iter::once(head)
        .chain(table.rows.iter().map(|row| line(row)))
        .collect()
}

/// A row by its first cell and, below that, the others, each behind its head. Empty ones are left out.
fn in_words(table: &Table, row: &[String], style: &Style) -> Vec<String> {
    let mut cells = table.columns.iter().zip(row);
    let name = cells.next().map_or("", |(_, name)| name.as_str());
    let others = cells.filter(|(_, text)| !text.is_empty());
    let others: Vec<String> = others.map(|(head, text)| format!("{head} {text}")).collect();
    let mut lines = wrap(name, style.width, INDENT);
    if !others.is_empty() {
        lines.extend(wrap(&others.join(" · "), style.width, &format!("{INDENT}  ")));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let texts = |texts: [&str; 3]| texts.map(str::to_owned).to_vec();
        Table {
            id: "loads".to_owned(),
            title: "Loads".to_owned(),
            note: String::new(),
            columns: texts(["load", "median", "valid"]),
            rows: vec![
                texts(["rate 100", "81 µs", "yes"]),
                texts(["rate 2000", "", "no: it is slow"]),
            ],
        }
    }

    #[test]
    fn cells_stand_in_columns_where_they_fit() {
        let style = Style::default();
        let columns = [
            "    load       median  valid",
            "    rate 100   81 µs   yes",
            "    rate 2000          no: it is slow",
        ];
        assert_eq!(lines(&table(), &style), columns);
        let of_width = |width| Style {
            width,
            ..Style::default()
        };
        assert_eq!(lines(&table(), &of_width(37)), columns, "as wide as the longest");
        assert_ne!(lines(&table(), &of_width(36)), columns);
        let empty = Table {
            rows: Vec::new(),
            ..table()
        };
        assert_eq!(lines(&empty, &style), [] as [&str; 0]);
    }

    #[test]
    fn where_they_do_not_each_row_is_its_name_and_what_is_known_of_it() {
        let style = Style {
            width: 32,
            ..Style::default()
        };
        assert_eq!(
            lines(&table(), &style),
            [
                "    rate 100",
                "      median 81 µs · valid yes",
                "    rate 2000",
                "      valid no: it is slow",
            ]
        );
    }
}
