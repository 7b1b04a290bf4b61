//! From the names that a user gave to runtimes that take part: each is found, asked for its version, and its guest
//! built. Once a run, before the first case and outside of every figure. Beside the names, what the machine lacks is no
//! error: it stands in the runtime, and its cases are skipped for it.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::str::FromStr;
use std::time::Duration;
use std::{fmt, fs};

use tempfile::TempDir;
use threadgauge_lab::selection::nearest;
use threadgauge_results::{Lack, Need, Runtime};

use super::find::Places;
use super::talk::{Talk, Whole, first_error};
use super::{JAVA, KINDS, Kind, major};

/// How long a program may take to say its version. A virtual machine's first start on a cold disk takes seconds.
const TO_ANSWER: Duration = Duration::from_secs(30);
/// How long a guest may take to be built. A first build in Go has its standard library to build as well, one in Rust
/// two libraries: half a minute of a CPU, which others may want, too.
const TO_BUILD: Duration = Duration::from_secs(600);

/// A runtime that a user asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Asked {
    /// Every kind, and of Java every version.
    All,
    /// One by its name, and where it is, if that was said.
    One {
        /// Its kind, and behind a dash what tells it from others of that kind.
        name: String,
        /// Its program.
        at: Option<PathBuf>,
    },
}

impl FromStr for Asked {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (name, at) = match text.split_once('=') {
            Some((name, at)) => (name, Some(PathBuf::from(at))),
            None => (text, None),
        };
        if name == "all" && at.is_none() {
            return Ok(Self::All);
        }
        // It becomes the name of a folder, and a value of --only.
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
        if name.is_empty() || name.starts_with('.') || !name.chars().all(is_plain) {
            let says = "no name of a runtime: it is of letters, digits, dots, dashes and underscores";
            return Err(format!("`{name}` is {says}"));
        }
        if Kind::of(name).is_none() {
            let kinds: Vec<String> = KINDS.iter().map(|kind| kind.name.to_owned()).collect();
            return Err(format!(
                "there is no runtime `{name}`{}; there are all, {}, and names that begin with one of these and a dash",
                nearest(&kinds, name),
                kinds.join(", ")
            ));
        }
        if at.as_ref().is_some_and(|at| !at.is_absolute()) {
            return Err(format!("`{text}`: the path of a program begins with /"));
        }
        Ok(Self::One {
            name: name.to_owned(),
            at,
        })
    }
}

impl fmt::Display for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("all"),
            Self::One { name, at: None } => f.write_str(name),
            Self::One { name, at: Some(at) } => write!(f, "{name}={}", at.display()),
        }
    }
}

/// Runtimes that are ready, and the folder in which their guests are: it goes when this does.
#[derive(Debug)]
pub struct Prepared {
    /// In the order of the kinds, each name once.
    pub runtimes: Vec<Runtime>,
    _folder: TempDir,
}

/// Finds, asks and builds what was asked for. Blocks: builds take seconds.
///
/// # Errors
///
/// When there is no folder for the guests.
pub fn prepare(asked: &[Asked], places: &Places) -> io::Result<Prepared> {
    let all = asked.contains(&Asked::All);
    let mut candidates: Vec<Candidate> = Vec::new();
    for kind in KINDS {
        for one in asked {
            if let Asked::One { name, at } = one
                && Kind::of(name).is_some_and(|of| of.name == kind.name)
            {
                candidates.push(Candidate::named(kind, name, at.as_deref(), places));
            }
        }
        if all {
            candidates.push(Candidate::named(kind, kind.name, None, places));
            if kind.name == JAVA.name {
                candidates.extend(other_javas(places));
            }
        }
    }
    made(candidates, places)
}

/// A kind by its own name, whether it is in the catalogue or not.
#[cfg(test)]
pub fn prepared_alone(kind: &'static Kind) -> Prepared {
    let places = Places::here();
    made(vec![Candidate::named(kind, kind.name, None, &places)], &places).unwrap()
}

