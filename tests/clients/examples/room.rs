use futures_util::StreamExt;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut room = Vec::new();
    for _ in 0..10 {
        let options = async_nats::ConnectOptions::new().no_echo();
        let member = options.connect("127.0.0.1:4222").await?;
        let heard = member.subscribe("rooms.blue").await?;
        let _ = member.request("x", "".into()).await; // nobody answers, and by then it is in
        room.push((member, heard));
    }
    let (first, _) = &room[0];
    first.publish("rooms.blue", "hello, everybody".into()).await?;
    for (_, heard) in &mut room[1..] {
        let message = heard.next().await.ok_or("it ended")?;
        println!("{}", String::from_utf8_lossy(&message.payload));
    }
    Ok(())
}
