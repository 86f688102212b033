//! A cache of recently fetched pages ([`WebPageCache`]).

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::web_page::WebPage;

/// How long a page stays in the cache.
pub(super) const AGE_MAX: Duration = Duration::from_secs(15 * 60);
/// Most pages in the cache.
pub(super) const PAGES_MAX: usize = 64;
/// Most text in the cache, in bytes.
pub(super) const BYTES_MAX: usize = 16 * 1024 * 1024;

/// Recently fetched pages, each under the policy that allowed the fetch.
#[derive(Default)]
pub(super) struct WebPageCache {
    pages: Mutex<VecDeque<CachedPage>>,
}

struct CachedPage {
    policy: u64,
    url: String,
    page: Arc<WebPage>,
    since: Instant,
}

impl WebPageCache {
    /// Returns the page with a URL, if it was fetched recently under the same policy.
    pub(super) fn get(&self, policy: u64, url: &str) -> Option<Arc<WebPage>> {
        let mut pages = self.lock();
        pages.retain(|page| page.since.elapsed() < AGE_MAX);
        let found = pages.iter().find(|page| page.policy == policy && page.url == url)?;
        Some(Arc::clone(&found.page))
    }

    /// Adds a page. The oldest pages are removed if there is no space.
    pub(super) fn insert(&self, policy: u64, url: &str, page: &Arc<WebPage>) {
        if page.text.len() > BYTES_MAX / 2 {
            return;
        }
        let mut pages = self.lock();
        pages.retain(|page| page.policy != policy || page.url != url);
        pages.push_back(CachedPage {
            policy,
            url: url.to_owned(),
            page: Arc::clone(page),
            since: Instant::now(),
        });
        let bytes = |kept: &VecDeque<CachedPage>| {
            kept.iter().map(|page| page.page.text.len()).sum::<usize>()
        };
        while pages.len() > PAGES_MAX || bytes(&pages) > BYTES_MAX {
            pages.pop_front();
        }
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<CachedPage>> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page_of_size(bytes: usize) -> Arc<WebPage> {
        Arc::new(WebPage { text: "x".repeat(bytes), ..WebPage::default() })
    }

    #[tokio::test(start_paused = true)]
    async fn page_is_cached_fifteen_minutes_per_policy() {
        let cache = WebPageCache::default();
        cache.insert(1, "https://a.test/", &page_of_size(1));
        assert!(cache.get(1, "https://a.test/").is_some());
        assert!(cache.get(2, "https://a.test/").is_none());
        assert!(cache.get(1, "https://a.test/x").is_none());
        tokio::time::advance(AGE_MAX - Duration::from_secs(1)).await;
        assert!(cache.get(1, "https://a.test/").is_some());
        tokio::time::advance(Duration::from_secs(2)).await;
        assert!(cache.get(1, "https://a.test/").is_none());
    }

    #[tokio::test]
    async fn cache_size_is_bounded() {
        let cache = WebPageCache::default();
        for number in 0..200 {
            cache.insert(1, &format!("https://a.test/{number}"), &page_of_size(1));
        }
        assert_eq!(cache.lock().len(), PAGES_MAX);
        assert!(cache.get(1, "https://a.test/199").is_some());
        for number in 0..5 {
            cache.insert(1, &format!("https://b.test/{number}"), &page_of_size(BYTES_MAX / 2));
        }
        assert_eq!(cache.lock().len(), 2);
        cache.insert(1, "https://c.test/", &page_of_size(BYTES_MAX / 2 + 1));
        assert!(cache.get(1, "https://c.test/").is_none());
    }
}
