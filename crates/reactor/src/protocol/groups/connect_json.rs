//! What a client says of itself, and how its JSON is read: as Go's `encoding/json` does, since clients were made for a
//! server that uses that.
//!
//! Names are read without regard to case, the last of two equal ones counts, and null is as if nothing were said. What
//! is no text becomes U+FFFD: each byte that is not UTF-8, and each half of a surrogate pair that stands alone.

use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::Error;

/// How a client wants to be served.
#[derive(Clone, Copy, Debug)]
pub(super) struct ConnectOptions {
    /// An answer to each operation.
    pub verbose: bool,
    /// Subjects are looked at when it publishes.
    pub pedantic: bool,
    /// It gets its own messages.
    pub echo: bool,
    pub headers: bool,
    /// It wants to be told that nobody hears its request.
    pub no_responders: bool,
    /// 1 and above: it understands an `INFO` at any time.
    pub protocol: i64,
}

/// Of a client that has said nothing.
impl Default for ConnectOptions {
    fn default() -> Self {
        Self {
            verbose: true,
            pedantic: true,
            echo: true,
            headers: false,
            no_responders: false,
            protocol: 0,
        }
    }
}

/// What a client says of itself.
#[derive(Clone, Debug, Default)]
pub(super) struct ClientInfo {
    pub connect_options: ConnectOptions,
    pub name: String,
    pub lang: String,
    pub version: String,
    pub user: String,
    pub token: Secret,
    pub password: Secret,
    /// With whom it wants to be together.
    pub account: String,
    /// Or alone.
    pub new_account: bool,
}

/// What is not shown by `Debug`.
#[derive(Clone, Default)]
pub(super) struct Secret(pub String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

/// Takes over what a `CONNECT` says; what it does not say stays as it was.
///
/// # Errors
///
/// If it is no JSON, not an object, or a value of another type than belongs to its name.
pub(super) fn read(json: &[u8], into: &mut ClientInfo) -> Result<(), Error> {
    let json = text(json, <[u8]>::len);
    // Where texts are read as bytes, control characters in them are not refused.
    serde_json::from_str::<IgnoredAny>(&json)?;
    serde_json::Deserializer::from_str(&json).deserialize_any(Connect(into))
}

/// Whether it is an object, or nothing.
pub(super) fn is_object(json: &[u8]) -> bool {
    let json = text(json, <[u8]>::len);
    let is_object = json.trim_start().starts_with('{') || json.trim() == "null";
    is_object && serde_json::from_str::<IgnoredAny>(&json).is_ok()
}

/// What is said, and where it goes.
struct Connect<'a>(&'a mut ClientInfo);

impl<'de> Visitor<'de> for Connect<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let info = self.0;
        let options = &mut info.connect_options;
        while let Some(Text(name)) = map.next_key()? {
            match &*folded(&name) {
                "verbose" => put(&mut options.verbose, map.next_value()?),
                "pedantic" => put(&mut options.pedantic, map.next_value()?),
                "echo" => put(&mut options.echo, map.next_value()?),
                "headers" => put(&mut options.headers, map.next_value()?),
                "no_responders" => put(&mut options.no_responders, map.next_value()?),
                "protocol" => put(&mut options.protocol, map.next_value()?),
                "new_account" => put(&mut info.new_account, map.next_value()?),
                "name" => put_text(&mut info.name, map.next_value()?),
                "lang" => put_text(&mut info.lang, map.next_value()?),
                "version" => put_text(&mut info.version, map.next_value()?),
                "user" => put_text(&mut info.user, map.next_value()?),
                "pass" => put_text(&mut info.password.0, map.next_value()?),
                "auth_token" => put_text(&mut info.token.0, map.next_value()?),
                "account" => put_text(&mut info.account, map.next_value()?),
                // Of no use here, but they have their types.
                "tls_required" => drop(map.next_value::<Option<bool>>()?),
                "nkey" | "jwt" | "sig" | "proxy_sig" | "remote_account" => {
                    drop(map.next_value::<Option<Text>>()?);
                }
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }
}

fn put<T>(place: &mut T, said: Option<T>) {
    if let Some(said) = said {
        *place = said;
    }
}

fn put_text(place: &mut String, said: Option<Text>) {
    put(place, said.map(|text| text.0));
}

/// A name as Go compares it: two characters beyond ASCII are the same as a letter of it.
fn folded(name: &str) -> String {
    let fold = |char| match char {
        '\u{17f}' => 's',
        '\u{212a}' => 'k',
        char => char.to_ascii_lowercase(),
    };
    name.chars().map(fold).collect()
}

/// A text, whatever it holds.
struct Text(String);

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Bytes;
        impl Visitor<'_> for Bytes {
            type Value = Text;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text")
            }

            fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Text, E> {
                // Half of a surrogate pair, the only thing left that is no text, comes as three bytes.
                Ok(Text(text(bytes, |invalid| usize::from(invalid[0] == 0xed))))
            }
        }
        deserializer.deserialize_bytes(Bytes)
    }
}

