//! Rate limits of accounts: what one run learns holds for all of its account.

use std::collections::BTreeMap;

use crate::note::AccountLimit;

/// Clocks differ, so a run starts this many seconds after a limit has reset.
const MARGIN: i64 = 1;

/// Which accounts have reached their limit, and until when.
#[derive(Clone, Debug, Default)]
pub(crate) struct Accounts(BTreeMap<String, i64>);

impl Accounts {
    /// Takes note of a limit. The latest time counts.
    pub(crate) fn reach(&mut self, limit: &AccountLimit) {
        let until = self.0.entry(limit.account.clone()).or_insert(i64::MIN);
        *until = limit.until.max(*until);
    }

    /// Returns when a run of an account may start, if it must wait.
    pub(crate) fn opens_at(&self, account: &str, now: i64) -> Option<i64> {
        self.0.get(account).map(|until| until.saturating_add(MARGIN)).filter(|opens| *opens > now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_holds_for_its_account_until_its_time() {
        let mut accounts = Accounts::default();
        let limit = |until| AccountLimit { account: "a".to_owned(), until };
        accounts.reach(&limit(100));
        accounts.reach(&limit(90));
        assert_eq!(accounts.opens_at("a", 50), Some(101));
        assert_eq!(accounts.opens_at("a", 100), Some(101));
        assert_eq!(accounts.opens_at("a", 101), None);
        assert_eq!(accounts.opens_at("b", 50), None);
    }
}
