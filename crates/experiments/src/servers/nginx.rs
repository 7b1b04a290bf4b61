//! nginx with one page, from memory and from a file: how it is started.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;
use threadgauge_lab::prelude::*;
use threadgauge_lab::server::{Cpus, Listens, Server, free_port};

use super::{program, version_of};

/// Its name on the path.
pub const NGINX: &str = "nginx";
/// Where it has the page from memory, and where from a file.
pub const PATHS: [&str; 2] = ["/memory", "/file"];
/// A word of its settings may have some 4,000 bytes; longer pages are of several.
const PIECE: usize = 3_800;

/// What it serves.
#[derive(Clone, Copy, Debug)]
pub struct Page<'a> {
    /// Of letters.
    pub text: &'a str,
    /// How a file is sent: by `sendfile`, or by reading it and sending that with its head.
    pub sendfile: bool,
}

/// An nginx of one worker that listens. Dropped, it is ended.
#[derive(Debug)]
pub struct Nginx {
    /// Itself. Before its folder, so that it ends first.
    pub server: Server,
    /// Settings, page, and what it makes itself.
    _folder: TempDir,
}

impl Nginx {
    /// Starts it with this page for so many connections, and comes back when it listens.
    ///
    /// # Errors
    ///
    /// Skipped where it is not on the path; else as [`Server::start_that`].
    pub fn start(page: Page<'_>, connections: u64, cpus: &Cpus) -> Result<Self, CaseError> {
        let broken = |error| {
            let what = "a folder for nginx; set TMPDIR to one that can be written to";
            CaseError::failed(what, error)
        };
        let folder = tempfile::Builder::new()
            .prefix("threadgauge-nginx-")
            // Its worker is another user where it is started by root.
            .permissions(Permissions::from_mode(0o755))
            .tempdir()
            .map_err(broken)?;
        let at = folder.path();
        let port = free_port()?;
        fs::write(at.join("page"), page.text).map_err(broken)?;
        fs::set_permissions(at.join("page"), Permissions::from_mode(0o644)).map_err(broken)?;
        fs::write(at.join("settings"), settings(at, page, connections, port)).map_err(broken)?;
        let mut command = Command::new(program(NGINX).unwrap_or_else(|| NGINX.into()));
        command.arg("-p").arg(at).arg("-c").arg(at.join("settings"));
        Ok(Self {
            server: Server::start_that(Listens::At(port), command, cpus)?,
            _folder: folder,
        })
    }
}

/// That of nginx on the path, as `nginx/1.22.1`.
#[must_use]
pub fn version() -> Option<String> {
    version_of(NGINX, "-v", "nginx/")
}

/// As a user would have them who wants it fast: no log, nothing in a head that can be left out, open files kept.
fn settings(folder: &Path, page: Page<'_>, connections: u64, port: u16) -> String {
    let folder = folder.display();
    // Where fewer than a sixteenth are free, it closes connections that are kept.
    let most = 2 * connections + 512;
    let descriptors = most + 64;
    let folders: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|name| format!("{name}_temp_path {folder}/{name};\n"))
        .concat();
    let sendfile = match page.sendfile {
        true => "sendfile on; tcp_nopush on;",
        false => "sendfile off;",
    };
    let pieces: Vec<&[u8]> = page.text.as_bytes().chunks(PIECE).collect();
    let in_memory = match pieces[..] {
        [all] => format!("return 200 \"{}\";", all.escape_ascii()),
        _ => {
            let set = |(i, piece): (usize, &&[u8])| format!("set $piece{i} \"{}\";\n", piece.escape_ascii());
            let set: String = pieces.iter().enumerate().map(set).collect();
            let all: String = (0..pieces.len()).map(|i| format!("${{piece{i}}}")).collect();
            format!("{set}return 200 \"{all}\";")
        }
    };
    let [memory_path, file_path] = PATHS;
    format!(
        "daemon off;
worker_processes 1;
worker_rlimit_nofile {descriptors};
pid {folder}/pid;
error_log stderr;
events {{ worker_connections {most}; }}
http {{
{folders}
access_log off;
{sendfile}
server_tokens off;
etag off;
open_file_cache max=10 inactive=1h;
open_file_cache_valid 1h;
keepalive_timeout 1h;
keepalive_requests 1000000000;
default_type text/plain;
server {{
listen 127.0.0.1:{port} backlog=4096;
location = {memory_path} {{
{in_memory}
}}
location = {file_path} {{ alias {folder}/page; }}
location / {{ return 404; }}
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
        for bytes in [1, PIECE, PIECE + 1, 16_384] {
            let text: String = ('a'..='z').cycle().take(bytes).collect();
            let page = Page {
                text: &text,
                sendfile: bytes > PIECE,
            };
            let nginx = match Nginx::start(page, 5, &cpus) {
                Err(CaseError::Skipped(lack)) => {
                    assert!(program(NGINX).is_none() && lack.says.contains(NGINX), "{lack:?}");
                    return;
                }
                started => started.unwrap(),
            };
            assert!(version().is_some_and(|version| version.starts_with("nginx/")));
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
                assert!(body == text, "{path}: {} bytes instead of {bytes}", body.len());
            }
        }
    }
}
