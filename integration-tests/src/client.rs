//! A protocol client over a plain socket: sends any bytes, reads any answer, waits no longer than its limit.

use crate::message;
use crate::message::Fields;
use crate::message::Message;
use postgres_protocol::authentication::md5_hash;
use postgres_protocol::authentication::sasl::ChannelBinding;
use postgres_protocol::authentication::sasl::SCRAM_SHA_256;
use postgres_protocol::authentication::sasl::ScramSha256;
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::io::Read;
use std::io::Write;
use std::net::Shutdown;
use std::net::TcpStream;
use std::time::Duration;

/// Protocol 3.0 and 3.2 as the startup packet writes them.
pub const PROTOCOL_3_0: i32 = 0x0003_0000;
pub const PROTOCOL_3_2: i32 = 0x0003_0002;

/// How long a client waits for the next bytes unless told otherwise.
pub const ANSWER_LIMIT: Duration = Duration::from_secs(20);

/// Where and as whom to log in.
#[derive(Clone, Debug)]
pub struct Address {
    pub port: u16,
    pub user: String,
    pub password: String,
    pub database: String,
    /// Startup parameters besides user and database.
    pub parameters: Vec<(String, String)>,
}

impl Address {
    pub fn new(port: u16, user: &str, database: &str) -> Address {
        let (user, password) = (user.to_string(), user.to_string());
        Address { port, user, password, database: database.to_string(), parameters: Vec::new() }
    }

    pub fn password(mut self, password: &str) -> Address {
        self.password = password.to_string();
        self
    }

    pub fn parameter(mut self, name: &str, value: &str) -> Address {
        self.parameters.push((name.to_string(), value.to_string()));
        self
    }
}

/// One connection. What the server tells at login is kept.
pub struct Client {
    stream: TcpStream,
    buffer: Vec<u8>,
    start: usize,
    pub parameters: BTreeMap<String, String>,
    pub process: i32,
    pub secret: Vec<u8>,
    pub notices: Vec<Fields>,
}

