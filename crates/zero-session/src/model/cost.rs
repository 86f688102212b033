//! Cost of a reply.

use crate::event::TokenUsage;
use crate::model::TokenPrices;

/// Adds the cost to `usage` if prices are known. A cost reported by the provider is kept, since it
/// includes discounts.
pub(crate) fn with_cost(usage: TokenUsage, prices: Option<&TokenPrices>) -> TokenUsage {
    let cost_usd = usage.cost_usd.or_else(|| prices.map(|prices| cost(prices, &usage)));
    TokenUsage { cost_usd, ..usage }
}

/// Cost of `usage` in US dollars. Its input tokens include those read from and written to the
/// cache, which have their own prices.
pub(crate) fn cost(prices: &TokenPrices, usage: &TokenUsage) -> f64 {
    let cached = usage.cache_read_tokens.saturating_add(usage.cache_write_tokens);
    let fresh = usage.input_tokens.saturating_sub(cached);
    let parts = [
        (fresh, prices.input),
        (usage.cache_read_tokens, prices.cache_read),
        (usage.cache_write_tokens, prices.cache_write),
        (usage.output_tokens, prices.output),
    ];
    parts.iter().map(|(tokens, price)| *tokens as f64 * price / 1_000_000.0).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRICES: TokenPrices =
        TokenPrices { input: 3.0, output: 15.0, cache_read: 0.3, cache_write: 3.75 };

    fn usage(input: u64, output: u64, read: u64, write: u64) -> TokenUsage {
        TokenUsage {
            input_tokens: input,
            output_tokens: output,
            cache_read_tokens: read,
            cache_write_tokens: write,
            ..TokenUsage::default()
        }
    }

    #[track_caller]
    fn check(usage: TokenUsage, expected: f64) {
        let found = cost(&PRICES, &usage);
        assert!((found - expected).abs() < 1e-9, "{usage:?}: {found}, expected {expected}");
    }

    #[test]
    fn each_token_kind_has_its_price() {
        check(usage(0, 0, 0, 0), 0.0);
        check(usage(1_000_000, 0, 0, 0), 3.0);
        check(usage(0, 1_000_000, 0, 0), 15.0);
        check(usage(1_000_000, 0, 1_000_000, 0), 0.3);
        check(usage(1_000_000, 0, 0, 1_000_000), 3.75);
        check(usage(1_000, 200, 600, 300), 0.0003 + 0.00018 + 0.001_125 + 0.003);
    }

    #[test]
    fn separate_cache_counts_never_cost_below_zero() {
        check(usage(10, 0, 1_000_000, 0), 0.3);
        check(usage(0, 0, u64::MAX, u64::MAX), (0.3 + 3.75) * (u64::MAX as f64) / 1e6);
    }

    #[test]
    fn cost_is_filled_where_prices_are_known() {
        let plain = usage(1_000_000, 0, 0, 0);
        assert_eq!(with_cost(plain, None).cost_usd, None);
        assert_eq!(with_cost(plain, Some(&PRICES)).cost_usd, Some(3.0));
        let given = TokenUsage { cost_usd: Some(0.5), ..plain };
        assert_eq!(with_cost(given, Some(&PRICES)), given);
        assert_eq!(with_cost(given, None), given);
    }

    #[test]
    fn run_costs_add_up() {
        let mut run = TokenUsage::default();
        run += with_cost(usage(1_000_000, 0, 0, 0), Some(&PRICES));
        run += with_cost(usage(0, 1_000_000, 0, 0), Some(&PRICES));
        assert_eq!(run.cost_usd, Some(18.0));
    }
}
