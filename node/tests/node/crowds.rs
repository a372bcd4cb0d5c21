//! Many clients at once: what each of them costs, and what is left when they are gone.
//!
//! Memory is what the node's process has of its own (`RssAnon`). The kernel's memory for sockets is not in it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use socket2::SockRef;

use crate::harness::{Node, PATIENCE, wait_until};

/// What a connection that nothing happens on may take, in bytes.
const MAX_IDLE: usize = 16 << 10;
/// Descriptors that the tests beside this one may need, in this process and in the node.
const SPARE_FILES: u64 = 1500;

/// Raises the limit on open files so that `wanted` connections fit, and returns how many do.
fn room_for(wanted: u64) -> usize {
    let limit = getrlimit(Resource::Nofile);
    let hard = limit.maximum.unwrap_or(u64::MAX);
    let raised = Rlimit {
        current: Some(hard.min(wanted + SPARE_FILES)),
        maximum: limit.maximum,
    };
    setrlimit(Resource::Nofile, raised).expect("up to the hard limit everybody may");
    let fitting = hard.saturating_sub(SPARE_FILES).min(wanted);
    if fitting < wanted {
        println!("the hard limit on open files allows {fitting} connections, not {wanted}");
    }
    fitting as usize
}

fn connect(addr: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect_timeout(&addr, PATIENCE).expect("a connection");
    stream.set_read_timeout(Some(PATIENCE)).expect("set");
    // Closed at once, so that no port waits for what may still come.
    SockRef::from(&stream)
        .set_linger(Some(Duration::ZERO))
        .expect("set");
    stream
}

/// Sends `request` and reads so many lines.
fn ask(mut stream: &TcpStream, request: &str, lines: usize) -> String {
    stream.write_all(request.as_bytes()).expect("sent");
    let mut reader = BufReader::new(stream);
    let mut answer = String::new();
    for _ in 0..lines {
        reader.read_line(&mut answer).expect("a line");
    }
    answer
}

/// Expects that `count` connections have not added more to `before` than they may.
pub(crate) fn expect_small(node: &Node, before: u64, count: usize, what: &str) {
    let each = || node.own_memory().saturating_sub(before) as usize / count;
    // What was freed is given back to the system some seconds later.
    let end = Instant::now() + PATIENCE;
    while each() > MAX_IDLE && Instant::now() < end {
        thread::sleep(Duration::from_millis(100));
    }
    println!("{} bytes per {what} connection, of {count}", each());
    assert!(each() <= MAX_IDLE, "{} bytes per {what} connection", each());
}

#[test]
fn ten_thousand_idle_connections_take_at_most_16_kib_each() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let count = room_for(10_000);
    let node = Node::start(dir.path(), &["-c", &(count + 10).to_string()]);
    let mut steady = node.connect();
    assert_eq!(steady.set("key", &"x".repeat(10_000)), "STORED");
    assert!(steady.get("key").is_some());
    let before = node.own_memory();
    let clients: Vec<_> = (0..count).map(|_| connect(node.addr)).collect();
    wait_until("all are accepted", || {
        steady.stat("curr_connections") == (count + 1).to_string()
    });
    expect_small(&node, before, count, "new");
    for client in &clients {
        assert!(ask(client, "get key\r\n", 3).ends_with("END\r\n"));
    }
    expect_small(&node, before, count, "idle");
    assert!(steady.get("key").is_some(), "others are served");
    drop(clients);
    wait_until("all are gone", || steady.stat("curr_connections") == "1");
}

#[test]
fn connections_give_back_what_a_large_request_and_a_large_answer_took() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let count = room_for(1500);
    let node = Node::start(dir.path(), &["-c", &(count + 10).to_string()]);
    let mut steady = node.connect();
    let data = "x".repeat(200_000);
    assert_eq!(steady.set("key", &data), "STORED");
    assert!(steady.get("key").is_some());
    let before = node.own_memory();
    let add = format!("add key 0 0 {}\r\n{data}\r\n", data.len());
    let clients: Vec<_> = (0..count)
        .map(|_| {
            let client = connect(node.addr);
            assert_eq!(ask(&client, &add, 1), "NOT_STORED\r\n");
            assert!(ask(&client, "get key\r\n", 3).ends_with("END\r\n"));
            client
        })
        .collect();
    expect_small(&node, before, clients.len(), "once busy");
}

