//! Where the programs of runtimes are: on the PATH, where a user named one, and for Java wherever JDKs are installed.
//!
//! Owns the search alone: it looks at files and starts nothing. What it is to look at is data, so that tests make a
//! machine up.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// Where to look.
#[derive(Debug, Clone)]
pub struct Places {
    /// As the variable PATH has them.
    pub path: OsString,
    /// Folders of which each may hold a JDK: those below are looked at in order of their names.
    pub jdks: Vec<PathBuf>,
}

impl Places {
    /// Those of this machine: distributions install JDKs below `/usr/lib/jvm`, and `JAVA_HOME` is one.
    #[must_use]
    pub fn here() -> Self {
        let mut jdks = folders_below(Path::new("/usr/lib/jvm"));
        jdks.extend(env::var_os("JAVA_HOME").map(PathBuf::from));
        Self {
            path: env::var_os("PATH").unwrap_or_default(),
            jdks,
        }
    }

    /// The first program of this name on the PATH that this user may execute.
    #[must_use]
    pub fn on_path(&self, name: &str) -> Option<PathBuf> {
        env::split_paths(&self.path)
            .filter(|folder| folder.is_absolute())
            .map(|folder| folder.join(name))
            .find(|program| is_program(program))
    }

    /// `name` beside a program, wherever links lead from it, else on the PATH: a compiler belongs to its runtime.
    #[must_use]
    pub fn beside(&self, program: &Path, name: &str) -> Option<PathBuf> {
        let at = fs::canonicalize(program).unwrap_or_else(|_| program.to_owned());
        [at.as_path(), program]
            .into_iter()
            .map(|program| program.with_file_name(name))
            .find(|beside| is_program(beside))
            .or_else(|| self.on_path(name))
    }

    /// Every `java` in the folders of JDKs that is not the one at `except`, each once, however many links lead to it.
    #[must_use]
    pub fn in_jdks(&self, except: Option<&Path>) -> Vec<PathBuf> {
        let except = except.and_then(|path| fs::canonicalize(path).ok());
        let mut known: Vec<PathBuf> = except.into_iter().collect();
        let mut found = Vec::new();
        for program in self.jdks.iter().map(|jdk| jdk.join("bin").join("java")) {
            let Ok(at) = fs::canonicalize(&program) else {
                continue;
            };
            if is_program(&at) && !known.contains(&at) {
                known.push(at);
                found.push(program);
            }
        }
        found
    }
}

/// The folders directly below one, in order of their names.
fn folders_below(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    let mut folders: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.is_dir())
        .collect();
    folders.sort_by(|a, b| name_of(a).cmp(name_of(b)));
    folders
}

fn name_of(path: &Path) -> &OsStr {
    path.file_name().unwrap_or_default()
}

/// Whether it is a file that somebody may execute: whether it is this user the kernel says when it is started.
fn is_program(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|about| about.is_file() && about.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
pub(crate) mod tests {
    use std::io::Write as _;
    use std::os::unix::fs::symlink;
    use std::process::{Command, Stdio};

    use super::*;

    /// A program, in folders that are made where they are not.
    pub(crate) fn program(at: &Path, text: &str) {
        fs::create_dir_all(at.parent().unwrap()).unwrap();
        // By another process: what a test beside this starts has all files of this one open for a moment, and a file
        // that is open for writing is no program.
        let mut child = Command::new("sh")
            .args(["-c", "cat >\"$0\" && chmod 755 \"$0\""])
            .arg(at)
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        assert!(child.wait().unwrap().success());
    }

    /// A machine whose PATH is these folders.
    pub(crate) fn places(path: &[&Path], jdks: &[&Path]) -> Places {
        Places {
            path: env::join_paths(path).unwrap(),
            jdks: jdks.iter().map(|jdk| jdk.to_path_buf()).collect(),
        }
    }

    #[test]
    fn the_first_program_of_a_name_on_the_path_is_taken_and_what_is_none_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let [a, b, c] = ["a", "b", "c"].map(|name| dir.path().join(name));
        program(&b.join("go"), "");
        program(&c.join("go"), "");
        // A folder of the name, and a file that nobody may execute.
        fs::create_dir_all(a.join("go")).unwrap();
        fs::write(a.join("node"), "").unwrap();
        let places = places(&[&a, &b, &c], &[]);
        assert_eq!(places.on_path("go"), Some(b.join("go")));
        assert_eq!(places.on_path("node"), None);
        assert_eq!(places.on_path("java"), None);
        assert_eq!(self::places(&[], &[]).on_path("go"), None);
        // What is in the folder that one happens to be in is nobody's program.
        assert_eq!(self::places(&[Path::new(".")], &[]).on_path("Cargo.toml"), None);
    }

    #[test]
    fn a_compiler_is_looked_for_where_links_lead_then_beside_then_on_the_path() {
        let dir = tempfile::tempdir().unwrap();
        let [path, jdk, bare] = ["path", "jdk/bin", "bare"].map(|name| dir.path().join(name));
        program(&jdk.join("java"), "");
        program(&jdk.join("javac"), "");
        program(&path.join("javac"), "");
        program(&bare.join("java"), "");
        symlink(jdk.join("java"), path.join("java")).unwrap();
        let places = places(&[&path], &[]);
        let real = fs::canonicalize(jdk.join("javac")).unwrap();
        assert_eq!(places.beside(&path.join("java"), "javac"), Some(real));
        assert_eq!(
            places.beside(&bare.join("java"), "javac"),
            Some(path.join("javac"))
        );
        assert_eq!(places.beside(&bare.join("java"), "erlc"), None);
    }

    #[test]
    fn a_jdk_is_found_once_and_the_one_on_the_path_is_no_other() {
        let dir = tempfile::tempdir().unwrap();
        let [path, first, second, link] =
            ["path", "jdk-17", "jdk-25", "default"].map(|name| dir.path().join(name));
        program(&first.join("bin/java"), "");
        program(&second.join("bin/java"), "");
        fs::create_dir_all(&path).unwrap();
        symlink(first.join("bin/java"), path.join("java")).unwrap();
        symlink(&second, &link).unwrap();
        let empty = dir.path().join("empty");
        fs::create_dir_all(&empty).unwrap();
        let places = places(&[&path], &[&link, &empty, &first, &second]);
        let on_path = places.on_path("java").unwrap();
        assert_eq!(places.in_jdks(Some(&on_path)), [link.join("bin/java")]);
        assert_eq!(
            places.in_jdks(None),
            [link.join("bin/java"), first.join("bin/java")]
        );
    }

    #[test]
    fn folders_are_looked_at_in_the_order_of_their_names() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["b", "a", "c"] {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        fs::write(dir.path().join("file"), "").unwrap();
        let folders = folders_below(dir.path());
        let names: Vec<_> = folders
            .iter()
            .map(|folder| name_of(folder).to_string_lossy())
            .collect();
        assert_eq!(names, ["a", "b", "c"]);
        assert!(folders_below(&dir.path().join("none")).is_empty());
    }
}
