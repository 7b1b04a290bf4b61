//! What can be set on a server: on the command line, in a file, or both.

use std::fmt::Debug;
use std::fs;
use std::num::NonZeroUsize;
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use serde::Deserialize;
use threadgauge_reactor::{BuiltIn, Design, Overflow, Placement, Protocol, Sends, Server, WhenFull};
use threadgauge_results::units::{count, counted};

use crate::commands::serve::changes::Changes;
use crate::commands::serve::choice;
use crate::commands::serve::groups::Groups;
use crate::commands::serve::values::{Drain, Listen, Seconds, Whole, Workers, as_typed};

/// How many clients of `groups` may be on their way out at once because there were too many: beyond them, who comes
/// waits.
const TOLD_AT_ONCE: usize = 64;

/// How long connections may go on after the stop, if nothing else is said.
const DRAIN: Duration = Duration::from_secs(5);

/// Settings by their names on the command line, which are their names in a file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Args, Deserialize)]
#[serde(
    rename_all = "kebab-case",
    deny_unknown_fields,
    default,
    expecting = "a table of settings"
)]
pub struct Settings {
    /// What is served
    #[arg(value_name = "PROTOCOL", value_parser = protocols())]
    #[serde(deserialize_with = "as_typed")]
    pub protocol: Option<BuiltIn>,
    /// How processes, threads and event loops are used (reactor if not given; for groups with --sends io_uring where
    /// the kernel allows that)
    #[arg(long, value_name = "DESIGN", value_parser = designs())]
    #[serde(deserialize_with = "as_typed")]
    pub design: Option<Design>,
    /// Address and port, or a port of 127.0.0.1; port 0 is any free one (0 if not given; for groups 4222).
    /// `0.0.0.0` and `[::]` both mean all addresses, IPv4 and IPv6
    #[arg(long, value_name = "ADDRESS")]
    #[serde(deserialize_with = "as_typed")]
    pub listen: Option<Listen>,
    /// Processes or threads that serve: a fixed number, or a range within which it follows the need
    #[arg(long, value_name = "N|MIN..MAX")]
    #[serde(deserialize_with = "as_typed")]
    pub workers: Option<Workers>,
    /// Reactors that read
    #[arg(long, value_name = "N")]
    #[serde(deserialize_with = "as_typed")]
    pub readers: Option<Whole>,
    /// Reactors that write
    #[arg(long, value_name = "N")]
    #[serde(deserialize_with = "as_typed")]
    pub writers: Option<Whole>,
    /// How connections are assigned to reactors
    #[arg(long, value_parser = placements())]
    #[serde(deserialize_with = "as_typed")]
    pub placement: Option<Placement>,
    /// How reactors send: a system call for each client, or one for all (call if not given)
    #[arg(long, value_parser = sends())]
    #[serde(deserialize_with = "as_typed")]
    pub sends: Option<Sends>,
    /// The most connections at once (16384 if not given); others wait to be accepted, or with groups are refused with a
    /// message
    #[arg(long, value_name = "N")]
    #[serde(deserialize_with = "as_typed")]
    pub max_connections: Option<Whole>,
    /// When there are as many: who comes waits, or takes the place of the connection that has sent nothing for longest
    /// (wait if not given)
    #[arg(long, value_parser = when_full())]
    #[serde(deserialize_with = "as_typed")]
    pub when_full: Option<WhenFull>,
    /// Close a connection that has sent nothing for so long; time in which the server does not read does not count
    #[arg(long, value_name = "TIME")]
    #[serde(deserialize_with = "as_typed")]
    pub idle: Option<Seconds>,
    /// Close a connection whose client takes longer to send its first request, or the head of a later one that it has
    /// begun
    #[arg(long, value_name = "TIME")]
    #[serde(deserialize_with = "as_typed")]
    pub handshake: Option<Seconds>,
    /// Close a connection whose client reads nothing for so long while output waits for it (10 if not given); one that
    /// reads slowly is waited for
    #[arg(long, value_name = "TIME")]
    #[serde(deserialize_with = "as_typed")]
    pub write_timeout: Option<Seconds>,
    /// How long connections may continue after the stop (5 if not given, added to any --lame-duck); 0 closes them at
    /// once
    #[arg(long, value_name = "TIME")]
    #[serde(deserialize_with = "as_typed")]
    pub drain: Option<Drain>,
    /// How much output may wait for a client that does not read (1048576 if not given; for groups 67108864)
    #[arg(long, value_name = "BYTES")]
    #[serde(deserialize_with = "as_typed")]
    pub output_limit: Option<Whole>,
    /// When --output-limit is reached: wait until the client reads, or drop it (wait if not given; for groups drop)
    #[arg(long, value_parser = overflows())]
    #[serde(deserialize_with = "as_typed")]
    pub overflow: Option<Overflow>,
    /// Those of the protocol groups.
    #[command(flatten)]
    pub groups: Groups,
}

