//! What `groups` answers to clients that are right, generous, wrong or hostile: one table, for the protocol by itself,
//! for each design, and beside `nats-server`. Where that one answers otherwise, `docs/groups.md` says so.

/// A difference: where it is named, and what `nats-server` answers, where that can be said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The words that begin its row in the document's table.
    pub named: &'static str,
    /// What it answers; nothing if that depends on how bytes come, or on the time.
    pub theirs: Option<&'static str>,
}

/// A client's whole say, and what it is told.
#[derive(Clone, Debug)]
pub struct Row {
    /// Behind the greeting.
    pub says: Vec<u8>,
    /// As [`summary`] has it.
    pub told: String,
    /// Where `nats-server` tells something else.
    pub difference: Option<Difference>,
}

/// Closed with a word, where it says none.
const NO_WORD: Option<Difference> = differs("A line that cannot be read", "closed");

const fn differs(named: &'static str, theirs: &'static str) -> Option<Difference> {
    let theirs = Some(theirs);
    Some(Difference { named, theirs })
}

const fn differs_somehow(named: &'static str) -> Option<Difference> {
    Some(Difference { named, theirs: None })
}

/// Instead of a `CONNECT`.
const CONNECTS: &[(&str, &str, Option<Difference>)] = &[
    ("CONNECT {}", "+OK", None),
    ("CONNECT null", "+OK", None),
    ("CONNECT {\"verbose\":false}", "", None),
    ("connect {\"VERBOSE\":false}", "", None),
    ("CONNECT {\"Verbose\":true,\"verbose\":false}", "", None),
    ("CONNECT {\"verbose\":false,\"verbose\":null}", "", None),
    ("CONNECT{\"verbose\":false}", "", None),
    ("CONNECT \t {\"verbose\":false} ", "", None),
    ("CONNECT {\"verbose\":false,\"tls_required\":true}", "", None),
    ("CONNECT {\"verbose\":false,\"name\":\"\\ud800\"}", "", None),
    ("CONNECT {\"verbose\":false,\"x\":{\"y\":[1e400]}}", "", None),
    (
        "CONNECT {\"verbose\":false,\"import\":5}",
        "",
        differs("What only servers say", "closed"),
    ),
    ("CONNECT {\"verbose\":0}", "-ERR 'Parser Error', closed", NO_WORD),
    ("CONNECT {\"name\":5}", "-ERR 'Parser Error', closed", NO_WORD),
    ("CONNECT {\"jwt\":5}", "-ERR 'Parser Error', closed", NO_WORD),
    (
        "CONNECT {\"name\":\"a\tb\"}",
        "-ERR 'Parser Error', closed",
        NO_WORD,
    ),
    (
        "CONNECT {\"protocol\":1.0}",
        "-ERR 'Parser Error', closed",
        NO_WORD,
    ),
    (
        "CONNECT {\"protocol\":-0}",
        "-ERR 'Parser Error', closed",
        differs("What only servers say", "+OK"),
    ),
    ("CONNECT []", "-ERR 'Parser Error', closed", NO_WORD),
    ("CONNECT {} {}", "-ERR 'Parser Error', closed", NO_WORD),
    ("CONNECT ", "-ERR 'Parser Error', closed", NO_WORD),
    ("CONNECT", "-ERR 'Parser Error', closed", NO_WORD),
    (
        "CONNECT {\"account\":\"x\"}",
        "-ERR 'Authorization Violation', closed",
        None,
    ),
    (
        "CONNECT {\"new_account\":true}",
        "-ERR 'Authorization Violation', closed",
        None,
    ),
    (
        "CONNECT {\"protocol\":2}",
        "-ERR 'invalid client protocol', closed",
        None,
    ),
    (
        "CONNECT {\"no_responders\":true}",
        "-ERR 'no responders requires headers support', closed",
        None,
    ),
    ("SUB a 1\r\nPUB a 0\r\n", "+OK, +OK, MSG a 1 0", None),
    ("PUB a.* 0\r\n", "-ERR 'Invalid Publish Subject', +OK", None),
    (
        "CONNECT {\"verbose\":false}\r\nHPUB a 12 12\r\nNATS/1.0\r\n\r\n",
        "-ERR 'message headers not supported', closed",
        NO_WORD,
    ),
];

