//! Runtimes: figures of their guests beside those of each one's own harness for benchmarks.
//!
//! Go's is `testing.B`, Java's is JMH, Python's is pyperf; their programs are in `tests/cross-check`. Guests are found
//! and built as a run does it. A runtime or a harness that is not there is a reason in place of its figures.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use threadgauge_experiments::runtimes::find::Places;
use threadgauge_experiments::runtimes::prepare::{Asked, Prepared, prepare};
use threadgauge_results::Runtime;

use super::tools::{Installed, Tool};
use super::{Figure, Ours};
use crate::worker::Case;
use crate::{made, shell};

/// Where the programs are, in a folder by runtime.
const BENCHMARKS: &str = "tests/cross-check";
/// Ours over a harness's must lie between these.
const LIMITS: [f64; 2] = [0.85, 1.15];
/// A benchmark says what a lap takes, which is two hops.
const HOP_OF_LAP: f64 = 0.5;
/// The oldest Java that the benchmarks run on: virtual threads came with it.
const LEAST_JAVA: u64 = 21;

/// What each harness is told of how long to measure. On one CPU a program shares it with the compiler of its JVM, so
/// that it takes seconds to be warm: what makes a virtual thread, some five.
const GO: &[&str] = &["-run", "^$", "-benchtime", "300ms"];
const JMH: &[&str] = &["-f", "1", "-wi", "10", "-w", "500ms", "-i", "4", "-r", "200ms"];
const PYPERF: &[&str] = &["-q", "-p", "2", "-n", "3", "-w", "1"];
/// The same of the first call alone, of several processes.
const JMH_COLD: &[&str] = &["-f", "3", "-wi", "0", "-i", "1"];

macro_rules! created {
    ($of:literal, $count:literal) => {
        Case {
            experiment: "create",
            params: concat!($of, ",count=", $count, ",cpus=1"),
            metric: "ns_per_unit",
        }
    };
}

macro_rules! handed_on {
    ($of:literal) => {
        Case {
            experiment: "ring",
            params: concat!($of, ",ring=2,cpus=1"),
            metric: "ns_per_hop",
        }
    };
}

macro_rules! pooled {
    ($of:literal) => {
        Case {
            experiment: "turnaround",
            params: concat!($of, ",kind=io,degree=8,count=8,length_ms=20,cpus=1"),
            metric: "elapsed_ns",
        }
    };
}

/// A unit of a runtime with its cases, as many made as a standard run makes.
struct Unit {
    says: &'static str,
    name: &'static str,
    created: Case,
    handed_on: Case,
    pooled: Case,
}

macro_rules! unit {
    ($says:literal, $name:literal, $of:literal, $count:literal) => {
        Unit {
            says: $says,
            name: $name,
            created: created!($of, $count),
            handed_on: handed_on!($of),
            pooled: pooled!($of),
        }
    };
}

const GOROUTINE: Unit = unit!("goroutine", "goroutine", "runtime=go,unit=goroutine", "100000");
const JAVAS: [Unit; 2] = [
    unit!("Java thread", "platform", "runtime=java,unit=platform", "2500"),
    unit!("virtual thread", "virtual", "runtime=java,unit=virtual", "66660"),
];
const PYTHONS: [Unit; 3] = [
    unit!("Python thread", "thread", "runtime=python,unit=thread", "2000"),
    unit!("Python process", "process", "runtime=python,unit=process", "80"),
    unit!("task of asyncio", "task", "runtime=python,unit=task", "10000"),
];

impl Unit {
    fn created(&self, line: &str, told: Told) -> Figure {
        let says = format!("a {}, made and ended", self.says);
        figure(says, Ours::Case(self.created), line, told, 1.0)
    }

    fn handed_on(&self, line: &str, told: Told) -> Figure {
        let says = format!("a hop, {} to {0}", self.says);
        figure(says, Ours::Case(self.handed_on), line, told, HOP_OF_LAP)
    }

    fn pooled(&self, line: &str, told: Told) -> Figure {
        let says = format!("eight waits of 20 ms, a {} each", self.says);
        figure(says, Ours::Case(self.pooled), line, told, 1.0)
    }
}

type Told = &'static [&'static str];

fn figure(says: String, ours: Ours, line: &str, told: Told, one: f64) -> Figure {
    Figure {
        says,
        ours,
        tool: Tool::new(line, one).told(told),
        cpus: 1,
        by_default: false,
        limited: true,
        limits: LIMITS,
    }
}

/// A figure that differs, as ours is of the first call in a process, and the one beside the tool's first call.
fn warm_and_cold(warm: Figure, cold: Figure) -> [Figure; 2] {
    let warm = Figure {
        limited: false,
        ..warm
    };
    let cold = Figure {
        says: "the same, cold".to_owned(),
        ..cold
    };
    [warm, cold]
}

