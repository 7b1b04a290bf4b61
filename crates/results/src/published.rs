//! What the sources measured, as typed rows of the CSV files shipped inside the binary.
//!
//! Facts only: how they compare with this machine is for the experiments to say. Where a published
//! mean does not follow from its own runs, [`PublishedMean::agrees`] is false.

use std::borrow::Cow;
use std::fmt;
use std::sync::OnceLock;

use serde::Deserialize;
use serde::de::DeserializeOwned;

/// One cell of source 001: N threads that yield after each slice of work.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct ContextSwitch {
    /// `per_configuration`, or `averaged` for the second table.
    pub published_table: String,
    /// N.
    pub threads: u64,
    /// CPUs of the machine.
    pub cpus: u64,
    /// Operating system.
    pub os: String,
    /// Run time, ms.
    pub elapsed_ms: f64,
    /// Over the configuration's base, per cent.
    pub overhead_pct: Option<f64>,
    /// One CPU's time over two CPUs' time less 1, per cent; in the averaged table.
    pub gain_over_1_cpu_pct: Option<f64>,
}

/// One run of source 003's print experiment.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct PrintRun {
    /// `repeat_single_core`, `more_units`, `larger_payload` or `repeat_dual_core`.
    pub experiment: String,
    /// `process` or `thread`.
    pub kind: String,
    /// Units at once.
    pub units: u64,
    /// Lines each prints.
    pub prints_per_unit: u64,
    /// Characters of the string, without counter and newline.
    pub payload_bytes: u64,
    /// Cores switched on.
    pub cores: u64,
    /// Counted from 1.
    pub run: u32,
    /// Real time of the whole program, s.
    pub elapsed_s: f64,
}

/// One run of source 003's creation of 100,000 units.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct CreateRun {
    /// `c` or `java`.
    pub language: String,
    /// The call.
    pub api: String,
    /// `process` or `thread`.
    pub kind: String,
    /// How many were created and reaped.
    pub units: u64,
    /// Cores switched on; unknown for Java.
    pub cores: Option<u64>,
    /// Counted from 1.
    pub run: u32,
    /// Real time, s.
    pub elapsed_s: f64,
}

/// A mean that source 003 prints, beside what its own runs give.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct PublishedMean {
    /// The file that holds the runs.
    pub table_file: String,
    /// As in [`PrintRun::experiment`].
    pub experiment: String,
    /// `process` or `thread`.
    pub kind: String,
    /// Units at once.
    pub units: u64,
    /// Lines each prints.
    pub prints_per_unit: Option<u64>,
    /// Characters of the string.
    pub payload_bytes: Option<u64>,
    /// Cores switched on.
    pub cores: Option<u64>,
    /// The printed mean, s.
    pub published_mean_s: f64,
    /// The trimmed mean of the runs, s.
    pub recomputed_trimmed_mean_s: Option<f64>,
    agrees_to_1_ms: String,
}

impl PublishedMean {
    /// Whether the printed mean follows from its runs, to 1 ms.
    #[must_use]
    pub fn agrees(&self) -> bool {
        self.agrees_to_1_ms == "yes"
    }
}

/// A row of source 003's table of processes against threads, in our words, and the claims that answer it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Aspect {
    /// The source whose row it is.
    pub source: String,
    /// What is compared.
    pub aspect: String,
    /// What the source says of processes.
    pub process: String,
    /// What it says of threads.
    pub thread: String,
    /// `process`, `thread` or `neither`.
    pub favours: String,
    claims: String,
    /// What of it no run on one machine can answer, in a sentence; empty where there is nothing.
    pub open: String,
}

impl Aspect {
    /// The ids of the claims that answer it, of this and of other sources.
    pub fn claims(&self) -> impl Iterator<Item = &str> {
        self.claims.split_whitespace()
    }
}

/// A time that people know by heart, for the scale of what things cost.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Mark {
    /// What takes so long.
    pub name: String,
    /// How long, ns.
    pub value_ns: f64,
    /// Who published it, and when.
    pub who: String,
}

/// What to know before quoting [`aspects`].
pub const ABOUT_ASPECTS: &str = "The source marks its table as one to verify. It states a score of 3.5 for threads and 2.5 \
    for processes; its rows add up to the reverse.";

