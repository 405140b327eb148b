use crore_core::{Payload, Spec};

use super::*;

async fn telling(n: u8, part: Part, vain: usize) -> Telling<impl Fn(&Job) -> Vec<u8>> {
    let engine = Engine::memory();
    let name = Name::new("name", "a").expect("a good name");
    let spec = |n: u8| Spec::new(name.clone(), name.clone(), Payload::json(&n.to_string()));
    let jobs: Vec<_> = (0..n).map(|n| spec(n).into()).collect();
    engine.push_all(jobs.into()).await.expect("pushed");
    let at = At::InTurn([Source::new(State::Ready, Some(name))].into());
    let tell = |job: &Job| if job.id.0.is_multiple_of(2) { vec![0; 2] } else { Vec::new() };
    Telling { looking: Looking { engine, at }, part, vain, tell }
}

#[tokio::test]
async fn a_list_that_would_pass_over_more_than_it_may_says_so_after_what_it_has_given() {
    let mut telling = telling(200, Part::ALL, 50).await;
    assert_eq!(telling.some::<u8>().await.expect("in time").expect("some").len(), 100);
    let refused = telling.some::<u8>().await.expect_err("too much for nothing");
    assert_eq!(refused.code(), tonic::Code::InvalidArgument);
    assert!(refused.message().starts_with("offset: "), "{}", refused.message());
}

#[tokio::test]
async fn what_is_passed_over_and_what_is_given_are_counted_singly() {
    let mut telling = telling(100, Part { skip: 3, take: 4 }, 1000).await;
    assert_eq!(telling.some::<u8>().await.expect("in time"), Some(vec![0; 4]));
    assert_eq!((telling.part.skip, telling.part.take), (0, 0));
    // Up to the last that is given: four say nothing, and one is before the offset.
    assert_eq!(telling.vain, 1000 - 5);
}
