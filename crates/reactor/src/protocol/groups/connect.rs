//! What server and client say of themselves: `INFO` and `CONNECT`.

use std::net::{IpAddr, SocketAddr};

use serde::Serialize;

use super::connect_json::{ClientInfo, read};
use super::options::{Access, Options};

/// Why a client cannot be served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    NotJson,
    Violation,
    Protocol,
    NoHeaders,
}

impl ClientInfo {
    /// Takes what a `CONNECT` says; what it does not say stays as it was.
    ///
    /// # Errors
    ///
    /// If the client may not connect, or wants what there is not.
    pub fn connect(&mut self, json: &[u8], access: &Access) -> Result<(), Refusal> {
        read(json, self).map_err(|_| Refusal::NotJson)?;
        // Accounts are no more than a wish to be kept apart, which nobody here is.
        let is_apart = self.new_account || !self.account.is_empty();
        if is_apart || !access.allows(&self.token.0, &self.user, &self.password.0) {
            return Err(Refusal::Violation);
        }
        let connect_options = &self.connect_options;
        if !(0..=1).contains(&connect_options.protocol) {
            return Err(Refusal::Protocol);
        }
        match connect_options.no_responders && !connect_options.headers {
            true => Err(Refusal::NoHeaders),
            false => Ok(()),
        }
    }
}

#[derive(Debug, Serialize)]
struct Info<'a> {
    server_id: &'a str,
    server_name: &'a str,
    version: &'a str,
    implementation: &'a str,
    proto: u32,
    /// Clients know that a server without it is not written in Go.
    go: &'a str,
    host: IpAddr,
    port: u16,
    headers: bool,
    max_payload: usize,
    client_id: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    client_ip: Option<IpAddr>,
    #[serde(skip_serializing_if = "is_false")]
    auth_required: bool,
    #[serde(skip_serializing_if = "is_false")]
    ldm: bool,
    #[serde(skip_serializing_if = "is_false")]
    connect_info: bool,
    /// Where the client is, once it has said who it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    remote_account: Option<&'a str>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn is_false(flag: &bool) -> bool {
    !flag
}

/// The version of the NATS server whose core protocol this is: clients ask only for what their server's version has.
pub(super) const VERSION: &str = "2.15.2";

/// What the server really is, beside that.
pub(super) const IMPLEMENTATION: &str = concat!("threadgauge ", env!("CARGO_PKG_VERSION"));

/// The one account, which all clients are in, as the NATS server calls it.
pub(super) const ACCOUNT: &str = "$G";

/// Whom an `INFO` is for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reader {
    pub client_id: u64,
    pub address: Option<SocketAddr>,
    /// The server is stopping.
    pub lame_duck: bool,
    /// The first `INFO` that it gets after its `CONNECT`.
    pub connected: bool,
}

/// The line that says what the server is.
pub(super) fn info(options: &Options, listens: SocketAddr, reader: Reader) -> String {
    let info = Info {
        server_id: &options.server_id,
        server_name: &options.server_name,
        version: VERSION,
        implementation: IMPLEMENTATION,
        proto: 1,
        go: "",
        host: listens.ip(),
        port: listens.port(),
        headers: true,
        max_payload: options.max_payload,
        client_id: reader.client_id,
        client_ip: reader.address.map(|address| address.ip()),
        auth_required: options.access != Access::Everyone,
        ldm: reader.lame_duck,
        connect_info: reader.connected,
        remote_account: reader.connected.then_some(ACCOUNT),
    };
    let json = serde_json::to_string(&info).expect("texts and numbers");
    format!("INFO {json} \r\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_said_stays() {
        let mut info = ClientInfo::default();
        let json =
            br#"{"verbose":false,"echo":false,"name":"a","lang":"rust","protocol":1,"unknown":{"x":[1]}}"#;
        assert_eq!(info.connect(json, &Access::Everyone), Ok(()));
        let connect_options = info.connect_options;
        assert!(
            !connect_options.verbose
                && connect_options.pedantic
                && !connect_options.echo
                && !connect_options.headers
        );
        assert_eq!(
            (info.name.as_str(), info.lang.as_str(), connect_options.protocol),
            ("a", "rust", 1)
        );
        assert_eq!(info.connect(b"{\"echo\":true}", &Access::Everyone), Ok(()));
        assert!(info.connect_options.echo && !info.connect_options.verbose);
        assert_eq!(info.name, "a");
    }

    #[test]
    fn who_has_said_who_it_is_need_not_say_it_again() {
        let access = Access::User {
            name: "anna".to_owned(),
            password: "s3cret".to_owned(),
        };
        let mut info = ClientInfo::default();
        assert_eq!(info.connect(b"{}", &access), Err(Refusal::Violation));
        let json = br#"{"user":"anna","pass":"s3cret"}"#;
        assert_eq!(info.connect(json, &access), Ok(()));
        assert_eq!(info.connect(b"{\"echo\":false}", &access), Ok(()));
        assert_eq!(info.user, "anna");
        assert!(!format!("{info:?}").contains("s3cret"));
        assert_eq!(info.connect(b"{\"pass\":\"\"}", &access), Err(Refusal::Violation));
    }

    #[test]
    fn what_there_is_not_is_refused() {
        for (json, refusal) in [
            ("", Refusal::NotJson),
            ("[1", Refusal::NotJson),
            ("{\"account\":\"x\"}", Refusal::Violation),
            ("{\"new_account\":true}", Refusal::Violation),
            ("{\"protocol\":2}", Refusal::Protocol),
            ("{\"protocol\":0,\"no_responders\":true}", Refusal::NoHeaders),
        ] {
            let mut info = ClientInfo::default();
            let outcome = info.connect(json.as_bytes(), &Access::Everyone);
            assert_eq!(outcome, Err(refusal), "{json}");
        }
    }

    #[test]
    fn the_info_is_one_line_of_json() {
        let options = Options {
            server_name: "a \"name\"\r\n".into(),
            access: Access::Token("s3cret".into()),
            ..Options::default()
        };
        let listens = "[::1]:4222".parse().expect("an address");
        let reader = Reader {
            client_id: 7,
            address: Some("127.0.0.1:9".parse().expect("an address")),
            lame_duck: true,
            connected: true,
        };
        let line = info(&options, listens, reader);
        assert!(!line.contains("s3cret") && line.matches('\n').count() == 1);
        let json = line
            .strip_prefix("INFO ")
            .and_then(|rest| rest.strip_suffix(" \r\n"))
            .expect("a line");
        let info: serde_json::Value = serde_json::from_str(json).expect("JSON");
        for (name, value) in [
            ("server_name", serde_json::json!("a \"name\"\r\n")),
            ("host", "::1".into()),
            ("port", 4222.into()),
            ("max_payload", 1_048_576.into()),
            ("auth_required", true.into()),
            ("ldm", true.into()),
            ("connect_info", true.into()),
            ("remote_account", "$G".into()),
            ("client_ip", "127.0.0.1".into()),
            ("version", VERSION.into()),
            ("implementation", IMPLEMENTATION.into()),
        ] {
            assert_eq!(info[name], value, "{name}");
        }
    }
}
