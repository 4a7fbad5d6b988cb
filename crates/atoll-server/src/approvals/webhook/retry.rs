//! Trying again: a few times, each after a longer pause.

use super::post::SendError;
use std::time::Duration;

const ATTEMPTS: u32 = 6;
/// After the first failure; doubled after each.
const FIRST_PAUSE: Duration = Duration::from_millis(500);

/// Sends until it works, will never work, or was tried often enough.
pub(super) async fn again<F>(mut send: impl FnMut() -> F) -> Result<(), SendError>
where
    F: Future<Output = Result<(), SendError>>,
{
    for failed in 0..ATTEMPTS - 1 {
        match send().await {
            Err(error) if error.may_pass() => {
                tracing::debug!(error = %crate::chain(&error), "webhook delivery failed; retrying");
            }
            done => return done,
        }
        tokio::time::sleep(FIRST_PAUSE * 2u32.pow(failed)).await;
    }
    send().await
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::StatusCode;
    use tokio::time::Instant;

    /// When each try began, in milliseconds, if they end so; the last answer is given to all others.
    async fn tries(answers: &[u16]) -> (Vec<u128>, bool) {
        let (began, mut times) = (Instant::now(), Vec::new());
        let done = again(|| {
            let answer = answers.get(times.len()).or(answers.last()).copied();
            times.push(began.elapsed().as_millis());
            std::future::ready(match StatusCode::from_u16(answer.unwrap_or(200)).unwrap() {
                status if status.is_success() => Ok(()),
                status => Err(SendError::Status(status)),
            })
        });
        let done = done.await.is_ok();
        (times, done)
    }

    #[tokio::test(start_paused = true)]
    async fn pauses_grow_and_there_is_an_end() {
        assert_eq!(tries(&[500]).await, (vec![0, 500, 1_500, 3_500, 7_500, 15_500], false));
        assert_eq!(tries(&[500, 429, 200]).await, (vec![0, 500, 1_500], true));
        assert_eq!(tries(&[307]).await, (vec![0], false));
        assert_eq!(tries(&[503, 404]).await, (vec![0, 500], false));
    }
}
