//! What `http` answers to requests that are right, wrong, old, strange or hostile: one table, for the protocol by
//! itself and for each design.

/// Request lines, each in front of `Host: x`.
const LINES: &[(&str, &str)] = &[
    ("GET /5 HTTP/1.1", "200"),
    ("HEAD /5 HTTP/1.1", "200 head"),
    ("GET /%35 HTTP/1.1", "200"),
    ("GET /5? HTTP/1.1", "200"),
    ("GET /5?a=/?:@-._~!$&'()*+,;=%20 HTTP/1.1", "200"),
    ("GET http://x/5 HTTP/1.1", "200"),
    ("GET HTTP://x/5 HTTP/1.1", "200"),
    ("GET http://X.y:80/%35?a HTTP/1.1", "200"),
    ("GET http://x:/5 HTTP/1.1", "200"),
    ("GET http://[::1]:8080/5 HTTP/1.1", "200"),
    ("GET http://other/5 HTTP/1.1", "200"),
    ("GET /no HTTP/1.1", "404"),
    ("GET //5 HTTP/1.1", "404"),
    ("GET //x/5 HTTP/1.1", "404"),
    ("GET /%2F5 HTTP/1.1", "404"),
    ("GET /./5 HTTP/1.1", "404"),
    ("GET /../../etc/passwd HTTP/1.1", "404"),
    ("GET /%ff HTTP/1.1", "404"),
    // Versions.
    ("GET /5 HTTP/1.0", "200 close"),
    ("HEAD /5 HTTP/1.0", "200 close head"),
    ("GET /5 HTTP/1.2", "200"),
    ("GET /5 HTTP/1.9", "200"),
    ("HEAD /5 HTTP/1.2", "200 head"),
    ("BREW /5 HTTP/1.2", "501 close"),
    ("GET /5 HTTP/2.0", "505 close"),
    ("HEAD /5 HTTP/2.0", "505 close head"),
    ("PRI * HTTP/2.0", "505 close"),
    ("GET /5 HTTP/0.9", "505 close"),
    ("GET /5 HTTP/9.9", "505 close"),
    ("GET /5 HTTP/1.10", "400 close"),
    ("GET /5 HTTP/1.", "400 close"),
    ("GET /5 HTTP/1", "400 close"),
    ("GET /5 HTTP/2", "400 close"),
    ("GET /5 HTTP/11.1", "400 close"),
    ("GET /5 HTTP/a.b", "400 close"),
    ("GET /5 http/1.1", "400 close"),
    ("GET /5 XTTP/1.1", "400 close"),
    ("GET /5 x HTTP/1.1", "400 close"),
    ("GET /5 x HTTP/1.2", "400 close"),
    ("GET /5", "400 close"),
    ("GET", "400 close"),
    // Blanks.
    ("GET  /5 HTTP/1.1", "400 close"),
    ("GET /5  HTTP/1.1", "400 close"),
    ("GET /5 HTTP/1.1 ", "400 close"),
    ("GET\t/5 HTTP/1.1", "400 close"),
    (" GET /5 HTTP/1.1", "400 close"),
    ("GET /5 HTTP/1.1\r", "400 close"),
    ("GET /5\rHTTP/1.1", "400 close"),
    ("GET /5\0 HTTP/1.1", "400 close"),
    // Targets that are none.
    ("GET 5 HTTP/1.1", "400 close"),
    ("GET ?5 HTTP/1.1", "400 close"),
    ("GET * HTTP/1.1", "400 close"),
    ("GET /%zz HTTP/1.1", "400 close"),
    ("GET /%3 HTTP/1.1", "400 close"),
    ("GET /5% HTTP/1.1", "400 close"),
    ("GET /5?%zz HTTP/1.1", "400 close"),
    ("GET /5#x HTTP/1.1", "400 close"),
    ("GET /5?a#x HTTP/1.1", "400 close"),
    ("GET /a[b] HTTP/1.1", "400 close"),
    ("GET /a\\b HTTP/1.1", "400 close"),
    ("GET /5?a|b HTTP/1.1", "400 close"),
    ("GET /5?\"a\" HTTP/1.1", "400 close"),
    ("GET /\u{e9} HTTP/1.1", "400 close"),
    ("GET http://x#/5 HTTP/1.1", "400 close"),
    ("GET http://x/5#y HTTP/1.1", "400 close"),
    ("GET http:///5 HTTP/1.1", "400 close"),
    ("GET http://:80/5 HTTP/1.1", "400 close"),
    ("GET http:// HTTP/1.1", "400 close"),
    ("GET http:/5 HTTP/1.1", "400 close"),
    ("GET http:5 HTTP/1.1", "400 close"),
    ("GET http://user@x/5 HTTP/1.1", "400 close"),
    ("GET http://user:secret@x/5 HTTP/1.1", "400 close"),
    ("GET http://@x/5 HTTP/1.1", "400 close"),
    ("GET http://x:y/5 HTTP/1.1", "400 close"),
    ("GET http://x:80:80/5 HTTP/1.1", "400 close"),
    ("GET http://[::1/5 HTTP/1.1", "400 close"),
    ("GET http://::1/5 HTTP/1.1", "400 close"),
    ("GET http://[fe80::1%25eth0]/5 HTTP/1.1", "400 close"),
    ("GET http://x%zz/5 HTTP/1.1", "400 close"),
    // Of another server.
    ("GET https://x/5 HTTP/1.1", "421 close"),
    ("HEAD https://x/5 HTTP/1.1", "421 close head"),
    ("GET ftp://x/5 HTTP/1.1", "421 close"),
    ("GET x:80 HTTP/1.1", "421 close"),
    ("GET https://x/5#y HTTP/1.1", "400 close"),
    // Methods, judged after all that is malformed.
    ("POST /5 HTTP/1.1", "405 close"),
    ("DELETE /5 HTTP/1.1", "405 close"),
    ("TRACE /5 HTTP/1.1", "405 close"),
    ("OPTIONS /5 HTTP/1.1", "405 close"),
    ("OPTIONS * HTTP/1.1", "405 close"),
    ("CONNECT x:80 HTTP/1.1", "405 close"),
    ("CONNECT [::1]:80 HTTP/1.1", "405 close"),
    ("BREW /5 HTTP/1.1", "501 close"),
    ("get /5 HTTP/1.1", "501 close"),
    ("HEADS /5 HTTP/1.1", "501 close"),
    ("BREW 5 HTTP/1.1", "400 close"),
    ("BREW * HTTP/1.1", "400 close"),
    ("POST /%zz HTTP/1.1", "400 close"),
    ("OPTIONS x HTTP/1.1", "400 close"),
    ("CONNECT /5 HTTP/1.1", "400 close"),
    ("CONNECT x HTTP/1.1", "400 close"),
    ("CONNECT x: HTTP/1.1", "400 close"),
    ("CONNECT :80 HTTP/1.1", "400 close"),
    ("HEAD 5 HTTP/1.1", "400 close head"),
    ("G(T /5 HTTP/1.1", "400 close"),
    ("\u{1}\u{2}", "400 close"),
    ("\u{16}\u{3}\u{1}\u{2}\0", "400 close"),
];

