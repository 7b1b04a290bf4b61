//! The runtimes beside C whose guests take part in experiments: one folder in `guests` and one entry below each.
//!
//! An entry says how its program is called, how its version is asked for, how its guest is built and started, and what
//! its units are. `find` looks for the programs, `prepare` asks for versions and builds, `talk` speaks with a guest
//! that runs. What an experiment does with a guest is in a file of that experiment.

pub mod find;
pub(crate) mod guest;
pub(crate) mod memory;
pub mod prepare;
pub mod serving;
pub(crate) mod talk;

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use threadgauge_lab::point::{Parameter, Value};
use threadgauge_lab::prelude::*;
use threadgauge_results::Runtime;

/// A kind of runtime, and all that is known of it beforehand.
///
/// In `build` and `start` `{program}` stands for the program that was found, `{compiler}` for the compiler, `{from}`
/// for the folder with the guest's files and `{to}` for that of what is built.
#[derive(Debug)]
pub struct Kind {
    /// Its name, which is that of its folder in `guests`.
    pub name: &'static str,
    /// The program that is looked for on the PATH.
    pub program: &'static str,
    /// What makes the program say its version: the first number of what it says.
    pub asks_version: &'static [&'static str],
    /// What makes the program say its own path, where what is on the PATH may be a script that starts another; else
    /// nothing.
    pub asks_path: &'static [&'static str],
    /// The oldest version that its guest runs on.
    pub least: u64,
    /// What builds the guest, beside the program or on the PATH; nothing where there is nothing to build.
    pub compiler: Option<&'static str>,
    /// The files of the guest, by name.
    pub files: &'static [(&'static str, &'static str)],
    /// The compiler and its arguments, run in `{from}`; empty where there is nothing to build.
    pub build: &'static [&'static str],
    /// Variables that the compiler is to have beside those of this process.
    pub build_with: &'static [(&'static str, &'static str)],
    /// The guest: a program and its first arguments.
    pub start: &'static [&'static str],
    /// What it takes from its start to its end, with nothing to do, ms.
    pub starts_ms: u64,
    /// How long its loops go on before they are timed, ms: until a compiler that shares one CPU with them is done.
    pub warms_ms: u64,
    /// The cases that its guest has.
    pub does: &'static [Does],
    /// What can be alive at once.
    pub units: &'static [Unit],
    /// The servers that its guest has.
    pub serves: &'static [Serves],
    /// How to have it, to follow "to have it".
    pub install: &'static str,
}

/// A case that a guest may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Does {
    /// Makes and ends units: `create`.
    Create,
    /// Passes a token round a ring: `ring`.
    Ring,
    /// Keeps idle units: `footprint`.
    Idle,
    /// Makes as many as there can be: `limits`.
    Most,
    /// Runs a bounded set of computations: `turnaround`.
    Pool,
    /// Prints lines: `print`.
    Print,
    /// Prints with all units alive, and makes units with large stacks where there is little room: `limits`.
    Stacks,
    /// Makes units where the system makes few more: `past-the-limit`.
    Past,
}

impl Does {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Create,
        Self::Ring,
        Self::Idle,
        Self::Most,
        Self::Pool,
        Self::Print,
        Self::Stacks,
        Self::Past,
    ];
    /// Those that have nothing to do with printing or stacks.
    const UNITS: &'static [Self] = &[
        Self::Create,
        Self::Ring,
        Self::Idle,
        Self::Most,
        Self::Pool,
        Self::Past,
    ];
    /// These, and printing.
    const UNITS_AND_LINES: &'static [Self] = &[
        Self::Create,
        Self::Ring,
        Self::Idle,
        Self::Most,
        Self::Pool,
        Self::Past,
        Self::Print,
    ];
}

/// A server of a guest, which speaks `echo` and `chat`.
#[derive(Debug)]
pub struct Serves {
    /// Its design, in cases and to the guest.
    pub design: &'static str,
    /// Its name beside those of other runtimes.
    pub kind: &'static str,
    /// The oldest version that has it.
    pub least: u64,
    /// The unit in which its guest has VolanoMark's server and users, where it has.
    pub talks: Option<&'static str>,
    /// What a message of `chat` takes on two CPUs with its users, sent or received, ns.
    pub chat_ns: u64,
}

