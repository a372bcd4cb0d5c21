//! What a node takes of the machine's memory, whatever is asked of it.
//!
//! `-m` is the budget for what it keeps. As much again is for all else, see `config/memory.rs`: that is what must be enough.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::client::Client;
use crate::harness::Node;

const BUDGET: u64 = 96 << 20;
const LOAD: Duration = Duration::from_secs(6);

/// One after the other, and the same each time.
struct Numbers(AtomicU64);

impl Numbers {
    fn below(&self, end: u64) -> u64 {
        let number = self.0.fetch_add(1, Ordering::Relaxed);
        (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20) % end
    }

    /// Of so many keys that their values are five times the budget.
    fn large_key(&self, len: usize) -> String {
        format!("large:{}", self.below(5 * BUDGET / len as u64))
    }
}

fn write(client: &mut Client, len: usize, numbers: &Numbers) {
    let answer = client.set(&numbers.large_key(len), &"x".repeat(len));
    assert!(
        answer == "STORED" || answer.contains("out of memory"),
        "{answer}"
    );
    let small = || {
        let number = numbers.below(1 << 40);
        format!("set small:{number} 0 0 10 noreply\r\n0123456789\r\n")
    };
    let small: String = (0..200).map(|_| small()).collect();
    client.send(small.as_bytes());
}

fn read(client: &mut Client, len: usize, numbers: &Numbers) {
    if let Some(value) = client.get(&numbers.large_key(len)) {
        assert_eq!(value.len(), len);
    }
}

/// The most memory that a node ever had under everything at once: values of `len` bytes and small ones are written and read, also
/// from the disk, files are written and brought together, some clients never read their answers, and many say nothing or
/// the half of something. `meanwhile` is done again and again.
fn peak(len: usize, mut meanwhile: impl FnMut(&mut Client)) -> u64 {
    let dir = tempfile::tempdir().expect("temporary directory");
    let budget = (BUDGET >> 20).to_string();
    let node = Node::start(dir.path(), &["-m", &budget, "--disk-quota", "1GiB"]);
    let mut silent: Vec<_> = (0..400).map(|_| node.connect()).collect();
    for (number, client) in silent.iter_mut().enumerate() {
        client.send(match number % 4 {
            0 => b"get large:1 large:2 large:3 large:4\r\n".as_slice(),
            1 => b"set half 0 0 900000\r\nbegin",
            2 => b"get half-a-key",
            _ => b"",
        });
    }
    let (numbers, over) = (Numbers(AtomicU64::new(1)), AtomicBool::new(false));
    thread::scope(|threads| {
        for turn in 0..8 {
            let (node, numbers, over) = (&node, &numbers, &over);
            threads.spawn(move || {
                let mut client = node.connect();
                let act = if turn % 2 == 0 { write } else { read };
                while !over.load(Ordering::Relaxed) {
                    act(&mut client, len, numbers);
                }
            });
        }
        let started = Instant::now();
        let mut client = node.connect();
        while started.elapsed() < LOAD {
            meanwhile(&mut client);
        }
        over.store(true, Ordering::Relaxed);
    });
    node.peak_memory()
}

fn is_within_twice_the_budget(peak: u64) {
    println!("at most {} of {} MiB", peak >> 20, BUDGET >> 19);
    assert!(peak <= 2 * BUDGET, "{} MiB", peak >> 20);
}

#[test]
fn a_mix_of_all_loads_with_the_largest_values_stays_within_twice_the_budget() {
    is_within_twice_the_budget(peak(900_000, |_| thread::sleep(Duration::from_millis(10))));
}

/// Who lists everything holds one value of each file.
#[test]
fn a_mix_of_all_loads_while_everything_is_listed_stays_within_twice_the_budget() {
    let list = |client: &mut Client| {
        client.send(b"lru_crawler metadump all\r\n");
        while client.line() != "END" {}
    };
    is_within_twice_the_budget(peak(10_000, list));
}