/// Behind a `CONNECT` that asks for no answers.
const LINES: &[(&str, &str, Option<Difference>)] = &[
    // Numbers.
    ("SUB a 1\r\nPUB a 000000001\r\nx", "MSG a 1 000000001, x", None),
    ("PUB a 0000000001\r\nx", "-ERR 'Parser Error', closed", NO_WORD),
    ("PUB a 99999999999999", "-ERR 'Parser Error', closed", NO_WORD),
    (
        "PUB a 999999999",
        "-ERR 'Maximum Payload Violation', closed",
        None,
    ),
    ("PUB a 1048577", "-ERR 'Maximum Payload Violation', closed", None),
    ("PUB a -1", "-ERR 'Parser Error', closed", NO_WORD),
    ("HPUB a 12 9999999999", "-ERR 'Parser Error', closed", NO_WORD),
    ("HPUB a 9999999999 12", "-ERR 'Parser Error', closed", NO_WORD),
    ("HPUB a 999999999 1", "-ERR 'Parser Error', closed", NO_WORD),
    ("SUB a 1\r\nUNSUB 1 999999999\r\nPUB a 0\r\n", "MSG a 1 0", None),
    ("SUB a 1\r\nUNSUB 1 9999999999\r\nPUB a 0\r\n", "", None),
    ("SUB a 1\r\nUNSUB 1 0000000005\r\nPUB a 0\r\n", "", None),
    ("SUB a 1\r\nUNSUB 1 99999999999999999999\r\nPUB a 0\r\n", "", None),
    ("SUB a 1\r\nUNSUB 1 x\r\nPUB a 0\r\n", "", None),
    // Blanks and ends.
    ("SUB\ta \t 1 \t \r\npub \t a\t0\t\r\n", "MSG a 1 0", None),
    ("SUB a 1\nPUB a 1\nx", "MSG a 1 1, x", None),
    ("SUB ", "-ERR 'Parser Error', closed", NO_WORD),
    ("SUB", "-ERR 'Unknown Protocol Operation', closed", None),
    ("SUB a q 1 2", "-ERR 'Parser Error', closed", NO_WORD),
    ("PUB a b c 0", "-ERR 'Parser Error', closed", NO_WORD),
    ("", "-ERR 'Unknown Protocol Operation', closed", None),
    (
        "SUB a\rb 1\r\nPUB a 0\r\n",
        "",
        differs_somehow("A carriage return inside a line"),
    ),
    (
        "SUB a\r 1\r\nPUB a 0\r\n",
        "",
        differs_somehow("A carriage return inside a line"),
    ),
    // What servers say, and others.
    ("INFO {}", "", None),
    ("info{\"a\":1}", "", None),
    ("INFO null", "", None),
    (
        "INFO {\"port\":\"x\"}",
        "",
        differs("What only servers say", "closed"),
    ),
    ("INFO", "-ERR 'Parser Error', closed", NO_WORD),
    ("INFO []", "-ERR 'Parser Error', closed", NO_WORD),
    ("INFO {\"a\":", "-ERR 'Parser Error', closed", NO_WORD),
    ("+OK", "", None),
    ("+OKAY", "", None),
    ("PINGS", "PONG", None),
    ("-ERR 'x'", "-ERR 'Unknown Protocol Operation', closed", NO_WORD),
    ("MSG a 1 0\r\n", "-ERR 'Unknown Protocol Operation', closed", None),
    (
        "HMSG a 1 1\r\n",
        "-ERR 'Unknown Protocol Operation', closed",
        differs_somehow("`HMSG` from a client"),
    ),
    ("A+ x", "-ERR 'Unknown Protocol Operation', closed", None),
    (
        "GET / HTTP/1.1\r\n",
        "-ERR 'Unknown Protocol Operation', closed",
        None,
    ),
    // Names.
    (
        "SUB a 1\r\nSUB b 1\r\nPUB a 0\r\n\r\nPUB b 0\r\n",
        "MSG a 1 0",
        None,
    ),
    ("SUB a..b 1", "-ERR 'Invalid Subject'", None),
    ("SUB \0 1\r\nPUB \0 0\r\n", "MSG \0 1 0", None),
    (
        "SUB a 1\r\nCONNECT {\"verbose\":false}\r\nPUB a 0\r\n",
        "MSG a 1 0",
        differs("A second `CONNECT`", ""),
    ),
    (
        "SUB r 1\r\nPUB $SYS.REQ.USER.INFO r 0\r\n",
        "HMSG r 1 50 50, NATS/1.0 503, Nats-Subject: $SYS.REQ.USER.INFO",
        differs_somehow("A request to `$SYS.REQ.USER.INFO`"),
    ),
    (
        "SUB r 1\r\nPUB $SYS.REQ.SERVER.PING.CONNZ r 0\r\n",
        "HMSG r 1 58 58, NATS/1.0 503, Nats-Subject: $SYS.REQ.SERVER.PING.CONNZ",
        differs_somehow("A request to `$SYS.REQ.USER.INFO`"),
    ),
    (
        "SUB r 1\r\nPUB $SYS.REQ.ACCOUNT.PING.STATZ r 0\r\n",
        "HMSG r 1 59 59, NATS/1.0 503, Nats-Subject: $SYS.REQ.ACCOUNT.PING.STATZ",
        differs_somehow("A request to `$SYS.REQ.USER.INFO`"),
    ),
    (
        "SUB r 1\r\nPUB $SYS.REQ.ACCOUNT.PING r 0\r\n",
        "HMSG r 1 53 53, NATS/1.0 503, Nats-Subject: $SYS.REQ.ACCOUNT.PING",
        None,
    ),
    ("SUB $SYS.> 1\r\nPUB $SYS.x 0\r\n", "MSG $SYS.x 1 0", None),
    (
        "SUB a 1\r\nPUB a _R_.x 0\r\n",
        "MSG a 1 _R_.x 0",
        differs(
            RESERVED,
            "-ERR 'Permissions Violation for Publish with Reply of \"_R_.x\"'",
        ),
    ),
    (
        "SUB a 1\r\nPUB a $JS.ACK.x 0\r\n",
        "MSG a 1 $JS.ACK.x 0",
        differs(
            RESERVED,
            "-ERR 'Permissions Violation for Publish with Reply of \"$JS.ACK.x\"'",
        ),
    ),
    (
        "SUB $JS.ACK.> 1\r\nPUB $JS.ACK.x 0\r\n",
        "MSG $JS.ACK.x 1 0",
        None,
    ),
    (
        "SUB > 1\r\nPUB _GR_.x 0\r\n",
        "MSG _GR_.x 1 0",
        differs(RESERVED, "-ERR 'Permissions Violation for Publish to \"_GR_.x\"'"),
    ),
    (
        "SUB > 1\r\nPUB $GR.x 0\r\n",
        "MSG $GR.x 1 0",
        differs(RESERVED, "-ERR 'Permissions Violation for Publish to \"$GR.x\"'"),
    ),
    (
        "SUB > 1\r\nPUB $NRG.x 0\r\n",
        "MSG $NRG.x 1 0",
        differs(RESERVED, "-ERR 'Permissions Violation for Publish to \"$NRG.x\"'"),
    ),
    (
        "SUB a _sys_ 1\r\nPUB a 0\r\n",
        "MSG a 1 0",
        differs(
            RESERVED,
            "-ERR 'Permissions Violation for Subscription to \"a\" using queue \"_sys_\"'",
        ),
    ),
];