/// The runtimes of a run that goes on, built again. Those that it lacked it lacks still.
///
/// # Errors
///
/// When there is no folder for the guests.
pub fn again(before: &[Runtime], places: &Places) -> io::Result<Prepared> {
    let candidate = |runtime: &Runtime| {
        // A name from a store: it becomes that of a folder.
        let is_one = matches!(runtime.name.parse::<Asked>(), Ok(Asked::One { at: None, .. }));
        match Kind::named(&runtime.kind).filter(|_| is_one) {
            Some(kind) if runtime.lack.is_none() => {
                Candidate::at(kind, &runtime.name, Some(PathBuf::from(&runtime.program)))
            }
            _ => Candidate {
                known: Some(runtime.clone()),
                ..Candidate::at(&JAVA, &runtime.name, None)
            },
        }
    };
    made(before.iter().map(candidate).collect(), places)
}

fn made(candidates: Vec<Candidate>, places: &Places) -> io::Result<Prepared> {
    let folder = tempfile::Builder::new().prefix("threadgauge-guests-").tempdir()?;
    let mut runtimes: Vec<Runtime> = Vec::new();
    for candidate in candidates {
        if runtimes.iter().all(|known| known.name != candidate.name) {
            runtimes.push(candidate.made(places, folder.path()));
        }
    }
    Ok(Prepared {
        runtimes,
        _folder: folder,
    })
}

/// A runtime that may be there.
#[derive(Debug)]
struct Candidate {
    kind: &'static Kind,
    name: String,
    program: Option<PathBuf>,
    /// One that is known to be as it was.
    known: Option<Runtime>,
}

impl Candidate {
    fn at(kind: &'static Kind, name: &str, program: Option<PathBuf>) -> Self {
        Self {
            kind,
            name: name.to_owned(),
            program,
            known: None,
        }
    }

    /// Where it was said to be, else on the PATH. A JDK need not be on it, and `java-21` is one of that version.
    fn named(kind: &'static Kind, name: &str, at: Option<&Path>, places: &Places) -> Self {
        let on_path = || places.on_path(kind.program);
        let program = match (
            at,
            name.strip_prefix(kind.name)
                .and_then(|rest| rest.strip_prefix('-')),
        ) {
            (Some(at), _) => Some(at.to_owned()),
            (None, Some(version)) if kind.name == JAVA.name => {
                let of_all = on_path().into_iter().chain(places.in_jdks(on_path().as_deref()));
                let mut of_all = of_all.filter_map(|java| Some((version_of(&JAVA, &java).ok()?, java)));
                let is_it = |found: &str| {
                    found == version || major(found).is_some_and(|of| of.to_string() == version)
                };
                of_all.find(|(found, _)| is_it(found)).map(|(_, java)| java)
            }
            (None, Some(_)) => None,
            (None, None) if kind.name == JAVA.name => on_path().or_else(|| places.in_jdks(None).pop()),
            (None, None) => on_path(),
        };
        Self::at(kind, name, program)
    }

    fn made(self, places: &Places, folder: &Path) -> Runtime {
        if let Some(known) = &self.known {
            return known.clone();
        }
        let lacking = |lack| Runtime::lacking(&self.name, self.kind.name, lack);
        let Some(program) = &self.program else {
            let mut lack = self.kind.not_found();
            if self.name != self.kind.name {
                lack.says = format!(
                    "{} not found; name its program: --runtime {}=PATH",
                    self.name, self.name
                );
            }
            return lacking(lack);
        };
        let program = itself(self.kind, program);
        let built = version_of(self.kind, &program).and_then(|version| {
            let command = self.built(&program, places, &folder.join(&self.name))?;
            Ok((version, command))
        });
        match built {
            Ok((version, command)) => Runtime {
                name: self.name,
                kind: self.kind.name.to_owned(),
                version,
                program: program.display().to_string(),
                command,
                lack: None,
            },
            Err(why) => lacking(Lack::new(Need::Program, format!("{}: {why}", self.name))),
        }
    }

