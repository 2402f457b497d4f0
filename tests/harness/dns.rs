//! A name server on loopback that answers from a table, which tests change while it runs. UDP and TCP on one port.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};

use hickory_proto::op::{Message, ResponseCode};
use hickory_proto::rr::rdata::{A, AAAA, SRV};
use hickory_proto::rr::{Name, RData, Record, RecordType};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::task::JoinSet;

/// Time to live of every record, in seconds: longer than any test, so that a cache would be noticed.
const TTL: u32 = 3600;

/// Tries to find a port that is free for both protocols.
const TRIES: u32 = 100;

/// What is said of a name.
#[derive(Clone, Debug)]
pub(crate) enum Says {
    /// These records, of whatever kinds are asked for; none of the kind is an empty answer.
    Records(Vec<RData>),
    /// One of these addresses, another at each look.
    InTurn(Vec<IpAddr>),
    /// An error.
    Code(ResponseCode),
    /// Nothing at all.
    Silence,
}

impl Says {
    /// A and AAAA records.
    pub(crate) fn addresses(addresses: impl IntoIterator<Item = IpAddr>) -> Self {
        Self::Records(addresses.into_iter().map(record_of).collect())
    }

    /// SRV records, each of priority, weight, port and host.
    pub(crate) fn services(services: &[(u16, u16, u16, &str)]) -> Self {
        let record = |(priority, weight, port, host): &(u16, u16, u16, &str)| {
            RData::SRV(SRV::new(*priority, *weight, *port, Name::from_ascii(host).unwrap()))
        };
        Self::Records(services.iter().map(record).collect())
    }
}

fn record_of(ip: IpAddr) -> RData {
    match ip {
        IpAddr::V4(v4) => RData::A(A(v4)),
        IpAddr::V6(v6) => RData::AAAA(AAAA(v6)),
    }
}

#[derive(Default)]
struct Table {
    names: HashMap<String, Says>,
    /// Names of which AAAA is never answered.
    without_v6: bool,
    /// Whether the addresses of an SRV record's host come with it.
    sends_along: bool,
    questions: HashMap<RecordType, usize>,
    over_tcp: usize,
}

/// A running name server.
pub(crate) struct NameServer {
    table: Arc<Mutex<Table>>,
    address: SocketAddr,
    _tasks: JoinSet<()>,
}

impl NameServer {
    pub(crate) async fn start() -> Self {
        for _ in 0..TRIES {
            let udp = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
            let address = udp.local_addr().unwrap();
            let Ok(tcp) = TcpListener::bind(address).await else { continue };
            let table = Arc::<Mutex<Table>>::default();
            let mut tasks = JoinSet::new();
            tasks.spawn(over_udp(udp, table.clone()));
            tasks.spawn(over_tcp(tcp, table.clone()));
            return Self { table, address, _tasks: tasks };
        }
        panic!("no port was free for UDP and TCP in {TRIES} tries");
    }

    /// The setting of a pool: `dns: {name: NAME, ...}` asking this server every 50 ms. `more` is further keys.
    pub(crate) fn setting(&self, name: &str, more: &str) -> String {
        format!("dns: {{name: {name}, servers: [\"{}\"], interval: 50ms, {more}}}", self.address)
    }

    /// Changes what is said of a name. A name that was never set does not exist.
    pub(crate) fn set(&self, name: &str, says: Says) {
        self.table.lock().unwrap().names.insert(name.to_owned(), says);
    }

    /// From here on questions for AAAA are not answered.
    pub(crate) fn forget_v6(&self) {
        self.table.lock().unwrap().without_v6 = true;
    }

    /// Whether, from here on, the addresses of an SRV record's host come with it.
    pub(crate) fn send_along(&self, sends_along: bool) {
        self.table.lock().unwrap().sends_along = sends_along;
    }

    /// Questions so far for a kind of record.
    pub(crate) fn questions(&self, kind: RecordType) -> usize {
        self.table.lock().unwrap().questions.get(&kind).copied().unwrap_or_default()
    }

    /// Questions so far over TCP.
    pub(crate) fn over_tcp(&self) -> usize {
        self.table.lock().unwrap().over_tcp
    }
}

async fn over_udp(socket: UdpSocket, table: Arc<Mutex<Table>>) {
    let mut packet = [0; 4096];
    loop {
        let Ok((length, client)) = socket.recv_from(&mut packet).await else { continue };
        let Ok(question) = Message::from_vec(&packet[..length]) else { continue };
        let Some(answer) = answer(&question, &table) else { continue };
        let mut bytes = answer.to_vec().unwrap();
        if bytes.len() > usize::from(question.max_payload()) {
            bytes = answer.truncate().to_vec().unwrap();
        }
        let _ = socket.send_to(&bytes, client).await;
    }
}

async fn over_tcp(listener: TcpListener, table: Arc<Mutex<Table>>) {
    let mut clients = JoinSet::new();
    loop {
        let Ok((mut stream, _)) = listener.accept().await else { continue };
        let table = table.clone();
        clients.spawn(async move { while exchange(&mut stream, &table).await.is_some() {} });
    }
}

async fn exchange(stream: &mut TcpStream, table: &Mutex<Table>) -> Option<()> {
    let length = stream.read_u16().await.ok()?;
    let mut packet = vec![0; length.into()];
    stream.read_exact(&mut packet).await.ok()?;
    let question = Message::from_vec(&packet).ok()?;
    table.lock().unwrap().over_tcp += 1;
    let bytes = answer(&question, table)?.to_vec().unwrap();
    stream.write_u16(u16::try_from(bytes.len()).unwrap()).await.ok()?;
    stream.write_all(&bytes).await.ok()
}

fn answer(question: &Message, table: &Mutex<Table>) -> Option<Message> {
    let query = question.queries.first()?.clone();
    let mut table = table.lock().unwrap();
    *table.questions.entry(query.query_type()).or_default() += 1;
    if table.without_v6 && query.query_type() == RecordType::AAAA {
        return None;
    }
    let mut answer = Message::response(question.metadata.id, question.metadata.op_code);
    answer.metadata.recursion_desired = question.metadata.recursion_desired;
    answer.metadata.recursion_available = true;
    answer.add_query(query.clone());
    let name = query.name().to_ascii().to_ascii_lowercase();
    let looks = table.questions.get(&RecordType::A).copied().unwrap_or_default();
    let mut add = |records: &[RData]| {
        for data in records.iter().filter(|data| data.record_type() == query.query_type()) {
            answer.answers.push(Record::from_rdata(query.name().clone(), TTL, data.clone()));
        }
    };
    match table.names.get(name.trim_end_matches('.')) {
        None => answer.metadata.response_code = ResponseCode::NXDomain,
        Some(Says::Code(code)) => answer.metadata.response_code = *code,
        Some(Says::Silence) => return None,
        Some(Says::Records(records)) => add(records),
        Some(Says::InTurn(addresses)) => add(&[record_of(addresses[looks % addresses.len()])]),
    }
    if table.sends_along {
        for host in answer.answers.iter().filter_map(host).cloned().collect::<Vec<_>>() {
            let known = table.names.get(host.to_ascii().to_ascii_lowercase().trim_end_matches('.'));
            if let Some(Says::Records(records)) = known {
                let along = records.iter().map(|data| Record::from_rdata(host.clone(), TTL, data.clone()));
                answer.add_additionals(along);
            }
        }
    }
    Some(answer)
}

fn host(record: &Record) -> Option<&Name> {
    if let RData::SRV(srv) = &record.data { Some(&srv.target) } else { None }
}