/// One of the things that a runtime can run at once.
#[derive(Debug)]
pub struct Unit {
    /// Its name in cases and to the guest.
    pub name: &'static str,
    /// Its name beside those of other runtimes.
    pub kind: &'static str,
    /// The oldest version that has it.
    pub least: u64,
    /// Whether its runtime schedules it. The kernel knows those that are not so, and counts and limits them.
    pub in_runtime: bool,
    /// What making and ending one takes, µs. Where it takes milliseconds few are made.
    pub create_us: u64,
    /// How many are kept idle to tell what each takes.
    pub idle: u64,
    /// The most that a case tries to have alive.
    pub most: u64,
}

/// Every kind, in the order of tables.
pub const KINDS: [&Kind; 6] = [&JAVA, &GO, &PYTHON, &NODE, &ERLANG, &RUST];

const JAVA: Kind = Kind {
    name: "java",
    program: "java",
    asks_version: &["-version"],
    asks_path: &[],
    least: 11,
    compiler: Some("javac"),
    files: &[
        ("Guest.java", include_str!("../../../guests/java/Guest.java")),
        ("Serve.java", include_str!("../../../guests/java/Serve.java")),
        ("Talk.java", include_str!("../../../guests/java/Talk.java")),
    ],
    // Before version 18 a compiler reads what the locale says, which may be ASCII.
    build: &[
        "{compiler}",
        "-encoding",
        "UTF-8",
        "--release",
        "11",
        "-d",
        "{to}",
        "Guest.java",
        "Serve.java",
        "Talk.java",
    ],
    build_with: &[],
    start: &["{program}", "-cp", "{to}", "Guest"],
    starts_ms: 150,
    warms_ms: 1500,
    does: &Does::ALL,
    units: &[
        Unit {
            name: "platform",
            kind: "Java thread",
            least: 11,
            in_runtime: false,
            create_us: 80,
            idle: 1_000,
            most: 4_000,
        },
        Unit {
            name: "virtual",
            kind: "Java virtual thread",
            least: 21,
            in_runtime: true,
            create_us: 3,
            idle: 10_000,
            most: 100_000,
        },
    ],
    serves: &[
        Serves {
            design: "platform-thread-per-connection",
            kind: "Java, platform threads",
            least: 11,
            talks: Some("platform"),
            chat_ns: 4_000,
        },
        Serves {
            design: "virtual-thread-per-connection",
            kind: "Java, virtual threads",
            least: 21,
            talks: Some("virtual"),
            chat_ns: 4_000,
        },
        Serves {
            design: "selector",
            kind: "Java, one selector",
            least: 11,
            talks: None,
            chat_ns: 13_000,
        },
    ],
    install: "install a JDK, as `apt install default-jdk`, or name one: --runtime java=PATH",
};

const GO: Kind = Kind {
    name: "go",
    program: "go",
    asks_version: &["version"],
    asks_path: &[],
    least: 1,
    compiler: Some("go"),
    files: &[
        ("main.go", include_str!("../../../guests/go/main.go")),
        ("serve.go", include_str!("../../../guests/go/serve.go")),
        ("go.mod", include_str!("../../../guests/go/go.mod")),
    ],
    build: &["{compiler}", "build", "-o", "{to}/guest", "."],
    // Neither another toolchain nor a module is fetched: nothing here opens a connection.
    build_with: &[("GOTOOLCHAIN", "local"), ("GOPROXY", "off")],
    start: &["{to}/guest"],
    starts_ms: 10,
    warms_ms: 200,
    does: Does::UNITS_AND_LINES,
    units: &[Unit {
        name: "goroutine",
        kind: "goroutine",
        least: 1,
        in_runtime: true,
        create_us: 1,
        idle: 10_000,
        most: 100_000,
    }],
    serves: &[Serves {
        design: "goroutine-per-connection",
        kind: "Go, goroutines",
        least: 1,
        talks: None,
        chat_ns: 2_000,
    }],
    install: "install Go from https://go.dev/dl, or name it: --runtime go=PATH",
};

