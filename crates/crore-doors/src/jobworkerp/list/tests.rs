use crore_core::{Payload, Spec};

use super::*;

async fn item_cursor(n: u8, part: OffsetPage, vain: usize) -> ItemCursor<impl Fn(&Job) -> Vec<u8>> {
    let engine = Engine::memory();
    let name = Name::new("name", "a").expect("a valid name");
    let spec = |n: u8| Spec::new(name.clone(), name.clone(), Payload::json(&n.to_string()));
    let jobs: Vec<_> = (0..n).map(|n| spec(n).into()).collect();
    engine.push_all(jobs.into()).await.expect("pushed");
    let at = CursorPosition::Sequential([StoreList::new(State::Ready, Some(name))].into());
    let tell = |job: &Job| if job.id.0.is_multiple_of(2) { vec![0; 2] } else { Vec::new() };
    ItemCursor {
        jobs: JobCursor { engine, grant: Grant::full(), position: at },
        page: part,
        skips_left: vain,
        items_of: tell,
    }
}

#[tokio::test]
async fn a_list_that_skips_too_many_jobs_fails_after_its_items() {
    let mut telling = item_cursor(200, OffsetPage::ALL, 50).await;
    assert_eq!(telling.next_items::<u8>().await.expect("in time").expect("some").len(), 100);
    let refused = telling.next_items::<u8>().await.expect_err("no growth");
    assert_eq!(refused.code(), tonic::Code::InvalidArgument);
    assert!(refused.message().starts_with("offset: "), "{}", refused.message());
}

#[tokio::test]
async fn skipped_and_returned_items_are_counted_separately() {
    let mut telling = item_cursor(100, OffsetPage { skip: 3, take: 4 }, 1000).await;
    assert_eq!(telling.next_items::<u8>().await.expect("in time"), Some(vec![0; 4]));
    assert_eq!((telling.page.skip, telling.page.take), (0, 0));
    // Up to the last returned item: four jobs yield nothing, and one is before the offset.
    assert_eq!(telling.skips_left, 1000 - 5);
}
