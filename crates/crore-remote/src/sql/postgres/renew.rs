//! Renew: extends leases in one statement, without waiting for the disk.

use std::collections::BTreeMap;

use crore_core::Time;
use crore_store::jobs::{Renew, Renewed};
use sqlx::Row;

use super::error::PostgresFault;
use super::row::{int, millis};
use super::{Postgres, time};

/// `synchronous_commit` is off: if the server crashes, a lost renewal only ends a lease early. Rows are
/// locked in the order of their ids, as everywhere.
const RENEW: &str = "with quick as materialized ( \
     select set_config('synchronous_commit', 'off', true)), \
     t as materialized (select coalesce($1::bigint, \
     floor(extract(epoch from clock_timestamp()) * 1000)::bigint) as now from quick), \
     asked as (select id, delivery, max(span) as span, bool_or(span is null) as plain \
     from unnest($2::bigint[], $3::bigint[], $4::bigint[]) a(id, delivery, span) group by 1, 2), \
     locked as materialized (select j.id, j.lease_until as before, \
     coalesce(j.lease, 30000) as lease, j.stop, a.delivery, \
     greatest(a.span, case when a.plain then coalesce(j.lease, 30000) end) as span \
     from jobs j join asked a on j.id = a.id and j.delivery = a.delivery \
     where j.state = 3 order by j.id for update of j), \
     renewed as (update jobs j set lease_until = greatest(j.lease_until, \
     least(t.now + l.span, 253402300799999)) from locked l, t where j.id = l.id) \
     select l.id, l.delivery, l.before, l.lease, l.stop, t.now from locked l, t";

struct RenewedLease {
    until: Time,
    lease: i64,
    stop: bool,
    now: Time,
}

impl Postgres {
    pub(super) async fn renew_once(&self, leases: &[Renew]) -> Result<Vec<Renewed>, PostgresFault> {
        let rows = sqlx::query(RENEW)
            .bind(self.now())
            .bind(leases.iter().map(|lease| int(lease.id.0)).collect::<Vec<_>>())
            .bind(leases.iter().map(|lease| int(lease.delivery.0)).collect::<Vec<_>>())
            .bind(leases.iter().map(|lease| lease.span.map(millis)).collect::<Vec<_>>())
            .fetch_all(&self.pool)
            .await?;
        let mut renewed = BTreeMap::new();
        for row in rows {
            let key: (i64, i64) = (row.try_get("id")?, row.try_get("delivery")?);
            let lease = RenewedLease {
                until: time(row.try_get("before")?),
                lease: row.try_get("lease")?,
                stop: row.try_get("stop")?,
                now: time(row.try_get("now")?),
            };
            renewed.insert(key, lease);
        }
        Ok(leases.iter().map(|lease| renewal(&mut renewed, lease)).collect())
    }
}

/// The answer for one of several renewals: a lease that is renewed twice grows step by step.
fn renewal(renewed: &mut BTreeMap<(i64, i64), RenewedLease>, ask: &Renew) -> Renewed {
    let Some(lease) = renewed.get_mut(&(int(ask.id.0), int(ask.delivery.0))) else {
        return Renewed::Stale;
    };
    let span = ask.span.map_or(lease.lease, millis);
    let until = time(lease.now.as_millis().saturating_add(span));
    lease.until = lease.until.max(until);
    Renewed::Until { until: lease.until, stop: lease.stop }
}
