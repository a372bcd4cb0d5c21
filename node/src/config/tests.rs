//! Where settings come from, and which of them are refused.

use std::fs;

use clap::{CommandFactory, Parser};

use super::*;

/// What a node is told by these flags, this environment and this file.
fn load(args: &[&str], environment: &[(&str, &str)], file: &str) -> Result<Config, String> {
    let dir = tempfile::tempdir().expect("temporary directory");
    let path = dir.path().join("config.toml");
    fs::write(&path, file).expect("written");
    let args = ["petracache", path.to_str().expect("text")]
        .into_iter()
        .chain(args.iter().copied());
    let flags = Flags::try_parse_from(args).expect("known flags");
    let variable = |name: &str| {
        environment
            .iter()
            .find(|(known, _)| *known == name)
            .map(|(_, value)| (*value).to_owned())
    };
    Config::load(&flags, variable).map_err(|error| {
        error
            .to_string()
            .replace(path.to_str().expect("text"), "FILE")
    })
}

fn loaded(args: &[&str], environment: &[(&str, &str)], file: &str) -> Config {
    load(args, environment, file).expect("a good configuration")
}

/// The file of the first documentation, which must go on working.
const FIRST_FILE: &str = r#"
[server]
listen_addr = "127.0.0.1:11222"
max_connections = 10000
read_buffer_size = 8192
write_buffer_size = 8192

[storage]
db_path = "./data/rocksdb"
block_cache_size = 1073741824  # 1GB
write_buffer_size = 67108864   # 64MB
max_write_buffer_number = 3
target_file_size_base = 67108864  # 64MB
max_background_jobs = 4
enable_compression = false
enable_ttl_compaction = true

[metrics]
enabled = true
listen_addr = "127.0.0.1:9090"
"#;

#[test]
fn the_first_documented_file_and_environment_still_work() {
    let config = loaded(&[], &[], FIRST_FILE);
    assert_eq!(config.listen_addr.to_string(), "127.0.0.1:11222");
    assert_eq!(config.metrics_addr.map(|addr| addr.port()), Some(9090));
    assert_eq!(config.storage.block_cache_size, 1 << 30);
    assert_eq!(config.storage.write_buffer_size, 64 << 20);
    let environment = [
        ("PETRACACHE_LISTEN_ADDR", "0.0.0.0:11333"),
        ("PETRACACHE_MAX_CONNECTIONS", "5"),
        ("PETRACACHE_DB_PATH", "/data/db"),
        ("PETRACACHE_METRICS_ADDR", "0.0.0.0:9999"),
        ("PETRACACHE_METRICS_ENABLED", "false"),
    ];
    let config = loaded(&[], &environment, FIRST_FILE);
    assert_eq!(config.listen_addr.to_string(), "0.0.0.0:11333");
    assert_eq!(config.max_connections, 5);
    assert_eq!(config.storage.db_path.to_str(), Some("/data/db"));
    assert_eq!(config.metrics_addr, None);
}

#[test]
fn flags_win_over_the_environment_and_the_environment_over_the_file() {
    let file = "[server]\nmax_connections = 1\nthreads = 1\ndrain = '1s'\n";
    let environment = [("PETRACACHE_THREADS", "2"), ("PETRACACHE_DRAIN", "2s")];
    let config = loaded(&["--drain", "3s"], &environment, file);
    assert_eq!((config.max_connections, config.threads), (1, 2));
    assert_eq!(config.drain, Duration::from_secs(3));
}

#[test]
fn memcacheds_flags_mean_what_they_mean_there() {
    let args = [
        "-p", "11333", "-l", "0.0.0.0", "-m", "128", "-c", "7", "-t", "3", "-I", "2m", "-U", "0",
        "-vv",
    ];
    let config = loaded(&args, &[], "");
    assert_eq!(config.listen_addr.to_string(), "0.0.0.0:11333");
    assert_eq!(config.memory, ByteSize::mib(128));
    assert_eq!((config.max_connections, config.threads), (7, 3));
    assert_eq!(config.storage.max_item_size, 2 << 20);
    let listening = |args| loaded(args, &[], "").listen_addr.to_string();
    assert_eq!(listening(&["-l", "localhost"]), "127.0.0.1:11211");
    assert_eq!(listening(&["-l", "localhost:5"]), "127.0.0.1:5");
    assert_eq!(listening(&["-l", "::1"]), "[::1]:11211");
    assert_eq!(listening(&["-l", "[::1]:5"]), "[::1]:5");
    assert_eq!(
        listening(&["--listen-addr", "10.0.0.1:5", "-p", "6"]),
        "10.0.0.1:6"
    );
}