impl Settings {
    /// Those of a file.
    ///
    /// # Errors
    ///
    /// If it cannot be read, or holds something else: with line and key.
    pub fn read(file: &Path) -> Result<Self> {
        let text = fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
        Self::parse(&text).with_context(|| format!("{} is no file of settings", file.display()))
    }

    fn parse(text: &str) -> Result<Self> {
        toml::from_str(text).map_err(|error| anyhow!(fault(text, &error)))
    }

    /// These, and for what is not given here those of `file`.
    pub fn over(self, file: Self) -> Self {
        Self {
            protocol: self.protocol.or(file.protocol),
            design: self.design.or(file.design),
            listen: self.listen.or(file.listen),
            workers: self.workers.or(file.workers),
            readers: self.readers.or(file.readers),
            writers: self.writers.or(file.writers),
            placement: self.placement.or(file.placement),
            sends: self.sends.or(file.sends),
            max_connections: self.max_connections.or(file.max_connections),
            when_full: self.when_full.or(file.when_full),
            idle: self.idle.or(file.idle),
            handshake: self.handshake.or(file.handshake),
            write_timeout: self.write_timeout.or(file.write_timeout),
            drain: self.drain.or(file.drain),
            output_limit: self.output_limit.or(file.output_limit),
            overflow: self.overflow.or(file.overflow),
            groups: self.groups.over(file.groups),
        }
    }

    /// Decides how `groups` is served where neither a design nor how it sends is named. Gives back what to say of it.
    pub fn choose(&mut self) -> Option<String> {
        let is_open = self.protocol == Some(BuiltIn::Groups) && self.design.is_none() && self.sends.is_none();
        is_open.then(|| {
            let (sends, why) = choice::best(Sends::IoUring.check());
            self.sends = Some(sends);
            why
        })
    }

    /// Which protocol on which design.
    ///
    /// # Errors
    ///
    /// If no protocol is named, the design cannot serve it, or settings contradict each other.
    pub fn pair(&self) -> Result<(BuiltIn, Design)> {
        let Some(protocol) = self.protocol else {
            bail!(
                "which protocol? Name one, as in `threadgauge serve echo`; `threadgauge serve --list` shows them"
            );
        };
        let design = self.design.unwrap_or_default();
        if let Err(apart) = protocol.fits(design) {
            bail!(
                "the protocol `{}` needs connections that reach each other, and the design `{}` {apart}; \
                 `threadgauge serve --list` shows what fits",
                protocol.name(),
                design.name()
            );
        }
        if protocol != BuiltIn::Groups && self.groups.is_given() {
            bail!(
                "the protocol `{}` has no settings of its own; those given are for `groups`",
                protocol.name()
            );
        }
        if protocol == BuiltIn::Groups && self.when_full.is_some() {
            bail!("--when-full is not for `groups`, which tells who is one too many");
        }
        let (limit, overflow) = self.waiting();
        let payload = self.groups.most_payload();
        if protocol == BuiltIn::Groups && overflow == Overflow::Drop && payload > limit.get() {
            bail!(
                "a message may have {} and only {} may wait for a client, which would be dropped for it: lower \
                 --max-payload, or raise --output-limit",
                counted(payload, "byte"),
                count(limit.get())
            );
        }
        if let (Some(Drain(drain)), Some(Seconds(lame_duck))) = (self.drain, self.groups.lame_duck)
            && drain <= lame_duck
        {
            bail!(
                "--drain must be longer than --lame-duck, or clients would be cut off within the time they are given"
            );
        }
        Ok((protocol, design))
    }

