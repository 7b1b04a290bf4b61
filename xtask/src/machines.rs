//! `cargo xtask machines`: runs of this program in virtual machines whose kernel is started in other ways, by turns.
//!
//! Claims about two states of a machine (preemption, SMT) need several boots of each. A machine here is QEMU with a
//! kernel that is given, and a file system of this machine's own programs in its memory: it boots in seconds, runs
//! `threadgauge`, says what that stored over a serial line, and ends. Its processor is a program unless it is told
//! to be this machine's, and no claim is decided from runs on such a one: they show that all of it works.
//!
//! `cargo xtask machines --kernel vmlinuz --out DIR --state none=preempt=none --state full=preempt=full -- create ring`

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;

use crate::shell;

/// What the machine runs, besides `threadgauge`.
const PROGRAMS: [&str; 6] = ["sh", "mount", "mkdir", "ip", "od", "find"];
/// What a line of the serial port begins with that says the name of what follows.
const NAME: &str = "=== ";
/// Its processor is a program.
const MACHINE: &str = "-accel tcg,thread=multi -cpu max -smp 2 -m 2048";
/// A machine that takes longer is ended.
const LONGEST: &str = "30m";
/// What a run is stored in; all else is made from it.
const STORE: &str = "results.sqlite";
/// The last line.
const END: &str = "=== end";

/// Which machines, how often, and what they run.
#[derive(Args)]
pub struct Options {
    /// A kernel that QEMU can start (vmlinuz); of Debian that of the package linux-image-cloud-amd64
    #[arg(long, value_name = "FILE")]
    kernel: PathBuf,
    /// A state and the words for the kernel that bring it about, as none=preempt=none; two or more, or one
    #[arg(long, value_name = "NAME=WORDS", required = true)]
    state: Vec<String>,
    /// What QEMU is told of the machine; with "-accel kvm -cpu host …" it has this machine's processor
    #[arg(
        long,
        value_name = "WORDS",
        default_value = MACHINE,
        allow_hyphen_values = true
    )]
    machine: String,
    /// Boots of each state
    #[arg(long, default_value_t = 3, value_name = "N")]
    boots: u32,
    /// Where the runs go: a folder for each state
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// This program rather than one that is built for it
    #[arg(long, value_name = "PATH")]
    program: Option<PathBuf>,
    /// What `threadgauge run` is told
    #[arg(last = true, required = true, value_name = "WORDS")]
    words: Vec<String>,
}

/// Boots them by turns, and says where the runs are.
pub fn run(options: &Options) -> Result<()> {
    let program = match &options.program {
        Some(program) => shell::given(program)?,
        None => shell::build(shell::Profile::Release)?,
    };
    let states: Vec<(&str, &str)> = options
        .state
        .iter()
        .map(|state| {
            state
                .split_once('=')
                .context("--state is NAME=WORDS, as none=preempt=none")
        })
        .collect::<Result<_>>()?;
    let room = tempfile::tempdir().context("there is no room for a file system")?;
    let files = room.path().join("files.cpio");
    fs::write(&files, file_system(&program, &options.words)?)?;
    for boot in 1..=options.boots {
        for (name, words) in &states {
            eprintln!("boot {boot} of {}: {name}", options.boots);
            let said = boot_once(options, &files, words, room.path())?;
            let to = options.out.join(name);
            fs::create_dir_all(&to).with_context(|| format!("cannot make {}", to.display()))?;
            let found = stored(&said).with_context(|| format!("{name}, boot {boot}"))?;
            ensure!(!found.is_empty(), "{name}, boot {boot}: no run came back");
            for (of, bytes) in found {
                let folder = to.join(format!("{boot}{of}"));
                fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
                let file = folder.join(STORE);
                fs::write(&file, bytes).with_context(|| format!("cannot write {}", file.display()))?;
                println!("{}", folder.display());
            }
        }
    }
    Ok(())
}

