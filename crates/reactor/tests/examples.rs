//! Every example runs, says what it should, and is as short as it is called.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, ChildStderr, Command, Stdio};

/// An example that serves, ended with the test.
struct Example {
    child: Child,
    said: BufReader<ChildStderr>,
    address: String,
}

impl Example {
    /// Cargo has built it beside this test.
    fn start(name: &str, arguments: &[&str]) -> Self {
        let this = std::env::current_exe().expect("a test has a path");
        let folder: PathBuf = this
            .parent()
            .and_then(|deps| deps.parent())
            .expect("a build folder")
            .join("examples");
        let path = folder.join(name);
        assert!(
            path.exists(),
            "{} is missing: `cargo test -p threadgauge-reactor` builds it",
            path.display()
        );
        let mut child = Command::new(path)
            .args(arguments)
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut said = BufReader::new(child.stderr.take().expect("piped"));
        let mut first = String::new();
        said.read_line(&mut first).expect("a line");
        let address = first.strip_prefix("listening on ").expect("it listens");
        Self {
            address: address.trim_end().to_owned(),
            child,
            said,
        }
    }

    fn connect(&self) -> TcpStream {
        TcpStream::connect(&self.address).expect("it accepts")
    }

    /// Told to stop, what else it said.
    fn stop(mut self) -> String {
        let kill = Command::new("kill").arg(self.child.id().to_string()).status();
        assert!(kill.expect("kill runs").success());
        let mut said = String::new();
        self.said.read_to_string(&mut said).expect("text");
        assert!(self.child.wait().expect("it ends").success(), "{said}");
        said
    }
}

impl Drop for Example {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn expect(client: &mut TcpStream, text: &str) {
    let mut came = vec![0; text.len()];
    client.read_exact(&mut came).expect("as much as is expected");
    assert_eq!(String::from_utf8_lossy(&came), text);
}

#[test]
fn echo_echoes() {
    let example = Example::start("echo", &[]);
    let mut client = example.connect();
    client.write_all(b"hello").expect("sent");
    expect(&mut client, "hello");
    assert_eq!(example.stop(), "5 bytes came back\n");
}

#[test]
fn chat_runs_on_the_design_that_is_named() {
    for design in ["reactor", "thread-per-connection"] {
        let example = Example::start("chat", &[design]);
        let [mut anna, mut ben] = [(); 2].map(|()| example.connect());
        for (client, here) in [(&mut anna, 1), (&mut ben, 2)] {
            expect(client, "which room?\n");
            client.write_all(b"garden\n").expect("sent");
            expect(client, &format!("{here} here\n"));
        }
        ben.write_all(b"hello Anna\n").expect("sent");
        expect(&mut anna, "hello Anna\n");
        assert_eq!(example.stop(), "3 lines, 1 deliveries\n");
    }
}

#[test]
fn they_are_as_short_as_they_are_called_and_the_readme_shows_them() {
    for (text, most) in [
        (include_str!("../examples/echo.rs"), 30),
        (include_str!("../examples/chat.rs"), 60),
    ] {
        assert!(text.lines().count() <= most, "{} lines", text.lines().count());
        // What only the linter wants to know is left out there.
        let shown = text.replace("#![allow(clippy::print_stderr)]\n", "");
        assert!(
            include_str!("../README.md").contains(&shown),
            "the readme shows another:\n{text}"
        );
    }
}