const PYTHON: Kind = Kind {
    name: "python",
    program: "python3",
    asks_version: &["--version"],
    asks_path: &["-c", "import sys; print(sys.executable)"],
    least: 3,
    compiler: None,
    files: &[
        ("guest.py", include_str!("../../../guests/python/guest.py")),
        ("serve.py", include_str!("../../../guests/python/serve.py")),
    ],
    build: &[],
    build_with: &[],
    start: &["{program}", "{from}/guest.py"],
    starts_ms: 120,
    warms_ms: 200,
    does: Does::UNITS_AND_LINES,
    units: &[
        Unit {
            name: "thread",
            kind: "Python thread",
            least: 3,
            in_runtime: false,
            create_us: 100,
            idle: 1_000,
            most: 4_000,
        },
        Unit {
            name: "process",
            kind: "Python process",
            least: 3,
            in_runtime: false,
            create_us: 2_500,
            idle: 100,
            most: 300,
        },
        Unit {
            name: "task",
            kind: "asyncio task",
            least: 3,
            in_runtime: true,
            create_us: 20,
            idle: 10_000,
            most: 100_000,
        },
    ],
    serves: &[Serves {
        design: "asyncio",
        kind: "Python, asyncio",
        least: 3,
        talks: None,
        chat_ns: 13_000,
    }],
    install: "install Python, as `apt install python3`, or name it: --runtime python=PATH",
};

const NODE: Kind = Kind {
    name: "node",
    program: "node",
    asks_version: &["--version"],
    asks_path: &["-p", "process.execPath"],
    least: 16,
    compiler: None,
    files: &[
        ("guest.mjs", include_str!("../../../guests/node/guest.mjs")),
        ("serve.mjs", include_str!("../../../guests/node/serve.mjs")),
    ],
    build: &[],
    build_with: &[],
    start: &["{program}", "{from}/guest.mjs"],
    starts_ms: 80,
    warms_ms: 200,
    does: Does::UNITS,
    units: &[
        Unit {
            name: "worker",
            kind: "Node worker",
            least: 16,
            in_runtime: false,
            create_us: 30_000,
            idle: 16,
            most: 32,
        },
        Unit {
            name: "promise",
            kind: "promise",
            least: 16,
            in_runtime: true,
            create_us: 1,
            idle: 10_000,
            most: 100_000,
        },
    ],
    serves: &[Serves {
        design: "event-loop",
        kind: "Node, event loop",
        least: 16,
        talks: None,
        chat_ns: 16_000,
    }],
    install: "install Node.js, as `apt install nodejs`, or name it: --runtime node=PATH",
};

const ERLANG: Kind = Kind {
    name: "erlang",
    program: "erl",
    asks_version: &[
        "-noshell",
        "-eval",
        "io:format(\"~s~n\", [erlang:system_info(otp_release)]), halt().",
    ],
    asks_path: &[],
    least: 21,
    compiler: Some("erlc"),
    files: &[("guest.erl", include_str!("../../../guests/erlang/guest.erl"))],
    build: &["{compiler}", "-o", "{to}", "guest.erl"],
    build_with: &[],
    start: &[
        "{program}",
        "-noshell",
        "-pa",
        "{to}",
        "-run",
        "guest",
        "main",
        "-extra",
    ],
    starts_ms: 300,
    warms_ms: 200,
    does: Does::UNITS,
    units: &[Unit {
        name: "process",
        kind: "Erlang process",
        least: 21,
        in_runtime: true,
        create_us: 3,
        idle: 10_000,
        most: 100_000,
    }],
    serves: &[],
    install: "install Erlang/OTP, as `apt install erlang-base`, or name it: --runtime erlang=PATH",
};