/// Starts a machine, waits for its end, and gives what it said on its second serial line.
fn boot_once(options: &Options, files: &Path, words: &str, room: &Path) -> Result<String> {
    let (console, line) = (room.join("console"), room.join("line"));
    let mut qemu = shell::command("timeout");
    qemu.args([LONGEST, "qemu-system-x86_64"]);
    qemu.args(options.machine.split_whitespace())
        .args([
            "-display",
            "none",
            "-monitor",
            "none",
            "-no-reboot",
            "-nic",
            "none",
        ])
        .arg("-kernel")
        .arg(&options.kernel)
        .arg("-initrd")
        .arg(files)
        .arg("-append")
        .arg(format!("console=ttyS0 panic=-1 rdinit=/init quiet {words}"))
        .arg("-serial")
        .arg(format!("file:{}", console.display()))
        .arg("-serial")
        .arg(format!("file:{}", line.display()));
    let told = |path: &Path| fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    shell::run(&mut qemu)?;
    let said = told(&line).unwrap_or_default();
    if !said.contains(END) {
        let console = told(&console).unwrap_or_default();
        let lines: Vec<&str> = console.lines().collect();
        let last = lines[lines.len().saturating_sub(30)..].join("\n");
        bail!("the machine ended before its run did. The end of its console:\n{last}");
    }
    Ok(said)
}

/// The runs that a machine said: what their names end with, and their bytes.
fn stored(said: &str) -> Result<BTreeMap<String, Vec<u8>>> {
    let mut found = BTreeMap::new();
    let mut bytes: Option<&mut Vec<u8>> = None;
    for line in said.lines().map(str::trim) {
        if line == END {
            return Ok(found);
        }
        if let Some(name) = line.strip_prefix(NAME) {
            let of = name.trim_matches(['.', '/']).replace('/', "-");
            let of = if of.is_empty() { of } else { format!("-{of}") };
            bytes = Some(found.entry(of).or_default());
            continue;
        }
        for byte in line.split_whitespace() {
            let byte =
                u8::from_str_radix(byte, 16).with_context(|| format!("`{line}` is no line of bytes"))?;
            bytes.as_mut().context("bytes came before a name")?.push(byte);
        }
    }
    bail!("there is no end")
}

/// An archive of what the machine needs, as the kernel unpacks it.
fn file_system(program: &Path, words: &[String]) -> Result<Vec<u8>> {
    let mut archive = Archive::default();
    let mut files: BTreeMap<PathBuf, PathBuf> = BTreeMap::new();
    for name in PROGRAMS {
        let at =
            shell::find(name).with_context(|| format!("the machine needs `{name}`, which is not here"))?;
        files.insert(Path::new("/bin").join(name), at);
    }
    files.insert("/bin/threadgauge".into(), program.to_owned());
    for of in files.values().cloned().collect::<Vec<_>>() {
        for library in libraries(&of)? {
            files.insert(library.clone(), library);
        }
    }
    if Path::new("/etc/os-release").exists() {
        files.insert("/etc/os-release".into(), "/etc/os-release".into());
    }
    for folder in ["dev", "proc", "sys", "tmp", "out"] {
        archive.folder(folder);
    }
    for (place, from) in &files {
        let bytes = fs::read(from).with_context(|| format!("cannot read {}", from.display()))?;
        archive.file(place, &bytes);
    }
    let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
    archive.file(Path::new("/init"), init(&words.join(" ")).as_bytes());
    Ok(archive.finish())
}

/// The machine's first program.
fn init(words: &str) -> String {
    format!(
        "#!/bin/sh\n\
         export PATH=/bin HOME=/tmp\n\
         mount -t proc proc /proc; mount -t sysfs sysfs /sys; mount -t devtmpfs dev /dev\n\
         mount -t debugfs debugfs /sys/kernel/debug; mount -t tmpfs tmpfs /tmp; mount -t tmpfs tmpfs /out\n\
         mkdir -p /dev/shm; mount -t tmpfs tmpfs /dev/shm; ip link set lo up\n\
         cd /tmp\n\
         threadgauge run {words} --out /out/r >/dev/ttyS0 2>&1\n\
         cd /out/r; find . -name {STORE} | while read -r store; do\n\
         echo \"{NAME}${{store%{STORE}}}\" >/dev/ttyS1; od -An -v -tx1 \"$store\" >/dev/ttyS1\n\
         done\n\
         echo '{END}' >/dev/ttyS1\n\
         echo o >/proc/sysrq-trigger; read -r forever </dev/ttyS1\n"
    )
}