    /// A server with these.
    pub fn server<P: Protocol>(&self, protocol: P, design: Design) -> Server<P> {
        let mut server = Server::new(protocol).design(design);
        if let Some(Workers(workers)) = &self.workers {
            server = server.workers(workers.clone());
        }
        if let Some(Whole(readers)) = self.readers {
            server = server.readers(readers.get());
        }
        if let Some(Whole(writers)) = self.writers {
            server = server.writers(writers.get());
        }
        if let Some(placement) = self.placement {
            server = server.placement(placement);
        }
        if let Some(sends) = self.sends {
            server = server.sends(sends);
        }
        let told = match self.protocol {
            Some(BuiltIn::Groups) => TOLD_AT_ONCE,
            _ => 0,
        };
        server = server.max_connections(self.most_connections().saturating_add(told));
        if let Some(when_full) = self.when_full {
            server = server.when_full(when_full);
        }
        if let Some(Seconds(idle)) = self.idle {
            server = server.idle(idle);
        }
        if let Some(Seconds(handshake)) = self.handshake {
            server = server.handshake(handshake);
        }
        if let Some(Seconds(limit)) = self.write_timeout {
            server = server.write_timeout(limit);
        }
        if let Some(drain) = self.drain() {
            server = server.drain(drain);
        }
        let (limit, overflow) = self.waiting();
        server.output_limit(limit, overflow)
    }

    /// How long connections may go on after the stop, unless that is the usual time. What is left of it when a lame
    /// duck has closed its clients is for what still waits for them.
    fn drain(&self) -> Option<Duration> {
        let lame_duck = self.groups.lame_duck.map(|Seconds(time)| time + DRAIN);
        self.drain.map(|Drain(drain)| drain).or(lame_duck)
    }

    /// How long connections may go on after a stop that begins a lame duck of this length.
    pub fn drain_after(&self, lame_duck: Duration) -> Duration {
        let least = lame_duck + DRAIN;
        self.drain.map_or(least, |Drain(drain)| drain.max(least))
    }

    /// Takes from `new` what may change while a server of `groups` runs, and says what is otherwise there.
    pub fn change_to(&mut self, new: Self) -> Changes {
        let mut changes = self.groups.change_to(new.groups);
        let fixed = [
            ("protocol", self.protocol != new.protocol),
            ("design", self.design != new.design),
            ("listen", self.listen != new.listen),
            ("workers", self.workers != new.workers),
            ("readers", self.readers != new.readers),
            ("writers", self.writers != new.writers),
            ("placement", self.placement != new.placement),
            ("sends", self.sends != new.sends),
            ("max-connections", self.max_connections != new.max_connections),
            ("when-full", self.when_full != new.when_full),
            ("idle", self.idle != new.idle),
            ("handshake", self.handshake != new.handshake),
            ("write-timeout", self.write_timeout != new.write_timeout),
            ("drain", self.drain != new.drain),
            ("output-limit", self.output_limit != new.output_limit),
            ("overflow", self.overflow != new.overflow),
        ];
        changes.add_fixed(&fixed);
        changes
    }

    /// Where to listen: for `groups` where NATS' clients look for a server.
    pub fn listen(&self) -> Listen {
        let port = match self.protocol {
            Some(BuiltIn::Groups) => 4222,
            _ => 0,
        };
        self.listen.clone().unwrap_or_else(|| Listen::here(port))
    }

    /// How many connections there may be at once.
    pub fn most_connections(&self) -> NonZeroUsize {
        let most = NonZeroUsize::new(16_384).expect("not zero");
        self.max_connections.map_or(most, |Whole(most)| most)
    }