/// Header fields, each behind `GET /5 HTTP/1.1`.
const FIELDS: &[(&str, &str)] = &[
    // Exactly one Host, which is a host and perhaps a port, or nothing.
    ("Host: x", "200"),
    ("hOST:x", "200"),
    ("Host: \t x \t", "200"),
    ("Host:", "200"),
    ("Host: x:", "200"),
    ("Host: x:80", "200"),
    ("Host: 127.0.0.1:80", "200"),
    ("Host: [::1]", "200"),
    ("Host: [::ffff:127.0.0.1]:80", "200"),
    ("Host: a-b_c.~!$&'()*+,;=%41", "200"),
    ("", "400 close"),
    ("A: b", "400 close"),
    ("Host: x\r\nHost: x", "400 close"),
    ("Host: x\r\nhost: y", "400 close"),
    ("Host: x\r\nHost:", "400 close"),
    ("Host: x y", "400 close"),
    ("Host: x/5", "400 close"),
    ("Host: x?y", "400 close"),
    ("Host: x#y", "400 close"),
    ("Host: http://x", "400 close"),
    ("Host: user@x", "400 close"),
    ("Host: x:y", "400 close"),
    ("Host: x:-1", "400 close"),
    ("Host: x:80:80", "400 close"),
    ("Host: :80", "400 close"),
    ("Host: ::1", "400 close"),
    ("Host: [::1", "400 close"),
    ("Host: [::g]", "400 close"),
    ("Host: [::1]x", "400 close"),
    ("Host: [fe80::1%eth0]", "400 close"),
    ("Host: []", "400 close"),
    ("Host: <x>", "400 close"),
    ("Host: x%zz", "400 close"),
    ("Host: x%4", "400 close"),
    ("Host: x\\y", "400 close"),
    ("Host: \u{e9}", "400 close"),
    // How fields are written.
    ("Host: x\r\nA:", "200"),
    ("Host: x\r\nA: \u{e9}\t\"x", "200"),
    ("Host : x", "400 close"),
    ("Host: x\r\nA : b", "400 close"),
    ("Host: x\r\n: b", "400 close"),
    ("Host: x\r\nA", "400 close"),
    ("Host: x\r\nA b: c", "400 close"),
    (" Host: x", "400 close"),
    ("Host: x\r\nA: b\r\n c", "400 close"),
    ("Host: x\r\nA: b\r\n\tc", "400 close"),
    ("Host:\r\n x", "400 close"),
    ("Host: x\r\nA: b\rc", "400 close"),
    ("Host: x\r\nA: b\0", "400 close"),
    ("Host: x\r\nA: b\u{7f}", "400 close"),
    // Whether the connection is used again.
    ("Host: x\r\nConnection: close", "200 close"),
    ("Host: x\r\nConnection: keep-alive, Close", "200 close"),
    ("Host: x\r\nConnection: a\r\nConnection: close", "200 close"),
    (
        "Host: x\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c",
        "200",
    ),
    ("Host: x\r\nConnection: closed", "200"),
    // What is not asked of a page.
    ("Host: x\r\nExpect: 100-continue", "200"),
    ("Host: x\r\nExpect: a-miracle", "200"),
    ("Host: x\r\nTE: trailers\r\nTrailer: a", "200"),
    ("Host: x\r\nRange: bytes=0-1", "200"),
    // Where the request ends.
    ("Host: x\r\nContent-Length: 0", "200"),
    ("Host: x\r\nContent-Length: 00", "200"),
    ("Host: x\r\nContent-Length: 0, 00\r\nContent-Length: 0", "200"),
    ("Host: x\r\nContent-Length: 0\r\nContent-Length: 5", "400 close"),
    ("Host: x\r\nContent-Length: 0, 5", "400 close"),
    ("Host: x\r\nContent-Length: 5", "400 close"),
    ("Host: x\r\nContent-Length: 18446744073709551616", "400 close"),
    ("Host: x\r\nContent-Length:", "400 close"),
    ("Host: x\r\nContent-Length: 0,", "400 close"),
    ("Host: x\r\nContent-Length: +0", "400 close"),
    ("Host: x\r\nContent-Length: -0", "400 close"),
    ("Host: x\r\nContent-Length: 0x0", "400 close"),
    ("Host: x\r\nContent-Length: 0 0", "400 close"),
    ("Host: x\r\nTransfer-Encoding: chunked", "400 close"),
    ("Host: x\r\nTransfer-Encoding: identity", "400 close"),
    ("Host: x\r\nTransfer-Encoding:", "400 close"),
    ("Host: x\r\nTransfer-Encoding: chunked, chunked", "400 close"),
    ("Host: x\r\nTransfer-Encoding: chunked, gzip", "400 close"),
    ("Host: x\r\nTransfer-Encoding: chunked;a=b", "400 close"),
    ("Host: x\r\nTransfer-Encoding: x-chunked", "400 close"),
    (
        "Host: x\r\nTransfer-Encoding: chunked\r\nContent-Length: 0",
        "400 close",
    ),
    ("Host: x\r\nTransfer-Encoding: gzip, chunked", "501 close"),
    (
        "Host: x\r\nTransfer-Encoding: a-coding;b=c, , Chunked",
        "501 close",
    ),
    (
        "Host: x\r\nTransfer-Encoding: gzip\r\nTransfer-Encoding: chunked",
        "501 close",
    ),
];