#[test]
fn a_storm_of_connections_leaves_nothing_behind() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let node = Node::start(dir.path(), &["-c", "50"]);
    let mut steady = node.connect();
    assert_eq!(steady.set("key", "data"), "STORED");
    let files = node.open_files();
    thread::scope(|scope| {
        for storm in 0..8 {
            let addr = node.addr;
            scope.spawn(move || (0..500).for_each(|round| come_and_go(addr, storm + round)));
        }
        for _ in 0..100 {
            assert_eq!(steady.get("key").as_deref(), Some("data"));
        }
    });
    wait_until("all are gone", || steady.stat("curr_connections") == "1");
    wait_until("their descriptors are closed", || {
        node.open_files() <= files
    });
    // Beyond the limit clients are told so, one after the other, and not served.
    let mut full = Vec::new();
    wait_until("it is full", || {
        full.push(node.connect());
        steady.stat("curr_connections") == "50"
    });
    for _ in 0..200 {
        let mut refused = connect(node.addr);
        let mut answer = String::new();
        refused.read_to_string(&mut answer).expect("an answer");
        assert_eq!(answer, "ERROR Too many open connections\r\n");
    }
    drop(full);
    wait_until("there is room again", || {
        steady.stat("curr_connections") == "1"
    });
    wait_until("nothing is left open", || node.open_files() <= files);
}

/// A client that leaves before, while or after it is answered.
fn come_and_go(addr: SocketAddr, how: usize) {
    let mut client = connect(addr);
    let half = b"set key 0 0 100000\r\nhalf";
    // It may have been refused.
    let _ = match how % 4 {
        0 => Ok(()),
        1 => client.write_all(b"get key\r\n"),
        2 => client.write_all(half),
        _ => {
            let sent = client.write_all(b"get key\r\n");
            sent.and_then(|()| client.read(&mut [0; 100]).map(drop))
        }
    };
}

#[test]
fn clients_that_never_read_hold_a_bounded_part_of_their_answers() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let node = Node::start(dir.path(), &[]);
    let mut steady = node.connect();
    assert_eq!(steady.set("key", &"x".repeat(100_000)), "STORED");
    let before = node.own_memory();
    // For each of them, 300 MB of answers.
    let get = format!("get{}\r\n", " key".repeat(500));
    let requests = [
        get.as_str(),
        "mg key v\r\n",
        "get key\r\n",
        "gats 0 key\r\n",
        "stats\r\n",
    ];
    let slow: Vec<_> = (0..200)
        .map(|number| {
            let client = connect(node.addr);
            let request: &str = requests[number % requests.len()];
            let times = (1 + 60_000 / request.len()).min(3000);
            (&client)
                .write_all(request.repeat(times).as_bytes())
                .expect("sent");
            client
        })
        .collect();
    for _ in 0..100 {
        assert!(steady.get("key").is_some(), "others are served");
    }
    let each = node.own_memory().saturating_sub(before) as usize / slow.len();
    // A batch of answers, one more answer that began below the limit, and as much of the requests.
    assert!(each < 512 << 10, "{each} bytes per slow reader");
    drop(slow);
    wait_until("they are gone", || steady.stat("curr_connections") == "1");
}

#[test]
fn a_thousand_who_would_watch_or_list_are_refused_but_for_a_few() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let node = Node::start(dir.path(), &["-c", "2100"]);
    let mut steady = node.connect();
    assert_eq!(steady.set("key", "data"), "STORED");
    let before = node.own_memory();
    let watching: Vec<_> = (0..1000)
        .map(|_| {
            let client = connect(node.addr);
            let answer = ask(&client, "watch fetchers mutations\r\n", 1);
            (client, answer)
        })
        .collect();
    let allowed = watching.iter().filter(|(_, answer)| answer == "OK\r\n");
    assert_eq!(allowed.count(), 20);
    let listing: Vec<_> = (0..1000)
        .map(|_| {
            let client = connect(node.addr);
            (&client)
                .write_all(b"lru_crawler metadump all\r\nlru_crawler mgdump all\r\n")
                .expect("sent");
            client
        })
        .collect();
    // They fill the watchers' buffers.
    let gets = format!("get{}\r\n", " key".repeat(1000));
    for _ in 0..50 {
        steady.send(gets.as_bytes());
        while steady.line() != "END" {}
    }
    let each = node.own_memory().saturating_sub(before) as usize / 2000;
    assert!(each <= MAX_IDLE, "{each} bytes each");
    drop((watching, listing));
    wait_until("nobody is left", || steady.stat("curr_connections") == "1");
    wait_until("the keys can be listed", || {
        steady.send(b"lru_crawler metadump all\r\n");
        let found = steady.line().starts_with("key=");
        while found && steady.line() != "END" {}
        found
    });
}