/// Its programs have no runtime of their own, so it takes part with two of its libraries.
const RUST: Kind = Kind {
    name: "rust",
    program: "cargo",
    asks_version: &["--version"],
    asks_path: &[],
    least: 1,
    compiler: Some("cargo"),
    files: &[
        ("main.rs", include_str!("../../../guests/rust/main.rs")),
        ("serve.rs", include_str!("../../../guests/rust/serve.rs")),
        ("Cargo.toml", include_str!("../../../guests/rust/Cargo.toml")),
        ("Cargo.lock", include_str!("../../../guests/rust/Cargo.lock")),
    ],
    // Nothing is fetched: nothing here opens a connection.
    build: &[
        "{compiler}",
        "build",
        "--release",
        "--locked",
        "--offline",
        "--quiet",
        "--target-dir",
        "{to}",
    ],
    build_with: &[],
    start: &["{to}/release/guest"],
    starts_ms: 10,
    warms_ms: 200,
    does: Does::UNITS_AND_LINES,
    units: &[
        Unit {
            name: "task",
            kind: "Tokio task",
            least: 1,
            in_runtime: true,
            create_us: 1,
            idle: 10_000,
            most: 100_000,
        },
        Unit {
            name: "coroutine",
            kind: "stackful coroutine in Rust (may)",
            least: 1,
            in_runtime: true,
            create_us: 5,
            idle: 10_000,
            most: 20_000,
        },
    ],
    serves: &[Serves {
        design: "tokio",
        kind: "Rust, Tokio",
        least: 1,
        talks: None,
        chat_ns: 10_000,
    }],
    install: "install Rust from https://rustup.rs, and once `cargo fetch` the crates of guests/rust, or name it: \
              --runtime rust=PATH",
};

impl Kind {
    /// The kind of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        let kinds = KINDS.into_iter();
        #[cfg(test)]
        let kinds = kinds.chain([crate::example_of_a_runtime::KIND]);
        let mut kinds = kinds;
        kinds.find(|kind| kind.name == name)
    }

    /// The kind of which a runtime of this name is: `java-21` is `java`.
    #[must_use]
    pub fn of(name: &str) -> Option<&'static Self> {
        Self::named(name.split_once('-').map_or(name, |(kind, _)| kind))
    }

    /// What is said where it is not there.
    #[must_use]
    pub fn not_found(&self) -> Lack {
        let says = format!("{} not found; to have it, {}", self.program, self.install);
        Lack::new(Need::Program, says)
    }

    /// The server of this design.
    #[must_use]
    pub fn server(&self, design: &str) -> Option<&'static Serves> {
        self.serves.iter().find(|server| server.design == design)
    }

    /// The unit of this name.
    #[must_use]
    pub fn unit(&self, name: &str) -> Option<&'static Unit> {
        self.units.iter().find(|unit| unit.name == name)
    }
}

impl Unit {
    /// What a runtime lacks for it.
    #[must_use]
    pub fn lack(&self, runtime: &Runtime) -> Option<Lack> {
        lack(runtime, self.least, &format!("a {}", self.kind))
    }
}

impl Serves {
    /// What a runtime lacks for it.
    #[must_use]
    pub fn lack(&self, runtime: &Runtime) -> Option<Lack> {
        lack(runtime, self.least, &format!("the server {}", self.design))
    }
}

/// What a runtime lacks for `what`, which is there since its version `least`.
fn lack(runtime: &Runtime, least: u64, what: &str) -> Option<Lack> {
    if let Some(lack) = &runtime.lack {
        return Some(lack.clone());
    }
    let is_new = major(&runtime.version).is_some_and(|version| version >= least);
    let says = || {
        format!(
            "{what} needs {} {least} or later, and {} is {}; a newer one beside it takes part with --runtime {}-NAME=PATH",
            runtime.kind, runtime.name, runtime.version, runtime.kind
        )
    };
    (!is_new).then(|| Lack::new(Need::Program, says()))
}

/// The number of a version that tells what it has: the first, `17` of `17.0.13`.
#[must_use]
pub fn major(version: &str) -> Option<u64> {
    version.split('.').next()?.parse().ok()
}

