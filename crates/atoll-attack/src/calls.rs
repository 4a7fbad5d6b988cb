//! Asks the system calls of the table: behind the filter, and where it is away.

use crate::bench::{Bench, facts_in, facts_outside, with_args};
use crate::call_table::{ROWS, Row, RowControl};
use crate::elsewhere::Ground;
use crate::error::AttackError;
use crate::probe::Facts;
use crate::tries::{Progress, in_words};
use crate::verdict::{Finding, Shown};
use atoll_engine::Wall;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::path::Path;

const CODE: &str = include_str!("../code/syscalls.py");

/// What all rows answered, behind the filter and without it.
#[derive(Debug)]
pub struct Answers {
    strict: Facts,
    open: Result<Facts, String>,
    wide_open: Result<Facts, String>,
    /// Of root of the machine itself; only the suite asks there.
    as_root: Result<Facts, String>,
    ground: Ground,
}

/// Rows are reported by their number of the catalogue, with an `s`.
fn finding_id(id: &str) -> String {
    format!("{id}s")
}

impl Row {
    pub(crate) fn finding_id(&self) -> String {
        finding_id(self.id)
    }
}

impl Answers {
    /// Everywhere but as root of the machine.
    pub async fn ask(bench: &Bench, progress: &dyn Progress) -> Result<Self, AttackError> {
        progress.next(&format!("{} system call probes", ROWS.len()));
        let strict = answers(bench, &[]).await?;
        progress.next("system call controls");
        Ok(Self {
            strict,
            open: in_words(answers(bench, &[Wall::Seccomp]).await),
            wide_open: in_words(answers(bench, &[Wall::Seccomp, Wall::Capabilities]).await),
            as_root: Err("not run: requires root on the host".to_owned()),
            ground: bench.ground,
        })
    }

    /// The rows whose control needs root, asked by a plain process that leads a session of its own.
    pub async fn ask_as_root(&mut self, dir: &Path) {
        let rows = ROWS.iter().filter(|row| row.control == RowControl::AsRoot);
        let alone = format!(
            "import os\nif os.fork():\n    os.wait()\n    os._exit(0)\nos.setsid()\n{}",
            code(rows)
        );
        self.as_root = in_words(facts_outside(&alone, dir).await);
    }

    /// One finding for all rows of a number of the catalogue.
    pub fn findings(&self, rows: &[&'static Row]) -> Vec<Finding> {
        let mut by_id: BTreeMap<&str, Vec<&Row>> = BTreeMap::new();
        rows.iter().for_each(|row| by_id.entry(row.id).or_default().push(row));
        by_id.into_iter().map(|(id, rows)| self.finding(id, &rows)).collect()
    }

    fn finding(&self, id: &str, rows: &[&Row]) -> Finding {
        let mut shown = Shown::default();
        for row in rows {
            self.judge(row, &mut shown);
        }
        self.strict.judge_twins(&mut shown);
        let claim = match rows.len() {
            1 => "1 system call is rejected by the seccomp filter before the kernel executes it".to_owned(),
            many => format!("{many} system calls are rejected by the seccomp filter before the kernel executes them"),
        };
        shown.judge(finding_id(id), claim)
    }

    fn judge(&self, row: &Row, shown: &mut Shown) {
        let (said, name) = (self.strict.word(row.name), row.name);
        let without = match row.control {
            RowControl::Seccomp => &self.open,
            RowControl::Both => &self.wide_open,
            RowControl::AsRoot => &self.as_root,
        };
        let without = match without {
            Ok(facts) => facts.word(name),
            Err(why) => return shown.doubt(format!("`{name}`: the control did not run: {why}")),
        };
        match said {
            said if said == row.answer => shown.saw(format!("`{name}` returned {said}")),
            "absent" | "hangs" | "nothing" => shown.doubt(format!("`{name}` returned no result: {said}")),
            said => shown.breach(format!("`{name}` returned {said}, expected {}", row.answer)),
        }
        if self.ground.answers_alike(name, without) {
            return shown.saw(format!(
                "`{name}` is also refused without the filter: by gVisor's or the guest's kernel, or by another layer"
            ));
        }
        let another = without != row.answer && without != "absent";
        shown.control(another, format!("`{name}` returns {without} without the filter"));
    }
}

fn code<'a>(rows: impl Iterator<Item = &'a Row>) -> String {
    let rows: Vec<_> = rows.map(|row| json!([row.name, row.number, row.args])).collect();
    let args = Map::from_iter([("rows".to_owned(), Value::Array(rows))]);
    with_args(&args, CODE)
}

async fn answers(bench: &Bench, without: &[Wall]) -> Result<Facts, AttackError> {
    let engine = bench.engine(without).await?;
    let facts = facts_in(&engine, &code(ROWS.iter())).await;
    engine.stop().await;
    facts
}
