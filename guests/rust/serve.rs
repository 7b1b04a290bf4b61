//! A server with a task of Tokio for each connection; for chat with two, one that receives and one that sends.
//!
//! `echo` sends back what comes. `chat` is that of `guests/c/servers/chat_threads.c`: `join NAME` is answered with
//! `joined NAME`, and each further line goes to the others in the room.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::tcp::OwnedWriteHalf;
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::mpsc::{channel, Receiver, Sender};
use tokio::sync::Mutex as AsyncMutex;

const BACKLOG: u32 = 4096;
const MOST_LINE: u64 = 16_384;
const QUEUE: usize = 1_024;

type Line = Arc<[u8]>;

/// A room: its lock keeps its members and the order of what is said there.
type Room = Arc<AsyncMutex<Vec<(u64, Sender<Line>)>>>;

#[derive(Default)]
struct Rooms(Mutex<HashMap<String, Room>>);

impl Rooms {
    fn named(&self, name: &str) -> Room {
        let mut rooms = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        rooms.entry(name.to_owned()).or_default().clone()
    }
}

pub async fn serve(design: &str, protocol: &str, port: u16) -> Result<(), String> {
    if design != "tokio" {
        return Err(format!("there is no design {design}"));
    }
    let chats = match protocol {
        "echo" => false,
        "chat" => true,
        _ => return Err(format!("there is no protocol {protocol}")),
    };
    accept(chats, port).await.map_err(|e| e.to_string())
}

async fn accept(chats: bool, port: u16) -> io::Result<()> {
    let socket = TcpSocket::new_v4()?;
    socket.bind(([127, 0, 0, 1], port).into())?;
    let listener = socket.listen(BACKLOG)?;
    println!("listening on {}", listener.local_addr()?);
    let rooms = Arc::new(Rooms::default());
    for number in 0.. {
        let (client, _) = listener.accept().await?;
        client.set_nodelay(true)?;
        let rooms = rooms.clone();
        // What goes wrong is that a client has gone.
        tokio::spawn(async move {
            let _ = match chats {
                true => chat(number, client, &rooms).await,
                false => echo(client).await,
            };
        });
    }
    Ok(())
}

async fn echo(mut client: TcpStream) -> io::Result<()> {
    let mut bytes = [0; 8192];
    loop {
        match client.read(&mut bytes).await? {
            0 => return Ok(()),
            got => client.write_all(&bytes[..got]).await?,
        }
    }
}

/// A line with its end; none where there is no whole one any more.
async fn line_of(input: &mut (impl AsyncBufReadExt + Unpin)) -> io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    input.take(MOST_LINE).read_until(b'\n', &mut line).await?;
    Ok(line.ends_with(b"\n").then_some(line))
}

async fn chat(number: u64, client: TcpStream, rooms: &Rooms) -> io::Result<()> {
    let (input, output) = client.into_split();
    let mut input = BufReader::new(input);
    let Some(greeting) = line_of(&mut input).await? else {
        return Ok(());
    };
    let greeting = String::from_utf8_lossy(&greeting).into_owned();
    let Some(name) = greeting.trim_end().strip_prefix("join ") else {
        return Ok(());
    };
    let (lines, queue) = channel(QUEUE);
    let sends = tokio::spawn(send(output, queue));
    let room = rooms.named(name);
    // Nobody else has put anything in yet, so there is room.
    let _ = lines.try_send(format!("joined {name}\n").into_bytes().into());
    room.lock().await.push((number, lines));
    let heard = hear(number, &mut input, &room).await;
    room.lock().await.retain(|(other, _)| *other != number);
    let _ = sends.await;
    heard
}

async fn hear(number: u64, input: &mut (impl AsyncBufReadExt + Unpin), room: &Room) -> io::Result<()> {
    while let Some(line) = line_of(input).await? {
        let line: Line = line.into();
        for (other, lines) in room.lock().await.iter() {
            if *other != number {
                // Fails where it has gone.
                let _ = lines.send(line.clone()).await;
            }
        }
    }
    Ok(())
}

/// Until nobody can put anything in any more, or the client has gone.
async fn send(mut output: OwnedWriteHalf, mut lines: Receiver<Line>) {
    while let Some(line) = lines.recv().await {
        if output.write_all(&line).await.is_err() {
            return;
        }
    }
}