/// A source: what it is called, and on what it measured.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Source {
    /// What claims and texts cite it by, e.g. `003`.
    #[serde(rename = "source")]
    pub id: String,
    /// Its author or title, as it stands within a sentence.
    pub name: String,
    /// When it appeared; where that is not known, the year of its system.
    pub year: u16,
    /// The system that it measured on, with that system's date; empty where it measured nothing.
    pub setting: String,
}

impl Source {
    /// Whether this is what somebody means by `text`: its id, or a part of its name or year in either case.
    ///
    /// ```
    /// use threadgauge_results::published::sources;
    ///
    /// let meant = |text| sources().iter().filter(move |source| source.is_meant_by(text)).count();
    /// assert_eq!([meant("003"), meant("jaws"), meant("2004"), meant("")], [1, 1, 2, 0]);
    /// ```
    #[must_use]
    pub fn is_meant_by(&self, text: &str) -> bool {
        let named = self.to_string().to_lowercase();
        self.id == text || !text.is_empty() && named.contains(&text.to_lowercase())
    }
}

/// Its name and year: `Processes against threads (2004)`.
impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name, self.year)
    }
}

/// What people call a source: its name and year. Of several, joined by `+`, all of them; one that is not known keeps
/// its id.
///
/// ```
/// use threadgauge_results::published::named;
///
/// assert_eq!(named("003"), "Processes against threads (2004)");
/// ```
#[must_use]
pub fn named(ids: &str) -> String {
    each(ids, ToString::to_string)
}

/// A source by its name, with the system that it measured on and the date of that: `Processes against threads, Linux
/// 2.6.9 of 2004`. Of several, joined by `+`, all of them.
///
/// ```
/// use threadgauge_results::published::dated;
///
/// assert_eq!(dated("003"), "Processes against threads, Linux 2.6.9 of 2004");
/// ```
#[must_use]
pub fn dated(ids: &str) -> String {
    each(ids, |source| match source.setting.as_str() {
        "" => source.to_string(),
        setting => format!("{}, {setting}", source.name),
    })
}

fn each(ids: &str, says: impl Fn(&Source) -> String) -> String {
    let known = |id| sources().iter().find(|source| source.id == id);
    let one = |id| known(id).map_or_else(|| format!("source {id}"), &says);
    ids.split('+').map(one).collect::<Vec<_>>().join("; ")
}

/// `text` for a reader. Texts of experiments and stored answers cite a source by its id (`source 003`); here it is
/// [named].
///
/// ```
/// use threadgauge_results::published::cited;
///
/// let text = "Source 002 drove JAWS; source 003 did not.";
/// let named = "The JAWS case (2005) drove JAWS; Processes against threads (2004) did not.";
/// assert_eq!(cited(text), named);
/// ```
#[must_use]
pub fn cited(text: &str) -> Cow<'_, str> {
    const WORD: &str = "ource ";
    let mut text = Cow::Borrowed(text);
    if !text.contains(WORD) {
        return text;
    }
    for source in sources().iter().filter(|source| !source.setting.is_empty()) {
        let name = source.to_string();
        let first = name.chars().next().map(char::to_uppercase);
        let begins: String = first.into_iter().flatten().chain(name.chars().skip(1)).collect();
        for (cites, name) in [("s", &name), ("S", &begins)] {
            let cites = format!("{cites}{WORD}{}", source.id);
            if text.contains(&cites) {
                text = Cow::Owned(text.replace(&cites, name));
            }
        }
    }
    text
}

/// A cell of Stevens' table of server designs, as source 003 quotes it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct ServerDesign {
    /// His number of the design; 0 is the iterative server.
    pub design_row: u64,
    /// The system that he measured on.
    pub system: String,
    /// CPU time beyond that of the iterative server, s; `None` where the system did not support the design.
    pub process_control_cpu_s: Option<f64>,
}