    /// How much may wait for a client, and what happens then. One slow member must not hold up a group: it is dropped,
    /// as NATS does, where as much waits as there.
    pub fn waiting(&self) -> (NonZeroUsize, Overflow) {
        let (limit, overflow) = match self.protocol {
            Some(BuiltIn::Groups) => (64 << 20, Overflow::Drop),
            _ => (1 << 20, Overflow::Wait),
        };
        let limit = NonZeroUsize::new(limit).expect("not zero");
        (
            self.output_limit.map_or(limit, |Whole(limit)| limit),
            self.overflow.unwrap_or(overflow),
        )
    }

    /// What was set, in the words of the command line, for the person who started it.
    pub fn in_words(&self) -> String {
        let words = [
            self.workers
                .as_ref()
                .map(|Workers(range)| match range.start() == range.end() {
                    true => format!("workers {}", range.start()),
                    false => format!("workers {}..{}", range.start(), range.end()),
                }),
            self.readers.map(|n| format!("readers {n}")),
            self.writers.map(|n| format!("writers {n}")),
            self.placement.map(|it| format!("placement {}", it.name())),
            self.sends.map(|it| format!("sending by {}", it.name())),
            self.max_connections
                .map(|Whole(n)| format!("at most {}", counted(n.get(), "connection"))),
            self.when_full.map(|it| format!("when full {}", it.name())),
            self.idle.map(|it| format!("idle {it}")),
            self.handshake.map(|it| format!("handshake {it}")),
            self.write_timeout.map(|it| format!("write timeout {it}")),
            self.drain.map(|it| format!("drain {it}")),
            self.output_limit
                .map(|Whole(n)| format!("at most {} waiting for a client", counted(n.get(), "byte"))),
            self.overflow.map(|it| format!("overflow {}", it.name())),
        ];
        let words = words.into_iter().flatten().chain(self.groups.in_words());
        words.collect::<Vec<_>>().join(", ")
    }
}

