//! What runs will probably cost: what earlier runs with the same label cost.

use std::collections::BTreeMap;

use tapline_recording::{Recording, Store};

/// How many recordings are looked at, the newest first.
const LOOKED_AT: usize = 5_000;
/// How many runs of a label are enough.
const ENOUGH: usize = 50;

/// Returns the median cost in dollars of earlier runs with these labels. A label without a run that says what it cost is not in it.
pub fn median_costs(store: &Store, labels: &[String]) -> BTreeMap<String, f64> {
    let mut costs: BTreeMap<&str, Vec<f64>> = labels.iter().map(|label| (label.as_str(), Vec::new())).collect();
    for folder in store.list().unwrap_or_default().iter().take(LOOKED_AT) {
        if costs.values().all(|costs| costs.len() >= ENOUGH) {
            break;
        }
        let label =
            Recording::open(folder).ok().filter(|recording| recording.end.is_some()).and_then(|recording| recording.meta.label);
        let Some(costs) = label.and_then(|label| costs.get_mut(label.as_str())).filter(|costs| costs.len() < ENOUGH) else {
            continue;
        };
        costs.extend(tapline_archive::report(folder).ok().and_then(|report| report.ledger.cost_usd));
    }
    costs.into_iter().filter_map(|(label, costs)| Some((label.to_owned(), median(costs)?))).collect()
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    let upper = *values.get(middle)?;
    Some(if values.len() % 2 == 1 { upper } else { f64::midpoint(values[middle - 1], upper) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_counts() {
        assert_eq!(median(vec![]), None);
        assert_eq!(median(vec![3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), Some(2.5));
    }
}