    /// The guest's program and first arguments, once its files are in `folder` and it is built there.
    fn built(&self, program: &Path, places: &Places, folder: &Path) -> Result<Vec<String>, String> {
        let kind = self.kind;
        let [from, to] = ["from", "to"].map(|name| folder.join(name));
        let written = || -> io::Result<()> {
            fs::create_dir_all(&from)?;
            fs::create_dir_all(&to)?;
            kind.files
                .iter()
                .try_for_each(|(name, text)| fs::write(from.join(name), text))
        };
        written().map_err(|error| {
            let at = folder.display();
            format!(
                "its files cannot be written to {at} ({error}); set TMPDIR to a folder that can be written to"
            )
        })?;
        let compiler = match kind.compiler {
            Some(name) => Some(places.beside(program, name).ok_or_else(|| {
                let at = program.display();
                format!("its guest is built by {name}, which is neither beside {at} nor on the PATH")
            })?),
            None => None,
        };
        let words = |of: &[&str]| -> Vec<String> {
            let shown =
                |path: Option<&Path>| path.map_or_else(String::new, |path| path.display().to_string());
            let with = |word: &&str| {
                word.replace("{program}", &shown(Some(program)))
                    .replace("{compiler}", &shown(compiler.as_deref()))
                    .replace("{from}", &shown(Some(&from)))
                    .replace("{to}", &shown(Some(&to)))
            };
            of.iter().map(with).collect()
        };
        if let Some((compiler, arguments)) = words(kind.build).split_first() {
            let mut command = Command::new(compiler);
            command.args(arguments).current_dir(&from);
            command.envs(kind.build_with.iter().copied());
            let Whole {
                status,
                output,
                complaint,
            } = whole(&mut command, TO_BUILD)?;
            if !status.success() {
                let first = first_error(&complaint).or_else(|| first_error(&output));
                let first = first.unwrap_or("it gave no reason");
                return Err(format!("{compiler} cannot build its guest: {first}"));
            }
        }
        Ok(words(kind.start))
    }
}

/// Every JDK but that on the PATH of which no other has the version, as `java-` and its version.
fn other_javas(places: &Places) -> Vec<Candidate> {
    let on_path = places.on_path(JAVA.program);
    let of = |java: &Path| major(&version_of(&JAVA, java).ok()?);
    let mut known: Vec<u64> = on_path.as_deref().and_then(of).into_iter().collect();
    let mut others = Vec::new();
    for java in places.in_jdks(on_path.as_deref()) {
        if let Some(version) = of(&java).filter(|version| !known.contains(version)) {
            known.push(version);
            others.push(Candidate::at(&JAVA, &format!("java-{version}"), Some(java)));
        }
    }
    others
}

fn whole(command: &mut Command, most: Duration) -> Result<Whole, String> {
    let talk = Talk::begin(command, most).map_err(|error| error.to_string())?;
    talk.whole().map_err(|error| {
        let program = command.get_program().to_string_lossy();
        format!("{program}: {error}")
    })
}

/// What a program says of its version: the first number, with the dots in it.
///
/// # Errors
///
/// In words: it cannot be started, ends badly, says none, or one that is too old.
fn version_of(kind: &Kind, program: &Path) -> Result<String, String> {
    let Whole {
        status,
        output,
        complaint,
    } = whole(Command::new(program).args(kind.asks_version), TO_ANSWER)?;
    let at = program.display();
    if !status.success() {
        let said = first_error(&complaint).unwrap_or("nothing");
        return Err(format!(
            "{at} does not tell its version: it ended with {status} and said {said}"
        ));
    }
    // Some say it on the one, some on the other.
    let version = first_number(&output).or_else(|| first_number(&complaint));
    let version = version.ok_or_else(|| format!("{at} does not tell its version"))?;
    match major(version) {
        Some(found) if found >= kind.least => Ok(version.to_owned()),
        _ => Err(format!(
            "{at} is of version {version}, and its guest needs {} or later",
            kind.least
        )),
    }
}

fn first_number(text: &str) -> Option<&str> {
    // What a virtual machine says first of options that it has from a variable.
    let mut lines = text.lines().filter(|line| !line.starts_with("Picked up "));
    lines.find_map(number_in)
}

