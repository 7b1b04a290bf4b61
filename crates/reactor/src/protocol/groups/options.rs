//! What can be set, and its defaults, which are those of the NATS server unless it says otherwise.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use super::wire::Limits;

/// How far apart the last clients of a lame duck are closed at most: with few of them it does not take its whole time.
const MOST_APART: Duration = Duration::from_secs(1);

/// What can be set.
#[derive(Clone, Debug)]
pub struct Options {
    /// How clients and people tell this server from others.
    pub server_name: String,
    /// The same for programs: no two servers have the same. Random by default.
    pub server_id: String,
    /// Who may connect. Everyone by default.
    pub access: Access,
    /// The most bytes of a message with its headers: 1 MiB.
    pub max_payload: usize,
    /// The most bytes of a line behind the operation's name: 4,096.
    pub max_control_line: usize,
    /// The most clients at once; who comes then is told so and closed. As many as the server takes by default.
    pub max_connections: Option<usize>,
    /// Of how many clients that are gone the figures are kept: 10,000.
    pub max_closed_clients: usize,
    /// The most subscriptions of one client: 100,000, where the NATS server has no limit.
    pub max_subscriptions: usize,
    /// When a client that has connected is asked for the first time whether it is there, which says how long the way to
    /// it is, whatever came from it: 2 s; the [ping interval](Self::ping_interval), if that is shorter. Up to a fifth
    /// longer, so that clients that come together are not all asked at once.
    pub first_ping: Duration,
    /// How long a client is silent before it is asked whether it is there: 2 minutes.
    pub ping_interval: Duration,
    /// How often it is asked before it is closed: 2 times.
    pub max_pings_out: u32,
    /// How long a client may take to say who it is, where that is asked: 2 s.
    pub auth_timeout: Duration,
    /// How long clients may stay once the server stops, after they are told so. Not at all by default: then they are
    /// not told either. The server's own drain time ends it.
    pub lame_duck: Duration,
    /// How long of that nobody is closed: 10 s. Those who are left then are closed one after the other in the rest of
    /// the time, at most a second apart.
    pub lame_duck_grace: Duration,
}

impl Options {
    /// The bounds of a message.
    pub(super) fn limits(&self) -> Limits {
        Limits {
            control_line: self.max_control_line,
            payload: self.max_payload,
        }
    }

    /// These, with all of `changed` that may change while a server runs: clients know the rest, or it is looked at with
    /// each message.
    pub(super) fn with_changes(&self, changed: Self) -> Self {
        Self {
            server_name: self.server_name.clone(),
            server_id: self.server_id.clone(),
            max_payload: self.max_payload,
            max_control_line: self.max_control_line,
            ..changed
        }
    }

    /// How long the client in this place of so many may stay once the server stops.
    pub(super) fn stay(&self, place: u32, of: u32) -> Duration {
        let grace = self.lame_duck_grace.min(self.lame_duck);
        let rest = self.lame_duck - grace;
        let apart = (rest / of.max(1)).min(MOST_APART);
        grace + (apart * place).min(rest)
    }
}

impl Default for Options {
    fn default() -> Self {
        let server_id = random_id();
        Self {
            server_name: server_id.clone(),
            server_id,
            access: Access::Everyone,
            max_payload: 1 << 20,
            max_control_line: 4_096,
            max_connections: None,
            max_closed_clients: 10_000,
            max_subscriptions: 100_000,
            first_ping: Duration::from_secs(2),
            ping_interval: Duration::from_secs(120),
            max_pings_out: 2,
            auth_timeout: Duration::from_secs(2),
            lame_duck: Duration::ZERO,
            lame_duck_grace: Duration::from_secs(10),
        }
    }
}

/// Who may connect. What is secret is not shown by `Debug`.
#[derive(Clone, Default, PartialEq, Eq)]
pub enum Access {
    /// Everyone.
    #[default]
    Everyone,
    /// Who knows the token.
    Token(String),
    /// A user with this password.
    User {
        /// The user's name.
        name: String,
        /// The password.
        password: String,
    },
}

impl Access {
    /// Whether who says this may connect. How long that takes to say depends on lengths alone.
    pub(super) fn allows(&self, token: &str, user: &str, pass: &str) -> bool {
        match self {
            Self::Everyone => true,
            Self::Token(expected) => same(expected, token),
            Self::User { name, password } => same(name, user) & same(password, pass),
        }
    }
}

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Everyone => "Everyone",
            Self::Token(_) => "Token",
            Self::User { .. } => "User",
        })
    }
}

fn same(expected: &str, given: &str) -> bool {
    let differing = expected
        .bytes()
        .zip(given.bytes())
        .fold(0, |all, (a, b)| all | (a ^ b));
    std::hint::black_box(differing) == 0 && expected.len() == given.len()
}

/// 56 letters and digits, as the NATS server's.
fn random_id() -> String {
    const LETTERS: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
    let mut id = "N".to_owned();
    while id.len() < 56 {
        // The keys of each are random.
        let mut bits = RandomState::new().hash_one(id.len());
        for _ in 0..11 {
            id.push(LETTERS[(bits % 32) as usize].into());
            bits /= 32;
        }
    }
    id
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_right_words_are_allowed() {
        let token = Access::Token("s3cret".into());
        let user = Access::User {
            name: "anna".into(),
            password: "s3cret".into(),
        };
        assert!(Access::Everyone.allows("", "", ""));
        assert!(token.allows("s3cret", "", ""));
        assert!(user.allows("", "anna", "s3cret"));
        for wrong in ["", "s3cre", "s3crets", "S3cret"] {
            assert!(!token.allows(wrong, "s3cret", "s3cret"));
            assert!(!user.allows("s3cret", "anna", wrong) && !user.allows("s3cret", wrong, "s3cret"));
        }
        assert!(!format!("{token:?} {user:?}").contains("s3cret"));
    }

    #[test]
    fn a_lame_duck_lets_its_clients_go_one_after_the_other_within_its_time() {
        let seconds = |lame_duck, grace| Options {
            lame_duck: Duration::from_secs(lame_duck),
            lame_duck_grace: Duration::from_secs(grace),
            ..Options::default()
        };
        let stays = |options: &Options, of: u32| -> Vec<u64> {
            (0..of)
                .map(|place| options.stay(place, of).as_millis() as u64)
                .collect()
        };
        assert_eq!(stays(&seconds(120, 10), 3), [10_000, 11_000, 12_000]);
        assert_eq!(stays(&seconds(3, 1), 4), [1_000, 1_500, 2_000, 2_500]);
        // Shorter than the grace: all at its end.
        assert_eq!(stays(&seconds(3, 10), 3), [3_000; 3]);
        // Others have gone since the first was told.
        assert_eq!(seconds(3, 1).stay(100, 2), Duration::from_secs(3));
        assert_eq!(seconds(3, 1).stay(1, 0), Duration::from_secs(2));
    }

    #[test]
    fn every_server_has_an_id_of_its_own() {
        let (one, other) = (Options::default(), Options::default());
        assert_eq!((one.server_id.len(), other.server_id.len()), (56, 56));
        assert_ne!(one.server_id, other.server_id);
        // Letters of one hash are none of each other.
        for letters in one.server_id.as_bytes()[1..].chunks(11) {
            let different: std::collections::BTreeSet<_> = letters.iter().collect();
            assert!(different.len() > 3, "{}", one.server_id);
        }
    }
}
