//! Decisions as JSON, written by hand.
//!
//! A decision is answered with every request; written this way its body costs a third of what it does through
//! `serde`. The types in [`check`](crate::check) stay the definition: a test holds this against them.

use crate::check::{DecisionBody, RuleBody};

impl DecisionBody<'_> {
    /// Appends this body to `out`, exactly as `serde_json` would write it.
    pub fn write_json(&self, out: &mut Vec<u8>) {
        let mut to = Writer { out };
        to.flag("{\"allowed\":", self.allowed);
        match self.rule_id {
            Some(id) => to.text(",\"rule_id\":", id),
            None => to.raw(",\"rule_id\":null"),
        }
        to.maybe(",\"limit\":", self.limit);
        to.maybe(",\"remaining\":", self.remaining);
        to.maybe(",\"reset_at\":", self.reset_at);
        to.maybe(",\"retry_after\":", self.retry_after);
        to.text(",\"status\":", self.status);
        to.text(",\"mode\":", self.mode);
        to.raw(",\"rules\":[");
        for (index, rule) in self.rules.iter().enumerate() {
            if index > 0 {
                to.raw(",");
            }
            to.rule(rule);
        }
        to.raw("]}");
    }
}

/// Everything is inlined, so that keys, whose lengths are known, are stored and not copied by a call each.
struct Writer<'o> {
    out: &'o mut Vec<u8>,
}

impl Writer<'_> {
    fn rule(&mut self, rule: &RuleBody<'_>) {
        self.text("{\"rule_id\":", rule.rule_id);
        self.flag(",\"allowed\":", rule.allowed);
        self.number(",\"limit\":", rule.limit);
        self.number(",\"remaining\":", rule.remaining);
        self.number(",\"reset_after_ms\":", rule.reset_after_ms);
        self.maybe(",\"retry_after_ms\":", rule.retry_after_ms);
        self.flag(",\"shadow\":", rule.shadow);
        self.raw("}");
    }

    #[inline(always)]
    fn raw(&mut self, text: &str) {
        self.out.extend_from_slice(text.as_bytes());
    }

    #[inline(always)]
    fn flag(&mut self, key: &str, value: bool) {
        self.raw(key);
        self.raw(if value { "true" } else { "false" });
    }

    #[inline(always)]
    fn number(&mut self, key: &str, value: u64) {
        self.raw(key);
        self.raw(itoa::Buffer::new().format(value));
    }

    #[inline(always)]
    fn maybe(&mut self, key: &str, value: Option<u64>) {
        match value {
            Some(value) => self.number(key, value),
            None => {
                self.raw(key);
                self.raw("null");
            }
        }
    }

    #[inline(always)]
    fn text(&mut self, key: &str, text: &str) {
        self.raw(key);
        if text.bytes().all(|byte| byte >= 0x20 && byte != b'"' && byte != b'\\') {
            self.raw("\"");
            self.raw(text);
            self.raw("\"");
        } else {
            // Writing a text into memory cannot fail.
            serde_json::to_writer(&mut *self.out, text).ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body<'a>(id: &'a str, figure: Option<u64>, flag: bool, rules: usize) -> DecisionBody<'a> {
        let rule = |_| RuleBody {
            rule_id: id,
            allowed: !flag,
            limit: u64::MAX,
            remaining: figure.unwrap_or_default(),
            reset_after_ms: 60_000,
            retry_after_ms: figure,
            shadow: flag,
        };
        DecisionBody {
            allowed: flag,
            rule_id: flag.then_some(id),
            limit: figure,
            remaining: figure,
            reset_at: figure,
            retry_after: figure,
            status: "enforced",
            mode: "normal",
            rules: (0..rules).map(rule).collect(),
        }
    }

    #[test]
    fn both_ways_of_writing_agree() {
        let ids = ["api_user", "", "a\"b", "a\\b", "a\nb\u{0}\u{1f}", "caf\u{e9} \u{1f600}", "\u{7f}/<>"];
        for id in ids {
            for (figure, flag, rules) in [(None, false, 0), (Some(0), true, 1), (Some(u64::MAX), false, 3)] {
                let body = body(id, figure, flag, rules);
                let mut written = Vec::new();
                body.write_json(&mut written);
                assert_eq!(String::from_utf8(written).unwrap(), serde_json::to_string(&body).unwrap());
            }
        }
    }
}