/// Each unit of each of these runtimes whose guests have the case, with what it lacks there.
pub fn units(
    runtimes: &[Runtime],
    does: Does,
) -> impl Iterator<Item = (&Runtime, &'static Unit, Option<Lack>)> {
    runtimes.iter().flat_map(move |runtime| {
        let kind = Kind::named(&runtime.kind).filter(|kind| kind.does.contains(&does));
        let units: &'static [Unit] = kind.map_or(&[], |kind| kind.units);
        units.iter().map(move |unit| (runtime, unit, unit.lack(runtime)))
    })
}

/// The cases of each unit of the runtimes that were asked for and whose guests have it: those that `cases` says, with
/// what the unit lacks there.
pub fn plan<C: IntoIterator<Item = PlannedCase>>(
    site: &Site,
    does: Does,
    cases: impl Fn(Name, &'static Kind, &'static Unit) -> C,
) -> Vec<PlannedCase> {
    let of_unit = |(runtime, unit, lack): (&Runtime, &'static Unit, Option<Lack>)| {
        let kind = Kind::named(&runtime.kind)?;
        let cases = cases(Name::new(&runtime.name), kind, unit).into_iter();
        Some(cases.map(move |case| PlannedCase {
            skip: lack.clone(),
            ..case
        }))
    };
    units(&site.runtimes, does)
        .filter_map(of_unit)
        .flatten()
        .collect()
}

/// A plan with cases of guests beside its own, and the time that these take.
#[must_use]
pub fn beside(mut plan: Plan, site: &Site, guests: Vec<PlannedCase>) -> Plan {
    let able = guests.iter().filter(|case| case.skip.is_none());
    let round: Duration = able.map(|case| case.estimate).sum();
    plan.budget += round.saturating_mul(site.profile.pick(10, 15, 20));
    plan.cases.extend(guests);
    plan
}

/// The cases of guests of a run, in plan order.
#[must_use]
pub fn cases<P: Point>(view: &View<'_>) -> Vec<P> {
    let params = view.beside("runtime");
    params.filter_map(|params| P::read(params).ok()).collect()
}

/// A unit of a runtime, for tables and charts: with the runtime's name, where that is not its kind's.
#[must_use]
pub fn label(runtime: Name, unit: Name) -> String {
    let runtime = runtime.name();
    match Kind::of(runtime).and_then(|kind| Some((kind, kind.unit(unit.name())?))) {
        Some((kind, unit)) if kind.name == runtime => unit.kind.to_owned(),
        Some((_, unit)) => format!("{} ({runtime})", unit.kind),
        None => format!("{} ({runtime})", unit.name()),
    }
}

/// The name of a runtime or of its unit, as a parameter of a case. Cases are copied, so it is kept for ever: there are
/// as many as a run and its reader name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Name(&'static str);

impl Name {
    /// This name.
    #[must_use]
    pub fn new(name: &str) -> Self {
        static KNOWN: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(&name) = known.get(name) {
            return Self(name);
        }
        let name: &'static str = Box::leak(name.to_owned().into_boxed_str());
        known.insert(name);
        Self(name)
    }

    /// As text.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.0
    }
}

impl Parameter for Name {
    fn value(&self) -> Value {
        Value::from(self.0)
    }

    fn read(value: &Value) -> Option<Self> {
        match value {
            Value::Text(name) => Some(Self::new(name)),
            Value::Int(_) => None,
        }
    }

