//! Amounts of dollars, as people write them: on the command line and in `config.toml`.

use tapline_server::Budget;

/// Reads an amount of dollars.
pub(crate) fn dollars(text: &str) -> Result<f64, String> {
    let amount = text.trim_start_matches('$').parse::<f64>().ok().filter(|amount| amount.is_finite() && *amount >= 0.0);
    amount.ok_or_else(|| "write an amount of dollars like 5 or 0.25".to_owned())
}

/// Reads `200` or `shop=50`.
pub(crate) fn budget(text: &str) -> Result<Budget, String> {
    // A path may have the sign in it, an amount does not.
    let (project, amount) = text.rsplit_once('=').map_or((None, text), |(project, amount)| (Some(project.trim()), amount));
    if project.is_some_and(str::is_empty) {
        return Err("write an amount of dollars like 200, or a project and its amount like shop=50".to_owned());
    }
    let usd = dollars(amount).map_err(|wrong| format!("{wrong}, or a project and its amount like shop=50"))?;
    Ok(Budget { project: project.map(str::to_owned), usd })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budgets() {
        let read = |text: &str| budget(text).map(|budget| (budget.project, budget.usd));
        assert_eq!(read("200"), Ok((None, 200.0)));
        assert_eq!(read("shop=50"), Ok((Some("shop".to_owned()), 50.0)));
        assert_eq!(read("a=b=$0.5"), Ok((Some("a=b".to_owned()), 0.5)));
        for wrong in ["", "shop", "shop=", "=5", "shop=-1", "shop=x"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
