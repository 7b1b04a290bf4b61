//! nginx with one page, from memory and from a file: how it is started.

use std::fs::File;
use std::process::Command;

use rustix::process::geteuid;
use threadgauge_lab::prelude::*;
use threadgauge_lab::server::{Cpus, Listens, Server, free_port};

use super::{file_in_memory, path_of, program};

/// Its name on the path.
pub const NGINX: &str = "nginx";
/// Where it has the page from memory, and where from a file.
pub const PATHS: [&str; 2] = ["/memory", "/file"];
/// A word of its settings may have some 4,000 bytes; longer pages are of several.
const PIECE: usize = 1024;

/// An nginx of one worker that listens. Dropped, it is ended.
#[derive(Debug)]
pub struct Nginx {
    /// Itself.
    pub server: Server,
    /// What it reads and writes while it runs.
    _files: [File; 3],
}

impl Nginx {
    /// Starts it with this page, of letters, for so many connections, and comes back when it listens.
    ///
    /// # Errors
    ///
    /// Skipped where it is not on the path; else as [`Server::start_that`].
    pub fn start(page: &str, connections: u64, cpus: &Cpus) -> Result<Self, CaseError> {
        let broken = |error| CaseError::failed("a folder for nginx", error);
        let folder = tempfile::Builder::new().prefix("threadgauge-nginx-").tempdir();
        let folder = folder.map_err(broken)?;
        let nginx = Self::start_in(&folder.path().display().to_string(), page, connections, cpus)?;
        // There it made folders for what it is sent, which nobody does, before it listened.
        folder.close().map_err(broken)?;
        Ok(nginx)
    }

    fn start_in(folder: &str, page: &str, connections: u64, cpus: &Cpus) -> Result<Self, CaseError> {
        let port = free_port()?;
        let [page_file, pid] = [page, ""].map(|bytes| file_in_memory(bytes.as_bytes()));
        let (page_file, pid) = (page_file?, pid?);
        let paths = [&pid, &page_file].map(path_of);
        let settings = file_in_memory(settings(folder, page, &paths, connections, port).as_bytes())?;
        let mut command = Command::new(program(NGINX).unwrap_or_else(|| NGINX.into()));
        command.args(["-e", "stderr", "-p", folder, "-c", &path_of(&settings)]);
        Ok(Self {
            server: Server::start_that(Listens::At(port), command, cpus)?,
            _files: [page_file, pid, settings],
        })
    }
}

/// As a user would have them who wants it fast: no log, `sendfile`, open files kept.
fn settings(folder: &str, page: &str, [pid, file]: &[String; 2], connections: u64, port: u16) -> String {
    let user = match geteuid().is_root() {
        true => "user root;",
        // It stays who it is, and would complain.
        false => "",
    };
    // Where fewer than a sixteenth are free, it closes connections that are kept.
    let most = 2 * connections + 512;
    let descriptors = most + 64;
    let (mut pieces, mut in_memory) = (String::new(), String::new());
    for (i, piece) in page.as_bytes().chunks(PIECE).enumerate() {
        pieces += &format!("set $piece{i} \"{}\";\n", piece.escape_ascii());
        in_memory += &format!("${{piece{i}}}");
    }
    let folders: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|name| format!("{name}_temp_path {folder}/{name};\n"))
        .concat();
    let [memory_path, file_path] = PATHS;
    format!(
        "daemon off;
{user}
worker_processes 1;
worker_rlimit_nofile {descriptors};
pid {pid};
events {{ worker_connections {most}; }}
http {{
{folders}
access_log off;
sendfile on;
tcp_nopush on;
open_file_cache max=10 inactive=1h;
open_file_cache_valid 1h;
keepalive_timeout 1h;
keepalive_requests 1000000000;
default_type text/plain;
server {{
listen 127.0.0.1:{port} backlog=4096;
{pieces}location = {memory_path} {{ return 200 \"{in_memory}\"; }}
location = {file_path} {{ alias {file}; }}
}}
}}
"
    )
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpStream;

    use super::*;

    #[test]
    fn it_has_the_page_from_memory_and_from_a_file() {
        let cpus = Cpus::divided(1).unwrap();
        for bytes in [1, PIECE, PIECE + 1, 16 * PIECE] {
            let page: String = ('a'..='z').cycle().take(bytes).collect();
            let nginx = match Nginx::start(&page, 5, &cpus) {
                Err(CaseError::Skipped(lack)) => {
                    assert!(program(NGINX).is_none() && lack.says.contains(NGINX), "{lack:?}");
                    return;
                }
                started => started.unwrap(),
            };
            for path in PATHS {
                let mut client = TcpStream::connect(nginx.server.address()).unwrap();
                write!(
                    client,
                    "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
                )
                .unwrap();
                let mut said = String::new();
                client.read_to_string(&mut said).unwrap();
                let (head, body) = said.split_once("\r\n\r\n").unwrap();
                assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{path}: {head}");
                assert!(body == page, "{path}: {} bytes instead of {bytes}", body.len());
            }
        }
    }
}