#[test]
fn memory_is_divided_unless_its_parts_are_set() {
    let config = loaded(&["-m", "1g"], &[], "");
    let storage = &config.storage;
    assert_eq!(
        storage.tier_size + storage.block_cache_size + storage.memtable_memory(),
        1 << 30
    );
    let config = loaded(&["-m", "1g", "--block-cache-size", "10m"], &[], "");
    assert_eq!(config.storage.block_cache_size, 10 << 20);
}

#[test]
fn wrong_flags_are_named() {
    let refused = |args: &[&str], message: &str| {
        assert_eq!(load(args, &[], "").expect_err(message), message);
    };
    refused(
        &["-m", "1"],
        "storage.memory is \"1\" on the command line (--memory), but must be megabytes, \
         or a size with a unit, of at least 8Mi",
    );
    refused(
        &["-m", "64", "-I", "64m"],
        "server.max_item_size is \"64m\" on the command line (--max-item-size), \
         but must be a size from 1Ki to 32Mi",
    );
    refused(
        &["-l", "example.com"],
        "-l is \"example.com\" on the command line (-l), but must be an IP address or localhost, \
         with or without a port",
    );
}

#[test]
fn wrong_environment_variables_are_named() {
    let environment = [("PETRACACHE_FLUSH_INTERVAL", "1")];
    assert_eq!(
        load(&[], &environment, "").expect_err("no unit"),
        "storage.flush_interval is \"1\" in the environment (PETRACACHE_FLUSH_INTERVAL), \
         but must be a time with a unit (500ms, 1s, 5m) from 1ms to 3600s"
    );
}

#[test]
fn wrong_entries_of_the_file_are_named() {
    let refused = |file: &str, message: &str| {
        assert_eq!(load(&[], &[], file).expect_err(message), message);
    };
    refused(
        "[metrics]\nlisten_addr = '9090'",
        "metrics.listen_addr is \"9090\" in the file FILE, but must be an IP address or localhost, \
         and a port (127.0.0.1:11211)",
    );
    refused(
        "[metrics]\nenabled = 'yes'",
        "metrics.enabled is \"yes\" in the file FILE, but must be true or false",
    );
    refused(
        "[metrics]\nport = 9090",
        "metrics.port in the file FILE is no setting; metrics has: enabled, listen_addr",
    );
    refused(
        "[cache]\nsize = 1",
        "cache.size in the file FILE is no setting; cache has: nothing, the sections are server, \
         storage and metrics",
    );
    refused(
        "threads = 1",
        "threads in the file FILE must be below [server], [storage] or [metrics]",
    );
    refused(
        "[server]\nthreads = 1.5",
        "server.threads in the file FILE must be a text, a whole number, or true or false",
    );
    let broken = load(&[], &[], "[server\n").expect_err("not TOML");
    assert!(
        broken.starts_with("the configuration file FILE is not TOML: "),
        "{broken}"
    );
    let flags = Flags::try_parse_from(["petracache", "/does/not/exist.toml"]).expect("known flags");
    let missing = Config::load(&flags, |_| None)
        .expect_err("missing")
        .to_string();
    assert!(missing.starts_with("cannot read the configuration file /does/not/exist.toml: "));
}

#[test]
fn the_example_file_sets_every_setting_to_its_default() {
    let example = include_str!("../../petracache.toml");
    assert_eq!(
        loaded(&[], &[], example),
        Config {
            metrics_addr_is_set: true,
            ..loaded(&[], &[], "")
        }
    );
    let table: toml::Table = example.parse().expect("TOML");
    // What depends on the machine is described, but not set.
    let described = |section: &str, key: &str| {
        table[section].get(key).is_some() || example.contains(&format!("\n# {key} = "))
    };
    for (section, key) in Setting::ALL.iter().filter_map(|setting| setting.toml()) {
        assert!(described(section, key), "{section}.{key}");
    }
}

#[test]
fn every_setting_has_a_flag_and_an_environment_twin_of_the_same_name() {
    let command = Flags::command();
    let flags: Vec<String> = command
        .get_arguments()
        .filter_map(|arg| arg.get_long().map(|long| format!("--{long}")))
        .collect();
    for setting in Setting::ALL {
        let Some(env) = setting.env() else { continue };
        assert!(
            flags.contains(&setting.flag().to_owned()),
            "{}",
            setting.flag()
        );
        let twin = format!(
            "PETRACACHE_{}",
            setting.flag()[2..].replace('-', "_").to_uppercase()
        );
        assert_eq!(env, twin);
    }
}
