//! Decisions in process, beside governor on the same keys and quota, in one run.
//!
//! Every figure is the median of several rounds in which the contestants take turns, so that a noisy moment
//! hits them alike. Ratios are ours ÷ governor's with text keys: below 1 we are faster.

#![allow(missing_docs, clippy::cast_precision_loss, clippy::cast_possible_truncation, reason = "a benchmark")]

use std::hint::black_box;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use governor::{DefaultKeyedRateLimiter, RateLimiter};
use tidegate::core::{Key, Secret, Tag, Take, Timestamp};
use tidegate::store::{Action, MemoryStore, Operation};
use tidegate::{
    Algorithm, Clock, Condition, Facet, Limiter, Quota, Request, Rule, RuleSet, RuleSetParts, Span,
    SystemClock,
};

const KEYS: usize = 1_000_000;
const ROUNDS: usize = 7;
const PER_ROUND: usize = 1_000_000;
const PER_SECOND: u32 = 100_000_000;

fn main() {
    println!(
        "in process: ns per decision (median of {ROUNDS} rounds of {PER_ROUND} per thread); ratios to governor, text\n"
    );
    let names: Arc<[String]> =
        (0..KEYS).map(|number| format!("user-{number:08}@tenant-{:03}", number % 997)).collect();
    let contestants = Contestants::new(&names);
    println!(
        "| keys | threads | governor, text | governor, u64 | counter | with hash and clock | ratio | full decision | ratio |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    for (label, order) in [("1 hot", hot()), ("1M uniform", uniform()), ("1M Zipf 1.1", zipf())] {
        for threads in [1, 2] {
            let [text, number, counter, step, full] = contestants.measure(&order, threads);
            println!(
                "| {label} | {threads} | {text:.0} | {number:.0} | {counter:.0} | {step:.0} | {:.2} | {full:.0} | {:.2} |",
                step / text,
                full / text
            );
        }
    }
    contestants.parts();
    matching();
    paths();
}

/// The ways to decide, over the same keys.
struct Contestants {
    names: Arc<[String]>,
    tags: Vec<Tag>,
    text: DefaultKeyedRateLimiter<String>,
    number: DefaultKeyedRateLimiter<u64>,
    store: MemoryStore,
    /// As a compiled rule has them.
    key: Key<'static>,
    quota: Quota,
    limiter: Limiter,
}

impl Contestants {
    fn new(names: &Arc<[String]>) -> Self {
        let per_second = NonZeroU32::new(PER_SECOND).expect("not zero");
        let contestants = Self {
            names: Arc::clone(names),
            tags: names.iter().map(|name| tag(name)).collect(),
            text: RateLimiter::keyed(governor::Quota::per_second(per_second)),
            number: RateLimiter::keyed(governor::Quota::per_second(per_second)),
            store: MemoryStore::new(2 * KEYS, Arc::new(SystemClock)),
            key: Key::new("bench", Algorithm::TokenBucket, SECRET.encode().tag()),
            quota: bucket(),
            limiter: Limiter::builder(ten_rules()).max_keys(2 * KEYS).build().expect("a limiter"),
        };
        // Every key is there before anything is measured.
        for (number, name) in names.iter().enumerate() {
            contestants.by_text(name);
            contestants.by_number(number as u64);
            contestants.by_store(name);
            contestants.by_limiter(name);
        }
        contestants
    }

    fn by_text(&self, name: &String) -> bool {
        self.text.check_key(name).is_ok()
    }

    fn by_number(&self, number: u64) -> bool {
        self.number.check_key(&number).is_ok()
    }

    /// What the store does for one rule: find the counter, step it.
    fn by_counter(&self, tag: Tag, now: Timestamp) -> bool {
        let take = Take::new(self.key.with_tag(tag), self.quota, 1);
        let mut allowed = false;
        self.store.apply_each(&[Operation { take, action: Action::Take }], now, |outcome| {
            allowed = outcome.verdict().is_some_and(|verdict| verdict.allowed);
        });
        allowed
    }

    /// The same from the text of the key: hash it, read the clock. This is what governor does.
    fn by_store(&self, name: &str) -> bool {
        self.by_counter(tag(name), SystemClock.now())
    }

    /// A whole decision: path, matching, identity, store, joining.
    fn by_limiter(&self, name: &str) -> bool {
        let request = Request { user: Some(name), method: Some("GET"), ..Request::new("/api/orders/7") };
        self.limiter.try_check(&request).is_ok_and(|checked| checked.allowed)
    }

