//! One check over many files: every failure is reported, not the first alone.
//!
//! Knows nothing of what is checked.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Checks every item on a few threads and panics with all failures; a panic within a check is one of them.
///
/// With the environment variable `ONLY` set, items whose name does not contain it are left out, to work on one of them.
pub fn each(names: &[String], check: impl Fn(&str) -> Result<(), String> + Sync) {
    each_of(names, |name| name, |name| check(name));
}

/// As [`each`], of items that have a name.
pub fn each_of<T: Sync>(
    items: &[T],
    name: impl Fn(&T) -> &str + Sync,
    check: impl Fn(&T) -> Result<(), String> + Sync,
) {
    let only = std::env::var("ONLY").unwrap_or_default();
    let items: Vec<&T> = items.iter().filter(|item| name(item).contains(&only)).collect();
    let next = AtomicUsize::new(0);
    let failures = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from).min(4) {
            scope.spawn(|| {
                while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let result = catch_unwind(AssertUnwindSafe(|| check(item))).unwrap_or_else(|panic| {
                        let text = panic.downcast_ref::<String>().map(String::as_str);
                        Err(text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("panicked").to_owned())
                    });
                    if let Err(why) = result {
                        failures.lock().expect("no check holds it").push((name(item).to_owned(), why));
                    }
                }
            });
        }
    });
    let mut failures = failures.into_inner().expect("no check holds it");
    failures.sort();
    let shown: Vec<String> = failures.iter().map(|(name, why)| format!("{name}: {why}")).collect();
    assert!(shown.is_empty(), "{} of {} fail:\n\n{}", shown.len(), items.len(), shown.join("\n\n"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_failure_is_reported() {
        let names: Vec<String> = ["a", "b", "c", "d"].map(str::to_owned).to_vec();
        let run = || {
            each(&names, |name| match name {
                "b" => Err("wrong".to_owned()),
                "d" => panic!("{name} is broken"),
                _ => Ok(()),
            });
        };
        let panic = catch_unwind(run).unwrap_err();
        let text = panic.downcast_ref::<String>().unwrap();
        assert_eq!(text, "2 of 4 fail:\n\nb: wrong\n\nd: d is broken");
    }
}