/// Whole requests, and several.
const WHOLE: &[(&str, &str)] = &[
    ("GET /5 HTTP/1.0\r\n\r\n", "200 close"),
    ("GET /5 HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", "200"),
    (
        "GET /5 HTTP/1.0\r\nConnection: close, keep-alive\r\n\r\n",
        "200 close",
    ),
    ("GET /5 HTTP/1.0\r\nHost: x y\r\n\r\n", "400 close"),
    ("GET /5 HTTP/1.0\r\nHost: x\r\nHost: x\r\n\r\n", "400 close"),
    (
        "GET /5 HTTP/1.0\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
        "400 close",
    ),
    // Lines may end without a carriage return.
    ("GET /5 HTTP/1.1\nHost: x\n\n", "200"),
    ("GET /5 HTTP/1.2\nHost: x\n\n", "200"),
    ("GET /5 HTTP/2.0\n", "505 close"),
    // HTTP/0.9.
    ("GET /5\r\n", "400 close"),
    // Of which not all is there.
    ("GET /5 HTTP/1.1\r\nHost: x\r\n", ""),
    ("GET /5 HTTP/1.2", ""),
    ("GET /5 HTTP/2.0", ""),
    ("\r\n\r\n\r", ""),
    // Blank lines before a request, also before the next, and what is none.
    ("\r\n\n\r\nGET /5 HTTP/1.1\r\nHost: x\r\n\r\n", "200"),
    ("\r\n\r\nHEAD 5 HTTP/1.1\r\nHost: x\r\n\r\n", "400 close head"),
    ("\r\rGET /5 HTTP/1.1\r\nHost: x\r\n\r\n", "400 close"),
    (
        "GET /5 HTTP/1.1\r\nHost: x\r\n\r\n\r\n\r\nGET /5 HTTP/1.2\r\nHost: x\r\n\r\n",
        "200, 200",
    ),
    (
        "HEAD /5 HTTP/1.1\r\nHost: x\r\n\r\nGET /5 HTTP/1.0\r\nConnection: keep-alive\r\n\r\nGET /5 HTTP/1.0\r\n\r\n",
        "200 head, 200, 200 close",
    ),
    // What follows a request that ends the connection is none, nor is the body of one that is refused.
    (
        "GET /5 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\nGET /5 HTTP/1.1\r\nHost: x\r\n\r\n",
        "200 close",
    ),
    (
        "GET /5 HTTP/1.1\r\nHost: x\r\n\r\nGET 5 HTTP/1.1\r\nHost: x\r\n\r\nGET /5 HTTP/1.1\r\nHost: x\r\n\r\n",
        "200, 400 close",
    ),
    (
        "POST /5 HTTP/1.1\r\nHost: x\r\nContent-Length: 30\r\n\r\nGET /5 HTTP/1.1\r\nHost: x\r\n\r\n",
        "405 close",
    ),
    (
        "GET /5 HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5;a=b\r\nhello\r\n0\r\nA: b\r\n\r\n",
        "400 close",
    ),
    (
        "POST /5 HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        "405 close",
    ),
    (
        "POST /5 HTTP/1.1\r\nHost: x\r\nContent-Length: x\r\n\r\n",
        "400 close",
    ),
    (
        "POST /5 HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n",
        "405 close",
    ),
    ("BREW /5 HTTP/1.1\r\nHost: x y\r\n\r\n", "400 close"),
];

