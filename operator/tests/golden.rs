//! Specs in, objects and mcrouter.json out, as files to read. `UPDATE_GOLDEN=1` rewrites them.
//!
//! `golden/CASE/cluster.yaml` may begin with `# settings: --region NAME`.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};

use petra_operator::controller::build::config_map::config_hash;
use petra_operator::controller::validate::Settings;
use petra_operator::{input, render};
use petra_routing::{Config, check};

fn golden_dir() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

fn settings(cluster: &str) -> Settings {
    let region = cluster
        .lines()
        .next()
        .and_then(|line| line.strip_prefix("# settings: --region "))
        .map(|region| region.trim().to_owned());
    Settings {
        region,
        cluster_domain: "cluster.local".to_owned(),
        node_image: "registry.example.com/petracache/node:1".to_owned(),
        router_image: Some("registry.example.com/mcrouter:1".to_owned()),
    }
}

fn check_case(case: &str) {
    let dir = golden_dir().join(case);
    let file = std::fs::read_to_string(dir.join("cluster.yaml")).unwrap();
    let cluster = input::read(&file).unwrap();
    let settings = settings(&file);
    let objects = render::objects(&cluster, &settings).unwrap();
    let yaml = render::to_yaml(&objects).unwrap();
    compare(&dir.join("objects.yaml"), &yaml);

    let regions = render::regions(&cluster, &settings).unwrap();
    assert!(!regions.is_empty());
    for region in &regions {
        let text = &region.config_map.data.as_ref().unwrap()["mcrouter.json"];
        compare(&dir.join(format!("{}.mcrouter.json", region.region)), text);
        assert_eq!(
            check(&Config::from_json(text).unwrap()),
            Vec::<String>::new()
        );
    }

    // What a reader of the YAML gets is what the ConfigMap has, byte by byte.
    let read_back: Vec<serde_json::Value> = serde_saphyr::from_multiple(&yaml).unwrap();
    assert_eq!(read_back, objects);
    for region in &regions {
        let text = &region.config_map.data.as_ref().unwrap()["mcrouter.json"];
        let rendered = read_back
            .iter()
            .filter_map(|object| object.pointer("/data/mcrouter.json"))
            .any(|rendered| config_hash(rendered.as_str().unwrap()) == config_hash(text));
        assert!(
            rendered,
            "mcrouter.json of {} is not in the YAML",
            region.region
        );
    }
}

fn compare(path: &Path, actual: &str) {
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(path, actual).unwrap();
    }
    let expected = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        expected == actual,
        "{} differs (UPDATE_GOLDEN=1 rewrites it):\n{}",
        path.display(),
        diff(&expected, actual)
    );
}

/// The lines that differ, between what both begin and end with.
fn diff(expected: &str, actual: &str) -> String {
    let (old, new): (Vec<&str>, Vec<&str>) = (expected.lines().collect(), actual.lines().collect());
    let same = |(a, b): &(&&str, &&str)| a == b;
    let start = old.iter().zip(&new).take_while(same).count();
    let shorter = old.len().min(new.len()) - start;
    let end = old
        .iter()
        .rev()
        .zip(new.iter().rev())
        .take_while(same)
        .count()
        .min(shorter);
    let removed = old[start..old.len() - end]
        .iter()
        .map(|line| format!("-{line}\n"));
    let added = new[start..new.len() - end]
        .iter()
        .map(|line| format!("+{line}\n"));
    format!(
        "@@ line {} @@\n{}",
        start + 1,
        removed.chain(added).collect::<String>()
    )
}

#[test]
fn one_region() {
    check_case("one-region");
}

#[test]
fn two_regions() {
    check_case("two-regions");
}

#[test]
fn three_regions_with_the_primary_in_the_middle() {
    check_case("three-regions-primary-in-the-middle");
}

#[test]
fn local_reads() {
    check_case("local-reads");
}

#[test]
fn a_region_in_another_kubernetes_cluster() {
    check_case("remote-region");
}

#[test]
fn no_routers_of_ours() {
    check_case("router-none");
}

#[test]
fn tls_with_a_secret() {
    check_case("tls");
}

#[test]
fn tls_with_cert_manager_and_a_plain_port() {
    check_case("tls-cert-manager");
}

#[test]
fn users_of_nodes() {
    check_case("auth");
}

#[test]
fn every_case_is_tested() {
    let source = include_str!("golden.rs");
    for entry in std::fs::read_dir(golden_dir()).unwrap() {
        let case = entry.unwrap().file_name().into_string().unwrap();
        assert!(
            source.contains(&format!("check_case(\"{case}\")")),
            "{case} has no test"
        );
    }
}

#[test]
fn the_examples_can_be_built() {
    let dir = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("examples");
    let mut seen = 0;
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let cluster = input::read(&std::fs::read_to_string(&path).unwrap()).unwrap();
        assert!(
            render::regions(&cluster, &settings("")).is_ok(),
            "{}",
            path.display()
        );
        seen += 1;
    }
    assert!(seen >= 3);
}

#[test]
fn a_difference_is_shown_by_its_lines() {
    assert_eq!(diff("a\nb\nc\n", "a\nx\nc\n"), "@@ line 2 @@\n-b\n+x\n");
    assert_eq!(diff("a\n", "a\nb\n"), "@@ line 2 @@\n+b\n");
}
