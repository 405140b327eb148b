//! Permits: reserved in their bucket's ledger before a claim, returned after the delivery.

use std::collections::{BTreeMap, HashMap};

use crore_core::Time;
use crore_core::limit::{Limit, Rate};
use crore_store::Error;
use crore_store::registry::{RegistryTable, RegistryValue};

use super::Redis;
use super::join_all::join_all;
use super::names::{SlotIndex, buckets, limit_of};
use super::pack::{Arg, map};
use super::reply::{ScriptReply, corrupt};

/// How long a reserved permit may be used for a claim, in milliseconds.
pub(super) const USE_WITHIN_MILLIS: i64 = 10_000;
/// Age at which a permit is checked: longer than it may be used, whatever the clocks of the nodes.
const CHECK_AFTER_MILLIS: i64 = 20_000;

/// Cached limits, with the bytes that they were read from.
pub(super) type LimitRuleCache = HashMap<String, (Vec<u8>, LimitRule)>;

/// The parts of a limit that a ledger needs. An undefined limit restricts nothing.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct LimitRule {
    concurrency: Option<u32>,
    rate: Option<Rate>,
}

/// Why a bucket granted fewer permits than requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PermitShortage {
    /// All permits are held.
    Held,
    /// The rate grants the next one at this time.
    Until(Time),
}

/// The permits that a bucket granted.
#[derive(Debug)]
pub(super) struct PermitGrant {
    rule: LimitRule,
    pub(super) tokens: Vec<String>,
    pub(super) short: Option<PermitShortage>,
}

impl Redis {
    /// Reserves permits in each bucket. It may grant fewer than requested.
    pub(super) async fn reserve(
        &self,
        wanted: BTreeMap<String, usize>,
    ) -> Result<BTreeMap<String, PermitGrant>, Error> {
        let rules = self.rules(wanted.keys()).await?;
        let one = |bucket: String, n: usize| {
            let rule = rules.get(limit_of(&bucket)).copied().unwrap_or_default();
            async move {
                let grant = self.reserve_in(&bucket, rule, n).await?;
                Ok::<_, Error>((bucket, grant))
            }
        };
        let grants = join_all(wanted.into_iter().map(|(bucket, n)| one(bucket, n)).collect()).await;
        grants.into_iter().collect()
    }

    async fn reserve_in(
        &self,
        bucket: &str,
        rule: LimitRule,
        n: usize,
    ) -> Result<PermitGrant, Error> {
        let (grant, overdue) = self.try_reserve(bucket, rule, n).await?;
        if overdue.is_empty() || !self.check_overdue(bucket, overdue).await? {
            return Ok(grant);
        }
        let (more, _) =
            self.try_reserve(bucket, rule, n.saturating_sub(grant.tokens.len())).await?;
        let tokens = grant.tokens.into_iter().chain(more.tokens).collect();
        Ok(PermitGrant { rule, tokens, short: more.short })
    }

    async fn try_reserve(
        &self,
        bucket: &str,
        rule: LimitRule,
        n: usize,
    ) -> Result<(PermitGrant, Vec<String>), Error> {
        let mut tokens: Vec<String> = (0..n).map(|_| self.token()).collect();
        let args = map! {
            "verb" => "reserve",
            "tokens" => Arg::list(tokens.iter().map(String::as_str)),
            "concurrency"? rule.concurrency.map(i64::from),
            "interval"? rule.rate.map(|rate| rate.interval()),
            "full"? rule.rate.map(|rate| rate.full()),
            "check_after" => CHECK_AFTER_MILLIS,
        };
        let [granted, why, next_at, overdue] = self.ledger(bucket, args).await?.parts()?;
        tokens.truncate(usize::try_from(granted.number()?).unwrap_or(0));
        let short = match why.text()?.as_str() {
            "held" => Some(PermitShortage::Held),
            "rate" => Some(PermitShortage::Until(Time::from_millis(next_at.number()?))),
            _ => None,
        };
        let overdue =
            overdue.list()?.into_iter().map(ScriptReply::text).collect::<Result<_, _>>()?;
        Ok((PermitGrant { rule, tokens, short }, overdue))
    }

    async fn ledger(&self, bucket: &str, args: Arg) -> Result<ScriptReply, Error> {
        self.eval(&self.scripts.ledger, &self.layout.ledger(bucket), 0, args).await
    }

    /// Asks all shards whether deliveries hold these old permits, and drops those that none holds. Returns
    /// whether there were any.
    async fn check_overdue(&self, bucket: &str, overdue: Vec<String>) -> Result<bool, Error> {
        let alive =
            map! { "op" => "alive", "tokens" => Arg::list(overdue.iter().map(String::as_str)) };
        let queries = (0..self.shards()).map(|slot| self.run_one(slot, alive.clone())).collect();
        let mut holds = vec![false; overdue.len()];
        for answer in join_all(queries).await {
            for (held, one) in holds.iter_mut().zip(answer?.0.list()?) {
                *held |= one.number()? == 1;
            }
        }
        let (mut alive_tokens, mut dead_tokens) = (Vec::new(), Vec::new());
        for (token, held) in overdue.into_iter().zip(holds) {
            if held { alive_tokens.push(token) } else { dead_tokens.push(token) }
        }
        let found = !dead_tokens.is_empty();
        let args = map! {
            "verb" => "checked", "alive" => Arg::list(alive_tokens), "dead" => Arg::list(dead_tokens),
            "check_after" => CHECK_AFTER_MILLIS,
        };
        self.ledger(bucket, args).await?;
        Ok(found)
    }

