//! Source 003's table of five runs and their trimmed mean, ours beside it.

use threadgauge_results::Table;

use crate::create::cells::{PRIMARY, Pick, base, digits, figure, ratio, ratio_between, time, time_between};
use crate::create::published::Published;
use crate::create::way::Way;
use threadgauge_lab::view::View;

/// The ways that stand beside the source's two.
const OURS: [Way; 3] = [Way::ForkSigchld, Way::Fork, Way::Pthread];

/// Runs, trimmed mean, and what a unit takes.
pub fn source_003(view: &View<'_>) -> Table {
    let published = Published::source_003();
    let rounds = OURS.map(|way| {
        view.by_round(&[base(way).cell(PRIMARY)], |v| v[0])
            .unwrap_or_default()
    });
    let mut rows = Vec::new();
    for run in 0..published.process_runs_s.len().max(published.thread_runs_s.len()) {
        let mut row = vec![format!("run {}", run + 1)];
        row.extend([&published.process_runs_s, &published.thread_runs_s].map(|runs| seconds(runs.get(run))));
        let java = published.java_s.filter(|_| run == 0);
        row.push(seconds(java.as_ref()));
        row.extend(
            rounds
                .iter()
                .map(|ns| ns.get(run).map_or_else(String::new, |ns| time(*ns))),
        );
        rows.push(row);
    }
    let of_all = |say: &dyn Fn(Pick) -> Option<String>| OURS.map(|way| say(base(way)).unwrap_or_default());
    let trimmed = |pick: Pick| Some(time(view.summary(&pick.cell(PRIMARY))?.trimmed_mean?));
    rows.push(row(
        "trimmed mean",
        [
            seconds(Some(&published.process_s)),
            seconds(Some(&published.thread_s)),
            String::new(),
        ],
        of_all(&trimmed),
    ));
    rows.push(row(
        "per unit",
        [
            time(published.process_s / published.units * 1e9),
            time(published.thread_s / published.units * 1e9),
            published
                .java_s
                .map_or_else(String::new, |s| time(s / published.units * 1e9)),
        ],
        of_all(&|pick| Some(time_between(figure(view, pick, PRIMARY)?))),
    ));
    rows.push(row(
        "against a thread",
        [
            digits(published.process_s / published.thread_s),
            "1".to_owned(),
            published
                .java_s
                .map_or_else(String::new, |s| digits(s / published.thread_s)),
        ],
        OURS.map(|way| match way {
            Way::Pthread => "1".to_owned(),
            way => ratio(view, base(way), base(Way::Pthread)).map_or_else(|_| String::new(), ratio_between),
        }),
    ));
    let count = base(Way::Pthread).planned(view).and_then(|p| p.int("count"));
    Table {
        id: "source-003".to_owned(),
        title: "Creating and ending 100,000 units (source 003), and one unit here".to_owned(),
        note: format!(
            "Source 003: a Xeon at 2 GHz with one core on, kernel 2.6.9, NPTL; whole runs. Here, on one CPU, time per unit, \
             {} in a run; the first five rounds, then all. The source states 0.18 ms for a process, which its own runs do \
             not give; its processes are reaped in a signal handler (fork-sigchld here), its threads joined one by one.",
            count.map_or_else(|| "not measured".to_owned(), |n| format!("{n} of a kind"))
        ),
        columns: [
            "",
            "processes (003), s",
            "threads (003), s",
            "Java threads (003), s",
        ]
        .into_iter()
        .map(str::to_owned)
        .chain(OURS.map(|way| format!("{} here", way.name())))
        .collect(),
        rows,
    }
}

fn row(head: &str, theirs: [String; 3], ours: [String; 3]) -> Vec<String> {
    std::iter::once(head.to_owned())
        .chain(theirs)
        .chain(ours)
        .collect()
}

fn seconds(value: Option<&f64>) -> String {
    value.map_or_else(String::new, |s| format!("{s:.3}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::create::cells::by_hand::{measured, view};
    use crate::create::way::Case;

    #[test]
    fn the_table_is_whole_with_and_without_ours() {
        let fork = measured(
            &Case::base(Way::Fork, 200),
            1,
            &[(PRIMARY, &[100_000.0, 110_000.0, 120_000.0])],
        );
        let thread = measured(&Case::base(Way::Pthread, 200), 1, &[(PRIMARY, &[20_000.0; 3])]);
        for view in [view(Vec::new()), view(vec![fork, thread])] {
            let table = source_003(&view);
            assert_eq!(table.rows.len(), 8);
            assert!(table.rows.iter().all(|row| row.len() == table.columns.len()));
            assert_eq!(table.rows[0][1..4], ["8.774", "0.663", "12.286"]);
            assert_eq!(table.rows[5][..3], ["trimmed mean", "8.684", "0.661"]);
            assert_eq!(table.rows[6][1..4], ["86.8 µs", "6.61 µs", "123 µs"]);
            assert_eq!(table.rows[7][1..4], ["13.1", "1", "18.6"]);
        }
    }

    #[test]
    fn our_rounds_stand_in_the_rows_of_the_runs() {
        let fork = measured(
            &Case::base(Way::Fork, 200),
            1,
            &[(PRIMARY, &[100_000.0, 110_000.0, 150_000.0])],
        );
        let table = source_003(&view(vec![fork]));
        let ours: Vec<&str> = table.rows.iter().map(|row| row[5].as_str()).collect();
        assert_eq!(
            ours,
            ["100 µs", "110 µs", "150 µs", "", "", "110 µs", "110 µs", ""]
        );
    }
}