/// All of them.
pub fn figures() -> Vec<Figure> {
    let mut figures = vec![
        GOROUTINE.created("go test -bench Create", GO),
        GOROUTINE.handed_on("go test -bench Lap", GO),
        GOROUTINE.pooled("go test -bench Pool", GO),
    ];
    for unit in &JAVAS {
        let line = |name| format!("java -jar benchmarks.jar Units.{name} -p unit={}", unit.name);
        figures.push(unit.created(&line("create"), JMH));
        figures.push(unit.handed_on(&line("lap"), JMH));
        let (warm, cold) = (line("pool"), line("pool") + " -bm ss");
        figures.extend(warm_and_cold(
            unit.pooled(&warm, JMH),
            unit.pooled(&cold, JMH_COLD),
        ));
    }
    for unit in &PYTHONS {
        let line = |name| format!("python units.py {name} {}", unit.name);
        figures.push(unit.created(&line("create"), PYPERF));
        figures.push(unit.handed_on(&line("lap"), PYPERF));
        figures.push(unit.pooled(&line("pool"), PYPERF));
    }
    figures
}

/// A runtime whose guest and harness are both there.
#[derive(Debug)]
struct Ready {
    guest: Runtime,
    harness: Installed,
}

/// The runtimes that take part, by what a tool's line begins with.
#[derive(Debug)]
pub struct Runtimes {
    /// Or why not.
    all: BTreeMap<&'static str, Result<Ready, String>>,
    /// What the guests are in.
    _guests: Prepared,
}

impl Runtimes {
    /// Finds those whose tools are among these, and builds their guests and benchmarks below `target`. Blocks.
    ///
    /// # Errors
    ///
    /// When there is no folder for the guests.
    pub fn prepare<'a>(tools: impl Iterator<Item = &'a Tool>, target: &Path) -> Result<Self> {
        type Build = fn(&Runtime, &Path) -> Result<Installed>;
        const ALL: [(&str, Build); 3] = [("go", go), ("java", java), ("python", python)];
        let wanted: Vec<&str> = tools.map(Tool::program).collect();
        let wanted: Vec<(&'static str, Build)> = ALL
            .into_iter()
            .filter(|(name, _)| wanted.contains(name))
            .collect();
        let places = Places::here();
        let asked: Vec<Asked> = wanted.iter().flat_map(|(name, _)| asked(name, &places)).collect();
        let guests = prepare(&asked, &places).context("there is no folder for the guests")?;
        let target = target.join("cross-check");
        let ready = |(name, build): (&'static str, Build)| {
            let of_kind = guests.runtimes.iter().filter(|of| of.kind == name);
            let ready = newest(of_kind).and_then(|guest| {
                let harness = build(guest, &target).map_err(|error| format!("{error:#}"))?;
                Ok(Ready {
                    guest: guest.clone(),
                    harness,
                })
            });
            (name, ready)
        };
        Ok(Self {
            all: wanted.into_iter().map(ready).collect(),
            _guests: guests,
        })
    }

    /// The guest of the runtime whose harness this is; of another tool nothing.
    pub fn guest(&self, tool: &Tool) -> Option<&Runtime> {
        let ready = self.all.get(tool.program())?.as_ref().ok()?;
        Some(&ready.guest)
    }

    /// The tool as it is installed.
    ///
    /// # Errors
    ///
    /// Why it is not.
    pub fn installed(&self, tool: &Tool) -> Result<Installed, String> {
        match self.all.get(tool.program()) {
            None => tool.found().ok_or_else(|| "not installed".to_owned()),
            Some(Ok(ready)) => Ok(ready.harness.clone()),
            Some(Err(why)) => Err(why.clone()),
        }
    }

    /// A sentence with their versions; nothing without any.
    pub fn versions(&self) -> String {
        let mut says = String::new();
        for Ready { guest, .. } in self.all.values().flatten() {
            let _ = write!(says, " {} {}.", guest.kind, guest.version);
        }
        says
    }
}

/// What is looked for: of Java each that there is, to take the newest.
fn asked(name: &str, places: &Places) -> Vec<Asked> {
    let one = |name: String, at| Asked::One { name, at };
    if name != "java" {
        return vec![one(name.to_owned(), None)];
    }
    let javas = places.on_path("java").into_iter().chain(places.in_jdks(None));
    let javas: Vec<Asked> = javas
        .enumerate()
        .map(|(index, java)| one(format!("java-{index}"), Some(java)))
        .collect();
    if javas.is_empty() {
        vec![one(name.to_owned(), None)]
    } else {
        javas
    }
}

/// Of those of one kind the newest, or why there is none.
fn newest<'a>(of_kind: impl Iterator<Item = &'a Runtime>) -> Result<&'a Runtime, String> {
    let (there, lacking): (Vec<&Runtime>, Vec<&Runtime>) = of_kind.partition(|of| of.lack.is_none());
    let newest = there.into_iter().max_by_key(|of| major(of));
    newest.ok_or_else(|| {
        let lack = lacking.into_iter().find_map(|of| of.lack.as_ref());
        lack.map_or_else(|| "not installed".to_owned(), |lack| lack.says.clone())
    })
}