    /// Returns reserved but unused permits, together with their share of the rate.
    pub(super) async fn return_reserved(
        &self,
        unused: BTreeMap<String, PermitGrant>,
    ) -> Result<(), Error> {
        let one = |bucket: String, grant: PermitGrant| async move {
            let args = map! {
                "verb" => "return", "tokens" => Arg::list(grant.tokens),
                "interval"? grant.rule.rate.map(|rate| rate.interval()),
            };
            self.ledger(&bucket, args).await.map(|_| ())
        };
        let unused = unused.into_iter().filter(|(_, grant)| !grant.tokens.is_empty());
        let returned = join_all(unused.map(|(bucket, grant)| one(bucket, grant)).collect()).await;
        returned.into_iter().collect()
    }

    /// Returns the permits of deliveries that have ended. Errors are ignored: a permit that gets lost is
    /// found by the next claim that runs short.
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
        join_all(by_bucket.into_iter().map(|(bucket, tokens)| one(bucket, tokens)).collect()).await;
    }

    /// The current rules of the limits of these buckets, by escaped name.
    async fn rules(
        &self,
        buckets: impl Iterator<Item = &String>,
    ) -> Result<HashMap<String, LimitRule>, Error> {
        let mut names: Vec<String> = buckets.map(|bucket| limit_of(bucket).to_owned()).collect();
        names.sort_unstable();
        names.dedup();
        let plain = names.iter().map(|name| unescape(name)).collect::<Option<Vec<_>>>();
        let plain = plain.ok_or_else(|| corrupt("a lane has an invalid limit name"))?;
        let values = self.values(RegistryTable::Limits, &plain).await?;
        let mut rules = HashMap::new();
        for (name, bytes) in names.into_iter().zip(values) {
            let Some(bytes) = bytes else { continue };
            let rule = self.rule(&name, bytes)?;
            rules.insert(name, rule);
        }
        Ok(rules)
    }

    fn rule(&self, name: &str, bytes: Vec<u8>) -> Result<LimitRule, Error> {
        let mut known = self.limits.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some((_, rule)) = known.get(name).filter(|(read, _)| *read == bytes) {
            return Ok(*rule);
        }
        let rule = match super::registry::read_value(&bytes)? {
            RegistryValue::Limit(Limit { rate, concurrency, .. }) => {
                LimitRule { concurrency, rate }
            }
            _ => return Err(corrupt(format!("the definition of limit `{name}` is not a limit"))),
        };
        known.insert(name.to_owned(), (bytes, rule));
        Ok(rule)
    }
}

/// Reverses [`super::names::escape`].
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

/// The permits of each lane in a shard: one joined row of tokens per job.
pub(super) type Allowance = BTreeMap<SlotIndex, BTreeMap<String, Vec<String>>>;

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use crore_core::Span;
    use crore_core::limit::Tat;
    use crore_testkit::{FakeClock, shared, unique_name};

    use super::*;
    use crate::redis::names::escape;
    use crate::redis::{Redis, RedisOptions};

    #[tokio::test]
    async fn the_ledger_agrees_with_the_rate_of_crore_core()
    -> Result<(), Box<dyn std::error::Error>> {
        let clock = Arc::new(FakeClock::default());
        let options =
            RedisOptions { prefix: unique_name("r"), shards: 1, clock: Some(clock.clone()) };
        let store = Redis::open(&shared::redis()?, options).await?;
        let mut state = 1_u64;
        let mut roll = |below: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        for (nth, (count, every, burst)) in
            [(7, 1000, 3), (3000, 1000, 40), (1, 31 * 86_400_000, 100), (1000, 1, 1)]
                .into_iter()
                .enumerate()
        {
            let rate = Rate { count, every: Span::from_millis(every), burst };
            let rule = LimitRule { concurrency: None, rate: Some(rate) };
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
                assert_eq!(
                    grant.short,
                    short.then(|| PermitShortage::Until(rate.next_at(tat, now)))
                );
            }
        }
        Ok(())
    }

    #[test]
    fn escaping_round_trips() {
        for text in ["", "plain", "a/b=c%d", "{tag}", "メール", "a b\u{7f}"] {
            assert_eq!(unescape(&escape(text)).as_deref(), Some(text.as_bytes()));
        }
        assert_eq!(unescape("%4"), None);
        assert_eq!(unescape("%zz"), None);
    }
}