    /// What reading the clock and hashing a key cost by themselves.
    fn parts(&self) {
        let alone = |work: &(dyn Fn() + Sync)| {
            median(
                (0..ROUNDS)
                    .map(|_| {
                        time(&hot(), 1, |_| {
                            work();
                            true
                        })
                    })
                    .collect(),
            )
        };
        let clock = alone(&|| {
            black_box(SystemClock.now());
        });
        let hash = alone(&|| {
            black_box(tag(&self.names[7]));
        });
        println!("\nby themselves: reading the clock {clock:.0} ns, hashing a key {hash:.0} ns");
    }

    fn measure(&self, order: &[u32], threads: usize) -> [f64; 5] {
        let name = |index: u32| &self.names[index as usize];
        let mut rounds: [Vec<f64>; 5] = Default::default();
        let now = SystemClock.now();
        for _ in 0..ROUNDS {
            rounds[0].push(time(order, threads, |index| self.by_text(name(index))));
            rounds[1].push(time(order, threads, |index| self.by_number(u64::from(index))));
            rounds[2].push(time(order, threads, |index| self.by_counter(self.tags[index as usize], now)));
            rounds[3].push(time(order, threads, |index| self.by_store(name(index))));
            rounds[4].push(time(order, threads, |index| self.by_limiter(name(index))));
        }
        rounds.map(median)
    }
}

fn tag(name: &str) -> Tag {
    SECRET.encode().part(2, name.as_bytes()).tag()
}

const SECRET: Secret = Secret::new([9; 16]);

fn bucket() -> Quota {
    Quota::new(Algorithm::TokenBucket, u64::from(PER_SECOND), Span::from_secs(1)).expect("in range")
}

/// Ten rules with different paths and methods, of which one matches what is asked.
fn ten_rules() -> RuleSet {
    let rule = |number: usize| Rule {
        condition: Condition {
            path: Some(
                if number == 0 { "/api/orders/*".into() } else { format!("/api/area{number}/*") }
                    .parse()
                    .expect("a pattern"),
            ),
            methods: if number.is_multiple_of(3) { vec!["GET".into()] } else { Vec::new() },
            ..Condition::default()
        },
        ..Rule::new(format!("rule-{number}"), Facet::User, bucket())
    };
    RuleSet::new(RuleSetParts { rules: (0..10).map(rule).collect(), ..RuleSetParts::default() })
        .expect("rules")
}

/// Nanoseconds per call over `PER_ROUND` calls in each thread, which start at different places of the order.
fn time(order: &[u32], threads: usize, decide: impl Fn(u32) -> bool + Sync) -> f64 {
    let start = Instant::now();
    thread::scope(|scope| {
        for thread in 0..threads {
            let (first, second) = order.split_at(thread * order.len() / threads);
            let decide = &decide;
            scope.spawn(move || {
                second.iter().chain(first).cycle().take(PER_ROUND).for_each(|&index| {
                    black_box(decide(index));
                });
            });
        }
    });
    start.elapsed().as_nanos() as f64 / PER_ROUND as f64
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

fn hot() -> Vec<u32> {
    vec![7]
}

/// The same dice every run.
fn dice() -> impl Iterator<Item = u64> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    std::iter::repeat_with(move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    })
}

fn uniform() -> Vec<u32> {
    dice().map(|dice| (dice % KEYS as u64) as u32).take(PER_ROUND).collect()
}

/// Keys by a Zipf law with exponent 1.1: few are very common, most are rare.
fn zipf() -> Vec<u32> {
    let mut sum = 0.0;
    let cumulated: Vec<f64> = (1..=KEYS)
        .map(|rank| {
            sum += (rank as f64).powf(-1.1);
            sum
        })
        .collect();
    let draw =
        |dice: u64| cumulated.partition_point(|&mark| mark < dice as f64 / u64::MAX as f64 * sum) as u32;
    // Ranks are spread over the keys, so that common ones do not share cache lines.
    let spread = |rank: u32| (u64::from(rank) * 7_919 % KEYS as u64) as u32;
    dice().map(|dice| spread(draw(dice).min(KEYS as u32 - 1))).take(PER_ROUND).collect()
}