    fn wanted() -> String {
        "a name".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn runtime(name: &str, version: &str) -> Runtime {
        Runtime {
            name: name.to_owned(),
            kind: Kind::of(name).unwrap().name.to_owned(),
            version: version.to_owned(),
            program: String::new(),
            command: Vec::new(),
            lack: None,
        }
    }

    #[test]
    fn each_kind_has_a_folder_with_all_that_it_carries() {
        let guests = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../guests");
        let mut kinds = BTreeSet::new();
        for kind in KINDS {
            assert!(kinds.insert(kind.name), "{} is there twice", kind.name);
            let mut carried: Vec<&str> = kind.files.iter().map(|(name, _)| *name).collect();
            let folder = std::fs::read_dir(guests.join(kind.name)).unwrap();
            let mut there: Vec<String> = folder
                .map(|file| file.unwrap().file_name().into_string().unwrap())
                .collect();
            carried.sort_unstable();
            there.sort_unstable();
            assert_eq!(carried, there, "{}", kind.name);
            assert_eq!(kind.compiler.is_some(), !kind.build.is_empty(), "{}", kind.name);
            assert!(!kind.units.is_empty() && kind.units.iter().all(|unit| unit.least >= kind.least));
        }
        let units: BTreeSet<&str> = KINDS
            .iter()
            .flat_map(|kind| kind.units)
            .map(|unit| unit.kind)
            .collect();
        assert_eq!(
            units.len(),
            KINDS.iter().map(|kind| kind.units.len()).sum::<usize>()
        );
    }

    #[test]
    fn a_name_says_the_kind_before_its_first_dash() {
        let kind = |name: &str| Kind::of(name).map(|kind| kind.name);
        assert_eq!(kind("java"), Some("java"));
        assert_eq!(kind("java-21-of-mine"), Some("java"));
        assert_eq!(kind("ruby"), None);
        assert_eq!(kind(""), None);
    }

    #[test]
    fn what_is_not_there_says_how_to_have_it_and_an_old_version_what_it_lacks() {
        let lack = JAVA.not_found();
        assert_eq!(lack.of, Need::Program);
        assert!(
            lack.says.starts_with("java not found; to have it, install a JDK"),
            "{lack}"
        );
        let lacks = |version: &str| {
            let old = [runtime("java-old", version)];
            let lacks = units(&old, Does::Create);
            let lacks = lacks.map(|(_, unit, lack)| (unit.name, lack.map(|lack| lack.says)));
            lacks.collect::<Vec<_>>()
        };
        let of_17 = lacks("17.0.13");
        let [platform, virtual_thread] = &of_17[..] else {
            panic!("{of_17:?}");
        };
        assert_eq!(*platform, ("platform", None));
        let says = virtual_thread.1.as_ref().unwrap();
        let wanted = "a Java virtual thread needs java 21 or later, and java-old is 17.0.13";
        assert!(says.starts_with(wanted), "{says}");
        assert!(lacks("21").iter().all(|(_, lack)| lack.is_none()));
        assert!(lacks("unknown").iter().all(|(_, lack)| lack.is_some()));
    }

    #[test]
    fn a_runtime_that_is_lacking_lacks_each_of_its_units() {
        let lacking = [Runtime::lacking("node", "node", NODE.not_found())];
        assert_eq!(units(&lacking, Does::Ring).count(), 2);
        assert!(units(&lacking, Does::Ring).all(|(_, _, lack)| lack == Some(NODE.not_found())));
    }

    #[test]
    fn a_case_that_a_guest_does_not_have_is_none_of_its_units() {
        let shell = crate::example_of_a_runtime::KIND;
        let runtimes = [Runtime::lacking("shell", "shell", shell.not_found())];
        let count = |does| units(&runtimes, does).count();
        assert_eq!(Does::ALL.map(count), [1, 0, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn a_label_has_the_runtimes_name_where_it_is_another_than_its_kinds() {
        let label = |runtime, unit| label(Name::new(runtime), Name::new(unit));
        assert_eq!(label("java", "virtual"), "Java virtual thread");
        assert_eq!(label("java-25", "virtual"), "Java virtual thread (java-25)");
        // Of another version's store.
        assert_eq!(label("ruby", "fibre"), "fibre (ruby)");
    }

    #[test]
    fn equal_names_are_one() {
        let [a, b] = [Name::new("java-21"), Name::new(&["java", "21"].join("-"))];
        assert_eq!(a, b);
        assert!(std::ptr::eq(a.name(), b.name()));
        assert_eq!(Name::read(&a.value()), Some(a));
        assert_eq!(Name::read(&Value::Int(21)), None);
    }
}
