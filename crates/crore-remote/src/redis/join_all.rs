use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

/// Awaits several futures concurrently and returns their outputs in order.
pub(super) async fn join_all<T>(futures: Vec<impl Future<Output = T> + Send>) -> Vec<T> {
    let mut waiting: Vec<Pin<Box<_>>> = futures.into_iter().map(Box::pin).collect();
    let mut answers: Vec<Option<T>> = waiting.iter().map(|_| None).collect();
    poll_fn(move |context| {
        let mut all = true;
        for (future, answer) in waiting.iter_mut().zip(&mut answers) {
            if answer.is_none() {
                match future.as_mut().poll(context) {
                    Poll::Ready(value) => *answer = Some(value),
                    Poll::Pending => all = false,
                }
            }
        }
        if all {
            Poll::Ready(answers.iter_mut().filter_map(Option::take).collect())
        } else {
            Poll::Pending
        }
    })
    .await
}
