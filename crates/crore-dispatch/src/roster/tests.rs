use tokio::sync::oneshot::error::TryRecvError;

use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn roster() -> Roster {
    let (first, max) = (SECOND, SECOND * 4);
    Roster::new(FailureBackoff { first, max, gone_after: SECOND * 60 })
}

fn name(text: &str) -> Name {
    Name::new("worker", text).expect("a valid name")
}

fn add_worker(roster: &mut Roster, id: &str, max_jobs: u32) -> Name {
    let target = Target::parse("url", "http://worker:8080").expect("good");
    roster.join(name(id), Registration { name: id.to_owned(), target, max_jobs });
    name(id)
}

fn give_job(roster: &mut Roster, id: &Name, job: u64, now: Instant) -> oneshot::Receiver<()> {
    roster.give(id, (JobId(job), Delivery(job)), now + SECOND * 30).expect("it exists")
}

fn first_pick(roster: &mut Roster, now: Instant) -> Option<(String, usize)> {
    roster.picks(now).into_iter().next().map(|pick| (pick.worker.to_string(), pick.n))
}

#[test]
fn a_worker_is_given_at_most_max_jobs() {
    let (mut roster, now) = (roster(), Instant::now());
    assert_eq!(first_pick(&mut roster, now), None);
    let a = add_worker(&mut roster, "a", 2);
    assert_eq!(first_pick(&mut roster, now), Some(("a".to_owned(), 2)), "alone: all its slots");
    let _first = give_job(&mut roster, &a, 1, now);
    let mut second = give_job(&mut roster, &a, 2, now);
    assert_eq!(first_pick(&mut roster, now), None);
    assert!(!roster.release(JobId(2), Delivery(1)), "another delivery releases nothing");
    assert_eq!(second.try_recv(), Err(TryRecvError::Empty));
    assert!(roster.release(JobId(2), Delivery(2)));
    assert_eq!(second.try_recv(), Ok(()), "the task that posted it is notified");
    assert!(!roster.release(JobId(2), Delivery(2)), "once only");
    assert_eq!(first_pick(&mut roster, now), Some(("a".to_owned(), 1)));
}

#[test]
fn the_least_loaded_worker_is_next_and_equals_take_turns() {
    let (mut roster, now) = (roster(), Instant::now());
    let (a, b) = (add_worker(&mut roster, "a", 2), add_worker(&mut roster, "b", 10));
    let mut order = String::new();
    for job in 0..12 {
        let (next, n) = first_pick(&mut roster, now).expect("there is room");
        assert!(n == 1 || next == "b", "not all to one while there are others");
        let _over = give_job(&mut roster, if next == "a" { &a } else { &b }, job, now);
        order.push_str(&next);
    }
    assert_eq!(order, "abbbbbabbbbb");
    assert_eq!(first_pick(&mut roster, now), None);
}

#[test]
fn a_kind_that_a_worker_rejected_is_excluded_for_a_while() {
    let (mut roster, now) = (roster(), Instant::now());
    let a = add_worker(&mut roster, "a", 5);
    roster.exclude_kind(&a, name("mail"), now + SECOND);
    let excluded =
        |picks: Vec<WorkerPick>| picks.into_iter().map(|pick| pick.excluded).collect::<Vec<_>>();
    assert_eq!(excluded(roster.picks(now)), [BTreeSet::from([name("mail")])]);
    assert_eq!(excluded(roster.picks(now + SECOND)), [BTreeSet::new()]);
}

#[test]
fn a_failing_worker_is_paused_exponentially_and_probed_with_one_job() {
    let (mut roster, now) = (roster(), Instant::now());
    let a = add_worker(&mut roster, "a", 5);
    let mut at = now;
    for rest in [1, 2, 4, 4] {
        assert_eq!(roster.failed(&a, at), FailureState::Paused);
        assert_eq!(roster.failed(&a, at), FailureState::Paused, "concurrent failures count as one");
        let awake = at + SECOND * rest;
        assert_eq!(roster.next_at(at), Some(awake));
        assert_eq!(first_pick(&mut roster, awake - SECOND / 2), None);
        assert_eq!(first_pick(&mut roster, awake), Some(("a".to_owned(), 1)));
        at = awake;
    }
    let _trial = give_job(&mut roster, &a, 1, at);
    assert_eq!(first_pick(&mut roster, at), None, "one at a time until it responds");
    roster.answered(&a);
    assert_eq!(first_pick(&mut roster, at), Some(("a".to_owned(), 4)));
}

#[test]
fn a_worker_that_fails_for_long_is_removed() {
    let (mut roster, now) = (roster(), Instant::now());
    let a = add_worker(&mut roster, "a", 5);
    let mut ended = give_job(&mut roster, &a, 1, now);
    assert_eq!(roster.failed(&a, now), FailureState::Paused);
    assert_eq!(roster.failed(&a, now + SECOND * 59), FailureState::Paused);
    assert_eq!(roster.failed(&a, now + SECOND * 60), FailureState::Gone);
    assert_eq!(roster.get(&a), None);
    assert_eq!(ended.try_recv(), Err(TryRecvError::Closed), "its deliveries have not ended");
    assert!(!roster.leave(&a));
}

#[test]
fn overdue_deliveries_are_found() {
    let (mut roster, now) = (roster(), Instant::now());
    let a = add_worker(&mut roster, "a", 5);
    let _first = give_job(&mut roster, &a, 1, now);
    assert_eq!(roster.overdue(now + SECOND * 29), []);
    assert_eq!(roster.overdue(now + SECOND * 30), [(JobId(1), Delivery(1))]);
    roster.extend(JobId(1), now + SECOND * 40);
    assert_eq!(roster.overdue(now + SECOND * 30), []);
}

#[test]
fn a_known_worker_keeps_its_jobs_when_it_joins_again() {
    let (mut roster, now) = (roster(), Instant::now());
    let a = add_worker(&mut roster, "a", 1);
    let b = add_worker(&mut roster, "b", 1);
    let _first = give_job(&mut roster, &a, 1, now);
    add_worker(&mut roster, "a", 1);
    roster.keep_only(&BTreeSet::from([a.clone()]));
    assert_eq!(roster.get(&b), None);
    assert_eq!(first_pick(&mut roster, now), None);
    roster.pause(&a, now + SECOND);
    assert!(roster.release(JobId(1), Delivery(1)));
    assert_eq!(first_pick(&mut roster, now), None, "it is paused");
    assert_eq!(first_pick(&mut roster, now + SECOND), Some(("a".to_owned(), 1)));
}