impl Client {
    /// A connection on which nothing was said yet.
    pub fn open(port: u16) -> std::io::Result<Client> {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(ANSWER_LIMIT))?;
        stream.set_write_timeout(Some(ANSWER_LIMIT))?;
        Ok(Client {
            stream,
            buffer: Vec::new(),
            start: 0,
            parameters: BTreeMap::new(),
            process: 0,
            secret: Vec::new(),
            notices: Vec::new(),
        })
    }

    /// Logs in; an error of the server, or a refused connection (as 08006), is the `Err`.
    pub fn try_connect(address: &Address) -> Result<Client, Fields> {
        let refused = |e: std::io::Error| Fields(vec![('C', "08006".into()), ('M', e.to_string())]);
        let mut client = Client::open(address.port).map_err(refused)?;
        let mut parameters = vec![("user", address.user.as_str()), ("database", address.database.as_str())];
        parameters.extend(address.parameters.iter().map(|(n, v)| (n.as_str(), v.as_str())));
        client.send(&message::startup(PROTOCOL_3_0, &parameters));
        client.login(&address.user, &address.password)?;
        Ok(client)
    }

    pub fn connect(address: &Address) -> Client {
        Client::try_connect(address).unwrap_or_else(|e| panic!("login to {address:?}: {e:?}"))
    }

    /// Answers the server's demands after a startup packet, up to ReadyForQuery.
    pub fn login(&mut self, user: &str, password: &str) -> Result<(), Fields> {
        let mut scram = None;
        loop {
            match self.receive() {
                Message::Authentication { method: 3, .. } => {
                    self.send(&message::frame(b'p', &message::cstring(password)))
                }
                Message::Authentication { method: 5, rest } => {
                    let salt = rest.as_slice().try_into().expect("four bytes of salt");
                    let hash = md5_hash(user.as_bytes(), password.as_bytes(), salt);
                    self.send(&message::frame(b'p', &message::cstring(&hash)));
                }
                Message::Authentication { method: 10, .. } => {
                    let exchange = ScramSha256::new(password.as_bytes(), ChannelBinding::unsupported());
                    let mut body = message::cstring(SCRAM_SHA_256);
                    body.extend((exchange.message().len() as i32).to_be_bytes());
                    body.extend(exchange.message());
                    self.send(&message::frame(b'p', &body));
                    scram = Some(exchange);
                }
                Message::Authentication { method: 11, rest } => {
                    let exchange = scram.as_mut().expect("SASL begins before it continues");
                    exchange.update(&rest).expect("a server's first SCRAM message");
                    let answer = exchange.message().to_vec();
                    self.send(&message::frame(b'p', &answer));
                }
                Message::Authentication { method: 12, rest } => {
                    scram.as_mut().expect("SASL begins before it ends").finish(&rest).expect("the server's signature");
                }
                Message::ErrorResponse(fields) => return Err(fields),
                Message::Closed => return Err(Fields(vec![('C', "08006".into()), ('M', "closed".into())])),
                Message::ReadyForQuery { .. } => return Ok(()),
                _ => {}
            }
        }
    }

    /// How long `receive` waits for bytes.
    pub fn set_limit(&mut self, limit: Duration) {
        self.stream.set_read_timeout(Some(limit)).unwrap();
    }

    /// Sends bytes as they are. A closed connection shows at the next `receive`.
    pub fn send(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes);
    }

    /// The next message; `Closed` at the end of the stream. Panics when none comes in time.
    pub fn receive(&mut self) -> Message {
        self.try_receive().expect("no answer in time")
    }

    /// Like `receive`; `None` when no whole message comes in time.
    pub fn try_receive(&mut self) -> Option<Message> {
        loop {
            if let Some(message) = self.cut() {
                self.note(&message);
                return Some(message);
            }
            match self.fill() {
                Ok(0) => return Some(Message::Closed),
                Ok(_) => {}
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => return None,
                Err(_) => return Some(Message::Closed),
            }
        }
    }

    /// One byte, as the answers to SSLRequest and GSSENCRequest are; `None` at the end of the stream.
    pub fn receive_byte(&mut self) -> Option<u8> {
        while self.start >= self.buffer.len() {
            if self.fill().ok()? == 0 {
                return None;
            }
        }
        self.start += 1;
        self.buffer.get(self.start - 1).copied()
    }

    /// All messages up to and with the first whose name is given, or the end of the stream.
    pub fn until(&mut self, names: &[&str]) -> Vec<Message> {
        let mut out = Vec::new();
        loop {
            let message = self.receive();
            let last = message == Message::Closed || names.contains(&message.name());
            out.push(message);
            if last {
                return out;
            }
        }
    }

    /// Says that nothing more comes; what the server still says can be read.
    pub fn finish(&self) {
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    /// Closes our side without Terminate, as a lost client does.
    pub fn abandon(self) {
        let _ = self.stream.shutdown(Shutdown::Both);
    }

    /// Asks, on a connection of its own, to cancel what this client runs. Returns when the server closed it.
    pub fn cancel(&self) {
        let port = self.stream.peer_addr().unwrap().port();
        cancel(port, self.process, &self.secret);
    }

    fn fill(&mut self) -> std::io::Result<usize> {
        if self.start == self.buffer.len() {
            self.buffer.clear();
            self.start = 0;
        }
        let mut chunk = [0u8; 16 * 1024];
        let count = self.stream.read(&mut chunk)?;
        self.buffer.extend_from_slice(&chunk[..count]);
        Ok(count)
    }

    fn cut(&mut self) -> Option<Message> {
        let rest = &self.buffer[self.start..];
        let header: [u8; 4] = rest.get(1..5)?.try_into().ok()?;
        let length = usize::try_from(i32::from_be_bytes(header)).expect("a message's length");
        assert!(length >= 4, "a message of length {length}");
        let body = rest.get(5..1 + length)?;
        let message = Message::decode(rest[0], body);
        self.start += 1 + length;
        Some(message)
    }

    fn note(&mut self, message: &Message) {
        match message {
            Message::ParameterStatus { name, value } => {
                self.parameters.insert(name.clone(), value.clone());
            }
            Message::BackendKeyData { process, secret } => {
                self.process = *process;
                self.secret.clone_from(secret);
            }
            Message::NoticeResponse(fields) => self.notices.push(fields.clone()),
            _ => {}
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.stream.write_all(&message::terminate());
    }
}

/// Sends a CancelRequest and waits until the server closes the connection.
pub fn cancel(port: u16, process: i32, secret: &[u8]) {
    let Ok(mut connection) = Client::open(port) else { return };
    let mut packet = (12 + secret.len() as i32).to_be_bytes().to_vec();
    packet.extend(80_877_102i32.to_be_bytes());
    packet.extend(process.to_be_bytes());
    packet.extend(secret);
    connection.send(&packet);
    let _ = connection.receive_byte();
    connection.abandon();
}