/// These bytes as text, with so many U+FFFD for each piece that is none.
fn text(bytes: &[u8], replaced: impl Fn(&[u8]) -> usize) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        let count = match chunk.invalid() {
            [] => 0,
            invalid => replaced(invalid),
        };
        text.extend(std::iter::repeat_n('\u{fffd}', count));
    }
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn name(value: &[u8]) -> Option<String> {
        let mut info = ClientInfo::default();
        let json = [b"{\"name\":", value, b"}"].concat();
        read(&json, &mut info).ok().map(|()| info.name)
    }

    #[test]
    fn names_are_read_as_go_reads_them() {
        for (json, echo) in [
            ("{}", Some(true)),
            ("null", Some(true)),
            (" { } ", Some(true)),
            ("{\"echo\":false}", Some(false)),
            ("{\"ECHO\":false}", Some(false)),
            ("{\"eCh\\u006f\":false}", Some(false)),
            ("{\"echo\":true,\"echo\":false}", Some(false)),
            ("{\"echo\":false,\"Echo\":true}", Some(true)),
            ("{\"echo\":false,\"echo\":null}", Some(false)),
            ("{\"echo\":null}", Some(true)),
            ("{\"e cho\":false,\"\\ud800echo\":false}", Some(true)),
            ("{\"echo\":0}", None),
            ("{\"echo\":\"false\"}", None),
            ("{\"echo\":[]}", None),
            ("{\"echo\":false,\"name\":null}", Some(false)),
            // Two that are no ASCII: a long s, and the sign of kelvin.
            ("{\"echo\":false,\"pa\u{17f}s\":1}", None),
            ("{\"echo\":false,\"n\u{212a}ey\":1}", None),
            ("{\"echo\":false,\"x\":{\"y\":[1,2.5e400,{}]}}", Some(false)),
            ("{\"echo\":false,\"x\":}", None),
            ("{\"echo\":false} x", None),
            ("{\"echo\":false}{}", None),
            ("{\"echo\":false,}", None),
            ("{\"tls_required\":true}", Some(true)),
            ("{\"tls_required\":1}", None),
            ("{\"jwt\":\"\",\"sig\":null}", Some(true)),
            ("{\"jwt\":{}}", None),
            ("{\"protocol\":1.0}", None),
            ("{\"protocol\":1e0}", None),
            ("{\"protocol\":9223372036854775808}", None),
            ("", None),
            ("[]", None),
            ("[true]", None),
            ("\"x\"", None),
            ("0", None),
            ("true", None),
            ("nul", None),
            ("{", None),
        ] {
            let mut info = ClientInfo::default();
            let read = read(json.as_bytes(), &mut info);
            assert_eq!(read.ok().map(|()| info.connect_options.echo), echo, "{json}");
        }
    }

    #[test]
    fn each_text_has_its_place() {
        let mut info = ClientInfo::default();
        let json =
            br#"{"name":"n","lang":"l","version":"v","user":"u","pass":"p","auth_token":"t","account":"a"}"#;
        assert!(read(json, &mut info).is_ok());
        let texts = [
            &info.name,
            &info.lang,
            &info.version,
            &info.user,
            &info.password.0,
            &info.token.0,
            &info.account,
        ];
        assert_eq!(texts, ["n", "l", "v", "u", "p", "t", "a"]);
    }

    #[test]
    fn what_is_no_text_is_replaced() {
        for (json, expected) in [
            (&b"\"a\""[..], Some("a")),
            (b"\"\xff\"", Some("\u{fffd}")),
            // As many as there are bytes, also where they are the beginning of a character.
            (b"\"\xe2\x82x\"", Some("\u{fffd}\u{fffd}x")),
            (b"\"\xed\xa0\x80\"", Some("\u{fffd}\u{fffd}\u{fffd}")),
            (b"\"\\ud800\"", Some("\u{fffd}")),
            (b"\"\\udc00\\ud800x\"", Some("\u{fffd}\u{fffd}x")),
            (b"\"\\ud800\\ud83d\\ude00\"", Some("\u{fffd}\u{1f600}")),
            (b"\"\\u0000\"", Some("\0")),
            (b"\"a\tb\"", None),
            (b"\"\\x\"", None),
            (b"\"\\ud8\"", None),
            (b"\xff", None),
            (b"5", None),
            (b"null", Some("")),
        ] {
            assert_eq!(
                name(json).as_deref(),
                expected,
                "{:?}",
                json.escape_ascii().to_string()
            );
        }
    }

    #[test]
    fn an_object_is_told_from_anything_else() {
        for json in ["{}", " {\"a\":[1]} ", "null", " null"] {
            assert!(is_object(json.as_bytes()), "{json}");
        }
        for json in ["", "[]", "1", "{", "{} {}", "nullx"] {
            assert!(!is_object(json.as_bytes()), "{json}");
        }
    }

    proptest! {
        #[test]
        fn whatever_is_said_it_is_read_or_refused(json in prop::collection::vec(any::<u8>(), 0..60), written in "[{}\\[\\]\",:a-e\\\\u0-9]{0,40}") {
            for json in [&json[..], written.as_bytes()] {
                let _ = read(json, &mut ClientInfo::default());
                let _ = is_object(json);
            }
        }

        #[test]
        fn a_text_comes_as_it_is(text in any::<String>()) {
            let json = serde_json::to_string(&text).expect("a text");
            prop_assert_eq!(name(json.as_bytes()), Some(text));
        }
    }
}