fn major(of: &Runtime) -> Option<u64> {
    of.version.split('.').next()?.parse().ok()
}

fn go(guest: &Runtime, _: &Path) -> Result<Installed> {
    let folder = shell::root()?.join(BENCHMARKS).join("go");
    let program = PathBuf::from(&guest.program);
    // Built here, and kept by Go.
    let mut build = shell::command_at(&program);
    shell::output(build.args(["test", "-run", "^$"]).current_dir(&folder))?;
    Ok(Installed { program, folder })
}

fn java(guest: &Runtime, target: &Path) -> Result<Installed> {
    let version = &guest.version;
    ensure!(
        major(guest) >= Some(LEAST_JAVA),
        "benchmarks of virtual threads need Java {LEAST_JAVA} or later, the newest is {version}"
    );
    let maven = shell::find("mvn").context("JMH is fetched by Maven, which is not installed")?;
    let program = fs::canonicalize(&guest.program)?;
    let home = program
        .ancestors()
        .nth(2)
        .context("a java lies in a folder of its JDK")?;
    let from = shell::root()?.join(BENCHMARKS).join("java");
    let folder = target.join("java");
    let mut of = format!("Java {version}\n");
    for file in ["pom.xml", "src/main/java/crosscheck/Units.java"] {
        of += &fs::read_to_string(from.join(file))?;
    }
    fs::create_dir_all(&folder)?;
    made::once(&folder.join("built.txt"), &of, || {
        eprintln!("building {} with Maven", from.display());
        let mut package = shell::command_at(&maven);
        package.args(["--quiet", "--batch-mode", "package", "--file"]);
        package.arg(from.join("pom.xml")).env("JAVA_HOME", home);
        for (name, at) in [("to", &folder), ("maven.repo.local", &target.join("maven"))] {
            package.arg(format!("-D{name}={}", at.display()));
        }
        shell::output(&mut package).map(drop)
    })?;
    Ok(Installed { program, folder })
}

fn python(guest: &Runtime, target: &Path) -> Result<Installed> {
    let folder = shell::root()?.join(BENCHMARKS).join("python");
    let requirements = folder.join("requirements.txt");
    let program = made::venv(Path::new(&guest.program), &requirements, &target.join("python"))?;
    Ok(Installed { program, folder })
}

#[cfg(test)]
mod tests {
    use super::*;
    use threadgauge_results::{Lack, Need};

    fn java(name: &str, version: &str) -> Runtime {
        Runtime {
            name: name.to_owned(),
            kind: "java".to_owned(),
            version: version.to_owned(),
            program: "/nowhere/java".to_owned(),
            command: vec!["/nowhere/java".to_owned()],
            lack: None,
        }
    }

    #[test]
    fn the_newest_takes_part_and_a_lack_is_told() {
        let lacking = Runtime {
            lack: Some(Lack::new(Need::Program, "no compiler")),
            ..java("java-2", "26.1")
        };
        let all = [java("java-0", "9.0.4"), java("java-1", "25.0.3"), lacking.clone()];
        assert_eq!(newest(all.iter()).unwrap().name, "java-1");
        assert_eq!(newest([lacking].iter()).unwrap_err(), "no compiler");
        assert_eq!(newest([].into_iter()).unwrap_err(), "not installed");
    }

    #[test]
    fn a_java_without_virtual_threads_is_too_old() {
        let error = super::java(&java("java-0", "17.0.15"), Path::new("/nowhere")).unwrap_err();
        let says = "benchmarks of virtual threads need Java 21 or later, the newest is 17.0.15";
        assert_eq!(error.to_string(), says);
    }

    #[test]
    fn each_tool_is_that_of_a_runtime_and_none_is_prepared_for_others() {
        let figures = figures();
        for runtime in ["go", "java", "python"] {
            assert!(
                figures.iter().any(|figure| figure.tool.program() == runtime),
                "{runtime}"
            );
        }
        let perf = Tool::new("perf bench sched pipe", 1.0);
        let none = Runtimes::prepare([&perf].into_iter(), Path::new("/nowhere")).unwrap();
        assert!(none.all.is_empty() && none.guest(&perf).is_none() && none.versions().is_empty());
    }

    #[test]
    fn a_guest_answers_what_its_benchmark_is_compared_with() {
        let target = tempfile::tempdir().unwrap();
        let lap = Tool::new("go test -bench Lap", HOP_OF_LAP);
        let runtimes = Runtimes::prepare([&lap].into_iter(), target.path()).unwrap();
        match runtimes.installed(&lap) {
            Ok(installed) => {
                let lap = lap.told(&["-run", "^$", "-benchtime", "10x"]);
                let run = lap.run(&installed, crate::cross_check::tools::On::Default);
                assert!(run.unwrap() > 0.0);
                assert!(
                    runtimes.versions().starts_with(" go 1."),
                    "{}",
                    runtimes.versions()
                );
            }
            Err(why) => eprintln!("skipped: {why}"),
        }
    }
}
