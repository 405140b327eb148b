use tokio::sync::oneshot::error::TryRecvError;

use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn roster() -> Roster {
    let (first, max) = (SECOND, SECOND * 4);
    Roster::new(Backoff { first, max, gone_after: SECOND * 60 })
}

fn name(text: &str) -> Name {
    Name::new("worker", text).expect("a good name")
}

fn joins(roster: &mut Roster, id: &str, max_jobs: u32) -> Name {
    let target = Target::parse("url", "http://worker:8080").expect("good");
    roster.join(name(id), Registration { name: id.to_owned(), target, max_jobs });
    name(id)
}

fn gives(roster: &mut Roster, id: &Name, job: u64, now: Instant) -> oneshot::Receiver<()> {
    roster.give(id, (JobId(job), Delivery(job)), now + SECOND * 30).expect("it is there")
}

fn picked(roster: &mut Roster, now: Instant) -> Option<(String, usize)> {
    roster.picks(now).into_iter().next().map(|pick| (pick.worker.to_string(), pick.n))
}

#[test]
fn nobody_is_given_more_than_it_takes_at_once() {
    let (mut roster, now) = (roster(), Instant::now());
    assert_eq!(picked(&mut roster, now), None);
    let a = joins(&mut roster, "a", 2);
    assert_eq!(picked(&mut roster, now), Some(("a".to_owned(), 2)), "alone: all its places");
    let _first = gives(&mut roster, &a, 1, now);
    let mut second = gives(&mut roster, &a, 2, now);
    assert_eq!(picked(&mut roster, now), None);
    assert!(!roster.release(JobId(2), Delivery(1)), "another delivery frees nothing");
    assert_eq!(second.try_recv(), Err(TryRecvError::Empty));
    assert!(roster.release(JobId(2), Delivery(2)));
    assert_eq!(second.try_recv(), Ok(()), "who speaks with it hears of it");
    assert!(!roster.release(JobId(2), Delivery(2)), "once only");
    assert_eq!(picked(&mut roster, now), Some(("a".to_owned(), 1)));
}

#[test]
fn who_has_the_least_to_do_is_next_and_equals_take_turns() {
    let (mut roster, now) = (roster(), Instant::now());
    let (a, b) = (joins(&mut roster, "a", 2), joins(&mut roster, "b", 10));
    let mut order = String::new();
    for job in 0..12 {
        let (next, n) = picked(&mut roster, now).expect("there is room");
        assert!(n == 1 || next == "b", "not all to one while there are others");
        let _over = gives(&mut roster, if next == "a" { &a } else { &b }, job, now);
        order.push_str(&next);
    }
    assert_eq!(order, "abbbbbabbbbb");
    assert_eq!(picked(&mut roster, now), None);
}

#[test]
fn a_kind_that_a_worker_does_not_know_is_remembered_for_a_while() {
    let (mut roster, now) = (roster(), Instant::now());
    let a = joins(&mut roster, "a", 5);
    roster.exclude_kind(&a, name("mail"), now + SECOND);
    let excluded =
        |picks: Vec<Pick>| picks.into_iter().map(|pick| pick.excluded).collect::<Vec<_>>();
    assert_eq!(excluded(roster.picks(now)), [BTreeSet::from([name("mail")])]);
    assert_eq!(excluded(roster.picks(now + SECOND)), [BTreeSet::new()]);
}

#[test]
fn who_does_not_answer_rests_longer_each_time_and_is_tried_with_one_job() {
    let (mut roster, now) = (roster(), Instant::now());
    let a = joins(&mut roster, "a", 5);
    let mut at = now;
    for rest in [1, 2, 4, 4] {
        assert_eq!(roster.failed(&a, at), Standing::Paused);
        assert_eq!(roster.failed(&a, at), Standing::Paused, "one rest for all who asked at once");
        let awake = at + SECOND * rest;
        assert_eq!(roster.next_at(at), Some(awake));
        assert_eq!(picked(&mut roster, awake - SECOND / 2), None);
        assert_eq!(picked(&mut roster, awake), Some(("a".to_owned(), 1)));
        at = awake;
    }
    let _trial = gives(&mut roster, &a, 1, at);
    assert_eq!(picked(&mut roster, at), None, "one at a time until it answers");
    roster.answered(&a);
    assert_eq!(picked(&mut roster, at), Some(("a".to_owned(), 4)));
}

#[test]
fn who_does_not_answer_for_long_is_gone() {
    let (mut roster, now) = (roster(), Instant::now());
    let a = joins(&mut roster, "a", 5);
    let mut told = gives(&mut roster, &a, 1, now);
    assert_eq!(roster.failed(&a, now), Standing::Paused);
    assert_eq!(roster.failed(&a, now + SECOND * 59), Standing::Paused);
    assert_eq!(roster.failed(&a, now + SECOND * 60), Standing::Gone);
    assert_eq!(roster.get(&a), None);
    assert_eq!(told.try_recv(), Err(TryRecvError::Closed), "what it has is not over for that");
    assert!(!roster.leave(&a));
}

#[test]
fn what_should_have_ended_is_found() {
    let (mut roster, now) = (roster(), Instant::now());
    let a = joins(&mut roster, "a", 5);
    let _first = gives(&mut roster, &a, 1, now);
    assert_eq!(roster.overdue(now + SECOND * 29), []);
    assert_eq!(roster.overdue(now + SECOND * 30), [(JobId(1), Delivery(1))]);
    roster.extend(JobId(1), now + SECOND * 40);
    assert_eq!(roster.overdue(now + SECOND * 30), []);
}

#[test]
fn who_is_known_keeps_its_jobs_when_it_is_read_again() {
    let (mut roster, now) = (roster(), Instant::now());
    let a = joins(&mut roster, "a", 1);
    let b = joins(&mut roster, "b", 1);
    let _first = gives(&mut roster, &a, 1, now);
    joins(&mut roster, "a", 1);
    roster.keep_only(&BTreeSet::from([a.clone()]));
    assert_eq!(roster.get(&b), None);
    assert_eq!(picked(&mut roster, now), None);
    roster.pause(&a, now + SECOND);
    assert!(roster.release(JobId(1), Delivery(1)));
    assert_eq!(picked(&mut roster, now), None, "it wants nothing yet");
    assert_eq!(picked(&mut roster, now + SECOND), Some(("a".to_owned(), 1)));
}
