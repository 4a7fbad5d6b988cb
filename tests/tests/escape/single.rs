//! The shipped probes of one piece of code each, and the shipped system calls. The shipped loads run in `attack.rs`, as root and
//! as an ordinary user: they take most of the time of a whole attack.

use crate::lab::{bench, held, lab};
use crate::rootless::{here, is_rootless};
use anyhow::Result;
use atoll_attack::{Answers, FILES, KERNEL, NETWORK, Probe, ROWS, RowControl, ZYGOTE, probes};

const SILENT: fn(&str) = |_| {};

async fn all_hold(list: &'static [Probe]) -> Result<()> {
    let (lab, list): (_, Vec<&'static Probe>) = (lab()?, list.iter().collect());
    let mut findings = probes(&bench()?, &lab, here(), &list, &SILENT).await?;
    findings.push(lab.machine());
    held(&findings)
}

#[tokio::test]
async fn files() -> Result<()> {
    all_hold(FILES).await
}

#[tokio::test]
async fn kernel() -> Result<()> {
    all_hold(KERNEL).await
}

#[tokio::test]
async fn zygote() -> Result<()> {
    all_hold(ZYGOTE).await
}

#[tokio::test]
async fn network() -> Result<()> {
    all_hold(NETWORK).await
}

#[tokio::test]
async fn every_row_is_answered_by_the_filter() -> Result<()> {
    let (lab, mut answers) = (lab()?, Answers::ask(&bench()?, &SILENT).await?);
    answers.ask_as_root(lab.dir()).await;
    let asked = ROWS
        .iter()
        .filter(|row| !is_rootless() || row.control != RowControl::AsRoot);
    held(&answers.findings(&asked.collect::<Vec<_>>()))
}

#[tokio::test]
async fn nothing_is_left() -> Result<()> {
    held(&[atoll_attack::nothing_left(&bench()?).await])
}
