//! Many measurements of one thing, and how they compare with a baseline.

use serde::Serialize;

/// One line of the table.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) scenario: &'static str,
    pub(crate) what: String,
    pub(crate) unit: &'static str,
    pub(crate) p50: f64,
    pub(crate) p95: f64,
    pub(crate) p99: f64,
    pub(crate) count: usize,
    pub(crate) failures: usize,
    pub(crate) baseline: &'static str,
    pub(crate) baseline_p50: f64,
    pub(crate) ratio: f64,
    pub(crate) aim: &'static str,
}

impl std::fmt::Display for Row {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{:<20} {:<44} p50 {:>9.3} p95 {:>9.3} p99 {:>9.3} {:<5} n={:<4} fail={} | {} {:.3} | ratio {:.3} | aim {}",
            self.scenario,
            self.what,
            self.p50,
            self.p95,
            self.p99,
            self.unit,
            self.count,
            self.failures,
            self.baseline,
            self.baseline_p50,
            self.ratio,
            self.aim
        )
    }
}

/// Measurements in the order they were made.
#[derive(Clone, Debug, Default)]
pub(crate) struct Series {
    pub(crate) values: Vec<f64>,
    pub(crate) failures: usize,
}

impl Series {
    pub(crate) fn of(values: Vec<f64>) -> Self {
        Self { values, failures: 0 }
    }

    pub(crate) fn quantile(&self, share: f64) -> f64 {
        let mut sorted = self.values.clone();
        sorted.sort_by(f64::total_cmp);
        if sorted.is_empty() {
            return f64::NAN;
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "an index between 0 and the length"
        )]
        let index = ((sorted.len() - 1) as f64 * share).round() as usize;
        sorted[index]
    }

    pub(crate) fn p50(&self) -> f64 {
        self.quantile(0.5)
    }

    pub(crate) fn row(
        &self,
        scenario: &'static str,
        what: &'static str,
        unit: &'static str,
        baseline: (&'static str, f64),
        aim: &'static str,
    ) -> Row {
        Row {
            scenario,
            what: what.to_owned(),
            unit,
            p50: self.p50(),
            p95: self.quantile(0.95),
            p99: self.quantile(0.99),
            count: self.values.len(),
            failures: self.failures,
            baseline: baseline.0,
            baseline_p50: baseline.1,
            ratio: self.p50() / baseline.1,
            aim,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_values_of_the_series() {
        let series = Series::of(vec![3.0, 1.0, 2.0, 5.0, 4.0]);
        assert_eq!(
            (series.p50(), series.quantile(1.0), series.quantile(0.0)),
            (3.0, 5.0, 1.0)
        );
        assert!(Series::default().p50().is_nan());
    }
}
