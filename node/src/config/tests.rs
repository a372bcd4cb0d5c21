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

/// Where clients would be served.
fn places(config: &Config) -> String {
    let places: Vec<_> = config.listen.iter().map(Endpoint::to_string).collect();
    places.join("; ")
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
    assert_eq!(places(&config), "127.0.0.1, TCP port 11222");
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
    assert_eq!(places(&config), "0.0.0.0, TCP port 11333");
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
        "-p",
        "11333",
        "-l",
        "0.0.0.0",
        "-m",
        "128",
        "-c",
        "7",
        "-t",
        "3",
        "-I",
        "2m",
        "-U",
        "0",
        "-vv",
        "-o",
        "idle_timeout=3",
        "-R",
        "20",
        "-B",
        "ascii",
        "-A",
        "-F",
        "-b",
        "5",
    ];
    let config = loaded(&args, &[], "");
    assert_eq!(places(&config), "0.0.0.0, TCP port 11333");
    assert_eq!(config.memory, ByteSize::mib(128));
    assert_eq!((config.max_connections, config.threads), (7, 3));
    assert_eq!(config.storage.max_item_size, 2 << 20);
    assert_eq!(config.commands_per_turn, 20);
    assert_eq!(config.idle_timeout, Some(Duration::from_secs(3)));
    assert_eq!(config.access.protocol, Protocol::Ascii);
    assert!(config.access.shutdown && !config.access.flush_all);
    let limits = loaded(&["--conn-limit=9", "--memory-limit=64"], &[], "");
    assert_eq!(
        (limits.max_connections, limits.memory),
        (9, ByteSize::mib(64))
    );
    assert_eq!(loaded(&["-m", "2"], &[], "").memory, MIN_MEMORY);
}

#[test]
fn where_to_listen_is_said_as_to_memcached() {
    let listening = |args: &[&str]| places(&loaded(args, &[], ""));
    let cases: [(&[&str], &str); 12] = [
        (&[], "127.0.0.1, TCP port 11211"),
        (&["-l", "localhost"], "localhost, TCP port 11211"),
        (&["-l", "localhost:5"], "localhost, TCP port 5"),
        (&["-l", "::1", "-p", "6"], "::1, TCP port 6"),
        (
            &["-l", "[::1]:5,*", "-p", "6"],
            "::1, TCP port 5; *, TCP port 6",
        ),
        (
            &["-l", "a", "-l", "b:5"],
            "a, TCP port 11211; b, TCP port 5",
        ),
        (
            &["--listen-addr", "10.0.0.1:5", "-p", "6"],
            "10.0.0.1, TCP port 6",
        ),
        (&["-p", "-1"], "127.0.0.1, TCP port 0"),
        (&["-p", "0"], ""),
        (&["-U", "5"], "127.0.0.1, TCP port 5; 127.0.0.1, UDP port 5"),
        (
            &["-p", "6", "-U", "5"],
            "127.0.0.1, TCP port 6; 127.0.0.1, UDP port 5",
        ),
        (&["-p", "6", "-U", "5", "-s", "/tmp/s"], "/tmp/s"),
    ];
    for (args, expected) in cases {
        assert_eq!(listening(args), expected, "{args:?}");
    }
    let socket = loaded(&["-s", "/tmp/s", "-a", "777"], &[], "")
        .listen
        .remove(0);
    assert!(matches!(socket, Endpoint::Unix { mask: 0o777, .. }));
}

#[test]
fn extended_options_are_read_from_every_list_and_unknown_ones_refused() {
    let args = [
        "-Z",
        "-o",
        "ssl_chain_cert=c,ssl_verify_mode=2,slab_chunk_max=1024",
        "-o",
        "ssl_ca_cert=ca",
        "-o",
        "no_maxconns_fast,hashpower=20,,ssl_min_version=3",
        "-l",
        "notls:a:5,b",
    ];
    let config = loaded(&args, &[], "");
    let tls = config.tls.expect("TLS");
    assert_eq!(
        (tls.chain_cert.to_str(), tls.verify, tls.only_1_3),
        (Some("c"), VerifyClient::Require, true)
    );
    assert!(!config.refuse_connections);
    let encrypted = config
        .listen
        .iter()
        .map(|place| matches!(place, Endpoint::Tcp { tls: true, .. }));
    assert_eq!(encrypted.collect::<Vec<_>>(), [false, true]);
    for (args, message) in [
        (
            ["-o", "nonsense"],
            "-o nonsense is unknown; -h lists what there is",
        ),
        (
            ["-o", "idle_timeout"],
            "-o idle_timeout needs a value: -o idle_timeout=VALUE",
        ),
    ] {
        assert_eq!(load(&args, &[], "").expect_err(message), message);
    }
}

#[test]
fn what_would_leave_a_node_less_protected_than_it_looks_is_refused() {
    for args in [
        &["-S", "-Y", "f"][..],
        &["-S", "-B", "ascii"],
        &["-S", "-B", "auto"],
        &["-Y", "f", "-B", "binary"],
        &["-Z"],
        &["-Z", "-o", "ssl_chain_cert=c,ssl_verify_mode=2"],
        &["-l", "notls:127.0.0.1"],
        &["-B", "http"],
    ] {
        load(args, &[], "").expect_err(&format!("{args:?}"));
    }
    assert_eq!(loaded(&["-S"], &[], "").access.protocol, Protocol::Binary);
    assert_eq!(
        loaded(&["-Y", "f"], &[], "").access.protocol,
        Protocol::Ascii
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
        &["-m", "many"],
        "storage.memory is \"many\" on the command line (--memory), but must be megabytes, \
         or a size with a unit",
    );
    refused(
        &["-m", "64", "-I", "64m"],
        "server.max_item_size is \"64m\" on the command line (--max-item-size), \
         but must be a size from 1Ki to 32Mi",
    );
    refused(
        &["-l", "example.com:x"],
        "server.listen is \"example.com:x\" on the command line (--listen), but must be addresses \
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
         access, tls, storage and metrics",
    );
    refused(
        "threads = 1",
        "threads in the file FILE must be below [server], [access], [tls], [storage] or [metrics]",
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
