//! Permits: reserved in their bucket's ledger before a claim, returned after.

use std::collections::{BTreeMap, HashMap};

use crore_core::Time;
use crore_core::limit::{Limit, Rate};
use crore_store::Error;
use crore_store::registry::{Table, Value};

use super::Redis;
use super::names::{Slot, buckets, limit_of};
use super::pack::{Arg, map};
use super::reply::{Reply, damaged};
use super::together::together;

/// How long after it was reserved a permit may still be claimed with, in milliseconds.
pub(super) const USE_WITHIN: i64 = 10_000;
/// After so long a permit may be asked after: longer than it may be claimed with, on any clock.
const CHECK_AFTER: i64 = 20_000;

/// Limits as they were read last, with the bytes that they were read from.
pub(super) type Known = HashMap<String, (Vec<u8>, Rule)>;

/// What a ledger has to know of a limit. A limit that is not defined holds nobody back.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Rule {
    concurrency: Option<u32>,
    rate: Option<Rate>,
}

/// Why a bucket gave less than it was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Short {
    /// Permits are held.
    Held,
    /// The rate lets the next one through then.
    Until(Time),
}

/// What a bucket gave.
#[derive(Debug)]
pub(super) struct Grant {
    rule: Rule,
    pub(super) tokens: Vec<String>,
    pub(super) short: Option<Short>,
}

impl Redis {
    /// Reserves so many permits in each bucket, for jobs of a shard each. What is given may be less.
    pub(super) async fn reserve(
        &self,
        wanted: BTreeMap<String, usize>,
    ) -> Result<BTreeMap<String, Grant>, Error> {
        let rules = self.rules(wanted.keys()).await?;
        let one = |bucket: String, n: usize| {
            let rule = rules.get(limit_of(&bucket)).copied().unwrap_or_default();
            async move {
                let grant = self.reserve_in(&bucket, rule, n).await?;
                Ok::<_, Error>((bucket, grant))
            }
        };
        let grants = together(wanted.into_iter().map(|(bucket, n)| one(bucket, n)).collect()).await;
        grants.into_iter().collect()
    }

    async fn reserve_in(&self, bucket: &str, rule: Rule, n: usize) -> Result<Grant, Error> {
        let (grant, overdue) = self.try_reserve(bucket, rule, n).await?;
        if overdue.is_empty() || !self.check_overdue(bucket, overdue).await? {
            return Ok(grant);
        }
        let (more, _) =
            self.try_reserve(bucket, rule, n.saturating_sub(grant.tokens.len())).await?;
        let tokens = grant.tokens.into_iter().chain(more.tokens).collect();
        Ok(Grant { rule, tokens, short: more.short })
    }

    async fn try_reserve(
        &self,
        bucket: &str,
        rule: Rule,
        n: usize,
    ) -> Result<(Grant, Vec<String>), Error> {
        let mut tokens: Vec<String> = (0..n).map(|_| self.token()).collect();
        let args = map! {
            "verb" => "reserve",
            "tokens" => Arg::list(tokens.iter().map(String::as_str)),
            "concurrency"? rule.concurrency.map(i64::from),
            "interval"? rule.rate.map(|rate| rate.interval()),
            "full"? rule.rate.map(|rate| rate.full()),
            "check_after" => CHECK_AFTER,
        };
        let [granted, why, next_at, overdue] = self.ledger(bucket, args).await?.parts()?;
        tokens.truncate(usize::try_from(granted.number()?).unwrap_or(0));
        let short = match why.text()?.as_str() {
            "held" => Some(Short::Held),
            "rate" => Some(Short::Until(Time::from_millis(next_at.number()?))),
            _ => None,
        };
        let overdue = overdue.list()?.into_iter().map(Reply::text).collect::<Result<_, _>>()?;
        Ok((Grant { rule, tokens, short }, overdue))
    }

    async fn ledger(&self, bucket: &str, args: Arg) -> Result<Reply, Error> {
        self.eval(&self.scripts.ledger, &self.layout.ledger(bucket), 0, args).await
    }

    /// Looks for the deliveries that hold permits which stand for long, and drops the permits that
    /// none holds. Says whether there were any.
    async fn check_overdue(&self, bucket: &str, overdue: Vec<String>) -> Result<bool, Error> {
        let alive =
            map! { "op" => "alive", "tokens" => Arg::list(overdue.iter().map(String::as_str)) };
        let asked = (0..self.shards()).map(|slot| self.run_one(slot, alive.clone())).collect();
        let mut holds = vec![false; overdue.len()];
        for answer in together(asked).await {
            for (held, one) in holds.iter_mut().zip(answer?.0.list()?) {
                *held |= one.number()? == 1;
            }
        }
        let (mut living, mut dead) = (Vec::new(), Vec::new());
        for (token, held) in overdue.into_iter().zip(holds) {
            if held { living.push(token) } else { dead.push(token) }
        }
        let found = !dead.is_empty();
        let args = map! {
            "verb" => "checked", "alive" => Arg::list(living), "dead" => Arg::list(dead),
            "check_after" => CHECK_AFTER,
        };
        self.ledger(bucket, args).await?;
        Ok(found)
    }