macro_rules! shipped {
    ($(#[$doc:meta])* $visibility:vis $name:ident: $row:ty = $file:literal) => {
        $(#[$doc])*
        ///
        /// # Panics
        ///
        /// Never in a released binary: a test reads the shipped file.
        #[must_use]
        $visibility fn $name() -> &'static [$row] {
            static ROWS: OnceLock<Vec<$row>> = OnceLock::new();
            ROWS.get_or_init(|| rows(include_bytes!(concat!("../published/", $file))))
        }
    };
}

shipped! {
    /// Times that people know by heart, from Jeff Dean's talk *Designs, lessons and advice from building large
    /// distributed systems* (LADIS 2009): figures of his machines, not of this one.
    pub marks: Mark = "marks.csv"
}
shipped! {
    /// Source 001's two tables.
    pub context_switches: ContextSwitch = "rsdn_context_switch.csv"
}
shipped! {
    /// Every run of source 003's print experiments.
    pub print_runs: PrintRun = "fork_vs_thread_print.csv"
}
shipped! {
    /// Every run of source 003's creation of 100,000 units.
    pub create_runs: CreateRun = "create_destroy_100k.csv"
}
shipped! {
    /// The means source 003 prints, checked against its runs.
    pub means: PublishedMean = "published_means.csv"
}

shipped! {
    /// Stevens' table of server designs, as source 003 quotes it.
    pub server_designs: ServerDesign = "stevens_server_designs.csv"
}
shipped! {
    /// Source 003's table of processes against threads.
    pub aspects: Aspect = "comparison_matrix.csv"
}
shipped! {
    /// The sources, in the order of their ids; last this project, whose targets are claims too.
    pub sources: Source = "sources.csv"
}

fn rows<T: DeserializeOwned>(file: &[u8]) -> Vec<T> {
    csv::Reader::from_reader(file)
        .deserialize()
        .collect::<Result<_, _>>()
        .expect("the shipped CSV files are well-formed")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shipped_files_hold_what_the_sources_published() {
        assert_eq!(print_runs().len(), 210);
        assert_eq!(create_runs().len(), 11);
        assert_eq!(means().iter().filter(|m| !m.agrees()).count(), 3);
        let given = server_designs()
            .iter()
            .filter(|cell| cell.process_control_cpu_s.is_some());
        assert_eq!((server_designs().len(), given.count()), (27, 21));
        let base = context_switches()
            .iter()
            .find(|c| c.threads == 2 && c.cpus == 2 && c.os.contains("NT 4"))
            .unwrap();
        assert_eq!(base.elapsed_ms, 5453.0);
    }

    #[test]
    fn each_aspect_is_answered_by_claims_or_says_that_none_can() {
        assert_eq!(aspects().len(), 6);
        for aspect in aspects() {
            let unknown: Vec<_> = aspect.claims().filter(|id| crate::claim(id).is_none()).collect();
            assert!(unknown.is_empty(), "{}: {unknown:?}", aspect.aspect);
            assert!(
                aspect.claims().next().is_some() || !aspect.open.is_empty(),
                "{}",
                aspect.aspect
            );
        }
        // As the source's rows add up, half a point each where it favours neither.
        let favours = |kind: &str| aspects().iter().filter(|aspect| aspect.favours == kind).count();
        assert_eq!(["process", "thread", "neither"].map(favours), [3, 2, 1]);
    }

    #[test]
    fn every_source_of_a_claim_has_a_name_and_a_year() {
        for claim in crate::claims() {
            for says in [named(&claim.source), dated(&claim.source)] {
                assert!(!says.contains("source "), "{}: {says}", claim.id);
            }
        }
        for source in sources().iter().filter(|source| !source.setting.is_empty()) {
            let year = source.year.to_string();
            assert!(source.setting.ends_with(&year), "{source:?}");
        }
        assert_eq!(
            named("002+003+none"),
            "the JAWS case (2005); Processes against threads (2004); source none"
        );
        assert_eq!(
            dated("002+003+own"),
            "the JAWS case, Red Hat Linux AS 4.0 of 2005; Processes against threads, Linux 2.6.9 of 2004; this project's own \
             targets (2026)"
        );
    }

    #[test]
    fn a_text_cites_by_the_id_and_a_reader_sees_the_name() {
        let text = "Sources differ: no source says so, but source 000, source 004 and source 009 do.";
        assert_eq!(
            cited(text),
            "Sources differ: no source says so, but Asche, THRDPERF (1995), Performance of Linux thread libraries (2004) and \
             source 009 do."
        );
        let own = "The source own of it, and source-003.";
        assert!(matches!(cited(own), Cow::Borrowed(same) if same == own));
    }
}
