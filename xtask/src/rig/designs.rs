//! The designs that are compared, and how a server of each is started.

/// How many processes or threads are there before the first client, as in Stevens' measurement.
const WORKERS: usize = 15;
/// Of a pool of reactors: the ratio of source 002.
const READERS: usize = 1;
const WRITERS: usize = 3;

/// A design, in ours and in C.
#[derive(Debug)]
pub struct Design {
    /// As `threadgauge serve --design` and its twin call it.
    pub name: &'static str,
    /// The program in `guests/c/servers` that has its twin.
    pub program: &'static str,
    units: Units,
    /// Its row of Stevens' table.
    pub published: Option<u32>,
    /// Whether it serves a thousand connections at once.
    pub many: bool,
}

/// What says how many units it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Units {
    /// Nothing: it has one, or as many as there are clients or CPUs.
    None,
    Workers,
    ReadersAndWriters,
}

const fn of(
    program: &'static str,
    name: &'static str,
    units: Units,
    published: Option<u32>,
    many: bool,
) -> Design {
    Design {
        name,
        program,
        units,
        published,
        many,
    }
}

/// The baseline of process control: no other design has fewer units.
pub const ITERATIVE: &str = "iterative";

/// All of them, in the order of Stevens' table and then of complexity.
pub const DESIGNS: &[Design] = &[
    of("processes", ITERATIVE, Units::None, Some(0), false),
    of("processes", "process-per-connection", Units::None, Some(1), true),
    of("processes", "preforked-accept", Units::Workers, Some(2), false),
    of("processes", "preforked-file-lock", Units::Workers, Some(3), false),
    of("processes", "preforked-mutex", Units::Workers, Some(4), false),
    of(
        "processes",
        "preforked-descriptor",
        Units::Workers,
        Some(5),
        false,
    ),
    of("processes", "preforked-reuseport", Units::Workers, None, false),
    of("threads", "thread-per-connection", Units::None, Some(6), true),
    of("threads", "prethreaded-mutex", Units::Workers, Some(7), false),
    of("threads", "prethreaded-acceptor", Units::Workers, Some(8), false),
    of("reactors", "reactor", Units::None, None, true),
    of("reactors", "split-reactor", Units::None, None, true),
    of("reactors", "reactor-pool", Units::ReadersAndWriters, None, true),
    of("reactors", "reactor-per-core", Units::None, None, true),
    of("reactors", "leader-followers", Units::Workers, None, true),
    of("reactors", "half-sync-half-async", Units::Workers, None, true),
];

/// The design of this name; the names are constants of this program.
pub fn named(name: &str) -> &'static Design {
    DESIGNS
        .iter()
        .find(|design| design.name == name)
        .expect("a name of the list above")
}

impl Design {
    /// What `threadgauge` is started with.
    pub fn arguments(&self, protocol: &str) -> Vec<String> {
        let mut arguments: Vec<String> = [
            "serve",
            protocol,
            "--design",
            self.name,
            "--listen",
            "127.0.0.1:0",
        ]
        .map(str::to_owned)
        .to_vec();
        let mut set = |option: &str, value: usize| arguments.extend([option.to_owned(), value.to_string()]);
        match self.units {
            Units::None => {}
            Units::Workers => set("--workers", WORKERS),
            Units::ReadersAndWriters => {
                set("--readers", READERS);
                set("--writers", WRITERS);
            }
        }
        arguments
    }

    /// What its twin is started with.
    pub fn twin_arguments(&self) -> Vec<String> {
        let mut arguments = vec![self.name.to_owned(), "0".to_owned()];
        let counts = match self.units {
            Units::None => vec![],
            Units::Workers => vec![WORKERS],
            Units::ReadersAndWriters => vec![READERS, WRITERS],
        };
        arguments.extend(counts.iter().map(usize::to_string));
        arguments
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_is_told_its_readers_and_writers() {
        let pool = named("reactor-pool");
        assert!(
            pool.arguments("chat")
                .ends_with(&["--readers", "1", "--writers", "3"].map(str::to_owned))
        );
        assert_eq!(pool.twin_arguments(), ["reactor-pool", "0", "1", "3"]);
    }

    #[test]
    fn each_row_of_the_published_table_is_one_design() {
        let mut rows: Vec<u32> = DESIGNS.iter().filter_map(|design| design.published).collect();
        rows.sort_unstable();
        assert_eq!(rows, (0..=8).collect::<Vec<_>>());
    }
}