/// Matching alone, over more and more distinct rules: mixed patterns, methods, subnets, headers.
fn matching() {
    println!("\nmatching: ns per request (median of {ROUNDS} rounds), rules drawn at random for each\n");
    println!("| rules | ns | against 10 |");
    println!("|---|---|---|");
    let mut least = None;
    for count in [10, 1_000, 10_000] {
        let rules = RuleSet::new(RuleSetParts {
            rules: (0..count).map(mixed_rule).collect(),
            ..RuleSetParts::default()
        })
        .expect("rules");
        let requests: Vec<Facts> =
            dice().map(|dice| Facts::matching(dice as usize % count)).take(4_096).collect();
        let order: Vec<u32> = (0..4_096).collect();
        let demand = |index: u32| {
            let facts = &requests[index as usize];
            let path = tidegate::core::Path::parse(&facts.path).expect("a path");
            let demand = rules.demand(&facts.request(), &path, &SECRET, SystemClock.now());
            assert_eq!(demand.group.len(), 1);
            true
        };
        let ns = median((0..ROUNDS).map(|_| time(&order, 1, demand)).collect());
        let least = *least.get_or_insert(ns);
        println!("| {count} | {ns:.0} | {:.2} |", ns / least);
    }
}

/// Bringing a path into normal form, by its length: eight times the bytes are to take eight times as long, however it is encoded.
fn paths() {
    const CALLS: u32 = 2_000;
    let plain = |bytes: usize| "/segment".repeat(bytes / 8);
    let kinds: [(&str, &dyn Fn(usize) -> String); 3] = [
        ("plain", &plain),
        ("`%2525…`", &|bytes| format!("/%{}", "25".repeat((bytes - 2) / 2))),
        ("`%2541%2541…`", &|bytes| format!("/{}", "%2541".repeat((bytes - 1) / 5))),
    ];
    println!("\npaths: µs to bring one into normal form (median of {ROUNDS} rounds), and against 1 KiB\n");
    println!("| path | 1 KiB | 2 KiB | 4 KiB | 8 KiB |");
    println!("|---|---|---|---|---|");
    for (name, path) in kinds {
        let paths = [1_024, 2_048, 4_096, 8_192].map(path);
        let mut rounds: [Vec<f64>; 4] = Default::default();
        for _ in 0..ROUNDS {
            for (path, round) in paths.iter().zip(&mut rounds) {
                let start = Instant::now();
                for _ in 0..CALLS {
                    black_box(tidegate::core::Path::parse(black_box(path)).is_ok());
                }
                round.push(start.elapsed().as_secs_f64() * 1e6 / f64::from(CALLS));
            }
        }
        let figures = rounds.map(median);
        let cells = figures.map(|figure| format!("{figure:.2} ({:.1})", figure / figures[0]));
        println!("| {name} | {} |", cells.join(" | "));
    }
}

/// What tells the `number`th rule apart: a fifth each by literal path, path with wildcards, method, subnet, header.
fn mixed_rule(number: usize) -> Rule {
    let path = match number % 5 {
        0 => format!("/api/v{}/items-{number}", number % 7),
        1 => format!("/shop-{number}/**/reviews"),
        2 => format!("/users/{{id}}/things-{}/*", number / 20),
        _ => "/common/*".to_owned(),
    };
    let subnet =
        |number: usize| format!("10.{}.{}.0/24", number / 256 % 256, number % 256).parse().expect("a subnet");
    let mut condition = Condition { path: Some(path.parse().expect("a pattern")), ..Condition::default() };
    match number % 5 {
        2 => condition.methods = vec![METHODS[number / 5 % 4].into()],
        3 => condition.subnets = vec![subnet(number)],
        4 => {
            condition.headers =
                vec![("x-client".into(), tidegate::core::rule::Wanted::Value(format!("c{number}").into()))];
        }
        _ => {}
    }
    Rule { condition, ..Rule::new(format!("rule-{number}"), Facet::User, bucket()) }
}

const METHODS: [&str; 4] = ["GET", "POST", "PUT", "DELETE"];

/// A request that exactly one of the mixed rules applies to.
struct Facts {
    path: String,
    method: &'static str,
    ip: Option<std::net::IpAddr>,
    headers: Vec<(&'static str, String)>,
}

impl Facts {
    fn matching(number: usize) -> Self {
        let path = match number % 5 {
            0 => format!("/api/v{}/items-{number}", number % 7),
            1 => format!("/shop-{number}/a/b/reviews"),
            2 => format!("/users/77/things-{}/x/y", number / 20),
            _ => "/common/x".to_owned(),
        };
        let ip = (number % 5 == 3)
            .then(|| format!("10.{}.{}.9", number / 256 % 256, number % 256).parse().expect("an address"));
        let headers = if number % 5 == 4 {
            vec![("accept", "*/*".to_owned()), ("x-client", format!("c{number}"))]
        } else {
            vec![]
        };
        Self { path, method: METHODS[number / 5 % 4], ip, headers }
    }

    fn request(&self) -> Request<'_> {
        Request {
            user: Some("alice"),
            method: Some(self.method),
            ip: self.ip,
            headers: &self.headers,
            ..Request::new(&self.path)
        }
    }
}
