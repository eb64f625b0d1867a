//! The limiter on its own: `cargo run -p tidegate --example plain`.

use tidegate::{Algorithm, Facet, Limiter, Quota, Request, Retry, Rule, RuleSet, RuleSetParts, Span};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let quota = Quota::new(Algorithm::SlidingWindow, 3, Span::from_secs(60))?;
    let rules = vec![Rule::new("three_a_minute", Facet::User, quota)];
    let limiter = Limiter::new(RuleSet::new(RuleSetParts { rules, ..RuleSetParts::default() })?)?;

    let request = Request { user: Some("alice"), ..Request::new("/orders/7") };
    for number in 1..=4 {
        let checked = limiter.try_check(&request)?;
        let Some(rule) = checked.binding() else { continue };
        match rule.verdict.retry {
            Retry::Now => println!("request {number}: allowed, {} left", rule.verdict.remaining),
            Retry::After(wait) => println!("request {number}: refused, try again in {wait}"),
            Retry::Never => println!("request {number}: refused for good"),
        }
    }
    Ok(())
}
