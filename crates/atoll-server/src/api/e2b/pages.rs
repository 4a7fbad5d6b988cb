//! Plotly figures in results. People save `result.html` and open it: it becomes a page that draws the figure offline.

use super::lines::Own;
use crate::api::said::Item;
use atoll_core::execution::RichResult;
use atoll_core::form::Form;
use atoll_engine::session::Session;
use atoll_engine::{PlotlyScript, Room, figure_of};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const HTML: &str = "text/html";

/// For the results of one execution. Its pages together stay within its limit of results, and the one that waits for
/// the client counts as a result of its tenant.
pub(super) struct Pages {
    home: PathBuf,
    left: u64,
    room: Room,
}

impl Pages {
    pub(super) fn new(home: &Path, session: &Session) -> Self {
        let room = Room::default();
        room.belongs_to(&Arc::from(session.spec.owner.as_str()));
        Self {
            home: home.to_owned(),
            left: session.limits().rich_output.get(),
            room,
        }
    }

    /// Without a script or room for a page, this result and those after it keep the html that they have.
    pub(super) async fn put_into(&mut self, item: &mut Item<Own>) {
        self.room.set(0);
        if let Item::Result(result) | Item::Updated(_, result) = item
            && let Some(page) = self.page(result).await
        {
            result.data.insert(HTML.to_owned(), page);
        }
    }

    async fn page(&mut self, result: &RichResult) -> Option<Form> {
        result.data.get(HTML)?;
        let figure = figure_of(result)?.to_owned();
        let left = std::mem::take(&mut self.left);
        if left == 0 {
            return None;
        }
        let home = self.home.clone();
        let made = tokio::task::spawn_blocking(move || Some(PlotlyScript::find(&home)?.page(&figure))).await;
        let page = Form::Text(made.ok()??);
        let size = page.json_length();
        let rest = left.checked_sub(size)?;
        self.room.set(size).then(|| {
            self.left = rest;
            page
        })
    }
}