const RESERVED: &str = "Names that begin with `_R_.`";
const QUIET: &str = r#"CONNECT {"verbose":false,"pedantic":false,"headers":true,"no_responders":true}"#;
/// The most bytes of arguments.
const CONTROL_LINE: usize = 4_096;

/// The whole table.
pub fn rows() -> Vec<Row> {
    let row = |says: String, told: &str, difference| Row {
        says: says.into_bytes(),
        told: told.to_owned(),
        difference,
    };
    let connects = CONNECTS
        .iter()
        .map(|&(says, told, difference)| row(format!("{says}\r\n"), told, difference));
    let behind = |says: &str| format!("{QUIET}\r\n{says}");
    let lines = LINES
        .iter()
        .map(|&(says, told, difference)| row(behind(says) + "\r\n", told, difference));
    let mut rows: Vec<Row> = connects.chain(lines).collect();
    rows.push(Row {
        says: b"CONNECT {\"verbose\":false,\"name\":\"\xff\xe2\x82\"}\r\n".to_vec(),
        told: String::new(),
        difference: None,
    });
    let tokens = |count| ["a"].repeat(count).join(".");
    let too_many = format!(
        "-ERR 'Permissions Violation for Subscription to \"{}\", too many tokens'",
        tokens(129)
    );
    rows.extend([
        row(behind(&format!("SUB {} 1\r\n", tokens(128))), "", None),
        row(
            behind(&format!("SUB {} 1\r\n", tokens(129))),
            &too_many,
            differs("A subject of more than 128 tokens", ""),
        ),
        row(
            behind(&format!("SUB > 1\r\nPUB {} 0\r\n\r\n", tokens(129))),
            &format!("MSG {} 1 0", tokens(129)),
            None,
        ),
    ]);
    // How long a line may be, with and without its end.
    let too_long = "-ERR 'maximum control line exceeded', closed";
    let blanks = |count| " ".repeat(count);
    let run = "Blanks before arguments";
    rows.extend([
        row(
            behind(&format!("SUB {} 1\r\n", "x".repeat(CONTROL_LINE - 2))),
            "",
            None,
        ),
        row(
            behind(&format!("SUB {} 1\r\n", "x".repeat(CONTROL_LINE - 1))),
            too_long,
            None,
        ),
        row(
            behind(&format!("SUB {}", "x".repeat(CONTROL_LINE + 1))),
            too_long,
            None,
        ),
        row(
            behind(&format!("INFO {}", "x".repeat(CONTROL_LINE + 1))),
            too_long,
            None,
        ),
        row(
            behind(&format!("SUB a 1\r\nPUB{}a 0\r\n\r\n", blanks(CONTROL_LINE))),
            "MSG a 1 0",
            None,
        ),
        row(
            behind(&format!("SUB a 1\r\nPUB{}a 0\r\n\r\n", blanks(CONTROL_LINE + 1))),
            too_long,
            differs(run, "MSG a 1 0"),
        ),
        row(
            behind(&format!("SUB a 1\r\nPUB a{}0\r\n\r\n", blanks(CONTROL_LINE - 2))),
            "MSG a 1 0",
            None,
        ),
        row(
            behind(&format!("PUB a{}0\r\n\r\n", blanks(CONTROL_LINE - 1))),
            too_long,
            None,
        ),
        row(
            behind(&format!("PUB a 0{}\r\n\r\n", blanks(CONTROL_LINE - 2))),
            too_long,
            None,
        ),
        row(
            behind(&format!("+OK{}\r\n", "x".repeat(CONTROL_LINE + 1))),
            too_long,
            differs(run, ""),
        ),
    ]);
    rows
}

/// What was told, in words: its lines but those by which a server says what it is, and whether it was closed then.
pub fn summary(told: &[u8], closed: bool) -> String {
    let told = String::from_utf8_lossy(told);
    let lines = told
        .split("\r\n")
        .filter(|line| !line.is_empty() && !line.starts_with("INFO "));
    lines
        .chain(closed.then_some("closed"))
        .collect::<Vec<_>>()
        .join(", ")
}