    /// Gives back permits that were reserved and not used, with their share of the rate.
    pub(super) async fn give_back(&self, unused: BTreeMap<String, Grant>) -> Result<(), Error> {
        let one = |bucket: String, grant: Grant| async move {
            let args = map! {
                "verb" => "return", "tokens" => Arg::list(grant.tokens),
                "interval"? grant.rule.rate.map(|rate| rate.interval()),
            };
            self.ledger(&bucket, args).await.map(|_| ())
        };
        let unused = unused.into_iter().filter(|(_, grant)| !grant.tokens.is_empty());
        let returned = together(unused.map(|(bucket, grant)| one(bucket, grant)).collect()).await;
        returned.into_iter().collect()
    }

    /// Returns the permits of deliveries that have ended. One that gets lost on the way is found by
    /// whoever next runs short of permits, so a failure here is nobody's business.
    pub(super) async fn return_permits(&self, ended: impl Iterator<Item = &(String, String)>) {
        let mut by_bucket: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (lane, tokens) in ended {
            for (bucket, token) in buckets(lane).zip(tokens.split(',')) {
                by_bucket.entry(bucket).or_default().push(token);
            }
        }
        let one = |bucket, tokens: Vec<&str>| {
            let args = map! { "verb" => "return", "tokens" => Arg::list(tokens) };
            self.ledger(bucket, args)
        };
        together(by_bucket.into_iter().map(|(bucket, tokens)| one(bucket, tokens)).collect()).await;
    }

    /// The rules of the limits that buckets belong to, as they are now, by escaped name.
    async fn rules(
        &self,
        buckets: impl Iterator<Item = &String>,
    ) -> Result<HashMap<String, Rule>, Error> {
        let mut names: Vec<String> = buckets.map(|bucket| limit_of(bucket).to_owned()).collect();
        names.sort_unstable();
        names.dedup();
        let plain = names.iter().map(|name| unescape(name)).collect::<Option<Vec<_>>>();
        let plain = plain.ok_or_else(|| damaged("a lane names no limit"))?;
        let values = self.values(Table::Limits, &plain).await?;
        let mut rules = HashMap::new();
        for (name, bytes) in names.into_iter().zip(values) {
            let Some(bytes) = bytes else { continue };
            let rule = self.rule(&name, bytes)?;
            rules.insert(name, rule);
        }
        Ok(rules)
    }

    fn rule(&self, name: &str, bytes: Vec<u8>) -> Result<Rule, Error> {
        let mut known = self.limits.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some((_, rule)) = known.get(name).filter(|(read, _)| *read == bytes) {
            return Ok(*rule);
        }
        let rule = match super::registry::read_value(&bytes)? {
            Value::Limit(Limit { rate, concurrency, .. }) => Rule { concurrency, rate },
            _ => return Err(damaged(format!("limit `{name}` is something else"))),
        };
        known.insert(name.to_owned(), (bytes, rule));
        Ok(rule)
    }
}

/// Takes back what [`super::names::escape`] did.
fn unescape(text: &str) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte == b'%' {
            let pair = [bytes.next()?, bytes.next()?];
            out.push(u8::from_str_radix(str::from_utf8(&pair).ok()?, 16).ok()?);
        } else {
            out.push(byte);
        }
    }
    Some(out)
}

/// The allowance of each lane in a shard: for each job its permits, joined.
pub(super) type Allowance = BTreeMap<Slot, BTreeMap<String, Vec<String>>>;

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use crore_core::Span;
    use crore_core::limit::Tat;
    use crore_testkit::{FakeClock, shared, unique_name};

    use super::*;
    use crate::redis::names::escape;
    use crate::redis::{Options, Redis};

    #[tokio::test]
    async fn the_ledger_counts_as_the_rule_says() -> Result<(), Box<dyn std::error::Error>> {
        let clock = Arc::new(FakeClock::default());
        let options = Options { prefix: unique_name("r"), shards: 1, clock: Some(clock.clone()) };
        let store = Redis::open(&shared::redis()?, options).await?;
        let mut dice = 1_u64;
        let mut roll = |below: u64| {
            dice = dice
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (dice >> 33) % below
        };
        for (nth, (count, every, burst)) in
            [(7, 1000, 3), (3000, 1000, 40), (1, 31 * 86_400_000, 100), (1000, 1, 1)]
                .into_iter()
                .enumerate()
        {
            let rate = Rate { count, every: Span::from_millis(every), burst };
            let rule = Rule { concurrency: None, rate: Some(rate) };
            let mut tat = Tat::default();
            for _ in 0..200 {
                let pause = roll(every.div_ceil(u64::from(count)).saturating_mul(3).max(2));
                let now = clock.advance(Span::from_millis(if roll(3) == 0 { pause } else { 0 }));
                let n = roll(5);
                let (grant, _) =
                    store.try_reserve(&format!("bucket-{nth}"), rule, usize::try_from(n)?).await?;
                let taken = rate.take(tat, now, u32::try_from(n)?);
                tat = taken.tat;
                assert_eq!(grant.tokens.len(), usize::try_from(taken.granted)?);
                let short = u64::from(taken.granted) < n;
                assert_eq!(grant.short, short.then(|| Short::Until(rate.next_at(tat, now))));
            }
        }
        Ok(())
    }

    #[test]
    fn what_was_escaped_comes_back() {
        for text in ["", "plain", "a/b=c%d", "{tag}", "メール", "a b\u{7f}"] {
            assert_eq!(unescape(&escape(text)).as_deref(), Some(text.as_bytes()));
        }
        assert_eq!(unescape("%4"), None);
        assert_eq!(unescape("%zz"), None);
    }
}