fn number_in(text: &str) -> Option<&str> {
    let begin = text.find(|c: char| c.is_ascii_digit())?;
    let rest = &text[begin..];
    let end = rest
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(rest.len());
    Some(rest[..end].trim_end_matches('.'))
}

/// The program that one on the PATH starts, where it can tell; a script would be a part of every start.
fn itself(kind: &Kind, program: &Path) -> PathBuf {
    let asked = || {
        if kind.asks_path.is_empty() {
            return None;
        }
        let whole = whole(Command::new(program).args(kind.asks_path), TO_ANSWER).ok()?;
        let told = PathBuf::from(whole.output.trim_end_matches('\n'));
        (whole.status.success() && told.is_absolute() && told.is_file()).then_some(told)
    };
    asked().unwrap_or_else(|| program.to_owned())
}

#[cfg(test)]
mod tests {
    use super::super::find::tests::{places, program};
    use super::super::{GO, NODE, PYTHON};
    use super::*;

    fn asked(text: &str) -> Vec<Asked> {
        text.split(',').map(|one| one.parse().unwrap()).collect()
    }

    /// A `java` of this version, and a compiler beside it that builds, in the folder.
    fn jdk(folder: &Path, version: &str) {
        let says = format!("#!/bin/sh\necho 'openjdk version \"{version}\" 2024-10-15' >&2\n");
        program(&folder.join("bin/java"), &says);
        program(&folder.join("bin/javac"), "#!/bin/sh\nexit 0\n");
    }

    /// Name, version, and what it lacks.
    fn told(prepared: &Prepared) -> Vec<(String, String, Option<String>)> {
        let tell = |of: &Runtime| {
            let lack = of.lack.as_ref().map(|lack| lack.says.clone());
            (of.name.clone(), of.version.clone(), lack)
        };
        prepared.runtimes.iter().map(tell).collect()
    }

    /// What the one runtime lacks that was asked for.
    fn lack(asked_for: &str, places: &Places) -> String {
        let prepared = prepare(&asked(asked_for), places).unwrap();
        let [runtime] = &prepared.runtimes[..] else {
            panic!("{:?}", prepared.runtimes);
        };
        let lack = runtime.lack.clone().unwrap_or_else(|| panic!("{runtime:?}"));
        assert_eq!(lack.of, Need::Program);
        assert!(runtime.command.is_empty() && runtime.version.is_empty());
        lack.says
    }

    #[test]
    fn a_name_is_of_a_kind_and_may_say_where_it_is() {
        for text in [
            "all",
            "java",
            "java-21",
            "python-3.12=/opt/python3.12/bin/python3",
        ] {
            assert_eq!(text.parse::<Asked>().unwrap().to_string(), text);
        }
        for (text, says) in [
            ("", "`` is no name of a runtime"),
            (
                "jawa",
                "there is no runtime `jawa` (did you mean `java`?); there are all, java, go, ",
            ),
            ("all=/usr/bin/java", "there is no runtime `all`"),
            ("java-../x", "is no name of a runtime"),
            ("java=bin/java", "the path of a program begins with /"),
            ("java=", "the path of a program begins with /"),
        ] {
            let refused = text.parse::<Asked>().unwrap_err();
            assert!(refused.contains(says), "{text}: {refused}");
        }
    }

    #[test]
    fn what_is_not_on_the_path_is_a_lack_that_says_how_to_have_it() {
        let nothing = places(&[], &[]);
        let prepared = prepare(&asked("all"), &nothing).unwrap();
        let names: Vec<&str> = prepared.runtimes.iter().map(|of| of.name.as_str()).collect();
        assert_eq!(names, KINDS.map(|kind| kind.name));
        for (runtime, kind) in prepared.runtimes.iter().zip(KINDS) {
            assert_eq!(runtime.lack, Some(kind.not_found()));
        }
        assert_eq!(lack("go", &nothing), GO.not_found().says);
        let says = "node-20 not found; name its program: --runtime node-20=PATH";
        assert_eq!(lack("node-20", &nothing), says);
    }