/// What is wrong in a file, with its line and key. The line itself is not shown: it may hold a secret.
fn fault(text: &str, error: &toml::de::Error) -> String {
    let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or("");
    let number = before.matches('\n').count();
    let line = text.lines().nth(number).unwrap_or("");
    let is_name = |key: &&str| {
        key.bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    let key = line.split_once('=').map(|(key, _)| key.trim()).filter(is_name);
    let number = number + 1;
    let what = error.message();
    let is_unknown = what.starts_with("unknown field");
    match key {
        Some(key @ ("token" | "password")) if !is_unknown => {
            format!("line {number}, `{key}`: a secret is a text in quotes")
        }
        Some(key) if is_unknown && toml::from_str::<Groups>(line).is_ok() => {
            format!("line {number}: `{key}` is for the protocol groups, and belongs below [groups]")
        }
        Some(key) if is_unknown && toml::from_str::<Settings>(line).is_ok() => {
            format!("line {number}: `{key}` is for any protocol, and belongs above [groups]")
        }
        Some(key) if !is_unknown => format!("line {number}, `{key}`: {what}"),
        _ => format!("line {number}: {what}"),
    }
}

fn protocols() -> impl TypedValueParser<Value = BuiltIn> {
    let value = |it: &BuiltIn| PossibleValue::new(it.name()).help(it.summary());
    values(BuiltIn::ALL.iter().map(value).collect())
}

fn designs() -> impl TypedValueParser<Value = Design> {
    let value = |it: &Design| PossibleValue::new(it.name()).help(it.about().summary);
    values(Design::ALL.iter().map(value).collect())
}

fn placements() -> impl TypedValueParser<Value = Placement> {
    values(Placement::ALL.iter().map(|it| it.name().into()).collect())
}

fn sends() -> impl TypedValueParser<Value = Sends> {
    values(Sends::ALL.iter().map(|it| it.name().into()).collect())
}

fn when_full() -> impl TypedValueParser<Value = WhenFull> {
    values(WhenFull::ALL.iter().map(|it| it.name().into()).collect())
}

fn overflows() -> impl TypedValueParser<Value = Overflow> {
    values(Overflow::ALL.iter().map(|it| it.name().into()).collect())
}

/// With the possible values declared, so that completions have them and the nearest to a mistyped one is named.
fn values<T>(values: Vec<PossibleValue>) -> impl TypedValueParser<Value = T>
where
    T: FromStr<Err: Debug> + Clone + Send + Sync + 'static,
{
    PossibleValuesParser::new(values).map(|name| name.parse().expect("one of the possible values"))
}

#[cfg(test)]
mod tests {
    use threadgauge_reactor::protocol::groups::Access;

    use super::*;

    #[test]
    fn a_file_has_numbers_and_texts() {
        let settings: Settings = toml::from_str(
            "protocol = 'echo'\nlisten = 7000\nworkers = '2..8'\nidle = 1.5\nwrite-timeout = 20\nhandshake = '1m30s'\n\
             readers = 3\noverflow = 'drop'",
        )
        .unwrap();
        assert_eq!(settings.protocol, Some(BuiltIn::Echo));
        assert_eq!(settings.listen, Some(Listen("127.0.0.1:7000".to_owned())));
        assert_eq!(settings.workers, Some(Workers(2..=8)));
        assert_eq!(settings.idle, Some(Seconds(Duration::from_millis(1_500))));
        assert_eq!(settings.handshake, Some(Seconds(Duration::from_secs(90))));
        assert_eq!(settings.readers, "3".parse().ok());
        assert_eq!(settings.overflow, Some(Overflow::Drop));
        let typed = Settings {
            workers: Some(Workers(1..=1)),
            ..Settings::default()
        };
        let both = typed.over(settings);
        assert_eq!(both.workers, Some(Workers(1..=1)));
        assert_eq!(both.readers, "3".parse().ok());
        assert_eq!(
            both.in_words(),
            "workers 1, readers 3, idle 1.5 s, handshake 90 s, write timeout 20 s, overflow drop"
        );
    }

    #[test]
    fn what_a_file_has_wrong_is_named_with_its_line() {
        for (text, line, what) in [
            ("protocol = 'echo'\nworkrs = 3", "line 2", "workrs"),
            ("\n\nprotocol = 'ecko'", "line 3", "echo, bytes"),
            ("workers = 'many'", "line 1", "MIN..MAX"),
            ("idle = -1", "line 1", "no length of time"),
            ("idle = 0", "line 1", "less than 1ms"),
            ("idle = [1]", "line 1", "expected a text or a number"),
            (
                "readers = 99999999999999999999",
                "line 1",
                "more than this machine counts",
            ),
            ("listen = 'nowhere'", "line 1", "127.0.0.1:7000"),
            ("max-connections = 0", "line 1", "`0` is no whole number above 0"),
            (
                "\nreaders = 'three'",
                "line 2",
                "`readers`: `three` is no whole number above 0",
            ),
            ("token = 'x'", "line 1", "belongs below [groups]"),
            ("[groups]\nidle = 60", "line 2", "belongs above [groups]"),
            ("protocol = echo", "line 1", "`protocol`: "),
            ("writers = 1.5", "line 1", "`1.5` is no whole number above 0"),
            (
                "output-limit = '99999999999999999999'",
                "line 1",
                "more than this machine counts",
            ),
            ("groups = 3", "line 1", "a table, as [groups] begins one"),
            ("[groups]\ntokn = 'x'", "line 2", "tokn"),
        ] {
            let error = Settings::parse(text).unwrap_err().to_string();
            assert!(error.contains(line) && error.contains(what), "{text:?}: {error}");
            assert!(
                !error.contains("usize") && !error.contains("struct"),
                "{text:?}: {error}"
            );
        }
    }

    #[test]
    fn what_may_be_a_secret_is_not_in_an_error() {
        for text in [
            "[groups]\npassword = 5301",
            "[groups]\ntoken = 5301x",
            "token = 5301",
            "root:5301:x",
        ] {
            let error = Settings::parse(text).unwrap_err().to_string();
            assert!(!error.contains("5301"), "{text:?}: {error}");
        }
    }

    #[test]
    fn the_settings_of_groups_are_a_table_of_their_own_and_their_secrets_are_not_shown() {
        let text = "protocol = 'groups'\n[groups]\nuser = 'ada'\npassword = 's3cret'\nmonitor = 8222";
        let file: Settings = toml::from_str(text).unwrap();
        assert_eq!(file.groups.monitor, Some(Listen("127.0.0.1:8222".to_owned())));
        assert_eq!(file.in_words(), "the user ada and a password");
        assert_eq!(file.waiting().1, Overflow::Drop);
        let mut typed = Settings::default();
        typed.groups.token = Some("t0ken".to_owned());
        let both = typed.over(file);
        assert_eq!(
            both.groups.options(NonZeroUsize::MIN).unwrap().access,
            Access::Token("t0ken".to_owned()),
            "who may connect is said in one place"
        );
        assert!(!both.in_words().contains("t0ken"));
    }

    #[test]
    fn a_lame_duck_has_its_whole_time() {
        let settings = |text: &str| -> Settings {
            toml::from_str(&format!("protocol = 'groups'\ndesign = 'reactor'\n{text}")).unwrap()
        };
        assert_eq!(settings("").drain(), None);
        let alone = settings("[groups]\nlame-duck = 60\nlame-duck-grace = 20");
        assert_eq!(alone.drain(), Some(Duration::from_secs(65)));
        assert_eq!(alone.in_words(), "lame duck 60 s, grace 20 s");
        let options = alone.groups.options(NonZeroUsize::MIN).unwrap();
        assert_eq!(
            (options.lame_duck, options.lame_duck_grace),
            (Duration::from_secs(60), Duration::from_secs(20))
        );
        let both = settings("drain = 61\n[groups]\nlame-duck = 60");
        assert_eq!(both.drain(), Some(Duration::from_secs(61)));
        assert!(both.pair().is_ok());
        let short = settings("drain = 60\n[groups]\nlame-duck = 60");
        assert!(
            short
                .pair()
                .unwrap_err()
                .to_string()
                .contains("longer than --lame-duck")
        );
        for wrong in ["lame-duck-grace = 5", "lame-duck = 5\nlame-duck-grace = 5"] {
            let error = settings(&format!("[groups]\n{wrong}"))
                .groups
                .options(NonZeroUsize::MIN)
                .unwrap_err();
            assert!(error.to_string().contains("--lame-duck-grace"), "{error}");
        }
    }

    #[test]
    fn who_may_connect_is_clear_or_refused() {
        for (token, user, password) in [
            (Some(""), None, None),
            (None, Some("ada"), Some("")),
            (None, Some(""), Some("pw")),
            (None, Some("ada"), None),
            (None, None, Some("pw")),
            (Some("t"), Some("ada"), Some("pw")),
        ] {
            let groups = Groups {
                token: token.map(str::to_owned),
                user: user.map(str::to_owned),
                password: password.map(str::to_owned),
                ..Groups::default()
            };
            assert!(groups.is_given());
            assert!(
                groups.options(NonZeroUsize::MIN).is_err(),
                "{token:?} {user:?} {password:?}"
            );
        }
        assert_eq!(
            Groups::default().options(NonZeroUsize::MIN).unwrap().access,
            Access::Everyone
        );
    }

    #[test]
    fn other_protocols_refuse_the_settings_of_groups() {
        let mut settings: Settings = toml::from_str("protocol = 'echo'\ndesign = 'reactor'").unwrap();
        assert!(settings.pair().is_ok());
        settings.groups.max_payload = "1".parse().ok();
        assert!(settings.pair().is_err());
    }

    #[test]
    fn a_message_that_may_be_sent_can_wait_for_its_receiver() {
        let pair = |text: &str| {
            let settings: Settings = toml::from_str(&format!("protocol = 'groups'\n{text}")).unwrap();
            settings.pair().map(drop).map_err(|error| error.to_string())
        };
        let refused = pair("output-limit = 65536").unwrap_err();
        assert!(
            [
                counted(1 << 20, "byte"),
                count(65_536),
                "--max-payload".to_owned()
            ]
            .iter()
            .all(|word| refused.contains(word)),
            "{refused}"
        );
        assert!(pair("[groups]\nmax-payload = 100000000").is_err());
        for right in [
            "output-limit = 65536\n[groups]\nmax-payload = 65536",
            "output-limit = 65536\noverflow = 'wait'",
        ] {
            assert_eq!(pair(right), Ok(()));
        }
    }
}