/// Each with what it is answered, as [`summary`] has it.
pub fn requests() -> Vec<(String, &'static str)> {
    let behind = |line: &str| format!("{line}\r\nHost: x\r\n\r\n");
    let fields =
        |fields: &str| format!("GET /5 HTTP/1.1\r\n{fields}\r\n\r\n").replace("\r\n\r\n\r\n", "\r\n\r\n");
    let long = "1".repeat(8 * 1024);
    let (blank, request) = ("\r\n".repeat(10_000), behind("GET /5 HTTP/1.1"));
    let of_length = |length: usize| {
        let rest = length - fields("Host: x\r\nA: ").len();
        fields(&format!("Host: x\r\nA: {}", "b".repeat(rest)))
    };
    let made = [
        (behind(&format!("GET /{long} HTTP/1.1")), "414 close"),
        (behind(&format!("HEAD /{long} HTTP/1.1")), "414 close head"),
        (behind(&format!("{long} /5 HTTP/1.1")), "414 close"),
        (behind(&format!("GET /5 HTTP/2.{long}")), "414 close"),
        (of_length(8 * 1024), "200"),
        (of_length(8 * 1024 + 1), "431 close"),
        (fields(&format!("Host: x\r\n{}", "A: b\r\n".repeat(63))), "200"),
        (
            fields(&format!("Host: x\r\n{}", "A: b\r\n".repeat(64))),
            "431 close",
        ),
        (
            behind(&format!("HEAD /5 HTTP/1.1{}", "\r\nA: b".repeat(64))),
            "431 close head",
        ),
        (blank.clone() + &request, "200"),
        (blank.clone() + &behind("HEAD 5 HTTP/1.1"), "400 close head"),
        (request.clone() + &blank + &request, "200, 200"),
        (request.clone() + &blank, "200"),
    ];
    let whole = |&(request, answers): &(&str, &'static str)| (request.to_owned(), answers);
    let lines = LINES.iter().map(|&(line, answers)| (behind(line), answers));
    let fields = FIELDS.iter().map(|&(lines, answers)| (fields(lines), answers));
    lines
        .chain(fields)
        .chain(WHOLE.iter().map(whole))
        .chain(made)
        .collect()
}

/// What was answered, in words: of each answer its status, `close` where it says that the connection ends, and `head`
/// where it has no body. A body is as long as its head says, and a page is that of 5, or `another`.
///
/// # Panics
///
/// If it is no answer.
pub fn summary(answers: &[u8]) -> String {
    const VERSION: &str = "HTTP/1.1 ";
    let mut rest = std::str::from_utf8(answers).expect("text");
    let mut said = Vec::new();
    while !rest.is_empty() {
        let (head, behind) = rest.split_once("\r\n\r\n").expect("a head");
        let status = head.strip_prefix(VERSION).and_then(|head| head.get(..3));
        let status = status.unwrap_or_else(|| panic!("no status: {head}"));
        let length = head.rsplit_once("\r\nContent-Length: ").expect("a length").1;
        let length: usize = length.parse().expect("a number");
        let mut words = vec![status];
        words.extend(head.contains("\r\nConnection: close\r\n").then_some("close"));
        rest = behind;
        if behind.is_empty() || behind.starts_with(VERSION) {
            words.push("head");
        } else {
            let (body, behind) = behind.split_at(length);
            words.extend((status == "200" && body != "abcde").then_some("another"));
            rest = behind;
        }
        said.push(words.join(" "));
    }
    said.join(", ")
}