    #[test]
    fn every_jdk_takes_part_once_by_its_version_and_the_one_on_the_path_by_its_kind() {
        let dir = tempfile::tempdir().unwrap();
        let [a, b, c, d] = ["a", "b", "c", "d"].map(|name| dir.path().join(name));
        jdk(&a, "17.0.13");
        jdk(&b, "21.0.5");
        jdk(&c, "17.0.1");
        jdk(&d, "1.8.0_392");
        let bin = a.join("bin");
        let places = places(&[&bin], &[&a, &b, &c, &d]);
        let version = |name: &str, version: &str| (name.to_owned(), version.to_owned(), None::<String>);
        let all = told(&prepare(&asked("all"), &places).unwrap());
        assert_eq!(
            all[..2],
            [version("java", "17.0.13"), version("java-21", "21.0.5")]
        );
        assert_eq!(all[2].0, "go");
        // By name, and by where it is; who is named twice is there once.
        let some = asked(&format!(
            "java-21,java,java-old={},java",
            c.join("bin/java").display()
        ));
        let some = told(&prepare(&some, &places).unwrap());
        let expected = [
            version("java-21", "21.0.5"),
            version("java", "17.0.13"),
            version("java-old", "17.0.1"),
        ];
        assert_eq!(some, expected);
        assert!(lack("java-99", &places).starts_with("java-99 not found"));
        let old = format!("java-8={}", d.join("bin/java").display());
        assert!(lack(&old, &places).contains("is of version 1.8.0, and its guest needs 11 or later"));
        // Of none on the PATH the last is taken, which has the highest number where folders are named after it.
        let elsewhere = self::places(&[], &[&c, &b]);
        let one = told(&prepare(&asked("java"), &elsewhere).unwrap());
        assert_eq!(one, [version("java", "21.0.5")]);
    }

    #[test]
    fn a_guest_is_started_as_its_kind_says_from_a_folder_that_goes_with_it() {
        let dir = tempfile::tempdir().unwrap();
        jdk(&dir.path().join("jdk"), "21.0.5");
        let bin = dir.path().join("jdk/bin");
        let prepared = prepare(&asked("java"), &places(&[&bin], &[])).unwrap();
        let [program, class_path, to, guest] = &prepared.runtimes[0].command[..] else {
            panic!("{:?}", prepared.runtimes);
        };
        assert_eq!(*program, bin.join("java").display().to_string());
        assert_eq!((class_path.as_str(), guest.as_str()), ("-cp", "Guest"));
        let source = Path::new(to).with_file_name("from").join("Guest.java");
        assert_eq!(fs::read_to_string(&source).unwrap(), JAVA.files[0].1);
        drop(prepared);
        assert!(!source.exists());
    }

    #[test]
    fn a_guest_that_cannot_be_built_is_a_lack_with_the_compilers_first_error() {
        let dir = tempfile::tempdir().unwrap();
        let bin = dir.path().join("bin");
        let here = places(&[&bin], &[]);
        let fails = "#!/bin/sh\n[ $1 = version ] && echo go version go1.26.0 linux/amd64 && exit 0\n\
                     echo '# guest' >&2; echo './main.go:3:1: undefined: x' >&2; echo more >&2; exit 1\n";
        program(&bin.join("go"), fails);
        let says = lack("go", &here);
        assert!(
            says.ends_with("/go cannot build its guest: ./main.go:3:1: undefined: x"),
            "{says}"
        );
        // Without a compiler.
        jdk(&dir.path().join("jdk"), "21");
        fs::remove_file(dir.path().join("jdk/bin/javac")).unwrap();
        let says = lack("java", &places(&[&dir.path().join("jdk/bin")], &[]));
        assert!(
            says.starts_with("java: its guest is built by javac, which is neither beside "),
            "{says}"
        );
    }

