//! Rows with columns that stand below each other.

/// A line for the head and each row; every column as wide as its widest cell.
pub fn aligned(head: &[&str], rows: Vec<Vec<String>>) -> Vec<String> {
    let head: Vec<String> = head.iter().map(|cell| (*cell).to_owned()).collect();
    let all: Vec<Vec<String>> = std::iter::once(head).chain(rows).collect();
    let columns = all.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        let cells = all.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(widths.iter().copied());
        let cells = cells.map(|(cell, width)| format!("{cell:<width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    all.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_stand_below_each_other() {
        let rows = [["main", "1"], ["worker-*", "12"]].map(|row| row.map(str::to_owned).to_vec());
        let lines = aligned(&["name", "n"], rows.to_vec());
        assert_eq!(lines, ["name      n", "main      1", "worker-*  12"]);
    }
}