/// A word for a shell.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// The libraries that a program is linked against, with the one that loads it.
fn libraries(program: &Path) -> Result<BTreeSet<PathBuf>> {
    let said = shell::output(shell::command("ldd").arg(program))?;
    Ok(said
        .split_whitespace()
        .filter(|word| word.starts_with('/'))
        .map(PathBuf::from)
        .collect())
}

/// A cpio archive of the kind that the kernel unpacks into its first file system (`newc`).
#[derive(Default)]
struct Archive {
    bytes: Vec<u8>,
    folders: BTreeSet<PathBuf>,
    entries: u32,
}

impl Archive {
    const FOLDER: u32 = 0o040_755;
    const FILE: u32 = 0o100_755;

    fn folder(&mut self, name: &str) {
        if self.folders.insert(PathBuf::from(name)) {
            self.entry(name, Self::FOLDER, &[]);
        }
    }

    /// With the folders that it is in.
    fn file(&mut self, place: &Path, bytes: &[u8]) {
        let name = place.strip_prefix("/").unwrap_or(place);
        let mut above: Vec<&Path> = name.ancestors().skip(1).collect();
        above.reverse();
        for folder in above.iter().filter(|folder| !folder.as_os_str().is_empty()) {
            self.folder(&folder.to_string_lossy());
        }
        self.entry(&name.to_string_lossy(), Self::FILE, bytes);
    }

    fn entry(&mut self, name: &str, mode: u32, bytes: &[u8]) {
        self.entries += 1;
        let numbers = [
            self.entries,
            mode,
            0,
            0,
            1,
            0,
            bytes.len() as u32,
            0,
            0,
            0,
            0,
            name.len() as u32 + 1,
            0,
        ];
        self.bytes.extend(b"070701");
        self.bytes.extend(
            numbers
                .iter()
                .flat_map(|number| format!("{number:08x}").into_bytes()),
        );
        self.bytes.extend(name.bytes());
        self.bytes.push(0);
        self.padded();
        self.bytes.extend(bytes);
        self.padded();
    }

    fn padded(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }

    fn finish(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", 0, &[]);
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_machine_says_is_read_back() {
        let said = format!("{NAME}./\r\n 1f 8b\r\n 00\r\n{NAME}./a/\r\n 0a\r\n{END}\r\n");
        let found = stored(&said).unwrap();
        assert_eq!(found[""], [0x1f, 0x8b, 0]);
        assert_eq!(found["-a"], [0x0a]);
        assert!(stored("=== ./\n 1f").unwrap_err().to_string().contains("no end"));
        assert!(stored("zz\n").is_err() && stored("1f\n").is_err());
    }

    #[test]
    fn an_archive_has_each_folder_once_and_before_what_is_in_it() {
        let mut archive = Archive::default();
        archive.file(Path::new("/lib/x/a"), b"abc");
        archive.file(Path::new("/lib/x/b"), b"");
        let bytes = archive.finish();
        assert_eq!(bytes.len() % 4, 0);
        let text = String::from_utf8_lossy(&bytes);
        let names: Vec<&str> = text
            .split("070701")
            .skip(1)
            .map(|entry| entry[104..].split('\0').next().unwrap())
            .collect();
        assert_eq!(names, ["lib", "lib/x", "lib/x/a", "lib/x/b", "TRAILER!!!"]);
    }

    #[test]
    fn a_word_is_one_for_a_shell_whatever_is_in_it() {
        let word = quoted("echo 'a b' > x; $y");
        let output = shell::output(shell::command("sh").args(["-c", &format!("printf %s {word}")]));
        assert_eq!(output.unwrap(), "echo 'a b' > x; $y");
        assert!(init(&word).contains(&word));
    }
}