    #[test]
    fn a_program_that_tells_no_version_is_a_lack() {
        let dir = tempfile::tempdir().unwrap();
        for (number, (script, why)) in [
            ("#!/bin/sh\nexit 0\n", "does not tell its version"),
            ("#!/bin/sh\necho none\n", "does not tell its version"),
            (
                "#!/bin/sh\necho no memory >&2; exit 1\n",
                "it ended with exit status: 1 and said no memory",
            ),
            (
                "#!/bin/sh\necho v14.21.3\n",
                "is of version 14.21.3, and its guest needs 16 or later",
            ),
            ("#!/nowhere/sh\n", "cannot be started: No such file or directory"),
            ("#!/bin/sh\nkill -9 $$\n", "it ended with signal: 9"),
        ]
        .into_iter()
        .enumerate()
        {
            let bin = dir.path().join(number.to_string());
            program(&bin.join("node"), script);
            let says = lack("node", &places(&[&bin], &[]));
            assert!(
                says.starts_with("node: ") && says.contains(why),
                "{script}: {says}"
            );
        }
    }

    #[test]
    fn a_script_that_starts_another_program_is_asked_for_that() {
        let dir = tempfile::tempdir().unwrap();
        let [path, real] = ["path", "real"].map(|name| dir.path().join(name));
        let real = real.join("node");
        let says = "#!/bin/sh\n[ $1 = -p ] && echo WHERE || echo v20.1.0\n";
        program(&real, &says.replace("WHERE", &real.display().to_string()));
        program(
            &path.join("node"),
            &format!("#!/bin/sh\nexec '{}' \"$@\"\n", real.display()),
        );
        let here = places(&[&path], &[]);
        let found = prepare(&asked("node"), &here).unwrap();
        assert_eq!(found.runtimes[0].program, real.display().to_string());
        // One that does not tell is taken as it is.
        program(&real, &says.replace("WHERE", "nowhere"));
        let found = prepare(&asked("node"), &here).unwrap();
        assert_eq!(found.runtimes[0].program, path.join("node").display().to_string());
        assert_eq!(found.runtimes[0].version, "20.1.0");
    }

    #[test]
    fn a_run_goes_on_with_what_it_had_wherever_the_path_leads_now() {
        let dir = tempfile::tempdir().unwrap();
        jdk(&dir.path().join("jdk"), "21.0.5");
        let bin = dir.path().join("jdk/bin");
        let before = prepare(&asked("java,go"), &places(&[&bin], &[]))
            .unwrap()
            .runtimes;
        let nothing = places(&[], &[]);
        let now = again(&before, &nothing).unwrap();
        assert!(
            before
                .iter()
                .zip(&now.runtimes)
                .all(|(before, now)| before.is_as(now))
        );
        assert_ne!(
            before[0].command, now.runtimes[0].command,
            "it is in a folder of its own"
        );
        // Another version is another program.
        jdk(&dir.path().join("jdk"), "21.0.6");
        let newer = again(&before, &nothing).unwrap();
        assert!(!before[0].is_as(&newer.runtimes[0]));
        // A store may hold any name.
        let foreign = Runtime {
            name: "../../etc".to_owned(),
            ..before[0].clone()
        };
        assert_eq!(
            again(std::slice::from_ref(&foreign), &nothing).unwrap().runtimes,
            [foreign]
        );
    }

    #[test]
    fn the_first_number_of_what_is_said_is_the_version() {
        for (said, version) in [
            ("openjdk version \"17.0.13\" 2024-10-15", Some("17.0.13")),
            ("go version go1.26.0 linux/amd64", Some("1.26.0")),
            ("Python 3.11.2\n", Some("3.11.2")),
            ("v20.19.2", Some("20.19.2")),
            ("27", Some("27")),
            ("It is 3. No, 4.", Some("3")),
            ("none", None),
            (
                "Picked up JAVA_TOOL_OPTIONS: -Xmx512m\nopenjdk version \"21\"",
                Some("21"),
            ),
        ] {
            assert_eq!(first_number(said), version, "{said}");
        }
        assert_eq!([PYTHON, NODE].map(|kind| kind.name), ["python", "node"]);
    }
}
