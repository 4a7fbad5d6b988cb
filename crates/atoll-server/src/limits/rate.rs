//! Creates per minute: a bucket per key that fills evenly and holds one minute's worth.

use crate::api::ApiError;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::response::{IntoResponseParts, ResponseParts};
use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

const MINUTE: Duration = Duration::from_secs(60);
/// Buckets that are full again are forgotten when there are more than this.
const KEPT: usize = 1_024;

/// The state of a key's bucket, for the headers of the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    pub limit: u64,
    pub remaining: u64,
    /// Seconds until the bucket is full again, or, if it is empty, until it holds one.
    pub reset: u64,
}

impl Rate {
    pub(crate) fn write(&self, headers: &mut HeaderMap) {
        let fields = [
            ("ratelimit-limit", self.limit),
            ("ratelimit-remaining", self.remaining),
            ("ratelimit-reset", self.reset),
        ];
        for (name, value) in fields {
            headers.insert(HeaderName::from_static(name), HeaderValue::from(value));
        }
    }
}

impl IntoResponseParts for Rate {
    type Error = Infallible;

    fn into_response_parts(self, mut parts: ResponseParts) -> Result<ResponseParts, Infallible> {
        self.write(parts.headers_mut());
        Ok(parts)
    }
}

#[derive(Clone, Copy, Debug)]
struct Bucket {
    /// In thousandths of a create.
    tokens: u64,
    limit: u64,
    at: Instant,
}

impl Bucket {
    fn full(limit: u64, at: Instant) -> Self {
        Self {
            tokens: limit.saturating_mul(1_000),
            limit,
            at,
        }
    }

    /// What has flowed in since it was last looked at. A limit that was changed holds from now on.
    fn fill(&mut self, limit: u64, now: Instant) {
        let since = now.saturating_duration_since(self.at).min(MINUTE);
        let millis = u64::try_from(since.as_millis()).unwrap_or(60_000);
        // `limit` per 60,000 ms is `limit * millis / 60` thousandths.
        let more = limit.saturating_mul(millis) / 60;
        if more > 0 || limit != self.limit {
            self.tokens = self.tokens.saturating_add(more).min(limit.saturating_mul(1_000));
            self.at = now;
            self.limit = limit;
        }
    }

    fn rate(&self) -> Rate {
        let missing = match self.tokens {
            tokens if tokens < 1_000 => 1_000 - tokens,
            tokens => self.limit.saturating_mul(1_000).saturating_sub(tokens),
        };
        let millis = missing.saturating_mul(60).div_ceil(self.limit.max(1));
        Rate {
            limit: self.limit,
            remaining: self.tokens / 1_000,
            reset: millis.div_ceil(1_000),
        }
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct Buckets(Arc<Mutex<HashMap<String, Bucket>>>);

impl Buckets {
    /// Takes one create of the key, if there is one.
    pub(super) fn take(&self, key: &str, limit: u64, now: Instant) -> Result<Rate, ApiError> {
        self.with_one(key, limit, now, |bucket| bucket.tokens -= 1_000)
    }

    /// Refuses a key that [`Buckets::take`] would refuse.
    pub(super) fn check(&self, key: &str, limit: u64, now: Instant) -> Result<(), ApiError> {
        self.with_one(key, limit, now, |_| {}).map(drop)
    }

    fn with_one(&self, key: &str, limit: u64, now: Instant, change: fn(&mut Bucket)) -> Result<Rate, ApiError> {
        let mut buckets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if buckets.len() > KEPT {
            buckets.retain(|_, bucket| now.saturating_duration_since(bucket.at) < MINUTE);
        }
        let bucket = buckets
            .entry(key.to_owned())
            .or_insert_with(|| Bucket::full(limit, now));
        bucket.fill(limit, now);
        if bucket.tokens < 1_000 {
            return Err(ApiError::rate_limited(bucket.rate()));
        }
        change(bucket);
        Ok(bucket.rate())
    }
}
