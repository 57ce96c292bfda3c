//! How often a test repeats what is slow.

/// Returns how often a test does something: `few` times, or `all` times with `scripts/test --all`.
///
/// ```
/// let rounds = tapline_testkit::rounds(20, 500);
/// assert!(rounds == 20 || rounds == 500);
/// ```
pub fn rounds<T>(few: T, all: T) -> T {
    if std::env::var_os("TAPLINE_TEST_ALL").is_some() { all } else { few }
}
